"""Sources of predictions: a vehicle and, if it is calibrated, draws, noise, model error, nuisances and driving."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_ros.calibration.model_error import ModelError
from lfdm_ros.calibration.results import BEFORE, load_posterior, load_summary, stored_name
from lfdm_ros.errors import InputError
from lfdm_ros.inference.likelihood import Targets
from lfdm_ros.inference.plan import INITIAL, RHO, SIGMA, Inputs, Split, SteeringSource
from lfdm_ros.vehicles import Vehicle, load_vehicle

MEASURED = "measured/state"
DEFAULT_STEP = 0.005
Pieces = Sequence[tuple[float, float, str]]


@dataclass(frozen=True)
class ChannelNoise:
    """Noise of one channel: the stage that inferred it, the topic that it was inferred from, standard deviation and correlation (C, N),
    model error, if any, and RMSE out of sample."""

    stage: str
    topic: str
    sigma: np.ndarray
    rho: np.ndarray
    model_error: ModelError | None
    size: float


@dataclass(frozen=True)
class PredictionSource:
    """Vehicle and, if it is calibrated, posterior of a prediction.

    Attributes:
        unknowns: vehicle parameters that each of them sets. nuisances: of the measurement.
        draws: (C, N) by variable of both; point: their representative values.
        noise: by channel.
        topic: that was fitted.
        before: the vehicle before the calibration, if stored.
        ground: of the recording.
        kinematic: nuisances of the fitted kinematic bicycle; kinematic_fits: of all such fits, to the yaw rate and to positions.
        fitted, held_out: pieces (start, end, name) s of the calibration's recordings, by their hashes.
        fitted_range: of speed [m/s] and of lateral acceleration [m/s^2] in the fitted runs; by_speed: least and largest speed [m/s], and
            the largest lateral acceleration between them [m/s^2].
        notes: for the reader of the prediction.
    """

    model: str
    vehicle: Vehicle
    step: float
    unknowns: Mapping[str, Targets] = field(default_factory=dict)
    nuisances: tuple[str, ...] = ()
    draws: Mapping[str, np.ndarray] = field(default_factory=dict)
    point: Mapping[str, float] = field(default_factory=dict)
    point_is: str = "the vehicle"
    noise: Mapping[str, ChannelNoise] = field(default_factory=dict)
    inputs: Inputs = field(default_factory=Inputs)
    prescribed: tuple[tuple[str, str, str], ...] = ()
    split: Split | None = None
    fitted: Mapping[str, Pieces] = field(default_factory=dict)
    held_out: Mapping[str, Pieces] = field(default_factory=dict)
    topic: str = MEASURED
    before: Vehicle | None = None
    ground: str = ""
    kinematic: Mapping[str, float] | None = None
    kinematic_fits: tuple[Mapping[str, float], ...] = ()
    fitted_range: Mapping[str, Sequence[Any]] | None = None
    notes: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Chains and draws of each."""
        first = next(iter(self.draws.values()), np.empty((1, 1)))
        return first.shape[0], first.shape[1]


def from_vehicle(vehicle: Vehicle | str | os.PathLike[str], model: str | None) -> PredictionSource:
    loaded = vehicle if isinstance(vehicle, Vehicle) else load_vehicle(vehicle)
    return PredictionSource(model=loaded.model(model or "eight_dof").name, vehicle=loaded, step=DEFAULT_STEP)


def like(vehicle: Vehicle | str | os.PathLike[str], directory: Path, model: str | None) -> PredictionSource:
    """Takes a vehicle driven, measured and cut into pieces as a calibration was, with its nuisances, and without its noise and
    intervals."""
    loaded, result = vehicle if isinstance(vehicle, Vehicle) else load_vehicle(vehicle), from_posterior(directory)
    spec = loaded.spec(model or result.model)
    nuisance_draws = {name: result.draws[name] for name in result.nuisances}
    return replace(result, model=loaded.model(spec).name, vehicle=loaded, unknowns={}, draws=nuisance_draws, noise={}, before=None,
                   point={name: result.point[name] for name in result.nuisances})


def from_posterior(directory: Path) -> PredictionSource:
    """Reads the result of a calibration. Raises InputError: there is none."""
    summary = load_summary(directory)
    posterior = load_posterior(directory)
    stages = [stage for stage in summary["stages"] if stage["temperature"] == 1.0]
    unknowns: dict[str, Targets] = {}
    nuisances: list[str] = []
    draws: dict[str, np.ndarray] = {}
    point: dict[str, float] = {}
    noise: dict[str, ChannelNoise] = {}
    for stage in stages:
        for shown, row in stage["parameters"].items():
            name = shown.replace("/", ".", 1)
            if name.startswith((SIGMA, RHO, INITIAL)):
                continue
            draws[name] = posterior[stored_name(stage["name"], name)].values
            point[name] = float(stage.get("point", {}).get(name, draws[name].mean()))
            if "targets" in row:
                unknowns[name] = tuple(row["targets"].items())
            else:
                nuisances.append(name)
        for segment in stage["segments"]:
            for channel, place in segment["channels"].items():
                found = _noise(stage, place, posterior)
                # Of several noise estimates of a channel use the largest, since the next recording may resemble any of them.
                if channel not in noise or found.size > noise[channel].size:
                    noise[channel] = found
    # The last segment with a measured steering angle inferred the tyres' response to that angle.
    stage, segment = sorted(((stage, segment) for stage in stages for segment in stage["segments"]),
                            key=lambda pair: pair[1]["inputs"]["steering"] is not None)[-1]
    inputs = segment["inputs"]
    before, missing = _before(directory, summary, unknowns)
    return PredictionSource(
        model=summary["model"], vehicle=load_vehicle(directory / "vehicle.yaml"), step=summary["step"], unknowns=unknowns,
        nuisances=tuple(dict.fromkeys(nuisances)), draws=draws, point=point,
        point_is=stages[-1].get("point_is", "posterior mean") if stages else "posterior mean", noise=noise,
        inputs=Inputs(inputs["topic"], SteeringSource(**inputs["steering"]) if inputs["steering"] else None),
        prescribed=tuple(map(tuple, segment["prescribed"])), split=Split(**segment["split"]) if segment["split"] else None,
        fitted={r["sha256"]: () for r in summary["recordings"]} | _pieces(row for one in stages for row in one["data"]),
        held_out=_pieces(stage["held_out"].get("data", ())),
        topic=next(iter(segment["channels"].values()))["topic"].strip("/"), before=before,
        kinematic=next((stage["kinematic"] for stage in reversed(stages) if stage.get("kinematic")), None),
        kinematic_fits=next((tuple(stage["kinematic_fits"]) for stage in reversed(stages) if stage.get("kinematic_fits")), ()),
        fitted_range=_range(stages), notes=missing)


def _pieces(rows: Iterable[Mapping[str, Any]]) -> dict[str, Pieces]:
    """Returns the pieces by the hash of their recordings; results of earlier versions have none."""
    out: dict[str, list[tuple[float, float, str]]] = {}
    for row in rows:
        if "sha256" in row:
            out.setdefault(row["sha256"], []).append((row["start"], row["end"] + row["interval"], row["name"]))
    return {key: sorted(set(windows)) for key, windows in out.items()}


def _noise(stage: Mapping[str, Any], place: Mapping[str, Any], posterior: Any) -> ChannelNoise:
    sigma = posterior[stored_name(stage["name"], SIGMA + place["label"])].values
    rho = stored_name(stage["name"], RHO + place["label"])
    unseen = (stage.get("out_of_sample") or {}).get(place["label"], {})
    learned = unseen.get("model_error")
    return ChannelNoise(stage["name"], place["topic"], sigma, posterior[rho].values if rho in posterior else np.zeros_like(sigma),
                        ModelError(**learned) if learned else None, float(unseen.get("rmse", sigma.mean())))


def _range(stages: list[dict[str, Any]]) -> dict[str, Sequence[Any]] | None:
    ranges = [stage["range"] for stage in stages if stage.get("range")]
    if not ranges:
        return None
    whole = {name: (min(row[name][0] for row in ranges), max(row[name][1] for row in ranges)) for name in ("speed", "lateral_acceleration")}
    return {**whole, "by_speed": [part for row in ranges for part in row.get("by_speed", ())]}  # results of former versions lack it


def _before(directory: Path, summary: Mapping[str, Any], unknowns: Mapping[str, Targets]) -> tuple[Vehicle | None, tuple[str, ...]]:
    # The vehicle before the calibration, with the recipe's fixed values; in results without it, by name.
    try:
        vehicle = load_vehicle(directory / BEFORE) if (directory / BEFORE).is_file() else \
            load_vehicle(summary["vehicle"]).replace(**summary["held"])
    except InputError as error:
        return None, (f"the vehicle as it was cannot be shown: {directory} does not hold it ({error}); calibrate again",)
    if lacks := [target for targets in unknowns.values() for target, _ in targets if target not in vehicle.parameters]:
        return None, (f"the vehicle as it was cannot be shown: it has no {', '.join(dict.fromkeys(lacks))}",)
    return vehicle, ()


def posterior_parameters(vehicle_file: Path, model_parameters: Collection[str], model: str, where: str) -> dict[str, np.ndarray]:
    """Reads the draws of the posterior beside a vehicle file, as parameters of a vehicle, (draws,) each. `model_parameters`: names of
    the model's parameters; `model`: its name, for messages; `where`: their prefix. Raises InputError: the file is not from a calibration,
    or the model lacks a calibrated parameter."""
    if not (vehicle_file.parent / "summary.json").is_file():
        raise InputError(f"{where}: {vehicle_file} is not the result of a calibration (no summary.json beside it)")
    source = from_posterior(vehicle_file.parent)
    flat = {name: values.ravel() for name, values in source.draws.items() if name in source.unknowns}
    lacking = [target for name in flat for target, _ in source.unknowns[name] if target not in model_parameters]
    if lacking:
        raise InputError(f"{where}: {model} has no {', '.join(lacking)}, which was calibrated with {source.model}; "
                         f"give --model {source.model.split('/')[0]}")
    return {target: factor * values for name, values in flat.items() for target, factor in source.unknowns[name]}
