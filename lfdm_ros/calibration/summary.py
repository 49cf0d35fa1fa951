"""What a calibration says about itself in numbers: summary.json."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lfdm_ros import __version__
from lfdm_ros.calibration.predictive import by_channel, coverage, lag_one, mean_rmse, residuals
from lfdm_ros.calibration.recipe import SIGMA, Recipe

if TYPE_CHECKING:
    from lfdm_ros.calibration.stage import StageResult

HDI = 0.94
R_HAT_LIMIT = 1.01
CONTRACTION_LIMIT = 0.9  # posterior over prior standard deviation: above it, the data said next to nothing
CORRELATION_LIMIT = 0.95
BOUND_SHARE = 0.05  # of the posterior within 1 % of the prior's range from its bound

_ARVIZ_COLUMNS = ("mean", "sd", "hdi_3%", "hdi_97%", "r_hat", "mcse_mean", "ess_bulk", "ess_tail")


def summary_name(variable: str) -> str:
    """The name in summary.json of a variable of the PyMC model: sigma/vx for sigma.vx."""
    return variable.replace(".", "/", 1)


def summarise(recipe: Recipe, results: Sequence[StageResult], *, seed: int, draws: int, chains: int, interrupted: bool) -> dict[str, Any]:
    """The contents of summary.json.

    A channel that two stages measured stands under its name for the first, and as STAGE/CHANNEL for the later ones.
    """
    stages = [_stage(result, recipe.sampler) for result in results]
    rmse: dict[str, Any] = {}
    covered: dict[str, Any] = {}
    for stage in stages:
        for channel in stage["rmse"]:
            key = channel if channel not in rmse else f"{stage['name']}/{channel}"
            rmse[key], covered[key] = stage["rmse"][channel], stage["coverage_90"][channel]
    warnings = [text for result, stage in zip(results, stages) for text in _warnings(result, stage)]
    if interrupted:
        missing = [stage.name for stage in recipe.stages[len(results):]]
        warnings.insert(0, f"interrupted: without stage{'s' if len(missing) > 1 else ''} {', '.join(missing)}")
    return {
        "version": __version__, "model": recipe.model, "vehicle": recipe.vehicle.name, "recipe": str(recipe.path), "seed": seed,
        "draws": draws, "chains": chains, "step": recipe.step, "interrupted": interrupted, "note": recipe.note,
        "recordings": [{"name": r.name, "path": str(r.path), "sha256": r.sha256} for r in
                       {result.dataset.recording.name: result.dataset.recording for result in results}.values()],
        "held": dict(recipe.fixed), "stages": stages, "rmse": rmse, "coverage_90": covered, "warnings": warnings}


def _stage(result: StageResult, sampler: str) -> dict[str, Any]:
    observed, channels = result.dataset.observed, result.dataset.channels
    prior = mean_rmse(result.prior_predictive.sample, observed)
    posterior = mean_rmse(result.posterior_predictive.sample, observed)
    covered = by_channel(channels, coverage(result.posterior_predictive.noisy, observed))
    residual = residuals(result.posterior_predictive.responses, observed)
    run = result.run
    return {
        "name": result.stage.name, "sampler": sampler, "seconds": run.seconds, "evaluations": run.evaluations,
        "recording": result.dataset.recording.name, "window": [result.stage.start, result.stage.end],
        "channels": {c.name: {"topic": c.topic, "field": c.field} for c in result.stage.channels},
        "state_topic": result.stage.state_topic, "inputs": asdict(result.stage.inputs),
        **run.statistics,
        "parameters": _parameters(result),
        "passed_on": {target: result.after.parameters[target] for target in result.stage.targets},
        "rmse": {c: {"prior": float(a), "posterior": float(b)} for c, a, b in zip(channels, prior, posterior)},
        "coverage_90": dict(covered),
        "residual_lag_1": by_channel(channels, np.array([lag_one(residual[:, i]) for i in range(len(channels))]))}


def _parameters(result: StageResult) -> dict[str, Any]:
    import arviz as az

    with np.errstate(invalid="ignore"):
        table = az.summary(az.from_dict(dict(result.run.draws)), hdi_prob=HDI, round_to="none")
    targets = {p.name: dict(p.targets) for p in result.stage.parameters}
    out = {}
    for name, prior in result.priors.items():
        draws = result.run.draws[name]
        row: dict[str, Any] = {column: float(table.loc[name, column]) for column in _ARVIZ_COLUMNS}
        # Particles share ancestors, which mcse_mean and the ESS cannot see; independent chains can.
        row["mcse_between_chains"] = float(draws.mean(axis=1).std(ddof=1) / math.sqrt(len(draws))) if len(draws) > 1 else math.nan
        row["sd_over_prior_sd"] = row["sd"] / float(prior.frozen().std())
        if name in targets:
            row["targets"] = targets[name]
        out[summary_name(name)] = {**row, "unit": prior.unit, "prior": str(prior)}
    return out


def _warnings(result: StageResult, stage: Mapping[str, Any]) -> Iterable[str]:
    name, draws = stage["name"], result.run.draws
    yield from (f"{name}: {text}" for text in result.run.warnings)
    for parameter, row in stage["parameters"].items():
        if row["r_hat"] >= R_HAT_LIMIT:
            yield f"{name}: R-hat of {parameter} is {row['r_hat']:.3f}, {R_HAT_LIMIT} or more; take more draws or chains"
    physical = [p.name for p in result.stage.parameters]
    for parameter in physical:
        share = stage["parameters"][parameter]["sd_over_prior_sd"]
        if share > CONTRACTION_LIMIT:
            yield (f"{name}: {parameter} is not identified, its posterior is {share:.2f} times as wide as its prior; "
                   "hold it fixed or add a recording that excites it")
    for variable, prior in result.priors.items():
        lower, upper = prior.bounds()
        flat = draws[variable].ravel()
        margin = 0.01 * (upper - lower)
        # The natural bound 0 of a noise is no choice of the recipe's author.
        if math.isfinite(margin) and max((flat < lower + margin).mean(), (flat > upper - margin).mean()) > BOUND_SHARE:
            yield (f"{name}: the posterior of {summary_name(variable)} lies at a bound of its prior [{lower:g}, {upper:g}]; "
                   "widen it if it was a guess")
    if len(physical) > 1:
        correlation = np.corrcoef([draws[p].ravel() for p in physical])
        for i, j in zip(*np.triu_indices(len(physical), 1)):
            if abs(correlation[i, j]) > CORRELATION_LIMIT:
                yield (f"{name}: {physical[i]} and {physical[j]} have correlation {correlation[i, j]:.2f}; "
                       "the data know a combination of them rather than each")
    for column, (channel, lag) in enumerate(stage["residual_lag_1"].items()):
        count = int(np.isfinite(result.dataset.observed[:, column]).sum())
        if lag > max(0.1, 4.0 / math.sqrt(count)):
            sigma = stage["parameters"][summary_name(SIGMA + channel)]["mean"]
            yield (f"{name}: residuals of {channel} are not white (lag-1 correlation {lag:.2f}); the model misses something, "
                   f"sigma {sigma:.3g} holds it, and the intervals of what this channel informs are too narrow")


def write_json(path: Path, summary: Mapping[str, Any]) -> None:
    """Writes JSON that every parser takes: what is not finite becomes null."""
    path.write_text(json.dumps(_finite(summary), indent=2) + "\n", encoding="utf-8")


def _finite(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {str(key): _finite(value) for key, value in node.items()}
    if isinstance(node, (list, tuple)):
        return [_finite(value) for value in node]
    if isinstance(node, (float, np.floating)):
        return float(node) if math.isfinite(node) else None
    return node
