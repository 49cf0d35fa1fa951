"""The command adapter node: drives a vehicle by the messages that others send, Ackermann and Twist, through the vehicle's own model."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from ackermann_msgs.msg import AckermannDriveStamped
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Twist, TwistStamped
from nav_msgs.msg import Odometry

from lfdm_ros.bounds import STAMP, Refused, require, require_all
from lfdm_ros.engine.inversion import FOLLOWER, Follower, MotionSetpoint
from lfdm_ros.errors import InputError
from lfdm_ros.models import model_names
from lfdm_ros.msg import DriverCommand, VehicleState
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import OK, WARN, Component, Diagnosis, refusing, while_active
from lfdm_ros.ros.endpoints import given, publishes, subscribes
from lfdm_ros.ros.messages import checked_stamp, set_stamp, stamp_of
from lfdm_ros.ros.parameters import VEHICLE, VEHICLE_CHANGES, Parameter, vehicle_of

ACKERMANN, TWIST = "ackermann", "twist"
_SLOWEST = 0.01  # [m/s] below which a yaw rate does not define a curvature


@dataclass
class _Source:
    """The last setpoint from one kind of message."""

    setpoint: MotionSetpoint | None = None
    arrived_ns: int = 0
    stamp_ns: int = 0  # 0: not stamped

    def age(self, now_ns: int) -> float:
        """Returns the larger of the ages since arrival and since its stamp [s]; inf: none received."""
        if self.setpoint is None:
            return math.inf
        return 1e-9 * (now_ns - min(self.arrived_ns, self.stamp_ns or self.arrived_ns))


class CommandAdapter(Component):
    """Conversion of `ackermann_cmd` and `cmd_vel` to `control/command`: each state is answered by the newest command within its timeout.

    Time is that of the states' stamps. Without a valid command the vehicle stops with its current steering angle.
    """

    NAME = "command_adapter"
    PARAMETERS = (
        VEHICLE, VEHICLE_CHANGES,
        Parameter("model", "eight_dof", "vehicle model whose answers are inverted", choices=model_names),
        Parameter("cmd_vel_type", "twist", "type of cmd_vel; twist_stamped: as of nav2 with enable_stamped_cmd_vel",
                  choices=("twist", "twist_stamped")),
        Parameter("odometry", False, "drive from nav_msgs/Odometry on the topic odom instead of vehicle/state"),
        Parameter("ackermann_timeout", 0.5, "maximum age of an Ackermann command, since its stamp and since its arrival",
                  0.001, 1e6, live=True, unit="s"),
        Parameter("twist_timeout", 0.5, "as ackermann_timeout, of cmd_vel", 0.001, 1e6, live=True, unit="s"),
        Parameter("stop_deceleration", 3.0, "of the stop where no command counts any more", 0.1, 50.0, live=True, unit="m/s^2"),
        *FOLLOWER.parameters,
    )
    ENDPOINTS = (
        subscribes("ackermann_cmd", AckermannDriveStamped, qos.SENSOR, "speed and angle of the wheels"),
        subscribes("cmd_vel", Twist, qos.SENSOR, "speed and yaw rate", when=given("cmd_vel_type", "twist")),
        subscribes("cmd_vel", TwistStamped, qos.SENSOR, "speed and yaw rate", when=given("cmd_vel_type", "twist_stamped")),
        # Each state is answered, as lockstep needs it.
        subscribes("vehicle/state", VehicleState, qos.STATE, "how the vehicle follows", when=given("odometry", False)),
        subscribes("odom", Odometry, qos.STATE, "how the vehicle follows", when=given("odometry")),
        publishes("control/command", DriverCommand, qos.COMMAND, "steering and pedals", sole=True),
    )

    def configure(self) -> None:
        vehicle = vehicle_of(self)
        self.follower = Follower(vehicle, self.value("model"), FOLLOWER.record(self.value))
        self._sources = {ACKERMANN: _Source(), TWIST: _Source()}
        self._command = DriverCommand()
        self._publisher = self.publisher("control/command")
        self.connect({"ackermann_cmd": self._on_ackermann, "vehicle/state": self._on_state, "odom": self._on_odometry,
                      "cmd_vel": self._on_twist if self.value("cmd_vel_type") == "twist" else self._on_twist_stamped})
        pedals, steering = self.follower.pedals, self.follower.steering
        self.get_logger().info(f"{vehicle.name}: up to {pedals.top_speed:.1f} m/s and {steering.largest:.3g} rad, "
                               f"understeer {steering.understeer:.3g} rad s^2/m")

    def activate(self) -> None:
        self.follower.reset()
        self._now_ns: int | None = None
        self._driven_by, self._answered, self._stops = "", 0, 0
        self._angle = 0.0

    def _on_ackermann(self, message: AckermannDriveStamped) -> None:
        def setpoint() -> MotionSetpoint:
            d = message.drive
            values = {"vx": d.speed, "road_wheel_angle": d.steering_angle, "steering_angle_velocity": d.steering_angle_velocity,
                      "ax": d.acceleration, "jerk": d.jerk}
            require_all(values, tuple(values))
            return MotionSetpoint(d.speed, angle=d.steering_angle, acceleration=abs(d.acceleration), jerk=abs(d.jerk),
                          angle_rate=abs(d.steering_angle_velocity))

        self._take(ACKERMANN, message.header.stamp, setpoint)

    def _on_twist(self, message: Twist) -> None:
        self._take(TWIST, Time(), lambda: self._setpoint(message))

    def _on_twist_stamped(self, message: TwistStamped) -> None:
        self._take(TWIST, message.header.stamp, lambda: self._setpoint(message.twist))

    def _setpoint(self, twist: Twist) -> MotionSetpoint:
        linear, angular = twist.linear, twist.angular
        values = {"vx": linear.x, "vy": linear.y, "roll_rate": angular.x, "pitch_rate": angular.y, "yaw_rate": angular.z}
        require_all(values, tuple(values))
        require("vy", linear.z, "vz")
        if abs(linear.x) < _SLOWEST:  # a car does not turn where it stands: it stops with its wheels as they are
            return MotionSetpoint(0.0, angle=self._angle)
        return MotionSetpoint(linear.x, curvature=angular.z / linear.x)

    @while_active
    def _take(self, kind: str, stamp: Time, make: Callable[[], MotionSetpoint]) -> None:
        try:
            stamp_ns, now_ns, limit = checked_stamp(stamp), self._now_ns, self.value(f"{kind}_timeout")
            if now_ns is None:
                raise Refused("no state has come yet", STAMP)
            age = 1e-9 * (now_ns - stamp_ns) if stamp_ns else 0.0
            if abs(age) > limit:
                raise Refused(f"stamped {age:.3f} s ago, the limit is {limit:g} s" if age > 0.0 else
                              f"stamped {-age:.3f} s ahead of the states; does its sender use_sim_time?", STAMP)
            setpoint = make()
        except InputError as error:
            self.refusals.refuse(kind, error)
            return
        self._sources[kind] = _Source(setpoint, now_ns, stamp_ns)

    def _on_state(self, state: VehicleState) -> None:
        self._answer(state.header.stamp, {"vx": state.vx, "yaw_rate": state.yaw_rate})

    def _on_odometry(self, odometry: Odometry) -> None:
        twist = odometry.twist.twist
        self._answer(odometry.header.stamp, {"vx": twist.linear.x, "yaw_rate": twist.angular.z})

    @while_active
    @refusing("state")
    def _answer(self, stamp: Time, measured: dict[str, float]) -> None:
        now_ns = checked_stamp(stamp)
        require_all(measured, ("vx", "yaw_rate"))
        if self._now_ns is not None and now_ns < self._now_ns:  # the clock was set back: what came before counts no more
            self._sources = {kind: _Source() for kind in self._sources}
        self._now_ns = now_ns
        command = self._command
        set_stamp(command.header.stamp, now_ns)
        command.steering, command.throttle, command.brake = self.follower.inputs(
            1e-9 * now_ns, measured["vx"], measured["yaw_rate"], self._in_force(now_ns))
        self._angle = self.follower.angle
        self._answered += 1
        self._publisher.publish(command)

    def _in_force(self, now_ns: int) -> MotionSetpoint:
        """Returns the newest valid setpoint, else a stop."""
        current = {kind: source for kind, source in self._sources.items() if source.age(now_ns) <= self.value(f"{kind}_timeout")}
        before, self._driven_by = self._driven_by, max(current, key=lambda kind: current[kind].arrived_ns) if current else ""
        if self._driven_by:
            setpoint = current[self._driven_by].setpoint
            assert setpoint is not None
            return setpoint
        if before:
            self._stops += 1
            self.get_logger().warning(f"{before}: no command any more, stopping")
        return MotionSetpoint(0.0, angle=self._angle, acceleration=self.value("stop_deceleration"))

    def stamp(self) -> Time:
        """Returns the stamp of the last state: this node keeps no clock."""
        return stamp_of(getattr(self, "_now_ns", None) or 0)

    @while_active
    def diagnose(self) -> Diagnosis:
        values = {"driven_by": self._driven_by or "nobody", "answered": self._answered, "stops": self._stops}
        if not self.increase("answered", self._answered):
            return WARN, f"no {'odom' if self.value('odometry') else 'vehicle/state'} in the last second", values
        return (OK, f"driven by {self._driven_by}", values) if self._driven_by else (WARN, "no command, stopping", values)
