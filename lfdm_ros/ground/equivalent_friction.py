"""SoilProperties as models without soil can have it: for each soil a friction and a resistance, from the exact wheel at its load at rest.

The largest pull of a driven wheel of Bekker and Wong, and the resistance of a free one, are those of a wheel on firm ground of

    (1) resistance = -pull of the wheel without a moment, over the load
    (2) friction = largest pull over the load + resistance

on which a force against the travel is added to what the tyre does. The vehicle's own friction is scaled so that the peak of its Fiala tyres
is (2), and what they lose by rolling is taken off both. The slip that a pull takes, what a locked wheel adds by the soil before it, and how
all that changes with the load are not in it; docs/concepts/ground.md says by how much that is off.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq

from lfdm_ros.ground.friction_field import MAX_FRICTION, FrictionField, FrictionLink
from lfdm_ros.ground.grid import Grid
from lfdm_ros.ground.maps import ResistanceMap
from lfdm_ros.ground.soil_wheel import SoilForces, SoilWheel, WheelMotion, settle
from lfdm_ros.ground.soils import SoilMap, SoilProperties
from lfdm_ros.models import fiala
from lfdm_ros.models.chassis import static_loads
from lfdm_ros.models.equations import Record
from lfdm_ros.vehicles import Vehicle

NEEDED = ("wheel_radius", "tyre_width", "tyre_vertical_stiffness_front", "tyre_vertical_stiffness_rear", "cg_height", "unsprung_load_share",
          "friction_scale", *(field.name for field in fiala.PARAMETERS))
MIN_FRICTION = 0.02  # of a soil that holds nothing: 0 has no latent value
_MAX_EQUIVALENT_FRICTION = 0.9 * MAX_FRICTION
_TOWED, _PULLING = -0.4, 0.2  # slips between which a wheel rolls without a moment
_SLIPS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
_POINTS = 16  # of each part of the contact: 1e-5 of what they are


@dataclass(frozen=True)
class EquivalentFriction:
    """Equivalent of a soil under a wheel, over its load: friction, and resistance to its travel [1]."""

    friction: float
    resistance: float


# A wheel that lies on its axle: it cannot pull, and ploughs. That half of its load holds it back is no more than a guess.
SUNK = EquivalentFriction(MIN_FRICTION, 0.5)


def firm_of(soil: SoilProperties, wheel: SoilWheel, load: float) -> EquivalentFriction:
    """Computes the equivalent for a wheel at a load [N] (1, 2); SUNK where the soil does not carry it."""
    return _firm(tuple(soil.parameters.items()), wheel, load)


def _forces(soil: SoilProperties, wheel: SoilWheel, load: float, slip: float) -> SoilForces | None:
    return settle(wheel, soil, load, WheelMotion.of(slip), _POINTS).forces


@lru_cache(maxsize=256)
def _firm(values: tuple[tuple[str, float], ...], wheel: SoilWheel, load: float) -> EquivalentFriction:
    given: dict[str, Any] = {name.removeprefix("soil_"): value for name, value in values}
    soil = SoilProperties("", **given)
    ends = [_forces(soil, wheel, load, slip) for slip in (_TOWED, _PULLING)]
    if any(end is None for end in ends):
        return SUNK

    def moment(slip: float) -> float:
        at = _forces(soil, wheel, load, slip)
        return at.moment if at is not None else 0.0

    low, high = (end.moment for end in ends if end is not None)
    towed = _forces(soil, wheel, load, float(brentq(moment, _TOWED, _PULLING, xtol=1e-6)) if low < 0.0 < high else 0.0)
    assert towed is not None
    resistance = max(-towed.fx / load, 0.0)
    pulls = [at.fx / load for slip in _SLIPS if (at := _forces(soil, wheel, load, slip)) is not None]
    return EquivalentFriction(max(max(pulls) + resistance, MIN_FRICTION), resistance)


def has_equivalent(vehicle: Vehicle) -> bool:
    """Checks that a vehicle has the parameters of its wheels."""
    return all(name in vehicle.parameters for name in NEEDED)


def equivalent_friction(vehicle: Vehicle, soils: Sequence[SoilProperties]) -> list[EquivalentFriction]:
    """Computes equivalents of soils for a vehicle that `has_equivalent`: the mean of its axles, by their loads at rest."""
    p = Record(**vehicle.parameters)
    found = []
    for soil in soils:
        friction = resistance = weight = 0.0
        for axle, load in zip(("front", "rear"), static_loads(p)):
            one = firm_of(soil, SoilWheel(p.wheel_radius, p.tyre_width, getattr(p, f"tyre_vertical_stiffness_{axle}")), load)
            friction, resistance, weight = friction + load * one.friction, resistance + load * one.resistance, weight + load
        found.append(EquivalentFriction(friction / weight, resistance / weight))
    return found


def fiala_scale(vehicle: Vehicle, friction: float) -> float:
    """Returns the scale of the vehicle's friction with which the longitudinal peak of its Fiala tyres at rest is `friction` over the load
    (see `models.driven_bicycle.Axles.grip`)."""
    p = Record(**vehicle.parameters)
    stiffness = 0.5 * (p.longitudinal_stiffness_front + p.longitudinal_stiffness_rear)
    k, drop = 0.5 * sum(static_loads(p)) / (4.0 * stiffness), max(p.friction_max - p.friction_min, 0.0)

    def lacking(scale: float) -> float:
        most, x = scale * p.friction_max, k * scale * drop
        return most * (1.0 + 2.0 * x - 2.0 * math.sqrt(x * (1.0 + x))) - friction

    low, high = 1e-3, 2.0 * _MAX_EQUIVALENT_FRICTION
    return float(brentq(lacking, low, high)) if lacking(low) < 0.0 < lacking(high) else high


def equivalent_maps(vehicle: Vehicle, soils: SoilMap, grid: Grid) -> tuple[FrictionField, ResistanceMap]:
    """Returns a map of soils as friction, over that of the road of the vehicle's file, and resistance beside that of its tyres."""
    firm, which = equivalent_friction(vehicle, soils.soils), soils.number_at(*np.meshgrid(grid.xs, grid.ys))
    p = vehicle.parameters
    # What the tyres lose by rolling is a torque, and takes nothing of the largest pull.
    rolling = [min(p["rolling_resistance"] / p["wheel_radius"], one.resistance) for one in firm]
    scales = [fiala_scale(vehicle, max(one.friction - own, MIN_FRICTION)) / max(p["friction_scale"], MIN_FRICTION)
              for one, own in zip(firm, rolling)]
    friction = np.clip(scales, MIN_FRICTION, _MAX_EQUIVALENT_FRICTION)[which]
    link = FrictionLink.around(friction)
    return FrictionField(grid, link.latent(friction), link), ResistanceMap(grid, np.array(
        [one.resistance - own for one, own in zip(firm, rolling)])[which])
