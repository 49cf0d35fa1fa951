"""A manoeuvre driven by vehicles whose parameters are not known exactly: quantiles of their motion over time.

Vehicles go in pieces, on the workers of a scheduler or one after the other, so that memory is bounded whatever their number.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from lfdm_ros.scheduling import Scheduler
from lfdm_ros.simulation.batch import BatchRollout

PIECE = 16_384  # vehicles
NUMBERS = 2**27  # of a piece's results at most: 1 GiB


@dataclass(frozen=True)
class Spread:
    """Quantiles (Q, K, C) of the runs that stayed finite, `runs` in all, and how many did not."""

    quantiles: np.ndarray
    runs: int
    diverged: int


def motion_spread(rollout: BatchRollout, theta: np.ndarray, x0: np.ndarray, shares: Sequence[float],
                  scheduler: Scheduler) -> Iterator[Spread]:
    """Yields the spread of the runs that are done, last that of all.

    A quantile is the mean of those of the pieces, weighted by their runs. The pieces, and so the result, are the same whatever computes
    them; the work of a lost worker is repeated.

    Args:
        theta: (N, P) parameters of the runs.
        x0: (nx,) state at the start.
        shares: Q shares of the runs, 0 to 1.
    """
    size = max(1, min(PIECE, NUMBERS // max(1, len(rollout.times) * rollout.channels)))
    pieces = [theta[first:first + size] for first in range(0, len(theta), size)]
    found: dict[int, Spread] = {}
    for number, spread in scheduler.map(partial(_spread, rollout, x0, tuple(shares)), pieces):
        found[number] = spread
        yield _together([found[k] for k in sorted(found)])


def _spread(rollout: BatchRollout, x0: np.ndarray, shares: tuple[float, ...], theta: np.ndarray) -> Spread:
    runs = rollout.trajectories(theta, x0)
    finite = np.isfinite(runs).all(axis=(1, 2))
    if not finite.any():
        return Spread(np.full((len(shares), *runs.shape[1:]), np.nan), len(runs), len(runs))
    quantiles = np.quantile(runs[finite] if not finite.all() else runs, shares, axis=0)
    return Spread(quantiles, len(runs), int((~finite).sum()))


def _together(parts: Sequence[Spread]) -> Spread:
    weights = np.array([part.runs - part.diverged for part in parts], float)
    if not weights.sum():
        return Spread(parts[0].quantiles, sum(part.runs for part in parts), sum(part.diverged for part in parts))
    alive = weights > 0.0
    quantiles = np.average([part.quantiles for part, lives in zip(parts, alive) if lives], axis=0, weights=weights[alive])
    return Spread(quantiles, sum(part.runs for part in parts), sum(part.diverged for part in parts))
