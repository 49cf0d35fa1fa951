"""Obstacles and the vehicle's clearance from them: circles and polygons with piecewise constant velocity.

Without Shapely: its distance is 0 for overlapping shapes, whose depth is needed here, and its validity checks do not name the faulty corner
or edges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from lfdm_ros.bounds import require, require_array
from lfdm_ros.errors import InputError, quote, suggest
from lfdm_ros.numerics import dot, matmul
from lfdm_ros.vehicles.body import Footprint


@dataclass(frozen=True)
class ObstacleKind:
    """Properties for sensors: height above the ground [m], colour (red, green, blue) in 0 to 255, mean radar cross-section at 77 GHz
    [m^2]."""

    height: float
    colour: tuple[int, int, int]
    cross_section: float


# Cross-sections are orders of magnitude, means over aspects that differ by 10 dB and more: about -8 dBsm of a pedestrian, -1 of a bicycle
# with its rider, 10 of a car. Measured at 77 GHz: pedestrians by Fortuny-Guasch and Chareau (EUR 25762 EN, 2013), cars by Silberling et al.
# (DRI-TM-14-70-1, 2014), bicycles by Belgiovane and Chen (doi 10.1109/TITS.2016.2642889). The others are assumptions.
OBSTACLE_KINDS: dict[str, ObstacleKind] = {
    "": ObstacleKind(1.6, (190, 90, 40), 5.0),
    "car": ObstacleKind(1.5, (60, 80, 150), 10.0),
    "van": ObstacleKind(2.4, (205, 205, 200), 20.0),
    "pedestrian": ObstacleKind(1.75, (180, 60, 70), 0.16),
    "cyclist": ObstacleKind(1.8, (70, 130, 90), 0.8),
    "cone": ObstacleKind(0.75, (235, 95, 20), 0.05),
    "post": ObstacleKind(1.2, (230, 220, 90), 0.5),
    "tree": ObstacleKind(6.0, (70, 90, 50), 1.0),
    "rock": ObstacleKind(1.0, (120, 115, 105), 0.3),
    "wall": ObstacleKind(3.0, (150, 140, 130), 30.0)}


FAR = 1e6  # [m] offset of an obstacle that is not present


@dataclass(frozen=True)
class Pose:
    """Initial pose and speed of the vehicle: x, y [m], yaw [rad], forward speed [m/s]. Raises InputError for impossible values."""

    x: float = 0.0
    y: float = 0.0
    yaw: float = 0.0
    speed: float = 0.0

    def __post_init__(self) -> None:
        require_possible(self, "x", "y", "yaw", "speed")


@dataclass(frozen=True)
class Goal:
    """A position to reach within a tolerance [m]; `stop`: with standstill there. Raises InputError: not finite, or not positive."""

    x: float
    y: float
    tolerance: float = 3.0
    stop: bool = False

    def __post_init__(self) -> None:
        require_possible(self, "x", "y", "tolerance")
        if self.tolerance <= 0.0:
            raise InputError(f"tolerance is {self.tolerance:g} m; give more than 0")


@dataclass(frozen=True, eq=False)
class GoalState:
    """A region of goal states: one of `areas`, corners (n, 2) [m] each, or any position without areas, with limits of time [s], forward
    speed [m/s] and yaw [rad]."""

    areas: tuple[np.ndarray, ...] = ()
    time: tuple[float, float] = (-math.inf, math.inf)
    speed: tuple[float, float] = (-math.inf, math.inf)
    yaw: tuple[float, float] = (-math.inf, math.inf)

    def holds(self, time: float, x: float, y: float, yaw: float, speed: float) -> bool:
        """Checks a time [s], position [m], yaw [rad] and speed [m/s]; the tolerance of time is 0.5 ms."""
        if not (self.time[0] - 5e-4 <= time <= self.time[1] + 5e-4 and self.speed[0] <= speed <= self.speed[1]):
            return False
        middle, half = 0.5 * (self.yaw[0] + self.yaw[1]), 0.5 * (self.yaw[1] - self.yaw[0])
        if math.isfinite(half) and abs(math.remainder(yaw - middle, math.tau)) > half:
            return False
        return not self.areas or any(bool(contains(area, np.array([x, y]))) for area in self.areas)


class MotionStep(NamedTuple):
    """Part of an obstacle's motion from `time` [s] until the next one: velocity [m/s], and rotation of its outline about the mean of its
    corners since time 0 [rad], + left."""

    time: float
    vx: float
    vy: float
    turned: float = 0.0


@dataclass(frozen=True)
class Circle:
    """An obstacle: centre [m] at time 0, radius [m], velocity [m/s], its kind of `OBSTACLE_KINDS`, `steps` that change the velocity, and
    the times [s] from and until which it is `present`. Raises InputError: not finite, no radius, an unknown kind, steps without increasing
    times above 0, or never present."""

    x: float
    y: float
    radius: float
    vx: float = 0.0
    vy: float = 0.0
    name: str = ""
    kind: str = ""
    steps: tuple[MotionStep, ...] = ()
    present: tuple[float, float] = (0.0, math.inf)

    def __post_init__(self) -> None:
        _require_motion(self)
        require_possible(self, "x", "y", "radius", "vx", "vy")
        if self.radius <= 0.0:
            raise InputError(f"radius is {self.radius:g} m; give more than 0")


@dataclass(frozen=True, eq=False)
class Polygon:
    """An obstacle: corners (n, 2) [m] at time 0 in either direction, closed implicitly, velocity [m/s], its kind of `OBSTACLE_KINDS`, and
    `steps` that change velocity and heading; may be concave. present: as of a circle. Raises InputError: fewer than 3 corners, one that is
    not finite or repeats, edges that cross or touch, an unknown kind, steps without increasing times above 0, or never present."""

    vertices: np.ndarray
    vx: float = 0.0
    vy: float = 0.0
    name: str = ""
    kind: str = ""
    steps: tuple[MotionStep, ...] = ()
    present: tuple[float, float] = (0.0, math.inf)

    def __post_init__(self) -> None:
        _require_motion(self)
        require_possible(self, "vx", "vy")
        try:
            vertices = np.array(self.vertices, float)
        except (TypeError, ValueError):
            raise InputError("corners must be numbers, [x, y] each") from None
        if vertices.ndim != 2 or vertices.shape[1:] != (2,) or len(vertices) < 3:
            raise InputError(f"a polygon has at least 3 corners [x, y], found an array of shape {vertices.shape}")
        require_array("x", vertices, "corner")
        _check_simple(vertices)
        vertices.setflags(write=False)
        object.__setattr__(self, "vertices", vertices)


@dataclass(frozen=True)
class World:
    """Moving obstacles without collisions among them."""

    obstacles: tuple[Circle | Polygon, ...] = ()
    _circles: np.ndarray = field(init=False, repr=False, compare=False)  # (nc, 3): x, y at time 0, radius
    _edges: np.ndarray = field(init=False, repr=False, compare=False)  # (2, ne, 2): starts and ends at time 0
    _circle_owners: np.ndarray = field(init=False, repr=False, compare=False)  # (nc,) indices in `obstacles`
    _polygon_owners: np.ndarray = field(init=False, repr=False, compare=False)  # (np,)
    _edge_owners: np.ndarray = field(init=False, repr=False, compare=False)  # (ne,)
    _first_edges: np.ndarray = field(init=False, repr=False, compare=False)  # (np,) indices of the polygons' first edges
    _parts: tuple[tuple[np.ndarray, ...], ...] = field(init=False, repr=False, compare=False)  # convex parts of each polygon
    _centres: np.ndarray = field(init=False, repr=False, compare=False)  # (n, 2) of rotation
    # Of n obstacles with at most k steps: their start times (n, k), padded with inf; in each step, 0 before the first, the shift at time t
    # is offset + t velocity.
    _begins: np.ndarray = field(init=False, repr=False, compare=False)
    _velocities: np.ndarray = field(init=False, repr=False, compare=False)  # (n, k + 1, 2)
    _offsets: np.ndarray = field(init=False, repr=False, compare=False)  # (n, k + 1, 2)
    _turned: np.ndarray = field(init=False, repr=False, compare=False)  # (n, k + 1)

    def __post_init__(self) -> None:
        obstacles = tuple(self.obstacles)
        circles = [(i, o) for i, o in enumerate(obstacles) if isinstance(o, Circle)]
        polygons = [(i, o) for i, o in enumerate(obstacles) if isinstance(o, Polygon)]
        starts = [p.vertices for _, p in polygons]
        sizes = [len(corners) for corners in starts]
        begins, velocities, offsets, turned = _steps(obstacles)
        for name, value in {
            "obstacles": obstacles,
            "_circles": np.array([(c.x, c.y, c.radius) for _, c in circles], float).reshape(-1, 3),
            "_edges": np.array([np.concatenate([np.empty((0, 2)), *ends]) for ends in
                                (starts, [np.roll(corners, -1, axis=0) for corners in starts])]),
            "_circle_owners": np.array([i for i, _ in circles], dtype=np.int64),
            "_polygon_owners": np.array([i for i, _ in polygons], dtype=np.int64),
            "_edge_owners": np.repeat(np.array([i for i, _ in polygons], dtype=np.int64), sizes),
            "_first_edges": np.cumsum([0, *sizes], dtype=np.int64)[:len(sizes)],
            "_parts": tuple(tuple(convex_parts(p.vertices)) for _, p in polygons),
            "_centres": np.array([(o.x, o.y) if isinstance(o, Circle) else o.vertices.mean(axis=0) for o in obstacles]).reshape(-1, 2),
            "_begins": begins, "_velocities": velocities, "_offsets": offsets, "_turned": turned,
        }.items():
            object.__setattr__(self, name, value)

    @property
    def fastest(self) -> float:
        """Maximum speed [m/s] of any obstacle at any time; infinite if one appears after time 0."""
        if any(o.present[0] > 0.0 for o in self.obstacles):
            return math.inf
        return float(np.hypot(self._velocities[..., 0], self._velocities[..., 1]).max(initial=0.0))

    def delayed(self, time: float) -> World:
        """Returns the world delayed by a time [s], with the initial motion before."""
        if time == 0.0:
            return self
        later: list[Circle | Polygon] = []
        for o in self.obstacles:
            begin, end = o.present
            back: dict[str, Any] = {"steps": tuple(step._replace(time=step.time + time) for step in o.steps),
                    "present": (begin + time if begin > 0.0 else 0.0, end + time)}
            if isinstance(o, Circle):
                later.append(replace(o, x=o.x - time * o.vx, y=o.y - time * o.vy, **back))
            else:
                later.append(replace(o, vertices=o.vertices - time * np.array([o.vx, o.vy]), **back))
        return World(tuple(later))

    def motion(self, time: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns shifts (n, 2) [m] since time 0, velocities (n, 2) [m/s] and rotations of the outlines (n,) [rad] at a time [s]."""
        rows, step = np.arange(len(self.obstacles)), (self._begins <= time).sum(axis=1)
        velocities = self._velocities[rows, step]
        return self._offsets[rows, step] + time * velocities, velocities, self._turned[rows, step]

    def place(self, points: np.ndarray, owners: np.ndarray | int, time: float) -> np.ndarray:
        """Moves points (..., m, 2) [m] of the obstacles with indices `owners` (m,) from time 0 to a time [s]."""
        shifts, _, turned = self.motion(time)
        if turned.any():
            centres = self._centres[owners]
            points = centres + turn(points - centres, turned[owners])
        return np.asarray(points + shifts[owners])

    def centre(self, index: int, time: float) -> np.ndarray:
        """Returns the centre of a circle or the mean of a polygon's corners (2,) [m] at a time [s]."""
        return np.asarray(self.place(self._centres[index][None], index, time)[0])

    def circles_at(self, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Returns centres (n, 2) at a time [s], and radii (n,) [m], of the circles."""
        return self.place(self._circles[:, :2], self._circle_owners, time), self._circles[:, 2]

    def edges_at(self, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Returns starts (n, 2) and ends (n, 2) [m] of the edges of all polygons at a time [s]."""
        starts, ends = self.place(self._edges, self._edge_owners, time)
        return starts, ends

    def polygons_at(self, time: float) -> list[np.ndarray]:
        """Returns corners (n, 2) [m] of each polygon at a time [s]."""
        return np.split(self.edges_at(time)[0], self._first_edges[1:]) if len(self._first_edges) else []

    def clearances(self, time: float, x: float, y: float, yaw: float, footprint: Footprint) -> np.ndarray:
        """Computes signed distances (n,) [m] of the vehicle's rectangle at a pose from the obstacles at a time [s], in their order.

        Exact if positive. An overlap is negative: minus the penetration depth (shortest separating shift); for a concave polygon, that of
        the most deeply penetrated convex part.
        """
        result = np.empty(len(self.obstacles))
        cos, sin = np.cos(yaw), np.sin(yaw)
        axes = np.array([[cos, -sin], [sin, cos]])  # transforms row vectors from world to vehicle axes
        half = np.array([0.5 * (footprint.front + footprint.rear), footprint.half_width])
        middle = np.array([x, y]) + 0.5 * (footprint.front - footprint.rear) * axes[:, 0]
        if len(self._circle_owners):
            centres, radii = self.circles_at(time)
            result[self._circle_owners] = _box_distance(matmul(centres - middle, axes), half) - radii
        if len(self._polygon_owners):
            start, end = self.edges_at(time)
            start, end = matmul(start - middle, axes), matmul(end - middle, axes)
            distances = _segment_box_distances(start, end, half)
            nearest = np.minimum.reduceat(distances, self._first_edges)
            # The rectangle's centre is inside of a polygon if a ray from it crosses an odd number of edges.
            spans = (start[:, 1] > 0.0) != (end[:, 1] > 0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                at = start[:, 0] - start[:, 1] * (end[:, 0] - start[:, 0]) / (end[:, 1] - start[:, 1])
            inside = np.add.reduceat((spans & (at > 0.0)).astype(np.int64), self._first_edges) % 2 == 1
            for k in np.flatnonzero((nearest <= 0.0) | inside):
                owner = int(self._polygon_owners[k])
                nearest[k] = min(0.0, *(_convex_separation(matmul(self.place(part, owner, time) - middle, axes), half)
                                        for part in self._parts[k]))
            result[self._polygon_owners] = nearest
        return result

    def clearance(self, time: float, x: float, y: float, yaw: float, footprint: Footprint) -> float:
        """Computes the signed distance [m] to the nearest obstacle, as `clearances`: 0 or less is a collision; inf without obstacles."""
        return float(np.min(self.clearances(time, x, y, yaw, footprint), initial=np.inf))

    def nearest(self, time: float, x: float, y: float, yaw: float, footprint: Footprint) -> str:
        """Returns the name of the obstacle of the smallest clearance, as `label`; empty without obstacles."""
        if not self.obstacles:
            return ""
        return self.label(int(np.argmin(self.clearances(time, x, y, yaw, footprint))))

    def label(self, index: int) -> str:
        """Returns the name of an obstacle, by default "obstacle INDEX"."""
        return self.obstacles[index].name or f"obstacle {index}"


# -- Motion -----------------------------------------------------------------------------------------------------------------


def turn(vectors: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Rotates vectors (..., 2) to the left by angles (...) [rad]."""
    cos, sin = np.cos(angles), np.sin(angles)
    return np.stack([cos * vectors[..., 0] - sin * vectors[..., 1], sin * vectors[..., 0] + cos * vectors[..., 1]], axis=-1)


def _steps(obstacles: Sequence[Circle | Polygon]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns `World._begins`, `_velocities`, `_offsets` and `_turned`."""
    motions = [_intervals(obstacle) for obstacle in obstacles]
    count, max_steps = len(obstacles), max((len(motion) - 1 for motion in motions), default=0)
    require("points", count * max_steps, "number of obstacles times that of the steps of one")
    begins, turned = np.full((count, max_steps), np.inf), np.zeros((count, max_steps + 1))
    velocities, offsets = np.zeros((2, count, max_steps + 1, 2))
    for i, motion in enumerate(motions):
        table = np.array(motion)
        begins[i, :len(motion) - 1] = table[1:, 0]
        velocities[i, :len(motion)], offsets[i, :len(motion)], turned[i, :len(motion)] = table[:, 1:3], table[:, 3:5], table[:, 5]
    return begins, velocities, offsets, turned


def _intervals(obstacle: Circle | Polygon) -> list[tuple[float, ...]]:
    """Returns rows of start [s], velocity [m/s], shift extrapolated to time 0 [m], and rotation [rad]; an obstacle that is not present is
    FAR away."""
    rows: list[tuple[float, ...]] = [(-math.inf, obstacle.vx, obstacle.vy, 0.0, 0.0, 0.0)]
    for time, vx, vy, angle in obstacle.steps:
        _, ux, uy, x, y, _ = rows[-1]
        rows.append((time, vx, vy, x + time * (ux - vx), y + time * (uy - vy), angle))
    begin, end = obstacle.present
    if begin > 0.0:
        k = sum(row[0] <= begin for row in rows)
        rows = [(-math.inf, 0.0, 0.0, FAR, 0.0, 0.0), (begin, *rows[k - 1][1:]), *rows[k:]]
    if end < math.inf:
        rows = [*(row for row in rows if row[0] < end), (end, 0.0, 0.0, FAR, 0.0, 0.0)]
    return rows


def _require_motion(obstacle: Circle | Polygon) -> None:
    if obstacle.kind not in OBSTACLE_KINDS:
        kinds = tuple(filter(None, OBSTACLE_KINDS))
        raise InputError(f"kind {quote(obstacle.kind)} is unknown{suggest(obstacle.kind, kinds, 'there are: ')}")
    require_steps(obstacle.steps)
    if not obstacle.present[0] < obstacle.present[1]:
        raise InputError(f"present is {quote(list(obstacle.present))}; give the time from which on and a later one until which it is there "
                         "[s]")


def require_steps(steps: Sequence[MotionStep], where: str = "motion") -> None:
    """Raises InputError: an impossible number, or times that do not increase."""
    before = 0.0
    for k, step in enumerate(steps):
        require_array("x", np.array(step, float), f"{where}: row {k}")
        for name in ("vx", "vy"):
            require(name, getattr(step, name), f"{where}: row {k}: {name}")
        if step.time <= before:
            raise InputError(f"{where}: row {k} begins at {step.time:g} s; times must rise, from above 0")
        before = step.time


# -- Geometry ---------------------------------------------------------------------------------------------------------------


def contains(outline: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Marks points (..., 2) inside of an outline (n, 2), by the number of edges crossed by a ray."""
    start, end = outline, np.roll(outline, -1, axis=0)
    x, y = points[..., 0, None], points[..., 1, None]
    spans = (start[:, 1] > y) != (end[:, 1] > y)
    with np.errstate(divide="ignore", invalid="ignore"):
        at = start[:, 0] + (y - start[:, 1]) * (end[:, 0] - start[:, 0]) / (end[:, 1] - start[:, 1])
    return np.asarray((spans & (at < x)).sum(axis=-1) % 2 == 1)


def _box_distance(points: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Computes signed distances (n,) of points (n, 2) from the rectangle [-half, half]: negative inside."""
    beyond = np.abs(points) - half
    outside = np.maximum(beyond, 0.0)
    distance: np.ndarray = np.hypot(outside[:, 0], outside[:, 1]) + np.minimum(beyond.max(axis=1), 0.0)
    return distance


def _segment_box_distances(start: np.ndarray, end: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Computes distances (n,) of segments from the rectangle [-half, half]; 0 if they intersect."""
    along = end - start
    # The nearest points include an end of the segment or a corner of the rectangle.
    corners = half * np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
    apart = corners[None] - start[:, None]  # (n, 4, 2)
    part = np.clip(dot(apart, along[:, None]) / dot(along, along)[:, None], 0.0, 1.0)
    gap = apart - part[..., None] * along[:, None]
    distances = np.minimum(np.hypot(gap[..., 0], gap[..., 1]).min(axis=1), np.maximum(_box_distance(start, half), 0.0))
    distances = np.minimum(distances, np.maximum(_box_distance(end, half), 0.0))
    # They intersect if no axis separates them: the rectangle's two, or the segment's normal.
    normal = np.column_stack([-along[:, 1], along[:, 0]])
    meets = (np.minimum(start, end) <= half).all(axis=1) & (np.maximum(start, end) >= -half).all(axis=1)
    meets &= np.abs(dot(normal, start)) <= dot(np.abs(normal), half)
    return np.where(meets, 0.0, distances)


def _convex_separation(vertices: np.ndarray, half: np.ndarray) -> float:
    """Computes the largest gap between a convex polygon (n, 2) and the rectangle [-half, half] over the normals of both; if they overlap,
    minus the penetration depth (separating axis theorem)."""
    along = np.roll(vertices, -1, axis=0) - vertices
    area = float(np.sum(vertices[:, 0] * np.roll(vertices[:, 1], -1) - vertices[:, 1] * np.roll(vertices[:, 0], -1)))
    outward = np.column_stack([along[:, 1], -along[:, 0]]) * np.sign(area) / np.hypot(along[:, 0], along[:, 1])[:, None]
    gaps = -dot(outward, vertices) - dot(np.abs(outward), half)  # along the polygon's normals
    return float(max(gaps.max(), (vertices.min(axis=0) - half).max(), (-half - vertices.max(axis=0)).max()))


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])


def _check_simple(vertices: np.ndarray) -> None:
    """Raises InputError: a corner repeats, or edges cross or touch."""
    n = len(vertices)
    following = np.roll(vertices, -1, axis=0)
    along = following - vertices
    if (np.abs(along).max(axis=1) == 0.0).any():
        raise InputError(f"corner {int(np.argmin(np.abs(along).max(axis=1)))} of the polygon repeats; leave it out once")
    for i in range(n):
        turned = _cross(along[i], along[(i + 1) % n])
        if turned == 0.0 and along[i] @ along[(i + 1) % n] < 0.0:
            raise InputError(f"the polygon folds back at corner {(i + 1) % n}; give its outline once around")
        for j in range(i + 2, n if i else n - 1):
            if _segments_meet(vertices[i], following[i], vertices[j], following[j]):
                raise InputError(f"edges {i} and {j} of the polygon meet; give its corners in order around the outline")


def _segments_meet(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> bool:
    sides = (_cross(b - a, c - a), _cross(b - a, d - a), _cross(d - c, a - c), _cross(d - c, b - c))
    if sides[0] * sides[1] > 0.0 or sides[2] * sides[3] > 0.0:
        return False
    # Collinear segments may still be apart.
    return bool((np.minimum(a, b) <= np.maximum(c, d)).all() and (np.minimum(c, d) <= np.maximum(a, b)).all())


def convex_parts(vertices: np.ndarray) -> list[np.ndarray]:
    """Returns a simple polygon (n, 2) itself if it is convex, otherwise its triangulation (3, 2) by ear clipping."""
    area = float(np.sum(_cross(vertices, np.roll(vertices, -1, axis=0))))
    remaining = list(vertices if area > 0.0 else vertices[::-1])
    corners = np.array(remaining)
    along = np.roll(corners, -1, axis=0) - corners
    if (_cross(along, np.roll(along, -1, axis=0)) >= 0.0).all():
        return [corners]
    triangles = []
    while (n := len(remaining)) > 3:
        for i in range(n):
            a, b, c = remaining[i - 1], remaining[i], remaining[(i + 1) % n]
            turned = _cross(b - a, c - b)
            others = [p for k, p in enumerate(remaining) if k not in ((i - 1) % n, i, (i + 1) % n)]
            if turned == 0.0:  # a corner on a straight line: no triangle
                del remaining[i]
                break
            if turned > 0.0 and not any(_cross(b - a, p - a) >= 0 and _cross(c - b, p - b) >= 0 and _cross(a - c, p - c) >= 0
                                        for p in others):
                triangles.append(np.array([a, b, c]))
                del remaining[i]
                break
        else:
            raise InputError("the polygon's corners are too close to each other; leave some out")
    return [*triangles, np.array(remaining)]


def require_possible(record: object, *names: str) -> None:
    """Raises InputError unless these fields are finite numbers within `lfdm_ros.bounds`."""
    values = {name: getattr(record, name) for name in names}
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)) or not np.isfinite(value):
            raise InputError(f"{name} is {quote(value)}; give a finite number")
    for name, value in values.items():
        require(name, value)
