"""The law published with paper 001's experiments, as a baseline: the sideslip now, from 0 to 3 degrees.

It sees neither obstacles nor what is to come, and 3 degrees are ordinary in a hard lane change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from lfdm_ros.parameters import Declared, setting
from lfdm_ros.sharing.situation import Situation
from lfdm_ros.sharing.threat import Assessment


@dataclass(frozen=True)
class Sideslip(Declared):
    """threat = |atan2(vy, |vx|)| / full, at most 1."""

    ABOUT: ClassVar[str] = "threat sideslip: "
    name: ClassVar[str] = "sideslip"

    full: float = setting(3.0, "deg", "sideslip at which the threat is 1", 0.1, 90.0)
    least_speed: float = setting(0.5, "m/s", "a slower vehicle has no sideslip worth the name", 0.0, 10.0)

    def assess(self, situation: Situation) -> Assessment:
        vx, vy = situation.value("vx"), situation.value("vy")
        if math.hypot(vx, vy) < self.least_speed:
            return Assessment(0.0, "standing")
        slip = math.degrees(abs(math.atan2(vy, abs(vx))))
        return Assessment(min(slip / self.full, 1.0), f"sideslip {slip:.1f} deg", details={"sideslip_deg": slip})

    def reset(self) -> None:
        """Keeps nothing."""
