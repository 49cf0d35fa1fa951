"""Compiled kernels of a model, and the cache that keeps them between processes.

numba's own cache does not see changes in functions that a kernel calls, and kernels made inside a factory never hit it. So
a small module per model is written into a folder named after a hash of everything that can change the result (sources of
models/ and backends/, versions, processor), and imported from there with numba's cache on: it can hit and cannot go stale.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numba
import numpy as np

from lfdm_ros.models import Model, get_model

_PACKAGE = Path(__file__).resolve().parent.parent
_TEMPLATE = Path(__file__).with_name("numba_kernels.txt")

# Vehicles advanced together in one SIMD block.
BLOCK = 16


@dataclass(frozen=True)
class Kernels:
    """Compiled functions of one model; x, u, p are float64 arrays in the order the model declares.

    step(x (nx,), u (nu,), p (np,), h) -> (nx,)
    rhs(x, u, p) -> (nx,)
    advance(x (nx,) changed in place, p, u0 (nu,), u1 (nu,), n, h): n steps, input linear from u0 to u1
    outputs(x, u, p, h, y (ny,) filled in place)
    batch(...): see the template
    """

    step: Callable
    rhs: Callable
    advance: Callable
    outputs: Callable
    batch: Callable


def cache_directory() -> Path:
    """The folder of compiled kernels: LFDM_CACHE_DIR, else lfdm_ros below the user's cache, else a temporary one."""
    chosen = os.environ.get("LFDM_CACHE_DIR")
    home = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lfdm_ros"
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            return home
    except OSError:
        return Path(tempfile.gettempdir()) / f"lfdm_ros_{os.getuid()}"


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for folder in ("models", "backends"):
        for path in sorted((_PACKAGE / folder).iterdir()):
            if path.suffix in (".py", ".txt"):
                digest.update(path.name.encode() + path.read_bytes())
    versions = (numba.__version__, np.__version__, sys.version, platform.machine(), str(numba.config.CPU_NAME))
    digest.update("|".join(versions).encode())
    return digest.hexdigest()[:20]


def _source(model: Model) -> str:
    def pick(array: str, fields: tuple, index: str = "") -> str:
        return "(" + ", ".join(f"{array}[{i}{index}]" for i in range(len(fields))) + ",)"

    rows = {field.name: i for i, field in enumerate(model.states)}
    places = {field.name: i for i, field in enumerate(model.outputs)}
    copies = "; ".join(f"y[{places[name]}] = x[{row}]" for name, row in rows.items() if name in places)
    first_force = places["tyre_fx_fl"]
    forces = ", ".join(f"y[{first_force + i}]" for i in range(12))
    drive = ", ".join(f"y[{places[name]}]" for name in ("gear", "engine_speed", "road_wheel_angle"))
    text = _TEMPLATE.read_text()
    for key, value in {
        "@MODEL@": model.name,
        "@PARAMETER_NAMES@": " ".join(f.name for f in model.parameters),
        "@X@": pick("x", model.states), "@U@": pick("u", model.inputs),
        "@P@": ", ".join(f"p[{i}]" for i in range(len(model.parameters))),
        "@XB@": pick("xs", model.states, ", i"),
        "@PB@": ", ".join(f"ps[{i}, i]" for i in range(len(model.parameters))),
        "@NX@": str(len(model.states)), "@NP@": str(len(model.parameters)),
        "@NU@": str(len(model.inputs)), "@BLOCK@": str(BLOCK),
        "@COPY_OUTPUTS@": copies, "@FORCES@": forces, "@DRIVE@": drive,
    }.items():
        text = text.replace(key, value)
    return text


@cache
def numba_kernels(name: str) -> Kernels:
    """The kernels of a model, compiled on first use (seconds) and loaded from the cache afterwards.

    Raises:
        InputError: no such model.
    """
    model = get_model(name)
    folder = cache_directory() / _fingerprint()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}_kernels.py"
    source = _source(model)
    if not path.is_file() or path.read_text() != source:
        # Written beside and renamed, so that two processes starting together never read half a file.
        handle, scratch = tempfile.mkstemp(dir=folder, suffix=".tmp")
        with os.fdopen(handle, "w") as file:
            file.write(source)
        os.replace(scratch, path)
    module_name = f"lfdm_kernels_{folder.name}_{name}"
    if module_name not in sys.modules:
        spec = importlib.util.spec_from_file_location(module_name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        spec.loader.exec_module(module)
    module = sys.modules[module_name]
    return Kernels(module.step, module.rhs, module.advance, module.outputs, module.batch)
