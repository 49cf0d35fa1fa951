"""Posterior of a field: mean, deviation and samples on a grid (paper 004, eqs 5-9), or at arbitrary points by a dense matrix.

Samples of the prior are exact, by circulant embedding (Dietrich & Newsam 1997; Wood & Chan 1994): the grid is extended to a torus of at
least twice its size, on which the covariance is diagonal in the Fourier basis. The kernel is a product, and so are the eigenvalues: two
short transforms give them all.

Samples of the posterior follow by Matheron's rule (Journel & Huijbregts 1978; Wilson et al. 2021, "Pathwise conditioning of Gaussian
processes"): a sample of the prior, corrected by its residuals at the observations. Between nodes the sample is extended exactly: its
conditional mean given all nodes plus a draw of the remaining variance. The covariances of nodes and observations are two thin matrices,
the conditional mean is a product of weights along both sides, and no matrix has the size of the grid squared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy import fft, linalg
from scipy.linalg.lapack import dpstrf

from lfdm_ros.errors import InputError
from lfdm_ros.ground.friction_field import FrictionField, FrictionLink
from lfdm_ros.ground.grid import Grid
from lfdm_ros.ground.prior import FieldPrior, Observations, factor

# Negative eigenvalues set to 0, relative to the largest: rounding. Beyond it the torus is too short, and extended up to MAX_TORUS times the
# side.
NEGATIVE, MAX_TORUS = 1e-9, 32.0
# Added to the diagonal, relative to the variance: observations without noise may coincide, nodes of a smooth field be nearly collinear.
JITTER, DENSE_JITTER = 1e-10, 1e-8


class Embedding:
    """Sampler of zero-mean fields with a prior's covariance at the nodes of a grid."""

    def __init__(self, prior: FieldPrior, grid: Grid):
        """Raises InputError: no torus within the limit is positive definite; the patches are far longer than the map."""
        self._shape = grid.shape
        self._roots = tuple(_roots(size, grid.spacing / alpha, prior.gamma, name)
                            for size, alpha, name in ((grid.ny, prior.alpha_y, "alpha_y"), (grid.nx, prior.alpha_x, "alpha_x")))
        self._scale = prior.sigma_f

    @property
    def torus(self) -> tuple[int, int]:
        """Nodes of the torus along y and x."""
        return len(self._roots[0]), len(self._roots[1])

    def pair(self, rng: np.random.Generator) -> np.ndarray:
        """Returns two independent fields (2, ny, nx): real and imaginary part of one transform."""
        rows, columns = self._roots
        ny, nx = self._shape
        noise = rng.standard_normal((len(rows), len(columns), 2)).view(complex)[..., 0]
        noise *= columns
        # Drops columns beyond the grid before the second transform.
        within = fft.fft(noise, axis=1, overwrite_x=True)[:, :nx] * (self._scale * rows)[:, None]
        field = fft.fft(within, axis=0, overwrite_x=True)[:ny]
        return np.stack([field.real, field.imag])

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws `count` independent fields (count, ny, nx)."""
        fields = np.empty((count, *self._shape))
        for k in range(0, count, 2):
            fields[k:k + 2] = self.pair(rng)[:count - k]
        return fields


@lru_cache(maxsize=64)
def _roots(size: int, spacing: float, gamma: float, name: str) -> np.ndarray:
    """Computes the square roots of the eigenvalues along one side, divided by its number of nodes; `spacing` in patch lengths."""
    length = fft.next_fast_len(2 * (size - 1))
    while length <= MAX_TORUS * size:
        steps = np.arange(length)
        values = fft.fft(factor(spacing * np.minimum(steps, length - steps), 1.0, gamma)).real
        if values.min() >= -NEGATIVE * values.max():
            roots = np.sqrt(np.maximum(values, 0.0) / length)
            roots.setflags(write=False)
            return roots
        length = fft.next_fast_len(int(1.5 * length))
    raise InputError(f"{name}: patches {1.0 / (spacing * (size - 1)):.3g} times as long as the map; give shorter ones, or a larger map")


class FieldPosterior:
    """Latent field on a grid, given a prior and observations."""

    def __init__(self, prior: FieldPrior, grid: Grid, observations: Observations | None = None):
        """Raises InputError: an observation is not on the grid, or patches are far longer than it."""
        data = Observations.none() if observations is None else observations
        beyond = grid.outside(*data.places.T)
        if beyond.any():
            x, y = data.places[int(np.argmax(beyond))]
            raise InputError(f"observations: number {int(np.argmax(beyond))} at ({x:g}, {y:g}) m is not on the map, which ends at x "
                             f"{grid.x:g} and {grid.xs[-1]:g}, y {grid.y:g} and {grid.ys[-1]:g} m; give a larger map, or leave it out")
        self.prior, self.grid, self.observations = prior, grid, data
        self._embedding = Embedding(prior, grid)
        self._mean = prior.mean(*np.meshgrid(grid.xs, grid.ys))
        self._by_row = prior.along_y(grid.ys[:, None] - data.places[:, 1])  # (ny, n)
        self._by_column = prior.along_x(grid.xs[:, None] - data.places[:, 0])  # (nx, n)
        self._root = root(prior, data)

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
        """Conditions zero-mean samples (count, ny, nx) of the prior on the observations, in place; the prior's mean is not added."""
        data, (by_row, by_column, remainder) = self.observations, self._continuation
        residuals = data.latent - self.prior.mean(*data.places.T) - data.noise * rng.standard_normal((len(fields), len(data)))
        residuals -= rng.standard_normal((len(fields), len(remainder))) @ remainder
        for field, residual in zip(fields, residuals):
            residual -= np.einsum("ni,ni->n", by_row @ field, by_column)
            field += self._spread(self._weigh(residual))

    @cached_property
    def _continuation(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Computes the conditional mean's weights (n, ny) and (n, nx) of the nodes for the observations, as a product, and the root (r, n)
        of the conditional covariance; r is 0 if all observations are at nodes.
        """
        prior, grid, (x, y) = self.prior, self.grid, self.observations.places.T
        by_row, by_column = (linalg.cho_solve((_root_of_side(size, grid.spacing / alpha, prior.gamma), True), along).T
                             for size, alpha, along in ((grid.ny, prior.alpha_y, self._by_row), (grid.nx, prior.alpha_x, self._by_column)))
        explained = (by_row @ self._by_row) * (by_column @ self._by_column)
        conditional = prior.along_x(x[:, None] - x) * prior.along_y(y[:, None] - y) - 0.5 * (explained + explained.T)
        factored, order, rank, _ = dpstrf(conditional, tol=JITTER, lower=1)
        remainder = np.zeros((rank, len(x)))
        remainder[:, order - 1] = prior.sigma_f * np.tril(factored)[:, :rank].T
        return by_row, by_column, remainder

    def _weigh(self, residuals: np.ndarray) -> np.ndarray:
        """Computes the weights of the observations from their residuals, both (n,) or (n, samples)."""
        return np.asarray(linalg.cho_solve((self._root, True), residuals)) if len(residuals) else residuals

    def _spread(self, weights: np.ndarray) -> np.ndarray:
        """Maps weights (n,) of the observations to the grid (ny, nx)."""
        return np.asarray((self._by_row * (self.prior.sigma_f**2 * weights)) @ self._by_column.T)


@lru_cache(maxsize=16)
def _root_of_side(size: int, spacing: float, gamma: float) -> np.ndarray:
    """Returns the lower Cholesky root of the kernel's factor along one side of a grid; `spacing` in patch lengths."""
    along = linalg.toeplitz(factor(spacing * np.arange(size), 1.0, gamma))
    along[np.diag_indices(size)] += JITTER
    return np.asarray(linalg.cholesky(along, lower=True, overwrite_a=True))


def root(prior: FieldPrior, observations: Observations) -> np.ndarray:
    """Returns the lower Cholesky root (n, n) of the observations' covariance (eq 7)."""
    covariance = prior.covariance(observations.places, observations.places)
    covariance[np.diag_indices_from(covariance)] += observations.noise**2 + JITTER * prior.sigma_f**2
    return np.asarray(linalg.cholesky(covariance, lower=True)) if len(observations) else covariance


class DensePosterior:
    """Latent field at points (n, 2) [m], given a prior and observations: `mean` (n,) and `covariance` (n, n); eqs 6-9 as printed.

    For some hundred points off a grid: its time grows with their cube, and for smooth fields the matrix is nearly singular.
    """

    def __init__(self, prior: FieldPrior, places: np.ndarray, observations: Observations | None = None):
        """Raises InputError as `FieldPosterior`, without the checks of the map."""
        data = Observations.none() if observations is None else observations
        self.mean, self.covariance = prior.mean(*places.T), prior.covariance(places, places)
        self._variance = prior.sigma_f**2
        if len(data):
            gain = linalg.solve_triangular(root(prior, data), prior.covariance(data.places, places), lower=True)
            residuals = linalg.solve_triangular(root(prior, data), data.latent - prior.mean(*data.places.T), lower=True)
            self.mean, self.covariance = self.mean + gain.T @ residuals, self.covariance - gain.T @ gain

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws `count` samples (count, n)."""
        lifted = self.covariance + DENSE_JITTER * self._variance * np.eye(len(self.mean))
        noise = rng.standard_normal((count, len(self.mean)))
        return np.asarray(self.mean + noise @ linalg.cholesky(lifted, lower=True).T)


@dataclass(frozen=True, eq=False)
class FrictionPosteriorMap:
    """Latent friction at the nodes of a grid: mean and standard deviation (ny, nx), and samples (D, ny, nx), D may be 0. Raises InputError:
    wrong shapes, values that are not finite, or a deviation below 0."""

    grid: Grid
    link: FrictionLink
    mean: np.ndarray
    sd: np.ndarray
    draws: np.ndarray

    def __post_init__(self) -> None:
        for name, values in (("mean", self.mean), ("sd", self.sd), ("draws", self.draws)):
            shape = (len(values), *self.grid.shape) if name == "draws" else self.grid.shape
            if values.shape != shape:
                raise InputError(f"known friction: {name} of shape {values.shape} for a grid of (ny, nx) = {self.grid.shape}")
            if not np.isfinite(values).all():
                raise InputError(f"known friction: {name} is not finite everywhere")
        if (self.sd < 0.0).any():
            raise InputError("known friction: a standard deviation is below 0")

    @classmethod
    def of(cls, posterior: FieldPosterior, link: FrictionLink, draws: int, seed: int = 1) -> FrictionPosteriorMap:
        """Makes the map of a posterior with `draws` samples; a fixed seed makes them vary with the posterior only."""
        drawn = posterior.draw(draws, np.random.default_rng(seed)) if draws else np.empty((0, *posterior.grid.shape))
        return cls(posterior.grid, link, posterior.mean(), posterior.sd(), drawn)

    @property
    def median(self) -> FrictionField:
        """Median of the friction: the link of the latent mean."""
        return FrictionField(self.grid, self.mean, self.link)

    @property
    def drawn(self) -> list[FrictionField]:
        """Samples as fields."""
        return [FrictionField(self.grid, one, self.link) for one in self.draws]
