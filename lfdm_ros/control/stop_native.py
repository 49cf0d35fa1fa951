"""`stop_law.drive` for numba. Imported only where its machine code is not in the cache: see `lfdm_ros.compiler.native`."""

from __future__ import annotations

import numpy as np
from numba import carray, njit

from lfdm_ros.compiler.numba_support import call_advance
from lfdm_ros.control import stop_law
from lfdm_ros.control.stop_law import TICKS, Braked, Pedals

braking, law, drive = (njit(function, error_model="numpy") for function in (stop_law.braking, stop_law.law, stop_law.drive))


@njit
def advance(model, n, h):
    address, x, q, u0, u1 = model
    return call_advance(address, x, q, u0, u1, n, h) != 0


def entry(address, q, numbers, curve, length, near, command, first, limits, places, state, states, before, after, rows):
    """All arrays by their addresses. numbers: those of Braked, then of Pedals; limits: weakest, longest."""
    n = carray(numbers, (16,), dtype=np.float64)
    v = Braked(n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10])
    pedals = Pedals(n[11], n[12], n[13], n[14], n[15])
    limit = carray(limits, (2,), dtype=np.float64)
    x = carray(state, (states,), dtype=np.float64)
    model = address, state, q, before, after
    return drive(law, braking, advance, model, v, pedals, carray(curve, (length, 5), dtype=np.float64), near,
                 carray(command, (2,), dtype=np.float64), carray(first, (3,), dtype=np.float64), limit[0], limit[1],
                 carray(places, (5,), dtype=np.int64), x, carray(before, (3,), dtype=np.float64), carray(after, (3,), dtype=np.float64),
                 carray(rows, (TICKS, 5), dtype=np.float64))
