"""A running graph from outside: its topics and messages, the parameters of its nodes, its services and actions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from types import TracebackType
from typing import Any

import rclpy
from rcl_interfaces.msg import ParameterDescriptor
from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters, SetParameters
from rclpy.action import ActionClient, get_action_names_and_types
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter, parameter_value_to_python
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

from lfdm_ros.errors import InputError, RunError, quote
from lfdm_ros.ros.message_fields import filled
from lfdm_ros.ros.topics import find_topic, interface_class
from lfdm_ros.stacks.bring_up import full_name

_SETTLING_TIME = 0.5  # [s] without changes until discovery counts as complete
_DEPTH = 1000  # samples queued while this process is busy


def hint(name: str, there: list[str]) -> str:
    """Returns the end of a message on an unknown name: the nearest one, or else all."""
    near = get_close_matches(name, there, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are: {', '.join(sorted(there))}"


class ObserverNode:
    """A node beside a running stack that subscribes and calls, in a separate context that signals do not end before the stack."""

    def __init__(self, name: str) -> None:
        self._context = Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self.node = Node(name, context=self._context, use_global_arguments=False, start_parameter_services=False)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)

    def spin_some(self, count: int) -> None:
        """Runs waiting callbacks, at most `count`."""
        for _ in range(count):
            self._executor.spin_once(timeout_sec=0.0)

    def close(self) -> None:
        self._executor.remove_node(self.node)
        self.node.destroy_node()
        self._executor.shutdown()
        self._context.try_shutdown()


class Inspector(ObserverNode):
    """A node that queries the graph; a context manager. timeout: of discovery and of an answer [s]."""

    def __init__(self, timeout: float = 5.0) -> None:
        super().__init__("lfdm_inspector")
        self._timeout = timeout

    def __enter__(self) -> Inspector:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def topics(self) -> dict[str, str]:
        """Returns the type of each topic of the graph by its name."""
        return self._settled(lambda: {name: types[0] for name, types in self.node.get_topic_names_and_types()
                                      if any(self.endpoint_counts(name))})

    def endpoint_counts(self, topic: str) -> tuple[int, int]:
        """Returns the numbers of publishers and subscriptions of a topic, without those of this node."""
        own_name = self.node.get_name()
        ends = self.node.get_publishers_info_by_topic(topic), self.node.get_subscriptions_info_by_topic(topic)
        return sum(end.node_name != own_name for end in ends[0]), sum(end.node_name != own_name for end in ends[1])

    def nodes(self) -> list[str]:
        return self._settled(self._node_names)

    def services(self) -> dict[str, str]:
        """Returns the type of each service and action by its name, without those of parameters, lifecycle and actions."""
        def found() -> dict[str, str]:
            services = {name: types[0] for name, types in self.node.get_service_names_and_types()
                        if "/_action/" not in name and not types[0].startswith(("rcl_interfaces/", "type_description_interfaces/"))}
            return {**services, **{name: types[0] for name, types in get_action_names_and_types(self.node)}}
        return self._settled(found)

    def subscribe(self, topic: str, callback: Callable[[Any], None]) -> str:
        """Subscribes to a topic, whose messages go to `callback` during `spin`; returns its type. Raises InputError: no publisher within
        the timeout, or its type is not installed."""
        topic = self._full(topic)
        self._wait(lambda: self.node.count_publishers(topic) > 0)
        published = find_topic(self.node, topic)
        if published is None:
            raise InputError(self._absent("topic", topic, [name for name in self.topics() if self.endpoint_counts(name)[0]]))
        published.subscribe(self.node, callback, depth=_DEPTH)
        return published.type_name

    def spin(self, until: Callable[[], bool], seconds: float | None = None) -> bool:
        """Spins until a condition holds or a time [s] is over; returns True if it holds."""
        end = None if seconds is None else time.monotonic() + seconds
        while not until():
            if end is not None and time.monotonic() > end:
                return False
            self._executor.spin_once(timeout_sec=0.1)
        return True

    def parameters(self, node: str) -> list[str]:
        """Returns the names of a node's parameters. Raises InputError: no such node; RunError: no answer."""
        return sorted(self._request_of(node, "list_parameters", ListParameters, ListParameters.Request()).result.names)

    def values(self, node: str, names: Iterable[str]) -> dict[str, Any]:
        """Returns the values of parameters, None for unknown names. Raises as `parameters`."""
        names = list(names)
        found = self._request_of(node, "get_parameters", GetParameters, GetParameters.Request(names=names)).values
        return dict(zip(names, map(parameter_value_to_python, found)))

    def describe(self, node: str, names: Iterable[str]) -> list[ParameterDescriptor]:
        """Returns the descriptions of parameters. Raises as `parameters`."""
        request = DescribeParameters.Request(names=list(names))
        return list(self._request_of(node, "describe_parameters", DescribeParameters, request).descriptors)

    def set(self, node: str, name: str, value: Any) -> None:
        """Sets a parameter. Raises InputError where the node refuses it, with its reason; else as `parameters`."""
        present = self.values(node, [name])[name]
        if isinstance(present, float) and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
        result = self._request_of(node, "set_parameters", SetParameters, request).results[0]
        if not result.successful:
            raise InputError(f"{node} {name}: {result.reason}")

    def _request_of(self, node: str, service: str, kind: Any, request: Any) -> Any:
        node = self._full(node)
        if not self._wait(lambda: node in self._node_names()):
            raise InputError(self._absent("node", node, self.nodes()))
        return self._answer(kind, f"{node}/{service}", request)

    def call(self, name: str, values: Any, feedback: Callable[[Any], None]) -> Any:
        """Returns the response of a service or the result of an action, whose feedback goes to `feedback`. Raises InputError: no such
        service or action, or values that do not fit. Raises RunError: no answer, or a goal that was refused or failed."""
        name, types = self._full(name), self.services()
        if name not in types and not self._wait(lambda: name in self.services()):
            raise InputError(self._absent("service or action", name, list(types)))
        kind = interface_class(self.services()[name])
        if hasattr(kind, "Goal"):
            return self._run_action(kind, name, filled(kind.Goal, values), feedback)
        return self._answer(kind, name, filled(kind.Request, values))

    def _await_server(self, name: str, is_ready: Callable[[], bool]) -> None:
        if not self._wait(is_ready):
            raise RunError([f"{name}: no server within {self._timeout:g} s"], {})

    def _answer(self, kind: Any, service: str, request: Any) -> Any:
        client = self.node.create_client(kind, service)
        try:
            self._await_server(service, client.service_is_ready)
            return self._result(client.call_async(request), f"{service}: no answer within {self._timeout:g} s")
        finally:
            self.node.destroy_client(client)

    def _run_action(self, kind: Any, name: str, goal: Any, feedback: Callable[[Any], None]) -> Any:
        client = ActionClient(self.node, kind, name)
        try:
            self._await_server(name, client.server_is_ready)
            handle = self._result(client.send_goal_async(goal, feedback_callback=lambda message: feedback(message.feedback)),
                                  f"{name}: no answer within {self._timeout:g} s")
            if not handle.accepted:
                raise RunError([f"{name}: the goal was refused"], {})
            ended = handle.get_result_async()
            try:
                self.spin(ended.done)
            except KeyboardInterrupt:
                self._result(handle.cancel_goal_async(), f"{name}: it does not say that it ends")
                raise
            if ended.result().status != 4:
                raise RunError([f"{name}: " + {5: "cancelled", 6: "failed"}.get(ended.result().status, "not ended")], {})
            return ended.result().result
        finally:
            client.destroy()

    def _result(self, future: Future, failure: str) -> Any:
        if not self.spin(future.done, self._timeout):
            raise RunError([failure], {})
        return future.result()

    def _full(self, name: str) -> str:
        return name if name.startswith("/") else f"/{name}"

    def _node_names(self) -> list[str]:
        """Returns the full names of the discovered nodes without this one."""
        return sorted({full_name(space, name) for name, space in self.node.get_node_names_and_namespaces()}
                      - {self.node.get_fully_qualified_name()})

    def _absent(self, kind: str, name: str, there: list[str]) -> str:
        return f"no {kind} {quote(name)} within {self._timeout:g} s" + (
            hint(name, there) if there else "; nothing is running, or under another ROS_DOMAIN_ID")

    def _wait(self, condition: Callable[[], bool]) -> bool:
        return self.spin(condition, self._timeout)

    def _settled(self, look: Callable[[], Any]) -> Any:
        """Returns the result of `look` once unchanged for _SETTLING_TIME, or at the timeout."""
        found, since, began = look(), time.monotonic(), time.monotonic()
        while time.monotonic() - since < _SETTLING_TIME and time.monotonic() - began < self._timeout:
            self._executor.spin_once(timeout_sec=0.1)
            now = look()
            if now != found or not now:
                found, since = now, time.monotonic()
        return found
