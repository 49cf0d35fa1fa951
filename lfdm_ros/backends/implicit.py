"""The continuous equations under SUNDIALS: variable-order, variable-step BDF with the exact Jacobian, for stiff cases."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import casadi as ca
import numpy as np

from lfdm_ros.backends.casadi_backend import casadi_model
from lfdm_ros.models import Model


class SolverFailed(RuntimeError):
    """The solver could not keep its tolerance, or met a value that is not finite."""


@cache
def implicit_interval(model: Model, interval: float, tolerance: float) -> Callable[..., np.ndarray]:
    """Returns advance(x (nx,), u0 (nu,), u1 (nu,), p (np,)) -> x after `interval` seconds, inputs linear from u0 to u1.

    Held states are algebraic variables (IDAS; CVODES where there are none), discrete ones stay. `tolerance` is relative, and
    absolute in the states' SI units. advance raises SolverFailed.
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
            said = re.search(r'(\w+) returned "(\w+)"', str(error))
            raise SolverFailed(f"SUNDIALS {said[1]}: {said[2]}" if said else str(error)) from None
        following = state.copy()
        following[continuous], following[held] = np.array(end["xf"]).ravel(), np.array(end["zf"]).ravel()
        return following

    return advance
