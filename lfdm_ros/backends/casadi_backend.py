"""The equations as CasADi functions: exact Jacobians of the same text that numba compiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace

import casadi as ca

from lfdm_ros.models import get_model

OPERATIONS = SimpleNamespace(
    fn=lambda f: f, namespace=SimpleNamespace,
    where=lambda condition, a, b: ca.if_else(condition, a, b),
    sqrt=ca.sqrt, fabs=ca.fabs, fmin=ca.fmin, fmax=ca.fmax, sin=ca.sin, cos=ca.cos,
)


@dataclass(frozen=True)
class CasadiModel:
    """A model as SX functions; x (nx,), u (nu,), p (np,) in the order the model declares, h a scalar [s].

    step(x, u, p, h) -> x; rhs(x, u, p) -> dx/dt; tyre_forces(x, u, p, h) -> (12,);
    step_jacobian(x, u, p, h) -> (dx+/dx, dx+/du, dx+/dp); rhs_jacobian(x, u, p) -> (df/dx, df/du, df/dp), all exact.
    """

    step: ca.Function
    rhs: ca.Function
    tyre_forces: ca.Function
    step_jacobian: ca.Function
    rhs_jacobian: ca.Function


@cache
def casadi_model(name: str) -> CasadiModel:
    """Builds the functions of a model.

    Raises:
        InputError: no such model.
    """
    model = get_model(name)
    equations = model.build(OPERATIONS)
    x = [ca.SX.sym(f.name) for f in model.states]
    u = [ca.SX.sym(f.name) for f in model.inputs]
    p = [ca.SX.sym(f.name) for f in model.parameters]
    h = ca.SX.sym("h")
    parameters = SimpleNamespace(**{f.name: s for f, s in zip(model.parameters, p)})
    xs, us, ps = ca.vertcat(*x), ca.vertcat(*u), ca.vertcat(*p)

    step = ca.vertcat(*equations.step(tuple(x), tuple(u), parameters, h))
    rhs = ca.vertcat(*equations.rhs(tuple(x), tuple(u), parameters))
    forces = ca.vertcat(*equations.tyre_forces(tuple(x), tuple(u), parameters, h))

    def jacobians(f: ca.SX) -> list[ca.SX]:
        return [ca.densify(ca.jacobian(f, v)) for v in (xs, us, ps)]

    return CasadiModel(
        step=ca.Function(f"{name}_step", [xs, us, ps, h], [step], ["x", "u", "p", "h"], ["x_next"]),
        rhs=ca.Function(f"{name}_rhs", [xs, us, ps], [rhs], ["x", "u", "p"], ["dx"]),
        tyre_forces=ca.Function(f"{name}_forces", [xs, us, ps, h], [forces], ["x", "u", "p", "h"], ["forces"]),
        step_jacobian=ca.Function(f"{name}_step_jac", [xs, us, ps, h], jacobians(step)),
        rhs_jacobian=ca.Function(f"{name}_rhs_jac", [xs, us, ps], jacobians(rhs)),
    )
