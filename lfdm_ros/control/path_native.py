"""`path_loops.locate` for numba. Imported only where its machine code is not in the cache: see `lfdm_ros.compiler.native`."""

from __future__ import annotations

import numpy as np
from numba import carray, njit

from lfdm_ros.control import path_loops

locate = njit(path_loops.locate, error_model="numpy")


def entry(points, pieces, curves, count, pad, step, x, y, near, positions, found):
    """All arrays by their addresses."""
    real = np.float64
    locate(carray(x, (positions,), dtype=real), carray(y, (positions,), dtype=real), carray(near, (positions,), dtype=real),
           carray(points, (5, count), dtype=real), carray(pieces, (6, count - 1), dtype=real), carray(curves, (10, count - 1), dtype=real),
           pad, step, carray(found, (6, positions), dtype=real))
    return 0
