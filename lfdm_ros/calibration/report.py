"""report.html: one file with its figures, for the decision whether to trust a calibrated vehicle."""

from __future__ import annotations

import html
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lfdm_ros.calibration import plots
from lfdm_ros.calibration.baselines import MODEL
from lfdm_ros.calibration.discrepancy import apart
from lfdm_ros.calibration.out_of_sample import HELD_OUT, NEARLY, right
from lfdm_ros.calibration.pieces import Piece, worst
from lfdm_ros.calibration.predictive import Predictive, evenly
from lfdm_ros.calibration.summary import far_out, summary_name
from lfdm_ros.inference.dataset import Dataset
from lfdm_ros.inference.identifiability import in_words
from lfdm_ros.inference.plan import SIGMA, Recipe
from lfdm_ros.models import get_model
from lfdm_ros.reports import html_page, html_table
from lfdm_ros.samplers.sampler import SAMPLERS

if TYPE_CHECKING:
    from lfdm_ros.calibration.stage import StageResult

FIGURES = 4  # data sets that are shown
MAX_TRACES = 24  # unknowns with traces
GOOD, FAIR, BAD = "good", "fair", "bad"
KNOWLEDGE = ((0.1, "well known"), (0.5, "known"), (0.9, "hardly known"))  # posterior over prior standard deviation, below which


def calibration_report(recipe: Recipe, results: Sequence[StageResult], summary: Mapping[str, Any]) -> str:
    """Writes the page of a calibration; `summary` is the content of summary.json."""
    parts = [f"<h1>Calibration of {_e(summary['vehicle'])}, model {_e(summary['model'])}</h1>", _verdict(summary),
             f"<p class=small>Recipe {_e(recipe.path.name)}, {summary['chains']} chains of {summary['draws']} draws. "
             f"{_origin(summary)}</p>"]
    if summary["interrupted"]:
        parts.append("<p class=warn><b>Interrupted.</b> This is what had been found when it was stopped; the same command goes on.</p>")
    parts += _continued(summary)
    if recipe.note:
        parts.append(f"<p class=note>{_e(recipe.note)}</p>")
    parts += ["<h2>What was learned</h2>", _learned(results, summary), "<h2>How sure this is</h2>", *_confidence(summary),
              "<h2>What could not be learned, and what to drive next</h2>", *_unidentified(summary),
              "<h2>Does the model fit?</h2><p>RMSE of the response to the values that are passed on, and beside it the middle 90 % of the "
              "RMSEs of single draws; of the prior, that of its medians. Out of sample: of pieces that were held out, or left out in turn; "
              "the share of the measurements inside the 90 % interval there, by parameters and noise alone and widened by the model error "
              "that was learned.</p>", _fit_table(summary), *_errors(summary), *_contradictions(summary), *_warnings(summary["warnings"])]
    for result, stage in zip(results, summary["stages"]):
        parts += _stage(result, stage, recipe.model)
    parts += _provenance(recipe, summary)
    return html_page(f"Calibration of {_e(summary['vehicle'])}", parts)


def _verdict(summary: Mapping[str, Any]) -> str:
    found = summary["baseline"]
    return f"<p class={'note' if found['recommended'] == MODEL else 'warn'}><b>{_e(found['text'])}</b></p>"


def _learned(results: Sequence[StageResult], summary: Mapping[str, Any]) -> str:
    rows = []
    for result, stage in zip(results, summary["stages"]):
        physical = {parameter.name for parameter in result.stage.parameters}
        doubt = "; ".join(f"{name} lies {abs(far):.1f} prior deviations out" for name, far in far_out(stage).items())
        for name, row in stage["parameters"].items():
            if name not in physical:
                continue
            share = row["sd_over_prior_sd"]
            word = next((text for limit, text in KNOWLEDGE if share < limit), "not learned")
            if doubt and share < KNOWLEDGE[-1][0]:
                word = f"in doubt: {doubt}"
            rows.append((f"{in_words([name])} ({name})", _with_error(row["mean"], row["sd"]), row["unit"],
                         f"{1.0 / share:.0f} times narrower" if 0.0 < share < 0.5 else f"{share:.2f} times as wide", word, stage["name"]))
    return html_table(("parameter", "value ± standard deviation", "unit", "than before the data", "so it is", "from stage"), rows)


def _confidence(summary: Mapping[str, Any]) -> Iterable[str]:
    for stage in summary["stages"]:
        items = [f"<li><span class={light}>{word}</span> {_e(text)}</li>" for light, word, text in _lights(stage, summary)]
        yield f"<h3>Stage {_e(stage['name'])}</h3><ul class=lights>{''.join(items)}</ul>"


def _lights(stage: Mapping[str, Any], summary: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    def light(value: str, text: str) -> tuple[str, str, str]:
        return value, {GOOD: "yes", FAIR: "with care", BAD: "no"}[value], text

    if stage["temperature"] < 1.0:
        yield light(BAD, f"stopped when the data counted {stage['temperature']:.2g} of what they say: intervals are too wide, values not "
                    "final")
    rows = stage["parameters"].values()
    sampler = SAMPLERS.find(stage["sampler"])
    if not sampler.exact:
        pareto = stage.get("pareto_k", math.nan)
        yield light(GOOD if pareto < 0.7 else FAIR, f"that {sampler.approximation} describes the uncertainty is "
                    f"{'right' if pareto < 0.7 else 'doubtful'} (Pareto k {_number(pareto, 2)}, right below 0.7)")
    else:
        worst = max((row["r_hat"] for row in rows if math.isfinite(row["r_hat"])), default=math.nan)
        if math.isnan(worst):
            yield light(FAIR, "one run alone cannot show whether it found all there is; take more chains")
        else:
            yield light(GOOD if worst < 1.01 else FAIR if worst < 1.05 else BAD,
                        f"{summary['chains']} independent runs {'agree' if worst < 1.01 else 'differ'} about every unknown "
                        f"(R-hat {_number(worst, 4)} at most; 1 is perfect, below 1.01 is required)")
        smallest_ess = min((row["ess_bulk"] for row in rows if math.isfinite(row["ess_bulk"])), default=math.nan)
        yield light(GOOD if smallest_ess >= 400 else FAIR if smallest_ess >= 100 else BAD,
                    f"the draws are worth at least {_number(smallest_ess, 3)} independent ones (ESS; 400 are enough for intervals)")
    unseen = stage["out_of_sample"]
    for label, row in stage["errors"].items():
        slow = row["widening"] if row["assumed"] == "white" and not row["white"] else 1.0
        text = row["text"] + (f"; intervals of what it informs may be {slow:.1f} times too narrow" if slow > 1.0 else "")
        # Fitted data can refute intervals but not confirm them.
        wrong = not 0.75 <= row["coverage_90"] <= 0.99
        yield light(BAD if wrong or slow >= 3.0 else FAIR if slow > 1.0 or label not in unseen else GOOD, text)
    for row in unseen.values():
        yield light(GOOD if right(row) else FAIR if row["coverage_90"] >= NEARLY else BAD, row["text"])


def _unidentified(summary: Mapping[str, Any]) -> Iterable[str]:
    found = []
    for stage in summary["stages"]:
        data = stage["identifiability"]
        names = [group for part in (data, data.get("at_posterior", {}), data.get("posterior", {})) for group in part.get("untold", ())]
        listed: list[set[str]] = []
        # Noise and initial states do not affect the choice of manoeuvres.
        relevant = {name for name in stage["parameters"] if not name.startswith(("sigma/", "rho/", "initial/"))}
        for group in names:
            members = {summary_name(member) for member in group["members"]}
            if members & relevant and members not in listed:
                listed.append(members)
                found.append(f"<li>Stage {_e(stage['name'])}: {_e(group['text'])}.</li>")
    yield f"<ul>{''.join(found)}</ul>" if found else "<p>The recordings tell all unknown parameters, and tell them apart.</p>"
    for stage in summary["stages"]:
        data = stage["identifiability"]
        if "expected" in data:
            shares = ", ".join(f"{_e(name)} {share:.2g}" for name, share in data["expected"].items() if name in stage["parameters"]
                               and "targets" in stage["parameters"][name])
            yield (f"<p class=small>Stage {_e(stage['name'])}: width expected before sampling, as a share of the prior's: {shares}; "
                   f"{data['informed_directions']} of {data['unknowns']} directions are determined.</p>")


def _errors(summary: Mapping[str, Any]) -> Iterable[str]:
    rows = [(f"{stage['name']}: {label}", row["assumed"], row["needed"], _number(row["lag_1"], 2), _number(row["ljung_box_p"], 2),
             f"{row['effective_samples']:.0f} of {row['samples']}", f"{row['widening']:.1f}", f"{row['coverage_50']:.0%}",
             f"{row['coverage_90']:.0%}")
            for stage in summary["stages"] for label, row in stage["errors"].items()]
    yield ("<h3>Are the errors noise?</h3><p>If the model were right, what is left would be noise: uncorrelated from sample to sample. "
           "Where it is not, the model misses something, and the samples tell less than their number. Widening: how many times wider "
           "intervals should be than with white noise; errors taken as ar1 or inflated have it already.</p>")
    yield html_table(("channel", "errors taken as", "would need", "lag-1 correlation", "p of white noise", "samples worth", "widening",
                      "in 50 %", "in 90 %"), rows)


def _contradictions(summary: Mapping[str, Any]) -> Iterable[str]:
    together, alone = summary.get("consistency") or {}, summary.get("recordings_alone") or {}
    if not together and not alone:
        return
    yield "<h3>Do stages and recordings agree with each other?</h3>"
    if together:
        yield "<p>RMSE of each stage with its own fit, and with the final vehicle put back into its recordings.</p>"
        yield html_table(("stage and channel", "own fit", "final vehicle", "ratio"),
                         [(key, _number(row["own"], 4), _number(row["together"], 4), f"{row['together'] / row['own']:.2f}")
                          for key, row in together.items()])
    if alone:
        yield "<p>What each recording alone would say of unknowns that several recordings know.</p>"
        yield html_table(("unknown", "recording", "alone", "largest distance"),
                         [(name if i == 0 else "", key, _with_error(row["estimate"], row["sd"]),
                           f"{apart(rows)[2]:.1f} sd" if i == 0 else "")
                          for name, rows in alone.items() for i, (key, row) in enumerate(rows.items())])


def _continued(summary: Mapping[str, Any]) -> Iterable[str]:
    if summary["continued"]:
        new = [r["name"] for r in summary["recordings"] if r["sha256"] not in summary["continued"]]
        before = len(summary["continued"])
        quantity = "1 recording, which stays" if before == 1 else f"{before} recordings, which stay"
        yield (f"<p class=note>This continues an earlier calibration of {quantity} in the likelihood; new: "
               f"{_e(', '.join(new) or 'none')}.</p>")


def _provenance(recipe: Recipe, summary: Mapping[str, Any]) -> Iterable[str]:
    yield "<h2>Where this comes from</h2>"
    yield html_table(("recording", "SHA-256", "path"), [(r["name"], r["sha256"], r["path"]) for r in summary["recordings"]])
    yield (f"<p class=small>Seed {summary['seed']}, step {summary['step']:g} s, lfdm_ros {_e(summary['version'])}, Python "
           f"{platform.python_version()}, NumPy {np.__version__}.</p><h3>Recipe {_e(recipe.path.name)}</h3><pre>{_e(recipe.text)}</pre>")


def _with_error(value: float, error: float) -> str:
    """Rounds a value to the digits that its error, given to two, leaves."""
    if not (math.isfinite(value) and math.isfinite(error) and error > 0.0):
        return _number(value)
    places = 1 - math.floor(math.log10(error))
    return f"{round(value, places):.{max(0, places)}f} ± {round(error, places):.{max(0, places)}f}"


def prediction_report(summary: Mapping[str, Any], datasets: Sequence[Dataset], predictives: Sequence[Predictive],
                      sigma: Mapping[int, float], pieces: Sequence[Piece]) -> str:
    """Writes the page of a prediction: responses of the worst data sets; sigma: column -> inferred noise."""
    labels = channel_labels(summary["rmse"], summary["model"])
    shown = worst(pieces, FIGURES)
    which = f" of the {len(shown)} worst of {len(datasets)} pieces" if len(datasets) > len(shown) else ""
    parts = [f"<h1>Prediction of {_e(summary['recordings'][0]['name'])} by {_e(summary['vehicle'])}, model {_e(summary['model'])}</h1>",
             _verdict(summary), f"<p class=small>{_e(summary['split'])}; {summary['draws']} draws. {_origin(summary)}</p>",
             *_warnings(summary["warnings"]), "<h2>Error</h2>", f"<p>RMSE of the response to the {_e(summary['point_is'])}; the kinematic "
             "bicycle has the same inputs and the recorded speed" + (", and a steering lag, scale and offset fitted to what was calibrated "
                                                                     "with" if summary["kinematic"] else "") + ".</p>",
             _prediction_table(summary), f"<h2>Responses and residuals{which}</h2>",
             "<p>Residuals: measured minus response; the band is 2 sigma of the noise inferred in calibration, if any.</p>"]
    for data, predictive in [(datasets[i], predictives[i]) for i in shown]:
        if len(datasets) > 1:
            parts.append(f"<h3>[{data.times[0]:.2f}, {data.times[-1]:.2f}] s</h3>")
        parts += [plots.to_image(plots.overview([predictive.times], [predictive.observed], [predictive.sample], labels)),
                  plots.to_image(plots.residual_plot(predictive.times, predictive.residuals, labels, sigma))]
    return html_page("Prediction", parts)


def _stage(result: StageResult, stage: Mapping[str, Any], model: str) -> Iterable[str]:
    labels = {name: summary_name(name) + (f" [{prior.unit}]" if prior.unit else "") for name, prior in result.priors.items()}
    draws = result.run.draws
    ordered = {name: draws[name] for name in list(result.priors)[:MAX_TRACES]}
    physical = {parameter.name: draws[parameter.name] for parameter in result.stage.parameters}
    yield f"<h2>Evidence: stage {_e(stage['name'])}</h2>"
    passed_on = ", ".join(f"{_e(target)} = {value:.6g}" for target, value in stage["passed_on"].items())
    pieces = [f"{_e(d['recording'])} [{d['start']:.2f}, {d['end']:.2f}] s" for d in stage["data"]]
    where = "; ".join(pieces[:6]) + (f" and {len(pieces) - 6} more pieces" if len(pieces) > 6 else "")
    evidence = "" if stage["log_evidence"] is None else (
        f"Log evidence {stage['log_evidence']:.2f}: of two models, or two sets of priors, of the same data the one with more of it is the "
        "likelier, by exp of the difference. ")
    yield (f"<p class=small>{where}. {_e(result.run.account)}; {stage['evaluations']} simulations in {stage['seconds']:.1f} s. {evidence}"
           f"Passed on ({_e(result.run.point_is)}): {passed_on}. {_e(SAMPLERS.find(stage['sampler']).reading)}</p>")
    yield _parameter_table(stage["parameters"])
    yield "<h3>Posterior (blue, 94 % interval shaded) and prior (orange)</h3>"
    yield plots.to_image(plots.posteriors(ordered, result.priors, labels))
    shown = list(zip(result.data.fitted, result.prior_predictive, result.posterior_predictive))
    yield ("<h3>Responses</h3><p>90 % bands. Below them what is left: measured minus response, with 2 sigma of the inferred noise, "
           "and its correlation with the samples before; bars outside the grey band are what the model misses.</p>")
    for (segment, data), prior, posterior in (shown[i] for i in evenly(len(shown), FIGURES)):
        channels = channel_labels(data.channels, model)
        sigma = {i: float(draws[SIGMA + c.label].mean()) for i, c in enumerate(segment.channels)}
        if len(shown) > 1:
            yield f"<h4>{_e(data.recording.name)} [{data.times[0]:.2f}, {data.times[-1]:.2f}] s</h4>"
        left = posterior.residuals
        noisy = posterior.noisy.reshape(-1, *posterior.noisy.shape[2:])
        yield plots.to_image(plots.responses(posterior.times, posterior.observed, prior.sample, posterior.sample, noisy, channels))
        yield plots.to_image(plots.residual_plot(posterior.times, left, channels, sigma))
        yield plots.to_image(plots.autocorrelations(left, channels))
    held_out = list(zip(result.data.held_out, result.held_out_predictive))
    for (_, data), predictive in (held_out[i] for i in evenly(len(held_out), FIGURES)):
        channels = channel_labels(data.channels, model)
        yield f"<h4>Held out: {_e(data.recording.name)} [{data.times[0]:.2f}, {data.times[-1]:.2f}] s</h4>"
        yield plots.to_image(plots.overview([predictive.times], [predictive.observed], [predictive.sample], channels))
    if len(physical) > 1:
        yield "<h3>Pairs of parameters</h3>" + plots.to_image(plots.pairs(physical, labels))
    if len(ordered) > 1:
        yield "<h3>Correlations</h3>" + plots.to_image(plots.correlations(ordered, labels))
    yield "<h3>Chains</h3>" + plots.to_image(plots.traces(ordered, labels))
    yield ("<h3>Effective sample size</h3><p>It should rise steadily with the number of draws.</p>"
           + plots.to_image(plots.ess_evolution(physical or ordered, labels)))
    scalars = [(key, _number(value, 4) if isinstance(value, float) else str(value)) for key, value in result.run.statistics.items()
            if isinstance(value, (str, int, float))]
    if scalars:
        yield "<h3>Sampler</h3>" + html_table(("statistic", "value"), scalars)


def _parameter_table(parameters: Mapping[str, Mapping[str, Any]]) -> str:
    head = ("parameter", "mean", "sd", "3 %", "97 %", "unit", "prior", "R-hat", "ESS bulk", "ESS tail", "error of mean")
    rows = [(name, *(_number(row[k]) for k in ("mean", "sd", "hdi_3%", "hdi_97%")), row["unit"], row["prior"], _number(row["r_hat"], 5),
             _number(row["ess_bulk"], 4), _number(row["ess_tail"], 4), _number(row["mcse_between_chains"], 2))
            for name, row in parameters.items()]
    return html_table(head, rows)


def _fit_table(summary: Mapping[str, Any]) -> str:
    unseen = summary["out_of_sample"]
    rows = []
    for channel, row in summary["rmse"].items():
        out = unseen.get(channel, {})
        rows.append((channel, _number(row["prior_response"], 4), _number(row["response"], 4), _spread(row),
                     _number(summary["coverage_90"].get(channel), 3), _number(out.get("rmse"), 4),
                     f"{out['pieces']} {'held out' if out['source'] == HELD_OUT else 'left out in turn'}" if out else "–",
                     _number(out.get("coverage_90"), 3), _number(out.get("coverage_90_widened"), 3)))
    return html_table(("channel", "RMSE, prior", "RMSE, posterior", "its draws", "coverage of 90 %, fitted", "RMSE, out of sample",
                       "pieces", "coverage there", "coverage there, widened"), rows)


def _spread(row: Mapping[str, Any]) -> str:
    return f"{_number(row['low'], 4)} to {_number(row['high'], 4)}"


def _prediction_table(summary: Mapping[str, Any]) -> str:
    has_draws = summary["draws"] > 1
    rows = [(f"{channel} (fitted)" if channel in summary["fitted"] else channel, _number(row["response"], 4),
             *((_spread(row),) if has_draws else ()), _number(row.get("before"), 4), _number(row.get("kinematic"), 4),
             _number(summary["coverage_90"][channel], 3), _number(summary["coverage_90_without_model_error"][channel], 3))
            for channel, row in summary["rmse"].items()]
    if summary["position"]:
        position = summary["position"]
        rows.append(("position", _number(position.get("response"), 4), *(("",) if has_draws else ()), _number(position.get("before"), 4),
                     _number(position.get("kinematic"), 4), "–", "–"))
    return html_table(("channel", "RMSE", *(("of single draws, 5 to 95 %",) if has_draws else ()), "RMSE, the vehicle as it was",
                       "RMSE, kinematic bicycle", "coverage of 90 %", "without model error"), rows)


def _warnings(warnings: Sequence[str]) -> list[str]:
    return [f"<div class=warn><b>Warnings</b><ul>{''.join(f'<li>{_e(w)}</li>' for w in warnings)}</ul></div>"] if warnings else []


def _origin(summary: Mapping[str, Any]) -> str:
    recordings = ", ".join(f"{_e(r['name'])} (sha256 {_e(r['sha256'][:12])})" for r in summary["recordings"])
    return f"Seed {summary['seed']}, lfdm_ros {_e(summary['version'])}. Recordings: {recordings}."


def channel_labels(channels: Iterable[str], model: str) -> list[str]:
    """Returns the channels with their units, for figures."""
    units = {field.name: field.unit for field in get_model(model).states}
    return [f"{channel} [{units[channel]}]" for channel in channels]


def _number(value: float | None, digits: int = 5) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}g}"


def _e(text: Any) -> str:
    return html.escape(str(text))
