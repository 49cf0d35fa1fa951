"""Topics, services and actions of a node: declared once for their creation, documents, layouts and permissions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import TransitionEvent
from lifecycle_msgs.srv import ChangeState, GetAvailableStates, GetAvailableTransitions, GetState
from rcl_interfaces.msg import Log, ParameterEvent
from rcl_interfaces.srv import DescribeParameters, GetParameters, GetParameterTypes, ListParameters, SetParameters, SetParametersAtomically
from rclpy.qos import QoSProfile
from rosgraph_msgs.msg import Clock
from type_description_interfaces.srv import GetTypeDescription

from lfdm_ros.errors import InputError, quote
from lfdm_ros.ros import qos

PUBLISHES, SUBSCRIBES, SERVES, ACTS, CALLS, STARTS = "publishes", "subscribes", "serves", "acts", "calls", "starts"
# Returns a parameter's value by name, of a node or of its entry in a stack.
Value = Callable[[str], Any]


@dataclass(frozen=True)
class When:
    """A condition on the parameters of a node, and its text."""

    text: str
    holds: Callable[[Value], bool]

    def __and__(self, other: When) -> When:
        return When(", ".join(filter(None, (self.text, other.text))), lambda value: self.holds(value) and other.holds(value))


ALWAYS = When("", lambda value: True)


def given(parameter: str, expected: Any = True) -> When:
    """Makes the condition that a parameter has a value."""
    written = str(expected).lower() if isinstance(expected, bool) else expected
    return When(f"`{parameter}: {written}`", lambda value: value(parameter) == expected)


def unless(parameter: str, unwanted: Any) -> When:
    """Makes the condition that a parameter has another value."""
    return When(f"`{parameter}` not `{unwanted}`", lambda value: value(parameter) != unwanted)


@dataclass(frozen=True)
class Endpoint:
    """A topic, service or action of a node."""

    direction: str
    name: str  # in the node's code: relative to its namespace; /: absolute; ~/: relative to the node
    kind: Any  # class of the message, service or action; None: unknown
    text: str  # its contents
    qos: QoSProfile | None = None  # of topics; None: rclpy's own
    in_lockstep: QoSProfile | None = None  # with `stepping: lockstep`; None: the same
    when: When = ALWAYS
    named_by: str = ""  # parameter whose value is the name, or replaces {} in it
    sole: bool = False  # one publisher per graph, since two would drive the same vehicle or clock

    @property
    def type_name(self) -> str:
        """Name of the type, such as "nav_msgs/msg/Odometry"; "" if unknown."""
        if self.kind is None:
            return ""
        package, room = self.kind.__module__.split(".")[:2]
        return f"{package}/{room}/{self.kind.__name__}"

    def name_for(self, value: Value) -> str:
        """Returns the name, given the node's parameters. Raises InputError for one that cannot be part of a name."""
        if "{}" in self.name:
            word = value(self.named_by)
            if not word.isidentifier():
                raise InputError(f"{self.named_by} is {quote(word)}; give letters, digits and _, beginning with a letter")
            return self.name.format(word)
        return value(self.named_by) if self.named_by else self.name

    def profile(self, value: Value) -> QoSProfile:
        """Returns the quality of service, given the node's parameters."""
        from lfdm_ros.engine.stepping import LOCKSTEP  # slow to import, rarely needed

        profile = self.in_lockstep if self.in_lockstep is not None and value("stepping") == LOCKSTEP else self.qos
        assert profile is not None, self.name
        return profile


def publishes(name: str, kind: Any, profile: QoSProfile | None, text: str, **more: Any) -> Endpoint:
    return Endpoint(PUBLISHES, name, kind, text, profile, **more)


def subscribes(name: str, kind: Any, profile: QoSProfile | None, text: str, **more: Any) -> Endpoint:
    return Endpoint(SUBSCRIBES, name, kind, text, profile, **more)


# Service or action server, service client, action client: name, kind, text.
serves, acts, calls, starts = (partial(Endpoint, direction) for direction in (SERVES, ACTS, CALLS, STARTS))


def in_force(endpoints: Iterable[Endpoint], value: Value) -> list[Endpoint]:
    """Returns the endpoints that exist, given the node's parameters."""
    return [endpoint for endpoint in endpoints if endpoint.when.holds(value)]


DIAGNOSTICS = publishes("/diagnostics", DiagnosticArray, qos.STATUS, "the node's health, once a second")

# Endpoints that rclpy makes for each node, and for each lifecycle node.
OF_NODES = (
    publishes("/rosout", Log, None, "log"),
    publishes("/parameter_events", ParameterEvent, None, "parameters that have changed"),
    serves("~/get_type_description", GetTypeDescription, "types of its topics"),
)
OF_COMPONENTS = (
    *OF_NODES, DIAGNOSTICS,
    subscribes("/clock", Clock, None, "simulated time", when=given("use_sim_time")),
    publishes("~/transition_event", TransitionEvent, None, "its lifecycle"),
    serves("~/change_state", ChangeState, "its lifecycle"),
    serves("~/get_state", GetState, "its lifecycle"),
    serves("~/get_available_states", GetAvailableStates, "its lifecycle"),
    serves("~/get_available_transitions", GetAvailableTransitions, "its lifecycle"),
    serves("~/get_transition_graph", GetAvailableTransitions, "its lifecycle"),
    serves("~/describe_parameters", DescribeParameters, "its parameters"),
    serves("~/get_parameter_types", GetParameterTypes, "its parameters"),
    serves("~/get_parameters", GetParameters, "its parameters"),
    serves("~/list_parameters", ListParameters, "its parameters"),
    serves("~/set_parameters", SetParameters, "its parameters"),
    serves("~/set_parameters_atomically", SetParametersAtomically, "its parameters"),
)
