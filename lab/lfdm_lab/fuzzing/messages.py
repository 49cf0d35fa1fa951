"""Hostile messages: extreme numbers, NaN, odd lengths, strange texts, wrong stamps, invalid bytes."""

from random import Random
from typing import Any

import numpy as np
from rosbags.interfaces import Nodetype

from lfdm_lab.fuzzing.trees import INTEGERS, NUMBERS, TEXTS, corrupt
from lfdm_ros.bags.typestore import build_message, typestore

_LENGTHS = (0, 1, 2, 7, 360, 5000)
HUGE = 100_000  # elements of a long sequence
# Plausible numbers for the other fields.
_USUAL = (0.0, 0.1, -0.1, 1.0, 5.0, 20.0)


def hostile_cdr(msgtype: str, rng: Random, now_ns: int = 0) -> tuple[bytes, str]:
    """Returns a message of a type in CDR, and a description of its odd values; now_ns: a plausible stamp."""
    values, description = hostile_values(msgtype, rng, now_ns)
    cdr = bytes(typestore().serialize_cdr(build_message(msgtype, values), msgtype))
    if rng.random() < 0.1:
        damaged, mode = corrupt(cdr, rng)
        return damaged, f"{description}; bytes {mode}"
    return cdr, description


def hostile_values(msgtype: str, rng: Random, now_ns: int = 0) -> tuple[dict[str, Any], str]:
    """Returns a message's content as nested dictionaries, and a description of its odd values."""
    mode = rng.choice(("one odd", "some odd", "all odd", "one number everywhere"))
    share = {"one odd": 0.0, "some odd": 0.2, "all odd": 1.0, "one number everywhere": 1.0}[mode]
    number = rng.choice(NUMBERS) if mode == "one number everywhere" else None
    values = _message(msgtype, rng, share, number, now_ns, depth=0)
    if mode == "one odd":
        leaves = _leaves(msgtype)
        if leaves:
            path, base = rng.choice(leaves)
            _put(values, path, hostile_base(base, rng))
            return values, f"{'.'.join(path)} = {_get(values, path)!r:.60}"
    return values, mode if number is None else f"{number!r} in every number"


def _message(msgtype: str, rng: Random, share: float, number: float | None, now_ns: int, depth: int) -> dict[str, Any]:
    if msgtype == "builtin_interfaces/msg/Time":
        return _stamp(rng, share, now_ns)
    fields = typestore().fielddefs[msgtype][1]
    return {name: _field(description, rng, share, number, now_ns, depth) for name, description in fields}


def _field(description: Any, rng: Random, share: float, number: float | None, now_ns: int, depth: int) -> Any:
    kind, detail = description
    if kind == Nodetype.NAME:
        return _message(detail, rng, share, number, now_ns, depth + 1)
    if kind == Nodetype.BASE:
        return hostile_base(detail[0], rng, number, depth == 0) if rng.random() < share else _plain(detail[0], rng)
    element, size = detail
    if kind == Nodetype.ARRAY:
        length = size
    else:
        length = rng.choice((*_LENGTHS, HUGE)) if depth == 0 and rng.random() < max(share, 0.3) else rng.choice((0, 1, 3))
        length = min(length, size) if size else length
    few = [_field(element, rng, share, number, now_ns, depth + 1) for _ in range(min(length, 16))]
    if element[0] == Nodetype.BASE and element[1][0] != "string":
        return _array(element[1][0], few, length)
    if element[0] == Nodetype.NAME:
        built = [build_message(element[1], one) for one in few]
        return [built[i % len(built)] for i in range(length)] if built else []
    return [few[i % len(few)] for i in range(length)] if few else []


def _array(base: str, few: list[Any], length: int) -> np.ndarray:
    kind = {"byte": "int8", "char": "uint8"}.get(base, base)
    return np.resize(np.array(few, dtype=kind), length) if few else np.zeros(0, dtype=kind)


def _stamp(rng: Random, share: float, now_ns: int) -> dict[str, int]:
    if rng.random() >= max(share, 0.1):
        return {"sec": now_ns // 10**9, "nanosec": now_ns % 10**9}
    return {"sec": rng.choice((0, -1, 2**31 - 1, -(2**31), now_ns // 10**9 - 1, now_ns // 10**9 + 3600)),
            "nanosec": rng.choice((0, 1, 999_999_999, 10**9, 2**32 - 1))}


def _plain(base: str, rng: Random) -> Any:
    if base == "string":
        return ""
    return rng.choice(_USUAL) if base in ("float32", "float64") else False if base == "bool" else rng.choice((0, 1))


def hostile_base(base: str, rng: Random, number: float | None = None, long: bool = True) -> Any:
    """Returns a value of a primitive type.

    Args:
        number: value of a floating-point number; None: any.
        long: texts may be very long.
    """
    if base in ("float32", "float64"):
        value = rng.choice(NUMBERS) if number is None else number
        if base == "float32" and np.isfinite(value):
            value = float(np.clip(value, -3.4028234663852886e38, 3.4028234663852886e38))
        return value
    if base == "bool":
        return rng.random() < 0.5
    if base in ("string", "wstring"):
        text = rng.choice(TEXTS)
        return text if long else text[:300]
    info = np.iinfo({"byte": "int8", "char": "uint8"}.get(base, base))  # rosbags writes a byte as a signed one
    return min(max(rng.choice(INTEGERS), int(info.min)), int(info.max))


def _leaves(msgtype: str, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], str]]:
    found = []
    for name, (kind, detail) in typestore().fielddefs[msgtype][1]:
        if kind == Nodetype.NAME:
            found += _leaves(detail, (*path, name))
        elif kind == Nodetype.BASE:
            found.append(((*path, name), detail[0]))
    return found


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        values = values[name]
    values[path[-1]] = value


def _get(values: dict[str, Any], path: tuple[str, ...]) -> Any:
    for name in path:
        values = values[name]
    return values
