"""What is asked is what the vehicle does: steady states by the model itself and by closed forms, limits, ways of changing."""

import math

import numpy as np
import pytest

from lfdm_ros.engine.inversion import Follower, FollowerSettings, MotionSetpoint
from lfdm_ros.simulation import Simulator
from lfdm_ros.simulation.actuator import Actuator
from lfdm_ros.vehicles import Vehicle, load_vehicle

PERIOD = 0.01


@pytest.fixture(scope="module")
def hmmwv() -> tuple[Vehicle, Follower]:
    vehicle = load_vehicle("hmmwv").replace(steering_lag=0.1, actuation_delay=0.05)
    return vehicle, Follower(vehicle)


def drive(vehicle: Vehicle, follower: Follower, wanted: MotionSetpoint, seconds: float, model: str = "eight_dof", speed: float = 0.0,
          lags: bool = True) -> dict[str, np.ndarray]:
    """The vehicle in closed loop, with its actuators between, sampled each period."""
    follower.reset()
    simulator = Simulator(vehicle, model=model)
    simulator.reset(vx=speed)
    actuator = Actuator.of(vehicle.actuators) if lags else Actuator()
    names = ("vx", "yaw_rate", "road_wheel_angle", "ax", "x")
    rows, commands, before = [], [], np.zeros(3)
    for tick in range(round(seconds / PERIOD)):
        rows.append([simulator.outputs[simulator.output_index[name]] for name in names])
        commands.append(follower.inputs(tick * PERIOD, rows[-1][0], rows[-1][1], wanted))
        assert all(map(math.isfinite, commands[-1])) and commands[-1][1] * commands[-1][2] == 0.0
        actuator.send(tick * PERIOD, commands[-1])
        reached = actuator.advance((tick + 1) * PERIOD)
        simulator.advance(before, reached, 10)
        before = reached
    return {**dict(zip(names, np.array(rows).T)), **dict(zip(("steering", "throttle", "brake"), np.array(commands).T))}


def test_a_speed_and_a_curvature_are_reached(hmmwv: tuple[Vehicle, Follower]) -> None:
    """On another model than the one that was inverted, so that feedback has to take its share."""
    run = drive(*hmmwv, MotionSetpoint(speed=10.0, curvature=0.02), 20.0, model="eighteen_dof")
    assert run["vx"][-100:] == pytest.approx(10.0, abs=0.05)
    assert run["yaw_rate"][-100:] / run["vx"][-100:] == pytest.approx(0.02, rel=0.01)
    assert run["vx"].max() < 10.4  # without a swing beyond


def test_an_angle_is_the_angle_of_the_wheels_and_turns_as_the_closed_form_says(hmmwv: tuple[Vehicle, Follower]) -> None:
    vehicle, follower = hmmwv
    run = drive(vehicle, follower, MotionSetpoint(speed=5.0, angle=0.1), 15.0)
    assert run["road_wheel_angle"][-1] == pytest.approx(0.1, rel=1e-3)
    closed = 0.1 / (follower.steering.wheelbase + follower.steering.understeer * 25.0)  # steady single-track turn
    assert run["yaw_rate"][-1] / run["vx"][-1] == pytest.approx(closed, rel=0.03)


def test_accelerations_are_limits_and_are_kept(hmmwv: tuple[Vehicle, Follower]) -> None:
    run = drive(*hmmwv, MotionSetpoint(speed=8.0, acceleration=1.0), 12.0)
    times = PERIOD * np.arange(len(run["vx"]))
    rising = (times > 2.0) & (times < 7.0)
    assert np.polyfit(times[rising], run["vx"][rising], 1)[0] == pytest.approx(1.0, abs=0.05)
    assert run["vx"][-1] == pytest.approx(8.0, abs=0.05)
    stop = drive(*hmmwv, MotionSetpoint(speed=0.0, acceleration=2.0), 8.0, speed=10.0)
    falling = (stop["vx"] < 8.0) & (stop["vx"] > 2.0)
    assert np.polyfit(times[:len(falling)][falling], stop["vx"][falling], 1)[0] == pytest.approx(-2.0, abs=0.15)
    assert abs(stop["vx"][-1]) < 0.1 and stop["brake"][-1] == 0.3 and stop["throttle"][-1] == 0.0  # it stands, and is held


def test_backwards_begins_with_a_stop(hmmwv: tuple[Vehicle, Follower]) -> None:
    run = drive(*hmmwv, MotionSetpoint(speed=-2.0), 15.0, speed=4.0)
    assert run["vx"][-1] == pytest.approx(-2.0, abs=0.1)
    assert not (run["throttle"][run["vx"] > 0.3] < 0.0).any()


def test_a_lag_of_the_steering_is_made_up_for(hmmwv: tuple[Vehicle, Follower]) -> None:
    """A ramp within the actuator's rate comes out as that ramp, later by the pure delay alone."""
    vehicle, follower = hmmwv
    run = drive(vehicle, follower, MotionSetpoint(speed=3.0, angle=0.2, angle_rate=0.2), 1.0, speed=3.0)
    ramp = 0.2 * (PERIOD * np.arange(100) - vehicle.actuators.delay)
    settled = slice(60, 95)  # lag time constants later
    assert run["road_wheel_angle"][settled] == pytest.approx(ramp[settled], abs=0.004)


def test_what_the_vehicle_cannot_do_is_not_asked_of_it(hmmwv: tuple[Vehicle, Follower]) -> None:
    vehicle, follower = hmmwv
    gentle = Follower(vehicle, settings=FollowerSettings(lateral_limit=2.0))
    run = drive(vehicle, gentle, MotionSetpoint(speed=15.0, curvature=1.0), 20.0, speed=15.0)
    assert (run["yaw_rate"] * run["vx"])[-1] == pytest.approx(2.0, rel=0.1)
    fast = drive(vehicle, follower, MotionSetpoint(speed=200.0, angle=3.0), 1.0)
    assert fast["throttle"].max() == 1.0 and np.abs(fast["steering"]).max() <= 1.0


def test_inverses_are_those_of_the_model(hmmwv: tuple[Vehicle, Follower]) -> None:
    vehicle, follower = hmmwv
    for angle in (-0.5, 0.01, 0.3):
        assert follower.steering.input(angle) == pytest.approx(angle / vehicle.parameters["max_road_wheel_angle"])
    assert follower.steering.input(9.0) == 1.0
    for speed, wanted in ((3.0, 1.0), (10.0, 0.0), (10.0, -2.0), (20.0, 1.5)):
        level = follower.pedals.level(speed, wanted)
        simulator = Simulator(vehicle)
        simulator.reset(vx=speed)
        held = (0.0, max(level, 0.0), max(-level, 0.0))
        simulator.advance(held, held, 400)
        begin = float(simulator.outputs[simulator.output_index["vx"]])
        simulator.advance(held, held, 200)
        assert (float(simulator.outputs[simulator.output_index["vx"]]) - begin) / 0.2 == pytest.approx(wanted, abs=0.15)


def test_a_gearbox_is_driven_by_its_gears() -> None:
    vehicle = load_vehicle("sedan")
    run = drive(vehicle, Follower(vehicle), MotionSetpoint(speed=20.0), 25.0)
    assert run["vx"][-100:] == pytest.approx(20.0, abs=0.2)
