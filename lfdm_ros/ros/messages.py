"""Fills the vehicle's messages from the simulator's outputs. Messages are created once and reused each tick."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped
from nav_msgs.msg import Odometry
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Imu, JointState, LaserScan

from lfdm_ros.bounds import BOUNDS, MALFORMED, Refused, require, require_all
from lfdm_ros.models import AXLES, WHEELS, Model
from lfdm_ros.msg import VehicleDescription, VehicleState
from lfdm_ros.sensors import Scan, specific_force
from lfdm_ros.vehicles import Mount
from lfdm_ros.vehicles.body import Description
from lfdm_ros.vehicles.description import FIXED, STEERING_JOINTS, Joint, wheel_joint

# Frames, as REP 105 names them; all have x forward, y to the left, z up (REP 103).
MAP_FRAME, ODOM_FRAME, BODY_FRAME, LIDAR_FRAME, IMU_FRAME = "map", "odom", "base_link", "lidar", "imu"
# Variances of values simulated without error, as some programs take 0 for a mistake, and of values not measured; whole SI units.
EXACT, UNKNOWN = 1e-9, 1e6
SCALARS = ("x", "y", "roll", "pitch", "yaw", "vx", "vy", "ax", "ay", "roll_rate", "pitch_rate", "yaw_rate",
            "road_wheel_angle", "engine_speed")
# Values of wheels: the field of a car's four, that of all wheels, and how the names of the models' outputs begin.
SPINS = "omega"
OF_WHEELS = (("wheel_speeds", "speed_by_wheel", SPINS), ("tyre_force_x", "force_x_by_wheel", "tyre_fx"),
             ("tyre_force_y", "force_y_by_wheel", "tyre_fy"), ("tyre_force_z", "force_z_by_wheel", "tyre_fz"))


def nanoseconds(stamp: Time) -> int:
    """Converts a stamp to one integer."""
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


def checked_stamp(stamp: Time) -> int:
    """Converts a stamp as `nanoseconds` does; raises Refused: invalid."""
    time_ns = nanoseconds(stamp)
    require("stamp", 1e-9 * time_ns)
    return time_ns


def check_state(state: VehicleState) -> None:
    """Raises Refused for an impossible state; NaN: unmeasured."""
    checked_stamp(state.header.stamp)
    check_wheels(state)
    require_all({**{name: getattr(state, name) for name in SCALARS}, **speeds_of(state)})


def check_wheels(state: VehicleState) -> None:
    """Raises Refused where arrays by wheel and wheel_names are inconsistent."""
    names = state.wheel_names
    require("wheels", len(names), "the number of wheel_names")
    if len(set(names)) < len(names):
        raise Refused(f"wheel_names has a name twice: {', '.join(names)}"[:200], MALFORMED)
    for _, field, _ in OF_WHEELS:
        if len(getattr(state, field)) not in (0, len(names)):
            raise Refused(f"{field} has {len(getattr(state, field))} values for {len(names)} wheel_names", MALFORMED)


def speeds_of(state: VehicleState) -> dict[str, float]:
    """Returns the spins of all wheels [rad/s], by the names of the models' states; inconsistent arrays by wheel are ignored."""
    speeds: dict[str, float] = {}
    if len(state.wheel_names) == len(state.speed_by_wheel) <= BOUNDS["wheels"].upper:
        speeds.update(zip(state.wheel_names, state.speed_by_wheel))
    for wheel, speed in zip(WHEELS, state.wheel_speeds.tolist()):
        if speed == speed or wheel not in speeds:
            speeds[wheel] = speed
    return {f"{SPINS}_{wheel}": speed for wheel, speed in speeds.items()}


def unmeasured() -> VehicleState:
    """Makes a state in which nothing is measured."""
    state = VehicleState()
    for name in SCALARS:
        setattr(state, name, math.nan)
    for field, _, _ in OF_WHEELS:
        getattr(state, field)[:] = math.nan
    return state


def stamp_of(time_ns: int) -> Time:
    """Converts a time [ns] to a stamp."""
    return Time(**dict(zip(("sec", "nanosec"), divmod(time_ns, 1_000_000_000))))


def set_stamp(stamp: Time, time_ns: int) -> None:
    stamp.sec, stamp.nanosec = divmod(time_ns, 1_000_000_000)


def quaternion(roll: float, pitch: float, yaw: float) -> tuple[float, float, float, float]:
    """Returns (x, y, z, w) of a rotation by yaw about z, then pitch about y, then roll about x (REP-103)."""
    cr, sr = math.cos(0.5 * roll), math.sin(0.5 * roll)
    cp, sp = math.cos(0.5 * pitch), math.sin(0.5 * pitch)
    cy, sy = math.cos(0.5 * yaw), math.sin(0.5 * yaw)
    return (sr * cp * cy - cr * sp * sy, cr * sp * cy + sr * cp * sy, cr * cp * sy - sr * sp * cy, cr * cp * cy + sr * sp * sy)


def scan_message(scan: Scan, stamp_ns: int, frame: str, period: float) -> LaserScan:
    """Makes the message of a scan; period: between two scans [s]."""
    message = LaserScan(
        angle_min=float(scan.angle_min), angle_max=float(scan.angle_min + scan.angle_increment * (len(scan.ranges) - 1)),
        angle_increment=float(scan.angle_increment), scan_time=period, range_min=float(scan.range_min), range_max=float(scan.range_max),
        ranges=array("f", scan.ranges.astype(np.float32).tobytes()))
    message.header.frame_id = frame
    set_stamp(message.header.stamp, stamp_ns)
    return message


def joint_transform(joint: Joint, angle: float = 0.0) -> TransformStamped:
    """Returns the transform of a joint's child in its parent, turned by an angle [rad] about the joint's axis."""
    transform = TransformStamped(child_frame_id=joint.child)
    transform.header.frame_id = joint.parent
    set_fields(transform.transform.translation, "xyz", (joint.x, joint.y, joint.z))
    if joint.kind == FIXED:
        cy, sy, cp, sp, cr, sr = (f(0.5 * angle) for angle in (joint.yaw, joint.pitch, joint.roll) for f in (math.cos, math.sin))
        set_fields(transform.transform.rotation, "xyzw", (cy * cp * sr - sy * sp * cr, cy * sp * cr + sy * cp * sr,
                                                          sy * cp * cr - cy * sp * sr, cy * cp * cr + sy * sp * sr))
    else:
        half = math.sin(0.5 * angle)
        set_fields(transform.transform.rotation, "xyzw", (*(half * part for part in joint.axis), math.cos(0.5 * angle)))
    return transform


def description_of(constants: Description) -> VehicleDescription:
    """Makes the message of a vehicle's constants."""
    flat = asdict(constants)
    outline = {f"outline_{name}": value for name, value in flat.pop("outline").items()}
    delay = flat["actuators"].pop("delay")
    message = VehicleDescription(**flat.pop("actuators"), actuation_delay=delay, **outline, **flat)
    message.header.frame_id = BODY_FRAME
    return message


def diagonal(variances: Sequence[float]) -> array[float]:
    """Makes the covariance of independent errors, row by row."""
    covariance = np.diag(np.asarray(variances, float))
    return array("d", covariance.tobytes())


class VehicleMessages:
    """The messages of one tick: `clock`, `state`, `odometry`, `imu`, `joints`."""

    def __init__(self, model: Model, imu: Mount | None = None) -> None:
        """Makes the messages; imu: mount of the IMU, by default the position point."""
        computed = model.computed_outputs
        index = {output.name: i for i, output in enumerate(model.outputs) if output.name in computed}
        self._scalars = [(name, index[name]) for name in SCALARS if name in index]
        self._gear = index["gear"]

        # Indices into the outputs, to which `fill` appends 0 and NaN. A wheel that is a whole axle carries the force of both tyres.
        absent, unknown = -2, -1

        def places(output: str, wheel: str) -> tuple[int, int]:
            first, *second = (index.get(f"{output}_{tyre}", unknown) for tyre in AXLES.get(wheel, (wheel,)))
            return first, second[0] if second and output != SPINS else absent

        self._four = [(field, [index.get(f"{output}_{wheel}", unknown) for wheel in WHEELS]) for field, _, output in OF_WHEELS]
        self._by_wheel = [(field, [places(output, wheel) for wheel in model.wheels]) for _, field, output in OF_WHEELS]
        self._turning = [index.get(f"{SPINS}_{wheel}", unknown) for wheel in model.reported]

        self.clock = Clock()
        self.state = unmeasured()
        self.state.header.frame_id, self.state.child_frame_id = ODOM_FRAME, BODY_FRAME
        self.state.wheel_names = list(model.wheels)
        self.odometry = Odometry(child_frame_id=BODY_FRAME)
        self.odometry.header.frame_id = ODOM_FRAME
        self.odometry.pose.covariance = self.odometry.twist.covariance = diagonal([EXACT] * 6)
        self.imu = Imu()
        self.imu.header.frame_id = IMU_FRAME
        self.imu.orientation_covariance = self.imu.angular_velocity_covariance = self.imu.linear_acceleration_covariance = diagonal(
            [EXACT] * 3)
        self._mount = imu or Mount()
        self.joints = JointState(name=[*(wheel_joint(wheel) for wheel in model.reported), *STEERING_JOINTS])
        self._turned = [0.0] * len(model.reported)  # [rad], within a turn
        self._steered = self._yaw_rate = 0.0
        self._filled_ns: int | None = None
        self._stamps = [self.clock.clock, *(m.header.stamp for m in (self.state, self.odometry, self.imu, self.joints))]

    def fill(self, time_ns: int, outputs: Sequence[float]) -> None:
        """Fills all messages with one state. time_ns: simulated time [ns]. outputs: the model's outputs, SI."""
        for stamp in self._stamps:
            set_stamp(stamp, time_ns)
        span = 0.0 if self._filled_ns is None else max(1e-9 * (time_ns - self._filled_ns), 0.0)
        self._filled_ns = time_ns
        state = self.state
        for name, i in self._scalars:
            setattr(state, name, outputs[i])
        values = [*outputs, 0.0, math.nan]
        for field, four in self._four:
            getattr(state, field)[:] = [values[i] for i in four]
        for field, places in self._by_wheel:
            setattr(state, field, array("d", [values[i] + values[j] for i, j in places]))
        self._fill_joints([values[i] for i in self._turning], state.road_wheel_angle, span)
        state.gear = int(outputs[self._gear])

        def or_zero(value: float) -> float:
            return value if value == value else 0.0  # a model without roll or pitch stays level

        roll, pitch, yaw = or_zero(state.roll), or_zero(state.pitch), state.yaw
        q = quaternion(roll, pitch, yaw)
        set_fields(self.odometry.pose.pose.orientation, "xyzw", q)
        position, twist = self.odometry.pose.pose.position, self.odometry.twist.twist
        position.x, position.y = state.x, state.y
        twist.linear.x, twist.linear.y, twist.angular.z = state.vx, state.vy, state.yaw_rate
        set_fields(self.imu.orientation, "xyzw", q)
        set_fields(self.imu.angular_velocity, "xyz", (or_zero(state.roll_rate), or_zero(state.pitch_rate), state.yaw_rate))
        ax, ay = state.ax, state.ay
        if self._mount.x or self._mount.y:
            ax, ay = self._at_mount(ax, ay, state.yaw_rate, span)
        set_fields(self.imu.linear_acceleration, "xyz", specific_force(ax, ay, roll, pitch))

    def _fill_joints(self, spins: list[float], steered: float, span: float) -> None:
        """Fills angles and rates of the joints; one that the model lacks is at rest with rate NaN."""
        self._turned = [math.remainder(angle + span * spin, 2.0 * math.pi) if spin == spin else angle
                        for angle, spin in zip(self._turned, spins)]
        steered = steered if steered == steered else 0.0
        rate, self._steered = (steered - self._steered) / span if span else 0.0, steered
        self.joints.position = array("d", [*self._turned, *[steered] * len(STEERING_JOINTS)])
        self.joints.velocity = array("d", [*spins, *[rate] * len(STEERING_JOINTS)])

    def _at_mount(self, ax: float, ay: float, yaw_rate: float, span: float) -> tuple[float, float]:
        """Returns the acceleration [m/s^2] at the IMU's mount, in the plane; the yaw acceleration is the mean of the tick."""
        mount, alpha = self._mount, (yaw_rate - self._yaw_rate) / span if span else 0.0
        self._yaw_rate = yaw_rate
        return ax - yaw_rate**2 * mount.x - alpha * mount.y, ay + alpha * mount.x - yaw_rate**2 * mount.y


def set_fields(target: Any, fields: str, values: Sequence[float]) -> None:
    for field, value in zip(fields, values):
        setattr(target, field, value)
