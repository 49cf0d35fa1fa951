"""Quadratic program of one step from the present plan: dynamics, costs and limits, linearised by compiled code."""

import math
from functools import partial

import numpy as np

from lfdm_ros.compiler.machine_code import INTEGER, POINTER
from lfdm_ros.compiler.native import addresses, native
from lfdm_ros.control.command_limits import RateLimits
from lfdm_ros.control.ocp.stages import StageParameters
from lfdm_ros.control.ocp.terms import VEHICLE_PARAMETERS, PlannedVehicle, ProblemLayout, build
from lfdm_ros.control.plan import CONTROLS, PlanOutcome, Trajectory
from lfdm_ros.control.routing.routes import Reference
from lfdm_ros.control.settings import Settings
from lfdm_ros.models import Model
from lfdm_ros.solvers import Hpipm, Ipopt, Linearised, Piqp, StageDimensions, StageNames, StageQp, compiled_stage, stage_function

# Trust region of the linearisation: a step is shortened so that no state moves further than this. SCALED: those that are in proportion for
# a vehicle that is not full-size (`Footprint.scale`).
MAX_STEP = {"x": 4.0, "y": 4.0, "yaw": 0.4, "vx": 4.0, "vy": 2.0, "yaw_rate": 0.6}
SCALED = ("x", "y", "vx", "vy")
# Solver tolerances: of a step of the real-time iteration, and of steps to convergence.
QUICK_TOLERANCE, EXACT_TOLERANCE = 1e-4, 1e-8
ACTIVE_DISTANCE = 0.02  # distance from its bound at which a row is active


class Program:
    """Quadratic program at a trajectory; evaluates costs and constraints of a solution. Arrays change in place.

    Attributes:
        function: stage function as a graph: states, residuals and rows.
        qp: the program.
        p, k: vehicle data.
        value, jacobian: of the stage function at the last linearisation, one row a stage.
        states, residuals, rows: their indices in these.
        weighting: weights of the squared residuals (N+1, nr) in the last linearisation; linear: those of the states (N+1, nz).
    """

    def __init__(self, model: Model, layout: ProblemLayout, trajectory: Trajectory, parameters: StageParameters, settings: Settings):
        """Compiles the stage, or loads it from the cache."""
        self._trajectory, self._parameters = trajectory, parameters
        self.function = stage_function(
            model, StageNames(layout.states[len(layout.model_states):], CONTROLS, VEHICLE_PARAMETERS, layout.stage_parameters),
            lambda m: build(m, layout), settings.substeps)
        compiled = compiled_stage(self.function)
        stages, n, m, rows = len(trajectory.durations), len(layout.states), len(CONTROLS), len(layout.constraints)
        residuals, self._terms, self._constraints = len(layout.terms), layout.terms, layout.constraints
        self.states, self.residuals, self.rows = slice(0, n), slice(n, n + residuals), slice(n + residuals, None)
        self.p, self.k = np.zeros(len(model.parameters)), np.zeros(len(VEHICLE_PARAMETERS))
        self.value = np.zeros((stages + 1, n + residuals + rows))
        self.jacobian = np.zeros((stages + 1, n + residuals + rows, compiled.columns))
        self._evaluate = compiled.bind_rows(trajectory.z, trajectory.w, self.p, self.k, parameters.c, results=(self.value, self.jacobian))
        hard = tuple(i for i, constraint in enumerate(layout.constraints) if constraint.penalty == math.inf)
        self.qp = StageQp(StageDimensions(stages, n, m, (trajectory.place["steering"], trajectory.place["pedal"]), rows, hard))
        self.weighting, self.linear = np.zeros((stages + 1, residuals)), np.zeros((stages + 1, n))
        self._residual = {term.name: i for i, term in enumerate(layout.terms)}
        groups = [constraint.group or constraint.name for constraint in layout.constraints]
        self._groups = list(dict.fromkeys(groups))
        self._row_groups = np.array([self._groups.index(group) for group in groups], dtype=np.int64)
        self._paid, self._nearest, self._no_step = np.zeros(len(self._groups)), np.zeros(len(self._groups)), np.zeros((stages + 1, n))
        qp, loops = self.qp, partial(native, "lfdm_ros.solvers.stage_native", sources=("lfdm_ros.solvers.stage_loops",))
        costs = loops((POINTER, POINTER, INTEGER, *[POINTER] * 6, *[INTEGER] * 6), INTEGER, entry="costs")
        self._costs = partial(costs, *addresses(
            self.value, self.jacobian, n, self.weighting, qp.Q, qp.S, qp.R, qp.q, qp.r, stages, n, m, self.value.shape[1], compiled.columns,
            residuals))
        reached = loops((*[POINTER] * 7, *[INTEGER] * 4, POINTER), INTEGER, entry="reached")
        self._reached = partial(reached, *addresses(
            qp.C, qp.row_lower, qp.row_upper, qp.penalty, self._row_groups, self._paid, self._nearest, stages, n, rows, len(self._groups)))
        self._states, self._scale, self._reach = layout.states, 1.0, np.empty(n)

    def solver(self, settings: Settings) -> Hpipm | Piqp | Ipopt:
        """Makes the solver that the settings name. Raises SolverMissing: its library is not installed."""
        if settings.solver == "ipopt":
            return Ipopt(self.qp, self.function, self.linearised())
        tolerance = QUICK_TOLERANCE if settings.iterations == 1 else EXACT_TOLERANCE
        return (Hpipm if settings.solver == "hpipm" else Piqp)(self.qp, tolerance=tolerance)

    def linearised(self) -> Linearised:
        """Returns the arrays for a solver of the nonlinear program."""
        t = self._trajectory
        return Linearised(t.z, t.w, self.p, self.k, self._parameters.c, self.value[:, self.rows], self.weighting, self.linear)

    def set_vehicle(self, vehicle: PlannedVehicle) -> None:
        """Sets another vehicle's parameters."""
        self.p[:], self.k[:], self._scale = vehicle.p, vehicle.k, vehicle.outline.scale
        self._reach[:] = [1.0 / (MAX_STEP.get(name, math.inf) * (self._scale if name in SCALED else 1.0)) for name in self._states]

    def tune(self, settings: Settings, rates: RateLimits) -> None:
        """Sets weights, penalties and bounds."""
        s, durations, qp = settings, self._trajectory.durations, self.qp
        self._settings, self._rates = s, rates
        spans = np.append(durations, s.weight_terminal)[:, None]
        self._weights = spans * [_value(term.weight, s) for term in self._terms]
        self._weights[-1, [not term.at_end for term in self._terms]] = 0.0
        penalties = np.array([_value(constraint.penalty, s) for constraint in self._constraints])
        penalties[list(qp.dimensions.hard)] = 1.0  # affects the reported costs only
        qp.penalty[1:] = durations[:, None] * penalties
        # A small quadratic term regularises the multipliers of the slacks: a tenth of the penalty at one unit.
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
        weights[:, self._residual["lateral"]] *= reference.lateral
        if reference.free_end:
            weights[-1, self._residual["heading"]] = 0.0
        self._costs()
        self._errors = weights * errors * errors
        # Remaining time at the end decreases with the progress along the path.
        time_weight = -reference.time_weight / max(reference.highest, self._scale)
        for name, direction in (("x", "path_cos"), ("y", "path_sin")):
            self.linear[-1, self._trajectory.place[name]] = time_weight * self._parameters.column[direction][-1]
        qp.q[-1] += self.linear[-1]

    def _fill_bounds(self) -> None:
        qp, n, t = self.qp, self.states.stop, self._trajectory
        rows = self.value[:, self.rows]
        qp.C[:] = self.jacobian[:, self.rows, :n]
        np.subtract(self._parameters.lower, rows, out=qp.row_lower)
        np.subtract(self._parameters.upper, rows, out=qp.row_upper)
        s, r = self._settings, self._rates
        steering, pedal = t.column("steering"), t.column("pedal")
        qp.lower_x[:, 0], qp.upper_x[:, 0] = -1.0 - steering, 1.0 - steering
        qp.lower_x[:, 1], qp.upper_x[:, 1] = -s.largest_brake - pedal, s.largest_throttle - pedal
        np.subtract([-r.steering, -r.down], t.w[:-1], out=qp.lower_u)
        np.subtract([r.steering, r.up], t.w[:-1], out=qp.upper_u)

    def gap(self) -> float:
        """Returns the largest defect of the dynamics at the last linearisation, as share of the longest step."""
        return float((np.abs(self.qp.b) * self._reach).max())

    def outcome(self, iterations: int, residual: float, dx: np.ndarray | None = None, failure: str = "") -> PlanOutcome:
        """Returns cost by term, and the rows, to first order after a step `dx` (N+1, nz), or without one.

        Args:
            failure: why the plan is not solved; empty: solved.
        """
        terms = dict(zip(self._residual, (0.5 * self._errors.sum(axis=0)).tolist()))
        active: list[str] = []
        violated: list[str] = []
        self._reached(*addresses(self._no_step if dx is None else np.ascontiguousarray(dx)))
        paid, nearest = self._paid.tolist(), self._nearest.tolist()
        for group, cost, distance in zip(self._groups, paid, nearest):
            terms[group] = terms.get(group, 0.0) + cost  # a term and a group may share a name
            if distance > ACTIVE_DISTANCE:
                violated.append(group)
            elif distance > -ACTIVE_DISTANCE:
                active.append(group)
        step = 0.0 if dx is None else float((np.abs(dx) * self._reach).max())
        return PlanOutcome(not failure, failure, iterations, residual, sum(terms.values()), terms, tuple(active), tuple(violated),
                           self.gap(), step)


def _value(number: float | str, settings: Settings) -> float:
    """Returns a weight or penalty, a number or the name of a setting."""
    return float(getattr(settings, number)) if isinstance(number, str) else number
