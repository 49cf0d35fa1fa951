"""Whether a model is worth more than the best simple thing: against a kinematic bicycle, piece by piece, on what was not fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lfdm_ros.calibration.baselines import can_steer, fit_kinematic, kinematic
from lfdm_ros.calibration.pieces import PLACE
from lfdm_ros.inference.dataset import Dataset, Window, load_segment, on_ground, recorded_states
from lfdm_ros.inference.likelihood import RolloutLikelihood
from lfdm_ros.inference.plan import MISALIGNMENT, Channel, Recipe, Segment
from lfdm_ros.vehicles import Vehicle

if TYPE_CHECKING:
    from lfdm_ros.calibration.stage import StageResult

MODEL, KINEMATIC, EITHER = "model", "kinematic_bicycle", "either"
AFTER = 5.0  # [s] from the start of a piece, when its position is judged
LEAST = 3  # pieces, of fewer of which the differences have no standard error worth the name
# What decides, first to last: where the vehicle will be, where it points, how it turns; and how it slips, where that was fitted.
JUDGED = {"position": "m", "yaw": "rad", "yaw_rate": "rad/s", "vy": "m/s"}
RECORDED = (*PLACE, "yaw", "yaw_rate")  # compared wherever they were recorded, fitted or not


def fit_to_way(result: StageResult, recipe: Recipe) -> dict[str, float]:
    """Nuisances of a kinematic bicycle that is fitted to the positions of the pieces of a stage; empty where none were recorded."""
    datasets = [_with_way(segment, data, recipe, result.after) for segment, data in result.data.fitted]
    return fit_kinematic(datasets, result.after, result.likelihood.model, (PLACE,)) or {}


def judge_stage(result: StageResult, recipe: Recipe, fits: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """The verdict on a stage, by the pieces that its split held out, with all that was recorded there of the way.

    Args:
        fits: nuisances of kinematic bicycles that were fitted to the same pieces as the stage.

    Returns:
        As `judge`.
    """
    if not result.data.held_out:
        return nothing("no pieces were held out; a `split` with `take: even` holds every other one out")
    if not fits:
        return nothing("none could be fitted: it takes a speed, a steering angle, and a yaw rate or positions")
    stage, point, model = result.stage, result.run.point, result.likelihood.model
    datasets = [_with_way(segment, data, recipe, result.after) for segment, data in result.data.held_out]
    nuisances = [n.name for n in stage.nuisance]
    likelihood = RolloutLikelihood(datasets, model=model, vehicle=result.after, step=recipe.step,
                                   unknowns=[p.targets for p in stage.parameters], nuisances=nuisances)
    at = np.array([point[name] for name in (*(p.name for p in stage.parameters), *nuisances)])
    own = {name: point[name] for name in nuisances}
    return judge(likelihood, at, result.after, [baseline_nuisances(own, fitted) for fitted in fits], set(stage.channels))


def baseline_nuisances(point: Mapping[str, float], fitted: Mapping[str, float] | None) -> dict[str, float]:
    """Those that a kinematic bicycle is held against a model with: its own, and the misalignment of the heading; where none was fitted, the
    model's."""
    return {name: value for name, value in point.items() if not fitted or name == MISALIGNMENT} | dict(fitted or {})


def judge(likelihood: RolloutLikelihood, point: np.ndarray, vehicle: Vehicle, baselines: Sequence[Mapping[str, float]],
          fitted: set[str]) -> dict[str, Any]:
    """Compares a model with the best kinematic bicycle on pieces that neither was fitted to.

    In each piece both have an error: the distance of the positions AFTER seconds after its start, or at its end where all are shorter, and
    the RMSE of the other channels in JUDGED. The first of these in which the mean of the differences over the pieces is larger than its
    standard error decides.

    Args:
        likelihood: of the pieces.
        point: of its unknowns.
        baselines: nuisances of each kinematic bicycle, which has the inputs and, where the speed is not prescribed, the speed of the
            model. Of several the one that errs least in what is judged first.
        fitted: channels; of others vy is not compared, which depends on the place it is measured at.

    Returns:
        For summary.json: recommended (MODEL, KINEMATIC, EITHER where nothing decides, None where nothing could be compared), text, pieces,
        after [s], nuisances of the baseline and, by what is judged, the mean errors `model` and `kinematic`, `difference` of the former and
        the latter with its `standard_error`.
    """
    if not can_steer(likelihood.model, vehicle):
        return nothing("the angle of its front wheels is not a function of the steering")
    datasets = likelihood.datasets
    responses, motions = [own[0] for own in likelihood.responses(point[None])], likelihood.motion(point)
    found = [_against(datasets, responses, motions, vehicle, likelihood.model, baseline, fitted) for baseline in baselines]
    return min(found, key=lambda own: next((row["kinematic"] for row in own.get("compared", {}).values()), np.inf))


def _against(datasets: Sequence[Dataset], responses: Sequence[np.ndarray], motions: Sequence[np.ndarray], vehicle: Vehicle, model: str,
             baseline: Mapping[str, float], fitted: set[str]) -> dict[str, Any]:
    """As `judge`, with one baseline; responses (K, C) and motions (K, 2) of the model."""
    simple = [kinematic(data, vehicle, model, baseline, None if "vx" in data.following else motion[:, 0])
              for data, motion in zip(datasets, motions)]
    after = min(AFTER, float(np.median([data.times[-1] - data.times[0] + data.interval for data in datasets])))
    errors: dict[str, list[tuple[float, float]]] = {}
    for data, own, other in zip(datasets, responses, simple):
        if other is None:
            continue
        for name in JUDGED:
            if name != "vy" or name in fitted:
                pair = _error(data, own, name, after), _error(data, other, name, after)
                if np.isfinite(pair[1]) and not np.isnan(pair[0]):
                    errors.setdefault(name, []).append(pair)
    rows = {name: _row(np.array(pairs)) for name, pairs in errors.items() if len(pairs) >= LEAST}
    if not rows:
        return nothing(f"that takes at least {LEAST} pieces, not {len(datasets)}" if len(datasets) < LEAST else
                       f"fewer than {LEAST} pieces have a position, heading or yaw rate")
    decides = next((name for name, row in rows.items() if abs(row["difference"]) > row["standard_error"]), None)
    recommended = EITHER if decides is None else KINEMATIC if rows[decides]["difference"] > 0.0 else MODEL
    found = {"recommended": recommended, "decided_by": decides, "pieces": max(row["pieces"] for row in rows.values()), "after": after,
             "nuisances": dict(baseline), "compared": rows}
    return {**found, "text": _words(found, model)}


def nothing(why: str) -> dict[str, Any]:
    """The verdict where nothing could be compared."""
    return {"recommended": None, "text": f"Nothing could be compared with a kinematic bicycle: {why}."}


def _words(found: Mapping[str, Any], model: str) -> str:
    name, rows = found["decided_by"], found["compared"]

    def said(which: str) -> str:
        row, what = rows[which], f"position after {found['after']:.3g} s" if which == "position" else which
        return (f"{what}, {row['model']:.3g} {JUDGED[which]} against {row['kinematic']:.3g} (difference {row['difference']:.2g} ± "
                f"{row['standard_error']:.2g})")

    every = "; ".join(said(which) for which in rows)
    own = ", ".join(f"{which} {value:.3g}{' s' if which.endswith('.lag') else ''}" for which, value in found["nuisances"].items())
    bicycle = f"a kinematic bicycle ({own})" if own else "a kinematic bicycle"
    beside = f"Mean errors of {model} against the bicycle's on the {found['pieces']} pieces that were not fitted: {every}."
    if found["recommended"] == KINEMATIC:
        return f"Recommended: {bicycle} instead of {model}, since it is better in {name}. {beside}"
    if found["recommended"] == MODEL:
        return f"Recommended: {model}, which is better in {name} than {bicycle}. {beside}"
    return f"Recommended: {model}, which is no better than {bicycle}, and no worse. {beside}"


def _row(errors: np.ndarray) -> dict[str, Any]:
    # Errors (n, 2) of the model, which are infinite where it diverges, and of the baseline.
    with np.errstate(invalid="ignore"):
        difference = errors[:, 0] - errors[:, 1]
        spread = float(difference.std(ddof=1) / np.sqrt(len(errors))) if np.isfinite(difference).all() else 0.0
    own, other = errors.mean(axis=0)
    return {"model": float(own), "kinematic": float(other), "difference": float(difference.mean()), "standard_error": spread,
            "pieces": len(errors)}


def _error(data: Dataset, responses: np.ndarray, name: str, after: float) -> float:
    """NaN where nothing was measured, infinite where there is no response to it."""
    names = PLACE if name == "position" else (name,)
    if not set(names) <= set(data.channels):
        return float("nan")
    columns = [data.channels.index(one) for one in names]
    seconds = data.times - data.times[0]
    rows = np.flatnonzero(np.isfinite(data.observed[:, columns]).all(axis=1) & (seconds <= after + 0.5 * data.interval))
    if name == "position":
        rows = rows[-1:][seconds[rows[-1:]] >= 0.9 * after]
    if not len(rows):
        return float("nan")
    with np.errstate(over="ignore", invalid="ignore"):
        squares = ((data.observed - responses)[np.ix_(rows, np.array(columns))] ** 2).sum(axis=1)
        error = float(np.sqrt(squares.mean()))
    return error if np.isfinite(error) else float("inf")


def _with_way(segment: Segment, data: Dataset, recipe: Recipe, vehicle: Vehicle) -> Dataset:
    """A data set of a segment with what was recorded of RECORDED beside what the segment compares."""
    missing = [name for name in RECORDED if name in data.initial and name not in (*data.channels, *data.following, *data.derived)]
    if not missing:
        return data
    fields = recorded_states(data.recording, segment.state_topic, recipe.model)
    noise = segment.channels[0].noise
    more = [Channel(name, segment.state_topic, fields[name], noise, name) for name in missing]
    window = Window(data.recording, float(data.times[0]), float(data.times[-1]) + 0.5 * data.interval, 0, data.name)
    wider = replace(segment, channels=(*segment.channels, *more))
    return on_ground(load_segment(wider, window, recipe.model, vehicle, recipe.step), recipe.ground, vehicle)
