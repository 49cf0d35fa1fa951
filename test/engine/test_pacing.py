"""Deadlines and the measured speed, on an invented clock."""

import math

import pytest

from lfdm_ros.engine.pacing import ANSWERS, LARGEST_BACKLOG, MACHINE, Pacer, SpeedMeter, slowed_by


def test_deadlines_do_not_drift() -> None:
    pacer = Pacer(0.01, 2.0, now=100.0)
    now = 100.0
    for _ in range(1000):
        now += max(0.0, pacer.delay(now)) + 0.0004  # always woken late
        pacer.tick(now)
    assert now == pytest.approx(100.0 + 1000 * 0.005, abs=0.001)
    assert pacer.overruns == 0
    assert list(pacer.lateness) == pytest.approx([0.0004] * 1000)


def test_catches_up_after_a_hiccup_and_counts_it() -> None:
    pacer = Pacer(0.01, 1.0, now=0.0)
    pacer.tick(0.045)  # 35 ms late
    assert pacer.delay(0.045) < 0.0
    for _ in range(3):
        pacer.tick(0.045)
    assert pacer.delay(0.045) == pytest.approx(0.005)
    assert pacer.overruns == 3  # 35, 25 and 15 ms late; 5 ms is no overrun


def test_gives_up_a_large_backlog() -> None:
    pacer = Pacer(0.01, 1.0, now=0.0)
    late = 0.01 + LARGEST_BACKLOG + 1.0
    pacer.tick(late)
    assert pacer.delay(late) == pytest.approx(0.01)


def test_zero_is_as_fast_as_possible() -> None:
    pacer = Pacer(0.01, 0.0, now=0.0)
    pacer.tick(1000.0)
    assert pacer.delay(0.0) == 0.0 and pacer.overruns == 0
    pacer.set_factor(0.5, 7.0)
    assert pacer.delay(7.0) == pytest.approx(0.02)


def test_a_tick_that_was_not_permitted_is_no_overrun_and_is_not_caught_up_with() -> None:
    pacer = Pacer(0.01, 10.0, now=0.0)  # a tick is due each millisecond
    assert pacer.delay(0.0, pace=1.0) == pytest.approx(0.01) and pacer.held
    pacer.tick(0.01)
    assert pacer.held_back(0.01) == pytest.approx(0.009)
    assert pacer.delay(0.02, pace=0.0) == math.inf
    assert pacer.held_back(0.111) == pytest.approx(0.009 + 0.1)
    assert pacer.delay(0.111) <= 0.0  # the answer has come
    pacer.tick(0.111)
    assert pacer.held_back(5.0) == pytest.approx(0.009 + 0.1) and not pacer.held
    assert pacer.delay(0.111) == pytest.approx(0.001) and pacer.overruns == 0


@pytest.mark.parametrize(("asked", "reached", "held_back", "by"), [
    (10.0, 9.8, 0.0, ""), (10.0, 4.7, 0.5, ANSWERS), (10.0, 4.7, 0.1, MACHINE), (1.0, 0.5, 0.0, MACHINE), (0.0, 20.0, 0.1, ""),
    (0.0, 20.0, 0.8, ANSWERS), (10.0, 0.0, 0.9, ANSWERS)])
def test_what_keeps_time_below_the_speed_asked_for(asked: float, reached: float, held_back: float, by: str) -> None:
    assert slowed_by(asked, reached, held_back) == by


def test_speed_meter_averages_over_its_window() -> None:
    meter = SpeedMeter(0.0, 0.0, window=1.0)
    assert meter.read(3.0, 0.0, 0.5) == (0.0, 0.0)
    assert meter.read(10.0, 0.5, 2.0) == pytest.approx((5.0, 0.25))
    assert meter.read(10.1, 0.6, 2.1) == pytest.approx((5.0, 0.25))
    assert meter.read(10.0, 0.5, 3.5) == (0.0, 0.0)
