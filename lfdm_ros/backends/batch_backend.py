"""Back ends of batches: the processor's machine code, NVIDIA's GPUs, and those that other packages register."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, Protocol

import numpy as np

from lfdm_ros import plugins
from lfdm_ros.backends.gpu_batch import REALS, GpuBatch
from lfdm_ros.backends.trajectory_kernels import batch_kernel, cores, once, run_batch
from lfdm_ros.errors import InputError, prefixing
from lfdm_ros.models import Model

Run = Callable[..., tuple[np.ndarray, np.ndarray | None]]  # `RunBatch`


class QuickerBatch:
    """Batches on the processor or the GPU, whichever is faster for their size; both are timed once per model.

    The two differ in the last bits, and the choice depends on the load of the machine: name one of them for reproducible runs.
    Without a usable GPU all run on the processor, with the reason on stderr.
    """

    MIN_VEHICLES = 256  # of a batch on the GPU
    _STEPS = 100  # of a measurement

    def __init__(self, cpu: Run, make_gpu: Callable[[], Any]):
        """Stores the processor's `RunBatch` and a function that makes the GPU's or raises InputError."""
        self._cpu, self._make_gpu = cpu, make_gpu
        self._costs: tuple[float, float, float] | None = None

    @cached_property
    def _gpu(self) -> Any:
        try:
            return self._make_gpu()
        except InputError as error:
            _report(f"note: back end auto: {error}; batches run on the processor")
            return None

    def __call__(self, parameters: np.ndarray, start: np.ndarray, inputs: np.ndarray, hold: bool, substeps: int, h: float,
                 rows: np.ndarray, observed: np.ndarray, keep: bool) -> tuple[np.ndarray, np.ndarray | None]:
        arguments = (parameters, start, inputs, hold, substeps, h, rows, observed, keep)
        n, steps = parameters.shape[1], substeps * (len(inputs) - 1)
        if n < self.MIN_VEHICLES or not len(rows) or self._gpu is None:
            return self._cpu(*arguments)
        try:
            if self._costs is None:
                self._costs = self._measure(arguments)
            step, launch, gpu_step = self._costs
            waves = -(-n // self._gpu.resident)
            if launch + gpu_step * steps * waves < step * steps * n:
                return self._gpu(*arguments)
        except InputError as error:
            _report(f"note: back end auto: {error}; batches run on the processor")
            self._costs = 0.0, 1.0, 0.0
        return self._cpu(*arguments)

    def _measure(self, arguments: tuple[Any, ...]) -> tuple[float, float, float]:
        """Measures the time [s] of a vehicle's step on the processor, of a launch, and of a step of all resident vehicles of the GPU."""
        parameters, start, inputs, hold, substeps, h, rows, observed, _ = arguments
        n = min(parameters.shape[1], 64 * cores())

        def seconds(run: Run, samples: int) -> float:
            table = np.ascontiguousarray(inputs[:samples, ..., :n] if inputs.ndim == 3 else inputs[:samples])
            batch_parameters, first = (np.ascontiguousarray(a[:, :n]) for a in (parameters, start))
            begin = time.perf_counter()
            run(batch_parameters, first, table, hold, substeps, h, rows, np.ascontiguousarray(observed[:samples]), False)
            return time.perf_counter() - begin

        samples = min(len(inputs), 1 + -(-self._STEPS // substeps))
        steps = substeps * (samples - 1)
        seconds(self._gpu, 1)  # loads the module
        launch = min(seconds(self._gpu, 1) for _ in range(3))
        gpu = min(seconds(self._gpu, samples) for _ in range(3))
        cpu = min(seconds(self._cpu, samples) for _ in range(3))
        return cpu / (steps * n), launch, max(gpu - launch, 0.0) / steps


@cache  # once for each reason
def _report(line: str) -> None:
    print(line, file=sys.stderr)


VARIABLE = "LFDM_BACKEND"  # default back end of batches


class RunBatch(Protocol):
    """Runs N vehicles of one model from `start` through K samples with `substeps` half-implicit steps of `h` [s] between them.

    parameters (NP, N), start (NX, N), inputs (K, NU + M) or, separate for each vehicle, (K, NU + M, N), rows (C,) int64, observed (K, C);
    all float64 in C order. Inputs are linear between samples, or constant with `hold`; the last M are prescribed states, always linear,
    the values from which each step starts. Returns sums over the samples of (state - observed)^2 of the states in `rows`, (N, C), without
    NaN, and with `keep` these states at the samples, (N, K, C); views of arrays whose last axis is the vehicle avoid a copy. Results of a
    vehicle that diverges are not finite. Must be thread-safe.
    """

    def __call__(self, parameters: np.ndarray, start: np.ndarray, inputs: np.ndarray, hold: bool, substeps: int, h: float,
                 rows: np.ndarray, observed: np.ndarray, keep: bool) -> tuple[np.ndarray, np.ndarray | None]: ...


@dataclass(frozen=True)
class BatchBackend:
    """Back end of batches: compile(model, precision, separate_inputs, prescribed) returns a `RunBatch`, cached by its arguments.

    precision: float64 or float32; separate_inputs: each vehicle has its own; prescribed: names of M states. `compile` raises InputError
    for an unsupported machine or model, with the reason and the remedy.
    """

    name: str
    description: str
    compile: Callable[[Model, str, bool, tuple[str, ...]], RunBatch]


def _compile_for_cpu(model: Model, precision: str, separate_inputs: bool, prescribed: tuple[str, ...]) -> RunBatch:
    return partial(run_batch, batch_kernel(model, REALS[precision], separate_inputs=separate_inputs, prescribed=prescribed))


def _compile_for_quicker(model: Model, precision: str, separate_inputs: bool, prescribed: tuple[str, ...]) -> RunBatch:
    arguments = model, precision, separate_inputs, prescribed
    return QuickerBatch(_compile_for_cpu(*arguments), partial(GpuBatch, *arguments))


CPU = BatchBackend("cpu", "machine code for this processor: vehicles in SIMD lanes, on all cores", _compile_for_cpu)
GPU = BatchBackend("gpu", "NVIDIA GPUs, one thread per vehicle; Turing (2018) or later; needs the driver only", GpuBatch)
AUTO = BatchBackend("auto", "each batch on the processor or the GPU, whichever is faster for its size, measured here", _compile_for_quicker)
BACKENDS: plugins.Door[BatchBackend] = plugins.Door("back end", "lfdm_ros.backends", BatchBackend, "compile", CPU, GPU, AUTO)
register_backend = BACKENDS.register


def default_backend() -> str:
    """Returns the name in LFDM_BACKEND, by default the processor's. Raises InputError: no such back end."""
    return BACKENDS.find(os.environ.get(VARIABLE) or CPU.name, VARIABLE).name


@once
def compile_batch(backend: str, model: Model, precision: str, separate_inputs: bool, prescribed: tuple[str, ...]) -> RunBatch:
    """Compiles batches of a model with a back end by name, cached. Raises InputError: an unknown back end, or one that does not support
    this model, precision or machine."""
    with prefixing(f"back end {backend}"):
        return BACKENDS.find(backend).compile(model, precision, separate_inputs, prescribed)
