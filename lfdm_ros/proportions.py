"""How well a share is known that was counted: one interval for risks, studies and tables."""

from __future__ import annotations

from scipy.special import betaincinv

INTERVAL = 0.95


def interval_of(count: int, runs: int) -> tuple[float, float]:
    """The 95 % interval of a probability of which `count` of `runs` came true (Clopper & Pearson 1934): never narrower than it says; of
    nothing it is 0 to 1.

    Of none in n the upper end is 3.7 / n; the rule of three, 3 / n, puts all of the 5 % on that side and covers what is a little more
    frequent too rarely.
    """
    tail = 0.5 * (1.0 - INTERVAL)  # SciPy's beta.ppf is this function, and takes 30 times as long to get there
    return (float(betaincinv(count, runs - count + 1, tail)) if count else 0.0,
            float(betaincinv(count + 1, runs - count, 1.0 - tail)) if count < runs else 1.0)
