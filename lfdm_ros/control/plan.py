"""What a planner gives: a plan, and what a call of it came to."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Plan:
    """states (N+1, nz) by `names` at `times` (N+1,) [s], and the driver's inputs there (N+1, 3): steering, throttle, brake."""

    names: tuple[str, ...]
    times: np.ndarray
    states: np.ndarray
    inputs: np.ndarray

    def command_at(self, time: float) -> tuple[float, float]:
        """Steering [-1, 1] and pedal [-1, 1], below 0 the brake, at a time [s]."""
        return (float(np.interp(time, self.times, self.inputs[:, 0])),
                float(np.interp(time, self.times, self.inputs[:, 1] - self.inputs[:, 2])))


NO_PLAN = Plan((), np.zeros(0), np.zeros((0, 0)), np.zeros((0, 3)))


@dataclass(frozen=True, eq=False)
class PlanOutcome:
    """What a call of `Planner.plan` came to. `gap`: largest defect of the dynamics before the last step, `step`: the last step, both as
    shares of the longest step that is taken. `unfinished`: the time was over before the gaps were closed; the next call goes on."""

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
        """Of a solver that gave nothing."""
        return PlanOutcome(False, status, 1, math.inf, math.inf, {}, (), (), math.inf, math.inf)
