"""A whole calibration, new or continued: stages in order, each passing on its posterior mean, and the files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from lfdm_ros.calibration.checkpoint import Checkpoints
from lfdm_ros.calibration.progress import Progress
from lfdm_ros.calibration.recipe import sampled_by
from lfdm_ros.calibration.results import load_posterior, load_summary, stored_name
from lfdm_ros.calibration.stage import Earlier, StageResult, run_stage, stage_model
from lfdm_ros.errors import InputError, prefixing, reason
from lfdm_ros.files import write_text
from lfdm_ros.inference.dataset import Recording, StageData, find_recordings, load_stage
from lfdm_ros.inference.plan import INITIAL, Recipe
from lfdm_ros.samplers.sampler import SAMPLERS, Report, SamplerProgress, SampleRun, check_continues, get_sampler, samplers_with
from lfdm_ros.scheduling import Scheduler
from lfdm_ros.vehicles import Vehicle, save_vehicle


@dataclass(frozen=True)
class Continuation:
    """A finished calibration of the same recipe; `recordings` are those it used."""

    directory: Path
    summary: Mapping[str, Any]
    posterior: Any
    recordings: tuple[Recording, ...]

    def stage(self, name: str, data: StageData, vehicle: Vehicle) -> Earlier:
        """Returns the posterior that a stage continues; `vehicle` is the vehicle at the start of the stage. Raises InputError: the earlier
        calibration lacks the stage."""
        stages = [stage["name"] for stage in self.summary["stages"]]
        if name not in stages:
            raise InputError(f"{self.directory}: has no stage '{name}'; it was interrupted and cannot be continued")
        summary = self.summary["stages"][stages.index(name)]
        passed_on = {target: value for stage in self.summary["stages"][:stages.index(name)] for target, value in stage["passed_on"].items()}
        hashes = frozenset(recording.sha256 for recording in self.recordings)
        population: dict[str, np.ndarray] = {local: self.posterior[stored_name(name, local)].values for local in (
            variable.replace("/", ".", 1) for variable in summary["parameters"])}
        # Initial states of a single data set do not have its name.
        alone = [dataset for _, dataset in data.fitted if dataset.recording.sha256 in hashes]
        if len(alone) == 1 and alone[0].name:
            population = {f"{INITIAL}{alone[0].name}.{local.removeprefix(INITIAL)}" if local.startswith(INITIAL) else local: values
                          for local, values in population.items()}
        return Earlier(hashes, population, vehicle.replace(source=f"passed on in {self.directory}", **passed_on) if passed_on else vehicle,
                       float(summary.get("log_evidence") or 0.0), summary["weights"])


def check_continues_from(directory: str | os.PathLike[str]) -> None:
    """Checks summary.json alone, to fail early. Raises InputError: there is no calibration, or it was interrupted or approximate."""
    summary = load_summary(directory)
    if summary.get("interrupted"):
        raise InputError(f"{directory}: was interrupted; finish it first, by the same command that began it")
    for stage in summary["stages"]:
        if not SAMPLERS.find(stage["sampler"], f"{directory}: stage {stage['name']}").exact:
            raise InputError(f"{directory}: stage {stage['name']} holds an approximation ({stage['sampler']}), which cannot be continued "
                             f"exactly; calibrate it with --sampler {samplers_with('exact')}")


def load_continuation(directory: str | os.PathLike[str], recipe: Recipe, bags: Sequence[str | os.PathLike[str]]) -> Continuation:
    """Opens the calibration to continue and finds its recordings, at their old paths or among `bags`. Raises InputError: it is of another
    recipe, was interrupted or approximate, or one of its recordings is missing."""
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


def calibrate(recipe: Recipe, bags: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str], *, draws: int | None = None,
              chains: int | None = None, seed: int | None = None, sampler: str | None = None, options: Mapping[str, Any] | None = None,
              continued: str | os.PathLike[str] | None = None, progress: Callable[[Progress], None] | None = None) -> dict[str, Any]:
    """Calibrates and writes posterior.nc, vehicle.yaml, vehicle_before.yaml, summary.json, which it returns, and report.html to `out`.

    Stages that an earlier call with the same arguments finished before it was stopped or killed are taken from `out`.

    Args:
        bags: recordings that the stages name.
        draws, chains, seed, sampler: instead of the recipe's.
        options: of the sampler; added to the recipe's options if the sampler is the recipe's.
        continued: directory of an earlier calibration with the same recipe: its posterior is updated with the new ones among `bags`,
            exactly, since its recordings stay in the likelihood.
        progress: called between likelihood calls; it may raise KeyboardInterrupt to stop.

    Raises:
        InputError: recordings do not fit the recipe, no such sampler or option, or `out` cannot be written.
        KeyboardInterrupt: stopped; finished stages and the partial one are written, and the summary says so.
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
        before = load_continuation(continued, recipe, bags)
        earlier_hashes = {recording.sha256 for recording in before.recordings}
        recordings = [*before.recordings, *(recording for recording in recordings if recording.sha256 not in earlier_hashes)]
    # Read all stages before running the first, to report mistakes early.
    datasets = [load_stage(stage, recordings, recipe, vehicle) for stage in recipe.stages]
    # Import SciPy, ArviZ and perhaps PyMC, which takes seconds, only after arguments and recordings are checked.
    from lfdm_ros.calibration import scoring, summary
    from lfdm_ros.calibration.predictive import storable_draws

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
                               earlier=earlier, model=model, finished=run, keep=partial(_save_checkpoint, checkpoints, stage.name, forward),
                               stored=room)
            finished.append(result)
            if result.run.stopped:
                raise KeyboardInterrupt
            vehicle = result.after
            ending = f"done in {result.run.seconds:.1f} s" if run is None else "taken from the run that was stopped"
            # Progress after the last stage counts as part of it.
            if index < len(recipe.stages) - 1:
                forward(SamplerProgress(1.0, 1.0, 0.0, result.run.evaluations, ending))
    except KeyboardInterrupt:
        if not finished:
            raise
        interrupted = True
    last = finished[-1].run

    def finishing(message: str) -> None:
        # Write the result even if the sampler was stopped.
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


def _save_checkpoint(checkpoints: Checkpoints, stage: str, report: Report, run: SampleRun) -> None:
    """Stores a checkpoint if the disk has room; the run is in memory, and there may be room at the end."""
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
    """Runs `calibrate` on a worker of `scheduler`, which must see the bags at the same paths; files and summary are the same. `settings`:
    draws, chains, seed, sampler, options, continued. Raises InputError: as `calibrate`; no files are written then."""
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
