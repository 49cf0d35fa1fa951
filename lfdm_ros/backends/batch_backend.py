"""Batches of vehicles by back end: the processor's machine code, NVIDIA's GPUs, and those that other packages register."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from lfdm_ros import plugins
from lfdm_ros.backends.gpu_batch import REALS, GpuBatch
from lfdm_ros.backends.quicker_batch import QuickerBatch
from lfdm_ros.backends.trajectory_kernels import batch_kernel, once, run_batch
from lfdm_ros.errors import prefixing
from lfdm_ros.models import Model

VARIABLE = "LFDM_BACKEND"  # names the back end of batches that name none


class RunBatch(Protocol):
    """Runs N vehicles of one model from `start` through K samples with `substeps` half-implicit steps of `h` [s] between them.

    parameters (NP, N), start (NX, N), inputs (K, NU + M) or, each vehicle its own, (K, NU + M, N), rows (C,) int64, observed (K, C); all
    float64 in C order. Inputs are linear between samples, or kept with `hold`; the last M are prescribed states, always linear, from whose
    value each step starts. Returns sums over the samples of (state - observed)^2 of the states in `rows`, (N, C), NaN left out, and with
    `keep` these states at the samples, (N, K, C); views of arrays whose last axis is the vehicle cost no copy. A vehicle that diverges has
    numbers that are not finite. Called by several threads at once.
    """

    def __call__(self, parameters: np.ndarray, start: np.ndarray, inputs: np.ndarray, hold: bool, substeps: int, h: float,
                 rows: np.ndarray, observed: np.ndarray, keep: bool) -> tuple[np.ndarray, np.ndarray | None]: ...


@dataclass(frozen=True)
class BatchBackend:
    """A way to run batches: compile(model, precision, separate_inputs, prescribed) gives a `RunBatch`, once for equal arguments.

    precision: float64 or float32; separate_inputs: each vehicle has its own; prescribed: names of M states. `compile` raises InputError
    where the machine or the model is not one that it can do, with the reason and the remedy.
    """

    name: str
    description: str
    compile: Callable[[Model, str, bool, tuple[str, ...]], RunBatch]


def _compile_for_cpu(model: Model, precision: str, separate_inputs: bool, prescribed: tuple[str, ...]) -> RunBatch:
    return partial(run_batch, batch_kernel(model, REALS[precision], separate_inputs=separate_inputs, prescribed=prescribed))


def _compile_for_quicker(model: Model, precision: str, separate_inputs: bool, prescribed: tuple[str, ...]) -> RunBatch:
    arguments = model, precision, separate_inputs, prescribed
    return QuickerBatch(_compile_for_cpu(*arguments), partial(GpuBatch, *arguments))


CPU = BatchBackend("cpu", "machine code for this processor, vehicles side by side in vectors, on all cores", _compile_for_cpu)
GPU = BatchBackend("gpu", "NVIDIA's GPUs, a thread a vehicle; Turing (2018) or later, nothing to install beside the driver", GpuBatch)
AUTO = BatchBackend("auto", "each batch on the processor or the GPU, whichever is quicker by its size, measured here", _compile_for_quicker)
BACKENDS: plugins.Door[BatchBackend] = plugins.Door("back end", "lfdm_ros.backends", BatchBackend, "compile", CPU, GPU, AUTO)
register_backend = BACKENDS.register


def default_backend() -> str:
    """Returns the name in LFDM_BACKEND; without it the processor's. Raises InputError where there is no such back end."""
    return BACKENDS.find(os.environ.get(VARIABLE) or CPU.name, VARIABLE).name


@once
def compile_batch(backend: str, model: Model, precision: str, separate_inputs: bool, prescribed: tuple[str, ...]) -> RunBatch:
    """Compiles batches of a model by a back end's name, the first time. Raises InputError: an unknown back end, or one that cannot do this
    model or precision here."""
    with prefixing(f"back end {backend}"):
        return BACKENDS.find(backend).compile(model, precision, separate_inputs, prescribed)
