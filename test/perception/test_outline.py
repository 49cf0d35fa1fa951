"""Headings of outlines, and what turns, by scans of known worlds."""

import math
from dataclasses import replace

import numpy as np
import pytest

from lfdm_ros.perception.outline import outline_heading
from lfdm_ros.perception.tracker import ObstacleTracker
from lfdm_ros.sensors import Lidar, LidarSettings
from lfdm_ros.simulation.world import Circle, MotionStep, Polygon, World

CORNERS = np.array([[2.2, 0.9], [-2.2, 0.9], [-2.2, -0.9], [2.2, -0.9]])
SPEED, RATE, BEGINS = 8.0, 0.6, 1.5  # [m/s], [rad/s], [s]


def car(x, y, yaw, **motion):
    turn = np.array([[math.cos(yaw), math.sin(yaw)], [-math.sin(yaw), math.cos(yaw)]])
    return Polygon(CORNERS @ turn + [x, y], kind="car", **motion)


def returns(thing, seed):
    """Places (m, 2) [m] where beams of a LIDAR at the origin end."""
    scan = Lidar(World((thing,)), LidarSettings(), seed).scan(0.0, 0.0, 0.0, 0.0)
    beams = np.flatnonzero(np.isfinite(scan.ranges) & (scan.ranges <= scan.range_max))
    angles = scan.angle_min + scan.angle_increment * beams
    return scan.ranges[beams, None] * np.column_stack([np.cos(angles), np.sin(angles)])


def test_headings_of_cars_are_as_exact_as_they_say():
    random, errors, unseen = np.random.default_rng(1), [], 0
    for seed in range(200):
        x, y, yaw = random.uniform([8.0, -15.0, -math.pi], [35.0, 15.0, math.pi])
        heading, sd = outline_heading(returns(car(x, y, yaw), seed))
        if math.isinf(sd):
            unseen += 1
        else:
            errors.append([math.remainder(heading - yaw, 0.5 * math.pi), sd])
    error, sd = np.array(errors).T
    assert unseen < 20 and sd.max() < 0.1
    assert np.quantile(np.abs(error), 0.95) < 0.05 and 0.3 < np.sqrt(np.mean((error / sd) ** 2)) < 2.0


@pytest.mark.parametrize("thing", [Circle(15.0, 0.0, 0.3), car(90.0, 0.0, 0.0)])
def test_no_side_is_seen_of_what_is_small_or_far(thing):
    assert outline_heading(returns(thing, 1)) == (0.0, math.inf)


def course(time, ends):
    """Place [m] and course [rad] of a car that drives along y, and turns to the left from BEGINS until `ends` [s]."""
    turned = RATE * min(max(time - BEGINS, 0.0), ends - BEGINS)
    heading, radius = -0.5 * math.pi + turned, SPEED / RATE
    x, y = 22.0 + radius * (1.0 - math.cos(turned)), 16.0 - SPEED * min(time, BEGINS) - radius * math.sin(turned)
    straight = SPEED * max(time - ends, 0.0)
    return np.array([x + straight * math.cos(heading), y + straight * math.sin(heading)]), heading


@pytest.mark.parametrize("ends", [3.0, BEGINS])
def test_velocity_and_turn_of_a_car_that_turns_and_of_one_that_does_not(ends):
    """The sensor stands beside its way. Half of its turn rate counts for the time ahead."""
    step = 0.05
    steps = []
    for k in range(1, 100):
        (before, heading), (after, _) = course(k * step, ends), course((k + 1) * step, ends)
        steps.append(MotionStep(k * step, *(after - before) / step, heading + 0.5 * math.pi))
    place, heading = course(0.0, ends)
    thing = car(*place, heading, vy=-SPEED, steps=tuple(steps))
    tracker, wrong, turns, ahead = ObstacleTracker(), [], {}, []
    for k in range(40):
        time = 0.1 * k
        tracker.update(Lidar(World((thing,)), LidarSettings(), 1).scan(time, 0.0, 0.0, 0.0), 0.0, 0.0, 0.0)
        seen = tracker.obstacles()
        seen = seen.where(seen.moving)
        (place, heading), later = course(time, ends), course(time + 1.0, ends)[0]
        if time > 1.0:
            assert len(seen.radii)
            velocity = np.median(seen.velocities, axis=0)  # of most of its circles
            wrong.append(np.hypot(*(velocity - SPEED * np.array([math.cos(heading), math.sin(heading)]))))
            turns[k] = np.median(seen.turn_rates)
        if 2.0 <= time <= 2.5:
            ahead.append([np.hypot(*(place + np.median(of.shifts(np.array([1.0]))[0], axis=0) - later))
                          for of in (seen, replace(seen, turns=None))])
    assert np.median(wrong) < 0.3 and max(wrong) < 1.0
    if ends > BEGINS:
        while_turning = np.array([turns[k] for k in range(21, 31)])
        assert (while_turning > 0.15).all() and (while_turning < 0.45).all()
        curved, straight = np.mean(ahead, axis=0)
        assert curved < 0.8 * straight
        assert turns[39] == 0.0
    else:
        assert not any(turns.values())
