"""Memory of observed places, and of stationary obstacles that are out of view now."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lfdm_ros.compiler.machine_code import INTEGER, POINTER
from lfdm_ros.compiler.native import addresses, native
from lfdm_ros.control.prediction import PlanarState
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.vehicles import Footprint, Mount

MAP_CELLS, BEARINGS = 120, 720  # of the map along each axis, and of a full turn
VISIBILITY_MEMORY = 60.0  # [s] for which a place out of view counts as free
RECALL_TIME = 180.0  # [s] for which obstacles out of view are remembered
# Distance [m] and time [s] within which a moving obstacle invalidates a place; lengths are those of a full-size vehicle, here and below.
NEAR_DISTANCE, NEAR_TIME = 1.0, 2.0
CALM_TIME = 5.0  # [s] without motion near a place before the vehicle reverses there
SURE_SHARE, SURE_CELLS = 0.9, 25.0  # of the range, and cells, within which an undetected obstacle is absent
SECTOR_EDGE = 0.15  # [rad] of the sector that may have been out of view at the time of the scan
FRONT = 0.5  # [m] before an obstacle's surface: place that must be in view to see the obstacle
SAME_PLACE = 0.3  # [m] within which a detection replaces a remembered obstacle
MAX_REMEMBERED = 1500
NUMBERS = 12


def look(view: np.ndarray, circles: np.ndarray, nearest: np.ndarray, observed_at: np.ndarray) -> int:
    """Writes the time into the cells (SEEN_CELLS, SEEN_CELLS) that are at least partly in view, or under the vehicle.

    Args:
        view: the map's corner x, y [m], cell [m], time [s], sensor x, y [m], range [m], middle and half of its sector [rad], and the
            vehicle's position x, y [m] and radius [m].
        circles: (n, 3) x, y, radius [m] of occluding obstacles; nearest: (BEARINGS,) work space.
    """
    unit = 2.0 * math.pi / BEARINGS
    nearest[:] = view[6]
    for n in range(len(circles)):
        dx, dy, r = circles[n, 0] - view[4], circles[n, 1] - view[5], circles[n, 2]
        away = math.hypot(dx, dy)
        if away <= r:
            continue
        middle, half = math.atan2(dy, dx), math.asin(r / away)
        for k in range(math.floor((middle - half) / unit), math.ceil((middle + half) / unit) + 1):
            nearest[k % BEARINGS] = min(nearest[k % BEARINGS], math.sqrt(max(away * away - r * r, 0.0)))
    for i in range(MAP_CELLS):
        for j in range(MAP_CELLS):
            x, y = view[0] + j * view[2], view[1] + i * view[2]
            if math.hypot(x - view[9], y - view[10]) < view[11]:
                observed_at[i, j] = view[3]
                continue
            dx, dy = x - view[4], y - view[5]
            bearing = math.atan2(dy, dx)
            off = bearing - view[7]
            off -= 2.0 * math.pi * math.floor(off / (2.0 * math.pi) + 0.5)
            if abs(off) <= view[8] and math.hypot(dx, dy) < nearest[math.floor(bearing / unit) % BEARINGS] + 0.5 * view[2]:
                observed_at[i, j] = view[3]
    return 0


class VisibilityMap:
    """Map of observed places, and of obstacles out of view. Without a clock: each call passes the time."""

    def __init__(self, outline: Footprint, cell: float) -> None:
        """Begins empty. cell: side of a cell [m]."""
        self._look = native("lfdm_ros.control.routing.manoeuvre_native", (POINTER, POINTER, INTEGER, POINTER, POINTER), INTEGER,
                            ("lfdm_ros.control.routing.reverse_search", "lfdm_ros.control.routing.visibility_map"), "look")
        self._nearest, self._outline, self._cell = np.empty(BEARINGS), outline, cell
        self.clear()

    def configure(self, outline: Footprint, cell: float) -> None:
        """Sets outline and cell size; a new cell size clears the map."""
        self._outline = outline
        if self._cell != cell:
            self._cell = cell
            self.clear()

    def clear(self) -> None:
        """Clears the map."""
        self._observed_at = np.full((MAP_CELLS, MAP_CELLS), -math.inf)
        self._corner: np.ndarray | None = None  # of the first cell's middle [m]
        self._things = np.empty((0, 4))  # x, y, radius [m], and time of the last view [s]
        self._came = np.full_like(self._observed_at, -math.inf)  # last time of motion near a cell, present or predicted [s]
        self.looked = -math.inf  # time of the last update [s]

    @property
    def corner(self) -> tuple[float, float]:
        """Middle of the first cell [m]."""
        assert self._corner is not None
        return float(self._corner[0]), float(self._corner[1])

    def look(self, now: float, pose: PlanarState, sensor: np.ndarray, sight: float, obstacles: Obstacles) -> None:
        """Updates the map with the present view.

        Args:
            sensor: its place (2,) [m]; sight: its range [m], and the most of a second one's; obstacles: now.
        """
        self._move_to(pose)
        assert self._corner is not None
        self.looked = now
        moving, o = obstacles.moving, self._outline
        circles = np.ascontiguousarray(np.column_stack([obstacles.centres, obstacles.radii]))
        views = [(sensor, *(obstacles.sector or (0.0, math.pi)), sight)]
        if obstacles.second_view is not None:
            x, y, middle, half, reach = obstacles.second_view
            views.append((Mount(x, y).place(pose.x, pose.y, pose.yaw), middle, half, min(sight, reach)))
        ahead, hidden = 0.5 * (o.front - o.rear), self._things[now - self._things[:, 3] < RECALL_TIME]
        for place, middle, half, reach in views:
            view = np.array([*self._corner, self._cell, now, *place, reach, pose.yaw + middle, half, pose.x + ahead * math.cos(pose.yaw),
                             pose.y + ahead * math.sin(pose.yaw), math.hypot(0.5 * (o.front + o.rear), o.half_width)])
            self._look(*addresses(view, circles, len(circles), self._nearest, self._observed_at))
            hidden = self._out_of_view(hidden, place, reach, pose.yaw + middle, half)
        self._forget_near(now, obstacles.where(moving))
        still = circles[~moving]
        # Hidden ones stay as last detected completely: a surface that leaves the sector is detected only in part.
        apart = np.hypot(still[:, 0, None] - hidden[:, 0], still[:, 1, None] - hidden[:, 1])
        still = still[~(apart < self._outline.scale * SAME_PLACE).any(axis=1)]
        self._things = np.concatenate([np.column_stack([still, np.full(len(still), now)]), hidden])[:MAX_REMEMBERED]

    def _move_to(self, pose: PlanarState) -> None:
        """Moves the map so that the vehicle stays in its middle half."""
        size = MAP_CELLS * self._cell
        here = np.array([pose.x, pose.y])
        if self._corner is not None and (np.abs(here - self._corner - 0.5 * size) < 0.25 * size).all():
            return
        corner = self._cell * np.rint(here / self._cell) - 0.5 * size
        shift = [MAP_CELLS] * 2 if self._corner is None else np.rint((corner - self._corner) / self._cell).astype(int).tolist()
        self._observed_at, self._came, self._corner = _shifted(self._observed_at, shift), _shifted(self._came, shift), corner

    def _forget_near(self, now: float, moving: Obstacles) -> None:
        """Marks the places that moving obstacles may reach, and clears those out of view."""
        if not len(moving.radii):
            return
        assert self._corner is not None
        centres = (moving.centres + moving.shifts(now - moving.time + np.linspace(0.0, NEAR_TIME, 5))).reshape(-1, 2)
        reach = np.tile(moving.radii, 5) + self._outline.scale * NEAR_DISTANCE
        span = self._corner[:, None] + self._cell * np.arange(MAP_CELLS)
        for (x, y), r in zip(centres.tolist(), reach.tolist()):
            i, j = np.flatnonzero(np.abs(span[1] - y) < r), np.flatnonzero(np.abs(span[0] - x) < r)
            if len(i) and len(j):
                window = slice(i[0], i[-1] + 1), slice(j[0], j[-1] + 1)
                near = np.hypot(span[0][j] - x, (span[1][i] - y)[:, None]) < r
                self._came[window][near] = now
                self._observed_at[window][near & (self._observed_at[window] < now)] = -math.inf

    def _out_of_view(self, things: np.ndarray, sensor: np.ndarray, sight: float, middle: float, half_sector: float) -> np.ndarray:
        """Returns those of remembered obstacles (n, 4) that were not completely in the last view, in a sector about `middle` [rad]."""
        if not len(things):
            return things
        to = things[:, :2] - sensor
        away = np.maximum(np.hypot(*to.T), 1e-6)
        near = away < 0.5 * MAP_CELLS * self._cell  # others lie outside of the search
        things, to, away = things[near], to[near], away[near]
        reach = np.maximum(away - things[:, 2] - self._outline.scale * FRONT, 0.0)
        # Test both edges and the middle: a partly visible obstacle is detected in part.
        half = np.arcsin(np.minimum(things[:, 2] / away, 1.0))
        bearings = np.arctan2(to[:, 1], to[:, 0]) + np.array([-1.0, 0.0, 1.0])[:, None] * half
        off = np.abs(np.remainder(bearings - middle + math.pi, 2.0 * math.pi) - math.pi)
        places = np.floor(bearings * (BEARINGS / (2.0 * math.pi))).astype(int) % BEARINGS
        # At a larger distance beams may miss it.
        nearby = away - things[:, 2] < min(SURE_SHARE * sight, SURE_CELLS * self._cell)
        in_sector = ((off < half_sector - SECTOR_EDGE) | (half_sector >= math.pi)).all(axis=0)
        in_view = nearby & in_sector & (self._nearest[places] >= reach).all(axis=0)
        return np.asarray(things[~in_view])

    def recall(self, now: float, obstacles: Obstacles) -> Obstacles:
        """Adds remembered obstacles that are out of view."""
        remembered = self._things[self._things[:, 3] < self.looked]
        if not len(remembered):
            return obstacles
        found = obstacles.with_standing(remembered[:, :2], remembered[:, 2])
        return found if len(obstacles.radii) else replace(found, time=now)

    def is_calm(self, now: float, places: np.ndarray) -> np.ndarray:
        """Checks for no recent or predicted motion near places (n, 2) [m]: (n,)."""
        if self._corner is None:
            return np.ones(len(places), bool)
        j, i = np.clip(np.rint((places - self._corner) / self._cell).astype(int), 0, MAP_CELLS - 1).T
        return np.asarray(now - self._came[i, j] >= CALM_TIME)

    def places(self, now: float) -> np.ndarray:
        """Returns a mask of the cells (SEEN_CELLS, SEEN_CELLS) that were free when last in view."""
        return now - self._observed_at < VISIBILITY_MEMORY


def _shifted(cells: np.ndarray, by: list[int]) -> np.ndarray:
    """Returns the cells of a map after a shift of its corner by columns and rows."""
    moved = np.full_like(cells, -math.inf)
    if max(map(abs, by)) < MAP_CELLS:
        columns, rows = (slice(max(d, 0), MAP_CELLS + min(d, 0)) for d in by)
        to_columns, to_rows = (slice(max(-d, 0), MAP_CELLS + min(-d, 0)) for d in by)
        moved[to_rows, to_columns] = cells[rows, columns]
    return moved
