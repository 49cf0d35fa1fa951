"""`stop_law.drive` and what `stop_judgement` says of it, in one call, for numba. Imported only where its machine code is not in the cache:
see `lfdm_ros.compiler.native`."""

from __future__ import annotations

import numpy as np
from numba import carray, njit
from numba.extending import register_jitable

from lfdm_ros.compiler.numba_support import call_advance
from lfdm_ros.control import stop_judgement, stop_law
from lfdm_ros.control.stop_law import TICKS, Braked, Pedals

for function in (stop_judgement.needed, stop_judgement.hides, stop_judgement.unseen):
    register_jitable(error_model="numpy")(function)  # which `judge` calls by their names
braking, law, drive = (njit(function, error_model="numpy") for function in (stop_law.braking, stop_law.law, stop_law.drive))
nearest, judge = (njit(function, error_model="numpy") for function in (stop_judgement.nearest, stop_judgement.judge))


@njit
def advance(model, n, h):
    address, x, q, u0, u1 = model
    return call_advance(address, x, q, u0, u1, n, h) != 0


def entry(address, q, numbers, curve, length, command, first, limits, places, state, states, before, after, rows, circles, count, result):
    """All arrays by their addresses. numbers: those of Braked, of Pedals, of outline and lidar, then growth; limits: weakest, longest,
    time, margin and whether what lies hidden counts."""
    n = carray(numbers, (22,), dtype=np.float64)
    v = Braked(n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10])
    pedals = Pedals(n[11], n[12], n[13], n[14], n[15])
    limit = carray(limits, (5,), dtype=np.float64)
    x, at = carray(state, (states,), dtype=np.float64), carray(places, (5,), dtype=np.int64)
    model = address, state, q, before, after
    table, written = carray(curve, (length, 5), dtype=np.float64), carray(rows, (TICKS, 5), dtype=np.float64)
    driven = drive(law, braking, advance, model, v, pedals, table, nearest(table, x[at[0]], x[at[1]]),
                   carray(command, (2,), dtype=np.float64), carray(first, (3,), dtype=np.float64), limit[0], limit[1],
                   at, x, carray(before, (3,), dtype=np.float64), carray(after, (3,), dtype=np.float64), written)
    judge(written, driven, carray(circles, (count, 5), dtype=np.float64), n[16:19], n[19:21], limit[2], limit[3], n[21], limit[4] > 0.0,
          carray(result, (4,), dtype=np.float64))
    return driven
