"""Routes with their curves (sequences of arcs and straights), and references of the planner."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from lfdm_ros.bounds import require_array
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation.path import STEP, Path


@dataclass(frozen=True)
class Route:
    """Path from the vehicle to the goal, or to the end of the lattice towards it.

    Attributes:
        blocked: no route was found; the path is the one that gets furthest.
        free_length: length of the path that is free of obstacles [m]; the path's length if not blocked.
        kind: "lattice"; "turn": a turn until the vehicle points to the goal, then a lattice; "near": an arc to a goal closer than a
            station.
        side: of a turn, 1 left, -1 right; else 0.
        goal: of a turn [m].
    """

    path: Path
    blocked: bool
    free_length: float
    kind: str = "lattice"
    side: int = 0
    goal: tuple[float, float] | None = None


@dataclass(frozen=True)
class Scene:
    """Obstacles (n) with the radii that the vehicle's position point must keep from their centres, and the vehicle's direction."""

    x: np.ndarray
    y: np.ndarray
    vx: np.ndarray
    vy: np.ndarray
    reach: np.ndarray  # with half width and margin, reduced if the vehicle is inside
    touch: np.ndarray  # with half width alone
    moving: bool
    yaw: float  # the vehicle's, for a path's yaw to be within half a turn of it

    @classmethod
    def of(cls, x: float, y: float, yaw: float, obstacles: Obstacles, half_width: float, margin: float) -> Scene:
        """Makes the scene of a vehicle at x, y [m], yaw [rad] with half width and margin [m]. Raises InputError for invalid
        obstacles."""
        centres, radii, velocities = (np.asarray(a, float) for a in (obstacles.centres, obstacles.radii, obstacles.velocities))
        n = len(radii)
        if centres.shape != (n, 2) or velocities.shape != (n, 2) or radii.shape != (n,):
            raise InputError(f"guidance: obstacles have centres {centres.shape}, radii {radii.shape}, velocities {velocities.shape}; "
                             "give (n, 2), (n,), (n, 2)")
        if not (np.isfinite(centres).all() and np.isfinite(radii).all() and np.isfinite(velocities).all()):
            raise InputError("guidance: an obstacle is not finite; leave out what has no finite place, radius and velocity")
        require_array("obstacle_place", centres, "guidance: centre of obstacle")
        require_array("obstacle_speed", velocities, "guidance: velocity of obstacle")
        require_array("radius", radii, "guidance: radius of obstacle")
        cx, cy = centres.T
        touch = radii + half_width
        # A vehicle inside a margin must be able to leave it, which may take it to half of its present distance.
        away = np.hypot(cx - x, cy - y) - touch
        reach = touch + np.where(away < margin, 0.5 * np.maximum(away, 0.0), margin)
        return cls(cx, cy, velocities[:, 0], velocities[:, 1], reach, touch, bool(velocities.any()), yaw)


@dataclass(frozen=True)
class Search:
    """The query of a route: from x, y [m], yaw [rad] to a goal [m], at `pace` [m/s], among the scene's obstacles; previous: the route
    before; scale: size of the vehicle against a full-size one."""

    x: float
    y: float
    yaw: float
    pace: float
    goal_x: float
    goal_y: float
    scene: Scene
    previous: Route | None
    scale: float = 1.0

    @property
    def goal(self) -> tuple[float, float]:
        return self.goal_x, self.goal_y

    @property
    def step(self) -> float:
        """Longest distance between the points of a route [m]."""
        return self.scale * STEP


@dataclass(frozen=True)
class RouteCurve:
    """Samples (n,) of a route in the map, before it is a `Path`; arrived: the lattice reached its end."""

    x: np.ndarray
    y: np.ndarray
    yaw: np.ndarray
    curvature: np.ndarray
    arrived: bool

    def finished(self, search: Search, kind: str, side: int = 0, goal: tuple[float, float] | None = None) -> Route:
        """Makes the route: even samples, and their free length; see `Route` for the arguments."""
        scene = search.scene
        turns = 2.0 * np.pi * np.rint((scene.yaw - self.yaw[0]) / (2.0 * np.pi))
        path = Path.resampled(self.x, self.y, self.yaw + turns, self.curvature, search.step)
        # Smoothing may violate the margin slightly, but not the vehicle's own width.
        need = scene.touch + 0.5 * np.maximum(scene.reach - scene.touch, 0.0)
        hit = (squared_distances(path.x, path.y, search.pace, scene) < need**2).any(axis=1)
        free = float(path.s[max(int(hit.argmax()) - 1, 0)]) if hit.any() else path.length
        return Route(path, bool(hit.any()) or not self.arrived, free, kind, side, goal)


def squared_distances(x: np.ndarray, y: np.ndarray, pace: float, scene: Scene) -> np.ndarray:
    """Returns squared distances (points, obstacles) [m^2] of a path's points from the centres at the time of passing, at `pace`."""
    dx, dy = x[:, None] - scene.x, y[:, None] - scene.y
    if scene.moving:
        time = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])[:, None] / pace
        dx -= time * scene.vx
        dy -= time * scene.vy
    dx *= dx
    dy *= dy
    squares: np.ndarray = dx
    squares += dy
    return squares


def arc(x: float, y: float, yaw: float, s: np.ndarray, curvature: np.ndarray) -> RouteCurve:
    """Returns the curve of a given curvature (n,) over the distance `s` (n,) from a pose, by the midpoint rule."""
    step = np.diff(s)
    turned = np.concatenate([[0.0], np.cumsum(0.5 * (curvature[1:] + curvature[:-1]) * step)])
    middle = yaw + 0.5 * (turned[1:] + turned[:-1])
    dx, dy = np.cumsum(np.cos(middle) * step), np.cumsum(np.sin(middle) * step)
    return RouteCurve(np.append(x, x + dx), np.append(y, y + dy), yaw + turned, curvature, True)


def straight(x: float, y: float, yaw: float, length: float) -> RouteCurve:
    s = np.linspace(0.0, length, 9)
    return replace(arc(x, y, yaw, s, np.zeros(len(s))), arrived=False)


def joined(first: RouteCurve, second: RouteCurve) -> RouteCurve:
    """Joins two curves; the second starts where the first ends."""
    turns = 2.0 * np.pi * np.rint((first.yaw[-1] - second.yaw[0]) / (2.0 * np.pi))
    return RouteCurve(np.append(first.x, second.x[1:]), np.append(first.y, second.y[1:]), np.append(first.yaw, second.yaw[1:] + turns),
                  np.append(first.curvature, second.curvature[1:]), second.arrived)


@dataclass(frozen=True, eq=False)
class Reference:
    """Input of the planner: a task with its weights and limits.

    speeds (n,): at the points of path.s [m/s]; highest: speed not to exceed [m/s]; corridor (k, 3): s along the path, room to the left
    and to the right [m], or None; lateral: factor on the weight of the distance from the path; time_weight: weight of the time remaining
    after the horizon, 0 for none; margin: distance to keep from obstacles [m], or None for that of the settings; free_end: the heading at
    the end of the horizon does not count; slowing: deceleration from a speed above `highest` [m/s^2], inf: at once.
    """

    path: Path
    speeds: np.ndarray
    highest: float
    corridor: np.ndarray | None = None
    lateral: float = 1.0
    time_weight: float = 0.0
    margin: float | None = None
    free_end: bool = False
    slowing: float = math.inf

    def speed_at(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the reference speed (m,) [m/s] at distances s (m,) [m], and its slope (m,) [1/s] along the path."""
        speeds, step = self.speeds, self.path.step
        place = np.minimum(np.maximum(s / step, 0.0), len(speeds) - 1.001)
        index = place.astype(np.intp)
        slope = (speeds[index + 1] - speeds[index]) / step
        return speeds[index] + (place - index) * step * slope, slope

    def room_at(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the room to the left and to the right (m,), (m,) [m] of the path at s (m,) [m]; there is a corridor."""
        assert self.corridor is not None
        along, left, right = self.corridor.T
        return np.interp(s, along, left), np.interp(s, along, right)
