"""How far simulated time may run ahead of a driver's answers; in simulated and invented wall time."""

import math

import pytest

from lfdm_ros.engine.pacing import DISCOVERY, PATIENCE, AnswerWindow

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
