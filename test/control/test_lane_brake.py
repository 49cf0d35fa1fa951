"""Braking in the lane before what moves, and staying in the lane where that is enough."""

import math
from dataclasses import replace

import numpy as np
import pytest

from lfdm_ros.control.controller import Controller
from lfdm_ros.control.cycle import CycleOutcome
from lfdm_ros.control.plan import Plan
from lfdm_ros.control.routing.routes import Reference
from lfdm_ros.control.routing.traffic import along_lane
from lfdm_ros.control.safety.guard import Guard
from lfdm_ros.control.safety.lane_brake import BESIDE, IN_LANE, LEAVING_LANE, LaneBrake
from lfdm_ros.control.safety.stops import Stops
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.closed_loop import PlantSettings, drive
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation import Scenario, initial_state
from lfdm_ros.simulation.courses import curve
from lfdm_ros.simulation.path import Path
from lfdm_ros.simulation.world import Circle, MotionStep, Polygon, Pose, World
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
SETTINGS = Settings(time_budget=0.0)
STOPS = Stops(SETTINGS, HMMWV)
NAMES = [f.name for f in HMMWV.model(SETTINGS.model).states]
PLACE = {name: i for i, name in enumerate(NAMES)}
PATH = Path(np.array([[-50.0, 0.0], [300.0, 0.0]]))
MARGIN = 0.05


def lane(left=1.75, right=1.75):
    return Reference(PATH, np.full(len(PATH.s), 10.0), 10.0, np.array([[0.0, left, right], [350.0, left, right]]), margin=0.1)


def moving(speed, **others):
    return initial_state(SETTINGS.model, HMMWV, vx=speed, **others)


def plan(speed, aside=0.0, begins=0.0):
    """Goes on at a speed [m/s] from an offset [m], and aside within 2 s [m]."""
    times = np.arange(41) * 0.1
    states = np.array([moving(speed, x=speed * t, y=begins + aside * min(t / 2.0, 1.0)) for t in times])
    return Plan(tuple(NAMES), times, states, np.zeros((41, 3)))


def seen(*rows, suspected=None):
    """Obstacles of rows x, y, radius, vx, vy."""
    table = np.array(rows, float)
    return Obstacles(table[:, :2], table[:, 2], table[:, 3:], 0.0, suspected=None if suspected is None else np.array(suspected, float))


def decide(obstacles, speed=10.0, aside=0.0, road=None):
    brake = LaneBrake(SETTINGS, STOPS, PLACE)
    return brake.decide(plan(speed, aside), (0.0, 0.0), (0.0, 0.0), 0.0, moving(speed), obstacles, road or lane(), MARGIN)


def test_it_brakes_before_the_last_stop_is_lost_and_not_long_before():
    due = {x: decide(seen((x, -2.0, 0.3, 0.0, 1.5))) for x in (9.0, 12.5, 40.0)}  # in the lane when the vehicle is there
    assert due[12.5].reason == IN_LANE and due[12.5].command[1] == pytest.approx(-SETTINGS.stop_brake)
    assert due[9.0] is not None and due[40.0] is None
    assert decide(seen((12.5, -9.0, 0.3, 0.0, -1.5))) is None  # walks away


def test_a_small_thing_that_is_only_suspected_to_move_counts():
    stands, comes = (seen((12.5, -2.0, 0.3, 0.0, 0.0), suspected=[velocity]) for velocity in ((0.0, 0.0), (0.0, 1.5)))
    assert not stands.may_move.any() and decide(stands) is None
    assert decide(comes).reason == IN_LANE


@pytest.mark.parametrize(("gap", "speed", "throttle"), [(0.02, 10.0, 0.0), (0.1, 10.0, 0.4), (0.02, 1.5, 0.4)])
def test_a_plan_that_misses_the_margin_goes_no_faster(gap, speed, throttle):
    """It passes too near to what stands farther on than a stop, where it would be through sooner by going faster."""
    guard, post = Guard(SETTINGS, HMMWV, PLACE), seen((6.0 + 3.0 * speed, -HMMWV.footprint.half_width - 0.3 - gap, 0.3, 0.0, 0.0))
    driven, _, command = guard.decide(plan(speed), (0.0, 0.4), (0.0, 0.0), 0.0, moving(speed), post, sight=False, lane=lane())
    assert driven and command == (0.0, throttle)


def test_slow_things_may_halt_in_the_lane():
    crosses = seen((14.0, 0.0, 0.3, 0.0, 2.9))  # has left the lane in time, should it go on
    assert decide(crosses).reason == IN_LANE
    assert decide(seen((14.0, 0.0, 0.3, 0.0, 8.0))) is None  # too fast to halt there


def test_it_brakes_in_the_lane_before_leaving_it():
    """Gently, as long as there is time; a wide corridor leaves the plan its way."""
    slower = seen((30.0, 1.5, 0.8, 7.0, -0.5))
    assert decide(slower) is None
    kept = decide(slower, aside=-1.5)
    assert kept.reason == IN_LANE and -SETTINGS.stop_brake < kept.command[1] < 0.0
    assert decide(slower, aside=-1.5, road=lane(1.75, 4.0)) is None


def test_it_brakes_in_the_lane_before_leaving_it_round_what_stands_there():
    brake, x = LaneBrake(SETTINGS, STOPS, PLACE), moving(10.0)
    stands, beside = seen((25.0, 0.8, 0.9, 0.0, 0.0)), seen((25.0, 3.0, 0.9, 0.0, 0.0))
    assert brake.leaves(plan(10.0, -1.5), 0.0, x, stands, lane()) and decide(stands, aside=-1.5).reason == LEAVING_LANE
    for obstacles, aside, road in ((beside, -1.5, lane()), (stands, -0.5, lane()), (stands, -1.5, lane(1.75, 4.0))):
        assert not brake.leaves(plan(10.0, aside), 0.0, x, obstacles, road)
    assert decide(stands, aside=-1.5, road=lane(1.75, 4.0)) is None
    assert decide(seen((7.0, 0.8, 0.9, 0.0, 0.0)), aside=-1.5) is None  # too near to stop before it


def test_it_stops_beside_the_way_of_what_comes_where_there_is_room():
    comes = seen((80.0, 0.3, 0.9, -8.0, 0.0))
    beside = decide(comes, road=lane(1.75, 4.25))
    assert beside.reason == BESIDE and beside.curve.y[25] < -1.5 and beside.command[0] < 0.0
    narrow = decide(comes)
    assert narrow is None or narrow.reason == IN_LANE


def test_an_evasion_brakes_hard_before_crossing_traffic_and_reaches_its_place_before_oncoming_traffic():
    crosses = decide(seen((13.0, 0.5, 0.43, 0.0, 0.5)), speed=11.2, road=lane(3.0, 3.0))
    comes = decide(seen((80.0, 0.3, 0.9, -8.0, 0.0)), road=lane(1.75, 4.25))
    assert crosses.reason == comes.reason == BESIDE
    assert comes.max_braking < 4.0 and crosses.max_braking == math.inf and crosses.command[1] < -0.4


@pytest.mark.parametrize(("side", "left"), [("right", -1.0), ("left", 1.0)])
def test_an_evasion_before_oncoming_traffic_goes_to_the_verge(side, left):
    """There is as much room on both sides, and it is nearer on the other one."""
    brake, car = LaneBrake(replace(SETTINGS, traffic_side=side), STOPS, PLACE), seen((80.0, 0.3 * left, 0.9, -8.0, 0.0))
    evasion = brake.decide(plan(10.0), (0.0, 0.0), (0.0, 0.0), 0.0, moving(10.0), car, lane(4.25, 4.25), MARGIN)
    assert evasion.reason == BESIDE and left * evasion.curve.y[-1] > 2.0


def decide_again(*steps, road, before=0.0):
    """Decides on an evasion at 10 m/s and an offset, and then at each step of time, speed, offset and obstacles."""
    brake, stops = LaneBrake(SETTINGS, STOPS, PLACE), []
    for at, speed, aside, obstacles in ((0.0, 10.0, before, seen((80.0, before, 0.9, -14.0, 0.0))), *steps):
        stops.append(brake.decide(plan(speed, begins=aside), (0.0, 0.0), (0.0, 0.0), at, moving(speed, y=aside),
                                  replace(obstacles, time=at), road, MARGIN))
    assert stops[0].reason == BESIDE
    return stops[1:]


def test_an_evasion_ends_behind_a_vehicle_that_drives_on_ahead():
    tractor = seen((9.0, 0.0, 1.2, 1.5, 0.0))
    steps = decide_again(*((at, 1.2, 0.3, tractor) for at in (0.1, 0.3, 0.7)), road=lane(5.2, 3.0))
    assert steps[0].reason == steps[1].reason == BESIDE and steps[2] is None


def test_an_evasion_ends_where_it_has_led_to_the_middle_of_the_lane():
    """What comes in the other lane would hit the vehicle at its offset before."""
    other_lane = seen((60.0, 3.5, 0.9, -6.0, 0.0))
    for aside, ends in ((1.7, False), (0.1, True)):
        steps = decide_again(*((at, 0.5, aside, other_lane) for at in (0.1, 0.3, 0.7)), road=lane(5.2, 3.0), before=1.7)
        assert steps[1].reason == BESIDE and (steps[-1] is None) == ends


def test_an_evasion_turns_back_before_a_car_that_comes_to_its_side():
    """It may drive along the lane from there on, where the vehicle has gone."""
    (back,) = decide_again((0.1, 6.0, 3.0, seen((40.0, 2.4, 0.9, -14.0, 1.0))), road=lane(5.2, 3.0))
    assert back.reason == BESIDE and back.curve.y[-1] < 0.5 and back.max_braking < 1.0


def test_a_car_that_comes_in_the_lane_and_returns_to_its_own_is_not_hit():
    speed, begins = 14.0, 2.4
    path = np.array([[0.0, 0.0], [150.0, 0.0]])
    corners = np.array([[-2.2, -0.9], [2.2, -0.9], [2.2, 0.9], [-2.2, 0.9]]) + [46.0 + 4.6 * speed, 0.1]
    car = Polygon(corners, vx=-speed, name="car", steps=(MotionStep(begins, -speed, 3.4 / 1.2), MotionStep(begins + 1.2, -speed, 0.0)))
    corridor = np.array([[0.0, 5.2, 3.0], [150.0, 5.2, 3.0]])
    scenario = Scenario("returns", Pose(speed=10.0), None, 45.0, World((car,)), None, path, 10.0, corridor)
    run = drive(HMMWV, scenario, Controller(HMMWV, SETTINGS), PlantSettings("eighteen_dof", seed=1), patience=8.0)
    assert not run.collisions and run.outside < 0.05 and np.isfinite(run.reached)


def test_a_place_outside_of_the_corridor_is_given_up_for_one_inside():
    brake, corridor = LaneBrake(SETTINGS, STOPS, PLACE), lane(1.75, 4.25)
    ends = [brake.decide(plan(10.0), (0.0, 0.0), (0.0, 0.0), at, moving(10.0), seen((60.0, 0.3, radius, -8.0, 0.0)), corridor,
                         MARGIN).curve.y[-1] for at, radius in ((0.0, 2.0), (0.02, 0.9), (0.04, 1.8))]
    assert ends == [-3.0, -2.5, -2.5]  # the front swings out of the corridor on the way to -3 m


def test_a_standing_vehicle_is_not_braked_for_what_passes_in_the_other_lane():
    assert decide(seen((60.0, 3.5, 0.9, -10.0, 0.0))) is None


@pytest.mark.parametrize("blocked", [False, True])
def test_a_path_round_which_the_corridor_has_room_is_driven_to_its_end(blocked):
    """A truck stands in the lane round a bend; beside it is room, or none: then the vehicle stands and touches nothing."""
    course = curve(8.0, 35.0, 1.2, 3.5, 40.0)
    (x,), (y,), (turn,), _ = Path(course.path).at(np.array([80.0]))
    long, wide = np.array([np.cos(turn), np.sin(turn)]), np.array([-np.sin(turn), np.cos(turn)])
    width = 6.5 if blocked else 1.25
    corners = [(-4.0, -1.25), (4.0, -1.25), (4.0, width), (-4.0, width)]
    truck = Polygon(np.array([(x, y) + a * long + b * wide for a, b in corners]), name="truck")
    corridor = course.corridor.copy()
    corridor[:, 1] = 5.25
    scenario = Scenario("truck", course.initial, None, 40.0, World((truck,)), None, course.path, 8.0, corridor)
    run = drive(HMMWV, scenario, Controller(HMMWV, SETTINGS), PlantSettings("driven_bicycle", None), patience=3.0)
    assert not run.collisions and run.outside < 0.05
    assert np.isfinite(run.reached) != blocked


def test_a_walker_behind_a_van_is_not_hit():
    """The controller brakes in its lane: outcome BRAKING, and the vehicle drives on afterwards."""
    path = np.column_stack([np.linspace(0.0, 80.0, 161), np.zeros(161)])
    for walks in (1.3, 1.6):
        met = (40.0 - 2.4) / 9.0
        world = World((Circle(40.4, 0.0 - walks * met, 0.3, vy=walks, name="walker"),
                       Polygon(np.array([[34.0, -4.0], [39.5, -4.0], [39.5, -1.9], [34.0, -1.9]]), name="van")))
        scenario = Scenario("van", Pose(speed=9.0), None, 30.0, world, None, path, 9.0, np.array([[0.0, 1.75, 1.75], [80.0, 1.75, 1.75]]))
        run = drive(HMMWV, scenario, Controller(HMMWV, SETTINGS), PlantSettings("driven_bicycle", None))
        assert not run.collisions and run.outside == 0.0 and np.isfinite(run.reached)
        assert run.outcomes[CycleOutcome.BRAKING.name] > 0


def halting(x, y, pace, braking, begins):
    """A car that crosses upwards at x [m], from y [m], and brakes until it stands [m/s^2], in steps of 0.1 s; it drives on 5 s later."""
    count = math.ceil(10.0 * pace / braking) + 1
    steps = [MotionStep(begins + 0.1 * k, 0.0, max(pace - braking * 0.1 * (k + 0.5), 0.0)) for k in range(count)]
    corners = np.array([[-0.9, -2.2], [0.9, -2.2], [0.9, 2.2], [-0.9, 2.2]]) + [x, y]
    return Polygon(corners, vy=pace, name="car", steps=(*steps, MotionStep(steps[-1].time + 5.0, 0.0, 4.0)))


@pytest.mark.parametrize(("obstacle", "seed"), [
    (halting(55.0, -31.2, 6.0, 6.0, 4.7), 1), (halting(55.0, -36.3, 7.0, 6.0, 4.6), 2),
    (Circle(50.0, -6.2, 0.3, vy=1.3, name="walker", steps=(MotionStep(3.6, 0.0, 0.0), MotionStep(5.3, 0.0, 1.3))), 1)],
    ids=["car", "faster car", "walker"])
def test_what_halts_or_goes_on_again_is_not_hit(obstacle, seed):
    """Where all went on as it does, the vehicle would not have to brake for it."""
    path = np.column_stack([np.linspace(0.0, 90.0, 181), np.zeros(181)])
    corridor = np.array([[0.0, 1.75, 1.75], [90.0, 1.75, 1.75]])
    scenario = Scenario("halts", Pose(speed=9.0), None, 40.0, World((obstacle,)), None, path, 9.0, corridor)
    run = drive(HMMWV, scenario, Controller(HMMWV, SETTINGS), PlantSettings("driven_bicycle", None, seed=seed), patience=15.0)
    assert not run.collisions and run.outside < 0.5 and np.isfinite(run.reached)
    assert run.outcomes[CycleOutcome.BRAKING.name] > 0


@pytest.mark.parametrize(("aside", "speed", "own", "seed"), [
    (0.43, 6.19, 9.55, 4), (0.23, 8.28, 9.56, 5), (0.43, 7.88, 9.41, 7), (0.24, 7.64, 9.75, 8), (0.23, 9.15, 9.63, 10)])
def test_a_car_that_comes_in_the_lane_is_let_by_on_the_verge(aside, speed, own, seed):
    """The vehicle goes to the verge in time, and does not come back as long as it would be hit there."""
    path = np.column_stack([np.linspace(0.0, 115.0, 231), np.zeros(231)])
    ahead = 70.0 + speed * (70.0 - HMMWV.footprint.front) / own
    corners = np.array([[-2.2, -0.9], [2.2, -0.9], [2.2, 0.9], [-2.2, 0.9]]) + [ahead, aside]
    corridor = np.array([[0.0, 1.75, 4.25], [115.0, 1.75, 4.25]])
    world = World((Polygon(corners, vx=-speed, name="car"),))
    scenario = Scenario("oncoming", Pose(speed=own), None, 40.0, world, None, path, own, corridor)
    run = drive(HMMWV, scenario, Controller(HMMWV, SETTINGS), PlantSettings("eighteen_dof", seed=seed), patience=12.0)
    assert not run.collisions and run.outside < 0.05 and np.isfinite(run.reached)


def test_what_comes_follows_the_lane_unless_it_clearly_leaves_it():
    obstacles = seen((60.0, 0.5, 0.9, -8.0, 0.4), (60.0, 0.5, 0.9, -8.0, 1.0), (60.0, 0.5, 0.9, -8.0, 1.4), (30.0, -9.0, 0.9, -0.5, 9.0),
                     (30.0, -3.0, 0.3, 0.2, 1.4), (30.0, 3.0, 0.5, 0.0, 0.0),
                     (30.0, 3.5, 0.9, 8.0, -0.4))
    deviations = np.array([[0.1, 10.0], [0.1, 10.0], [0.1, 0.6], [0.1, 0.1], [0.1, 0.1], [0.1, 0.0], [0.1, 0.1]])
    followed = along_lane(replace(obstacles, deviations=deviations), lane())
    assert followed.velocities == pytest.approx(np.array([[-8.0, 0.0], [-8.0, 1.0], [-8.0, 0.0], *obstacles.velocities[3:]]))
    assert followed.turns == pytest.approx(np.zeros(7), abs=1e-9)
    assert along_lane(obstacles, lane()) is obstacles  # nobody knows how well


def on_arc(radius, angle, speed, noise=0.0):
    """A car on a circle about (0, 40) whose velocity is turned by `noise` [rad]: place, radius, velocity."""
    heading = angle + (math.pi if speed < 0.0 else 0.0) + noise
    return (radius * math.sin(angle), 40.0 - radius * math.cos(angle), 0.9, abs(speed) * math.cos(heading), abs(speed) * math.sin(heading))


@pytest.mark.parametrize(("radius", "speed", "noise"), [(36.5, -8.0, 0.03), (40.0, -8.0, -0.05), (36.5, 8.0, 0.0), (43.5, 12.0, 0.0),
                                                        (43.5, 8.0, 0.05)])
def test_what_drives_along_a_bend_turns_with_it(radius, speed, noise):
    """Oracle: the circle. The same way, with a velocity as late as the tracker's, too."""
    s = np.linspace(-20.0, 60.0, 161)
    path = Path(np.column_stack([40.0 * np.sin(s / 40.0), 40.0 * (1.0 - np.cos(s / 40.0))]))
    bend = Reference(path, np.full(len(path.s), 10.0), 10.0, np.array([[0.0, 1.75, 1.75], [80.0, 1.75, 1.75]]))
    angle = 0.9 if speed < 0.0 else 0.0
    car = replace(seen(on_arc(radius, angle, speed, noise)), deviations=np.array([[0.1, 0.3]]))
    followed = along_lane(car, bend)
    for later in (1.0, 2.0, 2.5):
        expected = on_arc(radius, angle + speed * later / radius, speed)[:2]
        assert np.hypot(*(followed.at(later).centres[0] - expected)) < 0.25, later
        assert later == 1.0 or np.hypot(*(car.at(later).centres[0] - expected)) > 1.0


def test_cars_beside_do_not_change_lanes_with_the_path():
    s = np.linspace(0.0, 200.0, 401)
    aside = 3.5 * np.clip((s - 40.0) / 60.0, 0.0, 1.0) ** 2 * (3.0 - 2.0 * np.clip((s - 40.0) / 60.0, 0.0, 1.0))
    path = Path(np.column_stack([s, aside]))
    change = Reference(path, np.full(len(path.s), 12.0), 12.0, np.column_stack([s, 5.25 - aside, 1.75 + aside]))
    cars = replace(seen((45.0, 3.5, 0.9, 12.0, 0.0), (60.0, 0.0, 0.9, 12.0, 0.0)), deviations=np.full((2, 2), 0.1))
    assert along_lane(cars, change).at(3.0).centres == pytest.approx(np.array([[81.0, 3.5], [96.0, 0.0]]), abs=0.2)
