"""Scans as sensors send them: what is taken for which kind of beam, and that the rest is bounded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lfdm_ros.bounds import MALFORMED, NOT_FINITE, OUT_OF_RANGE, TOO_MANY, Refused
from lfdm_ros.sensors import Scan
from lfdm_ros.sensors.scan import MAX_BEAMS, check_scan, within

GOOD = Scan(1.0, -1.0, 0.01, 0.5, 100.0, np.full(201, 10.0))
FLT_MAX = float(np.finfo(np.float32).max)


@pytest.mark.parametrize("change, reason", [
    ({"angle_min": np.nan}, NOT_FINITE), ({"angle_min": 1e300}, OUT_OF_RANGE), ({"angle_increment": 0.0}, OUT_OF_RANGE),
    ({"angle_increment": 1e-300}, OUT_OF_RANGE), ({"angle_increment": 1e300}, OUT_OF_RANGE), ({"angle_increment": -0.1}, MALFORMED),
    ({"range_min": 200.0}, MALFORMED), ({"range_min": -1.0}, MALFORMED), ({"range_max": np.inf}, NOT_FINITE),
    ({"stamp": -1.0}, OUT_OF_RANGE), ({"stamp": 1e300}, OUT_OF_RANGE),
    ({"ranges": np.ones(1_000_000), "angle_increment": 6e-6}, TOO_MANY), ({"ranges": np.ones((2, 2))}, MALFORMED)])
def test_what_no_sensor_sends_is_refused_by_name(change: dict, reason: str) -> None:
    check_scan(GOOD)
    with pytest.raises(Refused, match=r"^scan: ") as caught:
        check_scan(replace(GOOD, **change))
    assert caught.value.reason == reason


def test_beams_that_saw_nothing_and_beams_that_say_nothing() -> None:
    sent = np.array([10.0, 100.0, 100.1, FLT_MAX, np.inf, np.nan, 0.4, 0.0, -1.0, -np.inf])
    got = within(replace(GOOD, ranges=sent), 250.0)
    np.testing.assert_array_equal(got.ranges, [10.0, 100.0, np.inf, np.inf, np.inf, np.nan, np.nan, np.nan, np.nan, np.nan])
    assert (got.range_min, got.range_max, got.angle_min, got.angle_increment) == (0.5, 100.0, -1.0, 0.01)
    far = within(replace(GOOD, range_max=FLT_MAX, ranges=np.array([10.0, 249.0, 251.0, FLT_MAX])), 250.0)
    np.testing.assert_array_equal(far.ranges, [10.0, 249.0, np.inf, np.inf])
    assert far.range_max == 250.0
    none = within(replace(GOOD, range_min=0.0, ranges=np.array([0.0, 1e-300, 0.01])), 250.0)  # 0: what some drivers send for none
    np.testing.assert_array_equal(none.ranges, [np.nan, np.nan, 0.01])


@pytest.mark.parametrize("beams", [MAX_BEAMS, MAX_BEAMS + 1, 36_000, 40_000])
def test_many_beams_become_fewer_with_the_nearest_return_where_it_was(beams: int) -> None:
    increment = 2.0 * np.pi / beams
    sent = np.full(beams, np.inf)
    sent[beams // 3] = 20.0
    got = within(Scan(0.0, -np.pi, increment, 0.5, 100.0, sent), 250.0)
    seen = np.flatnonzero(np.isfinite(got.ranges))
    assert len(got.ranges) <= MAX_BEAMS and got.ranges[seen].tolist() == [20.0] and np.isposinf(np.delete(got.ranges, seen)).all()
    true = -np.pi + increment * (beams // 3)
    assert got.angle_min + got.angle_increment * seen[0] == pytest.approx(true, abs=0.5 * got.angle_increment)
