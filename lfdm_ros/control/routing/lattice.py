"""Path from the vehicle towards its goal by dynamic programming over a lattice.

Its frame has x from the vehicle to the goal; a state is a lateral offset and a slope, a step leads to the next station. Cost is length,
curvature (limited by grip and by the tightest circle), proximity to obstacles, and distance from the previous route, so that noise does not
change sides.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from lfdm_ros.compiler.machine_code import INTEGER, POINTER
from lfdm_ros.compiler.native import native
from lfdm_ros.control.routing.routes import Route, RouteCurve, Scene, Search, joined, straight
from lfdm_ros.errors import InputError
from lfdm_ros.numerics import dot, matmul, solve
from lfdm_ros.parameters import Declared, Exposed, setting

MAX_OFFSETS = 1000


@dataclass(frozen=True)
class LatticeSettings(Declared):
    """Extent of the lattice, and its weights. Raises InputError: a value is out of its range; the message names it."""

    ABOUT = "lattice: "

    horizon: float = setting(120.0, "m", "length of the lattice", 5.0, 1000.0, power=1)
    side: float = setting(30.0, "m", "half width of the lattice, to each side of the line to the goal", 1.0, 500.0, power=1)
    offset_step: float = setting(0.5, "m", "spacing of the lateral offsets", 0.02, 10.0, power=1)
    slopes: int = setting(10, "1", "slopes to each side; the steepest is this many offset steps a station", 1, 50)
    shortest_station: float = setting(4.0, "m", "smallest length of a station", 0.2, 100.0, power=1)
    longest_station: float = setting(10.0, "m", "largest length of a station", 0.2, 100.0, power=1)
    station_time: float = setting(0.4, "s", "driving time of a station, within the two limits above", 0.05, 5.0)
    lateral_acceleration: float = setting(4.0, "m/s^2", "largest on a route", 0.1, 20.0)
    braking: float = setting(3.0, "m/s^2", "deceleration before a curve further ahead", 0.1, 20.0)
    smallest_radius: float = setting(10.0, "m", "tightest comfortable circle", 0.1, 100.0, power=1)
    turning_speed: float = setting(7.0, "m/s", "speed of turning round", 0.1, 50.0, power=1)
    goal_tolerance: float = setting(1.0, "m", "largest distance of a route's end from the goal", 0.01, 50.0, power=1)
    curvature_weight: float = setting(3.0, "1", "cost per metre at the curvature limit", 0.001, 1e3)
    deviation_weight: float = setting(0.15, "1", "cost per metre at deviation_cap or more from the previous route", 0.001, 1e3)
    deviation_cap: float = setting(2.0, "m", "distance from the previous route beyond which the cost is constant", 0.01, 50.0, power=1)
    scale: float = setting(1.0, "1", "size of the vehicle against a full-size one; see `fitted`", 1e-3, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.longest_station < self.shortest_station:
            raise InputError("lattice: longest_station is below shortest_station; give at least that")
        if 2.0 * self.side / self.offset_step > MAX_OFFSETS:
            raise InputError(f"lattice: side over offset_step is {self.side / self.offset_step:g}; give at most {MAX_OFFSETS // 2}: the "
                             "search takes that much longer")


# The controller sets these from path_lateral_acceleration, path_braking and its vehicle.
LATTICE = Exposed(LatticeSettings, "lattice_", without=("lateral_acceleration", "braking", "scale"))


BLOCKED_COST = np.float32(1e5)  # cost of undrivable places; sums of other costs stay far below
MAX_SLOPE_CHANGE = 3  # slope classes per station


def search(field: np.ndarray, parts: int, deviation: np.ndarray, lengths: np.ndarray, penalties: np.ndarray, changes: np.ndarray,
           first: int, costs: np.ndarray, rows: np.ndarray) -> int:
    """Computes the costs to come, from the vehicle's slope `first` at the middle offset on.

    Args:
        field: (n parts, 2 w - 1) cost of the places along an edge, at each of its parts, half an offset apart.
        deviation, lengths: (n, w), (s,) cost of an edge by its start, and by its slope.
        penalties: (n, MAX_SLOPE_CHANGE + 1) cost of a change of slope; changes: (n,) largest change at a station.
        costs: (n + 1 or more, s + 2 MAX_SLOPE_CHANGE, w + s - 1) by station, slope and offset, padded at the
            edges.
        rows: (2, w) work space, since machine code does not allocate.
    """
    n, width = deviation.shape
    slopes = len(lengths)
    steepest = slopes // 2
    costs[:n + 1] = 8.0 * BLOCKED_COST
    costs[0, MAX_SLOPE_CHANGE + first, steepest + width // 2] = 0.0
    best, edge = rows[0], rows[1]
    for k in range(n):
        for j in range(slopes):
            row = MAX_SLOPE_CHANGE + j
            for i in range(width):
                best[i] = costs[k, row, steepest + i]
                edge[i] = 0.0
            for w in range(1, changes[k] + 1):
                penalty = penalties[k, w]
                for i in range(width):
                    best[i] = min(best[i], min(costs[k, row - w, steepest + i], costs[k, row + w, steepest + i]) + penalty)
            for m in range(1, parts + 1):
                # Passed place, to the nearest half offset.
                move, line = math.floor(2.0 * (j - steepest) * m / parts + 0.5), k * parts + m - 1
                for i in range(width):
                    place = 2 * i + move
                    edge[i] += field[line, place] if 0 <= place < 2 * width - 1 else BLOCKED_COST
            for i in range(max(0, steepest - j), min(width, width + steepest - j)):
                costs[k + 1, row, i + j] = best[i] + (edge[i] + deviation[k, i] + lengths[j])
    return 0


# Lengths of a full-size vehicle: beyond the margin [m], with the cost a metre of path inside; by which the lattice may violate the margin,
# the finished path is checked exactly [m]; longest part of an edge [m].
RINGS = ((0.5, 1.5), (1.0, 0.6), (2.0, 0.25))
MARGIN_TOLERANCE, LONGEST_PART = 0.1, 2.0
SAMPLES_PER_STATION = 16  # samples of the finished path a station
_ARGUMENTS = (POINTER, INTEGER, *[POINTER] * 4, INTEGER, *[POINTER] * 2, *[INTEGER] * 3)  # of `lattice_native.search`


@dataclass(frozen=True)
class _Frame:
    """The frame of one search: origin [m] and direction in the map, n stations `station` [m] apart, the goal in it [m], and the vehicle's
    slope."""

    x: float
    y: float
    cosine: float
    sine: float
    n: int
    station: float
    goal_ahead: float
    goal_side: float
    reaches_goal: bool
    slope: float

    def vector(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Components ahead and to the side of vectors in the map."""
        return self.cosine * x + self.sine * y, self.cosine * y - self.sine * x


class Lattice:
    """Search for the cheapest path. Its only state is tables; equal arguments give equal paths."""

    def __init__(self, settings: LatticeSettings) -> None:
        self._settings = settings
        self._half = round(settings.side / settings.offset_step)
        self._offsets = settings.offset_step * np.arange(-self._half, self._half + 1)
        self._bends = [np.abs(np.arange(-r, r + 1)) for r in range(MAX_SLOPE_CHANGE + 1)]
        self._most = int(np.ceil(settings.horizon / settings.shortest_station)) + 2
        slopes, width, pad = 2 * settings.slopes + 1, len(self._offsets), settings.slopes
        # Costs to come: a station, a slope (padded by the largest change), an offset (padded by the steepest step).
        self._costs = np.empty((self._most + 1, slopes + 2 * MAX_SLOPE_CHANGE, width + 2 * pad), np.float32)
        self._inner = self._costs[:, MAX_SLOPE_CHANGE:MAX_SLOPE_CHANGE + slopes, pad:pad + width]
        self._rows = np.empty((2, width), np.float32)
        self._search = native("lfdm_ros.control.routing.lattice_native", _ARGUMENTS, INTEGER, ("lfdm_ros.control.routing.lattice",),
                              "search")
        self._smoothers = {n: _smoother(n) for n in range(1, self._most + 1)}

    def trace(self, search: Search, station: float, direction: float, grown: np.ndarray, before: float = 0.0) -> RouteCurve:
        """Finds the cheapest path.

        Args:
            search: start and goal; the vehicle reaches the start in `before` seconds.
            station: approximate spacing of the stations [m].
            direction: of the lattice's frame [rad].
            grown: (n,) enlargement of the obstacles [m].
        """
        frame = self._frame(search, station, direction)
        settings, n, station, pace = self._settings, frame.n, frame.station, search.pace
        rise = settings.offset_step / station  # slope of one class
        parts = int(np.ceil(station / (settings.scale * LONGEST_PART)))
        ahead = station / parts * np.arange(1, n * parts + 1)
        field = self._field(frame, ahead, before + ahead / pace, search.scene, grown)
        deviation = np.zeros((n, len(self._offsets)), np.float32)
        if search.previous is not None and search.previous.kind == "lattice" and not search.previous.blocked:
            deviation = self._deviation(frame, search.previous)
        # Cost of slope and of change of slope; largest change at each station, as the vehicle can brake before it.
        slopes = np.arange(-settings.slopes, settings.slopes + 1)
        lengths = (station * (np.sqrt(1.0 + (rise * slopes) ** 2) - 1.0)).astype(np.float32)
        square = np.maximum(pace**2 - 2.0 * settings.braking * station * np.arange(n), settings.turning_speed**2)
        most = np.minimum(settings.lateral_acceleration / square, 1.0 / settings.smallest_radius)
        unit = rise / station
        changes = np.clip(np.rint(most / unit), 0, MAX_SLOPE_CHANGE).astype(np.int64)
        penalties = (settings.curvature_weight * station * (unit / most[:, None] * np.arange(MAX_SLOPE_CHANGE + 1)) ** 2).astype(np.float32)
        first = int(np.clip(np.rint(frame.slope / rise), -settings.slopes, settings.slopes)) + settings.slopes
        self._search(field.ctypes.data, parts, *(a.ctypes.data for a in (deviation, lengths, penalties, changes)), first,
                     self._costs.ctypes.data, self._rows.ctypes.data, n, len(slopes), len(self._offsets))
        last, path, arrived = self._best(frame, penalties, changes.tolist())
        if last == 0:
            return straight(search.x, search.y, search.yaw, station)
        return self._smooth(frame, direction, last, path, arrived)

    def _frame(self, search: Search, station: float, direction: float) -> _Frame:
        s, cosine, sine = self._settings, np.cos(direction), np.sin(direction)
        dx, dy = search.goal_x - search.x, search.goal_y - search.y
        goal_ahead, goal_side = cosine * dx + sine * dy, -sine * dx + cosine * dy
        n = int(np.clip(round(min(goal_ahead, s.horizon) / station), 1, self._most))
        return _Frame(search.x, search.y, cosine, sine, n, min(goal_ahead, s.horizon) / n, goal_ahead, goal_side,
                      goal_ahead <= s.horizon and abs(goal_side) <= s.side, np.tan(np.angle(np.exp(1j * (search.yaw - direction)))))

    # -- Dynamic programming --------------------------------------------------------------------------------------------

    def _best(self, frame: _Frame, penalties: np.ndarray, changes: list[int]) -> tuple[int, np.ndarray, bool]:
        """Traces back from the best end; returns the last station, the offsets up to it, and True if it is the lattice's end, and the goal
        if that lies within."""
        settings, inner = self._settings, self._inner
        last = int(np.flatnonzero(inner[:frame.n + 1].min(axis=(1, 2)) < BLOCKED_COST)[-1])
        final = inner[last] + np.hypot(frame.goal_ahead - frame.station * last, self._offsets - frame.goal_side).astype(np.float32)
        arrived = last == frame.n
        if arrived and frame.reaches_goal:
            far = np.abs(self._offsets - frame.goal_side) > settings.goal_tolerance + 0.5 * settings.offset_step
            at_goal = final + np.where(far, BLOCKED_COST, np.float32(0.0))
            arrived = bool(at_goal.min() < BLOCKED_COST)
            final = at_goal if arrived else final
        j, i = (int(v) for v in np.unravel_index(int(final.argmin()), final.shape))
        path = np.empty(last + 1)
        path[last] = self._offsets[i]
        if arrived and frame.reaches_goal and abs(path[last] - frame.goal_side) <= 0.5 * settings.offset_step:
            path[last] = frame.goal_side
        # Recover the predecessor of each state from the costs to come.
        pad = settings.slopes
        for k in range(last - 1, -1, -1):
            i -= j - settings.slopes
            r = changes[k]
            column = self._costs[k, MAX_SLOPE_CHANGE + j - r:MAX_SLOPE_CHANGE + j + r + 1, pad + i]
            j += int((column + penalties[k, self._bends[r]]).argmin()) - r
            path[k] = self._offsets[i]
        return last, path, arrived

    def _smooth(self, frame: _Frame, direction: float, last: int, path: np.ndarray, arrived: bool) -> RouteCurve:
        """Returns the smooth curve through the offsets, extended straight if it ends before the lattice."""
        station, cosine, sine = frame.station, frame.cosine, frame.sine
        value, first, second = self._smoothers[last]
        knots = np.append(path, frame.slope * station)
        ahead = station / SAMPLES_PER_STATION * np.arange(last * SAMPLES_PER_STATION + 1)
        side, rise, bend = dot(value, knots), dot(first, knots) / station, dot(second, knots) / station**2
        trace = RouteCurve(frame.x + cosine * ahead - sine * side, frame.y + sine * ahead + cosine * side, direction + np.arctan(rise),
                      bend / (1.0 + rise**2) ** 1.5, arrived)
        return trace if last == frame.n else joined(trace, straight(trace.x[-1], trace.y[-1], trace.yaw[-1], station))

    # -- Costs ----------------------------------------------------------------------------------------------------------

    def _field(self, frame: _Frame, ahead: np.ndarray, time: np.ndarray, scene: Scene, grown: np.ndarray) -> np.ndarray:
        """Returns the cost of each place (columns, half offsets): BLOCKED_COST inside obstacles, that of the rings around them."""
        fine, count = 0.5 * self._settings.offset_step, 4 * self._half + 1
        ox, oy = frame.vector(scene.x - frame.x, scene.y - frame.y)
        vx, vy = frame.vector(scene.vx, scene.vy)
        radius, scale = scene.reach + grown, self._settings.scale
        dx = ahead[:, None] - ox - time[:, None] * vx
        rows, which = np.nonzero(np.abs(dx) < radius + scale * RINGS[-1][0])
        if not len(rows):
            return np.zeros((len(ahead), count), np.float32)
        dx, centre = dx[rows, which], (oy[which] + time[rows] * vy[which] + self._settings.side) / fine
        length = float(ahead[0])
        rings = scale * np.array([-MARGIN_TOLERANCE] + [width for width, _ in RINGS])[:, None] + radius[which]
        weights = np.array([float(BLOCKED_COST)] + [weight * length for _, weight in RINGS])[:, None]
        square = rings**2 - dx**2
        half = np.sqrt(np.maximum(square, 0.0)) / fine
        low, high = np.ceil(centre - half), np.floor(centre + half) + 1.0
        np.clip(low, 0, count, out=low)
        np.clip(high, 0, count, out=high)
        # An interval's weight starts at its low end and stops after its high one: a running sum over the offsets.
        start = (rows * (count + 1)).astype(float)
        weights = np.where(square > 0.0, weights, 0.0)
        places = np.concatenate([(start + low).ravel(), (start + high).ravel()]).astype(np.intp)
        field = np.bincount(places, np.concatenate([weights.ravel(), -weights.ravel()]), len(ahead) * (count + 1))
        return field.reshape(len(ahead), count + 1).cumsum(axis=1)[:, :-1].astype(np.float32)

    def _deviation(self, frame: _Frame, previous: Route) -> np.ndarray:
        """Returns the cost (stations, offsets) of distance from the previous route, of the edge that starts there."""
        path, settings = previous.path, self._settings
        ahead, aside = frame.vector(path.x - frame.x, path.y - frame.y)
        along = np.maximum.accumulate(ahead)
        at = frame.station * np.arange(frame.n)
        side = np.interp(at, along, aside)
        away = np.minimum(np.abs(self._offsets - side[:, None]) / settings.deviation_cap, 1.0)
        weight = settings.deviation_weight * frame.station * (at <= along[-1])
        deviation: np.ndarray = (away * weight[:, None]).astype(np.float32)
        return deviation


def _smoother(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns matrices (SAMPLES_PER_STATION n + 1, n + 2) from the offsets at n + 1 stations and the slope at the first to a smooth
    curve's value, slope and second derivative, stations one apart: smoothed by third differences (both ends kept), then a cubic spline."""
    knots = np.eye(n + 1, n + 2)
    if n >= 2:
        weights = np.ones(n + 1)
        weights[0] = weights[-1] = 1e6
        # The slope extrapolates the station before the first.
        whole = np.vstack([knots[0] - np.eye(n + 2)[-1], knots])
        rough = np.diff(np.eye(n + 2), 3, axis=0)
        inner, ghost = rough[:, 1:], rough[:, :1]
        system = np.diag(weights) + matmul(inner.T, inner)
        knots = solve(system, weights[:, None] * knots - matmul(inner.T, ghost * whole[:1]))
    start, end = np.eye(n + 2)[-1], np.zeros(n + 2)
    ends: Any = ((1, start), (2, end))
    curve = CubicSpline(np.arange(n + 1.0), knots, bc_type=ends)
    at = np.arange(n * SAMPLES_PER_STATION + 1) / SAMPLES_PER_STATION
    return curve(at), curve(at, 1), curve(at, 2)
