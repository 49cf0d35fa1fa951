"""Runs a stack: all nodes in this process, or each in its own."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rclpy.logging import LoggingSeverity

from lfdm_ros.engine.pacing import speed_summary
from lfdm_ros.errors import RunError
from lfdm_ros.ros.component import Component
from lfdm_ros.ros.parameters import ros_parameter
from lfdm_ros.ros.runtime import Runtime
from lfdm_ros.stacks.bring_up import DISCOVERY_TIME, in_order, refuse_others
from lfdm_ros.stacks.stack import NodeEntry, Stack, node_class, prepare_stack


def run_stack(stack: str | os.PathLike[str] | Mapping[str, Any] | Stack, *, speed: float | None = None,
              duration: float | None = None, record: str | os.PathLike[str] | None = None,
              overrides: Mapping[str, Any] | None = None, namespaces: Sequence[str] = (), until: Callable[[], bool] | None = None,
              timeout: float | None = None, quiet: bool = False) -> dict[str, Any]:
    """Composes a stack in this process, runs it to its end, and takes it down.

    All nodes are configured in the order of the list, then activated in that order; a bag is recorded from the first state
    to the last.

    Args:
        stack: name or path of a stack file, or its content.
        speed: sets speed_factor; 0: as fast as possible.
        duration: simulated seconds in a stack with a simulator, else seconds of the wall clock. None: until a node ends the
            run (the player's on_finish), `until` is true, or a signal arrives.
        record: folder of a bag to record all topics to.
        overrides: {"NODE.PARAMETER" or "PARAMETER": value}.
        namespaces: run it once in each of them, side by side.
        until: condition that ends the run, evaluated 20 times a second.
        timeout: wall time [s] after which to end in any case.
        quiet: the nodes log warnings and errors only.

    Returns:
        reason (why it ended), wall_seconds and cpu_seconds (of this process, from activation to the end), and where the
        stack has them: simulated_seconds, ticks, speed_factor, speed_factor_asked, slowed_by and held_back (as in SimulatorStatus.msg, of
        the whole run), overruns, commands_accepted, commands_rejected and messages_refused {reason: count}, not_driven, collisions and
        the other fields of a Verdict, scenario_finished, messages_recorded, messages_dropped; response_times [s] from a state to the
        command with its stamp; of a controller task, task_done, outcomes {name: cycles}, cold_starts, inputs_refused {kind: count} and
        cycle_times [s]. namespaces: the same of each namespace that nodes are in.

    Raises:
        InputError: a file, key, node or parameter is wrong, or a node does not start.
        RunError: the run has ended, but a callback, a node's end or writing the bag failed; has the summary.
        Interrupted: a signal came before all nodes were active.
    """
    prepared, wall_duration = prepare_stack(stack, speed=speed, duration=duration, record=record, overrides=overrides,
                                           namespaces=namespaces)
    limits = [limit for limit in (timeout, wall_duration) if limit is not None]
    with Runtime() as runtime:
        started: list[Component] = []
        for entry in prepared.nodes:
            node = make_node(entry, runtime)
            runtime.add(node)
            if quiet:
                node.get_logger().set_level(LoggingSeverity.WARN)
            if entry.autostart:
                started.append(node)
        if prepared.sole_topics:
            runtime.spin_some(DISCOVERY_TIME)
            runtime.raise_if_interrupted()
            refuse_others(prepared, runtime.nodes[0], started=False, by_service=False)
        for number, (step, node) in enumerate(in_order(started)):
            if number == len(started):
                refuse_others(prepared, node, started=True, by_service=False)
            node.bring_up(step)
            runtime.raise_if_interrupted()
        begin, cpu_begin = time.monotonic(), time.process_time()
        reason = runtime.spin(timeout=min(limits, default=None), until=until)
        wall, cpu = time.monotonic() - begin, time.process_time() - cpu_begin
    # Now that the nodes have ended: the recorder has written its last message.
    summary: dict[str, Any] = {"reason": reason, "wall_seconds": wall, "cpu_seconds": cpu}
    failures = runtime.failures
    for node in started:
        try:
            node_summary = _summary(node, wall)
            summary.update(node_summary)
            if node.namespace != "/":
                summary.setdefault("namespaces", {}).setdefault(node.namespace, {}).update(node_summary)
        except Exception as error:
            failures.append(f"{node.label}: its summary: {error!r}")
    if failures:
        raise RunError(failures, summary)
    return summary


def make_node(entry: NodeEntry, runtime: Runtime) -> Component:
    """Returns the node of a stack's entry, in a runtime's context, unconfigured."""
    table = entry.table
    remappings = [part for source, target in entry.remappings.items() for part in ("-r", f"{source}:={target}")]
    return node_class(entry.executable)(
        entry.name, context=runtime.context, namespace=entry.namespace or None, use_global_arguments=False,
        cli_args=["--ros-args", *remappings] if remappings else None,
        parameter_overrides=[ros_parameter(table[name], value) for name, value in entry.parameters.items()])


def _summary(node: Component, wall: float) -> dict[str, Any]:
    summary = node.summary()
    if "held_back" in summary:
        summary.update(speed_summary(summary["simulated_seconds"], wall, summary["speed_factor_asked"], summary["held_back"]))
    elif "simulated_seconds" in summary:
        summary["speed_factor"] = summary["simulated_seconds"] / wall if wall > 0.0 else 0.0
    return summary
