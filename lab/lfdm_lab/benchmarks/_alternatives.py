"""What a Python user would run instead of ours: the same equations in Python, NumPy or CasADi, and CommonRoad's vehicle models.

Each function returns nanoseconds of computing per millisecond of one vehicle's time. Part of `lfdm bench models` and `batch`.
"""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import casadi as ca
import numpy as np

from lfdm_ros.backends import casadi_model
from lfdm_ros.compiler.graph import graph_of
from lfdm_ros.models import Model
from lfdm_ros.simulation import initial_state
from lfdm_ros.vehicles import Vehicle

STEP = 1e-3
CRUISE, INPUTS = 15.0, (0.1, 0.5, 0.0)  # [m/s]; steering, throttle, brake

# How one operation of a graph is written: for one vehicle with `math`, and for arrays of them with NumPy.
_COMMON = {"add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "div": "{} / {}", "neg": "-{}", "sq": "{0} * {0}", "twice": "2.0 * {}",
           "inv": "1.0 / {}", "lt": "{} < {}", "le": "{} <= {}", "eq": "{} == {}", "ne": "{} != {}", "pow": "{} ** {}",
           "constpow": "{} ** {}"}
_FUNCTIONS = ("sqrt", "sin", "cos", "tan", "tanh", "sinh", "cosh", "exp", "log", "expm1", "log1p", "floor", "ceil", "hypot", "copysign")
PYTHON = {**_COMMON, **{name: f"math.{name}({{}})" for name in _FUNCTIONS}, "asin": "math.asin({})", "acos": "math.acos({})",
          "atan": "math.atan({})", "atan2": "math.atan2({}, {})", "hypot": "math.hypot({}, {})", "copysign": "math.copysign({}, {})",
          "fabs": "abs({})", "fmin": "({0} if {0} < {1} else {1})", "fmax": "({0} if {0} > {1} else {1})", "sign": "({0} > 0) - ({0} < 0)",
          "and": "{} and {}", "or": "{} or {}", "not": "not {}", "if_else_zero": "{1} if {0} else 0.0", "select": "{1} if {0} else {2}"}
NUMPY = {**_COMMON, **{name: f"np.{name}({{}})" for name in _FUNCTIONS}, "asin": "np.arcsin({})", "acos": "np.arccos({})",
         "atan": "np.arctan({})", "atan2": "np.arctan2({}, {})", "hypot": "np.hypot({}, {})", "copysign": "np.copysign({}, {})",
         "fabs": "np.abs({})", "fmin": "np.minimum({}, {})", "fmax": "np.maximum({}, {})", "sign": "np.sign({})",
         "and": "np.logical_and({}, {})", "or": "np.logical_or({}, {})", "not": "np.logical_not({})",
         "if_else_zero": "np.where({}, {}, 0.0)", "select": "np.where({}, {}, {})"}

COMMONROAD = "vehiclemodels"  # what the package commonroad-vehicle-models is imported as
COMMONROAD_MODELS = ("st", "std", "mb")  # single-track, single-track with drift, multi-body
COMMONROAD_HINT = "CommonRoad's vehicle models are left out; to have them here: pip install commonroad-vehicle-models"


# -- The same equations ---------------------------------------------------------------------------------------------

def written_out(model: Model, vehicle: Vehicle, operations: Mapping[str, str]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """The model's step as one straight function of Python, x -> x: no records, each common term once, parameters as numbers.

    operations: PYTHON or NUMPY.
    """
    x = ca.SX.sym("x", len(model.states))
    step = casadi_model(model).step(x, ca.DM(INPUTS), ca.DM(vehicle.vector(model)), STEP)
    graph = graph_of(ca.Function("step", [x], [ca.densify(step)]))
    text, lines = {}, []
    for i in graph.reachable(graph.outputs[0]):
        node = graph.nodes[i]
        if isinstance(node.payload, tuple):  # an input
            text[i] = f"x[{node.payload[1]}]"
        elif node.operation == "constant":
            text[i] = repr(node.payload)
        else:
            text[i] = f"v{i}"
            lines.append(f"    v{i} = {operations[node.operation].format(*(text[a] for a in node.arguments))}")
    names: dict[str, Any] = {"math": math, "np": np, "inf": math.inf, "nan": math.nan}
    exec("\n".join(["def step(x):", *lines, f"    return ({', '.join(text[i] for i in graph.outputs[0])},)"]), names)
    function: Callable[[Sequence[Any]], tuple[Any, ...]] = names["step"]
    return function


def interpreted(model: Model, vehicle: Vehicle, operations: Mapping[str, str], vehicles: int = 1, steps: int = 300) -> float:
    """The same equations, written out and run by Python, for one vehicle or for arrays of several."""
    start = initial_state(model.name, vehicle, vx=CRUISE).tolist()
    x = tuple(np.full(vehicles, value) for value in start) if vehicles > 1 else tuple(start)
    with np.errstate(all="ignore"):  # both branches of a `where` are computed
        return _nanoseconds(written_out(model, vehicle, operations), x, steps) / vehicles


def casadi_virtual_machine(model: Model, vehicle: Vehicle, steps: int = 300) -> float:
    """The same step on CasADi's virtual machine, called from Python."""
    step, p = casadi_model(model).step, vehicle.vector(model)
    return _nanoseconds(lambda state: step(state, INPUTS, p, STEP), initial_state(model.name, vehicle, vx=CRUISE), steps)


def _nanoseconds(step: Callable[[Any], Any], x: Any, steps: int) -> float:
    began = time.perf_counter()
    for _ in range(steps):
        x = step(x)
    return 1e9 * (time.perf_counter() - began) / steps


# -- CommonRoad ------------------------------------------------------------------------------------------------------

def commonroad_is_there() -> bool:
    """Whether the package can be imported."""
    return importlib.util.find_spec(COMMONROAD) is not None


def commonroad(name: str, integrator: str, seconds: float = 10.0) -> float:
    """A lane change at 15 m/s by one of COMMONROAD_MODELS.

    integrator: `odeint`, as the package's documentation runs it (output every 10 ms, default tolerances), or `euler` with 1 ms.
    """
    from scipy.integrate import odeint

    def take(module: str) -> Any:
        return getattr(importlib.import_module(f"{COMMONROAD}.{module}"), module)

    derivative, p = take(f"vehicle_dynamics_{name}"), take("parameters_vehicle2")()
    start = [0.0, 0.0, 0.0, CRUISE, 0.0, 0.0, 0.0]
    x0 = take("init_st")(start) if name == "st" else take(f"init_{name}")(start, p)

    def controls(t: float) -> list[float]:
        # Steering velocity [rad/s]: left, right, left, straight; and 1 m/s^2 before that.
        turn = 0.15 * ((3.0 < t <= 3.3) - (3.7 < t <= 4.3) + (4.7 < t <= 5.0))
        return [turn, 1.0 if t < 3.0 else 0.0]

    began = time.perf_counter()
    if integrator == "odeint":
        odeint(lambda x, t: derivative(x, controls(t), p), x0, np.arange(0.0, seconds, 0.01))
    else:
        x = np.array(x0, float)
        for k in range(round(seconds / STEP)):
            x = x + STEP * np.array(derivative(x, controls(k * STEP), p))
    return 1e9 * (time.perf_counter() - began) / (seconds / STEP)
