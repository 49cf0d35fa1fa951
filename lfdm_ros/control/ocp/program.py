"""The quadratic program of one step from the present plan: dynamics, costs and limits linearised by compiled code."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from lfdm_ros.compiler.machine_code import INTEGER, POINTER
from lfdm_ros.compiler.native import addresses, native
from lfdm_ros.control.ocp import problem
from lfdm_ros.control.ocp.problem import KINDS, RESIDUALS, VEHICLE_NUMBERS, Layout, PlannedVehicle
from lfdm_ros.control.ocp.stages import StageNumbers
from lfdm_ros.control.plan import CONTROLS, PlanOutcome, Trajectory
from lfdm_ros.control.routing.routes import Reference
from lfdm_ros.control.settings import Rates, Settings
from lfdm_ros.models import Model
from lfdm_ros.solvers import Hpipm, Ipopt, Linearised, Piqp, StageDimensions, StageNames, StageQp, compiled_stage, stage_function

# A step of the optimisation moves no state further than this, all of it is shortened: what is far away is not what was linearised.
LONGEST_STEP = {"x": 4.0, "y": 4.0, "yaw": 0.4, "vx": 4.0, "vy": 2.0, "yaw_rate": 0.6}
# Of the solver: one step of the real-time iteration is no more exact than this; where steps go on to convergence, they need the other.
QUICK, EXACT = 1e-4, 1e-8
ACTIVE = 0.02  # of a row's bound: it is active when it is as near as this


class Program:
    """Linearises at a trajectory by its stages' numbers, and reads what a solution costs and touches. Arrays change in place.

    Attributes:
        function: of a stage, as a graph: states, residuals and rows.
        qp: the program.
        p, k: numbers of the vehicle.
        value, jacobian: of the stage function at the last linearisation, a stage a row.
        states, residuals, rows: their places in these.
        weighting: weights of the squared residuals (N+1, nr) in the last linearisation; linear: those of the states (N+1, nz).
    """

    def __init__(self, model: Model, layout: Layout, trajectory: Trajectory, numbers: StageNumbers, settings: Settings):
        """Compiles the stage, or loads it from the cache."""
        self._trajectory, self._numbers = trajectory, numbers
        self.function = stage_function(
            model, StageNames(layout.states[len(layout.model_states):], CONTROLS, VEHICLE_NUMBERS, layout.stage_numbers),
            lambda m: problem.build(m, layout), settings.substeps)
        compiled = compiled_stage(self.function)
        stages, n, m, rows = len(trajectory.durations), len(layout.states), len(CONTROLS), len(layout.rows)
        self.states, self.residuals, self.rows = slice(0, n), slice(n, n + len(RESIDUALS)), slice(n + len(RESIDUALS), None)
        self.p, self.k = np.zeros(len(model.parameters)), np.zeros(len(VEHICLE_NUMBERS))
        self.value = np.zeros((stages + 1, n + len(RESIDUALS) + rows))
        self.jacobian = np.zeros((stages + 1, n + len(RESIDUALS) + rows, compiled.columns))
        self._evaluate = compiled.bind_rows(trajectory.z, trajectory.w, self.p, self.k, numbers.c, results=(self.value, self.jacobian))
        self.qp = StageQp(StageDimensions(stages, n, m, (trajectory.place["steering"], trajectory.place["pedal"]), rows))
        self.weighting, self.linear = np.zeros((stages + 1, len(RESIDUALS))), np.zeros((stages + 1, n))
        self._kinds = np.array(layout.kinds)  # of the rows, in order
        kinds = np.unique(self._kinds)
        self._kind_names = [KINDS[kind] for kind in kinds]
        self._row_kinds = np.searchsorted(kinds, self._kinds)
        self._paid, self._nearest, self._no_step = np.zeros(len(kinds)), np.zeros(len(kinds)), np.zeros((stages + 1, n))
        qp, loops = self.qp, partial(native, "lfdm_ros.solvers.stage_native", sources=("lfdm_ros.solvers.stage_loops",))
        costs = loops((POINTER, POINTER, INTEGER, *[POINTER] * 6, *[INTEGER] * 6), INTEGER, entry="costs")
        self._costs = partial(costs, *addresses(
            self.value, self.jacobian, n, self.weighting, qp.Q, qp.S, qp.R, qp.q, qp.r, stages, n, m, self.value.shape[1], compiled.columns,
            len(RESIDUALS)))
        reached = loops((*[POINTER] * 7, *[INTEGER] * 4, POINTER), INTEGER, entry="reached")
        self._reached = partial(reached, *addresses(
            qp.C, qp.row_lower, qp.row_upper, qp.penalty, self._row_kinds, self._paid, self._nearest, stages, n, rows, len(kinds)))
        self._reach = np.array([1.0 / LONGEST_STEP.get(name, math.inf) for name in layout.states])

    def solver(self, settings: Settings) -> Hpipm | Piqp | Ipopt:
        """The solver that the settings name. Raises SolverMissing: its library is not installed."""
        if settings.solver == "ipopt":
            return Ipopt(self.qp, self.function, self.linearised())
        return (Hpipm if settings.solver == "hpipm" else Piqp)(self.qp, tolerance=QUICK if settings.iterations == 1 else EXACT)

    def linearised(self) -> Linearised:
        """What a solver of the nonlinear program reads beside the quadratic one."""
        t = self._trajectory
        return Linearised(t.z, t.w, self.p, self.k, self._numbers.c, self.value[:, self.rows], self.weighting, self.linear)

    def take(self, vehicle: PlannedVehicle) -> None:
        """Another vehicle's numbers."""
        self.p[:], self.k[:] = vehicle.p, vehicle.k

    def tune(self, settings: Settings, rates: Rates) -> None:
        """Other weights, penalties and bounds."""
        s, durations, qp = settings, self._trajectory.durations, self.qp
        self._settings, self._rates = s, rates
        spans = np.append(durations, s.weight_terminal)[:, None]
        self._weights = spans * [s.weight_lateral, s.weight_heading, s.weight_speed, s.weight_sideslip, s.weight_steering, s.weight_pedal,
                                 s.weight_steering_rate, s.weight_pedal_rate]
        self._weights[-1, -2:] = 0.0
        of_kind = np.array([s.penalty_obstacle, s.penalty_load, s.penalty_friction, s.penalty_steering, s.penalty_corridor,
                            s.penalty_speed])
        qp.penalty[1:] = durations[:, None] * of_kind[self._kinds]
        # A little curvature keeps the slacks' multipliers apart where a penalty is at work; it is a tenth of it at one unit.
        qp.curvature[:] = 0.1 * qp.penalty

    def linearise(self, reference: Reference) -> None:
        """Fills the quadratic program at the present plan."""
        self._evaluate()
        self._fill_dynamics()
        self._fill_cost(reference)
        self._fill_bounds()

    def _fill_dynamics(self) -> None:
        qp, n, m = self.qp, self.states.stop, len(CONTROLS)
        jacobian = self.jacobian
        qp.A[:], qp.B[:] = jacobian[:-1, self.states, :n], jacobian[:-1, self.states, n:n + m]
        np.subtract(self.value[:-1, self.states], self._trajectory.z[1:], out=qp.b)

    def _fill_cost(self, reference: Reference) -> None:
        qp, errors, weights = self.qp, self.value[:, self.residuals], self.weighting
        weights[:] = self._weights
        weights[:, 0] *= reference.lateral
        if reference.free_end:
            weights[-1, 1] = 0.0
        self._costs()
        self._errors = weights * errors * errors
        # Time that remains at the end: the nearer along the path, the less.
        hurry = -reference.hurry / max(reference.highest, 1.0)
        for name, direction in (("x", "path_cos"), ("y", "path_sin")):
            self.linear[-1, self._trajectory.place[name]] = hurry * self._numbers.column[direction][-1]
        qp.q[-1] += self.linear[-1]

    def _fill_bounds(self) -> None:
        qp, n, t = self.qp, self.states.stop, self._trajectory
        rows = self.value[:, self.rows]
        qp.C[:] = self.jacobian[:, self.rows, :n]
        np.subtract(self._numbers.lower, rows, out=qp.row_lower)
        np.subtract(self._numbers.upper, rows, out=qp.row_upper)
        s, r = self._settings, self._rates
        steering, pedal = t.column("steering"), t.column("pedal")
        qp.lower_x[:, 0], qp.upper_x[:, 0] = -1.0 - steering, 1.0 - steering
        qp.lower_x[:, 1], qp.upper_x[:, 1] = -s.largest_brake - pedal, s.largest_throttle - pedal
        np.subtract([-r.steering, -r.down], t.w[:-1], out=qp.lower_u)
        np.subtract([r.steering, r.up], t.w[:-1], out=qp.upper_u)

    def gap(self) -> float:
        """Largest defect of the dynamics at the last linearisation, as share of the longest step."""
        return float((np.abs(self.qp.b) * self._reach).max())

    def outcome(self, iterations: int, residual: float, dx: np.ndarray | None = None, failure: str = "") -> PlanOutcome:
        """Cost by its terms, and the rows as they will be after a step `dx` (N+1, nz), to first order; without one, as they are.

        Args:
            failure: why the plan is not solved; empty: it is.
        """
        terms = dict(zip(RESIDUALS, (0.5 * self._errors.sum(axis=0)).tolist()))
        active: list[str] = []
        violated: list[str] = []
        self._reached(*addresses(self._no_step if dx is None else np.ascontiguousarray(dx)))
        paid, nearest = self._paid.tolist(), self._nearest.tolist()
        for kind, cost, distance in zip(self._kind_names, paid, nearest):
            terms[kind] = cost
            if distance > ACTIVE:
                violated.append(kind)
            elif distance > -ACTIVE:
                active.append(kind)
        step = 0.0 if dx is None else float((np.abs(dx) * self._reach).max())
        return PlanOutcome(not failure, failure, iterations, residual, sum(terms.values()), terms, tuple(active), tuple(violated),
                           self.gap(), step)
