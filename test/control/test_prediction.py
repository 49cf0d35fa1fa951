"""Prediction through the commands on their way: against the simulator behind an actuator, and the bookkeeping of what acts when."""

import math

import numpy as np
import pytest

from lfdm_ros.control import prediction
from lfdm_ros.control.prediction import MAX_COMMANDS, MAX_SPAN, Measured, Prediction
from lfdm_ros.errors import InputError
from lfdm_ros.simulation import Actuator, Simulator
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
MOVING = dict(x=3.0, y=-2.0, yaw=0.4, vx=14.0, vy=0.0, yaw_rate=0.0)


def irregular_commands(seed, until=2.4):
    """Times, steering and pedal of a lively driver who sends when he likes."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.integers(2, 60, 200)) * 1e-3
    times = times[times < until]
    return times, 0.15 * np.sin(3.0 * times) + rng.uniform(-0.05, 0.05, len(times)), rng.uniform(-0.6, 0.8, len(times))


def simulated(model, delay, lag, commands, wanted):
    """Names of the states; at each wanted time what was measured and the wheels' steering: the simulator behind an actuator, in steps of
    1 ms. All times are whole ms."""
    simulator, actuator = Simulator(HMMWV, model, 1e-3), Actuator(delay, lag)
    simulator.reset(**MOVING)
    names = [f.name for f in simulator.model.states]
    waiting, result = list(zip(*commands)), {}
    for k in range(round(max(wanted) * 1000) + 1):
        now = 1e-3 * k
        while waiting and waiting[0][0] < now + 1e-7:
            time, steering, pedal = waiting.pop(0)
            actuator.send(time, (steering, max(pedal, 0.0), max(-pedal, 0.0)))
        road = actuator.advance(now)[0]
        if any(abs(now - t) < 1e-7 for t in wanted):
            result[round(now, 3)] = Measured(now, dict(zip(names, simulator.state.tolist()))), float(road)
        inputs = actuator.advance(now + 0.5e-3)
        simulator.advance(inputs, inputs, 1)
    return names, result


@pytest.mark.parametrize("model", ["driven_bicycle", "eight_dof"])
@pytest.mark.parametrize("delay", [0.0, 0.1, 0.25])
@pytest.mark.parametrize("lag", [0.0, 0.15])
def test_follows_the_simulator_through_the_same_commands(model, delay, lag, monkeypatch):
    commands = irregular_commands(seed=5)
    taken, wanted = 1.7, 2.0
    names, truth = simulated(model, delay, lag, commands, (taken, wanted))
    predictor = Prediction(model, HMMWV, delay, lag)
    for command in zip(*commands):
        predictor.sent(*map(float, command))
    scale = np.array([{"x": 1.0, "y": 1.0, "yaw": 0.1, "vx": 1.0, "vy": 1.0, "yaw_rate": 0.3, "ax": 5.0, "ay": 5.0}.get(
        n, 20.0 if n.startswith("omega") else 0.2) for n in names])
    expected = np.array([truth[wanted][0].values[n] for n in names])
    errors = []
    # With the controller's steps, and with those of the simulator.
    for step, piece, tolerance in ((prediction.MAX_STEP, prediction.MAX_PIECE, 0.05), (1e-3, 1e-3, 1e-5)):
        monkeypatch.setattr(prediction, "MAX_STEP", step)
        monkeypatch.setattr(prediction, "MAX_PIECE", piece)
        state, road = predictor.at(truth[taken][0], wanted)
        worst = np.abs(state - expected) / scale
        assert worst.max() < tolerance, dict(zip(names, worst.round(5)))
        assert road == pytest.approx(truth[wanted][1], abs=1e-9)
        errors.append(float(np.hypot(*(state - expected)[:2])))
    assert errors[0] < 0.01
    # The test can fail: without the commands the state is elsewhere.
    moved = Prediction(model, HMMWV, delay, lag).at(truth[taken][0], wanted)[0]
    assert (np.abs(moved - expected) / scale).max() > 0.05


def test_which_command_acts_when():
    predictor = Prediction("driven_bicycle", HMMWV, 0.1, 0.0)
    assert predictor.command_at(5.0) == (0.0, 0.0)
    for time, steering, pedal in ((1.0, 0.1, 0.5), (1.02, 0.2, -0.5), (1.07, 0.3, 0.0)):
        predictor.sent(time, steering, pedal)
    for time, expected in ((0.5, (0.0, 0.0)), (1.0, (0.0, 0.0)), (1.0999, (0.0, 0.0)), (1.1, (0.1, 0.5)), (1.1199, (0.1, 0.5)),
                           (1.12, (0.2, -0.5)), (1.1699, (0.2, -0.5)), (1.17, (0.3, 0.0)), (99.0, (0.3, 0.0))):
        assert predictor.command_at(time) == expected, time
    predictor.clear()
    assert predictor.command_at(1.1) == (0.0, 0.0) and predictor.command_at(99.0) == (0.0, 0.0)


def test_of_two_at_one_time_the_last_acts():
    predictor = Prediction("driven_bicycle", HMMWV, 0.05, 0.2)
    predictor.sent(1.0, 0.7, 0.1)
    predictor.sent(1.0, -0.2, 0.3)
    alone = Prediction("driven_bicycle", HMMWV, 0.05, 0.2)
    alone.sent(1.0, -0.2, 0.3)
    assert predictor.command_at(1.05) == (-0.2, 0.3)
    a, b = (p.at(Measured(1.0, MOVING), 1.3) for p in (predictor, alone))
    assert np.array_equal(a[0], b[0]) and a[1] == b[1]


def test_a_clock_that_goes_back_takes_back_what_was_sent_later():
    predictor = Prediction("driven_bicycle", HMMWV, 0.1, 0.0)
    for k in range(10):
        predictor.sent(100.0 + 0.02 * k, 0.5, 0.5)
    predictor.sent(5.0, 0.1, 0.2)
    predictor.sent(5.02, 0.3, -0.2)
    assert [predictor.command_at(t) for t in (5.05, 5.11, 5.13, 200.0)] == [(0.0, 0.0), (0.1, 0.2), (0.3, -0.2), (0.3, -0.2)]


@pytest.mark.parametrize("lag", [0.0, 0.15])
def test_before_the_first_command_the_vehicle_coasts(lag):
    predictor = Prediction("driven_bicycle", HMMWV, 0.25, lag)
    coasting, road = predictor.at(Measured(0.0, MOVING), 0.25)
    assert road == 0.0
    predictor.sent(0.0, 0.8, -1.0)
    state, road = predictor.at(Measured(0.0, MOVING), 0.25 - 1e-6)
    assert state == pytest.approx(coasting, abs=1e-4) and road == 0.0
    names = [f.name for f in HMMWV.model("driven_bicycle").states]
    assert predictor.at(Measured(0.0, MOVING), 0.35)[0][names.index("vx")] < coasting[names.index("vx")] - 0.3


def test_lagging_steering_follows_each_command_exactly():
    delay, lag = 0.1, 0.15
    predictor = Prediction("driven_bicycle", HMMWV, delay, lag)
    times, steering, pedal = irregular_commands(seed=2)
    for command in zip(times.tolist(), steering.tolist(), pedal.tolist()):
        predictor.sent(*command)

    def road(time):
        # The convolution of the commands with the lag's response.
        acting = times + delay < time
        ends = np.minimum(np.append(times[1:] + delay, np.inf), time)
        weight = np.exp(-(time - ends) / lag) - np.exp(-(time - times - delay) / lag)
        return float((steering * weight)[acting].sum())

    for time in (0.05, 0.31, 0.9, 1.7, 2.9):
        assert predictor.at(Measured(time, MOVING), time)[1] == pytest.approx(road(time), abs=1e-12)
        assert predictor.at(Measured(time, MOVING), time + 0.3)[1] == pytest.approx(road(time + 0.3), abs=1e-12)


def test_states_may_come_late_and_in_any_order():
    """What the wheels do at a time depends on the commands alone, not on when and for what it was asked before."""
    times, steering, pedal = (a.tolist() for a in irregular_commands(seed=3))
    asked = [(1.0, 1.3), (0.4, 0.7), (2.0, 2.3), (0.4, 0.7), (1.5, 1.5), (0.2, 2.0)]
    together = Prediction("driven_bicycle", HMMWV, 0.1, 0.15)
    for i, command in enumerate(zip(times, steering, pedal)):
        together.sent(*command)
        if i % 7 == 3:
            together.at(Measured(command[0] + 0.5, MOVING), command[0] + 0.8)  # ahead of commands that are still to come
    for taken, wanted in asked:
        alone = Prediction("driven_bicycle", HMMWV, 0.1, 0.15)
        for command in zip(times, steering, pedal):
            alone.sent(*command)
        (x, road), (expected, expected_road) = (p.at(Measured(taken, MOVING), wanted) for p in (together, alone))
        assert np.array_equal(x, expected) and road == expected_road


@pytest.mark.parametrize("lag", [0.0, 0.15])
def test_a_full_history_forgets_the_oldest_only(lag):
    def commands(count):
        return [(0.005 * k, 0.3 * math.sin(0.05 * k), 0.1 * math.cos(0.1 * k)) for k in range(count)]
    short, full = (Prediction("driven_bicycle", HMMWV, 0.2, lag) for _ in range(2))
    for command in commands(MAX_COMMANDS + 700):
        full.sent(*command)
    for command in commands(MAX_COMMANDS + 700)[-MAX_COMMANDS + 2:]:
        short.sent(*command)
    now = 0.005 * (MAX_COMMANDS + 700)
    (x, road), (expected, expected_road) = (p.at(Measured(now - 0.5, MOVING), now + 0.2) for p in (full, short))
    assert np.array_equal(x, expected) and road == pytest.approx(expected_road, abs=1e-12)
    # Before all that is known, the oldest known acts.
    assert full.command_at(0.0) == full.command_at(0.005 * 700 - 1.0) == commands(MAX_COMMANDS + 700)[700][1:]


def test_not_later_than_the_state_is_the_state():
    predictor = Prediction("driven_bicycle", HMMWV, 0.1, 0.15)
    predictor.sent(0.0, 0.4, 0.4)
    expected = predictor.state(Measured(1.0, MOVING))
    for time in (1.0, 0.3):
        x, _ = predictor.at(Measured(1.0, MOVING), time)
        assert np.array_equal(x, expected)


def test_a_stale_state_costs_no_more_than_the_longest_prediction(monkeypatch):
    calls, kernel = [], prediction.advance_kernel

    def counted(model):
        roll = kernel(model)

        def bind(*arrays):
            advance = roll(*arrays)
            return lambda n, h: calls.append(n * h) or advance(n, h)

        return bind

    monkeypatch.setattr(prediction, "advance_kernel", counted)
    predictor = Prediction("driven_bicycle", HMMWV, 0.1, 0.15)
    predictor.sent(0.0, 0.02, 0.1)
    old, _ = predictor.at(Measured(0.0, MOVING), 1e6)
    assert sum(calls) == pytest.approx(MAX_SPAN) and len(calls) <= MAX_SPAN / prediction.MAX_PIECE + 2
    assert np.array_equal(old, predictor.at(Measured(0.0, MOVING), MAX_SPAN)[0])


def test_times_since_1970_work_as_those_since_the_start():
    for delay in (0.1, 0.25, 0.003):
        results = []
        for start in (0.0, 1.75e9 + 0.3):
            predictor = Prediction("driven_bicycle", HMMWV, delay, 0.1)
            for k in range(60):
                predictor.sent(start + 0.02 * k, 0.2 * math.sin(0.2 * k), 0.3)
            results.append(predictor.at(Measured(start + 0.9, MOVING), start + 1.2 + delay))
        assert results[0][0] == pytest.approx(results[1][0], abs=1e-4) and results[0][1] == pytest.approx(results[1][1], abs=1e-5)


def test_wheels_that_were_not_measured_roll_and_nan_is_not_taken():
    predictor = Prediction("eight_dof", HMMWV, 0.0, 0.0)
    names = [f.name for f in HMMWV.model("eight_dof").states]
    x = dict(zip(names, predictor.state(Measured(0.0, MOVING | {"omega_fl": math.nan, "omega_rr": 20.0, "ay": math.nan, "gear": 3.0}))))
    assert x["omega_rr"] == 20.0
    assert x["omega_fl"] == pytest.approx(x["omega_fr"]) and x["omega_fl"] == pytest.approx(MOVING["vx"] / HMMWV.parameters["wheel_radius"],
                                                                                          rel=0.1)
    turning = dict(zip(names, predictor.state(Measured(0.0, MOVING | {"yaw_rate": 0.3}))))
    assert turning["ay"] == pytest.approx(0.3 * MOVING["vx"]) and turning["omega_fr"] > turning["omega_fl"]


def test_another_vehicle_acts_from_then_on_and_one_that_lacks_parameters_changes_nothing():
    predictor, measured = Prediction("driven_bicycle", HMMWV, 0.0, 0.0), Measured(0.0, MOVING)
    predictor.sent(0.0, 0.0, -0.3)
    first, _ = predictor.at(measured, 0.3)
    with pytest.raises(InputError, match="rhode_dual_track"):
        predictor.set_vehicle(load_vehicle("rhode_dual_track"))
    assert np.array_equal(predictor.at(measured, 0.3)[0], first)
    weak = HMMWV.replace(**{f"brake_torque_{axle}": 0.5 * HMMWV.parameters[f"brake_torque_{axle}"] for axle in ("front", "rear")})
    predictor.set_vehicle(weak)
    fresh = Prediction("driven_bicycle", weak, 0.0, 0.0)
    fresh.sent(0.0, 0.0, -0.3)
    state, _ = predictor.at(measured, 0.3)
    assert np.array_equal(state, fresh.at(measured, 0.3)[0])
    # Half the brake, half of what it takes away.
    lost, full = (MOVING["vx"] - x[3] for x in (state, first))
    assert 0.45 * full < lost < 0.6 * full


@pytest.mark.parametrize("values, time, named", [
    ({}, math.nan, "time is nan"), ({}, math.inf, "time is inf"), ({"vx": math.nan}, 0.0, "vx is nan"),
    ({"yaw": math.inf}, 0.0, "yaw is inf"),
    ({"yaw_rate": None}, 0.0, "yaw_rate is missing")])
def test_a_state_that_is_none_is_refused(values, time, named):
    with pytest.raises(InputError, match=named):
        Measured(time, MOVING | values)


def test_what_the_model_misses_is_learned():
    """The vehicle slides more than the controller's: through 300 ms its state is predicted better by one that has compared."""
    commands = irregular_commands(seed=3)
    wanted = np.round(np.arange(0.02, 2.4, 0.02), 3)
    slippery = HMMWV.replace(cornering_stiffness_front=0.7 * HMMWV.parameters["cornering_stiffness_front"])
    _, truth = simulated("driven_bicycle", 0.1, 0.0, commands, wanted)
    errors = []
    for learning in (0.0, 0.1):
        predictor = Prediction("driven_bicycle", slippery, 0.1, 0.0, learning)
        for command in zip(*commands):
            predictor.sent(*map(float, command))
        missed = []
        for now, until in zip(wanted, wanted[15:]):
            predicted, _ = predictor.at(truth[now][0], until)
            missed.append(predicted[[2, 4, 5]] - [truth[until][0].values[name] for name in ("yaw", "vy", "yaw_rate")])
        errors.append(np.sqrt(np.mean(np.square(missed[20:]), axis=0)))
    assert (errors[1] < 0.75 * errors[0]).all() and errors[0].max() > 0.05


def test_learning_forgets_with_the_commands_and_takes_no_state_twice():
    _, truth = simulated("driven_bicycle", 0.0, 0.0, irregular_commands(seed=1), (0.5, 0.52))
    predictor = Prediction("driven_bicycle", HMMWV.replace(yaw_inertia=9000.0), 0.0, 0.0, 0.1)
    predictor.sent(0.0, 0.1, 0.0)
    fresh = predictor.at(truth[0.5][0], 0.8)[0]
    once, again, older = (predictor.at(truth[time][0], 0.8)[0] for time in (0.52, 0.52, 0.5))
    assert np.array_equal(once, again) and not np.array_equal(older, fresh)
    predictor.clear()
    predictor.sent(0.0, 0.1, 0.0)
    assert np.array_equal(predictor.at(truth[0.5][0], 0.8)[0], fresh)
