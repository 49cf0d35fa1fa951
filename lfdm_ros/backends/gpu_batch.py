"""Batches of vehicles on NVIDIA's GPUs: the kernel of the processor's batches with a thread for each vehicle.

A thread runs its vehicle through all samples, with the state in registers; memory is read at samples only.
"""

from collections.abc import Callable
from ctypes import c_double, c_int64

import numpy as np

from lfdm_ros.backends.casadi_backend import casadi_model
from lfdm_ros.backends.gpu_launch import TABLE_POINTERS, VEHICLES, ByVehicle, GpuKernel, Result, Shared
from lfdm_ros.backends.steps import HALF_IMPLICIT, step_of
from lfdm_ros.backends.trajectory_kernels import batch_text
from lfdm_ros.compiler.machine_code import GPU, assembly
from lfdm_ros.errors import InputError
from lfdm_ros.models import Model

REALS = {"float64": "double", "float32": "float"}


def batch_ptx(model: Model, precision: str, separate_inputs: bool, prescribed: tuple[str, ...] = ()) -> str:
    """Returns the PTX module of a model's batch kernel. Raises InputError: the model calls functions that have no instructions there."""
    real = REALS[precision]
    driven = [[field.name for field in model.states].index(name) for name in prescribed]
    return ptx_of(model, f"batch {real} {separate_inputs} {driven}",
                  lambda: batch_text(model, real, separate_inputs, HALF_IMPLICIT, 1, driven, threads=True))


def ptx_of(model: Model, key: str, text: Callable[[], str]) -> str:
    """Returns the PTX of a model's kernel, by a key from the code cache. Raises InputError: the model calls functions that have no
    instructions there."""
    ptx = assembly(f"gpu {casadi_model(model).digest} {key}", text, GPU)
    called = sorted({line.split()[-1].rstrip("(,") for line in ptx.splitlines() if line.strip().startswith(".extern .func")})
    if called:
        raise InputError(f"model '{model.name}' calls {', '.join(called)}, for which a GPU has no instructions; run on the processor "
                         "(backend cpu)")
    return ptx


def table_columns(model: Model) -> tuple[int, ...]:
    """Returns the columns of the parameters that are numbers of tables. Raises InputError: the model computes such a number."""
    graph = step_of(model, HALF_IMPLICIT).graph
    columns = {node: column for column, node in enumerate(graph.inputs[2])}
    numbers = {node.arguments[0] for node in graph.nodes if node.operation == "table"}
    if not numbers <= columns.keys():
        raise InputError(f"model '{model.name}' computes which table it reads; run on the processor (backend cpu)")
    return tuple(sorted(columns[node] for node in numbers))


class GpuBatch:
    """Runs batches of one model as `RunBatch` says. Raises InputError: no GPU, or the driver fails; with the reason in one line."""

    def __init__(self, model: Model, precision: str, separate_inputs: bool, prescribed: tuple[str, ...]):
        self._separate, self._tables, self._real = separate_inputs, table_columns(model), REALS[precision]
        self._kernel = GpuKernel(batch_ptx(model, precision, separate_inputs, prescribed), "batch")

    @property
    def resident(self) -> int:
        """Vehicles that all GPUs hold at a time."""
        return self._kernel.resident

    def __call__(self, parameters: np.ndarray, start: np.ndarray, inputs: np.ndarray, hold: bool, substeps: int, h: float,
                 rows: np.ndarray, observed: np.ndarray, keep: bool) -> tuple[np.ndarray, np.ndarray | None]:
        samples, channels, n = len(inputs), len(rows), parameters.shape[1]
        sums, kept = np.empty((channels, n)), np.empty((samples if keep else 0, channels, n))
        if n and channels:
            self._kernel.run([
                ByVehicle(parameters, self._tables, self._real), ByVehicle(start), (ByVehicle if self._separate else Shared)(inputs),
                Shared(rows), Shared(observed), Result(sums), Result(kept), VEHICLES, *map(c_int64, (samples, substeps, channels, 0)),
                VEHICLES, c_double(h), c_double(0.0 if hold else 1.0 / substeps), TABLE_POINTERS], substeps * (samples - 1))
        return sums.T, kept.transpose(2, 0, 1) if keep else None
