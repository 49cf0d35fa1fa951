"""Runs a stack with each node in its own process, brought up through lifecycle services."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from rclpy.node import Node

from lfdm_ros.errors import InputError, RunError
from lfdm_ros.ros.runtime import PARENT, Runtime
from lfdm_ros.stacks.bring_up import DISCOVERY_TIME, Manager, describe_exit, manager_node, refuse_others, resume
from lfdm_ros.stacks.remote import SimulatorWatch
from lfdm_ros.stacks.stack import NodeEntry, Stack

_SERVE = 0.05  # [s] between checks of the nodes
_STOP = 60.0  # [s] for a node to end after SIGINT: a recorder must finish writing


def node_arguments(entry: NodeEntry, parameters_file: Path) -> list[str]:
    """Returns the arguments of a node's executable; writes its parameters to `parameters_file`."""
    parameters_file.write_text(yaml.safe_dump({"/**": {"ros__parameters": dict(entry.parameters)}}), encoding="utf-8")
    renames = {"__node": entry.name, **({"__ns": f"/{entry.namespace.strip('/')}"} if entry.namespace else {}), **entry.remappings}
    arguments = ["--ros-args"]
    for source, target in renames.items():
        arguments += ["-r", f"{source}:={target}"]
    arguments += ["--enclave", entry.full_name]  # used with ROS_SECURITY_ENABLE
    # An empty file of parameters is an error to rcl.
    return [*arguments, "--params-file", str(parameters_file)] if entry.parameters else arguments


def run_processes(stack: Stack, timeout: float | None = None) -> dict[str, Any]:
    """Runs a stack until one of its nodes ends, a signal comes, or `timeout` [s] of wall time is over; then all end.

    The loss of a node ends the run, unless the stack's `respawn` restarts that node. The nodes end by themselves if this process does.

    Returns:
        reason, wall_seconds, restarts by node, and, from the last status of a vehicle_simulator, its entries of `run_stack` (of refused
        commands only the number).

    Raises:
        InputError: a node does not come up, or another run is on the same topics.
        RunError: nodes ended unexpectedly; names each.
        Interrupted: a signal came before all nodes were active.
    """
    children: list[_Child] = []
    deaths: list[str] = []
    try:
        with tempfile.TemporaryDirectory(prefix="lfdm_stack_") as folder, Runtime() as runtime:
            node = manager_node(runtime.context)
            runtime.executor.add_node(node)
            try:
                summary, simulators = serve(stack, timeout, node, runtime, Path(folder), children)
            finally:
                runtime.begin_end()  # despite further signals each node is ended in order, the recorder last
                deaths += [line for line in [child.end() for child in reversed(children)] if line]
                runtime.spin_some(_SERVE)  # for the simulators' last status
                runtime.executor.remove_node(node)
                node.destroy_node()
    except InputError as error:
        raise InputError("; ".join(dict.fromkeys([str(error), *deaths]))) from None
    for simulator in simulators:
        vehicle_summary = simulator.summary(summary["wall_seconds"])
        summary.update(vehicle_summary)
        if simulator.namespace != "/":
            summary.setdefault("namespaces", {})[simulator.namespace] = vehicle_summary
    if deaths:
        raise RunError(deaths, summary)
    return summary


def serve(stack: Stack, timeout: float | None, node: Node, runtime: Runtime, folder: Path, children: list[_Child]
          ) -> tuple[dict[str, Any], list[SimulatorWatch]]:
    """Starts the nodes, into `children`, and brings them up; returns when the run is over, with its simulators. Errors as
    `run_processes`."""
    def ended() -> str:
        return next((child.ended for child in children if child.ended), "")

    runtime.spin_some(DISCOVERY_TIME)
    runtime.raise_if_interrupted()
    refuse_others(stack, node, started=False)
    for entry in stack.nodes:
        children.append(_Child(entry, folder / f"{len(children)}.yaml"))
    manager = Manager(stack, node, ended, lambda entry: next(child for child in children if child.entry is entry).kill())
    for _ in manager.bring_up():
        runtime.spin_some(_SERVE)
        runtime.raise_if_interrupted()
    begin, watch = time.monotonic(), manager.watch()
    for child in children:
        child.respawn = child.entry.respawn

    def over() -> bool:
        for child in children:
            if again := child.restart():
                node.get_logger().error(again)
                manager.started_again(child.entry)
        next(watch)
        return bool(ended())

    reason = runtime.spin(timeout=timeout, until=over)
    summary = {"reason": ended() if reason == "until" else reason, "wall_seconds": time.monotonic() - begin,
               "restarts": {child.entry.name: child.restarts for child in children if child.restarts}}
    return summary, manager.simulators


class _Child:
    """A node's process."""

    def __init__(self, entry: NodeEntry, parameters_file: Path) -> None:
        self.entry = entry
        self.restarts = self.respawn = 0  # number of restarts, and the most allowed
        self._command = [sys.executable, "-m", "lfdm_ros.starting", *entry.program, PARENT, str(os.getpid()),
                         *node_arguments(entry, parameters_file)]
        self._start()

    def _start(self) -> None:
        # A separate session: Ctrl-C reaches only this process, which ends the nodes in order.
        self._process = subprocess.Popen(self._command, start_new_session=True)

    @property
    def ended(self) -> str:
        """A line on its end; "" while it runs or is to be restarted."""
        status = self._process.poll()
        return "" if status is None or self._dead else self._exit_line(status) or f"{self.entry.name} ended"

    @property
    def _dead(self) -> str:
        """A line on its end if it is to be restarted, else ""."""
        status = self._process.poll()
        return self._exit_line(status) if status is not None and self.restarts < self.respawn else ""

    def restart(self) -> str:
        """Restarts a dead process if allowed; returns a line then, else ""."""
        died = self._dead
        if died:
            self.restarts += 1
            self._start()
            died += f"; it is started again, {self.restarts} of {self.respawn} times"
        return died

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self) -> str:
        """Ends the process; returns a line if it ended unexpectedly, now or before."""
        if self._process.poll() is not None:
            return self._exit_line(self._process.returncode)
        self._process.send_signal(signal.SIGINT)
        stopped, end = False, time.monotonic() + _STOP
        while time.monotonic() < end:
            stopped |= resume(self._process.pid)
            with suppress(subprocess.TimeoutExpired):
                return describe_exit(self.entry.name, self._process.wait(_SERVE), signalled=True, stopped=stopped)
        self.kill()
        return f"node {self.entry.name} did not end within {_STOP:g} s and was killed"

    def _exit_line(self, status: int) -> str:
        return describe_exit(self.entry.name, status, signalled=False)
