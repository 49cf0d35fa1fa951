"""Level ground whose friction stands in fine cells, bilinear in each: one row of four numbers a place, and no link to compute.

It is a `friction_field` that was looked up beforehand (`lfdm_ros.ground.FrictionMap`), for many rollouts: a quarter of the time, and as
near to the field as its cells are small. Friction is continuous and its derivatives are exact, but they jump from cell to cell: a
controller, which needs smooth ones, takes the field. Beyond the edges the nearest point of the map holds.
"""

from __future__ import annotations

from typing import Any

from lfdm_ros.models.declaration import Field
from lfdm_ros.models.equations import Patch, Record, Scalar
from lfdm_ros.models.ground import GroundByPlace, parts_by_place

FRICTION_MAP = Field("friction_map", "1", "number of the friction map that the vehicle is on, a `lfdm_ros.ground.FrictionMap`", "", 0.0,
                     1 << 20)
# Two rows before the cells: the first corner, cells of a unit of length, a number; cells along x and y, two numbers. A cell is its
# friction at the lower left, what is more at the lower right, what is more at the upper left, and what both have not said of the last.
_ORIGIN, _SIZE, FIRST, WIDTH = 0.0, 4.0, 8, 4


def head(x: float, y: float, spacing: float, cells: tuple[int, int]) -> tuple[float, ...]:
    """Returns the numbers before the cells: x, y and spacing [m], cells along x and y."""
    return x, y, 1.0 / spacing, 0.0, float(cells[0]), float(cells[1]), 0.0, 0.0


class FrictionMapGround(GroundByPlace):
    """See the top of the file."""

    def prepare(self, p: Any) -> Any:
        x, y, per_length, _ = self._m.row(p.friction_map, _ORIGIN)
        nx, ny, *_ = self._m.row(p.friction_map, _SIZE)
        return Record(number=p.friction_map, x=x, y=y, per_length=per_length, nx=nx, ny=ny, scale=self.scale(p))

    def under(self, wheel: int, x: Scalar, y: Scalar, u: Record, q: Any) -> Patch:
        column, s = self._cell((x - q.x) * q.per_length, q.nx)
        line, t = self._cell((y - q.y) * q.per_length, q.ny)
        here, along_x, along_y, both = self._m.row(q.number, FIRST + WIDTH * (line * q.nx + column))
        return Patch(friction=q.scale * (here + s * along_x + t * (along_y + s * both)))

    def _cell(self, place: Scalar, count: Scalar) -> tuple[Scalar, Scalar]:
        """Returns for a place in cells from the first corner the cell, and the way into it."""
        inside = self._m.fmin(self._m.fmax(place, 0.0), count)
        cell = self._m.fmin(self._m.floor(inside), count - 1.0)
        return cell, inside - cell


GROUND, UNSCALED_GROUND = parts_by_place(
    FrictionMapGround, FRICTION_MAP, "level ground, its friction bilinear in fine cells of a map by number",
    "times the vehicle's friction_scale", ("friction",))
