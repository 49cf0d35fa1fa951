"""Soft soil as a ground: the values of Bekker, Mohr-Coulomb and Janosi (paper 001 eqs 1-7), one soil or one for each wheel.

Tyres with a soil model read them in their patch, as `wheel.ground.soil`; for others it is level ground of friction 1.
"""

from dataclasses import dataclass, field
from typing import Any

from lfdm_ros.models.declaration import Field, Part
from lfdm_ros.models.equations import Operations, Patch, Record, Scalar
from lfdm_ros.models.ground import WIND, GivenGround, Windless

# Units of the moduli of pressure over sinkage depend on the exponent; these are for a sinkage of 1 m. Defaults are LETE sand.
SOIL = (
    Field("soil_frictional_modulus", "N/m^2", "pressure over sinkage: part free of the width, at a sinkage of 1 m", "kphi", 0.0, 1e9,
          default=5301e3),
    Field("soil_cohesive_modulus", "N/m", "pressure over sinkage: part over the width, at a sinkage of 1 m", "kc", 0.0, 1e8, default=102e3),
    Field("soil_sinkage_exponent", "1", "pressure over sinkage: exponent of the sinkage", "n", 0.05, 3.0, default=0.793),
    Field("soil_cohesion", "N/m^2", "shear strength without pressure", "c", 0.0, 1e6, default=1300.0),
    Field("soil_friction_angle", "rad", "angle of internal friction", "phi", 0.0, 1.2, default=0.543),
    Field("soil_shear_modulus_x", "m", "shear displacement that mobilises all but 1/e of the strength, along the wheel", "kx0", 1e-4, 1.0,
          default=0.012),
    Field("soil_shear_modulus_y", "m", "the same across the wheel", "ky0", 1e-4, 1.0, default=0.012),
    Field("soil_shear_growth_x", "m/rad", "growth of the shear modulus along the wheel with the slip angle", "kx1", 0.0, 1.0),
    Field("soil_shear_growth_y", "m/rad", "growth of the shear modulus across the wheel with the slip angle", "ky1", 0.0, 1.0),
    Field("soil_stress_angle", "1", "angle of the largest pressure over the entry angle, without slip", "a0", 0.0, 0.9, default=0.18),
    Field("soil_stress_angle_growth", "1", "growth of that with the slip", "a1", 0.0, 0.9, default=0.32),
    Field("soil_rebound", "1", "height to which the soil rises behind the wheel, over the sinkage", "lambda", 0.0, 0.5),
)


@dataclass(frozen=True)
class SoilPatch(Patch):
    """A patch of soil: its values by the names of SOIL without `soil_`, and the tangent of the angle of internal friction."""

    soil: Record = field(default_factory=Record)


def soil_of(m: Operations, values: Any) -> Record:
    """Returns the record of `SoilPatch` from one with the fields of SOIL."""
    named = {declared.name.removeprefix("soil_"): getattr(values, declared.name) for declared in SOIL}
    angle = named.pop("friction_angle")
    return Record(**named, friction=m.sin(angle) / m.cos(angle))


class Soil(Windless):
    """Level ground of one soil, no wind."""

    def prepare(self, p: Any) -> Any:
        return SoilPatch(soil=soil_of(self._m, p))

    def under(self, wheel: int, x: Scalar, y: Scalar, u: Record, q: Any) -> Patch:
        patch: Patch = q
        return patch


class GivenSoil(GivenGround):
    """The soil of each wheel, and the wind, from the inputs."""

    def under(self, wheel: int, x: Scalar, y: Scalar, u: Record, q: Any) -> Patch:
        return SoilPatch(soil=soil_of(self._m, u.wheels[wheel]))


# A map of soils as an array by its number: two rows of four, the first corner, cells of a unit of length, where the cells begin; cells
# along x and y; then the values of each soil, in the order of `SOIL`, the tangent in place of the angle; then the soil of each cell, line
# after line from the lowest y, and three numbers that only fill the last row.
SOIL_MAP = Field("soil_map", "1", "number of the map of soils that the vehicle is on, a `lfdm_ros.ground.SoilMap`", "", 0.0, 1 << 20)
CORNER, SIZE, SOILS = 0.0, 4.0, 8.0


class MappedSoil(Windless):
    """Level ground with the soil of its cell under each wheel, beyond the edges that of the nearest; no wind."""

    def prepare(self, p: Any) -> Any:
        x, y, per_length, cells = self._m.row(p.soil_map, CORNER)
        nx, ny, *_ = self._m.row(p.soil_map, SIZE)
        return Record(number=p.soil_map, x=x, y=y, per_length=per_length, cells=cells, nx=nx, ny=ny)

    def under(self, wheel: int, x: Scalar, y: Scalar, u: Record, q: Any) -> Patch:
        m = self._m
        column, line = (m.floor(m.fmin(m.fmax((place - first) * q.per_length, 0.0), count - 0.5))
                        for place, first, count in ((x, q.x, q.nx), (y, q.y, q.ny)))
        first = SOILS + len(SOIL) * m.row(q.number, q.cells + line * q.nx + column)[0]
        values = [value for k in range(0, len(SOIL), 4) for value in m.row(q.number, first + k)]
        names = ("friction" if declared.name == "soil_friction_angle" else declared.name.removeprefix("soil_") for declared in SOIL)
        return SoilPatch(soil=Record(**dict(zip(names, values, strict=True))))


UNIFORM_SOIL = Part("soil", "level ground of one soft soil", SOIL, Soil, gives=("soil",))
GIVEN_SOIL = Part("given_soil", "level ground, the soft soil of each wheel and the wind as inputs", (), GivenSoil, wheel_inputs=SOIL,
                  inputs=WIND)
MAPPED_SOIL = Part("soil_map", "level ground, its soft soil by place, from a map by number", (SOIL_MAP,), MappedSoil, gives=("soil",))
