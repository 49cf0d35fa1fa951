"""Runs a stack with each node in a process of its own, brought up through the nodes' lifecycle services."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.node import Node, NodeNameNonExistentError

from lfdm_ros.errors import InputError
from lfdm_ros.nodes.runtime import Runtime
from lfdm_ros.nodes.stack import NodeEntry, Stack

_ANSWER = 60.0  # [s] for a node to start and to configure: the first use of a model compiles it
_ASK_AGAIN = 3.0  # [s] without an answer
_FIND_TOPICS = 10.0  # [s] for a recorder
_STOP = 10.0  # [s] for a node to end after SIGINT


def node_arguments(entry: NodeEntry, parameters_file: Path) -> list[str]:
    """What a node's executable gets after its name; writes its parameters to `parameters_file`."""
    parameters_file.write_text(yaml.safe_dump({"/**": {"ros__parameters": dict(entry.parameters)}}), encoding="utf-8")
    renames = {"__node": entry.name, **({"__ns": f"/{entry.namespace.strip('/')}"} if entry.namespace else {}), **entry.remappings}
    arguments = ["--ros-args"]
    for source, target in renames.items():
        arguments += ["-r", f"{source}:={target}"]
    # An empty file of parameters is an error to rcl.
    return [*arguments, "--params-file", str(parameters_file)] if entry.parameters else arguments


def run_processes(stack: Stack, timeout: float | None = None) -> dict[str, Any]:
    """Runs a stack until one of its nodes ends, a signal comes, or `timeout` [s] of wall time is over.

    Returns:
        reason and wall_seconds.

    Raises:
        InputError: a node does not start.
    """
    children: list[tuple[NodeEntry, subprocess.Popen[bytes]]] = []
    with tempfile.TemporaryDirectory(prefix="lfdm_stack_") as folder, Runtime() as runtime:
        manager = Node("stack_manager", context=runtime.context, use_global_arguments=False, start_parameter_services=False)
        runtime.executor.add_node(manager)
        try:
            for entry in stack.nodes:
                arguments = node_arguments(entry, Path(folder) / f"{len(children)}.yaml")
                command = [sys.executable, "-m", f"lfdm_ros.nodes.{entry.executable}", *arguments]
                # A session of its own: Ctrl-C in the terminal reaches us alone, and we end the nodes in order.
                children.append((entry, subprocess.Popen(command, start_new_session=True)))
            _bring_up(stack, manager, runtime, children)
            begin = time.monotonic()
            reason = runtime.spin(timeout=timeout, until=lambda: any(child.poll() is not None for _, child in children))
            wall = time.monotonic() - begin
            ended = [f"{entry.name} ended" for entry, child in children if child.poll() is not None]
            return {"reason": ended[0] if reason == "until" and ended else reason, "wall_seconds": wall}
        finally:
            for _, child in reversed(children):
                _end(child)
            runtime.executor.remove_node(manager)
            manager.destroy_node()


def _bring_up(stack: Stack, manager: Node, runtime: Runtime, children: list[tuple[NodeEntry, subprocess.Popen[bytes]]]) -> None:
    remotes = [_Remote(entry, child, manager, runtime) for entry, child in children if entry.autostart]
    for transition, verb, goal in ((Transition.TRANSITION_CONFIGURE, "configure", State.PRIMARY_STATE_INACTIVE),
                                   (Transition.TRANSITION_ACTIVATE, "activate", State.PRIMARY_STATE_ACTIVE)):
        for remote in remotes:
            remote.change(transition, verb, goal)
            if verb == "activate" and remote.entry.executable == "recorder":
                _wait_for_recorder(remote, manager, stack)


class _Remote:
    """A node in another process, seen through its lifecycle services."""

    def __init__(self, entry: NodeEntry, child: subprocess.Popen[bytes], manager: Node, runtime: Runtime) -> None:
        self.entry, self._child, self._runtime = entry, child, runtime
        name = "/" + "/".join(part for part in (entry.namespace.strip("/"), entry.name) if part)
        self._change = manager.create_client(ChangeState, f"{name}/change_state")
        self._get = manager.create_client(GetState, f"{name}/get_state")

    def change(self, transition: int, verb: str, goal: int) -> None:
        """Makes a transition.

        Raises:
            InputError: it failed, or took longer than any configuration does.
        """
        if not self.wait(lambda: self._change.service_is_ready() and self._get.service_is_ready(), _ANSWER):
            raise InputError(f"node {self.entry.name} did not start within {_ANSWER:g} s")
        end = time.monotonic() + _ANSWER
        request = ChangeState.Request(transition=Transition(id=transition))
        call = self._change.call_async(request)
        # DDS may lose a request or its answer while the two have not fully discovered each other: then the node's state tells.
        while not self.wait(call.done, _ASK_AGAIN):
            state = self._state()
            if state == goal:
                return
            if time.monotonic() > end:
                raise InputError(f"node {self.entry.name} did not {verb} within {_ANSWER:g} s")
            if state is not None and not call.done():
                call = self._change.call_async(request)
        if not call.result().success and self._state() != goal:
            raise InputError(f"node {self.entry.name}: {verb} failed, see its log")

    def _state(self) -> int | None:
        """The id of the node's lifecycle state; None without an answer."""
        state = self._get.call_async(GetState.Request())
        return int(state.result().current_state.id) if self.wait(state.done, _ASK_AGAIN) else None

    def wait(self, done: Callable[[], bool], patience: float) -> bool:
        """Serves the graph until `done`, or `patience` [s] is over, which is False.

        Raises:
            InputError: the node's process has ended.
            KeyboardInterrupt: a signal has come.
        """
        end = time.monotonic() + patience
        while not done():
            if self._child.poll() is not None:
                raise InputError(f"node {self.entry.name} ended with status {self._child.returncode}, see its log")
            if time.monotonic() > end:
                return False
            self._runtime.spin_some(0.05)
            self._runtime.raise_if_interrupted()
        return True


def _wait_for_recorder(recorder: _Remote, manager: Node, stack: Stack) -> None:
    """Gives a recorder time to subscribe to all that the others will publish, before they begin."""
    if not recorder.wait(lambda: not _unheard(manager, recorder.entry, stack), _FIND_TOPICS):
        missing = ", ".join(sorted(_unheard(manager, recorder.entry, stack)))
        manager.get_logger().warning(f"{recorder.entry.name} has not found {missing} yet; the bag may lack their first messages")


def _unheard(manager: Node, recorder: NodeEntry, stack: Stack) -> set[str]:
    """The topics of the other nodes that the recorder has not subscribed to yet, as far as the manager knows."""
    def topics(entry: NodeEntry, kind: Callable[..., Any]) -> set[str]:
        try:
            return {name for name, _ in kind(entry.name, f"/{entry.namespace.strip('/')}")}
        except NodeNameNonExistentError:  # not discovered yet
            return {f"those of {entry.name}"}

    if recorder.value("topics"):
        return set()
    published = set().union(*(topics(entry, manager.get_publisher_names_and_types_by_node)
                              for entry in stack.nodes if entry.name != recorder.name))
    excluded = set(recorder.table["exclude"].default)  # type: ignore[arg-type]
    return published - excluded - topics(recorder, manager.get_subscriber_names_and_types_by_node)


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
    try:
        child.wait(_STOP)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
