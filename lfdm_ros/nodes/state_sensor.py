"""The state sensor node: measures the vehicle's state with white noise, as calibration recordings do (paper 000 section 3.1)."""

from __future__ import annotations

import math
from array import array

import numpy as np
from builtin_interfaces.msg import Time
from nav_msgs.msg import Odometry
from sensor_msgs.msg import Imu, NavSatFix, NavSatStatus

from lfdm_ros.models import WHEELS
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.msg import VehicleState
from lfdm_ros.ros import messages, qos
from lfdm_ros.ros.component import OK, WARN, Component, Diagnosis, refusing, while_active
from lfdm_ros.ros.endpoints import When, publishes, subscribes
from lfdm_ros.ros.parameters import Parameter
from lfdm_ros.ros.topics import RateLimiter
from lfdm_ros.sensors import Datum, specific_force

_NOISE = "noise_"
_CHANNELS = {"x": "m", "y": "m", "roll": "rad", "pitch": "rad", "yaw": "rad", "vx": "m/s", "vy": "m/s", "ax": "m/s^2", "ay": "m/s^2",
             "roll_rate": "rad/s", "pitch_rate": "rad/s", "yaw_rate": "rad/s", "wheel_speeds": "rad/s"}
# Channels of the fields of standard messages; None: not measured.
_POSE = ("x", "y", None, "roll", "pitch", "yaw")
_TWIST = ("vx", "vy", None, "roll_rate", "pitch_rate", "yaw_rate")
_ATTITUDE, _GYRO, _ACCELEROMETER = _POSE[3:], _TWIST[3:], ("ax", "ay", None)


def _measures(quantity: str, *channels: str | None) -> When:
    return When(f"noise of {quantity}", lambda value: any(value(_NOISE + name) > 0.0 for name in channels if name))


class StateSensor(Component):
    """A sensor that publishes `measured/state` for each `vehicle/state`: the channels that have noise, with it; NaN for the others.

    The same measurement, number by number, is in the corresponding fields of `measured/odom`, `measured/imu` and `gnss/fix`; their
    covariances are those of the noise, and UNKNOWN for what is not measured. The noise depends on the seed and on the number of states
    since activation alone, so a lockstep run repeats to the bit.
    """

    NAME = "state_sensor"
    PARAMETERS = (
        Parameter("seed", 1, "seed of the noise", 0, 2**31),
        *(Parameter(_NOISE + name, 0.0, f"standard deviation of {name}; 0: not measured", 0.0, 1e6, unit=unit)
          for name, unit in _CHANNELS.items()),
        Parameter("gnss_latitude", 48.0, "of the origin of the plane that is driven on, WGS 84; x points to the east", -89.9, 89.9,
                  unit="deg"),
        Parameter("gnss_longitude", 11.0, "of the origin", -180.0, 180.0, unit="deg"),
        Parameter("gnss_altitude", 0.0, "of the origin, above the ellipsoid", -1000.0, 1e5, unit="m"),
        Parameter("gnss_rate", 10.0, "fixes a second, of states that measure x and y; 0: none", 0.0, 1000.0, unit="Hz"),
    )
    ENDPOINTS = (
        subscribes("vehicle/state", VehicleState, qos.STATE, "the state to measure"),
        publishes("measured/state", VehicleState, qos.STATE, "the channels that have noise, with it"),
        publishes("measured/odom", Odometry, qos.STATE, "pose and velocity of these", when=_measures("pose or velocity", *_POSE, *_TWIST)),
        publishes("measured/imu", Imu, qos.STATE, "attitude, rates and accelerations of these",
                  when=_measures("attitude, rates or accelerations", *_ATTITUDE, *_GYRO, *_ACCELEROMETER)),
        publishes("gnss/fix", NavSatFix, qos.STATE, "position of these",
                  when=When("noise of x and y, `gnss_rate`", lambda value: min(
                      value(f"{_NOISE}x"), value(f"{_NOISE}y"), value("gnss_rate")) > 0.0)),
    )

    def configure(self) -> None:
        self._sigmas = {name: self.value(_NOISE + name) for name in _CHANNELS if self.value(_NOISE + name) > 0.0}
        self._message = messages.unmeasured()
        self._odometry = Odometry()
        self._odometry.pose.covariance, self._odometry.twist.covariance = self._covariance(_POSE), self._covariance(_TWIST)
        self._imu = Imu()
        self._imu.header.frame_id = messages.BODY_FRAME  # a state's accelerations are those of the position point
        self._imu.orientation_covariance = self._covariance(_ATTITUDE)
        self._imu.angular_velocity_covariance = self._covariance(_GYRO)
        self._imu.linear_acceleration_covariance = self._covariance(_ACCELEROMETER)
        self._fix = NavSatFix(position_covariance=self._covariance(_POSE[:3]),
                              position_covariance_type=NavSatFix.COVARIANCE_TYPE_DIAGONAL_KNOWN)
        self._fix.header.frame_id = messages.BODY_FRAME
        self._fix.status.status, self._fix.status.service = NavSatStatus.STATUS_FIX, NavSatStatus.SERVICE_GPS
        self._datum = Datum(*(self.value(f"gnss_{name}") for name in ("latitude", "longitude", "altitude")))
        # A topic without publishers means that the vehicle has no such sensor.
        self._publisher, self._odometry_publisher, self._imu_publisher, self._fix_publisher = (
            self.publisher(topic) for topic in ("measured/state", "measured/odom", "measured/imu", "gnss/fix"))
        self.subscription("vehicle/state", self._on_state)

    def _covariance(self, channels: tuple[str | None, ...]) -> array[float]:
        return messages.diagonal([self._sigmas[name] ** 2 if name in self._sigmas else messages.UNKNOWN for name in channels])

    def activate(self) -> None:
        self._random = np.random.default_rng(self.value("seed"))
        self._measured = 0
        self._fixes = RateLimiter(self.value("gnss_rate"))

    @while_active
    @refusing("state")
    def _on_state(self, state: VehicleState) -> None:
        messages.check_state(state)
        self._stamp = state.header.stamp
        message, self._measured = self._message, self._measured + 1
        message.header, message.child_frame_id, message.gear = state.header, state.child_frame_id, state.gear
        for name, sigma in self._sigmas.items():
            if name == "wheel_speeds":
                self._measure_wheels(message, state, sigma)
            else:
                setattr(message, name, getattr(state, name) + sigma * self._random.standard_normal())
        if self._odometry_publisher is not None:
            self._odometry_publisher.publish(self._fill_odometry())
        if self._imu_publisher is not None:
            self._imu_publisher.publish(self._fill_imu(state))
        if self._fix_publisher is not None and self._fixes.admit(messages.nanoseconds(self._stamp)):
            fix = self._fix
            fix.header.stamp = self._stamp
            fix.latitude, fix.longitude, fix.altitude = self._datum.geodetic(message.x, message.y)
            self._fix_publisher.publish(fix)
        self._publisher.publish(message)  # last, as its answer starts the next tick in lockstep

    def _measure_wheels(self, message: VehicleState, state: VehicleState, sigma: float) -> None:
        """Measures the wheels' speeds; those of a car's four wheels are measured once."""
        errors = dict(zip(WHEELS, sigma * self._random.standard_normal(len(WHEELS))))
        message.wheel_speeds[:] = state.wheel_speeds + list(errors.values())
        message.wheel_names = state.wheel_names
        message.speed_by_wheel = array("d", [
            speed + (errors[wheel] if wheel in errors else sigma * self._random.standard_normal())
            for wheel, speed in zip(state.wheel_names, state.speed_by_wheel)])

    def _measured_values(self, channels: tuple[str | None, ...]) -> list[float]:
        """Returns the measured values; 0 for the rest, whose variance is UNKNOWN."""
        values = (math.nan if name is None else getattr(self._message, name) for name in channels)
        return [value if value == value else 0.0 for value in values]

    def _fill_odometry(self) -> Odometry:
        odometry, pose, twist = self._odometry, self._measured_values(_POSE), self._measured_values(_TWIST)
        odometry.header, odometry.child_frame_id = self._message.header, self._message.child_frame_id
        messages.set_fields(odometry.pose.pose.position, "xyz", pose[:3])
        messages.set_fields(odometry.pose.pose.orientation, "xyzw", messages.quaternion(*pose[3:]))
        messages.set_fields(odometry.twist.twist.linear, "xyz", twist[:3])
        messages.set_fields(odometry.twist.twist.angular, "xyz", twist[3:])
        return odometry

    def _fill_imu(self, state: VehicleState) -> Imu:
        """Fills the IMU's message: the accelerometer leans with the body, measured or not, and the noise adds to its specific force."""
        imu, message = self._imu, self._message
        imu.header.stamp = self._stamp
        messages.set_fields(imu.orientation, "xyzw", messages.quaternion(*self._measured_values(_ATTITUDE)))
        messages.set_fields(imu.angular_velocity, "xyz", self._measured_values(_GYRO))
        felt = specific_force(state.ax, state.ay, *(value if value == value else 0.0 for value in (state.roll, state.pitch)))
        along, across = (force + noisy - true if noisy == noisy else 0.0 for force, noisy, true in zip(
            felt, (message.ax, message.ay), (state.ax, state.ay)))
        messages.set_fields(imu.linear_acceleration, "xyz", (along, across, GRAVITY))
        return imu

    _stamp = Time()

    def stamp(self) -> Time:
        """Returns the stamp of the last state; this node keeps no clock."""
        return self._stamp

    @while_active
    def diagnose(self) -> Diagnosis:
        values = {"measured": self._measured, "channels": ", ".join(self._sigmas)}
        measures = self.increase("measured", self._measured)
        return (OK, "measuring", values) if measures else (WARN, "no vehicle/state in the last second", values)
