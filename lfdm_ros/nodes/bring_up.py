"""How the nodes of a stack come up and go down, whoever runs them: one process, one process each, or ros2 launch.

All are configured, then all activated, each time in the order of the list; a bag that is recorded from the first node on is whole, and
nothing moves before whoever drives it is there.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.msg import Log
from rclpy.node import Node, NodeNameNonExistentError

from lfdm_ros.errors import InputError
from lfdm_ros.nodes import qos
from lfdm_ros.nodes.recorder import is_wanted
from lfdm_ros.nodes.stack import NodeEntry, Stack

# Time [s] in which a node finds those that run already, unless the machine is very busy; hence the second look before they start.
DISCOVERY = 0.5
_ANSWER = 180.0  # [s] for a node to start and to configure: the first use of a model compiles it, on a busy machine too
_ASK_AGAIN = 3.0  # [s] without an answer
_LOOK_AGAIN = 0.05  # [s]
_NAMELESS = "_NODE_NAME_UNKNOWN_"  # as rmw calls the node of an endpoint of which it has not heard yet
_FIND_TOPICS = 10.0  # [s] for a recorder
_STEPS = {"configure": (Transition.TRANSITION_CONFIGURE, State.PRIMARY_STATE_INACTIVE),
          "activate": (Transition.TRANSITION_ACTIVATE, State.PRIMARY_STATE_ACTIVE)}
# What a process says that was told to end by a signal: nothing, that it was interrupted, or that it was terminated.
_TOLD = (0, 128 + signal.SIGINT, -signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGTERM)

T = TypeVar("T")


def in_order(nodes: Iterable[T]) -> Iterator[tuple[str, T]]:
    """The steps that bring nodes up: (step, node) with step "configure" or "activate"."""
    nodes = tuple(nodes)
    return ((step, node) for step in _STEPS for node in nodes)


def bring_up(stack: Stack, manager: Node, dead: Callable[[], str]) -> Generator[None, None, None]:
    """Brings up nodes in other processes through their lifecycle services; a generator that yields where it waits.

    Args:
        stack: its nodes have been started; those with autostart are brought up.
        manager: the node that asks; the caller serves it, and may give up, at each yield.
        dead: names a node that has ended, else "".

    Raises:
        InputError: a node has ended, has not started, has refused, or finds its place taken.
    """
    errors: dict[str, str] = {}

    def on_log(line: Log) -> None:
        if line.level >= Log.ERROR:
            errors["/" + line.name.replace(".", "/")] = line.msg

    manager.create_subscription(Log, "/rosout", on_log, qos.LOG)
    remotes = [_Remote(entry, manager, dead, errors) for entry in stack.nodes if entry.autostart]
    steps = list(in_order(remotes))
    for number, (step, remote) in enumerate(steps):
        if number == len(remotes):  # all are configured and known to the graph, none has begun
            refuse_others(stack, manager, started=True)
        yield from remote.change(step)
        if step == "activate" and remote.entry.executable == "recorder":
            yield from _wait_for_recorder(remote, manager, stack)


def death(name: str, status: int, *, told: bool) -> str:
    """One line on a node's process that has ended otherwise than it should, else "".

    Args:
        status: exit status; negative: the signal that ended it.
        told: a signal of ours has asked it to end.
    """
    if status == 0 or (told and status in _TOLD):
        return ""
    if status < 0:
        return f"node {name} was killed by signal {-status} ({signal.strsignal(-status)})"
    return f"node {name} ended with status {status}, see its log"


# ---- one publisher of each topic that drives -------------------------------------------------------------------------------


def refuse_others(stack: Stack, manager: Node, *, started: bool, by_service: bool = True) -> None:
    """Looks for nodes of others that would drive the same vehicle or clock.

    Args:
        manager: has been in the graph for DISCOVERY.
        started: the stack's own nodes are in the graph.
        by_service: the nodes will be brought up by name, so that nobody else's may have the same.

    Raises:
        InputError: there is one; names it.
    """
    own = [entry.full_name for entry in stack.nodes]
    found = [_full_name(namespace, name) for name, namespace in manager.get_node_names_and_namespaces()]
    for name in own if by_service else ():
        if found.count(name) > started:
            raise InputError(f"a node {name} runs already; {_HINT}")
    for topic in stack.sole_topics:
        others = _publishers(manager, topic)
        for name in own if started else ():
            if name in others:
                others.remove(name)
        if others:
            raise InputError(f"{topic} is published already, by node {others[0]}; {_HINT}")


def _publishers(manager: Node, topic: str) -> list[str]:
    """The nodes that publish a topic; on a busy machine a publisher may be known before its node is, for which this waits a while."""
    end = time.monotonic() + 4.0 * DISCOVERY
    while True:
        found = manager.get_publishers_info_by_topic(topic)
        if all(info.node_name != _NAMELESS for info in found) or time.monotonic() > end:
            return [_full_name(info.node_namespace, info.node_name) for info in found]
        time.sleep(_LOOK_AGAIN)


_HINT = "end it, or choose another ROS_DOMAIN_ID (a node that was killed stays listed for some 20 s)"


def _full_name(namespace: str, name: str) -> str:
    return f"{namespace.rstrip('/')}/{name}"


# ---- a node in another process ------------------------------------------------------------------------------------------


class _Remote:
    """A node in another process, seen through its lifecycle services."""

    def __init__(self, entry: NodeEntry, manager: Node, dead: Callable[[], str], errors: Mapping[str, str]) -> None:
        """
        Args:
            errors: the last error that each node has logged, by its full name.
        """
        self.entry, self._dead, self._errors = entry, dead, errors
        self._change = manager.create_client(ChangeState, f"{entry.full_name}/change_state")
        self._get = manager.create_client(GetState, f"{entry.full_name}/get_state")

    def change(self, step: str) -> Generator[None, None, None]:
        """Makes a transition.

        Raises:
            InputError: it failed, or took longer than any configuration does.
        """
        transition, goal = _STEPS[step]
        if not (yield from self._reach()):
            raise InputError(f"node {self.entry.name} did not start within {_ANSWER:g} s")
        end = time.monotonic() + _ANSWER
        request = ChangeState.Request(transition=Transition(id=transition))
        call = self._change.call_async(request)
        # DDS may lose a request or its answer while the two have not fully discovered each other: then the node's state tells.
        while not (yield from self.wait(call.done, _ASK_AGAIN)):
            state = yield from self._state()
            if state == goal:
                return
            if time.monotonic() > end:
                raise InputError(f"node {self.entry.name} did not {step} within {_ANSWER:g} s")
            if state is not None and not call.done():
                call = self._change.call_async(request)
        if not call.result().success and (yield from self._state()) != goal:
            # The answer does not say why; the log does.
            yield from self.wait(lambda: self.entry.full_name in self._errors, _ASK_AGAIN)
            raise InputError(f"node {self.entry.name}: {self._errors.get(self.entry.full_name, f'{step} failed, see its log')}")

    def _reach(self) -> Generator[None, None, bool]:
        """Waits until the node can be asked; False: it has not come.

        Services are not ready, for rmw_fastrtps, while it knows more ends of requests than of answers under their name, whoever's they are.
        A node of that name that was killed while it was coming or going can leave that behind for 20 s, in which one that is there answers
        all the same. So it is asked now and then.
        """
        end = time.monotonic() + _ANSWER
        asked: list[Any] = []

        def there() -> bool:
            return any(call.done() for call in asked) or (self._change.service_is_ready() and self._get.service_is_ready())

        while not (yield from self.wait(there, _ASK_AGAIN)):
            if time.monotonic() > end:
                return False
            asked.append(self._get.call_async(GetState.Request()))
        return True

    def _state(self) -> Generator[None, None, int | None]:
        """The id of the node's lifecycle state; None without an answer."""
        state = self._get.call_async(GetState.Request())
        return int(state.result().current_state.id) if (yield from self.wait(state.done, _ASK_AGAIN)) else None

    def wait(self, done: Callable[[], bool], patience: float) -> Generator[None, None, bool]:
        """Waits until `done`, or `patience` [s] is over, which is False.

        Raises:
            InputError: a node's process has ended.
        """
        end = time.monotonic() + patience
        while not done():
            if died := self._dead():
                raise InputError(died)
            if time.monotonic() > end:
                return False
            yield
        return True


def _wait_for_recorder(recorder: _Remote, manager: Node, stack: Stack) -> Generator[None, None, None]:
    """Gives a recorder time to subscribe to all that the others will publish, before they begin."""
    if not (yield from recorder.wait(lambda: not _unheard(manager, recorder.entry, stack), _FIND_TOPICS)):
        missing = ", ".join(sorted(_unheard(manager, recorder.entry, stack)))
        manager.get_logger().warning(f"{recorder.entry.name} has not found {missing} yet; the bag may lack their first messages")


def _unheard(manager: Node, recorder: NodeEntry, stack: Stack) -> set[str]:
    """The topics of the other nodes that the recorder has not subscribed to yet, as far as the manager knows."""
    def topics(entry: NodeEntry, kind: Callable[..., Any]) -> set[str]:
        namespace = entry.full_name.rpartition("/")[0] or "/"
        try:
            return {name for name, _ in kind(entry.name, namespace)}
        except NodeNameNonExistentError:  # not discovered yet
            return {f"those of {entry.name}"}

    chosen, excluded = ({recorder.topic(name) for name in recorder.value(key) or []} for key in ("topics", "exclude"))  # type: ignore[union-attr]
    published = set().union(*(topics(entry, manager.get_publisher_names_and_types_by_node)
                              for entry in stack.nodes if entry is not recorder))
    # A node that is not discovered yet may publish what is wanted.
    wanted = {name for name in published if not name.startswith("/") or is_wanted(name, chosen, excluded)}
    return wanted - topics(recorder, manager.get_subscriber_names_and_types_by_node)
