"""The link of a bridge whose device is a ROS node: `measured/state` out, `control/command` in."""

from __future__ import annotations

import struct
import threading
from array import array
from collections import deque
from collections.abc import Callable

from lfdm_ros.hil.link import COMMANDS, SIGNALS, WHEEL_SPEEDS, Packet, Wire
from lfdm_ros.models import WHEELS
from lfdm_ros.msg import DriverCommand, VehicleState
from lfdm_ros.ros.messages import nanoseconds, set_stamp, unmeasured

_SCALARS = tuple(name for name in SIGNALS if name not in WHEEL_SPEEDS)
_ROOM = 1000  # commands that may wait


def fill_signals(message: VehicleState, packet: Packet) -> None:
    """Puts signals into a state; the rest stays as it is."""
    set_stamp(message.header.stamp, packet.stamp_ns)
    for name in _SCALARS:
        setattr(message, name, packet.values[name])
    speeds = [packet.values[name] for name in WHEEL_SPEEDS]
    message.wheel_speeds[:] = speeds
    message.speed_by_wheel = array("d", speeds)


def signals_message(frame: str, body: str) -> VehicleState:
    """A state with nothing in it but its frames."""
    message = unmeasured()
    message.header.frame_id, message.child_frame_id, message.wheel_names = frame, body, list(WHEELS)
    return message


class RosLink:
    """The vehicle's end. Its messages have no checksum: a bit error is in a value."""

    def __init__(self, publish: Callable[[VehicleState], None], message: VehicleState) -> None:
        self.wire = Wire()
        self._publish, self._message = publish, message
        self._commands: deque[Packet] = deque(maxlen=_ROOM)
        self._come = threading.Condition()
        self._signals, self._inputs = struct.Struct(f"{len(SIGNALS)}d"), struct.Struct(f"{len(COMMANDS)}d")

    def open(self) -> None:
        self._commands.clear()

    def close(self) -> None:
        with self._come:
            self._come.notify_all()

    def send(self, packet: Packet) -> bool:
        data = bytearray(self._signals.pack(*(packet.values[name] for name in SIGNALS)))
        self.wire.sent += 1
        if self.wire.outwards(SIGNALS, data):
            fill_signals(self._message, Packet(packet.stamp_ns, dict(zip(SIGNALS, self._signals.unpack(data)))))
            self._publish(self._message)
        return True

    def on_command(self, command: DriverCommand) -> None:
        """A command has come, in any thread."""
        data = bytearray(self._inputs.pack(command.steering, command.throttle, command.brake))
        if not self.wire.inwards(COMMANDS, data):
            return
        self.wire.received += 1
        with self._come:
            self._commands.append(Packet(nanoseconds(command.header.stamp), dict(zip(COMMANDS, self._inputs.unpack(data)))))
            self._come.notify_all()

    def receive(self, timeout: float) -> Packet | None:
        with self._come:
            if not self._commands and timeout > 0.0:
                self._come.wait(timeout)
            return self._commands.popleft() if self._commands else None
