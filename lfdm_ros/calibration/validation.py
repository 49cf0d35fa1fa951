"""The posterior predictive on a recording that was not fitted, compared with simpler predictions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_ros import __version__
from lfdm_ros.bags import open_bag, read_series
from lfdm_ros.calibration import baselines, plots, report
from lfdm_ros.calibration.model_error import sensor_noise
from lfdm_ros.calibration.pieces import PLACE, Piece, outlying, piece_of, pieces_csv, trajectories_csv
from lfdm_ros.calibration.predictive import Compared, Predictive, compare, predict_draws, storable_draws
from lfdm_ros.calibration.results import check_finished
from lfdm_ros.calibration.source import MEASURED, PredictionSource, from_posterior, from_vehicle, like
from lfdm_ros.calibration.summary import of_draws, runs_away, write_json
from lfdm_ros.errors import InputError, prefixing
from lfdm_ros.files import write_text
from lfdm_ros.inference import dataset
from lfdm_ros.inference.likelihood import RolloutLikelihood
from lfdm_ros.inference.plan import DEFAULT_STATE, INPUT_FIELDS, MISALIGNMENT, NO_TOPIC, Split
from lfdm_ros.reports import save_figure
from lfdm_ros.vehicles import Vehicle

NOISE_MULTIPLE = 1.5  # of the calibrated noise; a larger RMSE is worth a warning
LOUDER = 1.2  # sensor noise of a recording over that of the calibration, from which it is reported
BEYOND, SOME = 0.05, 0.01  # of a range, and of the samples, that may lie outside what was fitted without a word
EDGE = 1e-3  # [s] by which a piece may exceed a window
SHORT = 0.1  # of a piece; longer remainders are reported


def predict(bag: str | os.PathLike[str], out: str | os.PathLike[str], *, posterior: str | os.PathLike[str] | None = None,
            vehicle: Vehicle | str | os.PathLike[str] | None = None, model: str | None = None,
            like_result: str | os.PathLike[str] | None = None, window: tuple[float, float] | None = None, topic: str | None = None,
            seed: int = 1, model_error: bool = True, figure: str | os.PathLike[str] | None = None, ground: str = "") -> dict[str, Any]:
    """Compares a calibration, or a vehicle, with a recording; writes summary.json, which it returns, report.html, pieces.csv and
    trajectories.csv to `out`.

    The start state is that of `vehicle/state` at the beginning of the window; the channels are those recorded on the fitted topic, else on
    `measured/state`, else on `vehicle/state`. A posterior is simulated as in its calibration: with its inputs, prescribed states and
    nuisances, and in pieces where the recipe splits; of a fitted recording, only the held-out pieces. It is compared with the vehicle
    before the calibration (`before`) and a kinematic bicycle (`kinematic`), under the same conditions.

    Args:
        posterior: directory that `lfdm calibrate` wrote; or
        vehicle: a vehicle, its name or file, with `model` (eight_dof, or that of `like_result`).
        like_result: with `vehicle`: a calibration that defines inputs, measurement and pieces.
        window: start and end [s]; by default the whole recording.
        topic: to compare with, instead of the default; `rmse_by_topic` always includes vehicle/state.
        model_error: True for intervals from the calibration's model error and the noise of this recording's sensors, instead of the
            calibration's noise.
        figure: image file for the responses of the channels that were fitted, or all, over the whole window.
        ground: of the recording, as for `on_ground`.

    Raises:
        InputError: not exactly one of posterior and vehicle, the recording lacks what is needed; or as `save_figure`.
    """
    if (posterior is None) == (vehicle is None):
        raise InputError("give either a posterior directory or a vehicle")
    if posterior is not None:
        stopped = check_finished(posterior)
        source = from_posterior(Path(posterior))
        source = replace(source, notes=(*filter(None, [stopped]), *source.notes))
    elif like_result is not None:
        source = like(vehicle, Path(like_result), model)  # type: ignore[arg-type]
    else:
        source = from_vehicle(vehicle, model)  # type: ignore[arg-type]
    source = replace(source, ground=ground)
    recording, *more = dataset.find_recordings([bag])
    if more:
        raise InputError(f"{bag}: holds {len(more) + 1} bags; give one of them, such as {recording.path}")
    if source.inputs.topic != NO_TOPIC or source.inputs.steering:
        dataset.check_inputs(recording, source.inputs, source.vehicle, *(window or ()))
    with open_bag(recording.path) as opened:
        topics = {connection.topic.strip("/") for connection in opened.connections}
    shown = topic or next((candidate for candidate in (source.topic, MEASURED) if candidate in topics), DEFAULT_STATE)
    by_topic = {one: _compare(recording, source, one, window, seed, model_error)
                for one in dict.fromkeys((shown, *({DEFAULT_STATE} & topics)))}
    found = by_topic[shown]
    compared, sigma = found.compared, {list(found.channels)[i]: value for i, value in found.sigma.items()}
    summary = {
        "version": __version__, "model": source.model, "vehicle": source.vehicle.name, "posterior": str(posterior) if posterior else None,
        "like": str(like_result) if like_result else None,
        "recordings": [{"name": recording.name, "path": str(recording.path), "sha256": recording.sha256}], "window": list(found.window),
        "pieces": [[piece.start, piece.end] for piece in found.pieces], "split": found.split, "step": source.step, "seed": seed,
        "ground": ground, "topic": shown, "draws": len(found.predictives[0].squares), "point_is": source.point_is,
        "fitted": sorted(source.noise),
        "rmse": {name: {**({"before": found.before[name]} if name in found.before else {}),
                        **({"kinematic": found.kinematic[name]} if name in found.kinematic else {}),
                        "posterior": one.rmse, **of_draws(one)} for name, one in compared.items()},
        "position": {label: float(np.hypot(row["x"], row["y"])) for label, row in (
            ("response", {name: one.response for name, one in compared.items()}), ("before", found.before),
            ("kinematic", found.kinematic)) if set(PLACE) <= set(row)},
        "coverage_90": {name: None if name not in sigma else one.widened if np.isfinite(one.widened) else one.coverage
                        for name, one in compared.items()},
        "coverage_90_without_model_error": {name: one.coverage if name in sigma else None for name, one in compared.items()},
        "rmse_by_topic": {other: {name: value.response for name, value in one.compared.items()} for other, one in by_topic.items()},
        "noise_from": {name: source.noise[name].stage for name in sigma}, "kinematic": source.kinematic,
        # Prefer the topic with positions.
        "baseline": max((one.baseline for one in by_topic.values()), key=lambda verdict: "position" in verdict.get("compared", ())),
        "warnings": [*filter(None, [recording.note]), *source.notes, *found.notes, *found.outlying,
                     *runs_away(compared if source.draws else {}, source.draws),
                     *(f"{name}: RMSE {compared[name].response:.3g} is {compared[name].response / noise:.1f} times the noise inferred "
                       f"in stage {source.noise[name].stage}" for name, noise in sigma.items()
                       if compared[name].response > NOISE_MULTIPLE * noise),
                     *_range_warnings(found.pieces, source)]}
    directory = Path(out)
    with prefixing(f"cannot write to {directory}", OSError):
        directory.mkdir(parents=True, exist_ok=True)
        write_json(directory / "summary.json", summary)
        write_text(directory / "pieces.csv", pieces_csv(found.pieces, found.use))
        write_text(directory / "trajectories.csv", trajectories_csv(found.datasets, found.predictives, found.responses_before))
        page = report.prediction_report(summary, found.datasets, found.predictives, found.sigma, found.pieces)
        write_text(directory / "report.html", page)
        if figure is not None:
            save_figure(_overview(found, source.model), Path(figure))
    return summary


def _overview(found: _Found, model: str) -> Any:
    columns, channels = sorted(found.sigma) or list(range(len(found.channels))), list(found.channels)
    return plots.overview([predictive.times for predictive in found.predictives],
                          [predictive.observed[:, columns] for predictive in found.predictives],
                          [predictive.sample[:, :, columns] for predictive in found.predictives],
                          report.channel_labels((channels[i] for i in columns), model))


@dataclass(frozen=True)
class _Found:
    """Predictions of what one topic measured; sigma: column -> noise, where inferred from that topic; before, kinematic: RMSE by channel;
    split: its description; use: of the pieces in the calibration; baseline: as `baselines.judge`."""

    channels: Mapping[str, str]
    window: tuple[float, float]
    datasets: Sequence[dataset.Dataset]
    predictives: Sequence[Predictive]
    pieces: Sequence[Piece]
    compared: Mapping[str, Compared]
    responses_before: Sequence[np.ndarray]  # (K, C) by data set; empty: of a vehicle as it is
    before: Mapping[str, float]
    kinematic: Mapping[str, float]
    sigma: Mapping[int, float]
    split: str
    use: str
    notes: Sequence[str]
    outlying: Sequence[str]
    baseline: Mapping[str, Any]


def _compare(recording: dataset.Recording, source: PredictionSource, topic: str, window: tuple[float, float] | None, seed: int,
             widen: bool) -> _Found:
    channels, measured = _measured(recording, source, topic, window)
    start, end = window or measured
    windows, split, use = _windows(recording, source, start, end)
    datasets = [dataset.on_ground(dataset.load_window(
        recording, a, b, model=source.model, vehicle=source.vehicle, step=source.step,
        channels={name: (topic, field) for name, field in channels.items()}, state_topic=DEFAULT_STATE, inputs=source.inputs,
        prescribed=source.prescribed, name=name), source.ground, source.vehicle) for a, b, name in windows]
    names = tuple(channels)
    # Drop offsets of channels that were not recorded here.
    nuisances = [name for name in source.nuisances if name.partition(".")[0] in (*INPUT_FIELDS, *names) or name == MISALIGNMENT]
    unknowns = [*source.unknowns, *nuisances]

    def likelihood_of(vehicle: Vehicle, unknowns: Mapping[str, Any]) -> RolloutLikelihood:
        return RolloutLikelihood(datasets, model=source.model, vehicle=vehicle, step=source.step, unknowns=list(unknowns.values()),
                                 nuisances=nuisances)

    likelihood, shape = likelihood_of(source.vehicle, source.unknowns), source.shape
    noise = {i: source.noise[name] for i, name in enumerate(names) if name in source.noise and source.noise[name].topic.strip("/") == topic}
    sigma, rho = (np.stack([getattr(noise[i], parameter) if i in noise else np.full(shape, missing) for i in range(len(names))], axis=-1)
                  for parameter, missing in (("sigma", np.nan), ("rho", 0.0)))
    q = np.stack([source.draws[name] for name in unknowns], axis=-1) if unknowns else np.zeros((*shape, 0))
    point = np.array([source.point[name] for name in unknowns])
    errors = {i: one.model_error for i, one in noise.items() if one.model_error is not None} if widen else {}
    # Where a sensor has less noise than before, keep the old value: part of it may have been model error.
    sensors = {i: here for i in errors if errors[i].noise < (here := sensor_noise(
        [data.observed[np.isfinite(data.observed).any(axis=1), i] for data in datasets]))}
    predictives = predict_draws(likelihood, q, [sigma] * len(datasets), [rho] * len(datasets), np.random.default_rng(seed),
                                stored=storable_draws(datasets), noise=True, point=point, errors=errors, sensors=sensors)
    pieces = [piece_of(data, one, motion, sorted(noise)) for data, one, motion in zip(datasets, predictives, likelihood.motion(point))]
    before: list[np.ndarray] = []
    if source.before is not None:
        # The vehicle before the calibration, under the same conditions.
        before = [rows[0] for rows in likelihood_of(source.before, {}).responses(point[None, len(source.unknowns):])]
    simple: dict[str, float] = {}
    bicycle, *bicycles = (baselines.baseline_nuisances({name: source.point[name] for name in nuisances}, fitted)
                          for fitted in (source.kinematic, *source.kinematic_fits))
    if baselines.can_steer(source.model, source.vehicle):
        runs = [baselines.kinematic(data, source.vehicle, source.model, bicycle) for data in datasets]
        if all(run is not None for run in runs):
            simple = {name: value for name, value in _errors(datasets, [run for run in runs if run is not None]).items()
                      if name in baselines.CHANNELS}
    return _Found(channels, (start, end), datasets, predictives, pieces, compare([(names, one) for one in predictives]), before,
                  _errors(datasets, before) if before else {}, simple,
                  {i: float(one.sigma.mean()) for i, one in noise.items()}, split, use,
                  [*dataset.start_notes((data, ()) for data in datasets),
                   *(f"{names[i]}: the sensor's noise is {here:.3g} here, by second differences, and {errors[i].noise:.3g} where it was "
                     "calibrated; intervals are of the noise here" for i, here in sensors.items() if here > LOUDER * errors[i].noise)],
                  outlying([names] * len(datasets), datasets, predictives),
                  baselines.not_compared("its pieces were fitted, and a model is judged by what was not") if use == "fitted" else
                  baselines.judge(likelihood, point, source.vehicle, bicycles or [bicycle], set(source.noise)))


def _windows(recording: dataset.Recording, source: PredictionSource, start: float,
             end: float) -> tuple[list[tuple[float, float, str]], str, str]:
    """Returns start, end and name of each piece; a description of the split; and the use of its pieces in the calibration.

    A recording of the calibration gives its held-out or, without any, fitted pieces; other recordings, and the rest of these, are split
    into as many pieces as fit.
    """
    split, key = source.split, recording.sha256
    if split is None:
        return [(start, end, "")], f"[{start:g}, {end:g}) s in one piece", "fitted" if key in source.fitted else "new"
    fitted, held_out = source.fitted.get(key, ()), source.held_out.get(key, ())
    if key in source.fitted and not fitted:
        raise InputError(f"{recording.path} ({recording.name}): was fitted, and the calibration does not say which of its pieces were, "
                         "since an earlier version wrote it; calibrate again")
    inside = [(a, b, name) for a, b, name in held_out or fitted if a >= start - EDGE and b <= end + EDGE]
    if inside:
        cut = f"{len(inside)} pieces of {split.length:g} s in [{inside[0][0]:g}, {inside[-1][1]:g}) s"
        return (inside, f"{cut}, those that the calibration held out", "held out") if held_out else (
            inside, f"{cut}, all of which were fitted", "fitted")
    if any(a < end - EDGE and b > start + EDGE for a, b, _ in fitted):
        raise InputError(f"{recording.path} ({recording.name}): window [{start:g}, {end:g}) s holds no piece that was held out, and some "
                         "that were fitted")
    windows = [(w.start, w.end, w.name) for w in dataset.pieces_of(recording, start, end, Split(split.length), held_out=False)]
    left = end - windows[-1][1]
    return windows, (f"{len(windows)} pieces of {split.length:g} s in [{start:g}, {end:g}) s, none of which was fitted"
                     + (f"; the last {left:.1f} s are too short for one" if left > SHORT * split.length else "")), "new"


def _errors(datasets: Sequence[dataset.Dataset], responses: Sequence[np.ndarray]) -> dict[str, float]:
    """Computes the RMSE by channel of responses (K, C) to data sets; without channels that have no response."""
    out = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for c, name in enumerate(datasets[0].channels):
            errors = np.concatenate([(data.observed[:, c] - response[:, c])[np.isfinite(data.observed[:, c])]
                                     for data, response in zip(datasets, responses)])
            if len(errors) and np.isfinite(errors).all():
                out[name] = float(np.sqrt((errors**2).mean()))
    return out


def _range_warnings(pieces: Sequence[Piece], source: PredictionSource) -> list[str]:
    """Yields warnings about a prediction beyond the speeds and lateral accelerations of the runs that were fitted."""
    if source.fitted_range is None:
        return []
    motion = np.concatenate([piece.motion for piece in pieces])
    out = []
    for values, name, unit in ((motion[:, 0], "speed", "m/s"), (np.abs(motion[:, 1]), "lateral_acceleration", "m/s^2")):
        low, high = source.fitted_range[name]
        margin = BEYOND * max(abs(low), abs(high))
        values = values[np.isfinite(values)]
        above, below = float((values > high + margin).mean()), float((values < low - margin).mean()) if name == "speed" else 0.0
        quantity = name.replace("_", " ")
        if above > SOME:
            out.append(f"{above:.0%} of the samples have a {quantity} above what was fitted ({values.max():.3g}, fitted up to {high:.3g} "
                       f"{unit}): nothing was learned there")
        if below > SOME:
            out.append(f"{below:.0%} of the samples have a {quantity} below what was fitted ({values.min():.3g}, fitted from {low:.3g} "
                       f"{unit})")
    return out + beyond_at_speed(motion, source.fitted_range)


def beyond_at_speed(motion: np.ndarray, fitted: Mapping[str, Sequence[Any]]) -> list[str]:
    """Warns of lateral accelerations (second column of `motion` (K, 2) [m/s^2]) that no fitted run had near that speed (first [m/s]): tight
    bends at a speed that was driven straight on are as new as a speed that was not driven."""
    speed, lateral = np.abs(motion[np.isfinite(motion).all(axis=1)].T)
    reached = np.full(len(speed), -np.inf)
    for low, high, largest in fitted["by_speed"]:
        near = (speed >= low - (high - low)) & (speed <= high + (high - low))
        reached[near] = np.maximum(reached[near], largest)
    above = np.isfinite(reached) & (lateral > reached + BEYOND * fitted["lateral_acceleration"][1])
    if not above.any() or above.mean() <= SOME:
        return []
    worst = int(np.argmax(np.where(above, lateral - reached, -np.inf)))
    driven, at, fitted_to = (round(float(values[worst]), 2) for values in (lateral, speed, reached))
    return [f"{above.mean():.0%} of the samples have a lateral acceleration above what was fitted at their speed ({driven:g} at {at:g} m/s,"
            f" fitted up to {fitted_to:g} m/s^2 there): nothing was learned of bends as tight"]


def _measured(recording: dataset.Recording, source: PredictionSource, topic: str,
              window: tuple[float, float] | None) -> tuple[dict[str, str], tuple[float, float]]:
    """Returns the fields that hold something in the window by channel, and the time they cover."""
    prescribed = {state for state, _, _ in source.prescribed}
    fields = {state: field for state, field in dataset.recorded_states(recording, topic, source.model).items() if state not in prescribed}
    series = read_series(recording.path, topic, list(fields.values()))
    inside = np.ones(len(series.time), bool) if window is None else (series.time >= window[0]) & (series.time < window[1])
    if not inside.any():
        where = f" in window [{window[0]:g}, {window[1]:g}) s" if window else ""
        raise InputError(f"{recording.path} ({recording.name}): {topic} holds nothing{where}")
    finite = np.isfinite(series.values[inside]).any(axis=0)
    if not finite.any():
        raise InputError(f"{recording.path} ({recording.name}): {topic} holds no state of model {source.model}")
    interval = float(np.median(np.diff(series.time))) if len(series.time) > 1 else 0.0
    covered = float(series.time[inside][0]), float(series.time[inside][-1]) + interval
    return {name: field for (name, field), has in zip(fields.items(), finite) if has}, covered
