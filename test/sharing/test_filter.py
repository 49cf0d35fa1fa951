"""Mode filter: nothing is changed without need, and what goes out has a way out."""

import math

import numpy as np
import pytest

from lfdm_ros.control import Measured, Path
from lfdm_ros.perception import Obstacles
from lfdm_ros.sharing.filter import Filter
from lfdm_ros.sharing.settings import SharingSettings
from lfdm_ros.sharing.situation import Command, Corridor, Situation
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
FILTER = Filter(HMMWV, SharingSettings())


def filtered(vx, asked, obstacles=(), sent=(0.0, 0.3, 0.0), corridor=None, autonomy=None):
    table = np.array([(*c, 0.0, 0.0)[:5] for c in obstacles], float).reshape(-1, 5)
    values = dict.fromkeys(("x", "y", "yaw", "vy", "yaw_rate", "ax", "ay"), 0.0) | {"vx": vx}
    situation = Situation(1.0, HMMWV, Measured(1.0, values), (Command(0.9, *sent),), Command(1.0, *asked), autonomy,
                          obstacles=Obstacles(table[:, :2], table[:, 2], table[:, 3:], 1.0), corridor=corridor)
    FILTER.reset()
    return FILTER.least_change(situation, 0.5)


@pytest.mark.parametrize("obstacles", [(), [(60.0, 0.0, 1.0)], [(15.0, 6.0, 1.0)]])
def test_who_has_a_way_out_is_left_alone(obstacles):
    out = filtered(10.0, (0.03, 0.3, 0.0), obstacles)
    assert out.change == 0.0 and out.command.inputs == (0.03, 0.3, 0.0)


def test_a_post_ahead_takes_the_throttle_or_turns_and_leaves_the_side_to_the_operator():
    assert filtered(12.0, (0.0, 0.5, 0.0), [(14.0, 0.0, 0.5)]).change > 0.0
    for side in (1.0, -1.0):
        out = filtered(14.0, (0.1 * side, 0.5, 0.0), [(17.0, -0.3 * side, 0.5)])
        assert out.admitted and out.change > 0.0 and out.command.steering * side > 0.0


def test_nearer_posts_are_answered_by_larger_changes():
    changes = [filtered(12.0, (0.0, 0.3, 0.0), [(x, 0.0, 0.5)]).change for x in (40.0, 14.0, 12.0)]
    assert changes[0] == 0.0 < changes[1] <= changes[2]


def test_where_nothing_is_left_the_least_bad_goes_out():
    out = filtered(20.0, (0.0, 0.5, 0.0), [(8.0, y, 1.0) for y in (-8.0, -6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0, 8.0)])
    assert not out.admitted and out.command.brake == 0.5


def test_a_corridor_is_kept():
    lane = Corridor(Path(np.array([[-10.0, 0.0], [200.0, 0.0]])), np.array([[0.0, 1.5, 1.5], [210.0, 1.5, 1.5]]))
    assert filtered(12.0, (0.0, 0.3, 0.0), corridor=lane).change == 0.0
    assert filtered(15.0, (0.5, 0.3, 0.0), corridor=lane).command.steering < 0.4


def test_too_much_steering_for_the_tyres_is_reduced():
    out = filtered(22.0, (0.5, 0.3, 0.0))
    assert out.command.steering < 0.5


def test_the_change_is_that_of_a_newer_command_too():
    out = filtered(12.0, (0.0, 0.5, 0.0), [(14.0, 0.0, 0.5)])
    newer = out.over(Command(1.03, 0.02, 0.5), 1.04)
    assert newer.time == 1.04 and newer.steering == pytest.approx(out.command.steering + 0.02)
    assert newer.pedal == pytest.approx(out.command.pedal)


def test_backing_and_standing_are_let_through():
    assert filtered(0.5, (0.0, 0.5, 0.0), [(3.5, 0.0, 0.5)]).change == 0.0
    assert filtered(5.0, (0.0, -0.5, 0.0), [(8.0, 0.0, 0.5)]).change == 0.0


def test_what_is_near_already_may_stay_as_near():
    side = HMMWV.footprint.half_width
    out = filtered(8.0, (0.0, 0.1, 0.0), [(0.0, side + 0.1 + 0.5, 0.5)])
    assert out.admitted and out.change == 0.0 and math.isfinite(out.change)
