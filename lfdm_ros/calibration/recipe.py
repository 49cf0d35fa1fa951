"""A recipe: what is inferred, from which recordings, in which order. YAML in, validated immutable records out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lfdm_ros.calibration.priors import Prior, parse_prior
from lfdm_ros.documents import integer, mapping, number, quantity, read_yaml, text
from lfdm_ros.errors import InputError
from lfdm_ros.models import Field, get_model
from lfdm_ros.resources import find_config
from lfdm_ros.vehicles import Vehicle, load_vehicle
from lfdm_ros.vehicles.vehicle import check

DEFAULT_INPUTS = "control/command"
DEFAULT_STATE = "vehicle/state"
# Names of unknowns that are no vehicle parameters: sigma.vx is the noise of channel vx, initial.vx an estimated initial state.
SIGMA = "sigma."
INITIAL = "initial."
SAMPLERS = ("smc", "least_squares")
SCALES = ("noise", "measured_sd", "error_range")
MINIMISERS = ("trust_region", "powell")
WHEEL_FIELDS = {f"omega_{wheel}": f"wheel_speeds[{i}]" for i, wheel in enumerate(("fl", "fr", "rl", "rr"))}


@dataclass(frozen=True)
class Parameter:
    """One unknown. `targets`: vehicle parameter -> factor; roll damping may be one unknown shared front and rear."""

    name: str
    prior: Prior
    targets: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Channel:
    """One measured state: the topic and field it is recorded in, and the prior of its noise."""

    name: str
    topic: str
    field: str
    noise: Prior


@dataclass(frozen=True)
class SteeringSource:
    """Steering taken from a measured field instead of the command: steering = scale * field, or field / vehicle[per]."""

    topic: str
    field: str
    scale: float
    per: str | None


@dataclass(frozen=True)
class Inputs:
    """Where the driver's inputs come from."""

    topic: str = DEFAULT_INPUTS
    steering: SteeringSource | None = None


@dataclass(frozen=True)
class Objective:
    """What the sampler least_squares minimises: the sum over channels and samples of the squared scaled error.

    scale: `noise` divides the error of a channel by its noise, which is estimated with it, and adds the priors: the posterior mode;
    `measured_sd` divides by the standard deviation of what was measured; `error_range` maps the error itself from its least to its
    greatest value onto [0, 1], which is no measure of agreement (a constant error costs nothing definite) but has been published.
    minimiser: `trust_region` (Gauss-Newton steps with bounds), or `powell`: SciPy's, with its default tolerances, in SI units and from
    the vehicle's values, to redo what others did with it.
    """

    scale: str = "noise"
    minimiser: str = "trust_region"


@dataclass(frozen=True)
class Stage:
    """One inference: the window [start, end) of one recording."""

    name: str
    recording: str
    start: float
    end: float
    state_topic: str
    estimate: tuple[tuple[str, Mapping[str, Any]], ...]  # priors of initial states, read once the recorded value is known
    inputs: Inputs
    parameters: tuple[Parameter, ...]
    channels: tuple[Channel, ...]
    objective: Objective = field(default_factory=Objective)

    @property
    def targets(self) -> tuple[str, ...]:
        """The vehicle parameters that this stage changes."""
        return tuple(dict.fromkeys(target for parameter in self.parameters for target, _ in parameter.targets))


@dataclass(frozen=True)
class Recipe:
    """A whole calibration. `fixed` overrides the vehicle's parameters; a stage may infer them later."""

    path: Path
    text: str
    model: str
    vehicle: Vehicle
    step: float
    seed: int
    draws: int
    chains: int
    note: str
    fixed: Mapping[str, float]
    stages: tuple[Stage, ...]
    sampler: str = SAMPLERS[0]

    @property
    def start_vehicle(self) -> Vehicle:
        """The vehicle with the parameters that the recipe holds fixed."""
        return self.vehicle.replace(source=f"held by recipe {self.path.name}", **self.fixed) if self.fixed else self.vehicle


def load_recipe(name: str | os.PathLike[str]) -> Recipe:
    """Reads a recipe by name (config/calibration) or path.

    Raises:
        InputError: not YAML, unknown or missing key, unit that does not fit, value out of range; names file and key.
    """
    path = find_config("calibration", name)
    where = str(path)
    document, content = read_yaml(path)
    top = mapping(document, where, ("model", "vehicle", "stages"), ("step", "seed", "draws", "chains", "sampler", "note", "parameters"))
    vehicle = load_vehicle(text(top["vehicle"], f"{where}: vehicle"))
    wanted = text(top["model"], f"{where}: model")
    model = get_model(vehicle.spec(wanted))  # what the vehicle lacks, the recipe may hold
    declared = {field.name: field for field in model.parameters}
    fixed = {}
    for key, entry in mapping(top.get("parameters", {}), f"{where}: parameters", (), declared).items():
        fixed[key] = check(key, quantity(entry, declared[key].unit, f"{where}: parameters.{key}")[0], f"{where}: parameters")
    step = quantity(top.get("step", {"value": 0.005, "unit": "s"}), "s", f"{where}: step")[0]
    if not 0.0 < step <= 0.1:
        raise InputError(f"{where}: step: {step} s is outside (0, 0.1]")
    if not isinstance(top["stages"], list) or not top["stages"]:
        raise InputError(f"{where}: stages: expected a list of at least one stage")
    states = {field.name: field for field in model.states}
    stages = tuple(_stage(entry, f"{where}: stages[{i}]", states, declared) for i, entry in enumerate(top["stages"]))
    _check_stages(stages, where)
    return Recipe(
        path=path, text=content, model=model.name if vehicle.spec(model.name) == model.name else wanted, vehicle=vehicle, step=step,
        fixed=fixed, stages=stages,
        seed=integer(top.get("seed", 1), f"{where}: seed", 0), draws=integer(top.get("draws", 1000), f"{where}: draws", 10),
        chains=integer(top.get("chains", 8), f"{where}: chains", 1),
        sampler=_choice(top.get("sampler", SAMPLERS[0]), SAMPLERS, f"{where}: sampler"), note=" ".join(str(top.get("note", "")).split()))


def _stage(entry: Any, where: str, states: Mapping[str, Field], declared: Mapping[str, Field]) -> Stage:
    stage = mapping(entry, where, ("name", "recording", "window", "parameters", "channels"), ("initial_state", "inputs", "least_squares"))
    name = text(stage["name"], f"{where}.name")
    if not name.replace("_", "").isalnum():
        raise InputError(f"{where}.name: '{name}' may hold letters, digits and underscores only")
    where = f"{where} ({name})"
    window = stage["window"]
    if not isinstance(window, list) or len(window) != 2:
        raise InputError(f"{where}.window: expected [start, end] in s from the start of the recording, found {window!r}")
    start, end = (number(value, f"{where}.window") for value in window)
    if not 0.0 <= start < end:
        raise InputError(f"{where}.window: the start must be at least 0 and before the end, found {window!r}")
    initial = mapping(stage.get("initial_state", {}), f"{where}.initial_state", (), ("topic", "estimate"))
    estimate = mapping(initial.get("estimate", {}), f"{where}.initial_state.estimate", (), states)
    for state, spec in estimate.items():
        parse_prior(spec, states[state].unit, f"{where}.initial_state.estimate.{state}", default_centre=1.0)
    inputs = mapping(stage.get("inputs", {}), f"{where}.inputs", (), ("topic", "steering"))
    return Stage(
        name=name, recording=text(stage["recording"], f"{where}.recording"), start=start, end=end,
        state_topic=text(initial.get("topic", DEFAULT_STATE), f"{where}.initial_state.topic"), estimate=tuple(estimate.items()),
        inputs=Inputs(topic=text(inputs.get("topic", DEFAULT_INPUTS), f"{where}.inputs.topic"),
                      steering=_steering(inputs["steering"], f"{where}.inputs.steering", declared) if "steering" in inputs else None),
        parameters=tuple(_parameter(key, spec, f"{where}.parameters", declared) for key, spec in
                         _nonempty(stage["parameters"], f"{where}.parameters").items()),
        channels=tuple(_channel(key, spec, f"{where}.channels", states) for key, spec in
                       _nonempty(stage["channels"], f"{where}.channels").items()),
        objective=_objective(stage.get("least_squares", {}), f"{where}.least_squares"))


def _parameter(name: str, entry: Any, where: str, declared: Mapping[str, Field]) -> Parameter:
    where = f"{where}.{name}"
    if not isinstance(entry, Mapping):
        raise InputError(f"{where}: expected a prior such as {{prior: uniform, lower: 1, upper: 2, unit: N}}, found {entry!r}")
    spec = dict(entry)
    targets = spec.pop("targets", {name: 1.0})
    if not isinstance(targets, Mapping) or not targets:
        raise InputError(f"{where}.targets: expected {{PARAMETER: factor, ...}}, found {targets!r}")
    if name in declared and name not in targets:
        raise InputError(f"{where}: '{name}' is a parameter of the model; give the shared unknown another name")
    for target, factor in targets.items():
        if target not in declared:
            hint = "add targets: {PARAMETER: factor} or " if "targets" not in entry else ""
            raise InputError(f"{where}: the model has no parameter '{target}'; {hint}choose one of: {', '.join(declared)}")
        if number(factor, f"{where}.targets.{target}") <= 0.0:
            raise InputError(f"{where}.targets.{target}: expected a factor greater than 0, found {factor!r}")
    units = {declared[target].unit for target in targets}
    if len(units) != 1:
        raise InputError(f"{where}.targets: parameters of different units cannot share one unknown ({', '.join(sorted(units))})")
    prior = parse_prior(spec, units.pop(), where)
    for target, factor in targets.items():
        field = declared[target]
        outside = prior.frozen().cdf(field.lower / factor) + prior.frozen().sf(field.upper / factor)
        if outside > 1e-6:
            raise InputError(f"{where}: the prior reaches outside [{field.lower:g}, {field.upper:g}] {field.unit}, the range of {target}; "
                             "narrow it or use truncated_normal")
    return Parameter(name, prior, tuple((str(target), float(factor)) for target, factor in targets.items()))


def _channel(name: str, entry: Any, where: str, states: Mapping[str, Field]) -> Channel:
    if name not in states:
        raise InputError(f"{where}.{name}: not a state of the model; choose from: {', '.join(states)}")
    where = f"{where}.{name}"
    spec = mapping(entry, where, ("noise",), ("topic", "field"))
    noise = parse_prior(spec["noise"], states[name].unit, f"{where}.noise")
    if noise.frozen().cdf(0.0) > 0.0:
        raise InputError(f"{where}.noise: a standard deviation is positive; use half_normal, log_normal, uniform or truncated_normal")
    return Channel(name, text(spec.get("topic", DEFAULT_STATE), f"{where}.topic"),
                   text(spec.get("field", WHEEL_FIELDS.get(name, name)), f"{where}.field"), noise)


def _steering(entry: Any, where: str, declared: Mapping[str, Field]) -> SteeringSource:
    spec = mapping(entry, where, ("field",), ("topic", "scale", "per"))
    per = spec.get("per")
    if per is not None and per not in declared:
        raise InputError(f"{where}.per: the model has no parameter '{per}'; to steer by a measured angle write per: max_road_wheel_angle")
    scale = number(spec.get("scale", 1.0), f"{where}.scale")
    if scale == 0.0:
        raise InputError(f"{where}.scale: must not be 0")
    return SteeringSource(text(spec.get("topic", DEFAULT_STATE), f"{where}.topic"), text(spec["field"], f"{where}.field"), scale, per)


def _objective(entry: Any, where: str) -> Objective:
    spec = mapping(entry, where, (), ("scale", "minimiser"))
    return Objective(_choice(spec.get("scale", SCALES[0]), SCALES, f"{where}.scale"),
                     _choice(spec.get("minimiser", MINIMISERS[0]), MINIMISERS, f"{where}.minimiser"))


def _choice(value: Any, choices: Iterable[str], where: str) -> str:
    if value not in choices:
        raise InputError(f"{where}: '{value}' is not one of: {', '.join(choices)}")
    return str(value)


def _check_stages(stages: Iterable[Stage], where: str) -> None:
    names: set[str] = set()
    unknowns: dict[str, str] = {}
    inferred: dict[str, str] = {}
    for stage in stages:
        if stage.name in names:
            raise InputError(f"{where}: stages: two are called '{stage.name}'; give each its own name")
        names.add(stage.name)
        for parameter in stage.parameters:
            if parameter.name in unknowns:
                raise InputError(f"{where}: stages ({stage.name}).parameters.{parameter.name}: stage '{unknowns[parameter.name]}' has "
                                 "inferred it already and would be overwritten; infer it in one stage only")
            unknowns[parameter.name] = stage.name
            for target, _ in parameter.targets:
                if target in inferred:
                    raise InputError(f"{where}: stages ({stage.name}).parameters.{parameter.name}: '{target}' is inferred already in stage "
                                     f"'{inferred[target]}' and would be overwritten; infer it in one stage only")
                inferred[target] = stage.name


def _nonempty(node: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(node, Mapping) or not node:
        raise InputError(f"{where}: expected a mapping with at least one entry, found {node!r}")
    return node
