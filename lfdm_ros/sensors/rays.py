"""Ray casting of a LIDAR: a loop over obstacles and the beams that can hit them, in sensor axes.

Plain Python, compiled by numba (`lfdm_ros.sensors.loops_native`).
"""

import math
from collections.abc import Callable

import numpy as np

Between = Callable[[float, float, float, float, int], tuple[int, int]]
OVERLAP = 1e-12  # relative to an edge: a beam must not pass between two edges by rounding
_MAX_ANGLE = 3.1  # [rad] subtended by an edge; beyond it all beams are tested


def cast(between: Between, pose: np.ndarray, centres: np.ndarray, radii: np.ndarray, starts: np.ndarray, ends: np.ndarray,
         along: np.ndarray, beams: np.ndarray, ranges: np.ndarray) -> int:
    """Computes the distances (b,) [m] to the first surface on each beam; inf without one.

    Args:
        between: `beams_between`, or its compiled version.
        pose: x, y [m], cosine and sine of the yaw angle of the sensor.
        centres, radii: (n, 2), (n,) of circles; starts, ends: (m, 2) of edges [m], in the axes of the pose.
        along: (b, 2) directions of the beams in sensor axes; beams: angle of the first, angular step [rad], reach [m].
    """
    x, y, cos, sin = pose[0], pose[1], pose[2], pose[3]
    count, first, step, reach = len(ranges), beams[0], beams[1], beams[2]
    ranges[:] = np.inf
    for k in range(len(radii)):
        dx, dy, r = centres[k, 0] - x, centres[k, 1] - y, radii[k]
        cx, cy = cos * dx + sin * dy, cos * dy - sin * dx
        away = cx * cx + cy * cy
        if away >= (r + reach) ** 2:
            continue
        share = r / math.sqrt(away) if away > 0.0 else 1.0
        half = math.asin(share) if share < 1.0 - 1e-9 else math.pi
        bearing = math.atan2(cy, cx)
        for turn in range(-1, 2):
            low, high = between(bearing - half + 2.0 * math.pi * turn, bearing + half + 2.0 * math.pi * turn, first, step, count)
            for i in range(low, high):
                c, s = along[i, 0], along[i, 1]
                ahead, aside = c * cx + s * cy, c * cy - s * cx
                square = r * r - aside * aside
                if square >= 0.0:  # otherwise the line misses
                    chord = math.sqrt(square)
                    hit = ahead - chord if ahead >= chord else ahead + chord
                    if 0.0 <= hit < ranges[i]:
                        ranges[i] = hit
    for k in range(len(starts)):
        dx, dy, fx, fy = starts[k, 0] - x, starts[k, 1] - y, ends[k, 0] - x, ends[k, 1] - y
        px, py = cos * dx + sin * dy, cos * dy - sin * dx
        ex, ey = cos * fx + sin * fy - px, cos * fy - sin * fx - py
        begin = math.atan2(py, px)
        wide = math.atan2(px * ey - py * ex, px * (px + ex) + py * (py + ey))  # bearing of its end relative to its start
        if abs(wide) > _MAX_ANGLE:
            begin, wide = -math.pi, 2.0 * math.pi
        for turn in range(-1, 2):
            low, high = between(min(begin, begin + wide) + 2.0 * math.pi * turn, max(begin, begin + wide) + 2.0 * math.pi * turn, first,
                                step, count)
            for i in range(low, high):
                c, s = along[i, 0], along[i, 1]
                # Intersection of the beam t d and the edge p + w e: t = (e x p) / (e x d), w = (d x p) / (e x d).
                across = s * ex - c * ey
                if across != 0.0:
                    hit, part = (py * ex - px * ey) / across, (c * py - s * px) / across
                    if 0.0 <= hit < ranges[i] and -OVERLAP <= part <= 1.0 + OVERLAP:
                        ranges[i] = hit
    return 0


def beams_between(low: float, high: float, first: float, step: float, count: int) -> tuple[int, int]:
    """Returns the range of beams between two angles [rad], and one more on each side."""
    return max(math.floor((low - first) / step) - 1, 0), min(math.ceil((high - first) / step) + 2, count)
