"""Distraction of an operator: table published with paper 001, by secondary task.

Each row gives the onset rate, and mean, standard deviation, minimum and maximum of the durations. Attention is an alternating renewal
process: attentive times are exponential (Poisson onsets while attentive) with the mean that reproduces the onset rate; durations are
log-normal, truncated to the table's range, with parameters that give the truncated distribution the table's mean and standard deviation.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import ndtr, ndtri

ATTENTIVE = "none"
LONGEST_GAP = 1000.0  # [s] between two calls


@dataclass(frozen=True)
class Distraction:
    """A row of the table: onset rate [1/s]; mean, sd, minimum and maximum duration [s]."""

    frequency: float
    mean: float
    sd: float
    least: float
    largest: float

    @property
    def attentive(self) -> float:
        return 1.0 / self.frequency - self.mean


TABLE: dict[str, Distraction] = {
    "base": Distraction(0.11, 1.022, 0.656, 0.206, 5.807),
    "several_assets": Distraction(0.167, 1.81, 1.514, 0.239, 16.373),
    "parameters": Distraction(0.199, 1.056, 0.71, 0.251, 7.239),
    "positioning": Distraction(0.191, 1.518, 1.043, 0.273, 11.599),
    "poor_map": Distraction(0.131, 1.941, 1.803, 0.24, 24.927),
    "urban": Distraction(0.156, 1.164, 0.707, 0.256, 8.11),
    "overwatch": Distraction(0.117, 1.734, 1.499, 0.249, 15.572),
}


@cache
def log_normal(row: Distraction) -> tuple[float, float]:
    """Returns mu and sigma of the logarithm, before truncation, with which the truncated durations have the row's mean and sd."""
    from scipy.optimize import root  # takes 0.1 s; few nodes need it

    low, high = math.log(row.least), math.log(row.largest)

    def moments(mu: float, sigma: float) -> tuple[float, float]:
        a, b = (low - mu) / sigma, (high - mu) / sigma
        inside = ndtr(b) - ndtr(a)
        raw = [math.exp(k * mu + 0.5 * (k * sigma) ** 2) * (ndtr(b - k * sigma) - ndtr(a - k * sigma)) / inside for k in (1, 2)]
        return float(raw[0]), math.sqrt(max(raw[1] - raw[0] ** 2, 0.0))

    def residuals(q: np.ndarray) -> list[float]:
        mean, sd = moments(q[0], math.exp(q[1]))
        return [mean / row.mean - 1.0, sd / row.sd - 1.0]

    spread = math.log(1.0 + (row.sd / row.mean) ** 2)
    found = root(residuals, [math.log(row.mean) - 0.5 * spread, 0.5 * math.log(spread)])
    assert found.success, f"no log-normal distribution has the moments of {row}"
    return float(found.x[0]), math.exp(float(found.x[1]))


class Attention:
    """An operator's attention to the screen, over increasing times."""

    def __init__(self, row: Distraction | None, random: np.random.Generator) -> None:
        """Starts attentive; row: None: never distracted."""
        self._row, self._random = row, random
        self._begin = self._end = -math.inf

    def away(self, time: float) -> bool:
        """Checks that the operator is distracted at a time [s], not before that of the last call; false at the first."""
        if self._row is None:
            return False
        if time > self._end + LONGEST_GAP:  # the first call, or a clock that was set
            self._next(time)
        while time >= self._end:
            self._next(self._end)
        return time >= self._begin

    def _next(self, time: float) -> None:
        assert self._row is not None
        self._begin = time + float(self._random.exponential(self._row.attentive))
        self._end = self._begin + self.duration()

    def duration(self) -> float:
        """Draws the duration of a distraction [s]."""
        assert self._row is not None
        mu, sigma = log_normal(self._row)
        low, high = (float(ndtr((math.log(limit) - mu) / sigma)) for limit in (self._row.least, self._row.largest))
        return math.exp(mu + sigma * float(ndtri(low + (high - low) * self._random.random())))
