"""Heights by place where models find them: the ground `height_map` of any chassis."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.compiler.tables import Table
from lfdm_ros.errors import InputError
from lfdm_ros.ground.grid import Grid
from lfdm_ros.ground.spline import coefficients, look_up
from lfdm_ros.models.grid_spline import DIVISOR, head
from lfdm_ros.models.ground import attitude


class HeightMap:
    """Heights [m] over the ground that the vehicle rests on, which kernels read as long as this object lives; a cubic spline between nodes.

    A vehicle is on it by its parameter: `Simulator(vehicle.replace(height_map=heights.number), "twenty_four_dof/height_map")`; in a batch
    it may differ by vehicle. Numbers mean something in this process only; that of a map that is gone reads as NaN, and the run diverges.
    At the edges the spline is level across them, and beyond them the height of the nearest point holds: let the map reach some cells
    farther than the way.

    Attributes:
        grid, heights: what was put there.
        number: value of `height_map`.
    """

    def __init__(self, grid: Grid, heights: ArrayLike):
        """Stores the heights.

        Args:
            heights: at the nodes, (ny, nx).

        Raises:
            InputError: heights of another shape, or one that is not finite.
        """
        values = np.array(heights, float)
        if values.shape != grid.shape:
            raise InputError(f"heights: values of shape {values.shape} for a grid of (ny, nx) = {grid.shape}")
        if not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0]
            raise InputError(f"heights: no finite number at row {row}, column {column}; fill holes before")
        values.setflags(write=False)
        self.grid, self.heights, self._coefficients = grid, values, coefficients(values)
        first = head(grid.x, grid.y, grid.spacing, (grid.nx, grid.ny))
        self._table = Table(np.concatenate([first, self._coefficients.ravel() / DIVISOR]))
        self.number = float(self._table.number)

    def at(self, x: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Computes the height [m] and its slopes along x and y at places of one shape [m]."""
        x, y = np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float))
        found = look_up(self._coefficients, self.grid, x.ravel(), y.ravel())
        height, slope_x, slope_y = (values.reshape(x.shape) for values in found)
        return height, slope_x, slope_y

    def attitude(self, x: float, y: float, yaw: float) -> tuple[float, float]:
        """Computes roll, + right side down, and pitch, + nose down, of what stands on the ground at a pose [m, rad]."""
        _, slope_x, slope_y = (float(value) for value in self.at(x, y))
        return attitude(slope_x, slope_y, yaw)

    def outside(self, x: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Finds the places [m] beyond the map."""
        return self.grid.outside(np.asarray(x, float), np.asarray(y, float))
