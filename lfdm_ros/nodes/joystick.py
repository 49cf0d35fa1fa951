"""The joystick node: a person drives by sensor_msgs/Joy."""

import time
from dataclasses import replace
from typing import Any

from sensor_msgs.msg import Joy

from lfdm_ros.nodes.manual_control import COMMAND, RATE, ManualControl
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import OK, WARN, Diagnosis, refusing, while_active
from lfdm_ros.ros.endpoints import subscribes
from lfdm_ros.ros.messages import checked_stamp
from lfdm_ros.teleop.hands_on import JOYSTICK, Command, Joystick


class JoystickOperator(ManualControl):
    """Commands of a driver by `joy`."""

    NAME = "joystick"
    PARAMETERS = (RATE, *JOYSTICK.parameters)
    ENDPOINTS = (subscribes("joy", Joy, qos.SENSOR, "axes and buttons"), COMMAND)

    def configure(self) -> None:
        self._joystick = Joystick(JOYSTICK.record(self.value))
        self.refusals.counts.setdefault("joy", 0)
        self.subscription("joy", self._on_joy)
        super().configure()

    def activate(self) -> None:
        super().activate()
        self._joystick = Joystick(JOYSTICK.record(self.value))  # inputs held before do not count
        self._received = 0

    def parameter_changed(self, name: str, value: Any) -> None:
        if name in JOYSTICK.by_field:
            self._joystick.settings = replace(self._joystick.settings, **{name: value})

    @while_active
    @refusing("joy")
    def _on_joy(self, message: Joy) -> None:
        checked_stamp(message.header.stamp)
        self._joystick.take(time.monotonic(), message.axes, message.buttons)
        self._received += 1

    def request(self, now: float) -> Command | None:
        return self._joystick.command(now)

    @while_active
    def diagnose(self) -> Diagnosis:
        engaged = self._joystick.holds(time.monotonic())
        values = {"messages": self._received, "held": engaged}
        if not self._received:
            return WARN, "nothing yet on joy", values
        return (OK, "driving", values) if engaged else (WARN, "nobody holds the button, or joy has fallen silent", values)
