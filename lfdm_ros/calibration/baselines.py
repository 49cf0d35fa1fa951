"""The kinematic bicycle as baseline of a prediction, with the same inputs and speed and a fitted steering lag; and the piecewise comparison
of a model with it on data to which neither was fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import integrate, optimize

from lfdm_ros.backends import ARRAYS
from lfdm_ros.calibration.pieces import PLACE
from lfdm_ros.inference.dataset import Dataset, Window, load_segment, on_ground, recorded_states
from lfdm_ros.inference.likelihood import RolloutLikelihood
from lfdm_ros.inference.measurement import InputPath, OutputPath
from lfdm_ros.inference.plan import MISALIGNMENT, Channel, Recipe, Segment
from lfdm_ros.models import get_model
from lfdm_ros.models.declaration import Part
from lfdm_ros.models.equations import Record
from lfdm_ros.models.steering import LINEAR, MAP
from lfdm_ros.vehicles import Vehicle

if TYPE_CHECKING:
    from lfdm_ros.calibration.stage import StageResult

CHANNELS = ("x", "y", "yaw", "vy", "yaw_rate")  # it predicts
# Of the steering, in the order of the search: start and bounds.
FITTED = {"steering.lag": (0.05, 1e-3, 0.5), "steering.scale": (1.0, 0.5, 2.0), "steering.offset": (0.0, -0.3, 0.3)}
MAX_SAMPLES = 20_000  # samples used in a fit


def can_steer(model: str, vehicle: Vehicle) -> bool:
    """Returns whether the angle of the front wheels is a function of the steering input."""
    return _steering_part(model).parameters[0].name in vehicle.parameters


def kinematic(data: Dataset, vehicle: Vehicle, model: str, nuisances: Mapping[str, float],
              speed: np.ndarray | None = None) -> np.ndarray | None:
    """Predicts a data set (K, C) by a kinematic bicycle, as measured by sensors with these nuisances; NaN in channels that it does not
    predict.

    Yaw rate = vx tan(delta) / wheelbase and vy = yaw rate times the distance of the rear axle; heading and position are integrated by
    trapezoids. vx is `speed` (K,), else the prescribed or the measured speed. None without any.
    """
    if speed is None:
        speed = _speed(data)
    if speed is None:
        return None
    names, values = tuple(nuisances), np.array([list(nuisances.values())])
    p, recorded = vehicle.parameters, data.initial
    part = _steering_part(model)
    built = part.build(ARRAYS)
    steering = InputPath(data, names).inputs(values)[0][:, 0]
    angle = built.angle(steering, built.prepare(Record(**{f.name: p[f.name] for f in part.parameters})))
    rear = p["cg_to_rear_axle"]
    yaw_rate = speed * np.tan(angle) / (p["cg_to_front_axle"] + rear)
    yaw = recorded.get("yaw", 0.0) - nuisances.get(MISALIGNMENT, 0.0) + integrate.cumulative_trapezoid(yaw_rate, data.times, initial=0.0)
    vy, c, s = rear * yaw_rate, np.cos(yaw), np.sin(yaw)
    rates = {"x": speed * c - vy * s, "y": speed * s + vy * c}
    columns = {"vx": speed, "vy": vy, "yaw_rate": yaw_rate, "yaw": yaw,
               **{name: recorded.get(name, 0.0) + integrate.cumulative_trapezoid(rate, data.times, initial=0.0)
                  for name, rate in rates.items()}}
    sensors = OutputPath(data.channels, names)
    responses = np.stack([columns.get(name, np.full(len(speed), np.nan)) for name in sensors.channels], axis=1)
    measured = sensors.measured(responses[:, :, None], values)[:, :, 0]
    return np.where(np.isin(data.channels, CHANNELS), measured, np.nan)


def fit_kinematic(datasets: Sequence[Dataset], vehicle: Vehicle, model: str,
                  to: Sequence[tuple[str, ...]] = (("yaw_rate",), PLACE)) -> dict[str, float] | None:
    """Fits the lag, scale and offset of the steering of a kinematic bicycle by least squares on the yaw rate; without one, on the position,
    with the misalignment of the heading too. None without either, or without a speed. `to`: channels to fit; the first measured ones are
    used."""
    usable = [data for data in datasets if _speed(data) is not None]
    shared_channels = set.intersection(*(set(data.channels) for data in usable)) if usable else set()
    compared = next((names for names in to if set(names) <= shared_channels), ())
    if not compared or not can_steer(model, vehicle):
        return None
    usable = usable[::max(1, sum(len(data.times) for data in usable) // MAX_SAMPLES)]
    fitted = FITTED if compared == ("yaw_rate",) else {**FITTED, MISALIGNMENT: (0.0, -0.2, 0.2)}
    start, lower, upper = np.array(list(fitted.values())).T

    def errors(x: np.ndarray) -> np.ndarray:
        out = []
        for data in usable:
            columns = [data.channels.index(name) for name in compared]
            responses = kinematic(data, vehicle, model, dict(zip(fitted, x.tolist())))
            if responses is not None:
                difference = (data.observed - responses)[:, columns]
                out.append(difference[np.isfinite(difference)])
        return np.concatenate(out)

    found = optimize.least_squares(errors, start, bounds=(lower, upper), x_scale=[0.05, 0.1, 0.01, 0.01][:len(fitted)], max_nfev=40)
    return dict(zip(fitted, map(float, found.x)))


def _steering_part(model: str) -> Part:
    return MAP if MAP.parameters[0].name in {field.name for field in get_model(model).parameters} else LINEAR


def _speed(data: Dataset) -> np.ndarray | None:
    if "vx" in data.following:
        return np.asarray(data.prescribed[:, data.following.index("vx")])
    if "vx" not in data.channels:
        return None
    values = data.observed[:, data.channels.index("vx")]
    finite = np.isfinite(values)
    return np.interp(data.times, data.times[finite], values[finite]) if finite.sum() > 1 else None


MODEL, KINEMATIC, EITHER = "model", "kinematic_bicycle", "either"
AFTER = 5.0  # [s] from the start of a piece to the comparison of its position
MIN_PIECES = 3  # pieces needed for a meaningful standard error of the differences
# Criteria in order of priority: position, heading, yaw rate; and lateral velocity, where it was fitted.
JUDGED = {"position": "m", "yaw": "rad", "yaw_rate": "rad/s", "vy": "m/s"}
RECORDED = (*PLACE, "yaw", "yaw_rate")  # compared wherever they were recorded, fitted or not


def fit_to_positions(result: StageResult, recipe: Recipe) -> dict[str, float]:
    """Nuisances of a kinematic bicycle fitted to the positions in the pieces of a stage; empty without positions."""
    datasets = [_with_positions(segment, data, recipe, result.after) for segment, data in result.data.fitted]
    return fit_kinematic(datasets, result.after, result.likelihood.model, (PLACE,)) or {}


def judge_stage(result: StageResult, recipe: Recipe, fits: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Judges a stage, as `judge`, by the pieces that its split held out, with all positions that were recorded there. `fits`: nuisances of
    kinematic bicycles that were fitted to the same pieces as the stage."""
    if not result.data.held_out:
        return not_compared("no pieces were held out; a `split` with `take: even` holds every other one out")
    if not fits:
        return not_compared("none could be fitted: it takes a speed, a steering angle, and a yaw rate or positions")
    stage, point, model = result.stage, result.run.point, result.likelihood.model
    datasets = [_with_positions(segment, data, recipe, result.after) for segment, data in result.data.held_out]
    nuisances = [n.name for n in stage.nuisance]
    likelihood = RolloutLikelihood(datasets, model=model, vehicle=result.after, step=recipe.step,
                                   unknowns=[p.targets for p in stage.parameters], nuisances=nuisances)
    at = np.array([point[name] for name in (*(p.name for p in stage.parameters), *nuisances)])
    nuisance_values = {name: point[name] for name in nuisances}
    return judge(likelihood, at, result.after, [baseline_nuisances(nuisance_values, fitted) for fitted in fits], set(stage.channels))


def baseline_nuisances(point: Mapping[str, float], fitted: Mapping[str, float] | None) -> dict[str, float]:
    """Returns the nuisances of a baseline: those fitted to it and the misalignment of the heading; where none was fitted, the model's."""
    return {name: value for name, value in point.items() if not fitted or name == MISALIGNMENT} | dict(fitted or {})


def judge(likelihood: RolloutLikelihood, point: np.ndarray, vehicle: Vehicle, baselines: Sequence[Mapping[str, float]],
          fitted: set[str]) -> dict[str, Any]:
    """Compares a model with the best kinematic bicycle on pieces to which neither was fitted.

    In each piece both have an error: the distance of the positions AFTER seconds after its start, or at its end where all are shorter, and
    the RMSE of the other channels in JUDGED. The first quantity whose mean difference over the pieces exceeds its standard error decides.

    Args:
        likelihood, point: of the pieces, and of its unknowns.
        baselines: nuisances of each kinematic bicycle, which gets the model's inputs and, where the speed is not prescribed, its speed. The
            one with the smallest error in the first channel compared counts.
        fitted: channels; vy is compared only if fitted, since it depends on where it is measured.

    Returns:
        For summary.json: recommended (MODEL, KINEMATIC, EITHER where nothing decides, None where nothing could be compared), text, pieces,
            after [s], nuisances of the baseline and, by what is judged, the mean errors `model` and `kinematic`, `difference` of the former
            and the latter with its `standard_error`.
    """
    if not can_steer(likelihood.model, vehicle):
        return not_compared("the angle of its front wheels is not a function of the steering")
    datasets = likelihood.datasets
    responses, motions = [response[0] for response in likelihood.responses(point[None])], likelihood.motion(point)
    found = [_against(datasets, responses, motions, vehicle, likelihood.model, baseline, fitted) for baseline in baselines]
    return min(found, key=lambda verdict: next((row["kinematic"] for row in verdict.get("compared", {}).values()), np.inf))


def _against(datasets: Sequence[Dataset], responses: Sequence[np.ndarray], motions: Sequence[np.ndarray], vehicle: Vehicle, model: str,
             baseline: Mapping[str, float], fitted: set[str]) -> dict[str, Any]:
    """Compares with one baseline, as `judge`; responses (K, C) and motions (K, 2) of the model."""
    simple = [kinematic(data, vehicle, model, baseline, None if "vx" in data.following else motion[:, 0])
              for data, motion in zip(datasets, motions)]
    after = min(AFTER, float(np.median([data.times[-1] - data.times[0] + data.interval for data in datasets])))
    errors: dict[str, list[tuple[float, float]]] = {}
    for data, response, simple_response in zip(datasets, responses, simple):
        if simple_response is None:
            continue
        for name in JUDGED:
            if name != "vy" or name in fitted:
                pair = _error(data, response, name, after), _error(data, simple_response, name, after)
                if np.isfinite(pair[1]) and not np.isnan(pair[0]):
                    errors.setdefault(name, []).append(pair)
    rows = {name: _row(np.array(pairs)) for name, pairs in errors.items() if len(pairs) >= MIN_PIECES}
    if not rows:
        return not_compared(f"that takes at least {MIN_PIECES} pieces, not {len(datasets)}" if len(datasets) < MIN_PIECES else
                       f"fewer than {MIN_PIECES} pieces have a position, heading or yaw rate")
    decides = next((name for name, row in rows.items() if abs(row["difference"]) > row["standard_error"]), None)
    recommended = EITHER if decides is None else KINEMATIC if rows[decides]["difference"] > 0.0 else MODEL
    found = {"recommended": recommended, "decided_by": decides, "pieces": max(row["pieces"] for row in rows.values()), "after": after,
             "nuisances": dict(baseline), "compared": rows}
    return {**found, "text": _words(found, model)}


def not_compared(why: str) -> dict[str, Any]:
    """Returns the verdict where nothing could be compared."""
    return {"recommended": None, "text": f"Nothing could be compared with a kinematic bicycle: {why}."}


def _words(found: Mapping[str, Any], model: str) -> str:
    name, rows = found["decided_by"], found["compared"]

    def describe(which: str) -> str:
        row, label = rows[which], f"position after {found['after']:.3g} s" if which == "position" else which
        return (f"{label}, {row['model']:.3g} {JUDGED[which]} against {row['kinematic']:.3g} (difference {row['difference']:.2g} ± "
                f"{row['standard_error']:.2g})")

    fitted = ", ".join(f"{which} {value:.3g}{' s' if which.endswith('.lag') else ''}" for which, value in found["nuisances"].items())
    bicycle = f"a kinematic bicycle ({fitted})" if fitted else "a kinematic bicycle"
    verdict = {KINEMATIC: f"{bicycle} instead of {model}, since it is better in {name}",
               MODEL: f"{model}, which is better in {name} than {bicycle}",
               EITHER: f"{model}, which is no better than {bicycle}, and no worse"}[found["recommended"]]
    return (f"Recommended: {verdict}. Mean errors of {model} against the bicycle's on the {found['pieces']} pieces that were not fitted: "
            f"{'; '.join(map(describe, rows))}.")


def _row(errors: np.ndarray) -> dict[str, Any]:
    # Errors (n, 2) of the model, which are infinite where it diverges, and of the baseline.
    with np.errstate(invalid="ignore"):
        difference = errors[:, 0] - errors[:, 1]
        spread = float(difference.std(ddof=1) / np.sqrt(len(errors))) if np.isfinite(difference).all() else 0.0
    model, baseline = errors.mean(axis=0)
    return {"model": float(model), "kinematic": float(baseline), "difference": float(difference.mean()), "standard_error": spread,
            "pieces": len(errors)}


def _error(data: Dataset, responses: np.ndarray, name: str, after: float) -> float:
    """Computes the error of a piece: NaN without measurements, infinite where the model has no response."""
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


def _with_positions(segment: Segment, data: Dataset, recipe: Recipe, vehicle: Vehicle) -> Dataset:
    """Adds the recorded channels of RECORDED to the data set of a segment."""
    missing = [name for name in RECORDED if name in data.initial and name not in (*data.channels, *data.following, *data.derived)]
    if not missing:
        return data
    fields = recorded_states(data.recording, segment.state_topic, recipe.model)
    noise = segment.channels[0].noise
    more = [Channel(name, segment.state_topic, fields[name], noise, name) for name in missing]
    window = Window(data.recording, float(data.times[0]), float(data.times[-1]) + 0.5 * data.interval, 0, data.name)
    wider = replace(segment, channels=(*segment.channels, *more))
    return on_ground(load_segment(wider, window, recipe.model, vehicle, recipe.step), recipe.ground, vehicle)
