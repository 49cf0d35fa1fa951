"""Joystick and keyboard: what goes out for what is held, pressed, let go and lost."""

import math
import os
import signal
import subprocess
import sys
import termios

import pytest

from lfdm_ros.bounds import Refused
from lfdm_ros.errors import InputError
from lfdm_ros.teleop.hands_on import (
    CENTRE,
    DOWN,
    LEFT,
    REVERSE,
    RIGHT,
    SILENT,
    STICK,
    STOP,
    UP,
    Joystick,
    JoystickSettings,
    Keyboard,
    KeyboardSettings,
)
from lfdm_ros.teleop.terminal import QUIT, Terminal

HELD = [0, 0, 0, 0, 1]


def axes(steering=0.0, throttle=1.0, brake=1.0):
    """Of a gamepad: triggers from 1 at rest to -1."""
    return [steering, 0.0, brake, 0.0, 0.0, throttle]


def test_a_gamepad_steers_and_presses_while_its_button_is_held():
    it = Joystick(JoystickSettings(exponent=1.0, dead_zone=0.0))
    it.take(0.0, axes(0.5, throttle=0.0), HELD)
    assert it.command(0.0) == (0.5, 0.0, 0.0)  # a trigger that says 0 has not been touched yet
    it.take(0.1, axes(0.5, throttle=-0.2, brake=0.99), HELD)
    assert it.command(0.1) == pytest.approx((0.5, 0.6, 0.005))
    it.take(0.2, axes(0.5, throttle=-0.2), [0] * 5)
    assert it.command(0.2) == (0.0, 0.0, 0.4) and not it.holds(0.2)


def test_a_gamepad_that_falls_silent_is_let_go():
    for released, expected in ((SILENT, None), ("brake", (0.0, 0.0, 0.4))):
        it = Joystick(JoystickSettings(released=released))
        assert it.command(0.0) == expected
        it.take(0.0, axes(), HELD)
        assert it.command(0.5) == (0.0, 0.0, 0.0) and it.command(0.51) == expected


def test_dead_zone_exponent_and_shares():
    it = Joystick(JoystickSettings(dead_zone=0.2, exponent=2.0, steering_share=0.5, steering_reversed=True))
    for value, steering in ((0.1, 0.0), (0.6, -0.5 * 0.25), (-1.0, 0.5), (-7.0, 0.5)):
        it.take(0.0, axes(value), HELD)
        assert it.command(0.0)[0] == pytest.approx(steering)
    it = Joystick(JoystickSettings(pedals=STICK, throttle_axis=1, reverse_button=0, hold_button=-1, dead_zone=0.0, exponent=1.0,
                                   largest_throttle=0.5))
    for push, button, command in ((0.8, 0, (0.0, 0.4, 0.0)), (0.8, 1, (0.0, -0.4, 0.0)), (-0.3, 0, (0.0, 0.0, 0.3))):
        it.take(0.0, [0.0, push], [button])
        assert it.command(0.0) == pytest.approx(command)


@pytest.mark.parametrize("given, buttons, words", [
    ([0.0], HELD, "throttle_axis is 5, the message has 1 axes"), (axes(), [1], "hold_button is 4, the message has 1 buttons"),
    (axes(math.nan), HELD, "axis 0 is nan")])
def test_a_message_that_does_not_fit_is_refused_and_changes_nothing(given, buttons, words):
    it = Joystick()
    it.take(0.0, axes(1.0), HELD)
    with pytest.raises(Refused, match=words):
        it.take(0.4, given, buttons)
    assert it.holds(0.5) and not it.holds(0.6)


def test_keys_add_up_and_the_steering_goes_back():
    it = Keyboard(KeyboardSettings(steering_step=0.1, centring=0.2, steering_pause=0.5))
    for k in range(3):
        it.press(0.1 * k, LEFT)
    assert it.command(0.2)[0] == pytest.approx(0.3) == it.command(0.7)[0]
    assert it.command(1.2)[0] == pytest.approx(0.2) and it.command(5.0)[0] == 0.0
    it.press(5.0, RIGHT)
    it.press(5.0, CENTRE)
    assert it.command(5.0)[0] == 0.0


def test_pedals_exclude_each_other_and_nobody_there_brakes():
    it = Keyboard()
    assert it.command(0.0) == (0.0, 0.0, 0.4)
    for key in (UP, UP):
        it.press(0.0, key)
    assert it.command(0.0) == pytest.approx((0.0, 0.2, 0.0))
    it.press(0.1, DOWN)  # off the throttle first
    assert it.command(0.1) == (0.0, 0.0, 0.0)
    it.press(0.2, DOWN)
    assert it.command(0.2) == pytest.approx((0.0, 0.0, 0.2))
    assert it.command(3.3) == pytest.approx((0.0, 0.0, 0.4))
    it.press(4.0, "x")
    assert it.command(4.0) == (0.0, 0.0, 0.0)
    it.press(4.1, UP)
    it.press(4.2, REVERSE)
    it.press(4.3, UP)
    assert it.command(4.3) == pytest.approx((0.0, -0.1, 0.0))
    it.press(4.4, STOP)
    assert it.command(4.4) == (0.0, 0.0, 1.0)


# ---- The terminal ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def pty():
    leader, follower = os.openpty()
    yield leader, follower
    for number in (leader, follower):
        os.close(number)


def modes(number):
    return termios.tcgetattr(number)[3] & (termios.ICANON | termios.ECHO)


def test_keys_come_one_by_one_and_the_terminal_is_as_before(pty):
    leader, follower = pty
    before = modes(follower)
    with os.fdopen(os.dup(follower)) as stream, Terminal(stream) as terminal:
        assert modes(follower) == 0 != before
        os.write(leader, b"w\x1b[Da\x1b[")
        assert terminal.pressed() == [UP, LEFT, LEFT]
        os.write(leader, b"Cz ")
        assert terminal.pressed() == [RIGHT, "z", STOP]
        os.write(leader, b"\x1b")
        assert terminal.pressed() == [] and terminal.pressed() == ["\x1b"]
        os.write(leader, b"Q")
        assert terminal.pressed() == [QUIT]
    assert modes(follower) == before


def test_without_a_terminal_it_says_so(tmp_path):
    (tmp_path / "keys").write_text("w")
    with open(tmp_path / "keys") as stream, pytest.raises(InputError, match="no terminal"):
        Terminal(stream).__enter__()


# Short sleeps: a signal that comes just before one is looked at after it. The handler: tests run in the background too, where a shell has
# Ctrl-C ignored.
ENDS = {"error": "raise RuntimeError('a bug')", "interrupt": """
signal.signal(signal.SIGINT, signal.default_int_handler)
print('up', flush=True)
while True:
    time.sleep(0.05)
"""}


@pytest.mark.parametrize("end", ENDS)
def test_the_terminal_is_as_before_whatever_the_end(pty, end):
    _, follower = pty
    before = modes(follower)
    code = f"import signal, time\nfrom lfdm_ros.teleop.terminal import Terminal\nTerminal().__enter__()\n{ENDS[end]}"
    with subprocess.Popen([sys.executable, "-c", code], stdin=follower, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        if end == "interrupt":
            assert process.stdout.readline() == b"up\n" and modes(follower) == 0
            process.send_signal(signal.SIGINT)
        process.wait(240.0)
    assert modes(follower) == before
