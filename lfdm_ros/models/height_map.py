"""Ground with a height by place: a ground part that looks height and slopes up inside the step, at each wheel.

The map is an array by its number (`height_map`). Between the nodes of its grid stands a bicubic spline, of which the slopes are the
exact derivatives. Beyond the edges the nearest point of the map holds, without slope across the edge.
"""

from __future__ import annotations

from typing import Any

from lfdm_ros.models.declaration import Field
from lfdm_ros.models.equations import Operations, Patch, Record, Scalar
from lfdm_ros.models.grid_spline import GridSpline
from lfdm_ros.models.ground import GroundByPlace, parts_by_place

HEIGHT_MAP = Field("height_map", "1", "number of the map of heights that the vehicle is on, a `lfdm_ros.ground.HeightMap`", "", 0.0,
                   1 << 20)


class HeightMapGround(GroundByPlace):
    """See the top of the file."""

    def __init__(self, m: Operations, scaled: bool = True):
        super().__init__(m, scaled)
        self._spline = GridSpline(m)

    def prepare(self, p: Any) -> Any:
        return self._spline.prepare(p.height_map).but(friction=self.scale(p))

    def under(self, wheel: int, x: Scalar, y: Scalar, u: Record, q: Any) -> Patch:
        return Patch(*self._spline.value_and_slopes(x, y, q), q.friction)


GROUND, UNSCALED_GROUND = parts_by_place(
    HeightMapGround, HEIGHT_MAP, "heights by place from a map by number", "the vehicle's friction_scale", ("height", "slope_x", "slope_y"))
