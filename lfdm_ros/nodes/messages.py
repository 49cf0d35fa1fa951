"""Fills the vehicle's messages from the simulator's outputs. Messages are made once and used again each tick."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from nav_msgs.msg import Odometry
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Imu, JointState, LaserScan

from lfdm_ros.bounds import require, require_all
from lfdm_ros.models import WHEELS
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.msg import VehicleState
from lfdm_ros.sensors import Scan

ODOM_FRAME = "odom"
BODY_FRAME = "base_link"
WHEEL_SPEEDS = tuple(f"omega_{wheel}" for wheel in WHEELS)
SCALARS = ("x", "y", "roll", "pitch", "yaw", "vx", "vy", "ax", "ay", "roll_rate", "pitch_rate", "yaw_rate",
            "road_wheel_angle", "engine_speed")


def nanoseconds(stamp: Time) -> int:
    """A stamp as one integer."""
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


def checked_stamp(stamp: Time) -> int:
    """As `nanoseconds`; raises Refused for a stamp that no clock gives."""
    time_ns = nanoseconds(stamp)
    require("stamp", 1e-9 * time_ns)
    return time_ns


def check_state(state: VehicleState) -> None:
    """Raises Refused where the state says what no vehicle can be; NaN: not measured."""
    checked_stamp(state.header.stamp)
    require_all({**{name: getattr(state, name) for name in SCALARS}, **dict(zip(WHEEL_SPEEDS, state.wheel_speeds.tolist()))})


def set_stamp(stamp: Time, time_ns: int) -> None:
    stamp.sec, stamp.nanosec = divmod(time_ns, 1_000_000_000)


def quaternion(roll: float, pitch: float, yaw: float) -> tuple[float, float, float, float]:
    """(x, y, z, w) of a rotation by yaw about z, then pitch about y, then roll about x (REP-103)."""
    cr, sr = math.cos(0.5 * roll), math.sin(0.5 * roll)
    cp, sp = math.cos(0.5 * pitch), math.sin(0.5 * pitch)
    cy, sy = math.cos(0.5 * yaw), math.sin(0.5 * yaw)
    return (sr * cp * cy - cr * sp * sy, cr * sp * cy + sr * cp * sy, cr * cp * sy - sr * sp * cy, cr * cp * cy + sr * sp * sy)


def specific_force(ax: float, ay: float, roll: float, pitch: float) -> tuple[float, float, float]:
    """What an accelerometer on the sprung mass reads [m/s^2]: it leans with the body, so it sees a share of gravity.

    Args:
        ax, ay: accelerations in the level, heading-fixed frame [m/s^2].
        roll, pitch: attitude of the body [rad].
    """
    cr, sr, cp, sp = math.cos(roll), math.sin(roll), math.cos(pitch), math.sin(pitch)
    along, up = cp * ax - sp * GRAVITY, sp * ax + cp * GRAVITY
    return along, cr * ay + sr * up, cr * up - sr * ay


def scan_message(scan: Scan, stamp_ns: int, frame: str, period: float) -> LaserScan:
    """The message of a scan; period: between two scans [s]."""
    message = LaserScan(
        angle_min=float(scan.angle_min), angle_max=float(scan.angle_min + scan.angle_increment * (len(scan.ranges) - 1)),
        angle_increment=float(scan.angle_increment), scan_time=period, range_min=float(scan.range_min), range_max=float(scan.range_max),
        ranges=array("f", scan.ranges.astype(np.float32).tobytes()))
    message.header.frame_id = frame
    set_stamp(message.header.stamp, stamp_ns)
    return message


class VehicleMessages:
    """The messages of one tick: `clock`, `state`, `odometry`, `imu`, `wheels`."""

    def __init__(self, output_index: Mapping[str, int]) -> None:
        """
        Args:
            output_index: position of each of the model's outputs by name; a model may lack some.
        """
        self._index = dict(output_index)
        self._scalars = [(name, self._index[name]) for name in SCALARS if name in self._index]
        self._wheel_fields = [
            (field, [self._index[f"{output}_{wheel}"] for wheel in WHEELS])
            for field, output in (("wheel_speeds", "omega"), ("tyre_force_x", "tyre_fx"), ("tyre_force_y", "tyre_fy"),
                                  ("tyre_force_z", "tyre_fz"))
            if f"{output}_fl" in self._index]

        self.clock = Clock()
        self.state = VehicleState(child_frame_id=BODY_FRAME)
        self.state.header.frame_id = ODOM_FRAME
        for name in SCALARS:
            setattr(self.state, name, math.nan)
        for field in ("wheel_speeds", "tyre_force_x", "tyre_force_y", "tyre_force_z"):
            getattr(self.state, field)[:] = math.nan
        self.odometry = Odometry(child_frame_id=BODY_FRAME)
        self.odometry.header.frame_id = ODOM_FRAME
        self.imu = Imu()
        self.imu.header.frame_id = BODY_FRAME
        self.wheels = JointState(name=[f"wheel_{wheel}" for wheel in WHEELS], velocity=[0.0] * 4)
        self._stamps = [self.clock.clock, *(m.header.stamp for m in (self.state, self.odometry, self.imu, self.wheels))]

    def fill(self, time_ns: int, outputs: Sequence[float]) -> None:
        """Puts one state into all messages.

        Args:
            time_ns: simulated time [ns].
            outputs: the model's outputs, SI.
        """
        for stamp in self._stamps:
            set_stamp(stamp, time_ns)
        state = self.state
        for name, i in self._scalars:
            setattr(state, name, outputs[i])
        for field, indices in self._wheel_fields:
            getattr(state, field)[:] = [outputs[i] for i in indices]
        if "gear" in self._index:
            state.gear = int(outputs[self._index["gear"]])

        def known(value: float) -> float:
            return value if value == value else 0.0  # a model without roll or pitch stays level

        roll, pitch, yaw = known(state.roll), known(state.pitch), state.yaw
        q = quaternion(roll, pitch, yaw)
        _set(self.odometry.pose.pose.orientation, "xyzw", q)
        position, twist = self.odometry.pose.pose.position, self.odometry.twist.twist
        position.x, position.y = state.x, state.y
        twist.linear.x, twist.linear.y, twist.angular.z = state.vx, state.vy, state.yaw_rate
        _set(self.imu.orientation, "xyzw", q)
        _set(self.imu.angular_velocity, "xyz", (known(state.roll_rate), known(state.pitch_rate), state.yaw_rate))
        _set(self.imu.linear_acceleration, "xyz", specific_force(state.ax, state.ay, roll, pitch))
        self.wheels.velocity = state.wheel_speeds.tolist()


def _set(target: Any, fields: str, values: Sequence[float]) -> None:
    for field, value in zip(fields, values):
        setattr(target, field, value)
