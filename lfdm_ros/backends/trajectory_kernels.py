"""Whole trajectories as machine code: with their derivatives for one vehicle, or of many vehicles in SIMD lanes.

Both are the same loops around the graph of a model's step. The state, and for derivatives a SIMD vector of tangents beside each
state that depends on what is differentiated, stay in registers or on the stack over all steps; what depends on the parameters
alone is computed once, before the loops.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np

from lfdm_ros.backends.compiled_functions import DIRECTIONS
from lfdm_ros.backends.graph import TANGENT, VALUE, Graph, Tangents
from lfdm_ros.backends.llvm_code import Code
from lfdm_ros.backends.machine_code import INTEGER, POINTER, REAL, TRIPLE, machine_code
from lfdm_ros.backends.steps import HALF_IMPLICIT, bind_inputs, packed_step_of, rises_of, step_of
from lfdm_ros.models import get_model

# Vehicles in a vector of a batch. Two registers of AVX-512 hide more latency than one.
LANES = 16


# -- One vehicle, with derivatives ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SensitivityKernel:
    """Trajectories of one model and their derivatives to some parameters and initial states.

    run(x0 (nx,), s0 (nx, D), p (np,), dp (P, D), inputs (K, nu), substeps, h, hold) -> (x (K, nx), s (K, nx, D)), D = `directions`:
    s[k] = dx_k in D directions, given by ds0 of the initial state and dp of the P parameters that the kernel was made for.
    Between samples are `substeps` steps of h, the inputs linear or, with `hold`, kept. Releases the GIL.
    """

    directions: int
    run: Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, int, float, bool], tuple[np.ndarray, np.ndarray]]


@cache
def sensitivity_kernel(spec: str, parameters: tuple[str, ...] = (), states: tuple[str, ...] = (),
                       scheme: str = HALF_IMPLICIT) -> SensitivityKernel:
    """The kernel for derivatives to `parameters` and to initial values of `states`; without either, trajectories alone.

    Raises:
        InputError: no such model.
    """
    model = get_model(spec)
    nx, nu, directions = len(model.states), len(model.inputs), DIRECTIONS
    columns = [[f.name for f in model.parameters].index(name) for name in parameters]
    rows = [[f.name for f in model.states].index(name) for name in states]
    code = machine_code(f"sensitivity {spec} {parameters} {states} {scheme}", lambda: _sensitivity_text(spec, columns, rows, scheme))
    call = code.function("trajectories", [POINTER] * 5 + [INTEGER] * 2 + [REAL] * 2 + [POINTER] * 2)

    def run(x0: np.ndarray, s0: np.ndarray, p: np.ndarray, dp: np.ndarray, inputs: np.ndarray, substeps: int, h: float,
            hold: bool) -> tuple[np.ndarray, np.ndarray]:
        samples = len(inputs)
        shapes = ((nx,), (nx, directions), (len(model.parameters),), (len(columns), directions), (samples, nu))
        given = [np.ascontiguousarray(a, dtype=float) for a in (x0, s0, p, dp, inputs)]
        for name, a, shape in zip(("x0", "s0", "p", "dp", "inputs"), given, shapes):
            if a.shape != shape:
                raise ValueError(f"sensitivity kernel: {name} has shape {a.shape}, expected {shape}")
        if samples < 1 or substeps < 1:
            raise ValueError("sensitivity kernel: needs at least one sample, and one step between samples")
        x, s = np.empty((samples, nx)), np.zeros((samples, nx, directions))
        call(*[a.ctypes.data for a in given], samples, substeps, h, 0.0 if hold else 1.0 / substeps, x.ctypes.data, s.ctypes.data)
        return x, s

    return SensitivityKernel(directions, run)


def _sensitivity_text(spec: str, columns: Sequence[int], rows: Sequence[int], scheme: str) -> str:
    # Beside tangents the wheels' vectors do not pay: the tangents of each wheel are vectors of their own.
    one_step = step_of(spec, scheme) if columns or rows else packed_step_of(spec, scheme)
    graph = one_step.graph
    xs, us, ps, (h,) = graph.inputs
    following = graph.outputs[0]
    active = _active_states(graph, columns, rows)
    seeds_p = {c: graph.input(len(graph.inputs), c, TANGENT) for c in columns}
    seeds_x = {i: graph.input(len(graph.inputs) + 1, i, TANGENT) for i in active}
    tangents = Tangents(graph, {ps[c]: seed for c, seed in seeds_p.items()} | {xs[i]: seed for i, seed in seeds_x.items()})
    following_tangents = [tangents.of(following[i]) for i in active]
    needed = graph.reachable([*following, *(t for t in following_tangents if t is not None)])
    of_step = graph.depends([*xs, *us, *seeds_x.values()])

    code = Code(graph, {"x0": "ptr", "s0": "ptr", "p": "ptr", "dp": "ptr", "u": "ptr", "samples": "i64", "substeps": "i64",
                        "h": "double", "rise": "double", "x": "ptr", "s": "ptr"}, directions=DIRECTIONS, wheels=one_step.wheels)
    code.jump(needed, [*following, *(t for t in following_tangents if t is not None), *(i for i in needed if not of_step[i])])
    for column, node in enumerate(ps):
        code.bind(node, code.load("%p", column, code.value))
    for k, column in enumerate(columns):
        code.bind(seeds_p[column], code.load("%dp", k, code.tangent))
    code.bind(h, "%h")
    code.emit(i for i in needed if not of_step[i])

    state, sensitivity = code.variables(code.value, len(xs)), code.variables(code.tangent, len(xs))
    for i in range(len(xs)):
        code.store(code.load("%x0", i, code.value), state, i, code.value)
    for i in active:
        code.store(code.load("%s0", i, code.tangent), sensitivity, i, code.tangent)

    def keep(sample: str) -> None:
        row = code.integer("mul", sample, len(xs))
        x_row, s_row = code.element("%x", row, code.value), code.element("%s", row, code.tangent)
        for i in range(len(xs)):
            code.store(code.load(state, i, code.value), x_row, i, code.value)
        for i in active:
            code.store(code.load(sensitivity, i, code.tangent), s_row, i, code.tangent)

    def inputs(sample: str) -> list[str]:
        count = len(us) // len(one_step.times)
        row = code.element("%u", code.integer("mul", sample, count), code.value)
        return [code.load(row, i, code.value) for i in range(count)]

    keep("0")
    with code.when(code.new("icmp sgt i64 %samples, 1")), code.loop("1", "%samples") as sample:
        before = inputs(code.integer("sub", sample, 1))
        rises = rises_of(code, "%rise", before, inputs(sample))
        with code.loop("0", "%substeps") as number:
            for i, node in enumerate(xs):
                code.bind(node, code.load(state, i, code.value))
            for i in active:
                code.bind(seeds_x[i], code.load(sensitivity, i, code.tangent))
            bind_inputs(code, one_step, number, before, rises)
            code.emit(i for i in needed if of_step[i])
            for i, node in enumerate(following):
                code.store(code.get(node, VALUE), state, i, code.value)
            for i, tangent in zip(active, following_tangents):
                # A state that one step makes independent of all (a discrete one) has the tangent 0.
                register = code.number(0.0, DIRECTIONS) if tangent is None else code.get(tangent, TANGENT)
                code.store(register, sensitivity, i, code.tangent)
        keep(sample)
    return code.text("trajectories", TRIPLE)


def _active_states(graph: Graph, columns: Sequence[int], rows: Sequence[int]) -> list[int]:
    """The states that come to depend on the parameters in `columns` or on the initial states in `rows`."""
    xs, _, ps, _ = graph.inputs
    active = set(rows)
    while True:
        found = graph.depends([*(ps[c] for c in columns), *(xs[i] for i in active)])
        grown = active | {i for i, node in enumerate(graph.outputs[0]) if found[node]}
        if grown == active:
            return sorted(active)
        active = grown


# -- Many vehicles ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BatchKernel:
    """Many vehicles of one model, `lanes` of them in each SIMD vector.

    run(parameters (NP, N), start (NX, N), inputs (K, NU) or with `own_inputs` (K, NU, N), hold, substeps, h, rows (C,) int64,
        observed (K, C), squared_errors (C, N), trajectories (K, C, N) or None, first, end)
    runs the vehicles first ... end - 1, both multiples of `lanes`, and fills their columns of `squared_errors`, with the sums over
    the samples where `observed` is not NaN, and of `trajectories`. Arrays are float64 in C order, whatever the number type of the
    computation. Releases the GIL.
    """

    lanes: int
    run: Callable[..., None]


@cache
def batch_kernel(spec: str, real: str = "double", own_inputs: bool = False, scheme: str = HALF_IMPLICIT, lanes: int = LANES) -> BatchKernel:
    """The kernel that computes in `real` (double or float), compiled on first use.

    Raises:
        InputError: no such model.
    """
    code = machine_code(f"batch {spec} {real} {own_inputs} {scheme} {lanes}", lambda: _batch_text(spec, real, own_inputs, scheme, lanes))
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
    """Runs a batch of any size on all cores; arguments as those of the kernel.

    Returns squared errors (N, C), and with `keep` trajectories (N, K, C): views of arrays whose last axis is the vehicle.
    """
    n, lanes = parameters.shape[1], kernel.lanes
    missing = -n % lanes
    if missing:
        # The last vehicle again, so that the last vector is whole.
        parameters, start = (np.pad(a, ((0, 0), (0, missing)), mode="edge") for a in (parameters, start))
        if inputs.ndim == 3:
            inputs = np.pad(inputs, ((0, 0), (0, 0), (0, missing)), mode="edge")
    sums = np.empty((len(rows), n + missing))
    kept = np.empty((len(inputs), len(rows), n + missing)) if keep else None
    blocks = (n + missing) // lanes
    # A few pieces for each core, so that one which is held up does not hold up all.
    pieces = min(blocks, 1 if blocks < 2 else 4 * cores())
    ends = [lanes * (blocks * i // pieces) for i in range(pieces + 1)]

    def piece(i: int) -> None:
        kernel.run(parameters, start, inputs, hold, substeps, h, rows, observed, sums, kept, ends[i], ends[i + 1])

    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(piece, range(pieces)))
    return sums.T[:n], None if kept is None else kept.transpose(2, 0, 1)[:n]


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _batch_text(spec: str, real: str, own_inputs: bool, scheme: str, lanes: int) -> str:
    one_step = step_of(spec, scheme)
    graph = one_step.graph
    xs, us, ps, (h,) = graph.inputs
    following = graph.outputs[0]
    needed = graph.reachable(following)
    of_step = graph.depends([*xs, *us])
    code = Code(graph, {"p": "ptr", "x0": "ptr", "u": "ptr", "rows": "ptr", "observed": "ptr", "sums": "ptr", "kept": "ptr",
                        "vehicles": "i64", "samples": "i64", "substeps": "i64", "channels": "i64", "first": "i64", "end": "i64",
                        "h": "double", "rise": "double"}, real=real, lanes=lanes)
    code.jump(needed, [*following, *(i for i in needed if not of_step[i])])
    double = code.value.replace(real, "double")  # one block of the caller's arrays
    state, sampled = code.variables(code.value, len(xs)), code.variables(code.value, len(xs))

    def same(register: str) -> str:
        return code.repeated(code.cast(register, "double", real), code.value)

    code.bind(h, same("%h"))
    rise = same("%rise")
    with code.loop("%first", "%end", lanes) as block:

        def place(array: str, row: int | str) -> str:
            """Address of this block's vehicles in a row of an array (rows, vehicles)."""
            return code.element(array, code.integer("add", code.integer("mul", "%vehicles", row), block), "double")

        def read(array: str, row: int | str) -> str:
            return code.cast(code.load(place(array, row), 0, double), double, code.value)

        def inputs(sample: str) -> list[str]:
            count = len(us) // len(one_step.times)
            rows = [code.integer("add", code.integer("mul", sample, count), i) for i in range(count)]
            return [read("%u", row) if own_inputs else same(code.load("%u", row, "double")) for row in rows]

        def compare(sample: str) -> None:
            # The channels are known at run time only, so the state goes through memory of its own.
            for i in range(len(xs)):
                code.store(code.load(state, i, code.value), sampled, i, code.value)
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
        for column, node in enumerate(ps):
            code.bind(node, read("%p", column))
        code.emit(i for i in needed if not of_step[i])
        for i in range(len(xs)):
            code.store(read("%x0", i), state, i, code.value)
        compare("0")
        with code.when(code.new("icmp sgt i64 %samples, 1")), code.loop("1", "%samples") as sample:
            before = inputs(code.integer("sub", sample, 1))
            rises = rises_of(code, rise, before, inputs(sample))
            with code.loop("0", "%substeps") as number:
                for i, node in enumerate(xs):
                    code.bind(node, code.load(state, i, code.value))
                bind_inputs(code, one_step, number, before, rises)
                code.emit(i for i in needed if of_step[i])
                for i, node in enumerate(following):
                    code.store(code.get(node, VALUE), state, i, code.value)
            compare(sample)
    return code.text("batch", TRIPLE)
