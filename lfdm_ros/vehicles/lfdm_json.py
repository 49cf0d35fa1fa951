"""Vehicles of the C++ library LFDM (uwsbel/low-fidelity-dynamic-models), in its JSON files.

A vehicle file, a tyre file and, for 24 degrees of freedom, a suspension file; the keys are the paper's symbols. Missing keys have the
library's defaults, as noted in the source of the value.
"""

import difflib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from lfdm_ros import documents
from lfdm_ros.errors import InputError, quote
from lfdm_ros.vehicles.schema import TABLES
from lfdm_ros.vehicles.tyre_size import TyreSize, load_of_index
from lfdm_ros.vehicles.vehicle import Vehicle, check, choose

RPM = math.pi / 30.0  # [rad/s]
# Constants built into the library.
DIFFERENTIAL_BIAS = 2.0
UNSPRUNG_LOAD_SHARE = 0.5
ROAD_FRICTION = 0.8  # of a TMeasyNr tyre without mu
_BUILT_IN = "built into the library"
_DEFAULT = "not in the file: the library's default"

# JSON key -> parameter. Keys of one group are given all or none.
MASS = {"m": "sprung_mass", "jz": "yaw_inertia", "a": "cg_to_front_axle", "b": "cg_to_rear_axle", "h": "cg_height"}
UNSPRUNG = {"muf": "unsprung_mass_front", "mur": "unsprung_mass_rear"}
ROLL = {"jx": "roll_inertia", "cf": "track_front", "cr": "track_rear", "hrcf": "roll_centre_drop_front", "hrcr": "roll_centre_drop_rear"}
ROLL_STIFFNESS = {"jxz": "roll_yaw_inertia", "krof": "roll_stiffness_front", "kror": "roll_stiffness_rear",
                   "brof": "roll_damping_front", "bror": "roll_damping_rear"}
PITCH = {"jy": "pitch_inertia"}
WHEEL = {"jw": "wheel_inertia", "r0": "wheel_radius"}
ROLLING = {"rr": "rolling_resistance_coefficient", "rdyncoPn": "rolling_radius_weight_nominal", "rdyncoP2n": "rolling_radius_weight_double"}
LOADS = {"pn": "tyre_nominal_load", "pnmax": "tyre_maximum_load"}
_QUANTITIES = {"df{}0": "slope", "f{}m": "peak_force", "s{}m": "peak_slip", "f{}s": "sliding_force", "s{}s": "sliding_slip"}
FORCE_TABLE = {key.format(letter) + suffix: f"tmeasy_{axis}_{quantity}_{load}"
                for letter, axis in (("x", "longitudinal"), ("y", "lateral")) for key, quantity in _QUANTITIES.items()
                for suffix, load in (("Pn", "nominal"), ("P2n", "double"))}
CARCASS = {"cx": "carcass_stiffness_longitudinal", "cy": "carcass_stiffness_lateral",
            "dx": "carcass_damping_longitudinal", "dy": "carcass_damping_lateral"}
_COULOMB = {"vCoulomb": ("coulomb_speed", 1.0), "frblendBegin": ("coulomb_blend_begin", 1.0), "frblendEnd": ("coulomb_blend_end", 3.0)}
_SIZE = ("mu", "rimRadius", "vehicleType", "loadIndex", "maximumBearingCapacity", "inflationPressureDesign", "inflationPressureUse")

# All keys of each kind of file; step, c0, c1, tyre width and keys that the library recomputes (fzRdynco, rdyncoCrit) have no effect.
_IGNORED = ("step", "c0", "c1", "width", "fzRdynco", "rdyncoCrit")
_KEYS = {
    "vehicle": (*MASS, *UNSPRUNG, *ROLL, *ROLL_STIFFNESS, *PITCH, "nonLinearSteer", "steerMap", "maxSteer", "crankInertia",
                "upshiftRPM", "downshiftRPM", "gearRatios", "shiftMap", "torqueMap", "lossesMap", "tcBool", "capacityFactorMap",
                "torqueRatioMap", "maxBrakeTorque", "throttleMod", "4wd", "rearWheels"),
    "tyre": (*WHEEL, *ROLLING, *LOADS, "kt", *FORCE_TABLE, *CARCASS, "highLevelParams", *_COULOMB, *_SIZE),
    "suspension": ("ks", "bs"),
}


@dataclass
class _Reader:
    """Reader of one JSON file: checks values and records the key of each parameter."""

    path: Path
    kind: str
    node: dict[str, Any]
    parameters: dict[str, float] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Name of this file in sources: with its folder, which distinguishes the library's files."""
        return "/".join(self.path.parts[-2:])

    def value(self, key: str) -> Any:
        if key not in self.node:
            raise InputError(f"{self.path}: missing key '{key}'")
        return self.node[key]

    def number(self, key: str) -> float:
        return documents.number(self.value(key), f"{self.path}: {key}")

    def flag(self, key: str, default: bool | None = None) -> bool:
        if default is not None and key not in self.node:
            return default
        return documents.flag(self.value(key), f"{self.path}: {key}")

    def rows(self, key: str, width: int) -> list[list[float]]:
        """Returns a table: a list of rows of `width` numbers."""
        rows = self.value(key)
        if not isinstance(rows, list) or not rows:
            raise InputError(f"{self.path}: {key} must be a list of rows of {width} numbers, not {quote(rows)}")
        for i, row in enumerate(rows):
            if not isinstance(row, list) or len(row) != width:
                raise InputError(f"{self.path}: {key}, row {i + 1}: expected {width} numbers, found {quote(row)}")
        return [[documents.number(value, f"{self.path}: {key}, row {i + 1}") for value in row] for i, row in enumerate(rows)]

    def put(self, name: str, value: float, source: str) -> None:
        self.parameters[name] = check(name, value, f"{self.path}: {source}")
        self.sources[name] = source if source in (_BUILT_IN, _DEFAULT) else f"LFDM {self.title}: {source}"

    def take(self, keys: dict[str, str], factor: float = 1.0, note: str = "") -> None:
        for key, name in keys.items():
            self.put(name, factor * self.number(key), key + note)

    def take_if_begun(self, keys: dict[str, str]) -> None:
        """Reads the keys if the file has any of them; it must then have all."""
        if any(key in self.node for key in keys):
            self.take(keys)

    def put_table(self, place: tuple[str, str], columns: dict[str, list[float]], source: str) -> None:
        """Stores a table of the vehicle file, padded with its last row."""
        table = TABLES[place]
        first = next(iter(columns.values()))
        if not table.least <= len(first) <= table.points:
            raise InputError(f"{self.path}: {source} has {len(first)} rows; {table.least} to {table.points} are possible")
        if table.rising and any(after < before for before, after in pairwise(first)):
            raise InputError(f"{self.path}: {source}: the first column must not fall from row to row")
        for column, values in columns.items():
            for i, name in enumerate(table.parameters(column)):
                self.put(name, values[min(i, len(values) - 1)], source)
        if table.count:
            self.put(table.count, float(len(first)), source)


def import_lfdm(vehicle: str | os.PathLike[str], tyre: str | os.PathLike[str], suspension: str | os.PathLike[str] | None = None, *,
                name: str = "") -> tuple[Vehicle, list[str]]:
    """Reads a vehicle of the C++ library LFDM.

    Masses of both wheels of an axle are added up (the library gives one wheel's), rpm become rad/s; a tyre given by its size becomes
    a force table. `conventions: lfdm` reproduces the library's behaviour with these files.

    Args:
        vehicle: the library's vehicle file; that of the 11-DOF model has no roll, that of the 24-DOF model no roll stiffness.
        tyre: the library's tyre file, for TMeasy (with relaxation) or TMeasyNr (without, as a table or by size).
        suspension: the library's suspension file, for its 24-DOF model only.
        name: name of the vehicle; by default that of the folder of the vehicle file.

    Returns:
        The vehicle, and a line for each key unknown to the library, which is ignored.

    Raises:
        InputError: a file that cannot be read, is of another kind, or lacks a key; a value that is not finite or out of range; a table that
        is ragged or too long. The message names file and key.
    """
    files = [_open(vehicle, "vehicle"), _open(tyre, "tyre"), *([] if suspension is None else [_open(suspension, "suspension")])]
    readers = [reader for reader, _ in files]
    _read_chassis(readers[0])
    _read_powertrain(readers[0])
    _read_steering_and_brakes(readers[0])
    default_tyre = _read_tyre(readers[1])
    for reader in readers[2:]:
        for axle in ("front", "rear"):
            reader.take({"ks": f"suspension_stiffness_{axle}", "bs": f"suspension_damping_{axle}"})
    parameters = {name: value for reader in readers for name, value in reader.parameters.items()}
    sources = {name: source for reader in readers for name, source in reader.sources.items()}
    description = f"imported from LFDM: {', '.join(reader.title for reader in readers)}"
    imported = Vehicle(name or readers[0].path.resolve().parent.name, parameters, description, sources, "lfdm", default_tyre)
    return imported, [note for _, notes in files for note in notes]


def _open(name: str | os.PathLike[str], kind: str) -> tuple[_Reader, list[str]]:
    path = Path(name)
    node = documents.parse_json(documents.read_text(path, "JSON"), str(path), lambda pairs: _object(pairs, path))
    if not isinstance(node, dict):
        raise InputError(f"{path}: expected an object with {', '.join(_KEYS[kind][:4])}, ..., found {quote(node)}")
    # One of the library's files capitalises it.
    if kind == "tyre" and "VehicleType" in node:
        node.setdefault("vehicleType", node.pop("VehicleType"))
    matches = {other: sum(key in node for key in keys) for other, keys in _KEYS.items()}
    best = max(matches, key=lambda other: matches[other])
    if matches[best] > matches[kind]:
        evidence = ", ".join(f"'{key}'" for key in [key for key in _KEYS[best] if key in node][:3])
        raise InputError(f"{path}: this is a {best} file (it has {evidence}); a {kind} file is expected here")
    return _Reader(path, kind, node), _unknown(node, kind, path)


def _object(pairs: Sequence[tuple[str, Any]], path: Path) -> dict[str, Any]:
    previous: set[str] = set()
    twice = [key for key, _ in pairs if key in previous or previous.add(key)]  # type: ignore[func-returns-value]
    if twice:
        raise InputError(f"{path}: key {quote(twice[0])} stands there twice")
    return dict(pairs)


def _unknown(node: dict[str, Any], kind: str, path: Path) -> list[str]:
    """Returns notes on unused keys; one that resembles a missing key is an error."""
    notes = []
    for key in node:
        if key in _KEYS[kind] or key in _IGNORED:
            continue
        absent = {declared.lower(): declared for declared in _KEYS[kind] if declared not in node}
        near = difflib.get_close_matches(key.lower(), absent, n=1, cutoff=0.8) if len(key) > 2 else []
        if near:
            raise InputError(f"{path}: unknown key {quote(key)}; did you mean '{absent[near[0]]}'?")
        notes.append(f"{path}: ignored the unknown key {quote(key)}")
    return notes


def _read_chassis(file: _Reader) -> None:
    file.take(MASS)
    file.take(UNSPRUNG, factor=2.0, note=", both wheels")
    file.put("unsprung_load_share", UNSPRUNG_LOAD_SHARE, _BUILT_IN)
    for keys in (ROLL, ROLL_STIFFNESS, PITCH):
        file.take_if_begun(keys)


def _read_powertrain(file: _Reader) -> None:
    ratios = file.value("gearRatios")
    if not isinstance(ratios, list) or not ratios:
        raise InputError(f"{file.path}: gearRatios must be a list of numbers, not {quote(ratios)}")
    ratios = [documents.number(ratio, f"{file.path}: gearRatios") for ratio in ratios]
    if "upshiftRPM" in file.node and "downshiftRPM" in file.node:
        source = "gearRatios, upshiftRPM, downshiftRPM"
        shifts = [[file.number("downshiftRPM"), file.number("upshiftRPM")]] * len(ratios)
    else:
        source = "gearRatios, shiftMap"
        shifts = file.rows("shiftMap", 2)
        if len(shifts) < len(ratios):
            raise InputError(f"{file.path}: shiftMap has {len(shifts)} rows for {len(ratios)} gears; give one for each")
        shifts = shifts[:len(ratios)]
    file.put_table(("powertrain", "gears"), {"ratio": ratios, "upshift_speed": [up * RPM for _, up in shifts],
                                            "downshift_speed": [down * RPM for down, _ in shifts]}, source)
    for key, place in (("torqueMap", "engine_map"), ("lossesMap", "losses")):
        rows = file.rows(key, 2)
        file.put_table(("powertrain", place), {"speed": [speed * RPM for speed, _ in rows], "torque": [torque for _, torque in rows]}, key)
    file.put("throttle_modulation", float(file.flag("throttleMod")), "throttleMod")
    file.put("differential_bias", DIFFERENTIAL_BIAS, _BUILT_IN)
    if "4wd" in file.node:
        share, source = (0.5, "4wd") if file.flag("4wd") else (0.0 if file.flag("rearWheels") else 1.0, "4wd, rearWheels")
        file.put("front_drive_share", share, source)
    else:
        file.put("front_drive_share", 0.5, _DEFAULT)
    if file.flag("tcBool"):
        file.take({"crankInertia": "crank_inertia"})
        for key, place, column in (("capacityFactorMap", "converter_capacity", "capacity"),
                                   ("torqueRatioMap", "converter_torque", "torque_ratio")):
            rows = file.rows(key, 2)
            file.put_table(("powertrain", place), {"speed_ratio": [ratio for ratio, _ in rows], column: [value for _, value in rows]}, key)


def _read_steering_and_brakes(file: _Reader) -> None:
    file.take({"maxSteer": "max_road_wheel_angle"})
    if file.flag("nonLinearSteer"):
        rows = file.rows("steerMap", 2)
        file.put_table(("steering", "steering_map"), {"input": [s for s, _ in rows], "angle": [angle for _, angle in rows]}, "steerMap")
    for axle in ("front", "rear"):
        file.take({"maxBrakeTorque": f"brake_torque_{axle}"})


def _read_tyre(file: _Reader) -> str:
    """Reads the tyre; returns the name of its tyre model."""
    file.take(WHEEL)
    file.take(ROLLING)
    by_size = file.flag("highLevelParams", default=False)
    relaxation = not by_size and any(key in file.node for key in CARCASS)
    if by_size:
        _read_size(file)
        file.take({"mu": "friction_scale"})
    else:
        file.take(LOADS)
        file.take(FORCE_TABLE)
        for axle in ("front", "rear"):
            file.take({"kt": f"tyre_vertical_stiffness_{axle}"})
        if relaxation:
            file.take(CARCASS)
            file.put("friction_scale", 1.0, _BUILT_IN)
        else:
            file.put("friction_scale", ROAD_FRICTION, _DEFAULT)
    for key, (name, default) in _COULOMB.items():
        if by_size and key in file.node:
            file.take({key: name})
        else:
            file.put(name, default, _DEFAULT)
    return "tmeasy" if relaxation else "tmeasy_nr"


def _read_size(file: _Reader) -> None:
    kind = choose("vehicleType", file.value("vehicleType"), ("Truck", "Passenger"), str(file.path)).lower()
    where = f"{file.path}: loadIndex"
    try:
        capacity = (load_of_index(documents.integer(file.node["loadIndex"], where, 0)) if "loadIndex" in file.node
                    else file.number("maximumBearingCapacity"))
        # The library uses the width only for the aspect ratio of the section height.
        height = file.number("r0") - file.number("rimRadius")
        pressures = [file.number(key) if key in file.node else 0.0 for key in ("inflationPressureUse", "inflationPressureDesign")]
        ratio = pressures[0] / pressures[1] if min(pressures) > 0.0 else 1.0
        derived = TyreSize(kind, capacity, height, ratio).parameters()
    except InputError as error:
        raise InputError(str(error) if str(error).startswith(str(file.path)) else f"{file.path}: {error}") from None
    for name, value in derived.items():
        file.put(name, value, "from the tyre's size")


_DRIVES = {0.5: {"4wd": True}, 0.0: {"4wd": False, "rearWheels": True}, 1.0: {"4wd": False, "rearWheels": False}}


def lfdm_files(vehicle: Vehicle) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Returns the content of each file by its stem, and a line for each property that the library lacks. Raises InputError: the vehicle
    lacks what the library needs, such as an engine map or a TMeasy tyre."""
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
        writer.notes.append(f"'{vehicle.name}' has the conventions '{vehicle.conventions}'; the library applies its own, 'lfdm'")
    return files, writer.notes


class _Writer:
    """Content of the files for given parameters; `notes`: values that the files cannot represent."""

    def __init__(self, parameters: Mapping[str, float]):
        self._p, self.notes = parameters, list[str]()

    def has(self, keys: Mapping[str, str]) -> bool:
        """Checks that all parameters of a group are given."""
        return all(name in self._p for name in keys.values())

    def _group(self, keys: Mapping[str, str], factor: float = 1.0) -> dict[str, float]:
        return {key: factor * self._p[name] for key, name in keys.items()} if self.has(keys) else {}

    def same(self, stem: str) -> float:
        """Returns the common value of both axles, or their mean."""
        front, rear = self._p[f"{stem}_front"], self._p.get(f"{stem}_rear", self._p[f"{stem}_front"])
        if front != rear:
            self.notes.append(f"{stem}: the library has one for both axles; {front:g} and {rear:g} became their mean")
        return 0.5 * (front + rear)

    def _rows(self, place: tuple[str, str], factors: tuple[float, ...] = (1.0, 1.0)) -> list[list[float]]:
        """Returns the rows of a table without padding."""
        return [[value * factor for value, factor in zip(row, factors)] for row in TABLES[place].rows(self._p)]

    def _built_in(self, name: str, value: float) -> None:
        if self._p.get(name, value) != value:
            self.notes.append(f"{name}: {value:g} is built into the library, {self._p[name]:g} has no place in its files")

    def vehicle(self) -> dict[str, Any]:
        """Returns the vehicle file."""
        per_second = 1.0 / RPM
        gears = self._rows(("powertrain", "gears"), (1.0, per_second, per_second))
        share = self._p.get("front_drive_share", 0.5)
        drive = min(_DRIVES, key=lambda allowed: abs(allowed - share))
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
        """Returns the tyre file, with or without relaxation."""
        self._built_in("friction_scale", 1.0 if relaxes else ROAD_FRICTION)
        content: dict[str, Any] = {} if relaxes else {"highLevelParams": False}
        for keys in (WHEEL, ROLLING, LOADS, FORCE_TABLE):
            content |= self._group(keys)
        return content | {"kt": self.same("tyre_vertical_stiffness")} | (self._group(CARCASS) if relaxes else {})
