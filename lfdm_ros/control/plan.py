"""Plans: the trajectory under optimisation, its snapshot, and the outcome of a planner call."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lfdm_ros.control.command_limits import RateLimits

CONTROLS = ("steering_rate", "pedal_rate")


@dataclass(frozen=True, eq=False)
class Plan:
    """Plan: states (N+1, nz) by `names` at `times` (N+1,) [s], and the driver's inputs (N+1, 3): steering, throttle, brake."""

    names: tuple[str, ...]
    times: np.ndarray
    states: np.ndarray
    inputs: np.ndarray

    def command_at(self, time: float) -> tuple[float, float]:
        """Returns steering [-1, 1] and pedal [-1, 1], below 0 the brake, at a time [s]."""
        return (float(np.interp(time, self.times, self.inputs[:, 0])),
                float(np.interp(time, self.times, self.inputs[:, 1] - self.inputs[:, 2])))


NO_PLAN = Plan((), np.zeros(0), np.zeros((0, 0)), np.zeros((0, 3)))


@dataclass(frozen=True, eq=False)
class PlanOutcome:
    """Outcome of a call of `Planner.plan`. `gap`: largest defect of the dynamics before the last step, `step`: the last step, both as
    shares of the longest permitted step. `unfinished`: the time was over before the gaps were closed; the next call continues."""

    solved: bool
    status: str
    iterations: int
    residual: float
    cost: float
    cost_terms: dict[str, float]
    active: tuple[str, ...]
    violated: tuple[str, ...]
    gap: float
    step: float
    unfinished: bool = False

    @staticmethod
    def failed(status: str) -> PlanOutcome:
        """Returns the outcome of a solver without a result."""
        return PlanOutcome(False, status, 1, math.inf, math.inf, {}, (), (), math.inf, math.inf)


class Trajectory:
    """States z (N+1, nz) by `names` and controls w (N+1, nw) at `grid` (N+1,) [s], `durations` (N,) [s] apart; the last control is unused.
    `place`: column of z by name."""

    def __init__(self, names: tuple[str, ...], durations: np.ndarray):
        self.names, self.place = names, {name: i for i, name in enumerate(names)}
        self.durations, self.grid = durations, np.concatenate([[0.0], np.cumsum(durations)])
        self.z, self.w = np.zeros((len(self.grid), len(names))), np.zeros((len(self.grid), len(CONTROLS)))

    def column(self, name: str) -> np.ndarray:
        """Returns one of the states (N+1,), not a copy."""
        return self.z[:, self.place[name]]

    def saved(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns a copy for `restore`."""
        return self.z.copy(), self.w.copy()

    def restore(self, saved: tuple[np.ndarray, np.ndarray]) -> None:
        """Restores a copy of `saved`."""
        self.z[:], self.w[:] = saved

    def move(self, dx: np.ndarray, du: np.ndarray, share: float) -> None:
        """Adds a share of a step dx (N+1, nz), du (N, nw)."""
        self.z += share * dx
        self.w[:-1] += share * du

    def shift(self, time: float, rates: RateLimits) -> None:
        """Shifts the trajectory by `time` [s], interpolated, and extrapolated at its end. Commands stay within their bounds."""
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
        """Returns the plan as it is now, beginning at `time` [s]."""
        pedal = self.column("pedal")
        inputs = np.column_stack([self.column("steering"), np.maximum(pedal, 0.0), np.maximum(-pedal, 0.0)])
        return Plan(self.names, time + self.grid, self.z.copy(), inputs)
