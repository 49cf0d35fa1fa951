"""What a simulator in a process of its own says of its run."""

from __future__ import annotations

from typing import Any

from rclpy.node import Node

from lfdm_ros.engine.pacing import speed_summary
from lfdm_ros.msg import SimulatorStatus
from lfdm_ros.ros import qos
from lfdm_ros.ros.messages import nanoseconds
from lfdm_ros.stacks.stack import NodeEntry

STATUS = "simulator/status"
_FIELDS = ("overruns", "not_driven", "collisions", "first_collision", "least_clearance", "lifted_wheels_most")


class SimulatorWatch:
    """Keeps the last status of a stack's simulator."""

    def __init__(self, entry: NodeEntry, node: Node) -> None:
        self.namespace = entry.full_name.rpartition("/")[0] or "/"
        self._status: SimulatorStatus | None = None
        node.create_subscription(SimulatorStatus, entry.topic(STATUS), self._on_status, qos.STATUS)

    def _on_status(self, status: SimulatorStatus) -> None:
        self._status = status

    def summary(self, wall: float) -> dict[str, Any]:
        """As of `run_stack`, after a wall time [s]."""
        status = self._status
        if status is None:
            return {}
        simulated = 1e-9 * nanoseconds(status.header.stamp)
        return {"simulated_seconds": simulated, **speed_summary(simulated, wall, status.speed_factor_asked, status.held_back),
                **{name: getattr(status, name) for name in _FIELDS},
                "commands_rejected": {"refused": status.commands_rejected}}
