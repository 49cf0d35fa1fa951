"""Hostile messages, service calls and parameters for a running stack, and a full disk; see `lfdm_lab.fuzzing`."""

import importlib
import os
import resource
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import rclpy
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.srv import SetParameters
from rclpy.context import Context
from rclpy.node import Node, NodeNameNonExistentError
from rclpy.parameter import Parameter as RosParameter
from rclpy.signals import SignalHandlerOptions

from lfdm_lab.fuzzing import hostile_base, hostile_cdr
from lfdm_lab.fuzzing.trees import INTEGERS, NUMBERS, TEXTS
from lfdm_ros.bags.typestore import require_type
from lfdm_ros.errors import InputError, RunError
from lfdm_ros.ros import qos
from lfdm_ros.ros.rclpy_adapter import RCLError
from lfdm_ros.ros.topics import interface_class
from lfdm_ros.stacks.compose import prepare_stack, run_stack

_NAME = "attacker"
# Not attacked, as these end or silence a node on request.
_SPARED = ("change_state", "get_type_description")
_BASES = {"double": "float64", "float": "float32", "boolean": "bool"}
_SMALL_DISK = 1 << 20  # bytes of one file


class Attacker:
    """A sender of hostile messages, calls and parameters to the nodes of the graph."""

    def __init__(self, rng: Random, parameters: Mapping[str, Sequence[str]]) -> None:
        """Joins the graph as a node; parameters: names, by node."""
        self._rng = rng
        self._parameters = parameters
        self._context = Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self._node = Node(_NAME, context=self._context, use_global_arguments=False, start_parameter_services=False)
        self._publishers: dict[str, Any] = {}
        self._clients: dict[str, Any] = {}
        self.sent: list[str] = []

    def close(self) -> None:
        self._node.destroy_node()
        self._context.try_shutdown()

    def strike(self) -> None:
        """Sends one message, call or parameter to a random node."""
        nodes = [(name, space) for name, space in self._node.get_node_names_and_namespaces() if name != _NAME]
        if not nodes:
            return
        name, space = self._rng.choice(nodes)
        how = self._rng.choice((self._message, self._message, self._message, self._message, self._service, self._parameter))
        try:
            description = how(name, space)
        except (NodeNameNonExistentError, InputError, RCLError):  # the node has ended; a type is not installed; the middleware is overrun
            return
        if description:
            self.sent.append(description)

    def _message(self, name: str, space: str) -> str:
        subscribed = [(topic, types[0]) for topic, types in self._node.get_subscriber_names_and_types_by_node(name, space)
                      if topic != "/clock" or self._rng.random() < 0.05]
        if not subscribed:
            return ""
        topic, msgtype = self._rng.choice(subscribed)
        require_type(msgtype)
        cdr, description = hostile_cdr(msgtype, self._rng, self._node.get_clock().now().nanoseconds)
        if topic not in self._publishers:
            self._publishers[topic] = self._node.create_publisher(interface_class(msgtype), topic, qos.LATCHED)
        self._publishers[topic].publish(cdr)
        return f"{topic}: {description}"

    def _service(self, name: str, space: str) -> str:
        offered = [(service, types[0]) for service, types in self._node.get_service_names_and_types_by_node(name, space)
                   if not service.endswith(_SPARED) and "/_action/" not in service]
        if not offered:
            return ""
        service, srvtype = self._rng.choice(offered)
        kind = interface_class(srvtype)
        self._call(service, kind, filled(kind.Request(), self._rng))
        return f"{service}"

    def _parameter(self, name: str, space: str) -> str:
        names = self._parameters.get(name)
        if not names:
            return ""
        chosen = self._rng.choice(names)
        value = self._rng.choice((self._rng.choice(NUMBERS), min(max(self._rng.choice(INTEGERS), -(2**63)), 2**63 - 1),
                                  self._rng.choice(TEXTS[:5]), True, [1.0, float("nan")], ["a", ""]))
        message: ParameterMessage = RosParameter(chosen, value=value).to_parameter_msg()
        service = f"{space.rstrip('/')}/{name}/set_parameters"
        self._call(service, SetParameters, SetParameters.Request(parameters=[message]))
        return f"{service}: {chosen} = {value!r:.40}"

    def _call(self, service: str, kind: Any, request: Any) -> None:
        """Sends a request without awaiting the answer."""
        if service not in self._clients:
            self._clients[service] = self._node.create_client(kind, service)
        if self._clients[service].service_is_ready():
            self._clients[service].call_async(request)


def filled(message: Any, rng: Random, share: float = 0.7) -> Any:
    """Sets most fields of a message or service request to odd values; returns it."""
    for name, kind in message.get_fields_and_field_types().items():
        if rng.random() < share:
            setattr(message, name, _value(kind, getattr(message, name), rng))
    return message


def _value(kind: str, present: Any, rng: Random) -> Any:
    if kind.startswith("sequence<"):
        element = kind[len("sequence<"):-1].split(",")[0]
        return [_value(element, None, rng) for _ in range(rng.choice((0, 1, 3, 1000)))]
    if kind.endswith("]"):
        return [_value(kind[:kind.index("[")], None, rng) for _ in range(len(present))]
    if "/" in kind:
        package, name = kind.split("/")
        return filled(getattr(importlib.import_module(f"{package}.msg"), name)(), rng)
    if kind.startswith(("string", "wstring")):
        return rng.choice(TEXTS[:6])
    if kind == "octet":
        return bytes([rng.randrange(256)])
    return hostile_base(_BASES.get(kind, kind), rng)


# ---- one run ---------------------------------------------------------------------------------------------------------------


def attacked_run(stack: str, bag: Path, overrides: dict[str, Any], seed: int, *, seconds: float) -> dict[str, Any]:
    """Runs a stack under attack, recorded.

    Args:
        seconds: of the wall clock.

    Returns:
        reason, messages_recorded, messages_dropped, and `sent`: the last ten attacks.
    """
    alone()
    prepared, _ = prepare_stack(stack, record=bag, overrides=overrides)
    attacker = Attacker(Random(f"graph {seed}"), {entry.name: list(entry.table) for entry in prepared.nodes})

    def strike() -> bool:
        attacker.strike()
        return False

    try:
        summary = run_stack(prepared, until=strike, timeout=seconds, quiet=True)
    except RunError as error:
        not_driven = error.summary.get("not_driven")
        if not not_driven or not all(failure.endswith(not_driven) for failure in error.failures):
            raise
        summary = dict(error.summary)
    finally:
        attacker.close()
    return {"reason": summary["reason"], "messages_recorded": summary["messages_recorded"],
            "messages_dropped": summary["messages_dropped"], "sent": attacker.sent[-10:]}


def full_disk_run(stack: str, bag: Path, overrides: dict[str, Any]) -> None:
    """Runs a stack whose bag is limited to 1 MiB until that is noticed. Raises InputError: the full disk was reported, as expected."""
    alone()
    # Shared memory of the middleware consists of files too.
    os.environ["FASTDDS_BUILTIN_TRANSPORTS"] = "UDPv4"
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_SMALL_DISK, resource.RLIM_INFINITY))
    try:
        run_stack(stack, record=bag, overrides=overrides, speed=20.0, timeout=30.0, quiet=True)
    except RunError as error:
        if not all(str(bag) in failure for failure in error.failures):  # something else failed too
            raise
        raise InputError(str(error)) from None


def alone() -> None:
    """Isolates the graph of this process from all others."""
    os.environ["ROS_DOMAIN_ID"] = str(1 + os.getpid() % 100)
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
