"""Maps of friction, heights and resistance as tables that kernels read, for the grounds of any chassis."""

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.compiler.tables import LookupTable
from lfdm_ros.errors import InputError
from lfdm_ros.ground.friction_field import MAX_FRICTION, FrictionField
from lfdm_ros.ground.grid import Grid, coefficients, look_up, refined
from lfdm_ros.models import ground_maps
from lfdm_ros.models.ground import attitude

MAX_CELLS = (1 << 22) - 2  # of a map: indices are exact in float32


class FieldTable:
    """A friction field that kernels read during the lifetime of this object.

    The parameter `friction_field` of a vehicle selects it, with a model of that ground:
    `Simulator(vehicle.replace(friction_field=table.number), "eight_dof/friction_field")`; in a batch the parameter may differ by vehicle.
    Numbers are valid in this process only; that of a deleted field reads as NaN, and the run diverges.

    Attributes:
        field: the tabulated field.
        number: value of `friction_field`.
    """

    def __init__(self, field: FrictionField, tyre_friction: float = 1.0):
        """Tabulates the field.

        Args:
            tyre_friction: friction coefficient of the road on which the tyre was measured, divisor of the field's; 1 for models with
                friction coefficients among their parameters, which must then be 1.

        Raises:
            InputError: tyre_friction is out of range.
        """
        _check(tyre_friction)
        self.field = field
        grid, link = field.grid, field.link
        first = ground_maps.field_head(grid.x, grid.y, grid.spacing, (grid.nx, grid.ny),
                                       (link.ice / tyre_friction, link.dry / tyre_friction))
        self._table = LookupTable(np.concatenate([first, field.coefficients.ravel() / ground_maps.FIELD_DIVISOR]))
        self.number = float(self._table.number)


class FrictionMap:
    """A friction field precomputed in cells, bilinear in each: for many rollouts, at a quarter of the look-up time of a `FieldTable`. The
    parameter `friction_map` of a vehicle selects it, with a model of that ground; otherwise as `FieldTable`.

    Attributes:
        field: the tabulated field.
        number: value of `friction_map`.
        spacing: of a cell [m].
    """

    def __init__(self, field: FrictionField, tyre_friction: float = 1.0, finer: int = 2):
        """Tabulates the field.

        Args:
            tyre_friction: as of `FieldTable`.
            finer: cells between two nodes of the field, along x and along y; doubling quarters the error and takes four times the memory,
                48 bytes a cell.

        Raises:
            InputError: tyre_friction or finer is out of range, or the map would have more than four million cells.
        """
        _check(tyre_friction)
        if isinstance(finer, bool) or not isinstance(finer, int) or finer < 1:
            raise InputError(f"finer: {finer!r}; give a whole number from 1 on")
        grid = field.grid
        cells = (grid.nx - 1) * finer, (grid.ny - 1) * finer
        if cells[0] * cells[1] > MAX_CELLS:
            raise InputError(f"finer: {finer} makes a map of {cells[0]} x {cells[1]} cells, more than {MAX_CELLS}; give less, or a "
                             "smaller field")
        self.field, self.spacing, self._finer = field, grid.spacing / finer, finer
        corners = field.link.friction(refined(field.coefficients, finer)) / tyre_friction
        low, right, up = corners[:-1, :-1], np.diff(corners[:-1], axis=1), np.diff(corners[:, :-1], axis=0)
        values = np.stack([low, right, up, np.diff(np.diff(corners, axis=0), axis=1)], axis=-1)
        self._table = LookupTable(np.concatenate([ground_maps.cells_head(grid.x, grid.y, self.spacing, cells), values.ravel()]))
        self.number = float(self._table.number)

    @cached_property
    def error(self) -> float:
        """Largest difference of the friction from that of the field at the centres of the cells, where it is about largest."""
        near = self.field.link.friction(refined(self.field.coefficients, 2 * self._finer))
        corners = near[::2, ::2]
        centres = 0.25 * (corners[:-1, :-1] + corners[1:, :-1] + corners[:-1, 1:] + corners[1:, 1:])
        return float(np.abs(near[1::2, 1::2] - centres).max())


def _check(tyre_friction: float) -> None:
    if not 0.0 < tyre_friction <= MAX_FRICTION:
        raise InputError(f"tyre_friction: {tyre_friction:g} is not in (0, {MAX_FRICTION:g}]")


def _spline_table(grid: Grid, coefficients: np.ndarray) -> LookupTable:
    first = ground_maps.head(grid.x, grid.y, grid.spacing, (grid.nx, grid.ny))
    return LookupTable(np.concatenate([first, coefficients.ravel() / ground_maps.DIVISOR]))


class HeightMap:
    """Map of heights [m] over z = 0, a cubic spline between nodes, read by kernels during its lifetime.

    A vehicle's parameter selects it: `Simulator(vehicle.replace(height_map=heights.number), "twenty_four_dof/height_map")`; in a batch it
    may differ by vehicle. Numbers are valid in this process only; that of a deleted map reads as NaN, and the run diverges. The slope
    across an edge is 0, and beyond it the height is that of the nearest point: extend the map some cells beyond the path.

    Attributes:
        grid, heights: values at the nodes.
        number: value of `height_map`.
    """

    def __init__(self, grid: Grid, heights: ArrayLike):
        """Stores the heights. heights: at the nodes, (ny, nx). Raises InputError: heights of another shape, or one that is not finite."""
        self.grid, self.heights = grid, grid.values("heights", heights)
        self._coefficients = coefficients(self.heights)
        self._table = _spline_table(grid, self._coefficients)
        self.number = float(self._table.number)

    def at(self, x: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Computes the height [m] and its slopes along x and y at points [m] of equal shape."""
        return look_up(self._coefficients, self.grid, x, y)

    def attitude(self, x: float, y: float, yaw: float) -> tuple[float, float]:
        """Computes roll, + right side down, and pitch, + nose down, of the ground at a pose [m, rad]."""
        _, slope_x, slope_y = (float(value) for value in self.at(x, y))
        return attitude(slope_x, slope_y, yaw)

    def outside(self, x: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Finds the points [m] beyond the map."""
        return self.grid.outside(np.asarray(x, float), np.asarray(y, float))


class ResistanceMap:
    """Map of the resistance to travel over the load [1], a cubic spline between nodes, read by kernels during its lifetime.

    The parameter `resistance_map` of a vehicle selects it; its numbers are valid in this process only, as those of `HeightMap`.

    Attributes:
        grid, resistance: values at the nodes.
        number: value of `resistance_map`.
    """

    def __init__(self, grid: Grid, resistance: ArrayLike):
        """Stores the resistance. resistance: at the nodes, (ny, nx). Raises InputError: values of another shape, or one below 0 or not
        finite."""
        self.grid, self.resistance = grid, grid.values("resistance", resistance)
        if (self.resistance < 0.0).any():
            row, column = np.argwhere(self.resistance < 0.0)[0]
            raise InputError(f"resistance: {self.resistance[row, column]:g} at row {row}, column {column} is no number from 0 on")
        self._table = _spline_table(grid, coefficients(self.resistance))
        self.number = float(self._table.number)
