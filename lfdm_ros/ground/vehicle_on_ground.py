"""A vehicle on the ground of a file: parameters with which each of its models reads friction, soil and heights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq

from lfdm_ros.ground.friction_field import MAX_FRICTION, FrictionField, FrictionLink
from lfdm_ros.ground.grid import Grid
from lfdm_ros.ground.ground_file import GroundDescription, load_ground
from lfdm_ros.ground.maps import FieldTable, HeightMap, ResistanceMap
from lfdm_ros.ground.posterior import FrictionPosteriorMap
from lfdm_ros.ground.soil_wheel import SoilForces, SoilWheel, WheelMotion, settle
from lfdm_ros.ground.soils import SoilMap, SoilProperties
from lfdm_ros.models import SLOTS, chassis_slots, fiala
from lfdm_ros.models.chassis import static_loads
from lfdm_ros.models.equations import Record
from lfdm_ros.vehicles import Vehicle

NEEDED = ("wheel_radius", "tyre_width", "tyre_vertical_stiffness_front", "tyre_vertical_stiffness_rear", "cg_height", "unsprung_load_share",
          "friction_scale", *(field.name for field in fiala.PARAMETERS))
MIN_FRICTION = 0.02  # of a soil without traction: 0 has no latent value
_MAX_EQUIVALENT_FRICTION = 0.9 * MAX_FRICTION
_TOWED, _PULLING = -0.4, 0.2  # slips that bracket the free-rolling wheel
_SLIPS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
_POINTS = 16  # of each part of the contact: relative error of the forces 1e-5


@dataclass(frozen=True)
class EquivalentFriction:
    """Firm ground equivalent to a soil under a wheel: friction and resistance to travel, over the load [1].

    It reproduces the maximum pull of a driven wheel and the resistance of a free one of the Bekker-Wong model:

        (1) resistance = -pull of the wheel without a moment, over the load
        (2) friction = maximum pull over the load + resistance

    with the resistance as a force against the travel besides the tyre's. The vehicle's friction is scaled so that the peak of its Fiala
    tyres is (2), and their rolling resistance is subtracted from both. Not included: the slip at a pull, the soil pushed by a locked wheel,
    and the dependence on the load; docs/concepts/ground.md gives the errors.
    """

    friction: float
    resistance: float


# A wheel sunk to its axle cannot pull, and ploughs. A resistance of half its load is a guess.
SUNK = EquivalentFriction(MIN_FRICTION, 0.5)


def firm_of(soil: SoilProperties, wheel: SoilWheel, load: float) -> EquivalentFriction:
    """Computes the equivalent for a wheel at a load [N] (1, 2); SUNK if the soil does not carry it."""
    return _firm(tuple(soil.parameters.items()), wheel, load)


def _forces(soil: SoilProperties, wheel: SoilWheel, load: float, slip: float) -> SoilForces | None:
    return settle(wheel, soil, load, WheelMotion.of(slip), _POINTS).forces


@lru_cache(maxsize=256)
def _firm(values: tuple[tuple[str, float], ...], wheel: SoilWheel, load: float) -> EquivalentFriction:
    properties: dict[str, Any] = {name.removeprefix("soil_"): value for name, value in values}
    soil = SoilProperties("", **properties)
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
    """Computes equivalents of soils for a vehicle that `has_equivalent`: the mean of its axles, weighted by their loads at rest."""
    p = Record(**vehicle.parameters)
    equivalents = []
    for soil in soils:
        friction = resistance = weight = 0.0
        for axle, load in zip(("front", "rear"), static_loads(p)):
            one = firm_of(soil, SoilWheel(p.wheel_radius, p.tyre_width, getattr(p, f"tyre_vertical_stiffness_{axle}")), load)
            friction, resistance, weight = friction + load * one.friction, resistance + load * one.resistance, weight + load
        equivalents.append(EquivalentFriction(friction / weight, resistance / weight))
    return equivalents


def fiala_scale(vehicle: Vehicle, friction: float) -> float:
    """Returns the scale of the vehicle's friction with which the longitudinal peak of its Fiala tyres at rest is `friction` over the load
    (see `models.driven_bicycle.Axles.grip`)."""
    p = Record(**vehicle.parameters)
    stiffness = 0.5 * (p.longitudinal_stiffness_front + p.longitudinal_stiffness_rear)
    k, drop = 0.5 * sum(static_loads(p)) / (4.0 * stiffness), max(p.friction_max - p.friction_min, 0.0)

    def excess(scale: float) -> float:
        peak, x = scale * p.friction_max, k * scale * drop
        return peak * (1.0 + 2.0 * x - 2.0 * math.sqrt(x * (1.0 + x))) - friction

    low, high = 1e-3, 2.0 * _MAX_EQUIVALENT_FRICTION
    return float(brentq(excess, low, high)) if excess(low) < 0.0 < excess(high) else high


def equivalent_maps(vehicle: Vehicle, soils: SoilMap, grid: Grid) -> tuple[FrictionField, ResistanceMap]:
    """Returns a map of soils as friction, relative to the road of the vehicle's file, and resistance in excess of its tyres'."""
    firm, which = equivalent_friction(vehicle, soils.soils), soils.number_at(*np.meshgrid(grid.xs, grid.ys))
    p = vehicle.parameters
    # The tyres' rolling resistance is a torque, and does not reduce the maximum pull.
    rolling = [min(p["rolling_resistance"] / p["wheel_radius"], one.resistance) for one in firm]
    scales = [fiala_scale(vehicle, max(one.friction - of_tyre, MIN_FRICTION)) / max(p["friction_scale"], MIN_FRICTION)
              for one, of_tyre in zip(firm, rolling)]
    friction = np.clip(scales, MIN_FRICTION, _MAX_EQUIVALENT_FRICTION)[which]
    link = FrictionLink.around(friction)
    resistance = np.array([one.resistance - of_tyre for one, of_tyre in zip(firm, rolling)])
    return FrictionField(grid, link.latent(friction), link), ResistanceMap(grid, resistance[which])


SOFT_TYRE = "bekker_wong"


class VehicleOnGround:
    """A vehicle with the parameters of a ground, valid for all of its models during the lifetime of this object.

    All models read heights; Bekker-Wong tyres read soils, all others friction, on soil that of `equivalent_friction` with its resistance.
    Missing layers cost no time. Maps of the previous `set_friction` live until the next one.

    Attributes:
        vehicle: on that ground.
        numbers: its parameters of the ground.
        others: values of its parameter `friction_field` for samples of the field.
    """

    def __init__(self, vehicle: Vehicle, ground: GroundDescription | None, use_median: bool = False, draws: int = 0):
        """Sets the vehicle's parameters of the ground.

        Args:
            ground: None leaves the vehicle unchanged.
            use_median: uses the posterior median of the friction in place of the true field.
            draws: number of samples of a random field.
        """
        self.vehicle, self._ground, self._tables, self.numbers = vehicle, ground, list[FieldTable](), dict[str, float]()
        self._constructor_arguments = vehicle, use_median, draws
        if ground is not None:
            self._set_ground(vehicle, ground, use_median, draws)
        self.others = [table.number for table in self._tables[1:]]

    def __reduce__(self) -> tuple[Any, ...]:
        # Table numbers are valid in one process only: unpickling loads the ground again.
        vehicle, use_median, draws = self._constructor_arguments
        return _rebuild, (vehicle, None if self._ground is None else self._ground.document, use_median, draws)

    @classmethod
    def learning(cls, vehicle: Vehicle, ground: GroundDescription | None) -> VehicleOnGround:
        """Starts with unknown friction: uses the vehicle's nominal road until `set_friction`, at the heights of the ground."""
        unknown = cls(vehicle, None)
        unknown._ground = ground
        if ground is not None and ground.heights is not None:
            unknown.numbers["height_map"] = ground.heights.number
        unknown._set_fields([FrictionField.uniform(1.0, FrictionLink(0.5, 1.5))])
        return unknown

    def set_friction(self, posterior: FrictionPosteriorMap, others: bool = True) -> None:
        """Sets `vehicle` to the median of the posterior, and `others` to its samples."""
        self._set_fields([posterior.median, *(posterior.drawn if others else ())])

    def _set_fields(self, fields: list[FrictionField]) -> None:
        # Simulators read the previous tables until they get the new vehicle.
        self._before, self._tables = self._tables, [FieldTable(field) for field in fields]
        self.numbers["friction_field"] = self._tables[0].number
        self.vehicle = self.vehicle.replace(source="the posterior of the ground", **self.numbers)
        self.others = [table.number for table in self._tables[1:]]

    def _set_ground(self, vehicle: Vehicle, ground: GroundDescription, use_median: bool, draws: int) -> None:
        numbers = self.numbers
        field, drawn = ground.median if use_median else ground.field, []
        if ground.soils is not None:
            numbers["soil_map"] = ground.soils.number
        if ground.soils is not None and has_equivalent(vehicle):
            field, self._resistance = equivalent_maps(vehicle, ground.soils, field.grid)
            numbers["resistance_map"] = self._resistance.number
        elif ground.belief and draws:
            drawn = ground.drawn(draws)
        if "resistance_map" in numbers or not ground.even:
            self._tables = [FieldTable(one) for one in (field, *drawn)]
            numbers["friction_field"] = self._tables[0].number
        if ground.heights is not None:
            numbers["height_map"] = ground.heights.number
        self.vehicle = vehicle.replace(source=f"ground {ground.name}", **numbers)

    @property
    def heights(self) -> HeightMap | None:
        """Heights of the ground, None if level."""
        return None if self._ground is None else self._ground.heights

    def tyre(self, model: str, tyre: str | None = None) -> str | None:
        """Returns the tyre for a model: the given one; on soil one that models it; None: the vehicle's default."""
        base, *named = model.split("/")
        free = tyre is None and "tyre" in chassis_slots(base) and not any(part in SLOTS["tyre"] for part in named)
        soft = free and self._ground is not None and self._ground.soils is not None
        return SOFT_TYRE if soft and SOFT_TYRE in self.vehicle.parts("tyre") else tyre


def _rebuild(vehicle: Vehicle, document: Mapping[str, Any] | None, use_median: bool, draws: int) -> VehicleOnGround:
    return VehicleOnGround(vehicle, None if document is None else load_ground(document), use_median, draws)


class Edges:
    """Counter of a vehicle's wheels beyond the edges of a map, where values are those of the nearest point.

    Attributes:
        states: number of poses with wheels off the map; wheels: total number of those wheels.
    """

    def __init__(self, vehicle: Vehicle, ground: GroundDescription):
        p, grid = vehicle.parameters, ground.field.grid
        self._places = [(x, side * 0.5 * p.get(f"track_{axle}", 0.0)) for x, axle in (
            (p["cg_to_front_axle"], "front"), (-p["cg_to_rear_axle"], "rear")) for side in (1.0, -1.0)]
        self._low, self._high = (grid.x, grid.y), (float(grid.xs[-1]), float(grid.ys[-1]))
        self.states = self.wheels = 0

    def look(self, x: float, y: float, yaw: float) -> bool:
        """Counts the wheels off the map at a pose [m, rad]; returns True at the first pose with any."""
        c, s = math.cos(yaw), math.sin(yaw)
        out = sum(not (self._low[0] <= x + c * px - s * py <= self._high[0] and self._low[1] <= y + s * px + c * py <= self._high[1])
                  for px, py in self._places)
        self.states, self.wheels = self.states + (out > 0), self.wheels + out
        return out > 0 and self.states == 1
