"""A whole calibration: stages in order, each passing its posterior mean on, and the files that come out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from lfdm_ros.calibration.checkpoint import Checkpoints
from lfdm_ros.calibration.progress import Progress
from lfdm_ros.calibration.recipe import sampled_by
from lfdm_ros.errors import prefixing, reason
from lfdm_ros.files import write_text
from lfdm_ros.inference.dataset import find_recordings, load_stage
from lfdm_ros.inference.plan import Recipe
from lfdm_ros.samplers.sampler import Report, SamplerProgress, SampleRun, check_continues, get_sampler
from lfdm_ros.scheduling import Scheduler
from lfdm_ros.vehicles import save_vehicle

if TYPE_CHECKING:
    from lfdm_ros.calibration.stage import StageResult

def calibrate(recipe: Recipe, bags: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str], *, draws: int | None = None,
              chains: int | None = None, seed: int | None = None, sampler: str | None = None, options: Mapping[str, Any] | None = None,
              continued: str | os.PathLike[str] | None = None, progress: Callable[[Progress], None] | None = None) -> dict[str, Any]:
    """Calibrates and writes posterior.nc, vehicle.yaml, vehicle_before.yaml, summary.json and report.html to `out`.

    Stages that an earlier call with the same arguments finished before it was stopped or killed are taken from `out`.

    Args:
        bags: recordings that the stages name.
        draws, chains, seed, sampler: instead of the recipe's.
        options: of the sampler; where it is the recipe's, the recipe's options that are not given stay.
        continued: directory of an earlier calibration with the same recipe: its posterior is updated with those of the `bags` that it
            has not seen, exactly, since its recordings stay in the likelihood.
        progress: called between likelihood calls; it may raise KeyboardInterrupt to stop.

    Returns:
        What summary.json says.

    Raises:
        InputError: recordings do not fit the recipe, no such sampler or option, or `out` cannot be written.
        KeyboardInterrupt: stopped; what was finished is written, with the stage that was stopped as far as it got, and the summary says so.
    """
    draws, chains, seed = draws or recipe.draws, chains or recipe.chains, recipe.seed if seed is None else seed
    recipe = sampled_by(recipe, sampler, options)
    method = get_sampler(recipe.sampler, recipe.options)
    directory = Path(out)
    with prefixing(f"cannot write to {directory}", OSError):
        directory.mkdir(parents=True, exist_ok=True)
    vehicle = recipe.start_vehicle
    recordings = find_recordings(bags)
    before = None
    if continued is not None:
        check_continues(recipe.sampler)
        from lfdm_ros.calibration.continuation import load_continuation

        before = load_continuation(continued, recipe, bags)
        earlier_hashes = {recording.sha256 for recording in before.recordings}
        recordings = [*before.recordings, *(recording for recording in recordings if recording.sha256 not in earlier_hashes)]
    # All stages are read before the first is run: a mistake in the last one should not cost minutes.
    datasets = [load_stage(stage, recordings, recipe, vehicle) for stage in recipe.stages]
    # From here on SciPy, ArviZ and perhaps PyMC are needed, which take seconds to import; what is wrong with arguments and recordings has
    # been told.
    from lfdm_ros.calibration import scoring, summary
    from lfdm_ros.calibration.predictive import storable_draws
    from lfdm_ros.calibration.stage import run_stage, stage_model

    checkpoints = Checkpoints(directory, {
        "recipe": recipe.text, "model": vehicle.spec(recipe.model), "vehicle": [vehicle.name, dict(vehicle.parameters)],
        "sampler": recipe.sampler, "options": method.settings, "draws": draws, "chains": chains, "seed": seed,
        "recordings": [recording.sha256 for recording in recordings],
        "continues": [r.sha256 for r in before.recordings] if before else None,
        "from": [stage["parameters"] for stage in before.summary["stages"]] if before else None})
    room = storable_draws(data for stage in datasets for _, data in (*stage.fitted, *stage.held_out))
    seeds = np.random.SeedSequence(seed).spawn(len(recipe.stages))
    finished: list[StageResult] = []
    scores: dict[str, dict[str, Any]] = {}
    interrupted = False
    try:
        for index, (stage, data, stage_seed) in enumerate(zip(recipe.stages, datasets, seeds)):

            def forward(state: SamplerProgress, stage: str = stage.name, index: int = index) -> None:
                if progress is not None:
                    progress(Progress.of(state, stage, index, len(recipe.stages)))

            forward(SamplerProgress(0.0, 0.0, float("nan"), 0, "preparing"))
            earlier = before.stage(stage.name, data, recipe.start_vehicle) if before else None
            model = stage_model(stage, data, recipe, vehicle, earlier.weights if earlier else None, forward)
            scores[stage.name] = scoring.score_stage(stage, data, recipe, vehicle, model)
            for text in scores[stage.name]["text"]:
                forward(SamplerProgress(0.0, 0.0, float("nan"), 0, text))
            run = checkpoints.load(stage.name)
            result = run_stage(stage, data, recipe, vehicle, method, draws=draws, chains=chains, seed=stage_seed, report=forward,
                               earlier=earlier, model=model, finished=run, keep=partial(_keep, checkpoints, stage.name, forward),
                               stored=room)
            finished.append(result)
            if result.run.stopped:
                raise KeyboardInterrupt
            vehicle = result.after
            ending = f"done in {result.run.seconds:.1f} s" if run is None else "taken from the run that was stopped"
            # What comes after the last stage belongs to it.
            if index < len(recipe.stages) - 1:
                forward(SamplerProgress(1.0, 1.0, 0.0, result.run.evaluations, ending))
    except KeyboardInterrupt:
        if not finished:
            raise
        interrupted = True
    last = finished[-1].run

    def finishing(message: str) -> None:
        # Who has stopped the sampler still gets what it found.
        with suppress(KeyboardInterrupt) if interrupted else nullcontext():
            forward(SamplerProgress(last.temperature, 0.99, float("nan"), last.evaluations, message))

    outcome = summary.summarise(recipe, finished, seed=seed, draws=draws, chains=chains, interrupted=interrupted,
                                continued=[recording.sha256 for recording in before.recordings] if before else [],
                                scores=scores, report=finishing)
    _write(directory, recipe, finished, outcome, finishing)
    if interrupted:
        raise KeyboardInterrupt
    checkpoints.clear()
    forward(SamplerProgress(1.0, 1.0, 0.0, last.evaluations, ending))
    return outcome


def _keep(checkpoints: Checkpoints, stage: str, report: Report, run: SampleRun) -> None:
    """Keeps a run where the disk lets it; it is in memory, and there may be room again at the end."""
    try:
        checkpoints.save(stage, run)
    except OSError as error:
        report(SamplerProgress(run.temperature, 0.99, float("nan"), run.evaluations,
                               f"the stage cannot be kept ({reason(error)}): whoever stops this run now begins it anew"))


def _write(directory: Path, recipe: Recipe, finished: Sequence[StageResult], outcome: dict[str, Any],
           progress: Callable[[str], None]) -> None:
    from lfdm_ros.calibration import report, results, store, summary

    whole = [result for result in finished if result.run.temperature == 1.0]
    with prefixing(f"cannot write to {directory}", OSError):
        save_vehicle(whole[-1].after if whole else finished[0].vehicle, directory / "vehicle.yaml", outcome["baseline"]["text"])
        save_vehicle(recipe.start_vehicle, directory / results.BEFORE)
        summary.write_json(directory / "summary.json", outcome)
        progress("writing posterior.nc")
        results.write_inference_data(directory / "posterior.nc", results.to_inference_data(recipe, finished, seed=outcome["seed"]))
        progress("writing report.html")
        write_text(directory / "report.html", report.calibration_report(recipe, finished, outcome))
        store.describe(directory)


_Work = tuple[Recipe, Sequence[str], Mapping[str, Any]]


def calibrate_on_cluster(scheduler: Scheduler, recipe: Recipe, bags: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str],
                        **settings: Any) -> dict[str, Any]:
    """Runs `calibrate` on a worker of `scheduler`, which must see the bags at the same paths; files and summary are the same.

    Args:
        settings: draws, chains, seed, sampler, options, continued.

    Raises:
        InputError: as `calibrate`; no files are written then.
    """
    if settings.get("continued") is not None:
        settings["continued"] = str(Path(settings["continued"]).resolve())
    work: _Work = (recipe, [str(Path(bag).resolve()) for bag in bags], settings)
    ((_, (outcome, files)),) = scheduler.map(_work, [work])
    directory = Path(out)
    with prefixing(f"cannot write to {directory}", OSError):
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (directory / name).write_bytes(content)
    return outcome


def _work(work: _Work) -> tuple[dict[str, Any], dict[str, bytes]]:
    recipe, bags, settings = work
    with TemporaryDirectory() as folder:
        outcome = calibrate(recipe, bags, folder, **settings)
        return outcome, {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}
