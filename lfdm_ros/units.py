"""Conversion of declared units to SI, through pint."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from lfdm_ros.errors import InputError

# Written "1" in declarations; pint calls it dimensionless.
_DIMENSIONLESS = ("", "1", "-")


@lru_cache(maxsize=1)
def _registry() -> Any:
    import pint

    # Dimensionless radians would let "rpm" pass for "Hz" silently scaled; pint's own conversion handles it correctly.
    return pint.UnitRegistry(cache_folder=None)


@cache
def factor_and_offset(unit: str, expected: str) -> tuple[float, float]:
    """Returns (factor, offset) with value_expected = factor * value + offset.

    Raises ValueError when the unit is unknown or of another dimension.
    """
    ureg = _registry()

    def parse(text: str) -> Any:
        return ureg.Unit("dimensionless" if text in _DIMENSIONLESS else text)

    try:
        source, target = parse(unit), parse(expected)
        zero = float(ureg.Quantity(0.0, source).to(target).magnitude)
        one = float(ureg.Quantity(1.0, source).to(target).magnitude)
    except Exception as error:  # pint raises a family of exceptions, some of them AttributeError
        raise ValueError(str(error)) from None
    return one - zero, zero


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
    try:
        factor, offset = factor_and_offset(str(unit), expected)
    except ValueError as error:
        raise InputError(f"{where}: unit '{unit}' does not fit, expected one of the dimension of '{expected}' ({error})") from None
    return factor * value + offset
