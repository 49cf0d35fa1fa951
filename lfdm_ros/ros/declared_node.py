"""A node that makes what it publishes, hears, serves and acts on as it is declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from rclpy.qos import QoSProfile

from lfdm_ros.ros.endpoints import ACTS, HEARS, PUBLISHES, SERVES, Endpoint, in_force
from lfdm_ros.ros.guarded_node import GuardedNode


class DeclaredNode(GuardedNode):
    """Who derives from it sets NAME and ENDPOINTS, and makes them by name."""

    NAME: ClassVar[str]
    # What it publishes, hears, serves and acts on, once it is configured. `publisher`, `subscription`, `service` and `action` make it.
    ENDPOINTS: ClassVar[tuple[Endpoint, ...]] = ()

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self._made: list[Any] = []  # of ENDPOINTS; ended after `cleanup`

    def value(self, name: str) -> Any:
        """The value of a declared parameter."""
        return self.get_parameter(name).value

    def publisher(self, name: str) -> Any:
        """The publisher of a topic that ENDPOINTS has, until the node is cleaned up; None where its condition does not hold."""
        return self._make(PUBLISHES, name, lambda e: self.create_lifecycle_publisher(e.kind, e.name_for(self.value), e.profile(self.value)))

    def make_publisher(self, name: str, kind: Any, profile: QoSProfile) -> Any:
        """Makes a publisher that ENDPOINTS cannot name beforehand, until the node is cleaned up."""
        self._made.append(self.create_lifecycle_publisher(kind, name, profile))
        return self._made[-1]

    def subscription(self, name: str, callback: Callable[[Any], None], *, raw: bool = False) -> Any:
        """The subscription to a topic, likewise; raw: the callback takes bytes."""
        return self._make(HEARS, name, lambda e: self.create_subscription(
            e.kind, e.name_for(self.value), callback, e.profile(self.value), raw=raw))

    def service(self, name: str, callback: Any) -> Any:
        """The service, likewise."""
        return self._make(SERVES, name, lambda e: self.create_service(e.kind, e.name, callback))

    def action(self, name: str, execute: Any, accept: Any, cancel: Any) -> Any:
        """The action, likewise, with coroutine `execute`."""
        return self._make(ACTS, name, lambda e: self.create_action(e.kind, e.name, execute, accept, cancel))

    def _make(self, direction: str, name: str, make: Callable[[Endpoint], Any]) -> Any:
        """Of several of a name the first counts whose condition holds."""
        declared = [endpoint for endpoint in self.ENDPOINTS if (endpoint.direction, endpoint.name) == (direction, name)]
        if not declared:
            raise LookupError(f"ENDPOINTS of {self.NAME} has no '{name}' that it {direction}")
        for endpoint in in_force(declared, self.value):
            self._made.append(make(endpoint))
            return self._made[-1]
        return None

    def end_made(self) -> None:
        """Ends all that was made so."""
        for entity in self._made:
            self.destroy(entity)
        self._made.clear()
