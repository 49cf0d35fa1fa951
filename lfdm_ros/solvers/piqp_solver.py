"""PIQP (Schwan, Jiang, Kuhn & Jones 2023, proximal interior point) on the whole sparse program: the second solver."""

import math
import time

import numpy as np
import piqp

from lfdm_ros.solvers.stage_qp import SparseEntries, StageQp, StageSolution, pairs

FIRST_PACE = 1e-4  # [s] an iteration, before one was measured
LEAST = 3  # iterations that are made however little time is left


class Piqp:
    """Solves a `StageQp` again and again; the structure is analysed once, and anew when other bounds are infinite."""

    name = "piqp"

    def __init__(self, program: StageQp, iterations: int = 100, tolerance: float = 1e-6):
        self._program, self._iterations, self._tolerance = program, iterations, tolerance
        d = program.dimensions
        n, m, stages, g = d.states, d.controls, d.stages, d.rows
        # Stage after stage: controls, the states after them, the slacks of those; the solver finds the band in this order.
        first = np.arange(stages)[:, None] * (m + n + 2 * g)
        self._du_at, self._dx_at = first + np.arange(m), first + m + np.arange(n)
        self._below_at = first + m + n + 2 * np.arange(g)
        self._above_at, self._size = self._below_at + 1, stages * (m + n + 2 * g)
        self._pattern, self._pace = b"", FIRST_PACE
        self._solver: piqp.SparseSolver | None = None

        # Cost: R_0; then for each k >= 1 Q, S, S', R; Q_N; the slacks. The upper triangle is what counts, both are given.
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
        """Sets up rows with a bound, those below first; each with its slack."""
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
        """Forgets the last solution: the next one starts cold."""
        self._pattern = b""

    def solve(self, until: float = math.inf) -> StageSolution:
        """Solves as `StageSolver.solve`."""
        p, d = self._program, self._program.dimensions
        lower, upper = p.row_lower[1:], p.row_upper[1:]
        finite = np.isfinite(lower), np.isfinite(upper)
        pattern = finite[0].tobytes() + finite[1].tobytes()
        fresh = pattern != self._pattern
        if fresh:
            self._setup(*finite)
        softness = np.concatenate([p.curvature[1:].ravel()] * 2) + 1e-9
        across = p.S[1:]
        cost = self._cost.fill(p.R, p.Q[1:], across, np.swapaxes(across, 1, 2), softness)
        dynamics = self._dynamics.fill(np.ones(p.b.size), -p.B, -p.A[1:])
        stage, row = self._places
        soft = self._soft.fill(self._sign[:, None] * p.C[1:][stage, row], ~np.isin(row, d.hard) * 1.0)
        bound = np.concatenate([lower[self._low], -upper[self._high]])
        linear = np.zeros(self._size)
        linear[self._du_at], linear[self._dx_at] = p.r, p.q[1:]
        linear[self._below_at] = linear[self._above_at] = p.penalty[1:]
        least, most = np.full(self._size, -np.inf), np.full(self._size, np.inf)
        least[self._du_at], most[self._du_at] = p.lower_u, p.upper_u
        bounded = self._dx_at[:, list(d.bounded)]
        least[bounded], most[bounded] = p.lower_x[1:], p.upper_x[1:]
        least[self._below_at] = least[self._above_at] = 0.0
        top = np.full(len(bound), np.inf)
        if fresh:
            solver = piqp.SparseSolver()
            solver.settings.eps_abs = solver.settings.eps_rel = self._tolerance
            solver.setup(cost, linear, dynamics, p.b.ravel(), soft, bound, top, least, most)
            self._solver, self._pattern = solver, pattern
        else:
            assert self._solver is not None
            solver = self._solver
            solver.update(P=cost, c=linear, A=dynamics, b=p.b.ravel(), G=soft, h_l=bound, h_u=top, x_l=least, x_u=most)
        began, count = time.perf_counter(), self._iterations
        if until < math.inf:
            count = max(min(count, int((until - began) / self._pace)), LEAST)
        solver.settings.max_iter = count
        status = solver.solve()
        found = solver.result.x
        self._pace += 0.3 * ((time.perf_counter() - began) / max(int(solver.result.info.iter), 1) - self._pace)
        dx = np.zeros((d.stages + 1, d.states))
        dx[1:], du = found[self._dx_at], found[self._du_at]
        solved = status == piqp.PIQP_SOLVED and bool(np.isfinite(found).all())
        return StageSolution(dx, du, solved, "solved" if solved else str(status), int(solver.result.info.iter))
