"""`ground_rays.march` for numba. Imported only where its machine code is not in the cache: see `lfdm_ros.compiler.native`."""

from __future__ import annotations

import numpy as np
from numba import carray, njit

from lfdm_ros.sensors import ground_rays

march, height = (njit(function, error_model="numpy") for function in (ground_rays.march, ground_rays.height))


def entry(heights, lines, columns, numbers, eye, ways, ranges, count):
    """Returns all arrays by their addresses; lines, columns, count: how many there are, of nodes and beams."""
    return march(height, carray(heights, (lines, columns), dtype=np.float64), carray(numbers, (4,), dtype=np.float64),
                 carray(eye, (5,), dtype=np.float64), carray(ways, (count, 3), dtype=np.float64),
                 carray(ranges, (count,), dtype=np.float64))
