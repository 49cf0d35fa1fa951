"""Loops over the stages of a program, on arrays by index.

Plain Python, compiled by numba in `stage_native`.
"""

import math
from typing import Any


def costs(value: Any, jacobian: Any, first: int, weights: Any, hessian_x: Any, hessian_ux: Any, hessian_u: Any, slope_x: Any,
          slope_u: Any) -> None:
    """Computes the Gauss-Newton approximation of half the weighted squares of residuals.

    Args:
        value: (N+1, nf) of the stage function, residuals from column `first` on; jacobian: (N+1, nf, columns), by states and controls.
        weights: of the squares (N+1, nr).
        hessian_x (N+1, n, n), hessian_ux (N, m, n), hessian_u (N, m, m), slope_x (N+1, n), slope_u (N, m): written.
    """
    n, m = slope_x.shape[1], slope_u.shape[1]
    hessian_x[:], hessian_ux[:], hessian_u[:] = 0.0, 0.0, 0.0
    slope_x[:], slope_u[:] = 0.0, 0.0
    for k in range(len(weights)):
        columns = n + m if k < len(slope_u) else n
        for r in range(weights.shape[1]):
            for i in range(columns):
                slope = weights[k, r] * jacobian[k, first + r, i]
                if slope == 0.0:  # most entries
                    continue
                if i < n:
                    slope_x[k, i] += slope * value[k, first + r]
                else:
                    slope_u[k, i - n] += slope * value[k, first + r]
                for j in range(i + 1):
                    part = slope * jacobian[k, first + r, j]
                    if i < n:
                        hessian_x[k, i, j] += part
                    elif j < n:
                        hessian_ux[k, i - n, j] += part
                    else:
                        hessian_u[k, i - n, j - n] += part
        for i in range(1, n):
            for j in range(i):
                hessian_x[k, j, i] = hessian_x[k, i, j]
        for i in range(1, columns - n):
            for j in range(i):
                hessian_u[k, j, i] = hessian_u[k, i, j]


def violation(a: Any, b: Any, offset: Any, bounded: Any, lower_x: Any, upper_x: Any, lower_u: Any, upper_u: Any, dx: Any,
              du: Any) -> float:
    """Returns the largest violation of the dynamics or a bound by a step; inf if it is not finite. Arrays as in `StageQp`."""
    n, m, worst = dx.shape[1], du.shape[1], -math.inf
    for i in range(n):
        if not math.isfinite(dx[0, i]):
            return math.inf
    for k in range(len(du)):
        for i in range(n):
            gap = dx[k + 1, i] - offset[k, i]
            for j in range(n):
                gap -= a[k, i, j] * dx[k, j]
            for j in range(m):
                gap -= b[k, i, j] * du[k, j]
            if not math.isfinite(gap):
                return math.inf
            worst = max(worst, abs(gap))
        for j in range(m):
            below, above = lower_u[k, j] - du[k, j], du[k, j] - upper_u[k, j]
            if math.isnan(below + above):
                return math.inf
            worst = max(worst, below, above)
        for j in range(len(bounded)):
            below, above = lower_x[k + 1, j] - dx[k + 1, bounded[j]], dx[k + 1, bounded[j]] - upper_x[k + 1, j]
            if math.isnan(below + above):
                return math.inf
            worst = max(worst, below, above)
    return worst


def reached(c: Any, lower: Any, upper: Any, penalty: Any, kinds: Any, dx: Any, paid: Any, nearest: Any) -> None:
    """Evaluates the soft rows after a step, to first order.

    Args:
        c (N+1, g, n), lower, upper, penalty (N+1, g): as in `StageQp`; kinds: index of each row's kind (g,).
        dx: the step (N+1, n).
        paid, nearest: written, by kind: the penalty, and the largest violation of a bound, negative without one.
    """
    for i in range(len(paid)):
        paid[i], nearest[i] = 0.0, -math.inf
    for k in range(1, len(dx)):
        for g in range(len(kinds)):
            change = 0.0
            for j in range(dx.shape[1]):
                change += c[k, g, j] * dx[k, j]
            passed = max(lower[k, g] - change, change - upper[k, g])
            nearest[kinds[g]] = max(nearest[kinds[g]], passed)
            if passed > 0.0:
                paid[kinds[g]] += penalty[k, g] * passed
