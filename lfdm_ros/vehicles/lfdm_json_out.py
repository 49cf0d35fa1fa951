"""Vehicles as JSON files of the C++ library LFDM: vehicle, tyre and, where there is one, suspension; the inverse of `lfdm_json`."""

from collections.abc import Mapping
from typing import Any

from lfdm_ros.errors import InputError
from lfdm_ros.vehicles.lfdm_json import (
    CARCASS,
    DIFFERENTIAL_BIAS,
    FORCE_TABLE,
    LOADS,
    MASS,
    PITCH,
    ROAD_FRICTION,
    ROLL,
    ROLL_STIFFNESS,
    ROLLING,
    RPM,
    UNSPRUNG,
    UNSPRUNG_LOAD_SHARE,
    WHEEL,
)
from lfdm_ros.vehicles.schema import TABLES
from lfdm_ros.vehicles.vehicle import Vehicle

_DRIVES = {0.5: {"4wd": True}, 0.0: {"4wd": False, "rearWheels": True}, 1.0: {"4wd": False, "rearWheels": False}}


def lfdm_files(vehicle: Vehicle) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Returns the content of each file by its stem, and a line for each thing that the library cannot be given.

    Raises:
        InputError: the vehicle lacks what the library needs, such as an engine map or a TMeasy tyre.
    """
    writer = _Writer(vehicle.parameters)
    tyre = "tmeasy" if vehicle.default_tyre != "tmeasy_nr" and writer.has(CARCASS) else "tmeasyNr"
    needed = (*MASS.values(), *UNSPRUNG.values(), *WHEEL.values(), *ROLLING.values(), *LOADS.values(), *FORCE_TABLE.values(),
              "tyre_vertical_stiffness_front", "gear_count", "engine_speed_0", "loss_speed_0", "max_road_wheel_angle", "brake_torque_front")
    lacking = [name for name in needed if name not in vehicle.parameters]
    if lacking:
        raise InputError(f"vehicle '{vehicle.name}' is none of LFDM's: it lacks {', '.join(lacking[:6])}"
                         + (f" and {len(lacking) - 6} more" if len(lacking) > 6 else "")
                         + "; the library has an engine with gears, and TMeasy tyres")
    files = {"vehicle": writer.vehicle(), tyre: writer.tyre(relaxes=tyre == "tmeasy")}
    if "suspension_stiffness_front" in vehicle.parameters:
        files["suspension"] = {"ks": writer.same("suspension_stiffness"), "bs": writer.same("suspension_damping")}
    if vehicle.conventions != "lfdm":
        writer.notes.append(f"'{vehicle.name}' has the conventions '{vehicle.conventions}': the library drives it by its own, 'lfdm'")
    return files, writer.notes


class _Writer:
    """Content of the files of some parameters; `notes`: of values that have no place in them."""

    def __init__(self, parameters: Mapping[str, float]):
        self._p, self.notes = parameters, list[str]()

    def has(self, keys: Mapping[str, str]) -> bool:
        """Returns whether all parameters of a group are there."""
        return all(name in self._p for name in keys.values())

    def _group(self, keys: Mapping[str, str], factor: float = 1.0) -> dict[str, float]:
        return {key: factor * self._p[name] for key, name in keys.items()} if self.has(keys) else {}

    def same(self, stem: str) -> float:
        """Returns the value of both axles, the mean where they differ."""
        front, rear = self._p[f"{stem}_front"], self._p.get(f"{stem}_rear", self._p[f"{stem}_front"])
        if front != rear:
            self.notes.append(f"{stem}: the library has one for both axles; {front:g} and {rear:g} became their mean")
        return 0.5 * (front + rear)

    def _rows(self, place: tuple[str, str], factors: tuple[float, ...] = (1.0, 1.0)) -> list[list[float]]:
        """Returns the rows of a table without those that repeat the last."""
        table = TABLES[place]
        rows = [[self._p[name] * factor for name, factor in zip(names, factors)]
                for names in zip(*(table.parameters(column) for column in table.columns))]
        count = int(self._p[table.count]) if table.count else len(rows)
        while not table.count and count > table.least and rows[count - 1] == rows[count - 2]:
            count -= 1
        return rows[:count]

    def _built_in(self, name: str, value: float) -> None:
        if self._p.get(name, value) != value:
            self.notes.append(f"{name}: {value:g} is built into the library, {self._p[name]:g} has no place in its files")

    def vehicle(self) -> dict[str, Any]:
        """Returns the vehicle file."""
        per_second = 1.0 / RPM
        gears = self._rows(("powertrain", "gears"), (1.0, per_second, per_second))
        share = self._p.get("front_drive_share", 0.5)
        drive = min(_DRIVES, key=lambda known: abs(known - share))
        if drive != share:
            self.notes.append(f"front_drive_share: {share:g} became {drive:g}; the library drives one axle or both alike")
        self._built_in("differential_bias", DIFFERENTIAL_BIAS)
        self._built_in("unsprung_load_share", UNSPRUNG_LOAD_SHARE)
        steers = "steering_input_0" in self._p
        converter = "crank_inertia" in self._p and "converter_capacity_0" in self._p
        content: dict[str, Any] = self._group(MASS) | self._group(UNSPRUNG, 0.5)
        for keys in (ROLL, ROLL_STIFFNESS, PITCH):
            content |= self._group(keys)
        content |= {"nonLinearSteer": steers, "maxSteer": self._p["max_road_wheel_angle"]}
        if steers:
            content["steerMap"] = self._rows(("steering", "steering_map"))
        content |= {"gearRatios": [ratio for ratio, _, _ in gears], "shiftMap": [[down, up] for _, up, down in gears],
                    "torqueMap": self._rows(("powertrain", "engine_map"), (per_second, 1.0)),
                    "lossesMap": self._rows(("powertrain", "losses"), (per_second, 1.0)), "tcBool": converter}
        if converter:
            content |= {"crankInertia": self._p["crank_inertia"], "capacityFactorMap": self._rows(("powertrain", "converter_capacity")),
                        "torqueRatioMap": self._rows(("powertrain", "converter_torque"))}
        modulates = bool(self._p.get("throttle_modulation", 0.0))
        return content | {"maxBrakeTorque": self.same("brake_torque"), "throttleMod": modulates} | _DRIVES[drive]

    def tyre(self, relaxes: bool) -> dict[str, Any]:
        """Returns the tyre file, for a tyre that relaxes or not."""
        self._built_in("friction_scale", 1.0 if relaxes else ROAD_FRICTION)
        content: dict[str, Any] = {} if relaxes else {"highLevelParams": False}
        for keys in (WHEEL, ROLLING, LOADS, FORCE_TABLE):
            content |= self._group(keys)
        return content | {"kt": self.same("tyre_vertical_stiffness")} | (self._group(CARCASS) if relaxes else {})
