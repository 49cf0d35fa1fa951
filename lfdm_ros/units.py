"""Units as people write them in files, through pint."""

from __future__ import annotations

from functools import cache
from typing import Any

from lfdm_ros.errors import InputError

# Written "1" in declarations; pint calls it dimensionless.
_DIMENSIONLESS = ("", "1", "-")


@cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry(cache_folder=None)


@cache
def unit_scale(unit: str) -> tuple[float, float, Any]:
    """Returns (factor, offset, dimension) with value_SI = factor * value + offset; dimension is pint's dimensionality.

    Raises:
        ValueError: the unit is unknown.
    """
    registry = _registry()
    try:
        parsed = registry.Unit("dimensionless" if unit in _DIMENSIONLESS else unit)
        zero = float(registry.Quantity(0.0, parsed).to_base_units().magnitude)
        one = float(registry.Quantity(1.0, parsed).to_base_units().magnitude)
    except Exception as error:  # pint raises a family of exceptions, some of them AttributeError
        raise ValueError(f"unit '{unit}' is not known: {error}") from None
    return one - zero, zero, parsed.dimensionality


def to_si(value: Any, unit: str, expected: str, where: str) -> Any:
    """Converts a number or array from `unit` to `expected`.

    Args:
        value: number or NumPy array.
        unit: the unit as written in a file, for example "km/h".
        expected: the unit the code works in, for example "m/s".
        where: file and key, for the error.

    Raises:
        InputError: unknown unit, or one of another dimension.
    """
    target_factor, target_offset, target = unit_scale(expected)
    try:
        factor, offset, dimension = unit_scale(str(unit))
    except ValueError as error:
        raise InputError(f"{where}: {error}; write one of the dimension of '{expected}'") from None
    if dimension != target:
        raise InputError(f"{where}: unit '{unit}' does not fit, expected one of the dimension of '{expected}'")
    return (factor * value + offset - target_offset) / target_factor
