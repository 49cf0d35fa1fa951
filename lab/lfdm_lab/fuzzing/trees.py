"""Damage to documents of YAML and JSON: in their text, or in their content."""

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

import yaml

from lfdm_lab.fuzzing.corruption import corrupt
from lfdm_lab.fuzzing.values import hostile_text, hostile_value

_MARK = "hostile_text_goes_here"


def damaged_yaml(text: str, rng: Random) -> tuple[bytes, str]:
    """Returns a document of YAML with one or a few faults, and a description of them."""
    if rng.random() < 0.2:
        damaged, what = corrupt(text.encode(), rng)
        return damaged, f"text {what}"
    document = yaml.safe_load(text)
    inserted = ""
    if rng.random() < 0.5:
        inserted = hostile_text(rng)
        document, what = mutated(document, rng, lambda _: _MARK)
        what += f" {inserted[:60]!r}"
    else:
        document, what = mutated(document, rng)
    written = yaml.safe_dump(document, allow_unicode=True, sort_keys=False)
    return written.replace(_MARK, inserted).encode("utf-8", "replace"), what


def damaged_json(text: str, rng: Random) -> tuple[bytes, str]:
    """Returns a document of JSON with one or a few faults, and a description of them."""
    if rng.random() < 0.3:
        damaged, what = corrupt(text.encode(), rng)
        return damaged, f"text {what}"
    document, what = mutated(json.loads(text), rng)
    return _json(document).encode("utf-8", "replace"), what


def mutated(document: Any, rng: Random, value: Callable[[Random], Any] = hostile_value) -> tuple[Any, str]:
    """Returns a copy of a document with one place changed (now and then four): replaced, removed, renamed, doubled or moved; and the
    changes."""
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
        here = f"{path}.{key}" if path else str(key)
        found.append((node, key, here))
        found += _places(node[key], here)
    return found


def _json(document: Any) -> str:
    try:
        return json.dumps(document)  # NaN and Infinity as Python writes them: no JSON, but common
    except (TypeError, ValueError):  # keys of several kinds, numbers too long to write
        return repr(document) if not isinstance(document, int) else "9" * 5000
