"""`stages.avoid` for numba, all arrays by their addresses.

Imported only where its machine code is not in the cache: see `lfdm_ros.compiler.native`.
"""

import numpy as np
from numba import carray, njit

from lfdm_ros.control.ocp import stages as loops

avoid = njit(loops.avoid, error_model="numpy")


def entry(z, stages, states, place, grid, circles, count, later, found, slots):
    avoid(carray(z, (stages, states), dtype=np.float64), carray(place, (3,), dtype=np.int64), carray(grid, (stages,), dtype=np.float64),
          carray(circles, (count, 5), dtype=np.float64), later, carray(found, (stages, slots, 3), dtype=np.float64))
    return 0
