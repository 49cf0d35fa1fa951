"""The optimal control problem as one nonlinear program for IPOPT: to convergence, with exact second derivatives; slow, the reference for
the quadratic programs.

Waechter & Biegler 2006, "On the implementation of an interior-point filter line-search algorithm for large-scale nonlinear programming".
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from lfdm_ros.compiler import compiled_with_jacobian
from lfdm_ros.solvers.stage_qp import SparseEntries, StageQp, StageSolution, compiled_stage, pairs

_GOOD = ("Solve_Succeeded", "Solved_To_Acceptable_Level")


@dataclass(frozen=True, eq=False)
class Linearised:
    """Source of a `StageQp`: arrays that its owner changes in place.

    z (N+1, n), w (N+1, m) the plan, w ending with zeros; p, k, c (N+1, nc) the other arguments of the stage function; rows (N+1, g): values
    of the rows at the plan; weights (N+1, r) of the residuals; linear (N+1, n): additional linear cost.
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
    """Solver of the nonlinear program behind a `StageQp`, interchangeable with a `StageSolver`.

        min  sum_k  1/2 weights_k . residuals(z_k, w_k)^2 + linear_k . z_k  +  penalty . (below + above) + curvature/2 . (below^2 + above^2)
        s.t. z_0 fixed,  z_{k+1} = end(z_k, w_k),  bounds of z and w,  row_lower <= rows(z_k) + below - above <= row_upper   (k >= 1)

    Bounds, penalties and curvatures are those of the quadratic program, the bounds shifted by the plan of the linearisation. `solve` starts
    from that plan and returns the step to the solution. Values and derivatives are compiled.

    Attributes:
        cost: of the last solution, all terms of the above; inf without one.
    """

    name = "ipopt"

    def __init__(self, program: StageQp, function: ca.Function, source: Linearised, iterations: int = 200, tolerance: float = 1e-6,
                 compiled: bool = True):
        """Compiles the second derivatives (seconds), or loads them from the cache. `function`: of a stage, see `stage_function`;
        `compiled`: False: values and derivatives by CasADi, 20 times slower, independent of compiled code."""
        self._program, self._source = program, source
        d = program.dimensions
        stages, n, m, g, r = d.stages, d.states, d.controls, d.rows, source.weights.shape[1]
        self._parts = slice(0, n), slice(n, n + r), slice(n + r, None)

        # The stages at an iterate: z_0 is fixed, w_N unused.
        s = source
        self._z, self._w, self._multiplier = np.zeros_like(s.z), np.zeros_like(s.w), np.zeros((stages + 1, n + r + g))
        gradient = _gradient(function)
        first, second = ((compiled_stage(function), compiled_with_jacobian(gradient, (0, 1))) if compiled
                         else (_Interpreted(function, n + m), _Interpreted(gradient, n + m)))
        self._value, self._jacobian = np.zeros((stages + 1, n + r + g)), np.zeros((stages + 1, n + r + g, first.columns))
        self._slope, self._curve = np.zeros((stages + 1, n + m)), np.zeros((stages + 1, n + m, second.columns))
        self._evaluate = first.bind_rows(self._z, self._w, s.p, s.k, s.c, results=(self._value, self._jacobian))
        self._evaluate_curves = second.bind_rows(self._z, self._w, s.p, s.k, s.c, self._multiplier, results=(self._slope, self._curve))
        self._at = b""

        # Indices of the variables w_k, z_{k+1}, below, above, and of the constraints: the dynamics, then the rows.
        sizes = (stages * m, stages * n, stages * g, stages * g)
        self._ends = np.cumsum(sizes[:-1])
        at_w, at_z, at_below, at_above = (np.arange(size).reshape(stages, -1) + start
                                          for size, start in zip(sizes, (0, *self._ends)))
        motion, rows = np.arange(stages * n).reshape(stages, n), stages * n + np.arange(stages * g).reshape(stages, g)
        self._jacobian_entries = SparseEntries(
            [pairs(motion, at_w), pairs(motion[1:], at_z[:-1]), (motion, at_z), pairs(rows, at_z), (rows, at_below), (rows, at_above)],
            (stages * (n + g), sum(sizes)))
        # The Hessian's upper triangle; controls come before states.
        self._upper_w, self._upper_z = np.triu_indices(m), np.triu_indices(n)
        self._hessian_entries = SparseEntries(
            [(at_w[:, self._upper_w[0]], at_w[:, self._upper_w[1]]), (at_z[:, self._upper_z[0]], at_z[:, self._upper_z[1]]),
             pairs(at_w[1:], at_z[:-1]), (at_below, at_below), (at_above, at_above)], (sum(sizes), sum(sizes)))

        x, p, lam = (ca.Sparsity.dense(size) for size in (sum(sizes), 0, stages * (n + g)))
        one = ca.Sparsity.dense(1)
        self._functions = nlp, gradient, jacobian, hessian = (
            _Callback("nlp", {"x": x, "p": p}, {"f": one, "g": lam}, self._both),
            _Callback("gradient", {"x": x, "p": p}, {"f": one, "grad_f_x": x}, self._cost_gradient),
            _Callback("jacobian", {"x": x, "p": p}, {"g": lam, "jac_g_x": _pattern(self._jacobian_entries)}, self._constraint_jacobian),
            _Callback("hessian", {"x": x, "p": p, "lam_f": one, "lam_g": lam}, {"triu_hess_gamma_x_x": _pattern(self._hessian_entries)},
                      self._hessian))
        options: dict[str, Any] = {
            "max_iter": iterations, "tol": tolerance, "acceptable_tol": 100.0 * tolerance, "acceptable_iter": 5,
            "mu_strategy": "adaptive", "sb": "yes",
            "print_level": 0, "bound_relax_factor": 0.0, "warm_start_init_point": "yes",
            **{f"warm_start_{option}": 1e-7
               for option in ("bound_push", "bound_frac", "slack_bound_push", "slack_bound_frac", "mult_bound_push")}}
        self._watch = _Watch(sum(sizes), stages * (n + g))
        self._solver = ca.nlpsol("plan", "ipopt", nlp, {
            "ipopt": options, "iteration_callback": self._watch, "print_time": False, "error_on_fail": False,
            "show_eval_warnings": False, "no_nlp_grad": True,
            "grad_f": gradient, "jac_g": jacobian, "hess_lag": hessian})
        self.reset()

    def reset(self) -> None:
        """Forgets the multipliers, for a start from the plan alone."""
        self._multipliers: dict[str, ca.DM] = {}
        self._gap = self.cost = float("inf")

    def residual(self, dx: np.ndarray, du: np.ndarray) -> float:
        """Returns the largest absolute violation of dynamics, rows and bounds by the last solution; inf if it is not finite."""
        return self._gap if np.isfinite(dx).all() and np.isfinite(du).all() else float("inf")

    def solve(self, until: float = math.inf) -> StageSolution:
        self._watch.until = until
        q, s, d = self._program, self._source, self._program.dimensions
        bounded = list(d.bounded)
        lower, upper = np.full((2, d.stages, d.states), np.inf)
        lower *= -1.0
        lower[:, bounded], upper[:, bounded] = q.lower_x[1:] + s.z[1:, bounded], q.upper_x[1:] + s.z[1:, bounded]
        row_lower, row_upper = q.row_lower[1:] + s.rows[1:], q.row_upper[1:] + s.rows[1:]
        below, above = np.maximum(q.row_lower[1:], 0.0), np.maximum(-q.row_upper[1:], 0.0)
        no_slack, max_slack = np.zeros(below.size), np.where(np.isin(np.arange(d.rows), d.hard), 0.0, np.full(below.shape, np.inf)).ravel()
        low = np.concatenate([(q.lower_u + s.w[:-1]).ravel(), lower.ravel(), no_slack, no_slack])
        high = np.concatenate([(q.upper_u + s.w[:-1]).ravel(), upper.ravel(), max_slack, max_slack])
        equal = np.zeros(d.stages * d.states)
        g_low, g_high = np.concatenate([equal, row_lower.ravel()]), np.concatenate([equal, row_upper.ravel()])
        start = np.concatenate([s.w[:-1].ravel(), s.z[1:].ravel(), below.ravel(), above.ravel()])

        self._z[0], self._at = s.z[0], b""
        if not all(np.isfinite(v).all() for v in (start, s.z[0], s.p, s.k, s.c, s.weights, s.linear, q.penalty, q.curvature)):
            self.reset()
            return StageSolution(np.zeros_like(s.z), np.zeros_like(q.r), False, "not a number", 0)
        result = self._solver(x0=start, lbx=low, ubx=high, lbg=g_low, ubg=g_high, **self._multipliers)
        stats = self._solver.stats()
        status, x, g = stats["return_status"], result["x"].full().ravel(), result["g"].full().ravel()
        du, dx, *_ = np.split(x, self._ends)
        du, dx = du.reshape(d.stages, d.controls) - s.w[:-1], np.vstack([np.zeros(d.states), dx.reshape(d.stages, d.states) - s.z[1:]])
        solved = status in _GOOD and bool(np.isfinite(x).all())
        if solved:
            self._multipliers = {"lam_x0": result["lam_x"], "lam_g0": result["lam_g"]}
            self._gap = float(max((g_low - g).max(), (g - g_high).max(), (low - x).max(), (x - high).max()))
            self.cost = float(result["f"])
        else:
            self.reset()
        return StageSolution(dx, du, solved, "solved" if solved else str(status), int(stats["iter_count"]))

    def _update(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Evaluates the stages at an iterate, unless it is the last one; returns its slacks."""
        w, z, below, above = np.split(x, self._ends)
        here = x[:self._ends[1]].tobytes()
        if here != self._at:
            self._w[:-1].flat[:], self._z[1:].flat[:] = w, z
            self._evaluate()
            self._at = here
        return below.reshape(len(self._w) - 1, -1), above.reshape(len(self._w) - 1, -1)

    def _cost(self, below: np.ndarray, above: np.ndarray) -> float:
        q, s, errors = self._program, self._source, self._value[:, self._parts[1]]
        soft = q.penalty[1:] * (below + above) + 0.5 * q.curvature[1:] * (below * below + above * above)
        return float(0.5 * (s.weights * errors * errors).sum() + (s.linear * self._z).sum() + soft.sum())

    def _constraints(self, below: np.ndarray, above: np.ndarray) -> np.ndarray:
        ends, _, rows = self._parts
        return np.concatenate([(self._value[:-1, ends] - self._z[1:]).ravel(), (self._value[1:, rows] + below - above).ravel()])

    def _both(self, x: np.ndarray, p: np.ndarray) -> tuple[object, ...]:
        slacks = self._update(x)
        return self._cost(*slacks), self._constraints(*slacks)

    def _cost_gradient(self, x: np.ndarray, p: np.ndarray) -> tuple[object, ...]:
        below, above = self._update(x)
        q, s, errors, n = self._program, self._source, self._parts[1], self._z.shape[1]
        by_stage = np.matmul((s.weights * self._value[:, errors])[:, None, :], self._jacobian[:, errors])[:, 0]
        gradient = np.concatenate([by_stage[:-1, n:n + self._w.shape[1]].ravel(), (by_stage[1:, :n] + s.linear[1:]).ravel(),
                                   (q.penalty[1:] + q.curvature[1:] * below).ravel(), (q.penalty[1:] + q.curvature[1:] * above).ravel()])
        return self._cost(below, above), gradient

    def _constraint_jacobian(self, x: np.ndarray, p: np.ndarray) -> tuple[object, ...]:
        below, above = self._update(x)
        (ends, _, rows), n, m, ones = self._parts, self._z.shape[1], self._w.shape[1], np.ones(below.size)
        motion = self._jacobian[:-1, ends]
        return self._constraints(below, above), self._jacobian_entries.ordered(
            motion[:, :, n:n + m], motion[1:, :, :n], -np.ones(self._z[1:].size), self._jacobian[1:, rows, :n], ones, -ones)

    def _hessian(self, x: np.ndarray, p: np.ndarray, lam_f: np.ndarray, lam_g: np.ndarray) -> tuple[object, ...]:
        self._update(x)
        s, q, n, m = self._source, self._program, self._z.shape[1], self._w.shape[1]
        ends, errors, rows = self._parts
        weights, split = lam_f[0] * s.weights, self._z[1:].size
        self._multiplier[:-1, ends], self._multiplier[1:, rows] = lam_g[:split].reshape(-1, n), lam_g[split:].reshape(len(s.z) - 1, -1)
        self._multiplier[:, errors] = weights * self._value[:, errors]
        self._evaluate_curves()
        slopes = self._jacobian[:, errors, :n + m]
        total = self._curve[:, :, :n + m] + np.matmul(np.swapaxes(slopes * weights[:, :, None], 1, 2), slopes)
        curvature = lam_f[0] * q.curvature[1:]
        return (self._hessian_entries.ordered(
            total[:-1, n:, n:][:, self._upper_w[0], self._upper_w[1]], total[1:, :n, :n][:, self._upper_z[0], self._upper_z[1]],
            total[1:-1, n:, :n], curvature, curvature),)


def _gradient(function: ca.Function) -> ca.Function:
    """Returns f(z, w, p, k, c, multiplier) -> gradient of multiplier . values by z and w."""
    arguments = function.sx_in()
    values = function(*arguments)
    multiplier = ca.SX.sym("multiplier", values.numel())
    slope = ca.gradient(ca.dot(multiplier, values), ca.vertcat(*arguments[:2]))
    return ca.Function(f"{function.name()}_gradient", [*arguments, multiplier], [ca.densify(slope)],
                       [*(function.name_in(i) for i in range(function.n_in())), "multiplier"], ["slope"])


class _Interpreted:
    """Counterpart of `CompiledFunction` with the Jacobian by the first two arguments, on CasADi's virtual machine."""

    def __init__(self, function: ca.Function, columns: int):
        arguments = function.sx_in()
        value = function(*arguments)
        self.columns = columns
        self._function = ca.Function("interpreted", arguments, [value, ca.densify(ca.jacobian(value, ca.vertcat(*arguments[:2])))])

    def bind_rows(self, *arguments: np.ndarray, results: Sequence[np.ndarray]) -> Callable[[], None]:
        def evaluate() -> None:
            for i, (value, jacobian) in enumerate(zip(*results)):
                parts = self._function(*(a if a.ndim == 1 else a[i] for a in arguments))
                value[:], jacobian[:] = np.array(parts[0])[:, 0], np.array(parts[1])

        return evaluate


def _pattern(entries: SparseEntries) -> ca.Sparsity:
    rows, columns = entries.matrix.shape
    starts: list[int] = entries.matrix.indptr.tolist()
    places: list[int] = entries.matrix.indices.tolist()
    return ca.Sparsity(rows, columns, starts, places)


class _Watch(ca.Callback):
    """Callback that stops the solver after the first iteration beyond its deadline."""

    def __init__(self, variables: int, constraints: int):
        ca.Callback.__init__(self)
        self.until = math.inf
        self._sizes = {"f": 1, "x": variables, "lam_x": variables, "g": constraints, "lam_g": constraints, "p": 0, "lam_p": 0}
        self.construct("watch", {})

    def get_n_in(self) -> int:
        return ca.nlpsol_n_out()

    def get_n_out(self) -> int:
        return 1

    def get_name_in(self, i: int) -> str:
        return ca.nlpsol_out(i)

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        return ca.Sparsity.dense(self._sizes[ca.nlpsol_out(i)])

    def eval(self, arguments: Sequence[ca.DM]) -> list[float]:
        return [float(time.perf_counter() > self.until)]


class _Callback(ca.Callback):
    """CasADi function that evaluates a Python function of the nonzeros of its arguments, which returns those of its results."""

    def __init__(self, name: str, arguments: dict[str, ca.Sparsity], results: dict[str, ca.Sparsity],
                 call: Callable[..., tuple[object, ...]]):
        ca.Callback.__init__(self)
        self._arguments, self._results, self._evaluate = arguments, results, call
        self.construct(name, {"enable_fd": False})

    def get_n_in(self) -> int:
        return len(self._arguments)

    def get_n_out(self) -> int:
        return len(self._results)

    def get_name_in(self, i: int) -> str:
        return list(self._arguments)[i]

    def get_name_out(self, i: int) -> str:
        return list(self._results)[i]

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        return list(self._arguments.values())[i]

    def get_sparsity_out(self, i: int) -> ca.Sparsity:
        return list(self._results.values())[i]

    def has_eval_buffer(self) -> bool:
        return True

    def eval_buffer(self, arguments: Sequence[memoryview], results: Sequence[memoryview]) -> int:
        entries = [np.frombuffer(a, float) if a is not None and sp.nnz() else np.zeros(sp.nnz())
                   for a, sp in zip(arguments, self._arguments.values())]
        for result, value in zip(results, self._evaluate(*entries)):
            if result is not None:
                np.frombuffer(result, float)[:] = value
        return 0
