"""The sum of two commands, on which side of an obstacle each passes, and who is chosen."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lfdm_ros.control import Plan
from lfdm_ros.perception import Obstacles
from lfdm_ros.sharing.blend import SideChoice, aligned, blended, opposite, winding
from lfdm_ros.sharing.sharing_settings import SharingSettings
from lfdm_ros.sharing.situation import StampedCommand

QUICK = settings(max_examples=200, deadline=None, derandomize=True)
SIGNED, SHARE = st.floats(-1.0, 1.0), st.floats(0.0, 1.0)
COMMANDS = st.builds(lambda s, t, b: StampedCommand(0.0, s, t, b), SIGNED, SIGNED, SHARE)


def way(*points, vx=10.0, start=0.0):
    """A trajectory through points (x, y) at a speed."""
    xy = np.array(points, float)
    t = start + np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(xy, axis=0).T))]) / vx
    return Plan(("x", "y", "yaw"), t, np.column_stack([xy, np.zeros(len(xy))]), np.zeros((len(xy), 3)))


def seen(*circles, time=0.0):
    table = np.array([(*c, 0.0, 0.0)[:5] for c in circles], float).reshape(-1, 5)
    return Obstacles(table[:, :2], table[:, 2], table[:, 3:], time)


# ---- The sum -----------------------------------------------------------------------------------------------------------------


@QUICK
@given(COMMANDS, COMMANDS, SHARE)
def test_a_blend_is_a_command_between_the_two(a, b, k):
    u = blended(a, b, k, 1.0)  # `StampedCommand` refuses what is out of range
    assert min(a.steering, b.steering) - 1e-12 <= u.steering <= max(a.steering, b.steering) + 1e-12
    assert u.throttle == 0.0 or u.brake == 0.0
    assert min(a.pedal, b.pedal) - 1e-12 <= u.pedal <= max(a.pedal, b.pedal) + 1e-12


def test_the_ends_and_the_middle():
    a, b = StampedCommand(0.0, 0.4, 0.5, 0.0), StampedCommand(0.0, -0.2, 0.0, 0.3)
    assert blended(a, b, 0.0, 1.0).inputs == a.inputs and blended(a, b, 1.0, 1.0).inputs == b.inputs
    assert blended(a, b, 0.5, 1.0).inputs == pytest.approx((0.1, 0.1, 0.0))


def test_forwards_and_backwards_are_not_averaged():
    forward, back = StampedCommand(0.0, 0.0, 0.4), StampedCommand(0.0, 0.0, -0.6)
    assert [blended(forward, back, k, 1.0).throttle for k in (0.4, 0.6)] == [0.4, -0.6]
    assert blended(StampedCommand(0.0, 0.0, 0.0, 0.5), back, 0.5, 1.0).throttle == pytest.approx(-0.05)


def test_autonomys_command_is_moved_on_along_its_plan():
    plan = Plan(("x",), np.array([0.1, 1.1]), np.zeros((2, 1)), np.array([[0.0, 0.5, 0.0], [0.4, 0.3, 0.0]]))
    command = StampedCommand(0.0, 0.01, 0.49)
    assert aligned(command, plan, 0.25, 0.1).inputs == pytest.approx((0.11, 0.44, 0.0))
    braking = StampedCommand(0.0, 0.01, 0.0, 0.5)
    for same, c, p, now in ((True, command, None, 0.25), (True, braking, plan, 0.25), (True, command, plan, 0.0)):
        assert (aligned(c, p, now, 0.1) is c) is same


# ---- Sides -------------------------------------------------------------------------------------------------------------------


def test_winding_of_a_circle():
    angles = np.linspace(0.0, 2.0 * math.pi, 50, endpoint=False)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    assert winding(circle) == 1 and winding(circle[::-1]) == -1 and winding(circle + [1.5, 0.0]) == 0
    assert winding(np.array([[-1.0, 0.0], [1.0, 0.0]])) == 0  # the origin lies on it


LEFT, RIGHT, STRAIGHT = (way((0, 0), (10, 3), (20, 3), (30, 0)), way((0, 0), (10, -3), (20, -3), (30, 0)), way((0, 0), (30, 0.01)))


@pytest.mark.parametrize("a, b, post, apart", [
    (LEFT, RIGHT, (15, 0, 0.5), True), (LEFT, LEFT, (15, 0, 0.5), False), (STRAIGHT, RIGHT, (15, -1, 0.5), True),
    (STRAIGHT, RIGHT, (15, 1, 0.5), False),
    (LEFT, RIGHT, (15, 8, 0.5), False),    # beside both
    (way((0, 0), (10, 3)), way((0, 0), (10, -3)), (15, 0, 0.5), False)])  # neither has passed it yet
def test_sides_of_a_post(a, b, post, apart):
    assert opposite(a, b, 0.0, 5.0, seen(post), 6.0).tolist() == [apart]
    assert opposite(b, a, 0.0, 5.0, seen(post), 6.0).tolist() == [apart]


def test_what_moves_is_passed_where_it_will_be():
    """It comes from the right and is in the middle between the two at 1.5 s only."""
    assert opposite(LEFT, RIGHT, 0.0, 5.0, seen((15.0, -15.0, 0.5, 0.0, 10.0)), 6.0).tolist() == [True]
    assert opposite(LEFT, RIGHT, 0.0, 5.0, seen((15.0, -15.0, 0.5, 0.0, 0.0)), 6.0).tolist() == [False]
    assert opposite(LEFT, RIGHT, 0.0, 5.0, seen((15.0, 0.0, 0.5, 0.0, 10.0)), 6.0).tolist() == [False]


def test_far_away_does_not_count():
    wide = way((0, 0), (10, 30), (20, 30), (30, 0))
    assert not opposite(wide, RIGHT, 0.0, 9.0, seen((15, 10, 0.5)), 6.0).any()
    assert opposite(LEFT, RIGHT, 0.0, 5.0, seen(), 6.0).shape == (0,)


# ---- Who is chosen -----------------------------------------------------------------------------------------------------------


def test_the_choice_is_by_threat_with_hysteresis_and_is_kept_for_a_while():
    s, choice, given = SharingSettings(), SideChoice(), []
    for now, apart, threat in ((0.0, False, 0.9), (0.1, True, 0.1), (0.2, True, 0.45), (0.3, True, 0.6), (0.4, True, 0.3),
                               (0.5, True, 0.1), (0.6, True, math.nan), (0.7, False, 0.3), (1.2, False, 0.3)):
        choice.update(now, apart, threat, 0.4, s)
        given.append(choice.k)
    assert given == [None, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, None]


def test_the_choice_does_not_flicker_with_the_threat():
    """Autonomy's side makes the threat low, and the operator's high again: it goes back once it has been low for a while."""
    s, choice, given = SharingSettings(), SideChoice(), []
    for i in range(40):
        choice.update(0.06 * i, True, (0.9, 0.05)[i % 2], choice.k or 0.0, s)
        given.append(choice.k)
    assert given == [1.0] * 40
    since = 0.06 * 39  # the threat was low then
    kept = [now for now in np.arange(since, since + 1.0, 0.02) if choice.update(now, True, 0.05, 1.0, s) is None and choice.k == 1.0]
    assert kept[-1] - since == pytest.approx(s.sides_hold, abs=0.03) and choice.k == 0.0
    choice.update(since + 1.1, True, 0.9, 0.0, s)
    assert choice.k == 1.0  # at once


def test_who_drives_goes_on_where_the_threat_does_not_decide():
    for k in (0.3, 0.7):
        choice = SideChoice()
        choice.update(0.0, True, 0.3, k, SharingSettings())
        assert choice.k == round(k)
