"""Batches of vehicles with individual parameters on all cores: time by vehicle and step, memory by vehicle, cost of derivatives.

`lfdm bench batch`.
"""

import tracemalloc
from fnmatch import fnmatch
from itertools import pairwise

import numpy as np

from lfdm_lab.benchmarks import _subjects as subjects
from lfdm_lab.benchmarks._subjects import fastest
from lfdm_lab.cli.bench import Measurement
from lfdm_ros.errors import InputError
from lfdm_ros.simulation import BatchRollout, InputProfile, Simulator, initial_state
from lfdm_ros.simulation.sensitivity import EXACT, FINITE_DIFFERENCE, forward_sensitivity

VEHICLES, STEP, SAMPLE, SECONDS, SPEED = 10_000, 1e-3, 0.01, 0.5, 15.0
REPEATS = 5  # of which the fastest counts
PROFILE = InputProfile([0, 0.2, 0.4], [0, 0.2, -0.2], [0.3, 0.3, 0], [0, 0, 0])

# Parameters that differ between the vehicles and for derivatives: the first DIRECTIONS that a model has.
PARAMETERS = ("sprung_mass", "yaw_inertia", "cornering_stiffness_front", "cornering_stiffness_rear", "tmeasy_lateral_slope_nominal",
              "tmeasy_lateral_peak_force_nominal", "roll_stiffness_front", "roll_damping_front", "wheel_inertia", "cg_height",
              "cg_to_front_axle", "unsprung_mass_front", "unsprung_mass_rear")
DIRECTIONS, LONG_SECONDS = 8, 10.0
LANE_CHANGE = InputProfile([0, 1, 2, 3, 4, 5], [0, 0.1, -0.1, 0.1, -0.1, 0], [0.2] * 6, [0] * 6)


def parameters_of(subject: subjects.Subject) -> list[str]:
    declared = {f.name for f in subject.model.parameters}
    return [name for name in PARAMETERS if name in declared][:DIRECTIONS]


# -- Batches --------------------------------------------------------------------------------------------------------

class Batch:
    """VEHICLES vehicles with parameters within 20 %, 0.5 s of a swerve at 15 m/s."""

    def __init__(self, subject: subjects.Subject, precision: str = "float64"):
        vehicle, varied = subject.vehicle, parameters_of(subject)
        times = np.arange(0.0, SECONDS + SAMPLE / 2, SAMPLE)
        self.rollout = BatchRollout(model=subject.model.name, vehicle=vehicle, dt=STEP, times=times, inputs=PROFILE.sample(times),
                                    parameters=varied, channels=["vx"], precision=precision)
        base = np.array([vehicle.parameters[name] for name in varied])
        self.theta = base * np.random.default_rng(1).uniform(0.8, 1.2, (VEHICLES, len(base)))
        self.x0, self.observed = initial_state(subject.model.name, vehicle, vx=SPEED), np.full((len(times), 1), np.nan)

    def run(self) -> None:
        self.rollout.squared_errors(self.theta, self.x0, self.observed)

    def nanoseconds(self) -> float:
        """Returns the time by vehicle and step [ns]."""
        return 1e9 * fastest(self.run, REPEATS) / (VEHICLES * round(SECONDS / STEP))

    def memory(self) -> float:
        """Returns the peak memory of a run by vehicle [bytes], including its parameters."""
        tracemalloc.start()
        try:
            self.run()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        return (peak + self.theta.nbytes) / VEHICLES


# -- Derivatives ----------------------------------------------------------------------------------------------------

def sensitivity_ratio(subject: subjects.Subject, method: str) -> float:
    """Returns the time ratio of a lane change with and without derivatives by DIRECTIONS parameters; states every 0.1 s."""
    vehicle = subject.vehicle
    times = np.linspace(0.0, LONG_SECONDS, round(10 * LONG_SECONDS) + 1)
    inputs = LANE_CHANGE.sample(times)
    simulator = Simulator(vehicle, model=subject.model.name, dt=STEP)
    substeps = round((times[1] - times[0]) / STEP)

    def plain() -> None:
        simulator.reset(vx=SPEED)
        for before, after in pairwise(inputs):
            simulator.advance(before, after, substeps)

    def differentiated() -> None:
        forward_sensitivity(model=subject.model.name, vehicle=vehicle, dt=STEP, times=times, inputs=inputs, method=method,
                            x0=initial_state(subject.model.name, vehicle, vx=SPEED), channels=["vx", "vy", "yaw_rate"],
                            parameters=parameters_of(subject))

    return fastest(differentiated, REPEATS) / fastest(plain, REPEATS)


def measure(runs: int, only: str = "*") -> list[Measurement]:
    """Measures the models that match `only`. Raises InputError: no model matches."""
    models = list(dict.fromkeys(subject.chassis for subject in (*subjects.SUBJECTS, subjects.MULTIBODY)))
    chosen = [model for model in models if fnmatch(model, only)]
    if not chosen:
        raise InputError(f"--only {only}: matches none of {', '.join(models)}")
    records = []
    for model in chosen:
        subject = subjects.of_chassis(model)
        batch, halved = Batch(subject), Batch(subject, "float32")
        records += [
            Measurement.of(f"vehicle_step_ns/{model}/float64", [batch.nanoseconds() for _ in range(runs)], "ns"),
            Measurement.of(f"vehicle_step_ns/{model}/float32", [halved.nanoseconds() for _ in range(runs)], "ns"),
            Measurement.of(f"bytes_per_vehicle/{model}", [batch.memory() for _ in range(runs)], "B"),
            Measurement.of(f"sensitivity_ratio/{model}", [sensitivity_ratio(subject, EXACT) for _ in range(runs)], "1"),
            Measurement.of(f"sensitivity_ratio_fd/{model}", [sensitivity_ratio(subject, FINITE_DIFFERENCE) for _ in range(runs)], "1"),
        ]
    return records
