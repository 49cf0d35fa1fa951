"""Ground with a height by place: a ground part that looks height and slopes up inside the step, at each wheel.

The map is an array by its number (`height_map`). Between the nodes of its grid stands a bicubic spline in B-splines, sixteen coefficients a
place, of which the slopes are the exact derivatives. Beyond the edges the nearest point of the map holds, without slope across the edge.
"""

from __future__ import annotations

from typing import Any

from lfdm_ros.models.declaration import Field, Part
from lfdm_ros.models.equations import Operations, Patch, Record, Scalar
from lfdm_ros.models.ground import FRICTION_SCALE

HEIGHT_MAP = Field("height_map", "1", "number of the map of heights that the vehicle is on, a `lfdm_ros.terrain.HeightMap`", "", 0.0,
                   1 << 20)
# Two rows before the coefficients, which stand line after line from the lowest y: the first node and nodes of a unit of length; nodes along
# x and y, numbers of a line. The coefficients are divided by DIVISOR: 6 of each cubic B-spline.
CORNER, SIZE, FIRST = 0.0, 4.0, 8.0
DIVISOR = 36.0


def head(x: float, y: float, spacing: float, nodes: tuple[int, int]) -> tuple[float, ...]:
    """The numbers before the coefficients of a map: x, y, spacing of its nodes [m] and how many there are along x and y."""
    nx, ny = nodes
    return x, y, 1.0 / spacing, 0.0, float(nx), float(ny), nx + 2.0, 0.0


class HeightMapGround:
    """See the top of the file."""

    def __init__(self, m: Operations):
        self._m = m

    def prepare(self, p: Any) -> Any:
        number = p.height_map
        x, y, per_length, _ = self._m.row(number, CORNER)
        nx, ny, line, _ = self._m.row(number, SIZE)
        return Record(number=number, x=x, y=y, per_length=per_length, last_x=nx - 2.0, last_y=ny - 2.0, line=line,
                      friction=self.friction(p))

    def friction(self, p: Any) -> Scalar:
        return p.friction_scale

    def under(self, wheel: int, x: Scalar, y: Scalar, u: Record, q: Any) -> Patch:
        column, across, across_slopes = self.weights((x - q.x) * q.per_length, q.last_x)
        row, along, along_slopes = self.weights((y - q.y) * q.per_length, q.last_y)
        first, height, slope_x, slope_y = FIRST + row * q.line + column, 0.0, 0.0, 0.0
        for k, (weight, slope) in enumerate(zip(along, along_slopes)):
            near = self._m.row(q.number, first + k * q.line)
            value = sum(a * c for a, c in zip(across, near))
            height = height + weight * value
            slope_x = slope_x + weight * sum(a * c for a, c in zip(across_slopes, near))
            slope_y = slope_y + slope * value
        return Patch(height, slope_x * q.per_length, slope_y * q.per_length, q.friction)

    def weights(self, place: Scalar, last: Scalar) -> tuple[Scalar, tuple[Scalar, ...], tuple[Scalar, ...]]:
        """Of a place in cells from the first node: the cell, at most `last`, six times the weights of its four coefficients, and their
        slopes, 0 beyond the edges."""
        m = self._m
        inside = m.fmin(m.fmax(place, 0.0), last + 1.0)
        cell = m.fmin(m.floor(inside), last)
        t = inside - cell
        s, within = 1.0 - t, 3.0 * m.where(place > 0.0, m.where(place < last + 1.0, 1.0, 0.0), 0.0)
        tt, ss = t * t, s * s
        return (cell, (s * ss, 4.0 - 3.0 * tt * (1.0 + s), 4.0 - 3.0 * ss * (1.0 + t), t * tt),
                (-within * ss, within * t * (3.0 * t - 4.0), within * s * (4.0 - 3.0 * s), within * tt))

    def wind(self, x: Record, u: Record, q: Any) -> tuple[Scalar, Scalar]:
        return 0.0, 0.0


class UnscaledHeightMapGround(HeightMapGround):
    """The map of models that have friction coefficients of their own."""

    def friction(self, p: Any) -> Scalar:
        return 1.0


GROUND = Part("height_map", "heights by place from a map by number, the vehicle's friction_scale", (FRICTION_SCALE, HEIGHT_MAP),
              HeightMapGround)
UNSCALED_GROUND = Part("height_map", "heights by place from a map by number", (HEIGHT_MAP,), UnscaledHeightMapGround)
