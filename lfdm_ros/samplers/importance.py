"""Draws of an approximation made draws of a density, as far as they reach it: Pareto-smoothed importance resampling."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from lfdm_ros.libraries import arviz

PARETO_LIMIT = 0.7  # above it importance weights, and so the approximation they correct, are not to be trusted (Vehtari et al. 2024)
SHARE_EFFECTIVE, MIN_EFFECTIVE = 0.1, 100.0  # of the draws, and draws, that weights have to be worth where they are not
NO_WEIGHT = 1e-3  # of what a draw has on average


@dataclass(frozen=True)
class Weighed:
    """Draws of an approximation, weighed by the density that they should be of.

    weights (n,), which add up to 1; pareto_k: shape of the tail of the raw weights; power: of the density over that of the approximation,
    below 1 where its weights would leave too few draws; effective: independent draws that they are worth; without_weight: draws that have
    next to none.
    """

    weights: np.ndarray
    pareto_k: float
    power: float

    @property
    def effective(self) -> float:
        return float(1.0 / (self.weights**2).sum())

    @property
    def without_weight(self) -> int:
        return int((self.weights < NO_WEIGHT / len(self.weights)).sum())

    def resample(self, rng: np.random.Generator) -> np.ndarray:
        """Draws the indices (n,) of equally weighted draws, in no order: systematic resampling."""
        count = len(self.weights)
        edges = np.cumsum(self.weights)
        places = np.searchsorted(edges / edges[-1], (np.arange(count) + rng.uniform()) / count)
        return rng.permutation(np.minimum(places, count - 1))


def weigh(log_weights: np.ndarray, alike: bool = False) -> Weighed:
    """Computes importance weights, Pareto-smoothed (Vehtari et al. 2024), of log density less log density of the approximation (n,).

    Where the tail is too heavy (k above PARETO_LIMIT), the approximation is moved towards the density only as far as its draws reach: by
    the largest power of the weights that leaves enough of them, as a step of annealed importance sampling (Neal 2001) does. Draws whose
    density is a millionth of what it should be lose their weight all the same.

    Args:
        alike: those that are possible count the same: the draws are not meant to be of this density.
    """
    possible = np.isfinite(log_weights)
    if not possible.any():
        return Weighed(np.full(len(log_weights), 1.0 / len(log_weights)), float("inf"), 0.0)
    raw = np.where(possible, log_weights, -1e300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a heavy tail: that is said in other words
        smoothed, shape = arviz().psislw(raw)
    shape = float(shape)
    if alike:
        return Weighed(possible / possible.sum(), shape, 0.0)
    if shape <= PARETO_LIMIT:
        return Weighed(_normalised(np.asarray(smoothed)), shape, 1.0)
    enough = min(0.9 * possible.sum(), max(MIN_EFFECTIVE, SHARE_EFFECTIVE * len(raw)))
    low, high = 0.0, 1.0
    for _ in range(40):
        power = 0.5 * (low + high)
        weights = _normalised(power * raw)
        low, high = (power, high) if 1.0 / (weights**2).sum() >= enough else (low, power)
    return Weighed(_normalised(low * raw), shape, low)


def _normalised(log_weights: np.ndarray) -> np.ndarray:
    weights = np.exp(log_weights - log_weights.max())
    normalised: np.ndarray = weights / weights.sum()
    return normalised
