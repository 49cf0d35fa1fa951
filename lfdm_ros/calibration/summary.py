"""Statistics of a calibration: summary.json."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lfdm_ros import __version__
from lfdm_ros.calibration import baselines, discrepancy
from lfdm_ros.calibration.baselines import fit_kinematic
from lfdm_ros.calibration.out_of_sample import out_of_sample, out_of_sample_warnings
from lfdm_ros.calibration.pieces import outlying
from lfdm_ros.calibration.predictive import Compared, compare
from lfdm_ros.files import write_text
from lfdm_ros.inference.dataset import Dataset
from lfdm_ros.inference.identifiability import Knowledge, expected, fisher, from_draws
from lfdm_ros.inference.plan import RHO, SIGMA, Recipe
from lfdm_ros.inference.priors import Prior
from lfdm_ros.libraries import arviz
from lfdm_ros.samplers.sampler import SAMPLERS

if TYPE_CHECKING:
    from lfdm_ros.calibration.stage import StageResult

HDI = 0.94
PRIOR_QUANTILES = (0.5 - 0.5 * HDI, 0.5, 0.5 + 0.5 * HDI)
R_HAT_LIMIT = 1.01
CONTRACTION_LIMIT = 0.9  # posterior over prior standard deviation, above which the data hardly inform
CORRELATION_LIMIT = 0.95
SPEEDS = 12  # parts of the range of speeds, each with its largest lateral acceleration
FAR_OUT = 3.0  # standard deviations of its prior, from which a value and those learned with it are in doubt
BOUND_SHARE = 0.05  # of the posterior within 1 % of the prior's range from its bound
ARVIZ_COLUMNS = ("mean", "sd", "hdi_3%", "hdi_97%", "r_hat", "mcse_mean", "ess_bulk", "ess_tail")


def summary_name(variable: str) -> str:
    """Returns the name in summary.json of a variable of the PyMC model: sigma/vx for sigma.vx."""
    return variable.replace(".", "/", 1)


def summarise(recipe: Recipe, results: Sequence[StageResult], *, seed: int, draws: int, chains: int, interrupted: bool,
              continued: Sequence[str] = (), scores: Mapping[str, Mapping[str, Any]] | None = None,
              report: Callable[[str], None] = lambda message: None) -> dict[str, Any]:
    """Computes the contents of summary.json.

    The first measurement of a channel has the channel's name, later ones STAGE/CHANNEL or SEGMENT/CHANNEL. `continued`: hashes of the
    recordings of the calibration that this one continues; `scores`: by stage, from `scoring.score_stage` before the run.
    """
    report("comparing with what was measured")
    settings = SAMPLERS.find(recipe.sampler).having(recipe.options).settings
    stages = [_stage(result, recipe, settings, (scores or {}).get(result.stage.name, {})) for result in results]
    report("comparing stages and recordings with each other")
    consistency, alone = _extra(lambda: discrepancy.together(recipe, results)), _extra(lambda: discrepancy.alone(recipe, results, report))
    rmse: dict[str, Any] = {}
    covered: dict[str, Any] = {}
    unseen_rmse: dict[str, Any] = {}
    unseen_coverage: dict[str, Any] = {}
    unseen: dict[str, Any] = {}
    for stage in stages:
        for label in stage["rmse"]:
            segment, _, channel = label.rpartition(".")
            key = next(k for k in (channel, f"{segment or stage['name']}/{channel}", f"{stage['name']}/{label}") if k not in rmse)
            rmse[key], covered[key] = stage["rmse"][label], stage["coverage_90"][label]
            if label in stage["out_of_sample"]:
                unseen[key] = {name: value for name, value in stage["out_of_sample"][label].items() if name not in ("text", "model_error")}
            if label in stage["held_out"]["rmse"]:
                unseen_rmse[key], unseen_coverage[key] = stage["held_out"]["rmse"][label], stage["held_out"]["coverage_90"][label]
    warnings = list(dict.fromkeys(text for result, stage in zip(results, stages) for text in _warnings(result, stage)))
    shown = {name: row["unit"] for stage in stages for name, row in stage["parameters"].items()}
    warnings += [*discrepancy.together_warnings(consistency), *discrepancy.alone_warnings(alone, shown)]
    if interrupted:
        stopped = [result for result in results if result.run.temperature < 1.0]
        missing = [stage.name for stage in recipe.stages[len(results) - len(stopped):]]
        without = f"without stage{'s' if len(missing) > 1 else ''} {', '.join(missing)}" if missing else "with fewer draws than requested"
        warnings.insert(0, f"interrupted: {without}")
        warnings[1:1] = [f"{result.stage.name}: stopped when the data counted {result.run.temperature:.2g} of what they say; its draws are "
                         "wider than the posterior and are not passed on" for result in stopped]
    recordings = {key: recording for result in results for key, recording in result.data.recordings.items()}
    verdicts = [stage["baseline"] for stage in stages if stage["temperature"] == 1.0] or [baselines.not_compared("no stage was finished")]
    return {
        "version": __version__, "model": recipe.model, "vehicle": recipe.vehicle.name, "recipe": str(recipe.path),
        "ground": recipe.ground, "seed": seed, "draws": draws, "chains": chains, "step": recipe.step, "interrupted": interrupted,
        "note": recipe.note, "recordings": [{"name": r.name, "path": str(r.path), "sha256": r.sha256} for r in recordings.values()],
        "continued": list(continued), "held": dict(recipe.fixed), "stages": stages, "rmse": rmse, "coverage_90": covered,
        "held_out": {"rmse": unseen_rmse, "coverage_90": unseen_coverage}, "out_of_sample": unseen, "consistency": consistency,
        "recordings_alone": alone,
        # Values of the last stage are passed on.
        "baseline": next((found for found in reversed(verdicts) if found["recommended"]), verdicts[-1]), "warnings": warnings}


def _extra(check: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    # A check that fails must not cost the posterior that it is about.
    try:
        return check()
    except Exception:
        return {}


def _stage(result: StageResult, recipe: Recipe, settings: Mapping[str, float], score: Mapping[str, Any]) -> dict[str, Any]:
    stage, run, sampler = result.stage, result.run, recipe.sampler
    bicycle = _extra(lambda: fit_kinematic([data for _, data in result.data.fitted], result.after, result.likelihood.model) or {})
    bicycles = [found for found in (bicycle, _extra(lambda: baselines.fit_to_positions(result, recipe))) if found]
    fitted, unseen = ([[c.label for c in segment.channels] for segment, _ in pairs] for pairs in (result.data.fitted, result.data.held_out))
    prior, posterior = (compare(list(zip(fitted, predictives))) for predictives in (result.prior_predictive, result.posterior_predictive))
    held_out = compare(list(zip(unseen, result.held_out_predictive)))
    return {
        "name": stage.name, "sampler": sampler, "options": settings, "seconds": run.seconds, "evaluations": run.evaluations,
        "temperature": run.temperature,
        "segments": [{"name": s.name, "recordings": list(s.recordings), "window": [s.start, s.end], "state_topic": s.state_topic,
                      "split": asdict(s.split) if s.split else None, "inputs": asdict(s.inputs), "prescribed": [*map(list, s.prescribed)],
                      "channels": {c.name: {"topic": c.topic, "field": c.field, "label": c.label} for c in s.channels}}
                     for s in stage.segments],
        "data": [_piece(data) for _, data in result.data.fitted], **run.statistics,
        "log_evidence": run.statistics.get("log_evidence") if SAMPLERS.find(sampler).evidence else None,
        "parameters": _parameters(result), "passed_on": {target: result.after.parameters[target] for target in stage.targets},
        "point": {name: run.point[name] for name in result.unknowns}, "point_is": run.point_is,
        "rmse": {label: {"prior": prior[label].rmse, "posterior": compared.rmse, "prior_response": prior[label].response,
                         **of_draws(compared)} for label, compared in posterior.items()},
        "coverage_90": {label: compared.coverage for label, compared in posterior.items()},
        "errors": discrepancy.errors_of(result), "weights": result.likelihood.weights,
        "identifiability": {**score, **_extra(lambda: _identified(result))},
        "residual_lag_1": {label: compared.lag_one for label, compared in posterior.items()},
        "out_of_sample": _extra(lambda: out_of_sample(result)) if run.temperature == 1.0 else {},
        "range": _extra(lambda: _range(result)), "kinematic": bicycle, "kinematic_fits": bicycles,
        "baseline": _extra(lambda: baselines.judge_stage(result, recipe, bicycles)) or baselines.not_compared("the comparison failed"),
        "runs_away": runs_away(posterior, run.draws) + runs_away(held_out, run.draws, " of what was held out"),
        "held_out": {"pieces": len(result.data.held_out), "data": [_piece(data) for _, data in result.data.held_out],
                     "outlying": outlying(unseen, [data for _, data in result.data.held_out], result.held_out_predictive),
                     "rmse": {label: {"posterior": row.rmse, **of_draws(row)} for label, row in held_out.items()},
                     "coverage_90": {label: compared.coverage for label, compared in held_out.items()}}}


def _piece(data: Dataset) -> dict[str, Any]:
    return {"name": data.name, "recording": data.recording.name, "sha256": data.recording.sha256, "start": float(data.times[0]),
            "end": float(data.times[-1]), "interval": data.interval, "samples": int(np.isfinite(data.observed).sum())}


def _range(result: StageResult) -> dict[str, list[Any]]:
    # Least and largest speed and lateral acceleration of the runs that were fitted, and in each of equal parts of the speeds.
    motion = np.concatenate(result.likelihood.motion(np.array([result.run.point[name] for name in result.unknowns])))
    vx, ay = motion[np.isfinite(motion).all(axis=1)].T
    edges = np.linspace(vx.min(), vx.max(), SPEEDS + 1)
    part = np.clip(np.searchsorted(edges, vx, side="right") - 1, 0, SPEEDS - 1)
    by_speed = [[float(edges[i]), float(edges[i + 1]), float(np.abs(ay[part == i]).max(initial=0.0))] for i in range(SPEEDS)]
    return {"speed": [float(vx.min()), float(vx.max())], "lateral_acceleration": [0.0, float(np.abs(ay).max())], "by_speed": by_speed}


def of_draws(compared: Compared) -> dict[str, float]:
    """Returns the RMSE of the response to the representative point, and of the draws: median, 5 and 95 %."""
    return {"response": compared.response, "median": compared.median, "low": compared.low, "high": compared.high}


def runs_away(compared: Mapping[str, Compared], draws: Mapping[str, np.ndarray], where: str = "") -> list[str]:
    """Describes labels where a few draws decide over a mean over draws: the worst draw, and the unknown in which it differs from the
    others."""
    out = []
    for label, row in compared.items():
        if not row.runs_away:
            continue
        chain, draw, rmse = row.worst
        sentence = f"draw {draw} of chain {chain} has {rmse:.3g}" if math.isfinite(rmse) else f"draw {draw} of chain {chain} diverges"
        far = {name: (values[chain, draw] - values.mean()) / values.std() for name, values in draws.items()
               if values.shape[0] > chain and np.ptp(values) > 0.0 and not name.startswith((SIGMA, RHO))}
        if far:
            name = max(far, key=lambda key: abs(far[key]))
            sentence += f", with {summary_name(name)} {draws[name][chain, draw]:.4g}, {abs(far[name]):.1f} standard deviations off the mean"
        out.append(f"{label}: the mean RMSE over draws{where}, {row.rmse:.3g}, is not that of most of them (median {row.median:.3g}): "
                   + sentence)
    return out


def _identified(result: StageResult) -> dict[str, Any]:
    # Information of the data at the posterior, and of the draws.
    priors = {name: result.priors[name] for name in result.unknowns}
    draws = result.run.draws
    q = np.array([draws[name].mean() for name in priors])
    noise = [(float(draws[SIGMA + group.label].mean()), float(draws[RHO + group.label].mean()) if RHO + group.label in draws else 0.0)
             for group in result.likelihood.groups]
    information = fisher(result.likelihood, list(priors.values()), q, noise)
    posterior = from_draws(priors, draws)
    width, direction = posterior.widest()
    out: dict[str, Any] = {"posterior": {"widest": {"sd_over_prior_sd": width, "direction": direction},
                                         "untold": unidentified_groups(posterior)}}
    if information is not None:
        there = expected(priors, [information], q)
        out["at_posterior"] = {"expected": there.widths, "informed_directions": there.informed, "untold": unidentified_groups(there)}
    return out


def unidentified_groups(knowledge: Knowledge) -> list[dict[str, Any]]:
    """Returns the groups of unknowns that the data do not identify, as summary.json lists them."""
    return [group.as_dict() for group in knowledge.unidentified()]


def _unidentified(learned: Mapping[str, Any], relevant: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the groups of unknowns, with one of `relevant` among them, unidentified at the posterior, with the manoeuvre proposed by the
    score. The information comes first: a sampler may underestimate the length of a ridge."""
    found: dict[frozenset[str], dict[str, Any]] = {}
    for part in ("at_posterior", "posterior"):
        for group in learned.get(part, {}).get("untold", ()):
            key = frozenset(group["members"])
            if key & set(relevant) and not any(key & other for other in found):
                found[key] = dict(group)
    for group in learned.get("untold", ()):
        for key, row in found.items():
            if key == frozenset(group["members"]) and group.get("drive"):
                effect = ", ".join(f"{name} from {a:.2f} to {b:.2f}" for name, (a, b) in group["narrows"].items())
                row |= {"drive": group["drive"], "text": f"{row['text']}, or drive {group['drive']}: it would narrow {effect} of the prior"}
    return list(found.values())


def parameter_rows(priors: Mapping[str, Prior], draws: Mapping[str, np.ndarray], point: Mapping[str, float] | None = None,
                   error_of_mean: Mapping[str, float] | None = None) -> dict[str, dict[str, Any]]:
    """Returns the statistics of each unknown from its draws (C, N). `point`: values that are passed on, if not the means; `error_of_mean`:
    Monte Carlo errors reported by the sampler, more accurate than ArviZ's."""
    az = arviz()
    with np.errstate(invalid="ignore"):
        table = az.summary(az.from_dict(dict(draws)), hdi_prob=HDI, round_to="none")
    out = {}
    for name, prior in priors.items():
        values = draws[name]
        row: dict[str, Any] = {column: float(table.loc[name, column]) for column in ARVIZ_COLUMNS}
        # Particles share ancestors, which mcse_mean and the ESS cannot see; independent chains can.
        if name in (error_of_mean or {}):
            row["mcse_genealogy"] = (error_of_mean or {})[name]
        row["mcse_between_chains"] = float(values.mean(axis=1).std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
        row["sd_over_prior_sd"] = float(prior.relative(values).std(ddof=1))
        row["prior_deviations"] = prior.distance((point or {}).get(name, row["mean"]))
        quantiles = [float(value) for value in prior.frozen().ppf(PRIOR_QUANTILES)]
        out[name] = {**row, "unit": prior.unit, "prior": str(prior), "prior_quantiles": quantiles}
    return out


def _parameters(result: StageResult) -> dict[str, Any]:
    rows = parameter_rows(result.priors, result.run.draws, result.run.point, result.run.error_of_mean)
    for parameter in result.stage.parameters:
        rows[parameter.name]["targets"] = dict(parameter.targets)
    return {summary_name(name): row for name, row in rows.items()}


def r_hat_warnings(rows: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    """Yields a warning if chains do not agree, with all unknowns in which they do not."""
    apart = {name: row["r_hat"] for name, row in rows.items() if row["r_hat"] >= R_HAT_LIMIT}
    if apart:
        yield (f"R-hat is {R_HAT_LIMIT} or more of {', '.join(f'{name} ({value:.3f})' for name, value in apart.items())}: chains do not "
               "agree; take more draws, chains or steps (lfdm calibrate --help)")


def correlated_pairs(draws: Mapping[str, np.ndarray]) -> list[tuple[str, str, float]]:
    """Returns the pairs of unknowns whose draws (C, N) are correlated beyond CORRELATION_LIMIT."""
    names = [name for name, values in draws.items() if np.ptp(values) > 0.0]
    if len(names) < 2:
        return []
    matrix = np.corrcoef([draws[name].ravel() for name in names])
    return [(names[i], names[j], float(matrix[i, j])) for i, j in zip(*np.triu_indices(len(names), 1))
            if abs(matrix[i, j]) > CORRELATION_LIMIT]


def far_out(stage: Mapping[str, Any]) -> dict[str, float]:
    """Returns the unknowns of a stage that lie further from the middle of their priors than FAR_OUT, in the priors' standard deviations."""
    return {name: row["prior_deviations"] for name, row in stage["parameters"].items()
            if not name.startswith((summary_name(SIGMA), summary_name(RHO))) and abs(row.get("prior_deviations") or 0.0) > FAR_OUT}


def _warnings(result: StageResult, stage: Mapping[str, Any]) -> Iterable[str]:
    name, draws = stage["name"], result.run.draws
    yield from (f"{name}: {text}" for text in (*result.run.warnings, *r_hat_warnings(stage["parameters"])))
    for unknown, distance in far_out(stage).items():
        yield (f"{name}: {unknown} lies {abs(distance):.1f} standard deviations {'above' if distance > 0.0 else 'below'} the middle of its "
               "prior: the prior was a guess, or it makes up for something that the model lacks; what was learned together with it is in "
               "doubt")
    physical = [p.name for p in result.stage.parameters]
    relevant = [*physical, *(n.name for n in result.stage.nuisance)]
    groups = _unidentified(stage["identifiability"], relevant)
    yield from (f"{name}: {group['text']}" for group in groups if len(group["members"]) > 1)
    for parameter in physical:
        share = stage["parameters"][parameter]["sd_over_prior_sd"]
        if share > CONTRACTION_LIMIT:
            drive = next((group["drive"] for group in groups if parameter in group["members"] and group.get("drive")), None)
            yield (f"{name}: {parameter} is not identified, its posterior is {share:.2f} times as wide as its prior; "
                   f"hold it fixed or add a recording that excites it{f', such as {drive}' if drive else ''}")
    for variable, prior in result.priors.items():
        lower, upper = prior.bounds()
        flat = draws[variable].ravel()
        margin = 0.01 * (upper - lower)
        # The natural bound 0 of a noise is no choice of the recipe's author.
        if math.isfinite(margin) and max((flat < lower + margin).mean(), (flat > upper - margin).mean()) > BOUND_SHARE:
            yield (f"{name}: the posterior of {summary_name(variable)} lies at a bound of its prior [{lower:g}, {upper:g}]; "
                   "widen it if it was a guess")
    reported = [frozenset(group["members"]) for group in groups]
    yield from (f"{name}: {a} and {b} have correlation {r:.2f}; the data know a combination of them rather than each"
                for a, b, r in correlated_pairs({variable: draws[variable] for variable in relevant})
                if not any({a, b} <= members for members in reported))
    yield from (f"{name}: {text}" for text in (
        *discrepancy.fit_warnings(stage["rmse"]), *discrepancy.error_warnings(stage["errors"]),
        *out_of_sample_warnings(stage["out_of_sample"]), *stage["held_out"]["outlying"], *stage["runs_away"]))
    yield from result.data.notes


def write_json(path: Path, summary: Mapping[str, Any]) -> None:
    """Writes standard JSON: values that are not finite become null."""
    write_text(path, json.dumps(_finite(summary), indent=2) + "\n")


def _finite(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {str(key): _finite(value) for key, value in node.items()}
    if isinstance(node, (list, tuple)):
        return [_finite(value) for value in node]
    if isinstance(node, (float, np.floating)):
        return float(node) if math.isfinite(node) else None
    return node
