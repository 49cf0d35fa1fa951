"""Friction field learned from likelihoods: friction estimates become observations of the latent field.

Gentle driving differs little on ice and on asphalt: its likelihood is flat, or a lower bound only, unlike an observation with fixed noise.
Expectation propagation (Minka 2001; Rasmussen & Williams 2006, algorithm 3.5, with a likelihood of any form) approximates each by a
Gaussian given all others: wide with little information, none without.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from lfdm_ros.errors import InputError
from lfdm_ros.ground.posterior import DensePosterior
from lfdm_ros.ground.prior import FieldPrior, Observations

_NODES = np.linspace(-6.0, 6.0, 241)  # of the quadrature, in standard deviations of the cavity
_BETWEEN = 5  # nodes of the quadrature between two values of the likelihood
_MIN_PRECISION = 1e-6  # of a site that counts as information


@dataclass(frozen=True, eq=False)
class FrictionLikelihood:
    """Likelihood of the latent friction at some points.

    places (N, 2) [m]; latent (M,): increasing; log_likelihood (N, M): up to a constant per point; constant beyond the values of `latent`.
    Raises InputError: wrong shapes, or values that are not finite.
    """

    places: np.ndarray
    latent: np.ndarray
    log_likelihood: np.ndarray

    def __post_init__(self) -> None:
        n, m = len(self.places), len(self.latent)
        if self.places.ndim != 2 or self.places.shape[1] != 2 or self.log_likelihood.shape != (n, m) or m < 2:
            raise InputError(f"friction likelihood: places {self.places.shape} and likelihoods {self.log_likelihood.shape} of {m} values "
                             "do not fit")
        if not (np.isfinite(self.places).all() and np.isfinite(self.log_likelihood).all() and (np.diff(self.latent) > 0.0).all()):
            raise InputError("friction likelihood: places and likelihoods must be finite, values must rise")

    def __len__(self) -> int:
        return len(self.places)


def learn(prior: FieldPrior, likelihoods: FrictionLikelihood, further: Observations | None = None, **settings: float) -> Observations:
    """Converts likelihoods to observations of the latent field, without uninformative ones. further: additional observations, not returned;
    settings: as `sites`."""
    return observations_of(likelihoods, sites(prior, likelihoods, further, **settings))  # type: ignore[arg-type]


def observations_of(likelihoods: FrictionLikelihood, sites: np.ndarray) -> Observations:
    """Converts sites (2, N) to observations, without uninformative ones."""
    precision, shift = sites
    informative = precision > _MIN_PRECISION
    return Observations(likelihoods.places[informative], shift[informative] / precision[informative], 1.0 / np.sqrt(precision[informative]))


def sites(prior: FieldPrior, likelihoods: FrictionLikelihood, further: Observations | None = None, start: np.ndarray | None = None,
          sweeps: int = 100, damping: float = 0.5, tolerance: float = 1e-4) -> np.ndarray:
    """Computes the Gaussian approximation of each likelihood, given all others: precision, and precision times mean, (2, N).

    Args:
        further: additional observations.
        start: initial sites (2, N), as from fewer likelihoods; None: flat ones.
        sweeps: maximum number; damping: step size, 1 undamped; tolerance: of the latent friction's means and deviations.
    """
    before = DensePosterior(prior, likelihoods.places, further)
    cov, mean0 = before.covariance, before.mean
    precision, shift = np.zeros((2, len(likelihoods))) if start is None else np.array(start, float)
    mean, variance = _marginals(cov, mean0, precision, shift)
    for _ in range(sweeps):
        cavity = np.maximum(1.0 / variance - precision, 1e-9)
        cavity_mean = (mean / variance - shift) / cavity
        tilted_mean, tilted_variance = tilted(likelihoods, cavity_mean, 1.0 / np.sqrt(cavity))
        target = 1.0 / tilted_variance - cavity
        informative = target > _MIN_PRECISION  # a likelihood that increases the variance counts as uninformative
        precision += damping * (np.where(informative, target, 0.0) - precision)
        shift += damping * (np.where(informative, tilted_mean / tilted_variance - cavity_mean * cavity, 0.0) - shift)
        last, spread = mean, np.sqrt(variance)
        mean, variance = _marginals(cov, mean0, precision, shift)
        if max(np.abs(mean - last).max(initial=0.0), np.abs(np.sqrt(variance) - spread).max(initial=0.0)) < tolerance:
            break
    return np.stack([precision, shift])


def _marginals(cov: np.ndarray, mean0: np.ndarray, precision: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes means and variances (N,) of the field, given the sites; cov (N, N), mean0 (N,): without them."""
    root = np.sqrt(precision)
    factor = linalg.cholesky(np.eye(len(cov)) + root[:, None] * cov * root, lower=True)
    half = linalg.solve_triangular(factor, root[:, None] * cov, lower=True)
    residual = shift - precision * mean0
    return mean0 + cov @ residual - half.T @ (half @ residual), np.maximum(cov.diagonal() - np.einsum("ij,ij->j", half, half), 1e-12)


def tilted(likelihoods: FrictionLikelihood, mean: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes mean and variance (N,) of each likelihood times a Gaussian of mean (N,) and deviation (N,)."""
    # Nodes where either of them has its mass: they may lie far apart.
    fine = np.linspace(likelihoods.latent[0], likelihoods.latent[-1], _BETWEEN * (len(likelihoods.latent) - 1) + 1)
    nodes = np.sort(np.concatenate([mean[:, None] + sd[:, None] * _NODES, np.repeat(fine[None], len(likelihoods), axis=0)], axis=1), axis=1)
    place = np.interp(nodes, likelihoods.latent, np.arange(len(likelihoods.latent)))
    left = np.minimum(place.astype(int), len(likelihoods.latent) - 2)
    share, rows = place - left, np.arange(len(likelihoods))[:, None]
    logs = (1.0 - share) * likelihoods.log_likelihood[rows, left] + share * likelihoods.log_likelihood[rows, left + 1]
    logs -= 0.5 * ((nodes - mean[:, None]) / sd[:, None]) ** 2
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    width = np.diff(nodes, axis=1, prepend=nodes[:, :1], append=nodes[:, -1:])
    weights *= width[:, :-1] + width[:, 1:]
    weights /= weights.sum(axis=1, keepdims=True)
    expected = (weights * nodes).sum(axis=1)
    return expected, np.maximum((weights * (nodes - expected[:, None]) ** 2).sum(axis=1), 1e-9)
