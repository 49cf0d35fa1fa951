"""The plan is optimal: sequential quadratic programming and IPOPT, which share no derivatives here, come to the same; the solvers of
quadratic programs agree on those of real cycles; they say so when there is no solution."""

import dataclasses
import math

import numpy as np
import pytest

from lfdm_ros.backends import Hpipm, Ipopt, Linearised, Piqp, StageDimensions, StageQp, stage_function
from lfdm_ros.control.controller import Controller, Measured, Outcome
from lfdm_ros.control.obstacles import Obstacles
from lfdm_ros.control.path import Path
from lfdm_ros.control.planner import Planner
from lfdm_ros.control.problem import RESIDUALS
from lfdm_ros.control.reference import Reference
from lfdm_ros.control.settings import Settings
from lfdm_ros.simulation import initial_state
from lfdm_ros.vehicles import load_vehicle

VEHICLE = load_vehicle("hmmwv")
STRAIGHT = Path(np.array([[0.0, 0.0], [300.0, 0.0]]))
BEND = Path(np.column_stack([60.0 * np.sin(np.linspace(0.0, 2.5, 60)), 60.0 * (1.0 - np.cos(np.linspace(0.0, 2.5, 60)))]))
AHEAD = Obstacles(np.array([[30.0, 2.4], [55.0, -3.0]]), np.array([1.0, 1.0]), np.array([[0.0, 0.0], [0.0, 0.4]]), 0.0)


@dataclasses.dataclass(frozen=True)
class Case:
    """A task, and what its solution must touch for the case to mean anything."""

    path: Path
    speed: float
    touches: str
    obstacles: Obstacles | None = None
    settings: dict = dataclasses.field(default_factory=dict)
    start: dict = dataclasses.field(default_factory=dict)
    corridor: np.ndarray | None = None
    hurry: float = 0.0


CASES = {
    "free_road": Case(BEND, 10.0, "", start=dict(y=0.5)),
    "obstacles": Case(STRAIGHT, 12.0, "obstacle", AHEAD, hurry=0.5),
    "wheel_loads": Case(BEND, 17.0, "wheel_lift", settings=dict(load_margin=0.6), start=dict(yaw_rate=0.2)),
    "steering_rate": Case(STRAIGHT, 15.0, "steering_rate", settings=dict(steering_rate=0.1), start=dict(y=3.0)),
    "corridor": Case(STRAIGHT, 10.0, "corridor", start=dict(y=0.8), corridor=np.array([[0.0, 3.0, 3.0], [30.0, 0.8, 3.0], [300.0, 0.8, 3.0]])),
}


class Frozen:
    """A planner whose references stay as they are at the first guess: one nonlinear program."""

    def __init__(self, case: Case, model: str):
        settings = Settings(model=model, **case.settings)
        self.case, self.planner = case, Planner(VEHICLE, settings)
        self.reference = Reference(case.path, np.full(len(case.path.s), case.speed), case.speed + 1.0, case.corridor,
                                   0.15 if case.hurry else 1.0, case.hurry)
        state = initial_state(self.planner.model, VEHICLE, vx=case.speed, **case.start)
        self.planner.start(np.concatenate([state, [0.0, 0.0]]), self.reference)
        self.planner._refer(self.reference)
        self.planner._see(case.obstacles, 0.0)
        self.first = self.planner.z.copy(), self.planner.w.copy()

    def sequential(self, iterations: int = 80) -> float:
        """By steps of HPIPM; returns the last step."""
        planner, solver = self.planner, Hpipm(self.planner.qp, 100, 1e-9)
        step = math.inf
        for _ in range(iterations):
            planner._linearise(self.reference)
            solution = solver.solve()
            assert solution.solved, solution.status
            step = float(np.abs(solution.dx).max())
            planner.z += min(1.0, 2.0 / step) * solution.dx
            planner.w[:-1] += min(1.0, 2.0 / step) * solution.du
            if step < 1e-9:
                break
        return step

    def exact(self) -> Ipopt:
        """By IPOPT, from the first guess."""
        p = self.planner
        p.z[:], p.w[:] = self.first
        p._linearise(self.reference)
        weights, linear = p._weighting, p._linear
        ipopt = Ipopt(p.qp, p.function, Linearised(p.z, p.w, p._p, p._k, p._c, p._value[:, p._parts[2]], weights, linear),
                      tolerance=1e-10, compiled=False)
        solution = ipopt.solve()
        assert solution.solved, solution.status
        assert ipopt.residual(solution.dx, solution.du) < 1e-8
        p.z += solution.dx
        p.w[:-1] += solution.du
        return ipopt

    def cost(self) -> float:
        """Of the plan, from the stage function's values, with the least slacks that its rows need."""
        p = self.planner
        values = np.hstack([np.array(p.function(z, w, p._p, p._k, c)) for z, w, c in zip(p.z, p.w, p._c)]).T
        n = len(p.names)
        errors, rows = values[:, n:n + len(RESIDUALS)], values[1:, n + len(RESIDUALS):]
        over = np.maximum(np.maximum(p._lower[1:] - rows, rows - p._upper[1:]), 0.0)
        self.gap = np.abs(values[:-1, :n] - p.z[1:]).max()
        return float(0.5 * (p._weighting * errors**2).sum() + (p._linear * p.z).sum()
                     + (p.qp.penalty[1:] * over + 0.5 * p.qp.curvature[1:] * over**2).sum())
