"""A way to a goal that may change direction: hybrid A* over places and headings on a map of circles.

A state is the pose of the rear axle; it moves along arcs of constant steering, forwards and in reverse. One state is kept for each cell and
heading (Dolgov, Thrun, Montemerlo & Diebel 2010, "Path planning for autonomous vehicles in unknown semi-structured environments"). The
cost that is left is bounded by the way of a point round the obstacles, from Dijkstra's search from the goal. A goal has no heading, so an
arc and a straight, the shortest forward way of Dubins 1957 to a point, closes the search where it is free; curves that end in a heading,
as those of Reeds & Shepp 1990, are not needed.

All lengths scale with the vehicle's. The search runs in slices of a number of states: it takes the same ones on each machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lfdm_ros.compiler.machine_code import INTEGER, POINTER, REAL
from lfdm_ros.compiler.native import addresses, native
from lfdm_ros.vehicles import Footprint

CELLS, HEADINGS = 240, 48  # of the map along each axis, and of a full turn
CELL = 0.1  # of the vehicle's length
FINE = 2  # cells of the field of distances along a cell
STEP = 1.7  # [cells] length of an arc: it leaves a cell, and a heading
PARTS = 3  # places of an arc that are checked
STEERINGS = 5  # from full right to full left
DISCS, EDGE = 4, 0.08  # discs that cover the vehicle; spacing of places along its outline, of its length
POINT_SHARE = 0.8  # of half the width: circles reach farther than the things that they cover
TOLERANCE_SHARE = 0.7  # of the goal's: what is left is for the way that is driven
CURVATURE_SHARE = 0.88  # of the tightest circle: the rest is for the steering to correct with
REVERSE_COST, SWITCH_LENGTH, BEND_COST, STEERING_COST, CLOSE_COST = 1.6, 1.0, 0.15, 0.25, 1.5  # for a length; a change of
# direction costs lengths of the vehicle, and one of the steering from straight ahead to full lock this share of one
COMFORT = 0.15  # of the length: nearer to things the way costs more
GREED = 1.2  # weight of what is left
MAX_STATES = 150_000
LIMIT = 0.5  # of the length, largest distance in the field
FAR = 1e9
SHOT_EVERY = 8  # states
APPROACH = 0.02  # [m] so much nearer than at the start counts as no nearer, for a full-size vehicle
NEAR_START = 0.8  # of the length: so near to the start the vehicle may be as close to things as it is there


class Outcome(IntEnum):
    """State of a search."""

    SEARCHING = 0
    FOUND = 1
    CLOSED = 2  # there is no way on the map
    EXHAUSTED = 3  # none was found within MAX_STATES


class SearchProblem(NamedTuple):
    """The numbers of a search."""

    cell: float  # [m]
    rear: float  # of the rear axle behind the position point [m]
    curvature: float  # tightest [1/m]
    length: float  # of the vehicle [m]
    half: float  # width [m]
    back: float  # of the rear end behind the rear axle [m]
    radius: float  # of the discs that cover the vehicle [m]
    x0: float = 0.0  # the map's corner [m]
    y0: float = 0.0
    start_x: float = 0.0  # of the rear axle [m, rad]
    start_y: float = 0.0
    start_yaw: float = 0.0
    goal_x: float = 0.0  # of the position point [m]
    goal_y: float = 0.0
    tolerance: float = 0.0  # [m]
    inside: float = 0.0  # 1: the goal is on the map
    margin: float = 0.0  # to things [m]
    start_margin: float = 0.0  # the same near the start


NODES, HEAP, TAKEN, LAST, SHOT, UNSEEN, COUNTERS = range(7)  # of a search: LAST is its last node, SHOT the side of the arc from there


# -- Loops, which are compiled -------------------------------------------------------------------------------------------


def clearances(circles: np.ndarray, x0: float, y0: float, cell: float, limit: float, field: np.ndarray) -> int:
    """Fills a field (rows, columns) with distances [m] to circles (n, 3) x, y, radius, at most `limit`."""
    rows, columns = field.shape
    field[:] = limit
    for n in range(len(circles)):
        x, y, reach = (circles[n, 0] - x0) / cell, (circles[n, 1] - y0) / cell, (circles[n, 2] + limit) / cell
        for i in range(max(0, math.ceil(y - reach)), min(rows, math.floor(y + reach) + 1)):
            for j in range(max(0, math.ceil(x - reach)), min(columns, math.floor(x + reach) + 1)):
                field[i, j] = min(field[i, j], cell * math.hypot(j - x, i - y) - circles[n, 2])
    return 0


def push(keys: np.ndarray, items: np.ndarray, count: int, key: float, item: int) -> None:
    """Adds an item to a heap of `count`."""
    k = count
    while k > 0:
        above = (k - 1) // 2
        if keys[above] <= key:
            break
        keys[k], items[k] = keys[above], items[above]
        k = above
    keys[k], items[k] = key, item


def pop(keys: np.ndarray, items: np.ndarray, count: int) -> int:
    """Returns the item of the least key of a heap of `count`, and takes it out."""
    first: int = items[0]
    key, item = keys[count - 1], items[count - 1]
    k, last = 0, count - 1
    while True:
        below = 2 * k + 1
        if below >= last:
            break
        if below + 1 < last and keys[below + 1] < keys[below]:
            below += 1
        if keys[below] >= key:
            break
        keys[k], items[k] = keys[below], items[below]
        k = below
    keys[k], items[k] = key, item
    return first


def lead(p: SearchProblem, field: np.ndarray, keys: np.ndarray, items: np.ndarray, left: np.ndarray) -> int:
    """Fills `left` (CELLS, CELLS) with the cost of a point's way to the goal [m], FAR where there is none.

    The point keeps a little less than half the vehicle's width from things. A goal off the map is reached across the map's edge.
    """
    cell, tight = p.cell, POINT_SHARE * p.half
    left[:] = FAR
    gx, gy = (p.goal_x - p.x0) / cell, (p.goal_y - p.y0) / cell
    count = 0
    if p.inside > 0.0:
        # The places within the goal's tolerance.
        reach = max(p.tolerance / cell, 1.0)
        for i in range(max(0, int(gy - reach)), min(CELLS, int(gy + reach) + 2)):
            for j in range(max(0, int(gx - reach)), min(CELLS, int(gx + reach) + 2)):
                if math.hypot(j - gx, i - gy) <= reach and field[FINE * i, FINE * j] > tight:
                    left[i, j] = cell * math.hypot(j - gx, i - gy)
                    push(keys, items, count, left[i, j], i * CELLS + j)
                    count += 1
    else:
        for k in range(CELLS):
            for i, j in ((0, k), (CELLS - 1, k), (k, 0), (k, CELLS - 1)):
                if field[FINE * i, FINE * j] > tight:
                    left[i, j] = cell * math.hypot(j - gx, i - gy)
                    push(keys, items, count, left[i, j], i * CELLS + j)
                    count += 1
    while count > 0:
        key, at = keys[0], pop(keys, items, count)
        count -= 1
        i, j = at // CELLS, at % CELLS
        if key > left[i, j]:
            continue
        for di in range(-1, 2):
            for dj in range(-1, 2):
                r, c = i + di, j + dj
                if 0 <= r < CELLS and 0 <= c < CELLS and (di != 0 or dj != 0) and field[FINE * r, FINE * c] > tight:
                    close = max(1.0 - (field[FINE * r, FINE * c] - p.half) / (COMFORT * p.length), 0.0)
                    cost = key + cell * (1.0 if di == 0 or dj == 0 else 1.4142135623730951) * (1.0 + CLOSE_COST * min(close, 1.0))
                    if cost < left[r, c] and count < len(keys):
                        left[r, c] = cost
                        push(keys, items, count, cost, r * CELLS + c)
                        count += 1
    return 0


def distance_at(p: SearchProblem, field: np.ndarray, x: float, y: float) -> float:
    """Returns the distance of a place to things [m], interpolated."""
    most = FINE * (CELLS - 1) - 0.001
    u, v = min(max((x - p.x0) * FINE / p.cell, 0.0), most), min(max((y - p.y0) * FINE / p.cell, 0.0), most)
    j, i = int(u), int(v)
    u, v = u - j, v - i
    distance: float = ((1.0 - v) * ((1.0 - u) * field[i, j] + u * field[i, j + 1])
                       + v * ((1.0 - u) * field[i + 1, j] + u * field[i + 1, j + 1]))
    return distance


def room(p: SearchProblem, shape: np.ndarray, field: np.ndarray, x: float, y: float, yaw: float) -> float:
    """Returns the distance of the vehicle, its rear axle at x, y [m], yaw [rad], to things [m].

    Discs that cover it are looked at first, and where one of them is near to something, places along its outline, as far apart as the
    margin allows: nothing gets in without passing the outline.
    """
    c, t = math.cos(yaw), math.sin(yaw)
    least = FAR
    for k in range(len(shape)):
        if k == DISCS and least - p.radius >= COMFORT * p.length:
            return least - p.radius
        if k == DISCS:
            least = FAR
        least = min(least, distance_at(p, field, x + shape[k, 0] * c - shape[k, 1] * t, y + shape[k, 0] * t + shape[k, 1] * c))
    return least


def needed(p: SearchProblem, x: float, y: float) -> float:
    """Returns the distance [m] to keep at a place of the rear axle [m]."""
    near = math.hypot(x - p.start_x, y - p.start_y) < NEAR_START * p.length
    return min(p.margin, p.start_margin) if near else p.margin


def is_observed(p: SearchProblem, observed: np.ndarray, x: float, y: float, yaw: float) -> bool:
    """Checks that the places at the rear end of the vehicle were observed: its corners, and between them."""
    cell, c, t = p.cell, math.cos(yaw), math.sin(yaw)
    for side in (-1.0, 0.0, 1.0):
        px = x - p.back * c - side * p.half * t
        py = y - p.back * t + side * p.half * c
        i, j = int((py - p.y0) / cell + 0.5), int((px - p.x0) / cell + 0.5)
        if not (0 <= i < CELLS and 0 <= j < CELLS) or observed[i, j] == 0:
            return False
    return True


def shot(p: SearchProblem, x: float, y: float, yaw: float, side: int) -> tuple[float, float]:
    """Returns angle [rad] of an arc to one side, and length [m] of the straight behind it, that bring the position point to the goal;
    a negative length where they do not."""
    radius = 1.0 / p.curvature
    dx = p.goal_x - (x - side * radius * math.sin(yaw))
    dy = p.goal_y - (y + side * radius * math.cos(yaw))
    away = math.hypot(dx, dy)
    if away <= radius:
        return 0.0, -1.0
    # The tangent from the circle to the goal.
    course = math.atan2(dy, dx) + side * math.asin(radius / away)
    turn = side * (course - yaw)
    turn -= 2.0 * math.pi * math.floor(turn / (2.0 * math.pi))
    return turn, math.sqrt(away * away - radius * radius) - p.rear


def is_shot_free(p: SearchProblem, shape: np.ndarray, field: np.ndarray, x: float, y: float, yaw: float, side: int) -> bool:
    """Checks that the arc and the straight to the goal are free."""
    turn, straight = shot(p, x, y, yaw, side)
    if straight < 0.0 or turn > 1.2 * math.pi:
        return False
    bend, every = p.curvature, p.cell
    arc = turn / bend
    count = int((arc + straight) / every) + 1
    for k in range(1, count + 1):
        s = (arc + straight) * k / count
        along = min(s, arc)
        psi = yaw + side * bend * along
        px = x + side * (math.sin(psi) - math.sin(yaw)) / bend + (s - along) * math.cos(psi)
        py = y - side * (math.cos(psi) - math.cos(yaw)) / bend + (s - along) * math.sin(psi)
        if room(p, shape, field, px, py, psi) < needed(p, px, py):
            return False
    return True


def prepare(p: SearchProblem, shape: np.ndarray, circles: np.ndarray, field: np.ndarray, keys: np.ndarray, items: np.ndarray,
            left: np.ndarray) -> float:
    """Fills the field and `left`; returns the room at the start [m]."""
    clearances(circles, p.x0, p.y0, p.cell / FINE, LIMIT * p.length, field)
    lead(p, field, keys, items, left)
    return room(p, shape, field, p.start_x, p.start_y, p.start_yaw)


def expand(p: SearchProblem, counters: np.ndarray, shape: np.ndarray, field: np.ndarray, left: np.ndarray, observed: np.ndarray,
           best: np.ndarray, nodes: np.ndarray, links: np.ndarray, keys: np.ndarray, items: np.ndarray, most: int) -> int:
    """Takes the next `most` states.

    Args:
        shape: (n, 2) places ahead and to the left of the rear axle [m], of the discs, then of the outline; field: as
            `clearances`; left: as `lead`; observed: (CELLS, CELLS), 0 where the vehicle may not back.
        best: (HEADINGS, CELLS, CELLS) node of each state, -1: none; nodes: (n, 4) x, y [m], yaw [rad] of the rear axle, cost [m]; links:
            (n, 4) its parent, direction, 1 when it is done, and steering; keys, items: the heap.
    """
    cell, bend, step = p.cell, p.curvature, STEP * p.cell
    for _ in range(most):
        if counters[HEAP] == 0:
            return 2
        at = pop(keys, items, counters[HEAP])
        counters[HEAP] -= 1
        if links[at, 2] == 1:
            continue
        links[at, 2] = 1
        counters[TAKEN] += 1
        x, y, yaw, cost, going = nodes[at, 0], nodes[at, 1], nodes[at, 2], nodes[at, 3], links[at, 1]
        ahead_x, ahead_y = x + p.rear * math.cos(yaw), y + p.rear * math.sin(yaw)
        edge = min(min(ahead_x - p.x0, ahead_y - p.y0),
                   (CELLS - 1) * cell - max(ahead_x - p.x0, ahead_y - p.y0))
        if p.inside > 0.0:
            arrived = math.hypot(ahead_x - p.goal_x, ahead_y - p.goal_y) < p.tolerance
        else:
            arrived = edge < p.length
        if arrived:
            counters[LAST] = at
            return 1
        if p.inside > 0.0 and counters[TAKEN] % SHOT_EVERY == 1 and going >= 0:
            for side in (1, -1):
                if is_shot_free(p, shape, field, x, y, yaw, side):
                    counters[LAST], counters[SHOT] = at, side
                    return 1
        for direction in (1, -1):
            for steering in range(STEERINGS):
                curvature = bend * (2.0 * steering / (STEERINGS - 1) - 1.0)
                px, py, psi, close, free = x, y, yaw, 0.0, True
                for _part in range(PARTS):
                    h = direction * step / PARTS
                    middle = psi + 0.5 * h * curvature
                    px, py, psi = px + h * math.cos(middle), py + h * math.sin(middle), psi + h * curvature
                    distance = room(p, shape, field, px, py, psi)
                    if distance < needed(p, px, py):
                        free = False
                        break
                    close += max(1.0 - distance / (COMFORT * p.length), 0.0) / PARTS
                if not free:
                    continue
                if direction < 0 and not is_observed(p, observed, px, py, psi):
                    counters[UNSEEN] += 1
                    continue
                i, j = int((py - p.y0) / cell + 0.5), int((px - p.x0) / cell + 0.5)
                if not (0 <= i < CELLS and 0 <= j < CELLS):
                    continue
                qx, qy = px + p.rear * math.cos(psi), py + p.rear * math.sin(psi)
                r, c = int((qy - p.y0) / cell + 0.5), int((qx - p.x0) / cell + 0.5)
                if not (0 <= r < CELLS and 0 <= c < CELLS) or left[r, c] >= FAR:
                    continue
                length = step * (1.0 + BEND_COST * abs(curvature) / bend + CLOSE_COST * close) * (REVERSE_COST if direction < 0 else 1.0)
                total = cost + length + STEERING_COST * p.length * abs(curvature / bend - 2.0 * links[at, 3] / (STEERINGS - 1) + 1.0)
                if going * direction < 0:
                    total += SWITCH_LENGTH * p.length
                turn = psi / (2.0 * math.pi)
                a = int((turn - math.floor(turn)) * HEADINGS) % HEADINGS
                node = best[a, i, j]
                if node >= 0 and (links[node, 2] == 1 or nodes[node, 3] <= total):
                    continue
                if counters[NODES] >= len(nodes) or counters[HEAP] >= len(keys):
                    return 3
                node = counters[NODES]
                counters[NODES] += 1
                best[a, i, j] = node
                nodes[node, 0], nodes[node, 1], nodes[node, 2], nodes[node, 3] = px, py, psi, total
                links[node, 0], links[node, 1], links[node, 2], links[node, 3] = at, direction, 0, steering
                push(keys, items, counters[HEAP], total + GREED * left[r, c], node)
                counters[HEAP] += 1
    return 0


# -- The search ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Leg:
    """A part of a way in one direction: poses (n, 3) of the position point x, y [m], yaw [rad], their distances along it s (n,) [m]."""

    poses: np.ndarray
    s: np.ndarray
    reverse: bool


_MODULE = "lfdm_ros.control.routing.manoeuvre_native"
_SOURCES = ("lfdm_ros.control.routing.reverse_search", "lfdm_ros.control.routing.visibility_map")


class ReverseSearch:
    """Finds a way with changes of direction from a pose to a goal, on a map of CELLS by CELLS."""

    def __init__(self, outline: Footprint, rear: float, tightest: float) -> None:
        """Prepares for a vehicle. rear: of the rear axle behind the position point [m]; tightest: curvature at full lock [1/m]."""
        self.length = outline.front + outline.rear
        self.cell, self.rear, self.outcome = CELL * self.length, rear, Outcome.CLOSED
        self._approach = outline.scale * APPROACH
        half = 0.5 * self.length / DISCS
        ahead = rear - outline.rear + half * (2.0 * np.arange(DISCS) + 1.0)
        self._shape = np.concatenate([np.column_stack([ahead, np.zeros(DISCS)]), _outline(outline, rear, EDGE * self.length)])
        self._problem = SearchProblem(self.cell, rear, CURVATURE_SHARE * tightest, self.length, outline.half_width, outline.rear - rear,
                                math.hypot(half, outline.half_width))
        self._counters = np.zeros(COUNTERS, np.int64)
        self._prepare = native(_MODULE, (POINTER, POINTER, INTEGER, POINTER, INTEGER, *(POINTER,) * 4), REAL, _SOURCES, "prepare")
        self._expand = native(_MODULE, (POINTER, POINTER, POINTER, INTEGER, *(POINTER,) * 6, INTEGER, POINTER, POINTER, INTEGER, INTEGER),
                              INTEGER, _SOURCES, "expand")
        self._best: np.ndarray | None = None  # it and the other tables are made when they are needed first

    @property
    def states(self) -> int:
        """Number of states that were taken."""
        return int(self._counters[TAKEN])

    @property
    def ends_unseen(self) -> bool:
        """True where paths ended behind the vehicle at places that were never observed."""
        return bool(self._counters[UNSEEN])

    def begin(self, pose: tuple[float, float, float], goal: tuple[float, float], tolerance: float, circles: np.ndarray, margin: float,
              observed: np.ndarray, corner: tuple[float, float]) -> None:
        """Begins a search.

        Args:
            pose: of the position point [m, rad]; goal: for it [m]; tolerance: about the goal [m].
            circles: (n, 3) x, y, radius [m]; margin: distance to keep from them [m], near the start as much as there is.
            observed: (CELLS, CELLS) 0 where the vehicle may not back; corner: the middle of the map's first cell [m].
        """
        if self._best is None:
            self._best, self._left = np.empty((HEADINGS, CELLS, CELLS), np.int32), np.empty((CELLS, CELLS))
            self._field = np.empty((FINE * CELLS, FINE * CELLS), np.float32)
            self._nodes, self._links = np.empty((MAX_STATES, 4)), np.empty((MAX_STATES, 4), np.int32)
            self._keys, self._items = np.empty(8 * CELLS * CELLS), np.empty(8 * CELLS * CELLS, np.int64)
        (x, y, yaw), last = pose, (CELLS - 1) * self.cell
        start = x - self.rear * math.cos(yaw), y - self.rear * math.sin(yaw)
        inside = all(self.length < g - c < last - self.length for g, c in zip(goal, corner))
        self._observed, table = np.ascontiguousarray(observed, np.uint8), np.ascontiguousarray(circles, float)
        p = self._problem = self._problem._replace(
            x0=corner[0], y0=corner[1], start_x=start[0], start_y=start[1], start_yaw=yaw, goal_x=goal[0], goal_y=goal[1],
            tolerance=max(TOLERANCE_SHARE * tolerance, 0.5 * self.cell), inside=float(inside), margin=margin)
        room_here = self._prepare(*addresses(np.array(p), self._shape, len(self._shape), table, len(table), self._field, self._keys,
                                             self._items, self._left))
        self._problem = p._replace(start_margin=room_here - self._approach)
        self._best[:], self._counters[:] = -1, 0
        self._nodes[0], self._links[0] = (*start, yaw, 0.0), (-1, 0, 0, STEERINGS // 2)
        self._counters[[NODES, HEAP]], self._keys[0], self._items[0] = 1, 0.0, 0
        i, j = (round((p - c) / self.cell) for p, c in zip((y, x), corner[::-1]))
        open_here = self._left[max(i - 1, 0):i + 2, max(j - 1, 0):j + 2].min(initial=FAR) < FAR
        self.outcome = Outcome.SEARCHING if open_here else Outcome.CLOSED

    def advance(self, states: int) -> Outcome:
        """Takes some more states."""
        if self.outcome is Outcome.SEARCHING:
            assert self._best is not None
            self.outcome = Outcome(self._expand(*addresses(
                np.array(self._problem), self._counters, self._shape, len(self._shape), self._field, self._left, self._observed, self._best,
                self._nodes, self._links, MAX_STATES, self._keys, self._items, len(self._keys), states)))
        return self.outcome

    def legs(self) -> list[Leg]:
        """Returns the way that was found, in the order in which it is driven."""
        at, chain = int(self._counters[LAST]), []
        while at >= 0:
            chain.append(at)
            at = int(self._links[at, 0])
        nodes, directions = self._nodes[chain[::-1], :3], self._links[chain[::-1], 1]
        places, going = [nodes[:1]], [np.zeros(0, int)]
        step = STEP * self.cell
        for begin, end, direction in zip(nodes, nodes[1:], directions[1:].tolist()):
            places.append(_arc(begin, (end[2] - begin[2]) / (direction * step), direction * step * (np.arange(PARTS) + 1.0) / PARTS))
            going.append(np.full(PARTS, direction))
        side = int(self._counters[SHOT])
        if side:
            bend = self._problem.curvature
            turn, straight = shot(self._problem, float(nodes[-1, 0]), float(nodes[-1, 1]), float(nodes[-1, 2]), side)
            for curvature, length in ((side * bend, turn / bend), (0.0, straight)):
                count = max(math.ceil(length * PARTS / step), 1)
                places.append(_arc(places[-1][-1], curvature, length * (np.arange(count) + 1.0) / count))
                going.append(np.full(count, 1))
        return self._parted(np.concatenate(places), np.concatenate(going))

    def _parted(self, rear_poses: np.ndarray, going: np.ndarray) -> list[Leg]:
        """Returns legs from poses (n, 3) of the rear axle and the direction (n - 1,) from each to the next."""
        x, y, yaw = rear_poses.T
        poses, legs = np.column_stack([x + self.rear * np.cos(yaw), y + self.rear * np.sin(yaw), yaw]), []
        changes = np.flatnonzero(np.diff(going)) + 1
        for begin, end in zip([0, *changes], [*changes, len(going)]):
            if end > begin:
                s = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(rear_poses[begin:end + 1, :2], axis=0).T))])
                legs.append(Leg(poses[begin:end + 1], s, bool(going[begin] < 0)))
        return legs


def _outline(outline: Footprint, rear: float, spacing: float) -> np.ndarray:
    """Returns places (n, 2) along an outline, ahead and to the left of the rear axle [m]."""
    front, back, half = rear + outline.front, rear - outline.rear, outline.half_width
    corners = np.array([[front, half], [back, half], [back, -half], [front, -half], [front, half]])
    sides = []
    for begin, end in pairwise(corners):
        count = math.ceil(float(np.hypot(*(end - begin))) / spacing)
        sides.append(begin + (end - begin) * (np.arange(count) / count)[:, None])
    return np.concatenate(sides)


def _arc(begin: np.ndarray, curvature: float, s: np.ndarray) -> np.ndarray:
    """Returns poses (n, 3) at distances s (n,) [m], below 0 in reverse, on an arc from a pose (3,)."""
    x, y, yaw = begin
    half = 0.5 * s * curvature
    chord = s * np.sinc(half / math.pi)
    return np.column_stack([x + chord * np.cos(yaw + half), y + chord * np.sin(yaw + half), yaw + 2.0 * half])
