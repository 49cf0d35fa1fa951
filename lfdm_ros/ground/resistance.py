"""Resistance by place where models find it: the ground `resistance_map` of any chassis."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.compiler.tables import Table
from lfdm_ros.errors import InputError
from lfdm_ros.ground.grid import Grid
from lfdm_ros.ground.spline import coefficients
from lfdm_ros.models.grid_spline import DIVISOR, head


class ResistanceMap:
    """Resistance to travel over the load [1], which kernels read as long as this object lives; a cubic spline between nodes.

    A vehicle is on it by its parameter `resistance_map`; numbers mean something in this process only, as those of `HeightMap`.

    Attributes:
        grid, resistance: what was put there.
        number: value of `resistance_map`.
    """

    def __init__(self, grid: Grid, resistance: ArrayLike):
        """Stores the resistance.

        Args:
            resistance: at the nodes, (ny, nx).

        Raises:
            InputError: values of another shape, or one that is below 0 or not finite.
        """
        values = np.array(resistance, float)
        if values.shape != grid.shape:
            raise InputError(f"resistance: values of shape {values.shape} for a grid of (ny, nx) = {grid.shape}")
        bad = ~(np.isfinite(values) & (values >= 0.0))
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise InputError(f"resistance: {values[row, column]:g} at row {row}, column {column} is no number from 0 on")
        values.setflags(write=False)
        self.grid, self.resistance = grid, values
        first = head(grid.x, grid.y, grid.spacing, (grid.nx, grid.ny))
        self._table = Table(np.concatenate([first, coefficients(values).ravel() / DIVISOR]))
        self.number = float(self._table.number)
