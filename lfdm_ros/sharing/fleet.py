"""The vehicles of the risk's rollouts: of one model each, with the unknown parameters of vehicle and road drawn for each.

Which tyre model holds where a tyre slides is not known either. On Fiala's a locked wheel still holds across what it held before (001 eqs
16-18 take each direction by itself), on TMeasy's it does not, so that only there a vehicle spins whose rear wheels lock in a bend. Where a
vehicle has parameters for several, the runs are shared among them.
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
    """Vehicles of one model, and what follows them."""

    model: Model
    kernel: HazardKernel

    @classmethod
    def of(cls, model: Model, single: bool, backend: str = "cpu") -> Fleet:
        """Returns the fleet of a model; single: with numbers of 32 bits; backend: cpu or gpu. Raises InputError: no GPU."""
        return cls(model, hazard_kernel(model, "float" if single else "double", backend=backend))

    def parameters(self, vehicle: Vehicle, draws: Draws | None, uniform: np.ndarray, friction: tuple[float, float]) -> np.ndarray:
        """Returns parameters (NP, n), each column a vehicle.

        Args:
            uniform: random numbers (2, n) of the draw and of the friction.
            friction: mean and standard deviation of the road's, over the vehicle's.

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
    """Returns the model of a name on each tyre model that the vehicle has parameters for and that adds no states, the vehicle's own first;
    only the named one where the name has a tyre. Raises InputError: no such model, or the vehicle lacks parameters of it."""
    own = vehicle.model(name)
    chassis, *parts = name.split("/")
    if "tyre" not in chassis_slots(chassis) or set(parts) & SLOTS["tyre"].keys():
        return [own]
    others = [vehicle.model(name, tyre) for tyre in vehicle.parts("tyre")]
    states = [f.name for f in own.states]
    return [own, *(model for model in others if model.name != own.name and [f.name for f in model.states] == states)]


def friction_draws(mean: float, sd: float, uniform: np.ndarray) -> np.ndarray:
    """Draws friction of a road with standard deviation `sd`, over the vehicle's: normal, cut off at 0.05 (n,)."""
    if not sd:
        return np.full(len(uniform), mean)
    # Not by scipy.stats, whose import takes as long as that of all the rest of a node.
    draws: np.ndarray = np.maximum(mean - sd * ndtri((1.0 - uniform) * ndtr((mean - 0.05) / sd)), 0.05)
    return draws
