"""A node beside a running stack that listens and calls; whoever has it gives it its turns."""

from __future__ import annotations

import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions


class Bystander:
    """In a context of its own, which signals do not end before the stack."""

    def __init__(self, name: str) -> None:
        self._context = Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self._node = Node(name, context=self._context, use_global_arguments=False, start_parameter_services=False)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)

    def take(self, most: int) -> None:
        """What has come, at most so many callbacks."""
        for _ in range(most):
            self._executor.spin_once(timeout_sec=0.0)

    def close(self) -> None:
        self._executor.remove_node(self._node)
        self._node.destroy_node()
        self._executor.shutdown()
        self._context.try_shutdown()
