"""A polynomial in place of the log likelihood, that says which proposals of a move are worth a simulation.

Delayed acceptance (Christen and Fox 2005, "Markov chain Monte Carlo using an approximation"): a proposal is first accepted or not by the
surrogate, and only where it is, the likelihood decides, by how much it differs from the surrogate:

    a_1 = min(1, pi'(y) q(y, x) / (pi'(x) q(x, y))),    a_2 = min(1, pi(y) pi'(x) / (pi(x) pi'(y))).

Both together keep pi, whatever the surrogate is like; a bad one only rejects more. It is fitted to what a population has simulated before,
in the coordinates of its own mean and covariance.
"""

from collections.abc import Sequence

import numpy as np

POINTS = 3  # simulated points for each coefficient, or none is fitted
GOOD = 1.3  # standard deviation of beta times its error, from which it rejects too much
FAR = 16.0  # how much less likely a point is than most that has no say in the fit
RIDGE = 1e-9


class Surrogate:
    """beta times the log likelihood near a population, up to a constant."""

    def __init__(self, mean: np.ndarray, root: np.ndarray, coefficients: np.ndarray, beta: float) -> None:
        self._mean, self._root, self._coefficients, self._beta = mean, root, coefficients, beta

    def __call__(self, particles: np.ndarray) -> np.ndarray:
        """Evaluates particles (N, D) -> (N,)."""
        values: np.ndarray = self._beta * (_features(particles, self._mean, self._root) @ self._coefficients)
        return values


def fitted(points: Sequence[np.ndarray], likelihoods: Sequence[np.ndarray], population: np.ndarray, likelihood: np.ndarray, beta: float,
           mean: np.ndarray, root: np.ndarray) -> Surrogate | None:
    """Fits the surrogate of a population (N, D) with its log likelihoods (N,), from them and from points simulated before; None where it
    would be a bad one, or too few points are there.

    Args:
        mean, root: of the population: the lower triangular root of its covariance.
    """
    own, first = np.unique(population, axis=0, return_index=True)
    x, y = np.concatenate([own, *points]), np.concatenate([likelihood[first], *likelihoods])
    usual = float(np.median(likelihood))
    weight = np.exp(0.25 * np.clip(beta * (y - usual), -2.0 * FAR, 0.0))
    near = np.isfinite(y) & (beta * (y - usual) > -FAR)
    d = x.shape[1]
    count = 1 + 3 * d + d * (d + 1) // 2
    if near.sum() < POINTS * count:
        return None
    features = _features(x[near], mean, root) * weight[near, None]
    products = features.T @ features
    products[np.diag_indices(count)] += RIDGE * np.trace(products) / count
    coefficients = np.linalg.solve(products, features.T @ ((y[near] - usual) * weight[near]))
    found = Surrogate(mean, root, coefficients, beta)
    error = beta * (likelihood[first] - usual) - found(own)
    # The population has been fitted too.
    return found if np.std(error) * np.sqrt(1.0 + count / near.sum()) < GOOD else None


def _features(particles: np.ndarray, mean: np.ndarray, root: np.ndarray) -> np.ndarray:
    z = np.linalg.solve(root, (particles - mean).T)
    rows, columns = np.triu_indices(len(z))
    return np.concatenate([np.ones((1, z.shape[1])), z, z[rows] * z[columns], z**3, z**4]).T
