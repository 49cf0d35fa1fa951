"""A vehicle's step as C code: time compared with the package's machine code, by compiler options.

`lfdm bench c_code`. One vehicle swerves for SECONDS at 1 ms, in one call; processor time, the fastest of REPEATS alternating runs.
`vectors`: the wheels in vectors of gcc; `fmu`: one fmi2DoStep of the exported FMU.
"""

import ctypes
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

from lfdm_lab.benchmarks import _subjects as subjects
from lfdm_lab.cli.bench import Measurement
from lfdm_ros.backends.portable import PLACE
from lfdm_ros.backends.tick_kernel import advance_text
from lfdm_ros.compiler.c_source import c_source
from lfdm_ros.errors import InputError
from lfdm_ros.exports.library import library, own_platform
from lfdm_ros.exports.variables import exported
from lfdm_ros.simulation import Simulator

SECONDS, STEP, SPEED = 3.0, 1e-3, 15.0
REPEATS = 30
_FAST = ("-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-freciprocal-math",
         "-fno-if-conversion", *(("-mprefer-vector-width=256",) if platform.machine() == "x86_64" else ()))
# By name: wheels in vectors, compiler options.
VARIANTS = {"vectors_o3_native": (True, _FAST), "c99_o2": (False, ("-O2",)), "c99_o3_native": (False, _FAST)}
BEFORE, AFTER = np.array([0.0, 0.3, 0.0]), np.array([0.1, 0.4, 0.0])


def measure(runs: int, only: str = "*") -> list[Measurement]:
    """Measures the models that match `only`. Raises InputError: no model matches, or no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise InputError("lfdm bench c_code needs a C compiler: apt install gcc")
    chosen = [model for model in subjects.FOUR_WHEEL_MODELS if fnmatch(model, only)]
    if not chosen:
        raise InputError(f"--only {only}: matches none of {', '.join(subjects.FOUR_WHEEL_MODELS)}")
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for model in chosen:
            subject = subjects.of_chassis(model)
            calls = {"llvm": _native(subject)} | {name: _c(subject, compiler, Path(folder, f"{model}_{name}.c"), *variant)
                                                  for name, variant in VARIANTS.items()}
            calls["fmu"] = _fmu(subject, Path(folder, f"{model}.so"))
            found = [_nanoseconds(calls) for _ in range(runs)]
            for name in calls:
                records.append(Measurement.of(f"step_ns/{model}/{name}", [times[name] for times in found], "ns"))
                if name != "llvm":
                    records.append(Measurement.of(f"ratio/{model}/{name}", [times[name] / times["llvm"] for times in found], "1"))
    return records


def _nanoseconds(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    best = dict.fromkeys(calls, np.inf)
    for _ in range(REPEATS):
        for name, call in calls.items():
            began = time.process_time_ns()
            call()
            best[name] = min(best[name], (time.process_time_ns() - began) * STEP / SECONDS)
    return best


def _native(subject: subjects.Subject) -> Callable[[], object]:
    simulator = Simulator(subject.vehicle, subject.model, STEP)
    simulator.reset(vx=SPEED)
    start = simulator.state.copy()

    def call() -> None:
        simulator.state[:] = start
        simulator.advance(BEFORE, AFTER, round(SECONDS / STEP))

    return call


def _c(subject: subjects.Subject, compiler: str, source: Path, vectors: bool, options: tuple[str, ...]) -> Callable[[], object]:
    """Returns a run of the C code."""
    source.write_text(c_source(advance_text(subject.model, packing=vectors), linkage="").text, encoding="ascii")
    library = source.with_suffix(".so")
    subprocess.run([compiler, "-std=c99", *options, "-shared", "-fPIC", str(source), "-o", str(library), "-lm"], check=True)
    functions = ctypes.CDLL(str(library))
    functions.size.restype = functions.advance.restype = ctypes.c_int64
    pointer, real = ctypes.c_void_p, ctypes.c_double
    functions.advance.argtypes = [pointer] * 4 + [ctypes.c_int64, real, real]
    p, q = subject.vehicle.vector(subject.model), np.empty(functions.size())
    functions.prepare(pointer(p.ctypes.data), pointer(q.ctypes.data))
    simulator = Simulator(subject.vehicle, subject.model, STEP)
    simulator.reset(vx=SPEED)
    start, x, steps = simulator.state.copy(), simulator.state.copy(), round(SECONDS / STEP)

    def call() -> None:
        x[:] = start
        if not functions.advance(*(a.ctypes.data for a in (x, q, BEFORE, AFTER)), steps, STEP, 1.0 / steps):
            raise ValueError(f"{source.stem}: the run diverged")

    return call


def _fmu(subject: subjects.Subject, path: Path) -> Callable[[], object]:
    """Returns a run of the FMU's library: restores its state, sets inputs and their slopes, and makes one step of SECONDS."""
    export = exported(subject.vehicle, subject.model.name)
    path.write_bytes(library(export, own_platform(), "fmi2.c", "token"))
    fmi, pointer, real, size = ctypes.CDLL(str(path)), ctypes.c_void_p, ctypes.c_double, ctypes.c_size_t
    fmi.fmi2Instantiate.restype = pointer
    fmi.fmi2Instantiate.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, pointer, ctypes.c_int, ctypes.c_int]
    fmi.fmi2DoStep.argtypes = [pointer, real, real, ctypes.c_int]
    vehicle, state = pointer(fmi.fmi2Instantiate(b"vehicle", 1, b"token", None, None, 0, 0)), pointer()
    speed = (ctypes.c_uint * 1)(export.first["place"] + PLACE.index("vx"))
    fmi.fmi2SetReal(vehicle, speed, size(1), (real * 1)(SPEED))
    fmi.fmi2ExitInitializationMode(vehicle)
    inputs, orders = (ctypes.c_uint * 3)(0, 1, 2), (ctypes.c_int * 3)(1, 1, 1)
    fmi.fmi2SetReal(vehicle, inputs, size(3), (real * 3)(*BEFORE))
    fmi.fmi2SetRealInputDerivatives(vehicle, inputs, size(3), orders, (real * 3)(*((AFTER - BEFORE) / SECONDS)))
    fmi.fmi2GetFMUstate(vehicle, ctypes.byref(state))

    def call() -> None:
        fmi.fmi2SetFMUstate(vehicle, state)
        if fmi.fmi2DoStep(vehicle, 0.0, SECONDS, 0):
            raise ValueError(f"{path.stem}: the run diverged")

    return call
