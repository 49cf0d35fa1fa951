"""`stop_judgement.lay` for numba. Imported only where its machine code is not in the cache: see `lfdm_ros.compiler.native`."""

from __future__ import annotations

import numpy as np
from numba import carray, njit

from lfdm_ros.control import stop_judgement

lay = njit(stop_judgement.lay, error_model="numpy")


def entry(plan, count, places, most):
    """All arrays by their addresses."""
    return lay(carray(plan, (3, count), dtype=np.float64), carray(places, (most, 4), dtype=np.float64))
