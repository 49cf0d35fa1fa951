"""Tasks in the frame of the vehicle's states, by tf and tf_static."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lfdm_ros.control.routing.path import Path
from lfdm_ros.engine.driving import Task
from lfdm_ros.perception.transform_tree import TransformTree


class FrameTree(TransformTree):
    """Transforms, and with them a task from one frame in another."""

    def task(self, task: Task, frame: str) -> Task:
        """Returns the task in a frame, if its place in the task's own is known; else as it is, to be refused for its frame. Raises Refused:
        a place out of range."""
        if not task.frame or task.frame == frame or not self.knows(task.frame, frame):
            return task
        moved: dict[str, Any] = {}
        if task.goal is not None:
            (x, y), = self.points(np.array([[task.goal.x, task.goal.y]]), task.frame, frame)
            moved["goal"] = replace(task.goal, x=float(x), y=float(y))
        if task.path is not None:
            moved["path"] = Path(self.points(np.column_stack([task.path.x, task.path.y]), task.frame, frame))
        return replace(task, frame=frame, **moved)
