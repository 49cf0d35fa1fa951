"""Keys of cached results of studies and calibrations: hashes of inputs and of the source code that computes.

A version number does not change while a tyre model is edited. So a key hashes the source texts: of the rooms of this package that take
part, of registered plug-ins, and the versions of the numerical libraries.
"""

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
# Rooms and modules that every simulation uses.
SIMULATION_DEPENDENCIES = ("models", "backends", "compiler", "vehicles", "simulation", "bounds", "units", "documents", "numerics")


def cache_key(inputs: Mapping[str, Any], rooms: Iterable[str], leave_out: Iterable[str] = ()) -> str:
    """Returns a hash of everything that a result depends on.

    Args:
        inputs: of the computation, as JSON.
        rooms: folders and modules of this package that take part.
        leave_out: modules in them that only display results.
    """
    parts = [package_digest(rooms, leave_out), _plugin_digests(plugins.makers()), _versions(), inputs]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def package_digest(rooms: Iterable[str], leave_out: Iterable[str] = ()) -> str:
    """Returns a hash of the sources of rooms of this package and of the Python version."""
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
def _plugin_digests(makers: tuple[Callable[..., Any], ...]) -> str:
    """Returns names and hashes of the sources of plug-ins, as JSON; read once, since loaded code stays as it is."""
    parts: set[tuple[str, str]] = set()
    for maker in makers:
        texts = {path.name: path.read_bytes() for path in _files(maker)} or {"": marshal.dumps(getattr(maker, "__code__", None))}
        parts |= {(name, hashlib.sha256(text).hexdigest()) for name, text in texts.items()}
    return json.dumps(sorted(parts))


def _files(maker: Callable[..., Any]) -> list[Path]:
    """Returns the file of a function or class with its whole package, or the loaded modules of its folder; none for typed-in code."""
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
