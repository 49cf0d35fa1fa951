"""Speeds from which the vehicle can stop for what obstacles may hide."""

import math

import numpy as np
import pytest

from lfdm_ros.control.routing.hidden_traffic import MIN_SPEED, hidden_traffic_speeds
from lfdm_ros.perception.obstacles import NO_OBSTACLES, Obstacles
from lfdm_ros.simulation.path import Path
from lfdm_ros.vehicles import load_vehicle

FOOTPRINT = load_vehicle("hmmwv").footprint
PATH = Path(np.array([[0.0, 0.0], [150.0, 0.0]]))


def van(near=-1.9, begin=30.0, end=36.0, side=True):
    """What is seen of a van at the right: its rear and, where `side`, the side along the road."""
    places = [(begin, near - 0.3 - 0.5 * k) for k in range(4)]
    places += [(x, near - 0.3) for x in np.arange(begin, end + 0.1, 0.5)] if side else []
    return Obstacles(np.array(places), np.full(len(places), 0.3), np.zeros((len(places), 2)), 0.0)


def speeds(obstacles, at=12.0, vx=10.0, assumed=1.5):
    return hidden_traffic_speeds(PATH, at, vx, np.array([at + 1.0, 0.0]), obstacles, FOOTPRINT, assumed, 5.0)


def test_nothing_hidden_is_no_limit():
    assert np.isinf(speeds(NO_OBSTACLES)).all()
    assert np.isinf(speeds(van(near=-9.0))).all()  # on foot nobody comes as far as the path in time


def test_the_vehicle_can_stop_before_the_end_of_what_hides():
    found = speeds(van())
    limited = np.flatnonzero(np.isfinite(found))
    end = PATH.s[limited[-1]]
    assert 36.0 < end + FOOTPRINT.front < 39.5  # nobody comes through the side that is seen
    assert found[limited[-1]] == MIN_SPEED
    front = PATH.s + FOOTPRINT.front
    before = (front > 15.0) & (front < 34.0)
    assert (found[before] ** 2 / 10.0 <= 36.5 + 3.0 - front[before]).all()
    assert (np.diff(found[limited]) <= 1e-9).all()


def test_an_unseen_side_hides_as_well():
    end = {side: PATH.s[np.flatnonzero(np.isfinite(speeds(van(side=side))))[-1]] for side in (True, False)}
    assert end[False] < end[True] - 3.0


@pytest.mark.parametrize("near", [-1.9, -3.0, -5.0])
def test_faster_traffic_allows_less(near):
    slow, fast = (speeds(van(near), assumed=assumed) for assumed in (0.2, 6.0))
    assert (fast <= slow + 1e-9).all() and np.isfinite(fast).sum() > np.isfinite(slow).sum()


def test_a_vehicle_that_passes_before_they_can_be_there_is_not_slowed():
    there = speeds(van(near=-3.5), at=30.0, vx=14.0)
    slow = speeds(van(near=-3.5), at=30.0, vx=3.0)
    assert math.isinf(there.min()) and math.isfinite(slow.min())
