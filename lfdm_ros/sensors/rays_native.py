"""`rays.cast` for numba. Imported only where its machine code is not in the cache: see `lfdm_ros.compiler.native`."""

from __future__ import annotations

import numpy as np
from numba import carray, njit

from lfdm_ros.sensors import rays

cast, beams_between = (njit(function, error_model="numpy") for function in (rays.cast, rays.beams_between))


def entry(pose, centres, radii, circles, starts, ends, edges, along, beams, ranges, count):
    """Returns all arrays by their addresses; circles, edges, count: how many there are, and beams."""
    return cast(beams_between, carray(pose, (4,), dtype=np.float64), carray(centres, (circles, 2), dtype=np.float64),
                carray(radii, (circles,), dtype=np.float64), carray(starts, (edges, 2), dtype=np.float64),
                carray(ends, (edges, 2), dtype=np.float64), carray(along, (count, 2), dtype=np.float64),
                carray(beams, (3,), dtype=np.float64), carray(ranges, (count,), dtype=np.float64))
