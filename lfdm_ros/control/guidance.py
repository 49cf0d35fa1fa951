"""Which way round the obstacles: a path from the vehicle to its goal by dynamic programming over a lattice.

The controller's optimisation is local: it stays on the side of an obstacle on which its reference lies. The lattice looks at all sides.
Its frame has x from the vehicle to the goal; a state is an offset to the side and a slope, a step goes one station ahead. Cost is length,
curvature (with a limit by grip and by the tightest circle), closeness to obstacles, and distance from the route before, so that noise does
not change sides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.interpolate import CubicSpline

from lfdm_ros.bounds import require, require_array
from lfdm_ros.control.path import STEP, Path
from lfdm_ros.errors import InputError
from lfdm_ros.parameters import Declared, Exposed, setting
from lfdm_ros.perception.obstacles import Obstacles

BIG = np.float32(1e5)  # cost of what cannot be driven; sums of real costs stay far below
RINGS = ((0.5, 1.5), (1.0, 0.6), (2.0, 0.25))  # beyond the margin [m], cost a metre of path inside
SLACK = 0.1  # [m] the lattice may cut this much into the margin; the finished path is looked at exactly
FINE = 16  # samples of the finished path a station
LONGEST_SLOWING = 600.0  # [m] before a turn: from 60 m/s; what is faster turns where it has slowed down
MOST_OFFSETS = 1000
LEAST_SPEED = 3.0  # [m/s] a slower vehicle is thought to move off with this speed


@dataclass(frozen=True)
class GuideSettings(Declared):
    """What the lattice spans and what it weighs.

    Raises:
        InputError: a value is out of its range; the message names it.
    """

    ABOUT = "lattice: "

    horizon: float = setting(120.0, "m", "how far ahead", 5.0, 1000.0)
    side: float = setting(30.0, "m", "how far to each side of the line to the goal", 1.0, 500.0)
    offset_step: float = setting(0.5, "m", "between two offsets to the side", 0.02, 10.0)
    slopes: int = setting(10, "1", "to each side; the steepest is this many offset steps a station", 1, 50)
    shortest_station: float = setting(4.0, "m", "least length of a station", 0.2, 100.0)
    longest_station: float = setting(10.0, "m", "largest length of a station", 0.2, 100.0)
    station_time: float = setting(0.4, "s", "a station is as long as the vehicle drives in this time, within the two above", 0.05, 5.0)
    lateral_acceleration: float = setting(4.0, "m/s^2", "most on a route", 0.1, 20.0)
    braking: float = setting(3.0, "m/s^2", "with which the vehicle can slow down before a curve further ahead", 0.1, 20.0)
    smallest_radius: float = setting(10.0, "m", "tightest comfortable circle", 0.1, 100.0)
    turning_speed: float = setting(7.0, "m/s", "to which the vehicle slows down to turn round", 0.1, 50.0)
    goal_tolerance: float = setting(1.0, "m", "how far from the goal a route may end", 0.01, 50.0)
    curvature_weight: float = setting(3.0, "1", "cost a metre driven at the curvature's limit", 0.001, 1e3)
    deviation_weight: float = setting(0.15, "1", "cost a metre that lies deviation_cap or more from the route before", 0.001, 1e3)
    deviation_cap: float = setting(2.0, "m", "distance from the route before beyond which the cost no longer grows", 0.01, 50.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.longest_station < self.shortest_station:
            raise InputError("lattice: longest_station is below shortest_station; give at least that")
        if 2.0 * self.side / self.offset_step > MOST_OFFSETS:
            raise InputError(f"lattice: side over offset_step is {self.side / self.offset_step:g}; give at most {MOST_OFFSETS // 2}: the "
                             "search takes that much longer")


# How fast a route may be and where it has to slow down is the controller's: path_lateral_acceleration, path_braking.
LATTICE = Exposed(GuideSettings, "lattice_", without=("lateral_acceleration", "braking"))


@dataclass(frozen=True)
class Route:
    """A path from the vehicle to the goal, or to the lattice's end on the way there.

    Attributes:
        blocked: no way was found; the path is the one that gets furthest.
        free_length: how far along the path it is free of obstacles [m]; the path's length if not blocked.
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
class _Scene:
    """Obstacles (n) with the radii that the vehicle's position point must keep from their centres, and the vehicle's direction."""

    x: np.ndarray
    y: np.ndarray
    vx: np.ndarray
    vy: np.ndarray
    reach: np.ndarray  # with half width and margin, or what is left of it where the vehicle is inside
    touch: np.ndarray  # with half width alone
    moving: bool
    yaw: float  # the vehicle's, for a path's yaw to be within half a turn of it


@dataclass(frozen=True)
class _Trace:
    """A route before it is a `Path`: samples (n,) in the map, and whether the lattice got to its end."""

    x: np.ndarray
    y: np.ndarray
    yaw: np.ndarray
    curvature: np.ndarray
    arrived: bool


class Guide:
    """Finds routes. Keeps no state but tables; the same arguments give the same route."""

    def __init__(self, settings: GuideSettings | None = None) -> None:
        self.settings = settings = settings or GuideSettings()
        self._half = round(settings.side / settings.offset_step)
        self._offsets = settings.offset_step * np.arange(-self._half, self._half + 1)
        self._reach = 3  # slope classes that one station can change
        self._bends = [np.abs(np.arange(-r, r + 1)) for r in range(self._reach + 1)]
        self._most = int(np.ceil(settings.horizon / settings.shortest_station)) + 2
        slopes, width, pad = 2 * settings.slopes + 1, len(self._offsets), settings.slopes
        # Costs to come: a station, a slope (padded by the reach), an offset (padded by the steepest step).
        self._costs = np.empty((self._most + 1, slopes + 2 * self._reach, width + 2 * pad), np.float32)
        self._inner = self._costs[:, self._reach:self._reach + slopes, pad:pad + width]
        # The same memory sheared: row j moved by j - slopes offsets, where an edge of that slope arrives.
        strides = self._costs.strides
        self._arrivals = np.lib.stride_tricks.as_strided(self._costs[:, self._reach:, :], self._inner.shape,
                                                         (strides[0], strides[1] + strides[2], strides[2]))
        self._smoothers = {n: _smoother(n) for n in range(1, self._most + 1)}

    def route(self, x: float, y: float, yaw: float, speed: float, goal_x: float, goal_y: float, obstacles: Obstacles, half_width: float,
              margin: float, previous: Route | None = None) -> Route:
        """The way from the vehicle to the goal.

        Args:
            x, y, yaw, speed: the vehicle's position point [m], direction [rad] and forward speed [m/s].
            obstacles: circles now; moving ones are taken where they are when the vehicle gets there at this speed.
            half_width, margin: [m] kept between path and circles: both; a gap narrower than twice their sum is no way.
            previous: the route before; changing sides costs something.

        Raises:
            InputError: an argument that is not finite or cannot be (`lfdm_ros.bounds`), or a negative radius, width or margin.
        """
        settings = self.settings
        for name, quantity, value in (("x", "x", x), ("y", "y", y), ("yaw", "yaw", yaw), ("speed", "vx", speed), ("goal_x", "x", goal_x),
                                      ("goal_y", "y", goal_y), ("half_width", "room", abs(half_width)), ("margin", "room", abs(margin))):
            require(quantity, value, f"guidance: {name}")
        if half_width < 0.0 or margin < 0.0:
            raise InputError(f"guidance: half_width is {half_width:g} m and margin {margin:g} m; give 0 or more")
        scene = self._scene(x, y, yaw, obstacles, half_width, margin)
        pace = max(speed, LEAST_SPEED)
        distance = float(np.hypot(goal_x - x, goal_y - y))
        bearing = float(np.arctan2(goal_y - y, goal_x - x)) if distance > 1e-6 else yaw
        turn = float(np.angle(np.exp(1j * (bearing - yaw))))  # what the vehicle must turn by, left positive
        if distance < settings.shortest_station:
            return self._finish(self._near(x, y, yaw, pace, distance, turn), scene, pace, "near")
        station = float(np.clip(settings.station_time * pace, settings.shortest_station, settings.longest_station))
        steepest = settings.slopes * settings.offset_step / station
        lean = np.arctan(0.8 * steepest)  # the vehicle's own slope in the lattice is at most this
        frame = bearing if abs(turn) <= lean else yaw + float(np.copysign(lean, turn))
        found: list[Route] = []
        steep = abs(turn) >= lean + np.arctan(0.7 * steepest)
        outside = abs(distance * np.sin(bearing - frame)) > settings.side
        if not steep and not outside:
            found.append(self._lattice_route(x, y, yaw, pace, station, frame, goal_x, goal_y, scene, previous))
            if found[0].blocked and found[0].free_length > 0.0 and station > settings.shortest_station:
                # Shorter stations see tighter curves, for which the vehicle brakes on the way.
                shorter = max(0.65 * station, settings.shortest_station)
                found.append(self._lattice_route(x, y, yaw, pace, shorter, frame, goal_x, goal_y, scene, previous, 1))
        if all(route.blocked for route in found) and abs(turn) > 0.5:
            kept = self._kept_turn(x, y, yaw, pace, goal_x, goal_y, scene, previous)
            found.append(kept or self._turn_route(x, y, yaw, pace, goal_x, goal_y, scene, previous))
        if all(route.blocked for route in found) and not steep and outside:
            found.append(self._lattice_route(x, y, yaw, pace, station, frame, goal_x, goal_y, scene, previous))
        return max(found, key=lambda route: (not route.blocked, route.free_length if route.blocked else 0.0))

    def _scene(self, x: float, y: float, yaw: float, obstacles: Obstacles, half_width: float, margin: float) -> _Scene:
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
        # A vehicle that is inside a margin already must get out of it, for which it may have to come half as close again.
        away = np.hypot(cx - x, cy - y) - touch
        reach = touch + np.where(away < margin, 0.5 * np.maximum(away, 0.0), margin)
        return _Scene(cx, cy, velocities[:, 0], velocities[:, 1], reach, touch, bool(velocities.any()), yaw)

    # -- The lattice -----------------------------------------------------------------------------------------------------------------

    def _lattice_route(self, x: float, y: float, yaw: float, pace: float, station: float, frame: float, goal_x: float, goal_y: float,
                       scene: _Scene, previous: Route | None, attempts: int = 2) -> Route:
        """Lattice and exact look at its path; where smoothing cut a corner, the circle grows and the lattice is asked again."""
        grown = np.zeros(len(scene.reach))
        for attempt in range(1, attempts + 1):
            trace = self._lattice(x, y, yaw, pace, 0.0, station, frame, goal_x, goal_y, scene, grown, previous)
            if not trace.arrived or attempt == attempts:
                break
            nearest = _squares(trace.x[::2], trace.y[::2], pace, scene).min(axis=0, initial=np.inf)
            missing = scene.reach - SLACK - np.sqrt(nearest)
            if not (missing > 0.02).any():
                break
            grown += np.where(missing > 0.0, missing + 0.05, 0.0)
        return self._finish(trace, scene, pace, "lattice")

    def _lattice(self, x: float, y: float, yaw: float, pace: float, before: float, station: float, frame: float, goal_x: float,
                 goal_y: float, scene: _Scene, grown: np.ndarray, previous: Route | None) -> _Trace:
        """The cheapest path from (x, y, yaw), where the vehicle is in `before` seconds, in a frame that points to `frame`."""
        settings = self.settings
        cosine, sine = np.cos(frame), np.sin(frame)
        goal_ahead, goal_side = cosine * (goal_x - x) + sine * (goal_y - y), -sine * (goal_x - x) + cosine * (goal_y - y)
        reaches_goal = goal_ahead <= settings.horizon and abs(goal_side) <= settings.side
        n = int(np.clip(round(min(goal_ahead, settings.horizon) / station), 1, self._most))
        station = min(goal_ahead, settings.horizon) / n
        rise = settings.offset_step / station  # slope of one class
        parts = int(np.ceil(station / 2.0))
        ahead = station / parts * np.arange(1, n * parts + 1)
        edges = self._edges(self._field(x, y, cosine, sine, ahead, before + ahead / pace, scene, grown), n, parts)
        if previous is not None and previous.kind == "lattice" and not previous.blocked:
            edges += self._deviation(x, y, cosine, sine, n, station, previous)[:, None, :]

        # Cost of slope and of change of slope; how much change each station allows, as the vehicle can brake on the way.
        slopes = np.arange(-settings.slopes, settings.slopes + 1)
        edges += (station * (np.sqrt(1.0 + (rise * slopes) ** 2) - 1.0)).astype(np.float32)[:, None]
        square = np.maximum(pace**2 - 2.0 * settings.braking * station * np.arange(n), settings.turning_speed**2)
        most = np.minimum(settings.lateral_acceleration / square, 1.0 / settings.smallest_radius)
        unit = rise / station
        reach = np.clip(np.rint(most / unit), 0, self._reach).astype(int).tolist()
        change = settings.curvature_weight * station * (unit / most[:, None] * np.arange(self._reach + 1)) ** 2
        slope = np.tan(np.angle(np.exp(1j * (yaw - frame))))
        first = int(np.clip(np.rint(slope / rise), -settings.slopes, settings.slopes)) + settings.slopes

        self._costs[:n + 1].fill(8.0 * BIG)
        inner, width, pad, margin = self._inner, len(slopes), settings.slopes, self._reach
        inner[0, first, self._half] = 0.0
        cheapest, other = np.empty(inner.shape[1:], np.float32), np.empty(inner.shape[1:], np.float32)
        penalties = change.astype(np.float32)
        for k in range(n):
            rows, best = self._costs[k, :, pad:-pad], inner[k]
            for w in range(1, reach[k] + 1):
                np.minimum(rows[margin - w:margin - w + width], rows[margin + w:margin + w + width], out=other)
                other += penalties[k, w]
                best = np.minimum(best, other, out=cheapest)
            np.add(best, edges[k], out=self._arrivals[k + 1])
        return self._trace(x, y, yaw, frame, n, station, slope, reach, penalties, goal_ahead, goal_side, reaches_goal)

    def _trace(self, x: float, y: float, yaw: float, frame: float, n: int, station: float, slope: float, reach: list[int],
               penalties: np.ndarray, goal_ahead: float, goal_side: float, reaches_goal: bool) -> _Trace:
        """Back from the best end, and the smooth curve through the offsets."""
        settings, inner = self.settings, self._inner
        last = int(np.flatnonzero(inner[:n + 1].min(axis=(1, 2)) < BIG)[-1])
        final = inner[last] + np.hypot(goal_ahead - station * last, self._offsets - goal_side).astype(np.float32)
        arrived = last == n
        if arrived and reaches_goal:
            far = np.abs(self._offsets - goal_side) > settings.goal_tolerance + 0.5 * settings.offset_step
            at_goal = final + np.where(far, BIG, np.float32(0.0))
            arrived = bool(at_goal.min() < BIG)
            final = at_goal if arrived else final
        j, i = (int(v) for v in np.unravel_index(int(final.argmin()), final.shape))
        path = np.empty(last + 1)
        path[last] = self._offsets[i]
        if arrived and reaches_goal and abs(path[last] - goal_side) <= 0.5 * settings.offset_step:
            path[last] = goal_side
        # The costs to come say which state each came from.
        pad = settings.slopes
        for k in range(last - 1, -1, -1):
            i -= j - settings.slopes
            r = reach[k]
            column = self._costs[k, self._reach + j - r:self._reach + j + r + 1, pad + i]
            j += int((column + penalties[k, self._bends[r]]).argmin()) - r
            path[k] = self._offsets[i]
        if last == 0:
            return _straight(x, y, yaw, station)
        value, first, second = self._smoothers[last]
        knots = np.append(path, slope * station)
        ahead = station / FINE * np.arange(last * FINE + 1)
        side, rise, bend = value @ knots, first @ knots / station, second @ knots / station**2
        cosine, sine = np.cos(frame), np.sin(frame)
        trace = _Trace(x + cosine * ahead - sine * side, y + sine * ahead + cosine * side, frame + np.arctan(rise),
                       bend / (1.0 + rise**2) ** 1.5, arrived)
        return trace if last == n else _joined(trace, _straight(trace.x[-1], trace.y[-1], trace.yaw[-1], station))

    def _field(self, x: float, y: float, cosine: float, sine: float, ahead: np.ndarray, time: np.ndarray, scene: _Scene,
               grown: np.ndarray) -> np.ndarray:
        """Cost of each place (columns, offsets at half steps) a column: BIG where it is closed, the rings' around it."""
        fine, count = 0.5 * self.settings.offset_step, 4 * self._half + 1
        cx, cy = scene.x - x, scene.y - y
        ox, oy = cosine * cx + sine * cy, cosine * cy - sine * cx
        vx, vy = cosine * scene.vx + sine * scene.vy, cosine * scene.vy - sine * scene.vx
        radius = scene.reach + grown
        dx = ahead[:, None] - ox - time[:, None] * vx
        rows, which = np.nonzero(np.abs(dx) < radius + RINGS[-1][0])
        if not len(rows):
            return np.zeros((len(ahead), count), np.float32)
        dx, centre = dx[rows, which], (oy[which] + time[rows] * vy[which] + self.settings.side) / fine
        length = float(ahead[0])
        rings = np.array([-SLACK] + [width for width, _ in RINGS])[:, None] + radius[which]
        weights = np.array([float(BIG)] + [weight * length for _, weight in RINGS])[:, None]
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

    def _edges(self, field: np.ndarray, n: int, parts: int) -> np.ndarray:
        """Cost of the places that each edge passes (stations, slopes, offsets)."""
        slopes, span = self.settings.slopes, len(self._offsets)
        pad = slopes + 1
        padded = np.full((n, parts, 2, span + 2 * pad), BIG, np.float32)  # even and odd half steps apart
        field = field.reshape(n, parts, -1)
        padded[:, :, 0, pad:pad + span] = field[:, :, ::2]
        padded[:, :, 1, pad:pad + span - 1] = field[:, :, 1::2]
        edges = np.zeros((n, 2 * slopes + 1, span), np.float32)
        for j in range(-slopes, slopes + 1):
            for m in range(1, parts + 1):
                move, odd = divmod(int(np.floor(2.0 * j * m / parts + 0.5)), 2)
                edges[:, j + slopes] += padded[:, m - 1, odd, pad + move:pad + move + span]
        return edges

    def _deviation(self, x: float, y: float, cosine: float, sine: float, n: int, station: float, previous: Route) -> np.ndarray:
        """Cost (stations, offsets) of lying away from the route before, of the edge that starts there."""
        path, settings = previous.path, self.settings
        px, py = path.x - x, path.y - y
        along = np.maximum.accumulate(cosine * px + sine * py)
        at = station * np.arange(n)
        side = np.interp(at, along, cosine * py - sine * px)
        away = np.minimum(np.abs(self._offsets - side[:, None]) / settings.deviation_cap, 1.0)
        weight = settings.deviation_weight * station * (at <= along[-1])
        return (away * weight[:, None]).astype(np.float32)

    # -- Other routes ----------------------------------------------------------------------------------------------------------------

    def _near(self, x: float, y: float, yaw: float, pace: float, distance: float, turn: float) -> _Trace:
        """An arc to a goal close by, as far as grip and the tightest circle allow."""
        limit = min(1.0 / self.settings.smallest_radius, self.settings.lateral_acceleration / pace**2)
        bend = float(np.clip(2.0 * np.sin(turn) / max(distance, STEP), -limit, limit)) if abs(turn) < 0.5 * np.pi else 0.0
        s = np.linspace(0.0, max(distance, 2.0 * STEP), 2 * FINE + 1)
        return _arc(x, y, yaw, s, np.full(len(s), bend))

    def _kept_turn(self, x: float, y: float, yaw: float, pace: float, goal_x: float, goal_y: float, scene: _Scene,
                   previous: Route | None) -> Route | None:
        """What is left of the turn before, if it still is a way: a turn that always began anew would never leave the straight."""
        if previous is None or previous.kind != "turn" or previous.blocked or previous.goal != (goal_x, goal_y):
            return None
        (s,), (e,) = previous.path.project(np.array([x]), np.array([y]), np.zeros(1))
        left = previous.path.length - s
        if abs(e) > 1.0 or left < self.settings.shortest_station:
            return None
        there = s + np.linspace(0.0, left, max(int(np.ceil(left / STEP)), 2) + 1)
        px, py, heading, bend = previous.path.at(there)
        if np.cos(heading[0] - yaw) < 0.9:
            return None
        route = self._finish(_Trace(px, py, heading, bend, True), scene, pace, "turn", previous.side, previous.goal)
        return None if route.blocked else route

    def _turn_route(self, x: float, y: float, yaw: float, pace: float, goal_x: float, goal_y: float, scene: _Scene,
                    previous: Route | None) -> Route:
        """Slow down and turn until the vehicle points to the goal, to the better side, at once or further on; then a lattice."""
        settings = self.settings
        slowing = min(pace**2 / (2.0 * settings.braking), LONGEST_SLOWING)
        s = STEP * np.arange(int(4.0 * np.pi * settings.smallest_radius / STEP) + int((slowing + 4.0 * settings.smallest_radius) / STEP))
        candidates: list[tuple[float, int, _Trace, float]] = []
        for straight in (0.0, 1.0, 2.0, 4.0):
            delay = straight * settings.smallest_radius
            square = np.maximum(pace**2 - 2.0 * settings.braking * s, settings.turning_speed**2)
            bend = np.minimum(settings.lateral_acceleration / square, 1.0 / settings.smallest_radius)
            bend *= np.clip((s - delay) / (0.5 * settings.smallest_radius), 0.0, 1.0)  # steering takes its time
            for side in (1, -1):
                arc = _arc(x, y, yaw, s, side * bend)
                ahead = np.exp(-1j * arc.yaw) * ((goal_x - arc.x) + 1j * (goal_y - arc.y))
                # The goal was on this side and now is straight ahead.
                beside = side * ahead.imag > 0.0
                turned = np.flatnonzero(np.logical_or.accumulate(beside) & ~beside & (ahead.real > 0.0)
                                        & (np.abs(arc.yaw - yaw) < 2.0 * np.pi))
                if not len(turned):
                    continue
                end = max(int(turned[0]), 2)
                arc = _Trace(arc.x[:end + 1], arc.y[:end + 1], arc.yaw[:end + 1], arc.curvature[:end + 1], True)
                clear = (_squares(arc.x, arc.y, pace, scene) >= np.maximum(scene.reach - SLACK, 0.0) ** 2).all(axis=1)
                free = float(s[:end + 1][np.logical_and.accumulate(clear)].max(initial=0.0))
                cost = float(s[end] + abs(ahead[end])) + (0.0 if free >= s[end] else 1e6 - free)
                if previous is not None and previous.side == -side:
                    cost += 0.3 * float(s[end])
                candidates.append((cost, side, arc, free))
            if candidates and min(c[0] for c in candidates) < 1e5:
                break
        if not candidates:
            return self._finish(_straight(x, y, yaw, settings.shortest_station), scene, pace, "turn")
        cost, side, arc, free = min(candidates, key=lambda c: (c[0], -c[1]))
        if cost >= 1e5:
            return self._finish(replace(arc, arrived=False), scene, pace, "turn", side, (goal_x, goal_y))
        left = float(np.hypot(goal_x - arc.x[-1], goal_y - arc.y[-1]))
        if left >= settings.shortest_station:
            at_x, at_y, heading = float(arc.x[-1]), float(arc.y[-1]), float(arc.yaw[-1])
            slow = max(min(pace, settings.turning_speed), LEAST_SPEED)
            rest = self._lattice(at_x, at_y, heading, slow, STEP * len(arc.x) / pace, settings.shortest_station,
                                 float(np.arctan2(goal_y - at_y, goal_x - at_x)), goal_x, goal_y, scene, np.zeros(len(scene.reach)), None)
            arc = _joined(arc, rest)
        return self._finish(arc, scene, pace, "turn", side, (goal_x, goal_y))

    def _finish(self, trace: _Trace, scene: _Scene, pace: float, kind: str, side: int = 0,
                goal: tuple[float, float] | None = None) -> Route:
        """Even samples, and how far they are free."""
        s = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(trace.x), np.diff(trace.y)))])
        even = np.linspace(0.0, s[-1], max(int(np.ceil(s[-1] / STEP)), 2) + 1)
        turns = 2.0 * np.pi * np.rint((scene.yaw - trace.yaw[0]) / (2.0 * np.pi))
        path = Path.of_samples(even, np.interp(even, s, trace.x), np.interp(even, s, trace.y), np.interp(even, s, trace.yaw + turns),
                               np.interp(even, s, trace.curvature))
        # The margin may be cut a little by the smoothing, the vehicle's own width not.
        need = scene.touch + 0.5 * np.maximum(scene.reach - scene.touch, 0.0)
        hit = (_squares(path.x, path.y, pace, scene) < need**2).any(axis=1)
        free = float(path.s[max(int(hit.argmax()) - 1, 0)]) if hit.any() else path.length
        return Route(path, bool(hit.any()) or not trace.arrived, free, kind, side, goal)


def _squares(x: np.ndarray, y: np.ndarray, pace: float, scene: _Scene) -> np.ndarray:
    """Squared distances (points, obstacles) [m^2] of a path's points from the centres, when the vehicle gets there at `pace`."""
    dx, dy = x[:, None] - scene.x, y[:, None] - scene.y
    if scene.moving:
        time = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])[:, None] / pace
        dx -= time * scene.vx
        dy -= time * scene.vy
    dx *= dx
    dy *= dy
    dx += dy
    return dx


def _arc(x: float, y: float, yaw: float, s: np.ndarray, curvature: np.ndarray) -> _Trace:
    """The curve of a given curvature (n,) over the distance `s` (n,) from a pose, by the midpoint rule."""
    step = np.diff(s)
    turned = np.concatenate([[0.0], np.cumsum(0.5 * (curvature[1:] + curvature[:-1]) * step)])
    middle = yaw + 0.5 * (turned[1:] + turned[:-1])
    dx, dy = np.cumsum(np.cos(middle) * step), np.cumsum(np.sin(middle) * step)
    return _Trace(np.append(x, x + dx), np.append(y, y + dy), yaw + turned, curvature, True)


def _straight(x: float, y: float, yaw: float, length: float) -> _Trace:
    s = np.linspace(0.0, length, 9)
    return replace(_arc(x, y, yaw, s, np.zeros(len(s))), arrived=False)


def _joined(first: _Trace, second: _Trace) -> _Trace:
    """One after the other; the second starts where the first ends."""
    turns = 2.0 * np.pi * np.rint((first.yaw[-1] - second.yaw[0]) / (2.0 * np.pi))
    return _Trace(np.append(first.x, second.x[1:]), np.append(first.y, second.y[1:]), np.append(first.yaw, second.yaw[1:] + turns),
                  np.append(first.curvature, second.curvature[1:]), second.arrived)


def _smoother(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Matrices (FINE n + 1, n + 2) from the offsets at n + 1 stations and the slope at the first to a smooth curve's value, slope and
    second derivative, stations one apart: smoothed by third differences (both ends kept), then a cubic spline."""
    knots = np.eye(n + 1, n + 2)
    if n >= 2:
        weights = np.ones(n + 1)
        weights[0] = weights[-1] = 1e6
        # The station before the first is where the slope puts it.
        whole = np.vstack([knots[0] - np.eye(n + 2)[-1], knots])
        rough = np.diff(np.eye(n + 2), 3, axis=0)
        inner, ghost = rough[:, 1:], rough[:, :1]
        system = np.diag(weights) + inner.T @ inner
        knots = np.linalg.solve(system, weights[:, None] * knots - inner.T @ (ghost @ whole[:1]))
    start, end = np.eye(n + 2)[-1], np.zeros(n + 2)
    ends: tuple = ((1, start), (2, end))
    curve = CubicSpline(np.arange(n + 1.0), knots, bc_type=ends)
    at = np.arange(n * FINE + 1) / FINE
    return curve(at), curve(at, 1), curve(at, 2)
