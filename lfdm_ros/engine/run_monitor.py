"""Contact with obstacles, wheel lift and excursions from the corridor of a simulated vehicle. Independent of ROS."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lfdm_ros.simulation import Footprint, World
from lfdm_ros.simulation.path import Path, outside

Outputs = Sequence[float] | np.ndarray  # of the model, SI


@dataclass(frozen=True)
class RunVerdict:
    """Findings since the start; see SimulatorStatus.msg."""

    collisions: int = 0
    first_collision: str = ""
    first_collision_time: float = math.nan
    least_clearance: float = math.inf
    lifted_wheels_most: int = 0
    first_lift_time: float = math.nan


class RunMonitor:
    """Monitor of the true state. A collision counts when it begins; the vehicle drives on through the obstacle.

    Attributes:
        verdict: on contact and lift.
        path: of the task; None: there is none. longitudinal: position along it at the last check [m], which the next one looks near;
            None: not known. path_error, excursion: largest distance from it, and of a corner out of its corridor [m], of a vehicle that
            begins outside less that at the start, until it is inside.
    """

    def __init__(self, world: World, footprint: Footprint, output_index: Mapping[str, int], path: Path | None = None,
                 corridor: np.ndarray | None = None) -> None:
        """Creates a monitor that has found nothing. output_index: position of each of the model's outputs by name; a model may lack
        lifted_wheels. corridor: as `outside` takes it."""
        self._world, self._footprint, self.path, self._corridor = world, footprint, path, corridor
        self._pose = [output_index[name] for name in ("x", "y", "yaw")]
        self._lifted = output_index.get("lifted_wheels")
        self.reset()

    def reset(self, origin: float = 0.0) -> None:
        """Forgets all findings. At the time `origin` [s] the world begins anew."""
        self._origin = origin
        self.verdict = RunVerdict()
        self._touching = False
        self.longitudinal: float | None = None
        self.path_error = self.excursion = 0.0
        self._entering = math.inf

    def update(self, time: float, outputs: Outputs) -> list[str]:
        """Checks contact and lift of a state at a time [s]; returns new findings in words."""
        before = self.verdict
        if self._world.obstacles:
            self.check_contact(time, outputs)
        self.check_lift(time, outputs)
        after, news = self.verdict, []
        if after.collisions > before.collisions:
            news.append(f"collision with {self._nearest(time, outputs)} at {time:.2f} s")
        if after.lifted_wheels_most > before.lifted_wheels_most:
            lifted = after.lifted_wheels_most
            news.append(f"{lifted} wheel{'s' if lifted > 1 else ''} off the ground at {time:.2f} s")
        return news

    def check_contact(self, time: float, outputs: Outputs) -> float:
        """Returns the clearance [m] at a time [s], 0 or less in contact; infinite without obstacles."""
        found = self.verdict
        clearance = self._world.clearance(time - self._origin, *self._at(outputs), self._footprint)
        touches = clearance <= 0.0
        if touches and not self._touching:
            found = replace(found, collisions=found.collisions + 1)
            if found.collisions == 1:
                found = replace(found, first_collision=self._nearest(time, outputs), first_collision_time=time)
        self._touching = touches
        self.verdict = replace(found, least_clearance=min(found.least_clearance, clearance))
        return clearance

    def check_lift(self, time: float, outputs: Outputs) -> int:
        """Returns the number of wheels that carry no load at a time [s]."""
        lifted, found = int(outputs[self._lifted]) if self._lifted is not None else 0, self.verdict
        if lifted > found.lifted_wheels_most:
            self.verdict = replace(found, lifted_wheels_most=lifted,
                                   first_lift_time=found.first_lift_time if found.lifted_wheels_most else time)
        return lifted

    def check_path(self, outputs: Outputs) -> float:
        """Returns the distance [m] of the outermost corner out of the corridor, 0 inside or without a path."""
        if self.path is None:
            return 0.0
        x, y, yaw = self._at(outputs)
        near = None if self.longitudinal is None else np.array([self.longitudinal])
        (self.longitudinal,), (offset,) = (v.tolist() for v in self.path.project(np.array([x]), np.array([y]), near))
        sides = outside(self._corridor, self.path, self.longitudinal, x, y, yaw, self._footprint)
        excursion = max(sides)
        # A vehicle that begins outside, on one side, is out by how much further it comes until it is inside.
        if self._entering == math.inf or excursion <= 0.0:
            self._entering = excursion if min(sides) <= 0.0 else 0.0
        self.path_error, self.excursion = max(self.path_error, abs(offset)), max(self.excursion, excursion - self._entering)
        return excursion

    def _nearest(self, time: float, outputs: Outputs) -> str:
        return self._world.nearest(time - self._origin, *self._at(outputs), self._footprint)

    def _at(self, outputs: Outputs) -> tuple[float, float, float]:
        x, y, yaw = (float(outputs[i]) for i in self._pose)
        return x, y, yaw
