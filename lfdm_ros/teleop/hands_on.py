"""A person at a joystick or a keyboard: from axes, buttons and keys to a command. Independent of ROS, devices and clocks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lfdm_ros.bounds import MALFORMED, NOT_FINITE, Refused
from lfdm_ros.parameters import Declared, Exposed, setting

Command = tuple[float, float, float]  # steering [-1, 1], throttle [-1, 1], brake [0, 1]

TRIGGERS, STICK = "triggers", "stick"
BRAKE, SILENT = "brake", "silent"


@dataclass(frozen=True)
class JoystickSettings(Declared):
    """Assignment of axes and buttons; the defaults are those of a gamepad under the node joy_node. Raises InputError: a value is out of its
    range."""

    ABOUT = "joystick: "

    steering_axis: int = setting(0, "1", "number of the steering axis, positive to the left", 0, 63)
    steering_reversed: bool = setting(False, "", "that axis is positive to the right")
    steering_share: float = setting(1.0, "1", "steering at the axis' end", 0.05, 1.0, live=True)
    exponent: float = setting(1.5, "1", "above 1: finer around the middle", 1.0, 5.0, live=True)
    dead_zone: float = setting(0.05, "1", "dead zone of an axis around its rest position", 0.0, 0.9, live=True)
    pedals: str = setting(TRIGGERS, "", "triggers: two axes, from 1 at rest to -1; stick: one axis, throttle above 0, brake below",
                          choices=(TRIGGERS, STICK))
    throttle_axis: int = setting(5, "1", "number of the throttle's axis; with stick of both pedals'", 0, 63)
    brake_axis: int = setting(2, "1", "number of the brake's axis; with stick not used", 0, 63)
    largest_throttle: float = setting(1.0, "1", "throttle at the axis' end", 0.05, 1.0, live=True)
    largest_brake: float = setting(1.0, "1", "brake at the axis' end", 0.05, 1.0, live=True)
    hold_button: int = setting(4, "1", "number of the button that must be held to drive (dead man); -1: none", -1, 63)
    reverse_button: int = setting(-1, "1", "number of the button that selects reverse while pressed; -1: none", -1, 63)
    input_timeout: float = setting(0.5, "s", "age of the last message from which the button counts as released; joy_node repeats", 0.02,
                                   10.0)
    released: str = setting(BRAKE, "", "output while it is released: the brake, or nothing, so that others take over",
                            choices=(BRAKE, SILENT))
    released_brake: float = setting(0.4, "1", "brake pedal then", 0.0, 1.0, live=True)


JOYSTICK = Exposed(JoystickSettings)


class Joystick:
    """Command of a joystick's last message, until it times out."""

    def __init__(self, settings: JoystickSettings | None = None) -> None:
        self.settings = settings or JoystickSettings()
        self._requested: Command | None = None  # None: the button is not held
        self._received_at = -math.inf
        self._touched: set[int] = set()  # triggers that have moved: until then a device driver may report 0, half pressed

    def take(self, time: float, axes: Sequence[float], buttons: Sequence[int]) -> None:
        """Processes a message at a time [s]. Raises Refused: it lacks an axis or button in use, or is not finite."""
        s = self.settings
        used = {"steering_axis": s.steering_axis, "throttle_axis": s.throttle_axis}
        used |= {"brake_axis": s.brake_axis} if s.pedals == TRIGGERS else {}
        for name, number in used.items():
            if number >= len(axes):
                raise Refused(f"{name} is {number}, the message has {len(axes)} axes", MALFORMED)
            if not math.isfinite(axes[number]):
                raise Refused(f"axis {number} is {axes[number]}", NOT_FINITE)
        for name, number in (("hold_button", s.hold_button), ("reverse_button", s.reverse_button)):
            if number >= len(buttons):
                raise Refused(f"{name} is {number}, the message has {len(buttons)} buttons", MALFORMED)
        self._received_at = time
        steering = self._shaped(-axes[s.steering_axis] if s.steering_reversed else axes[s.steering_axis])
        if s.pedals == STICK:
            pedal = self._shaped(axes[s.throttle_axis])
            throttle, brake = max(pedal, 0.0), max(-pedal, 0.0)
        else:
            throttle, brake = self._pressed(s.throttle_axis, axes), self._pressed(s.brake_axis, axes)
        if s.reverse_button >= 0 and buttons[s.reverse_button]:
            throttle = -throttle
        is_pressed = s.hold_button < 0 or bool(buttons[s.hold_button])
        self._requested = (s.steering_share * steering, s.largest_throttle * throttle, s.largest_brake * brake) if is_pressed else None

    def holds(self, time: float) -> bool:
        """Checks that the button is held at a time [s]."""
        return self._requested is not None and time - self._received_at <= self.settings.input_timeout

    def command(self, time: float) -> Command | None:
        """Returns the command at a time [s]; None: none."""
        if self.holds(time):
            return self._requested
        return (0.0, 0.0, self.settings.released_brake) if self.settings.released == BRAKE else None

    def _shaped(self, value: float) -> float:
        """Applies dead zone and exponent to an axis [-1, 1]."""
        s = self.settings
        beyond = (min(abs(value), 1.0) - s.dead_zone) / (1.0 - s.dead_zone)
        return math.copysign(max(beyond, 0.0) ** s.exponent, value)

    def _pressed(self, axis: int, axes: Sequence[float]) -> float:
        """Returns the position of a trigger [0, 1]."""
        if axes[axis] != 0.0:
            self._touched.add(axis)
        return max(self._shaped(0.5 * (1.0 - min(max(axes[axis], -1.0), 1.0))), 0.0) if axis in self._touched else 0.0


@dataclass(frozen=True)
class KeyboardSettings(Declared):
    """Effect of keys. A terminal reports key presses, repeated while held, but no releases. Raises InputError: a value is
    out of its range."""

    ABOUT = "keyboard: "

    steering_step: float = setting(0.04, "1", "steering by a press", 0.001, 1.0, live=True)
    centring: float = setting(0.3, "1/s", "rate of centring while no key steers", 0.0, 10.0, live=True)
    throttle_step: float = setting(0.1, "1", "throttle by a press", 0.01, 1.0, live=True)
    brake_step: float = setting(0.2, "1", "brake by a press", 0.01, 1.0, live=True)
    steering_pause: float = setting(0.7, "s", "between the last steering key and centring; longer than the delay of key repeat",
                                    0.0, 10.0)
    key_timeout: float = setting(3.0, "s", "time without any key after which throttle is 0 and the brake applied", 0.1, 60.0)
    timeout_brake: float = setting(0.4, "1", "brake pedal then", 0.0, 1.0, live=True)


KEYBOARD = Exposed(KeyboardSettings)
LEFT, RIGHT, UP, DOWN, STOP, CENTRE, REVERSE = "left", "right", "up", "down", "stop", "centre", "reverse"
HELP = ("arrows or w a s d: throttle, brake, steer; space: stop; c: wheel straight; r: forwards or reverse; q: quit. "
        "Let go of everything, and the vehicle brakes.")


class Keyboard:
    """Command of the pressed keys."""

    def __init__(self, settings: KeyboardSettings | None = None) -> None:
        self.settings = settings or KeyboardSettings()
        self.reverse = False
        self._steering, self._pedal = 0.0, 0.0
        self._time = self._pressed = self._steered = -math.inf

    def press(self, time: float, key: str) -> None:
        """Processes a key at a time [s]; unassigned keys only reset the time-out."""
        self._advance(time)
        s = self.settings
        if time - self._pressed > s.key_timeout:
            self._pedal = 0.0  # the old value has expired
        self._pressed = time
        if key in (LEFT, RIGHT):
            self._steered = time
            self._steering = min(max(self._steering + (s.steering_step if key == LEFT else -s.steering_step), -1.0), 1.0)
        elif key == UP:
            self._pedal = min(self._pedal + s.throttle_step, 1.0) if self._pedal >= 0.0 else 0.0
        elif key == DOWN:
            self._pedal = max(self._pedal - s.brake_step, -1.0) if self._pedal <= 0.0 else 0.0
        elif key == STOP:
            self._pedal = -1.0
        elif key == CENTRE:
            self._steering = 0.0
        elif key == REVERSE:
            self.reverse, self._pedal = not self.reverse, min(self._pedal, 0.0)

    def holds(self, time: float) -> bool:
        """Checks that the time-out has not expired."""
        return time - self._pressed <= self.settings.key_timeout

    def command(self, time: float) -> Command:
        """Returns the command at a time [s]."""
        self._advance(time)
        if not self.holds(time):
            return self._steering, 0.0, max(self.settings.timeout_brake, -self._pedal)
        throttle = max(self._pedal, 0.0)
        return self._steering, -throttle if self.reverse else throttle, max(-self._pedal, 0.0)

    def _advance(self, time: float) -> None:
        """Centres the steering after the pause."""
        since = max(self._time, self._steered + self.settings.steering_pause)
        if time > since > -math.inf:
            back = self.settings.centring * (time - since)
            self._steering = math.copysign(max(abs(self._steering) - back, 0.0), self._steering)
        self._time = max(time, self._time)
