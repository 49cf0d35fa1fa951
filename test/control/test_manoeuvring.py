"""Ways with changes of direction: driven on their own, and in closed loop in places that have to be left so."""

import math

import numpy as np
import pytest

from lfdm_ros.control.controller import Controller, limits_of
from lfdm_ros.control.cycle import CycleOutcome
from lfdm_ros.control.prediction import PlanarState
from lfdm_ros.control.routing import manoeuvring
from lfdm_ros.control.routing.manoeuvring import NO_GAIN, NO_PATH, NO_ROOM, Manoeuvring, SteeredAxles, free_length
from lfdm_ros.control.routing.reverse_search import Leg
from lfdm_ros.control.routing.routes import Route
from lfdm_ros.control.safety.stops import Stops
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.closed_loop import PlantSettings, drive
from lfdm_ros.perception.obstacles import NO_OBSTACLES, Obstacles
from lfdm_ros.sensors import LidarSettings
from lfdm_ros.simulation import Circle, Goal, Polygon, Scenario, World, load_scenario
from lfdm_ros.simulation import Pose as Start
from lfdm_ros.simulation.path import Path
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
SETTINGS = Settings(time_budget=0.0, sight=20.0, period=0.04)
LIMITS = limits_of(HMMWV, SETTINGS)
CONTROLLER = Controller(HMMWV, SETTINGS, LIMITS)
STOPS = Stops(SETTINGS, HMMWV)
REAR, FULL_LOCK = HMMWV.parameters["cg_to_rear_axle"], HMMWV.parameters["max_road_wheel_angle"]
AXLES = SteeredAxles(REAR, 3.3778, FULL_LOCK)
PERIOD, GOAL = 0.05, Goal(60.0, 0.0)


def circles(*rows, time=0.0):
    """Obstacles from rows x, y, radius, vx, vy."""
    table = np.array(rows, float).reshape(-1, 5)
    return Obstacles(table[:, :2], table[:, 2], table[:, 3:5], time)


def wall(x0, x1, y0, y1, spacing=0.5):
    """Rows of circles along a rectangle's lines, from one corner to the other."""
    count = max(round(max(abs(x1 - x0), abs(y1 - y0)) / spacing), 1)
    return [(x, y, 0.3, 0.0, 0.0) for x, y in zip(np.linspace(x0, x1, count + 1), np.linspace(y0, y1, count + 1))]


POCKET = wall(4.0, 4.0, -3.5, 3.5) + wall(-20.0, 4.0, 3.5, 3.5) + wall(-20.0, 4.0, -3.5, -3.5)
IN_POCKET = circles(*POCKET)


class Car:
    """A kinematic vehicle under `Manoeuvring`: pedals act as 10 m/s^2 each, at once; the steering moves by full lock a second."""

    def __init__(self, settings=SETTINGS, sector=None, second=None):
        self.manoeuvring = Manoeuvring(settings, STOPS, AXLES)
        self.pose, self.sector, self.second = PlanarState(0.0, 0.0, 0.0, 0.0), sector, second
        self.now, self.steering, self.pedal, self.sees, self.moves, self.poses = 0.0, 0.0, 0.0, True, [], []

    def run(self, time, blocked=True, obstacles=IN_POCKET, goal=GOAL):
        for _ in range(round(time / PERIOD)):
            self.step(blocked, obstacles, goal)
        return self

    def step(self, blocked=True, obstacles=IN_POCKET, goal=GOAL, way=None):
        p = self.pose
        seen = Obstacles(obstacles.centres, obstacles.radii, obstacles.velocities, obstacles.time, sector=self.sector,
                         second_view=self.second)
        if self.sees and len(self.moves) % 4 == 0:
            self.manoeuvring.map.look(self.now, p, np.array([p.x, p.y]), 100.0, seen.at(self.now))
        path = way or Path(np.array([[p.x, p.y], [p.x + 50.0 * math.cos(p.yaw), p.y + 50.0 * math.sin(p.yaw)]]))
        move = self.manoeuvring.step(self.now, p, goal, Route(path, blocked, 0.0), seen, (self.steering, self.pedal))
        self.moves.append(move)
        self.poses.append(p)
        steering, pedal, reverse = (move.steering, move.pedal, move.reverse) if move else (0.0, -0.5, False)
        self.steering += min(max(steering - self.steering, -PERIOD), PERIOD)
        sign = -1.0 if reverse else 1.0
        along = sign * p.vx + 10.0 * PERIOD * pedal
        vx = sign * (along if pedal > 0.0 else max(along, 0.0))
        turn = vx * math.tan(self.steering * FULL_LOCK) / AXLES.wheelbase * PERIOD
        way, heading = vx * PERIOD, p.yaw + 0.5 * turn
        # The position is ahead of the rear axle, which moves along the vehicle.
        x, y = p.x - REAR * math.cos(p.yaw) + way * math.cos(heading), p.y - REAR * math.sin(p.yaw) + way * math.sin(heading)
        yaw = p.yaw + turn
        self.pose = PlanarState(x + REAR * math.cos(yaw), y + REAR * math.sin(yaw), yaw, vx)
        self.now += PERIOD


def straight(length, reverse=True):
    """A leg along the x axis, in reverse from 0 on."""
    s = np.arange(0.0, length + 1e-9, 0.25)
    return Leg(np.column_stack([-s if reverse else s, 0.0 * s, 0.0 * s]), s, reverse)


# -- Parts ----------------------------------------------------------------------------------------------------------


def test_a_leg_is_free_up_to_what_stands_or_comes():
    leg = straight(20.0)

    def free(*rows):
        return free_length(leg, STOPS, 0.0, circles(*rows), 1.5, np.full(len(leg.s), 0.1))

    assert free((10.0, 0.0, 1.0, 0.0, 0.0), (-10.0, 2.3, 1.0, 0.0, 0.0)) == leg.s[-1]  # ahead, and beside
    assert free((-10.0, 0.0, 1.0, 0.0, 0.0)) == pytest.approx(10.0 - 2.4 - 1.0, abs=0.4)
    assert free((-2.7, 1.25, 0.5, 0.0, 0.0)) < 0.5  # at the rear corner
    # It comes behind: sooner met than where it is now.
    assert free((-10.0, 0.0, 1.0, 1.5, 0.0)) == pytest.approx(0.5 * (10.0 - 2.4 - 1.0), abs=1.0)


@pytest.mark.parametrize("reverse", [True, False])
@pytest.mark.parametrize("bend", [0.0, 0.12, -0.12])
def test_the_steering_leads_back_from_beside(bend, reverse):
    """A kinematic vehicle that begins 0.3 m beside a leg, and turned, is on it after 10 m."""
    s, sign = np.arange(0.0, 25.0, 0.25), -1.0 if reverse else 1.0
    yaw = sign * bend * s
    x, y = (np.sin(sign * bend * s) / bend, (1.0 - np.cos(sign * bend * s)) / bend) if bend else (sign * s, 0.0 * s)
    poses = np.column_stack([x + REAR * np.cos(yaw), y + REAR * np.sin(yaw), yaw])
    px, py, psi, travelled = 0.0, 0.3, 0.1, 0.0
    while travelled < 15.0:
        k = int(np.argmin(np.hypot(px - x, py - y)))
        pose = PlanarState(px + REAR * math.cos(psi), py + REAR * math.sin(psi), psi, sign * 1.0)
        rest = poses[k + 1:]
        away = np.concatenate([[0.0], np.hypot(x[k + 1] - px, y[k + 1] - py) + s[k + 1:] - s[k + 1]])
        steering = AXLES.follow(Leg(np.vstack([[pose.x, pose.y, pose.yaw], rest]), away, reverse), pose)
        h = 0.02
        psi += sign * h * math.tan(steering * FULL_LOCK) / AXLES.wheelbase
        px, py, travelled = px + sign * h * math.cos(psi), py + sign * h * math.sin(psi), travelled + h
    k = int(np.argmin(np.hypot(px - x, py - y)))
    aside = math.cos(yaw[k]) * (py - y[k]) - math.sin(yaw[k]) * (px - x[k])
    assert abs(aside) < 0.03 and abs(psi - yaw[k]) < 0.05


# -- Decisions ------------------------------------------------------------------------------------------------------


def test_it_leaves_a_pocket_in_reverse_and_turns():
    car = Car().run(65.0)
    x, y = np.array([(p.x, p.y) for p in car.poses]).T
    speed = np.array([p.vx for p in car.poses])
    assert [m is None for m in car.moves[:18]] == [True] * 18  # it waits
    assert -1.3 * SETTINGS.reverse_speed < speed.min() < -0.8 * SETTINGS.reverse_speed
    assert speed.max() < 1.2 * manoeuvring.FORWARD_SPEED
    assert x.min() < -18.0 and math.hypot(x[-1] - GOAL.x, y[-1] - GOAL.y) < 12.0
    rows = np.array(POCKET)
    yaw = np.array([p.yaw for p in car.poses])
    poses = np.column_stack([x, y, yaw])
    assert STOPS.distances(poses, np.zeros(len(x)), 0.0, circles(*POCKET)).min() > 0.0 and len(rows)


def on_along(car):
    """The way that is left of a manoeuvre, as the lattice would give it."""
    x, y = car.pose.x, car.pose.y
    way = car.manoeuvring.path
    if way is None:
        return None
    k = int(np.argmin(np.hypot(way.x - x, way.y - y)))
    left = np.column_stack([way.x[k:], way.y[k:]])
    return Path(np.vstack([[x, y], left[np.hypot(left[:, 0] - x, left[:, 1] - y) > 0.3]]), smooth=False)


def test_the_plan_takes_over_on_the_last_leg_only():
    car = Car().run(3.0)
    assert car.pose.vx < -0.5
    while car.manoeuvring.active:
        car.step(blocked=False, way=on_along(car))
        assert car.now < 60.0
    assert car.pose.vx > 1.0 and car.pose.x < -5.0
    speed = np.array([p.vx for p in car.poses])
    assert np.flatnonzero(speed < -0.2)[-1] < len(speed) - 20


def test_another_way_than_that_of_the_manoeuvre_is_not_taken():
    """It may lead back: here into the pocket."""
    car = Car().run(3.0)
    into = Path(np.array([[-30.0, 0.0], [3.0, 0.0]]))
    car.run(17.0)
    while car.now < 35.0:
        car.step(blocked=False, way=into)
    assert all(move is not None for move in car.moves[60:])


def test_what_led_back_is_driven_further():
    car, driven = Car(), []
    for _ in range(3):
        while not car.manoeuvring.active:
            car.step()
        begin = len(car.poses)
        while car.manoeuvring.active:
            car.step(blocked=False, way=on_along(car))
        speed = np.array([p.vx for p in car.poses[begin:]])
        driven.append(PERIOD * speed[np.flatnonzero(speed < -0.1)[-1]:].sum())
        car.pose, car.steering = PlanarState(0.0, 0.0, 0.0, 0.0), 0.0
    assert driven == pytest.approx([4.0, 8.0, 12.0], abs=0.8)


def test_it_stands_where_nothing_was_seen_behind_it():
    half = math.radians(135.0)
    car = Car(sector=(0.0, half)).run(6.0)
    assert car.moves[-1] is None and NO_ROOM in car.manoeuvring.explained("x") and car.pose.vx == 0.0 and car.pose.x > -0.1
    free = Car(Settings(time_budget=0.0, sight=20.0, period=0.04, reverse_unseen=True), sector=(0.0, half)).run(6.0)
    assert free.pose.vx < -0.5
    both = Car(sector=(0.0, half), second=(-2.3, 0.0, math.pi, half, 100.0)).run(6.0)  # a second sensor sees the place behind
    assert both.pose.vx < -0.5
    short = Car(sector=(0.0, half), second=(-2.3, 0.0, math.pi, half, 1.0)).run(6.0)  # less far than it would reverse
    assert short.moves[-1] is None and NO_ROOM in short.manoeuvring.explained("x")


def test_it_says_that_a_goal_is_closed_in():
    ring = wall(20.0, 40.0, 10.0, 10.0) + wall(20.0, 40.0, -10.0, -10.0) + wall(20.0, 20.0, -10.0, 10.0) + wall(40.0, 40.0, -10.0, 10.0)
    car = Car().run(8.0, obstacles=circles(*ring), goal=Goal(30.0, 0.0))
    assert car.moves[-1] is None and car.manoeuvring.explained("x") == f"x; {NO_PATH}" and car.pose.x == 0.0


def test_it_needs_a_blocked_way_for_longer_than_a_scan():
    car = Car()
    for k in range(55):
        car.step(blocked=k % 8 < 6)
    assert all(move is None for move in car.moves) and car.pose.vx == 0.0


def test_it_leaves_the_plan_where_that_stands_although_there_is_a_way():
    car = Car().run(2.9, blocked=False)
    assert all(move is None for move in car.moves)
    car.run(4.0, blocked=False)
    assert car.moves[-1] is not None and car.pose.vx < -0.5


def test_it_waits_for_what_moves_near():
    """It stands although there is a way: what crosses is let pass."""
    crossing = circles(*POCKET, (10.0, -15.0, 0.5, 0.0, 1.5))
    car = Car().run(15.0, blocked=False, obstacles=crossing)
    assert all(move is None for move in car.moves)


def test_it_stops_at_once_when_something_comes():
    for row in ((-6.5, -3.0, 1.0, 0.0, 1.5), (-6.0, 0.0, 1.0, 0.0, 0.0)):
        car = Car().run(3.2)
        assert car.pose.vx < -1.0
        at = car.pose.x
        car.run(2.0, obstacles=circles(*POCKET, row, time=car.now))
        assert at - car.pose.x < 1.0 and abs(car.pose.vx) < 0.05


def test_it_gives_up_after_tries_without_gain():
    car = Car()
    # The way is never free: what stands there is seen only when it sets out.
    for _ in range(20000):
        looking = not car.manoeuvring.active or "looking" in (car.moves[-1].reason if car.moves[-1] else "")
        car.step(obstacles=circles(*POCKET) if looking else circles(*POCKET, (car.pose.x - 3.2, 0.0, 0.7, 0.0, 0.0)))
        if car.manoeuvring.why_not == NO_GAIN:
            break
    assert car.manoeuvring.why_not == NO_GAIN and car.pose.x > -15.0


def test_an_operator_who_holds_the_vehicle_is_not_left():
    """It stands, there is a way, and the plan has throttle."""
    car = Car()
    car.pedal = 0.4
    car.run(10.0, blocked=False)
    assert all(move is None for move in car.moves)


def test_without_a_view_it_stands():
    car = Car()
    car.sees = False
    car.run(5.0)
    assert all(move is None for move in car.moves)
    car.sees = True
    car.run(3.2)
    assert car.pose.vx < -1.0
    car.sees = False
    at = car.pose.x
    car.run(3.0)
    assert at - car.pose.x < 2.5 and abs(car.pose.vx) < 0.05 and "nothing is seen" in car.moves[-1].reason


def test_never_where_the_settings_say_so():
    car = Car(Settings(reverse_speed=0.0)).run(4.0)
    assert all(move is None for move in car.moves)
    car = Car().run(3.2)
    car.manoeuvring.configure(Settings(reverse_speed=0.0), STOPS, AXLES)
    car.run(1.0)
    assert car.moves[-1] is None and not car.manoeuvring.active


def test_a_new_task_stops_a_vehicle_in_a_manoeuvre():
    car = Car().run(3.0)
    car.manoeuvring.begin()
    car.run(1.0)
    assert car.pose.vx == 0.0


def test_a_vehicle_put_elsewhere_does_not_halt():
    car = Car().run(3.0)
    assert car.manoeuvring.active
    car.manoeuvring.reset()
    assert not car.manoeuvring.active


def test_without_obstacles_nothing_happens():
    car = Car().run(2.0, blocked=False, obstacles=NO_OBSTACLES)
    assert all(move is None for move in car.moves)


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
    back = [c for c in cycles if c.outcome is CycleOutcome.MANOEUVRING]
    assert run.outcomes["MANOEUVRING"] == len(back) > 100
    # The selector is in reverse only while it backs, and throttle and brake are never both in force.
    assert all(c.command[1] >= 0.0 for c in cycles if c.outcome is not CycleOutcome.MANOEUVRING)
    assert all(c.command[1] == 0.0 or c.command[2] == 0.0 for c in cycles)


def test_without_reversing_it_stands_in_the_pocket():
    run, cycles = pocket(0.0, 8.0, (), INSIDE)
    assert math.isnan(run.reached) and not run.collisions and run.column("vx").min() > -0.05
    assert abs(run.column("vx")[-1]) < 0.3 and run.column("x")[-1] > 19.0 and cycles[-1].blocked


def crossing(apart, count):
    """Things that cross the pocket behind the vehicle, one after the other, so far apart [m], out of the posts and into them."""
    return [Circle(19.0, -3.5 - apart * i, 0.5, 0.0, 1.5) for i in range(count)]


@pytest.mark.parametrize("seed", [1, 2])
def test_with_something_behind_it_stands(seed):
    """Others cross and leave no gap that is worth backing into, by metres: where nothing crosses it backs out."""
    run, cycles = pocket(1.5, 8.0, crossing(2.0, 9), INSIDE, seed)
    assert not run.collisions and run.column("vx").min() > -0.1 and run.column("x")[-1] > 25.0
    assert cycles[-1].reason.endswith("something moves behind it")
    alone, _ = pocket(1.5, 8.0, (), INSIDE, seed)
    assert alone.column("vx").min() < -1.0 and alone.column("x")[-1] < 23.0


@pytest.mark.parametrize("seed", [1, 2])
def test_what_comes_out_of_hiding_behind_it_is_not_hit(seed):
    """With gaps between them it may begin to back; it stops for the next."""
    run, _ = pocket(1.5, 12.0, crossing(5.0, 5), INSIDE, seed)
    assert not run.collisions and run.least_clearance > 0.3
    assert run.column("vx")[-1] > -0.1 and run.column("x")[-1] > 22.0


def walls(*boxes):
    return World(tuple(Polygon(np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)])) for x0, x1, y0, y1 in boxes))


PLACES = {
    "start by a wall": (walls((3.2, 3.7, -8.0, 8.0)), Start(), Goal(40.0, 0.0, 2.0)),
    "beside a wall": (walls((-10.0, 20.0, 1.3, 1.6), (14.0, 14.5, -12.0, 1.3)), Start(), Goal(40.0, 10.0, 2.0)),
    "L of walls": (walls((30.0, 30.5, -25.0, 15.0), (0.0, 30.5, 15.0, 15.5)), Start(speed=8.0), Goal(50.0, 20.0, 2.0)),
    "parking slot": (walls((-8.0, -3.2, -1.1, 1.1), (4.0, 9.0, -1.1, 1.1), (-20.0, 30.0, -2.2, -1.8)), Start(), Goal(40.0, 5.0, 2.0)),
    "gap of 3 m": (walls((30.0, 30.5, 1.5, 40.0), (30.0, 30.5, -40.0, -1.5)), Start(speed=8.0), Goal(60.0, 0.0, 2.0)),
    "gap of 3.7 m": (walls((30.0, 30.5, 1.85, 40.0), (30.0, 30.5, -40.0, -1.85)), Start(speed=8.0), Goal(60.0, 0.0, 2.0)),
    "fast to a wall": (walls((70.0, 70.5, -20.0, 20.0)), Start(speed=15.0), Goal(120.0, 0.0, 3.0)),
}
DRIVER = Controller(HMMWV, Settings(time_budget=0.0, period=0.04), LIMITS)


def driven(scenario, field_of_view, driver=DRIVER):
    cycles = []
    driver.reset()
    plant = PlantSettings(lidar=LidarSettings(field_of_view=field_of_view), seed=1)
    run = drive(HMMWV, scenario, driver, plant, lambda now, cycle, scan: cycles.append(cycle))
    return run, cycles


@pytest.mark.parametrize("name", PLACES)
def test_places_where_the_plan_alone_stands_for_ever(name):
    """24 degrees of freedom, and a LIDAR that looks all round."""
    world, start, goal = PLACES[name]
    run, _ = driven(Scenario(name, start, None, 90.0, world, goal, speed=8.0), 2.0 * math.pi)
    assert run.reached < 90.0 and not run.collisions and run.least_clearance > 0.05


def test_cones_in_the_lane_that_the_plan_alone_stands_before_for_ever():
    """It is too near to the cones to pass them from there."""
    cones = [Circle(53.0 + 3.0 * k, -1.75 + 0.28 * k, 0.15) for k in range(7)] + [Circle(71.0 + 4.0 * k, -0.07, 0.15) for k in range(6)]
    barrier = Polygon([(75.0, -1.6), (89.0, -1.6), (89.0, -0.37), (75.0, -0.37)])
    path = np.column_stack([np.linspace(0.0, 140.0, 281), np.zeros(281)])
    corridor = np.array([[0.0, 3.5, 1.75], [140.0, 3.5, 1.75]])
    scenario = Scenario("roadworks", Start(65.4, 1.07, -0.06), None, 60.0, World((*cones, barrier)), None, path, 9.0, corridor)
    run, cycles = driven(scenario, 1.5 * math.pi)
    assert math.isfinite(run.reached) and not run.collisions and run.outside < 0.1
    assert any(c.outcome is CycleOutcome.MANOEUVRING for c in cycles)


@pytest.mark.parametrize("name", ["serpentine", "parking_bay"])
def test_scenarios_of_the_package_with_a_blind_sector(name):
    run, cycles = driven(load_scenario(name), 1.5 * math.pi, Controller(HMMWV, Settings(time_budget=0.0), LIMITS))
    assert math.isfinite(run.reached) and not run.collisions and run.least_clearance > 0.05
    assert any(c.route is not None for c in cycles if c.outcome is CycleOutcome.MANOEUVRING)


def test_a_start_by_a_wall_without_a_view_behind_stands_and_says_why():
    world, start, goal = PLACES["start by a wall"]
    run, cycles = driven(Scenario("wall", start, None, 12.0, world, goal, speed=8.0), 1.5 * math.pi)
    assert math.isnan(run.reached) and not run.collisions
    # It searches again at times: the last cycle may be one of a search.
    assert sum(c.reason.endswith(NO_ROOM) for c in cycles) > 0.7 * len(cycles)
    DRIVER.tune(reverse_unseen=True)
    try:
        run, _ = driven(Scenario("wall", start, None, 60.0, world, goal, speed=8.0), 1.5 * math.pi)
        assert run.reached < 60.0 and not run.collisions
    finally:
        DRIVER.tune(reverse_unseen=False)


def test_a_vehicle_that_is_closed_in_says_so():
    world = walls((-15.0, 25.0, 12.0, 12.5), (-15.0, 25.0, -12.5, -12.0), (25.0, 25.5, -12.5, 12.5), (-15.5, -15.0, -12.5, 12.5))
    run, cycles = driven(Scenario("room", Start(), None, 15.0, world, Goal(50.0, 0.0, 2.0), speed=6.0), 2.0 * math.pi)
    assert math.isnan(run.reached) and not run.collisions and cycles[-1].reason.endswith(NO_PATH)
    assert abs(run.column("vx")[-1]) < 0.1


def test_a_car_that_pulls_little_sets_out_with_more_pedal():
    """Its tyres take a third of the full throttle of the ART; the HMMWV's command is as it was made for."""
    pedals = {}
    for pull in (13.0, 1.5):
        car = Car()
        car.manoeuvring.configure(SETTINGS, STOPS, SteeredAxles(REAR, AXLES.wheelbase, FULL_LOCK, pull))
        pedals[pull] = max(move.pedal for move in car.run(8.0).moves if move)
    assert 0.0 < pedals[13.0] < 0.75 * pedals[1.5]
