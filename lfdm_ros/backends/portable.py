"""A model as self-contained functions: advance, slopes and outputs with their exact derivatives, and the initial state."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import SimpleNamespace

import casadi as ca
import numpy as np

from lfdm_ros.backends.casadi_backend import OPERATIONS, casadi_model
from lfdm_ros.backends.loops import Carried, Linear, Slot, interval
from lfdm_ros.backends.steps import HALF_IMPLICIT, step_of
from lfdm_ros.backends.tick_kernel import advance_functions
from lfdm_ros.compiler.builder import FLAGS, Builder, module_text
from lfdm_ros.compiler.emitter import Code
from lfdm_ros.compiler.functions import evaluation
from lfdm_ros.compiler.graph import TANGENT, graph_of
from lfdm_ros.compiler.tangents import Tangents
from lfdm_ros.errors import InputError
from lfdm_ros.models import Model
from lfdm_ros.models.starting import rolling

PLACE = ("x", "y", "yaw", "vx")  # of a start


def portable_functions(model: Model, parameters: Mapping[str, float], packing: bool = True) -> Mapping[str, Builder]:
    """Returns the functions of a model by name, which need libm only. Arguments and results are addresses of doubles:

    advance, prepare, size: see `advance_functions`;
    evaluate(x, u, p, h, dx, y): slopes as `CasadiModel.rhs`, and outputs; h = 0 for an instant;
    forward(x, u, p, h, sx, su, sp, dx, y): their derivative in the direction (sx, su, sp);
    reverse(x, u, p, h, sdx, sy, gx, gu, gp): the gradient of sdx dx + sy y;
    start(p, place, rest, x): the state of a freely rolling vehicle at `PLACE`, from its state `rest` at rest.

    Args:
        parameters: of the vehicle; `start` uses those that the model lacks.
        packing: computes the wheels in vectors.

    Raises:
        InputError: the model reads arrays, which these functions cannot contain.
    """
    return {name: function for functions in _modules(model, parameters, packing).values() for name, function in functions().items()}


def _modules(model: Model, parameters: Mapping[str, float], packing: bool = True) -> Mapping[str, Callable[[], Mapping[str, Builder]]]:
    """Returns a cached factory of the functions of each module. Raises InputError: as `portable_functions`."""
    _refuse_arrays(model)
    both = cache(lambda: _slopes_and_outputs(model))
    # A separate module for `advance`, as in the simulator: the same code gives the same bits.
    return {
        "advance": cache(lambda: advance_functions(model, packing=packing)), "evaluate": cache(lambda: {"evaluate": evaluation(both())}),
        "forward": cache(lambda: {"forward": _forward(both())}), "reverse": cache(lambda: {"reverse": evaluation(_reverse(both()))}),
        "start": cache(lambda: {"start": evaluation(_start(model, parameters))})}


def portable_texts(model: Model, parameters: Mapping[str, float]) -> Mapping[str, Callable[[str, str], str]]:
    """Returns writers (target, prefix of the names) of LLVM modules of `portable_functions` but `reverse`, hidden from other libraries. The
    gradient of a multibody would compile for minutes and double the library; `forward` serves as well.

    Functions are built on demand: none for modules with cached machine code. Raises InputError: as `portable_functions`.
    """
    modules = _modules(model, parameters)

    def text(module: str, triple: str, prefix: str) -> str:
        written = module_text(triple, {f"{prefix}{name}": function for name, function in modules[module]().items()})
        if module == "start":
            written = written.replace(f" {FLAGS} ", " ")  # no fast math: rounds as `initial_state`
        return written.replace("define ", "define hidden ")

    return {module: partial(text, module) for module in modules if module != "reverse"}


def dependencies(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sparsity of slopes (nx, nx + nu) and outputs (ny, nx + nu) by states and inputs, with held states eliminated."""
    both = _slopes_and_outputs(model)
    slopes, outputs = (np.hstack([np.array(ca.DM(both.jac_sparsity(row, k), 1.0)) != 0.0 for k in (0, 1)]) for row in (0, 1))
    held = [i for i, field in enumerate(model.states) if field.role == "held"]
    behind = slopes[held].any(axis=0)
    for rows in (slopes, outputs):
        rows[rows[:, held].any(axis=1)] |= behind
    return slopes, outputs


def batch_function(model: Model, lanes: int) -> Builder:
    """Returns batch(x, p, u0, u1, vehicles, end, n, h, rise) -> 1 if all is finite: `lanes` vehicles in a vector.

    n >= 1 steps of h change x (nx, vehicles) in place, the inputs linear from u0 to u1 (nu, vehicles), with the parameters p (np,
    vehicles); rise = 1 / n. The vehicles before `end` are advanced, a multiple of `lanes` that is not 0.
    """
    one_step = step_of(model, HALF_IMPLICIT)
    graph = one_step.graph
    xs, us, ps, (h,) = graph.inputs
    following = graph.outputs[0]
    needed = graph.reachable(following)
    of_step = graph.depends([*xs, *us])
    code = Code(graph, {**dict.fromkeys(("x", "p", "u0", "u1"), "ptr"), "vehicles": "i64", "end": "i64", "n": "i64", "h": "double",
                        "rise": "double"}, lanes=lanes)
    code.jump(needed, [*following, *(i for i in needed if not of_step[i])])
    carried = Carried(code, [Slot(code.value, before, after) for before, after in zip(xs, following)])
    total = code.variables(code.real, 1)
    code.store(code.number(0.0), total, 0, code.real)
    code.bind(h, code.repeated("%h", code.value))
    rise = code.repeated("%rise", code.value)
    with code.loop("0", "%end", lanes) as block:

        def place(array: str, row: int) -> str:
            return code.element(array, code.integer("add", code.integer("mul", "%vehicles", row), block), code.real)

        for column, node in enumerate(ps):
            code.bind(node, code.load(place("%p", column), 0, code.value))
        code.emit(i for i in needed if not of_step[i])
        for k in range(len(xs)):
            carried.set(k, code.load(place("%x", k), 0, code.value))
        before, after = ([code.load(place(u, i), 0, code.value) for i in range(len(us) // len(one_step.times))] for u in ("%u0", "%u1"))
        interval(code, carried, [Linear.between(code, us, one_step.times, before, after, rise)], [i for i in needed if of_step[i]], "%n")
        finite = code.number(0.0, lanes)
        for k in range(len(xs)):
            code.store(carried.get(k), place("%x", k), 0, code.value)
            zero_product = code.arithmetic("fmul", carried.get(k), code.number(0.0, lanes), code.value)
            finite = code.arithmetic("fadd", finite, zero_product, code.value)
        for lane in [finite] if lanes == 1 else [code.new(f"extractelement {code.value} {finite}, i32 {i}") for i in range(lanes)]:
            code.store(code.arithmetic("fadd", code.load(total, 0, code.real), lane, code.real), total, 0, code.real)
    code.result = code.new(f"zext i1 {code.new(f'fcmp ord double {code.load(total, 0, code.real)}, 0.0')} to i64")
    return code


def casadi_functions(model: Model) -> Mapping[str, ca.Function]:
    """Returns step, rhs and outputs of `CasadiModel` and, of a model without discrete states, dae(x, z, u, p) -> (ode, alg): slopes of the
    continuous states x, with the held ones z from alg = 0. Raises InputError: as `portable_functions`."""
    functions = casadi_model(model)
    _refuse_arrays(model)
    roles = [field.role for field in model.states]
    x, z, d = (ca.SX.sym(name, roles.count(role)) for name, role in (("x", "continuous"), ("z", "held"), ("d", "discrete")))
    parts = {"continuous": iter(ca.vertsplit(x)), "held": iter(ca.vertsplit(z)), "discrete": iter(ca.vertsplit(d))}
    state = ca.vertcat(*(next(parts[role]) for role in roles))
    u, p = ca.SX.sym("u", len(model.inputs)), ca.SX.sym("p", len(model.parameters))
    slopes = functions.rhs(state, u, p)
    ode, alg = (ca.vertcat(*(slopes[i] for i, r in enumerate(roles) if r == role)) for role in ("continuous", "held"))
    result = {"step": functions.step, "rhs": functions.rhs, "outputs": functions.outputs}
    if "discrete" not in roles:
        result["dae"] = ca.Function(f"{functions.stem}_dae", [x, z, u, p], [ode, alg], ["x", "z", "u", "p"], ["ode", "alg"])
    return result


def _refuse_arrays(model: Model) -> None:
    if casadi_model(model).reading:
        chassis = model.name.split("/")[0]
        raise InputError(f"{model.name} reads its ground from arrays, which an export cannot carry; export it on a plane "
                         f"({chassis}) or with the ground as inputs ({chassis}/given_ground)")


def _slopes_and_outputs(model: Model) -> ca.Function:
    functions = casadi_model(model)
    x, u, p, h = functions.outputs.sx_in()
    results = [functions.rhs(x, u, p), functions.outputs(x, u, p, h)]
    return ca.Function("evaluate", [x, u, p, h], results, ["x", "u", "p", "h"], ["dx", "y"])


def _reverse(source: ca.Function) -> ca.Function:
    x, u, p, h = source.sx_in()
    seeds = [ca.SX.sym(f"s{name}", source.nnz_out(i)) for i, name in enumerate(source.name_out())]
    value = sum(ca.dot(seed, part) for seed, part in zip(seeds, source.call([x, u, p, h])))
    gradients = [ca.densify(ca.gradient(value, by)) for by in (x, u, p)]
    return ca.Function("reverse", [x, u, p, h, *seeds], gradients, ["x", "u", "p", "h", "sdx", "sy"], ["gx", "gu", "gp"])


def _start(model: Model, parameters: Mapping[str, float]) -> ca.Function:
    p, place, rest = (ca.SX.sym(name, n) for name, n in (("p", len(model.parameters)), ("place", len(PLACE)), ("rest", len(model.states))))
    values = {field.name: rest[i] for i, field in enumerate(model.states)}
    values |= {name: place[i] for i, name in enumerate(PLACE) if name in values}
    named = SimpleNamespace(**{**parameters, **{field.name: p[i] for i, field in enumerate(model.parameters)}})
    values |= rolling(model, named, values, OPERATIONS)
    state = ca.vertcat(*(values[field.name] for field in model.states))
    return ca.Function("start", [p, place, rest], [ca.densify(state)], ["p", "place", "rest"], ["x"])


def _forward(source: ca.Function) -> Code:
    graph = graph_of(source)
    names = source.name_in()
    directions = [f"s{name}" for name in names[:3]]
    code = Code(graph, dict.fromkeys([*(f"{name}_in" for name in names), *directions, *source.name_out()], "ptr"))
    seeds: dict[int, int] = {}
    for i, (name, nodes) in enumerate(zip(names, graph.inputs)):
        for element, node in enumerate(nodes):
            code.bind(node, code.load(f"%{name}_in", element, code.value))
            if i < len(directions):
                seeds[node] = graph.input(len(names) + i, element, TANGENT)
                code.bind(seeds[node], code.load(f"%{directions[i]}", element, code.tangent))
    tangents = Tangents(graph, seeds)
    ends = [tangents.of(node) for nodes in graph.outputs for node in nodes]
    code.emit(graph.reachable(end for end in ends if end is not None))
    for name, nodes in zip(source.name_out(), graph.outputs):
        for element, node in enumerate(nodes):
            tangent = tangents.of(node)
            code.store(code.number(0.0) if tangent is None else code.get(tangent, TANGENT), f"%{name}", element, code.tangent)
    return code
