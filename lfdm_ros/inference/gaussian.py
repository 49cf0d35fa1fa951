"""Gaussian of correlated errors: density with gradient, whitening, and draws.

The errors of a group have mean 0, standard deviation sigma and, inside unbroken runs of samples, the correlation rho^|i - j|: a stationary
autoregression of first order, and white noise where rho is 0. With R runs of n samples together the density (paper 000, eq. 3, for rho = 0)
depends on the errors only through

    A = sum_k e_k^2,    B = sum_k e_k e_{k+1} inside runs,    D = A without the first and the last of each run,

    log p = -w [ n log(sigma) + (n - R)/2 log(1 - rho^2) + (A - 2 rho B + rho^2 D) / (2 sigma^2 (1 - rho^2)) + n/2 log(2 pi) ].

The power w is below 1 where errors are inflated: n samples are as informative as w n independent ones.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.signal import lfilter

MOMENTS = 3  # A, B and D
FEW = 10  # fewer series than a tenth of their length are filtered one by one, others together, sample by sample


@dataclass(frozen=True)
class ErrorGroup:
    """Errors that share noise and correlation: label, number of samples n, unbroken runs R of them, power w of their likelihood."""

    label: str
    count: int
    runs: int
    weight: float = 1.0


def scatter(moments: Any, rho: Any) -> Any:
    """Computes A - 2 rho B + rho^2 D of moments (3, ...), or of derivatives of them."""
    a, b, d = moments
    return a - 2.0 * rho * b + rho**2 * d  # powers, not products of three, over which PyTensor without a compiler loops in Python


def misfit(group: ErrorGroup, moments: Any, log_sigma: Any, rho: Any, maths: Any = np) -> Any:
    """Computes -log p without w and without 2 pi; `maths`: NumPy, or PyTensor where the arguments are symbols."""
    left = 1.0 - rho**2
    total = scatter(moments, rho) / left
    # Products of two factors only: PyTensor without a compiler loops over particles in Python for three.
    spread = 2.0 * maths.exp(2.0 * log_sigma)
    return group.count * log_sigma + 0.5 * (group.count - group.runs) * maths.log(left) + total / spread


def log_density(group: ErrorGroup, moments: Any, log_sigma: Any, rho: Any, maths: Any = np) -> Any:
    """Computes log p of moments (3,)."""
    return -group.weight * (misfit(group, moments, log_sigma, rho, maths) + 0.5 * group.count * math.log(2.0 * math.pi))


def slopes(group: ErrorGroup, moments: np.ndarray, by_q: np.ndarray, sigma: float, rho: float) -> tuple[float, float, np.ndarray]:
    """Returns the derivatives of log p by sigma, rho, and q (Q,), the moments' own derivatives being `by_q` (3, Q)."""
    _, b, d = moments
    left = 1.0 - rho**2
    count, pairs = group.weight * group.count, group.weight * (group.count - group.runs)
    factor = 0.5 * group.weight / (sigma * sigma * left)
    cost = scatter(moments, rho) * factor
    by_rho = (pairs * rho - 2.0 * rho * cost) / left + 2.0 * (b - rho * d) * factor
    return (2.0 * cost - count) / sigma, by_rho, -factor * scatter(by_q, rho)


def whiten(group: ErrorGroup, errors: np.ndarray, starts: np.ndarray | None, sigma: float, rho: float) -> np.ndarray:
    """Whitens errors (n, ...), or derivatives of them, to independent standard deviations; their squares add up to twice the term with A,
    B, D.

    The prediction from the preceding sample is subtracted from each sample. starts (n,): where runs begin; None: errors are white.
    """
    scaled = errors / sigma
    if starts is not None:
        follows = np.flatnonzero(~starts)
        whitened = scaled.copy()
        whitened[follows] = (scaled[follows] - rho * scaled[follows - 1]) / np.sqrt(1.0 - rho**2)
        scaled = whitened
    return np.sqrt(group.weight) * scaled


def correlated_noise(rng: np.random.Generator, shape: tuple[int, ...], sigma: Any, rho: Any) -> np.ndarray:
    """Draws errors of one run along the last axis; sigma, rho of the shape of the others."""
    noise = rng.standard_normal(shape)
    rho = np.broadcast_to(rho, shape[:-1])
    if rho.any():
        noise[..., 1:] *= np.sqrt(1.0 - rho**2)[..., None]
        autoregress(noise, rho)
    return noise * np.asarray(sigma)[..., None]


def autoregress(series: np.ndarray, pole: np.ndarray) -> None:
    """Filters series (..., K) in place: y_k = pole y_{k-1} + series_k, y_0 = series_0; pole (...)."""
    if FEW * pole.size < series.shape[-1]:
        for place, one in np.ndenumerate(pole):
            values = series[place]
            values[1:] = lfilter([1.0], [1.0, -one], values[1:], zi=[one * values[0]])[0]
        return
    for k in range(1, series.shape[-1]):
        series[..., k] += pole * series[..., k - 1]
