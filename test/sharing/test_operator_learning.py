"""What is learned of an operator: against drawn ones whose delay and gains are known, and against what simulated ones then did."""

from dataclasses import replace

import numpy as np
import pytest

from lfdm_ros.bags import BagWriter, read_series
from lfdm_ros.control.prediction import REQUIRED, Measured
from lfdm_ros.sharing.arbiter import AuthorityArbiter
from lfdm_ros.sharing.operator_learning import (
    CORRELATION_TIMES,
    DELAYS,
    OPEN,
    TERMS,
    OperatorLearner,
    OperatorPosterior,
    PreviewSteering,
    hand_lag,
    learn_drive,
)
from lfdm_ros.sharing.risk import RiskRollouts, RiskSettings
from lfdm_ros.sharing.sharing_settings import SharingSettings
from lfdm_ros.sharing.situation import Corridor, Situation, StampedCommand
from lfdm_ros.sharing.threat import Assessment
from lfdm_ros.simulation import initial_state
from lfdm_ros.simulation.path import Path
from lfdm_ros.teleop.body import Neuromuscular
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
STEP, SPEED = 0.05, 12.0
STATIONS = np.arange(0.0, 1200.0, 2.0)
LANE = Path(np.column_stack([STATIONS, 1.5 * np.sin(STATIONS / 17.0) + 2.0 * np.sin(STATIONS / 31.0)]))


def drive(delay, gains, seed=1, seconds=60.0, sd=0.002, correlation=0.3):
    """States of a vehicle that wanders about the lane, and the steering of an operator of the model: delay [s], gains, remnant."""
    rng, count, law = np.random.default_rng(seed), round(seconds / STEP), PreviewSteering(HMMWV)
    # Smooth wandering about the lane: what moved the vehicle does not matter to who answers it.
    kernel = np.hanning(25)
    aside, off, turn = (scale * np.convolve(rng.standard_normal(count + 24), kernel / np.sqrt(kernel @ kernel), "valid")
                        for scale in (0.4, 0.04, 0.05))
    s = 40.0 + SPEED * STEP * np.arange(count)
    x, y, yaw, curvature = LANE.at(s)
    pose = {"x": x - aside * np.sin(yaw), "y": y + aside * np.cos(yaw), "yaw": yaw + off, "vx": np.full(count, SPEED),
            "vy": np.zeros(count), "yaw_rate": curvature * SPEED + turn}
    terms, lag, late = law.terms(LANE, pose), hand_lag(STEP), round(delay / STEP)
    seen = np.array([np.concatenate([np.zeros(late), np.convolve(term, lag)])[:count] for term in terms[OPEN:]])
    share, remnant = np.exp(-STEP / correlation), np.zeros(count)
    for k in range(1, count):
        remnant[k] = share * remnant[k - 1] + sd * np.sqrt(1.0 - share**2) * rng.standard_normal()
    steering = np.asarray(gains) @ np.concatenate([terms[:OPEN], seen]) + remnant
    return [Measured(STEP * k, {name: float(pose[name][k]) for name in REQUIRED}) for k in range(count)], steering


def learned(states, steering, late=0.0):
    """The learner after all of it; commands arrive `late` [s] after they were given."""
    learner = OperatorLearner(HMMWV)
    behind = round(late / STEP)
    for k, state in enumerate(states):
        learner.on_state(state, LANE)
        if k >= behind:
            learner.on_command(states[k - behind].time, float(steering[k - behind]))
    return learner


GAINS = (0.8, 0.2, 0.1, 0.4, 0.7, 0.2)


@pytest.mark.parametrize(("delay", "late"), [(0.2, 0.0), (0.3, 0.4), (0.8, 0.0)])
def test_delay_gains_and_remnant_of_an_operator_are_found(delay, late):
    """Whatever the link takes to bring the commands. Five standard deviations of each gain's posterior hold the true one."""
    posterior = learned(*drive(delay, GAINS), late).posterior
    assert posterior.delay[0] == pytest.approx(delay, abs=1e-3) and posterior.delay[1] < 0.02
    t, c = np.unravel_index(posterior.weights.argmax(), posterior.weights.shape)
    sd = np.sqrt(np.diag(posterior.root[t, c] @ posterior.root[t, c].T) * posterior.scale[t, c] / posterior.shape[t, c])
    assert (np.abs(posterior.gains - GAINS) < 5.0 * sd).all() and (sd[OPEN:] < 0.1).all()
    assert posterior.remnant == pytest.approx(0.002, rel=0.3)


def test_a_held_command_is_learned_as_one():
    """No answer to any motion, and a remnant that stays."""
    states, _ = drive(0.3, GAINS)
    rng = np.random.default_rng(2)
    held = 0.02 + 1e-5 * np.cumsum(rng.standard_normal(len(states)))
    posterior = learned(states, held).posterior
    assert np.abs(posterior.gains[OPEN:]).max() < 0.02 and posterior.weights[:, -2:].sum() > 0.9


def test_coverage_of_the_posterior():
    """Of 14 operators drawn from persons' gains the 90 % intervals of a gain hold the true one about as often as they say: at least 8;
    a binomial of 14 and 0.9 is below that once in five thousand times."""
    inside = np.zeros(len(TERMS))
    for seed in range(14):
        rng = np.random.default_rng([seed, 7])
        gains = np.array(GAINS) * np.exp(0.3 * rng.standard_normal(len(TERMS)))
        posterior = learned(*drive(0.05 * rng.integers(2, 20), gains, seed, 25.0)).posterior
        _, drawn, _, _ = posterior.draw(rng.random((2, 2000)), rng.standard_normal((len(TERMS) + 1, 2000)))
        lower, upper = np.quantile(drawn, (0.05, 0.95), axis=1)
        inside += (lower <= gains) & (gains <= upper)
    assert (inside >= 8).all(), inside


def test_what_was_long_ago_is_forgotten():
    """Another person at the same wheel: after two minutes it is his delay."""
    learner = learned(*drive(0.2, GAINS))
    states, steering = drive(0.7, GAINS, 2, 90.0)
    shifted = [Measured(state.time + 100.0, state.values) for state in states]
    for state, wanted in zip(shifted, steering):
        learner.on_state(state, LANE)
        learner.on_command(state.time, float(wanted))
    assert learner.posterior.delay[0] == pytest.approx(0.7, abs=0.03)


def test_nothing_is_learned_of_what_was_not_seen():
    states, steering = drive(0.3, GAINS)
    learner = OperatorLearner(HMMWV)
    assert not learner.on_command(1.0, 0.1) and learner.posterior is None
    for state in states[:30]:
        learner.on_state(state, LANE)
    assert not learner.on_command(states[29].time, 0.1)  # what it answers may lie before the first state
    learner = learned(states[:500], steering)
    assert learner.posterior is not None
    kept = learner.posterior
    assert not learner.on_command(states[499].time, 0.5)  # the same stamp again
    learner.restart()
    assert not learner.on_command(states[499].time + 1.0, 0.5) and learner.posterior is kept
    learner.reset()
    assert learner.posterior is None
    # A hand at full lock may want more; who stands still is not steering.
    full = learned(states, np.ones(len(states)))
    assert full.posterior is None
    stands = [Measured(state.time, state.values | {"vx": 0.0}) for state in states]
    assert learned(stands, steering).posterior is None


def test_equal_inputs_give_equal_posteriors():
    a, b = (learned(*drive(0.3, GAINS)).posterior for _ in range(2))
    assert (a.weights == b.weights).all() and (a.mean == b.mean).all() and (a.root == b.root).all()


def test_operators_are_drawn_as_the_posterior_says():
    rng, cells = np.random.default_rng(3), (len(DELAYS), len(CORRELATION_TIMES))
    n, weights, sd = 20_000, np.zeros(cells), np.array([0.1, 0.2, 0.0, 0.3, 0.1, 0.2])
    weights[[3, 9], 1], weights[9, 4] = (0.5, 0.3), 0.2
    known = OperatorPosterior(weights, np.tile(GAINS, (*cells, 1)), np.tile(np.diag(sd) / 0.003, (*cells, 1, 1)), np.full(cells, 100.0),
                              np.full(cells, 100.0 * 0.003**2))
    delays, gains, remnant, correlation = known.draw(rng.random((2, n)), rng.standard_normal((len(TERMS) + 1, n)))
    assert known.delay[0] == pytest.approx(0.35) and delays.mean() == pytest.approx(0.35, abs=0.005)
    assert (correlation == CORRELATION_TIMES[4]).mean() == pytest.approx(0.2, abs=0.02)
    np.testing.assert_allclose(gains.mean(axis=1), known.gains, atol=0.01)
    np.testing.assert_allclose(gains.std(axis=1), sd, atol=0.01)
    assert np.median(remnant) == pytest.approx(0.003, rel=0.01)


def test_hands_lag_as_the_simulated_ones():
    """The step response of `teleop`'s arms, at the ends of the steps."""
    arms, reached = Neuromuscular(10.0, 0.707), np.cumsum(hand_lag(STEP))
    exact = [arms.advance(STEP, 1.0) for _ in reached]
    np.testing.assert_allclose(reached, np.array(exact) / exact[-1], atol=1e-12)
    assert hand_lag(1.0).tolist() == [1.0]


def test_a_bag_teaches_what_the_drive_taught(tmp_path):
    states, steering = drive(0.3, GAINS, seconds=20.0)
    with BagWriter(tmp_path / "bag", origin_ns=0) as writer:
        for state, wanted in zip(states, steering):
            stamp = round(1e9 * state.time)
            header = {"stamp": {"sec": stamp // 10**9, "nanosec": stamp % 10**9}}
            writer.write("vehicle/state", "lfdm_ros/msg/VehicleState", stamp, {"header": header, **state.values})
            writer.write("operator/command", "lfdm_ros/msg/DriverCommand", stamp, {"header": header, "steering": float(wanted)})
    recorded = read_series(tmp_path / "bag", "vehicle/state", REQUIRED)
    commands = read_series(tmp_path / "bag", "operator/command", ("steering",))
    taught = learn_drive(HMMWV, LANE, recorded.time, recorded.values, commands.time, commands.values[:, 0]).posterior
    exact = learned(states, steering).posterior
    np.testing.assert_allclose(taught.gains, exact.gains, rtol=1e-9)
    assert taught.delay == pytest.approx(exact.delay)


# -- In the risk and in the arbiter ------------------------------------------------------------------------------------------------

def situation(states, steering, posterior):
    """The last of the states and commands."""
    command = StampedCommand(states[-1].time, float(steering[len(states) - 1]), 0.12)
    return Situation(states[-1].time, HMMWV, states[-1], (command,), command, path=LANE, past=tuple(states[-60:]),
                     operator_posterior=posterior)


def certain(delay, gains):
    """A posterior that knows all of an operator with a steady hand."""
    cells, count = (len(DELAYS), len(CORRELATION_TIMES)), len(TERMS)
    weights = np.zeros(cells)
    weights[round(delay / STEP) - 1, 1] = 1.0
    return OperatorPosterior(weights, np.tile(gains, (*cells, 1)), np.zeros((*cells, count, count)), np.full(cells, 2.0),
                             np.full(cells, 1e-24))


def test_an_operator_of_whom_little_was_learned_is_taken_for_a_driver_who_holds_the_lane():
    """A lane change is over before enough is learned: no gains are drawn, of which some leave a narrow lane."""
    states, steering = drive(0.3, GAINS, seconds=10.0)
    early = learned(states, steering).posterior
    assert early is None
    predicted = RiskRollouts(HMMWV, RiskSettings(intention="predicted", rollouts=64, tyres="own"))
    now, settled = situation(states, steering, early), learned(*drive(0.3, GAINS, seconds=30.0)).posterior
    at = now.measured.values
    x = initial_state(predicted.model, HMMWV, **{name: at[name] for name in ("x", "y", "yaw", "vx", "vy", "yaw_rate")})
    first, later = (predicted.operator(replace(now, operator_posterior=known), x, (0.0, 0.12), now.time + HMMWV.actuators.delay)
                    for known in (early, settled))
    assert first.drawn is None and first.answer is not None and later.drawn is not None and later.answer is None


def test_what_was_seen_is_answered_as_the_operator_does():
    """The steering until what happens now is answered, against the operator's own: delay and gains are known, the hand is steady. The
    delay of the actuators is no multiple of the sample: rounding it moves the answer by up to half of one, 0.025 s of the fastest steering
    there is."""
    states, steering = drive(0.5, GAINS, sd=0.0)
    now, predicted = 600, RiskRollouts(HMMWV, RiskSettings(intention="predicted", rollouts=64, tyres="own"))
    asked = situation(states[:now], steering, certain(0.5, GAINS))
    at = asked.measured.values
    x = initial_state(predicted.model, HMMWV, **{name: at[name] for name in ("x", "y", "yaw", "vx", "vy", "yaw_rate")})
    drawn = predicted.operator(asked, x, (float(steering[now - 1]), 0.12), asked.time + HMMWV.actuators.delay).drawn
    foreseen, own = drawn.steering[1:10, 0], steering[now:now + 9]
    fastest = np.abs(np.diff(steering)).max() / STEP
    assert np.abs(foreseen - own).max() < 0.025 * fastest < 0.5 * np.abs(own - own[0]).max()
    assert (drawn.delays >= 10).all() and np.ptp(drawn.steering, axis=1).max() < 1e-6


def test_who_answers_late_leaves_the_lane():
    """Turned by 4 degrees on a straight lane: an operator that is known to answer at once keeps to it, one known to need 1.5 s does not; it
    is the posterior that tells them apart."""
    road = Path(np.column_stack([np.linspace(-50.0, 250.0, 61), np.zeros(61)]))
    room = HMMWV.footprint.half_width + 0.8
    corridor = Corridor(road, np.array([[0.0, room, room], [300.0, room, room]]))
    state = Measured(0.0, {"x": 0.0, "y": 0.0, "yaw": 0.07, "vx": 12.0, "vy": 0.0, "yaw_rate": 0.0})
    before = [Measured(-STEP * k, state.values | {"x": -12.0 * STEP * k, "yaw": 0.0}) for k in range(60, 0, -1)]
    now = Situation(0.0, HMMWV, state, (), StampedCommand(0.0, 0.0, 0.12), path=road, corridor=corridor, past=(*before, state))
    gains = (1.0, 0.0, 0.0, 0.5, 0.8, 0.3)
    for intention in ("predicted", "first_to_correct"):
        rollouts = RiskRollouts(HMMWV, RiskSettings(intention=intention, rollouts=256, tyres="own", position_sd=0.0, heading_sd=0.0))
        early, late = (rollouts.assess(replace(now, operator_posterior=certain(delay, gains))).operator.leaving.value
                       for delay in (0.1, 1.5))
        assert early == 0.0 and late == 1.0


def test_the_arbiter_learns_and_forgets_after_a_silence():
    states, steering = drive(0.3, GAINS, seconds=30.0)
    seen = []

    class Watching:
        name = "watching"

        def assess(self, situation):
            seen.append(situation.operator_posterior)
            return Assessment(0.0)

        def reset(self):
            pass

    arbiter = AuthorityArbiter(HMMWV, SharingSettings(), (Watching(),))
    arbiter.follow(LANE)
    for state, wanted in zip(states, steering):
        arbiter.on_state(state.time, state.values, state.time)
        arbiter.on_operator_command(state.time, (float(wanted), 0.1, 0.0), state.time)
        arbiter.decide(state.time)
    assert seen[0] is None and seen[-1] is not None
    assert arbiter.operator_posterior.delay[0] == pytest.approx(0.3, abs=1e-3)
    end = states[-1]
    for k in range(1, 260):
        now = end.time + STEP * k
        arbiter.on_state(now, end.values | {"x": end.values["x"] + 0.1 * k}, now)
        arbiter.decide(now)
        assert (arbiter.operator_posterior is None) == (STEP * k > 10.0 + 1e-6)
