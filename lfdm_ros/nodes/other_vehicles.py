"""Other vehicles of the graph, each by its namespace: newest pose, speed and outline."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rclpy.serialization import deserialize_message

from lfdm_ros.msg import VehicleDescription, VehicleState
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import Component

MAX_VEHICLES = 16
_STATE, _DESCRIPTION = "/vehicle/state", "/vehicle/description"
_TYPE = "lfdm_ros/msg/VehicleState"
_LASTS = 1.5  # [s] that a state counts for
_CAR = (2.2, 2.2, 0.9)  # [m] ahead of the position point, behind it, to a side; of one that does not say


@dataclass
class _Vehicle:
    """Bytes and time [s] of the newest state; outline [m]; subscriptions."""

    state: bytes = b""
    received_at: float = -math.inf
    outline: Sequence[float] = _CAR
    subscriptions: list[Any] = field(default_factory=list)


class OtherVehicles:
    """Subscribes to the published states of vehicles in other namespaces. States are decoded on request."""

    def __init__(self, node: Component) -> None:
        self._node, self._namespace = node, node.get_namespace().rstrip("/")
        self._vehicles: dict[str, _Vehicle] = {}

    @property
    def names(self) -> list[str]:
        """The namespaces of the vehicles, / for the root."""
        return [name or "/" for name in self._vehicles]

    def look(self) -> None:
        found = {topic.removesuffix(_STATE) for topic, types in self._node.get_topic_names_and_types()
                 if topic.endswith(_STATE) and _TYPE in types and self._node.count_publishers(topic)} - {self._namespace}
        for name in self._vehicles.keys() - found:
            for subscription in self._vehicles.pop(name).subscriptions:
                self._node.destroy_subscription(subscription)
        for name in sorted(found - self._vehicles.keys())[:MAX_VEHICLES - len(self._vehicles)]:
            self._subscribe(name)

    def rows(self) -> list[tuple[float, ...]]:
        """Returns number among `names`, x, y [m], yaw [rad], forward speed [m/s] and outline [m] of vehicles with current states."""
        rows, oldest = [], time.monotonic() - _LASTS
        for number, vehicle in enumerate(self._vehicles.values()):
            if vehicle.received_at > oldest:
                state = deserialize_message(vehicle.state, VehicleState)
                row = (float(number), state.x, state.y, state.yaw, state.vx, *vehicle.outline)
                if all(map(math.isfinite, row)):
                    rows.append(row)
        return rows

    def _subscribe(self, name: str) -> None:
        vehicle = self._vehicles[name] = _Vehicle()

        def on_state(data: bytes) -> None:
            vehicle.state, vehicle.received_at = data, time.monotonic()

        def on_description(message: VehicleDescription) -> None:
            vehicle.outline = message.outline_front, message.outline_rear, message.outline_half_width

        vehicle.subscriptions = [
            self._node.create_subscription(VehicleState, name + _STATE, on_state, qos.NEWEST, raw=True),
            self._node.create_subscription(VehicleDescription, name + _DESCRIPTION, on_description, qos.LATCHED)]
