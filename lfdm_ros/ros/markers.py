"""Pictures for RViz: obstacles, lines, texts and the goal as visualization_msgs/MarkerArray."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from geometry_msgs.msg import Point
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from lfdm_ros.ros.messages import set_stamp
from lfdm_ros.simulation import Goal, World

if TYPE_CHECKING:  # the tracker is slow to import
    from lfdm_ros.perception.obstacles import Obstacles

Colour = tuple[float, float, float, float]
DETECTED: Colour = (0.9, 0.2, 0.1, 0.6)
TRUE: Colour = (0.4, 0.4, 0.4, 0.8)
PLAN: Colour = (0.1, 0.7, 0.2, 1.0)
ROUTE: Colour = (0.2, 0.4, 0.9, 0.7)
EDGE: Colour = (0.9, 0.9, 0.9, 0.8)
GOAL: Colour = (0.9, 0.7, 0.1, 0.5)
CALM: Colour = (0.2, 0.9, 0.3, 1.0)
ALARM: Colour = (1.0, 0.2, 0.1, 1.0)
_HEIGHT = 1.5  # [m] of bodies
_ARROW = 1.0  # [s] of travel per arrow


def mixed(share: float) -> Colour:
    """Interpolates a colour from CALM, 0, to ALARM, 1; NaN: ALARM."""
    share = min(max(share, 0.0), 1.0) if share == share else 1.0
    red, green, blue, alpha = ((1.0 - share) * calm + share * alarm for calm, alarm in zip(CALM, ALARM))
    return red, green, blue, alpha


class Picture:
    """Markers of one frame and time; each picture replaces the previous one."""

    def __init__(self, frame: str, time_ns: int) -> None:
        self._frame, self._time_ns = frame, time_ns
        self.array = MarkerArray()
        self._add("", Marker.CUBE, TRUE).action = Marker.DELETEALL

    def disc(self, name: str, x: float, y: float, radius: float, colour: Colour) -> None:
        marker = self._add(name, Marker.CYLINDER, colour)
        marker.pose.position.x, marker.pose.position.y, marker.pose.position.z = float(x), float(y), 0.5 * _HEIGHT
        marker.scale.x = marker.scale.y = 2.0 * float(radius)
        marker.scale.z = _HEIGHT

    def line(self, name: str, x: np.ndarray, y: np.ndarray, width: float, colour: Colour) -> None:
        """Adds a line through points (n,), (n,) [m]."""
        marker = self._add(name, Marker.LINE_STRIP, colour)
        marker.scale.x = width
        marker.points = [Point(x=a, y=b) for a, b in zip(x.tolist(), y.tolist())]

    def corridor(self, edges: Iterable[np.ndarray]) -> None:
        """Adds the edges of a corridor, (n, 2) [m] each."""
        for edge in edges:
            self.line("corridor", edge[:, 0], edge[:, 1], 0.1, EDGE)

    def surface(self, name: str, x: np.ndarray, y: np.ndarray, z: np.ndarray, colours: np.ndarray) -> None:
        """Adds triangles over the nodes x (nx,), y (ny,) at heights z (ny, nx) [m], in colours (ny, nx, 4)."""
        marker = self._add(name, Marker.TRIANGLE_LIST, TRUE)
        marker.scale.x = marker.scale.y = marker.scale.z = 1.0
        j, i = (index.ravel() for index in np.mgrid[:len(y) - 1, :len(x) - 1])
        rows, columns = np.stack([j, j, j + 1, j, j + 1, j + 1], -1).ravel(), np.stack([i, i + 1, i + 1, i, i + 1, i], -1).ravel()
        marker.points = [Point(x=a, y=b, z=c) for a, b, c in zip(x[columns].tolist(), y[rows].tolist(), z[rows, columns].tolist())]
        marker.colors = [ColorRGBA(r=r, g=g, b=b, a=a) for r, g, b, a in colours[rows, columns].tolist()]

    def arrow(self, name: str, x: float, y: float, vx: float, vy: float, colour: Colour) -> None:
        """Adds an arrow from a position [m] to that in one second, by its velocity [m/s]."""
        marker = self._add(name, Marker.ARROW, colour)
        marker.scale.x, marker.scale.y = 0.2, 0.4
        marker.points = [Point(x=float(x), y=float(y), z=_HEIGHT),
                         Point(x=float(x + _ARROW * vx), y=float(y + _ARROW * vy), z=_HEIGHT)]

    def text(self, name: str, x: float, y: float, text: str, colour: Colour) -> None:
        """Adds lines of text that face the viewer."""
        marker = self._add(name, Marker.TEXT_VIEW_FACING, colour)
        marker.pose.position.x, marker.pose.position.y, marker.pose.position.z = float(x), float(y), 2.0 * _HEIGHT
        marker.scale.z = 0.5 * _HEIGHT
        marker.text = text

    def obstacles(self, found: Obstacles) -> None:
        for (x, y), radius, (vx, vy) in zip(found.centres, found.radii, found.velocities):
            self.disc("obstacles", x, y, radius, DETECTED)
            if vx * vx + vy * vy > 0.01:
                self.arrow("velocities", x, y, vx, vy, DETECTED)

    def goal(self, goal: Goal) -> None:
        self.disc("goal", goal.x, goal.y, goal.tolerance, GOAL)

    def world(self, world: World, time: float) -> None:
        """Adds the obstacles of a scenario at a time [s]."""
        for (x, y), radius in zip(*world.circles_at(time)):
            self.disc("world", x, y, radius, TRUE)
        for corners in world.polygons_at(time):
            x, y = np.vstack([corners, corners[:1]]).T
            self.line("world", x, y, 0.1, TRUE)

    def _add(self, name: str, kind: int, colour: Colour) -> Marker:
        marker = Marker(ns=name, id=len(self.array.markers), type=kind, action=Marker.ADD)
        marker.header.frame_id = self._frame
        set_stamp(marker.header.stamp, self._time_ns)
        marker.pose.orientation.w = 1.0
        red, green, blue, alpha = colour
        marker.color = ColorRGBA(r=red, g=green, b=blue, a=alpha)
        self.array.markers.append(marker)
        return marker
