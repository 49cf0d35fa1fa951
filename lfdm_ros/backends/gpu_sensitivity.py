"""Derivatives of many vehicles on NVIDIA's GPUs: each vehicle and direction in a thread of its own, with its trajectory."""

from ctypes import c_double, c_float, c_int64
from functools import partial

import numpy as np

from lfdm_ros.backends.casadi_backend import casadi_model
from lfdm_ros.backends.gpu_batch import REALS, table_columns
from lfdm_ros.backends.gpu_launch import TABLE_POINTERS, VEHICLES, ByVehicle, GpuKernel, Result, Shared
from lfdm_ros.backends.steps import HALF_IMPLICIT
from lfdm_ros.backends.trajectory_kernels import once, places_of, sensitivity_text
from lfdm_ros.compiler.machine_code import GPU, assembly
from lfdm_ros.models import Model


class GpuSensitivity:
    """Trajectories of N vehicles and their derivatives to parameters and initial states.

    Raises InputError: no GPU, the model calls functions that have no instructions there, or the driver fails.
    """

    def __init__(self, model: Model, parameters: tuple[str, ...], states: tuple[str, ...], prescribed: tuple[str, ...],
                 precision: str = "float64"):
        fields = [field.name for field in model.parameters]
        columns, rows, driven = [fields.index(name) for name in parameters], places_of(model, states), places_of(model, prescribed)
        self._tables, self._real, self._number = table_columns(model), REALS[precision], np.dtype(precision)
        self._kernel = GpuKernel(assembly(
            f"gpu sensitivity {casadi_model(model).digest} {self._real} {columns} {rows} {driven}",
            lambda: sensitivity_text(model, columns, rows, HALF_IMPLICIT, driven, threads=True, real=self._real), GPU), "trajectories")

    def run(self, parameters: np.ndarray, start: np.ndarray, seeds_parameters: np.ndarray, seeds_start: np.ndarray, inputs: np.ndarray,
            hold: bool, substeps: int, h: float, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Runs parameters (NP, N) from start (NX, N) in D directions, seeds (P, D) and (NX, D); inputs (K, NU + M), rows (C,).

        Returns trajectories (N, K, C) and derivatives (N, K, C, D).
        """
        n, count, shape = parameters.shape[1], seeds_parameters.shape[1], (len(inputs), len(rows))
        x, s = np.empty((*shape, n * count), self._number), np.empty((*shape, n * count), self._number)
        real = {"double": c_double, "float": c_float}[self._real]
        each, all_seeds = partial(np.repeat, repeats=count, axis=1), partial(np.tile, reps=n)

        def given(array: np.ndarray) -> np.ndarray:
            return np.ascontiguousarray(array, self._number)

        if x.size:
            self._kernel.run([
                ByVehicle(given(each(start))), ByVehicle(given(all_seeds(seeds_start))),
                ByVehicle(given(each(parameters)), self._tables, self._real), ByVehicle(given(all_seeds(seeds_parameters))),
                Shared(given(inputs)), *map(c_int64, (len(inputs), substeps)), real(h), real(0.0 if hold else 1.0 / substeps), Result(x),
                Result(s), Shared(np.empty(0)), Shared(rows), c_int64(len(rows)), VEHICLES, TABLE_POINTERS], substeps * (len(inputs) - 1))
        x, s = x.astype(float), s.astype(float)
        return x[..., ::count].transpose(2, 0, 1), s.reshape(*shape, n, count).transpose(2, 0, 1, 3)


@once
def gpu_sensitivity(model: Model, parameters: tuple[str, ...], states: tuple[str, ...], prescribed: tuple[str, ...],
                    precision: str = "float64") -> GpuSensitivity:
    """Returns the kernel of some parameters and initial states, made on first use. Raises InputError: see `GpuSensitivity`."""
    return GpuSensitivity(model, parameters, states, prescribed, precision)
