"""Sequential quadratic programming for one plan after the other: linearise by compiled code, solve, shift (real-time iteration).

Diehl, Bock & Schloeder 2005, "A real-time iteration scheme for nonlinear optimization in optimal feedback control".
"""

from __future__ import annotations

import dataclasses
import math
from time import perf_counter

import numpy as np

from lfdm_ros.control.first_guess import FirstGuess
from lfdm_ros.control.limits import LimitTable
from lfdm_ros.control.plan import PlanOutcome
from lfdm_ros.control.planned_vehicle import PlannedVehicle
from lfdm_ros.control.problem import Layout
from lfdm_ros.control.program import Program
from lfdm_ros.control.reference import Reference
from lfdm_ros.control.rules import Rates
from lfdm_ros.control.settings import Settings
from lfdm_ros.control.stage_numbers import StageNumbers
from lfdm_ros.control.trajectory import Trajectory
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.solvers import Ipopt
from lfdm_ros.vehicles import Vehicle

# A solution that misses the dynamics or a bound by more than this is none, whatever the solver says.
RESIDUAL = 1e-3
# A plan is none if its states do not follow from each other by the model, to this share of the longest step.
LARGEST_GAP = 0.3
FURTHER = 2  # steps beyond those asked for, to close such gaps
UNKNOWN = "the state to plan from is not finite"
CONVERGED = 1e-6  # a step that moves no state further than this, in its unit, is the last


class Planner:
    """Keeps a plan and improves it. Everything is allocated once; numbers change in place.

    Attributes:
        trajectory: the plan.
        numbers: what its stages are to do.
        program: the quadratic program of a step from it.
        solver: of that program.
        vehicle: what the problem takes of the vehicle.
        limits: of the steering, by speed, or None.
    """

    def __init__(self, vehicle: Vehicle, settings: Settings, limits: LimitTable | None = None):
        """Compiles the stage, or loads it from the cache.

        Raises:
            InputError: no such model, or the vehicle lacks parameters of it.
            SolverMissing: the solver's library is not there.
        """
        self.limits, self.model = limits, vehicle.model(settings.model)
        settings.require(self.model)
        PlannedVehicle.of(vehicle, self.model)  # what it lacks is said before anything is compiled
        lag = vehicle.actuators.steering_lag
        self.layout = Layout(tuple(f.name for f in self.model.states), lag > 0.0, settings.obstacles)
        durations = np.array([settings.near_step] * settings.near_stages + [settings.far_step] * settings.far_stages)
        self.trajectory = Trajectory(self.layout.states, durations)
        self.numbers = StageNumbers(self.layout, self.trajectory, settings.substeps, lag)
        self.program = Program(self.model, self.layout, self.trajectory, self.numbers, settings)
        self.solver = self.program.solver(settings)
        self._exact = isinstance(self.solver, Ipopt)  # solves the nonlinear program, in one step
        self.settings = settings
        self.take(vehicle)

    # -- What may change while the vehicle drives ---------------------------------------------------------------------

    def take(self, vehicle: Vehicle) -> None:
        """Another vehicle's parameters, from the next plan on. Raises InputError if it lacks some."""
        self.vehicle = planned = PlannedVehicle.of(vehicle, self.model)
        self.program.take(planned)
        self._guess = FirstGuess(self.model, self.layout, self.trajectory.durations, self.settings.substeps, self.program.p,
                                 planned.actuators.steering_lag)
        self.tune(self.settings)

    def tune(self, settings: Settings) -> None:
        """Other weights, penalties and limits; what is not live (model, stages, ...) stays as it was."""
        self.settings = settings
        self._rates = Rates.of(settings, self.vehicle.actuators)
        self.program.tune(settings, self._rates)

    # -- The plan -----------------------------------------------------------------------------------------------------

    def start(self, z0: np.ndarray, reference: Reference) -> None:
        """A first plan from the state z0 (nz,). Raises ValueError if that is not finite."""
        if not np.isfinite(z0).all():
            raise ValueError(UNKNOWN)
        t = self.trajectory
        self._guess.fill(t.z, t.w, z0, reference, self.settings, self._rates, self.vehicle.wheelbase, self.vehicle.full_lock)

    def shift(self, time: float) -> None:
        """Moves the plan on by `time` [s], interpolated; beyond its end it goes on as it did."""
        self.trajectory.shift(time, self._rates)

    def reset(self) -> None:
        """The next plan is what it would be first."""
        self.numbers.forget()
        self.solver.reset()

    def plan(self, z0: np.ndarray, reference: Reference, obstacles: Obstacles | None, time: float, iterations: int,
             until: float = math.inf, begun: bool = False) -> PlanOutcome:
        """Improves the plan by steps of sequential quadratic programming. Where that fails, the plan stays what it was.

        Args:
            z0: (nz,) where it begins.
            obstacles: or None.
            time: of z0 [s], in the time of the obstacles.
            iterations: linearisations, and up to FURTHER more where the last step left large gaps.
            until: on the clock of `perf_counter` [s]: the solver should end by then, and no further step begins.
            begun: the plan is a first guess, of which no part is worth keeping before a whole step: the first one may take longer.
        """
        if not np.isfinite(z0).all():
            return PlanOutcome.failed(UNKNOWN)
        trajectory, program = self.trajectory, self.program
        trajectory.z[0] = z0
        before = trajectory.saved()
        reached: tuple[np.ndarray, np.ndarray] | None = None  # the last plan that proved to be one
        done, last, over = 0, iterations, False
        while done < last and not over:
            done += 1
            self.set_stages(reference, obstacles, time)
            program.linearise(reference)
            gap = program.gap()
            if done > 1 and gap <= LARGEST_GAP:
                reached = trajectory.saved()
            outcome, converged = self._step(done, math.inf if begun and done == 1 else until)
            if not outcome.solved or converged:
                break
            over = perf_counter() >= until
            if done == last < iterations + FURTHER and gap > LARGEST_GAP and not self._exact:
                program.linearise(reference)
                last += program.gap() > LARGEST_GAP
        # A step closes the gaps that it begins with, to first order; where they were large, see what it left.
        if outcome.solved and (gap > LARGEST_GAP or self._exact):
            outcome = self._verified(outcome, reference, over)
        if not outcome.solved and reached is not None:
            trajectory.restore(reached)
            program.linearise(reference)
            return program.outcome(done, outcome.residual)
        if not (outcome.solved or outcome.unfinished):
            trajectory.restore(before)
        return outcome

    def set_stages(self, reference: Reference, obstacles: Obstacles | None, time: float) -> None:
        """What the stages are to do next to the plan as it is; `time` [s] is that of its begin."""
        self.numbers.follow(reference, self.settings, self.limits, self.vehicle)
        self.numbers.avoid(obstacles, time)

    def _step(self, number: int, until: float) -> tuple[PlanOutcome, bool]:
        """One step from what is linearised, and whether it was the last that moves anything; nothing moves where it fails."""
        solution = self.solver.solve(until)
        residual = (self.solver if isinstance(self.solver, Ipopt) else self.program.qp).residual(solution.dx, solution.du)
        if not solution.solved or residual > RESIDUAL:
            return self.program.outcome(number, residual,
                                        failure=f"{self.solver.name}: {solution.status}, dynamics and bounds {residual:.1e}"), False
        outcome = self.program.outcome(number, residual, solution.dx)
        self.trajectory.move(solution.dx, solution.du, 1.0 if self._exact else 1.0 / max(outcome.step, 1.0))
        return outcome, bool(np.abs(solution.dx).max() < CONVERGED)

    def _verified(self, outcome: PlanOutcome, reference: Reference, over: bool) -> PlanOutcome:
        """The outcome of steps whose last may have left gaps, as the plan is now."""
        self.program.linearise(reference)
        now = self.program.outcome(outcome.iterations, outcome.residual)
        if now.gap <= LARGEST_GAP:
            return now
        return dataclasses.replace(now, solved=False, unfinished=over, status=f"the plan does not follow the model, gap {now.gap:.1e}")
