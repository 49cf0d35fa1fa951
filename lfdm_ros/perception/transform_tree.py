"""Planar transforms between frames, from messages of tf and tf_static, live or of a bag; without ROS."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lfdm_ros.bounds import FRAME, TOO_MANY, Refusals, Refused, require, require_all
from lfdm_ros.errors import InputError

_MAX_FRAMES = 1000  # invalid names must not exhaust the memory


def yaw_of(q: Any) -> float:
    """Returns the heading [rad] of a quaternion x, y, z, w of any length but 0."""
    length = math.hypot(q.x, q.y, q.z, q.w)
    x, y, z, w = (part / length for part in (q.x, q.y, q.z, q.w))
    return math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


@dataclass(frozen=True)
class Placed:
    """Pose of a frame in another: position [m] and heading [rad]."""

    x: float = 0.0
    y: float = 0.0
    yaw: float = 0.0

    def out(self, points: np.ndarray) -> np.ndarray:
        """Returns points (n, 2) of this frame in the other."""
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        return np.asarray(points, float) @ np.array([[c, s], [-s, c]]) + (self.x, self.y)

    def into(self, points: np.ndarray) -> np.ndarray:
        """Returns points (n, 2) of the other frame in this one."""
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        return (np.asarray(points, float) - (self.x, self.y)) @ np.array([[c, -s], [s, c]])


class TransformTree:
    """Newest transforms between frames, and points transformed by them. Tasks are long-lived, so that tf2's history is not needed."""

    def __init__(self) -> None:
        self._parents: dict[str, tuple[str, Placed]] = {}

    def take(self, transform: Any) -> None:
        """Stores a transform. Raises Refused: not finite, no rotation, out of range, or too many frames."""
        parent, child = transform.header.frame_id.lstrip("/"), transform.child_frame_id.lstrip("/")
        if not parent or not child or parent == child:
            raise Refused(f"'{child}' in '{parent}'", FRAME)
        if child not in self._parents and len(self._parents) >= _MAX_FRAMES:
            raise Refused(f"more than {_MAX_FRAMES} frames", FRAME)
        q, place = transform.transform.rotation, transform.transform.translation
        require("quaternion", math.hypot(q.x, q.y, q.z, q.w), f"length of the rotation of '{child}'")
        require_all({"x": place.x, "y": place.y}, ("x", "y"), f"place of '{child}': ")
        self._parents[child] = parent, Placed(place.x, place.y, yaw_of(q))

    def hear(self, message: Any, refusals: Refusals) -> None:
        """Stores all transforms of a message; invalid ones are counted, a message of too many is refused whole."""
        if len(message.transforms) > _MAX_FRAMES:
            refusals.refuse("transform", f"{len(message.transforms)} transforms in a message, more than {_MAX_FRAMES}", TOO_MANY)
            return
        for transform in message.transforms:
            try:
                self.take(transform)
            except InputError as error:
                refusals.refuse("transform", error)

    def points(self, points: np.ndarray, source: str, target: str) -> np.ndarray:
        """Returns points (n, 2) of frame `source` in frame `target`. Raises Refused: no transform between the two is known, or the points
        end up out of range."""
        ups, downs = self._chain(source), self._chain(target)
        if ups[-1][0] != downs[-1][0]:
            raise Refused(f"frame '{source}' is not known in '{target}'; publish its transform on tf", FRAME)
        moved = np.asarray(points, float)
        for _, placed in ups[:-1]:
            moved = placed.out(moved)
        for _, placed in reversed(downs[:-1]):
            moved = placed.into(moved)
        for value in (moved.min(), moved.max()):
            require("x", float(value), f"place in '{target}'")
        return moved

    def place(self, frame: str, target: str) -> Placed:
        """Returns the pose of a frame in an ancestor; at its origin if unknown."""
        (x, y), yaw = np.zeros(2), 0.0
        for name, placed in self._chain(frame):
            if name == target:
                return Placed(float(x), float(y), yaw)
            (x, y), yaw = placed.out(np.array([x, y])), yaw + placed.yaw
        return Placed()

    def knows(self, source: str, target: str) -> bool:
        """Checks that the transform from one to the other is known."""
        return self._chain(source)[-1][0] == self._chain(target)[-1][0]

    def _chain(self, frame: str) -> list[tuple[str, Placed]]:
        """Returns the chain from a frame to its root: each frame with its pose in the next one; a cycle ends where it closes."""
        chain, visited, frame = [], set(), frame.lstrip("/")
        while frame in self._parents and frame not in visited:
            visited.add(frame)
            parent, placed = self._parents[frame]
            chain.append((frame, placed))
            frame = parent
        return [*chain, (frame, Placed())]
