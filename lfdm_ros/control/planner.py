"""Sequential quadratic programming for one plan after the other: linearise by compiled code, solve, shift (real-time iteration).

Diehl, Bock & Schloeder 2005, "A real-time iteration scheme for nonlinear optimization in optimal feedback control".
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from time import perf_counter
from types import SimpleNamespace

import numpy as np

from lfdm_ros.control import problem
from lfdm_ros.control.first_guess import FirstGuess
from lfdm_ros.control.limits import LimitTable
from lfdm_ros.control.problem import CONTROLS, KINDS, RESIDUALS, VEHICLE_NUMBERS, Layout
from lfdm_ros.control.reference import Reference
from lfdm_ros.control.rules import Rates
from lfdm_ros.control.settings import Settings
from lfdm_ros.errors import InputError
from lfdm_ros.models.chassis import GRAVITY, static_loads
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.solvers import (
    Hpipm,
    Ipopt,
    Linearised,
    Piqp,
    StageDimensions,
    StageNames,
    StageQp,
    StageSolver,
    compiled_stage,
    stage_function,
)
from lfdm_ros.vehicles import Vehicle

# A solution that misses the dynamics or a bound by more than this is none, whatever the solver says.
RESIDUAL = 1e-3
# A step of the optimisation moves no state further than this, all of it is shortened: what is far away is not what was linearised.
LONGEST_STEP = {"x": 4.0, "y": 4.0, "yaw": 0.4, "vx": 4.0, "vy": 2.0, "yaw_rate": 0.6}
# A plan is none if its states do not follow from each other by the model, to this share of the longest step.
LARGEST_GAP = 0.3
# Parameters of the vehicle that not every model has: for the friction circle, the outline and the first guess.
NEEDED = ("friction_max", "max_road_wheel_angle", "cg_to_front_axle", "cg_to_rear_axle")
FURTHER = 2  # steps beyond those asked for, to close such gaps
UNKNOWN = "the state to plan from is not finite"
CONVERGED = 1e-6  # a step that moves no state further than this, in its unit, is the last
# Of the solver: one step of the real-time iteration is no more exact than this; where steps go on to convergence, they need the other.
QUICK, EXACT = 1e-4, 1e-8
SLOWER = 1.0  # [m/s] less than it has is asked at once of a vehicle that is too fast
FAR_AWAY = 60.0  # [m] where an obstacle stands that is not there
ACTIVE = 0.02  # of a row's bound: it is active when it is as near as this


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


class Planner:
    """Keeps a plan and improves it. Everything is allocated once; numbers change in place."""

    def __init__(self, vehicle: Vehicle, settings: Settings, limits: LimitTable | None = None):
        """Compiles the stage, or loads it from the cache.

        Raises:
            InputError: no such model, or the vehicle lacks parameters of it.
            SolverMissing: the solver's library is not there.
        """
        self.settings, self.limits = settings, limits
        self.model = vehicle.model(settings.model)
        settings.require(self.model)
        names = tuple(f.name for f in self.model.states)
        self.layout = layout = Layout(names, vehicle.actuators.steering_lag > 0.0, settings.obstacles)
        self.names = layout.states
        self.place = {name: i for i, name in enumerate(self.names)}
        self.function = stage_function(
            self.model, StageNames(self.names[len(names):], CONTROLS, VEHICLE_NUMBERS, layout.stage_numbers),
            lambda m: problem.build(m, layout), settings.substeps)
        compiled = compiled_stage(self.function)

        stages, n, m = settings.stages, len(self.names), len(CONTROLS)
        self.durations = np.array([settings.near_step] * settings.near_stages + [settings.far_step] * settings.far_stages)
        self.grid = np.concatenate([[0.0], np.cumsum(self.durations)])
        self.z, self.w = np.zeros((stages + 1, n)), np.zeros((stages + 1, m))  # the last control is no control
        self._c = np.zeros((stages + 1, len(layout.stage_numbers)))
        self._number = {name: self._c[:, i] for i, name in enumerate(layout.stage_numbers)}
        self._number["step"][:-1] = self.durations / settings.substeps
        self._number["step"][-1] = self._number["step"][-2]
        self._number["decay"][:] = np.exp(-self._number["step"] / vehicle.actuators.steering_lag) if layout.lag else 0.0
        first = layout.stage_numbers.index("obstacle_x_0") if settings.obstacles else len(layout.stage_numbers)
        self._obstacle_numbers = self._c[:, first:].reshape(stages + 1, settings.obstacles, 3)
        self._p, self._k = np.zeros(len(self.model.parameters)), np.zeros(len(VEHICLE_NUMBERS))
        self.take(vehicle)

        rows = len(layout.rows)
        self._value = np.zeros((stages + 1, n + len(RESIDUALS) + rows))
        self._jacobian = np.zeros((stages + 1, n + len(RESIDUALS) + rows, compiled.columns))
        self._evaluate = compiled.bind_rows(self.z, self.w, self._p, self._k, self._c, results=(self._value, self._jacobian))
        self._parts = slice(0, n), slice(n, n + len(RESIDUALS)), slice(n + len(RESIDUALS), None)

        bounded = (self.place["steering"], self.place["pedal"])
        self.qp = StageQp(StageDimensions(stages, n, m, bounded, rows))
        # What stands in the quadratic program's cost, for the solver of the nonlinear one.
        self._weighting, self._linear = np.zeros((stages + 1, len(RESIDUALS))), np.zeros((stages + 1, n))
        self._exact = Ipopt(self.qp, self.function, Linearised(self.z, self.w, self._p, self._k, self._c, self._value[:, self._parts[2]],
                                                               self._weighting, self._linear)) if settings.solver == "ipopt" else None
        tolerance = QUICK if settings.iterations == 1 else EXACT
        self._solver: StageSolver = self._exact or (Hpipm if settings.solver == "hpipm" else Piqp)(self.qp, tolerance=tolerance)
        self._kinds = np.array(layout.kinds)  # of the rows, in order
        kinds, begins = np.unique(self._kinds, return_index=True)
        self._kinds_there, self._first_rows = kinds.tolist(), begins
        self._reach = np.array([1.0 / LONGEST_STEP.get(name, math.inf) for name in self.names])
        self._lower, self._upper = np.full((2, stages + 1, rows), np.inf)
        self._lower *= -1.0
        self._at = {name: i for i, name in enumerate(layout.rows)}
        self.tune(settings)

    @property
    def solver(self) -> str:
        """Name of the solver."""
        return self._solver.name

    # -- What may change while the vehicle drives ---------------------------------------------------------------------

    def take(self, vehicle: Vehicle) -> None:
        """Another vehicle's parameters, from the next plan on. Raises InputError if it lacks some."""
        p = vehicle.vector(self.model)
        missing = [name for name in NEEDED if name not in vehicle.parameters]
        if missing:
            raise InputError(f"vehicle {vehicle.name} has no {', '.join(missing)}; the controller needs it beside its model's parameters")
        values = SimpleNamespace(**vehicle.parameters)
        s, outline = self.settings, vehicle.footprint
        front, rear = static_loads(values)
        self._p[:] = p
        self._k[:] = outline.front, outline.rear, outline.half_width, front, rear, values.cg_to_rear_axle
        self._outline, self._actuators = outline, vehicle.actuators
        self._rates = Rates.of(s, self._actuators)
        self.friction = GRAVITY * values.friction_max
        self.wheelbase = values.cg_to_front_axle + values.cg_to_rear_axle
        self.full_lock = values.max_road_wheel_angle
        self._guess = FirstGuess(self.model, self.layout, self.durations, s.substeps, self._p, self._actuators.steering_lag)

    def tune(self, settings: Settings) -> None:
        """Other weights, penalties and limits; what is not live (model, stages, ...) stays as it was."""
        self.settings = s = settings
        self._rates = Rates.of(s, self._actuators)
        spans = np.append(self.durations, s.weight_terminal)[:, None]
        self._weights = spans * [s.weight_lateral, s.weight_heading, s.weight_speed, s.weight_sideslip, s.weight_steering, s.weight_pedal,
                                 s.weight_steering_rate, s.weight_pedal_rate]
        self._weights[-1, -2:] = 0.0
        of_kind = np.array([s.penalty_obstacle, s.penalty_load, s.penalty_friction, s.penalty_steering, s.penalty_corridor,
                            s.penalty_speed])
        self.qp.penalty[1:] = self.durations[:, None] * of_kind[self._kinds]
        # A little curvature keeps the slacks' multipliers apart where a penalty is at work; it is a tenth of it at one unit.
        self.qp.curvature[:] = 0.1 * self.qp.penalty

    # -- The plan -----------------------------------------------------------------------------------------------------

    def start(self, z0: np.ndarray, reference: Reference) -> None:
        """A first plan from the state z0 (nz,). Raises ValueError if that is not finite."""
        if not np.isfinite(z0).all():
            raise ValueError(UNKNOWN)
        self._guess.fill(self.z, self.w, z0, reference, self.settings, self._rates, self.wheelbase, self.full_lock)

    def shift(self, time: float) -> None:
        """Moves the plan on by `time` [s], interpolated; beyond its end it goes on as it did."""
        if time <= 0.0:
            return
        at = self.grid + time
        index = np.minimum(np.searchsorted(self.grid, at, side="right") - 1, len(self.durations) - 1)
        share = ((at - self.grid[index]) / self.durations[index])[:, None]
        self.z[:] = self.z[index] + share * (self.z[index + 1] - self.z[index])
        self._rate()

    def _rate(self) -> None:
        """The controls that belong to the plan's steering and pedal, within their bounds."""
        for j, name in enumerate(("steering", "pedal")):
            column = self.z[:, self.place[name]]
            np.clip(column, -1.0, 1.0, out=column)
            self.w[:-1, j] = np.diff(column) / self.durations
        r = self._rates
        np.clip(self.w, [-r.steering, -r.down], [r.steering, r.up], out=self.w)

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
        self.z[0] = z0
        before = self.z.copy(), self.w.copy()
        reached: tuple[np.ndarray, np.ndarray] | None = None  # the last plan that proved to be one
        done, last, over = 0, iterations, False
        while done < last and not over:
            done += 1
            self._refer(reference)
            self._see(obstacles, time)
            self._linearise(reference)
            gap = self._gap()
            if done > 1 and gap <= LARGEST_GAP:
                reached = self.z.copy(), self.w.copy()
            solution = self._solver.solve(math.inf if begun and done == 1 else until)
            residual = (self._exact or self.qp).residual(solution.dx, solution.du)
            if not solution.solved or residual > RESIDUAL:
                outcome = self._outcome(False, f"{self._solver.name}: {solution.status}, residual {residual:.1e}", done, residual, gap)
                break
            outcome = self._outcome(True, "", done, residual, gap, solution.dx)
            share = 1.0 / max(outcome.step, 1.0) if self._exact is None else 1.0
            self.z += share * solution.dx
            self.w[:-1] += share * solution.du
            if np.abs(solution.dx).max() < CONVERGED:
                break
            over = perf_counter() >= until
            if done == last < iterations + FURTHER and gap > LARGEST_GAP and self._exact is None:
                self._linearise(reference)
                last += self._gap() > LARGEST_GAP
        # A step closes the gaps that it begins with, to first order; where they were large, see what it left.
        if outcome.solved and (gap > LARGEST_GAP or self._exact is not None):
            self._linearise(reference)
            gap = self._gap()
            outcome = self._outcome(True, "", done, residual, gap)
            if gap > LARGEST_GAP:
                outcome = dataclasses.replace(outcome, solved=False, unfinished=over,
                                              status=f"the plan does not follow the model, gap {gap:.1e}")
        if not outcome.solved and reached is not None:
            self.z[:], self.w[:] = reached
            self._linearise(reference)
            return self._outcome(True, "", done, outcome.residual, self._gap())
        if not (outcome.solved or outcome.unfinished):
            self.z[:], self.w[:] = before
        return outcome

    def _gap(self) -> float:
        """Largest defect of the dynamics at the last linearisation, as share of the longest step."""
        return float((np.abs(self.qp.b) * self._reach).max())

    def _refer(self, reference: Reference) -> None:
        """What the path says at each stage."""
        number, place, path = self._number, self.place, reference.path
        x, y, yaw = self.z[:, place["x"]], self.z[:, place["y"]], self.z[:, place["yaw"]]
        near = self._stations
        if near is None:
            near = float(path.project(x[:1], y[:1])[0][0]) + np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
        s, offset = path.project(x, y, near)
        self._stations = s
        px, py, pyaw, curvature = path.at(s)
        number["path_x"][:], number["path_y"][:] = px, py
        # Of the parallel curve through the stage's point.
        number["path_curvature"][:] = curvature / np.maximum(1.0 - curvature * offset, 0.2)
        number["path_cos"][:], number["path_sin"][:] = np.cos(pyaw), np.sin(pyaw)
        number["path_yaw"][:] = pyaw + 2.0 * math.pi * np.round((yaw - pyaw) / (2.0 * math.pi))
        number["path_speed"][:], number["path_speed_slope"][:] = reference.speed_at(s)
        number["friction"][:] = self.settings.friction_use * self.friction
        # A vehicle that is too fast slows down as it can without need: what brakes hard for the limit cannot steer.
        with np.errstate(invalid="ignore"):
            fastest = np.fmax(self.z[0, place["vx"]] - SLOWER - reference.slowing * self.grid, reference.highest)
        early = number["path_speed"] >= reference.highest - 1e-6
        number["path_speed"][early] = np.maximum(number["path_speed"], fastest)[early]
        number["path_speed_slope"][early & (number["path_speed"] > reference.highest)] = 0.0

        s_, at, v = self.settings, self._at, np.maximum(self.z[:, place["vx"]], 0.0)
        if self.limits is not None and s_.use_limit_table:
            limit, slope = self.limits.at(v), (self.limits.at(v + 0.5) - self.limits.at(v - 0.5))
            number["limit"][:], number["limit_slope"][:] = limit - slope * v, slope
        else:
            number["limit"][:], number["limit_slope"][:] = 1.0, 0.0
        lower, upper = self._lower, self._upper
        lower[:, :s_.obstacles] = reference.margin if reference.margin is not None else (
            s_.obstacle_margin + s_.obstacle_growth * self.grid)[:, None]
        lower[:, at["load_front"]], lower[:, at["load_rear"]] = s_.load_margin, s_.load_margin
        upper[:, at["friction"]] = 1.0
        lower[:, at["steering_limit"]], upper[:, at["steering_limit"]] = -1.0, 1.0
        outline = self._outline
        for name, reach in (("corridor_front", outline.front), ("corridor_rear", -outline.rear)):
            if reference.corridor is None:
                upper[:, at[name]], lower[:, at[name]] = np.inf, -np.inf
                continue
            left, right = reference.room_at(s + reach)
            upper[:, at[name]], lower[:, at[name]] = left - outline.half_width, outline.half_width - right
        lower[:, at["speed"]], upper[:, at["speed"]] = 0.0, fastest

    _stations: np.ndarray | None = None  # where on the path the stages are

    def forget(self) -> None:
        """The next plan looks for its place on the whole path."""
        self._stations = None

    def reset(self) -> None:
        """The next plan is what it would be first."""
        self._stations = None
        self._solver.reset()

    @property
    def station(self) -> float:
        """Where on the path the plan begins [m]."""
        return 0.0 if self._stations is None else float(self._stations[0])

    def _see(self, obstacles: Obstacles | None, time: float) -> None:
        """The obstacles next to each stage, half on its left and half on its right."""
        slots, numbers, place = self.settings.obstacles, self._obstacle_numbers, self.place
        if not slots:
            return
        x, y, yaw = self.z[:, place["x"]], self.z[:, place["y"]], self.z[:, place["yaw"]]
        numbers[:, :, 0], numbers[:, :, 1], numbers[:, :, 2] = (x + FAR_AWAY)[:, None], y[:, None], 0.0
        if obstacles is None or not len(obstacles.radii):
            return
        ahead = (time - obstacles.time) + self.grid
        dx = obstacles.centres[:, 0] + ahead[:, None] * obstacles.velocities[:, 0] - x[:, None]
        dy = obstacles.centres[:, 1] + ahead[:, None] * obstacles.velocities[:, 1] - y[:, None]
        distance = np.sqrt(dx * dx + dy * dy) - obstacles.radii
        left = np.cos(yaw)[:, None] * dy - np.sin(yaw)[:, None] * dx > 0.0
        half, stages = slots // 2, np.arange(len(x))[:, None]
        for side, first in ((left, 0), (~left, half)):
            there = np.where(side, distance, np.inf)
            count = min(half, there.shape[1])
            best = np.argpartition(there, count - 1, axis=1)[:, :count] if count < there.shape[1] else np.broadcast_to(
                np.arange(count), (len(x), count))
            seen = there[stages, best] < FAR_AWAY
            slot = slice(first, first + count)
            numbers[:, slot, 0] = np.where(seen, x[:, None] + dx[stages, best], numbers[:, slot, 0])
            numbers[:, slot, 1] = np.where(seen, y[:, None] + dy[stages, best], numbers[:, slot, 1])
            numbers[:, slot, 2] = np.where(seen, obstacles.radii[best], 0.0)

    def _linearise(self, reference: Reference) -> None:
        """Fills the quadratic program at the present plan."""
        self._evaluate()
        qp, n, m = self.qp, len(self.names), len(CONTROLS)
        ends, residuals, rows = self._parts
        value, jacobian = self._value, self._jacobian
        qp.A[:], qp.B[:] = jacobian[:-1, ends, :n], jacobian[:-1, ends, n:n + m]
        np.subtract(value[:-1, ends], self.z[1:], out=qp.b)
        slopes, errors = jacobian[:, residuals, :n + m], value[:, residuals]
        weights = self._weighting
        weights[:] = self._weights
        weights[:, 0] *= reference.lateral
        if reference.free_end:
            weights[-1, 1] = 0.0
        weighted = np.swapaxes(slopes * weights[:, :, None], 1, 2)
        hessian = weighted @ slopes
        gradient = (weighted @ errors[:, :, None])[:, :, 0]
        qp.Q[:], qp.S[:], qp.R[:] = hessian[:, :n, :n], hessian[:-1, n:, :n], hessian[:-1, n:, n:]
        qp.q[:], qp.r[:] = gradient[:, :n], gradient[:-1, n:]
        self._errors = weights * errors * errors
        # Time that is left at the end: the nearer along the path, the less.
        hurry = -reference.hurry / max(reference.highest, 1.0)
        for name, direction in (("x", "path_cos"), ("y", "path_sin")):
            self._linear[-1, self.place[name]] = hurry * self._number[direction][-1]
        qp.q[-1] += self._linear[-1]
        qp.C[:] = jacobian[:, rows, :n]
        np.subtract(self._lower, value[:, rows], out=qp.row_lower)
        np.subtract(self._upper, value[:, rows], out=qp.row_upper)

        s = self.settings
        steering, pedal = self.z[:, self.place["steering"]], self.z[:, self.place["pedal"]]
        qp.lower_x[:, 0], qp.upper_x[:, 0] = -1.0 - steering, 1.0 - steering
        qp.lower_x[:, 1], qp.upper_x[:, 1] = -s.largest_brake - pedal, s.largest_throttle - pedal
        r = self._rates
        np.subtract([-r.steering, -r.down], self.w[:-1], out=qp.lower_u)
        np.subtract([r.steering, r.up], self.w[:-1], out=qp.upper_u)

    def _outcome(self, solved: bool, status: str, iterations: int, residual: float, gap: float,
                 dx: np.ndarray | None = None) -> PlanOutcome:
        """Cost by its terms, and the rows as they will be after a step `dx` (N+1, nz), to first order; without one, as they are."""
        terms = dict(zip(RESIDUALS, (0.5 * self._errors.sum(axis=0)).tolist()))
        active: list[str] = []
        violated: list[str] = []
        moved = 0.0 if dx is None else np.matmul(self.qp.C[1:], dx[1:, :, None])[..., 0]
        worst = np.maximum(self.qp.row_lower[1:] - moved, moved - self.qp.row_upper[1:])
        paid = np.add.reduceat((self.qp.penalty[1:] * np.maximum(worst, 0.0)).sum(axis=0), self._first_rows).tolist()
        nearest = np.maximum.reduceat(worst.max(axis=0), self._first_rows).tolist()
        for kind, cost, distance in zip(self._kinds_there, paid, nearest):
            terms[KINDS[kind]] = cost
            if distance > ACTIVE:
                violated.append(KINDS[kind])
            elif distance > -ACTIVE:
                active.append(KINDS[kind])
        step = 0.0 if dx is None else float((np.abs(dx) * self._reach).max())
        return PlanOutcome(solved, status, iterations, residual, sum(terms.values()), terms, tuple(active), tuple(violated), gap, step)

    def snapshot(self, time: float) -> Plan:
        """The plan as it is now, beginning at `time` [s]."""
        pedal = self.z[:, self.place["pedal"]]
        inputs = np.column_stack([self.z[:, self.place["steering"]], np.maximum(pedal, 0.0), np.maximum(-pedal, 0.0)])
        return Plan(self.names, time + self.grid, self.z.copy(), inputs)
