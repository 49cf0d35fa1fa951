"""The optimal control problem, written once: what a stage costs and what it must keep, on the operations of `m`.

The states z are those of the vehicle's model, then `steering`, `pedal` and, with a lag, `road_steering`: what the driver's commands
are now. The controls w are their rates. A pedal above 0 is throttle, below 0 brake, so that the two never act at once.

What changes from stage to stage and from cycle to cycle is in the numbers c of a stage (`STAGE_NUMBERS`), what changes with the vehicle
in k (`VEHICLE_NUMBERS`). Everything is a plain function of these, so that one text gives the linearisation of the real-time iteration
and the nonlinear program of IPOPT.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from lfdm_ros.errors import InputError
from lfdm_ros.models import Model
from lfdm_ros.models.chassis import GRAVITY, static_loads
from lfdm_ros.vehicles import Actuators, Footprint, Vehicle

RESIDUALS = ("lateral", "heading", "speed", "sideslip", "steering", "pedal", "steering_rate", "pedal_rate")
KINDS = ("obstacle", "wheel_lift", "friction", "steering_limit", "corridor", "speed")
VEHICLE_NUMBERS = ("front", "rear", "half_width", "load_front", "load_rear", "to_rear_axle")
_STAGE_NUMBERS = (
    "step",  # of the model [s]
    "decay",  # of the steering's lag over a step
    "path_x", "path_y", "path_cos", "path_sin", "path_yaw", "path_curvature",  # of the path's point next to the stage, the
    # curvature that of the parallel to the path through the stage
    "path_speed", "path_speed_slope",  # reference [m/s], and its change a metre along the path
    "friction",  # acceleration that the tyres allow on a ground of friction 1 [m/s^2]
    "limit", "limit_slope",  # of the steering: at speed 0 and a m/s, along the tangent at the stage's speed
)
_CORNER = 1e-3  # [m] rounds the distance's root
_LEAST_FRICTION = 0.02  # of a ground: the row of one that holds nothing has no value


@dataclass(frozen=True)
class Layout:
    """Where everything stands in the vectors."""

    model_states: tuple[str, ...]
    lag: bool
    obstacles: int  # a stage

    @property
    def states(self) -> tuple[str, ...]:
        """Names of z."""
        return (*self.model_states, "steering", "pedal", *(("road_steering",) if self.lag else ()))

    @property
    def stage_numbers(self) -> tuple[str, ...]:
        """Names of c."""
        return (*_STAGE_NUMBERS, *(f"obstacle_{what}_{i}" for i in range(self.obstacles) for what in ("x", "y", "radius")))

    @property
    def rows(self) -> tuple[str, ...]:
        """Names of the soft constraints."""
        return (*(f"obstacle_{i}" for i in range(self.obstacles)), "load_front", "load_rear", "friction", "steering_limit",
                "corridor_front", "corridor_rear", "speed")

    @property
    def kinds(self) -> tuple[int, ...]:
        """Of each row the number of its kind in KINDS."""
        return (*(0,) * self.obstacles, 1, 1, 2, 3, 4, 4, 5)


def build(m: Any, layout: Layout) -> Any:
    """Returns inputs(z) -> (steering, throttle, brake); drive(z, w, c, time) -> commands `time` seconds into a stage;
    residuals(z, w, k, c) and rows(z, loads, friction, k, c), in the order of RESIDUALS and of the layout's rows.

    z, w, k and c have attributes by name; loads are the four wheels' [N], friction is the ground's under them.
    """
    sin, cos, sqrt, fabs, fmin, fmax = m.sin, m.cos, m.sqrt, m.fabs, m.fmin, m.fmax

    def inputs(steering, pedal):
        return steering, fmax(pedal, 0.0), fmax(-pedal, 0.0)

    def path_errors(z, c):
        # The path next to the stage's point is a parabola: distance and heading are exact to second order.
        dx, dy = z.x - c.path_x, z.y - c.path_y
        along = c.path_cos * dx + c.path_sin * dy
        return (c.path_cos * dy - c.path_sin * dx - 0.5 * c.path_curvature * along * along,
                z.yaw - c.path_yaw - c.path_curvature * along, along)

    def residuals(z, w, k, c):
        lateral, heading, along = path_errors(z, c)
        return (lateral, heading, z.vx - c.path_speed - c.path_speed_slope * along, z.vy - k.to_rear_axle * z.yaw_rate,
                z.steering, z.pedal, w.steering_rate, w.pedal_rate)

    def distance(z, k, x, y, radius):
        """From the vehicle's outline, a rectangle, to a circle's edge; negative inside."""
        dx, dy = x - z.x, y - z.y
        c, s = cos(z.yaw), sin(z.yaw)
        qx = fabs(c * dx + s * dy - 0.5 * (k.front - k.rear)) - 0.5 * (k.front + k.rear)
        qy = fabs(c * dy - s * dx) - k.half_width
        outside = sqrt(fmax(qx, 0.0) * fmax(qx, 0.0) + fmax(qy, 0.0) * fmax(qy, 0.0) + _CORNER * _CORNER)
        return outside + fmin(fmax(qx, qy), 0.0) - radius

    def rows(z, loads, friction, k, c):
        lateral, heading, _ = path_errors(z, c)
        road = z.road_steering if layout.lag else z.steering
        most = c.friction * fmax(friction, _LEAST_FRICTION)
        return (*(distance(z, k, *(getattr(c, f"obstacle_{what}_{i}") for what in ("x", "y", "radius"))) for i in range(layout.obstacles)),
                # Of an axle's wheels the lighter one; they are equal only where neither is near to lifting.
                fmin(loads[0], loads[1]) / k.load_front, fmin(loads[2], loads[3]) / k.load_rear,
                (z.ax * z.ax + z.ay * z.ay) / (most * most),
                road / (c.limit + c.limit_slope * z.vx),
                lateral + k.front * sin(heading), lateral - k.rear * sin(heading), z.vx)

    return m.namespace(inputs=inputs, residuals=residuals, rows=rows)


# Parameters of the vehicle that not every model has: for the friction circle, the outline and the first guess.
NEEDED = ("friction_max", "max_road_wheel_angle", "cg_to_front_axle", "cg_to_rear_axle")


@dataclass(frozen=True, eq=False)
class PlannedVehicle:
    """p (np,): parameters of the model; k: in the order of `problem.VEHICLE_NUMBERS`; friction: acceleration that the tyres allow on a
    ground of friction 1 [m/s^2]; wheelbase [m]; full_lock: road-wheel angle [rad] of steering 1."""

    p: np.ndarray
    k: tuple[float, ...]
    friction: float
    wheelbase: float
    full_lock: float
    outline: Footprint
    actuators: Actuators

    @classmethod
    def of(cls, vehicle: Vehicle, model: Model) -> PlannedVehicle:
        """Raises InputError if the vehicle lacks parameters."""
        p = vehicle.vector(model)
        missing = [name for name in NEEDED if name not in vehicle.parameters]
        if missing:
            raise InputError(f"vehicle {vehicle.name} has no {', '.join(missing)}; the controller needs it beside its model's parameters")
        values, outline = SimpleNamespace(**vehicle.parameters), vehicle.footprint
        front, rear = static_loads(values)
        return cls(p, (outline.front, outline.rear, outline.half_width, front, rear, values.cg_to_rear_axle),
                   GRAVITY * values.friction_max, values.cg_to_front_axle + values.cg_to_rear_axle, values.max_road_wheel_angle,
                   outline, vehicle.actuators)
