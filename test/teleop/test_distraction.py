"""Distractions as sampled against the published table."""

import numpy as np
import pytest

from lfdm_ros.teleop.distraction import TABLE, Attention


@pytest.mark.parametrize("name", TABLE)
def test_sampled_durations_have_the_tables_moments_and_range(name):
    row = TABLE[name]
    attention = Attention(row, np.random.default_rng(11))
    drawn = np.array([attention.duration() for _ in range(20_000)])
    assert drawn.mean() == pytest.approx(row.mean, rel=0.03) and drawn.std() == pytest.approx(row.sd, rel=0.06)
    assert row.least <= drawn.min() < 1.2 * row.least and 0.5 * row.largest < drawn.max() <= row.largest


@pytest.mark.parametrize("name", TABLE)
def test_onsets_come_as_often_as_the_table_says(name):
    row, step = TABLE[name], 0.1
    attention = Attention(row, np.random.default_rng(5))
    away = np.array([attention.away(step * k) for k in range(100_000)])  # 10 000 s
    onsets = np.count_nonzero(~away[:-1] & away[1:])
    assert onsets / (step * len(away)) == pytest.approx(row.frequency, rel=0.1)
    assert away.mean() == pytest.approx(row.frequency * row.mean, rel=0.12)


def test_it_begins_whenever_it_is_first_asked():
    late, early = (Attention(TABLE["base"], np.random.default_rng(2)) for _ in range(2))
    begin = 2.0**30  # as a wall clock's
    assert [late.away(begin + 0.25 * k) for k in range(400)] == [early.away(0.25 * k) for k in range(400)]
    assert not late.away(2.0**31)


def test_who_is_attentive_never_looks_away_and_a_seed_repeats():
    assert not any(Attention(None, np.random.default_rng(1)).away(k) for k in range(1000))
    one, other = (Attention(TABLE["urban"], np.random.default_rng(2)) for _ in range(2))
    assert [one.away(0.1 * k) for k in range(2000)] == [other.away(0.1 * k) for k in range(2000)]
