"""Level ground whose friction is a field (paper 004): a ground part that looks it up inside the step, at each wheel.

The field is an array by its number (`friction_field`), of which `head` says what is where. Between the nodes of its grid stands a
bicubic spline of the latent value in B-splines, sixteen coefficients a place; its derivatives are exact, since what is read does not
change with the place but for the cell. Beyond the edges the nearest point of the map holds.
"""

from __future__ import annotations

from typing import Any

from lfdm_ros.models.declaration import Field, Part
from lfdm_ros.models.equations import Operations, Patch, Record, Scalar
from lfdm_ros.models.ground import FRICTION_SCALE

FRICTION_FIELD = Field("friction_field", "1", "number of the friction field that the vehicle is on, a `lfdm_ros.terrain.FieldTable`", "",
                       0.0, 1 << 20)
# Two rows before the coefficients, which stand line after line from the lowest y: the first node, nodes of a unit of length, what the
# friction is in the middle of its range; nodes along x and y, numbers of a line, and half of the range.
ORIGIN, SIZE, FIRST = 0.0, 4.0, 8.0
# In the table the coefficients are divided by this: 6 of each cubic B-spline, 2 of tanh(f / 2).
DIVISOR = 72.0


def head(x: float, y: float, spacing: float, nodes: tuple[int, int], friction: tuple[float, float]) -> tuple[float, ...]:
    """The numbers before the coefficients of a field's table. These are those of cubic B-splines of the latent value, over DIVISOR, line by
    line along x, one more on each side than there are nodes.

    Args:
        x, y, spacing: of the first node, and between nodes [m].
        nodes: along x and y.
        friction: where the latent value is far below 0, and far above, over that of the road the tyre was measured on.
    """
    (nx, ny), (low, high) = nodes, friction
    return x, y, 1.0 / spacing, 0.5 * (low + high), float(nx), float(ny), nx + 2.0, 0.5 * (high - low)


class FrictionFieldGround:
    """See the top of the file."""

    def __init__(self, m: Operations):
        self._m = m

    def prepare(self, p: Any) -> Any:
        number = p.friction_field
        x, y, per_length, middle = self._m.row(number, ORIGIN)
        nx, ny, line, half = self._m.row(number, SIZE)
        scale = self.scale(p)
        return Record(number=number, x=x, y=y, per_length=per_length, last_x=nx - 2.0, last_y=ny - 2.0, line=line, middle=scale * middle,
                      half=scale * half)

    def scale(self, p: Any) -> Scalar:
        """What the field's friction is multiplied by."""
        return p.friction_scale

    def under(self, wheel: int, x: Scalar, y: Scalar, u: Record, q: Any) -> Patch:
        column, across = self.weights((x - q.x) * q.per_length, q.last_x)
        row, along = self.weights((y - q.y) * q.per_length, q.last_y)
        first, lines = FIRST + row * q.line + column, (0.0,) * 4
        # Along y first: what stands side by side in a row is summed side by side.
        for k, weight in enumerate(along):
            lines = tuple(line + weight * near for line, near in zip(lines, self._m.row(q.number, first + k * q.line)))
        latent = sum(weight * line for weight, line in zip(across, lines))
        return Patch(friction=q.middle + q.half * self._m.tanh(latent))

    def weights(self, place: Scalar, last: Scalar) -> tuple[Scalar, tuple[Scalar, ...]]:
        """Of a place in cells from the first node: the cell, at most `last`, and six times the weights of its four coefficients."""
        inside = self._m.fmin(self._m.fmax(place, 0.0), last + 1.0)
        cell = self._m.fmin(self._m.floor(inside), last)
        t = inside - cell
        s = 1.0 - t
        tt, ss = t * t, s * s
        return cell, (s * ss, 4.0 - 3.0 * tt * (1.0 + s), 4.0 - 3.0 * ss * (1.0 + t), t * tt)

    def wind(self, x: Record, u: Record, q: Any) -> tuple[Scalar, Scalar]:
        return 0.0, 0.0


class UnscaledFrictionFieldGround(FrictionFieldGround):
    """The field of models that have friction coefficients of their own: those times the field."""

    def scale(self, p: Any) -> Scalar:
        return 1.0


GROUND = Part("friction_field", "level ground, its friction a field by number, times the vehicle's friction_scale",
              (FRICTION_SCALE, FRICTION_FIELD), FrictionFieldGround)
UNSCALED_GROUND = Part("friction_field", "level ground, its friction a field by number", (FRICTION_FIELD,), UnscaledFrictionFieldGround)
