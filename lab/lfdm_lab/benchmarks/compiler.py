"""What the wheels' vectors and the jumps are worth: a step without either, in times of the same step with both, run in turn.

`lfdm bench compiler`, or `python benchmarks/compiler.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fnmatch import fnmatch
from itertools import product

import numpy as np

from lfdm_lab.benchmarks import _subjects as subjects
from lfdm_lab.cli.bench import Record, format_table
from lfdm_ros.backends.tick_kernel import advance_text
from lfdm_ros.backends.trajectory_kernels import batch_text
from lfdm_ros.compiler.machine_code import INTEGER, POINTER, REAL, MachineCode, compile_text, here
from lfdm_ros.errors import InputError
from lfdm_ros.simulation import initial_state

STEPS, STEP, REPEATS = 4000, 1e-3, 7
# From straight on at full throttle into a turn: what tyres do near and past their limit is in it.
STRAIGHT, TURN = np.array([0.0, 1.0, 0.0]), np.array([0.15, 0.3, 0.0])
WITHOUT = {"packing": (False, True), "jumps": (True, False), "both": (False, False)}


def measure(runs: int, only: str = "*") -> list[Record]:
    """Ratios of times, and what compiling takes; of the MODEL/TYRE that match `only`. Raises InputError if nothing does."""
    chosen = {s.name: s for s in subjects.SUBJECTS if fnmatch(s.name, only)}
    if not chosen:
        raise InputError(f"--only {only}: matches none of {', '.join(s.name for s in subjects.SUBJECTS)}")
    records = []
    for name, subject in chosen.items():
        began = time.perf_counter()
        step = {kind: _advance(subject, *kind) for kind in product((True, False), repeat=2)}
        records.append(Record(f"compile_s/{name}", (time.perf_counter() - began) / len(step), "s", 0.0, 1))
        table = [_best(step) for _ in range(runs)]
        records += [Record.of(f"step_without_{what}/{name}", [times[kind] / times[True, True] for times in table], "times")
                    for what, kind in WITHOUT.items()]
        batch: dict[tuple[bool, ...], Callable[[], None]] = {(True, jumps): _batch(subject, jumps) for jumps in (True, False)}
        table = [_best(batch) for _ in range(runs)]
        records.append(Record.of(f"batch_without_jumps/{name}", [times[True, False] / times[True, True] for times in table], "times"))
    return records


def _best(calls: dict[tuple[bool, ...], Callable[[], None]]) -> dict[tuple[bool, ...], float]:
    """The best time of each [s], in turn."""
    best = dict.fromkeys(calls, np.inf)
    for _ in range(REPEATS):
        for kind, call in calls.items():
            began = time.perf_counter()
            call()
            best[kind] = min(best[kind], time.perf_counter() - began)
    return best


def _advance(subject, packing: bool, jumping: bool) -> Callable[[], None]:
    model, p = subject.model, subject.vehicle.vector(subject.model)
    code = MachineCode(compile_text(advance_text(model, packing=packing, jumping=jumping)))
    q = np.empty(code.function("size", [], INTEGER)())
    code.function("prepare", [POINTER] * 2)(p.ctypes.data, q.ctypes.data)
    call, rest = code.function("advance", [POINTER] * 4 + [INTEGER] + [REAL] * 2, INTEGER), _at_rest(subject)
    x = rest.copy()

    def run() -> None:
        x[:] = rest
        for before, after in ((STRAIGHT, STRAIGHT), (STRAIGHT, TURN)):
            call(x.ctypes.data, q.ctypes.data, before.ctypes.data, after.ctypes.data, STEPS // 2, STEP, 2.0 / STEPS)

    return run


def _batch(subject, jumping: bool) -> Callable[[], None]:
    model, lanes = subject.model, here().lanes()
    call = MachineCode(compile_text(batch_text(model, "double", False, "half_implicit", lanes, jumping=jumping))).function(
        "batch", [POINTER] * 7 + [INTEGER] * 6 + [REAL] * 2)
    p, x = (np.repeat(a[:, None], lanes, 1) for a in (subject.vehicle.vector(model), _at_rest(subject)))
    p = p * (1.0 + 1e-2 * np.linspace(-1.0, 1.0, lanes))  # vehicles that differ: a jump has lanes on both sides
    inputs, rows = np.stack([STRAIGHT, STRAIGHT, TURN]), np.zeros(1, np.int64)
    observed, sums = np.full((len(inputs), 1), np.nan), np.empty((1, lanes))
    addresses = [a.ctypes.data for a in (p, x, inputs, rows, observed, sums)]
    kept = p, x, inputs, rows, observed, sums  # as long as their addresses are used

    def run() -> None:
        _ = kept
        call(*addresses, None, lanes, len(inputs), STEPS // 2, len(rows), 0, lanes, STEP, 2.0 / STEPS)

    return run


def _at_rest(subject) -> np.ndarray:
    return initial_state(subject.model, subject.vehicle, vx=0.0)


if __name__ == "__main__":
    print(format_table(measure(3)))
