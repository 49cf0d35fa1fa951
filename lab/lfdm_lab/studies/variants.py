"""Sensitivity of a calibration to the prior of one unknown, or to the bag.

priors: each prior is made wider and narrower; posteriors determined by the data stay, those determined by the prior move.
bags: each bag is calibrated alone; posteriors of one vehicle agree within their widths; chi2 is that of their weighted mean.
"""

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from lfdm_lab.studies import STUDIES
from lfdm_lab.studies.resuming import carry_out
from lfdm_ros import __version__
from lfdm_ros.calibration import checkpoint, summary
from lfdm_ros.calibration.checkpoint import result_key
from lfdm_ros.calibration.plots import DATA, POSTERIOR, PRIOR
from lfdm_ros.calibration.results import stored_name
from lfdm_ros.calibration.sbc import StudyProgress
from lfdm_ros.calibration.stage import StageResult, run_stage
from lfdm_ros.errors import InputError, prefixing
from lfdm_ros.inference.dataset import Recording, find_recordings, load_stage
from lfdm_ros.inference.plan import CalibratedParameter, Nuisance, Recipe
from lfdm_ros.inference.priors import Prior
from lfdm_ros.models import get_model
from lfdm_ros.reports import save_pictures
from lfdm_ros.samplers.sampler import get_sampler
from lfdm_ros.scheduling import Scheduler

CACHE_DEPENDENCIES = (*checkpoint.CACHE_DEPENDENCIES, f"{STUDIES}/resuming", f"{STUDIES}/variants")
FACTORS = (2.0, 0.5)  # of the width of a prior
MIN_WIDTH_RATIO = 1.1  # smaller changes of a prior's width are not calculated
# Shift [posterior sd] and ratio of sds from which the prior influences, and decides. A prior as wide as the likelihood makes the posterior
# 0.63 times as wide when halved; one five times as wide 0.95 times.
INFLUENCE, DECISION = (0.2, 1.1), (0.5, 1.25)
LEVEL = 0.05  # significance level of a contradiction between bags of one vehicle, over all unknowns
ORIGINAL = "as it is"

Show = Callable[[StudyProgress], None]


@dataclass(frozen=True)
class Variant:
    """One calibration; plain data for other processes."""

    name: str
    recipe: Recipe
    recordings: tuple[Recording, ...]

    @property
    def key(self) -> str:
        """Hash of all that its result depends on."""
        recipe = self.recipe
        vehicle = recipe.start_vehicle
        return result_key({
            "recipe": recipe.text, "model": vehicle.spec(recipe.model), "vehicle": dict(vehicle.parameters), "sampler": recipe.sampler,
            "options": get_sampler(recipe.sampler, recipe.options).settings, "draws": recipe.draws, "chains": recipe.chains,
            "seed": recipe.seed, "stages": [stage.name for stage in recipe.stages],
            "priors": [[name, str(unknown.prior)] for name, unknown in unknowns_of(recipe).items()],
            "recordings": [recording.sha256 for recording in self.recordings]}, CACHE_DEPENDENCIES)


def unknowns_of(recipe: Recipe) -> dict[str, CalibratedParameter | Nuisance]:
    """Returns the parameters, and nuisances as STAGE.NAME."""
    found: dict[str, CalibratedParameter | Nuisance] = {}
    for stage in recipe.stages:
        found |= {stored_name(stage.name, parameter.name): parameter for parameter in stage.parameters}
        found |= {stored_name(stage.name, nuisance.name): nuisance for nuisance in stage.nuisance}
    return found


def fit(variant: Variant) -> dict[str, Any]:
    """Calibrates without writing files.

    Returns:
        unknowns: by name mean, sd, unit, prior, sd_over_prior_sd and mcse, the Monte Carlo error of the mean; warnings; evaluations;
        seconds. Or error: the reason why these recordings and priors cannot be calibrated.

    Raises:
        InputError: the unchanged calibration (ORIGINAL) fails.
    """
    recipe, vehicle = variant.recipe, variant.recipe.start_vehicle
    began = time.perf_counter()
    finished: list[StageResult] = []
    try:
        for stage, seed in zip(recipe.stages, np.random.SeedSequence(recipe.seed).spawn(len(recipe.stages))):
            data = load_stage(stage, variant.recordings, recipe, vehicle)
            finished.append(run_stage(stage, data, recipe, vehicle, get_sampler(recipe.sampler, recipe.options),
                                      draws=recipe.draws, chains=recipe.chains, seed=seed))
            if finished[-1].run.stopped:
                raise KeyboardInterrupt
            vehicle = finished[-1].after
    except InputError as error:
        if variant.name == ORIGINAL:
            raise
        return {"error": str(error)}
    report = summary.summarise(recipe, finished, seed=recipe.seed, draws=recipe.draws, chains=recipe.chains, interrupted=False)
    rows = {stored_name(stage["name"], name.replace("/", ".", 1)): row
            for stage in report["stages"] for name, row in stage["parameters"].items()}
    out = {}
    for name in unknowns_of(recipe):
        row = rows[name]
        errors = [row.get(key, math.nan) for key in ("mcse_mean", "mcse_genealogy")]
        out[name] = {**{key: row[key] for key in ("mean", "sd", "unit", "prior", "sd_over_prior_sd")},
                     "mcse": max((error for error in errors if math.isfinite(error)), default=0.0)}
    return {"unknowns": out, "warnings": list(report["warnings"]), "evaluations": sum(stage["evaluations"] for stage in report["stages"]),
            "seconds": time.perf_counter() - began}


# -- Priors ---------------------------------------------------------------------------------------------------------------------


def _limits(recipe: Recipe, unknown: CalibratedParameter | Nuisance) -> tuple[float, float]:
    if isinstance(unknown, Nuisance):
        return (0.0 if unknown.name.endswith((".lag", ".scale")) else -math.inf), math.inf
    declared = {field.name: field for field in get_model(recipe.vehicle.spec(recipe.model)).parameters}
    return (max(declared[target].lower / factor for target, factor in unknown.targets),
            min(declared[target].upper / factor for target, factor in unknown.targets))


def _with_prior(recipe: Recipe, name: str, prior: Prior) -> Recipe:
    stages = []
    for stage in recipe.stages:
        def changed(unknown: Any, stage_name: str = stage.name) -> Any:
            return replace(unknown, prior=prior) if stored_name(stage_name, unknown.name) == name else unknown

        stages.append(replace(stage, parameters=tuple(map(changed, stage.parameters)), nuisance=tuple(map(changed, stage.nuisance))))
    return replace(recipe, stages=tuple(stages))


def study_priors(recipe: Recipe, bags: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str], *, scheduler: Scheduler,
                 progress: Show | None = None) -> dict[str, Any]:
    """Calibrates as the recipe says (its sampler, draws, chains and seed), and with each prior twice and half as wide, one at a time.

    Calibrations of an earlier study with the same settings are taken from `out`; results.json and priors.png are written there.

    Returns:
        Content of results.json: for each unknown its posterior, verdict and text, and for each width the largest shift of any posterior
        mean (with its name) in posterior standard deviations, and the ratio of its own standard deviations.

    Raises:
        InputError: the recipe and the bags do not go together, or `out` cannot be written.
        KeyboardInterrupt: stopped; results.json has the finished calibrations.
    """
    recordings = tuple(_absolute(find_recordings(bags)))
    scaled: dict[str, dict[float, Variant]] = {}  # by name and ratio of widths
    for name, unknown in unknowns_of(recipe).items():
        scaled[name] = {}
        for factor in FACTORS:
            prior = unknown.prior.scaled(factor, *_limits(recipe, unknown))
            ratio = prior.width() / unknown.prior.width()
            if max(ratio, 1.0 / ratio) >= MIN_WIDTH_RATIO:
                scaled[name][ratio] = Variant(f"{name} x {ratio:.3g}", _with_prior(recipe, name, prior), recordings)
    variants = [Variant(ORIGINAL, recipe, recordings), *(variant for of_name in scaled.values() for variant in of_name.values())]

    def assess(found: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        original = found.get(ORIGINAL)
        if original is None:
            return {}
        return {"warnings": original["warnings"], "unknowns": {
            name: sensitivity_of(name, unknowns_of(recipe)[name].prior, original["unknowns"],
                                 {ratio: found[variant.name] for ratio, variant in of_name.items() if variant.name in found},
                                 {ratio: unknowns_of(variant.recipe)[name].prior for ratio, variant in of_name.items()})
            for name, of_name in scaled.items()}}

    return _study("priors", recipe, recordings, variants, Path(out), assess, plot_priors, scheduler, progress)


def sensitivity_of(name: str, prior: Prior, original: Mapping[str, Any], found: Mapping[float, Mapping[str, Any]],
                   priors: Mapping[float, Prior]) -> dict[str, Any]:
    """Returns the posterior of an unknown, its verdict and text, and one row for each changed width of its prior.

    Args:
        original: posteriors with the recipe's priors, by unknown.
        found: results of `fit`, by ratio of the prior's widths.
        priors: changed priors, by the same ratio.
    """
    posterior = original[name]
    rows, largest, largest_text = [], 0.0, ""
    for factor, result in found.items():
        row: dict[str, Any] = {"factor": factor, "prior": str(priors[factor]), "judged": False}
        rows.append(row)
        if "error" in result:
            row["error"] = result["error"]
            continue
        changed = result["unknowns"]
        shifts = {u: (changed[u]["mean"] - before["mean"]) / before["sd"] for u, before in original.items()}
        of = max(shifts, key=lambda u: abs(shifts[u]))
        noise = 2.0 * math.hypot(original[of]["mcse"], changed[of]["mcse"]) / original[of]["sd"]
        ratio = changed[name]["sd"] / posterior["sd"]
        row |= {"shift": shifts[of], "of": of, "chance": noise, "own_shift": shifts[name], "sd_ratio": ratio,
                "judged": not _cut_off(prior, priors[factor], posterior)}
        if not row["judged"]:
            continue
        moved, widened = max(0.0, abs(shifts[of]) - noise) / DECISION[0], abs(math.log(ratio)) / math.log(DECISION[1])
        if max(moved, widened) >= largest:
            largest = max(moved, widened)
            effect = (f"moves {'it' if of == name else of} by {abs(shifts[of]):.2g} sd" if moved >= widened else
                      f"makes its posterior {ratio:.2f} times as wide")
            largest_text = f"{_size(factor)} a prior {effect}"
    judged = [row for row in rows if row["judged"]]
    influences = any(max(0.0, abs(row["shift"]) - row["chance"]) >= INFLUENCE[0]
                     or abs(math.log(row["sd_ratio"])) >= math.log(INFLUENCE[1]) for row in judged)
    if not judged:
        verdict, text = "not tested", "not tested: no other width of the prior can be tried"
    elif largest >= 1.0:
        verdict, text = "prior", f"the prior decides: {largest_text}"
    elif influences:
        verdict, text = "both", f"the prior has a say: {largest_text}"
    else:
        shift = max(abs(row["shift"]) for row in judged)
        verdict, text = "data", f"the data decide: no other width of its prior moves anything by more than {max(shift, 0.005):.2f} sd"
    return {**posterior, "verdict": verdict, "text": text, "tried": rows}


def _cut_off(prior: Prior, narrowed: Prior, posterior: Mapping[str, float]) -> bool:
    # Half of a uniform range may exclude a well-determined posterior: that narrower prior is wrong, and shows nothing about this one.
    if not prior.flat or narrowed.width() >= prior.width() or posterior["sd_over_prior_sd"] > 0.5:
        return False
    lower, upper = narrowed.bounds()
    return not lower <= posterior["mean"] - 2.0 * posterior["sd"] < posterior["mean"] + 2.0 * posterior["sd"] <= upper


def _size(factor: float) -> str:
    return {2.0: "twice as wide", 0.5: "half as wide"}.get(round(factor, 2), f"{factor:.2g} times as wide")


# -- Bags -----------------------------------------------------------------------------------------------------------------------


def study_bags(recipe: Recipe, bags: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str], *, scheduler: Scheduler,
               progress: Show | None = None) -> dict[str, Any]:
    """Calibrates each bag alone, as the recipe says, and compares the posteriors.

    A pattern or a list of recordings in the recipe is reduced to that bag. Bags that a stage does not use, or that cannot be calibrated,
    are left out and named. Each posterior contains the prior, so uninformative bags agree. Calibrations are stored as in `study_priors`.

    Returns:
        Content of results.json: for each unknown mean and sd by bag, their weighted mean, chi2 with p, and `apart`, the bags that do not
        agree with the rest.

    Raises:
        InputError: fewer than two bags can be calibrated alone, or `out` cannot be written.
        KeyboardInterrupt: stopped; results.json has the finished calibrations.
    """
    recordings = _absolute(find_recordings(bags))
    left_out: dict[str, str] = {}
    variants = []
    for label, recording in zip(_labels(recordings), recordings):
        lacking = [stage.name for stage in recipe.stages if not all(segment.selects(recording.name) for segment in stage.segments)]
        if lacking:
            left_out[label] = f"recording '{recording.name}' is not what stage {lacking[0]} needs"
        else:
            variants.append(Variant(label, _only(recipe, recording.name), (recording,)))
    if not variants and len({segment.recordings for stage in recipe.stages for segment in stage.segments}) > 1:
        names = dict.fromkeys(name for stage in recipe.stages for name in stage.recordings)
        raise InputError(f"{recipe.path}: stages: a calibration needs {' and '.join(names)} together, which no bag holds alone; take one "
                         "stage with --stage, or a recipe whose recording is a pattern such as 'drive_*'")
    if len(variants) < 2:
        raise InputError(f"{recipe.path}: at least 2 bags are needed that can be calibrated alone, found {len(variants)}"
                         + "".join(f"; {label}: {why}" for label, why in left_out.items()) + "; add --bag")

    def assess(found: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        failed = {variant.name: found[variant.name]["error"] for variant in variants if "error" in found.get(variant.name, {})}
        usable = {variant.name: found[variant.name] for variant in variants if variant.name in found and variant.name not in failed}
        if len(found) == len(variants) and len(usable) < 2:
            raise InputError(f"fewer than 2 bags can be calibrated alone; {next(iter(failed.values()))}")
        unknowns = unknowns_of(recipe)
        return {"left_out": left_out | failed, "warnings": {name: result["warnings"] for name, result in usable.items()},
                "level_of_each": LEVEL / len(unknowns),
                "unknowns": {name: _agreement({bag: result["unknowns"][name] for bag, result in usable.items()}, LEVEL / len(unknowns))
                             for name in unknowns if len(usable) > 1}}

    return _study("bags", recipe, recordings, variants, Path(out), assess, plot_bags, scheduler, progress)


def _only(recipe: Recipe, recording: str) -> Recipe:
    # A list names recordings that are needed together: keep the one in this bag.
    stages = [replace(stage, segments=tuple(replace(segment, recordings=tuple(
        name for name in segment.recordings if replace(segment, recordings=(name,)).selects(recording))) for segment in stage.segments))
        for stage in recipe.stages]
    return replace(recipe, stages=tuple(stages))


def _agreement(rows: Mapping[str, Mapping[str, Any]], level: float) -> dict[str, Any]:
    names = list(rows)
    means, sds = np.array([[rows[name]["mean"], rows[name]["sd"]] for name in names]).T
    mean, sd, chi2, p = _together(means, sds)
    apart: list[str] = []
    rest = np.arange(len(names))
    while len(rest) > 1 and _together(means[rest], sds[rest])[3] < level:
        if len(rest) == 2:
            apart += [names[i] for i in rest]
            break
        # The bag without which the others agree best.
        worst = min(range(len(rest)), key=lambda k: _together(means[np.delete(rest, k)], sds[np.delete(rest, k)])[2])
        apart.append(names[rest[worst]])
        rest = np.delete(rest, worst)
    informed = min(float(row["sd_over_prior_sd"]) for row in rows.values()) <= summary.CONTRACTION_LIMIT
    if len(apart) == len(names):
        text = f"{' and '.join(names)} contradict each other"
    elif apart:
        text = f"{', '.join(sorted(apart, key=names.index))} contradict{'s' if len(apart) == 1 else ''} the others"
    else:
        text = "the bags agree" if informed else "no bag determines it: only the priors agree"
    return {"unit": next(iter(rows.values()))["unit"], "bags": {name: dict(row) for name, row in rows.items()}, "mean": mean, "sd": sd,
            "chi2": chi2, "p": p, "apart": sorted(apart, key=names.index), "text": text}


def _together(means: np.ndarray, sds: np.ndarray) -> tuple[float, float, float, float]:
    # Weighted mean, its sd, chi2 and its p.
    weights = sds**-2.0
    mean = float(weights @ means / weights.sum())
    chi2 = float(weights @ (means - mean) ** 2)
    return mean, float(weights.sum() ** -0.5), chi2, float(stats.chi2.sf(chi2, len(means) - 1))


def _labels(recordings: Sequence[Recording]) -> list[str]:
    choices: Iterable[list[str]] = ([r.name for r in recordings], [r.path.name for r in recordings])
    return next((names for names in choices if len(set(names)) == len(names)), [str(r.path) for r in recordings])


# -- Both -----------------------------------------------------------------------------------------------------------------------


def _absolute(recordings: Sequence[Recording]) -> list[Recording]:
    # Workers may have another working directory.
    return [replace(recording, path=recording.path.resolve()) for recording in recordings]


def _study(study: str, recipe: Recipe, recordings: Sequence[Recording], variants: Sequence[Variant], directory: Path,
           assess: Callable[[Mapping[str, dict[str, Any]]], dict[str, Any]], plot: Callable[[Mapping[str, Any]], Any], scheduler: Scheduler,
           progress: Show | None) -> dict[str, Any]:
    sampler = get_sampler(recipe.sampler, recipe.options)
    outcome: dict[str, Any] = {
        "study": study, "version": __version__, "recipe": recipe.path.name, "model": recipe.model, "vehicle": recipe.vehicle.name,
        "sampler": recipe.sampler, "options": sampler.settings, "independent": sampler.independent,
        "seed": recipe.seed, "draws": recipe.draws, "chains": recipe.chains,
        "stages": [stage.name for stage in recipe.stages], "calibrations": len(variants), "interrupted": False,
        "recordings": [{"name": r.name, "path": str(r.path), "sha256": r.sha256} for r in recordings]}
    found: dict[int, dict[str, Any]] = {}

    def show(done: int, total: int, left: float) -> None:
        if progress is not None:
            progress(StudyProgress(study, done, total, left))

    def write() -> None:
        outcome.update(assess({variants[i].name: result for i, result in found.items()}))
        summary.write_json(directory / "results.json", outcome)
        if outcome.get("unknowns"):
            save_pictures(plot(outcome), directory / study)

    with prefixing(f"cannot write to {directory}", OSError):
        try:
            carry_out(variants, fit, lambda variant: variant.key, scheduler, found, directory, show)
        except KeyboardInterrupt:
            outcome["interrupted"] = True
            raise
        finally:
            if found:
                write()
    return outcome


def plot_priors(outcome: Mapping[str, Any]) -> Figure:
    """Plots each posterior (mean and 1 sd) with its prior as it is, wider and narrower, in sd of the first."""
    unknowns = outcome["unknowns"]
    figure = Figure(figsize=(7.5, 0.9 + 0.5 * len(unknowns)), layout="constrained")
    axis = figure.subplots()
    axis.axvspan(-1.0, 1.0, color=POSTERIOR, alpha=0.12, lw=0)
    for i, row in enumerate(unknowns.values()):
        axis.errorbar(0.0, i, xerr=1.0, fmt="o", ms=4, lw=1.4, color=DATA, label="prior as it is" if i == 0 else None)
        for tried in row["tried"]:
            if "shift" in tried:
                wide = tried["factor"] > 1.0
                axis.errorbar(tried["own_shift"], i + (-0.22 if wide else 0.22), xerr=tried["sd_ratio"], fmt="s", ms=3, lw=1.0,
                              color=POSTERIOR if wide else PRIOR, alpha=1.0 if tried["judged"] else 0.4)
    axis.plot([], [], "s-", ms=3, color=POSTERIOR, label="wider")
    axis.plot([], [], "s-", ms=3, color=PRIOR, label="narrower")
    axis.set_yticks(range(len(unknowns)), list(unknowns), fontsize=8)
    axis.set_ylim(len(unknowns) - 0.5, -0.5)
    axis.set_xlabel("shift and 1 sd, in sd of the posterior with the prior as it is", fontsize=8)
    axis.tick_params(axis="x", labelsize=7)
    figure.legend(fontsize=7, loc="outside upper right", ncols=3)
    return figure


def plot_bags(outcome: Mapping[str, Any]) -> Figure:
    """Plots mean and 1 sd of each unknown by bag, with the weighted mean."""
    unknowns = outcome["unknowns"]
    bags = list(next(iter(unknowns.values()))["bags"])
    columns = min(3, len(unknowns))
    rows = -(-len(unknowns) // columns)
    figure = Figure(figsize=(1.2 + 3.2 * columns, rows * (0.9 + 0.25 * len(bags))), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
    for axis in axes[len(unknowns):]:
        axis.set_visible(False)
    for axis, (name, row) in zip(axes, unknowns.items()):
        axis.axvspan(row["mean"] - row["sd"], row["mean"] + row["sd"], color=POSTERIOR, alpha=0.2, lw=0)
        for i, bag in enumerate(bags):
            posterior = row["bags"][bag]
            axis.errorbar(posterior["mean"], i, xerr=posterior["sd"], fmt="o", ms=4, lw=1.2, color=PRIOR if bag in row["apart"] else DATA)
        axis.set_title(name, fontsize=8)
        axis.set_xlabel(row["unit"], fontsize=8)
        axis.tick_params(labelsize=7)
        axis.set_yticks(range(len(bags)), bags, fontsize=8)
    axes[0].set_ylim(len(bags) - 0.5, -0.5)
    return figure
