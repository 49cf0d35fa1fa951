"""Optimal control problem by its terms: named costs and constraints, each a function of a stage on the operations of `m`.

The states z are those of the vehicle's model, then `steering`, `pedal` and, with a lag, `road_steering`: the driver's commands in force.
The controls w are their rates. A pedal above 0 is throttle, below 0 brake, so that the two never act at once.

Values that change by stage and cycle are the stage parameters c, those that change with the vehicle are k. Every term is a plain function
of these, so that one source gives the linearisation of the real-time iteration and the nonlinear program of IPOPT, both with exact
derivatives. Other packages add terms by the entry-point group `lfdm_ros.mpc_terms`; a controller uses those listed in its setting `terms`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from lfdm_ros import plugins
from lfdm_ros.control.routing.routes import Reference
from lfdm_ros.control.settings import Settings
from lfdm_ros.errors import InputError
from lfdm_ros.models import Model
from lfdm_ros.models.chassis import GRAVITY, static_loads
from lfdm_ros.vehicles import Actuators, Footprint, Vehicle

Bound = float | np.ndarray
VEHICLE_PARAMETERS = ("front", "rear", "half_width", "load_front", "load_rear", "to_rear_axle")
_STAGE_PARAMETERS = (
    "step",  # of the model [s]
    "decay",  # of the steering's lag over a step
    "path_x", "path_y", "path_cos", "path_sin", "path_yaw", "path_curvature",  # of the path's point next to the stage, the
    # curvature that of the parallel to the path through the stage
    "path_speed", "path_speed_slope",  # reference [m/s], and its change a metre along the path
    "friction",  # acceleration that the tyres allow on a ground of friction 1 [m/s^2]
    "limit", "limit_slope",  # of the steering: at speed 0 and a m/s, along the tangent at the stage's speed
)
_CORNER = 1e-3  # [m] rounds the distance's root
_MIN_FRICTION = 0.02  # of a ground: avoids division by zero
# Distance of plans from the corridor's edges: growth with the time ahead [m/s] and maximum [m], of a full-size vehicle, and maximum share
# of the room beside the vehicle.
CORRIDOR_GROWTH, MAX_SPARE, SPARE_SHARE = 0.4, 0.5, 0.15


# -- Terms by name ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BoundContext:
    """Task at the N+1 stages, for bounds that depend on it.

    s: distance along the path [m], time: since the plan's start [s], max_speed: speed limit [m/s], each (N+1,).
    """

    settings: Settings
    reference: Reference
    outline: Footprint
    s: np.ndarray
    time: np.ndarray
    max_speed: np.ndarray

    @cached_property
    def obstacle_margin(self) -> Bound:
        """Distance to keep from obstacles [m], one or (N+1,)."""
        s, margin = self.settings, self.reference.margin
        return s.obstacle_margin + s.obstacle_growth * self.time if margin is None else margin


@dataclass(frozen=True)
class MpcTerm:
    """Named cost (`Term`) or constraint (`Constraint`)."""

    name: str

    @property
    def expression(self) -> Callable[[Any, Any], Any]:
        """Function of the term in the problem."""
        raise NotImplementedError


@dataclass(frozen=True)
class Term(MpcTerm):
    """Cost term: half the weighted square of a residual, integrated over the horizon.

    Attributes:
        residual: function residual(m, stage); `m` has the operations (sin, sqrt, fmax, ...), the stage the attributes of `build`.
        weight: per second and squared unit of the residual, or the name of a setting.
        at_end: also counts at the last state, for `weight_terminal` seconds; False for one of controls or of `stage.end`.
    """

    residual: Callable[[Any, Any], Any]
    weight: float | str
    at_end: bool = True

    @property
    def expression(self) -> Callable[[Any, Any], Any]:
        return self.residual


@dataclass(frozen=True)
class Constraint(MpcTerm):
    """Constraint: a row with bounds at every stage but the first.

    Attributes:
        row: function row(m, stage); arguments as those of a term's residual.
        bounds: lower and upper, inf for none; or a function of a `BoundContext` that returns them, numbers or (N+1,), in each cycle.
        penalty: cost of a violation, per unit of the row and second, or the name of a setting: exact, so that feasible bounds are kept.
            inf makes the row hard: without a feasible plan the controller falls back.
        group: name in the outcomes; empty: its own.
    """

    row: Callable[[Any, Any], Any]
    bounds: tuple[float, float] | Callable[[BoundContext], tuple[Bound, Bound]]
    penalty: float | str
    group: str = ""

    @property
    def expression(self) -> Callable[[Any, Any], Any]:
        return self.row


MPC_TERMS: plugins.Door[MpcTerm] = plugins.Door("MPC term", "lfdm_ros.mpc_terms", MpcTerm, "expression")
register_mpc_term = MPC_TERMS.register


def chosen_terms(settings: Settings) -> tuple[MpcTerm, ...]:
    """Returns the terms of the setting `terms`, with its weights and penalties, as in "name, name=0.5". Raises InputError: an unknown name,
    or an invalid number."""
    chosen = []
    for entry in filter(None, (part.strip() for part in settings.terms.split(","))):
        name, _, number = (part.strip() for part in entry.partition("="))
        term = MPC_TERMS.find(name, "setting terms")
        if number:
            try:
                value = float(number)
            except ValueError:
                value = math.nan
            if not value >= 0.0 or (isinstance(term, Term) and value == math.inf):
                raise InputError(f"setting terms: {entry}: give a weight or penalty of 0 or more")
            if isinstance(term, Term):
                term = replace(term, weight=value)
            elif isinstance(term, Constraint):
                term = replace(term, penalty=value)
        chosen.append(term)
    return tuple(chosen)


# -- The terms of every controller ------------------------------------------------------------------------------------


def _obstacle_distance(i: int, m: Any, stage: Any) -> Any:
    """Returns the distance from the vehicle's outline, a rectangle, to the edge of the stage's circle i [m]; negative inside."""
    z, k, c = stage.z, stage.k, stage.c
    x, y, radius = (getattr(c, f"obstacle_{name}_{i}") for name in ("x", "y", "radius"))
    dx, dy = x - z.x, y - z.y
    cos, sin = m.cos(z.yaw), m.sin(z.yaw)
    qx = m.fabs(cos * dx + sin * dy - 0.5 * (k.front - k.rear)) - 0.5 * (k.front + k.rear)
    qy = m.fabs(cos * dy - sin * dx) - k.half_width
    outside = m.sqrt(m.fmax(qx, 0.0) * m.fmax(qx, 0.0) + m.fmax(qy, 0.0) * m.fmax(qy, 0.0) + _CORNER * _CORNER)
    return outside + m.fmin(m.fmax(qx, qy), 0.0) - radius


def _friction_use(m: Any, stage: Any) -> Any:
    """Returns the squared share of the friction circle in use."""
    limit = stage.c.friction * m.fmax(stage.friction, _MIN_FRICTION)
    return (stage.z.ax * stage.z.ax + stage.z.ay * stage.z.ay) / (limit * limit)


def _corridor(reach: Callable[[Footprint], float], b: BoundContext) -> tuple[Bound, Bound]:
    if b.reference.corridor is None:
        return -np.inf, np.inf
    left, right = np.array(b.reference.room_at(b.s + reach(b.outline))) - b.outline.half_width
    # Stages far ahead keep away from the edges: steering at its rate limit could not correct model errors.
    spare = np.minimum(b.outline.scale * np.minimum(CORRIDOR_GROWTH * b.time, MAX_SPARE), SPARE_SHARE * np.maximum(left + right, 0.0))
    return spare - right, left - spare


TERMS = (
    Term("lateral", lambda m, s: s.path.lateral, "weight_lateral"),
    Term("heading", lambda m, s: s.path.heading, "weight_heading"),
    Term("speed", lambda m, s: s.z.vx - s.c.path_speed - s.c.path_speed_slope * s.path.longitudinal, "weight_speed"),
    Term("sideslip", lambda m, s: s.z.vy - s.k.to_rear_axle * s.z.yaw_rate, "weight_sideslip"),
    Term("steering", lambda m, s: s.z.steering, "weight_steering"),
    Term("pedal", lambda m, s: s.z.pedal, "weight_pedal"),
    Term("steering_rate", lambda m, s: s.w.steering_rate, "weight_steering_rate", at_end=False),
    Term("pedal_rate", lambda m, s: s.w.pedal_rate, "weight_pedal_rate", at_end=False),
)


def _min_load(b: BoundContext) -> tuple[Bound, Bound]:
    return b.settings.load_margin, np.inf


CONSTRAINTS = (
    # The lighter wheel of an axle; both are equal only far from wheel lift.
    Constraint("load_front", lambda m, s: m.fmin(s.loads[0], s.loads[1]) / s.k.load_front, _min_load, "penalty_load", "wheel_lift"),
    Constraint("load_rear", lambda m, s: m.fmin(s.loads[2], s.loads[3]) / s.k.load_rear, _min_load, "penalty_load", "wheel_lift"),
    Constraint("friction", _friction_use, (-math.inf, 1.0), "penalty_friction"),
    Constraint("steering_limit", lambda m, s: s.road_steering / (s.c.limit + s.c.limit_slope * s.z.vx), (-1.0, 1.0), "penalty_steering"),
    Constraint("corridor_front", lambda m, s: s.path.lateral + s.k.front * m.sin(s.path.heading),
               partial(_corridor, lambda outline: outline.front), "penalty_corridor", "corridor"),
    Constraint("corridor_rear", lambda m, s: s.path.lateral - s.k.rear * m.sin(s.path.heading),
               partial(_corridor, lambda outline: -outline.rear), "penalty_corridor", "corridor"),
    Constraint("speed", lambda m, s: s.z.vx, lambda b: (0.0, b.max_speed), "penalty_speed"),
)


# -- The problem of one controller ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProblemLayout:
    """Names in the vectors of a problem, and its terms: common ones and `further` ones. Raises InputError: the name of a further term
    exists already."""

    model_states: tuple[str, ...]
    lag: bool
    obstacles: int  # in a stage
    further: tuple[MpcTerm, ...] = ()

    def __post_init__(self) -> None:
        names = {term.name for term in (*TERMS, *CONSTRAINTS)}
        for term in self.further:
            if term.name in names:
                raise InputError(f"setting terms: the problem has a term '{term.name}' already; choose another name, or name it once")
            names.add(term.name)

    @property
    def states(self) -> tuple[str, ...]:
        """Names of z."""
        return (*self.model_states, "steering", "pedal", *(("road_steering",) if self.lag else ()))

    @property
    def stage_parameters(self) -> tuple[str, ...]:
        """Names of c."""
        return (*_STAGE_PARAMETERS, *(f"obstacle_{name}_{i}" for i in range(self.obstacles) for name in ("x", "y", "radius")))

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """Costs, in the order of the residuals."""
        return (*TERMS, *(term for term in self.further if isinstance(term, Term)))

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """Constraints, in the order of the rows."""
        return (*(Constraint(f"obstacle_{i}", partial(_obstacle_distance, i), lambda b: (b.obstacle_margin, np.inf), "penalty_obstacle",
                             "obstacle") for i in range(self.obstacles)),
                *CONSTRAINTS, *(term for term in self.further if isinstance(term, Constraint)))


def build(m: Any, layout: ProblemLayout) -> Any:
    """Returns inputs(steering, pedal) -> (steering, throttle, brake), residuals(stage) and rows(stage), in the layout's order.

    A stage has z, w, k and c with attributes by name, the loads of the four wheels [N], the friction of the ground under them, z at its end
    (`end`), its `duration` [s], the errors from the `path` (lateral, longitudinal [m], heading [rad]), and `road_steering`, the steering at
    the wheels.
    """
    def inputs(steering: Any, pedal: Any) -> tuple[Any, Any, Any]:
        return steering, m.fmax(pedal, 0.0), m.fmax(-pedal, 0.0)

    def complete(stage: Any) -> None:
        # The path next to the stage's point is a parabola: distance and heading are exact to second order.
        z, c = stage.z, stage.c
        dx, dy = z.x - c.path_x, z.y - c.path_y
        longitudinal = c.path_cos * dx + c.path_sin * dy
        stage.path = m.namespace(lateral=c.path_cos * dy - c.path_sin * dx - 0.5 * c.path_curvature * longitudinal * longitudinal,
                                 heading=z.yaw - c.path_yaw - c.path_curvature * longitudinal, longitudinal=longitudinal)
        stage.road_steering = z.road_steering if layout.lag else z.steering

    def residuals(stage: Any) -> tuple[Any, ...]:
        complete(stage)
        return tuple(term.residual(m, stage) for term in layout.terms)

    def rows(stage: Any) -> tuple[Any, ...]:
        complete(stage)
        return tuple(constraint.row(m, stage) for constraint in layout.constraints)

    return m.namespace(inputs=inputs, residuals=residuals, rows=rows)


# -- The vehicle ------------------------------------------------------------------------------------------------------

# Required vehicle parameters beside the model's: for the friction circle, the outline and the initial guess.
REQUIRED_PARAMETERS = ("friction_max", "max_road_wheel_angle", "cg_to_front_axle", "cg_to_rear_axle")


@dataclass(frozen=True, eq=False)
class PlannedVehicle:
    """Values of a vehicle in the problem.

    p (np,): parameters of the model; k: in the order of `VEHICLE_PARAMETERS`; friction: acceleration that the tyres allow on a ground of
    friction 1 [m/s^2]; wheelbase [m]; full_lock: road-wheel angle [rad] of steering 1.
    """

    p: np.ndarray
    k: tuple[float, ...]
    friction: float
    wheelbase: float
    full_lock: float
    outline: Footprint
    actuators: Actuators

    @classmethod
    def of(cls, vehicle: Vehicle, model: Model) -> PlannedVehicle:
        """Makes them from a vehicle. Raises InputError if it lacks parameters."""
        p = vehicle.vector(model)
        missing = [name for name in REQUIRED_PARAMETERS if name not in vehicle.parameters]
        if missing:
            raise InputError(f"vehicle {vehicle.name} has no {', '.join(missing)}; the controller needs it beside its model's parameters")
        values, outline = SimpleNamespace(**vehicle.parameters), vehicle.footprint
        front, rear = static_loads(values)
        return cls(p, (outline.front, outline.rear, outline.half_width, front, rear, values.cg_to_rear_axle),
                   GRAVITY * values.friction_max, values.cg_to_front_axle + values.cg_to_rear_axle, values.max_road_wheel_angle,
                   outline, vehicle.actuators)
