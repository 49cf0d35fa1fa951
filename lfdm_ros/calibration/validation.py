"""The posterior predictive on a recording that was never fitted."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_ros import __version__
from lfdm_ros.bags import open_bag, read_series
from lfdm_ros.calibration import plots, report
from lfdm_ros.calibration.predictive import Compared, Predictive, compare, kept_draws, predict_draws
from lfdm_ros.calibration.results import load_posterior, load_summary, stored_name
from lfdm_ros.calibration.summary import write_json
from lfdm_ros.errors import InputError
from lfdm_ros.files import reason, write_text
from lfdm_ros.inference.dataset import Dataset, Recording, find_recordings, load_window, on_ground, pieces_of, recorded_states
from lfdm_ros.inference.likelihood import RolloutLikelihood, Targets
from lfdm_ros.inference.plan import DEFAULT_STATE, INITIAL, INPUT_FIELDS, MISALIGNMENT, RHO, SIGMA, Inputs, Split, SteeringSource
from lfdm_ros.models import get_model
from lfdm_ros.vehicles import Vehicle, load_vehicle

MEASURED = "measured/state"
DEFAULT_STEP = 0.005
# RMSE above this multiple of the calibrated noise is worth a warning.
NOISE_MULTIPLE = 1.5


@dataclass(frozen=True)
class _Source:
    """What predicts: a vehicle, and draws (C, N) by variable of the unknowns and of the noise, if it comes from a calibration."""

    model: str
    vehicle: Vehicle
    step: float
    unknowns: Mapping[str, Targets]
    nuisances: tuple[str, ...]
    draws: Mapping[str, np.ndarray]
    noise: Mapping[str, tuple[str, str, np.ndarray, np.ndarray]]  # channel -> stage, topic, standard deviation and correlation (C, N)
    inputs: Inputs
    prescribed: tuple[tuple[str, str, str], ...] = ()
    split: Split | None = None
    fitted: frozenset[str] = frozenset()
    topic: str = MEASURED  # that was fitted
    ground: str = ""  # that the recording was made on
    before: Mapping[str, float] | None = None  # the vehicle's own values of the unknowns, where it is still to be found


def predict(bag: str | os.PathLike[str], out: str | os.PathLike[str], *, posterior: str | os.PathLike[str] | None = None,
            vehicle: Vehicle | str | os.PathLike[str] | None = None, model: str = "eight_dof",
            window: tuple[float, float] | None = None, topic: str | None = None, seed: int = 1,
            figure: str | os.PathLike[str] | None = None, ground: str = "") -> dict[str, Any]:
    """Compares a calibration, or a vehicle, with a recording and writes summary.json and report.html to `out`.

    The start state is that of `vehicle/state` at the beginning of the window; the channels are all that the topic holds which was fitted,
    else `measured/state`, else `vehicle/state`. A posterior is driven as its calibration was: with its inputs, its prescribed states and
    nuisances, and in pieces where the recipe splits; of a recording that was fitted, only the pieces that were held out. Beside it, as
    `before`, stands the vehicle as it was, under the same conditions.

    Args:
        posterior: directory that `lfdm calibrate` wrote; or
        vehicle: a vehicle, its name or file, with `model`.
        window: start and end [s]; by default all that was measured.
        topic: to compare with, instead of the one named above; `rmse_by_topic` has vehicle/state beside it in any case.
        figure: image file for the responses of the channels that were fitted, or all, over the whole window.
        ground: that the recording was made on, as `on_ground` takes it.

    Returns:
        What summary.json says.

    Raises:
        InputError: not exactly one of posterior and vehicle, or the recording lacks what is needed.
    """
    if (posterior is None) == (vehicle is None):
        raise InputError("give either a posterior directory or a vehicle")
    source = _from_posterior(Path(posterior)) if posterior is not None else _from_vehicle(vehicle, model)  # type: ignore[arg-type]
    source = replace(source, ground=ground)
    recording = find_recordings([bag])[0]
    topics = _topics(recording)
    shown = topic or next((known for known in (source.topic, MEASURED) if known in topics), DEFAULT_STATE)
    found = _compare(recording, source, shown, window, seed)
    others = {other: _compare(recording, source, other, window, seed) for other in (DEFAULT_STATE,) if other in topics and other != shown}
    names, scale, compared = list(found.channels), found.sigma, found.compared
    summary = {
        "version": __version__, "model": source.model, "vehicle": source.vehicle.name, "posterior": str(posterior) if posterior else None,
        "recordings": [{"name": recording.name, "path": str(recording.path), "sha256": recording.sha256}], "window": list(found.window),
        "pieces": [[float(data.times[0]), float(data.times[-1])] for data in found.datasets], "step": source.step, "seed": seed,
        "ground": ground, "topic": shown, "draws": len(found.predictives[0].squares),
        "rmse": {name: {**({"before": found.before[name].rmse} if found.before else {}), "posterior": compared[name].rmse}
                 for name in names},
        "coverage_90": {name: compared[name].coverage if i in scale else None for i, name in enumerate(names)},
        "rmse_by_topic": {other: {name: value.rmse for name, value in one.compared.items()}
                          for other, one in {shown: found, **others}.items()},
        "noise_from": {name: source.noise[name][0] for i, name in enumerate(names) if i in scale},
        "warnings": [*filter(None, [recording.note]),
                     *(f"{name}: RMSE {compared[name].rmse:.3g} is {compared[name].rmse / scale[i]:.1f} times the noise inferred in stage "
                       f"{source.noise[name][0]}" for i, name in enumerate(names)
                       if i in scale and compared[name].rmse > NOISE_MULTIPLE * scale[i])]}
    directory = Path(out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_json(directory / "summary.json", summary)
        page = report.prediction_report(summary, found.datasets, found.predictives, scale)
        write_text(directory / "report.html", page)
        if figure is not None:
            plots.save(_overview(found, source.model), Path(figure))
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {reason(error)}") from None
    return summary


def _overview(found: _Found, model: str) -> Any:
    columns = sorted(found.sigma) or list(range(len(found.channels)))
    units = {field.name: field.unit for field in get_model(model).states}
    labels = [f"{name} [{units[name]}]" for i, name in enumerate(found.channels) if i in columns]
    return plots.overview([predictive.times for predictive in found.predictives],
                          [predictive.observed[:, columns] for predictive in found.predictives],
                          [predictive.sample[:, :, columns] for predictive in found.predictives], labels)


@dataclass(frozen=True)
class _Found:
    """Predictions of what one topic measured; sigma: column -> inferred noise, where it was inferred from that topic."""

    channels: Mapping[str, str]
    window: tuple[float, float]
    datasets: Sequence[Dataset]
    predictives: Sequence[Predictive]
    compared: Mapping[str, Compared]
    before: Mapping[str, Compared]
    sigma: Mapping[int, float]


def _compare(recording: Recording, source: _Source, topic: str, window: tuple[float, float] | None, seed: int) -> _Found:
    channels, measured = _measured(recording, source, topic, window)
    start, end = window or measured
    split = source.split
    if split and recording.sha256 not in source.fitted:
        split = Split(split.length)  # nothing of it was fitted, all of it is predicted
    windows = [(start, end, "")] if split is None else [
        (w.start, w.end, w.name) for w in pieces_of(recording, start, end, split, held_out=split.take != "all")]
    if not windows:
        raise InputError(f"{recording.path} ({recording.name}): all pieces of {source.split.length if source.split else 0:g} s in window "
                         f"[{start:g}, {end:g}) s were fitted")
    datasets = [on_ground(load_window(
        recording, a, b, model=source.model, vehicle=source.vehicle, step=source.step,
        channels={name: (topic, field) for name, field in channels.items()}, state_topic=DEFAULT_STATE, inputs=source.inputs,
        prescribed=source.prescribed, name=name), source.ground, source.vehicle) for a, b, name in windows]
    names = tuple(channels)
    # An offset of a channel that was not recorded here has nothing to act on.
    nuisances = [name for name in source.nuisances if name.partition(".")[0] in (*INPUT_FIELDS, *names) or name == MISALIGNMENT]
    likelihood = RolloutLikelihood(datasets, model=source.model, vehicle=source.vehicle, step=source.step,
                                   unknowns=list(source.unknowns.values()), nuisances=nuisances)
    shape = next(iter(source.draws.values())).shape if source.draws else (1, 1)
    noise = {name: source.noise[name] for name in names if name in source.noise and source.noise[name][1].strip("/") == topic}
    sigma, rho = (np.stack([noise[name][i] if name in noise else np.full(shape, np.nan if i == 2 else 0.0) for name in names], axis=-1)
                  for i in (2, 3))
    q = np.stack([source.draws[name] for name in [*source.unknowns, *nuisances]], axis=-1) if likelihood.count else np.zeros((*shape, 0))

    def compared(q: np.ndarray, sigma: np.ndarray, rho: np.ndarray) -> tuple[list[Predictive], dict[str, Compared]]:
        found = predict_draws(likelihood, q, [sigma] * len(datasets), [rho] * len(datasets), np.random.default_rng(seed),
                              kept=kept_draws(datasets), noise=False)
        return found, compare([(names, predictive) for predictive in found])

    predictives, errors = compared(q, sigma, rho)
    before: Mapping[str, Compared] = {}
    if source.before is not None:
        # The vehicle as it was, measured and driven in the same way.
        own = np.concatenate([np.broadcast_to([source.before[name] for name in source.unknowns], (*shape, len(source.unknowns))),
                              q[..., len(source.unknowns):]], axis=-1)[:, :1]
        before = compared(own, sigma[:, :1], rho[:, :1])[1]
    return _Found(channels, (start, end), datasets, predictives, errors, before,
                  {i: float(noise[name][2].mean()) for i, name in enumerate(names) if name in noise})


def _from_posterior(directory: Path) -> _Source:
    summary = load_summary(directory)
    posterior = load_posterior(directory)
    stages = [stage for stage in summary["stages"] if stage["temperature"] == 1.0]
    unknowns: dict[str, Targets] = {}
    nuisances: list[str] = []
    draws: dict[str, np.ndarray] = {}
    noise: dict[str, tuple[str, str, np.ndarray, np.ndarray]] = {}
    for stage in stages:
        for shown, row in stage["parameters"].items():
            name = shown.replace("/", ".", 1)
            if name.startswith((SIGMA, RHO, INITIAL)):
                continue
            draws[name] = posterior[stored_name(stage["name"], name)].values
            if "targets" in row:
                unknowns[name] = tuple(row["targets"].items())
            else:
                nuisances.append(name)
        for segment in stage["segments"]:
            for channel, place in segment["channels"].items():
                sigma = posterior[stored_name(stage["name"], SIGMA + place["label"])].values
                rho = stored_name(stage["name"], RHO + place["label"])
                noise.setdefault(channel, (stage["name"], place["topic"], sigma,
                                           posterior[rho].values if rho in posterior else np.zeros_like(sigma)))
    # The last segment that took the steering from a measured angle inferred what the tyres do with that angle.
    segment = sorted((segment for stage in stages for segment in stage["segments"]), key=lambda s: s["inputs"]["steering"] is not None)[-1]
    inputs = segment["inputs"]
    return _Source(model=summary["model"], vehicle=load_vehicle(directory / "vehicle.yaml"), step=summary["step"], unknowns=unknowns,
                   nuisances=tuple(dict.fromkeys(nuisances)), draws=draws, noise=noise,
                   inputs=Inputs(inputs["topic"], SteeringSource(**inputs["steering"]) if inputs["steering"] else None),
                   prescribed=tuple((state, topic, field) for state, topic, field in segment["prescribed"]),
                   split=Split(**segment["split"]) if segment["split"] else None,
                   fitted=frozenset(r["sha256"] for r in summary["recordings"]),
                   topic=next(iter(segment["channels"].values()))["topic"].strip("/"),
                   before=_before(summary, unknowns))


def _before(summary: Mapping[str, Any], unknowns: Mapping[str, Targets]) -> dict[str, float] | None:
    try:
        vehicle = load_vehicle(summary["vehicle"])
    except InputError:
        return None
    values = {**vehicle.parameters, **summary["held"]}
    if not all(target in values for targets in unknowns.values() for target, _ in targets):
        return None
    return {name: float(np.mean([values[target] / factor for target, factor in targets])) for name, targets in unknowns.items()}


def _from_vehicle(vehicle: Vehicle | str | os.PathLike[str], model: str) -> _Source:
    known = vehicle if isinstance(vehicle, Vehicle) else load_vehicle(vehicle)
    return _Source(model=known.model(model).name, vehicle=known, step=DEFAULT_STEP, unknowns={}, nuisances=(), draws={}, noise={},
                   inputs=Inputs())


def _topics(recording: Recording) -> set[str]:
    with open_bag(recording.path) as bag:
        return {connection.topic.strip("/") for connection in bag.connections}


def _measured(recording: Recording, source: _Source, topic: str,
              window: tuple[float, float] | None) -> tuple[dict[str, str], tuple[float, float]]:
    """The fields that hold something in the window by channel, and the time they cover."""
    fields = recorded_states(recording, topic, source.model)
    for state, _, _ in source.prescribed:
        fields.pop(state, None)
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
