"""Ground with a height by place: a ground part that looks height and slopes up inside the step, at each wheel.

The map is an array by its number (`height_map`). Between the nodes of its grid stands a bicubic spline, of which the slopes are the
exact derivatives. Beyond the edges the nearest point of the map holds, without slope across the edge.
"""

from __future__ import annotations

from typing import Any

from lfdm_ros.models.declaration import Field, Part
from lfdm_ros.models.equations import Operations, Patch, Record, Scalar
from lfdm_ros.models.grid_spline import GridSpline
from lfdm_ros.models.ground import FRICTION_SCALE

HEIGHT_MAP = Field("height_map", "1", "number of the map of heights that the vehicle is on, a `lfdm_ros.terrain.HeightMap`", "", 0.0,
                   1 << 20)
_GIVES = ("height", "slope_x", "slope_y")


class HeightMapGround:
    """See the top of the file."""

    def __init__(self, m: Operations):
        self._spline = GridSpline(m)

    def prepare(self, p: Any) -> Any:
        return self._spline.prepare(p.height_map).but(friction=self.friction(p))

    def friction(self, p: Any) -> Scalar:
        return p.friction_scale

    def under(self, wheel: int, x: Scalar, y: Scalar, u: Record, q: Any) -> Patch:
        return Patch(*self._spline.value_and_slopes(x, y, q), q.friction)

    def wind(self, x: Record, u: Record, q: Any) -> tuple[Scalar, Scalar]:
        return 0.0, 0.0


class UnscaledHeightMapGround(HeightMapGround):
    """The map of models that have friction coefficients of their own."""

    def friction(self, p: Any) -> Scalar:
        return 1.0


GROUND = Part("height_map", "heights by place from a map by number, the vehicle's friction_scale", (FRICTION_SCALE, HEIGHT_MAP),
              HeightMapGround, gives=_GIVES)
UNSCALED_GROUND = Part("height_map", "heights by place from a map by number", (HEIGHT_MAP,), UnscaledHeightMapGround, gives=_GIVES)
