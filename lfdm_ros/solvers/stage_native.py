"""`stage_loops` for numba, imported only if its machine code is not cached: see `lfdm_ros.compiler.native`.

Arrays by address; N stages, n states, m controls, v bounded states, g rows in k kinds.
"""

import numpy as np
from numba import carray, njit

from lfdm_ros.solvers import stage_loops

_costs, _violation, _reached = (njit(function, error_model="numpy")
                                for function in (stage_loops.costs, stage_loops.violation, stage_loops.reached))


def costs(value, jacobian, first, weights, hessian_x, hessian_ux, hessian_u, slope_x, slope_u, N, n, m, functions, columns, residuals):
    """Calls `stage_loops.costs`. functions: number of values of the stage function; columns: of its Jacobian."""
    real = np.float64
    _costs(carray(value, (N + 1, functions), dtype=real), carray(jacobian, (N + 1, functions, columns), dtype=real), first,
           carray(weights, (N + 1, residuals), dtype=real), carray(hessian_x, (N + 1, n, n), dtype=real),
           carray(hessian_ux, (N, m, n), dtype=real), carray(hessian_u, (N, m, m), dtype=real), carray(slope_x, (N + 1, n), dtype=real),
           carray(slope_u, (N, m), dtype=real))
    return 0


def violation(a, b, offset, bounded, lower_x, upper_x, lower_u, upper_u, N, n, m, v, dx, du):
    real = np.float64
    return _violation(carray(a, (N, n, n), dtype=real), carray(b, (N, n, m), dtype=real), carray(offset, (N, n), dtype=real),
                      carray(bounded, (v,), dtype=np.int64), carray(lower_x, (N + 1, v), dtype=real),
                      carray(upper_x, (N + 1, v), dtype=real), carray(lower_u, (N, m), dtype=real), carray(upper_u, (N, m), dtype=real),
                      carray(dx, (N + 1, n), dtype=real), carray(du, (N, m), dtype=real))


def reached(c, lower, upper, penalty, kinds, paid, nearest, N, n, g, k, dx):
    real = np.float64
    _reached(carray(c, (N + 1, g, n), dtype=real), carray(lower, (N + 1, g), dtype=real), carray(upper, (N + 1, g), dtype=real),
             carray(penalty, (N + 1, g), dtype=real), carray(kinds, (g,), dtype=np.int64), carray(dx, (N + 1, n), dtype=real),
             carray(paid, (k,), dtype=real), carray(nearest, (k,), dtype=real))
    return 0
