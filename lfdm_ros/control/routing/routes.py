"""Routes with their curves (sequences of arcs and straights); references of the planner; obstacles within a corridor."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from lfdm_ros.bounds import require_array
from lfdm_ros.control.prediction import Measured, PlanarState
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import NO_OBSTACLES, Obstacles
from lfdm_ros.simulation.path import STEP, Path
from lfdm_ros.vehicles.body import Footprint


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


# Traffic follows the lane, by an arc: minimum speed [m/s], minimum share of it along the lane, maximum lateral velocity [m/s], maximum
# distance from the lane's middle [m], duration of the arc [s].
# Oncoming traffic: lateral velocity that counts [m/s] (cars that change lanes have about 1), number of standard deviations within which a
# larger one is noise, speed below which these are observable [m/s]; delay of a measured velocity in a bend [s].
DRIVES, ALONG, MAX_ACROSS, LANES, LANE_TIME = 3.0, 0.9, 1.5, 15.0, 4.0
CHANGES_LANES, SIGNIFICANT, UNKNOWN, VELOCITY_LAG = 0.5, 3.0, 5.0, 0.3
STEP_IN = 0.5  # [m] outside of a corridor from which a pedestrian can step in
CORRIDOR_OVERLAP = 0.3  # [m] by which an obstacle inside a corridor reaches into it


def along_lane(obstacles: Obstacles, reference: Reference) -> Obstacles:
    """Returns the obstacles with traffic along the lane of a corridor turning as the lane does. Oncoming traffic follows it despite a
    lateral velocity within noise, since distant sides are sparsely measured. Traffic in the same direction keeps its lateral velocity: it
    may be changing lanes."""
    drives = np.flatnonzero(np.hypot(*obstacles.velocities.T) > DRIVES)
    if obstacles.deviations is None or not len(drives):
        return obstacles
    path, velocity = reference.path, obstacles.velocities[drives]
    s, e = path.project(*obstacles.centres[drives].T)
    course, speed = path.at(s)[2], np.hypot(*velocity.T)
    comes = velocity[:, 0] * np.cos(course) + velocity[:, 1] * np.sin(course) < 0.0
    # Arc of the lane through three places: here, after half of the time, and at its end.
    stations = s + np.array([0.0, 0.5, 1.0])[:, None] * LANE_TIME * np.where(comes, -speed, speed)
    x, y, course, _ = path.at(stations)
    # Where the path changes lanes, both edges of its corridor move towards one side of it; where lanes begin or end, one does.
    left, right = (room - room[0] for room in reference.room_at(stations))
    aside = e + np.where(left * right < 0.0, np.sign(left) * np.minimum(np.abs(left), np.abs(right)), 0.0)
    dx, dy = np.diff([x - aside * np.sin(course), y + aside * np.cos(course)], axis=1)
    first, second = np.unwrap(np.arctan2(dy, dx), axis=0)
    bend = second - first  # heading change of one half; the first heading is that of its chord
    turns = bend * speed / np.maximum(0.5 * np.hypot(dx, dy).sum(axis=0) / np.sinc(0.5 * bend / math.pi), 0.1)
    heading = first - 0.5 * bend
    along = velocity[:, 0] * np.cos(heading) + velocity[:, 1] * np.sin(heading)
    across = velocity[:, 1] * np.cos(heading) - velocity[:, 0] * np.sin(heading)
    late = VELOCITY_LAG * np.abs(turns) * speed
    across -= np.clip(across, -late, late)
    deviation = obstacles.deviations[drives, 1]
    noise = np.maximum(CHANGES_LANES, SIGNIFICANT * np.where(deviation < UNKNOWN, deviation, 0.0))
    across[comes & (np.abs(across) < noise)] = 0.0
    follows = (along > ALONG * speed) & (np.abs(across) < np.where(comes, CHANGES_LANES, MAX_ACROSS)) & (np.abs(e) < LANES)
    along, across, heading = along[follows], across[follows], heading[follows]
    velocities, turning = obstacles.velocities.copy(), obstacles.turn_rates.copy()
    velocities[drives[follows]] = np.column_stack([along * np.cos(heading) - across * np.sin(heading),
                                                   along * np.sin(heading) + across * np.cos(heading)])
    turning[drives[follows]] = turns[follows]
    return replace(obstacles, velocities=velocities, turns=turning)


# Following preceding traffic: distance at standstill [m], time gap [s], deceleration of the traffic [m/s^2], and largest speed difference
# for falling back [m/s]; the lane brake handles the rest.
FOLLOWING_GAP, FOLLOWING_TIME, LEADER_BRAKING, FALLING_BACK = 2.0, 0.5, 6.0, 2.0
# So near to the path's middle a vehicle keeps its lane: who follows there has to keep clear of it [m].
KEEPS_LANE = 0.5
BACKWARDS = -0.1  # [m/s] below which a vehicle reverses


def follows(detected: Obstacles, s: np.ndarray, e: np.ndarray, path: Path, own: Measured, outline: Footprint) -> np.ndarray:
    """Marks the obstacles (n,), at s, e (n,) [m] of the path, that drive along it behind the vehicle, in its track, and have to keep clear
    of it: it keeps its lane, or they could still stop behind it, should it brake as hard as they may. A vehicle that reverses has to keep
    clear itself. own: the vehicle's state."""
    course = path.at(s)[2]
    along = detected.velocities[:, 0] * np.cos(course) + detected.velocities[:, 1] * np.sin(course)
    here = PlanarState.of(own)
    (station,), (aside,) = path.project(np.array([here.x]), np.array([here.y]))
    gap = station - outline.rear - s - detected.radii - (own.time - detected.time) * along
    needed = FOLLOWING_TIME * along + 0.5 * (along**2 - here.vx**2) / LEADER_BRAKING
    in_track = (here.vx > BACKWARDS) & (along > DRIVES) & (gap > 0.0) & (np.abs(e - aside) - detected.radii < outline.half_width)
    return np.asarray(in_track & ((abs(aside) < KEEPS_LANE) | (gap > needed)))


class RelevantObstacles:
    """Latest detected obstacles: `detected`, all of them; `obstacles`, the relevant ones."""

    def __init__(self, outline: Footprint) -> None:
        """Makes an empty set. outline: of the vehicle."""
        self.outline = outline
        self.clear()

    def clear(self) -> None:
        """Clears all obstacles."""
        self.obstacles = self.detected = NO_OBSTACLES
        self._leaders = np.empty((2, 0))  # rear ends [m] and speeds [m/s] of preceding traffic along the path

    def following_speed(self, time: float, front: float, braking: float) -> float:
        """Returns the highest speed [m/s] at a time [s] of a vehicle with its front at `front` [m] along the path behind preceding traffic;
        inf without any.

        From it the vehicle stops with `braking` [m/s^2], after a time gap, behind traffic that brakes harder now (Shalev-Shwartz, Shammah &
        Shashua 2017, "On a formal model of safe and scalable self-driving cars", definition 1).
        """
        rear, speed = self._leaders
        ahead = rear > front  # at the detection time: passed traffic is not followed
        if not ahead.any():
            return math.inf
        rear, speed = rear[ahead] + (time - self.obstacles.time) * speed[ahead], speed[ahead]
        lost = braking * FOLLOWING_TIME
        distance = np.maximum(rear - front - FOLLOWING_GAP + 0.5 * speed**2 / LEADER_BRAKING, 0.0)
        return float(np.maximum(np.sqrt(lost**2 + 2.0 * braking * distance) - lost, speed - FALLING_BACK).min())

    def update_obstacles(self, obstacles: Obstacles, reference: Reference | None, own: Measured | None = None) -> None:
        """Sets the detected obstacles, a reference, and the vehicle's state, if known. Raises InputError for inconsistent shapes, a number
        that is not finite, or a negative radius; the previous obstacles stay."""
        o, n = obstacles, len(obstacles.radii)
        if o.centres.shape != (n, 2) or o.velocities.shape != (n, 2) or o.radii.shape != (n,):
            raise InputError(f"obstacles: centres {o.centres.shape}, radii {o.radii.shape} and velocities {o.velocities.shape} do not fit")
        if n and not (math.isfinite(o.time) and np.isfinite(o.centres).all() and np.isfinite(o.velocities).all()
                      and np.isfinite(o.radii).all() and (o.radii >= 0.0).all()):
            raise InputError("obstacles: a time, place, radius or velocity is not finite, or a radius is negative")
        self.detected = obstacles
        self.choose(reference, own)

    def choose(self, reference: Reference | None, own: Measured | None = None) -> None:
        """Selects the obstacles within the corridor, if there is one, which keeps the vehicle from the others, and none that follow the
        vehicle."""
        detected, self._leaders = self.detected, np.empty((2, 0))
        if reference is None or reference.corridor is None or not len(detected.radii):
            self.obstacles = detected
            return
        detected = along_lane(detected, reference)
        s, e = reference.path.project(detected.centres[:, 0], detected.centres[:, 1])
        in_path = np.flatnonzero(detected.moving & (np.abs(e) - detected.radii < self.outline.half_width))
        if len(in_path):
            course = reference.path.at(s[in_path])[2]
            along = detected.velocities[in_path, 0] * np.cos(course) + detected.velocities[in_path, 1] * np.sin(course)
            drives = along > DRIVES
            self._leaders = np.array([s[in_path] - detected.radii[in_path], along])[:, drives]
        left, right = reference.room_at(s)
        inside = (e - detected.radii < left - CORRIDOR_OVERLAP) & (e + detected.radii > CORRIDOR_OVERLAP - right)
        # A new detection beside the corridor may step into it.
        beside = (e - detected.radii < left + STEP_IN) & (e + detected.radii > -STEP_IN - right)
        counts = detected.may_move | inside | (beside & detected.tentative)
        self.obstacles = detected.where(counts if own is None else counts & ~follows(detected, s, e, reference.path, own, self.outline))
