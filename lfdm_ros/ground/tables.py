"""A friction field where models find it: the grounds `friction_field` and `friction_map` of any chassis."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from lfdm_ros.compiler.tables import Table
from lfdm_ros.errors import InputError
from lfdm_ros.ground.field import FrictionField
from lfdm_ros.ground.link import LARGEST
from lfdm_ros.ground.spline import refined
from lfdm_ros.models import friction_map
from lfdm_ros.models.friction_field import DIVISOR, head

MAX_CELLS = (1 << 22) - 2  # of a map: the number of a place is a float32, too


class FieldTable:
    """A field that kernels read as they step, for as long as this object lives.

    A vehicle is on it by its parameter `friction_field`, with a model whose ground is of that name:
    `Simulator(vehicle.replace(friction_field=table.number), "eight_dof/friction_field")`; in a batch the parameter may differ by vehicle.
    Numbers mean something in this process only. The number of a field that is gone reads as NaN, and the run diverges.

    Attributes:
        field: what was put there.
        number: value of `friction_field`.
    """

    def __init__(self, field: FrictionField, tyre_friction: float = 1.0):
        """Tabulates the field.

        Args:
            tyre_friction: friction coefficient of the road that the tyre was measured on, over which wheels are given the field's; 1 for
                models with coefficients of their own, which are then to be 1 themselves.

        Raises:
            InputError: tyre_friction is out of range.
        """
        _check(tyre_friction)
        self.field = field
        grid, link = field.grid, field.link
        first = head(grid.x, grid.y, grid.spacing, (grid.nx, grid.ny), (link.ice / tyre_friction, link.dry / tyre_friction))
        self._table = Table(np.concatenate([first, field.coefficients.ravel() / DIVISOR]))
        self.number = float(self._table.number)


class FrictionMap:
    """A field looked up beforehand in cells as fine as asked, bilinear in each: for many rollouts, where a look-up takes a quarter of that
    of a `FieldTable`. Vehicles are on it by the parameter `friction_map`, with a model whose ground is of that name; the rest is as there.

    Attributes:
        field: what was put there.
        number: value of `friction_map`.
        spacing: of a cell [m].
    """

    def __init__(self, field: FrictionField, tyre_friction: float = 1.0, finer: int = 2):
        """Tabulates the field.

        Args:
            tyre_friction: as of `FieldTable`.
            finer: cells between two nodes of the field, along x and along y; twice as many leave a quarter of the error, and take four
                times the memory, 48 bytes a cell.

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
        self._table = Table(np.concatenate([friction_map.head(grid.x, grid.y, self.spacing, cells), values.ravel()]))
        self.number = float(self._table.number)

    @cached_property
    def error(self) -> float:
        """The largest difference of the friction from that of the field in the middle of a cell, where it is about largest."""
        near = self.field.link.friction(refined(self.field.coefficients, 2 * self._finer))
        corners = near[::2, ::2]
        middles = 0.25 * (corners[:-1, :-1] + corners[1:, :-1] + corners[:-1, 1:] + corners[1:, 1:])
        return float(np.abs(near[1::2, 1::2] - middles).max())


def _check(tyre_friction: float) -> None:
    if not 0.0 < tyre_friction <= LARGEST:
        raise InputError(f"tyre_friction: {tyre_friction:g} is not in (0, {LARGEST:g}]")
