"""The equations as CasADi functions with exact Jacobians, the source of all compiled kernels."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import SimpleNamespace
from typing import Any

import casadi as ca

from lfdm_ros.compiler.tables import row
from lfdm_ros.models import AXLES, Model, functions_of

OPERATIONS = SimpleNamespace(
    namespace=SimpleNamespace, where=lambda condition, a, b: ca.if_else(condition, a, b),
    sqrt=ca.sqrt, fabs=ca.fabs, fmin=ca.fmin, fmax=ca.fmax, sin=ca.sin, cos=ca.cos, tanh=ca.tanh, exp=ca.exp, log=ca.log, atan=ca.atan,
    atan2=ca.atan2, floor=ca.floor, row=row,
)


@dataclass(frozen=True)
class CasadiModel:
    """A model as SX functions; x (nx,), u (nu,), p (np,) in the order the model declares, h a scalar [s].

    step(x, u, p, h) -> x; rhs(x, u, p) -> dx/dt; outputs(x, u, p, h) -> (ny,);
    tyre_forces(x, u, p, h) -> (12,) [N], Fx, then Fy, then Fz of the wheels that the model reports, four for a car;
    friction(x, u, p) -> tyre force limit relative to that on level ground of friction 1;
    reach(x, u, p) -> remaining linkage travel of each wheel, 1 to 0, negative beyond the end; of a `linked` model;
    wheel_loads(x, u, p) -> (4,) [N], of these wheels, negative for a wheel off the ground;
    step_jacobian(x, u, p, h) -> (dx+/dx, dx+/du, dx+/dp); rhs_jacobian(x, u, p) -> (df/dx, df/du, df/dp), all exact.
    """

    model: Model
    step: ca.Function
    rhs: ca.Function
    tyre_forces: ca.Function
    outputs: ca.Function
    input_time: float
    linked: bool
    stem: str  # the model's name as prefix of function names

    # Built on demand: a run does not need them, and they take longer than the rest.
    @cached_property
    def wheel_loads(self) -> ca.Function:
        return self._at_instant("wheel_loads")

    @cached_property
    def reach(self) -> ca.Function:
        return self._at_instant("reach")

    @cached_property
    def friction(self) -> ca.Function:
        return self._at_instant("friction")

    def _at_instant(self, name: str) -> ca.Function:
        """Returns one of the equations as a function of x, u and p."""
        equations, x, u, p, q = _symbols(self.model)
        values = getattr(equations, name)(tuple(x), tuple(u), q)
        column = ca.densify(ca.vertcat(*values) if isinstance(values, (list, tuple)) else ca.SX(values))
        return ca.Function(f"{self.stem}_{name}", [ca.vertcat(*v) for v in (x, u, p)], [column], ["x", "u", "p"], [name])

    @cached_property
    def uniform(self) -> bool:
        """True if the friction does not depend on the state."""
        return self.friction.jac_sparsity(0, 0).nnz() == 0

    @cached_property
    def reading(self) -> bool:
        """True if a step reads arrays outside of the code (ground maps)."""
        return any(self.step.instruction_id(k) == ca.OP_CALL for k in range(self.step.n_instructions()))

    @cached_property
    def by_place(self) -> bool:
        """True if the motion depends on the position on the ground."""
        first = self.rhs.jac_sparsity(0, 0).colind()
        places = [i for i, f in enumerate(self.model.states) if f.name in ("x", "y")]
        return self.reading or any(first[i + 1] > first[i] for i in places)

    def registers(self, real: str) -> int:
        """Returns the number of vectors per block of a batch: two hide latency, but with float vectors that read tables the registers run
        out."""
        return 1 if real == "float" and self.reading else 2

    @cached_property
    def digest(self) -> str:
        """Hash of the equations, the key of compiled code in the cache."""
        digest = hashlib.sha256("".join(f.serialize() for f in (self.step, self.rhs, self.outputs)).encode())
        digest.update(repr([self.input_time, *((f.name, f.role) for f in self.model.states)]).encode())
        return digest.hexdigest()

    @cached_property
    def step_jacobian(self) -> ca.Function:
        return _jacobian(self.step)

    @cached_property
    def rhs_jacobian(self) -> ca.Function:
        return _jacobian(self.rhs)


@cache
def casadi_model(model: Model) -> CasadiModel:
    """Builds the functions of a model."""
    equations, x, u, p, q = _symbols(model)
    h = ca.SX.sym("h")
    xs, us, ps = ca.vertcat(*x), ca.vertcat(*u), ca.vertcat(*p)

    step = ca.vertcat(*equations.step(tuple(x), tuple(u), q, h))
    rhs = ca.vertcat(*equations.rhs(tuple(x), tuple(u), q))
    forces = ca.vertcat(*equations.tyre_forces(tuple(x), tuple(u), q, h))
    drive, extra = equations.drive(tuple(x), tuple(u), q), equations.own_outputs(tuple(x), tuple(u), q)

    stem = re.sub(r"\W+", "_", model.name)
    arguments = ["x", "u", "p", "h"]
    return CasadiModel(
        model=model,
        step=ca.Function(f"{stem}_step", [xs, us, ps, h], [ca.densify(step)], arguments, ["x_next"]),
        rhs=ca.Function(f"{stem}_rhs", [xs, us, ps], [ca.densify(rhs)], ["x", "u", "p"], ["dx"]),
        tyre_forces=ca.Function(f"{stem}_forces", [xs, us, ps, h], [ca.densify(forces)], arguments, ["forces"]),
        outputs=ca.Function(f"{stem}_outputs", [xs, us, ps, h], [ca.densify(_outputs(model, xs, drive, forces, extra))], arguments, ["y"]),
        input_time=equations.input_time, linked=equations.reach is not None, stem=stem,
    )


def _symbols(model: Model) -> tuple[Any, list[ca.SX], list[ca.SX], list[ca.SX], Any]:
    """Returns the equations of a model, symbols for its x, u and p, and its prepared parameters q."""
    equations = functions_of(model, OPERATIONS)
    x, u, p = ([ca.SX.sym(f.name) for f in fields] for fields in (model.states, model.inputs, model.parameters))
    return equations, x, u, p, equations.prepare(SimpleNamespace(**{f.name: s for f, s in zip(model.parameters, p)}))


def _jacobian(function: ca.Function) -> ca.Function:
    """Returns the derivatives by x, u and p, dense."""
    arguments = function.sx_in()
    (value,) = function.call(arguments)
    return ca.Function(f"{function.name()}_jacobian", arguments, [ca.densify(ca.jacobian(value, v)) for v in arguments[:3]])


def _outputs(model: Model, x: ca.SX, drive: tuple, forces: ca.SX, extra: Mapping[str, Any]) -> ca.SX:
    """Returns the outputs in the declared order, 0 for those that the model does not have."""
    values = {field.name: x[i] for i, field in enumerate(model.states)}
    for axle, wheels in AXLES.items():
        if f"omega_{axle}" in values:
            values |= {f"omega_{wheel}": values[f"omega_{axle}"] for wheel in wheels}
    values |= dict(zip(("gear", "engine_speed", "road_wheel_angle"), drive))
    names = [f"tyre_{force}_{wheel}" for force in ("fx", "fy", "fz") for wheel in model.reported]
    values |= {name: forces[i] for i, name in enumerate(names)}
    values["lifted_wheels"] = ca.sum1(forces[2 * len(model.reported):] <= 0.0)
    values |= extra
    computed = model.computed_outputs
    return ca.vertcat(*(values[field.name] if field.name in computed else 0.0 for field in model.outputs))
