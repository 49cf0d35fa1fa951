"""Arrays with a physical dimension, which catch a metre that lands in a field of m/s, and the columns of a source file."""

from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True)
class SourceTable:
    """Columns of one source file, whatever its format.

    Attributes:
        where: the file, for errors.
        columns: name in the file -> (n,) values as written.
        rows: n.
        lines: (n,) line numbers, or None where the file has no lines, or one for each column.
        time: (n,) s, where the format has times of its own.
    """

    where: str
    columns: Mapping[str, np.ndarray]
    rows: int
    lines: Sequence[int] | None
    time: np.ndarray | None = None

    def place(self, row: int) -> str:
        """Names the place of a row, for errors."""
        return f"{self.where}, line {self.lines[row]}" if self.lines is not None else f"{self.where}, sample {row}"


def from_unit(values: Any, unit: str) -> Quantity:
    """Converts values in `unit` to SI. Raises ValueError when the unit is unknown."""
    factor, offset, dimension = unit_scale(unit)
    return Quantity(np.asarray(values, dtype=float) * factor + offset, dimension)


def in_unit(quantity: Quantity, unit: str) -> np.ndarray:
    """Converts to `unit`. Raises ValueError when the dimension does not fit or the unit is unknown."""
    factor, offset, dimension = unit_scale(unit)
    if quantity.dimension is None:
        return np.asarray(quantity.values, dtype=float)  # a bare number is meant in the unit asked for
    if quantity.dimension != dimension:
        raise ValueError(f"{describe(quantity.dimension)} where {describe(dimension)} ({unit}) is expected")
    return (np.asarray(quantity.values, dtype=float) - offset) / factor


def describe(dimension: Any) -> str:
    """Formats a dimension: "length / time", or "a pure number"."""
    if not dimension:
        return "a pure number"
    over = [_power(name, power) for name, power in dimension.items() if power > 0]
    under = [_power(name, -power) for name, power in dimension.items() if power < 0]
    return " * ".join(over or ["1"]) + "".join(f" / {part}" for part in under)


def _power(name: str, power: float) -> str:
    return name.strip("[]") + (f"^{power:g}" if power != 1 else "")
