"""How well a share is known that was counted: one interval for risks, studies and tables."""

from __future__ import annotations

from functools import lru_cache

from scipy.stats import beta

INTERVAL = 0.95


@lru_cache(maxsize=200_000)
def interval_of(count: int, runs: int) -> tuple[float, float]:
    """The 95 % interval of a probability of which `count` of `runs` came true (Clopper & Pearson 1934): never narrower than it says; of
    nothing it is 0 to 1.

    Of none in n the upper end is 3.7 / n; the rule of three, 3 / n, puts all of the 5 % on that side and covers what is a little more
    frequent too rarely.
    """
    tail = 0.5 * (1.0 - INTERVAL)
    return (float(beta.ppf(tail, count, runs - count + 1)) if count else 0.0,
            float(beta.ppf(1.0 - tail, count + 1, runs - count)) if count < runs else 1.0)
