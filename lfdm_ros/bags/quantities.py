"""Arrays with a physical dimension: enough to catch a metre that lands in a field of m/s."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lfdm_ros.units import unit_scale


@dataclass(frozen=True)
class Quantity:
    """Values in coherent SI units (angles in rad).

    Attributes:
        values: array or number.
        dimension: pint's dimensionality, a mapping with `*`, `/` and `**`; None for a bare number, which takes any dimension
            in sums, comparisons and assignments, and none in products.
    """

    values: Any
    dimension: Any = None


def from_unit(values: Any, unit: str) -> Quantity:
    """Values in `unit`, converted to SI. Raises ValueError when the unit is unknown."""
    factor, offset, dimension = unit_scale(unit)
    return Quantity(np.asarray(values, dtype=float) * factor + offset, dimension)


def in_unit(quantity: Quantity, unit: str) -> np.ndarray:
    """The values in `unit`. Raises ValueError when the dimension does not fit or the unit is unknown."""
    factor, offset, dimension = unit_scale(unit)
    if quantity.dimension is None:
        return np.asarray(quantity.values, dtype=float)  # a bare number is meant in the unit asked for
    if quantity.dimension != dimension:
        raise ValueError(f"{describe(quantity.dimension)} where {describe(dimension)} ({unit}) is expected")
    return (np.asarray(quantity.values, dtype=float) - offset) / factor


def describe(dimension: Any) -> str:
    """For people: "length / time", or "a pure number"."""
    if not dimension:
        return "a pure number"
    over = [_power(name, power) for name, power in dimension.items() if power > 0]
    under = [_power(name, -power) for name, power in dimension.items() if power < 0]
    return " * ".join(over or ["1"]) + "".join(f" / {part}" for part in under)


def _power(name: str, power: float) -> str:
    return name.strip("[]") + (f"^{power:g}" if power != 1 else "")
