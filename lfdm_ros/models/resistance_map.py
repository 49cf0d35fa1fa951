"""Ground that resists by place: what a wheel loses there whatever drives it, a layer that lies on friction and heights.

For models whose tyres know nothing of soil: `lfdm_ros.ground.equivalent_friction` derives it from the soil, together with friction.
The map is an array by its number, between whose nodes stands a bicubic spline; beyond the edges the nearest point holds.
"""

from __future__ import annotations

from typing import Any

from lfdm_ros.models.declaration import Field
from lfdm_ros.models.equations import Operations, Patch, Record, Scalar
from lfdm_ros.models.grid_spline import GridSpline
from lfdm_ros.models.ground import GroundByPlace, parts_by_place

RESISTANCE_MAP = Field("resistance_map", "1", "number of the map of resistance that the vehicle is on, a `lfdm_ros.ground.ResistanceMap`",
                       "", 0.0, 1 << 20)


class ResistanceMapGround(GroundByPlace):
    """See the top of the file."""

    def __init__(self, m: Operations, scaled: bool = True):
        super().__init__(m, scaled)
        self._spline = GridSpline(m)

    def prepare(self, p: Any) -> Any:
        return self._spline.prepare(p.resistance_map).but(friction=self.scale(p))

    def under(self, wheel: int, x: Scalar, y: Scalar, u: Record, q: Any) -> Patch:
        # Where it begins the spline swings below 0: nothing pushes.
        return Patch(friction=q.friction, resistance=self._m.fmax(self._spline.value(x, y, q), 0.0))


GROUND, UNSCALED_GROUND = parts_by_place(
    ResistanceMapGround, RESISTANCE_MAP, "level ground that resists by place, from a map by number", "the vehicle's friction_scale",
    ("resistance",))
