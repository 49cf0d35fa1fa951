"""The posterior predictive on a recording that was never fitted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_ros import __version__
from lfdm_ros.bags import open_bag, read_series
from lfdm_ros.calibration import report
from lfdm_ros.calibration.dataset import Recording, find_recordings, load_window
from lfdm_ros.calibration.likelihood import RolloutLikelihood, Targets
from lfdm_ros.calibration.predictive import by_channel, coverage, mean_rmse, predict_draws
from lfdm_ros.calibration.recipe import DEFAULT_STATE, WHEEL_FIELDS, Inputs, SteeringSource
from lfdm_ros.calibration.results import load_posterior, load_summary
from lfdm_ros.calibration.summary import summary_name, write_json
from lfdm_ros.errors import InputError
from lfdm_ros.models import get_model
from lfdm_ros.vehicles import Vehicle, load_vehicle

MEASURED = "measured/state"
DEFAULT_STEP = 0.005
# RMSE above this multiple of the calibrated noise is worth a warning.
NOISE_MULTIPLE = 1.5


@dataclass(frozen=True)
class _Source:
    """What predicts: a vehicle, and draws (C, N, ...) of the unknowns and of the noise, if it comes from a calibration."""

    model: str
    vehicle: Vehicle
    step: float
    unknowns: tuple[Targets, ...]
    draws: np.ndarray  # (C, N, unknowns)
    noise: Mapping[str, tuple[str, str, np.ndarray]]  # channel -> stage, topic, (C, N)
    inputs: Inputs


def predict(bag: str | os.PathLike[str], out: str | os.PathLike[str], *, posterior: str | os.PathLike[str] | None = None,
            vehicle: Vehicle | str | os.PathLike[str] | None = None, model: str = "eight_dof", window: tuple[float, float] | None = None,
            seed: int = 1) -> dict[str, Any]:
    """Compares a calibration, or a vehicle, with a recording and writes summary.json and report.html to `out`.

    The start state is that of `vehicle/state` at the beginning of the window; the channels are all that `measured/state` holds, or
    `vehicle/state` where there is none. A posterior is driven by the inputs that its calibration used.

    Args:
        posterior: directory that `lfdm calibrate` wrote; or
        vehicle: a vehicle, its name or file, with `model`.
        window: start and end [s]; by default all that was measured.

    Returns:
        What summary.json says.

    Raises:
        InputError: not exactly one of posterior and vehicle, or the recording lacks what is needed.
    """
    if (posterior is None) == (vehicle is None):
        raise InputError("give either a posterior directory or a vehicle")
    source = _from_posterior(Path(posterior)) if posterior is not None else _from_vehicle(vehicle, model)  # type: ignore[arg-type]
    recording = next(iter(find_recordings([bag]).values()))
    topic, channels, measured = _measured(recording, source.model, window)
    start, end = window or measured
    data = load_window(recording, start, end, model=source.model, vehicle=source.vehicle, step=source.step,
                       channels={name: (topic, field) for name, field in channels.items()}, state_topic=DEFAULT_STATE,
                       inputs=source.inputs)
    likelihood = RolloutLikelihood(data, model=source.model, vehicle=source.vehicle, step=source.step, unknowns=source.unknowns)
    noise = {name: source.noise[name] for name in data.channels if name in source.noise and source.noise[name][1].strip("/") == topic}
    sigma = np.stack([noise[name][2] if name in noise else np.full(source.draws.shape[:2], np.nan) for name in data.channels], axis=-1)
    predictive = predict_draws(likelihood, source.draws, sigma, np.random.default_rng(seed))
    rmse = by_channel(data.channels, mean_rmse(predictive.sample, data.observed))
    covered = by_channel(data.channels, coverage(predictive.noisy, data.observed))
    scale = {i: float(noise[name][2].mean()) for i, name in enumerate(data.channels) if name in noise}
    summary = {
        "version": __version__, "model": source.model, "vehicle": source.vehicle.name, "posterior": str(posterior) if posterior else None,
        "recordings": [{"name": recording.name, "path": str(recording.path), "sha256": recording.sha256}], "window": [start, end],
        "step": source.step, "seed": seed,
        "topic": topic, "draws": len(predictive.sample), "rmse": {name: {"posterior": value} for name, value in rmse.items()},
        "coverage_90": {name: value if name in noise else None for name, value in covered.items()},
        "noise_from": {name: stage for name, (stage, _, _) in noise.items()},
        "warnings": [f"{name}: RMSE {rmse[name]:.3g} is {rmse[name] / scale[i]:.1f} times the noise inferred in stage {noise[name][0]}"
                     for i, name in enumerate(data.channels) if i in scale and rmse[name] > NOISE_MULTIPLE * scale[i]]}
    directory = Path(out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_json(directory / "summary.json", summary)
        page = report.prediction_report(summary, data.times, data.observed, predictive.sample, scale)
        (directory / "report.html").write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {error.strerror or error}") from None
    return summary


def _from_posterior(directory: Path) -> _Source:
    summary = load_summary(directory)
    posterior = load_posterior(directory)
    unknowns = {name: row["targets"] for stage in summary["stages"] for name, row in stage["parameters"].items() if "targets" in row}
    noise: dict[str, tuple[str, str, np.ndarray]] = {}
    for stage in summary["stages"]:
        for channel, place in stage["channels"].items():
            if summary_name(f"sigma.{channel}") in stage["parameters"]:
                noise.setdefault(channel, (stage["name"], place["topic"], posterior[f"{stage['name']}.sigma.{channel}"].values))
    # The last stage that took the steering from a measured angle inferred what the tyres do with that angle.
    inputs = sorted((stage["inputs"] for stage in summary["stages"]), key=lambda entry: entry["steering"] is not None)[-1]
    return _Source(model=summary["model"], vehicle=load_vehicle(directory / "vehicle.yaml"), step=summary["step"],
                   unknowns=tuple(tuple(targets.items()) for targets in unknowns.values()),
                   draws=np.stack([posterior[name].values for name in unknowns], axis=-1), noise=noise,
                   inputs=Inputs(inputs["topic"], SteeringSource(**inputs["steering"]) if inputs["steering"] else None))


def _from_vehicle(vehicle: Vehicle | str | os.PathLike[str], model: str) -> _Source:
    known = vehicle if isinstance(vehicle, Vehicle) else load_vehicle(vehicle)
    return _Source(model=known.model(model).name, vehicle=known, step=DEFAULT_STEP, unknowns=(), draws=np.zeros((1, 1, 0)), noise={},
                   inputs=Inputs())


def _measured(recording: Recording, model: str, window: tuple[float, float] | None) -> tuple[str, dict[str, str], tuple[float, float]]:
    """The topic, the fields that hold something in the window by channel, and the time they cover."""
    with open_bag(recording.path) as bag:
        topics = {connection.topic.strip("/") for connection in bag.connections}
    topic = MEASURED if MEASURED in topics else DEFAULT_STATE
    names = [field.name for field in get_model(model).states]
    fields = [WHEEL_FIELDS.get(name, name) for name in names]
    series = read_series(recording.path, topic, fields)
    inside = np.ones(len(series.time), bool) if window is None else (series.time >= window[0]) & (series.time < window[1])
    if not inside.any():
        where = f" in window [{window[0]:g}, {window[1]:g}) s" if window else ""
        raise InputError(f"{recording.path} ({recording.name}): {topic} holds nothing{where}")
    finite = np.isfinite(series.values[inside]).any(axis=0)
    if not finite.any():
        raise InputError(f"{recording.path} ({recording.name}): {topic} holds no state of model {model}")
    interval = float(np.median(np.diff(series.time))) if len(series.time) > 1 else 0.0
    covered = float(series.time[inside][0]), float(series.time[inside][-1]) + interval
    return topic, {n: f for n, f, has in zip(names, fields, finite) if has}, covered
