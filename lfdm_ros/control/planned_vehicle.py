"""What the optimal control problem takes of a vehicle."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from lfdm_ros.errors import InputError
from lfdm_ros.models import Model
from lfdm_ros.models.chassis import GRAVITY, static_loads
from lfdm_ros.vehicles import Actuators, Footprint, Vehicle

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
