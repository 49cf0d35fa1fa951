"""The keyboard node: a person drives by the keys of the terminal that the node runs in."""

import sys
import time
from dataclasses import replace
from typing import Any

from lfdm_ros.nodes.manual_control import COMMAND, RATE, ManualControl
from lfdm_ros.ros.component import OK, WARN, Diagnosis, while_active
from lfdm_ros.teleop.hands_on import HELP, KEYBOARD, Command, Keyboard
from lfdm_ros.teleop.terminal import QUIT, Terminal


class KeyboardOperator(ManualControl):
    """Commands of a driver by the keys of the terminal, which is restored when the node ends."""

    NAME = "keyboard"
    PARAMETERS = (RATE, *KEYBOARD.parameters)
    ENDPOINTS = (COMMAND,)

    def configure(self) -> None:
        self._terminal = Terminal().__enter__()
        self._keyboard = Keyboard(KEYBOARD.record(self.value))
        super().configure()

    def activate(self) -> None:
        super().activate()
        self._keyboard = Keyboard(KEYBOARD.record(self.value))
        print(HELP, file=sys.stderr)

    def cleanup(self) -> None:
        self._terminal.restore()

    def parameter_changed(self, name: str, value: Any) -> None:
        if name in KEYBOARD.by_field:
            self._keyboard.settings = replace(self._keyboard.settings, **{name: value})

    def request(self, now: float) -> Command:
        for key in self._terminal.pressed():
            if key == QUIT:
                self.stop_requested("quit")
            self._keyboard.press(now, key)
        return self._keyboard.command(now)

    @while_active
    def diagnose(self) -> Diagnosis:
        command = self.command
        values = {"steering": command.steering, "throttle": command.throttle, "brake": command.brake, "reverse": self._keyboard.reverse}
        engaged = self._keyboard.holds(time.monotonic())
        return (OK, "driving", values) if engaged else (WARN, "no key is pressed: braking", values)
