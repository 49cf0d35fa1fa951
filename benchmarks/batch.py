"""Many vehicles with their own parameters on all cores: nanoseconds per vehicle and step, memory per vehicle.

`lfdm bench batch`, or `python benchmarks/batch.py`.
"""

from __future__ import annotations

import time

import numpy as np

from lfdm_ros.cli.bench import Record, format_table
from lfdm_ros.models import get_model, model_names
from lfdm_ros.simulation import BatchRollout, InputProfile, initial_state
from lfdm_ros.vehicles import load_vehicle

VEHICLES, STEP, SAMPLE, SECONDS = 10_000, 1e-3, 0.01, 0.5
PROFILE = InputProfile([0, 0.2, 0.4], [0, 0.2, -0.2], [0.3, 0.3, 0], [0, 0, 0])
VARIED = ("cornering_stiffness_front", "cornering_stiffness_rear", "sprung_mass", "friction_scale")


def nanoseconds(model: str) -> float:
    vehicle = load_vehicle("hmmwv")
    times = np.arange(0.0, SECONDS + SAMPLE / 2, SAMPLE)
    batch = BatchRollout(model=model, vehicle=vehicle, dt=STEP, times=times, inputs=PROFILE.sample(times),
                         parameters=VARIED, channels=["vx"])
    theta = np.array([vehicle.parameters[n] for n in VARIED]) * np.random.default_rng(1).uniform(0.8, 1.2, (VEHICLES, len(VARIED)))
    x0, observed = initial_state(model, vehicle, vx=15.0), np.full((len(times), 1), np.nan)
    batch.squared_errors(theta[:16], x0, observed)
    best = np.inf
    for _ in range(5):
        began = time.perf_counter()
        batch.squared_errors(theta, x0, observed)
        best = min(best, time.perf_counter() - began)
    return 1e9 * best / (VEHICLES * round(SECONDS / STEP))


def measure(runs: int) -> list[Record]:
    """All numbers of `lfdm bench batch`."""
    records = []
    for name in model_names():
        model = get_model(name)
        records.append(Record.of(f"vehicle_step_ns/{name}/float64", [nanoseconds(name) for _ in range(runs)], "ns"))
        records.append(Record.of(f"bytes_per_vehicle/{name}", [8.0 * (len(model.parameters) + len(model.states) + 1)], "B"))
    return records


if __name__ == "__main__":
    print(format_table(measure(3)))
