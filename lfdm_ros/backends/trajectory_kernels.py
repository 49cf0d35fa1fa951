"""Whole trajectories as machine code: of one vehicle with derivatives, or of many vehicles in SIMD lanes.

Both are the same loops around the graph of a model's step. The state, and a SIMD vector of tangents for each state with derivatives, stay
in registers or on the stack over all steps; nodes that depend on the parameters alone are computed once, before the loops.
"""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, wraps
from typing import ParamSpec, TypeVar

import numpy as np

from lfdm_ros.backends.casadi_backend import casadi_model
from lfdm_ros.backends.loops import Carried, Linear, Slot, trajectory
from lfdm_ros.backends.steps import HALF_IMPLICIT, packed_step_of, step_of
from lfdm_ros.compiler.emitter import Code
from lfdm_ros.compiler.functions import DIRECTIONS
from lfdm_ros.compiler.graph import TANGENT, TRUTH, Graph
from lfdm_ros.compiler.machine_code import INTEGER, POINTER, REAL, TRIPLE, here, machine_code
from lfdm_ros.compiler.reading import TABLES
from lfdm_ros.compiler.tangents import Tangents
from lfdm_ros.models import Model

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

# -- Work on all cores --------------------------------------------------------------------------------------------------------


def cores() -> int:
    """Returns the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="lfdm_ros")


# The threads of a pool do not exist in a forked process.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


_worker = threading.local()


def in_parallel(work: Callable[[int], None], count: int) -> None:
    """Runs work(0) ... work(count - 1), which release the GIL, on this thread and a persistent pool.

    Nested calls run serially in their thread: the other cores are busy already, and memory per thread stays bounded.
    """
    if getattr(_worker, "busy", False):
        for i in range(count):
            work(i)
        return
    numbers = iter(range(count))

    def some() -> None:
        _worker.busy = True
        try:
            for i in numbers:
                work(i)
        except BaseException:
            for _ in numbers:  # stops the other threads
                pass
            raise
        finally:
            _worker.busy = False

    helpers = min(count, cores()) - 1
    futures = [_pool(cores() - 1).submit(some) for _ in range(helpers)]
    try:
        some()
    finally:
        for future in futures:
            # One that has not begun has no work left.
            if not future.cancel():
                future.result()


def once(make: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Caches as functools.cache, but computes each result once for concurrent threads: a kernel takes seconds and 100 MB."""
    cached_make, lock = cache(make), threading.RLock()

    @wraps(make)
    def locked_make(*arguments: _Parameters.args, **named: _Parameters.kwargs) -> _Result:
        with lock:
            return cached_make(*arguments, **named)  # type: ignore[arg-type]

    return locked_make


# -- One vehicle, with derivatives ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SensitivityKernel:
    """Trajectories of one model and their derivatives to some parameters, initial states and, if compiled for it, inputs.

    run(x0 (nx,), s0 (nx, D), p (np,), dp (P, D), inputs (K, nu + M), substeps, h, hold, du=None, rows=None) -> (x (K, C), s (K, C, D)):
    s[k] = dx_k in D directions: s0 of the initial state, dp of the P parameters of the kernel, and du (K, nu, D) of the driver's inputs.
    The last M columns of `inputs` are the prescribed states at the samples. Between samples are `substeps` steps of h, prescribed states
    linear, the driver's inputs linear or, with `hold`, constant. `rows` (C,): indices of the states to return, None for all. One pass
    computes `directions` of them; passes run on all cores. Releases the GIL.
    """

    directions: int
    run: Callable[..., tuple[np.ndarray, np.ndarray]]


@once
def sensitivity_kernel(model: Model, parameters: tuple[str, ...] = (), states: tuple[str, ...] = (), scheme: str = HALF_IMPLICIT,
                       prescribed: tuple[str, ...] = (), of_inputs: bool = False) -> SensitivityKernel:
    """Returns the kernel for derivatives to `parameters`, initial values of `states` and, with `of_inputs`, inputs; without any, of
    trajectories alone."""
    nx, nu, np_, lanes = len(model.states), len(model.inputs), len(model.parameters), DIRECTIONS
    columns = [[f.name for f in model.parameters].index(name) for name in parameters]
    differentiated = bool(parameters or states or of_inputs)
    rows_of_states, driven = places_of(model, states), places_of(model, prescribed)
    code = machine_code(f"sensitivity {casadi_model(model).digest} {columns} {rows_of_states} {scheme} {driven} {of_inputs}",
                        lambda: sensitivity_text(model, columns, rows_of_states, scheme, driven, of_inputs), here())
    call = code.function("trajectories", [POINTER] * 5 + [INTEGER] * 2 + [REAL] * 2 + [POINTER] * 2
                         + ([POINTER] * 2 + [INTEGER] * 2 if differentiated else []))

    def run(x0: np.ndarray, s0: np.ndarray, p: np.ndarray, dp: np.ndarray, inputs: np.ndarray, substeps: int, h: float, hold: bool,
            du: np.ndarray | None = None, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        samples, count = len(inputs), s0.shape[-1]
        _check_shape("x0", x0, (nx,))
        _check_shape("s0", s0, (nx, count))
        _check_shape("p", p, (np_,))
        _check_shape("dp", dp, (len(columns), count))
        _check_shape("inputs", inputs, (samples, nu + len(prescribed)))
        if of_inputs != (du is not None):
            raise ValueError(f"sensitivity kernel: made {'for' if of_inputs else 'without'} derivatives to inputs")
        if du is not None:
            _check_shape("du", du, (samples, nu, count))
        if samples < 1 or substeps < 1:
            raise ValueError("sensitivity kernel: needs at least one sample, and one step between samples")
        chosen = np.arange(nx) if rows is None else np.ascontiguousarray(rows, dtype=np.int64)
        if len(chosen) and not 0 <= chosen.min() <= chosen.max() < nx:
            raise ValueError(f"sensitivity kernel: rows must be from 0 to {nx - 1}")
        start, values, table = (np.ascontiguousarray(a, dtype=float) for a in (x0, p, inputs))
        between = samples, substeps, h, 0.0 if hold else 1.0 / substeps
        if not differentiated:
            x = np.empty((samples, nx))
            call(start.ctypes.data, None, values.ctypes.data, None, table.ctypes.data, *between, x.ctypes.data, None)
            return (x if rows is None else x[:, chosen]), np.zeros((samples, len(chosen), count))
        seeds = [None if a is None else _whole_passes(a, lanes) for a in (s0, dp, du)]
        width = -(-max(count, 1) // lanes) * lanes
        x, s = np.empty((samples, len(chosen))), np.empty((samples, len(chosen), width))
        at_start, at_values, at_table, at_chosen = (a.ctypes.data for a in (start, values, table, chosen))
        at_s0, at_dp, at_du = (0 if a is None else a.ctypes.data for a in seeds)
        at_x, at_s = x.ctypes.data, s.ctypes.data

        def one_pass(i: int) -> None:
            # Passes differ in the tangents only: the first stores the trajectory.
            skip = i * lanes * s.itemsize
            call(at_start, at_s0 + skip, at_values, at_dp + skip, at_table, *between, None if i else at_x, at_s + skip, at_du + skip,
                 at_chosen, len(chosen), width)

        in_parallel(one_pass, width // lanes)
        return x, s[:, :, :count]

    return SensitivityKernel(lanes, run)


def _check_shape(name: str, a: np.ndarray, shape: tuple[int, ...]) -> None:
    if a.shape != shape:
        raise ValueError(f"sensitivity kernel: {name} has shape {a.shape}, expected {shape}")


def places_of(model: Model, states: Sequence[str]) -> list[int]:
    """Returns the indices of some states of a model."""
    names = [field.name for field in model.states]
    return [names.index(name) for name in states]


def _whole_passes(seeds: np.ndarray, lanes: int) -> np.ndarray:
    """Pads seeds with zero directions to whole passes."""
    count = seeds.shape[-1]
    padding = [(0, 0)] * (seeds.ndim - 1) + [(0, -count % lanes if count else lanes)]
    return np.pad(np.ascontiguousarray(seeds, dtype=float), padding)


def sensitivity_text(model: Model, columns: Sequence[int], rows: Sequence[int], scheme: str, prescribed: Sequence[int] = (),
                     of_inputs: bool = False, threads: bool = False, real: str = "double") -> str:
    """Returns the LLVM module of trajectories and their derivatives: to parameters and initial states by index, and to inputs.

    `threads`: for a GPU, one vehicle and direction per thread and along the last axis (`width`) of all arrays but the inputs.
    """
    # With tangents, vectors of wheels do not pay: the tangents of each wheel are vectors already.
    differentiated = bool(columns or rows or of_inputs)
    one_step = step_of(model, scheme) if differentiated else packed_step_of(model, scheme)
    graph = one_step.graph
    xs, us, ps, (h,) = graph.inputs
    following = graph.outputs[0]
    integrated = [i for i in range(len(xs)) if i not in prescribed]  # states that follow the equations
    active = _active_states(graph, [*(ps[c] for c in columns), *(us if of_inputs else ())], rows, prescribed)
    seeds_p = {c: graph.input(len(graph.inputs), c, TANGENT) for c in columns}
    seeds_x = {i: graph.input(len(graph.inputs) + 1, i, TANGENT) for i in active}
    seeds_u = [graph.input(len(graph.inputs) + 2, i, TANGENT) for i in range(len(us))] if of_inputs else []
    tangents = Tangents(graph, {ps[c]: seed for c, seed in seeds_p.items()} | {xs[i]: seed for i, seed in seeds_x.items()}
                        | dict(zip(us, seeds_u)))
    following_tangents = [tangents.of(following[i]) for i in active]
    ends = [*(following[i] for i in integrated), *(t for t in following_tangents if t is not None)]
    needed = graph.reachable(ends)
    of_step = graph.depends([*xs, *us, *seeds_x.values(), *seeds_u])

    arguments = {"x0": "ptr", "s0": "ptr", "p": "ptr", "dp": "ptr", "u": "ptr", "samples": "i64", "substeps": "i64", "h": real,
                 "rise": real, "x": "ptr", "s": "ptr"}
    if differentiated:
        arguments |= {"du": "ptr", "rows": "ptr", "channels": "i64", "width": "i64"}
    if threads:
        arguments |= dict.fromkeys(TABLES[real], "ptr")
    code = Code(graph, arguments, real=real, directions=1 if threads else DIRECTIONS, wheels=one_step.wheels, threads=threads)
    code.jump(needed, [*ends, *(i for i in needed if not of_step[i])])

    with code.blocks("0", "%width", 1) if threads else nullcontext("") as vehicle_index:
        def place(array: str, row: int | str) -> str:
            """Returns the address of this pass in a row of an array (rows, width)."""
            first = code.integer("mul", "%width", row)
            return code.element(array, code.integer("add", first, vehicle_index) if vehicle_index else first, code.value)

        def seed(array: str, row: int | str) -> str:
            """Returns the tangents of this pass in a row of an array (rows, width)."""
            return code.load(place(array, row), 0, code.tangent)

        def value(array: str, row: int) -> str:
            return code.load(place(array, row), 0, code.value) if vehicle_index else code.load(array, row, code.value)

        for column, node in enumerate(ps):
            code.bind(node, value("%p", column))
        for k, column in enumerate(columns):
            code.bind(seeds_p[column], seed("%dp", k))
        code.bind(h, "%h")
        code.emit(i for i in needed if not of_step[i])

        count = len(us) // len(one_step.times)

        def inputs(sample: str) -> list[str]:
            """Returns the driver's inputs, then the prescribed states."""
            row = code.element("%u", code.integer("mul", sample, count + len(prescribed)), code.value)
            return [code.load(row, i, code.value) for i in range(count + len(prescribed))]

        def input_seeds(sample: str) -> list[str]:
            return [seed("%du", code.integer("add", code.integer("mul", sample, count), i)) for i in range(count)]

        def moving_seeds(last: str, sample: str) -> list[Linear]:
            return [Linear.between(code, seeds_u, one_step.times, input_seeds(last), input_seeds(sample), tangent_rise, code.tangent)]

        carried = Carried(code, [*(Slot(code.value, xs[i], following[i]) for i in integrated),
                                 *(Slot(code.tangent, seeds_x[i], tangent) for i, tangent in zip(active, following_tangents))])
        for k, i in enumerate(integrated):
            carried.set(k, value("%x0", i))
        for k, i in enumerate(active, len(integrated)):
            carried.set(k, seed("%s0", i))
        values, slopes = "%x", ""
        if differentiated:
            # The channels are run-time values, so the state goes through memory.
            values, slopes = code.variables(code.value, len(xs)), code.variables(code.tangent, len(xs))
            for i in range(len(xs)):
                code.store("zeroinitializer", slopes, i, code.tangent)

        def keep(sample: str, registers: Sequence[str]) -> None:
            row = values if differentiated else code.element("%x", code.integer("mul", sample, len(xs)), code.value)
            for i, register in [*((i, carried.get(k)) for k, i in enumerate(integrated)), *zip(prescribed, registers)]:
                code.store(register, row, i, code.value)
            if not differentiated:
                return
            for k, i in enumerate(active, len(integrated)):
                code.store(carried.get(k), slopes, i, code.tangent)
            with code.when(code.new("icmp sgt i64 %channels, 0")), code.loop("0", "%channels") as channel:
                chosen = code.load("%rows", channel, "i64")
                entry = code.integer("add", code.integer("mul", sample, "%channels"), channel)
                with code.when(code.new("icmp ne ptr %x, null")):
                    target = place("%x", entry) if vehicle_index else code.element("%x", entry, code.value)
                    code.store(code.load(values, chosen, code.value), target, 0, code.value)
                code.store(code.load(slopes, chosen, code.tangent), place("%s", entry), 0, code.tangent)

        tangent_rise = code.repeated("%rise", code.tangent) if of_inputs else ""
        steps = [i for i in needed if of_step[i]]
        trajectory(code, one_step, carried, steps, prescribed, inputs, "%rise", keep, moving_seeds if of_inputs else None)
    return code.text("trajectories", TRIPLE)


def _active_states(graph: Graph, changed: Sequence[int], rows: Sequence[int], prescribed: Sequence[int]) -> list[int]:
    """Returns the states that depend, after any number of steps, on the `changed` nodes or the initial states in `rows`."""
    xs = graph.inputs[0]
    active = set(rows) - set(prescribed)
    while True:
        dependent = graph.depends([*changed, *(xs[i] for i in active)])
        grown = active | {i for i, node in enumerate(graph.outputs[0]) if dependent[node] and i not in prescribed}
        if grown == active:
            return sorted(active)
        active = grown


# -- Many vehicles ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BatchKernel:
    """Batch of vehicles of one model, `lanes` of them in each SIMD vector.

    run(parameters (NP, N), start (NX, N), inputs (K, NU + M) or with `separate_inputs` (K, NU + M, N), hold, substeps, h,
        rows (C,) int64, observed (K, C), squared_errors (C, N), trajectories (K, C, N) or None, first, end)
    runs the vehicles first ... end - 1, both multiples of `lanes`, and fills their columns of `squared_errors`, with the sums over
    the samples where `observed` is not NaN, and of `trajectories`. The last M inputs are the prescribed states at the samples, linear in
    between also with `hold`. Arrays are float64 in C order for any precision of the computation. Releases the GIL.
    """

    lanes: int
    run: Callable[..., None]


@once
def batch_kernel(model: Model, real: str = "double", separate_inputs: bool = False, lanes: int = 0,
                 prescribed: tuple[str, ...] = ()) -> BatchKernel:
    """Returns the kernel in precision `real` (double or float), compiled on first use; `lanes` 0: those of this machine's registers."""
    lanes = lanes or here().lanes(real, casadi_model(model).registers(real))
    driven = places_of(model, prescribed)
    code = machine_code(f"batch {casadi_model(model).digest} {real} {separate_inputs} {lanes} {driven}",
                        lambda: batch_text(model, real, separate_inputs, lanes, driven), here())
    call = code.function("batch", [POINTER] * 7 + [INTEGER] * 6 + [REAL] * 2)

    def run(parameters: np.ndarray, start: np.ndarray, inputs: np.ndarray, hold: bool, substeps: int, h: float, rows: np.ndarray,
            observed: np.ndarray, squared_errors: np.ndarray, trajectories: np.ndarray | None, first: int, end: int) -> None:
        if first % lanes or end % lanes or not 0 <= first <= end <= parameters.shape[1]:
            raise ValueError(f"batch kernel: vehicles {first} to {end} are not whole blocks of {lanes}")
        if first < end:
            arrays = [a.ctypes.data for a in (parameters, start, inputs, rows, observed, squared_errors)]
            call(*arrays, None if trajectories is None else trajectories.ctypes.data, parameters.shape[1], len(inputs), substeps,
                 len(rows), first, end, h, 0.0 if hold else 1.0 / substeps)

    return BatchKernel(lanes, run)


def run_batch(kernel: BatchKernel, parameters: np.ndarray, start: np.ndarray, inputs: np.ndarray, hold: bool, substeps: int, h: float,
              rows: np.ndarray, observed: np.ndarray, keep: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Runs a batch of any size on all cores; arguments as for the kernel.

    Returns squared errors (N, C), and with `keep` trajectories (N, K, C): views of arrays whose last axis is the vehicle.
    """
    n, lanes = parameters.shape[1], kernel.lanes
    missing = -n % lanes
    if missing:
        # Repeats the last vehicle to fill the last vector.
        parameters, start = (np.pad(a, ((0, 0), (0, missing)), mode="edge") for a in (parameters, start))
        if inputs.ndim == 3:
            inputs = np.pad(inputs, ((0, 0), (0, 0), (0, missing)), mode="edge")
    sums = np.empty((len(rows), n + missing))
    responses = np.empty((len(inputs), len(rows), n + missing)) if keep else None
    blocks = (n + missing) // lanes
    # Several pieces for each core balance the load.
    pieces = min(blocks, 1 if blocks < 2 else 4 * cores())
    ends = [lanes * (blocks * i // pieces) for i in range(pieces + 1)]

    def piece(i: int) -> None:
        kernel.run(parameters, start, inputs, hold, substeps, h, rows, observed, sums, responses, ends[i], ends[i + 1])

    in_parallel(piece, pieces)
    return sums.T[:n], None if responses is None else responses.transpose(2, 0, 1)[:n]


@dataclass(frozen=True)
class Common:
    """Columns of the parameters that differ among the vehicles of a batch, and nodes of the step that are equal for all of them."""

    columns: tuple[int, ...]
    nodes: tuple[int, ...]


def batch_text(model: Model, real: str, separate_inputs: bool, lanes: int, prescribed: Sequence[int] = (), threads: bool = False,
               common: Common | None = None) -> str:
    """Returns the LLVM module of a batch; `threads`: for a GPU, with the `common` nodes by value."""
    one_step = step_of(model, HALF_IMPLICIT)
    graph = one_step.graph
    xs, us, ps, (h,) = graph.inputs
    following = graph.outputs[0]
    integrated = [i for i in range(len(xs)) if i not in prescribed]  # states that follow the equations
    ends = [following[i] for i in integrated]
    common = common or Common(tuple(range(len(ps))), ())
    needed = graph.reachable(ends, common.nodes)
    of_step = graph.depends([*xs, *us])
    arguments = {"p": "ptr", "x0": "ptr", "u": "ptr", "rows": "ptr", "observed": "ptr", "sums": "ptr", "kept": "ptr", "vehicles": "i64",
                 "samples": "i64", "substeps": "i64", "channels": "i64", "first": "i64", "end": "i64", "h": "double", "rise": "double"}
    if threads:
        arguments |= dict.fromkeys(TABLES[real], "ptr")
    if common.nodes:
        arguments["common"] = f"ptr byval([{len(common.nodes)} x {real}]) align 8"
    code = Code(graph, arguments, real=real, lanes=lanes, threads=threads)
    code.jump(needed, [*ends, *(i for i in needed if not of_step[i])])
    double = code.value.replace(real, "double")  # one block of the caller's arrays
    carried, sampled = Carried(code, [Slot(code.value, xs[i], following[i]) for i in integrated]), code.variables(code.value, len(xs))

    def same(register: str) -> str:
        return code.repeated(code.cast(register, "double", real), code.value)

    code.bind(h, same("%h"))
    rise = same("%rise")
    count = len(us) // len(one_step.times)
    with code.blocks("%first", "%end", lanes) as block:

        def place(array: str, row: int | str) -> str:
            """Returns the address of this block's vehicles in a row of an array (rows, vehicles)."""
            return code.element(array, code.integer("add", code.integer("mul", "%vehicles", row), block), "double")

        def read(array: str, row: int | str) -> str:
            return code.cast(code.load(place(array, row), 0, double), double, code.value)

        def inputs(sample: str) -> list[str]:
            """Returns the driver's inputs, then the prescribed states."""
            width = count + len(prescribed)
            rows = [code.integer("add", code.integer("mul", sample, width), i) for i in range(width)]
            return [read("%u", row) if separate_inputs else same(code.load("%u", row, "double")) for row in rows]

        def compare(sample: str, registers: Sequence[str]) -> None:
            # The channels are run-time values, so the state goes through memory.
            for i, register in [*((i, carried.get(k)) for k, i in enumerate(integrated)), *zip(prescribed, registers)]:
                code.store(register, sampled, i, code.value)
            with code.when(code.new("icmp sgt i64 %channels, 0")), code.loop("0", "%channels") as channel:
                value = code.cast(code.load(sampled, code.load("%rows", channel, "i64"), code.value), code.value, double)
                entry = code.integer("add", code.integer("mul", sample, "%channels"), channel)
                target = code.load("%observed", entry, "double")
                with code.when(code.new(f"fcmp ord double {target}, 0.0")):
                    error = code.arithmetic("fsub", value, code.repeated(target, double), double)
                    sums = place("%sums", channel)
                    total = code.arithmetic("fadd", code.load(sums, 0, double), code.arithmetic("fmul", error, error, double), double)
                    code.store(total, sums, 0, double)
                with code.when(code.new("icmp ne ptr %kept, null")):
                    code.store(value, place("%kept", entry), 0, double)

        with code.when(code.new("icmp sgt i64 %channels, 0")), code.loop("0", "%channels") as channel:
            code.store("zeroinitializer" if lanes > 1 else code.number(0.0), place("%sums", channel), 0, double)
        for row, column in enumerate(common.columns):
            code.bind(ps[column], read("%p", row))
        for k, node in enumerate(common.nodes):
            value = code.load("%common", k, real)
            truth = graph.nodes[node].kind == TRUTH
            code.bind(node, code.new(f"fcmp une {real} {value}, {code.number(0.0)}") if truth else value)
        code.emit(i for i in needed if not of_step[i])
        for k, i in enumerate(integrated):
            carried.set(k, read("%x0", i))
        trajectory(code, one_step, carried, [i for i in needed if of_step[i]], prescribed, inputs, rise, compare)
    return code.text("batch", TRIPLE)
