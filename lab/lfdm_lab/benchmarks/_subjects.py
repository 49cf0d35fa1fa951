"""Subjects of the benchmarks (models, tyres, and a vehicle with the parameters of each tyre), and start-up times of scripts."""

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from lfdm_ros.models import Model
from lfdm_ros.vehicles import Vehicle, load_vehicle

FOUR_WHEEL_MODELS = ("eight_dof", "eleven_dof", "eighteen_dof", "twenty_four_dof")
# The vehicles of the C++ library's programs, with their powertrains: torque converter, and gearbox alone. The first has one gear.
VEHICLES_OF_TYRES = {"fiala": "hmmwv", "tmeasy": "hmmwv_shafts", "tmeasy_nr": "sedan"}
SINGLE_TRACK_MODELS = {"linear_single_track": "hmmwv", "nonlinear_bicycle": "hmmwv"}


@dataclass(frozen=True)
class Subject:
    """A model with a tyre (empty: no choice), and a vehicle."""

    chassis: str
    tyre: str
    vehicle_name: str

    @property
    def name(self) -> str:
        """Name in records: MODEL/TYRE."""
        return f"{self.chassis}/{self.tyre}" if self.tyre else self.chassis

    @cached_property  # loaded once, outside of measurements
    def vehicle(self) -> Vehicle:
        return load_vehicle(self.vehicle_name)

    @cached_property
    def model(self) -> Model:
        """Model with the vehicle's own powertrain, steering and conventions."""
        return self.vehicle.model(self.chassis, self.tyre or None)


SUBJECTS = (
    *(Subject(chassis, tyre, vehicle) for chassis in FOUR_WHEEL_MODELS for tyre, vehicle in VEHICLES_OF_TYRES.items()),
    *(Subject(chassis, "", vehicle) for chassis, vehicle in SINGLE_TRACK_MODELS.items()),
)
# Not in SUBJECTS: it takes minutes where code is compiled in many ways.
MULTIBODY = Subject("multibody_hmmwv", "fiala", "hmmwv_multibody")


def of_chassis(chassis: str) -> Subject:
    """Returns the subject of a chassis with its default tyre."""
    tyre = {"eight_dof": "fiala", MULTIBODY.chassis: MULTIBODY.tyre}.get(chassis, "tmeasy")
    return next(subject for subject in (*SUBJECTS, MULTIBODY) if subject.chassis == chassis and subject.tyre in ("", tyre))


def fastest(run: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Returns the seconds of the fastest of `repeats` calls, after a first one that compiles or loads."""
    run()
    best = math.inf
    for _ in range(repeats):
        began = clock()
        run()
        best = min(best, clock() - began)
    return best


def seconds_of_starts(script: str, runs: int) -> tuple[list[float], list[float]]:
    """Runs a script in new processes; returns the seconds that it prints, with an empty cache and with a filled one.

    Args:
        script: Python; prints one number, the seconds from its first line.
    """
    def seconds(cache: str) -> float:
        env = {**os.environ, "LFDM_CACHE_DIR": cache, "PYTHONPATH": os.pathsep.join(sys.path)}
        return float(subprocess.run([sys.executable, "-c", script], env=env, check=True, stdout=subprocess.PIPE, text=True).stdout)

    first, later = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as cache:
            first.append(seconds(cache))
            later.append(seconds(cache))
    return first, later
