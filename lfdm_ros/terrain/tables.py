"""A friction field where models find it: the ground `friction_field` of any chassis."""

from __future__ import annotations

import numpy as np

from lfdm_ros.compiler.tables import Table
from lfdm_ros.errors import InputError
from lfdm_ros.models.friction_field import DIVISOR, head
from lfdm_ros.terrain.field import FrictionField
from lfdm_ros.terrain.link import LARGEST


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
        """Args:
            tyre_friction: friction coefficient of the road that the tyre was measured on, over which wheels are given the field's; 1 for
                models with coefficients of their own, which are then to be 1 themselves.

        Raises:
            InputError: tyre_friction is out of range.
        """
        if not 0.0 < tyre_friction <= LARGEST:
            raise InputError(f"tyre_friction: {tyre_friction:g} is not in (0, {LARGEST:g}]")
        self.field = field
        grid, link = field.grid, field.link
        first = head(grid.x, grid.y, grid.spacing, (grid.nx, grid.ny), (link.ice / tyre_friction, link.dry / tyre_friction))
        self._table = Table(np.concatenate([first, field.coefficients.ravel() / DIVISOR]))
        self.number = float(self._table.number)
