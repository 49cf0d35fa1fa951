"""Functions of a model for one vehicle: machine code with exact Jacobians, SUNDIALS, and `@numba.njit` functions."""

import re
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import casadi as ca
import numpy as np

from lfdm_ros.backends.casadi_backend import casadi_model
from lfdm_ros.backends.tick_kernel import advance_code
from lfdm_ros.compiler import CompiledFunction, compiled, compiled_with_tangents
from lfdm_ros.compiler.tables import rows
from lfdm_ros.errors import InputError
from lfdm_ros.models import Model

ARRAYS = SimpleNamespace(
    namespace=SimpleNamespace, where=np.where, sqrt=np.sqrt, fabs=np.abs, fmin=np.minimum, fmax=np.maximum,
    sin=np.sin, cos=np.cos, tanh=np.tanh, exp=np.exp, log=np.log, atan=np.arctan, atan2=np.arctan2, floor=np.floor, row=rows)


@cache
def compiled_model_function(model: Model, function: str) -> CompiledFunction:
    """Compiles one of a model's functions, step or rhs, with the arguments of `CasadiModel`."""
    return compiled(getattr(casadi_model(model), function))


@cache
def compiled_jacobian(model: Model, function: str = "rhs", by: tuple[str, ...] = ("x", "u")) -> CompiledFunction:
    """Compiles value and exact Jacobian of one of a model's functions: f(x, u, p[, h]) -> (value (n,), jacobian (n, columns)). function:
    rhs or step; by: arguments (x, u, p) with all elements, or names of parameters. Raises InputError: no such parameter."""
    source: ca.Function = getattr(casadi_model(model), function)
    arguments = [source.name_in(i) for i in range(source.n_in())]
    parameters = [field.name for field in model.parameters]
    places: list[tuple[int, int]] = []  # argument and element of each column
    for name in by:
        if name in arguments:
            i = arguments.index(name)
            places += [(i, element) for element in range(source.nnz_in(i))]
        elif name in parameters:
            places.append((arguments.index("p"), parameters.index(name)))
        else:
            raise InputError(f"model '{model.name}' has no parameter '{name}'; `lfdm models` lists them")
    key = f"jacobian {casadi_model(model).digest} {function} {places}"
    return compiled_with_tangents(source, places, key, f"{model.name} {function} by {', '.join(by)}")


class SolverFailed(RuntimeError):
    """Failure of the solver: tolerance not reached, or a value that is not finite."""


@cache
def implicit_interval(model: Model, interval: float, tolerance: float) -> Callable[..., np.ndarray]:
    """Returns advance(x (nx,), u0 (nu,), u1 (nu,), p (np,)) -> x after `interval` seconds, inputs linear from u0 to u1.

    Held states are algebraic variables (IDAS; CVODES without any), discrete ones are constant. `tolerance` is relative, and absolute in the
    states' SI units. advance raises SolverFailed.
    """
    functions = casadi_model(model)
    roles = np.array([field.role for field in model.states])
    continuous, held, discrete = (np.flatnonzero(roles == role) for role in ("continuous", "held", "discrete"))
    nu = len(model.inputs)
    x, z, d = (ca.SX.sym(name, len(places)) for name, places in (("x", continuous), ("z", held), ("d", discrete)))
    u0, u1, p, t = ca.SX.sym("u0", nu), ca.SX.sym("u1", nu), ca.SX.sym("p", len(model.parameters)), ca.SX.sym("t")
    state = ca.SX.zeros(len(roles))
    for places, part in ((continuous, x), (held, z), (discrete, d)):
        for i, place in enumerate(places):
            state[int(place)] = part[i]
    slopes = functions.rhs(state, u0 + t / interval * (u1 - u0), p)
    equations = {"x": x, "p": ca.vertcat(u0, u1, d, p), "t": t, "ode": slopes[continuous.tolist()]}
    if len(held):
        equations |= {"z": z, "alg": slopes[held.tolist()]}
    options = {"reltol": tolerance, "abstol": tolerance, "max_num_steps": 100_000, "show_eval_warnings": False}
    solver = ca.integrator("implicit", "idas" if len(held) else "cvodes", equations, 0.0, interval, options)

    def advance(state: np.ndarray, before: np.ndarray, after: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        try:
            end = solver(x0=state[continuous], z0=state[held], p=np.concatenate([before, after, state[discrete], parameters]))
        except RuntimeError as error:
            message = re.search(r'(\w+) returned "(\w+)"', str(error))
            raise SolverFailed(f"SUNDIALS {message[1]}: {message[2]}" if message else str(error)) from None
        following = state.copy()
        following[continuous], following[held] = np.array(end["xf"]).ravel(), np.array(end["zf"]).ravel()
        return following

    return advance


FUNCTIONS = ("step", "rhs", "advance")


@cache
def numba_function(model: Model, function: str) -> Callable[..., Any]:
    """Returns one of a model's functions for `@numba.njit` code; arrays are contiguous float64. Thread-safe.

    step(x (nx,), u (nu,), p (np,), h, after (nx,)): one half-implicit step of h [s], written to `after`;
    rhs(x, u, p, slope (nx,)): dx/dt, written to `slope`, see `lfdm_ros.models.Model`;
    advance(x, q, u0 (nu,), u1 (nu,), n, h) -> bool: n >= 1 steps that change x in place, the inputs linear from u0 to u1; returns True if x
        is finite. q comes from `constants(model, p)`. Many times as fast as `step`, which prepares the parameters each time.

    Numba cannot cache a caller on disk: the functions are addresses in this process. Raises InputError: no such function.
    """
    from numba import njit

    if function == "advance":
        call = advance_code(model).advance

        @njit
        def advance(x, q, u0, u1, n, h):
            return call(x.ctypes, q.ctypes, u0.ctypes, u1.ctypes, n, h, 1.0 / n) != 0

        return advance
    if function == "step":
        one_step = compiled_model_function(model, "step").address_call

        @njit
        def step(x, u, p, h, after):
            length = np.full(1, h)
            one_step(x.ctypes, u.ctypes, p.ctypes, length.ctypes, after.ctypes)

        return step
    if function == "rhs":
        derivative = compiled_model_function(model, "rhs").address_call

        @njit
        def rhs(x, u, p, slope):
            derivative(x.ctypes, u.ctypes, p.ctypes, slope.ctypes)

        return rhs
    raise InputError(f"a model has no function '{function}' to call; choose one of: {', '.join(FUNCTIONS)}")


def constants(model: Model, p: np.ndarray) -> np.ndarray:
    """Computes the constants of `advance` from the parameters (np,); call again when these change. Raises ValueError: wrong size of p."""
    values = np.ascontiguousarray(p, dtype=float)
    if values.shape != (len(model.parameters),):
        raise ValueError(f"{model.name} has {len(model.parameters)} parameters, got an array of shape {values.shape}")
    return advance_code(model).constants(values)
