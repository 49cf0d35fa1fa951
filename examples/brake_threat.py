"""A component of the threat of your own, in one file: how much of the brakes it takes to stop before what is ahead.

    export LFDM_PLUGINS=examples/brake_threat.py
    lfdm up shared_control --set 'threats=[risk, brake]' --set 'threat_settings=[brake.most=6]'

The brake threat number, BTN = a / a_max with a = v^2 / (2 d), v the speed of approach and d the gap (Brannstrom, Coelingh & Sjoberg 2008).
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from lfdm_ros.parameters import Declared, setting
from lfdm_ros.sharing.components import register_component
from lfdm_ros.sharing.threat import Assessment


@dataclass(frozen=True)
class Brake(Declared):
    """threat = BTN, at most 1; looks straight ahead, as wide as the vehicle."""

    ABOUT: ClassVar[str] = "threat brake: "
    name: ClassVar[str] = "brake"

    most: float = setting(7.0, "m/s^2", "deceleration of a full stop", 0.1, 15.0)

    def assess(self, situation):
        body, o = situation.vehicle.footprint, situation.obstacles
        yaw, vx = situation.value("yaw"), situation.value("vx")
        c, s = math.cos(yaw), math.sin(yaw)
        least = 0.0
        for (x, y), radius, (ox, oy) in zip(o.centres.tolist(), o.radii.tolist(), o.velocities.tolist()):
            dx, dy = x - situation.value("x"), y - situation.value("y")
            ahead, aside = c * dx + s * dy, c * dy - s * dx
            approach = vx - (c * ox + s * oy)
            if ahead > 0.0 and abs(aside) < body.half_width + radius and approach > 0.0:
                gap = max(ahead - math.sqrt(max(radius**2 - max(abs(aside) - body.half_width, 0.0)**2, 0.0)) - body.front, 1e-3)
                least = max(least, approach**2 / (2.0 * gap))
        return Assessment(min(least / self.most, 1.0), f"{least:.1f} m/s^2 to stop in time", details={"needed": least})

    def reset(self):
        """Keeps nothing."""


register_component(Brake)
