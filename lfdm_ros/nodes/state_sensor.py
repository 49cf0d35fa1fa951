"""The state sensor node: measures the vehicle's state with white noise, as calibration recordings do (paper 000 section 3.1)."""

from __future__ import annotations

from array import array

import numpy as np
from builtin_interfaces.msg import Time

from lfdm_ros.errors import InputError
from lfdm_ros.models import WHEELS
from lfdm_ros.msg import VehicleState
from lfdm_ros.nodes import qos
from lfdm_ros.nodes.component import OK, WARN, Component, Diagnosis
from lfdm_ros.nodes.messages import check_state, unmeasured
from lfdm_ros.nodes.parameters import Parameter
from lfdm_ros.nodes.runtime import run_node

_NOISE = "noise_"
_CHANNELS = {"x": "m", "y": "m", "roll": "rad", "yaw": "rad", "vx": "m/s", "vy": "m/s", "ax": "m/s^2", "ay": "m/s^2",
             "roll_rate": "rad/s", "yaw_rate": "rad/s", "wheel_speeds": "rad/s"}


class StateSensor(Component):
    """Publishes `measured/state` for each `vehicle/state`: the channels that have noise, with it; NaN for the others.

    The noise depends on the seed and on the number of states since activation alone, so a lockstep run repeats to the bit.
    """

    NAME = "state_sensor"
    PARAMETERS = (
        Parameter("seed", 1, "seed of the noise", 0, 2**31),
        *(Parameter(_NOISE + name, 0.0, f"standard deviation of {name}; 0: not measured", 0.0, 1e6, unit=unit)
          for name, unit in _CHANNELS.items()),
    )

    def configure(self) -> None:
        self._sigmas = {name: self.value(_NOISE + name) for name in _CHANNELS if self.value(_NOISE + name) > 0.0}
        self._message = unmeasured()
        self._publisher = self.create_lifecycle_publisher(VehicleState, "measured/state", qos.STATE)
        self._subscription = self.create_subscription(VehicleState, "vehicle/state", self._on_state, qos.STATE)

    def activate(self) -> None:
        self._random = np.random.default_rng(self.value("seed"))
        self._measured = self._measured_before = 0

    def cleanup(self) -> None:
        self.destroy_subscription(self._subscription)
        self.destroy_lifecycle_publisher(self._publisher)

    def _on_state(self, state: VehicleState) -> None:
        if self.state != "active":
            return
        try:
            check_state(state)
        except InputError as error:
            self.refusals.refuse("state", error)
            return
        self._stamp = state.header.stamp
        message, self._measured = self._message, self._measured + 1
        message.header, message.child_frame_id, message.gear = state.header, state.child_frame_id, state.gear
        for name, sigma in self._sigmas.items():
            if name == "wheel_speeds":
                self._measure_wheels(message, state, sigma)
            else:
                setattr(message, name, getattr(state, name) + sigma * self._random.standard_normal())
        self._publisher.publish(message)

    def _measure_wheels(self, message: VehicleState, state: VehicleState, sigma: float) -> None:
        """The spins; a wheel that is one of a car's four is measured once."""
        errors = dict(zip(WHEELS, sigma * self._random.standard_normal(len(WHEELS))))
        message.wheel_speeds[:] = state.wheel_speeds + list(errors.values())
        message.wheel_names = state.wheel_names
        message.speed_by_wheel = array("d", [
            speed + (errors[wheel] if wheel in errors else sigma * self._random.standard_normal())
            for wheel, speed in zip(state.wheel_names, state.speed_by_wheel)])

    _stamp = Time()

    def stamp(self) -> Time:
        """Of the last state: this node keeps no clock."""
        return self._stamp

    def diagnose(self) -> Diagnosis:
        if self.state != "active":
            return OK, self.state, {}
        silent = self._measured == self._measured_before
        self._measured_before = self._measured
        values = {"measured": self._measured, "channels": ", ".join(self._sigmas)}
        return (WARN, "no vehicle/state in the last second", values) if silent else (OK, "measuring", values)


def main() -> int:
    """Runs the node in a process of its own."""
    return run_node(StateSensor)
