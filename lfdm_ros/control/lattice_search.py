"""Dynamic programming over the lattice, a loop that numba translates (`lfdm_ros.control.lattice_native`); Python runs it as well."""

from __future__ import annotations

import math

import numpy as np

BIG = np.float32(1e5)  # cost of what cannot be driven; sums of real costs stay far below
MOST_CHANGE = 3  # slope classes that one station can change


def search(field: np.ndarray, parts: int, deviation: np.ndarray, lengths: np.ndarray, penalties: np.ndarray, changes: np.ndarray,
           first: int, costs: np.ndarray, rows: np.ndarray) -> int:
    """Fills the costs to come, from the vehicle's slope `first` at the middle offset on.

    Args:
        field: (n parts, 2 w - 1) cost of the places that an edge passes, at each of its parts, half an offset apart.
        deviation, lengths: (n, w), (s,) cost of an edge by where it begins, and by its slope.
        penalties: (n, MOST_CHANGE + 1) of a change of slope; changes: (n,) how much of it a station allows.
        costs: (n + 1 or more, s + 2 MOST_CHANGE, w + s - 1) by station, slope and offset, with room at the edges for what is not there.
        rows: (2, w) to work in: what is translated has no memory of its own.
    """
    n, width = deviation.shape
    slopes = len(lengths)
    steepest = slopes // 2
    costs[:n + 1] = 8.0 * BIG
    costs[0, MOST_CHANGE + first, steepest + width // 2] = 0.0
    best, edge = rows[0], rows[1]
    for k in range(n):
        for j in range(slopes):
            row = MOST_CHANGE + j
            for i in range(width):
                best[i] = costs[k, row, steepest + i]
                edge[i] = 0.0
            for w in range(1, changes[k] + 1):
                penalty = penalties[k, w]
                for i in range(width):
                    best[i] = min(best[i], min(costs[k, row - w, steepest + i], costs[k, row + w, steepest + i]) + penalty)
            for m in range(1, parts + 1):
                # The place that is passed, to the nearest half offset.
                move, line = math.floor(2.0 * (j - steepest) * m / parts + 0.5), k * parts + m - 1
                for i in range(width):
                    place = 2 * i + move
                    edge[i] += field[line, place] if 0 <= place < 2 * width - 1 else BIG
            for i in range(max(0, steepest - j), min(width, width + steepest - j)):
                costs[k + 1, row, i + j] = best[i] + (edge[i] + deviation[k, i] + lengths[j])
    return 0
