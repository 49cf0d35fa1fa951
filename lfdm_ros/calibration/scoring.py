"""Information of recordings about the unknowns of a recipe, before sampling, and the manoeuvre that is missing."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lfdm_ros.calibration.stage import StageModel, stage_model
from lfdm_ros.inference.dataset import Dataset, StageData, find_recordings, load_stage
from lfdm_ros.inference.identifiability import Knowledge, Noise, Unidentified, expected, fisher
from lfdm_ros.inference.likelihood import RolloutLikelihood
from lfdm_ros.inference.model import ErrorPriors
from lfdm_ros.inference.plan import Channel, Recipe, Stage
from lfdm_ros.resources import share_directory
from lfdm_ros.simulation import InputProfile, Scenario, load_scenario
from lfdm_ros.vehicles import Vehicle

POINTS = 8  # at which the information is evaluated: the vehicle's values and draws from the priors
TRIES = 4  # redraws of a point that cannot be simulated
WORK = 4_000_000  # samples times unknowns, over all points: about a second
HELPS = 0.5  # a manoeuvre is recommended if it narrows an unidentified direction below this share
# The vehicle that the shipped manoeuvres were written for. At sqrt(length) times the speed the same wheel angle gives the same
# lateral acceleration, which scales them to a vehicle of another size.
WRITTEN_FOR = {"wheelbase": 3.3, "max_road_wheel_angle": 0.6525}


@dataclass(frozen=True)
class Missing:
    """The manoeuvre that narrows an untold direction most. `narrows`: unknown -> widths before and after, in units of the prior."""

    group: Unidentified
    name: str | None
    width: float
    narrows: Mapping[str, tuple[float, float]]

    @property
    def words(self) -> str:
        if self.name is None:
            others = "the recording itself has to excite it" if self.group.kind == "alone" else "no shipped manoeuvre separates them"
            return f"{self.group.words}: {self.group.remedy}; {others}"
        effect = ", ".join(f"{unknown} from {before:.2f} to {after:.2f}" for unknown, (before, after) in self.narrows.items())
        return f"{self.group.words}: {self.group.remedy}, or drive {self.name}: it would narrow {effect} of the prior"


def score_recordings(recipe: Recipe, bags: Sequence[str | os.PathLike[str]]) -> dict[str, dict[str, Any]]:
    """Scores the information in bags for each stage of a recipe by `score_stage`, without sampling. Raises InputError: the recordings do
    not fit the recipe."""
    recordings = find_recordings(bags)
    vehicle = recipe.start_vehicle
    return {stage.name: score_stage(stage, load_stage(stage, recordings, recipe, vehicle), recipe, vehicle) for stage in recipe.stages}


def score_stage(stage: Stage, data: StageData, recipe: Recipe, vehicle: Vehicle, model: StageModel | None = None) -> dict[str, Any]:
    """Scores the information in the data of a stage; for summary.json. `model`: of the stage, if already built: inflated errors require a
    fit.

    Returns:
        `points` where the information was evaluated, `counted`: effective number of samples with inflated errors, number of
        `unknowns`, `informed_directions`, `expected`: posterior over prior standard deviation by unknown, `untold`: unidentified groups,
        each with a manoeuvre to drive, `text` in one or two lines. Only `error` if the stage cannot be scored, which must not stop a
        calibration.
    """
    try:
        return _score(stage, data, recipe, vehicle, model or stage_model(stage, data, recipe, vehicle))
    except Exception as error:  # a score is an extra
        return {"error": " ".join(f"{type(error).__name__}: {error}".split()), "text": [f"{stage.name}: could not be scored ({error})"]}


def _score(stage: Stage, data: StageData, recipe: Recipe, vehicle: Vehicle, built: StageModel) -> dict[str, Any]:
    points, informations = _informations(built, typical_noise(built.errors, [group.label for group in built.likelihood.groups]))
    if not informations:
        raise ValueError("no draw of the priors can be simulated")
    knowledge = expected(built.unknowns, informations, points[0])
    physical, widths = {parameter.name for parameter in stage.parameters}, knowledge.widths
    missing = [_missing(group, knowledge, stage, data, recipe, vehicle, points[0], informations[0], built.likelihood.weights)
               for group in knowledge.unidentified() if physical & set(group.members)]
    counted = [f"{group.count} samples of {group.label} count as {group.count * group.weight:.0f}: their errors stay"
               for group in built.likelihood.groups if group.weight < 1.0]
    text = ["; ".join([f"{stage.name}: the recordings tell {knowledge.informed} of {len(widths)} directions; expected widths against the "
                       "prior: " + ", ".join(f"{name} {widths[name]:.2g}" for name in widths if name in physical), *counted])]
    return {"points": len(informations), "counted": counted, "unknowns": len(widths), "informed_directions": knowledge.informed,
            "expected": widths, "untold": [{**one.group.as_dict(), "drive": one.name, "text": one.words,
                                            "narrows": {name: list(both) for name, both in one.narrows.items()}} for one in missing],
            "text": text + [f"{stage.name}: {one.words}" for one in missing]}


def typical_noise(errors: Mapping[str, ErrorPriors], labels: Sequence[str]) -> list[tuple[float, float]]:
    """Returns the medians of the priors of standard deviation and correlation."""
    return [(float(errors[label].noise.frozen().median()),
             float(prior.frozen().median()) if (prior := errors[label].correlation) is not None else 0.0) for label in labels]


def _informations(model: StageModel, noise: Noise) -> tuple[list[np.ndarray], list[np.ndarray]]:
    # Points (Q,) that can be simulated, and the information at each; the first is where a search would begin.
    priors = list(model.unknowns.values())
    size = sum(piece.data.observed.size for piece in model.likelihood.pieces) * len(priors)
    target = int(np.clip(WORK // max(1, size), 2, POINTS))
    rng = np.random.default_rng(0)
    medians = np.array([float(prior.frozen().median()) for prior in priors])
    bounds = np.array([prior.bounds() for prior in priors])
    inside = (model.start > bounds[:, 0]) & (model.start < bounds[:, 1])
    # Measurement parameters are small: drawn from their priors they would hide the effect of the vehicle's parameters.
    candidates = [np.where(inside, model.start, medians), medians]
    candidates += [np.array([float(prior.frozen().rvs(random_state=rng)) for prior in priors]) for _ in range(TRIES * target)]
    points, informations = [], []
    for q in candidates:
        information = fisher(model.likelihood, priors, q, noise)
        if information is not None:
            points.append(q)
            informations.append(information)
        if len(points) == target:
            break
    return points, informations


def manoeuvres() -> list[tuple[Scenario, InputProfile]]:
    """Lists the shipped manoeuvres with their driver inputs; scenarios without inputs are left out. Raises InputError: one cannot be
    read."""
    scenarios = [load_scenario(path) for path in sorted((share_directory() / "config" / "scenarios").glob("*.yaml"))]
    return [(scenario, scenario.profile) for scenario in scenarios if scenario.profile is not None]


def _missing(group: Unidentified, knowledge: Knowledge, stage: Stage, data: StageData, recipe: Recipe, vehicle: Vehicle, q: np.ndarray,
             have: np.ndarray, weights: Mapping[str, float]) -> Missing:
    names, priors = list(knowledge.priors), list(knowledge.priors.values())
    members = [names.index(name) for name in group.members]
    before = np.linalg.inv(np.eye(len(names)) + have)
    best: tuple[float, str | None, np.ndarray] = (float(np.sqrt(np.linalg.eigvalsh(before[np.ix_(members, members)])[-1])), None, before)
    physical_names = [p.name for p in stage.parameters] + [n.name for n in stage.nuisance]
    channels = _channels(stage, data, recipe)
    for manoeuvre, profile in manoeuvres():
        driven = _drive(manoeuvre, profile, stage, data, recipe, vehicle, channels)
        # Correlated errors stay correlated: n samples of variance s^2 / w inform as much as w n of s^2.
        noise = [(float(c.noise.frozen().median()) * weights.get(c.label, min(weights.values())) ** -0.5,
                  float(c.correlation.frozen().median()) if c.correlation else 0.0) for c in channels]
        more = fisher(driven, priors[:len(physical_names)], q[:len(physical_names)], noise)
        if more is None:
            continue
        total = np.eye(len(names)) + have
        total[:len(physical_names), :len(physical_names)] += more
        after = np.linalg.inv(total)
        width = float(np.sqrt(np.linalg.eigvalsh(after[np.ix_(members, members)])[-1]))
        if width < best[0]:
            best = (width, manoeuvre.name, after)
    width, name, after = best
    if width > HELPS * group.width:
        return Missing(group, None, width, {})
    both = {names[i]: (float(np.sqrt(before[i, i])), float(np.sqrt(after[i, i]))) for i in members}
    return Missing(group, name, width, dict(sorted(both.items(), key=lambda item: item[1][1] / item[1][0])[:2]))


def _channels(stage: Stage, data: StageData, recipe: Recipe) -> list[Channel]:
    # One recording has the channels of all stages; where two stages define the noise, the requesting one counts.
    found: dict[str, Channel] = {}
    for one in (stage, *recipe.stages):
        for channel in one.channels.values():
            found.setdefault(channel.name, channel)
    following = [state for state, _, _ in data.fitted[0][0].prescribed]
    return [channel for channel in found.values() if channel.name not in following]


def _drive(manoeuvre: Scenario, profile: InputProfile, stage: Stage, data: StageData, recipe: Recipe, vehicle: Vehicle,
           channels: Sequence[Channel]) -> RolloutLikelihood:
    """Simulates the vehicle on a manoeuvre, as if it had been recorded as the stage's first recording was."""
    p = vehicle.parameters
    wheelbase = p.get("cg_to_front_axle", 0.5 * WRITTEN_FOR["wheelbase"]) + p.get("cg_to_rear_axle", 0.5 * WRITTEN_FOR["wheelbase"])
    size = wheelbase / WRITTEN_FOR["wheelbase"]
    speed = manoeuvre.initial.speed * np.sqrt(size)
    segment, like = data.fitted[0]
    times = like.interval * np.arange(int(manoeuvre.duration / like.interval) + 1)
    inputs = profile.sample(times)
    inputs[:, 0] = np.clip(inputs[:, 0] * WRITTEN_FOR["max_road_wheel_angle"] / p.get("max_road_wheel_angle", 0.6525), -1.0, 1.0)
    following = tuple(state for state, _, _ in segment.prescribed)
    # Prescribed states are not predicted by the model: speed stays constant, the rest is 0.
    prescribed = np.tile([speed if state == "vx" else 0.0 for state in following], (len(times), 1)) if following else np.empty((0, 0))
    driven = Dataset(recording=like.recording, times=times, inputs=inputs, hold=False, observed=np.zeros((len(times), len(channels))),
                     channels=tuple(c.name for c in channels), initial={"vx": speed}, following=following, prescribed=prescribed)
    return RolloutLikelihood([driven], model=recipe.model, vehicle=vehicle, step=recipe.step,
                             unknowns=[parameter.targets for parameter in stage.parameters], nuisances=[n.name for n in stage.nuisance])

