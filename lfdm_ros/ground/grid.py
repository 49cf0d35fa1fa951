"""The nodes of a map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lfdm_ros.errors import InputError
from lfdm_ros.ground.link import require_number

MIN_NODES, MAX_NODES = 4, 8192  # nodes of a side: those of one cell of a cubic spline, and of a map that fits into a message


@dataclass(frozen=True)
class Grid:
    """nx by ny nodes; node (j, i), row j along y, column i along x, is at (x + i spacing, y + j spacing) [m].

    Raises:
        InputError: the spacing is not above 0, or a side has fewer than 4 or more than 8192 nodes.
    """

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
        """Returns the smallest grid that begins at `lower` and reaches `upper` [m].

        Raises:
            InputError: as the grid itself.
        """
        require_number("spacing", spacing)
        if spacing <= 0.0:
            raise InputError(f"spacing: {spacing:g} m is not above 0")
        nx, ny = (max(int(np.ceil((b - a) / spacing - 1e-9)) + 1, MIN_NODES) for a, b in zip(lower, upper))
        return cls(float(lower[0]), float(lower[1]), float(spacing), nx, ny)

    @property
    def shape(self) -> tuple[int, int]:
        """(ny, nx), of an array of values at the nodes."""
        return self.ny, self.nx

    @property
    def xs(self) -> np.ndarray:
        """(nx,) [m]."""
        return self.x + self.spacing * np.arange(self.nx)

    @property
    def ys(self) -> np.ndarray:
        """(ny,) [m]."""
        return self.y + self.spacing * np.arange(self.ny)

    @property
    def places(self) -> np.ndarray:
        """(ny nx, 2) [m], row by row."""
        return np.stack([part.ravel() for part in np.meshgrid(self.xs, self.ys)], axis=-1)

    def outside(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Finds the places, of any shape, that are not on the map; NaN is not."""
        inside = (x >= self.x) & (x <= self.xs[-1]) & (y >= self.y) & (y <= self.ys[-1])
        return np.asarray(~inside)
