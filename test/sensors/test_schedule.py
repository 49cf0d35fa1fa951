"""When a scan is due."""

import pytest

from lfdm_ros.sensors import ScanSchedule

MS = 1_000_000


@pytest.mark.parametrize(("now", "first", "newest", "due"), [
    (119, 0, None, True),  # the one of 0 ms has had its 15 ms
    (114, 0, 0, False),  # that of 100 ms has not
    (115, 0, 0, True), (115, 0, 100, False),
    (115, 101, None, False),  # of before the first state
    (115, None, None, False)])
def test_a_scan_is_due_when_it_has_had_its_time(now: int, first: int | None, newest: int | None, due: bool) -> None:
    schedule = ScanSchedule(10.0, 0.015)
    stamps = [None if stamp is None else stamp * MS for stamp in (first, newest)]
    assert schedule and schedule.due(now * MS, *stamps) == due and schedule.last_ns(115 * MS) == 100 * MS


def test_without_a_rate_none_is() -> None:
    assert not ScanSchedule(0.0, 0.0) and not ScanSchedule(0.0, 0.0).due(MS, 0, None)
