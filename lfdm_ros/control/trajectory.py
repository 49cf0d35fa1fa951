"""The trajectory that is planned: states and controls at the stages, which change in place."""

from __future__ import annotations

import numpy as np

from lfdm_ros.control.plan import Plan
from lfdm_ros.control.problem import CONTROLS
from lfdm_ros.control.rules import Rates


class Trajectory:
    """States z (N+1, nz) by `names` and controls w (N+1, nw) at `grid` (N+1,) [s], `durations` (N,) [s] apart; the last control is none.
    `place`: of each name its column of z."""

    def __init__(self, names: tuple[str, ...], durations: np.ndarray):
        self.names, self.place = names, {name: i for i, name in enumerate(names)}
        self.durations, self.grid = durations, np.concatenate([[0.0], np.cumsum(durations)])
        self.z, self.w = np.zeros((len(self.grid), len(names))), np.zeros((len(self.grid), len(CONTROLS)))

    def column(self, name: str) -> np.ndarray:
        """One of the states (N+1,), not a copy."""
        return self.z[:, self.place[name]]

    def saved(self) -> tuple[np.ndarray, np.ndarray]:
        """For `restore`."""
        return self.z.copy(), self.w.copy()

    def restore(self, saved: tuple[np.ndarray, np.ndarray]) -> None:
        """Makes it again what it was."""
        self.z[:], self.w[:] = saved

    def move(self, dx: np.ndarray, du: np.ndarray, share: float) -> None:
        """Takes a share of a step dx (N+1, nz), du (N, nw)."""
        self.z += share * dx
        self.w[:-1] += share * du

    def shift(self, time: float, rates: Rates) -> None:
        """Moves it on by `time` [s], interpolated; beyond its end it goes on as it did. Commands stay within their bounds."""
        if time <= 0.0:
            return
        at = self.grid + time
        index = np.minimum(np.searchsorted(self.grid, at, side="right") - 1, len(self.durations) - 1)
        share = ((at - self.grid[index]) / self.durations[index])[:, None]
        before = self.z.take(index, axis=0)
        self.z[:] = before + share * (self.z.take(index + 1, axis=0) - before)
        for j, name in enumerate(("steering", "pedal")):
            column = self.column(name)
            np.minimum(np.maximum(column, -1.0), 1.0, out=column)
            np.divide(column[1:] - column[:-1], self.durations, out=self.w[:-1, j])
        np.minimum(np.maximum(self.w, (-rates.steering, -rates.down)), (rates.steering, rates.up), out=self.w)

    def snapshot(self, time: float) -> Plan:
        """The plan as it is now, beginning at `time` [s]."""
        pedal = self.column("pedal")
        inputs = np.column_stack([self.column("steering"), np.maximum(pedal, 0.0), np.maximum(-pedal, 0.0)])
        return Plan(self.names, time + self.grid, self.z.copy(), inputs)
