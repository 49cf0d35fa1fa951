"""A whole calibration: stages in order, each passing its posterior mean on, and the files that come out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_ros.calibration import report, results, summary
from lfdm_ros.calibration.dataset import find_recordings, load_stage, pick_recording
from lfdm_ros.calibration.recipe import Recipe
from lfdm_ros.calibration.samplers import Report, SamplerProgress, get_sampler
from lfdm_ros.calibration.stage import StageResult, run_stage
from lfdm_ros.errors import InputError
from lfdm_ros.vehicles import save_vehicle


@dataclass(frozen=True)
class Progress:
    """Where a calibration is. temperature and progress [0, 1] are of the present stage; time_left [s] too, NaN: unknown."""

    stage: str
    stage_index: int
    stage_count: int
    temperature: float
    progress: float
    time_left: float
    message: str


def calibrate(recipe: Recipe, bags: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str], *, draws: int | None = None,
              chains: int | None = None, seed: int | None = None, sampler: str | None = None,
              progress: Callable[[Progress], None] | None = None) -> dict[str, Any]:
    """Calibrates and writes posterior.nc, vehicle.yaml, summary.json and report.html to `out`.

    Args:
        bags: recordings that the stages name.
        draws, chains, seed, sampler: instead of the recipe's.
        progress: called between likelihood calls; it may raise KeyboardInterrupt to stop.

    Returns:
        What summary.json says.

    Raises:
        InputError: recordings do not fit the recipe, no such sampler, or `out` cannot be written.
        KeyboardInterrupt: stopped; the stages that were finished are written, the summary says that it was interrupted.
    """
    draws, chains, seed = draws or recipe.draws, chains or recipe.chains, recipe.seed if seed is None else seed
    recipe = replace(recipe, sampler=sampler or recipe.sampler)
    method = get_sampler(recipe.sampler)
    directory = Path(out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {error.strerror}") from None
    vehicle = recipe.start_vehicle
    recordings = find_recordings(bags)
    # All stages are read before the first is run: a mistake in the last one should not cost minutes.
    datasets = []
    for stage in recipe.stages:
        recording = pick_recording(recordings, stage.recording, f"{recipe.path}: stages ({stage.name})")
        datasets.append(load_stage(stage, recording, recipe.model, vehicle, recipe.step))
    seeds = np.random.SeedSequence(seed).spawn(len(recipe.stages))
    finished: list[StageResult] = []
    interrupted = False
    try:
        for index, (stage, dataset, stage_seed) in enumerate(zip(recipe.stages, datasets, seeds)):
            tell = _teller(progress, stage.name, index, len(recipe.stages))
            tell(SamplerProgress(0.0, 0.0, float("nan"), 0, "preparing"))
            finished.append(run_stage(stage, dataset, recipe, vehicle, method, draws=draws, chains=chains, seed=stage_seed, report=tell))
            vehicle = finished[-1].after
            tell(SamplerProgress(1.0, 1.0, 0.0, finished[-1].run.evaluations, f"done in {finished[-1].run.seconds:.1f} s"))
    except KeyboardInterrupt:
        if not finished:
            raise
        interrupted = True
    outcome = summary.summarise(recipe, finished, seed=seed, draws=draws, chains=chains, interrupted=interrupted)
    _write(directory, recipe, finished, outcome)
    if interrupted:
        raise KeyboardInterrupt
    return outcome


def _write(directory: Path, recipe: Recipe, finished: Sequence[StageResult], outcome: dict[str, Any]) -> None:
    try:
        save_vehicle(finished[-1].after, directory / "vehicle.yaml")
        summary.write_json(directory / "summary.json", outcome)
        results.write_inference_data(directory / "posterior.nc", results.to_inference_data(recipe, finished, seed=outcome["seed"]))
        (directory / "report.html").write_text(report.calibration_report(recipe, finished, outcome), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {error.strerror or error}") from None


def _teller(progress: Callable[[Progress], None] | None, stage: str, index: int, count: int) -> Report:
    def tell(state: SamplerProgress) -> None:
        if progress is not None:
            progress(Progress(stage, index, count, state.temperature, state.progress, state.time_left, state.message))

    return tell
