"""`lattice.search` for numba, all arrays by their addresses.

Imported only where its machine code is not in the cache: see `lfdm_ros.compiler.native`.
"""

import numpy as np
from numba import carray, njit

from lfdm_ros.control.routing import lattice
from lfdm_ros.control.routing.lattice import MAX_SLOPE_CHANGE

_search = njit(lattice.search, error_model="numpy")


def search(field, parts, deviation, lengths, penalties, changes, first, costs, rows, stations, slopes, width):
    return _search(carray(field, (stations * parts, 2 * width - 1), dtype=np.float32), parts,
                   carray(deviation, (stations, width), dtype=np.float32), carray(lengths, (slopes,), dtype=np.float32),
                   carray(penalties, (stations, MAX_SLOPE_CHANGE + 1), dtype=np.float32),
                   carray(changes, (stations,), dtype=np.int64), first,
                   carray(costs, (stations + 1, slopes + 2 * MAX_SLOPE_CHANGE, width + slopes - 1), dtype=np.float32),
                   carray(rows, (2, width), dtype=np.float32))
