"""Whether a simulated vehicle met an obstacle or lifted a wheel, so that a run can be judged. Knows nothing of ROS."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lfdm_ros.simulation import Footprint, World


@dataclass(frozen=True)
class Verdict:
    """What was found since the start; see SimulatorStatus.msg."""

    collisions: int = 0
    first_collision: str = ""
    first_collision_time: float = math.nan
    least_clearance: float = math.inf
    lifted_wheels_most: int = 0
    first_lift_time: float = math.nan


class Judge:
    """Looks at the true state once a tick. A collision counts when it begins; the vehicle drives on through the obstacle."""

    def __init__(self, world: World, footprint: Footprint, output_index: Mapping[str, int]) -> None:
        """
        Args:
            output_index: position of each of the model's outputs by name; a model may lack lifted_wheels.
        """
        self._world, self._footprint = world, footprint
        self._pose = [output_index[name] for name in ("x", "y", "yaw")]
        self._lifted = output_index.get("lifted_wheels")
        self.reset()

    def reset(self, origin: float = 0.0) -> None:
        """Forgets what was found. At the time `origin` [s] the world begins anew."""
        self._origin = origin
        self.verdict = Verdict()
        self._touching = False

    def look(self, time: float, outputs: Sequence[float]) -> list[str]:
        """Takes a state at a time [s]; returns what is new, in words."""
        v, news = self.verdict, []
        collisions, first, first_time, least, most, lift_time = (
            v.collisions, v.first_collision, v.first_collision_time, v.least_clearance, v.lifted_wheels_most, v.first_lift_time)
        if self._world.obstacles:
            x, y, yaw = (outputs[i] for i in self._pose)
            since = time - self._origin
            clearance = self._world.clearance(since, x, y, yaw, self._footprint)
            least = min(least, clearance)
            touches = clearance <= 0.0
            if touches and not self._touching:
                collisions += 1
                name = self._world.nearest(since, x, y, yaw, self._footprint)
                news.append(f"collision with {name} at {time:.2f} s")
                if collisions == 1:
                    first, first_time = name, time
            self._touching = touches
        lifted = int(outputs[self._lifted]) if self._lifted is not None else 0
        if lifted > most:
            if not most:
                lift_time = time
            news.append(f"{lifted} wheel{'s' if lifted > 1 else ''} off the ground at {time:.2f} s")
            most = lifted
        self.verdict = Verdict(collisions, first, first_time, least, most, lift_time)
        return news
