"""The published data that some benchmarks compare with; README.md says where each set comes from."""

from __future__ import annotations

import gzip
import os
from functools import cache
from pathlib import Path

import numpy as np

from lfdm_ros.errors import InputError
from lfdm_ros.resources import share_directory
from lfdm_ros.simulation import InputProfile
from lfdm_ros.vehicles import Vehicle, import_lfdm

# The library's name of each of its models.
DEGREES = {"eleven_dof": "11dof", "eighteen_dof": "18dof", "twenty_four_dof": "24dof"}
TYRE_FILES = {"HMMWV": "tmeasy", "Sedan": "tmeasyNr"}


def folder(name: str) -> Path:
    """A set of reference data.

    Raises:
        InputError: it is not there.
    """
    root = Path(os.environ.get("LFDM_REFERENCE_DATA", share_directory() / ".." / "shared" / "data")).resolve()
    if not (root / name).is_dir():
        raise InputError(f"no reference data {root / name}; set LFDM_REFERENCE_DATA to the folder that has {name} (see README.md)")
    return root / name


@cache
def imported(chassis: str, name: str) -> Vehicle:
    """A vehicle of the C++ library, as it has it for one of its models."""
    files = folder("lfdm_chrono_hmmwv_xy") / "json" / DEGREES[chassis] / name
    suspension = files / "suspension.json"
    return import_lfdm(files / "vehicle.json", files / f"{TYRE_FILES[name]}.json", suspension if suspension.exists() else None)[0]


def library_inputs(chassis: str, run: str) -> InputProfile:
    """The driver inputs of one of the C++ library's runs."""
    return InputProfile.from_file(folder("lfdm_oracle") / "inputs" / DEGREES[chassis] / f"{run}.txt")


def library_run(chassis: str, name: str, run: str) -> dict[str, np.ndarray]:
    """What the C++ library computed: its columns by name."""
    vehicle = {"HMMWV": "hmmwv", "Sedan": "sedanNr"}[name]
    with gzip.open(folder("lfdm_oracle") / f"{DEGREES[chassis]}_{vehicle}_{run}.csv.gz", "rt") as file:
        names = file.readline().split()
        return dict(zip(names, np.loadtxt(file).T))


def chrono_path(run: str) -> np.ndarray:
    """Time, x, y of the HMMWV of Chrono::Vehicle, (K, 3)."""
    return np.loadtxt(folder("lfdm_chrono_hmmwv_xy") / f"chrono_{run}.txt", delimiter=",", skiprows=1)


def chrono_inputs(run: str) -> InputProfile:
    """The driver inputs of that run."""
    return InputProfile.from_file(folder("lfdm_chrono_hmmwv_xy") / "inputs" / f"{run}.txt")
