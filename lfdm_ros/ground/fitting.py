"""Fit of a prior to observations: maximum likelihood (paper 004 after Rasmussen & Williams 2006, chapter 5).

log p(W) = -1/2 (W - m)' K^-1 (W - m) - 1/2 log |K| - n/2 log 2 pi, K of eq 7. The mean m is linear in its three parameters, which follow
by generalised least squares; the others are optimised in logarithms with the exact gradient (their eq 5.9).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log, pi

import numpy as np
from scipy import linalg, optimize

from lfdm_ros.errors import InputError, quote
from lfdm_ros.ground.prior import FieldPrior

MEAN = ("a0", "a1", "a2")
SHAPE = ("alpha_x", "alpha_y", "gamma", "sigma_f", "sigma_n")
# Bounds: gamma as in the paper, lengths relative to the observations' extent, deviations relative to theirs.
GAMMA, LENGTHS, DEVIATIONS, NOISE = (1.0, 6.0), (1e-3, 1e2), (1e-3, 1e2), (1e-4, 10.0)
STARTS = (0.05, 0.2, 0.6)  # initial lengths relative to the extent
_BATCH = 500_000  # elements of the matrices factorised together
_LARGE_VARIANCE = 1e150  # keeps the bordered matrix positive definite


@dataclass(frozen=True)
class Fit:
    """Maximum likelihood prior, its log likelihood, and convergence of the search."""

    prior: FieldPrior
    log_likelihood: float
    converged: bool


def log_likelihood(prior: FieldPrior, places: np.ndarray, latent: np.ndarray) -> float:
    """Computes the log likelihood of latent values (n,) at points (n, 2) [m] with noise sigma_n; -inf for a singular covariance."""
    try:
        factor = linalg.cholesky(_covariance(prior, places), lower=True)
    except linalg.LinAlgError:
        return -np.inf
    whitened = linalg.solve_triangular(factor, latent - prior.mean(*places.T), lower=True)
    return float(-0.5 * whitened @ whitened - np.log(np.diag(factor)).sum() - 0.5 * len(latent) * log(2.0 * pi))


def log_likelihoods(values: Mapping[str, np.ndarray], places: np.ndarray, latent: np.ndarray,
                    noise: np.ndarray | None = None) -> np.ndarray:
    """Computes `log_likelihood` of many priors at once (K,).

    Args:
        values: (K,) by name of every value of `FieldPrior`, within its range.
        latent: (n,), or (K, n) for each prior.
        noise: individual standard deviations (n,) in place of sigma_n.
    """
    values = {name: np.asarray(value, float)[:, None, None] for name, value in values.items()}
    count, n = len(values["a0"]), len(places)
    apart = [np.abs(c[:, None] - c[None, :]) for c in places.T]
    latent = np.broadcast_to(latent, (count, n))
    result, diagonal = np.empty(count), np.arange(n)
    size = max(1, _BATCH // (n + 1) ** 2)
    for first in range(0, count, size):
        part = {name: value[first:first + size] for name, value in values.items()}
        mean = (part["a0"] + part["a1"] * places[:, 0] + part["a2"] * places[:, 1])[:, 0]
        # Residuals as a further row of the covariance: in its Cholesky root that row is the whitened residuals.
        bordered = np.empty((len(mean), n + 1, n + 1))
        bordered[:, :n, :n] = _kernels(part, apart)
        bordered[:, diagonal, diagonal] += (part["sigma_n"] ** 2)[:, 0] if noise is None else noise**2
        bordered[:, n, :n] = latent[first:first + size] - mean
        bordered[:, :n, n], bordered[:, n, n] = bordered[:, n, :n], _LARGE_VARIANCE
        roots = _roots(bordered)
        logs = np.log(roots[:, diagonal, diagonal]).sum(axis=1)
        result[first:first + size] = -0.5 * (roots[:, n, :n] ** 2).sum(axis=1) - logs - 0.5 * n * log(2.0 * pi)
    return np.where(np.isnan(result), -np.inf, result)


def _kernels(part: Mapping[str, np.ndarray], apart: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the covariances (k, n, n) of priors, without noise; apart: distances along x and y (n, n)."""
    lengths = (part["alpha_x"], part["alpha_y"])
    if (part["gamma"] == 1.0).all():
        exponent = sum((distance / alpha) ** 2 for distance, alpha in zip(apart, lengths))
    else:
        with np.errstate(divide="ignore"):
            exponent = sum(np.exp((2.0 / part["gamma"]) * (np.log(distance) - np.log(alpha))) for distance, alpha in zip(apart, lengths))
    return np.asarray(part["sigma_f"] ** 2 * np.exp(-exponent))


def _roots(matrices: np.ndarray) -> np.ndarray:
    """Computes the Cholesky root of each matrix (k, n, n); NaN for singular ones."""
    try:
        return np.asarray(np.linalg.cholesky(matrices))
    except linalg.LinAlgError:
        if len(matrices) == 1:
            return np.full_like(matrices, np.nan)
        half = len(matrices) // 2
        return np.concatenate([_roots(matrices[:half]), _roots(matrices[half:])])


def log_likelihood_and_slope(prior: FieldPrior, places: np.ndarray, latent: np.ndarray, names: Sequence[str]) -> tuple[float, np.ndarray]:
    """Computes `log_likelihood` and its derivatives (len(names),) by values of SHAPE. Raises LinAlgError: the covariance is singular."""
    factor = linalg.cholesky(_covariance(prior, places), lower=True)
    inverse = linalg.cho_solve((factor, True), np.eye(len(latent)))
    residuals = latent - prior.mean(*places.T)
    weighted = inverse @ residuals
    pull = np.outer(weighted, weighted) - inverse
    value = -0.5 * residuals @ weighted - np.log(np.diag(factor)).sum() - 0.5 * len(latent) * log(2.0 * pi)
    return float(value), np.array([0.5 * np.vdot(pull, change) for change in _changes(prior, places, names)])


def fit(places: np.ndarray, latent: np.ndarray, *, start: FieldPrior | None = None, fixed: Collection[str] = ()) -> Fit:
    """Fits the maximum likelihood prior to latent values (n,) at points (n, 2) [m].

    Args:
        start: fixed values, and a further initial guess.
        fixed: names of values kept at those of `start`; fix a1 and a2 for a mean without gradients, gamma for the paper's.

    Raises:
        InputError: fewer than 8 observations, one that is not finite, or an unknown name.
    """
    places, latent = np.asarray(places, float).reshape(-1, 2), np.asarray(latent, float).ravel()
    if len(places) != len(latent) or len(latent) < 8:
        raise InputError(f"observations: {len(places)} places and {len(latent)} values; a field is fitted to at least 8 of both")
    if not (np.isfinite(places).all() and np.isfinite(latent).all()):
        raise InputError("observations: a place or value is no finite number; leave it out")
    for name in fixed:
        if name not in (*MEAN, *SHAPE):
            raise InputError(f"fixed: {quote(name)} is no value of a field; there are: {', '.join((*MEAN, *SHAPE))}")
    free = [name for name in SHAPE if name not in fixed]
    initial = start or FieldPrior()
    extent, scale = np.maximum(np.ptp(places, axis=0), 1e-9), max(float(latent.std()), 1e-9)
    within = {"alpha_x": np.multiply(LENGTHS, extent[0]), "alpha_y": np.multiply(LENGTHS, extent[1]), "gamma": np.array(GAMMA),
              "sigma_f": np.multiply(DEVIATIONS, scale), "sigma_n": np.multiply(NOISE, scale)}

    def prior_of(logarithms: np.ndarray) -> FieldPrior:
        values = initial.having(**dict(zip(free, np.exp(logarithms).tolist())))
        return _with_mean(values, places, latent, [name for name in MEAN if name not in fixed])

    def cost(logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            value, slope = log_likelihood_and_slope(prior_of(logarithms), places, latent, free)
        except linalg.LinAlgError:
            return 1e12, np.zeros(len(free))
        # At the optimal mean the likelihood is stationary in it: no chain rule term.
        return -value, -slope * np.exp(logarithms)

    bounds = [tuple(np.log(within[name])) for name in free]
    begins = [[share * extent[0], share * extent[1], 1.2, 0.9 * scale, 0.4 * scale] for share in STARTS]
    if start is not None:
        begins.append([start.values[name] for name in SHAPE])
    best: tuple[float, FieldPrior, bool] | None = None
    for begin in begins if free else begins[:1]:
        x = np.array([np.clip(log(max(dict(zip(SHAPE, begin))[name], 1e-12)), *bound) for name, bound in zip(free, bounds)])
        result = optimize.minimize(cost, x, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 300}) if free else None
        prior = prior_of(x if result is None else np.clip(result.x, *np.transpose(bounds)))
        value = log_likelihood(prior, places, latent)
        if best is None or value > best[0]:
            best = value, prior, result is None or bool(result.success)
    assert best is not None
    return Fit(best[1], best[0], best[2])


def _covariance(prior: FieldPrior, places: np.ndarray) -> np.ndarray:
    covariance = prior.covariance(places, places)
    covariance[np.diag_indices_from(covariance)] += prior.sigma_n**2
    return covariance


def _changes(prior: FieldPrior, places: np.ndarray, names: Sequence[str]) -> list[np.ndarray]:
    """Computes derivatives of the covariance (n, n) by values of SHAPE."""
    power = 2.0 / prior.gamma
    # Logarithms of the scaled distances; for a distance of 0 any value, as its factor is 0.
    scaled = [np.abs(c[:, None] - c[None, :]) / alpha for c, alpha in zip(places.T, (prior.alpha_x, prior.alpha_y))]
    logs = [np.log(np.where(part > 0.0, part, 1.0)) for part in scaled]
    raised = [np.where(part > 0.0, np.exp(power * part_log), 0.0) for part, part_log in zip(scaled, logs)]
    kernel = prior.sigma_f**2 * np.exp(-raised[0] - raised[1])
    of = {"alpha_x": lambda: kernel * raised[0] * power / prior.alpha_x,
          "alpha_y": lambda: kernel * raised[1] * power / prior.alpha_y,
          "gamma": lambda: kernel * power / prior.gamma * sum(r * part_log for r, part_log in zip(raised, logs)),
          "sigma_f": lambda: kernel * (2.0 / prior.sigma_f),
          "sigma_n": lambda: 2.0 * prior.sigma_n * np.eye(len(places))}
    return [of[name]() for name in names]


def _with_mean(prior: FieldPrior, places: np.ndarray, latent: np.ndarray, names: Sequence[str]) -> FieldPrior:
    """Returns the prior with the values of `names` (of MEAN) optimal for the rest."""
    if not names:
        return prior
    factor = linalg.cholesky(_covariance(prior, places), lower=True)
    columns = {"a0": np.ones(len(places)), "a1": places[:, 0], "a2": places[:, 1]}
    rest = prior.having(**dict.fromkeys(names, 0.0))
    design = linalg.solve_triangular(factor, np.column_stack([columns[name] for name in names]), lower=True)
    target = linalg.solve_triangular(factor, latent - rest.mean(*places.T), lower=True)
    return prior.having(**dict(zip(names, np.linalg.lstsq(design, target, rcond=None)[0].tolist())))
