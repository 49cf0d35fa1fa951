"""Sections of a vehicle file and their groups of keys.

Each group is complete or absent: a small car without a gearbox has no gears. Keys, units, ranges and descriptions come from the
declarations of the models. Other parameters of a part, chassis or model, also from other packages, form a separate group in the section of
its slot.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import count
from typing import Any, TypeVar

from lfdm_ros.models import (
    AXLES,
    Field,
    chassis,
    double_wishbone,
    fiala,
    gearbox,
    ground,
    magic_formula,
    motor,
    multibody,
    nonlinear_bicycle,
    roll_chassis,
    steering,
    steering_linkage,
    struts,
    tmeasy,
    twenty_four_dof,
)
from lfdm_ros.models.chassis import WHEELS_AND_BRAKES
from lfdm_ros.models.registry import all_parameters, entries, registered
from lfdm_ros.vehicles import body

T = TypeVar("T")


class _Live(Mapping[str, T]):
    """Mapping derived by a function from the registered models, updated when models are added."""

    def __init__(self, derive: Callable[[], Mapping[str, T]]):
        self._derive = derive
        self._of = -1
        self._value: Mapping[str, T] = {}

    def _now(self) -> Mapping[str, T]:
        count = registered()
        if count != self._of:
            self._value, self._of = self._derive(), count
        return self._value

    def __getitem__(self, name: str) -> T:
        return self._now()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


# Every parameter of every model, by name, and those of the body. Models share parameters of one name and meaning.
DECLARED: Mapping[str, Field] = _Live(lambda: all_parameters() | body.PARAMETERS)


@dataclass(frozen=True)
class TableKey:
    """A table of a file. Each column has the parameters STEM_0, STEM_1, ..., padded with the last row."""

    columns: Mapping[str, str]  # column -> stem; the first is the table's argument
    least: int = 2
    rising: bool = True  # the first column must not fall
    count: str = ""  # the parameter that holds the number of rows

    @cached_property
    def points(self) -> int:
        """Maximum number of rows; computed at first use, since models of other packages may import this module."""
        stem = next(iter(self.columns.values()))
        return next(i for i in count(0) if f"{stem}_{i}" not in DECLARED)

    def parameters(self, column: str) -> list[str]:
        """Returns the parameters of one column, in order."""
        return [f"{self.columns[column]}_{i}" for i in range(self.points)]

    def rows(self, values: Mapping[str, float]) -> list[tuple[float, ...]]:
        """Returns the rows of parameters by name, without padding."""
        rows = list(zip(*([values[name] for name in self.parameters(column)] for column in self.columns)))
        count = int(values[self.count]) if self.count else len(rows)
        while not self.count and count > self.least and rows[count - 1] == rows[count - 2]:
            count -= 1
        return rows[:count]


# Section and key of the tables.
TABLES: dict[tuple[str, str], TableKey] = {
    ("powertrain", "motor_map"): TableKey({"speed": "motor_speed", "torque": "motor_torque"}),
    ("powertrain", "gears"): TableKey({"ratio": "gear_ratio", "upshift_speed": "upshift_speed", "downshift_speed": "downshift_speed"},
                                   least=1, rising=False, count="gear_count"),
    ("powertrain", "engine_map"): TableKey({"speed": "engine_speed", "torque": "engine_torque"}),
    ("powertrain", "losses"): TableKey({"speed": "loss_speed", "torque": "loss_torque"}),
    ("powertrain", "converter_capacity"): TableKey({"speed_ratio": "converter_speed_ratio", "capacity": "converter_capacity"}),
    ("powertrain", "converter_torque"): TableKey({"speed_ratio": "converter_torque_speed_ratio", "torque_ratio": "converter_torque_ratio"}),
    ("steering", "steering_map"): TableKey({"input": "steering_input", "angle": "steering_angle"}),
    **{("suspension", f"{key}_{axle}"): TableKey({"compression": f"{key}_compression_{axle}", "force": f"{key}_force_{axle}"})
       for axle in AXLES for key in ("spring", "stop")},
}
# Keys of three numbers, the parameters KEY_x, KEY_y, KEY_z.
VECTORS = frozenset((*double_wishbone.VECTORS, *struts.VECTORS, *steering_linkage.VECTORS))


def components(key: str) -> list[str]:
    """Returns the parameters of a key of VECTORS."""
    return [f"{key}_{axis}" for axis in "xyz"]


@dataclass(frozen=True)
class KeyGroup:
    """Keys that a file has all or none of; `needs` names further groups required with them. `default`: the vehicle has default values
    without them."""

    title: str
    keys: Mapping[str, tuple[str, ...]]  # section -> keys
    needs: tuple[str, ...] = ()
    required: bool = False
    default: bool = False
    instead: Mapping[str, str] = field(default_factory=dict)  # key -> the key that may replace it


def _keys(fields: Iterable[Field], *prefixes: str) -> tuple[str, ...]:
    """Returns the keys of these parameters, optionally only those with one of the prefixes."""
    return tuple(key for key in keys_of(f.name for f in fields) if not prefixes or key.startswith(prefixes))


@cache
def _table_keys() -> dict[str, str]:
    """Returns the keys that hold the parameters of tables and vectors, by parameter."""
    keys = {name: key for (_, key), table in TABLES.items() for column in table.columns for name in table.parameters(column)}
    keys |= {name: key for key in VECTORS for name in components(key)}
    return keys | {table.count: key for (_, key), table in TABLES.items() if table.count}


def keys_of(parameters: Iterable[str]) -> list[str]:
    """Returns the keys of a vehicle file for these parameters; a table or vector once."""
    return list(dict.fromkeys(_table_keys().get(name, name) for name in parameters))


# Keys replaced by the size of a tyre; see lfdm_ros.vehicles.tyre_size.
FROM_SIZE = tuple(f.name for f in tmeasy.TABLE if f.name.startswith(("tmeasy_", "tyre_")))
VERTICAL_STIFFNESS = tuple(f.name for f in WHEELS_AND_BRAKES if f.name.startswith("tyre_"))


@cache
def _shipped_groups() -> dict[str, KeyGroup]:
    """Returns the groups of the package, in the order of files. A group has the keys of its declarations that no earlier group has."""
    groups: dict[str, KeyGroup] = {}
    homes: set[str] = set()

    def add(name: str, title: str, fields: Mapping[str, tuple[str, ...]], needs: tuple[str, ...] = (), **more: Any) -> None:
        keys = {section: tuple(key for key in keys if key not in homes) for section, keys in fields.items()}
        groups[name] = KeyGroup(title, keys, needs, **more)
        homes.update(key for keys in keys.values() for key in keys)

    add("mass", "every vehicle", {"chassis": _keys(chassis.BODY)}, required=True)
    # Not needed by single-track models, which have no wheel spin.
    add("wheels", "a vehicle with wheels that turn", {
        "chassis": _keys(chassis.LOADS), "wheels": _keys(WHEELS_AND_BRAKES, "wheel_"), "brakes": _keys(WHEELS_AND_BRAKES, "brake_")})
    add("roll", "a body that rolls", {
        "chassis": _keys(chassis.ROLL, "roll_inertia", "track_"), "suspension": _keys(chassis.ROLL, "roll_centre_")}, ("wheels",))
    # Without it, the driveline exerts no torque on the body.
    add("driveline_roll", "a driveline reaction on the body", {"chassis": _keys([chassis.DRIVELINE_ROLL])}, ("roll",), default=True)
    add("roll_stiffness", "roll stiffness about the roll axis", {
        "chassis": _keys(roll_chassis.PARAMETERS, "roll_yaw_"),
        "suspension": _keys(roll_chassis.PARAMETERS, "roll_stiffness_", "roll_damping_")}, ("roll",))
    add("pitch", "a body that pitches", {"chassis": _keys([chassis.PITCH_INERTIA])}, ("roll",))
    add("springs", "a suspension at each wheel", {"suspension": _keys(twenty_four_dof.PARAMETERS, "suspension_")})
    add("tyre", "a tyre under load", {"tyre": (*VERTICAL_STIFFNESS, *_keys(ground.PLANE.parameters))}, ("wheels",),
        instead=dict.fromkeys(VERTICAL_STIFFNESS, "size"))
    add("cornering", "a cornering tyre", {"tyre": _keys(fiala.PARAMETERS, "cornering_")})
    add("axle_friction", "friction by axle", {"tyre": _keys(nonlinear_bicycle.CHASSIS.parameters, "friction_")}, ("cornering",))
    add("fiala", "a Fiala tyre", {"tyre": _keys(fiala.PARAMETERS)}, ("tyre", "cornering"))
    for name, fields in (("magic_formula", magic_formula.PARAMETERS), ("relaxation", magic_formula.RELAXATION)):
        add(name, f"a Magic Formula tyre ({name})", {"tyre": _keys(fields)}, ("tyre",), instead={f.name: "tir" for f in fields})
    add("force_table", "a TMeasy tyre", {"tyre": (*FROM_SIZE, *_keys(tmeasy.TABLE, "rolling_"))}, ("tyre",),
        instead=dict.fromkeys(FROM_SIZE, "size"))
    add("carcass", "a TMeasy tyre with relaxation", {"tyre": _keys(tmeasy.CARCASS)}, ("force_table",))
    add("coulomb", "a TMeasy tyre without relaxation", {"tyre": _keys(tmeasy.COULOMB)}, ("force_table",))
    add("motor", "a motor", {"powertrain": _keys(motor.PARAMETERS)}, ("wheels",))
    reverse = _keys(gearbox.PARAMETERS, "reverse_")
    add("gearbox", "an engine with a gearbox", {
        "powertrain": tuple(key for key in _keys(gearbox.PARAMETERS) if key not in reverse)}, ("wheels",))
    # Default: the first gear's ratio.
    add("reverse", "a reverse gear", {"powertrain": reverse}, ("gearbox",), default=True)
    add("converter", "a torque converter", {"powertrain": _keys(gearbox.CONVERTER_PARAMETERS)}, ("gearbox",))
    add("double_wishbone", "a vehicle with double wishbones", {"suspension": _keys(double_wishbone.PARAMETERS)})
    add("struts", "a spring, damper and stop at each wheel", {"suspension": _keys(struts.PARAMETERS)}, ("double_wishbone",))
    add("multibody", "a multibody", {
        "chassis": _keys(multibody.PARAMETERS, "cg_above_"), "wheels": _keys(multibody.PARAMETERS, "wheel_transverse_", "axle_"),
        "tyre": _keys(multibody.PARAMETERS, "tyre_vertical_damping_")}, ("pitch", "struts"))
    add("linkage", "a steering linkage", {"steering": _keys(steering_linkage.SERVO)})
    for part, title in ((steering_linkage.PITMAN_ARM, "a pitman arm"), (steering_linkage.RACK, "a rack")):
        add(part.name, title, {"steering": _keys(part.parameters)}, ("linkage",))
    add("linear_steering", "steering", {"steering": _keys(steering.LINEAR.parameters)})
    add("steering_map", "a steering map", {"steering": _keys(steering.MAP.parameters)})
    # Without these, see lfdm_ros.vehicles.body.
    add("body", "a body", {"body": _keys(body.SECTIONS["body"])})
    for sensor, title, needs in (("lidar", "a LIDAR", ("lidar",)), ("imu", "an IMU", ())):
        add(sensor, title, {"sensors": _keys(body.SECTIONS["sensors"], f"{sensor}_x", f"{sensor}_y")})
        add(f"{sensor}_z", f"the height of {title}", {"sensors": (f"{sensor}_z",)}, needs)
    add("lidar_noise", "the noise of a LIDAR", {"sensors": ("lidar_noise",)}, ("lidar",))
    for actuator in _keys(body.SECTIONS["actuators"]):
        add(actuator, "an actuator", {"actuators": (actuator,)})
    return groups


def _groups() -> dict[str, KeyGroup]:
    groups = dict(_shipped_groups())
    home = {key: name for name, group in _shipped_groups().items() for keys in group.keys.values() for key in keys}
    defaults = {name for name, group in _shipped_groups().items() if group.default}
    for section, entry in entries():
        keys = list(dict.fromkeys(_table_keys().get(f.name, f.name) for f in entry.parameters))
        needs = tuple(name for name in dict.fromkeys(home[key] for key in keys if key in home) if name not in defaults)
        new = tuple(key for key in keys if key not in home)
        if not new:  # such as parts with a group above
            continue
        title = f"the {section} {entry.name}"
        groups[title] = KeyGroup(title, {section: new}, needs)
        home |= dict.fromkeys(new, title)
    return groups


GROUPS: Mapping[str, KeyGroup] = _Live(_groups)
# Section -> its keys, in the order in which files are written.
SECTIONS: Mapping[str, tuple[str, ...]] = _Live(lambda: {
    section: tuple(key for group in GROUPS.values() for key in group.keys.get(section, ()))
    for section in ("chassis", "suspension", "wheels", "tyre", "powertrain", "brakes", "steering", "ground", *body.SECTIONS)})
