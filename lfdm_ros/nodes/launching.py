"""Turns a stack into actions for launch_ros. Needs a ROS 2 installation; only the launch files import it."""

# In the source tree the folder launch/ looks like the package launch.
# mypy: disable-error-code="attr-defined, import-not-found"

from __future__ import annotations

from typing import Any

from launch.actions import DeclareLaunchArgument, EmitEvent, OpaqueFunction, RegisterEventHandler, Shutdown
from launch.event_handlers import OnProcessStart
from launch.events import matches_action
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState
from lifecycle_msgs.msg import Transition

from launch import LaunchContext, LaunchDescription
from lfdm_ros.nodes.compose import prepare_stack
from lfdm_ros.nodes.stack import NodeEntry, parse_override

_ARGUMENTS = {
    "stack": "stack file, or the name of one that ships with the package",
    "speed": "simulated seconds per second, 0: as fast as possible; empty: as the stack says",
    "record": "folder of a bag to record all topics to; empty: none",
    "set": "NODE.PARAM=VALUE or PARAM=VALUE, several separated by semicolons",
}


def stack_launch_description(stack: str) -> LaunchDescription:
    """A launch description with the arguments stack, speed, record and set.

    Args:
        stack: default of the argument `stack`.
    """
    declared = [DeclareLaunchArgument(name, default_value=stack if name == "stack" else "", description=text)
                for name, text in _ARGUMENTS.items()]
    return LaunchDescription([*declared, OpaqueFunction(function=_actions)])


def _actions(context: LaunchContext) -> list[Any]:
    given = {name: LaunchConfiguration(name).perform(context) for name in _ARGUMENTS}
    prepared, _ = prepare_stack(
        given["stack"], speed=float(given["speed"]) if given["speed"] else None, record=given["record"] or None,
        overrides=dict(parse_override(text) for text in given["set"].split(";") if text))
    return [action for entry in prepared.nodes for action in _node_actions(entry)]


def _node_actions(entry: NodeEntry) -> list[Any]:
    node = LifecycleNode(
        package="lfdm_ros", executable=entry.executable, name=entry.name, namespace=entry.namespace, output="screen",
        parameters=[dict(entry.parameters)] if entry.parameters else [], remappings=list(entry.remappings.items()),
        # A node that ends the run (the player's on_finish) ends the others too. A second shutdown would be an error in launch_ros.
        on_exit=OpaqueFunction(function=lambda context: [] if context.is_shutdown else [Shutdown(reason=f"{entry.name} ended")]))
    if not entry.autostart:
        return [node]

    def change(transition: int) -> EmitEvent:
        return EmitEvent(event=ChangeState(
            lifecycle_node_matcher=matches_action(node), transition_id=transition))

    configured = RegisterEventHandler(OnStateTransition(
        target_lifecycle_node=node, start_state="configuring", goal_state="inactive",
        entities=[change(Transition.TRANSITION_ACTIVATE)]))
    started = RegisterEventHandler(OnProcessStart(target_action=node, on_start=[change(Transition.TRANSITION_CONFIGURE)]))
    # The handlers first: the node may be quicker than we are.
    return [configured, started, node]
