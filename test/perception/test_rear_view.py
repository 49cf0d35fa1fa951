"""Obstacles of a LIDAR that looks ahead and of one that looks back."""

from dataclasses import replace

import numpy as np
import pytest

from lfdm_ros.perception import ObstacleTracker, TrackerSettings
from lfdm_ros.perception.rear_view import TwoLidars, tracker_of
from lfdm_ros.sensors import Lidar
from lfdm_ros.simulation.world import Circle, Polygon, World
from lfdm_ros.vehicles import Mount

AHEAD, BEHIND = Mount(1.0), Mount(-2.3, yaw=np.pi)


def box(x, y, vx=0.0, vy=0.0):
    return Polygon(np.array([[x - 4.4, y - 0.9], [x, y - 0.9], [x, y + 0.9], [x - 4.4, y + 0.9]]), vx, vy, kind="car")


def drive(obstacles, scans, speed=10.0, settings=None, rear=lambda k: True, late=0.0):
    """What the first alone and both give out after each pair of scans, the second's `late` and where `rear(k)`."""
    world = World(tuple(obstacles))
    lidar, back = Lidar(world, seed=1, mount=AHEAD), Lidar(world, seed=2, mount=BEHIND)
    settings = settings or TrackerSettings()
    alone, both = ObstacleTracker(settings, AHEAD), tracker_of(settings, AHEAD, rear=back)
    assert isinstance(both, TwoLidars)
    history = []
    for k in range(scans):
        now, then = 0.1 * k, 0.1 * k + late
        for tracker in (alone, both):
            tracker.update(lidar.scan(now, speed * now, 0.0, 0.0), speed * now, 0.0, 0.0)
        if rear(k):
            both.rear.update(back.scan(then, speed * then, 0.0, 0.0), speed * then, 0.0, 0.0)
        history.append((alone.obstacles(), both.obstacles()))
    return history


@pytest.mark.parametrize("late", [0.0, 0.05])
@pytest.mark.parametrize("speed", [16.0, 22.0])
def test_what_overtakes_moves_all_along_its_way_past_the_vehicle(speed, late):
    """A car in the next lane, from 40 m behind: also while it comes into the view of the LIDAR ahead, which does not know yet that it
    moves."""
    closing, unknown = speed - 10.0, 0
    for k, (alone, both) in enumerate(drive([box(-40.0, 3.5, speed)], round(300.0 / (speed - 10.0)), late=late)):
        nose = -40.0 + speed * 0.1 * k - 0.1 * k * 10.0
        if k < 8:  # until it has moved by more than its parts
            continue
        near = both.where((np.abs(both.centres[:, 1] - 3.5) < 1.5) & both.moving)
        assert len(near.radii), (k, nose)
        assert near.velocities[:, 0].max() == pytest.approx(speed, abs=4.0), (k, nose)
        assert (np.abs(near.centres[:, 0] - 10.0 * 0.1 * k - nose + 2.2) < 2.2 + near.radii + 1.0 + 0.1 * closing).all(), (k, nose)
        unknown += not alone.moving.any()
        assert both.time == alone.time
    assert unknown > 10  # the LIDAR ahead alone


@pytest.mark.parametrize("closing", [4.0, 8.0, 14.0])
def test_the_lidar_ahead_alone_sees_what_overtakes_when_it_is_beside_the_vehicle(closing):
    """Its nose is at the vehicle's rear end then, 2.4 m behind the position, and it counts as moving 0.6 to 0.8 s later."""
    history = drive([box(-60.0, 3.5, 10.0 + closing)], round(720.0 / closing))
    seen, moves, known = (next(k for k, views in enumerate(history) if found(*views)) for found in (
        lambda alone, both: len(alone.radii), lambda alone, both: alone.moving.any(), lambda alone, both: both.moving.any()))
    assert -60.0 + closing * 0.1 * seen == pytest.approx(-2.9, abs=0.5) and 6 <= moves - seen <= 8 and known <= 4


def test_where_the_lidar_ahead_sees_it_has_the_say():
    """Passing parked cars, posts and a wall: ahead and beside nothing more is given out than without a second one."""
    field = [box(x, y) for x, y in ((20.0, -4.0), (35.0, 5.0), (50.0, -3.5))] + [Circle(x, 6.0, 0.2) for x in (10.0, 18.0, 26.0)]
    field.append(Polygon(np.array([[0.0, -9.0], [80.0, -9.0], [80.0, -8.0], [0.0, -8.0]]), kind="wall"))
    behind = 0
    for k, (alone, both) in enumerate(drive(field, 50)):
        assert not both.moving.any()
        x, y = (both.centres - [10.0 * 0.1 * k + AHEAD.x, 0.0]).T
        ahead = np.abs(np.arctan2(y, x)) < np.radians(135.0) - 0.2
        assert {tuple(centre) for centre in both.centres[ahead]} <= {tuple(centre) for centre in alone.centres}
        assert {tuple(centre) for centre in alone.centres} <= {tuple(centre) for centre in both.centres}
        behind += len(both.radii) - len(alone.radii)
    assert behind > 0


def test_a_second_one_that_stays_out_is_forgotten_and_nothing_else_changes():
    seen = drive([box(-40.0, 3.5, 16.0), Circle(60.0, 0.0, 1.0)], 40, rear=lambda k: k < 15)
    assert [bool(both.moving.any()) for _, both in seen[10:15]] == [True] * 5
    memory = round(10.0 * TrackerSettings().moving_memory)
    assert seen[14 + memory][1].moving.any() and not seen[15 + memory + 1][1].moving.any()
    for alone, both in seen[16 + memory:]:
        assert both.centres.tolist() == alone.centres.tolist()


def test_the_nearest_of_both_are_given_out():
    field = [Circle(x, y, 0.3) for x in (-30.0, -20.0, -10.0, 15.0, 25.0) for y in (-5.0, 5.0)]
    _, both = drive(field, 5, speed=0.0, settings=replace(TrackerSettings(), max_obstacles=5))[-1]
    away = np.hypot(*both.centres.T) - both.radii
    assert len(both.radii) == 5 and (np.diff(away) >= 0.0).all() and (both.centres[:2, 0] < 0.0).all()
    assert len(both.deviations) == len(both.suspected) == len(both.new) == 5 and both.at(2.0).centres == pytest.approx(both.centres)


def test_the_second_view_counts_while_its_scans_come():
    history = [both for _, both in drive([box(-40.0, 0.0, 10.0)], 20, rear=lambda k: 3 <= k < 10)]
    views = [obstacles.second_view is not None for obstacles in history]
    assert not any(views[:3]) and all(views[3:13]) and not any(views[16:])
    assert history[5].second_view == pytest.approx((BEHIND.x, 0.0, np.pi, np.radians(135.0), 100.0), abs=0.02)
