"""A plan each cycle: the one before, improved; begun anew where there is none, or where it has become of no use."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lfdm_ros.control.plan import PlanOutcome
from lfdm_ros.control.planner import Planner
from lfdm_ros.control.reference import Reference
from lfdm_ros.control.settings import Settings
from lfdm_ros.perception.obstacles import Obstacles

FAILURES = 3  # cycles in a row without a solution, after which a plan is begun anew
RAISED = (ArithmeticError, LookupError, RuntimeError, ValueError)  # whatever a solver may raise


class Replanner:
    """Asks a planner for a plan each cycle.

    Attributes:
        planner: that it asks.
        cold: there is no plan to go on from.
    """

    def __init__(self, planner: Planner):
        self.planner = planner
        self.reset()

    def reset(self) -> None:
        """The next plan is what it would be first."""
        self.cold, self._starting, self._failures, self._ways = True, False, 0, 0
        self._solved_time = self._plan_time = -math.inf
        self.planner.reset()

    def begin(self) -> None:
        """Another task, or another place on the way: the next plan is begun anew, and looks for its place on the whole path."""
        self.begin_anew()
        self.planner.numbers.forget()

    def begin_anew(self) -> None:
        """The next plan does not go on from the last one."""
        self.cold, self._starting = True, False

    def new_task(self) -> None:
        """Another task, whose way is the first one."""
        self._ways = 0
        self.begin()

    def plan(self, z0: np.ndarray, way: Callable[[], tuple[Reference, int]], obstacles: Obstacles, time: float, settings: Settings,
             until: float) -> tuple[PlanOutcome, bool]:
        """The outcome, and whether the plan was begun anew.

        Args:
            z0: (nz,) where the plan begins, at `time` [s], with a heading of any turn; changed to that of the plan.
            way: what the plan is to do, and a number that changes when the way becomes another; what it raises is an outcome too.
            until: when the solver should end, on the clock of `perf_counter` [s].
        """
        # A plan that could not be improved once is tried again; one that is too old, or never can be, is given up.
        s, planner = settings, self.planner
        cold = self.cold or time - self._solved_time > s.plan_timeout or self._failures > FAILURES
        try:
            reference, ways = way()
            if self._ways != ways:  # how far the plan was along another one says nothing
                self._ways = ways
                planner.numbers.forget()
            if cold and not self._starting:
                planner.start(z0, reference)
            else:
                planner.shift(time - self._plan_time)
                self._unwrap(z0)
            outcome = planner.plan(z0, reference, obstacles, time, s.cold_iterations if cold else s.iterations, until, begun=cold)
        except RAISED as error:  # the ladder is there for it
            outcome = PlanOutcome.failed(f"{planner.solver.name}: {error}")
        self._plan_time = time
        self.cold, self._starting = cold and not outcome.solved, cold and outcome.unfinished
        self._failures = 0 if outcome.solved else self._failures + 1
        if outcome.solved:
            self._solved_time = time
        return outcome, cold

    def _unwrap(self, z0: np.ndarray) -> None:
        """The heading as the plan counts it: a measured one may have jumped by a turn."""
        trajectory = self.planner.trajectory
        yaw = trajectory.place["yaw"]
        z0[yaw] += 2.0 * math.pi * round((float(trajectory.z[0, yaw]) - float(z0[yaw])) / (2.0 * math.pi))
