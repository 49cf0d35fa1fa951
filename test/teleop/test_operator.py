"""The operator against hand calculations, geometry, and what a person behind a delay can know."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from lfdm_ros.control import Path
from lfdm_ros.control.prediction import Measured
from lfdm_ros.engine.closed_loop import PlantSettings, drive
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.sensors import LidarSettings
from lfdm_ros.simulation import Circle, Goal, Polygon, Pose, Scenario, World, load_scenario
from lfdm_ros.teleop import OperatorDecision, OperatorKind, OperatorSettings, Person, register_operator
from lfdm_ros.teleop.network_link import NetworkLink, NetworkLinkSettings
from lfdm_ros.teleop.operator import Operator
from lfdm_ros.teleop.remote import RemoteDriver
from lfdm_ros.teleop.salvucci import TwoPoint, near_distance
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
PLANT = PlantSettings("driven_bicycle", None, step=5e-3, lidar=LidarSettings(resolution=np.radians(1.0)))
STEADY = dict(remnant="none", variation=0.0, period=0.025)


def operator(seed=1, **settings):
    return Operator(HMMWV, OperatorSettings(**{**STEADY, **settings}), seed)


def behind_a_link(driver, latency):
    return RemoteDriver(driver, *(NetworkLink(NetworkLinkSettings(delay=0.5 * latency), seed) for seed in (1, 2)))


def along(path, speed=10.0, duration=12.0, y=0.0, obstacles=()):
    return Scenario("road", Pose(y=y, speed=speed), None, duration, World(tuple(obstacles)), path=path, speed=speed)


def straight(length=400.0):
    return np.column_stack([np.linspace(0.0, length, 5), np.zeros(5)])


def state(x=0.0, y=0.0, vx=10.0, **values):
    return {"x": x, "y": y, "yaw": 0.0, "vx": vx, "vy": 0.0, "yaw_rate": 0.0, **values}


# ---- Salvucci's laws ---------------------------------------------------------------------------------------------------------


def law(**settings):
    chosen = OperatorSettings(**{**STEADY, **settings})
    return TwoPoint(chosen, Person.drawn(chosen, np.random.default_rng(1)), wheelbase=2.665, full_lock=0.6)


@pytest.mark.parametrize("s", [0.4, 0.6, 0.85])
def test_steering_by_hand(s):
    it = law(steering_factor=s)
    assert it.steer(0.01, 0.02, 0.05) == pytest.approx(0.0423 * s * (16 * 0.01 + 4 * 0.02 + 3 * 0.02 * 0.05))
    # The rate of a large near angle is that of 0.07 rad.
    it.steer(0.02, -0.2, 0.05)
    before = it.steer(0.02, -0.2, 0.0)
    assert it.steer(0.02, -0.2, 0.1) - before == pytest.approx(-0.0423 * s * 3 * 0.07 * 0.1)


def test_headway_by_hand():
    it = law()
    it.press(10.0, 10.0, 4.0, 0.05)
    assert it.press(10.0, 10.0, 3.9, 0.05) == pytest.approx(1.2 * -0.1 + 0.4 * 2.9 * 0.05)
    assert it.press(10.0, 10.0, 0.1, 0.05) == -0.6  # no more than the largest brake


def test_near_point_as_published():
    assert [near_distance(far) for far in (2.0, 8.0, 40.0)] == [3.0, 4.0, 10.0]


def test_gains_grow_with_the_wheelbase_unless_the_driver_does_not_adapt():
    chosen = OperatorSettings(**STEADY)
    person = Person.drawn(chosen, np.random.default_rng(1))
    longer = TwoPoint(chosen, person, 2 * 2.665, 0.6).steer(0.01, 0.0, 0.05)
    assert longer == pytest.approx(2.0 * law().steer(0.01, 0.0, 0.05))
    assert law(adapted=False).steer(0.01, 0.0, 0.05) == law().steer(0.01, 0.0, 0.05)


# ---- Driving -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("speed", [6.0, 12.0, 20.0])
def test_an_offset_from_a_straight_road_dies_away_damped(speed):
    run = drive(HMMWV, along(straight(), speed, y=1.0), operator(), PLANT)
    y = run.column("y")
    assert abs(y[-1]) < 0.05 and y.min() > -0.35  # overshoots by less than that
    later = np.abs(y[len(y) // 2:]).max()
    assert later < 0.15 and np.abs(run.column("vx")[len(y) // 2:] - speed).max() < 0.5


def test_in_a_steady_bend_the_near_point_lies_straight_ahead():
    """d theta is 0 there and the wheel stands still, so that theta_near is: the vehicle cuts the bend by d^2 / 2R + d beta."""
    radius, speed = 60.0, 8.0
    turn = np.linspace(0.0, 1.6 * math.pi, 200)
    circle = np.column_stack([radius * np.sin(turn), radius * (1.0 - np.cos(turn))])
    run = drive(HMMWV, along(circle, speed, 25.0), operator(), PLANT)
    distance = radius - np.hypot(run.column("x"), run.column("y") - radius)  # to the left of the path
    last = slice(-len(run.times) // 4, None)
    near = near_distance(1.0 * run.column("vx")[last].mean())
    sideslip = np.arctan2(run.column("vy"), run.column("vx"))[last].mean()
    assert distance[last].mean() == pytest.approx(near**2 / (2.0 * radius) + near * sideslip, abs=0.02)
    assert distance[last].std() < 0.02


def test_the_error_in_a_lane_change_grows_with_latency_until_it_fails():
    scenario = load_scenario("nato_lane_change")
    scenario = replace(scenario, world=World())
    runs = [drive(HMMWV, scenario, behind_a_link(operator(remnant="sines"), latency), PLANT) for latency in (0.0, 0.2, 0.5)]
    errors = [run.largest_error for run in runs]
    assert errors[0] < 0.3 and runs[0].outside < 0.1  # through the cones
    assert all(later > 1.3 * before for before, later in itertools.pairwise(errors))
    assert runs[-1].outside > 1.0


def test_avoids_an_obstacle_and_stops_before_a_wall():
    towards = Scenario("yard", Pose(speed=10.0), None, 12.0, World((Circle(45.0, 0.2, 1.5, name="rock"),)), Goal(80.0, 0.0), speed=10.0)
    run = drive(HMMWV, towards, operator(), PLANT)
    assert not run.collisions and run.reached < 11.0 and run.least_clearance > 0.2
    wall = Polygon(np.array([[50.0, -60.0], [51.0, -60.0], [51.0, 60.0], [50.0, 60.0]]), name="wall")
    blocked = Scenario("yard", Pose(speed=10.0), None, 20.0, World((wall,)), Goal(80.0, 0.0), speed=10.0)
    run = drive(HMMWV, blocked, operator(), PLANT, patience=1.0)
    assert not run.collisions and math.isnan(run.reached) and run.blocked > 0


def test_brakes_for_what_stands_on_its_path_but_not_for_what_stands_beside():
    run = drive(HMMWV, along(straight(), 10.0, 15.0, obstacles=[Circle(70.0, 0.0, 1.0, name="lorry")]), operator(), PLANT, patience=1.0)
    assert not run.collisions and run.column("vx")[-1] < 0.5 and run.least_clearance > 0.3
    run = drive(HMMWV, along(straight(), 10.0, 12.0, obstacles=[Circle(70.0, 1.3, 0.15), Circle(70.0, -1.3, 0.15)]), operator(), PLANT)
    assert not run.collisions and run.column("vx").min() > 9.0


def test_commands_are_within_bounds_and_pedals_do_not_jump():
    run = drive(HMMWV, load_scenario("obstacle_field_20", 3), operator(remnant="noise", distraction="poor_map", variation=1.0), PLANT)
    steering, throttle, brake = run.commands.T
    assert np.abs(steering).max() <= 1.0 and throttle.min() >= 0.0 and brake.min() >= 0.0 and brake.max() <= 0.6
    assert not (throttle * brake).any()  # one foot
    assert np.abs(np.diff(throttle - brake)).max() <= 2.5 * 0.025 + 1e-9


def test_a_seed_is_a_person_and_repeats():
    def commands(seed):
        return drive(HMMWV, along(straight(), 10.0, 6.0, y=1.0), operator(seed, variation=1.0, remnant="noise", distraction="urban"),
                     PLANT).commands
    np.testing.assert_array_equal(commands(3), commands(3))
    assert np.abs(commands(3) - commands(4)).max() > 1e-3
    it = operator(5, remnant="noise", variation=1.0)
    it.follow(Path(straight()), 10.0)
    rows = []
    for _ in range(2):
        rows.append([it.cycle(0.01 * k, Measured(0.01 * k, state(0.1 * k, 0.5))).command for k in range(200)])
        it.reset()  # begins the task anew, with the same hands
    assert rows[0] == rows[1]


# ---- What it can know ---------------------------------------------------------------------------------------------------------


def drive_past(moves, until=1.5, **settings):
    """Commands of an operator on a straight road; moves(it, k): does something before cycle k of 10 ms."""
    it = operator(**settings)
    it.go_to(Goal(200.0, 0.0), 10.0)
    rows = []
    for k in range(round(until / 0.01)):
        moves(it, k)
        rows.append(it.cycle(0.01 * k, Measured(0.01 * k, state(0.1 * k))).command)
    return np.array(rows)


def test_nothing_is_known_before_eye_mind_and_hand_have_had_their_time():
    appears = 0.7
    rock = Obstacles(np.array([[30.0, 0.0]]), np.array([2.0]), np.zeros((1, 2)), appears)

    def show(it, k):
        if k == round(appears / 0.01):
            it.update_obstacles(rock)
    blind, seeing = drive_past(lambda it, k: None, 3.0, decision_period=0.05), drive_past(show, 3.0, decision_period=0.05)
    changed = 0.01 * np.flatnonzero((blind != seeing).any(axis=1))[0]
    s = OperatorSettings()
    least = s.perception_delay + s.cognitive_cycle + s.motor_delay
    assert appears + least <= changed + 1e-9 and changed < appears + least + 2 * s.cognitive_cycle + 0.02


def test_who_looks_away_holds_what_was_decided():
    it = operator(distraction="several_assets", seed=6)
    it.follow(Path(straight()), 10.0)
    away, decided = [], []
    for k in range(4000):
        now = 0.01 * k
        it.cycle(now, Measured(now, state(0.1 * k, 0.3 * math.sin(now))))
        away.append(it.distracted)
        decided.append(it.target_angle)
    away = np.array(away)
    assert 0.05 < away.mean() < 0.8
    # What was decided before takes effect within the cycle and the motor delay; then nothing changes any more.
    settled = np.convolve(away, np.ones(15), "full")[:len(away)] == 15
    assert settled.any() and not np.diff(decided)[settled[1:] & settled[:-1]].any()
    assert np.abs(np.diff(decided))[~away[1:]].any()


def test_a_picture_that_stands_still_and_no_picture_at_all():
    it = operator(view_timeout=0.5)
    assert it.cycle(0.0).reason == "no picture yet"
    it.follow(Path(straight()), 10.0)
    for k in range(100):
        it.cycle(0.01 * k, Measured(0.01 * k, state(0.1 * k)))
    frozen = [it.cycle(1.0 + 0.01 * k, Measured(0.99, state(9.9))) for k in range(150)]
    assert "stands still" in frozen[-1].reason and frozen[-1].command == pytest.approx((frozen[-1].command[0], 0.0, 0.3))
    again = [it.cycle(2.5 + 0.01 * k, Measured(2.5 + 0.01 * k, state(25.0, vx=8.0))) for k in range(60)]
    assert again[-1].reason == "" and again[-1].command[2] == 0.0


@pytest.mark.parametrize("accepts", [True, False])
def test_the_foot_comes_off_the_brake_once_the_picture_shows_an_offer(accepts):
    """It stands before a lorry, behind a link of 1 s."""
    it = behind_a_link(operator(accepts=accepts), 1.0)
    it.follow(Path(straight()), 10.0)
    it.update_obstacles(Obstacles(np.array([[4.2, 0.0]]), np.array([1.0]), np.zeros((1, 2)), 0.0))
    brakes = []
    for k in range(400):
        brakes.append(it.cycle(0.025 * k, Measured(0.025 * k, state(0.0, vx=0.0))).command[2])
        it.update_offer(0.025 * k, 4.0 <= 0.025 * k < 7.0)
    stands = np.array(brakes) > 0.1
    assert stands[80:200].all() and (stands[240:320].any() != accepts) and stands[-1]


def test_remote_drops_what_comes_late_and_holds_the_last_command():
    it = RemoteDriver(operator(), NetworkLink(NetworkLinkSettings(delay=0.05, jitter=0.1, overtaking=True), 3),
                      NetworkLink(NetworkLinkSettings(delay=0.1, drop=0.5), 4))
    it.follow(Path(straight()), 10.0)
    commands = [it.cycle(0.01 * k, Measured(0.01 * k, state(0.1 * k, 1.0))).command for k in range(300)]
    assert commands[:25] == [(0.0, 0.0, 0.0)] * 25 and it.late["up"] > 10 and it.late["down"] == 0
    assert it.down.dropped == pytest.approx(150, abs=40) and commands[-1] != (0.0, 0.0, 0.0)


# ---- Minds from outside ---------------------------------------------------------------------------------------------------


class Asleep:
    """Decides the same whatever it perceives."""

    def __init__(self, vehicle, settings, person, random):
        self.seen = []

    def act(self, percept):
        self.seen.append(percept)
        return OperatorDecision(9.0, math.nan if len(self.seen) > 5 else 0.1)

    def reset(self):
        self.seen.clear()


def test_a_mind_is_chosen_by_name_and_kept_within_the_vehicle():
    register_operator(OperatorKind("asleep", "for a test", Asleep))
    it = operator(cognition="asleep")
    it.follow(Path(straight()), 10.0)
    commands = [it.cycle(0.05 * k, Measured(0.05 * k, state(0.5 * k))).command for k in range(7)]
    assert 0.0 < commands[-1][0] <= 1.0
    with pytest.raises(ArithmeticError, match="operator asleep decided for"):
        for k in range(7, 12):
            it.cycle(0.05 * k, Measured(0.05 * k, state(0.5 * k)))
    with pytest.raises(InputError, match="operator 'asleep' is registered already"):
        register_operator(OperatorKind("asleep", "another", Asleep))
    with pytest.raises(InputError, match="operator 'genius' is unknown; choose one of: two_point"):
        operator(cognition="genius")
    for wrong in (Asleep, OperatorKind("no name", "", Asleep)):
        with pytest.raises(InputError, match=r"register a OperatorKind|'no name': no name"):
            register_operator(wrong)


@pytest.mark.parametrize("wrong, words", [
    ({"cognitive_cycle": 0.01, "period": 0.05}, "cognitive_cycle is 0.01 s, below the period"),
    ({"distraction": "naps"}, "choose one of: none"),
    ({"steering_factor": math.nan}, "operator: steering_factor is nan"), ({"remnant": "loud"}, "choose one of: sines, noise, none")])
def test_settings_that_cannot_be_are_refused(wrong, words):
    with pytest.raises(InputError, match=words):
        OperatorSettings(**wrong)


def test_tasks_and_seeds_that_cannot_be_are_refused():
    it = operator()
    with pytest.raises(InputError, match="speed to a goal is 0"):
        it.go_to(Goal(10.0, 0.0), 0.0)
    with pytest.raises(InputError, match="seed is -1"):
        Operator(HMMWV, seed=-1)
