"""Kernel of one vehicle: many steps in one call, with the wheels in SIMD vectors."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from lfdm_ros.backends.casadi_backend import casadi_model
from lfdm_ros.backends.loops import Carried, Linear, Slot, interval
from lfdm_ros.backends.steps import HALF_IMPLICIT, packed_step_of, step_of
from lfdm_ros.compiler.builder import module_text
from lfdm_ros.compiler.emitter import Code
from lfdm_ros.compiler.graph import PACK, PACK_TRUTH, TABLE, TRUTH, VALUE, Graph
from lfdm_ros.compiler.machine_code import INTEGER, POINTER, REAL, TRIPLE, machine_code
from lfdm_ros.compiler.packing import gathered
from lfdm_ros.models import Model


@dataclass(frozen=True)
class AdvanceCode:
    """advance(x, q, u0, u1, n, h, 1 / n) -> 1 if all of x is finite, with addresses of arrays, and its own `address`.
    `constants(p (np,))` returns q."""

    advance: Callable[..., int]
    address: int
    constants: Callable[[np.ndarray], np.ndarray]


@cache
def advance_code(model: Model) -> AdvanceCode:
    """Compiles `advance` for calls by address."""
    code = machine_code(f"advance {casadi_model(model).digest}", lambda: advance_text(model))
    prepare, size = code.function("prepare", [POINTER] * 2), code.function("size", [], INTEGER)

    def constants(p: np.ndarray) -> np.ndarray:
        q = np.empty(size())
        prepare(p.ctypes.data, q.ctypes.data)
        return q

    return AdvanceCode(code.function("advance", [POINTER] * 4 + [INTEGER] + [REAL] * 2, INTEGER), code.address("advance"), constants)


@cache
def advance_kernel(model: Model) -> Callable[..., Callable[[int, float], bool]]:
    """Returns bind(x (nx,), p (np,), u0 (nu,), u1 (nu,)) -> advance(n, h), on contiguous float64 arrays.

    advance(n, h) makes n >= 1 steps of h and changes x in place, the inputs linear from u0 to u1; it returns True if all of x is finite.
    `bind` reads p and computes all that depends on the parameters alone; call it once per run.
    """
    code = advance_code(model)
    call = code.advance

    def bind(*arrays: np.ndarray) -> Callable[[int, float], bool]:
        if not all(a.flags.c_contiguous and a.dtype == float for a in arrays):
            raise ValueError("advance kernel: arrays must be contiguous float64")  # their addresses are passed
        x, _, u0, u1 = (a.ctypes.data for a in arrays)
        constants = code.constants(arrays[1])
        q = constants.ctypes.data

        def advance(n: int, h: float) -> bool:
            if n < 1:
                raise ValueError(f"advance kernel: {n} steps")
            return call(x, q, u0, u1, n, h, 1.0 / n) != 0

        advance.arrays = (*arrays, constants)  # type: ignore[attr-defined]  # keeps the memory at these addresses alive
        return advance

    return bind


def advance_text(model: Model, packing: bool = True) -> str:
    """Returns the LLVM module of `advance_functions`."""
    return module_text(TRIPLE, advance_functions(model, packing))


def advance_functions(model: Model, packing: bool = True) -> dict[str, Code]:
    """Returns the functions advance, prepare and size by name, with the wheels in vectors or, without `packing`, one by one."""
    one_step = packed_step_of(model, HALF_IMPLICIT) if packing else step_of(model, HALF_IMPLICIT)
    graph, groups, wheels = one_step.graph, one_step.groups, one_step.wheels
    xs, us, ps, (h,) = graph.inputs
    following = graph.outputs[0]
    before_group, after_group = ([gathered(graph, [nodes[i] for i in group]) for group in groups] for nodes in (xs, following))
    needed = graph.reachable([*following, *after_group])
    of_step, of_call = graph.depends([*xs, *us]), graph.depends([*xs, *us, h])

    prepared = _prepared(graph, needed, [not changes for changes in of_call])
    prepare = Code(graph, {"p": "ptr", "q": "ptr"}, wheels=wheels)
    for column, node in enumerate(ps):
        prepare.bind(node, prepare.load("%p", column, prepare.value))
    prepare.emit(i for i in needed if not of_call[i])
    code = Code(graph, {"x": "ptr", "q": "ptr", "u0": "ptr", "u1": "ptr", "n": "i64", "h": "double", "rise": "double"}, wheels=wheels)
    place = 0
    for node in prepared:
        of_wheels = graph.nodes[node].kind == PACK
        type_ = code.pack if of_wheels else code.value
        prepare.store(prepare.get(node), prepare.element("%q", place, code.value), 0, type_)
        code.bind(node, code.load(code.element("%q", place, code.value), 0, type_))
        place += wheels if of_wheels else 1
    size = Code(graph, {})
    size.result = str(place)

    code.jump(needed, [*following, *after_group, *(i for i in needed if not of_step[i])])
    code.bind(h, "%h")
    # `prepare` stores neither truths and arrays nor nodes that depend on h.
    code.emit(i for i in needed if not of_step[i] and (of_call[i] or graph.nodes[i].kind in (TRUTH, PACK_TRUTH, TABLE)))
    single = [i for i in range(len(xs)) if not any(i in group for group in groups)]
    carried = Carried(code, [*(Slot(code.value, xs[i], following[i]) for i in single),
                             *(Slot(code.pack, before, after, tuple(xs[i] for i in group))
                               for group, before, after in zip(groups, before_group, after_group))])
    for k, i in enumerate(single):
        carried.set(k, code.load("%x", i, code.value))
    for k, group in enumerate(groups, len(single)):
        carried.set(k, code.gathered([code.load("%x", i, code.value) for i in group]))
    before, after = ([code.load(u, i, code.value) for i in range(len(us) // len(one_step.times))] for u in ("%u0", "%u1"))
    inputs = Linear.between(code, us, one_step.times, before, after, "%rise")
    interval(code, carried, [inputs], [i for i in needed if of_step[i]], "%n")
    finite = code.number(0.0)
    last = [(i, carried.get(k)) for k, i in enumerate(single)]
    for k, group in enumerate(groups, len(single)):
        vector = carried.get(k)
        last += [(i, code.lane(vector, lane)) for lane, i in enumerate(group)]
    for i, value in last:
        code.store(value, "%x", i, code.value)
        finite = code.arithmetic("fadd", finite, code.arithmetic("fmul", value, code.number(0.0), code.value), code.value)
    code.result = code.new(f"zext i1 {code.new(f'fcmp ord double {finite}, 0.0')} to i64")
    return {"advance": code, "prepare": prepare, "size": size}


def _prepared(graph: Graph, needed: list[int], constant: list[bool]) -> list[int]:
    """Returns the numbers that depend on the parameters alone and that other nodes use; truths are recomputed from them."""
    stored: set[int] = set()
    kinds = (VALUE, PACK)

    def is_stored(i: int) -> bool:
        return constant[i] and graph.nodes[i].kind in kinds and graph.nodes[i].operation != "constant"

    for i in needed:
        if not is_stored(i):
            stored.update(a for a in graph.nodes[i].arguments if is_stored(a))
    stored.update(i for i in graph.outputs[0] if is_stored(i))
    return sorted(stored)
