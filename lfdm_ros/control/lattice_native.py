"""`lattice_search.search` for numba. Imported only where its machine code is not in the cache: see `lfdm_ros.compiler.native`."""

from __future__ import annotations

import numpy as np
from numba import carray, njit

from lfdm_ros.control import lattice_search
from lfdm_ros.control.lattice_search import MOST_CHANGE

search = njit(lattice_search.search, error_model="numpy")


def entry(field, parts, deviation, lengths, penalties, changes, first, costs, rows, stations, slopes, width):
    """All arrays by their addresses."""
    return search(carray(field, (stations * parts, 2 * width - 1), dtype=np.float32), parts,
                  carray(deviation, (stations, width), dtype=np.float32), carray(lengths, (slopes,), dtype=np.float32),
                  carray(penalties, (stations, MOST_CHANGE + 1), dtype=np.float32), carray(changes, (stations,), dtype=np.int64), first,
                  carray(costs, (stations + 1, slopes + 2 * MOST_CHANGE, width + slopes - 1), dtype=np.float32),
                  carray(rows, (2, width), dtype=np.float32))
