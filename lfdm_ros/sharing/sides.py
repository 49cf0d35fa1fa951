"""Whether operator and autonomy pass an obstacle on opposite sides: then their mean hits what each of them misses.

Two ways from the same place are of one class if the one can be moved into the other without sweeping over an obstacle. Together, the one
forwards and the other back, they are a closed curve, and its winding number about an obstacle says how often they pass it differently: 0 is
the same side (Bhattacharya, Likhachev & Kumar 2012, "Topological constraints in search-based robot path planning": the homology class in
the plane). For an obstacle that moves the curve is the one that is seen from it. The ends are joined straight: what both have yet to pass,
neither has passed.
"""

from __future__ import annotations

import math

import numpy as np

from lfdm_ros.control.plan import Plan
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.sharing.forecast import poses

SPACING = 0.5  # [m]


def opposite(first: Plan, second: Plan, now: float, horizon: float, obstacles: Obstacles, near: float) -> np.ndarray:
    """Which obstacles (n,) two trajectories from the same place pass on opposite sides.

    Args:
        now, horizon: from when on, and for how long [s].
        near: obstacles count that both come as near as this with their middle [m], less the radius.
    """
    none = np.zeros(len(obstacles.radii), bool)
    end = min(float(first.times[-1]), float(second.times[-1])) - now
    (t_a, a), (t_b, b) = (poses(trajectory, now, min(horizon, end), SPACING) for trajectory in (first, second))
    if not len(none) or len(t_a) < 2 or len(t_b) < 2:
        return none
    from_a, from_b = (_seen_from(obstacles, now, t, at) for t, at in ((t_a, a), (t_b, b)))  # (n, m, 2)
    closest = [np.hypot(seen[..., 0], seen[..., 1]).min(axis=1) - obstacles.radii for seen in (from_a, from_b)]
    count = (closest[0] <= near) & (closest[1] <= near)
    for i in np.flatnonzero(count).tolist():
        none[i] = winding(np.concatenate([from_a[i], from_b[i][::-1]])) != 0
    return none


def _seen_from(obstacles: Obstacles, now: float, times: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The places (m, 3) at `times` (m,) from `now` on, as seen from each obstacle (n, m, 2)."""
    moved = obstacles.velocities[:, None, :] * ((now - obstacles.time) + times)[None, :, None]
    return np.asarray(at[None, :, :2] - obstacles.centres[:, None, :] - moved)


def winding(curve: np.ndarray) -> int:
    """How often a closed curve (m, 2) goes around the origin, to the left; 0 where the origin lies on it."""
    after = np.roll(curve, -1, axis=0)
    cross = curve[:, 0] * after[:, 1] - curve[:, 1] * after[:, 0]
    dot = (curve * after).sum(axis=1)
    if ((cross == 0.0) & (dot <= 0.0)).any():
        return 0
    return round(float(np.arctan2(cross, dot).sum()) / (2.0 * math.pi))
