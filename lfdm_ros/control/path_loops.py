"""Where positions lie along a path: a loop on arrays by index.

Numbers in, numbers out: Python runs it as it stands, and `path_native` makes machine code of the same text.
"""

from __future__ import annotations

import math
from typing import Any


def locate(x: Any, y: Any, near: Any, points: Any, pieces: Any, curves: Any, pad: int, step: float, found: Any) -> None:
    """The points of a path nearest to positions, within a window about guesses.

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
        # Where the line to the point is square to the direction, which turns from one end of the piece to the other.
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
