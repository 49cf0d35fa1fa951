"""Parameters of nodes: declaration to ROS, checks of changes, and common ones."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.node import Node
from rclpy.parameter import Parameter as RosParameter

from lfdm_ros.errors import InputError
from lfdm_ros.parameters import Parameter as Parameter
from lfdm_ros.parameters import Value, renaming
from lfdm_ros.vehicles import Vehicle, load_vehicle

_ROS_TYPES = {
    bool: RosParameter.Type.BOOL, int: RosParameter.Type.INTEGER, float: RosParameter.Type.DOUBLE,
    str: RosParameter.Type.STRING, list: RosParameter.Type.STRING_ARRAY}


def descriptor_of(parameter: Parameter) -> ParameterDescriptor:
    """Returns the description of a parameter for ROS. One that is not live may change only before the node is configured."""
    descriptor = ParameterDescriptor(
        name=parameter.name, type=_ROS_TYPES[type(parameter.default)].value, description=parameter.text,
        additional_constraints="" if parameter.live else "cannot change once the node is configured")
    # rclpy takes an empty list for an array of bytes; `convert` checks values.
    descriptor.dynamic_typing = isinstance(parameter.default, list)
    bounded = math.isfinite(parameter.lower) and math.isfinite(parameter.upper)
    if bounded and isinstance(parameter.default, float):
        descriptor.floating_point_range = [FloatingPointRange(from_value=parameter.lower, to_value=parameter.upper)]
    elif bounded and type(parameter.default) is int:
        descriptor.integer_range = [IntegerRange(from_value=int(parameter.lower), to_value=int(parameter.upper))]
    return descriptor


def ros_parameter(parameter: Parameter, value: Value) -> RosParameter:
    """Returns a parameter with its type stated, so that an empty list is not taken for an array of bytes."""
    return RosParameter(parameter.name, _ROS_TYPES[type(parameter.default)], value)


# Parameters of nodes that have a vehicle.
VEHICLE = Parameter("vehicle", "hmmwv", "name of a vehicle in config/vehicles, or a path")
VEHICLE_CHANGES = Parameter("vehicle_changes", [], "parameters of the vehicle that differ from its file, NAME=VALUE in SI units: "
                                                   "actuation_delay=0.1, overall_width=2.5")
# Parameter of nodes that take part in a scenario; given to the whole stack.
SCENARIO_SEED = Parameter("scenario_seed", -1, "seed of the scenario's course; -1: that of its file", -1, 2**31 - 1)


def seed_of(value: int) -> int | None:
    """Converts a value of SCENARIO_SEED to the seed that `load_scenario` takes."""
    return None if value < 0 else value


# The operator's camera and its topic.
CAMERA = Parameter("camera", "front", "name of the operator's camera in the vehicle's file")
CAMERA_TOPIC = "sensors/{}/image_raw/compressed"

# rclpy declares this one itself, in every node.
USE_SIM_TIME = Parameter("use_sim_time", False, "take the time from /clock")


def by_name(table: Iterable[Parameter]) -> dict[str, Parameter]:
    """Returns the parameters a node accepts, by name."""
    return {parameter.name: parameter for parameter in (*table, USE_SIM_TIME)}


def declare(node: Node, table: Iterable[Parameter], former: Mapping[str, str], renamed: Mapping[str, str]) -> None:
    """Declares the parameters of a node to ROS. former: removed parameters and their messages. renamed: parameters of the former release,
    and their present names. Raises InputError: one given from outside has a wrong type or value, or is a former one."""
    try:
        values = {}
        for old in (*former, *renamed):  # rclpy ignores undeclared parameters silently
            given = node.declare_parameter(old, None, ParameterDescriptor(dynamic_typing=True)).value
            node.undeclare_parameter(old)
            if given is not None and old in former:
                raise InputError(f"{old}: {former[old]}")
            if given is not None:
                node.get_logger().warning(renaming(old, renamed[old]))
                values[renamed[old]] = given
        for parameter in table:
            node.declare_parameter(parameter.name, values.get(parameter.name, parameter.default), descriptor_of(parameter))
    except (InvalidParameterTypeException, InvalidParameterValueException) as error:
        raise InputError(str(error)) from None


def checked_changes(table: Iterable[Parameter], parameters: Iterable[RosParameter], configured: bool) -> list[tuple[str, Any]]:
    """Returns names and converted values of the parameters of a table that are to change; configured: only live ones may. Raises
    InputError: one may not change now, or has a wrong type or value."""
    changed, declared = [], {parameter.name: parameter for parameter in table}
    for parameter in parameters:
        if (declaration := declared.get(parameter.name)) is None:
            continue
        if configured and not declaration.live:
            raise InputError(f"{parameter.name} cannot change once the node is configured; clean it up first")
        changed.append((parameter.name, declaration.convert(parameter.value, parameter.name)))
    return changed


def vehicle_of(node: Any, *changes: str) -> Vehicle:
    """Returns the vehicle that the parameters of a node name, with its changes and more; assumptions about it are logged. Raises
    InputError: as `load_vehicle`."""
    vehicle = load_vehicle(node.value("vehicle"), [*node.value("vehicle_changes"), *changes])
    if vehicle.assumed:
        node.get_logger().warning(vehicle.assumed)
    return vehicle
