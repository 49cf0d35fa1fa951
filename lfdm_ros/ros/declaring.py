"""A node's parameters as its table declares them: given to ROS, and checked before they change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.node import Node
from rclpy.parameter import Parameter as RosParameter

from lfdm_ros.errors import InputError
from lfdm_ros.parameters import renaming
from lfdm_ros.ros.parameters import Parameter, by_name


class Declarations:
    """The table of a node's parameters."""

    def __init__(self, table: Iterable[Parameter]) -> None:
        self._table = tuple(table)
        self._by_name = by_name(self._table)

    def declare(self, node: Node, former: Mapping[str, str], renamed: Mapping[str, str]) -> None:
        """Declares them.

        Args:
            former: parameters of former versions, and the line that refuses each.
            renamed: parameters of the former release, and their present names.

        Raises:
            InputError: one given from outside has a wrong type or value, or is a former one.
        """
        try:
            values = {}
            for old in (*former, *renamed):  # rclpy says nothing of a parameter that no node declares
                given = node.declare_parameter(old, None, ParameterDescriptor(dynamic_typing=True)).value
                node.undeclare_parameter(old)
                if given is not None and old in former:
                    raise InputError(f"{old}: {former[old]}")
                if given is not None:
                    node.get_logger().warning(renaming(old, renamed[old]))
                    values[renamed[old]] = given
            for parameter in self._table:
                node.declare_parameter(parameter.name, values.get(parameter.name, parameter.default), parameter.descriptor())
        except (InvalidParameterTypeException, InvalidParameterValueException) as error:
            raise InputError(str(error)) from None

    def checked(self, parameters: Iterable[RosParameter], configured: bool) -> list[tuple[str, Any]]:
        """Those of the table that are to change, as they should be; configured: only live ones may.

        Raises:
            InputError: one may not change now, or has a wrong type or value.
        """
        changed = []
        for parameter in parameters:
            declaration = self._by_name.get(parameter.name)
            if declaration is None or parameter.name == "use_sim_time":
                continue
            if configured and not declaration.live:
                raise InputError(f"{parameter.name} cannot change once the node is configured; clean it up first")
            changed.append((parameter.name, declaration.convert(parameter.value, parameter.name)))
        return changed
