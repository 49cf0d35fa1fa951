"""The same seed is the same drive to the bit, whichever x86-64 with AVX2 and FMA it is computed on: other processors, as far as one can be
made to compute like another."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lfdm_ros.compiler.machine_code import COMMON, TARGET, lacking

pytestmark = pytest.mark.skipif(bool(lacking(COMMON)), reason=f"this processor is not of level {COMMON}: it computes in its own way")

CHOICES = (TARGET, "OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES", "GLIBC_TUNABLES")
WITHOUT_AVX512 = ",".join(f"-AVX512{part}" for part in ("F", "VL", "BW", "DQ", "CD"))


def main() -> int:
    """Drives a scenario for some seconds [s], its arguments, and prints the hash of all that happened."""
    from lfdm_ros.control.controller import Controller, limits_of
    from lfdm_ros.control.settings import Settings
    from lfdm_ros.engine.closed_loop import PlantSettings, drive
    from lfdm_ros.simulation import load_scenario
    from lfdm_ros.vehicles import load_vehicle

    vehicle, settings = load_vehicle("hmmwv"), Settings(time_budget=0.0)
    scenario = replace(load_scenario(sys.argv[1]), duration=float(sys.argv[2]))
    run = drive(vehicle, scenario, Controller(vehicle, settings, limits_of(vehicle, settings)), PlantSettings())
    print(hashlib.sha256(run.outputs.tobytes() + run.commands.tobytes()).hexdigest(), len(run.times))
    return 0


def driven(scenario, **choices):
    """The hash of a drive in a process of its own, as `lfdm` would start it, with these variables set and the others not."""
    here = Path(__file__).parent
    environment = {name: value for name, value in os.environ.items() if name not in CHOICES}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(here), os.environ.get("PYTHONPATH"))))
    done = subprocess.run([sys.executable, "-m", "lfdm_ros.starting", Path(__file__).stem, scenario, "4"], env=environment | choices,
                          text=True, capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_drive_does_not_depend_on_the_processor():
    plain = driven("obstacle_field_20")
    assert plain.endswith(" 200\n")
    # OpenBLAS takes the kernels of a processor by name, NumPy and the C library leave instructions out.
    for choices in ({"OPENBLAS_CORETYPE": "Haswell", TARGET: COMMON}, {"OPENBLAS_CORETYPE": "Sandybridge"},
                    {"OPENBLAS_CORETYPE": "Prescott", "GLIBC_TUNABLES": f"glibc.cpu.hwcaps={WITHOUT_AVX512}"}):
        assert driven("obstacle_field_20", **choices) == plain, choices
