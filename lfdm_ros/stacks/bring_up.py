"""Bring-up and shutdown of the nodes of a stack: in one process, in one process each, or under ros2 launch.

All are configured, then all activated, in the order of the list: a recorder first in the list makes a complete bag, and no vehicle moves
before its driver is active.
"""

import math
import os
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from rcl_interfaces.msg import Log
from rclpy.context import Context
from rclpy.node import Node, NodeNameNonExistentError

from lfdm_ros.errors import InputError
from lfdm_ros.ros import qos
from lfdm_ros.ros.topics import is_selected
from lfdm_ros.stacks.remote import STEPS, RemoteNode, SimulatorWatch
from lfdm_ros.stacks.stack import NodeEntry, Stack

# Time [s] in which a node discovers running nodes, unless the machine is very busy; hence the second check before activation.
DISCOVERY_TIME = 0.5
MANAGER = "stack_manager"
SILENT_AFTER = 0.75  # [s] without an answer until a node is reported, within a second of the last one
FROZEN_AFTER = 30.0  # [s] until it is killed
_POLL_PERIOD = 0.05  # [s]
_UNKNOWN_NODE = "_NODE_NAME_UNKNOWN_"  # rmw's name of the node of an endpoint before its discovery
_RECORDER_TIMEOUT = 10.0  # [s] for a recorder
# Exit status of a process that was signalled to end: success, interrupted, or terminated.
_SIGNALLED = (0, 128 + signal.SIGINT, -signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGTERM)

T = TypeVar("T")


def in_order(nodes: Iterable[T]) -> Iterator[tuple[str, T]]:
    """Yields the steps that bring nodes up: (step, node) with step "configure" or "activate"."""
    nodes = tuple(nodes)
    return ((step, node) for step in STEPS for node in nodes)


def manager_node(context: Context) -> Node:
    """Returns the node through which `lfdm up --processes` calls the others."""
    return Node(MANAGER, context=context, use_global_arguments=False, start_parameter_services=False)


class Manager:
    """Brings the nodes of a stack up, each in its own process, and watches them, through lifecycle services.

    Its generators yield while they wait; the caller then spins `node`, and may stop.
    """

    def __init__(self, stack: Stack, node: Node, dead: Callable[[], str], frozen: Callable[[NodeEntry], None]) -> None:
        """Creates clients of the nodes with autostart of a started stack. node: for requests and logs; dead: returns the message of a node
        that has ended and is not restarted, else ""; frozen: kills the process of a node without an answer for FROZEN_AFTER."""
        self._stack, self._node, self._frozen = stack, node, frozen
        self._errors: dict[str, str] = {}
        node.create_subscription(Log, "/rosout", self._on_log, qos.LOG)
        self.simulators = [SimulatorWatch(entry, node) for entry in stack.nodes if entry.executable == "vehicle_simulator"]
        self._remotes = [RemoteNode(entry, node, dead, self._errors) for entry in stack.nodes if entry.autostart]
        self._rising: dict[str, Generator[None, None, None]] = {}
        self._silent: dict[str, float] = {}  # start of the silence [s] of reported nodes
        self._logged: dict[str, float] = {}  # when nodes last wrote a line [s]

    def _on_log(self, line: Log) -> None:
        name = "/" + line.name.replace(".", "/")
        self._logged[name] = time.monotonic()
        if line.level >= Log.ERROR:
            self._errors[name] = line.msg

    def bring_up(self) -> Generator[None, None, None]:
        """Configures all, then activates all. Raises InputError: a node has ended, has not started, has refused, or has a duplicate."""
        steps = list(in_order(self._remotes))
        for number, (step, remote) in enumerate(steps):
            if number == len(self._remotes):  # all are configured and discovered, none is active
                refuse_others(self._stack, self._node, started=True)
            yield from remote.change(step)
            if step == "activate" and remote.entry.executable == "recorder":
                yield from _wait_for_recorder(remote, self._node, self._stack)
        self._node.get_logger().info("all nodes are active")

    def started_again(self, entry: NodeEntry) -> None:
        """Registers the new process of a node; `watch` brings it up."""
        remote = next((remote for remote in self._remotes if remote.entry is entry), None)
        if remote is not None:
            self._rising[entry.full_name] = (wait for step in STEPS for wait in remote.change(step))
            self._silent.pop(entry.full_name, None)

    def watch(self) -> Generator[None, None, None]:
        """Runs until closed: brings up restarted nodes, reports silent nodes and their next answer. Raises InputError: a node that was
        started again does not come up."""
        for remote in self._remotes:
            remote.reset_heartbeat()
        while True:
            for remote in self._remotes:
                name = remote.entry.full_name
                if name in self._rising:
                    if next(self._rising[name], self) is self:
                        del self._rising[name]
                        remote.reset_heartbeat()
                        self._node.get_logger().info(f"node {name} is active again")
                else:
                    self._check(remote)
            yield

    def _check(self, remote: RemoteNode) -> None:
        silence, name = remote.heartbeat(), remote.entry.full_name
        if silence > SILENT_AFTER and name not in self._silent:
            self._silent[name] = time.monotonic() - silence
            self._node.get_logger().error(f"node {name} does not answer")
        elif silence < SILENT_AFTER and name in self._silent:
            self._node.get_logger().info(f"node {name} answers again, after {time.monotonic() - self._silent.pop(name):.1f} s")
        # On a busy machine answers of a node that still logs may be lost for long.
        elif silence > FROZEN_AFTER and time.monotonic() - self._logged.get(name, -math.inf) > FROZEN_AFTER:
            self._node.get_logger().error(f"node {name} has not answered for {FROZEN_AFTER:g} s and is ended")
            self._silent.pop(name)
            remote.reset_heartbeat()
            self._frozen(remote.entry)


def resume(pid: int) -> bool:
    """Resumes a stopped process (SIGSTOP), so that it receives its signal to end and a recorder closes its bag; True: it was stopped."""
    with suppress(OSError):  # it has just ended
        if Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"T":  # not worth psutil
            os.kill(pid, signal.SIGCONT)
            return True
    return False


def describe_exit(name: str, status: int, *, signalled: bool, stopped: bool = False) -> str:
    """Returns one line on the unexpected end of a node's process, else "". status: exit status; negative: the signal that ended it.
    signalled: it was signalled to end. stopped: it had to be resumed first."""
    if status == 0 or (signalled and status in _SIGNALLED):
        return f"node {name} was stopped (SIGSTOP) when the run ended; it was resumed, and has ended" if stopped else ""
    if status < 0:
        return f"node {name} was killed by signal {-status} ({signal.strsignal(-status)})"
    return f"node {name} ended with status {status}, see its log"


def refuse_others(stack: Stack, manager: Node, *, started: bool, by_service: bool = True) -> None:
    """Checks that no node of another run drives the same vehicle or clock, by a manager that has been in the graph for DISCOVERY_TIME.
    started: the stack's own nodes are there too; by_service: the nodes will be brought up by name, which must then be unique. Raises
    InputError: there is one; the message names it."""
    own_names = [entry.full_name for entry in stack.nodes]
    found = [full_name(namespace, name) for name, namespace in manager.get_node_names_and_namespaces()]
    for name in own_names if by_service else ():
        if found.count(name) > started:
            raise InputError(f"a node {name} runs already; {_HINT}")
    for topic in stack.sole_topics:
        others = _publishers(manager, topic)
        for name in own_names if started else ():
            if name in others:
                others.remove(name)
        if others:
            raise InputError(f"{topic} is published already, by node {others[0]}; {_HINT}")


def _publishers(manager: Node, topic: str) -> list[str]:
    """Returns the nodes that publish a topic. On a busy machine a publisher may be discovered before its node; waits for that."""
    end = time.monotonic() + 4.0 * DISCOVERY_TIME
    while True:
        found = manager.get_publishers_info_by_topic(topic)
        if all(info.node_name != _UNKNOWN_NODE for info in found) or time.monotonic() > end:
            return [full_name(info.node_namespace, info.node_name) for info in found]
        time.sleep(_POLL_PERIOD)


_HINT = "end it, or choose another ROS_DOMAIN_ID (a node that was killed stays listed for some 20 s)"


def full_name(namespace: str, name: str) -> str:
    return f"{namespace.rstrip('/')}/{name}"


def _wait_for_recorder(recorder: RemoteNode, manager: Node, stack: Stack) -> Generator[None, None, None]:
    """Waits until a recorder has subscribed to all topics of the other nodes."""
    if not (yield from recorder.wait(lambda: not missing_subscriptions(manager, recorder.entry, stack), _RECORDER_TIMEOUT)):
        missing = ", ".join(sorted(missing_subscriptions(manager, recorder.entry, stack)))
        manager.get_logger().warning(f"{recorder.entry.name} has not found {missing} yet; the bag may lack their first messages")


def missing_subscriptions(manager: Node, recorder: NodeEntry, stack: Stack) -> set[str]:
    """Returns the discovered topics of the other nodes to which the recorder has not subscribed yet; none if it is not started."""
    if recorder.value("waits"):
        return set()

    def topics(entry: NodeEntry, kind: Callable[..., Any]) -> set[str]:
        namespace = entry.full_name.rpartition("/")[0] or "/"
        try:
            return {name for name, _ in kind(entry.name, namespace)}
        except NodeNameNonExistentError:  # not discovered yet
            return {f"those of {entry.name}"}

    chosen, excluded = ({recorder.topic(name) for name in recorder.value(key) or []} for key in ("topics", "exclude"))  # type: ignore[union-attr]
    published = set().union(*(topics(entry, manager.get_publisher_names_and_types_by_node)
                              for entry in stack.nodes if entry is not recorder))
    # An undiscovered node may publish recorded topics.
    namespace = recorder.full_name.rpartition("/")[0] or "/"
    selected = {name for name in published if not name.startswith("/") or is_selected(name, chosen, excluded, namespace)}
    return selected - topics(recorder, manager.get_subscriber_names_and_types_by_node)
