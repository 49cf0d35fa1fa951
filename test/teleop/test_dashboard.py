"""What a person who drives reads: each reading as lines, and lines in their place on a terminal."""

import io
import math
import os
import termios

import pytest

from lfdm_ros.sharing.machine import TABLE, Action, Authority
from lfdm_ros.teleop.dashboard import LONGEST, Reading, Sharing, VehicleMotion, lines
from lfdm_ros.teleop.terminal import Screen


def text(**parts):
    return "\n".join(lines(Reading(**parts)))


def test_what_is_not_known_is_said():
    assert text() == "speed     -            no state of a vehicle yet\nyou ask   nothing\ndrives    -"
    assert "no state for 3 s" in text(motion=VehicleMotion(0.0, 0.0, 0.0, 5.0, 3.0))


def test_motion_command_obstacle_and_pace():
    shown = text(motion=VehicleMotion(12.0, -3.0, math.pi / 2 + math.tau, 10.0, 0.1), command=(-0.5, 0.3, 0.0), driver="you", pace=0.4,
                 slowed_by="this machine", nearest=(7.5, math.radians(12.0)))
    for part in ("10.0 m/s", "36 km/h", "12.0, -3.0 m", "heading 90 deg", "0.40 x (this machine)", "steering 0.50 right", "throttle 0.30",
                 "brake 0.00", "7.5 m to the nearest obstacle, 12 deg left", "drives    you"):
        assert part in shown
    assert " x" not in text(motion=VehicleMotion(0.0, 0.0, 0.0, 1.0, 0.0), pace=1.0)


@pytest.mark.parametrize("steering, place", [(1.0, 0), (0.0, 20), (-1.0, 40)])
def test_the_needle_is_where_the_wheel_is(steering, place):
    bar, = (part for part in text(command=(steering, 0.0, 0.0)).split() if set(part) <= set(".:|") and len(part) > 3)
    assert bar.index("|") == place and len(bar) == 41


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.state} {row.why[:20]}")
def test_who_drives_in_each_state_of_shared_control(row):
    driver = Sharing("blend", row.state, "", 0.35, 0.5).driver
    if row.action in (Action.STOP, Action.EMERGENCY, Action.WAIT):
        assert driver.startswith("nobody")
    else:
        assert driver == {Authority.LAW: "you 65%, autonomy 35%", Authority.OPERATOR: "you", Authority.AUTONOMY: "autonomy"}[row.share]


def test_sharing_says_mode_k_and_why():
    shown = text(sharing=Sharing("blend", "sharing", "a way out", 0.2, 0.1), driver="not shown")
    assert "drives    you 80%, autonomy 20%   mode blend, k 0.20, threat 0.10\n          sharing: a way out" in shown
    assert "not shown" not in shown


def test_the_first_notices_and_how_many_more():
    shown = lines(Reading(notices=tuple(f"notice {i}" for i in range(LONGEST + 2))))[-LONGEST - 1:]
    assert shown[0] == "! notice 0" and shown[-1] == "! and 2 more"


def test_lines_are_written_in_place_and_control_nothing():
    leader, follower = os.openpty()
    with os.fdopen(follower, "w") as stream, os.fdopen(leader, "rb", buffering=0) as terminal:
        screen = Screen(stream)
        screen.show(["one \x1b[2J\a", "x" * 5000])
        shown = terminal.read(8192).decode()
        first, long = shown.removeprefix("\r\x1b[J\r\n").removesuffix("\x1b[2A\r").split("\r\n")
        assert first == "one  [2J " and 10 < len(long) < 5000
        termios.tcflow(stream.fileno(), termios.TCOOFF)  # Ctrl-S
        screen.show(["nobody waits for this"])
        termios.tcflow(stream.fileno(), termios.TCOON)
        screen.clear()
        assert terminal.read(8192).decode() == "\r\x1b[J"


def test_where_there_is_no_terminal_nothing_is_written():
    stream = io.StringIO()
    Screen(stream).show(["one"])
    assert not stream.getvalue()
