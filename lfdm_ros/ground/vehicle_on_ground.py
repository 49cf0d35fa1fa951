"""A vehicle on a ground of a file: what each of its models meets there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lfdm_ros.ground.equivalent_friction import equivalent_maps, has_equivalent
from lfdm_ros.ground.friction_field import FrictionField, FrictionLink
from lfdm_ros.ground.ground_file import GroundDescription, load_ground
from lfdm_ros.ground.maps import FieldTable, HeightMap
from lfdm_ros.ground.posterior import FrictionPosteriorMap
from lfdm_ros.models import SLOTS, chassis_slots
from lfdm_ros.vehicles import Vehicle

SOFT_TYRE = "bekker_wong"


class VehicleOnGround:
    """A vehicle on a ground, which every model of the vehicle steps on as long as this lives.

    A model meets all that its tyres can: heights all of them; soil those of Bekker and Wong; all others friction, where there is soil that
    which `equivalent_friction` makes of it, with its resistance. Missing layers cost nothing. Maps of
    the previous `set_friction` live until the next one.

    Attributes:
        vehicle: on that ground.
        numbers: the parameters that put it there.
        others: values of its parameter `friction_field` for each of some other fields that may be there.
    """

    def __init__(self, vehicle: Vehicle, ground: GroundDescription | None, known: bool = False, draws: int = 0):
        """Puts the vehicle on the ground.

        Args:
            ground: None leaves the vehicle as it is.
            known: friction is what is known of it, not what is there.
            draws: how many others there are of a random field.
        """
        self.vehicle, self._ground, self._tables, self.numbers = vehicle, ground, list[FieldTable](), dict[str, float]()
        self._made = vehicle, known, draws
        if ground is not None:
            self._stand(vehicle, ground, known, draws)
        self.others = [table.number for table in self._tables[1:]]

    def __reduce__(self) -> tuple[Any, ...]:
        # Numbers mean something in one process: in another one the ground is made again.
        vehicle, known, draws = self._made
        return _made_again, (vehicle, None if self._ground is None else self._ground.document, known, draws)

    @classmethod
    def learning(cls, vehicle: Vehicle, ground: GroundDescription | None) -> VehicleOnGround:
        """Starts with unknown friction: uses the vehicle's nominal road until `set_friction`, at the heights of the ground."""
        unknown = cls(vehicle, None)
        unknown._ground = ground
        if ground is not None and ground.heights is not None:
            unknown.numbers["height_map"] = ground.heights.number
        unknown._put_on([FrictionField.uniform(1.0, FrictionLink(0.5, 1.5))])
        return unknown

    def set_friction(self, known: FrictionPosteriorMap, others: bool = True) -> None:
        """Moves `vehicle` to the median of the present posterior, and `others` to its samples, where there are any."""
        self._put_on([known.median, *(known.drawn if others else ())])

    def _put_on(self, fields: list[FrictionField]) -> None:
        # Simulators step on the last ones until they have the new vehicle.
        self._before, self._tables = self._tables, [FieldTable(field) for field in fields]
        self.numbers["friction_field"] = self._tables[0].number
        self.vehicle = self.vehicle.replace(source="the ground as it is known", **self.numbers)
        self.others = [table.number for table in self._tables[1:]]

    def _stand(self, vehicle: Vehicle, ground: GroundDescription, known: bool, draws: int) -> None:
        numbers = self.numbers
        field, drawn = ground.known if known else ground.field, []
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
        """Heights of the ground; None: level."""
        return None if self._ground is None else self._ground.heights

    def tyre(self, model: str, tyre: str | None = None) -> str | None:
        """Returns the tyre that a model is driven on: the one that is asked for; on soil one that knows it; None: the vehicle's."""
        base, *named = model.split("/")
        free = tyre is None and "tyre" in chassis_slots(base) and not any(part in SLOTS["tyre"] for part in named)
        soft = free and self._ground is not None and self._ground.soils is not None
        return SOFT_TYRE if soft and SOFT_TYRE in self.vehicle.parts("tyre") else tyre


def _made_again(vehicle: Vehicle, document: Mapping[str, Any] | None, known: bool, draws: int) -> VehicleOnGround:
    return VehicleOnGround(vehicle, None if document is None else load_ground(document), known, draws)


class Edges:
    """Count of a vehicle's wheels beyond the edges of a map, where the nearest point holds. Knows the vehicle's wheelbase and track.

    Attributes:
        states: looks at which a wheel or more was off the map; wheels: those wheels, all looks together.
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
