"""Level ground whose friction is a field (paper 004): a ground part that looks it up inside the step, at each wheel.

The field is an array by its number (`friction_field`): a bicubic spline of the latent value. Beyond the edges the nearest point of the map
holds.
"""

from __future__ import annotations

from typing import Any

from lfdm_ros.models import grid_spline
from lfdm_ros.models.declaration import Field
from lfdm_ros.models.equations import Operations, Patch, Record, Scalar
from lfdm_ros.models.ground import GroundByPlace, parts_by_place

FRICTION_FIELD = Field("friction_field", "1", "number of the friction field that the vehicle is on, a `lfdm_ros.ground.FieldTable`", "",
                       0.0, 1 << 20)
# In the table the coefficients of the latent value are divided by this: the spline's, and 2 of tanh(f / 2).
DIVISOR = 2.0 * grid_spline.DIVISOR


def head(x: float, y: float, spacing: float, nodes: tuple[int, int], friction: tuple[float, float]) -> tuple[float, ...]:
    """Returns the numbers before the coefficients of a field's table; friction: where the latent value is far below 0, and far above, over
    that of the road the tyre was measured on. The others as in `grid_spline.head`."""
    low, high = friction
    return grid_spline.head(x, y, spacing, nodes, (0.5 * (low + high), 0.5 * (high - low)))


class FrictionFieldGround(GroundByPlace):
    """See the top of the file."""

    def __init__(self, m: Operations, scaled: bool = True):
        super().__init__(m, scaled)
        self._spline = grid_spline.GridSpline(m)

    def prepare(self, p: Any) -> Any:
        q, scale = self._spline.prepare(p.friction_field), self.scale(p)
        middle, half = q.numbers
        return q.but(middle=scale * middle, half=scale * half)

    def under(self, wheel: int, x: Scalar, y: Scalar, u: Record, q: Any) -> Patch:
        return Patch(friction=q.middle + q.half * self._m.tanh(self._spline.value(x, y, q)))


GROUND, UNSCALED_GROUND = parts_by_place(
    FrictionFieldGround, FRICTION_FIELD, "level ground, its friction a field by number", "times the vehicle's friction_scale",
    ("friction",))
