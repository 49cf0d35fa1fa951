"""The command gate: what it refuses and why, the time-out, lockstep answers."""

import math

import pytest

from lfdm_ros.engine import command_hold
from lfdm_ros.engine.command_hold import CommandHold

SECOND = 1_000_000_000
GOOD = (0.1, 0.5, 0.0)


@pytest.fixture
def gate() -> CommandHold:
    gate = CommandHold(timeout=0.5, timeout_ramp=2.0, timeout_brake=0.6)
    gate.restart(0.0)
    return gate


@pytest.mark.parametrize(("inputs", "stamp", "reason", "words"), [
    ((math.nan, 0.0, 0.0), 0, command_hold.NOT_FINITE, "steering is nan"),
    ((0.0, math.inf, 0.0), 0, command_hold.NOT_FINITE, "throttle is inf"),
    ((0.0, 0.0, 1.01), 0, command_hold.OUT_OF_RANGE, "brake is 1.01"),
    ((-1.2, 0.0, 0.0), 0, command_hold.OUT_OF_RANGE, "steering is -1.2"),
    ((0.0, -1.1, 0.0), 0, command_hold.OUT_OF_RANGE, "throttle is -1.1"),
    (GOOD, 9 * SECOND, command_hold.STALE, "1.000 s ago"),
    (GOOD, 1_700_000_000 * SECOND, command_hold.FROM_THE_FUTURE, "use_sim_time"),
])
def test_refuses_by_name(gate: CommandHold, inputs: tuple[float, float, float], stamp: int, reason: str, words: str) -> None:
    assert gate.offer(GOOD, 10 * SECOND, 10 * SECOND)
    assert not gate.offer(inputs, stamp, 10 * SECOND)
    assert {r: n for r, n in gate.rejected.items() if n} == {reason: 1}
    assert gate.last_rejection.startswith(reason) and words in gate.last_rejection
    assert gate.inputs(10.0) == GOOD  # the last good one still holds


def test_limits_are_inside_and_unstamped_is_fresh(gate: CommandHold) -> None:
    for inputs in ((-1.0, -1.0, 0.0), (1.0, 1.0, 1.0)):
        assert gate.offer(inputs, 0, 10 * SECOND)
    assert gate.offer(GOOD, 10 * SECOND - SECOND // 2, 10 * SECOND)  # exactly the time-out old
    assert gate.rejections == 0


def test_holds_then_ramps_the_brake_and_recovers(gate: CommandHold) -> None:
    gate.offer((0.2, 0.7, 0.1), 0, 1 * SECOND)
    assert gate.inputs(1.5) == (0.2, 0.7, 0.1) and not gate.timed_out(1.5)
    assert gate.timed_out(1.51)
    assert gate.inputs(2.5) == pytest.approx((0.2, 0.0, 0.1 + 0.5 * 0.5))
    assert gate.inputs(99.0) == pytest.approx((0.2, 0.0, 0.6))
    gate.offer(GOOD, 0, 99 * SECOND)
    assert gate.inputs(99.1) == GOOD
    gate.offer((0.0, 0.0, 0.9), 0, 99 * SECOND)
    assert gate.inputs(150.0) == (0.0, 0.0, 0.9)  # never released


def test_held_from_its_stamp_nothing_older_than_the_time_out_acts(gate: CommandHold) -> None:
    gate.timeout_from_stamp = True
    assert gate.offer(GOOD, 9_600_000_000, 10 * SECOND) and not gate.timed_out(10.1) and gate.timed_out(10.11)
    assert gate.offer(GOOD, 10_500_000_000, 10_200_000_000) and gate.timed_out(10.71)  # a stamp ahead holds no longer than one of now
    assert gate.offer(GOOD, 0, 11 * SECOND) and not gate.timed_out(11.5)


def test_brakes_when_no_command_ever_came(gate: CommandHold) -> None:
    assert gate.inputs(0.4) == (0.0, 0.0, 0.0)
    assert gate.inputs(10.0) == pytest.approx((0.0, 0.0, 0.6))


def test_lockstep_takes_the_one_answer(gate: CommandHold) -> None:
    now = 3 * SECOND
    assert not gate.offer_answer(GOOD, now - 1, now, answered=False)
    assert not gate.offer_answer(GOOD, now + 1, now, answered=False)
    assert not gate.offer_answer((math.nan, 0.0, 0.0), now, now, answered=False)
    assert gate.offer_answer(GOOD, now, now, answered=False)
    assert not gate.offer_answer(GOOD, now, now, answered=True)
    assert {r: n for r, n in gate.rejected.items() if n} == {
        command_hold.ANSWERED_ALREADY: 2, command_hold.WRONG_STAMP: 1, command_hold.NOT_FINITE: 1}
    assert gate.accepted == 1


def test_a_vehicle_that_nobody_commanded_for_long_was_not_driven(gate: CommandHold) -> None:
    for tick in range(1000):  # nobody drives, which is no failure
        gate.tick(0.01 * tick, 0.01, lambda: True)
    assert gate.uncommanded == 0.0 and not gate.not_driven(10.0)
    gate.restart(0.0)
    gate.offer(GOOD, 0, 0)
    for tick in range(300):
        gate.offer(GOOD, 1, 10 * SECOND)  # stale
        gate.tick(0.01 * tick, 0.01, lambda: True)
    gate.tick(4.0, 10.0, lambda: False)  # who drove has left
    assert gate.uncommanded == pytest.approx(2.5, abs=0.02)
    assert gate.not_driven(3.0).startswith("commands did not act for 2.5 of 3.0 s: 1 came in time, 300 were refused (stale: ")
    assert not gate.not_driven(1000.0)  # a hiccup
