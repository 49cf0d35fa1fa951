"""Posterior of a field: mean, deviation and samples on a grid (paper 004, eqs 5-9).

Samples by Matheron's rule (Journel & Huijbregts 1978; Wilson et al. 2021, "Pathwise conditioning of Gaussian processes"): a sample of the
prior, moved by what it misses of the observations. Between nodes the sample is continued exactly: by its conditional mean given all nodes
plus a draw of what the nodes leave open. The kernel being a product, the covariances of all nodes with the observations are
kept as two thin matrices, the conditional mean is a product of weights along both sides, and nothing of the size of the grid squared is
ever made.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
from scipy import linalg
from scipy.linalg.lapack import dpstrf

from lfdm_ros.errors import InputError
from lfdm_ros.ground.embedding import Embedding
from lfdm_ros.ground.grid import Grid
from lfdm_ros.ground.observations import Observations
from lfdm_ros.ground.prior import FieldPrior, factor

JITTER = 1e-10  # of the variance: observations without noise may lie on each other, nodes of a smooth field nearly decide each other


class FieldPosterior:
    """The latent field on a grid, given a prior and observations."""

    def __init__(self, prior: FieldPrior, grid: Grid, observations: Observations | None = None):
        """Raises InputError: an observation is not on the grid, or patches are far longer than it."""
        seen = Observations.none() if observations is None else observations
        beyond = grid.outside(*seen.places.T)
        if beyond.any():
            x, y = seen.places[int(np.argmax(beyond))]
            raise InputError(f"observations: number {int(np.argmax(beyond))} at ({x:g}, {y:g}) m is not on the map, which ends at x "
                             f"{grid.x:g} and {grid.xs[-1]:g}, y {grid.y:g} and {grid.ys[-1]:g} m; give a larger map, or leave it out")
        self.prior, self.grid, self.observations = prior, grid, seen
        self._embedding = Embedding(prior, grid)
        self._mean = prior.mean(*np.meshgrid(grid.xs, grid.ys))
        self._by_row = prior.along_y(grid.ys[:, None] - seen.places[:, 1])  # (ny, n)
        self._by_column = prior.along_x(grid.xs[:, None] - seen.places[:, 0])  # (nx, n)
        self._root = root(prior, seen)

    def mean(self) -> np.ndarray:
        """Returns the mean (ny, nx) of the latent field (eq 6)."""
        return self._mean + self._spread(self._weigh(self.observations.latent - self.prior.mean(*self.observations.places.T)))

    def sd(self) -> np.ndarray:
        """Returns the standard deviation (ny, nx) of the latent field, without an observation's noise (the diagonal of eq 8)."""
        variance = np.full(self.grid.shape, self.prior.sigma_f**2)
        if len(self.observations):
            inverse = self.prior.sigma_f**2 * linalg.solve_triangular(self._root, np.eye(len(self._root)), lower=True)
            for row, factors in zip(variance, self._by_row):
                explained = (self._by_column * factors) @ inverse.T
                row -= np.einsum("in,in->i", explained, explained)
        return np.sqrt(np.maximum(variance, 0.0))

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws `count` independent samples (count, ny, nx) of the latent field (eq 9); the same generator gives the same ones."""
        fields = self._embedding.draw(count, rng)
        if len(self.observations):
            self.condition(fields, rng)
        fields += self._mean
        return fields

    def condition(self, fields: np.ndarray, rng: np.random.Generator) -> None:
        """Moves samples (count, ny, nx) of the prior without its mean, in place, to samples given the observations, without the mean."""
        seen, (by_row, by_column, remainder) = self.observations, self._continuation
        missing = seen.latent - self.prior.mean(*seen.places.T) - seen.noise * rng.standard_normal((len(fields), len(seen)))
        missing -= rng.standard_normal((len(fields), len(remainder))) @ remainder
        for field, missed in zip(fields, missing):
            missed -= np.einsum("ni,ni->n", by_row @ field, by_column)
            field += self._spread(self._weigh(missed))

    @cached_property
    def _continuation(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Computes from the nodes to the observations' places the weights (n, ny) and (n, nx) of the conditional mean, whose product weighs
        a node, and the root (r, n) of the covariance of what the nodes leave open there; r is 0 where all observations are at nodes.
        """
        prior, grid, (x, y) = self.prior, self.grid, self.observations.places.T
        by_row, by_column = (linalg.cho_solve((_root_of_side(size, grid.spacing / alpha, prior.gamma), True), along).T
                             for size, alpha, along in ((grid.ny, prior.alpha_y, self._by_row), (grid.nx, prior.alpha_x, self._by_column)))
        explained = (by_row @ self._by_row) * (by_column @ self._by_column)
        open_ = prior.along_x(x[:, None] - x) * prior.along_y(y[:, None] - y) - 0.5 * (explained + explained.T)
        factored, order, rank, _ = dpstrf(open_, tol=JITTER, lower=1)
        remainder = np.zeros((rank, len(x)))
        remainder[:, order - 1] = prior.sigma_f * np.tril(factored)[:, :rank].T
        return by_row, by_column, remainder

    def _weigh(self, missing: np.ndarray) -> np.ndarray:
        """Weights of the observations for what is missing at them, both (n,) or (n, samples)."""
        return np.asarray(linalg.cho_solve((self._root, True), missing)) if len(missing) else missing

    def _spread(self, weights: np.ndarray) -> np.ndarray:
        """Maps weights (n,) of the observations to the grid (ny, nx)."""
        return np.asarray((self._by_row * (self.prior.sigma_f**2 * weights)) @ self._by_column.T)


@lru_cache(maxsize=16)
def _root_of_side(size: int, spacing: float, gamma: float) -> np.ndarray:
    """Returns the lower Cholesky root of the kernel's factor along one side of a grid; `spacing` in lengths of a patch."""
    along = linalg.toeplitz(factor(spacing * np.arange(size), 1.0, gamma))
    along[np.diag_indices(size)] += JITTER
    return np.asarray(linalg.cholesky(along, lower=True, overwrite_a=True))


def root(prior: FieldPrior, seen: Observations) -> np.ndarray:
    """Returns the lower Cholesky root (n, n) of the observations' covariance (eq 7)."""
    covariance = prior.covariance(seen.places, seen.places)
    covariance[np.diag_indices_from(covariance)] += seen.noise**2 + JITTER * prior.sigma_f**2
    return np.asarray(linalg.cholesky(covariance, lower=True)) if len(seen) else covariance
