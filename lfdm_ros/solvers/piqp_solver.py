"""PIQP (Schwan, Jiang, Kuhn & Jones 2023, proximal interior point) on the whole sparse program: the alternative to HPIPM."""

import math
import time

import numpy as np
import piqp

from lfdm_ros.solvers.stage_qp import SparseEntries, StageQp, StageSolution, pairs

FIRST_PACE = 1e-4  # [s] per iteration, initial estimate
MIN_ITERATIONS = 3  # for any remaining time


class Piqp:
    """Solver of a `StageQp`, for repeated calls; the structure is analysed once, and again when the pattern of infinite bounds changes."""

    name = "piqp"

    def __init__(self, program: StageQp, iterations: int = 100, tolerance: float = 1e-6):
        self._program, self._iterations, self._tolerance = program, iterations, tolerance
        d = program.dimensions
        n, m, stages, g = d.states, d.controls, d.stages, d.rows
        # Stage after stage: controls, the states after them, their slacks; in this order the matrices are banded.
        first = np.arange(stages)[:, None] * (m + n + 2 * g)
        self._du_at, self._dx_at = first + np.arange(m), first + m + np.arange(n)
        self._below_at = first + m + n + 2 * np.arange(g)
        self._above_at, self._size = self._below_at + 1, stages * (m + n + 2 * g)
        self._pattern, self._pace = b"", FIRST_PACE
        self._solver: piqp.SparseSolver | None = None

        # Cost: R_0; then for each k >= 1 Q, S, S', R; Q_N; the slacks. The solver uses the upper triangle.
        u, x = self._du_at, self._dx_at
        blocks = [pairs(u, u), pairs(x, x), pairs(u[1:], x[:-1]), pairs(x[:-1], u[1:])]
        soft = np.concatenate([self._below_at.ravel(), self._above_at.ravel()])
        blocks.append((soft, soft))
        self._cost = SparseEntries(blocks, (self._size, self._size))
        # Dynamics: dx+ - B du - A dx = b.
        rows = np.arange(stages * n).reshape(stages, n)
        blocks = [(rows.ravel(), x.ravel()), pairs(rows, u), pairs(rows[1:], x[:-1])]
        self._dynamics = SparseEntries(blocks, (stages * n, self._size))

    def _setup(self, finite_lower: np.ndarray, finite_upper: np.ndarray) -> None:
        """Sets up rows with a bound, lower ones first, each with its slack."""
        self._low, self._high = np.nonzero(finite_lower), np.nonzero(finite_upper)
        count = len(self._low[0]) + len(self._high[0])
        stage = np.concatenate([self._low[0], self._high[0]])
        row = np.concatenate([self._low[1], self._high[1]])
        n = self._program.dimensions.states
        states = self._dx_at[stage]
        slack = np.concatenate([self._below_at[self._low], self._above_at[self._high]])
        index = np.arange(count)
        self._soft = SparseEntries([(np.repeat(index, n), states), (index, slack)], (count, self._size))
        self._sign = np.concatenate([np.ones(len(self._low[0])), -np.ones(len(self._high[0]))])
        self._places = stage, row

    def reset(self) -> None:
        self._pattern = b""

    def solve(self, until: float = math.inf) -> StageSolution:
        p, d = self._program, self._program.dimensions
        lower, upper = p.row_lower[1:], p.row_upper[1:]
        finite = np.isfinite(lower), np.isfinite(upper)
        pattern = finite[0].tobytes() + finite[1].tobytes()
        fresh = pattern != self._pattern
        if fresh:
            self._setup(*finite)
        softness = np.concatenate([p.curvature[1:].ravel()] * 2) + 1e-9
        mixed = p.S[1:]
        cost = self._cost.fill(p.R, p.Q[1:], mixed, np.swapaxes(mixed, 1, 2), softness)
        dynamics = self._dynamics.fill(np.ones(p.b.size), -p.B, -p.A[1:])
        stage, row = self._places
        soft = self._soft.fill(self._sign[:, None] * p.C[1:][stage, row], ~np.isin(row, d.hard) * 1.0)
        bound = np.concatenate([lower[self._low], -upper[self._high]])
        linear = np.zeros(self._size)
        linear[self._du_at], linear[self._dx_at] = p.r, p.q[1:]
        linear[self._below_at] = linear[self._above_at] = p.penalty[1:]
        low, high = np.full(self._size, -np.inf), np.full(self._size, np.inf)
        low[self._du_at], high[self._du_at] = p.lower_u, p.upper_u
        bounded = self._dx_at[:, list(d.bounded)]
        low[bounded], high[bounded] = p.lower_x[1:], p.upper_x[1:]
        low[self._below_at] = low[self._above_at] = 0.0
        top = np.full(len(bound), np.inf)
        if fresh:
            solver = piqp.SparseSolver()
            solver.settings.eps_abs = solver.settings.eps_rel = self._tolerance
            solver.setup(cost, linear, dynamics, p.b.ravel(), soft, bound, top, low, high)
            self._solver, self._pattern = solver, pattern
        else:
            assert self._solver is not None
            solver = self._solver
            solver.update(P=cost, c=linear, A=dynamics, b=p.b.ravel(), G=soft, h_l=bound, h_u=top, x_l=low, x_u=high)
        began, count = time.perf_counter(), self._iterations
        if until < math.inf:
            count = max(min(count, int((until - began) / self._pace)), MIN_ITERATIONS)
        solver.settings.max_iter = count
        status = solver.solve()
        x = solver.result.x
        self._pace += 0.3 * ((time.perf_counter() - began) / max(int(solver.result.info.iter), 1) - self._pace)
        dx = np.zeros((d.stages + 1, d.states))
        dx[1:], du = x[self._dx_at], x[self._du_at]
        solved = status == piqp.PIQP_SOLVED and bool(np.isfinite(x).all())
        return StageSolution(dx, du, solved, "solved" if solved else str(status), int(solver.result.info.iter))
