"""What a step costs who calls the compiled equations: from numba and C code of their own, and from Python; nanoseconds, one core.

`lfdm bench callers`, or `python benchmarks/callers.py`. Each is the best of some runs in turn. `advance` is called every ten steps, as a
controller's loop does.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np

from lfdm_lab.benchmarks import _subjects as subjects
from lfdm_lab.cli.bench import Record, format_table
from lfdm_ros.backends import constants, numba_function, write_object
from lfdm_ros.simulation import Simulator, initial_state

CHASSIS = ("eight_dof", "eighteen_dof", "twenty_four_dof")
PERIODS, STEPS, STEP, REPEATS = 1000, 10, 1e-3, 7
SPEED, INPUTS = 15.0, np.array([0.1, 0.4, 0.0])
C = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "{stem}.h"
int main(int argc, char **argv) {{
  double p[{stem}_p_count], start[{stem}_x_count], x[{stem}_x_count], u[] = {{{inputs}}}, best = 1e300;
  for (int i = 0; i < {stem}_p_count; ++i) p[i] = atof(argv[1 + i]);
  for (int i = 0; i < {stem}_x_count; ++i) start[i] = atof(argv[1 + {stem}_p_count + i]);
  double *q = malloc(sizeof(double) * (size_t){stem}_size());
  {stem}_prepare(p, q);
  for (int run = 0; run < {repeats}; ++run) {{
    struct timespec began, ended;
    for (int i = 0; i < {stem}_x_count; ++i) x[i] = start[i];
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (int k = 0; k < {periods}; ++k) if (!{stem}_advance(x, q, u, u, {steps}, {step}, 1.0 / {steps})) return 1;
    clock_gettime(CLOCK_MONOTONIC, &ended);
    double ns = 1e9 * (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec);
    if (ns < best) best = ns;
  }}
  printf("%.6g\\n", best / ({periods} * {steps}));
  return 0;
}}
"""


def measure(runs: int) -> list[Record]:
    """Nanoseconds a step, by who calls and model."""
    records = []
    for chassis in CHASSIS:
        subject = subjects.of_chassis(chassis)
        ways = _from_python_and_numba(subject)
        table = [_best(ways) for _ in range(runs)]
        records += [Record.of(f"step_ns/{way}/{subject.name}", [times[way] for times in table], "ns") for way in ways]
        if shutil.which("cc") is None:
            print("no C compiler (cc): C is left out", file=sys.stderr)
        else:
            records.append(Record.of(f"step_ns/c_advance/{subject.name}", _from_c(subject, runs), "ns"))
    return records


def _from_python_and_numba(subject) -> dict[str, Callable[[], None]]:
    model, vehicle = subject.model, subject.vehicle
    step, advance = (numba_function(model, function) for function in ("step", "advance"))
    p = vehicle.vector(model)
    q, start = constants(model, p), initial_state(model, vehicle, vx=SPEED)
    simulator = Simulator(vehicle, model, STEP)

    @numba.njit
    def by_advance(x, q, u):
        for _ in range(PERIODS):
            advance(x, q, u, u, STEPS, STEP)

    @numba.njit
    def by_step(x, p, u):
        after = np.empty_like(x)
        for _ in range(PERIODS * STEPS):
            step(x, u, p, STEP, after)
            x[:] = after

    def in_python() -> None:
        simulator.reset(vx=SPEED)
        for _ in range(PERIODS):
            simulator.advance(INPUTS, INPUTS, STEPS)

    return {"numba_advance": lambda: by_advance(start.copy(), q, INPUTS), "numba_step": lambda: by_step(start.copy(), p, INPUTS),
            "python_advance": in_python}


def _best(ways: dict[str, Callable[[], None]]) -> dict[str, float]:
    best = dict.fromkeys(ways, np.inf)
    for repeat in range(1 + REPEATS):  # the first compiles
        for name, call in ways.items():
            began = time.perf_counter()
            call()
            if repeat:
                best[name] = min(best[name], 1e9 * (time.perf_counter() - began) / (PERIODS * STEPS))
    return best


def _from_c(subject, runs: int) -> list[float]:
    model, vehicle = subject.model, subject.vehicle
    with tempfile.TemporaryDirectory() as folder:
        files = write_object(model, Path(folder))
        source, program = Path(folder, "main.c"), Path(folder, "main")
        source.write_text(C.format(stem=files.object.stem, inputs=", ".join(map(str, INPUTS)), repeats=REPEATS, periods=PERIODS,
                                   steps=STEPS, step=STEP))
        subprocess.run(["cc", "-O2", "-o", program, source, files.object, "-lm"], check=True)
        numbers = [repr(float(value)) for value in (*vehicle.vector(model), *initial_state(model, vehicle, vx=SPEED))]
        return [float(subprocess.run([program, *numbers], check=True, capture_output=True, text=True).stdout) for _ in range(runs)]


if __name__ == "__main__":
    print(format_table(measure(3)))
