"""The search over the lattice: its machine code is its text, and it finds the cheapest of all ways."""

import itertools

import numpy as np

from lfdm_ros.compiler.machine_code import INTEGER, POINTER
from lfdm_ros.compiler.native import native
from lfdm_ros.control.routing.lattice import BLOCKED_COST, MAX_SLOPE_CHANGE, search

N, PARTS, WIDTH, SLOPES = 3, 2, 5, 3


def test_machine_code_and_text_find_the_cheapest_of_all_ways() -> None:
    rng = np.random.default_rng(2)
    field = rng.random((N * PARTS, 2 * WIDTH - 1)).astype(np.float32)
    field[3, 2] = BLOCKED_COST
    deviation, lengths = rng.random((N, WIDTH)).astype(np.float32), rng.random(SLOPES).astype(np.float32)
    penalties, changes = np.cumsum(rng.random((N, MAX_SLOPE_CHANGE + 1)), axis=1).astype(np.float32), np.array([1, 2, 1])
    penalties[:, 0] = 0.0
    rows = np.empty((2, WIDTH), np.float32)
    text, code = np.empty((2, N + 1, SLOPES + 2 * MAX_SLOPE_CHANGE, WIDTH + SLOPES - 1), np.float32)
    search(field, PARTS, deviation, lengths, penalties, changes, 1, text, rows)
    arguments = (POINTER, INTEGER, *[POINTER] * 4, INTEGER, *[POINTER] * 2, *[INTEGER] * 3)
    entry = native("lfdm_ros.control.routing.routing_native", arguments, INTEGER, ("lfdm_ros.control.routing.lattice",), "search")
    entry(field.ctypes.data, PARTS, *(a.ctypes.data for a in (deviation, lengths, penalties, changes)), 1, code.ctypes.data,
          rows.ctypes.data, N, SLOPES, WIDTH)
    np.testing.assert_array_equal(text, code)

    best = {}
    for way in itertools.product(range(SLOPES), repeat=N):
        place, slope, cost = WIDTH // 2, 1, 0.0
        for k, j in enumerate(way):
            if abs(j - slope) > changes[k] or not 0 <= place + j - 1 < WIDTH:
                cost = np.inf
                break
            passed = sum(field[k * PARTS + m - 1, 2 * place + int(np.floor(2.0 * (j - 1) * m / PARTS + 0.5))] for m in (1, 2))
            cost += penalties[k, abs(j - slope)] + passed + deviation[k, place] + lengths[j]
            place, slope = place + j - 1, j
        best[place, slope] = min(best.get((place, slope), np.inf), cost)
    inner = text[N, MAX_SLOPE_CHANGE:MAX_SLOPE_CHANGE + SLOPES, SLOPES // 2:SLOPES // 2 + WIDTH]
    for (place, slope), cost in best.items():
        if cost < BLOCKED_COST:
            assert abs(inner[slope, place] - cost) < 1e-4
