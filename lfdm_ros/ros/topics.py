"""Topics by name, for generic nodes: message class, a QoS compatible with all publishers, rate limit."""

import importlib
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from rclpy.node import Node
from rclpy.topic_endpoint_info import TopicEndpointInfo

from lfdm_ros.errors import InputError, quote
from lfdm_ros.ros import qos


def interface_class(type_name: str) -> Any:
    """Returns the Python class of a type such as "nav_msgs/msg/Odometry", "std_srvs/srv/Trigger" or "lfdm_ros/action/Calibrate". Raises
    InputError: no such name, or it is not installed."""
    parts = type_name.split("/")
    if len(parts) != 3 or parts[1] not in ("msg", "srv", "action") or not all(part.isidentifier() for part in parts):
        raise InputError(f"{quote(type_name)} is not the name of a type; it is as nav_msgs/msg/Odometry")
    try:
        return getattr(importlib.import_module(f"{parts[0]}.{parts[1]}"), parts[2])
    except (ImportError, AttributeError):
        raise InputError(f"{type_name} is not installed; source its workspace") from None


class RateLimiter:
    """Limiter that admits one message per period of its stamps, independent of clocks; a stamp that goes back is admitted."""

    def __init__(self, rate: float) -> None:
        """Creates a limiter that has admitted nothing. rate: [Hz]; all messages below this rate are admitted."""
        self._rate, self._number = rate, -1

    def admit(self, time_ns: int) -> bool:
        """Checks whether a message of a time [ns] is the first of its period; 0: not stamped, always admitted."""
        number = math.floor(1e-9 * time_ns * self._rate + 1e-6)
        due, self._number = number != self._number or not time_ns, number
        return due


@dataclass(frozen=True)
class PublishedTopic:
    """A currently published topic: name in the graph, message type, publishers."""

    name: str
    type_name: str
    publishers: tuple[TopicEndpointInfo, ...]

    def subscribe(self, node: Node, callback: Callable[[Any], None], *, depth: int = 10, raw: bool = False, rate: float = 0.0) -> Any:
        """Subscribes a node with a queue and a QoS compatible with all publishers; returns the subscription. raw: the callback takes bytes;
        rate: messages a second of the node's clock that reach it, at most [Hz], 0: all. Raises InputError: the type is not installed."""
        limiter = RateLimiter(rate) if rate > 0.0 else None

        def on_message(message: Any) -> None:
            if limiter is None or limiter.admit(node.get_clock().now().nanoseconds):
                callback(message)

        return node.create_subscription(interface_class(self.type_name), self.name, callback if limiter is None else on_message,
                                        qos.matching(self.publishers, depth), raw=raw)


def find_topic(node: Node, name: str) -> PublishedTopic | None:
    """Returns a topic by its name, relative to the node's namespace or absolute; None: nobody publishes it yet. Raises InputError: its
    publishers do not agree on a type."""
    name = node.resolve_topic_name(name)
    publishers = tuple(node.get_publishers_info_by_topic(name))
    types = sorted({publisher.topic_type for publisher in publishers})
    if len(types) > 1:
        raise InputError(f"{name} has several types: {', '.join(types)}")
    return PublishedTopic(name, types[0], publishers) if types else None


def is_selected(topic: str, topics: Collection[str], exclude: Collection[str], namespace: str = "/") -> bool:
    """Checks whether a topic is selected, by graph names; without `topics`: all of the namespace except `exclude`, hidden ones and raw
    images."""
    if topics:
        return topic in topics
    # Names with a leading underscore are hidden by convention: services and actions.
    return topic not in exclude and not topic.endswith("/image_raw") and "/_" not in topic and topic.startswith(f"{namespace.rstrip('/')}/")
