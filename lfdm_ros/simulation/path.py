"""Reference paths: a smooth curve through points, projection of positions on it, speed profiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial import cKDTree

from lfdm_ros.bounds import BOUNDS, OUT_OF_RANGE, TOO_MANY, Refused, require, require_array
from lfdm_ros.compiler.machine_code import INTEGER, POINTER, REAL
from lfdm_ros.compiler.native import addresses, native
from lfdm_ros.errors import InputError
from lfdm_ros.numerics import dot
from lfdm_ros.vehicles import Footprint

if TYPE_CHECKING:
    from scipy.interpolate import CubicSpline

STEP = 0.5  # [m] longest distance between a path's points
REFINEMENTS, STRAIGHT = 16, 0.02  # rounds that add points to straight pieces; [m] by which the curve may leave one
MIN_LENGTH, MAX_LENGTH = 0.5, BOUNDS["length"].upper  # [m]
MERGE_DISTANCE = 0.01  # [m] points closer than this to the one before are the same point
MAX_KNOTS = 20_000  # more points are thinned to within
MAX_THINNING_ERROR = 0.2  # [m] of the remaining polyline
_MAX_HALVINGS = 4  # of the spacing, before there are too many points
SEARCH_WINDOW = 10.0  # [m] search distance around a guess
MAX_BRUTE_FORCE = 4000  # number of points up to which computing all distances beats building a tree
GAUSS = np.polynomial.legendre.leggauss(3)


def _chord_length(knots: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(knots, axis=0).T))])


def _spline(knots: np.ndarray, start_yaw: float | None) -> CubicSpline:
    """Returns the spline over the chord length, with points added on straight pieces that it would leave."""
    from scipy.interpolate import CubicSpline  # takes 0.2 s; nodes without a path do not need it

    for refinement in range(REFINEMENTS + 1):
        free: Any = "not-a-knot" if len(knots) > 3 else (2, np.zeros(2))
        start = free if start_yaw is None else (1, [np.cos(start_yaw), np.sin(start_yaw)])
        curve = CubicSpline(_chord_length(knots), knots, bc_type=(start, free))
        if refinement == REFINEMENTS or not (wide := _leaves(curve, knots)).any():
            break
        knots = np.insert(knots, np.flatnonzero(wide) + 1, 0.5 * (knots[:-1] + knots[1:])[wide], axis=0)
    return curve


def _leaves(curve: CubicSpline, knots: np.ndarray) -> np.ndarray:
    """Marks the pieces between knots (n, 2) that a curve leaves by more than the bends at their ends explain (n - 1,): through points at
    even distances of a circle it would be an eighth of the piece's length times the turn."""
    pieces = np.diff(knots, axis=0)
    length = np.hypot(*pieces.T)
    along = pieces / length[:, None]
    turn = np.abs(np.arctan2(along[:-1, 0] * along[1:, 1] - along[:-1, 1] * along[1:, 0], dot(along[:-1], along[1:])))
    # A short neighbour determines the bend only nearby.
    bend = np.zeros(len(length))
    bend[:-1] = np.minimum(length[:-1], 2.0 * length[1:]) * turn
    bend[1:] = np.maximum(bend[1:], np.minimum(length[1:], 2.0 * length[:-1]) * turn)
    between = curve(curve.x[:-1, None] + length[:, None] * np.array([0.2, 0.4, 0.6, 0.8])) - knots[:-1, None]
    aside = np.abs(between[..., 0] * along[:, 1:] - between[..., 1] * along[:, :1]).max(axis=1)
    return np.asarray(aside > 0.2 * bend + STRAIGHT)


class Path:
    """Planar curve at evenly spaced points, extrapolated straight beyond both ends.

    Between two points the position is the chord's plus the sag of an arc, yaw and curvature are linear; `at` and `project` agree on that.

    Attributes:
        s: (n,) distance along the path [m], from 0 to `length`.
        x, y: (n,) [m].
        yaw: (n,) [rad], unwrapped.
        curvature: (n,) [1/m], positive to the left.
        step: distance between two points [m].
        length: [m].
    """

    def __init__(self, points: np.ndarray, smooth: bool = True, start_yaw: float | None = None, where: str = "path") -> None:
        """Fits a cubic spline over the chord length through `points` (n, 2) [m], or their polyline if not `smooth`.

        Where the spline leaves a straight piece by more than the bends at its ends explain, as beside a long one that meets a dense bend,
        points on that piece are added.

        More than 20 000 points are thinned: points within 0.2 m of the remaining polyline are left out. The work grows with the
        points and with the length, both of which are limited.

        Args:
            start_yaw: direction of the spline at its start [rad]; free if None.
            where: name of the path in error messages.

        Raises:
            InputError: points of another shape, not finite, out of range, fewer than two distinct, more than 500 000 or too many
                to be left out, or a path shorter than 0.5 m or longer than 50 km.
        """
        knots = _distinct(points, where)
        u = _chord_length(knots)
        _check_length(u[-1], where)  # before tables are made for it
        if smooth:
            if start_yaw is not None and not np.isfinite(start_yaw):
                raise InputError(f"{where}: start_yaw is {start_yaw}; give a finite angle")
            from scipy.interpolate import CubicHermiteSpline

            curve = _spline(knots, start_yaw)
            u, chords = curve.x, np.diff(curve.x)
            # The arc length at fine parameters by Gauss' rule on the speed, and its inverse.
            parts = np.maximum(np.ceil(chords / STEP).astype(int), 2)
            fine = np.append(np.repeat(u[:-1], parts) + _ramp(parts) * np.repeat(chords / parts, parts), u[-1])
            half = 0.5 * np.diff(fine)
            nodes = (fine[:-1] + half)[:, None] + half[:, None] * GAUSS[0]
            distance = np.concatenate([[0.0], np.cumsum(half * (dot(np.linalg.norm(curve(nodes, 1), axis=-1), GAUSS[1])))])
            s = _even(distance[-1], where)
            pace = np.maximum(np.linalg.norm(curve(fine, 1), axis=-1), 1e-3)
            at = np.clip(CubicHermiteSpline(distance, fine, 1.0 / pace)(s), 0.0, u[-1])
            (x, y), (dx, dy), (ddx, ddy) = curve(at).T, curve(at, 1).T, curve(at, 2).T
            yaw = np.unwrap(np.arctan2(dy, dx))
            curvature = (dx * ddy - dy * ddx) / np.maximum(np.hypot(dx, dy), 1e-3) ** 3
        else:
            s = _even(u[-1], where)
            x, y = np.interp(s, u, knots[:, 0]), np.interp(s, u, knots[:, 1])
            # A point's direction is the mean of its two pieces': a corner is rounded over one step.
            pieces = np.unwrap(np.arctan2(np.diff(y), np.diff(x)))
            yaw = np.concatenate([pieces[:1], 0.5 * (pieces[:-1] + pieces[1:]), pieces[-1:]])
            curvature = np.concatenate([[0.0], np.diff(pieces) / s[1], [0.0]])
        self._take(s, x, y, yaw, curvature)

    @classmethod
    def of_samples(cls, s: np.ndarray, x: np.ndarray, y: np.ndarray, yaw: np.ndarray, curvature: np.ndarray) -> Path:
        """Makes a path of samples at even distances `s` (n,) from 0, at most 0.5 m apart; nothing is fitted or checked."""
        path = cls.__new__(cls)
        path._take(s, x, y, yaw, curvature)
        return path

    @classmethod
    def resampled(cls, x: np.ndarray, y: np.ndarray, yaw: np.ndarray, curvature: np.ndarray, step: float = STEP) -> Path:
        """Makes a path of samples (n,) at any distances, linear between them, its points at most `step` [m] apart; nothing is fitted or
        checked."""
        s = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
        even = np.linspace(0.0, s[-1], max(int(np.ceil(s[-1] / step)), 2) + 1)
        return cls.of_samples(even, *(np.interp(even, s, values) for values in (x, y, yaw, curvature)))

    def _take(self, s: np.ndarray, x: np.ndarray, y: np.ndarray, yaw: np.ndarray, curvature: np.ndarray) -> None:
        self.s, self.x, self.y, self.yaw, self.curvature = s, x, y, yaw, curvature
        self.step, self.length = float(s[1] - s[0]), float(s[-1])
        # Straight on beyond both ends by a window, so that no index leaves the tables.
        self._pad = pad = int(np.ceil(SEARCH_WINDOW / self.step)) + 1
        beyond = self.step * np.arange(1, pad + 1)
        cosine, sine = np.cos(yaw), np.sin(yaw)
        xs = np.concatenate([x[0] - beyond[::-1] * cosine[0], x, x[-1] + beyond * cosine[-1]])
        ys = np.concatenate([y[0] - beyond[::-1] * sine[0], y, y[-1] + beyond * sine[-1]])
        yaws, ends = np.concatenate([np.full(pad, yaw[0]), yaw, np.full(pad, yaw[-1])]), np.zeros(pad)
        curvatures = np.concatenate([ends, curvature, ends])
        cosines, sines = np.cos(yaws), np.sin(yaws)
        self._last = len(xs) - 2  # last piece
        chord = np.hypot(np.diff(xs), np.diff(ys))
        chord = np.where(chord > 0.0, chord, 1.0)  # points may coincide where a path reverses
        sag = 0.5 * self.step * np.diff(yaws)
        # With the along-track coordinate of each point itself: g = x cos + y sin - that.
        self._points = np.array([xs, ys, cosines, sines, xs * cosines + ys * sines])
        low, high = np.zeros(len(chord)), np.ones(len(chord))  # only the pieces beyond the ends extend past their own length
        low[:pad], high[-pad:] = -np.inf, np.inf
        self._pieces = np.array([np.diff(xs) / chord, np.diff(ys) / chord, sag, chord, low, high])
        self._curves = np.array([xs[:-1], np.diff(xs), ys[:-1], np.diff(ys), yaws[:-1], np.diff(yaws), curvatures[:-1], np.diff(curvatures),
                                 sag * np.diff(ys) / chord, -sag * np.diff(xs) / chord])
        self._tree: cKDTree | None = None

    def project(self, x: np.ndarray, y: np.ndarray, near: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Returns distance along the path and offset to its left (m,), (m,) [m] of the points nearest to `x`, `y` (m,).

        Args:
            near: (m,) guesses of the distances [m]: the nearest point within 10 m of them; None: the nearest of all. A path that crosses
                itself or returns needs the guess.
        """
        s, offset, *_ = self.locate(x, y, near)
        return s, offset

    def locate(self, x: np.ndarray, y: np.ndarray, near: np.ndarray | None = None) -> np.ndarray:
        """Returns `project` and `at` combined: rows distance, offset, x, y, yaw, curvature (6, m)."""
        x, y = np.asarray(x, float), np.asarray(y, float)
        if near is None:
            if self._tree is None and len(x) * len(self.x) <= MAX_BRUTE_FORCE and np.isfinite(x).all() and np.isfinite(y).all():
                near = self.step * ((self.x - x[:, None]) ** 2 + (self.y - y[:, None]) ** 2).argmin(axis=1)
            else:
                self._tree = self._tree or cKDTree(np.column_stack([self.x, self.y]))
                near = self.step * self._tree.query(np.column_stack([x, y]))[1]
        x, y, near = (np.ascontiguousarray(a, float) for a in (x, y, np.broadcast_to(near, np.shape(x))))
        found, points = np.empty((6, len(x))), self._points
        _locate()(*addresses(points, self._pieces, self._curves, points.shape[1], self._pad, self.step, x, y, near, len(x), found))
        return found

    def at(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Returns x, y [m], yaw [rad], curvature [1/m], each (m,), at distances `s` (m,) [m]; straight on beyond the ends."""
        place = np.asarray(s, float) * (1.0 / self.step)
        place = place + self._pad
        index = np.minimum(np.fmax(place, 0.0), self._last).astype(np.intp)
        share = place - index
        x, dx, y, dy, yaw, dyaw, curvature, dcurvature, ex, ey = self._curves.take(index, axis=1)
        bulge = share * (1.0 - share)
        return x + dx * share + ex * bulge, y + dy * share + ey * bulge, yaw + dyaw * share, curvature + dcurvature * share

    def extended(self, distance: float) -> Path:
        """Returns this path made longer by at least `distance` [m], straight on beyond its end."""
        s = self.step * np.arange(len(self.s) + max(int(np.ceil(distance / self.step)), 0))
        x, y, yaw, curvature = self.at(s)
        return Path.of_samples(s, x, y, yaw, curvature)


@cache
def _locate() -> Callable[..., int]:
    return native("lfdm_ros.simulation.path_native", (*[POINTER] * 3, INTEGER, INTEGER, REAL, *[POINTER] * 3, INTEGER, POINTER), INTEGER,
                  ("lfdm_ros.simulation.path",), "locate")


def speed_profile(path: Path, highest: float | np.ndarray, lateral_acceleration: float, acceleration: float, braking: float,
                  end_speed: float = np.inf, ellipse: bool = False) -> np.ndarray:
    """Returns the highest speed at each of the path's points (n,) [m/s] that the limits allow, by a backward and a forward pass.

    Args:
        highest: [m/s], one, or one a point of `path.s`.
        lateral_acceleration, acceleration, braking: limits [m/s^2], positive.
        end_speed: limit at the path's end [m/s].
        ellipse: the share of the lateral limit in use reduces the longitudinal ones: sqrt(1 - (lateral share)^2) is left.

    Raises:
        InputError: a limit that is not positive, a negative or not finite speed, or `highest` of another length.
    """
    for name, value in (("lateral_acceleration", lateral_acceleration), ("acceleration", acceleration), ("braking", braking)):
        if not (np.isfinite(value) and value > 0.0):
            raise InputError(f"speed profile: {name} is {value}; give more than 0 m/s^2")
    highest = np.asarray(highest, float)
    if highest.shape not in ((), path.s.shape):
        raise InputError(f"speed profile: highest has shape {highest.shape}; give one speed or {len(path.s)}, one a point of the path")
    if not (np.isfinite(highest).all() and (highest >= 0.0).all()):
        raise InputError("speed profile: highest has a speed that is negative or not finite; give 0 m/s or more")
    require("speed", float(highest.max()), "speed profile: highest")
    if np.isnan(end_speed) or end_speed < 0.0:
        raise InputError(f"speed profile: end_speed is {end_speed}; give 0 m/s or more")
    bend = np.maximum(np.abs(path.curvature), 1e-9)
    square = np.minimum(highest**2, lateral_acceleration / bend)
    square[-1] = min(square[-1], end_speed**2)
    if not ellipse:
        # v^2 grows by 2 a ds a step at most: the lower envelope of lines of that slope, which is a running minimum.
        slope = 2.0 * braking * path.s
        square = np.minimum.accumulate((square + slope)[::-1])[::-1] - slope
        slope = 2.0 * acceleration * path.s
        return np.sqrt(np.maximum(np.minimum.accumulate(square - slope) + slope, 0.0))
    caps, shares = square.tolist(), (bend / lateral_acceleration).tolist()
    for order, back, limit in ((range(len(caps) - 2, -1, -1), 1, braking), (range(1, len(caps)), -1, acceleration)):
        for k in order:
            before = caps[k + back]
            left = 1.0 - (before * shares[k + back]) ** 2
            reach = before + 2.0 * limit * path.step * (left**0.5 if left > 0.0 else 0.0)
            if reach < caps[k]:
                caps[k] = reach
    speeds: np.ndarray = np.sqrt(np.array(caps))
    return speeds


def _distinct(points: np.ndarray, where: str) -> np.ndarray:
    """Returns the points (n, 2) without those that repeat the one before, and thinned."""
    try:
        points = np.asarray(points, float)
    except (TypeError, ValueError):
        raise InputError(f"{where}: not all points are pairs of numbers; give rows [x, y] in m") from None
    if points.ndim != 2 or points.shape[1] != 2:
        raise InputError(f"{where}: points have shape {points.shape}; give rows [x, y] in m")
    require("points", len(points), f"{where}: number of points")
    require_array("x", points, f"{where}: point")
    points = _thinned(points, where)
    if len(points) > 1 and np.hypot(*np.diff(points, axis=0).T).min() < MERGE_DISTANCE:
        selected, rows = [0], points.tolist()
        last_x, last_y = rows[0]
        for i, (x, y) in enumerate(rows):
            if math.hypot(x - last_x, y - last_y) >= MERGE_DISTANCE:
                selected.append(i)
                last_x, last_y = x, y
        points = points[selected]
    if len(points) < 2:
        raise InputError(f"{where}: {len(points)} distinct point; give at least two")
    return points


def _thinned(points: np.ndarray, where: str) -> np.ndarray:
    """Thins more than 20 000 points (n, 2) so that each one left out lies within 0.2 m of the polyline of the others."""
    if len(points) <= MAX_KNOTS:
        return points
    u = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])
    if u[-1] < MERGE_DISTANCE:
        return points[[0, -1]]
    spacing = u[-1] / MAX_KNOTS
    for _ in range(_MAX_HALVINGS):
        cell = (u / spacing).astype(np.int64)
        selected = np.flatnonzero(np.concatenate([[True], cell[1:] != cell[:-1]]))
        selected[-1] = len(points) - 1  # the end stays the end
        a, b = points[selected[:-1]], points[selected[1:]]
        piece = np.clip(np.searchsorted(selected, np.arange(len(points)), side="right") - 1, 0, len(a) - 1)
        along = (b - a)[piece]
        aside = points - a[piece]
        share = np.clip((aside * along).sum(axis=1) / np.maximum((along * along).sum(axis=1), 1e-12), 0.0, 1.0)
        if np.hypot(*(aside - share[:, None] * along).T).max() <= MAX_THINNING_ERROR:
            return points[selected]
        spacing *= 0.5
    raise Refused(f"{where}: {len(points)} points, which fewer cannot follow within {MAX_THINNING_ERROR:g} m; send a smoother path",
                  TOO_MANY)


def _ramp(counts: np.ndarray) -> np.ndarray:
    """Returns 0, 1, ... count - 1 of each count, concatenated."""
    ramp: np.ndarray = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return ramp


def _check_length(length: float, where: str) -> None:
    if not MIN_LENGTH <= length <= MAX_LENGTH:
        raise Refused(f"{where}: it is {length:g} m long; give {MIN_LENGTH:g} to {MAX_LENGTH:g} m", OUT_OF_RANGE)


def _even(length: float, where: str) -> np.ndarray:
    """Returns even distances from 0 to `length`, at most STEP apart."""
    _check_length(length, where)
    return np.linspace(0.0, length, max(int(np.ceil(length / STEP)), 2) + 1)


def outside(corridor: np.ndarray | None, path: Path, along: float, x: float, y: float, yaw: float,
            footprint: Footprint) -> tuple[float, float]:
    """Returns the excursions of the outermost corners beyond the left and the right border of the corridor [m], rows (k, 3) of s along the
    path and room to its left and right; 0 inside, or without a corridor. along: a guess of the distance of x, y along the path [m]."""
    if corridor is None:
        return 0.0, 0.0
    c, s = math.cos(yaw), math.sin(yaw)
    corners = np.array([(f, w) for f in (footprint.front, -footprint.rear) for w in (footprint.half_width, -footprint.half_width)])
    px, py = x + c * corners[:, 0] - s * corners[:, 1], y + s * corners[:, 0] + c * corners[:, 1]
    at, offset = path.project(px, py, along + corners[:, 0])
    inside = (at >= corridor[0, 0]) & (at <= corridor[-1, 0])
    left, right = np.interp(at, corridor[:, 0], corridor[:, 1]), np.interp(at, corridor[:, 0], corridor[:, 2])
    return (float(np.max(np.where(inside, offset - left, 0.0), initial=0.0)),
            float(np.max(np.where(inside, -right - offset, 0.0), initial=0.0)))


def locate(x: Any, y: Any, near: Any, points: Any, pieces: Any, curves: Any, pad: int, step: float, found: Any) -> None:
    """Finds the points of a path nearest to positions, within a window about guesses.

    Args:
        x, y: positions (m,) [m]; near: guesses of their distances along the path (m,) [m].
        points: (5, k) of the path's points, `pad` beyond either end: x, y [m], yaw's cosine and sine, and the coordinate along that [m].
        pieces: (6, k - 1) between two of them: the chord's direction x, y, its sag and length [m], the least and the largest share.
        curves: (10, k - 1) x, y, yaw, curvature, each and its change along the piece, then the sag's parts along x, y.
        pad: half a window, and one; step: between two points [m].
        found: written, (6, m): distance along the path [m], offset to its left [m], and x, y [m], yaw [rad], curvature [1/m] there.
    """
    last, wide = points.shape[1] - 2, 2 * pad - 1
    for k in range(len(x)):
        px, py = x[k], y[k]
        guess = near[k] * (1.0 / step)
        first = points.shape[1] - wide
        if not guess > -1.0:
            first = 0
        elif guess < first:
            first = min(round(guess) + 1, first)
        index, least = first, math.inf
        for i in range(first, first + wide):
            dx, dy = points[0, i] - px, points[1, i] - py
            away = dx * dx + dy * dy
            if away < least:
                index, least = i, away
        if px * points[2, index] + py * points[3, index] < points[4, index]:  # behind the nearest point: on the piece before it
            index -= 1
        index = min(max(index, 0), last)
        # Foot point: the line to the position is perpendicular to the direction, which varies linearly along the piece.
        behind = px * points[2, index] + py * points[3, index] - points[4, index]
        ahead = points[4, index + 1] - px * points[2, index + 1] - py * points[3, index + 1]
        width = behind + ahead
        tx, ty, sag, chord = pieces[0, index], pieces[1, index], pieces[2, index], pieces[3, index]
        share = min(max(behind / (width if width > 1e-9 else 1e-9), pieces[4, index]), pieces[5, index])
        s = (index - pad + share) * step
        dx, dy = px - points[0, index] - share * chord * tx, py - points[1, index] - share * chord * ty
        along, left = dx * tx + dy * ty, dy * tx - dx * ty
        found[0, k] = s
        found[1, k] = math.copysign(math.sqrt(along * along + left * left), left) + sag * share * (1.0 - share)
        place = s * (1.0 / step) + pad
        i = int(min(max(place, 0.0), last)) if place == place else 0
        share = place - i
        bulge = share * (1.0 - share)
        found[2, k] = curves[0, i] + curves[1, i] * share + curves[8, i] * bulge
        found[3, k] = curves[2, i] + curves[3, i] * share + curves[9, i] * bulge
        found[4, k] = curves[4, i] + curves[5, i] * share
        found[5, k] = curves[6, i] + curves[7, i] * share
