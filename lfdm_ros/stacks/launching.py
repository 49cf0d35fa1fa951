"""Turns a stack into actions for launch_ros, which needs a ROS 2 installation: it has no wheels, and is imported where it is called."""

# In the source tree the folder launch/ looks like the package launch.
# mypy: disable-error-code="attr-defined, import-not-found"

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from lfdm_ros.errors import InputError
from lfdm_ros.ros.runtime import PARENT
from lfdm_ros.stacks.bring_up import DISCOVERY, Manager, death, refuse_others, resume
from lfdm_ros.stacks.launch_arguments import ARGUMENTS, refuse_unknown, stack_of
from lfdm_ros.stacks.stack import NodeEntry, Stack

if TYPE_CHECKING:
    from launch_ros.actions import LifecycleNode

    from launch import LaunchContext, LaunchDescription

_SERVE = 0.05  # [s] between looks at the nodes
_PATIENCE = "20"  # [s] from SIGINT to SIGTERM, and to SIGKILL, unless the command line says otherwise: a recorder writes what it has


def stack_launch_description(stack: str) -> LaunchDescription:
    """A launch description with the arguments ARGUMENTS, that runs a stack as `lfdm up` does.

    An error that is raised in an action ends the launch, with its message and exit status 1.

    Args:
        stack: default of the argument `stack`.
    """
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
    stack = stack_of({name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS})
    # As PushROSNamespace of a file that includes ours wants it.
    stack = stack.below(context.launch_configurations.get("ros_namespace", ""))
    node = get_ros_node(context)
    time.sleep(DISCOVERY)  # nothing else is to be done before we know; launch_ros serves its node in a thread of its own
    refuse_others(stack, node, started=False)
    run = _Run(stack, node)
    return [*(run.action(entry) for entry in stack.nodes), OpaqueFunction(function=run.begin)]


class _Run:
    """The nodes of a stack as actions, and who manages them."""

    def __init__(self, stack: Stack, node: Any) -> None:
        self._processes: dict[str, LifecycleNode] = {}
        self._restarts = Counter[str]()
        self._resumed = set[str]()  # those that were stopped when all were to end
        # Launch itself tells of nodes that end.
        self._manager = Manager(stack, node, dead=lambda: "", frozen=self._kill)
        self._log = node.get_logger()

    def action(self, entry: NodeEntry) -> LifecycleNode:
        """Returns the action that runs a node."""
        from launch.actions import Shutdown
        from launch.substitutions import LaunchConfiguration
        from launch_ros.actions import LifecycleNode

        def ended(event: Any, context: LaunchContext) -> list[Any]:
            if died := death(entry.name, event.returncode, signalled=context.is_shutdown, stopped=entry.full_name in self._resumed):
                if context.is_shutdown or self._restarts[entry.full_name] >= entry.respawn:
                    raise InputError(died)  # whoever loses a node loses the run
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
            arguments=[*arguments, PARENT, str(os.getpid())],  # launch itself leaves them running when it is killed
            ros_arguments=["--enclave", entry.full_name],
            parameters=[dict(entry.parameters)] if entry.parameters else [], remappings=list(entry.remappings.items()), on_exit=ended,
            sigterm_timeout=LaunchConfiguration("sigterm_timeout", default=_PATIENCE),
            sigkill_timeout=LaunchConfiguration("sigkill_timeout", default=_PATIENCE))
        return self._processes[entry.full_name]

    def _kill(self, entry: NodeEntry) -> None:
        if pid := _pid(self._processes[entry.full_name]):
            os.kill(pid, signal.SIGKILL)

    def begin(self, context: LaunchContext) -> None:
        """Brings the nodes up, and watches them."""
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
    """The number of its process, also of one that has ended; 0: none has been started."""
    return int((node.process_details or {}).get("pid", 0))
