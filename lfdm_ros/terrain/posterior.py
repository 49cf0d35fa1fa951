"""What observations say of a field: mean, deviation and samples on a grid (paper 004, eqs 5-9).

Samples by Matheron's rule (Journel & Huijbregts 1978; Wilson et al. 2021, "Pathwise conditioning of Gaussian processes"): a sample of the
prior, moved by what it misses of the observations. The kernel being a product, the covariances of all nodes with the observations are
kept as two thin matrices, and nothing of the size of the grid squared is ever made.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from lfdm_ros.errors import InputError
from lfdm_ros.terrain.embedding import Embedding
from lfdm_ros.terrain.grid import Grid
from lfdm_ros.terrain.observations import Observations
from lfdm_ros.terrain.prior import FieldPrior
from lfdm_ros.terrain.spline import coefficients, look_up

JITTER = 1e-10  # of the variance, where observations without noise lie on each other
RIM = 8  # nodes around the map in samples of the prior: there the spline's condition at the edges is forgotten


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
        self._wide = Grid(grid.x - RIM * grid.spacing, grid.y - RIM * grid.spacing, grid.spacing, grid.nx + 2 * RIM, grid.ny + 2 * RIM)
        self._embedding = Embedding(prior, self._wide if len(seen) else grid)
        self._mean = prior.mean(*np.meshgrid(grid.xs, grid.ys))
        self._by_row = prior.along_y(grid.ys[:, None] - seen.places[:, 1])  # (ny, n)
        self._by_column = prior.along_x(grid.xs[:, None] - seen.places[:, 0])  # (nx, n)
        self._root = root(prior, seen)

    def mean(self) -> np.ndarray:
        """The mean (ny, nx) of the latent field (eq 6)."""
        return self._mean + self._spread(self._weigh(self.observations.latent - self.prior.mean(*self.observations.places.T)))

    def sd(self) -> np.ndarray:
        """The standard deviation (ny, nx) of the latent field, without an observation's noise (the diagonal of eq 8)."""
        variance = np.full(self.grid.shape, self.prior.sigma_f**2)
        if len(self.observations):
            inverse = self.prior.sigma_f**2 * linalg.solve_triangular(self._root, np.eye(len(self._root)), lower=True)
            for row, factors in zip(variance, self._by_row):
                explained = (self._by_column * factors) @ inverse.T
                row -= np.einsum("in,in->i", explained, explained)
        return np.sqrt(np.maximum(variance, 0.0))

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """`count` independent samples (count, ny, nx) of the latent field (eq 9); the same generator gives the same ones.

        Between nodes an observation is compared with the spline there, which is exact as far as a spline through the nodes is: where the
        spacing is well below the patches' length and gamma is 1, or at nodes.
        """
        fields = self.condition(self._embedding.draw(count, rng), rng) if len(self.observations) else self._embedding.draw(count, rng)
        fields += self._mean
        return fields

    def condition(self, fields: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Samples (count, ny, nx) without the mean, made of samples of the prior (count, ny + 2 RIM, nx + 2 RIM) around the map."""
        seen = self.observations
        missing = seen.latent - self.prior.mean(*seen.places.T) - seen.noise * rng.standard_normal((len(fields), len(seen)))
        there = [look_up(coefficients(field), self._wide, *seen.places.T)[0] for field in fields]
        inside = np.ascontiguousarray(fields[:, RIM:-RIM, RIM:-RIM])
        for field, weights in zip(inside, self._weigh((missing - np.array(there)).T).T):
            field += self._spread(weights)
        return inside

    def _weigh(self, missing: np.ndarray) -> np.ndarray:
        """Weights of the observations for what is missing at them, both (n,) or (n, samples)."""
        return np.asarray(linalg.cho_solve((self._root, True), missing)) if len(missing) else missing

    def _spread(self, weights: np.ndarray) -> np.ndarray:
        """What weights (n,) of the observations are on the grid (ny, nx)."""
        return np.asarray((self._by_row * (self.prior.sigma_f**2 * weights)) @ self._by_column.T)


def root(prior: FieldPrior, seen: Observations) -> np.ndarray:
    """The lower Cholesky root (n, n) of the observations' covariance (eq 7)."""
    covariance = prior.covariance(seen.places, seen.places)
    covariance[np.diag_indices_from(covariance)] += seen.noise**2 + JITTER * prior.sigma_f**2
    return np.asarray(linalg.cholesky(covariance, lower=True)) if len(seen) else covariance
