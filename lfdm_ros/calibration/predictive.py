"""Responses of the model to draws of its parameters, and how they compare with the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lfdm_ros.calibration.likelihood import Likelihood

RMSE_DRAWS = 100  # as paper 000: mean RMSE of 100 responses
PREDICTIVE_DRAWS = 400  # for quantiles


@dataclass(frozen=True)
class Predictive:
    """Responses (C, D, K, n_channels) to D draws of each of C chains, without and with the noise of the measurement."""

    responses: np.ndarray
    noisy: np.ndarray
    draw_index: np.ndarray  # (D,) which draws of a chain these are

    @property
    def sample(self) -> np.ndarray:
        """At most RMSE_DRAWS responses (n, K, n_channels), evenly over chains and draws."""
        flat = self.responses.reshape(-1, *self.responses.shape[2:])
        return flat[np.unique(np.linspace(0, len(flat) - 1, RMSE_DRAWS).astype(int))]


def predict_draws(likelihood: Likelihood, q: np.ndarray, sigma: np.ndarray, rng: np.random.Generator,
                  total: int = PREDICTIVE_DRAWS) -> Predictive:
    """Runs about `total` of the draws q (C, N, Q) with noise of standard deviation sigma (C, N, n_channels)."""
    chains, draws, width = q.shape
    index = np.unique(np.linspace(0, draws - 1, min(draws, -(-total // chains))).astype(int))
    responses = likelihood.trajectories(q[:, index].reshape(chains * len(index), width))
    responses = responses.reshape(chains, len(index), *responses.shape[1:])
    noise = rng.standard_normal(responses.shape) * sigma[:, index, None, :]
    return Predictive(responses, responses + noise, index)


def mean_rmse(responses: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Mean over responses (n, K, C) of the RMSE against observed (K, C), by channel; runs that diverged are left out."""
    with np.errstate(invalid="ignore", over="ignore"):
        rmse = np.sqrt(np.nanmean((responses - observed) ** 2, axis=1))
    alive = np.isfinite(responses).all(axis=(1, 2))
    return rmse[alive].mean(axis=0) if alive.any() else np.full(observed.shape[1], np.nan)


def coverage(noisy: np.ndarray, observed: np.ndarray, level: float = 0.9) -> np.ndarray:
    """Share of the measured samples inside the central `level` interval of the predictive draws (C, D, K, n_channels), by channel."""
    flat = noisy.reshape(-1, *noisy.shape[2:])
    lower, upper = np.quantile(flat, [(1 - level) / 2, (1 + level) / 2], axis=0)
    measured = np.isfinite(observed)
    inside = measured & (observed >= lower) & (observed <= upper)
    return inside.sum(axis=0) / measured.sum(axis=0)


def residuals(responses: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Measured minus mean response (K, C), NaN where nothing was measured."""
    return observed - responses.reshape(-1, *responses.shape[2:]).mean(axis=0)


def lag_one(residual: np.ndarray) -> float:
    """Correlation of neighbouring residuals (K,), 0 for white noise; NaN where there are fewer than 3."""
    series = residual[np.isfinite(residual)]
    if len(series) < 3 or not series.std():
        return float("nan")
    series = series - series.mean()
    return float((series[1:] * series[:-1]).sum() / (series * series).sum())


def by_channel(channels: tuple[str, ...], values: np.ndarray) -> Mapping[str, float]:
    """Channel -> value."""
    return {name: float(value) for name, value in zip(channels, values)}
