"""Nodes of a map, and the cubic B-spline between them (16 coefficients per point), with zero slope across the map's edges.

Beyond an edge the value is that of the nearest point, so the field is continuously differentiable there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import ndimage

from lfdm_ros.errors import InputError, quote

MIN_NODES, MAX_NODES = 4, 8192  # nodes of a side: one cell of a cubic spline; a map that fits into a message


@dataclass(frozen=True)
class Grid:
    """Grid of nx by ny nodes; node (j, i), row j along y, column i along x, is at (x + i spacing, y + j spacing) [m]. Raises InputError:
    the spacing is not above 0, or a side has fewer than 4 or more than 8192 nodes."""

    x: float
    y: float
    spacing: float
    nx: int
    ny: int

    def __post_init__(self) -> None:
        for name in ("x", "y", "spacing"):
            require_number(name, getattr(self, name))
        if self.spacing <= 0.0:
            raise InputError(f"spacing: {self.spacing:g} m is not above 0")
        for name in ("nx", "ny"):
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or not MIN_NODES <= count <= MAX_NODES:
                raise InputError(f"{name}: {count!r} nodes; give a whole number from {MIN_NODES} to {MAX_NODES}")

    @classmethod
    def covering(cls, lower: tuple[float, float], upper: tuple[float, float], spacing: float) -> Grid:
        """Returns the smallest grid that begins at `lower` and reaches `upper` [m]. Raises InputError: as `Grid`."""
        require_number("spacing", spacing)
        if spacing <= 0.0:
            raise InputError(f"spacing: {spacing:g} m is not above 0")
        nx, ny = (max(int(np.ceil((b - a) / spacing - 1e-9)) + 1, MIN_NODES) for a, b in zip(lower, upper))
        return cls(float(lower[0]), float(lower[1]), float(spacing), nx, ny)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (ny, nx) of an array of values at the nodes."""
        return self.ny, self.nx

    @property
    def xs(self) -> np.ndarray:
        """Coordinates of the columns (nx,) [m]."""
        return self.x + self.spacing * np.arange(self.nx)

    @property
    def ys(self) -> np.ndarray:
        """Coordinates of the rows (ny,) [m]."""
        return self.y + self.spacing * np.arange(self.ny)

    @property
    def places(self) -> np.ndarray:
        """Coordinates of the nodes (ny nx, 2) [m], row by row."""
        return np.stack([part.ravel() for part in np.meshgrid(self.xs, self.ys)], axis=-1)

    def values(self, name: str, source: ArrayLike) -> np.ndarray:
        """Returns a read-only copy of values at the nodes (ny, nx). Raises InputError: another shape, or a value that is not finite."""
        values = np.array(source, float)
        if values.shape != self.shape:
            raise InputError(f"{name}: values of shape {values.shape} for a grid of (ny, nx) = {self.shape}")
        if not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0]
            raise InputError(f"{name}: no finite number at row {row}, column {column}; fill holes before")
        values.setflags(write=False)
        return values

    def outside(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Finds the points, of any shape, that are not on the map; NaN is outside."""
        inside = (x >= self.x) & (x <= self.xs[-1]) & (y >= self.y) & (y <= self.ys[-1])
        return np.asarray(~inside)


def coefficients(latent: np.ndarray) -> np.ndarray:
    """Computes the coefficients (..., ny + 2, nx + 2) of the spline through values (..., ny, nx): those of the nodes, and one more per
    side."""
    values = np.asarray(latent, float)
    for axis in (-2, -1):
        values = ndimage.spline_filter1d(values, 3, axis, mode="mirror")
    edges = [(0, 0)] * (values.ndim - 2) + [(1, 1), (1, 1)]
    return np.pad(values, edges, mode="reflect")


def refined(coefficients: np.ndarray, finer: int) -> np.ndarray:
    """Computes values of the spline at the nodes and at finer - 1 points between two: ((ny - 1) finer + 1, (nx - 1) finer + 1)."""
    values = coefficients
    for _ in range(2):  # along x, then along y
        cells = values.shape[1] - 3
        fine = np.empty((len(values), cells * finer + 1))
        for k in range(finer + 1):
            _, (first, second, third, last), _ = weights(np.array([k / finer]), 2)
            along = first * values[:, :-3] + second * values[:, 1:-2] + third * values[:, 2:-1] + last * values[:, 3:]
            fine[:, k::finer] = along if k else np.column_stack([along, along[:, -1]])
        values = fine.T
    return values


def weights(place: np.ndarray, nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Computes, for coordinates (n,) in spacings from the first node, the index (n,) of the first of four coefficients, their weights
    (4, n), and the slopes of the weights."""
    inside = np.fmin(np.fmax(place, 0.0), nodes - 1.0)  # NaN becomes the first node
    first = np.minimum(np.floor(inside), nodes - 2.0)
    t = inside - first
    s = 1.0 - t
    within = np.where((place > 0.0) & (place < nodes - 1.0), 1.0, 0.0)
    values = np.stack([s * s * s, 4.0 - 3.0 * t * t * (1.0 + s), 4.0 - 3.0 * s * s * (1.0 + t), t * t * t]) / 6.0
    slopes = np.stack([-s * s, t * (3.0 * t - 4.0), s * (4.0 - 3.0 * s), t * t]) * 0.5 * within
    return first.astype(np.int64), values, slopes


def look_up(coefficients: np.ndarray, grid: Grid, x: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Computes the spline and its slopes along x and y [1/m] at points x, y [m] of equal shape: three arrays of that shape."""
    x, y = np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float))
    column, across, across_slope = weights((x.ravel() - grid.x) / grid.spacing, grid.nx)
    row, along, along_slope = weights((y.ravel() - grid.y) / grid.spacing, grid.ny)
    steps = np.arange(4)
    near = coefficients[row + steps[:, None, None], column + steps[None, :, None]]  # (4, 4, n)
    lines = np.einsum("jin,in->jn", near, across)
    value = np.einsum("jn,jn->n", lines, along)
    slope_x = np.einsum("jin,in,jn->n", near, across_slope, along) / grid.spacing
    slope_y = np.einsum("jn,jn->n", lines, along_slope) / grid.spacing
    return value.reshape(x.shape), slope_x.reshape(x.shape), slope_y.reshape(x.shape)


def require_number(name: str, value: Any) -> None:
    """Raises InputError, which names the key, unless the value is a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)) or not np.isfinite(value):
        raise InputError(f"{name}: {quote(value)} is no finite number")
