"""Soils by name (config/soils/NAME.yaml) or file, and maps of soils: polygons rasterised into cells that kernels read."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.compiler.tables import LookupTable
from lfdm_ros.documents import mapping, of_config, quantity, text
from lfdm_ros.errors import InputError, quote
from lfdm_ros.models.soil import SOIL, SOILS
from lfdm_ros.resources import config_names

MAX_CELLS = 4_000_000  # of a map
_DECLARED = {declared.name.removeprefix("soil_"): declared for declared in SOIL}
_REQUIRED = ("frictional_modulus", "cohesive_modulus", "sinkage_exponent", "cohesion", "friction_angle", "shear_modulus_x")
# The units of the moduli depend on the sinkage exponent n.
_UNITS = {"frictional_modulus": ("N/m^(n+2)", "^(n+2)", "^2"), "cohesive_modulus": ("N/m^(n+1)", "^(n+1)", "")}


@dataclass(frozen=True)
class SoilProperties:
    """Properties of a soil in SI units, see `lfdm_ros.models.soil.SOIL`; kphi is `frictional_modulus`, kc `cohesive_modulus`. Raises
    InputError: a value out of its range, or both moduli 0."""

    name: str
    frictional_modulus: float
    cohesive_modulus: float
    sinkage_exponent: float
    cohesion: float
    friction_angle: float
    shear_modulus_x: float
    shear_modulus_y: float
    shear_growth_x: float = 0.0
    shear_growth_y: float = 0.0
    stress_angle: float = 0.18
    stress_angle_growth: float = 0.32
    rebound: float = 0.0
    description: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in _DECLARED:
            _check(key, getattr(self, key), f"soil '{self.name}'")
        if self.frictional_modulus + self.cohesive_modulus <= 0.0:
            raise InputError(f"soil '{self.name}': frictional_modulus and cohesive_modulus are both 0; it carries nothing")
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))

    @property
    def parameters(self) -> dict[str, float]:
        """Parameters of the ground `soil`: `vehicle.replace(**soil.parameters)`."""
        return {declared.name: getattr(self, key) for key, declared in _DECLARED.items()}

    @property
    def document(self) -> dict[str, Any]:
        """Document that `load_soil` reads."""
        units = {key: _UNITS[key][0] if key in _UNITS else declared.unit for key, declared in _DECLARED.items()}
        return {"name": self.name, **{key: {"value": getattr(self, key), "unit": unit} for key, unit in units.items()}}

    def modulus(self, width: float) -> float:
        """Computes the pressure at a sinkage of 1 m under a wheel of width b [m] (001 eq 1), kc / b + kphi [Pa]."""
        return self.cohesive_modulus / width + self.frictional_modulus


def soil_names() -> tuple[str, ...]:
    """Returns the names of the package's soils."""
    return tuple(config_names("soils"))


def load_soil(source: str | os.PathLike[str] | Mapping[str, Any], where: str = "soil") -> SoilProperties:
    """Reads a soil by its name, from a file, or from a document, called `where` in messages. Raises InputError: no such soil, an unknown or
    missing key, a wrong unit, or a value out of range; names file and key."""
    document, where = of_config("soils", source, where)
    optional = [key for key in _DECLARED if key not in _REQUIRED]
    node = mapping(document, where, ("name", *_REQUIRED), ("description", *optional))
    values: dict[str, float] = {}
    sources: dict[str, str] = {}
    for key in _DECLARED:
        if key in node:
            values[key], sources[key] = _value(node[key], key, f"{where}: {key}")
            _check(key, values[key], where)
    if "shear_modulus_y" not in values:
        values["shear_modulus_y"], sources["shear_modulus_y"] = values["shear_modulus_x"], "as along the wheel"
    return SoilProperties(name=text(node["name"], f"{where}: name"), description=str(node.get("description") or ""), sources=sources,
                          **values)


def _value(node: Any, key: str, where: str) -> tuple[float, str]:
    unit = _DECLARED[key].unit
    if key in _UNITS and isinstance(node, dict):
        written, exponent, plain = _UNITS[key]
        unit_text = str(node.get("unit", ""))
        if exponent not in unit_text:
            raise InputError(f"{where}: unit {quote(unit_text)} does not fit, write one as k{written}")
        node = {**node, "unit": unit_text.replace(exponent, plain)}
    return quantity(node, unit, where)


def _check(key: str, value: float, where: str) -> None:
    declared = _DECLARED[key]
    if not declared.lower <= value <= declared.upper:
        raise InputError(f"{where}: {key} = {value:g} {declared.unit} is outside [{declared.lower:g}, {declared.upper:g}]")


@dataclass(frozen=True)
class SoilRegion:
    """A soil inside a polygon with corners (n, 2) in the map frame [m]. Raises InputError: fewer than three corners, or one that is not
    finite."""

    corners: np.ndarray
    soil: SoilProperties

    def __post_init__(self) -> None:
        corners = np.asarray(self.corners, float)
        if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) < 3 or not np.isfinite(corners).all():
            raise InputError(f"region of soil '{self.soil.name}': give three corners [x, y] or more, all finite")
        object.__setattr__(self, "corners", corners)


def within(polygon: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Finds the points within a polygon (n, 2): those from which a ray along x crosses its edges an odd number of times."""
    inside = np.zeros(np.broadcast(x, y).shape, bool)
    for (ax, ay), (bx, by) in zip(polygon, np.roll(polygon, -1, axis=0)):
        if ay != by:
            inside ^= ((ay > y) != (by > y)) & (x < ax + (y - ay) * (bx - ax) / (by - ay))
    return inside


class SoilMap:
    """Map of soils that kernels read during the lifetime of this object.

    A vehicle's parameter selects it: `Simulator(vehicle.replace(soil_map=soils.number), "eighteen_dof/bekker_wong/soil_map")`; in a batch
    it may differ by vehicle. Numbers are valid in this process only; that of a deleted map reads as NaN, and the run diverges.

    Attributes:
        number: value of `soil_map`.
        soils: that of `elsewhere`, then those of the regions.
        cells: index of the soil of each cell (ny, nx), the first row at the lowest y.
    """

    def __init__(self, elsewhere: SoilProperties, regions: Sequence[SoilRegion] = (), spacing: float = 0.25, margin: float = 1.0):
        """Rasters the regions, later ones over earlier ones; outside of them, and beyond the map's edges, the soil is `elsewhere`.

        Args:
            spacing: side of a cell [m]; a cell has the soil at its centre.
            margin: of the map around the regions [m].

        Raises:
            InputError: an invalid spacing or margin, or more than MAX_CELLS cells.
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
        values = [math.tan(value) if name == "soil_friction_angle" else value
                  for soil in self.soils for name, value in soil.parameters.items()]
        self._table = LookupTable(np.concatenate([head, values, self.cells.ravel(), np.zeros(3)]))
        self.number = float(self._table.number)

    def number_at(self, x: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Returns the index of the soil at points x, y [m] of equal shape."""
        ny, nx = self.cells.shape
        column, line = (np.clip(np.floor_divide(np.asarray(v, float) - first, self.spacing), 0, n - 1).astype(int)
                        for v, first, n in ((x, self.x, nx), (y, self.y, ny)))
        return self.cells[line, column]

    def at(self, x: float, y: float) -> SoilProperties:
        """Returns the soil at a point [m]."""
        return self.soils[int(self.number_at(x, y))]
