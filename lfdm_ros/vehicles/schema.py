"""The sections of a vehicle file, and the groups of keys in them that stand together.

A file has only what the vehicle has: a small car without a gearbox says nothing of gears. What belongs together is a group, given
whole or not at all. Units, ranges and descriptions come from the declarations of the models. Of a part, chassis or model whose parameters
no group here names, ours or from outside, those are a group of its own, in the section of its slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import count
from typing import TypeVar

from lfdm_ros.models import AXLES, Field, double_wishbone, steering_linkage, struts
from lfdm_ros.models.registry import all_parameters, entries, registered
from lfdm_ros.vehicles import body

T = TypeVar("T")


class _Live(Mapping[str, T]):
    """What a function derives from the registered models, derived anew when there are more."""

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


# Every parameter of every model, by name, and those of the body. One that two models share is declared once and means the same in both.
DECLARED: Mapping[str, Field] = _Live(lambda: all_parameters() | body.PARAMETERS)


@dataclass(frozen=True)
class Table:
    """A table of a file. Each column stands for the parameters STEM_0, STEM_1, ...; what is left of them repeats the last row."""

    columns: Mapping[str, str]  # column -> stem; the first is what the table is looked up by
    least: int = 2
    rising: bool = True  # the first column must not fall
    count: str = ""  # the parameter that holds the number of rows

    @cached_property
    def points(self) -> int:
        """Rows that the models have room for. Not before it is asked, since models from outside may import this module."""
        stem = next(iter(self.columns.values()))
        return next(i for i in count(0) if f"{stem}_{i}" not in DECLARED)

    def parameters(self, column: str) -> list[str]:
        """The parameters of one column, in order."""
        return [f"{self.columns[column]}_{i}" for i in range(self.points)]


# Section and key of the tables.
TABLES: dict[tuple[str, str], Table] = {
    ("powertrain", "motor_map"): Table({"speed": "motor_speed", "torque": "motor_torque"}),
    ("powertrain", "gears"): Table({"ratio": "gear_ratio", "upshift_speed": "upshift_speed", "downshift_speed": "downshift_speed"},
                                   least=1, rising=False, count="gear_count"),
    ("powertrain", "engine_map"): Table({"speed": "engine_speed", "torque": "engine_torque"}),
    ("powertrain", "losses"): Table({"speed": "loss_speed", "torque": "loss_torque"}),
    ("powertrain", "converter_capacity"): Table({"speed_ratio": "converter_speed_ratio", "capacity": "converter_capacity"}),
    ("powertrain", "converter_torque"): Table({"speed_ratio": "converter_torque_speed_ratio", "torque_ratio": "converter_torque_ratio"}),
    ("steering", "steering_map"): Table({"input": "steering_input", "angle": "steering_angle"}),
    **{("suspension", f"{key}_{axle}"): Table({"compression": f"{key}_compression_{axle}", "force": f"{key}_force_{axle}"})
       for axle in AXLES for key in ("spring", "stop")},
}
# Keys that are three numbers, of the parameters KEY_x, KEY_y, KEY_z.
VECTORS = frozenset((*double_wishbone.VECTORS, *struts.VECTORS, *steering_linkage.VECTORS))


def components(key: str) -> list[str]:
    """The parameters of a key of VECTORS."""
    return [f"{key}_{axis}" for axis in "xyz"]



@dataclass(frozen=True)
class Group:
    """Keys that a file gives all or none of; `needs` names the groups that must then be there as well. Of one with `default` the vehicle
    has the values all the same."""

    title: str
    keys: Mapping[str, tuple[str, ...]]  # section -> keys
    needs: tuple[str, ...] = ()
    required: bool = False
    default: bool = False
    instead: Mapping[str, str] = field(default_factory=dict)  # key -> the key that may stand in its place


FORCE_TABLE = tuple(f"tmeasy_{axis}_{quantity}_{load}" for axis in ("longitudinal", "lateral")
                    for quantity in ("slope", "peak_force", "peak_slip", "sliding_force", "sliding_slip") for load in ("nominal", "double"))
# What the size of a tyre stands for; see lfdm_ros.vehicles.tyre_size.
FROM_SIZE = ("tyre_nominal_load", "tyre_maximum_load", *FORCE_TABLE)
VERTICAL_STIFFNESS = ("tyre_vertical_stiffness_front", "tyre_vertical_stiffness_rear")

_GROUPS: dict[str, Group] = {
    "mass": Group("every vehicle", {
        "chassis": ("sprung_mass", "unsprung_mass_front", "unsprung_mass_rear", "yaw_inertia", "cg_to_front_axle",
                    "cg_to_rear_axle")}, required=True),
    # Single-track models, which have no wheels that turn, do without.
    "wheels": Group("a vehicle with wheels that turn", {
        "chassis": ("unsprung_load_share", "cg_height"), "wheels": ("wheel_inertia", "wheel_radius"),
        "brakes": ("brake_torque_front", "brake_torque_rear")}),
    "roll": Group("a body that rolls", {
        "chassis": ("roll_inertia", "track_front", "track_rear"),
        "suspension": ("roll_centre_drop_front", "roll_centre_drop_rear")}, needs=("wheels",)),
    # Without, the driveline turns in the body alone.
    "driveline_roll": Group("a driveline that turns the body", {"chassis": ("driveline_roll_reaction",)}, needs=("roll",), default=True),
    "roll_stiffness": Group("roll stiffness about the roll axis", {
        "chassis": ("roll_yaw_inertia",),
        "suspension": ("roll_stiffness_front", "roll_stiffness_rear", "roll_damping_front", "roll_damping_rear")}, needs=("roll",)),
    "pitch": Group("a body that pitches", {"chassis": ("pitch_inertia",)}, needs=("roll",)),
    "springs": Group("a suspension at each wheel", {
        "suspension": ("suspension_stiffness_front", "suspension_stiffness_rear", "suspension_damping_front", "suspension_damping_rear")}),
    "tyre": Group("a tyre under load", {"tyre": (*VERTICAL_STIFFNESS, "friction_scale")}, needs=("wheels",),
                  instead=dict.fromkeys(VERTICAL_STIFFNESS, "size")),
    "cornering": Group("a tyre that corners", {"tyre": ("cornering_stiffness_front", "cornering_stiffness_rear")}),
    "axle_friction": Group("friction by axle", {"tyre": ("friction_front", "friction_rear")}, needs=("cornering",)),
    "fiala": Group("a Fiala tyre", {
        "tyre": ("rolling_resistance", "longitudinal_stiffness_front", "longitudinal_stiffness_rear", "friction_max", "friction_min")},
        needs=("tyre", "cornering")),
    "force_table": Group("a TMeasy tyre", {
        "tyre": (*FROM_SIZE, "rolling_radius_weight_nominal", "rolling_radius_weight_double", "rolling_resistance_coefficient")},
        needs=("tyre",), instead=dict.fromkeys(FROM_SIZE, "size")),
    "carcass": Group("a TMeasy tyre with relaxation", {
        "tyre": ("carcass_stiffness_longitudinal", "carcass_stiffness_lateral", "carcass_damping_longitudinal",
                 "carcass_damping_lateral")}, needs=("force_table",)),
    "coulomb": Group("a TMeasy tyre without relaxation", {
        "tyre": ("coulomb_speed", "coulomb_blend_begin", "coulomb_blend_end")}, needs=("force_table",)),
    "motor": Group("a motor", {"powertrain": ("driveline_ratio", "motor_map")}, needs=("wheels",)),
    "gearbox": Group("an engine with a gearbox", {
        "powertrain": ("gears", "engine_map", "losses", "throttle_modulation", "front_drive_share", "differential_bias")},
        needs=("wheels",)),
    # Without, it is as the first gear.
    "reverse": Group("a reverse gear", {"powertrain": ("reverse_ratio",)}, needs=("gearbox",), default=True),
    "converter": Group("a torque converter", {
        "powertrain": ("crank_inertia", "converter_capacity", "converter_torque")}, needs=("gearbox",)),
    "double_wishbone": Group("a vehicle with double wishbones", {"suspension": tuple(
        key for axle in AXLES for key in (*(f"{point}_{axle}" for point in double_wishbone.POINTS), *(
            f"{body}_{quantity}_{axle}" for body in ("lower_arm", "upper_arm", "upright") for quantity in ("mass", "inertia"))))}),
    "struts": Group("a spring, damper and stop at each wheel", {"suspension": tuple(
        f"{key}_{axle}" for axle in AXLES for key in struts.KEYS)}, needs=("double_wishbone",)),
    "multibody": Group("a multibody", {
        "chassis": ("cg_above_pivots",), "wheels": ("wheel_transverse_inertia", "axle_inertia"),
        "tyre": ("tyre_vertical_damping_front", "tyre_vertical_damping_rear")}, needs=("pitch", "struts")),
    "linkage": Group("a steering linkage", {"steering": ("steering_stiffness", "steering_damping")}),
    "pitman_arm": Group("a pitman arm", {"steering": (
        "pitman_arm_length", "pitman_arm_lock", "pitman_arm_tilt", "pitman_arm_pivot", "pitman_arm_mass", "pitman_arm_centre",
        "pitman_arm_inertia", "steering_link_mass", "steering_link_centre", "steering_link_inertia")}, needs=("linkage",)),
    "rack": Group("a rack", {"steering": ("rack_travel", "rack_mass", "rack_centre", "rack_inertia")}, needs=("linkage",)),
    "linear_steering": Group("steering", {"steering": ("max_road_wheel_angle",)}),
    "steering_map": Group("a steering map", {"steering": ("steering_map",)}),
    # Without these, see lfdm_ros.vehicles.body.
    "body": Group("a body", {"body": tuple(f.name for f in body.SECTIONS["body"])}),
    "lidar": Group("a LIDAR", {"sensors": ("lidar_x", "lidar_y", "lidar_yaw")}),
    "lidar_z": Group("the height of a LIDAR", {"sensors": ("lidar_z",)}, needs=("lidar",)),
    "imu": Group("an IMU", {"sensors": ("imu_x", "imu_y")}),
    "imu_z": Group("the height of an IMU", {"sensors": ("imu_z",)}),
    **{f.name: Group("an actuator", {"actuators": (f.name,)}) for f in body.SECTIONS["actuators"]},
}

REQUIRED_SECTIONS = tuple({section: None for group in _GROUPS.values() if group.required for section in group.keys})


@cache
def _table_keys() -> dict[str, str]:
    """The keys that hold the parameters of tables and vectors."""
    keys = {name: key for (_, key), table in TABLES.items() for column in table.columns for name in table.parameters(column)}
    keys |= {name: key for key in VECTORS for name in components(key)}
    return keys | {table.count: key for (_, key), table in TABLES.items() if table.count}


def _groups() -> dict[str, Group]:
    groups = dict(_GROUPS)
    home = {key: name for name, group in _GROUPS.items() for keys in group.keys.values() for key in keys}
    defaults = {name for name, group in _GROUPS.items() if group.default}
    for section, entry in entries():
        keys = list(dict.fromkeys(_table_keys().get(f.name, f.name) for f in entry.parameters))
        needs = tuple(name for name in dict.fromkeys(home[key] for key in keys if key in home) if name not in defaults)
        new = tuple(key for key in keys if key not in home)
        if not new:  # as of all parts with a group of their own above
            continue
        title = f"the {section} {entry.name}"
        groups[title] = Group(title, {section: new}, needs)
        home |= dict.fromkeys(new, title)
    return groups


def _sections() -> dict[str, tuple[str, ...]]:
    return {section: tuple(key for group in GROUPS.values() for key in group.keys.get(section, ()))
            for section in ("chassis", "suspension", "wheels", "tyre", "powertrain", "brakes", "steering", "ground", *body.SECTIONS)}


GROUPS: Mapping[str, Group] = _Live(_groups)
# Section -> its keys, in the order in which files are written.
SECTIONS: Mapping[str, tuple[str, ...]] = _Live(_sections)


def keys_of(parameters: Iterable[str]) -> list[str]:
    """The keys of a vehicle file that hold these parameters: a table or a vector once, whatever the number of its points."""
    return list(dict.fromkeys(_table_keys().get(name, name) for name in parameters))
