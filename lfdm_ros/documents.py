"""Reading of YAML files that people write: every failure is an InputError that names file and key."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from lfdm_ros.errors import InputError
from lfdm_ros.units import to_si


def read_yaml(path: Path) -> tuple[Any, str]:
    """The document of a file and its text.

    Raises:
        InputError: the file cannot be read or is not YAML.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return yaml.safe_load(text), text
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path}: not readable YAML: {' '.join(str(error).split())}") from None


def mapping(node: Any, where: str, required: Iterable[str] = (), optional: Iterable[str] = ()) -> dict[str, Any]:
    """`node` as a mapping that has all required keys and no others than those and the optional ones.

    Raises:
        InputError: it is not.
    """
    required = tuple(required)
    allowed = (*required, *optional)
    if not isinstance(node, dict):
        raise InputError(f"{where}: expected a mapping with {', '.join(map(str, allowed))}, found {node!r}")
    for key in node:
        if key not in allowed:
            raise InputError(f"{where}: unknown key '{key}'; allowed: {', '.join(map(str, allowed))}")
    for key in required:
        if node.get(key) is None:
            raise InputError(f"{where}: missing key '{key}'")
    return dict(node)


def number(value: Any, where: str) -> float:
    """A finite number.

    Raises:
        InputError: it is something else; a boolean is.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InputError(f"{where}: expected a finite number, found {value!r}")
    return float(value)


def integer(value: Any, where: str, least: int) -> int:
    """A whole number of at least `least`.

    Raises:
        InputError: it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{where}: expected a whole number of at least {least}, found {value!r}")
    return value


def text(value: Any, where: str) -> str:
    """A text that is not empty.

    Raises:
        InputError: it is something else.
    """
    if not isinstance(value, str) or not value:
        raise InputError(f"{where}: expected a text, found {value!r}")
    return value


def quantity(node: Any, unit: str, where: str) -> tuple[float, str]:
    """A number written {value: ..., unit: ..., source: ...}, in `unit`, and its source.

    Raises:
        InputError: it is written otherwise, is not finite, or its unit does not fit.
    """
    entry = _quantity(node, unit, where)
    return float(to_si(number(entry["value"], where), str(entry["unit"]), unit, where)), str(entry.get("source", ""))


def quantities(node: Any, unit: str, where: str) -> tuple[list[float], str]:
    """As `quantity`, with a list of numbers as the value."""
    entry = _quantity(node, unit, where)
    if not isinstance(entry["value"], list):
        raise InputError(f"{where}: expected a list of numbers, found {entry['value']!r}")
    values = [number(value, where) for value in entry["value"]]
    return [float(to_si(value, str(entry["unit"]), unit, where)) for value in values], str(entry.get("source", ""))


def _quantity(node: Any, unit: str, where: str) -> dict[str, Any]:
    if not isinstance(node, dict):
        raise InputError(f"{where}: write {{value: ..., unit: {unit}, source: ...}}, not {node!r}")
    return mapping(node, where, ("value", "unit"), ("source",))
