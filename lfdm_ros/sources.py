"""What a result depends on besides its inputs: the sources that made it. The one way to key what is kept of studies and calibrations.

A version says nothing while somebody works on a tyre. So a key is a hash of the texts themselves: of the rooms of this package that take
part, of what is registered from outside, and of the versions of the libraries that compute.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import marshal
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from lfdm_ros import plugins

PACKAGE = Path(__file__).resolve().parent
LIBRARIES = ("numpy", "scipy", "casadi", "llvmlite", "numba", "pymc", "pytensor")
# The rooms that every simulation goes through.
SIMULATING = ("models", "backends", "compiler", "vehicles", "simulation", "bounds", "units", "documents", "products")


def key_of(what: Mapping[str, Any], rooms: Iterable[str], leave_out: Iterable[str] = ()) -> str:
    """Hash of all that a result depends on.

    Args:
        what: its inputs, as JSON.
        rooms: folders and modules of this package that take part.
        leave_out: modules in them that only show results.
    """
    own = package_digest(rooms, leave_out)
    return hashlib.sha256(json.dumps([own, _outside(plugins.makers()), _versions(), what], sort_keys=True).encode()).hexdigest()


def package_digest(rooms: Iterable[str], leave_out: Iterable[str] = ()) -> str:
    """Hash of the sources of rooms of this package, and of the Python that runs them."""
    return _package_digest(PACKAGE, tuple(rooms), frozenset(leave_out))


@cache
def _package_digest(package: Path, rooms: tuple[str, ...], leave_out: frozenset[str]) -> str:
    digest = hashlib.sha256(sys.version.encode())
    for room in rooms:
        files = sorted((package / room).rglob("*.py")) or [package / f"{room}.py"]
        for path in files:
            if path.stem not in leave_out:
                digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


@cache
def _versions() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return found


@cache
def _outside(makers: tuple[Callable[..., Any], ...]) -> str:
    """Of what is registered from outside: read once, since what is loaded stays as it is."""
    parts: set[tuple[str, str]] = set()
    for maker in makers:
        texts = {path.name: path.read_bytes() for path in _files(maker)} or {"": marshal.dumps(getattr(maker, "__code__", None))}
        parts |= {(name, hashlib.sha256(text).hexdigest()) for name, text in texts.items()}
    return json.dumps(sorted(parts))


def _files(maker: Callable[..., Any]) -> list[Path]:
    """The file of a function or class, with its whole package or what is loaded of its folder; none of what was typed in."""
    try:
        path = Path(inspect.getsourcefile(maker) or "")
    except TypeError:
        return []
    if not path.is_file():
        return []
    top = path.parent
    if (top / "__init__.py").is_file():
        while (top.parent / "__init__.py").is_file():
            top = top.parent
        return sorted(top.rglob("*.py"))
    loaded = {Path(file) for module in tuple(sys.modules.values()) if (file := getattr(module, "__file__", None))}
    return sorted({path, *(other for other in loaded if other.parent == top and other.suffix == ".py" and other.is_file())})
