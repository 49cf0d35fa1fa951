"""Samples of a stationary field on a grid, exact, by circulant embedding (Dietrich & Newsam 1997; Wood & Chan 1994).

The grid is continued to a torus of at least twice its size, on which the covariance is diagonal in Fourier's basis. The kernel being a
product, so are the eigenvalues: two short transforms give them all.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import fft

from lfdm_ros.errors import InputError
from lfdm_ros.ground.grid import Grid
from lfdm_ros.ground.prior import FieldPrior, factor

# Negative eigenvalues that are set to 0, as a share of the largest: rounding, or a torus that is too short. A longer one is tried until it
# is LONGEST times the side.
NEGATIVE, LONGEST = 1e-9, 32.0


class Embedding:
    """Draws fields of zero mean with a prior's covariance at the nodes of a grid."""

    def __init__(self, prior: FieldPrior, grid: Grid):
        """Raises InputError: no torus that fits into memory has a covariance; the patches are far longer than the map."""
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
        # What lies beyond the grid is dropped before the second transform.
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
    """Computes the square roots of the eigenvalues along one side, over its number of nodes; `spacing` in lengths of a patch."""
    length = fft.next_fast_len(2 * (size - 1))
    while length <= LONGEST * size:
        steps = np.arange(length)
        values = fft.fft(factor(spacing * np.minimum(steps, length - steps), 1.0, gamma)).real
        if values.min() >= -NEGATIVE * values.max():
            roots = np.sqrt(np.maximum(values, 0.0) / length)
            roots.setflags(write=False)
            return roots
        length = fft.next_fast_len(int(1.5 * length))
    raise InputError(f"{name}: patches {1.0 / (spacing * (size - 1)):.3g} times as long as the map; give shorter ones, or a larger map")
