"""One vehicle on one core: nanoseconds per physics step, and what the first use of a model costs.

`lfdm bench models`, or `python benchmarks/models.py`. Beside ours what a Python user would otherwise run: the same equations
in CasADi's virtual machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise

import numpy as np

from lfdm_ros.backends import casadi_model
from lfdm_ros.cli.bench import Record, format_table
from lfdm_ros.models import model_names
from lfdm_ros.simulation import InputProfile, Simulator
from lfdm_ros.vehicles import load_vehicle

SECONDS, STEP = 10.0, 1e-3
RUNS = {
    "acceleration": InputProfile([0, 0.5, 1.5], [0, 0, 0], [0, 0, 1], [0, 0, 0]),
    "lane_change": InputProfile([0, 3, 4, 5, 6, 7, 8], [0, 0, 0.3, -0.3, 0.3, -0.3, 0], [1, 1, 0.1, 0.1, 0.1, 0.1, 0.1], [0] * 7),
}
TYRE = "fiala"


def nanoseconds_per_step(model: str, profile: InputProfile) -> float:
    """Best of ten runs of 10 s from rest, one compiled call for each row of the inputs, no output."""
    simulator = Simulator(load_vehicle("hmmwv"), model=model, dt=STEP)
    knots = [*profile.time, SECONDS]
    inputs = profile.sample(knots)
    steps = [round((after - before) / STEP) for before, after in pairwise(knots)]
    best = np.inf
    for _ in range(10):
        simulator.reset()
        began = time.perf_counter()
        for before, after, count in zip(inputs[:-1], inputs[1:], steps):
            simulator.advance(before, after, count)
        best = min(best, time.perf_counter() - began)
    return 1e9 * best / (SECONDS / STEP)


def nanoseconds_in_casadi(model: str) -> float:
    """The same step, called from Python on CasADi's virtual machine."""
    vehicle, step = load_vehicle("hmmwv"), casadi_model(model).step
    simulator = Simulator(vehicle, model=model, dt=STEP)
    x, u, p = simulator.state, np.array([0.1, 0.5, 0.0]), vehicle.vector(simulator.model)
    began = time.perf_counter()
    for _ in range(500):
        x = step(x, u, p, STEP)
    return 1e9 * (time.perf_counter() - began) / 500


def seconds_to_first_step(model: str, cache: str) -> float:
    """From before the model is asked for to its first step, in a process of its own."""
    script = ("import time, sys; from lfdm_ros.simulation import Simulator; from lfdm_ros.vehicles import load_vehicle; "
              f"v = load_vehicle('hmmwv'); t = time.perf_counter(); Simulator(v, model={model!r}).advance([0, 0, 0], [0, 0, 0], 1); "
              "print(time.perf_counter() - t)")
    env = {**os.environ, "LFDM_CACHE_DIR": cache, "PYTHONPATH": os.pathsep.join(sys.path)}
    return float(subprocess.run([sys.executable, "-c", script], env=env, check=True, capture_output=True, text=True).stdout)


def measure(runs: int) -> list[Record]:
    """All numbers of `lfdm bench models`."""
    records = []
    for model in model_names():
        for name, profile in RUNS.items():
            records.append(Record.of(f"step_ns/{model}/{TYRE}/{name}", [nanoseconds_per_step(model, profile) for _ in range(runs)], "ns"))
        records.append(Record.of(f"step_ns/{model}/{TYRE}/casadi_vm", [nanoseconds_in_casadi(model) for _ in range(runs)], "ns"))
        first, warm = [], []
        for _ in range(runs):
            with tempfile.TemporaryDirectory() as cache:
                first.append(seconds_to_first_step(model, cache))
                warm.append(seconds_to_first_step(model, cache))
        records += [Record.of(f"first_use_s/{model}", first, "s"), Record.of(f"warm_start_s/{model}", warm, "s")]
    return records


if __name__ == "__main__":
    print(format_table(measure(3)))
