"""Model error, learned from pieces to which the model was not fitted, as part of its predictions.

A prediction errs by more than parameter uncertainty and noise where the model is incomplete (Kennedy and O'Hagan 2001): the error of one
channel in one piece is response error + model error + noise of the sensor. The noise of a likelihood includes both; the sensor noise alone
is estimated from second differences of the measurements. The model error is a Gaussian process of mean 0 that grows with the time since the
piece began and with the level of the response,

    var(t) = constant + drift t + ramp t^2 + share m(t)^2,

so that, unlike the single sigma, it extends to harder driving and longer runs. A fluctuating force error integrates to the drift of a
random walk, a constant one to a ramp; share is Kennedy and O'Hagan's scale of the response, the effect of a wrong gain: m is the response,
for a position, a heading or a speed its change in the piece. Neighbours are correlated over `memory`.

The four are found by maximum likelihood on errors out of sample, given the variance of parameters and sensor; one scale then
widens or narrows all so that 90 % of these errors lie in their 90 % intervals, with the finite-sample correction of split conformal
prediction (Vovk et al. 2005; Romano et al. 2019 for widths that differ): errors of pieces have heavier tails than a Gaussian.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

LEVEL = 0.9  # of the intervals that the scale is for
GAUSSIAN = float(stats.norm.ppf(0.5 + 0.5 * LEVEL))  # half their width in standard deviations
ROUNDS = 15  # of the search for the variance
MAX_SAMPLES = 2000  # samples that are looked at
MIN_PIECES = 3  # that teach anything
LARGEST_SCALE = 20.0
MAX_COVERAGE = 0.95  # required with few independent errors
MIN_DIFFERENCES, WHITE = 50, 0.1  # second differences needed to estimate a sensor's noise, and the tolerance of their correlation
FOLDS = 8  # of the cross-validation over pieces
RELATIVE = ("x", "y", "z", "yaw", "vx", "omega", "engine_speed")  # states of which only the change since the start matters


def sensor_noise(observed: Sequence[np.ndarray]) -> float:
    """Returns the standard deviation of the white noise of a sensor, from second differences of its data sets (R,): a smooth motion
    has next to none, and white noise has them with a correlation of -2/3 between neighbours. NaN where they are not.
    """
    squares = products = 0.0
    count = pairs = 0
    for values in observed:
        second = np.diff(values, 2)
        both = second[1:] * second[:-1]
        squares, products = squares + float(np.nansum(second**2)), products + float(np.nansum(both))
        count, pairs = count + int(np.isfinite(second).sum()), pairs + int(np.isfinite(both).sum())
    if count < MIN_DIFFERENCES or squares <= 0.0 or not abs(products / pairs / (squares / count) + 2.0 / 3.0) < WHITE:
        return float("nan")
    return float(np.sqrt(squares / (6.0 * count)))


@dataclass(frozen=True)
class PieceErrors:
    """One channel in one piece that was not fitted: elapsed [s] since the run began, error measured - response, spread: the variance of
    the parameters, level: what the response does (`level_of`); all (n,). sigma: noise of the likelihood; sensor: noise of the sensor, 0
    where it cannot be estimated."""

    elapsed: np.ndarray
    error: np.ndarray
    spread: np.ndarray
    level: np.ndarray
    sigma: float
    sensor: float

    @property
    def z(self) -> np.ndarray:
        """Errors in standard deviations of parameters and sigma."""
        return self.error / np.sqrt(self.spread + self.sigma**2)

    def width(self, found: ModelError | None) -> np.ndarray:
        """Returns the standard deviation (n,) of a prediction that includes the model error."""
        return np.sqrt(self.spread + (found.variance(self.elapsed, self.level) + self.sensor**2 if found else self.sigma**2))


def level_of(channel: str, response: np.ndarray) -> np.ndarray:
    """Returns the level of a response (K,) of a run: its value, or its change where the value is one of place, heading or speed."""
    stem = channel.partition("_")[0] if channel.startswith("omega") else channel
    return response - response[0] if stem in RELATIVE else response


@dataclass(frozen=True)
class ModelError:
    """The model error of one channel; SI units. noise: of that sensor, 0 where it could not be estimated; pieces: number used for learning;
    source: held_out or cross_validation."""

    noise: float
    constant: float
    drift: float
    ramp: float
    share: float
    memory: float
    pieces: int
    source: str

    def variance(self, elapsed: np.ndarray, level: np.ndarray) -> np.ndarray:
        """Returns the variance (K,) at times since the run began, for a response of level `level`."""
        return np.asarray(_terms(elapsed, level) @ [self.constant, self.drift, self.ramp, self.share])

    def correlation(self, interval: float) -> float:
        """Returns the correlation of neighbours at a distance in time [s]."""
        return float(np.exp(-interval / self.memory))

def learn(pieces: Sequence[PieceErrors], source: str) -> ModelError | None:
    """Learns the model error from pieces; None if they are too few."""
    if len(pieces) < MIN_PIECES:
        return None
    every = max(1, sum(len(piece.error) for piece in pieces) // MAX_SAMPLES)
    elapsed, error, level = (np.concatenate([getattr(piece, name)[::every] for piece in pieces]) for name in ("elapsed", "error", "level"))
    spread = np.concatenate([piece.spread[::every] + piece.sensor**2 for piece in pieces])
    # Each piece has the same weight, whatever its length.
    weight = np.concatenate([np.full(len(piece.error[::every]), 1.0 / len(piece.error[::every])) for piece in pieces])
    terms = _terms(elapsed, level)
    coefficients = _likeliest(terms, error, spread, weight)
    variance = terms @ coefficients
    deviations = [np.sqrt(piece.spread + piece.sensor**2 + _terms(piece.elapsed, piece.level) @ coefficients) for piece in pieces]
    # Without variance, as at the beginning of a run, an error does not inform the memory.
    memory = _memory([np.divide(piece.error, sd, out=np.zeros_like(sd), where=sd > 0.0) for piece, sd in zip(pieces, deviations)],
                     [piece.elapsed for piece in pieces])
    independent = sum(max(1.0, np.ptp(piece.elapsed) / (2.0 * memory)) for piece in pieces)
    constant, drift, ramp, share = (coefficients * _scale(error, spread, variance, weight, independent) ** 2).tolist()
    noise = float(np.sqrt(np.mean([piece.sensor**2 for piece in pieces])))
    return ModelError(noise, constant, drift, ramp, share, memory, len(pieces), source)


def tried(pieces: Sequence[PieceErrors]) -> float:
    """Computes the share of the errors of pieces inside intervals widened by the model error of the others; NaN where there are too few."""
    if len(pieces) < MIN_PIECES + 1:
        return float("nan")
    folds = min(FOLDS, len(pieces))
    inside = total = 0
    for fold in range(folds):
        found = learn([piece for i, piece in enumerate(pieces) if i % folds != fold], "")
        for piece in pieces[fold::folds]:
            inside += int((np.abs(piece.error) <= GAUSSIAN * piece.width(found)).sum())
            total += len(piece.error)
    return inside / total


def _terms(elapsed: np.ndarray, level: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(elapsed)), elapsed, elapsed**2, level**2])


def _likeliest(terms: np.ndarray, error: np.ndarray, spread: np.ndarray, weight: np.ndarray) -> np.ndarray:
    # Coefficients >= 0 of the variance terms @ coefficients + spread of normal errors, by Fisher scoring: each step is a least-squares
    # fit to the squared errors, whose own variance is 2 variance^2.
    unit = np.maximum(weight @ terms / weight.sum(), 1e-300)
    scaled = terms / unit
    excess = error**2 - spread
    found = np.full(terms.shape[1], max(weight @ excess / weight.sum(), 0.0) / terms.shape[1])
    floor = 1e-6 * max(weight @ error**2 / weight.sum(), 1e-300)
    for _ in range(ROUNDS):
        root = np.sqrt(weight) / np.maximum(spread + scaled @ found, floor)
        step, _ = optimize.nnls(scaled * root[:, None], excess * root)
        found = 0.5 * (found + step)
    return np.asarray(found / unit)


def _scale(error: np.ndarray, spread: np.ndarray, variance: np.ndarray, weight: np.ndarray, independent: float) -> float:
    # Of the standard deviation of the model error, so that LEVEL of the errors lie inside, and a little more where few are independent.
    target = min(LEVEL * (1.0 + 1.0 / independent), MAX_COVERAGE)

    def inside(scale: float) -> float:
        return float(weight @ (np.abs(error) <= GAUSSIAN * np.sqrt(spread + scale**2 * variance)) / weight.sum())

    if inside(0.0) >= target:
        return 0.0
    if inside(LARGEST_SCALE) < target:
        return LARGEST_SCALE
    low, high = 0.0, LARGEST_SCALE
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if inside(middle) >= target else (middle, high)
    return high


def _memory(series: Sequence[np.ndarray], elapsed: Sequence[np.ndarray]) -> float:
    # Correlation time [s] from the correlation over a tenth of a piece.
    products = squares = 0.0
    distance = []
    for z, time in zip(series, elapsed):
        lag = max(1, len(z) // 10)
        if len(z) > lag:
            products += float(z[lag:] @ z[:-lag]) / (len(z) - lag)
            squares += float(z @ z) / len(z)
            distance.append(float(np.median(time[lag:] - time[:-lag])))
    if not distance or squares <= 0.0:
        return 1.0
    ratio = float(np.clip(products / squares, 0.05, 0.99))
    return float(np.median(distance)) / -float(np.log(ratio))


