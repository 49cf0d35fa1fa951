"""Runs a stack with each node in a process of its own, brought up through the nodes' lifecycle services."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from rclpy.node import Node

from lfdm_ros.errors import InputError, RunError
from lfdm_ros.nodes.bring_up import DISCOVERY, bring_up, death, refuse_others
from lfdm_ros.nodes.runtime import PARENT, Runtime
from lfdm_ros.nodes.stack import NodeEntry, Stack

_SERVE = 0.05  # [s] between looks at the nodes
_STOP = 30.0  # [s] for a node to end after SIGINT: a recorder writes what it has


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
    """Runs a stack until one of its nodes ends, a signal comes, or `timeout` [s] of wall time is over; then all end.

    Whoever loses a node loses the run: without its simulator, its controller or its recorder it is not what was asked for. The nodes end
    by themselves if this process does.

    Returns:
        reason and wall_seconds.

    Raises:
        InputError: a node does not come up, or another run is on the same topics.
        RunError: the run has ended, and nodes have otherwise than they should; names each.
        Interrupted: a signal came before all nodes were active.
    """
    children: list[_Child] = []
    deaths: list[str] = []
    try:
        with tempfile.TemporaryDirectory(prefix="lfdm_stack_") as folder, Runtime() as runtime:
            manager = Node("stack_manager", context=runtime.context, use_global_arguments=False, start_parameter_services=False)
            runtime.executor.add_node(manager)
            try:
                summary = _run(stack, timeout, manager, runtime, Path(folder), children)
            finally:
                runtime.begin_end()  # however often a signal comes, each is told to end, the recorder last
                deaths += [line for line in [child.end() for child in reversed(children)] if line]
                runtime.executor.remove_node(manager)
                manager.destroy_node()
    except InputError as error:
        raise InputError("; ".join(dict.fromkeys([str(error), *deaths]))) from None
    if deaths:
        raise RunError(deaths, summary)
    return summary


def _run(stack: Stack, timeout: float | None, manager: Node, runtime: Runtime, folder: Path, children: list[_Child]) -> dict[str, Any]:
    def ended() -> str:
        return next((child.ended for child in children if child.ended), "")

    runtime.spin_some(DISCOVERY)
    runtime.raise_if_interrupted()
    refuse_others(stack, manager, started=False)
    for entry in stack.nodes:
        children.append(_Child(entry, folder / f"{len(children)}.yaml"))
    for _ in bring_up(stack, manager, ended):
        runtime.spin_some(_SERVE)
        runtime.raise_if_interrupted()
    begin = time.monotonic()
    reason = runtime.spin(timeout=timeout, until=lambda: bool(ended()))
    return {"reason": ended() if reason == "until" else reason, "wall_seconds": time.monotonic() - begin}


class _Child:
    """A node's process."""

    def __init__(self, entry: NodeEntry, parameters_file: Path) -> None:
        self._name = entry.name
        module, *arguments = entry.program
        command = [sys.executable, "-m", "lfdm_ros.starting", f"lfdm_ros.nodes.{module}", *arguments, PARENT, str(os.getpid()),
                   *node_arguments(entry, parameters_file)]
        # A session of its own: Ctrl-C in the terminal reaches us alone, and we end the nodes in order.
        self._process = subprocess.Popen(command, start_new_session=True)

    @property
    def ended(self) -> str:
        """How it has ended of itself; "": it runs."""
        status = self._process.poll()
        return "" if status is None else death(self._name, status, told=False) or f"{self._name} ended"

    def end(self) -> str:
        """Ends the process; a line if it ended otherwise than it should, now or before."""
        told = self._process.poll() is None
        if told:
            self._process.send_signal(signal.SIGINT)
        try:
            status = self._process.wait(_STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return f"node {self._name} did not end within {_STOP:g} s and was killed"
        return death(self._name, status, told=told)
