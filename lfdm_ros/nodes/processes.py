"""Runs a stack with each node in a process of its own, brought up through the nodes' lifecycle services."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.node import Node

from lfdm_ros.errors import InputError
from lfdm_ros.nodes.runtime import Runtime
from lfdm_ros.nodes.stack import NodeEntry, Stack

_ANSWER = 60.0  # [s] for a node to start and to configure: the first use of a model compiles it
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
    clients = {}
    for entry, child in children:
        if entry.autostart:
            path = f"{_full_name(entry)}/change_state"
            clients[entry.name] = manager.create_client(ChangeState, path)
            _wait(runtime, child, entry, "start", clients[entry.name].service_is_ready)
    for transition, verb in ((Transition.TRANSITION_CONFIGURE, "configure"), (Transition.TRANSITION_ACTIVATE, "activate")):
        for entry, child in children:
            if entry.name not in clients:
                continue
            future = clients[entry.name].call_async(ChangeState.Request(transition=Transition(id=transition)))
            _wait(runtime, child, entry, verb, future.done)
            if not future.result().success:
                raise InputError(f"node {entry.name}: {verb} failed, see its log")
            if verb == "activate" and entry.executable == "recorder":
                _wait(runtime, child, entry, "find the topics", partial(_hears_all, manager, entry, stack))


def _hears_all(manager: Node, recorder: NodeEntry, stack: Stack) -> bool:
    """Whether the recorder has found every topic that the other nodes publish; only then may they begin."""
    def topics(entry: NodeEntry, kind: Callable[..., Any]) -> set[str]:
        return {name for name, _ in kind(entry.name, f"/{entry.namespace.strip('/')}")}

    wanted = recorder.value("topics")
    published = set().union(*(topics(entry, manager.get_publisher_names_and_types_by_node)
                              for entry in stack.nodes if entry.name != recorder.name))
    heard = topics(recorder, manager.get_subscriber_names_and_types_by_node)
    return bool(wanted) or published - set(recorder.table["exclude"].default) <= heard  # type: ignore[arg-type]


def _wait(runtime: Runtime, child: subprocess.Popen[bytes], entry: NodeEntry, what: str, done: Callable[[], bool]) -> None:
    end = time.monotonic() + _ANSWER
    while not done():
        if child.poll() is not None:
            raise InputError(f"node {entry.name} ended with status {child.returncode}, see its log")
        if time.monotonic() > end:
            raise InputError(f"node {entry.name} did not {what} within {_ANSWER:g} s")
        runtime.spin_some(0.05)


def _full_name(entry: NodeEntry) -> str:
    return "/" + "/".join(part for part in (entry.namespace.strip("/"), entry.name) if part)


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
    try:
        child.wait(_STOP)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
