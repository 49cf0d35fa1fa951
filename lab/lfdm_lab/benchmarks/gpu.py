"""Batches on a GPU: registers and spills of their kernels, an arithmetic bound of the speed, and, with a GPU, the speed.

`lfdm bench gpu`. The CUDA assembler is that on the PATH or of the wheel nvidia-cuda-nvcc-cu12, for ARCHITECTURE. The bound is that of an
H200: 132 SMs at 1.83 GHz with 64 double or 128 single precision operations each, a division counted as ten and a root as eleven (both are
sequences of multiplications).
"""

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

from lfdm_lab.benchmarks import _subjects as subjects
from lfdm_lab.benchmarks.batch import PROFILE, SAMPLE, SPEED, STEP, parameters_of
from lfdm_lab.benchmarks.risk import VEHICLE, example
from lfdm_lab.cli.bench import Measurement
from lfdm_ros.backends.gpu_batch import REALS, batch_ptx, common_of
from lfdm_ros.backends.gpu_launch import usable_devices
from lfdm_ros.errors import InputError
from lfdm_ros.sharing.risk import RiskRollouts, RiskSettings
from lfdm_ros.simulation import BatchRollout, initial_state

ARCHITECTURE = "sm_90"
SMS, CLOCK, UNITS = 132, 1.83e9, {"float64": 64, "float32": 128}  # of an H200 SXM: by SM and clock, a fused multiply-add as one
COSTS = {"div": 10, "rcp": 10, "sqrt": 11}
ARITHMETIC = ("add", "sub", "mul", "fma", "neg", "abs", "min", "max", "div", "rcp", "sqrt", "setp", "selp", "cvt", "copysign")
# Of a kernel: about a million vehicles for SECONDS.
VEHICLES, SECONDS = 2**20, 1.0
FEWER = (256, 1024, 4096, 16384, 65536)  # where launches are relevant
ASSESSMENTS, ROLLOUTS = 100, (1024, 16384, 65536)


@dataclass(frozen=True)
class Assembled:
    """An assembled kernel: registers per thread, bytes of spill stores and loads."""

    registers: int
    stores: int
    loads: int


def assembler() -> str:
    """Returns the path of ptxas. Raises InputError: not found."""
    found = shutil.which("ptxas")
    if found:
        return found
    package = importlib.util.find_spec("nvidia")
    for folder in (package.submodule_search_locations or []) if package else []:
        for file in sorted(Path(folder).glob("*/bin/ptxas")):
            file.chmod(file.stat().st_mode | 0o100)  # pip drops the bit
            return str(file)
    raise InputError("no assembler of CUDA: pip install nvidia-cuda-nvcc-cu12, or put ptxas on the PATH")


def assemble(ptx: str, architecture: str = ARCHITECTURE) -> Assembled:
    """Assembles a module with one kernel. Raises InputError: the assembler fails, with its message, or is not found."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        done = subprocess.run([assembler(), f"-arch={architecture}", "-v", str(source), "-o", str(source.with_suffix(".cubin"))],
                              capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"ptxas: {done.stderr.strip()[:500]}")
    registers, = re.findall(r"Used (\d+) registers", done.stderr)
    stores, loads = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", done.stderr)[0]
    return Assembled(int(registers), int(stores), int(loads))


def operations_of_step(ptx: str) -> int:
    """Returns the arithmetic operations of one step, weighted by COSTS: those of the innermost loop with the bulk of them."""
    lines = [line.strip() for line in ptx.splitlines()]
    places = {line[:-1]: i for i, line in enumerate(lines) if line.endswith(":")}
    loops = []
    for end, line in enumerate(lines):
        jump = re.search(r"\bbra(?:\.uni)?\s+(\S+);", line)
        if jump and places.get(jump[1], end) < end:
            loops.append((places[jump[1]], end))

    def cost(begin: int, end: int) -> int:
        names = (re.match(r"(?:@!?%p\d+\s+)?([a-z]+)\S*\.(f64|f32)\b", line) for line in lines[begin:end])
        return sum(COSTS.get(name[1], 1) for name in names if name and name[1] in ARITHMETIC)

    whole = cost(0, len(lines))
    inner = [(end - begin, cost(begin, end)) for begin, end in loops if cost(begin, end) > 0.3 * whole]
    return min(inner)[1] if inner else whole


def measure(runs: int, only: str = "*") -> list[Measurement]:
    """Measures the models MODEL/TYRE that match `only`; without a GPU or an assembler their figures are left out, with a line on stderr.
    Raises InputError: no model matches."""
    chosen = [subject for subject in (*subjects.SUBJECTS, subjects.MULTIBODY) if fnmatch(subject.name, only)]
    if not chosen:
        raise InputError(f"--only {only}: matches none of {', '.join(subject.name for subject in subjects.SUBJECTS)}")
    records = []
    try:
        assembler()
        records += [record for subject in chosen for record in _kernels(subject)]
    except InputError as error:
        print(f"registers and bounds are left out: {error}", file=sys.stderr)
    try:
        names = [device.name for device in usable_devices()]
    except InputError as error:
        print(f"speed is not measured: {error}", file=sys.stderr)
        return records
    print(f"on {', '.join(names)}", file=sys.stderr)
    for subject in chosen:
        records += _speed(subject, runs)
    return records + _risk(runs)


def _kernels(subject: subjects.Subject) -> list[Measurement]:
    records = []
    for precision in UNITS:
        ptx = kernel_of(subject, precision)
        assembled, step = assemble(ptx), operations_of_step(ptx)
        for name, value, unit in (("registers", assembled.registers, "1"), ("spill_loads", assembled.loads, "B"), ("operations", step, "1"),
                                  ("bound", SMS * CLOCK * UNITS[precision] / step, "1/s")):
            records.append(Measurement.of(f"{name}/{subject.name}/{precision}", [value], unit))
    return records


def kernel_of(subject: subjects.Subject, precision: str) -> str:
    """Returns the PTX for vehicles that differ in the parameters of `lfdm bench batch`."""
    names = [field.name for field in subject.model.parameters]
    columns = tuple(sorted(names.index(name) for name in parameters_of(subject)))
    return batch_ptx(subject.model, precision, False, (), common_of(subject.model, columns, REALS[precision]))


def _speed(subject: subjects.Subject, runs: int) -> list[Measurement]:
    """Measures steps per second, including transfers from and to NumPy arrays, on the GPU and on this processor."""
    vehicle, varied = subject.vehicle, parameters_of(subject)
    times = np.arange(0.0, SECONDS + SAMPLE / 2, SAMPLE)
    base = np.array([vehicle.parameters[name] for name in varied])
    theta = base * np.random.default_rng(1).uniform(0.8, 1.2, (VEHICLES, len(base)))
    x0, observed = initial_state(subject.model, vehicle, vx=SPEED), np.full((len(times), 1), np.nan)
    records = []

    def rate(rollout: BatchRollout, count: int) -> float:
        began = time.perf_counter()
        rollout.squared_errors(theta[:count], x0, observed)
        return count * round(SECONDS / STEP) / (time.perf_counter() - began)

    for precision in UNITS:
        for backend, counts in (("gpu", (*FEWER, VEHICLES)), ("cpu", FEWER)):
            rollout = BatchRollout(model=subject.model, vehicle=vehicle, dt=STEP, times=times, inputs=PROFILE.sample(times),
                                   parameters=varied, channels=["vx"], precision=precision, backend=backend)
            for count in counts:
                rate(rollout, count)
                records.append(Measurement.of(f"steps/{subject.name}/{precision}/{backend}/{count}",
                                              [rate(rollout, count) for _ in range(runs)], "1/s"))
    return records


def _risk(runs: int) -> list[Measurement]:
    """Measures the time of a decision with all rollouts of both intentions over 3 s [ms]."""
    records, situation = [], example()
    for count in ROLLOUTS:
        for backend in ("gpu", "cpu"):
            rollouts = RiskRollouts(VEHICLE, RiskSettings(clear=0.0, rollouts=count, first_rollouts=count, backend=backend))
            rollouts.assess(situation)

            def once(risk: RiskRollouts = rollouts) -> float:
                began = time.perf_counter()
                for _ in range(ASSESSMENTS):
                    risk.assess(situation)
                return 1e3 * (time.perf_counter() - began) / ASSESSMENTS

            records.append(Measurement.of(f"risk_ms/2x{count}/{backend}", [once() for _ in range(runs)], "ms"))
    return records
