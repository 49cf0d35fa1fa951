"""Playback of recordings into every subscribing node, message by message, in this process; returns the nodes' refusals and commands.

The nodes run without middleware: the messages of the bag are passed to their subscriptions, and their own messages are captured here. So
there is no discovery, a bag takes only the nodes' processing time, and a process with configured nodes can be forked for each bag.
"""

from __future__ import annotations

import math
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import rclpy
from rclpy.context import Context
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn
from rclpy.logging import LoggingSeverity
from rclpy.parameter import Parameter as RosParameter
from rclpy.serialization import deserialize_message
from rclpy.signals import SignalHandlerOptions
from rclpy.timer import Timer
from rosgraph_msgs.msg import Clock

from lfdm_ros.bags import Bag, open_bag
from lfdm_ros.bounds import refusal
from lfdm_ros.engine.bag_folder import is_closed
from lfdm_ros.errors import InputError
from lfdm_ros.hil.link import CONTROLLER, SIGNALS, VEHICLE, LinkSettings, Packet, make_link
from lfdm_ros.msg import VehicleState
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import Component
from lfdm_ros.ros.guarding import CallbackGuard
from lfdm_ros.ros.messages import nanoseconds
from lfdm_ros.ros.parameters import ros_parameter
from lfdm_ros.stacks.stack import NodeEntry, node_class

_LOCKSTEP = {"stepping": "lockstep", "lidar_rate": 10.0}
_SIM_TIME = {"use_sim_time": True}
_STATES = 50.0  # [Hz] in the drive that is played
# Every subscribing node, with both ways of stepping if it has two; fuzzing/drive.py records their topics. Cycles every 0.1 s.
_NODES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("mpc_controller", "mpc_controller", {**_SIM_TIME, "period": 0.1, "time_budget": 0.0, "learn_ground": True}),
    ("mpc_controller", "mpc_controller_lockstep", {**_LOCKSTEP, "shared": True, "period": 0.1}),
    ("shared_control", "shared_control", {**_SIM_TIME, "learn_ground": True}),
    ("shared_control", "shared_control_lockstep", {**_LOCKSTEP, "plan_period": 0.1}),
    ("operator_model", "operator_model", {**_SIM_TIME}),
    ("operator_model", "operator_model_lockstep", {**_LOCKSTEP}),
    ("teleop_link", "teleop_link", {**_SIM_TIME, "up_delay": 0.02, "down_delay": 0.02}),
    ("teleop_link", "teleop_link_lockstep", {**_LOCKSTEP, "up_delay": 0.0, "down_delay": 0.0}),
    ("command_adapter", "command_adapter", {}),
    ("vehicle_frames", "vehicle_frames", {}),
    ("ground_learner", "ground_learner", {}),
    ("state_sensor", "state_sensor", {f"noise_{name}": 0.1 for name in ("x", "y", "yaw", "vx", "yaw_rate", "roll", "ax", "wheel_speeds")}),
    ("input_player", "input_player", {}),
    ("joystick", "joystick", {}),
    ("dashboard", "dashboard", {}),
    ("cockpit", "cockpit", {}),
    ("vehicle_simulator", "vehicle_simulator", {"stepping": "lockstep", "speed_factor": 0.0, "publish_rate": _STATES}),
    ("hil_bridge", "hil_bridge", {"link": "ros", "mode": "lockstep", "rate": _STATES, "publish_rate": _STATES, "wait_limit": 0.05}))
_ANSWERED_BY_THREAD = (("vehicle_simulator", "/control/command"), ("hil_bridge", "/control/command"))
_ANSWER_TIMEOUT = 0.002  # [s]
_TIMER_INTERVAL = 20  # messages between two calls of the timers
_MAX_TEXT = 2000  # characters of a reason
_TIMES_AFTER_END = (0.3, 1.0, 5.0)  # [s] at which watchdogs are checked


class _CapturingPublisher:
    """Publisher that passes its messages to a callback."""

    def __init__(self, topic_name: str, on_publish: Callable[[str, Any], None]) -> None:
        self.topic_name, self._on_publish = topic_name, on_publish

    def publish(self, message: Any) -> None:
        self._on_publish(self.topic_name, message)

    def get_subscription_count(self) -> int:
        return 1  # every topic has a subscriber


@dataclass
class _DirectSubscription:
    """Subscription without middleware."""

    topic_name: str
    kind: type
    callback: Callable[[Any], None]
    raw: bool

    @property
    def msgtype(self) -> str:
        return f"{self.kind.__module__.split('.')[0]}/msg/{self.kind.__name__}"


class _Detached(LifecycleNode):
    """A node whose publishers and subscriptions are Python objects instead of the middleware's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.direct_subscriptions: list[_DirectSubscription] = []
        self.on_publish: Callable[[str, Any], None] = lambda topic, message: None
        self.bag_topics: Mapping[str, str] = {}
        super().__init__(*args, enable_rosout=False, enable_communication_interface=False, start_parameter_services=False, **kwargs)

    def create_publisher(self, msg_type: Any, topic: str, *_: Any, **__: Any) -> Any:
        return _CapturingPublisher(self.resolve_topic_name(topic), lambda name, message: self.on_publish(name, message))

    create_lifecycle_publisher = create_publisher

    def create_subscription(self, msg_type: Any, topic: str, callback: Any, *_: Any, raw: bool = False, **__: Any) -> Any:
        self.direct_subscriptions.append(_DirectSubscription(self.resolve_topic_name(topic), msg_type, callback, raw))
        return self.direct_subscriptions[-1]

    def destroy_subscription(self, subscription: Any) -> bool:
        self.direct_subscriptions.remove(subscription)
        return True

    def destroy_publisher(self, publisher: Any) -> bool:
        return True

    destroy_lifecycle_publisher = destroy_publisher

    def create_service(self, srv_type: Any, srv_name: str, callback: Any, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(callback=callback, send_response=None)

    def destroy_service(self, service: Any) -> bool:
        return True

    # Graph queries of a recorder.

    def get_topic_names_and_types(self, no_demangle: bool = False) -> Any:
        return [(topic, [msgtype]) for topic, msgtype in self.bag_topics.items()]

    def get_publishers_info_by_topic(self, topic_name: str, no_mangle: bool = False) -> Any:
        return [SimpleNamespace(node_name="player", node_namespace="/", qos_profile=qos.STATE,
                                topic_type=self.bag_topics.get(topic_name, ""))]


def _no_action(node: Any, *_: Any) -> Any:
    return SimpleNamespace(guard=CallbackGuard(node.catch), destroy=lambda: None)


def _destroy(node: Any, entity: Any) -> None:
    """Destroys a subscription or a timer; the node's own method requires classes of rclpy."""
    if isinstance(entity, _DirectSubscription):
        node.destroy_subscription(entity)
    elif isinstance(entity, Timer):
        node.destroy_timer(entity)


@dataclass
class Played:
    """Result of playing a bag.

    messages: read; delivered: to all subscriptions; commands: published by the nodes; refused: by node, kind and reason; left_out: messages
    that the middleware would not deliver, by reason.
    """

    messages: int = 0
    delivered: int = 0
    commands: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)


@contextmanager
def players() -> Iterator[Players]:
    """Creates the nodes for the duration of the context."""
    context = Context()
    rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
    try:
        yield Players(context)
    finally:
        context.try_shutdown()


class Players:
    """The configured nodes; `play` consumes them, so each bag is played in a fork of the process that has created them."""

    def __init__(self, context: Context) -> None:
        """Creates and configures the nodes; called by `players`."""
        bridge_port, bench_port = _free_ports()
        self._context = context
        self.nodes = [self._make_node(executable, name, **parameters) for executable, name, parameters in _NODES]
        self.nodes.append(self._make_node("hil_bridge", "hil_bridge_controller", role=CONTROLLER, link="udp", rate=_STATES,
                                          udp_port=bridge_port, udp_peer_port=bench_port))
        for node in self.nodes:
            _change(node, "configure")
        # These two write files once configured, so `play` configures them.
        self._recorder, self._calibrator = (self._make_node(executable, executable) for executable in ("recorder", "calibrator"))
        self._bench = make_link("udp", VEHICLE, LinkSettings(udp_port=bench_port, udp_peer_port=bridge_port))

    def _make_node(self, executable: str, name: str, **parameters: Any) -> Any:
        """Creates an unconfigured detached node."""
        kind, entry = node_class(executable), NodeEntry(executable, name)
        for parameter, value in parameters.items():
            entry = entry.with_parameter(parameter, value, name)
        detached = type(f"Detached{kind.__name__}", (kind, _Detached), {"create_action": _no_action, "destroy": _destroy})
        node = detached(name, context=self._context, use_global_arguments=False,
                        parameter_overrides=[ros_parameter(entry.table[parameter], value) for parameter, value in entry.parameters.items()])
        node.get_logger().set_level(LoggingSeverity.FATAL)
        return node

    def play(self, path: Path, store: Path) -> Played:
        """Plays a bag into all nodes, and advances the clock after its end.

        Args:
            store: folder for the files of calibrator and recorder.

        Raises:
            InputError: the bag cannot be read at all.
            RuntimeError: a node raised, published an invalid command, or refused without a reason, or the recorder lost messages.
        """
        with open_bag(path) as bag:
            return self._play(bag, store)

    def _play(self, bag: Bag, store: Path) -> Played:
        played, faults = Played(), list[str]()
        published = Counter[str]()

        def capture(node: Any) -> Callable[[str, Any], None]:
            def on_publish(topic: str, message: Any) -> None:
                published[node.label] += 1
                if (fault := fault_of(message)) is not None:
                    faults.append(f"{node.label} published on {topic}: {fault}")
                played.commands += type(message).__name__ in ("DriverCommand", "AckermannDriveStamped")
            return on_publish

        recorder, calibrator = self._recorder, self._calibrator
        recorder.bag_topics = {f"/{c.topic.lstrip('/')}": c.msgtype for c in bag.connections}
        for node, parameter, name in ((recorder, "bag", "recorded"), (calibrator, "store", "store")):
            node.set_parameters([RosParameter(parameter, value=str(store / name))])
            _change(node, "configure")
        nodes = [*self.nodes, recorder, calibrator]
        for node in nodes:
            node.on_publish = capture(node)
            _change(node, "activate")
        self._bench.open()
        try:
            for number, (topic, msgtype, data) in enumerate(_messages(bag)):
                played.messages += 1
                decoded: dict[type, Any] = {}
                for node in nodes:
                    before = published[node.label]
                    if self._deliver(node, topic, msgtype, data, decoded, played) and (node.label, topic) in _ANSWERED_BY_THREAD:
                        _wait(lambda node=node, before=before: published[node.label] > before)  # type: ignore[misc]
                if topic == "/vehicle/state" and (state := _decoded(VehicleState, data, decoded)) is not None:
                    self._signal(state)
                while (packet := self._bench.receive(0.0)) is not None:
                    played.commands += 1
                    faults += [f"hil_bridge_controller sent {refused}" for name, value in packet.values.items()
                               if (refused := refusal(name, value)) is not None]
                if number % _TIMER_INTERVAL == 0:
                    _call_timers(nodes)
            self._advance_clock(nodes)
        finally:
            self._bench.close()
        faults += [text for node in nodes for text in _end(node, played)]
        if recorder.bag.dropped or not is_closed(store / "recorded" / "metadata.yaml"):
            faults.append(f"the recorder wrote {recorder.bag.written} messages, dropped {recorder.bag.dropped}, or has not closed its bag")
        if faults:
            raise RuntimeError("; ".join(dict.fromkeys(faults))[:_MAX_TEXT])
        return played

    def _deliver(self, node: Any, topic: str, msgtype: str, data: bytes, decoded: dict[type, Any], played: Played) -> bool:
        """Delivers a message to a node; returns True if a subscription took it."""
        before = played.delivered
        for subscription in [each for each in node.direct_subscriptions if each.topic_name == topic]:
            if subscription.msgtype != msgtype:
                played.left_out[f"type of {topic}"] += 1
            elif (message := data if subscription.raw else _decoded(subscription.kind, data, decoded)) is None:
                played.left_out[f"bytes on {topic}"] += 1
            else:
                subscription.callback(message)
                played.delivered += 1
        return played.delivered > before

    def _signal(self, state: Any) -> None:
        """Sends a state over the link to the controller's bridge."""
        values = {name: getattr(state, name, math.nan) for name in SIGNALS}
        values |= dict(zip(SIGNALS[-4:], state.wheel_speeds.tolist()))
        self._bench.send(Packet(min(max(nanoseconds(state.header.stamp), 0), 2**63 - 1), values))

    def _advance_clock(self, nodes: list[Any]) -> None:
        """Advances the simulated clock without further messages."""
        clock = Clock()
        now = max(node.get_clock().now().nanoseconds for node in nodes if node.value("use_sim_time"))
        for later in _TIMES_AFTER_END:
            clock.clock.sec, clock.clock.nanosec = divmod(min(now + round(1e9 * later), (2**31 - 1) * 10**9), 10**9)
            for node in nodes:
                for subscription in list(node.direct_subscriptions):
                    if subscription.topic_name == "/clock" and not subscription.raw:
                        subscription.callback(clock)
            _call_timers(nodes)


def _end(node: Any, played: Played) -> list[str]:
    """Ends a node; returns its faults."""
    node.summary()
    node.release()
    refusals = node.refusals
    played.refused.update({f"{node.label}.{kind}.{reason}": count for (kind, reason), count in refusals.reasons.items()})
    if sum(refusals.reasons.values()) == refusals.total and (not refusals.total or 0 < len(refusals.last) <= _MAX_TEXT):
        return list(node.errors)
    return [*node.errors, f"{node.label} refused {refusals.total} inputs, the last one in {len(refusals.last)} characters"]


def fault_of(message: Any) -> str | None:
    """Returns the fault of a published message, in one line; None: it has none."""
    kind = type(message).__name__
    if kind == "DriverCommand":
        values = {name: getattr(message, name) for name in ("steering", "throttle", "brake")}
    elif kind == "AckermannDriveStamped":
        values = {"vx": message.drive.speed, "road_wheel_angle": message.drive.steering_angle}
    else:
        values = {}
        if kind == "DiagnosticArray":
            for status in message.status:
                if "\n" in status.message or len(status.message) > _MAX_TEXT:
                    return f"a diagnosis of {len(status.message)} characters"
    return next((str(error) for name, value in values.items() if (error := refusal(name, value)) is not None), None)


def _messages(bag: Bag) -> Iterator[tuple[str, str, bytes]]:
    """Yields topic, type and CDR, until the bag's end or the first unreadable message."""
    messages = bag.raw()
    while True:
        try:
            connection, _, data = next(messages)
        except (StopIteration, InputError):
            return
        yield f"/{connection.topic.lstrip('/')}", connection.msgtype, bytes(data)


def _decoded(kind: type, data: bytes, cache: dict[type, Any]) -> Any:
    """Decodes a message as the middleware does; None: the bytes are no message of this type."""
    if kind not in cache:
        try:
            cache[kind] = deserialize_message(data, kind)
        except Exception:  # of rmw, or a text that is not UTF-8
            cache[kind] = None
    return cache[kind]


def _call_timers(nodes: list[Any]) -> None:
    for node in nodes:
        for timer in list(node.timers):
            timer.callback()


def _wait(done: Callable[[], bool]) -> None:
    end = time.monotonic() + _ANSWER_TIMEOUT
    while not done() and time.monotonic() < end:
        time.sleep(1e-4)


def _change(node: Component, step: str) -> None:
    """Calls a transition directly; the state machine of rcl would use the middleware. Raises RuntimeError: it failed."""
    if getattr(node, f"on_{step}")(None) != TransitionCallbackReturn.SUCCESS:
        raise RuntimeError(f"{node.label}: {step} failed: {node.failure}")


def _free_ports() -> tuple[int, int]:
    """Returns two free UDP ports."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1]), int(other.getsockname()[1])
