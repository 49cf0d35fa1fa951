"""Deadlines, the measured speed and the wait for answers, on an invented clock."""

import math

import pytest

from lfdm_ros.engine.pacing import ANSWERS, DISCOVERY, LARGEST_BACKLOG, MACHINE, PATIENCE, AnswerWindow, Pacer, SpeedMeter, slowed_by


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
    assert pacer.delay(0.0, pace=1.0) == pytest.approx(0.01) and pacer.blocked
    pacer.tick(0.01)
    assert pacer.blocked_time(0.01) == pytest.approx(0.009)
    assert pacer.delay(0.02, pace=0.0) == math.inf
    assert pacer.blocked_time(0.111) == pytest.approx(0.009 + 0.1)
    assert pacer.delay(0.111) <= 0.0  # the answer has come
    pacer.tick(0.111)
    assert pacer.blocked_time(5.0) == pytest.approx(0.009 + 0.1) and not pacer.blocked
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


AS_ASKED, AS_THE_WALL_CLOCK, STILL = math.inf, 1.0, 0.0


@pytest.fixture
def window() -> AnswerWindow:
    return AnswerWindow(0.5, lambda: True)


def test_the_longer_no_answer_comes_the_slower(window: AnswerWindow) -> None:
    assert [window.pace(time, 0.0) for time in (0.0, 0.14, 0.16, 0.44, 0.46)] == [
        AS_ASKED, AS_ASKED, AS_THE_WALL_CLOCK, AS_THE_WALL_CLOCK, STILL]
    window.answer(0.46, 0.1)
    assert window.pace(0.46, 0.0) == AS_THE_WALL_CLOCK
    window.answer(0.46, 0.46)
    assert window.pace(0.46, 0.0) == AS_ASKED
    window.answer(0.46, 0.2)  # an older one that was overtaken
    assert window.pace(0.46, 0.0) == AS_ASKED


@pytest.mark.parametrize("late", [0.02, 0.7, 4.0])
@pytest.mark.parametrize("speed", [2.0, 10.0, 1000.0])
def test_no_answer_is_stale_however_late_by_the_wall_clock(window: AnswerWindow, speed: float, late: float) -> None:
    """A driver that answers the newest state each time it is done with the last one."""
    tick, time, now, ages = 0.01, 0.0, 0.0, []
    taken, done = 0.0, late
    while len(ages) < 50:
        pace = min(window.pace(time, now), speed)
        due = now + tick / pace if pace else math.inf
        if done <= due:
            now = done
            window.answer(time, taken)
            ages.append(time - taken)
            taken, done = time, now + late
        else:
            now, time = due, time + tick
    assert max(ages) <= 0.5
    assert time > 50 * 0.03  # it goes on


def test_who_does_not_answer_is_not_waited_for_for_ever(window: AnswerWindow) -> None:
    assert window.pace(0.5, 10.0) == window.pace(0.5, 10.0 + PATIENCE) == STILL
    assert window.pace(0.5, 10.1 + PATIENCE) == window.pace(99.0, 11.0 + PATIENCE) == AS_ASKED
    window.answer(99.0, 0.5)  # too old to count: but somebody is there
    assert window.pace(99.0, 20.0) == AS_ASKED and window.pace(99.5, 20.0) == STILL


def test_who_answers_one_state_for_ever_is_not_waited_for(window: AnswerWindow) -> None:
    window.answer(0.2, 0.1)
    for now in (0.0, 1.0, PATIENCE):
        window.answer(0.6, 0.1)
        assert window.pace(0.6, now) == STILL
    assert window.pace(0.6, PATIENCE + 0.1) == AS_ASKED


def test_where_nobody_is_known_time_passes_as_on_the_wall_clock_until_one_could_have_been_discovered() -> None:
    window = AnswerWindow(0.5, lambda: False)
    assert window.pace(0.2, 0.0) == window.pace(0.2 + DISCOVERY, DISCOVERY) == AS_THE_WALL_CLOCK
    assert window.pace(0.2 + DISCOVERY, DISCOVERY + 0.1) == AS_ASKED


def test_time_that_goes_on_after_a_reset_has_a_window_of_its_own(window: AnswerWindow) -> None:
    assert window.pace(0.5, 0.0) == STILL
    window.restart(0.5)
    assert window.pace(0.5, 100.0) == AS_ASKED and window.pace(1.0, 100.0) == STILL
