"""`stages.avoid` for numba, all arrays by their addresses.

Imported only where its machine code is not in the cache: see `lfdm_ros.compiler.native`.
"""

import numpy as np
from numba import carray, njit

from lfdm_ros.control.ocp import stages as loops

avoid = njit(loops.avoid, error_model="numpy")


def entry(z, stages, states, place, centres, radii, count, found, slots):
    avoid(carray(z, (stages, states), dtype=np.float64), carray(place, (3,), dtype=np.int64),
          carray(centres, (stages, count, 2), dtype=np.float64), carray(radii, (stages, count), dtype=np.float64),
          carray(found, (stages, slots, 3), dtype=np.float64))
    return 0
