"""Quadratic programs with the structure of optimal control, and what a solver of them returns."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from lfdm_ros.compiler.machine_code import INTEGER, POINTER, REAL
from lfdm_ros.compiler.native import addresses, native


@dataclass(frozen=True)
class StageDimensions:
    """Sizes of a program: stages (intervals), states, controls, and what is bounded."""

    stages: int
    states: int
    controls: int
    bounded: tuple[int, ...]  # places of the states that have bounds
    rows: int  # a stage, soft but for those of the numbers in
    hard: tuple[int, ...] = ()


class StageQp:
    """The program in the steps dx, du from a trajectory; arrays are changed in place, a solver reads them.

        min  sum_k  1/2 [du; dx]' [R S; S' Q] [du; dx] + r' du + q' dx  +  penalty . (below + above) + curvature/2 . (below^2 + above^2)
        s.t. dx_0 = 0,  dx_{k+1} = A dx_k + B du_k + b,  lower_u <= du <= upper_u,  lower_x <= dx[bounded] <= upper_x   (k >= 1)
             row_lower - below <= C dx_k <= row_upper + above,  below, above >= 0   (k >= 1)

    The penalty is linear, hence exact: where the rows can be met they are, and there is always a solution as long as the bounds on the
    controls and those on the states do not contradict each other. A bound of -inf or inf is none.

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
    """dx (N+1, n), du (N, m); `solved`: the solver says so and its iterate is finite; `status` in the solver's words."""

    dx: np.ndarray
    du: np.ndarray
    solved: bool
    status: str
    iterations: int


class StageSolver(Protocol):
    """Solves programs of one size, one after the other."""

    name: str

    def solve(self, until: float = math.inf) -> StageSolution:
        """Solves the program that the solver was made for. The arrays returned are used again by the next call.

        Args:
            until: it should end by then, on the clock of `time.perf_counter` [s], solved or not; inf: only iterations are counted.
        """

    def reset(self) -> None:
        """Forgets the last solution: the next call gives what it would give first."""
