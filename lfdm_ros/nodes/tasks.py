"""Goals and paths by topic, in any frame that is known: what a node hears that drives, or shares a drive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Path as PathMessage
from tf2_msgs.msg import TFMessage

from lfdm_ros.engine.driving import Task
from lfdm_ros.errors import InputError
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import Component
from lfdm_ros.ros.endpoints import Endpoint, hears
from lfdm_ros.ros.frame_tree import FrameTree
from lfdm_ros.ros.messages import ODOM_FRAME

# RViz's tool "2D Goal Pose" says goal_pose, nav2's planner plan.
_GOALS, _PATHS, _FRAMES = ("goal", "goal_pose"), ("reference_path", "plan"), ("tf", "tf_static")


def task_endpoints() -> tuple[Endpoint, ...]:
    """Goals and paths that are heard, and the frames that they may be in."""
    return (*(hears(topic, PoseStamped, qos.TASK, "where to drive") for topic in _GOALS),
            *(hears(topic, PathMessage, qos.TASK, "along what to drive") for topic in _PATHS),
            hears("tf", TFMessage, qos.TRANSFORMS, "frames that goals and paths may be in"),
            hears("tf_static", TFMessage, qos.LATCHED, "frames that goals and paths may be in"))


class TaskedComponent(Component):
    """A node with `task_endpoints`, whose `pilot` drives tasks in a frame of its own; it calls `_hear_tasks` in `configure`."""

    pilot: Any

    def task_of_goal(self, message: PoseStamped) -> Task:
        """Raises InputError: what cannot be a goal."""
        raise NotImplementedError

    def task_of_path(self, data: bytes) -> Task:
        """data: a serialized nav_msgs/Path. Raises InputError: what cannot be a path."""
        raise NotImplementedError

    def task_taken(self) -> None:
        """A task has come that is driven now."""

    def _hear_tasks(self) -> None:
        self.frames = FrameTree()
        for topic in _GOALS:
            self.subscription(topic, self._on_goal)
        for topic in _PATHS:
            self.subscription(topic, self._on_path, raw=True)
        for topic in _FRAMES:
            self.subscription(topic, self._on_frames)

    def _on_frames(self, message: TFMessage) -> None:
        # In the inactive state too: what does not move is said once.
        self.frames.hear(message, self.refusals)

    def _on_goal(self, message: PoseStamped) -> None:
        self._take_task("goal", lambda: self.task_of_goal(message))

    def _on_path(self, data: bytes) -> None:
        self._take_task("path", lambda: self.task_of_path(data))

    def _take_task(self, kind: str, make: Callable[[], Task]) -> None:
        if self.state != "active":
            return
        try:
            task = self.frames.task(make(), self.pilot.frame or ODOM_FRAME)
        except InputError as error:
            self.refusals.refuse(kind, error)
            return
        if self.pilot.drive(kind, task):
            self.task_taken()
            self.get_logger().info(task.name)
