"""The joystick node: a person drives by sensor_msgs/Joy."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any

from sensor_msgs.msg import Joy

from lfdm_ros.bounds import refusal
from lfdm_ros.errors import InputError
from lfdm_ros.msg import DriverCommand
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import OK, WARN, Component, Diagnosis
from lfdm_ros.ros.endpoints import hears, publishes
from lfdm_ros.ros.messages import nanoseconds
from lfdm_ros.ros.parameters import Parameter, of_record
from lfdm_ros.ros.runtime import run_node
from lfdm_ros.teleop.hands_on import JOYSTICK, Joystick

RATE = Parameter("rate", 50.0, "commands a second of the wall clock", 1.0, 1000.0, unit="Hz")


class JoystickOperator(Component):
    """Publishes `teleop/command`, stamped by the node's clock, from what is held on `joy`. Free running only: a person has his own clock.

    Without a link in between: remap `teleop/command` to `operator/command`, or to `control/command` to drive the vehicle alone.
    """

    NAME = "joystick"
    PARAMETERS = (RATE, *of_record(JOYSTICK))
    ENDPOINTS = (
        hears("joy", Joy, qos.SENSOR, "what is held"),
        publishes("teleop/command", DriverCommand, qos.COMMAND, "what the operator does", sole=True),
    )

    def configure(self) -> None:
        self._joystick = Joystick(JOYSTICK.record(self.value))
        self.refusals.counts.setdefault("joy", 0)
        self._command = DriverCommand()
        self._publisher = self.publisher("teleop/command")
        self.subscription("joy", self._on_joy)
        self._timer = self.every(1.0 / self.value("rate"), self._publish)

    def activate(self) -> None:
        self._joystick = Joystick(JOYSTICK.record(self.value))  # what was held before does not count
        self._received = 0

    def cleanup(self) -> None:
        self.destroy_timer(self._timer)

    def parameter_changed(self, name: str, value: Any) -> None:
        if name in JOYSTICK.by_field:
            self._joystick.settings = replace(self._joystick.settings, **{name: value})

    def _on_joy(self, message: Joy) -> None:
        if self.state != "active":
            return
        try:
            if (wrong := refusal("stamp", 1e-9 * nanoseconds(message.header.stamp))) is not None:
                raise wrong
            self._joystick.take(time.monotonic(), message.axes, message.buttons)
            self._received += 1
        except InputError as error:
            self.refusals.refuse("joy", error)

    def _publish(self) -> None:
        if self.state != "active":
            return
        asked = self._joystick.command(time.monotonic())
        if asked is not None:
            self._command.header.stamp = self.stamp()
            self._command.steering, self._command.throttle, self._command.brake = asked
            self._publisher.publish(self._command)

    def diagnose(self) -> Diagnosis:
        if self.state != "active":
            return OK, self.state, {}
        held = self._joystick.holds(time.monotonic())
        values = {"messages": self._received, "held": held}
        if not self._received:
            return WARN, "nothing yet on joy", values
        return (OK, "driving", values) if held else (WARN, "nobody holds the button, or joy has fallen silent", values)


def main() -> int:
    """Runs the node in a process of its own."""
    return run_node(JoystickOperator)


if __name__ == "__main__":
    sys.exit(main())
