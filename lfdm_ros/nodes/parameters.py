"""Node parameters, each declared once: type, default, range, description, and whether it may change while the node runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, cast

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.parameter import Parameter as RosParameter

from lfdm_ros import documents
from lfdm_ros.errors import InputError, quote

Value = bool | int | float | str | list[str]
_ROS_TYPES = {
    bool: RosParameter.Type.BOOL, int: RosParameter.Type.INTEGER, float: RosParameter.Type.DOUBLE,
    str: RosParameter.Type.STRING, list: RosParameter.Type.STRING_ARRAY}

_NAMES = {bool: "boolean (true or false)", int: "whole number", float: "number", str: "text", list: "list of texts"}


@dataclass(frozen=True)
class Parameter:
    """Declaration of one parameter; its type is that of the default.

    Attributes:
        name: as in YAML.
        default: bool, int, float, str or list of str.
        description: what it is, with its unit.
        lower, upper: closed range of a number.
        choices: the texts allowed; empty: any.
        live: may change while the node is active. Others may change only before it is configured.
    """

    name: str
    default: Value
    description: str
    lower: float = -math.inf
    upper: float = math.inf
    choices: tuple[str, ...] = ()
    live: bool = False

    def convert(self, value: Any, where: str) -> Value:
        """Checks a value from YAML or a command line and gives it the declared type.

        Raises:
            InputError: wrong type, not finite, out of range or not among the choices; the message starts with `where`.
        """
        kind = type(self.default)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = documents.number(value, where)
        if type(value) is not kind or (isinstance(value, list) and not all(isinstance(item, str) for item in value)):
            raise InputError(f"{where}: {quote(value)} is no {_NAMES[kind]}")
        if isinstance(value, (int, float)) and not self.lower <= value <= self.upper:  # false for NaN
            raise InputError(f"{where}: {quote(value)} is outside [{self.lower:g}, {self.upper:g}]")
        if self.choices and value not in self.choices:
            raise InputError(f"{where}: {quote(value)} is not one of {', '.join(self.choices)}")
        return value

    def descriptor(self) -> ParameterDescriptor:
        descriptor = ParameterDescriptor(
            name=self.name, type=_ROS_TYPES[type(self.default)].value, description=self.description,
            additional_constraints="" if self.live else "cannot change once the node is configured")
        # rclpy takes an empty list for an array of bytes; `convert` checks what is given.
        descriptor.dynamic_typing = isinstance(self.default, list)
        bounded = math.isfinite(self.lower) and math.isfinite(self.upper)
        if bounded and isinstance(self.default, float):
            descriptor.floating_point_range = [FloatingPointRange(from_value=self.lower, to_value=self.upper)]
        elif bounded and type(self.default) is int:
            descriptor.integer_range = [IntegerRange(from_value=int(self.lower), to_value=int(self.upper))]
        return descriptor

    def ros(self, value: Value) -> RosParameter:
        """The parameter with its type stated, so that an empty list is not taken for an array of bytes."""
        return RosParameter(self.name, _ROS_TYPES[type(self.default)], value)


def of_dataclass(kind: Any, only: Iterable[str] = (), without: Iterable[str] = ()) -> tuple[Parameter, ...]:
    """The fields of a dataclass whose metadata has unit, description, lower, upper, live and choices, as parameters.

    Args:
        only: names to take; empty: all but those in `without`.
    """
    wanted, unwanted = tuple(only), tuple(without)
    return tuple(
        Parameter(f.name, cast(Value, f.default), f.metadata["description"] + (f" [{f.metadata['unit']}]" if f.metadata["unit"] else ""),
                  f.metadata["lower"], f.metadata["upper"], f.metadata["choices"], f.metadata["live"])
        for f in fields(kind) if (f.name in wanted if wanted else f.name not in unwanted))


# Of nodes that have a vehicle.
VEHICLE = Parameter("vehicle", "hmmwv", "name of a vehicle in config/vehicles, or a path")
VEHICLE_CHANGES = Parameter("vehicle_changes", [], "parameters of the vehicle that are not as its file says, NAME=VALUE in SI units: "
                                                   "actuation_delay=0.1, overall_width=2.5")
# Of nodes that take part in a scenario; given to the whole stack.
SCENARIO_SEED = Parameter("scenario_seed", -1, "seed of the scenario's course: another field; -1: as its file says", -1, 2**31 - 1)


def seed_of(value: int) -> int | None:
    """What `load_scenario` takes for a value of SCENARIO_SEED."""
    return None if value < 0 else value


# rclpy declares this one itself, in every node.
USE_SIM_TIME = Parameter("use_sim_time", False, "take the time from /clock")


def by_name(table: Iterable[Parameter]) -> dict[str, Parameter]:
    """The parameters a node accepts, by name."""
    return {parameter.name: parameter for parameter in (*table, USE_SIM_TIME)}
