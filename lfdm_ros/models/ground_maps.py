"""Grounds by place from an array by its number: friction as a field or in fine cells, heights, resistance.

Beyond the edges the nearest point of the map holds. A field, heights and resistance are bicubic splines between the nodes of their grid
(`GridSpline`), with exact derivatives.
"""

from collections.abc import Sequence
from typing import Any

from lfdm_ros.models.declaration import Field
from lfdm_ros.models.equations import Operations, Patch, Record, Scalar
from lfdm_ros.models.ground import GroundByPlace, parts_by_place

# Two rows before the coefficients, which stand line after line from the lowest y, one more on each side than there are nodes: the first
# node, nodes of a unit of length, a number; nodes along x and y, numbers of a line, a number.
_ORIGIN, _SIZE, FIRST = 0.0, 4.0, 8.0
# In the array coefficients are divided by this: the weights here are 6 times those of cubic B-splines, along x and along y.
DIVISOR = 36.0


def head(x: float, y: float, spacing: float, nodes: tuple[int, int], numbers: tuple[float, float] = (0.0, 0.0)) -> tuple[float, ...]:
    """Returns the numbers before the coefficients.

    Args:
        x, y, spacing: of the first node, and between nodes [m].
        nodes: along x and y.
        numbers: two more, for the maker's use.
    """
    nx, ny = nodes
    return x, y, 1.0 / spacing, numbers[0], float(nx), float(ny), nx + 2.0, numbers[1]


def cell(m: Operations, place: Scalar, count: Scalar) -> tuple[Scalar, Scalar]:
    """Returns the cell, one of `count`, of a position in cells from the first node, and the position within it, clipped at the edges."""
    inside = m.fmin(m.fmax(place, 0.0), count)
    number = m.fmin(m.floor(inside), count - 1.0)
    return number, inside - number


class GridSpline:
    """The bicubic spline of an array by its number, sixteen coefficients a place. Its derivatives are exact, since coefficients are
    constant within a cell."""

    def __init__(self, m: Operations):
        self._m = m

    def prepare(self, number: Scalar) -> Record:
        """Reads the values that do not depend on the place; `numbers` are those of the array's head."""
        x, y, per_length, one = self._m.row(number, _ORIGIN)
        nx, ny, line, other = self._m.row(number, _SIZE)
        return Record(number=number, x=x, y=y, per_length=per_length, cells_x=nx - 1.0, cells_y=ny - 1.0, line=line, numbers=(one, other))

    def value(self, x: Scalar, y: Scalar, q: Record) -> Scalar:
        """Returns the value at a position; q is the result of `prepare`."""
        column, t = cell(self._m, (x - q.x) * q.per_length, q.cells_x)
        row, r = cell(self._m, (y - q.y) * q.per_length, q.cells_y)
        return _sum(_weights(t), self._lines(q, row, column, _weights(r)))

    def value_and_slopes(self, x: Scalar, y: Scalar, q: Record) -> tuple[Scalar, Scalar, Scalar]:
        """Returns the value and its derivatives along x and y [1/m], 0 across the edges beyond them."""
        along_x, along_y = (x - q.x) * q.per_length, (y - q.y) * q.per_length
        column, t = cell(self._m, along_x, q.cells_x)
        row, r = cell(self._m, along_y, q.cells_y)
        across, lines = _weights(t), self._lines(q, row, column, _weights(r))
        slopes = self._lines(q, row, column, _slopes(r, self._within(along_y, q.cells_y)))
        return (_sum(across, lines), _sum(_slopes(t, self._within(along_x, q.cells_x)), lines) * q.per_length,
                _sum(across, slopes) * q.per_length)

    def _within(self, place: Scalar, count: Scalar) -> Scalar:
        return self._m.where(place > 0.0, self._m.where(place < count, 1.0, 0.0), 0.0)

    def _lines(self, q: Record, row: Scalar, column: Scalar, along: Sequence[Scalar]) -> Sequence[Scalar]:
        # Along y first: adjacent values of a row are summed together.
        first, lines = FIRST + row * q.line + column, (0.0,) * 4
        for k, weight in enumerate(along):
            lines = tuple(line + weight * near for line, near in zip(lines, self._m.row(q.number, first + k * q.line)))
        return lines


def _sum(weights: Sequence[Scalar], values: Sequence[Scalar]) -> Scalar:
    return sum(weight * value for weight, value in zip(weights, values))


def _weights(t: Scalar) -> tuple[Scalar, ...]:
    """Returns six times the weights of the four coefficients around a place at t in its cell."""
    s = 1.0 - t
    tt, ss = t * t, s * s
    return s * ss, 4.0 - 3.0 * tt * (1.0 + s), 4.0 - 3.0 * ss * (1.0 + t), t * tt


def _slopes(t: Scalar, within: Scalar) -> tuple[Scalar, ...]:
    """Returns the derivatives of the weights; within: 1, beyond an edge 0."""
    s, w = 1.0 - t, 3.0 * within
    return -w * s * s, w * t * (3.0 * t - 4.0), w * s * (4.0 - 3.0 * s), w * t * t


def _number(name: str, kind: str, table: str) -> Field:
    return Field(name, "1", f"number of the {kind} that the vehicle is on, a `lfdm_ros.ground.{table}`", "", 0.0, 1 << 20)


FRICTION_FIELD = _number("friction_field", "friction field", "FieldTable")
FRICTION_MAP = _number("friction_map", "friction map", "FrictionMap")
HEIGHT_MAP = _number("height_map", "map of heights", "HeightMap")
RESISTANCE_MAP = _number("resistance_map", "map of resistance", "ResistanceMap")


class _SplineGround(GroundByPlace):
    def __init__(self, m: Operations, scaled: bool = True):
        super().__init__(m, scaled)
        self._spline = GridSpline(m)


# -- Friction as a field (paper 004) ------------------------------------------------------------------------------------------------
# In the table the coefficients of the latent value are divided by this: the spline's, and 2 of tanh(f / 2).
FIELD_DIVISOR = 2.0 * DIVISOR


def field_head(x: float, y: float, spacing: float, nodes: tuple[int, int], friction: tuple[float, float]) -> tuple[float, ...]:
    """Returns the numbers before the coefficients of a field's table; friction: where the latent value is far below 0, and far above, over
    that of the road the tyre was measured on. The others as in `head`."""
    low, high = friction
    return head(x, y, spacing, nodes, (0.5 * (low + high), 0.5 * (high - low)))


class FrictionFieldGround(_SplineGround):
    """Level ground whose friction is a field: the spline of its latent value, through the link."""

    def prepare(self, p: Any) -> Any:
        q, scale = self._spline.prepare(p.friction_field), self.scale(p)
        middle, half = q.numbers
        return q.but(middle=scale * middle, half=scale * half)

    def under(self, wheel: int, x: Scalar, y: Scalar, u: Record, q: Any) -> Patch:
        return Patch(friction=q.middle + q.half * self._m.tanh(self._spline.value(x, y, q)))


# -- Friction in cells -----------------------------------------------------------------------------------------------------------------
# Two rows before the cells: the first corner, cells of a unit of length, a number; cells along x and y, two numbers. A cell is its
# friction at the lower left, what is more at the lower right, what is more at the upper left, and what both have not said of the last.
_FIRST, _WIDTH = 8, 4


def cells_head(x: float, y: float, spacing: float, cells: tuple[int, int]) -> tuple[float, ...]:
    """Returns the numbers before the cells of a friction map: x, y and spacing [m], cells along x and y."""
    return x, y, 1.0 / spacing, 0.0, float(cells[0]), float(cells[1]), 0.0, 0.0


class FrictionMapGround(GroundByPlace):
    """Level ground whose friction is bilinear in each cell: one row of four numbers a place, and no link to compute.

    It is a pre-evaluated field (`lfdm_ros.ground.FrictionMap`) for many rollouts: a quarter of the time, with an accuracy set by the cell
    size. Derivatives are exact but discontinuous between cells; a controller, which needs smooth ones, uses the field.
    """

    def prepare(self, p: Any) -> Any:
        x, y, per_length, _ = self._m.row(p.friction_map, _ORIGIN)
        nx, ny, *_ = self._m.row(p.friction_map, _SIZE)
        return Record(number=p.friction_map, x=x, y=y, per_length=per_length, nx=nx, ny=ny, scale=self.scale(p))

    def under(self, wheel: int, x: Scalar, y: Scalar, u: Record, q: Any) -> Patch:
        column, s = cell(self._m, (x - q.x) * q.per_length, q.nx)
        line, t = cell(self._m, (y - q.y) * q.per_length, q.ny)
        here, along_x, along_y, both = self._m.row(q.number, _FIRST + _WIDTH * (line * q.nx + column))
        return Patch(friction=q.scale * (here + s * along_x + t * (along_y + s * both)))


# -- Heights and resistance --------------------------------------------------------------------------------------------------------------


class HeightMapGround(_SplineGround):
    """Ground with a height by place; its slopes are the spline's derivatives, 0 across the edges beyond them."""

    def prepare(self, p: Any) -> Any:
        return self._spline.prepare(p.height_map).but(friction=self.scale(p))

    def under(self, wheel: int, x: Scalar, y: Scalar, u: Record, q: Any) -> Patch:
        return Patch(*self._spline.value_and_slopes(x, y, q), q.friction)


class ResistanceMapGround(_SplineGround):
    """Ground with a resistance map, for tyres without a soil model.

    `lfdm_ros.ground.vehicle_on_ground` derives it from the soil, together with friction.
    """

    def prepare(self, p: Any) -> Any:
        return self._spline.prepare(p.resistance_map).but(friction=self.scale(p))

    def under(self, wheel: int, x: Scalar, y: Scalar, u: Record, q: Any) -> Patch:
        # The spline undershoots at its edge: resistance stays non-negative.
        return Patch(friction=q.friction, resistance=self._m.fmax(self._spline.value(x, y, q), 0.0))


# Each ground as a part with and without the vehicle's friction_scale.
FIELD, UNSCALED_FIELD = parts_by_place(
    FrictionFieldGround, FRICTION_FIELD, "level ground, its friction a field by number",
    "times the vehicle's friction_scale", ("friction",))
MAP, UNSCALED_MAP = parts_by_place(
    FrictionMapGround, FRICTION_MAP, "level ground, its friction bilinear in fine cells of a map by number",
    "times the vehicle's friction_scale", ("friction",))
HEIGHTS, UNSCALED_HEIGHTS = parts_by_place(
    HeightMapGround, HEIGHT_MAP, "heights by place from a map by number", "the vehicle's friction_scale", ("height", "slope_x", "slope_y"))
RESISTANCE, UNSCALED_RESISTANCE = parts_by_place(
    ResistanceMapGround, RESISTANCE_MAP, "level ground that resists by place, from a map by number", "the vehicle's friction_scale",
    ("resistance",))
