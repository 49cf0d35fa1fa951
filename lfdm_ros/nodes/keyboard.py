"""The keyboard node: a person drives by the keys of the terminal that the node runs in."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any

from lfdm_ros.msg import DriverCommand
from lfdm_ros.nodes.joystick import RATE
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import OK, WARN, Component, Diagnosis
from lfdm_ros.ros.endpoints import publishes
from lfdm_ros.ros.parameters import of_record
from lfdm_ros.ros.runtime import run_node
from lfdm_ros.teleop.hands_on import HELP, KEYBOARD, Keyboard
from lfdm_ros.teleop.terminal import QUIT, Terminal


class KeyboardOperator(Component):
    """Publishes `teleop/command`, stamped by the node's clock, from the keys of its terminal, which is as before when the node ends.

    Free running only. Remappings: as those of the joystick.
    """

    NAME = "keyboard"
    PARAMETERS = (RATE, *of_record(KEYBOARD))
    ENDPOINTS = (publishes("teleop/command", DriverCommand, qos.COMMAND, "what the operator does", sole=True),)

    def configure(self) -> None:
        self._terminal = Terminal().__enter__()
        self._keyboard = Keyboard(KEYBOARD.record(self.value))
        self._command = DriverCommand()
        self._publisher = self.publisher("teleop/command")
        self._timer = self.every(1.0 / self.value("rate"), self._publish)

    def activate(self) -> None:
        self._keyboard = Keyboard(KEYBOARD.record(self.value))
        print(HELP, file=sys.stderr)

    def cleanup(self) -> None:
        self._terminal.restore()
        self.destroy_timer(self._timer)

    def parameter_changed(self, name: str, value: Any) -> None:
        if name in KEYBOARD.by_field:
            self._keyboard.settings = replace(self._keyboard.settings, **{name: value})

    def _publish(self) -> None:
        if self.state != "active":
            return
        now = time.monotonic()
        for key in self._terminal.pressed():
            if key == QUIT:
                self.stop_requested("quit")
            self._keyboard.press(now, key)
        self._command.header.stamp = self.stamp()
        self._command.steering, self._command.throttle, self._command.brake = self._keyboard.command(now)
        self._publisher.publish(self._command)

    def diagnose(self) -> Diagnosis:
        if self.state != "active":
            return OK, self.state, {}
        command = self._command
        values = {"steering": command.steering, "throttle": command.throttle, "brake": command.brake, "reverse": self._keyboard.reverse}
        held = self._keyboard.holds(time.monotonic())
        return (OK, "driving", values) if held else (WARN, "no key is pressed: braking", values)


def main() -> int:
    """Runs the node in a process of its own."""
    return run_node(KeyboardOperator)


if __name__ == "__main__":
    sys.exit(main())
