"""Converts messages of the graph for the page (`wire`); of rclpy or of a bag, which have the same fields. Without ROS."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from lfdm_ros.bounds import require
from lfdm_ros.cockpit.wire import GHOST, GROUND, IMAGE, LEARNED, OBSTACLES, PLAN, RADAR, SCAN, SHARING, STATE, pack
from lfdm_ros.ground.friction_field import FrictionLink
from lfdm_ros.ground.grid_map import DRY, HEIGHT, ICE, MEAN, MEDIAN, SD, read_grid_map
from lfdm_ros.perception.transform_tree import TransformTree

TEXT_PERIOD = 0.1  # [s] minimum between two texts of a kind
CAMERA = "sensors/front/image_raw/compressed"  # the key below, whichever camera it is
RADAR_SCAN = "sensors/radar_front"  # likewise
_MAX_NODES = 256  # per side of a map
_STEPS = 65534  # between minimum and maximum of a layer; code 0: unknown
# Types of visualization_msgs/Marker.
_CYLINDER, _LINE_STRIP = 3, 4


def stamp_of(message: Any) -> float:
    """Returns the stamp of a message [s]."""
    stamp = message.header.stamp
    return stamp.sec + 1e-9 * stamp.nanosec


def state(message: Any, number: int = 0) -> bytes:
    """Packs a state: pose, velocities, accelerations, yaw rate, steering, gear, engine; spin and load of four wheels; 21 values."""
    m = message
    return pack(STATE, stamp_of(m), [m.x, m.y, m.roll, m.pitch, m.yaw, m.vx, m.vy, m.ax, m.ay, m.yaw_rate, m.road_wheel_angle, m.gear,
                                     m.engine_speed, *m.wheel_speeds, *m.tyre_force_z], number)


def scan(message: Any, frames: TransformTree) -> bytes:
    """Packs a scan: position [m] and yaw [rad] of the LIDAR in the vehicle, first angle, increment, minimum and maximum range, ranges."""
    m, place = message, frames.place(message.header.frame_id, "base_link")
    return pack(SCAN, stamp_of(m), np.concatenate([
        [place.x, place.y, place.yaw, m.angle_min, m.angle_increment, m.range_min, m.range_max], m.ranges]))


def radar(message: Any, frames: TransformTree) -> bytes:
    """Packs the position [m] of a radar in the vehicle, and its returns: x, y [m], range rate [m/s]. Raises Refused: too many."""
    require("obstacles", len(message.returns))
    place = frames.place(message.header.frame_id, "base_link")
    found = np.array([(one.range, one.azimuth, one.doppler_velocity) for one in message.returns], float).reshape(-1, 3)
    angles = place.yaw + found[:, 1]
    rows = np.column_stack([place.x + found[:, 0] * np.cos(angles), place.y + found[:, 0] * np.sin(angles), found[:, 2]])
    return pack(RADAR, stamp_of(message), np.concatenate([[place.x, place.y], rows[np.isfinite(rows).all(axis=1)].ravel()]))


def plan(message: Any) -> bytes | None:
    """Packs rows (x, y, speed) of a plan; None: it has no rows, or no positions."""
    names, rows = list(message.names), len(message.times)
    if not {"x", "y"} <= set(names) or not rows or len(message.states) != rows * len(names):
        return None
    states = np.asarray(message.states).reshape(rows, len(names))
    speed = states[:, names.index("vx")] if "vx" in names else np.full(rows, math.nan)
    return pack(PLAN, stamp_of(message), np.column_stack([states[:, names.index("x")], states[:, names.index("y")], speed]).ravel())


def sharing(message: Any) -> bytes:
    """Packs k, requested k, threat; steering, throttle and brake of operator, autonomy and applied; ages of both."""
    def values(command: Any) -> tuple[float, float, float]:
        return command.steering, command.throttle, command.brake

    m = message
    return pack(SHARING, stamp_of(m), [m.k, m.k_wanted, m.threat, *values(m.operator_command), *values(m.autonomy_command),
                                       *values(m.applied), m.operator_age, m.autonomy_age])


def sharing_text(message: Any) -> dict[str, Any]:
    """Returns mode, state, reasons, a takeover, threats by component and probabilities with their 95 % intervals."""
    m = message
    return {"mode": m.mode, "state": m.state, "reason": m.reason, "reasons": list(m.reasons), "limits": list(m.active_limits),
            "emergency_stop": m.emergency_stop, "posterior": m.posterior_version,
            # Missing in older bags.
            "takeover": getattr(m, "takeover", "none"), "takeover_reason": getattr(m, "takeover_reason", ""),
            "takeover_time_left": getattr(m, "takeover_time_left", math.nan),
            "threats": list(zip(m.component_names, m.component_threats)),
            "risks": list(zip(m.probability_names, m.probabilities, m.probabilities_lower, m.probabilities_upper))}


def image(message: Any) -> bytes:
    """Packs the bytes of a JPEG. Raises Refused for none, or more than a picture has."""
    require("image_bytes", len(message.data))
    return pack(IMAGE, stamp_of(message), bytes(message.data))


def ghost(message: Any) -> bytes:
    """Packs the present x, y [m] and yaw [rad] of a vehicle whose view is delayed by a link."""
    return pack(GHOST, stamp_of(message), [message.x, message.y, message.yaw])


def link(message: Any) -> dict[str, Any]:
    """Returns latencies [s] of the link, up and down: median and 99 %, and the number of lost messages."""
    m = message
    return {"directions": list(m.directions), "p50": list(m.latency_p50), "p99": list(m.latency_p99), "dropped": list(m.dropped)}


def controller(message: Any) -> dict[str, Any]:
    """Returns outcome, reason and times [s] of a control cycle, and the remaining distance [m]."""
    m = message
    return {"task": m.task, "outcome": m.outcome_name, "reason": m.reason, "cycle_time": m.cycle_time, "done": m.done,
            "speed_limit": m.speed_limit, "distance_to_go": m.distance_to_go, "active": list(m.active_constraints)}


def calibrator(message: Any) -> dict[str, Any]:
    """Returns state and progress of a calibration, the gates' verdicts, and the versions in force and newest."""
    m = message
    return {"state": m.state, "stage": m.stage, "progress": m.progress, "time_left": m.time_left, "message": m.message,
            "gates": [[gate.name, gate.passed, gate.reason] for gate in m.gates], "in_force": m.version_in_force,
            "newest": m.newest_version}


def simulator(message: Any) -> dict[str, Any]:
    """Returns model, pace, collisions and lifted wheels."""
    m = message
    return {"model": m.model, "vehicle": m.vehicle, "paused": m.paused, "pace": m.speed_factor_reached, "pace_asked": m.speed_factor_asked,
            "slowed_by": m.slowed_by, "no_command": m.command_timed_out, "collisions": m.collisions, "collided_with": m.first_collision,
            "clearance": m.least_clearance, "lifted": m.lifted_wheels_most, "not_driven": m.not_driven}


def vehicle(message: Any) -> dict[str, Any]:
    """Returns the dimensions [m] of a vehicle, its full lock [rad] and its weight [N]."""
    names = ("vehicle", "wheelbase", "front_axle", "rear_axle", "track_front", "track_rear", "wheel_radius", "full_lock", "outline_front",
             "outline_rear", "outline_half_width")
    return {**{name: getattr(message, name) for name in names}, "weight": 9.81 * message.mass}


def obstacles(message: Any) -> bytes:
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


def shapes(message: Any, names: Iterable[str]) -> dict[str, Any]:
    """Returns the discs (x, y, radius) and lines [(x, y), ...] of markers, by their namespaces."""
    found: dict[str, Any] = {name: {"discs": [], "lines": []} for name in names}
    for marker in message.markers:
        if marker.ns not in found:
            continue
        if marker.type == _CYLINDER:
            found[marker.ns]["discs"].append([marker.pose.position.x, marker.pose.position.y, 0.5 * marker.scale.x])
        elif marker.type == _LINE_STRIP:
            found[marker.ns]["lines"].append([[round(point.x, 3), round(point.y, 3)] for point in marker.points])  # to 1 mm
    return found


def ground(message: Any, kind: int = GROUND) -> bytes:
    """Packs a map: x, y, spacing [m] of its grid, nx, ny; minimum and step of the layers; layers of step above 0 in uint16.

    Layers: height [m], friction relative to the vehicle's road, its standard deviation. A value is minimum + (code - 1) step; code 0:
    unknown. A map of more than 256 nodes a side is thinned to every second, third ... node. Raises InputError: as `read_grid_map`, or
    impossible limits of friction.
    """
    grid, layers = read_grid_map(message)
    every = -(-max(grid.nx, grid.ny) // _MAX_NODES)
    layers = {name: layer[::every, ::every] for name, layer in layers.items()}
    zero = np.zeros((-(-grid.ny // every), -(-grid.nx // every)))
    height, friction, sd = layers.get(HEIGHT, zero), layers.get(MEDIAN, zero + 1.0), zero
    if {MEAN, SD, ICE, DRY} <= layers.keys():
        link, mean, latent_sd = FrictionLink(float(layers[ICE][0, 0]), float(layers[DRY][0, 0])), layers[MEAN], layers[SD]
        sd = 0.5 * (link.friction(mean + latent_sd) - link.friction(mean - latent_sd))
    head, codes = [grid.x, grid.y, every * grid.spacing, zero.shape[1], zero.shape[0]], []
    for layer in (height, friction, sd):
        finite = np.isfinite(layer)
        lowest, largest = (float(layer[finite].min()), float(layer[finite].max())) if finite.any() else (0.0, 0.0)
        step = (largest - lowest) / _STEPS or float(not finite.all())
        head += [lowest, step]
        if step:
            coded = np.where(finite, 1 + np.round((np.where(finite, layer, lowest) - lowest) / step), 0).astype("<u2").tobytes()
            codes.append(coded + bytes(-len(coded) % 4))
    return pack(kind, stamp_of(message), head) + b"".join(codes)


def warnings(message: Any) -> dict[str, tuple[int, str]]:
    """Returns level and text by node of /diagnostics; level 0: OK."""
    def level(value: int | bytes) -> int:
        return value if isinstance(value, int) else int.from_bytes(value, "little")

    return {status.name: (level(status.level), status.message) for status in message.status}


# Texts by topic in the vehicle's namespace: kind and content.
TEXTS: Mapping[str, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    "vehicle/description": ("vehicle", vehicle),
    "world": ("world", lambda message: shapes(message, ("world",))["world"]),
    "autonomy/markers": ("route", lambda message: shapes(message, ("route", "goal", "corridor"))),
    "autonomy/status": ("controller", controller),
    "shared_control/status": ("sharing", sharing_text),
    "simulator/status": ("simulator", simulator),
    "calibrator/status": ("calibrator", calibrator),
    "teleop/link": ("link", link),
}

# Topics that a page shows, and the minimum time [s] between two decoded messages; 0: all. Twenty markers take 2 ms.
PERIODS: Mapping[str, float] = {
    "vehicle/state": 1e-3, "scan": 1e-3, "autonomy/plan": 0.045, "autonomy/markers": 0.095, "autonomy/status": TEXT_PERIOD,
    "shared_control/status": 0.03, CAMERA: 0.03, RADAR_SCAN: 0.03, "simulator/status": TEXT_PERIOD, "teleop/link": 0.2,
    "vehicle/description": 0.0, "world": 0.0, "calibrator/status": TEXT_PERIOD, "ground/map": 0.0, "ground/known": 0.0}

# Types of their messages; others may use the same names.
TYPES: Mapping[str, str] = {
    "vehicle/state": "lfdm_ros/msg/VehicleState", "scan": "sensor_msgs/msg/LaserScan", "autonomy/plan": "lfdm_ros/msg/Plan",
    "autonomy/markers": "visualization_msgs/msg/MarkerArray", "autonomy/status": "lfdm_ros/msg/MpcStatus",
    "shared_control/status": "lfdm_ros/msg/SharedControlStatus", "simulator/status": "lfdm_ros/msg/SimulatorStatus",
    "teleop/link": "lfdm_ros/msg/LinkStatus", "vehicle/description": "lfdm_ros/msg/VehicleDescription",
    CAMERA: "sensor_msgs/msg/CompressedImage", RADAR_SCAN: "radar_msgs/msg/RadarScan", "calibrator/status": "lfdm_ros/msg/CalibratorStatus",
    "world": "visualization_msgs/msg/MarkerArray", "ground/map": "grid_map_msgs/msg/GridMap", "ground/known": "grid_map_msgs/msg/GridMap",
    "tf_static": "tf2_msgs/msg/TFMessage"}


_MAPS = {"ground/map": GROUND, "ground/known": LEARNED}


def packed(topic: str, message: Any, frames: TransformTree, number: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yields kind and content of the binary messages of a topic's message. number: of a state. Raises InputError: it is invalid."""
    if topic == "vehicle/state":
        if len(message.wheel_speeds) == len(message.tyre_force_z) == 4:
            yield STATE, state(message, number)
    elif topic == "scan":
        yield SCAN, scan(message, frames)
    elif topic == RADAR_SCAN:
        yield RADAR, radar(message, frames)
    elif topic == "autonomy/plan":
        content = plan(message)
        if content is not None:
            yield PLAN, content
    elif topic == CAMERA:
        yield IMAGE, image(message)
    elif topic == "autonomy/markers":
        yield OBSTACLES, obstacles(message)
    elif topic == "shared_control/status":
        yield SHARING, sharing(message)
    elif topic in _MAPS:
        yield _MAPS[topic], ground(message, _MAPS[topic])
