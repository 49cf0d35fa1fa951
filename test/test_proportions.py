"""Intervals of shares that were counted."""

import numpy as np
import pytest
from scipy.stats import binom

from lfdm_ros.proportions import interval_of


@pytest.mark.parametrize("runs", [16, 256, 1000])
def test_intervals_hold_what_they_say(runs: int) -> None:
    """By the exact binomial distribution, at truths between 0 and 1; of none in n the upper end is 3.7 / n."""
    ends = np.array([interval_of(k, runs) for k in range(runs + 1)])
    for truth in (1e-4, 0.003, 0.03, 0.2, 0.5, 0.9, 0.999):
        covered = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
        assert binom.pmf(np.arange(runs + 1), runs, truth)[covered].sum() >= 0.95 - 1e-9
    assert ends[0, 0] == 0.0 and ends[0, 1] == pytest.approx(3.69 / runs, rel=0.12)
    assert ends[-1, 1] == 1.0 and ends[-1, 0] == pytest.approx(1.0 - ends[0, 1])
    assert (np.diff(ends, axis=0) > 0.0).all()


def test_of_nothing_nothing_is_known() -> None:
    assert interval_of(0, 0) == (0.0, 1.0)
