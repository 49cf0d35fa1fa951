"""Units of files: products of names and small powers, each name through pint.

    kg*m^2    rad/s/(N*m)**0.5    N m s^-1    m/s²    1/s

pint itself would evaluate any expression, 9**9**9**9 m for as long as that takes; it only ever sees single names.
"""

import math
import re
from collections.abc import Iterator
from functools import cache, reduce
from operator import mul
from typing import Any

from lfdm_ros.errors import InputError, quote

# Written "1" in declarations; pint calls it dimensionless.
_DIMENSIONLESS = ("", "1", "-")

_MAX_LENGTH, _MAX_NAMES, _MAX_POWER = 80, 12, 9.0
_TOKEN = re.compile(r"\*\*|[*/^()·⋅]|[-+]?\d+(?:\.\d+)?|[^\W\d]\w*|[%°]\w*")
_SUPERSCRIPT = re.compile("[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_PLAIN = str.maketrans("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "+-0123456789")
# Factors of the most frequent units: making pint's registry takes as long as all other imports of `lfdm simulate`.
COMMON = {
    ("rpm", "rad/s"): math.pi / 30.0, ("deg", "rad"): math.pi / 180.0, ("mm", "m"): 1e-3, ("ms", "s"): 1e-3, ("kN", "N"): 1e3,
    ("kN/m", "N/m"): 1e3, ("kN/m^2", "N/m^2"): 1e3, ("kPa", "N/m^2"): 1e3, ("kN/rad", "N/rad"): 1e3,
    ("kN*m/rad", "N*m/rad"): 1e3, ("kN*m*s/rad", "N*m*s/rad"): 1e3, ("kW", "W"): 1e3}
_FORM = "write names joined by * or /, with powers as in kg*m^2"


@cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry(cache_folder=None)


@cache
def unit_scale(unit: str) -> tuple[float, float, Any]:
    """Returns (factor, offset, dimension) with value_SI = factor * value + offset; dimension is pint's dimensionality. Raises ValueError:
    the unit is unknown."""
    registry = _registry()
    try:
        named = [registry.Unit(name) if power == 1.0 else registry.Unit(name) ** power for name, power in unit_powers(unit)]
        parsed = reduce(mul, named) if named else registry.Unit("dimensionless")
        zero = float(registry.Quantity(0.0, parsed).to_base_units().magnitude)
        one = float(registry.Quantity(1.0, parsed).to_base_units().magnitude)
    except Exception as error:  # pint raises a family of exceptions, some of them AttributeError
        raise ValueError(f"unit {quote(unit)} is not known: {error}") from None
    if not (math.isfinite(one) and math.isfinite(zero) and one != zero):
        raise ValueError(f"unit {quote(unit)} is beyond what a number can hold")
    return one - zero, zero, parsed.dimensionality


def unit_powers(unit: str) -> list[tuple[str, float]]:
    """Returns the names of a unit and their powers. Raises ValueError for another form."""
    if unit in _DIMENSIONLESS:
        return []
    if len(unit) > _MAX_LENGTH:
        raise ValueError(f"it has more than {_MAX_LENGTH} characters")
    plain = _SUPERSCRIPT.sub(lambda match: f"^{match[0].translate(_PLAIN)}", unit)
    tokens = _TOKEN.findall(plain)
    if "".join(tokens) != "".join(plain.split()):
        raise ValueError(_FORM)
    rest = iter([*tokens, ""])
    powers, token = _product(next(rest), rest)
    if token:
        raise ValueError(_FORM)
    if len(powers) > _MAX_NAMES or any(abs(power) > _MAX_POWER for _, power in powers):
        raise ValueError(f"give at most {_MAX_NAMES} names, with powers up to {_MAX_POWER:g}")
    return powers


def _product(token: str, rest: Iterator[str]) -> tuple[list[tuple[str, float]], str]:
    """Returns the factors from `token` on, from left to right, and the token after them."""
    powers: list[tuple[str, float]] = []
    side = 1.0
    while True:
        if token == "(":
            factor, token = _product(next(rest), rest)
            if token != ")":
                raise ValueError(_FORM)
        elif token == "1":
            factor = []
        elif token[:1].isalpha() or token[:1] in ("_", "%", "°"):
            factor = [(token, 1.0)]
        else:
            raise ValueError(_FORM)
        power, token = _power(next(rest), rest)
        powers += [(name, side * power * own) for name, own in factor]
        if token in ("", ")"):
            return powers, token
        side = -1.0 if token in ("/", "per") else 1.0
        if token in ("*", "/", "·", "⋅", "per"):
            token = next(rest)


def _power(token: str, rest: Iterator[str]) -> tuple[float, str]:
    if token not in ("**", "^"):
        return 1.0, token
    token = next(rest)
    closing = token == "("
    if closing:
        token = next(rest)
    try:
        power = float(token)
    except ValueError:
        raise ValueError(_FORM) from None
    token = next(rest)
    if closing and token == "/":  # m^(1/2)
        try:
            power /= float(next(rest))
        except (ValueError, ZeroDivisionError):
            raise ValueError(_FORM) from None
        token = next(rest)
    if closing and token != ")":
        raise ValueError(_FORM)
    return power, next(rest) if closing else token


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
    common = 1.0 if str(unit) == expected else COMMON.get((str(unit), expected))
    if common is not None:
        return common * value
    target_factor, target_offset, target = unit_scale(expected)
    try:
        factor, offset, dimension = unit_scale(str(unit))
    except ValueError as error:
        raise InputError(f"{where}: {error}; write one of the dimension of '{expected}'") from None
    if dimension != target:
        raise InputError(f"{where}: unit {quote(unit)} does not fit, expected one of the dimension of '{expected}'")
    return (factor * value + offset - target_offset) / target_factor
