"""Turns a stack into actions of launch_ros, which needs a ROS 2 installation (no wheels) and is therefore imported locally."""

# In the source tree the folder launch/ looks like the package launch.
# mypy: disable-error-code="attr-defined, import-not-found"

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lfdm_ros.errors import InputError, suggest
from lfdm_ros.ros.runtime import PARENT
from lfdm_ros.stacks.bring_up import DISCOVERY_TIME, Manager, describe_exit, refuse_others, resume
from lfdm_ros.stacks.stack import NodeEntry, Stack, load_stack, parse_override, prepare_stack

if TYPE_CHECKING:
    from launch_ros.actions import LifecycleNode

    from launch import LaunchContext, LaunchDescription

# name -> description; all but `stack` are empty unless given.
ARGUMENTS = {
    "stack": "stack file, or the name of one that ships with the package",
    "vehicle": "name of a vehicle, or a path; for every node that has one; empty: as the stack says",
    "scenario": "name of a scenario, or a path; for every node that plays one; empty: as the stack says",
    "speed": "simulated seconds per second, 0: as fast as possible; empty: as the stack says",
    "record": "folder of a bag to record all topics to; empty: none",
    "namespace": "where the nodes are; several separated by commas: the stack in each; empty: as the launch file that includes it says",
    "set": "NODE.PARAM=VALUE or PARAM=VALUE, several separated by semicolons",
}
# Arguments of launch and launch_ros themselves.
_OF_LAUNCH = ("launch-prefix", "launch-prefix-filter", "emulate_tty", "sigterm_timeout", "sigkill_timeout", "ros_namespace")
_SERVE = 0.05  # [s] between checks of the nodes
_PATIENCE = "20"  # [s] from SIGINT to SIGTERM, and to SIGKILL, by default: a recorder must finish writing


def stack_launch_description(stack: str) -> LaunchDescription:
    """Returns a launch description with the arguments ARGUMENTS that runs a stack, by default this one, as `lfdm up` does. An error raised
    in an action ends the launch, with its message and exit status 1."""
    from launch.actions import DeclareLaunchArgument, OpaqueFunction

    from launch import LaunchDescription

    declared = [DeclareLaunchArgument(name, default_value=stack if name == "stack" else "", description=text)
                for name, text in ARGUMENTS.items()]
    return LaunchDescription([*declared, OpaqueFunction(function=_actions)])


def _actions(context: LaunchContext) -> list[Any]:
    from launch.actions import OpaqueFunction
    from launch.substitutions import LaunchConfiguration
    from launch_ros.ros_adapters import get_ros_node

    refuse_unknown(context.argv, context.locals.current_launch_file_path, sys.argv)
    stack = stack_from_arguments({name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS})
    # Includes PushROSNamespace of an including file.
    stack = stack.in_namespace(context.launch_configurations.get("ros_namespace", ""))
    node = get_ros_node(context)
    time.sleep(DISCOVERY_TIME)  # launch_ros spins its node in another thread
    refuse_others(stack, node, started=False)
    run = _LaunchedStack(stack, node)
    return [*(run.action(entry) for entry in stack.nodes), OpaqueFunction(function=run.begin)]


class _LaunchedStack:
    """The nodes of a stack as actions, and their manager."""

    def __init__(self, stack: Stack, node: Any) -> None:
        self._processes: dict[str, LifecycleNode] = {}
        self._restarts = Counter[str]()
        self._resumed = set[str]()  # nodes that were stopped (SIGSTOP) at shutdown
        # Launch itself reports nodes that end.
        self._manager = Manager(stack, node, dead=lambda: "", frozen=self._kill)
        self._log = node.get_logger()

    def action(self, entry: NodeEntry) -> LifecycleNode:
        from launch.actions import Shutdown
        from launch.substitutions import LaunchConfiguration
        from launch_ros.actions import LifecycleNode

        def ended(event: Any, context: LaunchContext) -> list[Any]:
            if died := describe_exit(entry.name, event.returncode, signalled=context.is_shutdown, stopped=entry.full_name in self._resumed):
                if context.is_shutdown or self._restarts[entry.full_name] >= entry.respawn:
                    raise InputError(died)  # the loss of a node ends the run
                self._restarts[entry.full_name] += 1
                self._log.error(f"{died}; it is started again, {self._restarts[entry.full_name]} of {entry.respawn} times")
                self._manager.started_again(entry)
                return [self.action(entry)]
            # A node that ends the run (the player's on_finish) ends the others too. A second shutdown would be an error in launch_ros.
            return [] if context.is_shutdown else [Shutdown(reason=f"{entry.name} ended")]

        module, *arguments = entry.program
        executable = module.rpartition(".")[2]
        self._processes[entry.full_name] = LifecycleNode(
            package="lfdm_ros", executable=executable, name=entry.name, namespace=entry.namespace, output="screen",
            arguments=[*arguments, PARENT, str(os.getpid())],  # a killed launch leaves them running
            ros_arguments=["--enclave", entry.full_name],
            parameters=[dict(entry.parameters)] if entry.parameters else [], remappings=list(entry.remappings.items()), on_exit=ended,
            sigterm_timeout=LaunchConfiguration("sigterm_timeout", default=_PATIENCE),
            sigkill_timeout=LaunchConfiguration("sigkill_timeout", default=_PATIENCE))
        return self._processes[entry.full_name]

    def _kill(self, entry: NodeEntry) -> None:
        if pid := _pid(self._processes[entry.full_name]):
            os.kill(pid, signal.SIGKILL)

    def begin(self, context: LaunchContext) -> None:
        async def serve() -> None:
            for steps in (self._manager.bring_up(), self._manager.watch()):
                for _ in steps:
                    await asyncio.sleep(_SERVE)
                    if context.is_shutdown:
                        return

        async def resume_stopped() -> None:
            while not context.is_shutdown:
                await asyncio.sleep(_SERVE)
            while running := {name: pid for name, node in self._processes.items() if (pid := _pid(node)) and node.return_code is None}:
                self._resumed |= {name for name, pid in running.items() if resume(pid)}
                await asyncio.sleep(_SERVE)

        for task in (serve(), resume_stopped()):
            context.add_completion_future(context.asyncio_loop.create_task(task))


def _pid(node: LifecycleNode) -> int:
    """Returns the process id of a node, also after its end; 0: not started."""
    return int((node.process_details or {}).get("pid", 0))


def stack_from_arguments(given: Mapping[str, str]) -> Stack:
    """Returns the stack for the values of ARGUMENTS, "" where not given. Raises InputError: names the argument, file or key that does not
    fit."""
    stack = load_stack(given["stack"])
    for name in ("vehicle", "scenario"):
        if given[name]:
            stack = stack.with_override(name, given[name], name)
    return prepare_stack(
        stack, speed=_number(given["speed"]) if given["speed"] else None, record=given["record"] or None,
        overrides=dict(parse_override(text) for text in given["set"].split(";") if text.strip()),
        namespaces=[name.strip() for name in given["namespace"].split(",") if name.strip()], option="{}")[0]


def refuse_unknown(arguments: Sequence[str], launch_file: str, command_line: Sequence[str]) -> None:
    """Checks the NAME:=VALUE arguments of launch, which ignores names that no launch file declares. Those of another file that includes
    ours, by the command line of the process, are not checked. Raises InputError: one is not in ARGUMENTS."""
    if not _is_launched(launch_file, command_line):
        return
    for argument in arguments:
        name = argument.partition(":=")[0]
        if name not in ARGUMENTS and name not in _OF_LAUNCH:
            raise InputError(f"{argument}: {os.path.basename(launch_file)} has no argument '{name}'"
                             f"{suggest(name, ARGUMENTS, 'it has ')}; "
                             f"a node's parameter: set:=NODE.PARAM=VALUE")


def _is_launched(launch_file: str, command_line: Sequence[str]) -> bool:
    """Checks that the command line of `ros2 launch` names this file: by its path, or as PACKAGE FILE."""
    by_name = ("lfdm_ros", os.path.basename(launch_file))
    return by_name in pairwise(command_line) or any(
        os.path.isfile(part) and os.path.samefile(part, launch_file) for part in command_line)


def _number(text: str) -> float | str:
    """Returns the number in a text, or the text itself, which the parameter then refuses."""
    try:
        return float(text)
    except ValueError:
        return text
