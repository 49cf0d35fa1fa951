"""References for the planner: a given path, a route to a goal, or a route back to a path, with their speeds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lfdm_ros.bounds import require
from lfdm_ros.control.prediction import STANDING, PlanarState
from lfdm_ros.control.routing.hidden_traffic import hidden_traffic_speeds
from lfdm_ros.control.routing.lattice import LatticeSettings
from lfdm_ros.control.routing.lattice_planner import LatticePlanner
from lfdm_ros.control.routing.routes import Reference, Route
from lfdm_ros.control.settings import Settings
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation import Goal
from lfdm_ros.simulation.path import Path, speed_profile
from lfdm_ros.vehicles import Footprint

# Lengths and speeds of a full-size vehicle; they are in proportion for a smaller one (`Footprint.scale`).
BRAKE_DELAY = 0.5  # [s] until the brake of a stop within sight has built up
STOP_CLEARANCE = 1.0  # [m] distance of a stop before a blocked place
NEAR_GOAL_DISTANCE = 10.0  # [m] distance below which the vehicle is near its goal
NEAR_GOAL_TIME = 1.0  # [s] the same as time: near its goal the vehicle keeps its route
BLOCKED_PATIENCE = 1.0  # [s] for which the search goes on while driving


def max_speed_for_sight(settings: Settings, outline: Footprint, length: float | None = None) -> float:
    """Returns the speed [m/s] from which a vehicle stops within `length` [m]; None: within the range of its sensor."""
    s = settings
    free = max((s.sight if length is None else length) - outline.front - outline.scale * STOP_CLEARANCE, 0.0)
    lost = s.sight_braking * BRAKE_DELAY
    return math.sqrt(lost**2 + 2.0 * s.sight_braking * free) - lost


def stopping_speeds(settings: Settings, outline: Footprint, route: Route) -> np.ndarray:
    """Returns speeds (n,) [m/s] along a route from which the front end stops before the end of a blocked route; inf for a free one."""
    if not route.blocked:
        return np.full(len(route.path.s), math.inf)
    left = route.free_length - outline.front - outline.scale * STOP_CLEARANCE - route.path.s
    return np.sqrt(2.0 * settings.path_braking * np.maximum(left, 0.0))


def stopping_here(settings: Settings, vx: float, path: Path) -> np.ndarray:
    """Returns speeds (n,) [m/s] along a path for a stop from vx [m/s] that begins now."""
    return np.sqrt(np.maximum(vx * vx - 2.0 * settings.path_braking * path.s, 0.0))


def blocked_speeds(settings: Settings, outline: Footprint, route: Route, vx: float, blocked_for: float) -> np.ndarray:
    """Returns speeds (n,) [m/s] along a blocked route at vx [m/s]: a stop before the obstacle or, after a longer search without a route
    (`blocked_for` [s]), an immediate stop."""
    speeds = stopping_speeds(settings, outline, route)
    return np.minimum(stopping_here(settings, vx, route.path), speeds) if blocked_for > BLOCKED_PATIENCE else speeds


def should_keep_route(route: Route | None, remaining: float, vx: float, scale: float) -> bool:
    """Checks that a vehicle at `remaining` [m] from its goal at vx [m/s] should keep its present route; scale: of the vehicle."""
    near = max(NEAR_GOAL_TIME * vx, scale * NEAR_GOAL_DISTANCE)
    return route is not None and not route.blocked and route.kind != "turn" and remaining < near


SLOWDOWN = 1.0  # [m/s] immediate reduction of the reference for a vehicle that is too fast
GOAL_APPROACH = 10.0  # [m] at this distance the route to a goal has the weight of a path
REJOIN_LIMITS = 10.0, 2.4  # [m], [rad] from a path: within the first and beyond the second, a route leads back to it
REJOIN_DISTANCE = 30.0  # [m] along the path, plus the distance to it, at which that route meets it
REJOINED_LIMITS = 2.0, 0.5  # [m], [rad] from the path at which that route ends
CREEPING, CREEPING_PATIENCE = 0.5, 0.5  # share of the speed, [s]: below it for longer before an obstacle in the lane, search a detour
BLOCKING_DISTANCE = 20.0  # [m] before the front end in which such an obstacle counts
TRAFFIC_DISTANCE, TRAFFIC_PATIENCE = 40.0, 15.0  # [m], [s] waiting time before reversing after traffic was this near
EDGE_SPACING = 1.0  # [m] spacing of the obstacles that represent an edge
MIN_GOAL_SPEED = 4.0  # [m/s] smallest speed limit by sight


@dataclass(eq=False)
class Assignment:
    """Task: a given path, or a goal with the route in force."""

    speed: float
    stop: bool
    goal: Goal | None = None
    path: Path | None = None
    speeds: float | np.ndarray = 0.0  # speed limit of the path, one or one a point
    corridor: np.ndarray | None = None
    hidden_speed: float = 0.0  # of traffic that obstacles beside it may hide [m/s]
    reference: Reference | None = None
    route: Route | None = None
    routed: float = -math.inf  # when the route was made
    route_version: int = 0  # counts changes of the route
    blocked_since: float = math.inf
    slowed: Reference | None = None  # reference of the path, slower for hidden traffic
    joining: Reference | None = None  # route back to a path of another direction
    station: float = 0.0  # position along the path at that time [m]
    detour: bool = False  # `joining` leads round an obstacle in the lane
    crept_since: float = math.inf  # time since which the vehicle has been slow enough for a detour
    meeting: tuple[float, float] = (math.inf, math.inf)  # where `joining` meets the path [m]
    moved: float = -math.inf  # time of the last motion near the vehicle
    past: Goal | None = None  # goal on the path behind an obstacle in the lane, and its distance along it [m]
    past_station: float = -math.inf
    done: bool = False

    @staticmethod
    def follow(path: Path, speed: float | np.ndarray, corridor: np.ndarray | None, stop: bool, hidden_speed: float = 0.0) -> Assignment:
        """Makes the task of `Controller.follow`. Raises InputError."""
        if corridor is not None:
            corridor = np.array(corridor, float)
            if corridor.ndim != 2 or corridor.shape[1] != 3 or not len(corridor) or not np.isfinite(corridor).all() or (
                    np.diff(corridor[:, 0]) <= 0.0).any():
                raise InputError("corridor: give rows [s, left, right] in m, finite, with rising s")
        require("speed", hidden_speed, "assumed speed of hidden traffic")
        return Assignment(float(np.max(speed)), stop, path=path, speeds=speed, corridor=corridor, hidden_speed=hidden_speed)

    @staticmethod
    def go_to(goal: Goal, speed: float) -> Assignment:
        """Makes the task of `Controller.go_to`. Raises InputError."""
        if not (math.isfinite(speed) and speed > 0.0):
            raise InputError(f"speed to a goal is {speed} m/s; give more than 0")
        require("speed", speed, "speed to a goal")
        return Assignment(speed, goal.stop, goal)

    @property
    def lane(self) -> Reference | None:
        """Path with its corridor, while the vehicle is on it or on a detour within; None on a route to a goal, or back to the path."""
        return None if self.goal is not None or (self.joining is not None and not self.detour) else self.reference

    def drop_joining_route(self) -> None:
        """Drops a route back to the path, or a detour."""
        if self.joining is not None:
            self.joining, self.detour, self.route_version = None, False, self.route_version + 1

    def anew(self) -> Assignment:
        """Returns the same task, at its beginning."""
        return Assignment(self.speed, self.stop, self.goal, self.path, self.speeds, self.corridor, self.hidden_speed)


class Navigator:
    """Finder of routes, their speeds, and the end of a task. Stores its results in the task."""

    def __init__(self, settings: Settings, outline: Footprint, horizon: float, lattice: LatticeSettings | None = None):
        """Makes the lattice. horizon: duration of a plan [s]; lattice: settings of the route search."""
        self._settings, self._outline, self._horizon = settings, outline, horizon
        self._guide = LatticePlanner(_guide_settings((lattice or LatticeSettings()).fitted(outline.scale), settings))

    def configure(self, settings: Settings, outline: Footprint) -> None:
        """Sets other settings, or another outline, from now on."""
        self._settings, self._outline = settings, outline
        lattice = _guide_settings(self._guide.settings, settings)
        if self._guide.settings != lattice:  # building its tables takes several cycles
            self._guide = LatticePlanner(lattice)

    def reference_of(self, task: Assignment) -> Reference:
        """Returns the reference of a path."""
        assert task.path is not None
        s = self._settings
        profile = speed_profile(task.path, task.speeds, s.path_lateral_acceleration, s.path_acceleration, s.path_braking,
                                0.0 if task.stop else math.inf)
        longer, speeds = self._longer(task.path, np.zeros_like(profile) if task.done else profile)
        return Reference(longer, speeds, task.speed, task.corridor, margin=None if task.corridor is None else s.path_margin,
                         slowing=s.path_braking)

    def find(self, task: Assignment, now: float, pose: PlanarState, obstacles: Callable[[], Obstacles],
             visible_length: Callable[[], float]) -> Reference:
        """Finds the route to the goal.

        Args:
            obstacles: returns the obstacles; visible_length: returns the length of the plan in sight [m]. Both are called on demand.
        """
        assert task.goal is not None
        s, goal, outline = self._settings, task.goal, self._outline
        remaining = math.hypot(goal.x - pose.x, goal.y - pose.y)
        if not (task.done or should_keep_route(task.route, remaining, pose.vx, outline.scale)):
            self._look(task, pose, (goal.x, goal.y), obstacles())
        task.routed = now
        assert task.route is not None
        path = task.route.path
        profile = self._profile(task, path, pose.vx, 0.0 if task.stop or task.done else math.inf)
        if not task.route.blocked:
            task.blocked_since = math.inf
        else:
            task.blocked_since = min(task.blocked_since, now)
            profile = np.minimum(profile, blocked_speeds(s, outline, task.route, pose.vx, now - task.blocked_since))
        longer, speeds = self._longer(path, np.zeros_like(profile) if task.done else profile)
        # The weight of the route grows towards the goal; a vehicle about to stop needs no time_weight.
        approach = outline.scale * GOAL_APPROACH
        lateral = max(s.goal_lateral, min(1.0, approach / max(remaining, approach)))
        stopping = task.stop and remaining < pose.vx * self._horizon
        time_weight = 0.0 if task.done or task.route.blocked or stopping else s.weight_time
        # Keep a stop possible before occluded places on the plan.
        highest = min(task.speed, max(max_speed_for_sight(s, outline, visible_length()), outline.scale * MIN_GOAL_SPEED))
        task.reference = Reference(longer, np.minimum(speeds, highest), highest, lateral=lateral, time_weight=time_weight, free_end=True,
                                   slowing=s.path_braking)
        return task.reference

    def assumed_speed(self, task: Assignment) -> float:
        """Returns the assumed speed [m/s] of traffic hidden by obstacles beside a path; 0: none."""
        return max(self._settings.hidden_speed, task.hidden_speed)

    def slow_down(self, task: Assignment, now: float, vx: float, station: float, sensor: np.ndarray, obstacles: Obstacles) -> None:
        """Limits the speeds on a path, with the vehicle at `station` [m] along it, for traffic hidden from the sensor at `sensor` (2,)
        [m]."""
        s, reference = self._settings, task.reference
        task.routed, task.slowed = now, None
        if reference is None or task.done:
            return
        path = reference.path
        highest = hidden_traffic_speeds(path, station, max(vx, 0.0), sensor, obstacles, self._outline, self.assumed_speed(task),
                                        s.sight_braking)
        if np.isfinite(highest).any():
            speeds = np.minimum(reference.speeds, highest)
            task.slowed = replace(reference, speeds=speed_profile(path, speeds, s.path_lateral_acceleration, s.path_acceleration,
                                                                  s.path_braking, float(speeds[-1])))

    def join(self, task: Assignment, now: float, pose: PlanarState, begins: bool, final_speed: float,
             obstacles: Callable[[], Obstacles]) -> Reference | None:
        """Returns a route back to a path of another direction, or round an obstacle in its lane; None where the vehicle is on the path.

        The optimisation is local: near the path it finds neither a turn, nor every passage round an obstacle in the lane.

        Args:
            begins: there is no plan yet; final_speed: of the present plan [m/s].
            obstacles: returns the obstacles; called on demand.
        """
        if task.goal is not None or task.reference is None or task.done:
            return None
        task.crept_since = min(task.crept_since, now) if min(abs(pose.vx), final_speed) < CREEPING * task.speed else math.inf
        if task.joining is None and now - task.crept_since > CREEPING_PATIENCE and self._is_lane_blocked(task, pose, obstacles()):
            task.detour, task.crept_since = True, now
        if not (begins or task.joining is not None or task.detour):
            return None
        s, path, scale = self._settings, task.reference.path, self._outline.scale
        (task.station,), (aside,) = (a.tolist() for a in path.project(np.array([pose.x]), np.array([pose.y])))
        turned = abs(math.remainder(float(path.at(np.array([task.station]))[2][0]) - pose.yaw, 2.0 * math.pi))
        astray = abs(aside) <= scale * REJOIN_LIMITS[0] and turned > REJOIN_LIMITS[1]
        back = abs(aside) <= scale * REJOINED_LIMITS[0] and turned <= REJOINED_LIMITS[1]
        if task.detour:
            back = back and math.hypot(task.meeting[0] - pose.x, task.meeting[1] - pose.y) < scale * GOAL_APPROACH
        if (task.joining is None and not (astray or task.detour)) or back:
            if task.joining is not None:
                task.joining, task.route, task.detour = None, None, False
                task.route_version += 1
            return None
        if task.joining is not None and now - task.routed < s.route_period - 1e-9:
            return task.joining
        # Keep the meeting point until the vehicle is there: a turn towards a moving one would restart each time.
        if task.joining is None or math.hypot(task.meeting[0] - pose.x, task.meeting[1] - pose.y) < scale * GOAL_APPROACH:
            (gx,), (gy,), *_ = (a.tolist() for a in path.at(np.array([task.station + scale * REJOIN_DISTANCE + abs(aside)])))
            task.meeting, task.route = (gx, gy), None
        route = self._look(task, pose, task.meeting, self._between_edges(task, obstacles()) if task.detour else obstacles())
        task.routed = now
        if task.detour and route.blocked:
            task.joining, task.route, task.detour = None, None, False
            return None
        profile = self._profile(task, route.path, pose.vx)
        longer, speeds = self._longer(route.path, np.minimum(profile, stopping_speeds(s, self._outline, route)))
        task.joining = Reference(longer, speeds, task.speed, margin=task.reference.margin if task.detour else None, free_end=True,
                                 slowing=s.path_braking)
        return task.joining

    def past(self, task: Assignment, now: float, pose: PlanarState, obstacles: Obstacles, manoeuvres: bool, routes: bool,
             ) -> tuple[Goal, Route, Obstacles] | None:
        """Returns a goal on the path behind an obstacle in the lane, the route there, and the obstacles with the edges of the lane; None if
        the vehicle drives on, or there is no lane.

        Args:
            manoeuvres: the vehicle drives a path with changes of direction; routes: the lattice's route is needed.
        """
        if task.corridor is None or task.reference is None:
            return None
        scale = self._outline.scale
        near = np.hypot(*(obstacles.centres - [pose.x, pose.y]).T) < scale * TRAFFIC_DISTANCE
        if (near & obstacles.moving).any():
            task.moved = now
        if not manoeuvres:
            if task.joining is None:
                task.route = None  # of a finished manoeuvre
            if now - task.moved < TRAFFIC_PATIENCE or abs(pose.vx) >= scale * STANDING or not self._is_lane_blocked(task, pose, obstacles):
                return None
        path = task.reference.path
        (task.station,), _ = path.project(np.array([pose.x]), np.array([pose.y]))
        if task.past is None or task.station > task.past_station - scale * GOAL_APPROACH:
            task.past_station = task.station + scale * REJOIN_DISTANCE
            (x,), (y,), *_ = path.at(np.array([task.past_station]))
            task.past = Goal(float(x), float(y))
        if manoeuvres and routes and now - task.routed >= self._settings.route_period - 1e-9:
            self._look(task, pose, (task.past.x, task.past.y), self._between_edges(task, obstacles))
            task.routed = now
        # Paths with changes of direction pass obstacles at a smaller distance than the lattice's.
        edges = self._between_edges(task, obstacles, 0.5 * self._settings.stop_margin, 0.5)
        return task.past, (task.route if manoeuvres else None) or Route(path, False, math.inf), edges

    def _is_lane_blocked(self, task: Assignment, pose: PlanarState, obstacles: Obstacles) -> bool:
        """Checks for a stationary obstacle in the lane ahead of the slow vehicle, on the path itself."""
        assert task.reference is not None
        still, half = obstacles.where(~obstacles.moving), self._outline.half_width
        if task.corridor is None or not len(still.radii):
            return False
        s, aside = task.reference.path.project(*still.centres.T)
        (here,), _ = task.reference.path.project(np.array([pose.x]), np.array([pose.y]))
        near = (s > here) & (s < here + self._outline.front + self._outline.scale * BLOCKING_DISTANCE)
        return bool((near & (np.abs(aside) < still.radii + half)).any())

    def _between_edges(self, task: Assignment, obstacles: Obstacles, margin: float | None = None, share: float = 1.0) -> Obstacles:
        """Returns obstacles, and the edges of the corridor near the vehicle as rows of obstacles, for routes with a margin [m]; None: that
        of the settings. share: of the usual spacing."""
        assert task.reference is not None
        scale = self._outline.scale
        s = task.station + scale * np.arange(-GOAL_APPROACH, REJOIN_DISTANCE + GOAL_APPROACH, share * EDGE_SPACING)
        x, y, yaw, _ = task.reference.path.at(s)
        # Offset outwards so that the vehicle's side may reach the edge.
        radius = scale * 0.5 * EDGE_SPACING
        more = radius + (self._settings.obstacle_margin if margin is None else margin)
        left, right = (room + more for room in task.reference.room_at(s))
        edges = np.concatenate([np.column_stack([x - e * np.sin(yaw), y + e * np.cos(yaw)]) for e in (left, -right)])
        return obstacles.with_standing(edges, np.full(len(edges), radius))

    def remaining(self, task: Assignment, pose: PlanarState, station: float) -> float:
        """Returns the distance to the goal, or from `station` [m] to the end of the path."""
        if task.goal is None:
            assert task.path is not None
            return max(task.path.length - (station if task.joining is None else task.station), 0.0)
        return math.hypot(pose.x - task.goal.x, pose.y - task.goal.y)

    def finish(self, task: Assignment, pose: PlanarState, station: float) -> None:
        """Marks a task as done once its end is reached; the vehicle then stops on the continuation of its path."""
        if task.done:
            return
        standing = not task.stop or abs(pose.vx) < self._outline.scale * STANDING
        near = task.goal.tolerance if task.goal is not None else self._outline.scale
        if self.remaining(task, pose, station) <= near and standing:
            task.done = True
            if task.path is not None:
                task.reference = self.reference_of(task)

    def _look(self, task: Assignment, pose: PlanarState, to: tuple[float, float], obstacles: Obstacles) -> Route:
        task.route = self._guide.route(pose.x, pose.y, pose.yaw, max(pose.vx, 0.0), *to, obstacles, self._outline.half_width,
                                       self._settings.obstacle_margin, task.route)
        task.route_version += 1
        return task.route

    def _profile(self, task: Assignment, path: Path, vx: float, end: float = math.inf) -> np.ndarray:
        """Returns speeds (n,) [m/s] along a path, by its bends and the range of sight; a vehicle that is too fast brakes less hard than for
        an obstacle."""
        s, outline = self._settings, self._outline
        slowing = stopping_here(s, max(vx - outline.scale * SLOWDOWN, 0.0), path)
        highest = np.maximum(slowing, min(task.speed, max_speed_for_sight(s, outline)))
        return speed_profile(path, highest, s.path_lateral_acceleration, s.path_acceleration, s.path_braking, end)

    def _longer(self, path: Path, speeds: np.ndarray) -> tuple[Path, np.ndarray]:
        """Returns a path extended beyond its end by a horizon's length, at the speed of its end."""
        longer = path.extended(self._horizon * float(speeds.max()) + self._outline.scale * NEAR_GOAL_DISTANCE)
        return longer, np.concatenate([speeds, np.full(len(longer.s) - len(path.s), speeds[-1])])


def _guide_settings(lattice: LatticeSettings, settings: Settings) -> LatticeSettings:
    return replace(lattice, lateral_acceleration=settings.path_lateral_acceleration, braking=settings.path_braking)
