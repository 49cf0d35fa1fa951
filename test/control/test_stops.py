"""Stops that go with plans: how far they reach, how they are driven, and that no plan is driven without one."""

import math
from dataclasses import replace

import numpy as np
import pytest

from lfdm_ros.backends import advance_kernel
from lfdm_ros.control.command_limits import RateLimits
from lfdm_ros.control.controller import Controller
from lfdm_ros.control.cycle import CycleOutcome
from lfdm_ros.control.ocp.planner import Planner
from lfdm_ros.control.plan import Plan
from lfdm_ros.control.prediction import Measured, PlanarState
from lfdm_ros.control.safety import braking
from lfdm_ros.control.safety.braking import Pedals
from lfdm_ros.control.safety.guard import NO_STOP, Guard
from lfdm_ros.control.safety.stops import CONSERVATIVE, MAX_BLIND_SPEED, NOMINAL, Curve, Stops, curve_of, occluded
from lfdm_ros.control.settings import Settings
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation import Simulator, initial_state
from lfdm_ros.simulation.path import Path
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
SETTINGS = Settings(time_budget=0.0)
STOPS = Stops(SETTINGS, HMMWV)
NAMES = [f.name for f in HMMWV.model(SETTINGS.model).states]
PLACE = {name: i for i, name in enumerate(NAMES)}
STEERING_PREVIEW = np.linspace(0.0, 100.0, 41)
STRAIGHT = curve_of(STEERING_PREVIEW, np.zeros(41), np.zeros(41))


def bend(across, speed):
    """A curve that becomes as tight as `across` [m/s^2] at a speed [m/s], as a driver can."""
    yaw = np.cumsum(np.minimum(STEERING_PREVIEW / (2.0 * speed), 1.0) * across / speed**2) * 2.5
    return curve_of(np.cumsum(np.cos(yaw)) * 2.5 - 2.5, np.cumsum(np.sin(yaw)) * 2.5, yaw)


def moving(speed, **others):
    """A state of the predicting model."""
    return initial_state(SETTINGS.model, HMMWV, vx=speed, **others)


def look(curve, state, obstacles, margin=SETTINGS.stop_margin, time=0.0, **others):
    return STOPS.evaluate(curve, state, (0.0, 0.0), (0.0, 0.0), time, obstacles, margin, SETTINGS.sight_braking, **others)


def circles(*rows, time=0.0):
    """Obstacles of rows x, y, radius, vx, vy."""
    table = np.array([(*row, *(0.0,) * (5 - len(row))) for row in rows]).reshape(-1, 5)
    return Obstacles(table[:, :2], table[:, 2], table[:, 3:], time)


def drive(curve: Curve, speed: float, aside: float = 0.0, trust=CONSERVATIVE) -> tuple[float, float, float]:
    """The largest vehicle with other tyres, from the curve's start: furthest from the curve [m], way [m], largest slip angle [rad]."""
    simulator = Simulator(HMMWV, "twenty_four_dof", 1e-3, "tmeasy")
    simulator.reset(y=aside, vx=speed)
    at = [simulator.output_index[name] for name in NAMES]
    before, worst, way, slip = np.zeros(3), 0.0, 0.0, 0.0
    for _ in range(600):
        x = simulator.outputs[at]
        px, py, _, vx, vy, *_ = x.tolist()
        if vx < 0.1:
            return worst, way, slip
        steering, pedal = STOPS.command(curve, x, trust)
        after = np.array([np.clip(steering, before[0] - 0.016, before[0] + 0.016), 0.0, min(max(-pedal, 0.0), before[2] + 0.08)])
        simulator.advance(before, after, 20)
        before, way = after, way + 0.02 * vx
        i = curve.nearest(px, py)
        worst = max(worst, abs(math.cos(curve.course[i]) * (py - curve.y[i]) - math.sin(curve.course[i]) * (px - curve.x[i])))
        slip = max(slip, abs(math.atan2(vy, max(vx, 3.0))))
    raise AssertionError("does not stand")


def test_a_curve_is_bounded_where_the_state_jumps_away_from_its_plan():
    far = curve_of(np.array([-9e6, 0.0, 1.0]), np.zeros(3), np.zeros(3))
    assert far.x[0] == -9e6 and len(far.s) == 500


@pytest.mark.parametrize("speed", [3.0, 12.0, 25.0])
def test_a_stop_is_free_from_a_little_more_than_its_length(speed):
    _, way, _ = drive(STRAIGHT, speed)
    reach = way + HMMWV.footprint.front + 1.0
    assert not look(STRAIGHT, moving(speed), circles((reach - 0.3, 0.0, 1.0))).free
    beyond = circles((1.2 * way + 0.15 * speed + HMMWV.footprint.front + SETTINGS.stop_margin + 1.5, 0.0, 1.0))
    assert look(STRAIGHT, moving(speed), beyond).free and look(STRAIGHT, moving(speed), beyond).speed == 0.0
    assert look(STRAIGHT, moving(speed), circles((3.9, 0.0, 1.0))).speed > 0.2 * speed


def test_a_throttle_that_is_let_go_still_drives_for_a_while():
    """The speed at which a wall near by is met: as the largest vehicle has it, which goes on speeding up for a tenth of a second."""
    throttle = 0.8
    simulator = Simulator(HMMWV, "twenty_four_dof", 1e-3, "tmeasy")
    simulator.reset(vx=5.0)
    at = [simulator.output_index[name] for name in NAMES]
    before = np.array([0.0, throttle, 0.0])
    simulator.advance(before, before, 1000)
    x, _, _, speed, *_ = simulator.outputs[at].tolist()
    wall = circles((x + 2.5 + HMMWV.footprint.front + 1.0, 0.0, 1.0))
    seen = STOPS.evaluate(STRAIGHT, moving(speed, x=x), (0.0, throttle), None, 0.0, wall, SETTINGS.stop_margin, SETTINGS.sight_braking)
    pedal = throttle
    while simulator.outputs[at[0]] < x + 2.5:
        pedal = max(pedal - 0.02 * SETTINGS.brake_rate, -SETTINGS.stop_brake)
        after = np.array([0.0, max(pedal, 0.0), max(-pedal, 0.0)])
        simulator.advance(before, after, 20)
        before = after
    assert simulator.outputs[at[3]] > speed  # it was faster than at the begin
    assert seen.speed == pytest.approx(float(simulator.outputs[at[3]]), abs=0.25)


def test_what_moves_is_where_it_will_be():
    crossing = circles((30.0, -20.0, 1.0, 0.0, 10.0))  # on the line in 2 s, when the vehicle is there
    assert not look(STRAIGHT, moving(18.0), crossing).free
    assert look(STRAIGHT, moving(18.0), crossing, time=2.5).free  # seen 2.5 s ago: it has passed


@pytest.mark.parametrize("state", [dict(y=1.4), dict(yaw=0.12), dict(vy=2.5)], ids=["beside", "askew", "sliding"])
def test_a_stop_begins_where_the_vehicle_is_and_not_on_its_curve(state):
    """What the curve passes by half a metre, a vehicle hits that is not on it."""
    beside = circles((14.0, 1.1 + 0.5 + 1.0, 1.0))
    assert look(STRAIGHT, moving(18.0), beside).free
    assert not look(STRAIGHT, moving(18.0, **state), beside).free


def test_a_bend_that_the_tyres_do_not_hold_is_no_way_to_stop():
    """What stands beside the curve, on the side to which the vehicle slides."""
    for across, free in ((5.0, True), (14.0, False)):
        curve = bend(across, 20.0)
        i = int(np.searchsorted(curve.s, 40.0))
        outside = circles((curve.x[i] + 2.1 * math.sin(curve.course[i]), curve.y[i] - 2.1 * math.cos(curve.course[i]), 0.5))
        assert look(curve, moving(20.0), outside, sight=False).free == free


def test_what_lies_behind_a_circle_is_hidden():
    places = np.column_stack([STEERING_PREVIEW, np.zeros(41)])
    assert STEERING_PREVIEW[occluded(places, np.array([[30.0, 0.5]]), np.array([1.0])).argmax()] == 32.5
    assert not occluded(places, np.array([[30.0, 1.5], [-5.0, 0.0]]), np.array([1.0, 1.0])).any()
    assert not occluded(places, np.array([[0.3, 0.0]]), np.array([1.0])).any()  # one cannot be in an obstacle and see it


def test_a_stop_ends_in_sight():
    """Round an obstacle, to where it occludes what there may be; the middle of the way is in sight, its left side is not."""
    left = bend(5.0, 18.0)
    i = int(np.searchsorted(left.s, 22.0))
    corner = circles((left.x[i] - 3.0 * math.sin(left.course[i]), left.y[i] + 3.0 * math.cos(left.course[i]), 1.5))
    seen = look(left, moving(18.0), corner)
    assert seen.clearance > SETTINGS.stop_margin and seen.blind > 5.0 and not seen.free
    assert look(left, moving(18.0), corner, sight=False).free
    assert look(left, moving(3.0), corner).free  # who is slow stands before


def test_who_stands_near_may_go_on_as_near_but_not_nearer():
    beside = circles((0.0, 1.1 + 1.0 + 0.05, 1.0))
    assert look(STRAIGHT, moving(2.0), beside).free
    assert not look(STRAIGHT, moving(4.0, yaw=0.1), circles((3.0, 2.2, 1.0))).free


def test_who_is_in_an_obstacle_may_leave_it_but_not_drive_further_into_it():
    assert look(STRAIGHT, moving(1.0), circles((-HMMWV.footprint.rear, 0.0, 0.5))).free
    assert not look(STRAIGHT, moving(1.0), circles((HMMWV.footprint.front, 0.0, 0.5))).free


def test_the_machine_code_of_a_stop_is_its_text():
    """numba's code and Python drive the same way, bit for bit."""
    vehicle = HMMWV.replace(friction_scale=CONSERVATIVE.grip * HMMWV.parameters["friction_scale"])
    model, rates, rng = vehicle.model(SETTINGS.model), RateLimits.of(SETTINGS, HMMWV.actuators), np.random.default_rng(3)
    pedals = Pedals(rates.steering, rates.up, rates.down, SETTINGS.largest_brake, SETTINGS.largest_throttle)
    state, before, after, rows = np.zeros(len(NAMES)), np.zeros(3), np.zeros(3), np.zeros((braking.MAX_TICKS, 7))
    advance = advance_kernel(model)(state, vehicle.vector(model), before, after)
    peak = GRAVITY * HMMWV.parameters["friction_max"] * HMMWV.parameters["friction_scale"]
    lengths = set()
    for case in range(40):
        speed = rng.uniform(0.0, 30.0)
        curve = bend(rng.uniform(-6.0, 6.0), max(speed, 3.0))
        start = moving(speed, x=rng.uniform(0.0, 10.0), y=rng.normal(), yaw=0.2 * rng.normal())
        command, first = tuple(rng.uniform(-1.0, 1.0, 2)), tuple(rng.uniform(-1.0, 1.0, 2)) if case % 2 else None
        times, poses, speeds = STOPS.driven(curve, start, command, first, 5.0)
        state[:] = start
        held = np.full(len(curve.s), CONSERVATIVE.circle * peak)
        count = braking.drive(
            braking.law, braking.braking, lambda _, n, h: advance(n, h), None, STOPS.braked, pedals,
            np.column_stack([curve.x, curve.y, curve.course, curve.curvature, held]), curve.nearest(start[PLACE["x"]], start[PLACE["y"]]),
            command, (SETTINGS.period, *first) if first else (0.0, 0.0, 0.0), -5.0 / STOPS.braked.full_brake, 0.07,
            [PLACE[name] for name in ("x", "y", "yaw", "vx", "ay")], state, before, after, rows)
        np.testing.assert_array_equal(np.column_stack([times, poses, speeds]), rows[:count, :5])
        lengths.add(count)
    assert len(lengths) > 10  # they were different stops


def test_the_plan_of_a_stop_is_its_motion():
    """With the inputs that make it, until the vehicle has stood for a second."""
    start, curve = moving(12.0, y=0.4), bend(3.0, 12.0)
    times, poses, speeds = STOPS.driven(curve, start, (0.1, 0.2), None, 5.0)
    plan = STOPS.planned(curve, start, (0.1, 0.2), 7.0, 5.0, CONSERVATIVE)
    np.testing.assert_array_equal(plan.states[:-1], np.column_stack([poses, speeds]))
    np.testing.assert_array_equal(plan.times[:-1], 7.0 + times)
    assert plan.names == ("x", "y", "yaw", "vx") and plan.times[-1] == plan.times[-2] + 1.0 and plan.states[-1, 3] == 0.0
    assert plan.inputs[0].tolist() == [0.1, 0.2, 0.0] and plan.inputs[-1, 2] == pytest.approx(5.0 / STOPS.braked.full_brake)
    assert (np.abs(np.diff(plan.inputs[:, 0])) <= HMMWV.actuators.steering_rate * np.diff(plan.times) + 1e-9).all()


def test_a_stop_is_judged_as_arrays_say():
    """The machine code's verdict against distances and sight of whole arrays, and against its own text in Python, bit for bit."""
    rng, result, found = np.random.default_rng(5), np.zeros(4), []
    outline, lidar = HMMWV.footprint, HMMWV.lidar
    for case in range(120):
        speed, time = rng.uniform(0.5, 25.0), rng.uniform(0.0, 2.0)
        count = int(rng.integers(1, 9))
        velocities = rng.normal(0.0, 3.0, (count, 2)) * (rng.random((count, 1)) < 0.3)
        obstacles = Obstacles(np.column_stack([rng.uniform(-5.0, 60.0, count), rng.uniform(-12.0, 12.0, count)]),
                              rng.uniform(0.3, 2.0, count), velocities, 0.25)
        if case % 4 > 1:
            obstacles = replace(obstacles, turns=np.random.default_rng(case).normal(0.0, 0.5, count))
        if case % 2:
            obstacles = obstacles.halting(obstacles.moving, np.array([0.0, 0.8]), 5.0)
        curve, start, margin = bend(rng.uniform(-4.0, 4.0), max(speed, 3.0)), moving(speed, y=rng.normal()), rng.uniform(0.0, 0.5)
        stop = STOPS.evaluate(curve, start, (0.0, 0.0), None, time, obstacles, margin, 5.0, sight=case % 3 > 0)
        times, poses, speeds = STOPS.driven(curve, start, (0.0, 0.0), None, 5.0)
        away = STOPS.distances(poses, times, time, obstacles)
        need = np.minimum(margin, np.where(away[0] > 0.0, np.maximum(away[0] - 0.02, 0.0), away[0] - 0.02))
        hit = (away <= np.minimum(need, 0.02)).any(axis=1)
        behind = STOPS.occluded_sides(*poses[::2].T, outline.front, poses[0].tolist(), obstacles)
        blind = max(float(speeds[::2][side.argmax()]) if side.any() else 0.0 for side in behind) if case % 3 else 0.0
        free = bool((away.min(axis=0) >= need).all()) and blind <= MAX_BLIND_SPEED
        assert stop.clearance == pytest.approx(away.min(), abs=1e-12)
        assert (stop.free, stop.blind, stop.speed) == (free, blind, speeds[hit.argmax()] if hit.any() else 0.0)
        rows = np.column_stack([times, poses, speeds])
        circles = np.column_stack([obstacles.centres, obstacles.velocities, obstacles.radii, obstacles.brakes, obstacles.turn_rates])
        braking.judge(rows, len(rows), circles,
                      (outline.front, outline.rear, outline.half_width, outline.scale), (lidar.x, lidar.y), time - 0.25, margin,
                      SETTINGS.obstacle_growth, case % 3 > 0, result)
        assert result.tolist() == [stop.clearance, bool((away.min(axis=0) >= need).all()), stop.speed, stop.blind]
        found.append((free, stop.speed > 0.0, blind > MAX_BLIND_SPEED))
    assert (np.mean(found, axis=0) > 0.1).all() and (np.mean(found, axis=0) < 0.9).all()  # all of it happened


def test_the_curve_of_a_plan():
    """Through its places, also where some repeat; straight on beyond."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        steps, course = rng.uniform(0.0, 1.5, 40) * (rng.random(40) < 0.8), np.cumsum(rng.normal(0.0, 0.1, 40))
        x, y = np.cumsum(steps * np.cos(course)), np.cumsum(steps * np.sin(course))
        curve, s = curve_of(x, y, course), np.concatenate([[0.0], np.cumsum(steps[1:])])
        kept = np.concatenate([[True], steps[1:] > 1e-3])
        s, x, y, course = s[kept], x[kept], y[kept], course[kept]
        assert len(curve.s) == math.ceil(s[-1] + 60.0)
        beyond = np.maximum(curve.s - s[-1], 0.0)
        heading = np.interp(curve.s, s, course)
        for got, expected in ((curve.x, np.interp(curve.s, s, x) + beyond * math.cos(course[-1])),
                              (curve.y, np.interp(curve.s, s, y) + beyond * math.sin(course[-1])), (curve.course, heading),
                              (curve.curvature, np.gradient(heading, 1.0))):
            np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-12)


def test_where_braking_hits_it_steers_round_as_well():
    state = moving(20.0)
    stop = STOPS.best([STRAIGHT], state, (0.0, 0.0), 0.0, circles((28.0, 0.8, 1.0)), 0.15)
    assert stop.free and abs(stop.curve.y[35]) > 0.5
    assert not STOPS.best([STRAIGHT], state, (0.0, 0.0), 0.0, circles((28.0, 0.8, 1.0)), 0.15, until=0.0).free  # no time but for one
    wall = STOPS.best([STRAIGHT], state, (0.0, 0.0), 0.0, circles(*((15.0, y, 1.5) for y in range(-20, 21, 2))), 0.15)
    assert not wall.free and wall.speed > 5.0


@pytest.mark.parametrize("across", [0.0, 4.0])
def test_where_nothing_is_free_on_what_is_certain_of_the_tyres_it_relies_on_what_is_said_of_them(across):
    """A wall behind the way that the surer stop needs, before it the harder one stands."""
    curve, state = bend(across, 15.0) if across else STRAIGHT, moving(15.0)
    needs = {trust: sum(drive(curve, 15.0, trust=trust)[1:2]) + HMMWV.footprint.front for trust in (CONSERVATIVE, NOMINAL)}
    assert needs[NOMINAL] < 0.9 * needs[CONSERVATIVE]
    at = int(0.9 * needs[CONSERVATIVE] + 1.0)
    wall = circles(*((curve.x[at] - e * math.sin(curve.course[at]), curve.y[at] + e * math.cos(curve.course[at]), 1.0)
                     for e in np.arange(-20.0, 20.1, 1.5)))
    assert not look(curve, state, wall).free
    stop = STOPS.best([curve], state, (0.0, 0.0), 0.0, wall, 0.1)
    assert stop.trust is NOMINAL and stop.speed < 4.0


@pytest.mark.parametrize(("aside", "faster"), [(1.7, False), (6.0, True)])
def test_beside_what_is_close_it_does_not_go_faster(aside, faster):
    controller = Controller(HMMWV, SETTINGS)
    controller.follow(Path(np.array([[-20.0, 0.0], [300.0, 0.0]])), 20.0)
    controller.update_obstacles(circles(*((x, side * aside, 0.2) for x in np.arange(0.0, 60.0, 1.0) for side in (-1.0, 1.0))))
    state = dict(x=0.0, y=0.0, yaw=0.0, vx=12.0, vy=0.0, yaw_rate=0.0)
    cycles = [controller.cycle(0.02 * k, Measured(0.02 * k, state | {"x": 0.24 * k})) for k in range(10)]
    assert {(cycle.outcome, cycle.reason) for cycle in cycles} == {(CycleOutcome.SOLVED, "")}
    assert (cycles[-1].command[1] > 0.1) == faster and cycles[-1].command[2] == 0.0


@pytest.mark.parametrize(("across", "speed"), [(0.0, 25.0), (4.0, 15.0), (5.0, 20.0), (4.0, 26.0)])
@pytest.mark.parametrize("aside", [0.0, 0.4])
def test_a_stop_is_driven_along_its_curve_within_its_length(across, speed, aside):
    """Also where brakes that lock the rear wheels would turn the vehicle round."""
    curve = bend(across, speed) if across else STRAIGHT
    _, poses, _ = STOPS.driven(curve, moving(speed, y=aside), (0.0, 0.0), None)
    worst, way, slip = drive(curve, speed, aside)
    assert worst < 0.6 + aside and slip < 0.2, (worst, slip)
    assert way < np.hypot(*np.diff(poses[:, :2], axis=0).T).sum() + 0.5 < 1.12 * way + 2.0


@pytest.mark.parametrize("speed", [6.0, 9.0, 12.0])
def test_steering_that_turns_slowly_does_not_overshoot_a_shift(speed):
    """The bends of the curve turn several times as fast as the steering does."""
    length = 1.6 * speed
    _, poses, _ = STOPS.driven(STRAIGHT.shifted(-3.0, 0.0, length), moving(speed), (0.0, 0.0), None, speed**2 / (2.0 * length), NOMINAL)
    assert -3.3 < poses[:, 1].min() < -2.6


def test_a_plan_does_not_brake_harder_in_a_bend_than_the_rear_axle_holds(monkeypatch):
    controller = Controller(HMMWV, SETTINGS)
    controller.follow(Path(np.array([[-20.0, 0.0], [300.0, 0.0]])), 20.0)
    monkeypatch.setattr(Plan, "command_at", lambda plan, time: (0.0, -1.0))
    braked = {across: controller.cycle(0.0, Measured(0.0, dict(x=0.0, y=0.0, yaw=0.0, vx=20.0, vy=0.0, yaw_rate=across / 20.0, ay=across)))
              for across in (0.0, 6.0)}
    assert braked[0.0].command[2] == pytest.approx(SETTINGS.brake_rate * SETTINGS.period)
    guard = Guard(SETTINGS, HMMWV, PLACE)
    measured = {"vx": 20.0, "yaw_rate": 0.0}
    assert {across: guard.limit_wheel_slip((0.0, -1.0), moving(20.0, ay=across), measured)[1] for across in (0.0, 6.0)} == {
        0.0: pytest.approx(-0.47, abs=0.02), 6.0: pytest.approx(-0.26, abs=0.02)}


@pytest.mark.parametrize(("speed", "faster", "pedal"), [
    (5.0, 0.9, 0.8), (5.0, 2.0, 0.4), (5.0, 3.1, 0.0), (20.0, 1.9, 0.8), (20.0, 4.0, 0.4), (0.0, 30.0, 0.0)])
def test_throttle_is_eased_while_a_wheel_spins(speed: float, faster: float, pedal: float):
    guard, spin = Guard(SETTINGS, HMMWV, PLACE), (speed + faster) / HMMWV.parameters["wheel_radius"]
    measured = {"vx": speed, "yaw_rate": 0.0, "omega_fl": spin, "omega_rr": speed}
    assert guard.limit_wheel_slip((0.1, 0.8), moving(speed), measured) == (0.1, pytest.approx(pedal))
    assert guard.limit_wheel_slip((0.1, 0.8), moving(speed), {"vx": speed, "yaw_rate": 0.0}) == (0.1, 0.8)


def test_the_speed_is_for_a_stop_within_what_both_sides_of_the_vehicle_see():
    guard, times = Guard(SETTINGS, HMMWV, PLACE), np.arange(41) * 0.1
    plan = Plan(tuple(NAMES), times, np.array([moving(20.0, x=20.0 * time) for time in times]), np.zeros((41, 3)))
    at = 0.02, PlanarState(0.0, 0.0, 0.0, 20.0)
    assert guard.visible_length(plan, *at, circles()) == guard.visible_length(None, *at, circles((30.0, 0.0, 1.0))) == SETTINGS.sight
    # Beside the way; on the middle line it occludes nothing, of the left side's way what lies beyond.
    assert 28.0 < guard.visible_length(plan, *at, circles((30.0, 1.9, 1.0))) < 40.0


def test_no_plan_is_driven_without_room_to_stop(monkeypatch):
    """A planner that sees nothing, on a path that leads into a wall."""
    controller = Controller(HMMWV, SETTINGS)
    plan = Planner.plan
    monkeypatch.setattr(Planner, "plan", lambda planner, z0, reference, obstacles, *rest, **named: plan(
        planner, z0, reference, None, *rest, **named))
    controller.follow(Path(np.array([[-20.0, 0.0], [300.0, 0.0]])), 15.0)
    simulator = Simulator(HMMWV, "driven_bicycle", 0.01)
    simulator.reset(vx=15.0)
    names = ("x", "y", "yaw", "vx", "vy", "yaw_rate")
    at = [simulator.output_index[name] for name in names]
    rungs, before = [], np.zeros(3)
    for k in range(500):
        values = dict(zip(names, simulator.outputs[at].tolist()))
        controller.update_obstacles(circles(*((70.0, y, 1.0) for y in range(-12, 13, 2)), time=0.02 * k))
        cycle = controller.cycle(0.02 * k, Measured(0.02 * k, values))
        rungs.append(cycle.outcome)
        assert (cycle.outcome is CycleOutcome.BRAKING) == (cycle.reason == NO_STOP)
        if cycle.outcome is CycleOutcome.BRAKING:  # the plan is that of the stop
            assert cycle.plan.names == ("x", "y", "yaw", "vx") and cycle.plan.states[-1, 3] == 0.0
            assert cycle.plan.states[-1, 0] + HMMWV.footprint.front < 69.0
        simulator.advance(before, np.array(cycle.command), 2)
        before = np.array(cycle.command)
    assert rungs[0] is CycleOutcome.SOLVED and CycleOutcome.BRAKING in rungs
    assert values["vx"] < 1.0 and 60.0 < values["x"] + HMMWV.footprint.front < 69.0 - 0.1 and math.isfinite(values["y"])
