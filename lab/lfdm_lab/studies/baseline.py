"""What the controllers of a comparison share: the task, what they see, and how fast their actuators move."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from lfdm_ros.control.cycle import Cycle
from lfdm_ros.control.path import Path
from lfdm_ros.control.rules import Rates, rated
from lfdm_ros.control.settings import Settings
from lfdm_ros.control.wayfinding import Wayfinder
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation import Goal
from lfdm_ros.vehicles import Vehicle, with_motor_map


class Baseline:
    """A `closed_loop.Driver` that looks for its way as the controller does; who inherits it says how the way is followed: `cycle`."""

    def __init__(self, vehicle: Vehicle, settings: Settings | None) -> None:
        self.settings, self.vehicle = settings or Settings(), with_motor_map(vehicle)
        self.outline, self.rate_limits = vehicle.footprint, Rates.of(self.settings, vehicle.actuators)
        self._finder = Wayfinder(self.settings, self.outline)
        self._command = (0.0, 0.0)  # steering, pedal

    def follow(self, path: Path, speed: float | np.ndarray, corridor: np.ndarray | None = None, stop: bool = True) -> None:
        """A path, at most at `speed` [m/s], one or one a point; a corridor is not looked at. Raises InputError as `speed_profile`."""
        self._finder.follow(path, speed, stop)

    def go_to(self, goal: Goal, speed: float) -> None:
        """A goal, at most at `speed` [m/s]. Raises InputError for a speed that is not positive."""
        self._finder.go_to(goal, speed)

    def see(self, obstacles: Obstacles) -> None:
        """What is seen now."""
        self._finder.see(obstacles)

    def look(self, now: float) -> None:
        """The way is looked for in the cycle, from the state of that moment."""

    def _send(self, now: float, cycle: Cycle, steering: float, pedal: float, began: float) -> Cycle:
        """The cycle with what the actuators can follow within the period from `now` [s], and the wall-clock time since `began`."""
        self._command = rated(self._command, (steering, pedal), self.settings, self.rate_limits)
        steering, pedal = self._command
        return replace(cycle, command=(steering, max(pedal, 0.0), max(-pedal, 0.0)), seconds=time.perf_counter() - began)
