"""Quadratic programs with the structure of optimal control, interface of their solvers, and stage functions in CasADi."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, Protocol

import casadi as ca
import numpy as np
from scipy import sparse

from lfdm_ros.backends.casadi_backend import OPERATIONS, casadi_model
from lfdm_ros.compiler import CompiledFunction, compiled_with_jacobian
from lfdm_ros.compiler.machine_code import INTEGER, POINTER, REAL
from lfdm_ros.compiler.native import addresses, native
from lfdm_ros.models import Model


def pairs(rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the indices of dense blocks, one per stage: (stages, rows), (stages, columns) -> twice (stages, rows, columns)."""
    full = np.broadcast_arrays(rows[:, :, None], columns[:, None, :])
    return full[0], full[1]


class SparseEntries:
    """A sparse matrix with entries in blocks, in the order of their declaration, without duplicates.

    Attributes:
        matrix: of scipy, by columns; `fill` writes to it.
    """

    def __init__(self, blocks: Sequence[tuple[np.ndarray, np.ndarray]], shape: tuple[int, int]):
        """Analyses the structure. blocks: row and column indices of their entries, of any shape."""
        rows, columns = (np.concatenate([np.asarray(block[i]).ravel() for block in blocks]) for i in range(2))
        self.matrix = sparse.csc_matrix((np.arange(1.0, len(rows) + 1.0), (rows, columns)), shape=shape)
        self.matrix.sort_indices()
        self._order = self.matrix.data.astype(int) - 1

    def ordered(self, *blocks: np.ndarray) -> np.ndarray:
        """Returns the entries of these blocks in the order of the matrix."""
        return np.concatenate([block.ravel() for block in blocks])[self._order]

    def fill(self, *blocks: np.ndarray) -> sparse.csc_matrix:
        self.matrix.data[:] = self.ordered(*blocks)
        return self.matrix


@dataclass(frozen=True)
class StageNames:
    """Names of the arguments of a stage function: states besides the model's, controls, parameters of the vehicle and of the stage."""

    states: tuple[str, ...]
    controls: tuple[str, ...]
    vehicle: tuple[str, ...]
    stage: tuple[str, ...]


def stage_function(model: Model, names: StageNames, build: Callable[[Any], Any], substeps: int) -> ca.Function:
    """Returns f(z, w, p, k, c) -> [z at the end of the stage; residuals; rows], the latter two at its start.

    Args:
        model: for prediction.
        names: z = the model's states and `names.states`; w, k, c by name; p the model's parameters.
        build: of the operations, returns an object with inputs(steering, pedal), residuals(stage) and rows(stage); a stage has z, w, k, c,
            the wheels' `loads`, the ground's `friction`, z at its `end`, and its `duration`.
        substeps: steps of the model of c.step seconds each in a stage; the commands are linear in time.
    """
    functions = casadi_model(model)
    problem = build(OPERATIONS)

    def symbols(fields: Sequence[str], prefix: str) -> tuple[ca.SX, SimpleNamespace]:
        vector = ca.SX.sym(prefix, len(fields))
        return vector, SimpleNamespace(**{name: vector[i] for i, name in enumerate(fields)})

    n = len(model.states)
    z, zs = symbols([*(f.name for f in model.states), *names.states], "z")
    w, ws = symbols(names.controls, "w")
    k, ks = symbols(names.vehicle, "k")
    c, cs = symbols(names.stage, "c")
    p = ca.SX.sym("p", len(model.parameters))

    x, road = z[:n], getattr(zs, "road_steering", None)
    for i in range(substeps):
        time = (i + functions.input_time) * cs.step
        steering, pedal = zs.steering + time * ws.steering_rate, zs.pedal + time * ws.pedal_rate
        if road is not None:
            # Exact first-order lag towards the command at the middle of the step; the wheels use the mean of the step.
            before, road = road, steering + (road - steering) * cs.decay
            steering = 0.5 * (before + road)
        x = functions.step(x, ca.vertcat(*problem.inputs(steering, pedal)), p, cs.step)
    duration = substeps * cs.step
    end = [x, zs.steering + duration * ws.steering_rate, zs.pedal + duration * ws.pedal_rate, *([] if road is None else [road])]

    now = zs.steering if road is None else zs.road_steering
    inputs = ca.vertcat(*problem.inputs(now, zs.pedal))
    loads, friction = functions.wheel_loads(z[:n], inputs, p), functions.friction(z[:n], inputs, p)
    at_end = ca.vertcat(*end)
    stage = SimpleNamespace(z=zs, w=ws, k=ks, c=cs, loads=[loads[i] for i in range(4)], friction=friction, duration=duration,
                            end=SimpleNamespace(**{name: at_end[i] for i, name in enumerate(vars(zs))}))
    values = ca.vertcat(at_end, *problem.residuals(stage), *problem.rows(stage))
    return ca.Function(f"stage_{functions.stem}", [z, w, p, k, c], [ca.densify(values)], ["z", "w", "p", "k", "c"], ["values"])


def compiled_stage(function: ca.Function) -> CompiledFunction:
    """Compiles f(z, w, p, k, c) -> (values, exact Jacobian by z and w, padded to a multiple of 8 columns) as machine code."""
    return compiled_with_jacobian(function, (0, 1))


@dataclass(frozen=True)
class StageDimensions:
    """Sizes of a program: stages (intervals), states, controls, bounded states and rows."""

    stages: int
    states: int
    controls: int
    bounded: tuple[int, ...]  # indices of the bounded states
    rows: int  # per stage, soft except for `hard`
    hard: tuple[int, ...] = ()


class StageQp:
    """The program in the steps dx, du from a trajectory; its arrays are changed in place and read by a solver.

        min  sum_k  1/2 [du; dx]' [R S; S' Q] [du; dx] + r' du + q' dx  +  penalty . (below + above) + curvature/2 . (below^2 + above^2)
        s.t. dx_0 = 0,  dx_{k+1} = A dx_k + B du_k + b,  lower_u <= du <= upper_u,  lower_x <= dx[bounded] <= upper_x   (k >= 1)
             row_lower - below <= C dx_k <= row_upper + above,  below, above >= 0   (k >= 1)

    The penalty is linear, hence exact: feasible rows are satisfied. The program is feasible if the bounds on controls and states are
    consistent. Infinite bounds are inactive.

    Shapes with N stages, n states, m controls, g rows, v bounded states: A (N, n, n), B (N, n, m), b (N, n), Q (N+1, n, n),
    S (N, m, n), R (N, m, m), q (N+1, n), r (N, m), C (N+1, g, n), row_lower, row_upper (N+1, g), penalty, curvature (N+1, g),
    lower_x, upper_x (N+1, v), lower_u, upper_u (N, m). Entries at k = 0 of C, Q, q and the bounds of x have no effect.
    """

    def __init__(self, dimensions: StageDimensions):
        self.dimensions = d = dimensions
        stages, n, m, g, v = d.stages, d.states, d.controls, d.rows, len(d.bounded)
        self.A, self.B, self.b = np.zeros((stages, n, n)), np.zeros((stages, n, m)), np.zeros((stages, n))
        self.Q, self.S, self.R = np.zeros((stages + 1, n, n)), np.zeros((stages, m, n)), np.zeros((stages, m, m))
        self.q, self.r = np.zeros((stages + 1, n)), np.zeros((stages, m))
        self.C = np.zeros((stages + 1, g, n))
        self.row_lower, self.row_upper = np.full((stages + 1, g), -np.inf), np.full((stages + 1, g), np.inf)
        self.penalty, self.curvature = np.ones((stages + 1, g)), np.zeros((stages + 1, g))
        self.lower_x, self.upper_x = np.full((stages + 1, v), -np.inf), np.full((stages + 1, v), np.inf)
        self.lower_u, self.upper_u = np.full((stages, m), -np.inf), np.full((stages, m), np.inf)
        self._bounded = np.array(d.bounded, dtype=np.int64)
        self._violation: Callable[[int, int], float] | None = None

    def residual(self, dx: np.ndarray, du: np.ndarray) -> float:
        """Returns the largest absolute violation of the dynamics and the bounds by a solution; inf if it is not finite."""
        if self._violation is None:
            d = self.dimensions
            call = native("lfdm_ros.solvers.stage_native", (*[POINTER] * 8, *[INTEGER] * 4, POINTER, POINTER), REAL,
                          ("lfdm_ros.solvers.stage_loops",), "violation")
            self._violation = partial(call, *addresses(self.A, self.B, self.b, self._bounded, self.lower_x, self.upper_x, self.lower_u,
                                                       self.upper_u, d.stages, d.states, d.controls, len(self._bounded)))
        return float(self._violation(*addresses(np.ascontiguousarray(dx), np.ascontiguousarray(du))))


@dataclass(frozen=True)
class StageSolution:
    """dx (N+1, n), du (N, m); `solved`: reported by the solver, with a finite iterate; `status`: text of the solver."""

    dx: np.ndarray
    du: np.ndarray
    solved: bool
    status: str
    iterations: int


class StageSolver(Protocol):
    """Solver of programs of one size."""

    name: str

    def solve(self, until: float = math.inf) -> StageSolution:
        """Solves the solver's program; the next call overwrites the returned arrays. `until`: deadline on the clock of `time.perf_counter`
        [s], for a solution or not; inf: limited by iterations only."""

    def reset(self) -> None:
        """Forgets the last solution, for a cold start."""
