"""What tyres hold where the vehicle is: the friction of the ground that a model has, place by place; and how hard it may brake there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.backends import casadi_model
from lfdm_ros.control.stop_law import Braked
from lfdm_ros.models import Model
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.vehicles import Vehicle
from lfdm_ros.vehicles.handling import mass_of, softness_of, understeer_of

Peak = Callable[[ArrayLike, ArrayLike, ArrayLike], np.ndarray]


def peak_of(model: Model, vehicle: Vehicle) -> Peak:
    """The acceleration at the tyres' peak [m/s^2] on the ground at places x, y [m] (n,), which are driven in a course [rad]: (n,), or (1,)
    where it is the same everywhere."""
    equations, p = casadi_model(model), vehicle.vector(model)
    most = GRAVITY * vehicle.parameters["friction_max"]
    names = [f.name for f in model.states]

    def peak(x: ArrayLike, y: ArrayLike, course: ArrayLike) -> np.ndarray:
        states = np.zeros((len(names), np.size(x)))
        states[[names.index(name) for name in ("x", "y", "yaw")]] = np.reshape([x, y, course], (3, -1))
        return most * np.asarray(equations.friction(states, 0.0, p)).ravel()

    if not equations.uniform:
        return peak
    everywhere = peak(0.0, 0.0, 0.0)
    return lambda x, y, course: everywhere


def braked_of(vehicle: Vehicle, strongest: float) -> Braked:
    """What the law of stops knows of a vehicle, with at most `strongest` of its brakes; who does not know their torques takes the peak."""
    p = vehicle.parameters
    a, b = p["cg_to_front_axle"], p["cg_to_rear_axle"]
    mass, radius = mass_of(p), p.get("wheel_radius", 0.0)
    torques = [p.get(f"brake_torque_{axle}", 0.0) for axle in ("front", "rear")]
    known = min(sum(torques), radius, mass) > 0.0
    return Braked(
        full_brake=2.0 * sum(torques) / (radius * mass) if known else GRAVITY * p["friction_max"],
        strongest=strongest, rear_brake=torques[1] / sum(torques) if known else 0.5, rear_load=a / (a + b),
        lift=p.get("cg_height", 0.0) / ((a + b) * GRAVITY), wheelbase=a + b, front_axle=a, rear_axle=b,
        full_lock=p["max_road_wheel_angle"], understeer=understeer_of(p), rear_slip=mass * a / (a + b) * softness_of(p)[1])
