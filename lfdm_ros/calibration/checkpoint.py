"""Checkpoints of finished stages, so that a calibration that was stopped or killed can resume."""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_ros.cache_key import SIMULATION_DEPENDENCIES, cache_key
from lfdm_ros.calibration.results import UNFINISHED
from lfdm_ros.files import replacing
from lfdm_ros.samplers.sampler import SampleRun

# Modules that determine a posterior, from the bag to the draws; without those that display or store it.
CACHE_DEPENDENCIES = (*SIMULATION_DEPENDENCIES, "ground", "bags", "inference", "samplers", "calibration")
ONLY_SHOWING = ("plots", "report", "store")
_ARRAYS = ("draws", "stored")


def result_key(identity: Mapping[str, Any], dependencies: Sequence[str] = CACHE_DEPENDENCIES) -> str:
    """Hashes the inputs of a posterior: `identity` (JSON), and the sources that make it."""
    return cache_key(identity, dependencies, ONLY_SHOWING)


class Checkpoints:
    """Runs of stages in a folder below the results. Runs of another recipe, recording, seed or source code are ignored."""

    def __init__(self, directory: Path, identity: Mapping[str, Any]):
        """Takes `identity`: everything besides the source code on which the draws depend, as JSON."""
        self._folder = directory / UNFINISHED
        self._key = result_key(identity)

    def load(self, stage: str) -> SampleRun | None:
        """Reads the run of a stage, or None if there is none for this calibration."""
        try:
            with np.load(self._folder / f"{stage}.npz", allow_pickle=False) as file:
                head = json.loads(str(file["head"]))
                if head.pop("key") != self._key:
                    return None
                dimensions = head.pop("dimensions")
                values: dict[str, dict[str, Any]] = {group: {} for group in _ARRAYS}
                for name in file.files:
                    group, _, variable = name.partition("/")
                    if group in values:
                        values[group][variable] = file[name]
                stored = {name: (tuple(dimensions[name]), array) for name, array in values["stored"].items()}
                return SampleRun(draws=values["draws"], stored=stored, log_likelihood=file["log_likelihood"],
                                 **{**head, "warnings": tuple(head["warnings"])})
        except (OSError, ValueError, KeyError, TypeError):  # missing, or truncated by a kill during writing
            return None

    def save(self, stage: str, run: SampleRun) -> None:
        """Stores a run atomically. Raises OSError where it cannot be written."""
        head = {field.name: getattr(run, field.name) for field in fields(run) if field.name not in (*_ARRAYS, "log_likelihood")}
        head |= {"key": self._key, "dimensions": {name: dimensions for name, (dimensions, _) in run.stored.items()}}
        arrays: dict[str, Any] = {f"draws/{name}": values for name, values in run.draws.items()}
        arrays |= {f"stored/{name}": values for name, (_, values) in run.stored.items()}
        self._folder.mkdir(exist_ok=True)
        with replacing(self._folder / f"{stage}.npz") as partial, partial.open("wb") as file:
            np.savez(file, head=np.array(json.dumps(head)), log_likelihood=run.log_likelihood, **arrays)
            file.flush()
            os.fsync(file.fileno())

    def clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
