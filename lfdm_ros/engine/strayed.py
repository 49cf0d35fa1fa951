"""When a vehicle has not driven to where it is, but was put there."""

from __future__ import annotations

import math
from collections.abc import Mapping

_STRAY = 2.0  # [m] beyond what the speed explains


def strayed(before: tuple[int, Mapping[str, float]], after: tuple[int, Mapping[str, float]]) -> bool:
    """Of two states, (time [ns], x, y [m], vx, vy [m/s] by name)."""
    a, b = before[1], after[1]
    way = math.hypot(b["x"] - a["x"], b["y"] - a["y"])
    speed = max(math.hypot(a["vx"], a["vy"]), math.hypot(b["vx"], b["vy"]))
    return way > _STRAY + 2.0 * speed * 1e-9 * (after[0] - before[0])
