"""The vehicle record."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from lfdm_ros.errors import InputError
from lfdm_ros.models import Model
from lfdm_ros.vehicles.schema import DECLARED


def check(name: str, value: float, where: str) -> float:
    """Returns `value` as a float inside the declared range of parameter `name`.

    Raises:
        InputError: unknown name (with the nearest known one), not a finite number, or out of range; `where` leads the message.
    """
    if name not in DECLARED:
        near = difflib.get_close_matches(name, DECLARED, n=1)
        raise InputError(f"{where}: unknown parameter '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""))
    declared = DECLARED[name]
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{where}: {name} must be a number in {declared.unit}, not {value!r}") from None
    outside = not declared.lower <= number <= declared.upper or (declared.strict and number in (declared.lower, declared.upper))
    if not math.isfinite(number) or outside:
        bounds = f"({declared.lower:g}, {declared.upper:g})" if declared.strict else f"[{declared.lower:g}, {declared.upper:g}]"
        raise InputError(f"{where}: {name} = {number:g} {declared.unit} is outside {bounds}")
    return number


@dataclass(frozen=True)
class Vehicle:
    """A vehicle: a name and its parameters, SI, read-only. Read with `load_vehicle`, changed with `replace`."""

    name: str
    parameters: Mapping[str, float]
    description: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        values = {name: check(name, value, f"vehicle '{self.name}'") for name, value in self.parameters.items()}
        object.__setattr__(self, "parameters", MappingProxyType(values))
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))

    def replace(self, *, source: str = "", **changes: float) -> Vehicle:
        """A vehicle with some parameters changed (SI); `source` is noted for each of them.

        Raises:
            InputError: unknown parameter or value out of range.
        """
        for name, value in changes.items():
            check(name, value, f"vehicle '{self.name}'")
        notes = dict.fromkeys(changes, source) if source else {}
        return Vehicle(self.name, {**self.parameters, **changes}, self.description, {**self.sources, **notes})

    def vector(self, model: Model) -> np.ndarray:
        """The parameters of a model as an array (np,), in the order the model declares.

        Raises:
            InputError: the vehicle lacks one of them.
        """
        missing = [f.name for f in model.parameters if f.name not in self.parameters]
        if missing:
            raise InputError(f"vehicle '{self.name}' lacks {', '.join(missing)}, which model '{model.name}' needs")
        return np.array([self.parameters[f.name] for f in model.parameters])
