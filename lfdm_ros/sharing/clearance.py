"""Time to collision and clearance: how soon and how near what is about to be driven comes to what is seen.

The vehicle's outline against circles, exact, as the simulated world judges it; obstacles that move go on as they do. A place that comes
near counts by how soon it comes, and by how near: what touches now is a threat of 1, what touches later than `far` or keeps `margin` is
none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lfdm_ros.control.plan import Plan
from lfdm_ros.control.safety.stops import outline_distance
from lfdm_ros.parameters import Declared, setting
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.sharing.forecast import poses
from lfdm_ros.sharing.situation import Situation
from lfdm_ros.sharing.threat import Assessment
from lfdm_ros.vehicles import Footprint

SPACING = 0.25  # [m] between the poses that are looked at


@dataclass(frozen=True)
class Clearance(Declared):
    """Of the operator's command, held, and of the autonomy's plan."""

    ABOUT: ClassVar[str] = "threat clearance: "
    name: ClassVar[str] = "clearance"

    near: float = setting(0.7, "s", "time to collision up to which the threat is 1", 0.0, 10.0)
    far: float = setting(1.8, "s", "time to collision from which on nothing is threatened", 0.01, 20.0)
    margin: float = setting(0.3, "m", "a wider gap counts as none", 0.01, 10.0)
    scan_timeout: float = setting(1.0, "s", "age of what is seen from which on nothing can be told", 0.01, 60.0)

    def assess(self, situation: Situation) -> Assessment:
        seen = situation.obstacles
        age = situation.time - seen.time
        if age > self.scan_timeout:
            return Assessment.unknown("nothing was seen yet" if math.isinf(age) else f"last seen {age:.2f} s ago")
        if situation.intention is None:
            return Assessment.unknown("there is no command of the operator's")
        mine, ttc, gap = self._threat(situation, situation.intention)
        theirs = math.nan if situation.plan is None else self._threat(situation, situation.plan)[0]
        said = "nothing near" if math.isinf(gap) else f"{gap:.2f} m" if math.isinf(ttc) else f"collision in {ttc:.2f} s"
        return Assessment(mine, said, theirs, {"time_to_collision_s": ttc, "clearance_m": gap})

    def _threat(self, situation: Situation, trajectory: Plan) -> tuple[float, float, float]:
        """Threat, time to collision [s] and least clearance [m]; inf: none."""
        ahead, gaps = clearances(trajectory, situation.time, self.far, situation.obstacles, situation.vehicle.footprint)
        if not len(ahead):
            return math.nan, math.inf, math.inf
        urgent = np.clip((self.far - ahead) / max(self.far - self.near, 1e-6), 0.0, 1.0)
        close = np.clip(1.0 - gaps / self.margin, 0.0, 1.0)
        hits = np.flatnonzero(gaps <= 0.0)
        return float((urgent * close).max()), float(ahead[hits[0]]) if len(hits) else math.inf, float(gaps.min())

    def reset(self) -> None:
        """Keeps nothing."""


def clearances(trajectory: Plan, now: float, horizon: float, obstacles: Obstacles, outline: Footprint) -> tuple[np.ndarray, np.ndarray]:
    """Times from `now` on (n,) [s], at most `horizon`, and the least distance of the outline to an obstacle then (n,) [m], below 0 inside;
    inf where none is near."""
    ahead, at = poses(trajectory, now, horizon, SPACING)
    gaps = np.full(len(ahead), math.inf)
    if not len(ahead) or not len(obstacles.radii):
        return ahead, gaps
    x, y, yaw = at.T
    late = (now - obstacles.time) + ahead[:, None]
    reach = outline.front + outline.rear + 2.0 * outline.half_width + float(np.hypot(x - x[0], y - y[0]).max())
    away = np.hypot(obstacles.centres[:, 0] - x[0], obstacles.centres[:, 1] - y[0]) - obstacles.radii
    travelled = np.hypot(obstacles.velocities[:, 0], obstacles.velocities[:, 1]) * float(late[-1, 0])
    near = obstacles.where(away < reach + travelled + 5.0)
    if not len(near.radii):
        return ahead, gaps
    dx = near.centres[:, 0] + late * near.velocities[:, 0] - x[:, None]
    dy = near.centres[:, 1] + late * near.velocities[:, 1] - y[:, None]
    return ahead, (outline_distance(outline, dx, dy, yaw[:, None]) - near.radii).min(axis=1)
