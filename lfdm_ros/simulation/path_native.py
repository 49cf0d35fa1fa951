"""`path.locate` for numba, all arrays by their addresses.

Imported only where its machine code is not in the cache: see `lfdm_ros.compiler.native`.
"""

import numpy as np
from numba import carray, njit

from lfdm_ros.simulation import path

_locate = njit(path.locate, error_model="numpy")


def locate(points, pieces, curves, count, pad, step, x, y, near, positions, found):
    real = np.float64
    _locate(carray(x, (positions,), dtype=real), carray(y, (positions,), dtype=real), carray(near, (positions,), dtype=real),
            carray(points, (5, count), dtype=real), carray(pieces, (6, count - 1), dtype=real), carray(curves, (10, count - 1), dtype=real),
            pad, step, carray(found, (6, positions), dtype=real))
    return 0
