"""Backing out of a blocked way: its parts on their own, and in closed loop in a pocket that has to be left backwards."""

import math

import numpy as np
import pytest

from lfdm_ros.control.controller import Controller, limits_of
from lfdm_ros.control.cycle import CycleOutcome
from lfdm_ros.control.prediction import PlanarState
from lfdm_ros.control.routing import backing
from lfdm_ros.control.routing.backing import NO_GAIN, NO_ROOM, Backing, Trail, free_length, out_of_sight, pursue
from lfdm_ros.control.safety.stops import Stops
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.closed_loop import PlantSettings, drive
from lfdm_ros.perception.obstacles import NOTHING, Obstacles
from lfdm_ros.sensors import LidarSettings
from lfdm_ros.simulation import Circle, Goal, Scenario, World
from lfdm_ros.simulation import Pose as Start
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
SETTINGS = Settings(time_budget=0.0, sight=20.0, period=0.04)
LIMITS = limits_of(HMMWV, SETTINGS)
CONTROLLER = Controller(HMMWV, SETTINGS, LIMITS)
STOPS = Stops(SETTINGS, HMMWV)
REAR, WHEELBASE, FULL_LOCK = HMMWV.parameters["cg_to_rear_axle"], 3.3778, HMMWV.parameters["max_road_wheel_angle"]
PERIOD = 0.05


def circles(*rows):
    """Obstacles at time 0 from rows x, y, radius, vx, vy."""
    table = np.array(rows, float)
    return Obstacles(table[:, :2], table[:, 2], table[:, 3:5], 0.0)


def driven(length, bend=0.0, trail=None, pace=5.0):
    """A trail on which the rear axle draws a circle of a curvature [1/m], and where the vehicle is at its end; it ended at time 0."""
    trail = Trail() if trail is None else trail
    for s in np.arange(0.0, length + 1e-9, 0.1):
        x, y = (math.sin(bend * s) / bend, (1.0 - math.cos(bend * s)) / bend) if bend else (s, 0.0)
        pose = PlanarState(x + REAR * (math.cos(bend * s) - 1.0), y + REAR * math.sin(bend * s), bend * s, pace)
        trail.note((s - length) / pace, pose)
    return trail, pose


class Car:
    """A kinematic vehicle under `Backing`: pedals act as 10 m/s^2 each, at once."""

    def __init__(self, settings=SETTINGS, length=30.0, bend=0.0):
        self.backing = Backing(settings, STOPS, REAR, WHEELBASE, FULL_LOCK)
        _, self.pose = driven(length, bend, self.backing.trail, 20.0)
        self.pose = PlanarState(self.pose.x, self.pose.y, self.pose.yaw, 0.0)
        self.now, self.steering, self.moves, self.poses = 0.0, 0.0, [], []

    def run(self, time, blocked=True, obstacles=NOTHING, remaining=50.0):
        for _ in range(round(time / PERIOD)):
            self.step(blocked, obstacles, remaining)
        return self

    def step(self, blocked=True, obstacles=NOTHING, remaining=50.0):
        p = self.pose
        self.backing.trail.note(self.now, p)
        move = self.backing.step(self.now, p, blocked, remaining, obstacles, self.steering)
        self.moves.append(move)
        self.poses.append(p)
        steering, pedal = (move.steering, move.pedal) if move else (0.0, -0.5)
        self.steering = steering
        vx = p.vx - 10.0 * PERIOD * pedal if pedal > 0.0 else min(p.vx - 10.0 * PERIOD * pedal, 0.0)
        turn = vx * math.tan(steering * FULL_LOCK) / WHEELBASE * PERIOD
        way = vx * PERIOD
        heading = p.yaw + 0.5 * turn
        # The position is ahead of the rear axle, which moves along the vehicle.
        x, y = p.x - REAR * math.cos(p.yaw) + way * math.cos(heading), p.y - REAR * math.sin(p.yaw) + way * math.sin(heading)
        yaw = p.yaw + turn
        self.pose = PlanarState(x + REAR * math.cos(yaw), y + REAR * math.sin(yaw), yaw, vx)
        self.now += PERIOD


# -- The way that was driven ----------------------------------------------------------------------------------------


def test_the_trail_is_the_way_driven_less_what_was_backed_over():
    trail, end = driven(20.0)
    way = trail.back(end)
    assert way.s[-1] == pytest.approx(20.0, abs=0.3) and (np.diff(way.s) <= 0.36).all() and np.abs(way.poses[:, 1]).max() == 0.0
    for x in np.arange(20.0, 12.0, -0.1):
        trail.note(0.0, PlanarState(x, 0.0, 0.0, -1.5))
    way = trail.back(PlanarState(12.0, 0.0, 0.0, -1.5))
    assert way.s[-1] == pytest.approx(12.3, abs=0.4) and (np.diff(way.poses[:, 0])[1:] < 0.0).all()
    trail.note(0.0, PlanarState(300.0, 0.0, 0.0, 0.0))  # put elsewhere
    assert len(trail) == 1


def test_places_are_known_for_a_while():
    trail, end = driven(20.0)
    trail.note(backing.TRAIL_MEMORY - 2.0, end)  # it came with 5 m/s
    assert trail.back(end).s[-1] == pytest.approx(10.0, abs=0.5)
    trail.note(backing.TRAIL_MEMORY + 5.0, end)
    assert trail.back(end).s[-1] < 0.3


def test_what_moves_into_the_way_takes_it_from_what_is_known():
    for row, left in (((8.0, -6.0, 0.5, 0.0, 2.0), 9.0), ((8.0, -20.0, 0.5, 0.0, 2.0), 20.0), ((8.0, -6.0, 0.5, 0.0, -2.0), 20.0),
                      ((8.0, -2.0, 0.5, 0.0, 0.0), 20.0)):
        trail, end = driven(20.0)
        trail.enter(0.0, circles(row), HMMWV.footprint)
        assert trail.back(end).s[-1] == pytest.approx(left, abs=1.2), row


def test_what_stands_in_the_way_has_come_there():
    """Also if nobody saw it move; what stands beside the way, or touches its edge, has not."""
    for row, left in (((8.0, 0.0, 0.5, 0.0, 0.0), 9.0), ((8.0, -1.3, 0.6, 0.0, 0.0), 9.0), ((8.0, -1.9, 0.7, 0.0, 0.0), 20.0)):
        trail, end = driven(20.0)
        trail.enter(0.0, circles(row), HMMWV.footprint)
        assert trail.back(end).s[-1] == pytest.approx(left, abs=1.2), row
        assert (trail.entered == 0.0) == (left < 10.0)


def test_the_way_back_ends_before_what_stands_or_comes():
    trail, end = driven(20.0)
    way = trail.back(end)

    def free(*rows):
        return free_length(way, STOPS, 0.0, circles(*rows), 1.5)

    assert free((30.0, 0.0, 1.0, 0.0, 0.0), (10.0, 2.3, 1.0, 0.0, 0.0)) == way.s[-1]  # ahead, and beside
    assert free((10.0, 0.0, 1.0, 0.0, 0.0)) == pytest.approx(20.0 - 2.4 - 11.0 - 0.1, abs=0.4)
    assert free((17.5, 1.25, 0.5, 0.0, 0.0)) < 0.5  # at the rear corner
    # It comes behind: sooner met than where it is now.
    assert free((10.0, 0.0, 1.0, 1.5, 0.0)) == pytest.approx(0.5 * (20.0 - 2.4 - 11.0), abs=1.0)


def test_circles_are_hidden_by_others_and_by_distance():
    places, ones = np.array([[10.0, 0.0], [10.0, 6.0], [30.0, 0.0], [-10.0, 0.0]]), np.ones(4)
    assert out_of_sight(places, ones, np.array([[5.0, 0.2]]), np.ones(1), 20.0).tolist() == [True, False, True, False]
    assert out_of_sight(places, ones, places, ones, 100.0).tolist() == [False, False, True, False]


# -- Backing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bend", [0.0, 0.08, -0.08])
def test_it_backs_slowly_along_the_way_that_it_came(bend):
    car = Car(bend=bend).run(30.0)
    x, y = np.array([(p.x - REAR * (math.cos(p.yaw) - 1.0), p.y - REAR * math.sin(p.yaw)) for p in car.poses]).T
    speed = np.array([-p.vx for p in car.poses])
    assert 1.2 < speed.max() < 1.3 * SETTINGS.reverse_speed and speed.min() > -0.05
    aside = np.abs(y) if not bend else np.abs(np.hypot(x, y - 1.0 / bend) - 1.0 / abs(bend))
    assert aside.max() < 0.1
    assert [m is None for m in car.moves[:18]] == [True] * 18  # it waits
    # After each few metres it stands for a moment.
    stops = np.flatnonzero((speed[1:] < 0.01) & (speed[:-1] >= 0.01))
    gone = np.diff([np.hypot(np.diff(x[:k]), np.diff(y[:k])).sum() for k in (0, *stops)])
    assert len(stops) >= 4 and (np.abs(gone[1:4] - backing.BOUT) < 0.5).all()
    assert all(m.reverse and "the way is blocked, try" in m.reason for m in car.moves if m)


def test_it_drives_on_when_a_way_is_seen():
    car = Car().run(3.0)
    assert car.pose.vx < -0.5
    car.run(8.0, blocked=False)  # to the end of the bout
    assert car.moves[-1] is None and car.pose.vx == 0.0 and not car.backing.active
    assert car.poses[0].x - car.pose.x == pytest.approx(backing.BOUT, abs=0.5)


def test_it_stands_where_behind_is_not_known_to_be_free():
    for car, obstacles in ((Car(length=0.5), NOTHING), (Car(), circles((26.0, 0.0, 1.0, 0.0, 0.0))),
                           (Car(), circles((26.0, -9.0, 1.0, 0.0, 4.0)))):
        start = car.pose
        car.run(3.0, obstacles=obstacles)
        assert all(move is None for move in car.moves) and car.pose == start and car.backing.explained("x") == f"x; {NO_ROOM}"


def test_where_something_came_behind_only_a_whole_bout_is_worth_backing():
    for row, free in (((25.5, 0.0, 0.5, 0.0, 0.0), 0.4), ((22.5, 0.0, 0.5, 0.0, 0.0), 3.4), ((19.5, 0.0, 0.5, 0.0, 0.0), 6.4)):
        car = Car()
        car.run(5.0, obstacles=circles(row))
        assert any(move is not None for move in car.moves) == (free > backing.BOUT), row
        # It has stood there for long.
        car.run(backing.CALM_TIME, obstacles=circles(row))
        assert any(move is not None for move in car.moves) == (free > backing.MIN_BACKING), row


def test_it_backs_only_where_the_way_is_blocked_for_longer_than_a_scan():
    car = Car()
    for k in range(100):
        car.step(blocked=k % 8 < 6)
    assert all(move is None for move in car.moves) and car.pose.vx == 0.0


def test_it_stops_at_once_when_something_comes():
    for row in ((23.5, -3.0, 1.0, 0.0, 1.5), (24.0, 0.0, 1.0, 0.0, 0.0)):
        car = Car().run(3.0)
        assert car.pose.vx < -1.0
        at = car.pose.x
        there = circles(row)
        there = Obstacles(there.centres, there.radii, there.velocities, car.now)
        car.run(3.0, obstacles=there)
        assert at - car.pose.x < 0.6 and car.pose.vx == 0.0
        assert car.pose.x - HMMWV.footprint.rear > 25.0 or row[4]


def test_it_gives_up_after_tries_without_gain_and_tries_again_nearer():
    car = Car(length=55.0).run(55.0)
    assert car.moves[-1] is None and car.backing.why_not == NO_GAIN
    assert 55.0 - car.pose.x == pytest.approx(backing.MAX_TRIES * backing.BOUT, abs=3.0)
    car.run(3.0, remaining=45.0)
    assert car.moves[-1] is not None and car.pose.vx < 0.0


def test_each_return_to_the_same_place_backs_further():
    lengths = []
    car = Car(length=59.0)
    for _ in range(3):
        begin = car.pose.x
        car.run(2.2)
        while car.backing.active:
            car.step(blocked=False)
        lengths.append(begin - car.pose.x)
        car.run(1.0, blocked=False)
    assert lengths == pytest.approx([4.0, 8.0, 12.0], abs=0.6)


def test_never_where_the_settings_say_so():
    car = Car(Settings(reverse_speed=0.0)).run(4.0)
    assert all(move is None for move in car.moves)


def test_a_new_task_stops_a_vehicle_that_backs():
    car = Car().run(3.0)
    car.backing.begin()
    car.run(2.0, blocked=False)
    assert car.pose.vx == 0.0 and car.moves[-1] is None


def test_a_vehicle_put_elsewhere_does_not_halt():
    car = Car().run(3.0)
    assert car.backing.active
    car.backing.reset()
    assert not car.backing.active and len(car.backing.trail) == 0


def test_the_steering_leads_back_from_beside():
    trail, end = driven(20.0)
    way = trail.back(end)
    assert pursue(way, end, REAR, WHEELBASE) == 0.0
    # From the left of the way the rear has to go to the right: steered to the right.
    left = trail.back(PlanarState(20.0, 0.3, 0.0, 0.0))
    assert pursue(left, PlanarState(20.0, 0.3, 0.0, 0.0), REAR, WHEELBASE) < -0.05
    short = driven(1.0)[0]
    assert pursue(short.back(PlanarState(1.0, 0.0, 0.0, 0.0)), PlanarState(1.0, 0.0, 0.0, 0.0), REAR, WHEELBASE) == 0.0


# -- In closed loop -------------------------------------------------------------------------------------------------


# From inside the pocket on all runs come to the same place, whatever the noise of the LIDAR and the last bits of the processor.
OUTSIDE, INSIDE = Start(speed=5.0), Start(x=19.5, speed=8.0)


def pocket(reverse_speed, duration, extra=(), start=OUTSIDE, seed=1):
    """Into a pocket of posts whose end comes in sight when the vehicle is in it; the goal lies behind. seed: of the LIDAR's noise."""
    posts = [(12.0 + 1.5 * i, side) for i in range(13) for side in (3.5, -3.5)] + [(30.0, y) for y in (-2.1, -0.7, 0.7, 2.1)]
    world = World(tuple(Circle(x, y, 0.9) for x, y in posts) + tuple(extra))
    scenario = Scenario("pocket", start, None, duration, world, Goal(60.0, 0.0, tolerance=3.0), speed=8.0)
    cycles = []
    CONTROLLER.reset()
    CONTROLLER.tune(reverse_speed=reverse_speed)
    plant = PlantSettings("driven_bicycle", None, lidar=LidarSettings(range_max=20.0, field_of_view=2.0 * math.pi), seed=seed)
    run = drive(HMMWV, scenario, CONTROLLER, plant, lambda now, cycle, scan: cycles.append(cycle))
    return run, cycles


def test_a_pocket_is_left_backwards_and_the_goal_reached():
    run, cycles = pocket(1.5, 60.0)
    assert run.reached < 60.0 and not run.collisions and run.least_clearance > 0.2
    assert -2.0 < run.column("vx").min() < -1.0
    back = [c for c in cycles if c.outcome is CycleOutcome.BACKING]
    assert run.outcomes["BACKING"] == len(back) > 100 and all(c.blocked or c.command[1] <= 0.0 for c in back)
    # The selector is in reverse only while it backs, and throttle and brake are never both in force.
    assert all(c.command[1] >= 0.0 for c in cycles if c.outcome is not CycleOutcome.BACKING)
    assert all(c.command[1] == 0.0 or c.command[2] == 0.0 for c in cycles)


def test_without_reversing_it_stands_in_the_pocket():
    run, cycles = pocket(0.0, 12.0)
    assert math.isnan(run.reached) and not run.collisions and run.column("vx").min() > -0.05
    assert abs(run.column("vx")[-1]) < 0.3 and run.column("x")[-1] > 19.0 and cycles[-1].blocked


def crossing(apart, count):
    """Things that cross the pocket behind the vehicle, one after the other, so far apart [m], out of the posts and into them."""
    return [Circle(19.0, -3.5 - apart * i, 0.5, 0.0, 1.5) for i in range(count)]


@pytest.mark.parametrize("seed", range(1, 6))
def test_with_something_behind_it_stands(seed):
    """Others cross and leave no gap that is worth backing into, by metres: where nothing crosses it backs out."""
    run, cycles = pocket(1.5, 8.0, crossing(2.0, 9), INSIDE, seed)
    assert not run.collisions and run.column("vx").min() > -0.1 and run.column("x")[-1] > 25.0
    assert cycles[-1].reason.endswith(NO_ROOM) and "BACKING" not in run.outcomes
    alone, _ = pocket(1.5, 8.0, (), INSIDE, seed)
    assert alone.column("vx").min() < -1.0 and alone.column("x")[-1] < 23.0


@pytest.mark.parametrize("seed", range(1, 4))
def test_what_comes_out_of_hiding_behind_it_is_not_hit(seed):
    """With gaps between them it may begin to back; it stops for the next."""
    run, _ = pocket(1.5, 12.0, crossing(5.0, 5), INSIDE, seed)
    assert not run.collisions and run.least_clearance > 0.3
    assert run.column("vx")[-1] > -0.1 and run.column("x")[-1] > 22.0
