"""Stops that go with plans: how far they reach, how they are driven, and that no plan is driven without one."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from lfdm_ros.control.controller import NO_STOP, Controller, Outcome
from lfdm_ros.control.obstacles import Obstacles
from lfdm_ros.control.path import Path
from lfdm_ros.control.prediction import Measured
from lfdm_ros.control.settings import Settings
from lfdm_ros.control.stops import Stops, curve_of, first_hidden
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
SETTINGS = Settings(time_budget=0.0)
VALUES = SimpleNamespace(**HMMWV.parameters)
STOPS = Stops(SETTINGS, VALUES, GRAVITY * VALUES.friction_max * VALUES.friction_scale, VALUES.cg_to_front_axle + VALUES.cg_to_rear_axle,
              VALUES.max_road_wheel_angle)
AHEAD = np.linspace(0.0, 100.0, 41)
STRAIGHT = curve_of(AHEAD, np.zeros(41), np.zeros(41))
_YAW = np.cumsum(np.minimum(AHEAD / 20.0, 1.0) / 60.0) * 2.5  # enters as a driver can
BEND = curve_of(np.cumsum(np.cos(_YAW)) * 2.5 - 2.5, np.cumsum(np.sin(_YAW)) * 2.5, _YAW)


def circles(*rows, time=0.0):
    """Obstacles of rows x, y, radius, vx, vy."""
    table = np.array([(*row, *(0.0,) * (5 - len(row))) for row in rows]).reshape(-1, 5)
    return Obstacles(table[:, :2], table[:, 2], table[:, 3:], time)


def test_a_curve_is_bounded_where_the_state_jumps_away_from_its_plan():
    far = curve_of(np.array([-9e6, 0.0, 1.0]), np.zeros(3), np.zeros(3))
    assert far.x[0] == -9e6 and len(far.s) == 500


@pytest.mark.parametrize("speed", [3.0, 12.0, 25.0])
def test_a_stop_is_free_up_to_its_length(speed):
    braking = 5.0
    # The brake builds up, then slows the vehicle down; places are a metre apart.
    reach = speed * speed / (2.0 * braking) + 0.07 * speed + SETTINGS.vehicle_front + SETTINGS.stop_margin
    for beyond, free in ((-0.7, False), (1.5, True)):
        stop = STOPS.look(STRAIGHT, speed, 0.0, 0.0, circles((reach + beyond + 1.0, 0.0, 1.0)), SETTINGS.stop_margin, braking)
        assert stop.free == free
    assert STOPS.look(STRAIGHT, speed, 0.0, 0.0, circles((reach + 2.5, 0.0, 1.0)), 0.15, braking).speed == 0.0
    assert STOPS.look(STRAIGHT, speed, 0.0, 0.0, circles((3.9, 0.0, 1.0)), 0.15, braking).speed > 0.2 * speed


def test_what_moves_is_where_it_will_be():
    crossing = circles((30.0, -20.0, 1.0, 0.0, 10.0))  # on the line in 2 s, when the vehicle is there
    assert not STOPS.look(STRAIGHT, 18.0, 0.0, 0.0, crossing, 0.15, 5.0).free
    assert STOPS.look(STRAIGHT, 18.0, 0.0, 2.5, crossing, 0.15, 5.0).free  # seen 2.5 s ago: it has passed


def test_what_lies_behind_a_circle_is_hidden():
    places, along = np.column_stack([AHEAD, np.zeros(41)]), AHEAD
    assert first_hidden(places, along, np.array([[30.0, 0.5]]), np.array([1.0])) == 32.5
    assert first_hidden(places, along, np.array([[30.0, 1.5], [-5.0, 0.0]]), np.array([1.0, 1.0])) == math.inf


def test_who_stands_near_may_go_on_as_near_but_not_nearer():
    beside = circles((0.0, 1.1 + 1.0 + 0.05, 1.0))
    assert STOPS.look(STRAIGHT, 2.0, 0.0, 0.0, beside, 0.15, 5.0).free
    left = curve_of(AHEAD, 0.02 * AHEAD**2 / 10.0, 0.004 * AHEAD)
    assert not STOPS.look(left.shifted(0.3, 3.0), 2.0, 0.0, 0.0, circles((3.0, 2.15, 1.0)), 0.15, 5.0).free


def test_who_is_in_an_obstacle_may_leave_it_but_not_drive_further_into_it():
    assert STOPS.look(STRAIGHT, 1.0, 0.0, 0.0, circles((-SETTINGS.vehicle_rear, 0.0, 0.5)), 0.15, 5.0).free
    assert not STOPS.look(STRAIGHT, 1.0, 0.0, 0.0, circles((SETTINGS.vehicle_front, 0.0, 0.5)), 0.15, 5.0).free


def test_where_braking_hits_it_steers_round_as_well():
    stop = STOPS.best([STRAIGHT], 20.0, 0.0, 0.0, circles((24.0, 0.8, 1.0)), 0.15)
    assert stop.free and stop.curve.y[30] < -0.5
    wall = STOPS.best([STRAIGHT], 20.0, 0.0, 0.0, circles(*((15.0, y, 1.5) for y in range(-20, 21, 2))), 0.15)
    assert not wall.free and wall.speed > 5.0


@pytest.mark.parametrize(("curve", "speed"), [(STRAIGHT, 25.0), (BEND, 15.0)], ids=["straight", "bend"])
@pytest.mark.parametrize("aside", [0.0, 0.4])
def test_a_stop_is_driven_along_its_curve_within_its_length(curve, speed, aside):
    """The largest vehicle with other tyres: on the curve, and not longer than what was looked at."""
    simulator = Simulator(HMMWV, "twenty_four_dof", 1e-3, "tmeasy")
    simulator.reset(y=aside, vx=speed)
    at = [simulator.output_index[name] for name in ("x", "y", "yaw", "vx")]
    before, worst, way = np.zeros(3), 0.0, 0.0
    for _ in range(400):
        x, y, yaw, vx = simulator.outputs[at].tolist()
        if vx < 0.1:
            break
        steering, pedal = STOPS.command(curve, x, y, yaw, vx)
        after = np.array([np.clip(steering, before[0] - 0.016, before[0] + 0.016), 0.0, min(max(-pedal, 0.0), before[2] + 0.08)])
        simulator.advance(before, after, 20)
        before, way = after, way + 0.02 * vx
        i = int(np.hypot(curve.x - x, curve.y - y).argmin())
        worst = max(worst, abs(math.cos(curve.yaw[i]) * (y - curve.y[i]) - math.sin(curve.yaw[i]) * (x - curve.x[i])))
    assert vx < 0.1 and worst < 0.25 + aside, worst
    assert way < speed * speed / (2.0 * SETTINGS.sight_braking) + 0.15 * speed + 1.0


def test_no_plan_is_driven_without_room_to_stop(monkeypatch):
    """A planner that sees nothing, on a path that leads into a wall."""
    controller = Controller(HMMWV, SETTINGS)
    see = controller._planner._see
    monkeypatch.setattr(controller._planner, "_see", lambda obstacles, time: see(None, time))
    controller.follow(Path(np.array([[-20.0, 0.0], [300.0, 0.0]])), 15.0)
    simulator = Simulator(HMMWV, "driven_bicycle", 0.01)
    simulator.reset(vx=15.0)
    names = ("x", "y", "yaw", "vx", "vy", "yaw_rate")
    at = [simulator.output_index[name] for name in names]
    rungs, before = [], np.zeros(3)
    for k in range(500):
        values = dict(zip(names, simulator.outputs[at].tolist()))
        controller.see(circles(*((70.0, y, 1.0) for y in range(-12, 13, 2)), time=0.02 * k))
        cycle = controller.cycle(0.02 * k, Measured(0.02 * k, values))
        rungs.append(cycle.outcome)
        assert (cycle.outcome is Outcome.BRAKING) == (cycle.reason == NO_STOP)
        simulator.advance(before, np.array(cycle.command), 2)
        before = np.array(cycle.command)
    assert rungs[0] is Outcome.SOLVED and Outcome.BRAKING in rungs
    assert values["vx"] < 1.0 and 60.0 < values["x"] + SETTINGS.vehicle_front < 69.0 - 0.1 and math.isfinite(values["y"])
