"""Generators of test courses: lane changes, slalom, a bend, obstacle fields, moving obstacles, a dead end; pure functions, SI.

All start at the origin along x and return a `Course`; scenario files select them by `course: {kind: ..., ...}`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lfdm_ros.bounds import BOUNDS, require
from lfdm_ros.errors import InputError
from lfdm_ros.simulation.world import Circle, Goal, GoalState, Polygon, Pose

CONE_RADIUS = 0.15  # [m] base of a traffic cone of 500 mm, the minimum height of ISO 3888-2
SPACING = 0.5  # [m] of a reference path
# Vehicle of an obstacle field, a slalom and a dead end: width, and length before its position point [m].
VEHICLE_WIDTH, VEHICLE_FRONT = 2.2, 2.4
RADII = (0.5, 2.5)  # [m] of the obstacles of a field
# Feasible stop: deceleration [m/s^2], latency of scan and brake [s], remaining distance to the obstacle [m].
FAIR_BRAKING, FAIR_LATENCY, FAIR_ROOM = 5.0, 0.5, 2.0
MIN_GAP = 0.5  # [m] of a dense field


@dataclass(frozen=True, eq=False)
class Course:
    """Result of a generator; the fields are those of `Scenario`."""

    initial: Pose
    speed: float
    duration: float
    obstacles: tuple[Circle | Polygon, ...]
    goal: Goal | None = None
    path: np.ndarray | None = None
    corridor: np.ndarray | None = None
    goal_states: tuple[GoalState, ...] = ()


@dataclass(frozen=True)
class Lane:
    """A straight section between cones: from `start` to `end` along x, centre line at y = `centre`, `width` [m]."""

    start: float
    end: float
    centre: float
    width: float

    @property
    def left(self) -> float:
        return self.centre + 0.5 * self.width

    @property
    def right(self) -> float:
        return self.centre - 0.5 * self.width


# -- Along a path -----------------------------------------------------------------------------------------------------------


def iso_3888_1(vehicle_width: float, speed: float, offset: float = 3.5, approach: float = 30.0) -> Course:
    """Returns the double lane change of ISO 3888-1:2018, to the left and back; section 1 starts at x = approach.

    With b the vehicle's width: section 1 15 m long and 1.1 b + 0.25 m wide, 30 m to change, section 3 25 m and 1.2 b + 0.25 m, 25 m to
    change, section 5 15 m and 1.3 b + 0.25 m. `offset` [m] between the centre lines of sections 1 and 3; the right limits of sections 1 and
    5 are aligned.
    """
    _positive(vehicle_width=vehicle_width, speed=speed, offset=offset, approach=approach)
    first, second, third = (share * vehicle_width + 0.25 for share in (1.1, 1.2, 1.3))
    return _lane_change(vehicle_width, speed, approach, (15.0, 30.0, 25.0, 25.0, 15.0), (first, second, third),
                        (0.0, offset, 0.5 * (third - first)))


def iso_3888_2(vehicle_width: float, speed: float, approach: float = 30.0) -> Course:
    """Returns the severe lane change of ISO 3888-2:2011 (obstacle avoidance), to the left and back; section 1 starts at x = approach.

    Table 1 of the standard, b the vehicle's width without mirrors: section 1 12 m long and 1.1 b + 0.25 m wide, 13.5 m to change, section
    3 11 m and b + 1 m, 12.5 m to change, section 5 12 m and 1.3 b + 0.25 m, at least 3 m; 61 m in total. Section 3 lies 1 m to the left of
    section 1; the right limits of sections 1 and 5 are aligned.
    """
    _positive(vehicle_width=vehicle_width, speed=speed, approach=approach)
    first, second, third = 1.1 * vehicle_width + 0.25, vehicle_width + 1.0, max(1.3 * vehicle_width + 0.25, 3.0)
    return _lane_change(vehicle_width, speed, approach, (12.0, 13.5, 11.0, 12.5, 12.0), (first, second, third),
                        (0.0, 0.5 * first + 1.0 + 0.5 * second, 0.5 * (third - first)))


def nato_lane_change(vehicle_width: float, vehicle_length: float, speed: float, offset: float = 3.5, approach: float = 30.0) -> Course:
    """Returns the double lane change of NATO AVTP 03-160 W (dynamic stability, 1991), to the left and back; section 1 starts at x =
    approach.

    Sections of 15, 25 and 15 m, each change within the vehicle's length + 24 m; with b the vehicle's width, the middle section is
    1.2 b + 0.25 m wide, the others 1.1 b + 0.25 m. Lengths and widths agree with the FED alpha's course in Project Chrono (2.28 m wide,
    28.6 m for a change). `offset` [m] between the centre lines: 3.5 here; courses with 3.6 (Chrono's for the HMMWV) and 3.9 m exist.
    """
    _positive(vehicle_width=vehicle_width, vehicle_length=vehicle_length, speed=speed, offset=offset, approach=approach)
    narrow, change = 1.1 * vehicle_width + 0.25, vehicle_length + 24.0
    return _lane_change(vehicle_width, speed, approach, (15.0, change, 25.0, change, 15.0),
                        (narrow, 1.2 * vehicle_width + 0.25, narrow), (0.0, offset, 0.0))


def slalom(speed: float, spacing: float = 30.0, cones: int = 8, margin: float = 0.75) -> Course:
    """Returns cones in line, `spacing` [m] apart, passed on alternate sides, the first on its left, `margin` [m] from the vehicle."""
    _positive(speed=speed, spacing=spacing, margin=margin)
    if cones < 2:
        raise InputError(f"cones is {cones}; give 2 or more")
    require("obstacles", cones, "cones")
    amplitude = 0.5 * VEHICLE_WIDTH + CONE_RADIUS + margin
    first, last = 2.0 * spacing, (cones + 1.0) * spacing
    x = _along(last + 2.0 * spacing)
    fade = _smooth_step((x - first) / spacing + 1.0) * _smooth_step((last - x) / spacing + 1.0)
    y = amplitude * fade * np.cos(np.pi * (x - first) / spacing)
    room = amplitude + 0.5 * VEHICLE_WIDTH + 2.0
    obstacles = tuple(Circle(first + k * spacing, 0.0, CONE_RADIUS, name=f"cone {k + 1}") for k in range(cones))
    path, corridor = _path_and_corridor(x, y, np.full_like(x, room), np.full_like(x, -room))
    return _driven(speed, obstacles, path, corridor)


def curve(speed: float, radius: float, angle: float = 0.5 * math.pi, width: float = 6.0, approach: float = 60.0) -> Course:
    """Returns a bend to the left of a radius [m] through an angle [rad], in a lane of a width [m], with straights of `approach` [m] before
    and after it. The curvature rises and falls over a quarter of the bend each, for continuous steering."""
    _positive(speed=speed, radius=radius, angle=angle, width=width, approach=approach)
    if angle > math.pi:
        raise InputError(f"angle is {angle:g} rad; give up to pi")
    bend = angle * radius / 0.75  # the ramps of the curvature turn half as much as the arc between them
    s = _along(bend + 2.0 * approach)
    ramp = 0.25 * bend
    curvature = _smooth_step((s - approach) / ramp) * _smooth_step((approach + bend - s) / ramp) / radius
    step = np.diff(s)
    yaw = np.concatenate([[0.0], np.cumsum(0.5 * step * (curvature[1:] + curvature[:-1]))])
    middle = 0.5 * (yaw[1:] + yaw[:-1])
    path = np.column_stack([np.concatenate([[0.0], np.cumsum(step * turn(middle))]) for turn in (np.cos, np.sin)])
    room = np.full_like(s, 0.5 * width)
    return _driven(speed, (), path, np.column_stack([s, room, room]))


def _lane_change(vehicle_width: float, speed: float, approach: float, lengths: Sequence[float], widths: Sequence[float],
                 centres: Sequence[float]) -> Course:
    """Builds a lane change: `lengths` of section, change, section, change, section; `widths` and `centres` of the three sections."""
    starts = (approach + np.concatenate([[0.0], np.cumsum(lengths)])).tolist()
    lanes = [Lane(starts[2 * k], starts[2 * k + 1], centres[k], widths[k]) for k in range(3)]
    x = _along(starts[-1] + approach)
    y = np.zeros_like(x)
    for one, other in itertools.pairwise(lanes):
        # The change begins and ends within the lanes, using half of the room beside the vehicle, which halves the curvature.
        step = abs(other.centre - one.centre)
        grid = np.linspace(0.0, 0.4, 401)
        room = 0.5 * 0.5 * (min(one.width, other.width) - vehicle_width)
        part = float(np.interp(room, step * _smooth_step(grid), grid))
        gap = other.start - one.end
        early = min(part / (1.0 - 2.0 * part) * gap, 0.5 * (one.end - one.start), 0.5 * (other.end - other.start))
        y += (other.centre - one.centre) * _smooth_step((x - one.end + early) / (gap + 2.0 * early))
    # Lateral limits: the lanes', and between them the outer ones of both neighbours; 2 m more before and after. They open within 1 m, from
    # a point of the path beyond the lane's end, to clear the corners of the lane.
    pairs = itertools.pairwise(lanes)
    free = [(lanes[0].left + 2.0, lanes[0].right - 2.0), *((max(a.left, b.left), min(a.right, b.right)) for a, b in pairs),
            (lanes[2].left + 2.0, lanes[2].right - 2.0)]
    at, left, right = [], [], []
    for lane, before, after in zip(lanes, free, free[1:]):
        at += [lane.start - 1.0 - SPACING, lane.start - SPACING, lane.end + SPACING, lane.end + 1.0 + SPACING]
        left += [before[0], lane.left, lane.left, after[0]]
        right += [before[1], lane.right, lane.right, after[1]]
    path, corridor = _path_and_corridor(x, y, np.interp(x, at, left), np.interp(x, at, right))
    cones = []
    for k, lane in enumerate(lanes):
        for place in (lane.start, 0.5 * (lane.start + lane.end), lane.end):
            # The limits are tangents of the cones' base circles.
            cones += [Circle(place, lane.left + CONE_RADIUS, CONE_RADIUS, name=f"cone of section {2 * k + 1}, left"),
                      Circle(place, lane.right - CONE_RADIUS, CONE_RADIUS, name=f"cone of section {2 * k + 1}, right")]
    return _driven(speed, tuple(cones), path, corridor)


def _driven(speed: float, obstacles: tuple[Circle | Polygon, ...], path: np.ndarray, corridor: np.ndarray) -> Course:
    return Course(Pose(speed=speed), speed, 2.0 * float(corridor[-1, 0]) / speed + 5.0, obstacles, path=path, corridor=corridor)


def _along(length: float) -> np.ndarray:
    return np.linspace(0.0, length, int(np.ceil(length / SPACING)) + 1)


def _smooth_step(part: np.ndarray) -> np.ndarray:
    """Computes a step from 0 at 0 to 1 at 1 with two continuous derivatives."""
    u = np.clip(part, 0.0, 1.0)
    share: np.ndarray = u ** 3 * (10.0 + u * (6.0 * u - 15.0))
    return share


def _path_and_corridor(x: np.ndarray, y: np.ndarray, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the points (n, 2) and rows of s and the room to limits along x, measured perpendicular to the path."""
    path = np.column_stack([x, y])
    steps = np.hypot(np.diff(x), np.diff(y))
    cos = 1.0 / np.hypot(1.0, np.gradient(y, x))
    return path, np.column_stack([np.concatenate([[0.0], np.cumsum(steps)]), (left - y) / cos, (y - right) / cos])


# -- To a goal --------------------------------------------------------------------------------------------------------------


def least_gap(speed: float, times: float = 1.0) -> float:
    """Returns the minimum gap [m] between any two obstacles of a field for a speed [m/s].

    In a field of `times` the density it shrinks with the mean distance of the obstacles' centres, by the root of `times` (mean diameter
    3 m), down to 0.5 m: in dense fields some gaps are too narrow for the vehicle.
    """
    gap = 4.0 + 0.35 * speed
    return gap if times <= 1.0 else max((gap + 3.0) / math.sqrt(times) - 3.0, MIN_GAP)


def fair_start(speed: float) -> float:
    """Returns the free distance from the vehicle's position point to the first obstacle of a dense field [m].

    It allows a stop from `speed` [m/s] at 5 m/s^2 after 0.5 s, 2 m before the obstacle. Without it, a field may be impossible.
    """
    return VEHICLE_FRONT + FAIR_LATENCY * speed + 0.5 * speed * speed / FAIR_BRAKING + FAIR_ROOM


def obstacle_field(speed: float, length: float, seed: int = 1, density: float | None = None, width: float = 50.0,
                   times: float = 1.0) -> Course:
    """Makes random circles and polygons before a goal straight ahead at `length` [m]; the vehicle starts at `speed` [m/s].

    Radii 0.5 to 2.5 m, a quarter of them polygons of 4 to 6 corners in a circle of that size. Any two are `least_gap(speed, times)` apart,
    so with `times` 1 the vehicle fits between any two; about every 120 m one lies on the straight line. The first 10 m + 2 s and the last
    10 m + 1 s of driving are free of obstacles' centres. `density` [1/m^2]; None: a quarter of a square lattice of obstacles of 1.5 m with
    that gap. The field is `width` [m] wide.

    `times` multiplies the number of obstacles on the same area. Above 1 the first `fair_start` metres are free as well, so that immediate
    braking at 5 m/s^2 avoids a collision; a path through the field is not guaranteed. Raises InputError: a value is not positive, the field
    is too short for the speed, or too dense.
    """
    _positive(speed=speed, length=length, width=width, times=times)
    if seed < 0:
        raise InputError(f"seed is {seed}; give 0 or more")
    gap = least_gap(speed, times)
    density = 0.25 / (least_gap(speed) + 3.0) ** 2 if density is None else density
    _positive(density=density)
    density *= times
    begin, end = 10.0 + 2.0 * speed, length - 10.0 - speed
    if times > 1.0:
        begin = max(begin, fair_start(speed) + RADII[1])
    if end - begin < 10.0:
        raise InputError(f"length is {length:g} m; an obstacle field for {speed:g} m/s needs at least {begin + 20.0 + speed:.0f} m")
    random = np.random.default_rng(seed)
    blocks = max(1, round(length / 120.0))
    requested = density * (end - begin) * width
    require("obstacles", requested, "number of obstacles")
    count = max(blocks, round(requested))
    placed = np.empty((0, 3))
    for k in range(count):
        for _ in range(500):
            radius = random.uniform(*RADII)
            if k < blocks:
                # One in each block, centred within half the vehicle's width of the straight line.
                x, y = begin + (end - begin) * (k + random.uniform()) / blocks, random.uniform(-0.5, 0.5) * VEHICLE_WIDTH
            else:
                x, y = random.uniform(begin, end), random.uniform(-0.5, 0.5) * width
            if (np.hypot(placed[:, 0] - x, placed[:, 1] - y) - placed[:, 2] - radius >= gap).all():
                placed = np.vstack([placed, [x, y, radius]])
                break
        else:
            raise InputError(f"density is {density:g} 1/m^2: only {k} of {count} obstacles have room {gap:.1f} m apart; give less")
    obstacles: list[Circle | Polygon] = []
    for k, (x, y, radius) in enumerate(placed.tolist()):
        if random.uniform() < 0.25:
            corners = int(random.integers(4, 7))
            angles = 2.0 * np.pi * (np.arange(corners) + random.uniform(-0.25, 0.25, corners) + random.uniform()) / corners
            outline = np.array([x, y]) + radius * np.column_stack([np.cos(angles), np.sin(angles)])
            obstacles.append(Polygon(outline, name=f"polygon {k}"))
        else:
            obstacles.append(Circle(x, y, radius, name=f"circle {k}"))
    return _towards(Goal(length, 0.0), speed, tuple(obstacles))


def moving_obstacle(speed: float, length: float = 200.0, crossing_speed: float = 2.0, oncoming_speed: float = 5.0) -> Course:
    """Returns two moving circles before a goal straight ahead, on collision course with a vehicle that drives straight on at `speed` [m/s].

    One crosses from the left, for a collision at 40 % of the length, one is oncoming, at 70 %.
    """
    _positive(speed=speed, length=length, crossing_speed=crossing_speed, oncoming_speed=oncoming_speed)
    crossing, meeting = 0.4 * length, 0.7 * length
    obstacles = (Circle(crossing, crossing_speed * crossing / speed, 1.0, vy=-crossing_speed, name="crossing"),
                 Circle(meeting + oncoming_speed * meeting / speed, 0.5, 1.2, vx=-oncoming_speed, name="oncoming"))
    return _towards(Goal(length, 0.0), speed, obstacles)


def dead_end(speed: float, approach: float = 60.0, depth: float = 30.0, width: float = 12.0, way_round: bool = False) -> Course:
    """Returns a U of walls, open to the vehicle, `approach` [m] ahead, `width` wide and `depth` deep [m]; the goal is 15 m behind its end.

    Without `way_round` further walls enclose the goal: it cannot be reached, and the vehicle has to stop before the wall.
    """
    _positive(speed=speed, approach=approach, depth=depth, width=width)
    if width < 2.0 * VEHICLE_WIDTH:
        raise InputError(f"width is {width:g} m; give at least {2.0 * VEHICLE_WIDTH:g} m, so that the vehicle can drive in")
    wall, goal, half = 0.5, approach + depth + 15.0, 0.5 * width
    end = approach + depth
    walls = [_box(approach, end, half, half + wall, "left wall"), _box(approach, end, -half - wall, -half, "right wall"),
             _box(end, end + wall, -half - wall, half + wall, "end wall")]
    if not way_round:
        back = goal + 15.0
        walls += [_box(end + wall, back, half, half + wall, "left wall of the pen"),
                  _box(end + wall, back, -half - wall, -half, "right wall of the pen"),
                  _box(back, back + wall, -half - wall, half + wall, "back wall of the pen")]
    return _towards(Goal(goal, 0.0), speed, tuple(walls))


def _towards(goal: Goal, speed: float, obstacles: tuple[Circle | Polygon, ...]) -> Course:
    return Course(Pose(speed=speed), speed, 3.0 * goal.x / speed + 10.0, obstacles, goal=goal)


def _box(x0: float, x1: float, y0: float, y1: float, name: str) -> Polygon:
    return Polygon(np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]), name=name)


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not (np.isfinite(value) and value > 0.0):
            raise InputError(f"{name} is {value:g}; give more than 0")
        quantity = "speed" if name.endswith("speed") else "length"
        require(name if name in BOUNDS else quantity, value, name)


COURSES: dict[str, Callable[..., Course]] = {
    make.__name__: make for make in (iso_3888_1, iso_3888_2, nato_lane_change, slalom, curve, obstacle_field, moving_obstacle, dead_end)}
