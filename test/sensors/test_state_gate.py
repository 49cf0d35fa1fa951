from __future__ import annotations

import math

import pytest

from lfdm_ros.sensors.state_gate import LATE_NS, MAX_AHEAD_NS, StampGate, StampOrder, StateGate

SECOND = 1_000_000_000
AT_ORIGIN = {"x": 0.0, "y": 0.0, "yaw": 0.0, "vx": 10.0, "vy": 0.0, "yaw_rate": 0.0}


def gate_at(stamp_ns: int, lockstep: bool = False) -> StateGate:
    gate = StateGate(lockstep)
    assert gate.admit(stamp_ns, "odom", AT_ORIGIN)
    return gate


@pytest.mark.parametrize("tolerance_ns, back_ns, expected", [
    (LATE_NS, -1, StampOrder.NEXT), (LATE_NS, 0, StampOrder.REPEATED), (LATE_NS, 1, StampOrder.LATE), (LATE_NS, LATE_NS, StampOrder.LATE),
    (LATE_NS, LATE_NS + 1, StampOrder.SET_BACK), (0, 1, StampOrder.SET_BACK)])
def test_order_of_stamps(tolerance_ns: int, back_ns: int, expected: StampOrder) -> None:
    gate = StampGate(tolerance_ns)
    assert gate.order(5) is StampOrder.NEXT
    gate.last_ns = SECOND
    assert gate.order(SECOND - back_ns) is expected


@pytest.mark.parametrize("stamp_ns, frame, changes, now_ns, reason", [
    (SECOND + 1, "map", {}, 0, "in frame 'map'"), (-1, "odom", {}, 0, "stamp"), (SECOND + 1, "odom", {"vx": math.nan}, 0, "vx"),
    (SECOND - 1, "odom", {}, 0, "the one before 1.000 s"), (SECOND, "odom", {}, 0, "the one before 1.000 s"),
    (2 * SECOND + MAX_AHEAD_NS, "odom", {}, SECOND, "ahead of the clock"), (SECOND + 1, "odom", {}, SECOND, None),
    (SECOND // 4, "odom", {}, SECOND, None)])
def test_states_that_cannot_be_used(stamp_ns: int, frame: str, changes: dict[str, float], now_ns: int, reason: str | None) -> None:
    refused = gate_at(SECOND).validate(stamp_ns, frame, AT_ORIGIN | changes, now_ns)
    assert refused is None if reason is None else refused is not None and reason in str(refused)
