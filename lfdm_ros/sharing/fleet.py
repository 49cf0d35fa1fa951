"""Vehicles of the risk's rollouts: one model per fleet, with the uncertain parameters of vehicle and road drawn for each vehicle.

The right tyre model of a sliding tyre is uncertain, too. With Fiala's a locked wheel keeps its lateral force (001 eqs 16-18 treat each
direction separately), with TMeasy's it does not, so that only there a vehicle spins if its rear wheels lock in a bend. If a vehicle has
parameters for several, the runs are divided among them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from lfdm_ros.backends import hazard_kernel
from lfdm_ros.backends.hazard_kernel import HazardKernel
from lfdm_ros.models import SLOTS, Model, chassis_slots
from lfdm_ros.sharing.situation import Draws
from lfdm_ros.vehicles import Vehicle


@dataclass(frozen=True)
class Fleet:
    """Vehicles of one model, and the kernel that simulates them."""

    model: Model
    kernel: HazardKernel

    @classmethod
    def of(cls, model: Model, single: bool, backend: str = "cpu") -> Fleet:
        """Returns the fleet of a model; single: in single precision; backend: cpu or gpu. Raises InputError: no GPU."""
        return cls(model, hazard_kernel(model, "float" if single else "double", backend=backend))

    def parameters(self, vehicle: Vehicle, draws: Draws | None, uniform: np.ndarray, friction: tuple[float, float]) -> np.ndarray:
        """Draws parameters (NP, n), one column a vehicle.

        Args:
            uniform: random numbers (2, n) of the draw and of the friction.
            friction: mean and standard deviation of the road's friction, relative to the vehicle's.

        Raises:
            InputError: the vehicle lacks parameters.
        """
        names = [f.name for f in self.model.parameters]
        p = np.repeat(vehicle.vector(self.model)[:, None], uniform.shape[1], axis=1)
        if draws is not None and len(draws.values):
            which = (uniform[0] * len(draws.values)).astype(int)
            for column, name in enumerate(draws.names):
                if name in names:
                    p[names.index(name)] = draws.values[which, column]
        if "friction_scale" in names:
            row = names.index("friction_scale")
            p[row] = np.clip(p[row] * friction_draws(*friction, uniform[1]), 0.02, self.model.parameters[row].upper)
        return np.ascontiguousarray(p, dtype=self.kernel.dtype)


def tyre_models(vehicle: Vehicle, name: str) -> list[Model]:
    """Returns the named model with each tyre model that the vehicle has parameters for and that adds no states, the vehicle's own first;
    only one if the name contains a tyre model. Raises InputError: no such model, or the vehicle lacks parameters of it."""
    own = vehicle.model(name)
    chassis, *parts = name.split("/")
    if "tyre" not in chassis_slots(chassis) or set(parts) & SLOTS["tyre"].keys():
        return [own]
    others = [vehicle.model(name, tyre) for tyre in vehicle.parts("tyre")]
    states = [f.name for f in own.states]
    return [own, *(model for model in others if model.name != own.name and [f.name for f in model.states] == states)]


def friction_draws(mean: float, sd: float, uniform: np.ndarray) -> np.ndarray:
    """Draws road friction relative to the vehicle's (n,): normal, truncated at 0.05."""
    if not sd:
        return np.full(len(uniform), mean)
    # scipy.stats is avoided: its import doubles the start-up time of a node.
    draws: np.ndarray = np.maximum(mean - sd * ndtri((1.0 - uniform) * ndtr((mean - 0.05) / sd)), 0.05)
    return draws
