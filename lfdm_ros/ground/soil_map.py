"""Soil by place: polygons of soil, drawn into cells that kernels read as they step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.compiler.tables import Table
from lfdm_ros.errors import InputError
from lfdm_ros.ground.soils import Soil
from lfdm_ros.models.soil import SOIL, SOILS

MAX_CELLS = 4_000_000


@dataclass(frozen=True)
class SoilRegion:
    """A soil inside a polygon, whose corners (n, 2) are places of the map [m].

    Raises:
        InputError: fewer than three corners, or one that is not finite.
    """

    corners: np.ndarray
    soil: Soil

    def __post_init__(self) -> None:
        corners = np.asarray(self.corners, float)
        if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) < 3 or not np.isfinite(corners).all():
            raise InputError(f"region of soil '{self.soil.name}': give three corners [x, y] or more, all finite")
        object.__setattr__(self, "corners", corners)


def within(polygon: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns which places lie within a polygon (n, 2): those from which a ray along x crosses its edges an odd number of times."""
    inside = np.zeros(np.broadcast(x, y).shape, bool)
    for (ax, ay), (bx, by) in zip(polygon, np.roll(polygon, -1, axis=0)):
        if ay != by:
            inside ^= ((ay > y) != (by > y)) & (x < ax + (y - ay) * (bx - ax) / (by - ay))
    return inside


class SoilMap:
    """Soils by place, which kernels read as long as this object lives.

    A vehicle is on it by its parameter: `Simulator(vehicle.replace(soil_map=soils.number), "eighteen_dof/bekker_wong/soil_map")`; in a
    batch it may differ by vehicle. Numbers mean something in this process only; that of a map that is gone reads as NaN, and the run
    diverges.

    Attributes:
        number: value of `soil_map`.
        soils: the elsewhere and those of the regions.
        cells: number of the soil of each cell (ny, nx), the first line at the lowest y.
    """

    def __init__(self, elsewhere: Soil, regions: Sequence[SoilRegion] = (), spacing: float = 0.25, margin: float = 1.0):
        """Rasters the regions. The last of those that overlap counts; outside all of them, and beyond the map's edges, lies `elsewhere`.

        Args:
            spacing: side of a cell [m]; a cell has the soil of its middle.
            margin: what the map reaches beyond the regions [m].

        Raises:
            InputError: a spacing or margin that is no length, or more than MAX_CELLS cells.
        """
        if not (0.0 < spacing < math.inf and spacing <= margin < math.inf):
            raise InputError(f"soil map: spacing {spacing:g} m must be above 0 and margin {margin:g} m no less than it")
        corners = np.concatenate([region.corners for region in regions]) if regions else np.zeros((1, 2))
        self.x, self.y = (float(v) for v in corners.min(axis=0) - margin)
        nx, ny = (int(n) for n in np.ceil((corners.max(axis=0) + margin - (self.x, self.y)) / spacing))
        if nx * ny > MAX_CELLS:
            raise InputError(f"soil map: {nx} x {ny} cells of {spacing:g} m are more than {MAX_CELLS}; give a larger spacing")
        self.spacing, self.soils = spacing, (elsewhere, *(region.soil for region in regions))
        x, y = self.x + (np.arange(nx) + 0.5) * spacing, self.y + (np.arange(ny) + 0.5) * spacing
        self.cells = np.zeros((ny, nx), int)
        for k, region in enumerate(regions, 1):
            self.cells[within(region.corners, x[None, :], y[:, None])] = k
        begin = SOILS + len(SOIL) * len(self.soils)
        head = [self.x, self.y, 1.0 / spacing, begin, float(nx), float(ny), 0.0, 0.0]
        self._table = Table(np.concatenate([head, *map(_values, self.soils), self.cells.ravel(), np.zeros(3)]))
        self.number = float(self._table.number)

    def number_at(self, x: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Returns the number of the soil at places of one shape [m]."""
        ny, nx = self.cells.shape
        column, line = (np.clip(np.floor_divide(np.asarray(v, float) - first, self.spacing), 0, n - 1).astype(int)
                        for v, first, n in ((x, self.x, nx), (y, self.y, ny)))
        return self.cells[line, column]

    def at(self, x: float, y: float) -> Soil:
        """Returns the soil of a place [m]."""
        return self.soils[int(self.number_at(x, y))]


def _values(soil: Soil) -> list[float]:
    return [math.tan(value) if name == "soil_friction_angle" else value for name, value in soil.parameters.items()]
