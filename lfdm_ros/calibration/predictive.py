"""Responses of the model to draws of its unknowns, and how they compare with the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lfdm_ros.calibration.dataset import Dataset
from lfdm_ros.calibration.likelihood import RolloutLikelihood
from lfdm_ros.calibration.model import correlated_noise

RMSE_DRAWS = 100  # as paper 000: mean RMSE of 100 responses
PREDICTIVE_DRAWS = 400  # for quantiles


@dataclass(frozen=True)
class Predictive:
    """Responses (C, D, K, n_channels) of one data set to D draws of each of C chains, without and with the noise of the measurement."""

    responses: np.ndarray
    noisy: np.ndarray
    draw_index: np.ndarray  # (D,) which draws of a chain these are

    @property
    def sample(self) -> np.ndarray:
        """At most RMSE_DRAWS responses (n, K, n_channels), evenly over chains and draws."""
        flat = self.responses.reshape(-1, *self.responses.shape[2:])
        return flat[np.unique(np.linspace(0, len(flat) - 1, RMSE_DRAWS).astype(int))]


def predict_draws(likelihood: RolloutLikelihood, q: np.ndarray, sigma: Sequence[np.ndarray], rho: Sequence[np.ndarray],
                  rng: np.random.Generator, total: int = PREDICTIVE_DRAWS) -> list[Predictive]:
    """Runs about `total` of the draws q (C, N, Q), for each data set with noise sigma and correlation rho, both (C, N, n_channels)."""
    chains, draws, width = q.shape
    index = np.unique(np.linspace(0, draws - 1, min(draws, -(-total // chains))).astype(int))
    out = []
    for responses, deviation, correlation in zip(likelihood.responses(q[:, index].reshape(chains * len(index), width)), sigma, rho):
        responses = responses.reshape(chains, len(index), *responses.shape[1:])
        shape = (*responses.shape[:2], responses.shape[3], responses.shape[2])
        noise = np.moveaxis(correlated_noise(rng, shape, deviation[:, index], correlation[:, index]), 3, 2)
        out.append(Predictive(responses, responses + noise, index))
    return out


def mean_rmse(responses: Sequence[np.ndarray], observed: Sequence[np.ndarray]) -> float:
    """Mean over draws of the RMSE of one channel over its data sets: responses (n, K) each, observed (K,) each.

    Draws that diverged anywhere are left out; NaN where all did.
    """
    squares, count = np.zeros(len(responses[0])), 0
    alive = np.ones(len(responses[0]), bool)
    with np.errstate(invalid="ignore", over="ignore"):
        for runs, data in zip(responses, observed):
            measured = np.isfinite(data)
            squares += ((runs[:, measured] - data[measured]) ** 2).sum(axis=1)
            alive &= np.isfinite(runs).all(axis=1)
            count += int(measured.sum())
    return float(np.sqrt(squares[alive] / count).mean()) if alive.any() else float("nan")


def coverage(noisy: Sequence[np.ndarray], observed: Sequence[np.ndarray], level: float = 0.9) -> float:
    """Share of the samples of one channel inside the central `level` interval of the draws: noisy (n, K) each, observed (K,) each."""
    inside, count = 0, 0
    for draws, data in zip(noisy, observed):
        measured = np.isfinite(data)
        lower, upper = np.quantile(draws[:, measured], [(1 - level) / 2, (1 + level) / 2], axis=0)
        inside += int(((data[measured] >= lower) & (data[measured] <= upper)).sum())
        count += int(measured.sum())
    return inside / count


def residuals(responses: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Measured minus mean response (K, C) of draws (n, K, C), NaN where nothing was measured."""
    return observed - responses.reshape(-1, *responses.shape[-2:]).mean(axis=0)


def lag_one(residuals_: Sequence[np.ndarray]) -> float:
    """Correlation of neighbouring residuals of data sets (K,) each, 0 for white noise; NaN where there are fewer than 3."""
    neighbours, squares, count = 0.0, 0.0, 0
    for residual in residuals_:
        series = residual[np.isfinite(residual)]
        neighbours += float(series[1:] @ series[:-1])
        squares += float(series @ series)
        count += len(series)
    return neighbours / squares if count >= 3 and squares > 0.0 else float("nan")


@dataclass(frozen=True)
class Compared:
    """Predictions of the errors of one label against what was measured, over all its data sets."""

    rmse: float
    coverage: float
    lag_one: float


def compare(data: Sequence[tuple[Sequence[str], Dataset]], predictives: Sequence[Predictive]) -> dict[str, Compared]:
    """How the predictives of data sets compare with them, by the labels that go with the channels of each."""
    gathered: dict[str, list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]] = {}
    for (labels, dataset), predictive in zip(data, predictives):
        noisy, residual = predictive.noisy.reshape(-1, *predictive.noisy.shape[2:]), residuals(predictive.responses, dataset.observed)
        for c, label in enumerate(labels):
            gathered.setdefault(label, []).append((predictive.sample[:, :, c], noisy[:, :, c], dataset.observed[:, c], residual[:, c]))
    out = {}
    for label, parts in gathered.items():
        sample, noisy_parts, observed, residual_parts = (list(column) for column in zip(*parts))
        out[label] = Compared(mean_rmse(sample, observed), coverage(noisy_parts, observed), lag_one(residual_parts))
    return out
