"""Message definitions without a ROS installation: Jazzy's own, ours from msg/, and those of sourced workspaces."""

import dataclasses
import functools
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, TypesysError, get_types_from_msg, get_typestore

from lfdm_ros.errors import InputError, suggest
from lfdm_ros.resources import share_directory

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "byte", "char")
_FLOATS = ("float32", "float64")
NUMERIC = (*_INTEGERS, *_FLOATS, "bool")


@functools.lru_cache(maxsize=1)
def typestore() -> Any:
    """Returns the one rosbags typestore of this process: ROS 2 Jazzy plus every file in msg/."""
    store = get_typestore(Stores.ROS2_JAZZY)
    types: dict[str, Any] = {}
    for path in sorted((share_directory() / "msg").glob("*.msg")):
        types.update(get_types_from_msg(path.read_text(encoding="utf-8"), f"lfdm_ros/msg/{path.stem}"))
    store.register(types)
    return store


def require_type(msgtype: str) -> None:
    """Ensures that the typestore has `msgtype`, reading the .msg files of sourced workspaces if needed. Raises InputError: the definition
    is not installed, or cannot be parsed."""
    store = typestore()
    if msgtype in store.fielddefs:
        return
    found: dict[str, Any] = {}
    pending = [msgtype]
    while pending:
        name = pending.pop()
        if name in found or name in store.fielddefs:
            continue
        try:
            found.update(get_types_from_msg(definition_file(name).read_text(encoding="utf-8"), name))
        except TypesysError as error:
            raise InputError(f"message type {name}: its definition cannot be parsed: {error}") from None
        pending += [nested for _, description in found[name][1] if (nested := _nested(description))]
    store.register(found)


def definition_file(msgtype: str) -> Path:
    """Finds the file that defines a message type. Raises InputError: no such file, or the name is not a type."""
    match = re.fullmatch(r"(\w+)/msg/(\w+)", msgtype)
    if match is None:
        raise InputError(f"'{msgtype}' is not a message type; write it as PACKAGE/msg/NAME")
    prefixes = [Path(p) for p in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p] + [Path(sys.prefix)]
    for prefix in prefixes:
        path = prefix / "share" / match[1] / "msg" / f"{match[2]}.msg"
        if path.is_file():
            return path
    raise InputError(f"message type {msgtype} is unknown: no share/{match[1]}/msg/{match[2]}.msg in AMENT_PREFIX_PATH; "
                     "source its workspace")


def _nested(description: Any) -> str | None:
    kind, detail = description
    if kind in (Nodetype.ARRAY, Nodetype.SEQUENCE):
        kind, detail = detail[0]
    return detail if kind == Nodetype.NAME else None


def new_message(msgtype: str, real: float = 0.0) -> Any:
    """Returns a message with every field set: `real` in each floating-point number, 0, False, "" or empty elsewhere."""
    store = typestore()
    return store.types[msgtype](**{name: _default(store, description, real) for name, description in store.fielddefs[msgtype][1]})


def _default(store: Any, description: Any, real: float) -> Any:
    kind, detail = description
    if kind == Nodetype.NAME:
        return new_message(detail, real)
    if kind == Nodetype.BASE:
        base = detail[0]
        return real if base in _FLOATS else False if base == "bool" else 0 if base in _INTEGERS else ""
    element, size = detail
    length = size if kind == Nodetype.ARRAY else 0
    if element[0] == Nodetype.BASE and element[1][0] in NUMERIC:
        base = element[1][0]
        return np.full(length, real if base in _FLOATS else 0, dtype={"byte": "uint8", "char": "uint8"}.get(base, base))
    return [_default(store, element, real) for _ in range(length)]


def build_message(msgtype: str, values: Mapping[str, Any], real: float = 0.0, where: str | None = None) -> Any:
    """Builds a message from nested dictionaries; omitted fields have the defaults of `new_message`. Raises InputError: a key is not a field
    of the message."""
    where = where or msgtype
    fields = dict(typestore().fielddefs[msgtype][1])
    message = new_message(msgtype, real)
    for name, value in values.items():
        if name not in fields:
            raise InputError(f"{where}: {msgtype} has no field '{name}'{suggest(name, fields, 'it has ')}")
        current = getattr(message, name)
        if isinstance(value, Mapping):
            if not dataclasses.is_dataclass(current):
                raise InputError(f"{where}: field '{name}' of {msgtype} is not a message")
            value = build_message(fields[name][1], value, real, f"{where}.{name}")
        elif isinstance(current, np.ndarray):
            value = np.asarray(value, dtype=current.dtype)
            if fields[name][0] == Nodetype.ARRAY and value.shape != current.shape:
                raise InputError(f"{where}: field '{name}' of {msgtype} has {len(current)} elements, not {value.size}")
        setattr(message, name, value)
    return message
