"""The vehicle record."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from lfdm_ros.errors import InputError, quote, suggest
from lfdm_ros.models import Model, get_model
from lfdm_ros.models.declaration import Part
from lfdm_ros.models.registry import SLOTS, chassis_slots
from lfdm_ros.models.steering import MAP_POINTS
from lfdm_ros.vehicles import body
from lfdm_ros.vehicles.schema import DECLARED, keys_of

# Default parts of a vehicle with several parts for a slot.
_PREFERENCE = {"powertrain": ("automatic", "gearbox", "motor"), "steering": ("steering_map", "linear")}
# Ground parts of tyres by line: for tyres that need soil, and for all others.
_SOFT, _FIRM = (("soil_map", "soil"), ("height_map",)), (("friction_field", "friction_map"), ("resistance_map",), ("height_map",))
_REVERSE = "not given: the first gear's, close to usual reverse ratios (Chrono  HMMWV_AutomaticTransmissionSimpleMap: 0.151 and 0.1708)"
_NO_REACTION = "not given: the driveline exerts no torque on the body"


def check(name: str, value: float, where: str) -> float:
    """Returns `value` as a float inside the declared range of parameter `name`. Raises InputError: unknown name (with the closest name),
    not a finite number, or out of range; `where` is the prefix of the message."""
    if name not in DECLARED:
        raise InputError(f"{where}: unknown parameter {quote(name)}{suggest(name, DECLARED)}")
    declared = DECLARED[name]
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{where}: {name} must be a number in {declared.unit}, not {quote(value)}") from None
    if not math.isfinite(number) or not declared.allows(number):
        bounds = f"({declared.lower:g}, {declared.upper:g})" if declared.strict else f"[{declared.lower:g}, {declared.upper:g}]"
        raise InputError(f"{where}: {name} = {number:g} {declared.unit} is outside {bounds}")
    return number


@dataclass(frozen=True)
class Vehicle:
    """A vehicle: a name and its parameters, SI, read-only. Read with `load_vehicle`, changed with `replace`.

    Args:
        parameters: by name. Default of the reverse ratio: the first gear's; of the driveline's reaction on the body: 0.
        sources: source of the value of each parameter.
        conventions: "physics", or "lfdm" for a vehicle of the C++ library LFDM that must behave exactly as there.
        default_tyre: the default tyre model; the first of the vehicle if empty.
        sensors: further sensors by name: type,
             place x ahead of the front axle, y, z [m], yaw, pitch [rad], seed, settings; see lfdm_ros.sensors.
    """

    name: str
    parameters: Mapping[str, float]
    description: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    conventions: str = "physics"
    default_tyre: str = ""
    sensors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f"vehicle '{self.name}'"
        values = {name: check(name, value, where) for name, value in self.parameters.items()}
        sources = dict(self.sources)
        if "gear_ratio_0" in values and "reverse_ratio" not in values:
            values["reverse_ratio"], sources["reverse_ratio"] = values["gear_ratio_0"], _REVERSE
        if "roll_inertia" in values and "driveline_roll_reaction" not in values:
            values["driveline_roll_reaction"], sources["driveline_roll_reaction"] = 0.0, _NO_REACTION
        object.__setattr__(self, "parameters", MappingProxyType(values))
        object.__setattr__(self, "sources", MappingProxyType(sources))
        choose("conventions", self.conventions, SLOTS["conventions"], where)
        if self.default_tyre:
            choose("default_tyre", self.default_tyre, SLOTS["tyre"], where)
            missing = self._lacks(SLOTS["tyre"][self.default_tyre])
            if missing:
                raise InputError(f"{where}: default_tyre is {self.default_tyre}, but it lacks {_listed(missing)}")

    def replace(self, *, source: str = "", **changes: float) -> Vehicle:
        """Returns a vehicle with some parameters changed (SI); `source` is noted for each of them. Raises InputError: unknown parameter or
        value out of range."""
        notes = dict.fromkeys(changes, source) if source else {}
        return dataclasses.replace(self, parameters={**self.parameters, **changes}, sources={**self.sources, **notes})

    @property
    def identity(self) -> dict[str, object]:
        """Everything that affects results, as JSON."""
        return {"parameters": dict(self.parameters), "conventions": self.conventions, "default_tyre": self.default_tyre}

    @property
    def footprint(self) -> body.Footprint:
        """Outline from above, relative to the position point; without parameters by body.RULE. Raises InputError: the position point is
        outside it."""
        p = self.parameters
        a, b = p["cg_to_front_axle"], p["cg_to_rear_axle"]
        overhang, track = body.OVERHANG * (a + b), max(p.get("track_front", 0.0), p.get("track_rear", 0.0))
        width = p.get("overall_width") or (body.WIDER * track if track else body.WIDE * (a + b))
        return body.Footprint(a + p.get("front_overhang", overhang), b + p.get("rear_overhang", overhang), 0.5 * width)

    @property
    def assumed(self) -> str:
        """One line on the assumed outline; empty if the parameters define it."""
        if "overall_width" in self.parameters:
            return ""
        o = self.footprint
        return (f"vehicle '{self.name}' has no body in its file: taken as {o.front + o.rear:.3g} x {2.0 * o.half_width:.3g} m, "
                f"{body.RULE}")

    @property
    def lidar(self) -> body.Mount:
        """Mount of the LIDAR relative to the position point; by default above the middle of the front axle."""
        p = self.parameters
        return body.Mount(p["cg_to_front_axle"] + p.get("lidar_x", 0.0), p.get("lidar_y", 0.0), p.get("lidar_yaw", 0.0),
                          p.get("lidar_z", p.get("cg_height", 0.0)))

    @property
    def imu(self) -> body.Mount:
        """Mount of the IMU relative to the position point; by default the centre of the sprung mass, above it."""
        p = self.parameters
        return body.Mount(p["cg_to_front_axle"] + p["imu_x"] if "imu_x" in p else 0.0, p.get("imu_y", 0.0), 0.0,
                          p.get("imu_z", p.get("cg_height", 0.0)))

    @property
    def sensor_mounts(self) -> dict[str, body.Mount]:
        """Mounts of `sensors` relative to the position point; default height: that of the centre of gravity."""
        p = self.parameters
        front, height = p["cg_to_front_axle"], p.get("cg_height", 0.0)
        return {name: body.Mount(front + s.get("x", 0.0), s.get("y", 0.0), s.get("yaw", 0.0), s.get("z", height), s.get("pitch", 0.0))
                for name, s in self.sensors.items()}

    @property
    def actuators(self) -> body.Actuators:
        """Actuator dynamics; by default without delay, lag and pedal rate limits, with steering rate body.STEERING_RATE."""
        p = self.parameters
        return body.Actuators(p.get("actuation_delay", 0.0), p.get("steering_lag", 0.0), p.get("steering_rate", body.STEERING_RATE),
                              p.get("throttle_rate", math.inf), p.get("brake_rate", math.inf))

    @property
    def constants(self) -> body.Description:
        """Wheelbase, full lock, outline and other constants for controllers, in one record."""
        p = self.parameters
        mass = sum(p.get(name, 0.0) for name in ("sprung_mass", "unsprung_mass_front", "unsprung_mass_rear")) or p.get("mass", math.nan)
        track_front, track_rear, radius = (p.get(name, math.nan) for name in ("track_front", "track_rear", "wheel_radius"))
        return body.Description(self.name, mass, p["cg_to_front_axle"] + p["cg_to_rear_axle"], p["cg_to_front_axle"], p["cg_to_rear_axle"],
                                track_front, track_rear, radius, self._full_lock(), self.footprint, self.actuators)

    def _full_lock(self) -> float:
        p = self.parameters
        if "steering_input_0" not in p:
            return p.get("max_road_wheel_angle", math.nan)
        inputs, angles = ([p[f"{name}_{k}"] for k in range(MAP_POINTS)] for name in ("steering_input", "steering_angle"))
        return float(np.interp(1.0, inputs, angles))

    def parts(self, slot: str) -> tuple[str, ...]:
        """Returns the parts of a slot (tyre, powertrain, steering, conventions) for which the vehicle has all parameters."""
        return tuple(name for name, part in SLOTS[slot].items() if not self._lacks(part))

    def spec(self, chassis: str, tyre: str | None = None) -> str:
        """Returns the full name of the model of this vehicle with a chassis, for `get_model`.

        Args:
            chassis: name of a chassis, or a specification CHASSIS/PART/... with parts that replace the vehicle's.
            tyre: name of a tyre model; by default the vehicle's `default_tyre`.

        Raises:
            InputError: no such chassis or part, a tyre for a chassis without a slot for it, or two tyres.
        """
        base, *named = chassis.split("/")
        slots = chassis_slots(base)
        if tyre is not None:
            choose("tyre", tyre, SLOTS["tyre"], f"vehicle '{self.name}'")
            if "tyre" not in slots:
                raise InputError(f"model '{base}' has its own tyre; leave out the tyre '{tyre}'")
            if any(part in SLOTS["tyre"] and part != tyre for part in named):
                raise InputError(f"model '{chassis}' already names a tyre; leave out the tyre '{tyre}'")
            named.append(tyre)
        chosen = {slot: self._choice(slot) for slot in slots if slot != "ground"}
        grounds = []
        for part in named:
            slot = next((slot for slot in slots if part in SLOTS[slot]), None)
            if slot is None:
                return get_model(chassis).name  # raises the error
            if slot == "ground":
                grounds.append(part)
            else:
                chosen[slot] = part
        if "ground" in slots and not grounds:
            grounds = self._ground_parts(chosen.get("tyre"))
        return get_model("/".join([base, *chosen.values(), *grounds])).name

    def model(self, chassis: str | Model, tyre: str | None = None) -> Model:
        """Returns the model of this vehicle with a chassis; see `spec`. A given model must fit the vehicle. Raises InputError: as `spec`,
        or the vehicle lacks parameters; the message names them and their part."""
        model = chassis if isinstance(chassis, Model) else get_model(self.spec(chassis, tyre))
        self._require(model)
        return model

    def vector(self, model: Model) -> np.ndarray:
        """Returns a model's parameters (np,) in the order of declaration. Raises InputError: the vehicle lacks one of them."""
        self._require(model)
        return np.array([self.parameters[f.name] for f in model.parameters])

    def _lacks(self, part: Part) -> list[str]:
        return keys_of(f.name for f in part.parameters if f.name not in self.parameters)

    def _choice(self, slot: str) -> str:
        if slot == "conventions":
            return self.conventions
        if slot == "tyre" and self.default_tyre:
            return self.default_tyre
        has = self.parts(slot)
        return next((part for part in _PREFERENCE.get(slot, has) if part in has), next(iter(SLOTS[slot])))

    def _ground_parts(self, tyre: str | None) -> list[str]:
        """Returns the parts of the ground for the vehicle's tyres."""
        has, soft = set(self.parts("ground")), tyre is not None and "soil" in SLOTS["tyre"][tyre].needs
        return [next(part for part in line if part in has) for line in (_SOFT if soft else _FIRM) if not has.isdisjoint(line)]

    def _require(self, model: Model) -> None:
        missing = [f.name for f in model.parameters if f.name not in self.parameters]
        if not missing:
            return
        base, *named = model.name.split("/")
        for slot in (slot for slot in chassis_slots(base) if slot != "ground"):
            name = next((part for part in named if part in SLOTS[slot]), next(iter(SLOTS[slot])))
            lacks = self._lacks(SLOTS[slot][name])
            if lacks:
                has = ", ".join(self.parts(slot)) or f"no {slot}"
                raise InputError(f"vehicle '{self.name}' has no {name} {slot}: lacks {_listed(lacks)}; it has: {has}")
        raise InputError(f"vehicle '{self.name}' cannot be a {base}: lacks {_listed(keys_of(missing))}")


def choose(key: str, value: object, names: Collection[str], where: str) -> str:
    """Returns `value` if it is one of the names; otherwise raises InputError."""
    if not isinstance(value, str) or value not in names:
        raise InputError(f"{where}: {key} must be one of {', '.join(names)}, not {quote(value)}")
    return value


def _listed(keys: list[str]) -> str:
    """Formats the first six keys and the number of others."""
    return ", ".join(keys[:6]) + (f" and {len(keys) - 6} more" if len(keys) > 6 else "")
