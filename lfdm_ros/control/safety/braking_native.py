"""`braking.drive` with `judge` in one call, and `lay`, for numba, all arrays by their addresses.

Imported only where their machine code is not in the cache: see `lfdm_ros.compiler.native`.
"""

import numpy as np
from numba import carray, njit
from numba.extending import register_jitable

from lfdm_ros.compiler.numba_support import call_advance
from lfdm_ros.control.safety import braking
from lfdm_ros.control.safety.braking import MAX_TICKS, BrakingModel, Pedals
from lfdm_ros.numerics import arc

for function in (arc, braking.needed, braking.occludes, braking.blind_speed):
    register_jitable(error_model="numpy")(function)  # which `judge` calls by their names
_braking, _law, _drive = (njit(function, error_model="numpy") for function in (braking.braking, braking.law, braking.drive))
_nearest, _judge, _lay = (njit(function, error_model="numpy") for function in (braking.nearest, braking.judge, braking.lay))


@njit
def advance(model, n, h):
    address, x, q, u0, u1 = model
    return call_advance(address, x, q, u0, u1, n, h) != 0


def drive(address, q, numbers, curve, length, command, first, limits, places, state, states, before, after, rows, circles, count, result):
    """Simulates and evaluates a stop. numbers: of BrakingModel, Pedals, outline and lidar, then growth; limits: weakest, longest,
    time, margin and 1 where occluded places count."""
    n = carray(numbers, (24,), dtype=np.float64)
    v = BrakingModel(n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10], n[11])
    pedals = Pedals(n[12], n[13], n[14], n[15], n[16])
    limit = carray(limits, (5,), dtype=np.float64)
    x, at = carray(state, (states,), dtype=np.float64), carray(places, (5,), dtype=np.int64)
    model = address, state, q, before, after
    table, written = carray(curve, (length, 5), dtype=np.float64), carray(rows, (MAX_TICKS, 7), dtype=np.float64)
    driven = _drive(_law, _braking, advance, model, v, pedals, table, _nearest(table, x[at[0]], x[at[1]]),
                   carray(command, (2,), dtype=np.float64), carray(first, (3,), dtype=np.float64), limit[0], limit[1],
                   at, x, carray(before, (3,), dtype=np.float64), carray(after, (3,), dtype=np.float64), written)
    _judge(written, driven, carray(circles, (count, 8), dtype=np.float64), n[17:21], n[21:23], limit[2], limit[3], n[23], limit[4] > 0.0,
          carray(result, (4,), dtype=np.float64))
    return driven


def lay(plan, count, places, most, scale):
    return _lay(carray(plan, (3, count), dtype=np.float64), carray(places, (most, 4), dtype=np.float64), scale)
