"""Sequential quadratic programming for successive plans: linearise by compiled code, solve, shift (real-time iteration).

Diehl, Bock & Schloeder 2005, "A real-time iteration scheme for nonlinear optimization in optimal feedback control". A plan starts from an
initial guess, the model under a simple driver, and restarts when it cannot be improved.
"""

import dataclasses
import math
from collections.abc import Callable
from time import perf_counter

import numpy as np

from lfdm_ros.backends import advance_kernel
from lfdm_ros.control.command_limits import RateLimits
from lfdm_ros.control.limits import LimitTable
from lfdm_ros.control.ocp.program import Program
from lfdm_ros.control.ocp.stages import StageParameters
from lfdm_ros.control.ocp.terms import PlannedVehicle, ProblemLayout, chosen_terms
from lfdm_ros.control.plan import PlanOutcome, Trajectory
from lfdm_ros.control.routing.routes import Reference
from lfdm_ros.control.settings import Settings
from lfdm_ros.models import Model
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.solvers import Ipopt
from lfdm_ros.vehicles import Vehicle

# A solution that violates the dynamics or a bound by more than this is rejected, whatever the solver's status.
MAX_RESIDUAL = 1e-3
# Largest defect of the dynamics of a valid plan, as share of the longest step.
MAX_GAP = 0.3
MAX_FURTHER_STEPS = 2  # additional steps to close such gaps
NOT_FINITE = "the state to plan from is not finite"
MIN_STEP = 1e-6  # SQP terminates when no state changes by more than this, in its own unit


class Planner:
    """Planner: stores a plan and improves it. Everything is allocated once; values change in place.

    Attributes:
        trajectory: the plan.
        stages: parameters and bounds of its stages.
        program: the quadratic program of a step from it.
        solver: of that program.
        vehicle: vehicle data of the problem.
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
        PlannedVehicle.of(vehicle, self.model)  # missing parameters are reported before anything is compiled
        lag = vehicle.actuators.steering_lag
        self.layout = ProblemLayout(tuple(f.name for f in self.model.states), lag > 0.0, settings.obstacles, chosen_terms(settings))
        durations = np.array([settings.near_step] * settings.near_stages + [settings.far_step] * settings.far_stages)
        self.trajectory = Trajectory(self.layout.states, durations)
        self.stages = StageParameters(self.layout, self.trajectory, settings.substeps, lag)
        self.program = Program(self.model, self.layout, self.trajectory, self.stages, settings)
        self.solver = self.program.solver(settings)
        self._exact = isinstance(self.solver, Ipopt)  # solves the nonlinear program, in one step
        self.settings = settings
        self.set_vehicle(vehicle)

    # -- What may change while the vehicle drives ---------------------------------------------------------------------

    def set_vehicle(self, vehicle: Vehicle) -> None:
        """Sets another vehicle's parameters, from the next plan on. Raises InputError if it lacks some."""
        self.vehicle = planned = PlannedVehicle.of(vehicle, self.model)
        self.program.set_vehicle(planned)
        self._guess = InitialGuess(self.model, self.layout, self.trajectory.durations, self.settings.substeps, self.program.p,
                                 planned.actuators.steering_lag)
        self.tune(self.settings)

    def tune(self, settings: Settings) -> None:
        """Sets weights, penalties and limits; settings that are not live (model, stages, ...) are ignored."""
        self.settings = settings
        self._rates = RateLimits.of(settings, self.vehicle.actuators)
        self.program.tune(settings, self._rates)

    # -- The plan -----------------------------------------------------------------------------------------------------

    def start(self, z0: np.ndarray, reference: Reference) -> None:
        """Starts a plan from the state z0 (nz,) by the initial guess. Raises ValueError if that is not finite."""
        if not np.isfinite(z0).all():
            raise ValueError(NOT_FINITE)
        t = self.trajectory
        self._guess.fill(t.z, t.w, z0, reference, self.settings, self._rates, self.vehicle.wheelbase, self.vehicle.full_lock,
                         self.vehicle.outline.scale)

    def shift(self, time: float) -> None:
        """Shifts the plan by `time` [s], interpolated, and extrapolated at its end."""
        self.trajectory.shift(time, self._rates)

    def reset(self) -> None:
        """Clears the solution: the next plan is that of a new planner."""
        self.stages.forget()
        self.solver.reset()

    def plan(self, z0: np.ndarray, reference: Reference, obstacles: Obstacles | None, time: float, iterations: int,
             until: float = math.inf, begun: bool = False) -> PlanOutcome:
        """Improves the plan by steps of sequential quadratic programming; on failure the plan is unchanged.

        Args:
            z0: (nz,) initial state.
            obstacles: or None.
            time: of z0 [s], on the time scale of the obstacles.
            iterations: linearisations, and up to MAX_FURTHER_STEPS more where the last step left large gaps.
            until: on the clock of `perf_counter` [s]: the solver should end by then, and no further step begins.
            begun: the plan is an initial guess, useless before a full step: the first one may take longer.
        """
        if not np.isfinite(z0).all():
            return PlanOutcome.failed(NOT_FINITE)
        trajectory, program = self.trajectory, self.program
        trajectory.z[0] = z0
        before = trajectory.saved()
        reached: tuple[np.ndarray, np.ndarray] | None = None  # the last valid plan
        done, last, over = 0, iterations, False
        while done < last and not over:
            done += 1
            self.set_stages(reference, obstacles, time)
            program.linearise(reference)
            gap = program.gap()
            if done > 1 and gap <= MAX_GAP:
                reached = trajectory.saved()
            outcome, converged = self._step(done, math.inf if begun and done == 1 else until)
            if not outcome.solved or converged:
                break
            over = perf_counter() >= until
            if done == last < iterations + MAX_FURTHER_STEPS and gap > MAX_GAP and not self._exact:
                program.linearise(reference)
                last += program.gap() > MAX_GAP
        # A step closes the initial gaps to first order; after large ones, check the remaining gaps.
        if outcome.solved and (gap > MAX_GAP or self._exact):
            outcome = self._verified(outcome, reference, over)
        if not outcome.solved and reached is not None:
            trajectory.restore(reached)
            program.linearise(reference)
            return program.outcome(done, outcome.residual)
        if not (outcome.solved or outcome.unfinished):
            trajectory.restore(before)
        return outcome

    def set_stages(self, reference: Reference, obstacles: Obstacles | None, time: float) -> None:
        """Sets parameters and bounds of the stages at the present plan; `time` [s] is that of its start."""
        self.stages.follow(reference, self.settings, self.limits, self.vehicle)
        self.stages.avoid(obstacles, time, self.settings.obstacle_sigmas)

    def _step(self, number: int, until: float) -> tuple[PlanOutcome, bool]:
        """Makes one step from the linearisation; returns its outcome and convergence. A failed step changes nothing."""
        solution = self.solver.solve(until)
        residual = (self.solver if isinstance(self.solver, Ipopt) else self.program.qp).residual(solution.dx, solution.du)
        if not solution.solved or residual > MAX_RESIDUAL:
            return self.program.outcome(number, residual,
                                        failure=f"{self.solver.name}: {solution.status}, dynamics and bounds {residual:.1e}"), False
        outcome = self.program.outcome(number, residual, solution.dx)
        self.trajectory.move(solution.dx, solution.du, 1.0 if self._exact else 1.0 / max(outcome.step, 1.0))
        return outcome, bool(np.abs(solution.dx).max() < MIN_STEP)

    def _verified(self, outcome: PlanOutcome, reference: Reference, over: bool) -> PlanOutcome:
        """Returns the outcome of the present plan after steps that may have left gaps."""
        self.program.linearise(reference)
        now = self.program.outcome(outcome.iterations, outcome.residual)
        if now.gap <= MAX_GAP:
            return now
        return dataclasses.replace(now, solved=False, unfinished=over, status=f"the plan does not follow the model, gap {now.gap:.1e}")


# Lengths, speeds and their gain of a full-size vehicle; they are in proportion for a smaller one (`Footprint.scale`).
PREVIEW_TIME, MIN_PREVIEW = 1.0, 8.0  # preview of the driver: time [s], minimum distance [m]
TURNING_SPEED = 6.0  # [m/s] towards a point to the side
PEDAL_GAIN = 0.2  # gain of the speed control [s/m]
MAX_PEDALS = 0.8, 0.6  # most throttle and brake


class InitialGuess:
    """Initial guess by a rollout of the model: consistent states, so that optimisation starts without gaps anywhere.

    Steering by pure pursuit (Coulter 1992, "Implementation of the pure pursuit path tracking algorithm").
    """

    def __init__(self, model: Model, layout: ProblemLayout, durations: np.ndarray, substeps: int, p: np.ndarray, lag: float):
        """Takes the model's parameters p (np,), durations of the stages [s], the steering's time constant `lag` [s]."""
        self._layout, self._durations, self._substeps, self._lag = layout, durations.tolist(), substeps, lag
        self._x, self._before, self._after = np.zeros(len(layout.model_states)), np.zeros(3), np.zeros(3)
        self._advance = advance_kernel(model)(self._x, p, self._before, self._after)

    def fill(self, z: np.ndarray, w: np.ndarray, z0: np.ndarray, reference: Reference, settings: Settings, rates: RateLimits,
             wheelbase: float, full_lock: float, scale: float) -> None:
        """Writes states z (N+1, nz) and controls w (N+1, nw) from z0 (nz,); scale: of the vehicle."""
        place = {name: i for i, name in enumerate(self._layout.states)}
        ix, iy, iyaw, iv = (place[name] for name in ("x", "y", "yaw", "vx"))
        x, path = self._x, reference.path
        z[0], n = z0, len(self._x)
        x[:] = z0[:n]
        steering, pedal = float(z0[place["steering"]]), float(z0[place["pedal"]])
        road = float(z0[place["road_steering"]]) if self._layout.lag else 0.0
        s = float(path.project(z0[[ix]], z0[[iy]])[0][0])
        for i, dt in enumerate(self._durations):
            (s,), (offset,) = (a.tolist() for a in path.project(x[[ix]], x[[iy]], np.array([s])))
            turn, press = self._drive(reference, s, offset, float(x[ix]), float(x[iy]), float(x[iyaw]), float(x[iv]), settings, wheelbase,
                                      scale)
            steer = math.atan(turn) / full_lock
            reach = rates.steering * dt
            steer = max(min(steer, 1.0, steering + reach), -1.0, steering - reach)
            press = max(min(press, settings.largest_throttle, pedal + rates.up * dt), -settings.largest_brake,
                        pedal - rates.down * dt)
            w[i] = (steer - steering) / dt, (press - pedal) / dt
            from_, to = steering, steer
            if self._layout.lag:
                middle = 0.5 * (steering + steer)
                from_, to = road, middle + (road - middle) * math.exp(-dt / self._lag)
                road = to
            self._before[:] = from_, max(pedal, 0.0), max(-pedal, 0.0)
            self._after[:] = to, max(press, 0.0), max(-press, 0.0)
            self._advance(self._substeps, dt / self._substeps)
            steering, pedal = steer, press
            z[i + 1, :n] = x
            z[i + 1, n:] = (steering, pedal, road) if self._layout.lag else (steering, pedal)
        w[-1] = 0.0

    def _drive(self, reference: Reference, s: float, offset: float, x: float, y: float, yaw: float, vx: float, settings: Settings,
               wheelbase: float, scale: float) -> tuple[float, float]:
        """Returns the tangent of the road-wheel angle, and the pedal."""
        v, path = max(vx, 0.0), reference.path
        ahead = max(scale * MIN_PREVIEW, PREVIEW_TIME * v) + 0.5 * abs(offset)
        px, py = (float(a[0]) for a in path.at(np.array([s + ahead]))[:2])
        angle = math.atan2(py - y, px - x) - yaw
        angle -= 2.0 * math.pi * round(angle / (2.0 * math.pi))
        curvature = 2.0 * math.sin(max(min(angle, 0.5 * math.pi), -0.5 * math.pi)) / math.hypot(px - x, py - y)
        most = settings.path_lateral_acceleration / max(v, scale) ** 2
        speed = min(float(np.interp(s, path.s, reference.speeds)), reference.highest)
        if abs(angle) > 0.5:
            speed = min(speed, scale * TURNING_SPEED)
        return wheelbase * max(min(curvature, most), -most), max(min(PEDAL_GAIN / scale * (speed - v), MAX_PEDALS[0]), -MAX_PEDALS[1])


MAX_FAILURES = 3  # consecutive cycles without a solution before a plan restarts
SOLVER_ERRORS = (ArithmeticError, LookupError, RuntimeError, ValueError)  # whatever a solver may raise


class Replanner:
    """Replanning in each cycle.

    Attributes:
        planner: the planner in use.
        cold: there is no plan to start from.
    """

    def __init__(self, planner: Planner):
        self.planner = planner
        self.reset()

    def reset(self) -> None:
        """Clears all plans: the next one is that of a new planner."""
        self.cold, self._starting, self._failures, self._route_version = True, False, 0, 0
        self._solved_time = self._plan_time = -math.inf
        self.planner.reset()

    def begin(self) -> None:
        """Begins another task or position: the next plan restarts, and is located on the whole path."""
        self.begin_anew()
        self.planner.stages.forget()

    def begin_anew(self) -> None:
        """Makes the next plan restart, not continue the last one."""
        self.cold, self._starting = True, False

    def new_task(self) -> None:
        """Begins another task with its first route."""
        self._route_version = 0
        self.begin()

    def plan(self, z0: np.ndarray, route: Callable[[], tuple[Reference, int]], obstacles: Obstacles, time: float, settings: Settings,
             until: float) -> tuple[PlanOutcome, bool]:
        """Improves the plan of the last cycle; returns the outcome, and True if it was restarted.

        Args:
            z0: (nz,) initial state at `time` [s]; its heading is unwrapped in place to the plan's.
            route: returns the plan's reference, and a number that changes with the route; its errors become outcomes.
            until: deadline of the solver, on the clock of `perf_counter` [s].
        """
        # A plan is retried after a failure; one that is too old, or has failed too often, is dropped.
        s, planner = settings, self.planner
        cold = self.cold or time - self._solved_time > s.plan_timeout or self._failures > MAX_FAILURES
        try:
            reference, version = route()
            if self._route_version != version:  # positions along another route do not carry over
                self._route_version = version
                planner.stages.forget()
            if cold and not self._starting:
                planner.start(z0, reference)
            else:
                planner.shift(time - self._plan_time)
                self._unwrap(z0)
            outcome = planner.plan(z0, reference, obstacles, time, s.cold_iterations if cold else s.iterations, until, begun=cold)
        except SOLVER_ERRORS as error:  # the fallback levels handle it
            outcome = PlanOutcome.failed(f"{planner.solver.name}: {error}")
        self._plan_time = time
        self.cold, self._starting = cold and not outcome.solved, cold and outcome.unfinished
        self._failures = 0 if outcome.solved else self._failures + 1
        if outcome.solved:
            self._solved_time = time
        return outcome, cold

    def _unwrap(self, z0: np.ndarray) -> None:
        """Unwraps the heading to the plan's: a measured one may have jumped by a full turn."""
        trajectory = self.planner.trajectory
        yaw = trajectory.place["yaw"]
        z0[yaw] += 2.0 * math.pi * round((float(trajectory.z[0, yaw]) - float(z0[yaw])) / (2.0 * math.pi))
