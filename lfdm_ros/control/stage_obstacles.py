"""Which obstacles the stages of a plan are to keep from: loops on arrays by index.

Numbers in, numbers out: Python runs it as it stands, and `stage_obstacles_native` makes machine code of the same text.
"""

from __future__ import annotations

import math
from typing import Any

FAR_AWAY = 60.0  # [m] where an obstacle stands that does not exist


def avoid(z: Any, place: Any, grid: Any, circles: Any, later: float, found: Any) -> None:
    """The obstacles nearest to each stage, half of the slots on its left and half on its right, nearest first.

    Args:
        z: states (N+1, nz); place: of x, y, yaw in them (3,); grid: times of the stages (N+1,) [s].
        circles: (m, 5) x, y [m], velocities [m/s], radius [m], as they were `later` [s] before the first stage.
        found: written, (N+1, slots, 3): x, y, radius [m]; FAR_AWAY where there is none.
    """
    half = found.shape[1] // 2
    for k in range(len(z)):
        x, y, yaw, ahead = z[k, place[0]], z[k, place[1]], z[k, place[2]], later + grid[k]
        c, s = math.cos(yaw), math.sin(yaw)
        for side in range(2):
            least, taken = -math.inf, -1  # distance and number of the circle that was taken last
            for slot in range(half * side, half * side + half):
                best, distance = -1, FAR_AWAY
                for j in range(len(circles)):
                    dx, dy = circles[j, 0] + ahead * circles[j, 2] - x, circles[j, 1] + ahead * circles[j, 3] - y
                    if (c * dy - s * dx > 0.0) == (side == 0):
                        away = math.sqrt(dx * dx + dy * dy) - circles[j, 4]
                        if away < distance and (away > least or (away == least and j > taken)):
                            best, distance = j, away
                found[k, slot, 0], found[k, slot, 1], found[k, slot, 2] = x + FAR_AWAY, y, 0.0
                if best >= 0:
                    found[k, slot, 0] = x + (circles[best, 0] + ahead * circles[best, 2] - x)
                    found[k, slot, 1] = y + (circles[best, 1] + ahead * circles[best, 3] - y)
                    found[k, slot, 2] = circles[best, 4]
                    least, taken = distance, best
                else:
                    least = math.inf
