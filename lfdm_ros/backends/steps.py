"""One step of a model as a graph: half-implicit or Runge-Kutta."""

from collections import defaultdict
from dataclasses import dataclass

import casadi as ca

from lfdm_ros.backends.casadi_backend import casadi_model
from lfdm_ros.compiler.graph import Graph, graph_of
from lfdm_ros.compiler.packing import packed
from lfdm_ros.models import Model

HALF_IMPLICIT, RUNGE_KUTTA = "half_implicit", "runge_kutta"


@dataclass(frozen=True)
class Step:
    """One step (x, u, p, h) -> x as a graph; u: the inputs at each of `times` (fractions of the step), concatenated.

    `groups`: indices of the states that every wheel has, if the graph computes the wheels in vectors.
    """

    graph: Graph
    times: tuple[float, ...]
    groups: tuple[tuple[int, ...], ...] = ()

    @property
    def wheels(self) -> int:
        """Lanes of the vectors."""
        return len(self.groups[0]) if self.groups else 1


def step_of(model: Model, scheme: str) -> Step:
    """Returns the step of a model with scalar nodes."""
    functions = casadi_model(model)
    if scheme == HALF_IMPLICIT:
        return Step(graph_of(functions.step), (functions.input_time,))
    return Step(graph_of(_runge_kutta(model)), (0.0, 0.5, 1.0))


def packed_step_of(model: Model, scheme: str) -> Step:
    """Returns the step of a model with the wheels in vectors."""
    step, groups = step_of(model, scheme), _wheel_groups(model)
    x, u, *_ = step.graph.inputs
    ends = [[step.graph.outputs[0][i] for i in group] for group in groups]
    return Step(packed(step.graph, ends, step.graph.depends([*x, *u])), step.times, groups)


def _wheel_groups(model: Model) -> tuple[tuple[int, ...], ...]:
    """Returns the indices of the states that every wheel has, in the order of the wheels."""
    wheels = tuple(dict.fromkeys(field.wheel for field in model.states if field.wheel))
    places: dict[str, dict[str, int]] = defaultdict(dict)
    for i, field in enumerate(model.states):
        if field.wheel:
            places[field.stem][field.wheel] = i
    return tuple(tuple(group[wheel] for wheel in wheels) for group in places.values() if set(group) == set(wheels))


def _runge_kutta(model: Model) -> ca.Function:
    """Returns the classic Runge-Kutta step of fourth order on the continuous states.

    Held states stay constant over the stages and are updated at the end; discrete ones follow the model's own step.
    """
    functions = casadi_model(model)
    nx, nu = len(model.states), len(model.inputs)
    x, u, p, h = ca.SX.sym("x", nx), ca.SX.sym("u", 3 * nu), ca.SX.sym("p", len(model.parameters)), ca.SX.sym("h")
    start, middle, end = (u[i * nu:(i + 1) * nu] for i in range(3))
    roles = [field.role for field in model.states]
    continuous = ca.DM([role == "continuous" for role in roles])

    def slope(state: ca.SX, inputs: ca.SX) -> ca.SX:
        return functions.rhs(state, inputs, p) * continuous

    k1 = slope(x, start)
    k2 = slope(x + 0.5 * h * k1, middle)
    k3 = slope(x + 0.5 * h * k2, middle)
    k4 = slope(x + h * k3, end)
    following = x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    if "held" in roles:
        following += functions.rhs(following, end, p) * ca.DM([role == "held" for role in roles])
    if "discrete" in roles:
        ruled = functions.step(x, middle, p, h)
        following = ca.vertcat(*[ruled[i] if role == "discrete" else following[i] for i, role in enumerate(roles)])
    return ca.Function("runge_kutta", [x, u, p, h], [following])
