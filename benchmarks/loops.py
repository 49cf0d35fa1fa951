"""The lattice's search as the controller has it, in NumPy, and as a loop in numba; microseconds, and what numba costs where it compiles.

`lfdm bench loops`, or `python benchmarks/loops.py`. Both in turn in one process, on a field of random costs; they must come to the same.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numba
import numpy as np

from lfdm_ros.cli.bench import Record, format_table

# Of the lattice as it is set by default, at 40 mph: slopes to each side, offsets, stations, parts of a station, largest change of slope.
SLOPES, OFFSETS, STATIONS, PARTS, CHANGE, REPEATS = 10, 121, 17, 4, 3, 300
BLOCKED = np.float32(1e5)


def in_numpy(field: np.ndarray, penalties: np.ndarray, costs: np.ndarray) -> None:
    """Costs of the edges, then costs to come from straight on in the middle: views that are moved, a station at a time."""
    slopes, pad = 2 * SLOPES + 1, SLOPES + 1
    padded = np.full((STATIONS, PARTS, 2, OFFSETS + 2 * pad), BLOCKED, np.float32)  # even and odd half steps apart
    parts = field.reshape(STATIONS, PARTS, -1)
    padded[:, :, 0, pad:pad + OFFSETS], padded[:, :, 1, pad:pad + OFFSETS - 1] = parts[:, :, ::2], parts[:, :, 1::2]
    edges = np.zeros((STATIONS, slopes, OFFSETS), np.float32)
    for j in range(-SLOPES, SLOPES + 1):
        for m in range(1, PARTS + 1):
            move, odd = divmod(int(np.floor(2.0 * j * m / PARTS + 0.5)), 2)
            edges[:, j + SLOPES] += padded[:, m - 1, odd, pad + move:pad + move + OFFSETS]
    whole = np.full((STATIONS + 1, slopes + 2 * CHANGE, OFFSETS + 2 * SLOPES), 8.0 * BLOCKED, np.float32)
    inner = whole[:, CHANGE:CHANGE + slopes, SLOPES:SLOPES + OFFSETS]
    inner[0, SLOPES, OFFSETS // 2] = 0.0
    strides = whole.strides
    arrivals = np.lib.stride_tricks.as_strided(whole[:, CHANGE:], inner.shape, (strides[0], strides[1] + strides[2], strides[2]))
    cheapest, other = np.empty((2, slopes, OFFSETS), np.float32)
    for k in range(STATIONS):
        rows, best = whole[k, :, SLOPES:-SLOPES], inner[k]
        for w in range(1, CHANGE + 1):
            np.minimum(rows[CHANGE - w:CHANGE - w + slopes], rows[CHANGE + w:CHANGE + w + slopes], out=other)
            np.add(other, penalties[w], out=other)
            best = np.minimum(best, other, out=cheapest)
        np.add(best, edges[k], out=arrivals[k + 1])
    costs[:] = inner


@numba.njit
def in_numba(field, penalties, costs):
    """The same as a loop over stations, slopes and offsets."""
    costs[:] = 8.0 * BLOCKED
    costs[0, SLOPES, OFFSETS // 2] = 0.0
    best, edge = np.empty(OFFSETS, np.float32), np.empty(OFFSETS, np.float32)
    for k in range(STATIONS):
        for j in range(2 * SLOPES + 1):
            rise, edge[:], best[:] = j - SLOPES, 0.0, costs[k, j]
            for w in range(1, CHANGE + 1):
                for other in (j - w, j + w):
                    if 0 <= other <= 2 * SLOPES:
                        for i in range(OFFSETS):
                            best[i] = min(best[i], costs[k, other, i] + penalties[w])
            for m in range(1, PARTS + 1):
                shift, row = int(np.floor(2.0 * rise * m / PARTS + 0.5)), field[k * PARTS + m - 1]
                for i in range(OFFSETS):
                    place = 2 * i + shift
                    edge[i] += row[place] if 0 <= place < len(row) else BLOCKED
            for i in range(max(0, -rise), min(OFFSETS, OFFSETS - rise)):
                costs[k + 1, j, i + rise] = best[i] + edge[i]


def measure(runs: int) -> list[Record]:
    """Microseconds of a search by either, and seconds of the first call of numba's."""
    rng = np.random.default_rng(1)
    places = rng.random((STATIONS * PARTS, 2 * OFFSETS - 1))
    field = np.where(rng.random(places.shape) < 0.1, BLOCKED, places).astype(np.float32)
    penalties, (plain, compiled) = np.float32(0.3) * np.arange(CHANGE + 1, dtype=np.float32) ** 2, np.empty(
        (2, STATIONS + 1, 2 * SLOPES + 1, OFFSETS), np.float32)
    began = time.perf_counter()
    in_numba(field, penalties, compiled)
    first = time.perf_counter() - began
    in_numpy(field, penalties, plain)
    reached = plain < BLOCKED
    if not (np.array_equal(reached, compiled < BLOCKED) and np.array_equal(plain[reached], compiled[reached])):
        raise AssertionError("the two searches differ")
    ways = {"numpy": lambda: in_numpy(field, penalties, plain), "numba": lambda: in_numba(field, penalties, compiled)}
    table = [_medians(ways) for _ in range(runs)]
    return [*(Record.of(f"lattice_us/{way}", [row[way] for row in table], "us") for way in ways),
            Record.of("first_call_s/numba", [first], "s")]


def _medians(ways: dict[str, Callable[[], None]]) -> dict[str, float]:
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(REPEATS):
        for way, call in ways.items():
            began = time.perf_counter()
            call()
            times[way].append(1e6 * (time.perf_counter() - began))
    return {way: statistics.median(row) for way, row in times.items()}


if __name__ == "__main__":
    print(format_table(measure(3)))
