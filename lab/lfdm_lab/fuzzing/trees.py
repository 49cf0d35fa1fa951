"""Damage to bytes, to YAML and JSON documents (text or content), and unexpected values."""

import copy
import json
import math
import struct
from collections.abc import Callable
from random import Random
from typing import Any

import yaml

MAX_SMALL_DAMAGE = 64  # bytes


def corrupt(content: bytes, rng: Random) -> tuple[bytes, str]:
    """Returns the content with one kind of damage, and its description."""
    kinds = (_truncate, _flip, _zero, _scramble, _drop, _duplicate, _swap, _append, _length)
    return rng.choice(kinds)(content, rng) if content else (bytes(rng.randrange(1, MAX_SMALL_DAMAGE)), "zeros in the place of nothing")


def _piece(content: bytes, rng: Random) -> tuple[int, int]:
    """Draws a range, mostly small, at times up to a quarter of the content."""
    start = rng.randrange(len(content))
    longest = MAX_SMALL_DAMAGE if rng.random() < 0.7 else max(1, len(content) // 4)
    return start, min(len(content), start + rng.randint(1, longest))


def _truncate(content: bytes, rng: Random) -> tuple[bytes, str]:
    end = rng.choice((rng.randrange(len(content)), rng.randrange(min(MAX_SMALL_DAMAGE, len(content))), len(content) - 1))
    return content[:end], f"truncated to {end} of {len(content)} bytes"


def _flip(content: bytes, rng: Random) -> tuple[bytes, str]:
    damaged = bytearray(content)
    places = [rng.randrange(len(content)) for _ in range(rng.choice((1, 1, 2, 16)))]
    for place in places:
        damaged[place] ^= 1 << rng.randrange(8)
    return bytes(damaged), f"bits flipped at {_listed(places)}"


def _zero(content: bytes, rng: Random) -> tuple[bytes, str]:
    start, end = _piece(content, rng)
    return content[:start] + bytes(end - start) + content[end:], f"zeros at [{start}, {end})"


def _scramble(content: bytes, rng: Random) -> tuple[bytes, str]:
    start, end = _piece(content, rng)
    return content[:start] + rng.randbytes(end - start) + content[end:], f"random bytes at [{start}, {end})"


def _drop(content: bytes, rng: Random) -> tuple[bytes, str]:
    start, end = _piece(content, rng)
    return content[:start] + content[end:], f"dropped [{start}, {end})"


def _duplicate(content: bytes, rng: Random) -> tuple[bytes, str]:
    start, end = _piece(content, rng)
    return content[:end] + content[start:end] + content[end:], f"twice [{start}, {end})"


def _swap(content: bytes, rng: Random) -> tuple[bytes, str]:
    start, end = _piece(content, rng)
    middle = (start + end) // 2
    return content[:start] + content[middle:end] + content[start:middle] + content[end:], f"the halves of [{start}, {end}) swapped"


def _append(content: bytes, rng: Random) -> tuple[bytes, str]:
    return content + rng.randbytes(rng.choice((1, 8, 4096))), "random bytes at the end"


def _length(content: bytes, rng: Random) -> tuple[bytes, str]:
    """Overwrites 8 bytes that may be the length of a record."""
    for _ in range(200):
        place = rng.randrange(max(1, len(content) - 8))
        found = content[place:place + 8]
        if len(found) == 8 and 0 < int.from_bytes(found, "little") < len(content):
            number = rng.choice((0, 1, 2**63, len(content), int.from_bytes(found, "little") ^ (1 << rng.randrange(16))))
            return content[:place] + struct.pack("<Q", number) + content[place + 8:], f"the length at {place} is {number}"
    return _flip(content, rng)


def _listed(places: list[int]) -> str:
    return ", ".join(map(str, places[:4])) + (f" and {len(places) - 4} more" if len(places) > 4 else "")


NUMBERS: tuple[float, ...] = (
    0.0, -0.0, 1.0, -1.0, 1e-320, 1e-30, 1e5, 1e6, 1e9, -1e9, 3.4028234663852886e38, 1e300, -1e300, 1.7976931348623157e308,
    math.inf, -math.inf, math.nan)
INTEGERS = (0, 1, -1, 127, 255, 256, -32768, 65535, 2**31 - 1, -(2**31), 2**32 - 1, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1)
TEXTS = (
    "", " ", "\n", "\0", "nan", "x" * 300, "x" * 100_000, "../../..", "/", "~", "%s%n{}{0}", "'\"", "äöü ☃", "\u202e", "-", "1e999", "true")
# Texts in a YAML file, on the command line or in a bag's metadata; some of them crash or stall an unguarded YAML reader.
YAML_TEXTS = (
    "2001-13-45", "!!int abc", "!!timestamp x", "!!float x", "!!binary x", "!!python/object:os.system {}", "!!set {a, b}", "!!omap [a]",
    "9" * 5000, "-" + "9" * 400, "0x" + "f" * 400, "1e400", ".nan", ".inf", "-.inf", "1:99:99", "0o99", "~", "null", "yes", "{}", "[]",
    "[" * 5000, "{a: " * 2000, "[" * 300 + "]" * 300, "*nothing", "&a [*a]", "{<<: [1]}", "? [a]\n: b", "|", "\"", "'", "%", "@x", "`x`",
    "[&a [x,x,x,x,x,x,x,x,x], &b [*a,*a,*a,*a,*a,*a,*a,*a,*a], &c [*b,*b,*b,*b,*b,*b,*b,*b,*b], &d [*c,*c,*c,*c,*c,*c,*c,*c,*c], "
    "&e [*d,*d,*d,*d,*d,*d,*d,*d,*d], &f [*e,*e,*e,*e,*e,*e,*e,*e,*e], &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]]",
    "9**9**9**9 m", "m**(10**9)", "1/0", "m/s" * 200, "\t", "--- x", "...", "x: y: z", "\ufeff", "\x85")


def hostile_value(rng: Random) -> Any:
    """Returns a value to insert into a document."""
    return rng.choice((
        rng.choice(NUMBERS), rng.choice(INTEGERS), rng.choice(TEXTS), 10**rng.choice((30, 309, 4000)), None, True, False, [], {}, [[]],
        {"": None}, {1: 2}, [1.0, "x", None], "9**9**9**9 m", [0.0] * 2000))


def hostile_text(rng: Random) -> str:
    """Returns a YAML text, mostly one of YAML_TEXTS."""
    return rng.choice(YAML_TEXTS) if rng.random() < 0.7 else "".join(
        rng.choice(" \n-:[]{},&*!|>'\"%@`#?~0123456789eE.+xab") for _ in range(rng.choice((1, 4, 30))))


_MARK = "hostile_text_goes_here"


def damaged_yaml(text: str, rng: Random) -> tuple[bytes, str]:
    """Returns a YAML document with one or a few faults, and their description."""
    if rng.random() < 0.2:
        damaged, description = corrupt(text.encode(), rng)
        return damaged, f"text {description}"
    document = yaml.safe_load(text)
    inserted = ""
    if rng.random() < 0.5:
        inserted = hostile_text(rng)
        document, description = mutated(document, rng, lambda _: _MARK)
        description += f" {inserted[:60]!r}"
    else:
        document, description = mutated(document, rng)
    written = yaml.safe_dump(document, allow_unicode=True, sort_keys=False)
    return written.replace(_MARK, inserted).encode("utf-8", "replace"), description


def damaged_json(text: str, rng: Random) -> tuple[bytes, str]:
    """Returns a JSON document with one or a few faults, and their description."""
    if rng.random() < 0.3:
        damaged, description = corrupt(text.encode(), rng)
        return damaged, f"text {description}"
    document, description = mutated(json.loads(text), rng)
    return _json(document).encode("utf-8", "replace"), description


def mutated(document: Any, rng: Random, value: Callable[[Random], Any] = hostile_value) -> tuple[Any, str]:
    """Returns a copy of a document with one or four changes (replaced, removed, renamed, doubled, swapped), and their description."""
    document, changes = copy.deepcopy(document), []
    for _ in range(rng.choice((1, 1, 1, 4))):
        places = _places(document)
        if not places:
            return value(rng), "replaced"
        owner, key, path = rng.choice(places)
        action = rng.choice(("replace", "replace", "replace", "remove", "rename", "double", "swap"))
        if action == "remove":
            del owner[key]
        elif action == "rename" and isinstance(owner, dict):
            owner[rng.choice(("", "x", f"{key} ", f"{key}s", 1, True))] = owner.pop(key)
        elif action == "double" and isinstance(owner, list):
            owner.insert(key, copy.deepcopy(owner[key]))
        elif action == "swap":
            owner[key] = copy.deepcopy(rng.choice(places)[0])
        else:
            action = "replace"
            owner[key] = value(rng)
        changes.append(f"{action} {path}" + (f" by {repr(owner[key])[:60]}" if action == "replace" and owner[key] != _MARK else ""))
    return document, "; ".join(changes)


def _places(node: Any, path: str = "") -> list[tuple[Any, Any, str]]:
    """Lists (owner, key, path) of every value in a document."""
    keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    found = []
    for key in keys:
        inner = f"{path}.{key}" if path else str(key)
        found.append((node, key, inner))
        found += _places(node[key], inner)
    return found


def _json(document: Any) -> str:
    try:
        return json.dumps(document)  # with NaN and Infinity, which are common though not JSON
    except (TypeError, ValueError):  # keys of several types, numbers that are too long
        return repr(document) if not isinstance(document, int) else "9" * 5000
