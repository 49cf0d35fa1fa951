"""Who drives a vehicle, as closed loops, links and shared control ask for it."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from lfdm_ros.control.cycle import Cycle
from lfdm_ros.control.path import Path
from lfdm_ros.control.prediction import Measured
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation import Goal


class Driver(Protocol):
    """`Controller` is one, and so are an operator, either behind a link, both together, and what is compared with them.

    settings: with the `period` [s] of its cycles at least.
    """

    settings: Any

    def follow(self, path: Path, speed: float | np.ndarray, corridor: np.ndarray | None = None, stop: bool = True) -> None: ...
    def go_to(self, goal: Goal, speed: float) -> None: ...
    def see(self, obstacles: Obstacles) -> None: ...
    def cycle(self, now: float, measured: Measured | None = None) -> Cycle: ...
    def look(self, now: float) -> None: ...
