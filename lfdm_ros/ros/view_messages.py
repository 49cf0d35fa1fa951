"""Messages of the graph as the cockpit's page takes them (`lfdm_ros.cockpit.wire`)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import LaserScan
from visualization_msgs.msg import Marker, MarkerArray

from lfdm_ros.cockpit.wire import OBSTACLES, PLAN, SCAN, SHARING, STATE, pack
from lfdm_ros.msg import DriverCommand, MpcStatus, Plan, SharedControlStatus, SimulatorStatus, VehicleDescription, VehicleState
from lfdm_ros.ros.messages import nanoseconds


def stamp_of(message: Any) -> float:
    """Returns the stamp of a message [s]."""
    return 1e-9 * nanoseconds(message.header.stamp)


def state(message: VehicleState, number: int) -> bytes:
    """Packs a state: pose, velocities, accelerations, yaw rate, steering, gear, engine; spin and load of four wheels; 21 values."""
    m = message
    return pack(STATE, stamp_of(m), [m.x, m.y, m.roll, m.pitch, m.yaw, m.vx, m.vy, m.ax, m.ay, m.yaw_rate, m.road_wheel_angle, m.gear,
                                     m.engine_speed, *m.wheel_speeds, *m.tyre_force_z], number)


def scan(message: LaserScan, x: float, y: float, yaw: float) -> bytes:
    """Packs a scan: place [m] and heading [rad] of the LIDAR in the vehicle, first angle, increment, least and largest range, ranges."""
    m = message
    return pack(SCAN, stamp_of(m), np.concatenate([[x, y, yaw, m.angle_min, m.angle_increment, m.range_min, m.range_max], m.ranges]))


def plan(message: Plan) -> bytes | None:
    """Packs rows (x, y, speed) of a plan; None: it has no rows, or no positions."""
    names, rows = list(message.names), len(message.times)
    if not {"x", "y"} <= set(names) or not rows or len(message.states) != rows * len(names):
        return None
    states = np.asarray(message.states).reshape(rows, len(names))
    speed = states[:, names.index("vx")] if "vx" in names else np.full(rows, math.nan)
    return pack(PLAN, stamp_of(message), np.column_stack([states[:, names.index("x")], states[:, names.index("y")], speed]).ravel())


def sharing(message: SharedControlStatus) -> bytes:
    """Packs k, the k that the threat asks for, threat; steering, throttle and brake of operator, autonomy and applied; ages of both."""
    def values(command: DriverCommand) -> tuple[float, float, float]:
        return command.steering, command.throttle, command.brake

    m = message
    return pack(SHARING, stamp_of(m), [m.k, m.k_wanted, m.threat, *values(m.operator_command), *values(m.autonomy_command),
                                       *values(m.applied), m.operator_age, m.autonomy_age])


def sharing_text(message: SharedControlStatus) -> dict[str, Any]:
    """Returns mode, state, reasons, threats by component and probabilities with their 95 % intervals."""
    m = message
    return {"mode": m.mode, "state": m.state, "reason": m.reason, "reasons": list(m.reasons), "limits": list(m.active_limits),
            "emergency_stop": m.emergency_stop, "threats": list(zip(m.component_names, m.component_threats)),
            "risks": list(zip(m.probability_names, m.probabilities, m.probabilities_lower, m.probabilities_upper))}


def controller(message: MpcStatus) -> dict[str, Any]:
    """Returns outcome, reason and times [s] of a control cycle, and the distance to go [m]."""
    m = message
    return {"task": m.task, "outcome": m.outcome_name, "reason": m.reason, "cycle_time": m.cycle_time, "done": m.done,
            "speed_limit": m.speed_limit, "distance_to_go": m.distance_to_go, "active": list(m.active_constraints)}


def simulator(message: SimulatorStatus) -> dict[str, Any]:
    """Returns model, pace, collisions and lifted wheels."""
    m = message
    return {"model": m.model, "vehicle": m.vehicle, "paused": m.paused, "pace": m.speed_factor_reached, "pace_asked": m.speed_factor_asked,
            "slowed_by": m.slowed_by, "no_command": m.command_timed_out, "collisions": m.collisions, "collided_with": m.first_collision,
            "clearance": m.least_clearance, "lifted": m.lifted_wheels_most, "not_driven": m.not_driven}


def vehicle(message: VehicleDescription) -> dict[str, Any]:
    """Returns the dimensions [m] of a vehicle, its full lock [rad] and its weight [N]."""
    names = ("vehicle", "wheelbase", "front_axle", "rear_axle", "track_front", "track_rear", "wheel_radius", "full_lock", "outline_front",
             "outline_rear", "outline_half_width")
    return {**{name: getattr(message, name) for name in names}, "weight": 9.81 * message.mass}


def obstacles(message: MarkerArray) -> bytes:
    """Packs rows (x, y, radius, vx, vy) of the tracked obstacles among the controller's markers."""
    rows: list[list[float]] = []
    for marker in message.markers:
        if marker.ns == "obstacles":
            rows.append([marker.pose.position.x, marker.pose.position.y, 0.5 * marker.scale.x, 0.0, 0.0])
        elif marker.ns == "velocities" and rows and len(marker.points) == 2:
            start, end = marker.points
            rows[-1][3:] = [end.x - start.x, end.y - start.y]
    stamp = stamp_of(message.markers[0]) if message.markers else 0.0
    return pack(OBSTACLES, stamp, np.array(rows).ravel())


def shapes(message: MarkerArray, names: Iterable[str]) -> dict[str, Any]:
    """Returns the discs (x, y, radius) and lines [(x, y), ...] of markers, by their namespaces."""
    found: dict[str, Any] = {name: {"discs": [], "lines": []} for name in names}
    for marker in message.markers:
        if marker.ns not in found:
            continue
        if marker.type == Marker.CYLINDER:
            found[marker.ns]["discs"].append([marker.pose.position.x, marker.pose.position.y, 0.5 * marker.scale.x])
        elif marker.type == Marker.LINE_STRIP:
            found[marker.ns]["lines"].append([[point.x, point.y] for point in marker.points])
    return found


def warnings(message: DiagnosticArray) -> dict[str, tuple[int, str]]:
    """Returns level and text by node, as /diagnostics has them; level 0: well."""
    return {status.name: (int.from_bytes(status.level, "little"), status.message) for status in message.status}
