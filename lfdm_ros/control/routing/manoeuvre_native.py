"""`reverse_search.prepare`, `expand` and `visibility_map.look` for numba, all arrays by their addresses.

Imported only where their machine code is not in the cache: see `lfdm_ros.compiler.native`.
"""

import numpy as np
from numba import carray, njit
from numba.extending import register_jitable

from lfdm_ros.control.routing import reverse_search, visibility_map
from lfdm_ros.control.routing.reverse_search import CELLS, COUNTERS, FINE, HEADINGS, SearchProblem
from lfdm_ros.control.routing.visibility_map import BEARINGS, MAP_CELLS

HEAP = 8 * CELLS * CELLS
for name in ("clearances", "push", "pop", "lead", "distance_at", "room", "needed", "is_observed", "shot", "is_shot_free"):
    register_jitable(error_model="numpy")(getattr(reverse_search, name))  # which those two call by their names
_prepare, _expand = njit(reverse_search.prepare, error_model="numpy"), njit(reverse_search.expand, error_model="numpy")
_look = njit(visibility_map.look, error_model="numpy")
_FIELDS = len(SearchProblem._fields)


@njit
def problem(numbers):
    n = carray(numbers, (_FIELDS,), dtype=np.float64)
    return SearchProblem(n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10], n[11], n[12], n[13], n[14], n[15], n[16], n[17])


def prepare(numbers, shape, count, circles, things, field, keys, items, left):
    real = np.float64
    return _prepare(problem(numbers), carray(shape, (count, 2), dtype=real), carray(circles, (things, 3), dtype=real),
                    carray(field, (FINE * CELLS, FINE * CELLS), dtype=np.float32), carray(keys, (HEAP,), dtype=real),
                    carray(items, (HEAP,), dtype=np.int64), carray(left, (CELLS, CELLS), dtype=real))


def expand(numbers, counters, shape, count, field, left, observed, best, nodes, links, most_nodes, keys, items, heap, states):
    real = np.float64
    return _expand(problem(numbers), carray(counters, (COUNTERS,), dtype=np.int64),
                   carray(shape, (count, 2), dtype=real), carray(field, (FINE * CELLS, FINE * CELLS), dtype=np.float32),
                   carray(left, (CELLS, CELLS), dtype=real), carray(observed, (CELLS, CELLS), dtype=np.uint8),
                   carray(best, (HEADINGS, CELLS, CELLS), dtype=np.int32), carray(nodes, (most_nodes, 4), dtype=real),
                   carray(links, (most_nodes, 4), dtype=np.int32), carray(keys, (heap,), dtype=real),
                   carray(items, (heap,), dtype=np.int64), states)


def look(view, circles, things, nearest, observed_at):
    return _look(carray(view, (visibility_map.NUMBERS,), dtype=np.float64), carray(circles, (things, 3), dtype=np.float64),
                 carray(nearest, (BEARINGS,), dtype=np.float64), carray(observed_at, (MAP_CELLS, MAP_CELLS), dtype=np.float64))
