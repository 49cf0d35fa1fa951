"""Batches of vehicles on NVIDIA's GPUs: the kernel of the processor's batches with a thread for each vehicle.

A thread runs its vehicle through all samples, state in registers; memory is read at samples only. The processor computes once what depends
on common parameters alone and passes it by value, as operands that use no registers.
"""

import threading
from ctypes import c_double, c_float, c_int64
from functools import partial

import numpy as np

from lfdm_ros.backends.casadi_backend import casadi_model
from lfdm_ros.backends.gpu_launch import RESIDENT, TABLE_POINTERS, VEHICLES, ByValue, ByVehicle, GpuKernel, Result, Shared, usable_devices
from lfdm_ros.backends.steps import HALF_IMPLICIT, step_of
from lfdm_ros.backends.trajectory_kernels import Common, batch_text, once, places_of, sensitivity_text
from lfdm_ros.compiler.emitter import LIBRARY, Code
from lfdm_ros.compiler.graph import VALUE
from lfdm_ros.compiler.machine_code import GPU, POINTER, REAL, TRIPLE, assembly, machine_code
from lfdm_ros.errors import InputError
from lfdm_ros.models import Model

REALS = {"float64": "double", "float32": "float"}
BY_VALUE = 3840  # bytes, of 4096 for all arguments of a kernel


def table_columns(model: Model) -> tuple[int, ...]:
    """Returns the columns of the parameters that are table numbers. Raises InputError: the model computes a table number, or calls
    functions without GPU instructions."""
    graph = step_of(model, HALF_IMPLICIT).graph
    called = sorted({node.operation for node in graph.nodes} & LIBRARY)
    if called:
        raise InputError(f"model '{model.name}' calls {', '.join(called)}, for which a GPU has no instructions; run on the processor "
                         "(backend cpu)")
    columns = {node: column for column, node in enumerate(graph.inputs[2])}
    numbers = {node.arguments[0] for node in graph.nodes if node.operation == "table"}
    if not numbers <= columns.keys():
        raise InputError(f"model '{model.name}' computes which table it reads; run on the processor (backend cpu)")
    return tuple(sorted(columns[node] for node in numbers))


def common_of(model: Model, columns: tuple[int, ...], real: str) -> Common:
    """Returns the common nodes of vehicles that differ in some `columns` of their parameters: those used by other nodes; if they do not all
    fit, the parameters and as many others as fit."""
    graph = step_of(model, HALF_IMPLICIT).graph
    xs, us, ps, _ = graph.inputs
    differs = graph.depends([*xs, *us, *(ps[c] for c in columns)])
    needed = graph.reachable(graph.outputs[0])
    used = sorted({a for i in needed if differs[i] for a in graph.nodes[i].arguments
                   if not differs[a] and graph.nodes[a].operation != "constant"})
    limit = BY_VALUE // {"double": 8, "float": 4}[real]
    if len(used) > limit:
        parameters = set(ps).intersection(needed).difference(ps[c] for c in columns)
        if len(parameters) > limit:
            return Common(tuple(range(len(ps))), ())
        used = sorted({*parameters, *[i for i in used if i not in parameters][:limit - len(parameters)]})
    return Common(columns, tuple(used))


def batch_ptx(model: Model, precision: str, separate_inputs: bool, prescribed: tuple[str, ...], common: Common) -> str:
    """Returns the PTX module of a model's batch kernel."""
    real = REALS[precision]
    driven = places_of(model, prescribed)
    return assembly(f"gpu batch {casadi_model(model).digest} {real} {separate_inputs} {driven} {common}",
                    lambda: batch_text(model, real, separate_inputs, 1, driven, threads=True, common=common), GPU)


def _common_text(model: Model, nodes: tuple[int, ...]) -> str:
    """Returns the LLVM module of a function that computes nodes which depend on parameters (NP,) and the step alone."""
    graph = step_of(model, HALF_IMPLICIT).graph
    code = Code(graph, {"p": "ptr", "h": "double", "out": "ptr"})
    for column, node in enumerate(graph.inputs[2]):
        code.bind(node, code.load("%p", column, code.value))
    code.bind(graph.inputs[3][0], "%h")
    code.emit(i for i in graph.reachable(nodes) if graph.nodes[i].operation != "input")
    for k, node in enumerate(nodes):
        code.store(code.get(node, VALUE), "%out", k, code.value)
    return code.text("common", TRIPLE)


class _Variant:
    """Kernel for vehicles that differ in some columns of their parameters, and the function of their common nodes."""

    def __init__(self, model: Model, precision: str, separate_inputs: bool, prescribed: tuple[str, ...], columns: tuple[int, ...]):
        self.common = common_of(model, columns, REALS[precision])
        self.kernel = GpuKernel(batch_ptx(model, precision, separate_inputs, prescribed, self.common), "batch")
        nodes, self._precision = self.common.nodes, precision
        code = machine_code(f"gpu common {casadi_model(model).digest} {nodes}", lambda: _common_text(model, nodes))
        self._compute = code.function("common", [POINTER, REAL, POINTER])

    def values(self, parameters: np.ndarray, h: float) -> np.ndarray:
        """Computes the common nodes from the parameters (NP,) of one vehicle."""
        contiguous, out = np.ascontiguousarray(parameters), np.empty(len(self.common.nodes))
        self._compute(contiguous.ctypes.data, h, out.ctypes.data)
        return out.astype(self._precision)


class GpuBatch:
    """`RunBatch` of one model on the GPUs. Raises InputError: no GPU, or the driver fails; with the reason in one line.

    The kernel is specialised to the parameters that differ among vehicles, and compiled again when more of them differ.
    """

    def __init__(self, model: Model, precision: str, separate_inputs: bool, prescribed: tuple[str, ...]):
        self._arguments = model, precision, separate_inputs, prescribed
        self._devices, self._tables = usable_devices(), table_columns(model)
        self._lock, self._columns = threading.Lock(), set(self._tables)
        self._variant: _Variant | None = None

    @property
    def resident(self) -> int:
        """Number of vehicles that run concurrently on all GPUs."""
        return sum(RESIDENT * device.multiprocessors for device in self._devices)

    def __call__(self, parameters: np.ndarray, start: np.ndarray, inputs: np.ndarray, hold: bool, substeps: int, h: float,
                 rows: np.ndarray, observed: np.ndarray, keep: bool) -> tuple[np.ndarray, np.ndarray | None]:
        _, precision, separate, _ = self._arguments
        samples, channels, n = len(inputs), len(rows), parameters.shape[1]
        sums, responses = np.empty((channels, n)), np.empty((samples if keep else 0, channels, n))
        if n and channels:
            variant = self._variant_for(parameters)
            columns = list(variant.common.columns)
            values = [ByValue(variant.values(parameters[:, 0], h))] if variant.common.nodes else []
            numbers = tuple(columns.index(column) for column in self._tables)
            variant.kernel.run([
                ByVehicle(parameters[columns], numbers, REALS[precision]), ByVehicle(start), (ByVehicle if separate else Shared)(inputs),
                Shared(rows), Shared(observed), Result(sums), Result(responses), VEHICLES, *map(c_int64, (samples, substeps, channels, 0)),
                VEHICLES, c_double(h), c_double(0.0 if hold else 1.0 / substeps), TABLE_POINTERS, *values], substeps * (samples - 1))
        return sums.T, responses.transpose(2, 0, 1) if keep else None

    def _variant_for(self, parameters: np.ndarray) -> _Variant:
        differ = {column for column, row in enumerate(parameters) if (row != row[0]).any()}
        with self._lock:
            if self._variant is None or not differ <= self._columns:
                self._columns |= differ
                self._variant = _Variant(*self._arguments, tuple(sorted(self._columns)))
            return self._variant


class GpuSensitivity:
    """Trajectories of N vehicles and their derivatives to parameters and initial states.

    Raises InputError: no GPU, the model calls functions without GPU instructions, or the driver fails.
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

        def cast(array: np.ndarray) -> np.ndarray:
            return np.ascontiguousarray(array, self._number)

        if x.size:
            self._kernel.run([
                ByVehicle(cast(each(start))), ByVehicle(cast(all_seeds(seeds_start))),
                ByVehicle(cast(each(parameters)), self._tables, self._real), ByVehicle(cast(all_seeds(seeds_parameters))),
                Shared(cast(inputs)), *map(c_int64, (len(inputs), substeps)), real(h), real(0.0 if hold else 1.0 / substeps), Result(x),
                Result(s), Shared(np.empty(0)), Shared(rows), c_int64(len(rows)), VEHICLES, TABLE_POINTERS], substeps * (len(inputs) - 1))
        x, s = x.astype(float), s.astype(float)
        return x[..., ::count].transpose(2, 0, 1), s.reshape(*shape, n, count).transpose(2, 0, 1, 3)


@once
def gpu_sensitivity(model: Model, parameters: tuple[str, ...], states: tuple[str, ...], prescribed: tuple[str, ...],
                    precision: str = "float64") -> GpuSensitivity:
    """Returns the cached kernel of some parameters and initial states. Raises InputError: see `GpuSensitivity`."""
    return GpuSensitivity(model, parameters, states, prescribed, precision)
