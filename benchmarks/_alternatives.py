"""What a Python user would run instead of ours: the same equations in Python, NumPy or CasADi, and CommonRoad's vehicle models.

Each function returns nanoseconds of computing per millisecond of one vehicle's time. Part of `lfdm bench models` and `batch`.
"""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from lfdm_ros.backends import casadi_model
from lfdm_ros.models import Model, functions_of
from lfdm_ros.simulation import initial_state
from lfdm_ros.vehicles import Vehicle

STEP = 1e-3
CRUISE, INPUTS = 15.0, (0.1, 0.5, 0.0)  # [m/s]; steering, throttle, brake

PYTHON = SimpleNamespace(
    namespace=SimpleNamespace, where=lambda condition, a, b: a if condition else b, sqrt=math.sqrt, fabs=abs, fmin=min, fmax=max,
    sin=math.sin, cos=math.cos, tanh=math.tanh)

COMMONROAD = "vehiclemodels"  # what the package commonroad-vehicle-models is imported as
COMMONROAD_MODELS = ("st", "std", "mb")  # single-track, single-track with drift, multi-body
COMMONROAD_HINT = "CommonRoad's vehicle models are left out; to have them here: pip install commonroad-vehicle-models"


# -- The same equations ---------------------------------------------------------------------------------------------

def interpreted(model: Model, vehicle: Vehicle, operations: SimpleNamespace, vehicles: int = 1, steps: int = 300) -> float:
    """The model's own text run by Python, with the functions of `math` (one vehicle) or NumPy (arrays of vehicles, if several)."""
    p = SimpleNamespace(**{f.name: vehicle.parameters[f.name] for f in model.parameters})
    start = initial_state(model.name, vehicle, vx=CRUISE).tolist()
    x = tuple(np.full(vehicles, value) for value in start) if vehicles > 1 else tuple(start)
    with np.errstate(all="ignore"):  # both branches of a `where` are computed
        equations = functions_of(model, operations)
        q = equations.prepare(p)
        return _nanoseconds(lambda state: equations.step(state, INPUTS, q, STEP), x, steps) / vehicles


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
