"""report.html: one file, figures inside, for whoever has to decide whether to trust a calibrated vehicle."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lfdm_ros.calibration import plots
from lfdm_ros.calibration.dataset import Dataset
from lfdm_ros.calibration.plan import RHO, SIGMA, Recipe
from lfdm_ros.calibration.predictive import Predictive, residuals
from lfdm_ros.calibration.summary import summary_name
from lfdm_ros.models import Field, get_model

if TYPE_CHECKING:
    from lfdm_ros.calibration.stage import StageResult

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #1b1b1b; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.6rem; }} h2 {{ margin-top: 2.5rem; border-bottom: 1px solid #ccc; }} h3 {{ margin-bottom: .3rem; font-size: 1rem; }}
table {{ border-collapse: collapse; font-size: .85rem; margin: .7rem 0; }}
th, td {{ padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #e3e3e3; font-variant-numeric: tabular-nums; }}
th:first-child, td:first-child {{ text-align: left; }} img {{ max-width: 100%; }}
.note {{ background: #f3f6f9; border-left: 4px solid #0b6fa4; padding: .6rem 1rem; }}
.warn {{ background: #fdf4e7; border-left: 4px solid #c26a00; padding: .6rem 1rem; }} .small {{ color: #555; font-size: .85rem; }}
</style></head><body>
{body}
</body></html>
"""

FIGURES = 4  # data sets that are shown

# How to read the columns and figures about the draws.
_READING = {
    "smc": "R-hat below 1.01 and ESS that rises linearly say that the chains agree. Particles of one chain share ancestors, so ArviZ's ESS "
           "and MCSE flatter; the error column comes from the spread of the independent chains.",
    "least_squares": "The draws are independent ones from the Gaussian at the optimum: R-hat and ESS only say how many they are. Whether "
                     "that Gaussian is the posterior is what Pareto k in summary.json says: below 0.7 it is close.",
}


def calibration_report(recipe: Recipe, results: Sequence[StageResult], summary: Mapping[str, Any]) -> str:
    """The page of a calibration; `summary` is what summary.json says."""
    parts = [f"<h1>Calibration of {_e(summary['vehicle'])}, model {_e(summary['model'])}</h1>",
             f"<p class=small>Recipe {_e(recipe.path.name)}, {summary['chains']} chains of {summary['draws']} draws. "
             f"{_origin(summary)}</p>"]
    if recipe.note:
        parts.append(f"<p class=note>{_e(recipe.note)}</p>")
    parts += _warnings(summary["warnings"])
    parts += ["<h2>Fit</h2><p>Mean RMSE of 100 responses against the measurements, and the share of the measurements inside the 90 % "
              "interval of the posterior predictive.</p>", _fit_table(summary)]
    for result, stage in zip(results, summary["stages"]):
        parts += _stage(result, stage, _fields(recipe.model))
    parts.append(f"<p class=small>{_READING[recipe.sampler]}</p>")
    return _PAGE.format(title=f"Calibration of {_e(summary['vehicle'])}", body="\n".join(parts))


def prediction_report(summary: Mapping[str, Any], datasets: Sequence[Dataset], predictives: Sequence[Predictive],
                      sigma: Mapping[int, float]) -> str:
    """The page of a prediction: responses of each data set; sigma: column -> inferred noise."""
    labels = [_label(channel, _fields(summary["model"])) for channel in summary["rmse"]]
    start, end = summary["window"]
    parts = [f"<h1>Prediction of {_e(summary['recordings'][0]['name'])} by {_e(summary['vehicle'])}, model {_e(summary['model'])}</h1>",
             f"<p class=small>Window [{start:g}, {end:g}) s, {summary['draws']} draws. {_origin(summary)}</p>",
             *_warnings(summary["warnings"]), "<h2>Error</h2>", _fit_table(summary), "<h2>Responses and residuals</h2>",
             "<p>Residuals: measured minus mean response; the band is 2 sigma of the noise inferred in calibration, where there is one.</p>"]
    for data, predictive in _some(list(zip(datasets, predictives))):
        if len(datasets) > 1:
            parts.append(f"<h3>[{data.times[0]:.2f}, {data.times[-1]:.2f}] s</h3>")
        parts += [_image(plots.predictions(data.times, data.observed, predictive.sample, labels)),
                  _image(plots.residual_plot(data.times, residuals(predictive.responses, data.observed), labels, sigma))]
    return _PAGE.format(title="Prediction", body="\n".join(parts))


def _some(items: Sequence[Any]) -> Sequence[Any]:
    """At most FIGURES of them, evenly."""
    return [items[i] for i in np.unique(np.linspace(0, len(items) - 1, FIGURES).astype(int))]


def _stage(result: StageResult, stage: Mapping[str, Any], fields: Mapping[str, Field]) -> Iterable[str]:
    labels = {name: summary_name(name) + (f" [{prior.unit}]" if prior.unit else "") for name, prior in result.priors.items()}
    physical = [name for name in result.priors if not name.startswith((SIGMA, RHO))]
    draws = result.run.draws
    ordered = {name: draws[name] for name in result.priors}
    yield f"<h2>Stage {_e(stage['name'])}</h2>"
    passed_on = ", ".join(f"{_e(target)} = {value:.6g}" for target, value in stage["passed_on"].items())
    where = "; ".join(f"{_e(d['recording'])} [{d['start']:.2f}, {d['end']:.2f}] s" for d in stage["data"])
    yield (f"<p class=small>{where}. {_e(result.run.account)}; {stage['evaluations']} simulations in {stage['seconds']:.1f} s. "
           f"Passed on ({_e(result.run.point_is)}): {passed_on}.</p>")
    yield _parameter_table(stage["parameters"])
    yield "<h3>Posterior (blue, 94 % interval shaded) and prior (orange)</h3>" + _image(plots.posteriors(ordered, result.priors, labels))
    shown = list(zip(result.data.fitted, result.prior_predictive, result.posterior_predictive))
    yield ("<h3>Responses and residuals</h3><p>Residuals: measured minus mean response, with 2 sigma of the inferred noise. "
           "What is not white is what the model misses.</p>")
    for (segment, data), prior, posterior in _some(shown):
        channels = [_label(channel, fields) for channel in data.channels]
        sigma = {i: float(draws[SIGMA + c.label].mean()) for i, c in enumerate(segment.channels)}
        if len(shown) > 1:
            yield f"<h4>{_e(data.recording.name)} [{data.times[0]:.2f}, {data.times[-1]:.2f}] s</h4>"
        yield _image(plots.responses(data.times, data.observed, prior.sample, posterior.sample, channels))
        yield _image(plots.residual_plot(data.times, residuals(posterior.responses, data.observed), channels, sigma))
    yield "<h3>Chains</h3>" + _image(plots.traces(ordered, labels))
    yield "<h3>Effective sample size</h3>" + _image(plots.ess_evolution({name: draws[name] for name in physical}, labels))
    if len(ordered) > 1:
        yield "<h3>Correlations</h3>" + _image(plots.correlations(ordered, labels))


def _parameter_table(parameters: Mapping[str, Mapping[str, Any]]) -> str:
    head = ("parameter", "mean", "sd", "3 %", "97 %", "unit", "prior", "R-hat", "ESS bulk", "ESS tail", "error of mean")
    rows = [(name, *(_number(row[k]) for k in ("mean", "sd", "hdi_3%", "hdi_97%")), row["unit"], row["prior"], _number(row["r_hat"], 5),
             _number(row["ess_bulk"], 4), _number(row["ess_tail"], 4), _number(row["mcse_between_chains"], 2))
            for name, row in parameters.items()]
    return _table(head, rows)


def _fit_table(summary: Mapping[str, Any]) -> str:
    kinds = list(dict.fromkeys(kind for row in summary["rmse"].values() for kind in row))
    rows = [(channel, *(_number(row.get(kind), 4) for kind in kinds), _number(summary["coverage_90"].get(channel), 3))
            for channel, row in summary["rmse"].items()]
    return _table(("channel", *(f"RMSE, {kind}" for kind in kinds), "coverage of 90 %"), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{_e(cell)}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line(head, "th") + "".join(line(row, "td") for row in rows) + "</table>"


def _warnings(warnings: Sequence[str]) -> list[str]:
    return [f"<div class=warn><b>Warnings</b><ul>{''.join(f'<li>{_e(w)}</li>' for w in warnings)}</ul></div>"] if warnings else []


def _origin(summary: Mapping[str, Any]) -> str:
    recordings = ", ".join(f"{_e(r['name'])} (sha256 {_e(r['sha256'][:12])})" for r in summary["recordings"])
    return f"Seed {summary['seed']}, lfdm_ros {_e(summary['version'])}. Recordings: {recordings}."


def _fields(model: str) -> dict[str, Field]:
    return {field.name: field for field in get_model(model).states}


def _label(state: str, fields: Mapping[str, Field]) -> str:
    return f"{state} [{fields[state].unit}]"


def _image(figure: Any) -> str:
    return f'<img alt="" src="{plots.to_png(figure)}">'


def _number(value: float | None, digits: int = 5) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}g}"


def _e(text: Any) -> str:
    return html.escape(str(text))
