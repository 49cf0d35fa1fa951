"""Messages, requests and goals as plain values, as YAML has them."""

import array
from collections.abc import Mapping
from typing import Any

import numpy as np
import yaml

from lfdm_ros.errors import InputError, quote
from lfdm_ros.ros.topics import interface_class

LONG = 128  # displayed elements of a list by default


def plain(value: Any, longest: int | None = None) -> Any:
    """Converts a message to mappings, lists, numbers and texts; of a list the first `longest` elements, and how many there are."""
    if hasattr(value, "get_fields_and_field_types"):
        return {name: plain(getattr(value, name), longest) for name in value.get_fields_and_field_types()}
    if isinstance(value, (list, tuple, array.array, np.ndarray)):
        shown = [plain(one, longest) for one in (value if longest is None else value[:longest])]
        return shown if len(shown) == len(value) else [*shown, f"... {len(value)} in all"]
    if isinstance(value, bytes):
        return list(value)
    return value.item() if isinstance(value, np.generic) else value


def as_yaml(value: Any, longest: int | None = None) -> str:
    """Formats a message, or a part of one, as YAML; `longest` as in `plain`."""
    return yaml.safe_dump(plain(value, longest), sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)


def part(value: Any, path: str) -> Any:
    """Returns the part of a message at a path such as "pose.position.x" or "wheel_speeds[2]". Raises InputError: there is no such part; the
    message says which there are."""
    for name in path.replace("[", ".").replace("]", "").split("."):
        fields = value.get_fields_and_field_types() if hasattr(value, "get_fields_and_field_types") else ()
        if name in fields:
            value = getattr(value, name)
        elif not fields and name.isdigit() and hasattr(value, "__len__") and int(name) < len(value):
            value = value[int(name)]
        else:
            there = (f"there are: {', '.join(fields)}" if fields else
                     f"it has {len(value)} elements" if hasattr(value, "__len__") else "it has no parts")
            raise InputError(f"{path}: no {quote(name)} there; {there}")
    return value


def filled(kind: Any, values: Any, where: str = "") -> Any:
    """Makes a message of a class, with the values of a mapping. Raises InputError: a field that it does not have, or a value of another
    type; the message names it."""
    if not isinstance(values, Mapping):
        raise InputError(f"{where or 'request'}: {quote(values)} is no mapping of fields; give {{field: value}}")
    message = kind(check_fields=True)  # else a text passes for a number
    kinds = message.get_fields_and_field_types()
    for name, value in values.items():
        here = f"{where}.{name}" if where else str(name)
        if name not in kinds:
            raise InputError(f"{here}: no such field; there are: {', '.join(kinds) or 'none'}")
        try:
            setattr(message, name, _converted(getattr(message, name), kinds[name], value, here))
        except (AssertionError, TypeError, ValueError, OverflowError):
            raise InputError(f"{here}: {quote(value)} is not of type {kinds[name]}") from None
    return message


def _converted(present: Any, kind: str, value: Any, where: str) -> Any:
    if hasattr(present, "get_fields_and_field_types"):
        return filled(type(present), value, where)
    element = kind.removeprefix("sequence<").removesuffix(">").split(",")[0].split("[")[0]
    if element != kind:
        if isinstance(value, array.array):  # numbers by the thousand, of the message's own type
            return value
        if not isinstance(value, list):
            raise ValueError(kind)
        package, slash, name = element.partition("/")
        if slash:
            return [filled(interface_class(f"{package}/msg/{name}"), one, f"{where}[{k}]") for k, one in enumerate(value)]
        return [_number(element, one) for one in value]
    return _number(kind, value)


def _number(kind: str, value: Any) -> Any:
    return float(value) if kind in ("double", "float") and isinstance(value, int) and not isinstance(value, bool) else value
