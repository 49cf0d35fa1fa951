"""The running graph; conftest.py isolates it from every other on this machine."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hurried import hurry
from rclpy.node import Node

from lfdm_ros.ros.component import Component
from lfdm_ros.ros.parameters import ros_parameter
from lfdm_ros.ros.runtime import Runtime
from lfdm_ros.ros.topics import interface_class

PATIENCE = 240.0  # [s] for anything to happen, on a machine that has other things to do


class Graph:
    """Nodes in this process, and a node of the test's own that listens, publishes and calls."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.node = Node("tester", context=runtime.context)
        self._clients: dict[str, Any] = {}
        runtime.executor.add_node(self.node)

    def add(self, node_class: type[Component], active: bool = True, name: str | None = None, **parameters: Any) -> Any:
        table = {p.name: p for p in node_class.PARAMETERS}
        node = node_class(name, context=self.runtime.context,
                          parameter_overrides=[ros_parameter(table[name], value) for name, value in parameters.items()])
        self.runtime.add(node)
        if active:
            node.bring_up("configure", "activate")
        return node

    def listen(self, topic: str, msgtype: str, qos: Any = 1000) -> list[Any]:
        """A list that fills with what is heard."""
        heard: list[Any] = []
        self.node.create_subscription(interface_class(msgtype), topic, heard.append, qos)
        return heard

    def wait(self, condition: Callable[[], Any], what: str = "the condition") -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"{what} did not come about in {PATIENCE:g} s"
            self.runtime.spin_some(0.01)

    def call(self, service_type: Any, name: str, **request: Any) -> Any:
        client = self._clients.get(name) or self._clients.setdefault(name, self.node.create_client(service_type, name))
        self.wait(client.service_is_ready, f"service {name}")
        future = client.call_async(service_type.Request(**request))
        self.wait(future.done, f"the answer of {name}")
        return future.result()

    def diagnosis(self, heard: list[Any], name: str) -> Any:
        """The newest DiagnosticStatus of a node among what was heard on /diagnostics."""
        return next((s for array in reversed(heard) for s in array.status if s.name == name), None)


@pytest.fixture
def unhurried() -> None:
    """Nodes keep the periods that they have elsewhere."""


@pytest.fixture
def graph(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Graph]:
    if "unhurried" not in request.fixturenames:
        hurry(monkeypatch)
    with Runtime() as runtime:
        graph = Graph(runtime)
        yield graph
        runtime.executor.remove_node(graph.node)
        graph.node.destroy_node()
