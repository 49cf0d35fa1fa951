"""Soils by name: config/soils/NAME.yaml, or a file of one's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from lfdm_ros.documents import mapping, of_config, quantity, text
from lfdm_ros.errors import InputError, quote
from lfdm_ros.models.soil import SOIL
from lfdm_ros.resources import share_directory

_DECLARED = {declared.name.removeprefix("soil_"): declared for declared in SOIL}
_REQUIRED = ("frictional_modulus", "cohesive_modulus", "sinkage_exponent", "cohesion", "friction_angle", "shear_modulus_x")
# The units of the moduli have the exponent of the sinkage in them.
_UNITS = {"frictional_modulus": ("N/m^(n+2)", "^(n+2)", "^2"), "cohesive_modulus": ("N/m^(n+1)", "^(n+1)", "")}


@dataclass(frozen=True)
class Soil:
    """A soil in SI units; see `lfdm_ros.models.soil.SOIL` for what each value is. kphi is `frictional_modulus`, kc `cohesive_modulus`.

    Raises:
        InputError: a value out of its range, or a soil that carries nothing.
    """

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
        """Its values as parameters of the ground `soil`: `vehicle.replace(**soil.parameters)`."""
        return {declared.name: getattr(self, key) for key, declared in _DECLARED.items()}

    @property
    def document(self) -> dict[str, Any]:
        """Document from which `load_soil` reads it."""
        units = {key: _UNITS[key][0] if key in _UNITS else declared.unit for key, declared in _DECLARED.items()}
        return {"name": self.name, **{key: {"value": getattr(self, key), "unit": unit} for key, unit in units.items()}}

    def modulus(self, width: float) -> float:
        """Computes the pressure at a sinkage of 1 m under a wheel of a width [m] (001 eq 1), kc / b + kphi [Pa]."""
        return self.cohesive_modulus / width + self.frictional_modulus


def soil_names() -> tuple[str, ...]:
    """Returns the soils that ship with the package."""
    return tuple(sorted(path.stem for path in (share_directory() / "config" / "soils").glob("*.yaml")))


def load_soil(source: str | os.PathLike[str] | Mapping[str, Any], where: str = "soil") -> Soil:
    """Returns a soil by its name, from a file, or from a document, which messages call `where`.

    Raises:
        InputError: no such soil, an unknown or missing key, a unit that does not fit, or a value out of range; names file and key.
    """
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
    return Soil(name=text(node["name"], f"{where}: name"), description=str(node.get("description") or ""), sources=sources, **values)


def _value(node: Any, key: str, where: str) -> tuple[float, str]:
    unit = _DECLARED[key].unit
    if key in _UNITS and isinstance(node, dict):
        written, exponent, plain = _UNITS[key]
        given = str(node.get("unit", ""))
        if exponent not in given:
            raise InputError(f"{where}: unit {quote(given)} does not fit, write one as k{written}")
        node = {**node, "unit": given.replace(exponent, plain)}
    return quantity(node, unit, where)


def _check(key: str, value: float, where: str) -> None:
    declared = _DECLARED[key]
    if not declared.lower <= value <= declared.upper:
        raise InputError(f"{where}: {key} = {value:g} {declared.unit} is outside [{declared.lower:g}, {declared.upper:g}]")


