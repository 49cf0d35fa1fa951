"""The table of states: complete, each row reachable, as documented; and when a source counts."""

import math
from itertools import product
from pathlib import Path

import pytest

from lfdm_ros.bounds import STAMP, Refused
from lfdm_ros.sharing.machine import (
    FRESH,
    LOST,
    NEVER,
    TABLE,
    Latch,
    MachineInputs,
    Presence,
    SourceMonitor,
    SourceTimeouts,
    markdown,
    row_of,
)
from lfdm_ros.sharing.sharing_settings import MODES

ALL = [MachineInputs(*parts) for parts in product(MODES, Presence, Presence, Presence, (False, True), (False, True), (False, True))]


def test_the_documentation_has_the_table_that_the_code_uses():
    assert markdown() in (Path(__file__).resolve().parents[2] / "docs" / "concepts" / "sharing.md").read_text(encoding="utf-8")


def test_whatever_is_seen_one_row_holds_and_each_row_is_reached():
    assert {TABLE.index(row_of(seen)) for seen in ALL} == set(range(len(TABLE)))


def test_no_two_rows_below_the_first_four_fit_at_once():
    """What the order decides is only that the emergency stop and the vehicle's state go before the rest."""
    for seen in ALL:
        assert sum(row.fits(seen) for row in TABLE if row is not TABLE[3]) <= 1, seen


@pytest.mark.parametrize("seen", [s for s in ALL if NEVER in (s.operator, s.autonomy) and LOST not in (s.operator, s.autonomy, s.vehicle)
                                  and not s.latched and not s.overdue and not s.expired], ids=str)
def test_no_alarm_before_first_messages(seen):
    assert not row_of(seen).alarm


def test_a_source_is_lost_by_its_stamp_or_by_its_silence():
    source, limits = SourceMonitor("operator"), SourceTimeouts(1.0, 0.2, 0.2)
    assert source.presence(5.0, limits) is NEVER and math.isnan(source.age(5.0))
    source.on_message(4.5, 5.0, 0.1, 0.2)
    assert source.presence(5.2, limits) is FRESH and source.age(5.2) == pytest.approx(0.7)
    assert source.presence(5.3, limits) is LOST and "none for 0.30 s" in source.why_lost(5.3, limits)
    stamps = SourceTimeouts(0.5, 0.2, 0.2)
    assert source.presence(5.1, stamps) is LOST and "0.60 s old" in source.why_lost(5.1, stamps)


def silence(*gaps, limits=SourceTimeouts(9.0, 0.15, 0.5)):  # noqa: B008
    """From which on a source is lost between whose messages there were these gaps [s]."""
    source, now = SourceMonitor("operator"), 0.0
    source.on_message(now, now, 0.1, limits.max_silence)
    for gap in gaps:
        now += gap
        source.on_message(now, now, 0.1, limits.max_silence)
    return next(0.01 * k for k in range(10_000) if source.presence(now + 0.01 * k, limits) is LOST)


def test_who_comes_irregularly_is_given_twice_the_longest_gap_of_late_and_no_more_than_is_safe():
    assert silence(*[0.02] * 50) == pytest.approx(0.16) == silence(*[0.075] * 50)
    assert silence(*[0.02] * 50, 0.18, 0.02) == pytest.approx(0.36, abs=0.011)
    assert silence(0.18, *[0.02] * 10_000) == pytest.approx(0.16)  # it is forgotten
    assert silence(0.4, 0.02) == pytest.approx(0.51)
    assert silence(0.02, 3.0, 0.02) == pytest.approx(0.16)  # that was a loss, and says nothing of its period
    assert silence(0.2, limits=SourceTimeouts(9.0, 1.0, 0.5)) == pytest.approx(1.01)


@pytest.mark.parametrize("stamp, said", [(4.5, "again"), (4.4, "out of order"), (5.2, "ahead")])
def test_what_is_stamped_wrongly_does_not_count(stamp, said):
    source = SourceMonitor("operator")
    source.on_message(4.5, 5.0, 0.1, 0.5)
    with pytest.raises(Refused, match=said) as refused:
        source.on_message(stamp, 5.05, 0.1, 0.5)
    assert refused.value.reason == STAMP and source.received == 5.0


def test_the_latch_opens_only_when_it_is_asked_to():
    latch = Latch()
    assert not latch.open()
    latch.close("button")
    latch.close("again")
    assert latch.closed and latch.why == "button" and latch.open() and not latch.closed
