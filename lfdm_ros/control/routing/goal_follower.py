"""Common part of drivers without a plan: a task, the lattice's route to its goal, and its speed limits.

They use the same obstacles and the same route search as `controller.Controller`, so that comparisons show the difference in path following.
"""

import math
from dataclasses import dataclass

import numpy as np

from lfdm_ros.control.prediction import STANDING, PlanarState
from lfdm_ros.control.routing.lattice import LatticeSettings
from lfdm_ros.control.routing.lattice_planner import LatticePlanner
from lfdm_ros.control.routing.navigator import blocked_speeds, max_speed_for_sight, should_keep_route
from lfdm_ros.control.routing.routes import Route
from lfdm_ros.control.settings import Settings
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import NO_OBSTACLES, Obstacles
from lfdm_ros.simulation import Goal
from lfdm_ros.simulation.path import Path, speed_profile
from lfdm_ros.vehicles import Footprint


@dataclass(frozen=True, eq=False)
class SpeedProfiledPath:
    """Path with its speed limits (n,) [m/s] by point; blocked: it ends before an obstacle."""

    path: Path
    speeds: np.ndarray
    blocked: bool

    def speed_at(self, s: float) -> float:
        """Returns the highest speed [m/s] at `s` [m] along the path; beyond its end that of its end."""
        return float(np.interp(s, self.path.s, self.speeds))


class GoalFollower:
    """Task, obstacles, and a route that is searched periodically."""

    def __init__(self, settings: Settings, outline: Footprint) -> None:
        self.settings, self.outline = settings.fitted(outline.scale), outline
        s = self.settings
        self._guide = LatticePlanner(LatticeSettings(
            lateral_acceleration=s.path_lateral_acceleration, braking=s.path_braking).fitted(outline.scale))
        self.obstacles = NO_OBSTACLES
        self.profiled_path: SpeedProfiledPath | None = None
        self.done = False
        self._goal: Goal | None = None
        self._followed: Path | None = None
        self._route: Route | None = None
        self._speed, self._stop, self._blocked_since, self._looked, self._along = 0.0, False, math.inf, -math.inf, 0.0

    def follow(self, path: Path, speed: float | np.ndarray, stop: bool) -> None:
        """Sets a path to follow, at most at `speed` [m/s], one or one a point. Raises InputError as `speed_profile`."""
        self._goal, self._route, self._followed, self._stop, self.done, self._along = None, None, path, stop, False, 0.0
        s = self.settings
        speeds = speed_profile(path, speed, s.path_lateral_acceleration, s.path_acceleration, s.path_braking, 0.0 if stop else math.inf)
        self.profiled_path = SpeedProfiledPath(path, speeds, False)

    def go_to(self, goal: Goal, speed: float) -> None:
        """Sets a goal, at most at `speed` [m/s]. Raises InputError for a speed that is not positive."""
        if not (math.isfinite(speed) and speed > 0.0):
            raise InputError(f"speed to a goal is {speed} m/s; give more than 0")
        self._goal, self._route, self._followed, self._stop, self.done, self.profiled_path = goal, None, None, goal.stop, False, None
        self._speed, self._blocked_since, self._looked = speed, math.inf, -math.inf

    def idle(self) -> None:
        """Drops the task."""
        self._goal, self._route, self._followed, self.done, self.profiled_path = None, None, None, False, None

    def update_obstacles(self, obstacles: Obstacles) -> None:
        """Sets the obstacles detected now."""
        self.obstacles = obstacles

    def station(self, x: float, y: float) -> float:
        """Returns the vehicle's distance along the path, which must exist [m]."""
        assert self.profiled_path is not None
        guess = None if self._goal is not None else np.array([self._along])
        self._along = float(self.profiled_path.path.project(np.array([x]), np.array([y]), guess)[0][0])
        return self._along

    def update_route(self, now: float, pose: PlanarState) -> None:
        """Searches the route to the goal where due, and checks for the end of the task."""
        s, goal = self.settings, self._goal
        slow = not self._stop or abs(pose.vx) < self.outline.scale * STANDING
        if goal is None:
            if self._followed is not None and self.station(pose.x, pose.y) >= self._followed.length - self.outline.scale and slow:
                self.done = True
            return
        remaining = math.hypot(goal.x - pose.x, goal.y - pose.y)
        if remaining <= goal.tolerance and slow:
            self.done = True
        route = self._route
        if self.done or should_keep_route(route, remaining, pose.vx, self.outline.scale) or now - self._looked < s.route_period - 1e-9:
            return
        self._looked = now
        route = self._route = self._guide.route(pose.x, pose.y, pose.yaw, max(pose.vx, 0.0), goal.x, goal.y, self.obstacles.at(now),
                                                self.outline.half_width, s.obstacle_margin, self._route)
        speeds = speed_profile(route.path, min(self._speed, max_speed_for_sight(s, self.outline)), s.path_lateral_acceleration,
                               s.path_acceleration, s.path_braking, 0.0 if self._stop else math.inf)
        if route.blocked:
            self._blocked_since = min(self._blocked_since, now)
            speeds = np.minimum(speeds, blocked_speeds(s, self.outline, route, pose.vx, now - self._blocked_since))
        else:
            self._blocked_since = math.inf
        self.profiled_path = SpeedProfiledPath(route.path, speeds, route.blocked)
