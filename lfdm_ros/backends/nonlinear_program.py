"""The optimal control problem as one nonlinear program for IPOPT: to convergence, with exact second derivatives, and slow. It is what the
quadratic programs are measured against.

Waechter & Biegler 2006, "On the implementation of an interior-point filter line-search algorithm for large-scale nonlinear programming".
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from lfdm_ros.backends.stage_qp import StageQp, StageSolution

_GOOD = ("Solve_Succeeded", "Solved_To_Acceptable_Level")


@dataclass(frozen=True, eq=False)
class Linearised:
    """Where a `StageQp` comes from: the arrays that its owner changes in place.

    z (N+1, n), w (N+1, m) the plan, w ending with zeros; p, k, c (N+1, nc) the other arguments of the stage function; rows (N+1, g) the
    rows' values at the plan; weights (N+1, r) of the residuals; linear (N+1, n) cost beside them.
    """

    z: np.ndarray
    w: np.ndarray
    p: np.ndarray
    k: np.ndarray
    c: np.ndarray
    rows: np.ndarray
    weights: np.ndarray
    linear: np.ndarray


class Ipopt:
    """Solves what a `StageQp` is the linearisation of, and takes the place of a solver of it.

        min  sum_k  1/2 weights_k . residuals(z_k, w_k)^2 + linear_k . z_k  +  penalty . (below + above) + curvature/2 . (below^2 + above^2)
        s.t. z_0 fixed,  z_{k+1} = end(z_k, w_k),  bounds of z and w,  row_lower - below <= rows(z_k) <= row_upper + above   (k >= 1)

    Bounds, penalties and curvatures are the quadratic program's, the bounds shifted back by the plan that it was linearised at. `solve`
    starts from that plan and returns the way from there to the solution.

    Attributes:
        cost: at the last solution, all terms of the above; inf if there is none.
    """

    name = "ipopt"

    def __init__(self, program: StageQp, function: ca.Function, source: Linearised, iterations: int = 500, tolerance: float = 1e-8):
        """
        Args:
            function: of a stage, see `stage_function`.
        """
        self._program, self._source = program, source
        d = program.dimensions
        stages, n, m, g, r = d.stages, d.states, d.controls, d.rows, source.weights.shape[1]

        w, z, below, above = (ca.MX.sym(name, size, stages) for name, size in (("w", m), ("z", n), ("below", g), ("above", g)))
        z0, p, k = (ca.MX.sym(name, size) for name, size in (("z0", n), ("p", source.p.size), ("k", source.k.size)))
        c, weights, linear = (ca.MX.sym(name, size, stages + 1)
                              for name, size in (("c", source.c.shape[1]), ("weights", r), ("linear", n)))
        penalty, curvature = ca.MX.sym("penalty", g, stages), ca.MX.sym("curvature", g, stages)
        states = ca.horzcat(z0, z)
        values = function.map(stages + 1)(states, ca.horzcat(w, ca.MX.zeros(m)), ca.repmat(p, 1, stages + 1), ca.repmat(k, 1, stages + 1), c)
        errors = values[n:n + r, :]
        cost = (0.5 * ca.sum2(ca.sum1(weights * errors * errors)) + ca.sum2(ca.sum1(linear * states))
                + ca.sum2(ca.sum1(penalty * (below + above) + 0.5 * curvature * (below * below + above * above))))
        kept = ca.veccat(values[:n, :-1] - z, values[n + r:, 1:] + below - above)
        options = {"max_iter": iterations, "tol": tolerance, "acceptable_tol": 10.0 * tolerance, "mu_strategy": "adaptive", "sb": "yes",
                   "print_level": 0, "bound_relax_factor": 0.0, "warm_start_init_point": "yes",
                   **{f"warm_start_{what}": 1e-7 for what in ("bound_push", "bound_frac", "slack_bound_push", "slack_bound_frac",
                                                              "mult_bound_push")}}
        self._solver = ca.nlpsol(
            "plan", "ipopt", {"x": ca.veccat(w, z, below, above), "f": cost, "g": kept,
                              "p": ca.veccat(z0, p, k, c, weights, linear, penalty, curvature)},
            {"ipopt": options, "print_time": False, "error_on_fail": False, "show_eval_warnings": False})
        self._ends = np.cumsum([stages * m, stages * n, stages * g])
        self.reset()

    def reset(self) -> None:
        """The next solution starts from the plan alone, without the last one's multipliers."""
        self._multipliers: dict[str, ca.DM] = {}
        self._gap = self.cost = float("inf")

    def residual(self, dx: np.ndarray, du: np.ndarray) -> float:
        """How far the last solution is from meeting dynamics, rows and bounds, largest absolute violation; inf if it is not finite."""
        return self._gap if np.isfinite(dx).all() and np.isfinite(du).all() else float("inf")

    def solve(self) -> StageSolution:
        """See `StageSolver.solve`."""
        q, s, d = self._program, self._source, self._program.dimensions
        bounded = list(d.bounded)
        lower, upper = np.full((2, d.stages, d.states), np.inf)
        lower *= -1.0
        lower[:, bounded], upper[:, bounded] = q.lower_x[1:] + s.z[1:, bounded], q.upper_x[1:] + s.z[1:, bounded]
        row_lower, row_upper = q.row_lower[1:] + s.rows[1:], q.row_upper[1:] + s.rows[1:]
        below, above = (np.maximum(over, 0.0) for over in (q.row_lower[1:], -q.row_upper[1:]))
        free, endless = np.zeros(below.size), np.full(below.size, np.inf)
        low = np.concatenate([(q.lower_u + s.w[:-1]).ravel(), lower.ravel(), free, free])
        high = np.concatenate([(q.upper_u + s.w[:-1]).ravel(), upper.ravel(), endless, endless])
        none = np.zeros(d.stages * d.states)
        least, most = np.concatenate([none, row_lower.ravel()]), np.concatenate([none, row_upper.ravel()])

        start = np.concatenate([s.w[:-1].ravel(), s.z[1:].ravel(), below.ravel(), above.ravel()])
        numbers = np.concatenate([s.z[0], s.p, s.k, s.c.ravel(), s.weights.ravel(), s.linear.ravel(), q.penalty[1:].ravel(),
                                  q.curvature[1:].ravel()])
        found = self._solver(x0=start, lbx=low, ubx=high, lbg=least, ubg=most, p=numbers, **self._multipliers)
        stats = self._solver.stats()
        status, x, g = stats["return_status"], found["x"].full().ravel(), found["g"].full().ravel()
        du, dx, *_ = np.split(x, self._ends)
        du, dx = du.reshape(d.stages, d.controls) - s.w[:-1], np.vstack([np.zeros(d.states), dx.reshape(d.stages, d.states) - s.z[1:]])
        solved = status in _GOOD and bool(np.isfinite(x).all())
        if solved:
            self._multipliers = {"lam_x0": found["lam_x"], "lam_g0": found["lam_g"]}
            self._gap = float(max((least - g).max(), (g - most).max(), (low - x).max(), (x - high).max()))
            self.cost = float(found["f"])
        else:
            self.reset()
        return StageSolution(dx, du, solved, "solved" if solved else status, int(stats["iter_count"]))
