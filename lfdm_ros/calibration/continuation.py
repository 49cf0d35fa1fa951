"""The posterior of an earlier calibration, to be continued with new recordings."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_ros.calibration.results import load_posterior, load_summary, stored_name
from lfdm_ros.calibration.stage import Earlier
from lfdm_ros.errors import InputError
from lfdm_ros.inference.dataset import Recording, StageData, find_recordings
from lfdm_ros.inference.plan import INITIAL, Recipe
from lfdm_ros.samplers.sampler import SAMPLERS, samplers_with
from lfdm_ros.vehicles import Vehicle


@dataclass(frozen=True)
class Continuation:
    """A finished calibration of the same recipe; `recordings` are those it has seen."""

    directory: Path
    summary: Mapping[str, Any]
    posterior: Any
    recordings: tuple[Recording, ...]

    def stage(self, name: str, data: StageData, vehicle: Vehicle) -> Earlier:
        """Returns the posterior that a stage continues; `vehicle` is the one that this calibration begins the stage with. Raises
        InputError: the earlier calibration lacks the stage."""
        stages = [stage["name"] for stage in self.summary["stages"]]
        if name not in stages:
            raise InputError(f"{self.directory}: has no stage '{name}'; it was interrupted and cannot be continued")
        summary = self.summary["stages"][stages.index(name)]
        held = {target: value for stage in self.summary["stages"][:stages.index(name)] for target, value in stage["passed_on"].items()}
        hashes = frozenset(recording.sha256 for recording in self.recordings)
        population: dict[str, np.ndarray] = {}
        for variable in summary["parameters"]:
            own = variable.replace("/", ".", 1)
            population[own] = self.posterior[stored_name(name, own)].values
        # A data set that was alone has no name in those of its initial states.
        alone = [dataset for _, dataset in data.fitted if dataset.recording.sha256 in hashes]
        if len(alone) == 1 and alone[0].name:
            population = {f"{INITIAL}{alone[0].name}.{own.removeprefix(INITIAL)}" if own.startswith(INITIAL) else own: values
                          for own, values in population.items()}
        return Earlier(hashes, population, vehicle.replace(source=f"passed on in {self.directory}", **held) if held else vehicle,
                       float(summary.get("log_evidence") or 0.0), summary["weights"])


def check_continues_from(directory: str | os.PathLike[str]) -> None:
    """Looks at summary.json alone, so that what cannot be continued is refused at once. Raises InputError: there is no calibration, or it
    was interrupted or approximate."""
    summary = load_summary(directory)
    if summary.get("interrupted"):
        raise InputError(f"{directory}: was interrupted; finish it first, by the same command that began it")
    for stage in summary["stages"]:
        if not SAMPLERS.find(stage["sampler"], f"{directory}: stage {stage['name']}").exact:
            raise InputError(f"{directory}: stage {stage['name']} holds an approximation ({stage['sampler']}), which cannot be continued "
                             f"exactly; calibrate it with --sampler {samplers_with('exact')}")


def load_continuation(directory: str | os.PathLike[str], recipe: Recipe, bags: Sequence[str | os.PathLike[str]]) -> Continuation:
    """Opens the calibration to continue and finds its recordings, where they were or among `bags`. Raises InputError: it is of another
    recipe, was interrupted or approximate, or one of its recordings is not there any more."""
    directory = Path(directory)
    check_continues_from(directory)
    summary, posterior = load_summary(directory), load_posterior(directory)
    if posterior.attrs.get("recipe") != recipe.text:
        raise InputError(f"{directory}: was calibrated with another recipe than {recipe.path}; continue with the same one")
    given = {recording.sha256: recording for recording in find_recordings(bags)}
    recordings = []
    for entry in summary["recordings"]:
        recording = given.get(entry["sha256"])
        if recording is None and Path(entry["path"]).exists():
            found = find_recordings([entry["path"]])[0]
            recording = found if found.sha256 == entry["sha256"] else None
        if recording is None:
            raise InputError(f"{directory}: its recording {entry['name']} is not at {entry['path']} any more; give the bag with --bag")
        recordings.append(recording)
    return Continuation(directory, summary, posterior, tuple(recordings))

