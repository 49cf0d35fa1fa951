"""The same seed is the same drive to the bit, whichever x86-64 with AVX2 and FMA it is computed on: other processors, as far as one can be
made to compute like another."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lfdm_ros.compiler.machine_code import COMMON, TARGET, lacking

pytestmark = pytest.mark.skipif(bool(lacking(COMMON)), reason=f"this processor is not of level {COMMON}: it computes in its own way")

CHOICES = (TARGET, "OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES", "GLIBC_TUNABLES")
WITHOUT_AVX512 = ",".join(f"-AVX512{part}" for part in ("F", "VL", "BW", "DQ", "CD"))


def driven(scenario, **choices):
    """The hash of a drive in a process of its own, as `lfdm` would start it, with these variables set and the others not."""
    here = Path(__file__).parent
    environment = {name: value for name, value in os.environ.items() if name not in CHOICES}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(here), os.environ.get("PYTHONPATH"))))
    done = subprocess.run([sys.executable, "-m", "lfdm_ros.starting", "hashed_drive", scenario, "4"], env=environment | choices, text=True,
                          capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_drive_does_not_depend_on_the_processor():
    plain = driven("obstacle_field_20")
    assert plain.endswith(" 200\n")
    # OpenBLAS takes the kernels of a processor by name, NumPy and the C library leave instructions out.
    for choices in ({"OPENBLAS_CORETYPE": "Haswell", TARGET: COMMON}, {"OPENBLAS_CORETYPE": "Sandybridge"},
                    {"OPENBLAS_CORETYPE": "Prescott", "GLIBC_TUNABLES": f"glibc.cpu.hwcaps={WITHOUT_AVX512}"}):
        assert driven("obstacle_field_20", **choices) == plain, choices
