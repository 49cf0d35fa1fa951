"""Observer node of the commands of an operator's seat."""

import threading
from collections.abc import Callable
from typing import Any

from rclpy.node import Node

from lfdm_ros.msg import DriverCommand
from lfdm_ros.ros import qos
from lfdm_ros.ros.runtime import Runtime


def observe_commands(on_command: Callable[[Any], None], ended: threading.Event) -> None:
    """Calls `on_command` with each message on `teleop/command`, until `ended` is set."""
    with Runtime() as runtime:
        node = Node("listener", context=runtime.context)
        node.create_subscription(DriverCommand, "teleop/command", on_command, qos.COMMAND)
        runtime.executor.add_node(node)
        while not ended.is_set():
            runtime.spin_some(0.01)
        node.destroy_node()
