"""A running graph from outside: its topics, what is said on them, the parameters of its nodes, its services and actions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from types import TracebackType
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor
from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters, SetParameters
from rclpy.action import ActionClient, get_action_names_and_types
from rclpy.parameter import Parameter, parameter_value_to_python
from rclpy.task import Future

from lfdm_ros.errors import InputError, RunError, quote
from lfdm_ros.ros.message_fields import filled
from lfdm_ros.ros.topics import find_topic, interface_class
from lfdm_ros.stacks.bring_up import full_name
from lfdm_ros.stacks.bystander import Bystander

_SETTLED = 0.5  # [s] without news after which the graph is taken to be whole
_DEPTH = 1000  # samples that wait while this process is busy


def hint(name: str, there: list[str]) -> str:
    """The end of a message about a name that is not there: the nearest one, or else all."""
    near = get_close_matches(name, there, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are: {', '.join(sorted(there))}"


class Inspector(Bystander):
    """A node that asks; a context manager.

    Args:
        patience: how long to wait for what is not there yet, and for an answer [s].
    """

    def __init__(self, patience: float = 5.0) -> None:
        super().__init__("lfdm_inspector")
        self._patience = patience

    def __enter__(self) -> Inspector:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- What there is -------------------------------------------------------------------------------------------------------------
    def topics(self) -> dict[str, str]:
        """Type of each topic by its name, of the whole graph."""
        return self._settled(lambda: {name: types[0] for name, types in self._node.get_topic_names_and_types() if any(self.ends(name))})

    def ends(self, topic: str) -> tuple[int, int]:
        """How many publish on a topic and how many subscribe to it."""
        own = self._node.get_name()
        ends = self._node.get_publishers_info_by_topic(topic), self._node.get_subscriptions_info_by_topic(topic)
        return sum(end.node_name != own for end in ends[0]), sum(end.node_name != own for end in ends[1])

    def nodes(self) -> list[str]:
        """Full names of the nodes."""
        return self._settled(self._node_names)

    def services(self) -> dict[str, str]:
        """Type of each service and action by its name; those that belong to parameters, lifecycle and actions are left out."""
        def found() -> dict[str, str]:
            services = {name: types[0] for name, types in self._node.get_service_names_and_types()
                        if "/_action/" not in name and not types[0].startswith(("rcl_interfaces/", "type_description_interfaces/"))}
            return {**services, **{name: types[0] for name, types in get_action_names_and_types(self._node)}}
        return self._settled(found)

    # -- Topics ------------------------------------------------------------------------------------------------------------------------
    def hear(self, topic: str, callback: Callable[[Any], None]) -> str:
        """Calls back with each message of a topic, while `spin` turns; returns its type.

        Raises:
            InputError: nobody publishes on it in time, or its type is not installed.
        """
        topic = self._full(topic)
        self._wait(lambda: self._node.count_publishers(topic) > 0)
        published = find_topic(self._node, topic)
        if published is None:
            raise InputError(self._absent("topic", topic, [name for name in self.topics() if self.ends(name)[0]]))
        published.subscribe(self._node, callback, depth=_DEPTH)
        return published.type_name

    def spin(self, until: Callable[[], bool], seconds: float | None = None) -> bool:
        """Turns until a condition holds, or for so long [s]; returns whether it holds."""
        end = None if seconds is None else time.monotonic() + seconds
        while not until():
            if end is not None and time.monotonic() > end:
                return False
            self._executor.spin_once(timeout_sec=0.1)
        return True

    # -- Parameters --------------------------------------------------------------------------------------------------------------------
    def parameters(self, node: str) -> list[str]:
        """Names of a node's parameters. Raises InputError: no such node; RunError: no answer."""
        return sorted(self._ask(node, "list_parameters", ListParameters, ListParameters.Request()).result.names)

    def values(self, node: str, names: Iterable[str]) -> dict[str, Any]:
        """Values of some parameters; None: it has none of that name. Raises as `parameters`."""
        names = list(names)
        found = self._ask(node, "get_parameters", GetParameters, GetParameters.Request(names=names)).values
        return dict(zip(names, map(parameter_value_to_python, found)))

    def describe(self, node: str, names: Iterable[str]) -> list[ParameterDescriptor]:
        """Descriptions of some parameters. Raises as `parameters`."""
        return list(self._ask(node, "describe_parameters", DescribeParameters, DescribeParameters.Request(names=list(names))).descriptors)

    def set(self, node: str, name: str, value: Any) -> None:
        """Sets a parameter. Raises InputError: the node refuses it, with its reason; else as `parameters`."""
        present = self.values(node, [name])[name]
        if isinstance(present, float) and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
        result = self._ask(node, "set_parameters", SetParameters, request).results[0]
        if not result.successful:
            raise InputError(f"{node} {name}: {result.reason}")

    def _ask(self, node: str, service: str, kind: Any, request: Any) -> Any:
        node = self._full(node)
        if not self._wait(lambda: node in self._node_names()):
            raise InputError(self._absent("node", node, self.nodes()))
        return self._answer(kind, f"{node}/{service}", request)

    # -- Services and actions ----------------------------------------------------------------------------------------------------------
    def call(self, name: str, values: Any, feedback: Callable[[Any], None]) -> Any:
        """The answer of a service, or an action's result; feedback: called with what the action says on its way.

        Raises:
            InputError: no such service or action, or values that do not fit.
            RunError: no answer, a goal that was refused or has failed.
        """
        name, types = self._full(name), self.services()
        if name not in types and not self._wait(lambda: name in self.services()):
            raise InputError(self._absent("service or action", name, list(types)))
        kind = interface_class(self.services()[name])
        if hasattr(kind, "Goal"):
            return self._pursue(kind, name, filled(kind.Goal, values), feedback)
        return self._answer(kind, name, filled(kind.Request, values))

    def _answer(self, kind: Any, service: str, request: Any) -> Any:
        client = self._node.create_client(kind, service)
        try:
            if not self._wait(client.service_is_ready):
                raise RunError([f"{service}: nobody answers within {self._patience:g} s"], {})
            return self._result(client.call_async(request), f"{service}: no answer within {self._patience:g} s")
        finally:
            self._node.destroy_client(client)

    def _pursue(self, kind: Any, name: str, goal: Any, feedback: Callable[[Any], None]) -> Any:
        client = ActionClient(self._node, kind, name)
        try:
            if not self._wait(client.server_is_ready):
                raise RunError([f"{name}: nobody answers within {self._patience:g} s"], {})
            handle = self._result(client.send_goal_async(goal, feedback_callback=lambda message: feedback(message.feedback)),
                                  f"{name}: no answer within {self._patience:g} s")
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
        if not self.spin(future.done, self._patience):
            raise RunError([failure], {})
        return future.result()

    # -- Waiting -----------------------------------------------------------------------------------------------------------------------
    def _full(self, name: str) -> str:
        return name if name.startswith("/") else f"/{name}"

    def _node_names(self) -> list[str]:
        """Full names of the nodes there are now, this one left out."""
        return sorted({full_name(space, name) for name, space in self._node.get_node_names_and_namespaces()}
                      - {self._node.get_fully_qualified_name()})

    def _absent(self, what: str, name: str, there: list[str]) -> str:
        return f"no {what} {quote(name)} within {self._patience:g} s" + (
            hint(name, there) if there else "; nothing is running, or under another ROS_DOMAIN_ID")

    def _wait(self, condition: Callable[[], bool]) -> bool:
        return self.spin(condition, self._patience)

    def _settled(self, look: Callable[[], Any]) -> Any:
        """What is there once nothing has been added for a while, or the patience is over."""
        found, since, began = look(), time.monotonic(), time.monotonic()
        while time.monotonic() - since < _SETTLED and time.monotonic() - began < self._patience:
            self._executor.spin_once(timeout_sec=0.1)
            now = look()
            if now != found or not now:
                found, since = now, time.monotonic()
        return found
