"""The table of states: complete, each row reachable, as documented; and when a source counts."""

import math
from itertools import product
from pathlib import Path

import pytest

from lfdm_ros.bounds import STAMP, Refused
from lfdm_ros.sharing.machine import FRESH, LOST, NEVER, TABLE, Latch, Presence, Seen, Source, markdown, row_of
from lfdm_ros.sharing.settings import MODES

ALL = [Seen(*parts) for parts in product(MODES, Presence, Presence, Presence, (False, True), (False, True))]


def test_the_documentation_has_the_table_that_the_code_uses():
    assert markdown() in (Path(__file__).resolve().parents[2] / "docs" / "sharing.md").read_text(encoding="utf-8")


def test_whatever_is_seen_one_row_holds_and_each_row_is_reached():
    assert {TABLE.index(row_of(seen)) for seen in ALL} == set(range(len(TABLE)))


def test_no_two_rows_below_the_first_four_fit_at_once():
    """What the order decides is only that the emergency stop and the vehicle's state go before the rest."""
    for seen in ALL:
        assert sum(row.fits(seen) for row in TABLE if row is not TABLE[3]) <= 1, seen


@pytest.mark.parametrize("seen", [s for s in ALL if NEVER in (s.operator, s.autonomy) and LOST not in (s.operator, s.autonomy, s.vehicle)
                                  and not s.latched and not s.overdue], ids=str)
def test_no_alarm_before_first_messages(seen):
    assert not row_of(seen).alarm


def test_a_source_is_lost_by_its_stamp_or_by_its_silence():
    source = Source("operator")
    assert source.presence(5.0, 1.0, 0.2) is NEVER and math.isnan(source.age(5.0))
    source.take(4.5, 5.0, 0.1)
    assert source.presence(5.2, 1.0, 0.2) is FRESH and source.age(5.2) == pytest.approx(0.7)
    assert source.presence(5.3, 1.0, 0.2) is LOST and "none for 0.30 s" in source.why_lost(5.3, 1.0, 0.2)
    assert source.presence(5.1, 0.5, 0.2) is LOST and "0.60 s old" in source.why_lost(5.1, 0.5, 0.2)


@pytest.mark.parametrize("stamp, said", [(4.5, "again"), (4.4, "out of order"), (5.2, "ahead")])
def test_what_is_stamped_wrongly_does_not_count(stamp, said):
    source = Source("operator")
    source.take(4.5, 5.0, 0.1)
    with pytest.raises(Refused, match=said) as refused:
        source.take(stamp, 5.05, 0.1)
    assert refused.value.reason == STAMP and source.received == 5.0


def test_the_latch_opens_only_when_it_is_asked_to():
    latch = Latch()
    assert not latch.open()
    latch.close("button")
    latch.close("again")
    assert latch.closed and latch.why == "button" and latch.open() and not latch.closed
