"""A drive cut into stretches: all of it is there once, with what acted on the vehicle, whatever interrupts it."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from lfdm_ros.bounds import Refusals
from lfdm_ros.engine.segmenter import Segmenter
from lfdm_ros.ground.learned_ground import DriveSegment
from lfdm_ros.simulation import Actuator
from lfdm_ros.vehicles import Actuators

MS = 1_000_000
SLOW = Actuators(delay=0.05, steering_lag=0.1, throttle_rate=2.0)


def state(t: float, **changes: float) -> Mapping[str, float]:
    """A bend at 10 m/s, that begins with a yaw of -pi."""
    yaw = -math.pi + 0.3 * t
    return {"x": 10.0 * t, "y": 0.0, "yaw": math.remainder(yaw, math.tau), "vx": 10.0, "vy": math.sin(t), "yaw_rate": 0.3,
            "omega_fl": 20.0 + t, **changes}


def commanded(t: float) -> tuple[float, float, float]:
    return math.sin(t), 0.5 if t > 0.5 else 0.0, 0.0


def drive(stretches: Segmenter, seconds: float, start: float = 0.0, period_ms: int = 10, **changes: Any) -> list[DriveSegment]:
    found = []
    for ms in range(round(1000 * start), round(1000 * (start + seconds)) + 1, period_ms):
        found += stretches.state(ms * MS, "odom", state(1e-3 * ms, **changes))
        stretches.command(ms * MS, commanded(1e-3 * ms))
    return found


@pytest.fixture
def refusals() -> Refusals:
    return Refusals()


@pytest.fixture
def made(refusals: Refusals) -> Segmenter:
    return Segmenter(refusals, SLOW)


def windows(found: list[DriveSegment]) -> int:
    return sum(round((s.drive.times[-1] - s.since) / 0.2) for s in found)


def test_a_drive_is_given_out_once_with_what_was_before(made: Segmenter) -> None:
    found = [*drive(made, 3.47), *made.end()]
    assert windows(found) == 17  # of .2 s in 3.47 s
    since = 0.0
    for number, stretch in enumerate(found):
        t = stretch.drive.times + since - stretch.since
        assert stretch.since == pytest.approx(0.4 if number else 0.0) and np.allclose(np.diff(t), 0.01)
        np.testing.assert_allclose(stretch.drive.states["vy"], np.sin(t), atol=1e-9)
        np.testing.assert_allclose(stretch.drive.states["omega_fl"], 20.0 + t)
        np.testing.assert_allclose(np.diff(stretch.drive.states["yaw"]), 0.003, atol=1e-9)  # though it passes pi
        since += stretch.drive.times[-1] - stretch.since


def test_inputs_are_those_behind_the_actuators(made: Segmenter) -> None:
    whole = np.concatenate([s.drive.inputs[round(100 * s.since):-1] for s in drive(made, 3.5)])
    actuator, expected = Actuator.of(SLOW), []
    for k in range(len(whole)):
        actuator.send(0.01 * k, commanded(0.01 * k))
        expected.append(actuator.advance(0.01 * k))
    np.testing.assert_allclose(whole, expected, atol=1e-9)
    direct = Segmenter(Refusals(), None)
    np.testing.assert_allclose(drive(direct, 1.2)[0].drive.inputs, [commanded(0.01 * k) for k in range(101)], atol=1e-9)


def test_states_that_come_unevenly_are_brought_to_even_times(made: Segmenter) -> None:
    rng, found, t = np.random.default_rng(1), [], 5.0
    while t < 8.0:
        ns = round(1e9 * t)
        found += made.state(ns, "odom", state(t))
        made.command(ns, commanded(t))
        t += float(rng.uniform(0.005, 0.03))
    assert windows(found) >= 10 and not made.interruptions
    for s in found:
        assert np.allclose(np.diff(s.drive.times), 0.01) and np.abs(np.diff(s.drive.states["vy"], 2)).max() < 4e-4
        np.testing.assert_allclose(np.diff(s.drive.states["omega_fl"]), 0.01, atol=1e-9)


@pytest.mark.parametrize(("what", "again", "changes"), [
    ("states stayed out", 2.4, {}), ("clock set back", 0.0, {}), ("put elsewhere", 2.01, {"x": 500.0})])
def test_what_interrupts_a_drive_begins_another_and_loses_nothing(made: Segmenter, what: str, again: float,
                                                                  changes: dict[str, float]) -> None:
    before = drive(made, 2.0)
    after = drive(made, 1.5, again, **changes)
    assert made.interruptions == {what: 1} and windows(before) + windows(after) + windows(made.end()) == 10 + 7
    for s in after:
        assert np.abs(np.diff(s.drive.states["x"])).max() < 0.2  # none goes over the gap


def test_messages_of_one_topic_may_overtake_those_of_the_other(made: Segmenter) -> None:
    found = [s for ms in range(0, 2500, 10) for s in made.state(ms * MS, "odom", state(1e-3 * ms))]
    assert not found
    found = [s for ms in range(0, 2500, 10) for s in made.command(ms * MS, commanded(1e-3 * ms))]
    in_turn = drive(Segmenter(Refusals(), SLOW), 2.49)
    assert len(found) == len(in_turn) == 2
    for one, other in zip(found, in_turn):
        np.testing.assert_array_equal(one.drive.inputs, other.drive.inputs)


def test_what_cannot_be_is_refused_and_counted(made: Segmenter, refusals: Refusals) -> None:
    begun = drive(made, 1.0)
    for bad in ({"vx": math.nan}, {"x": 1e300}, {"yaw_rate": math.inf}):
        assert made.state(1_005 * MS, "odom", state(1.0, **bad)) == []
    assert made.state(1_010 * MS, "map", state(1.01)) == [] and made.state(900 * MS, "odom", state(0.9)) == []
    assert made.state(-10**19, "odom", state(0.0)) == []
    made.command(1_001 * MS, (math.nan, 0.0, 0.0))
    made.command(950 * MS, (0.0, 0.0, 0.0))
    made.command(1_001 * MS, (0.0, 2.0, 0.0))
    assert refusals.reasons == {("state", "not_finite"): 2, ("state", "out_of_range"): 1, ("state", "frame"): 1, ("state", "stamp"): 2,
                                ("command", "not_finite"): 1, ("command", "stamp"): 1, ("command", "out_of_range"): 1}
    # A state that was not measured in time is bridged, as far as it goes.
    assert windows([*begun, *drive(made, 1.0, 1.02), *made.end()]) == 10 and not made.interruptions


def test_nothing_is_felt_where_nobody_knows_what_acts_or_nothing_moves() -> None:
    refusals = Refusals()
    unknown = Segmenter(refusals, SLOW)
    found = [s for ms in range(0, 3000, 10) for s in unknown.state(ms * MS, "odom", state(1e-3 * ms))]
    assert not found
    standing = Segmenter(refusals, SLOW)
    assert not drive(standing, 3.0, vx=0.2) and not drive(Segmenter(refusals, SLOW), 3.0, vx=-5.0)
    stale = Segmenter(refusals, SLOW, timeout=0.5)
    found = drive(stale, 1.0)
    for ms in range(1010, 4000, 10):
        found += stale.state(ms * MS, "odom", state(1e-3 * ms))
    inputs = np.concatenate([s.drive.inputs[round(100 * s.since):-1] for s in found])
    assert np.isfinite(inputs[:150]).all() and np.isnan(inputs[151:]).all()
    assert not refusals.counts


def test_an_hour_is_not_remembered(made: Segmenter) -> None:
    """What is kept does not grow with the drive."""
    import tracemalloc

    drive(made, 10.0)
    tracemalloc.start()
    drive(made, 10.0, 10.01)
    first = tracemalloc.get_traced_memory()[0]
    drive(made, 20.0, 20.02)
    assert tracemalloc.get_traced_memory()[0] < first + 100_000
    tracemalloc.stop()
