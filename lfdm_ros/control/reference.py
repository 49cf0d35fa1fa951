"""What a plan is to do: a path with a speed at each point, a corridor, and how much the path counts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lfdm_ros.control.path import Path


@dataclass(frozen=True, eq=False)
class Reference:
    """A task in the form that the planner takes.

    speeds (n,): at the points of path.s [m/s]; highest: speed not to exceed [m/s]; corridor (k, 3): s along the path, room to the left
    and to the right [m], or None; lateral: share of the weight of the distance from the path; hurry: weight of the time that is left at
    the end of the horizon, 0 for none; margin: distance to keep from obstacles [m], or None for that of the settings;
    free_end: the heading at the end of the horizon does not count; slowing: with which a vehicle that is faster than `highest` slows down
    to it [m/s^2], inf: at once.
    """

    path: Path
    speeds: np.ndarray
    highest: float
    corridor: np.ndarray | None = None
    lateral: float = 1.0
    hurry: float = 0.0
    margin: float | None = None
    free_end: bool = False
    slowing: float = math.inf

    def speed_at(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Reference speed (m,) [m/s] at distances s (m,) [m], and its slope (m,) [1/s] along the path."""
        speeds, step = self.speeds, self.path.step
        place = np.minimum(np.maximum(s / step, 0.0), len(speeds) - 1.001)
        index = place.astype(np.intp)
        slope = (speeds[index + 1] - speeds[index]) / step
        return speeds[index] + (place - index) * step * slope, slope

    def room_at(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Room to the left and to the right (m,), (m,) [m] of the path at s (m,) [m]; there is a corridor."""
        assert self.corridor is not None
        along, left, right = self.corridor.T
        return np.interp(s, along, left), np.interp(s, along, right)
