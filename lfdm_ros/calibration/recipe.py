"""A recipe: what is inferred, from which recordings, in which order. YAML in, validated immutable records out."""

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lfdm_ros.bags.grounds import find_ground
from lfdm_ros.bounds import CHAINS, DRAWS, SEEDS
from lfdm_ros.documents import entries, integer, mapping, number, quantity, read_yaml, text
from lfdm_ros.errors import InputError, prefixing, quote, suggest
from lfdm_ros.inference import plan
from lfdm_ros.inference.dataset import RECORDED
from lfdm_ros.inference.priors import Prior, parse_prior
from lfdm_ros.models import Field, get_model
from lfdm_ros.resources import find_config
from lfdm_ros.samplers.sampler import DEFAULT, SAMPLERS
from lfdm_ros.vehicles import load_vehicle
from lfdm_ros.vehicles.vehicle import check


def load_recipe(name: str | os.PathLike[str], errors: str | None = None, ground: str | None = None) -> plan.Recipe:
    """Reads a recipe by name (config/calibration) or path; `errors` replaces those of its stages, `ground` its ground.
    Raises InputError: not YAML, unknown or missing key, unit that does not fit, value out of range; names file and key."""
    path = find_config("calibration", name)
    where = str(path)
    document, content = read_yaml(path)
    if isinstance(document, dict) and "field" in document:
        raise InputError(f"{where}: field: it is a recipe of a friction field; give `lfdm calibrate` its places with --survey")
    top = mapping(document, where, ("model", "vehicle", "stages"),
                  ("step", "seed", "draws", "chains", "sampler", "note", "parameters", "ground"))
    vehicle = load_vehicle(text(top["vehicle"], f"{where}: vehicle"))
    model_name = text(top["model"], f"{where}: model")
    model = get_model(vehicle.spec(model_name))  # the recipe may fix parameters that the vehicle lacks
    declared = {field.name: field for field in model.parameters}
    fixed = {key: check(key, quantity(entry, declared[key].unit, f"{where}: parameters.{key}")[0], f"{where}: parameters")
             for key, entry in mapping(top.get("parameters", {}), f"{where}: parameters", (), declared).items()}
    step = quantity(top.get("step", {"value": 0.005, "unit": "s"}), "s", f"{where}: step")[0]
    if not 0.0 < step <= 0.1:
        raise InputError(f"{where}: step: {step} s is outside (0, 0.1]")
    listed = entries(top["stages"], f"{where}: stages", "at least one stage", 1)
    states = {field.name: field for field in model.states}
    if ground is not None:
        content += f"\n# ground: {ground}\n"
    else:
        ground = text(top["ground"], f"{where}: ground") if "ground" in top else ""
    if ground not in ("", RECORDED):
        with prefixing(f"{where}: ground"):  # the file may change
            content += f"\n# {json.dumps(find_ground(ground).document)}\n"
    if errors is not None:
        _choice(errors, plan.ERRORS, "errors")
        content += f"\n# errors: {errors}\n"  # part of the recipe
    stages = tuple(_stage(entry if errors is None or not isinstance(entry, dict) else {**entry, "errors": errors},
                          here, states, declared) for here, entry in listed)
    _check_stages(stages, declared, where)
    node = top.get("sampler", DEFAULT)  # a name, or {name: NAME, OPTION: VALUE ...}
    options = dict(node) if isinstance(node, Mapping) else {"name": node}
    sampler = SAMPLERS.find(text(options.pop("name", None), f"{where}: sampler.name"), f"{where}: sampler")
    settings = sampler.having(options, f"{where}: sampler").settings
    return plan.Recipe(
        path=path, text=content, model=model.name if vehicle.spec(model.name) == model.name else model_name, vehicle=vehicle, step=step,
        fixed=fixed, stages=stages, seed=integer(top.get("seed", 1), f"{where}: seed", *SEEDS),
        draws=integer(top.get("draws", 1000), f"{where}: draws", *DRAWS), chains=integer(top.get("chains", 8), f"{where}: chains", *CHAINS),
        sampler=sampler.name, options={name: settings[name] for name in options}, ground=ground,
        note=" ".join(str(top.get("note", "")).split()))


def sampled_by(recipe: plan.Recipe, name: str | None, options: Mapping[str, Any] | None) -> plan.Recipe:
    """Returns the recipe with another sampler and options, by default those of the recipe."""
    chosen = recipe.options if name in (None, recipe.sampler) else {}
    return replace(recipe, sampler=name or recipe.sampler, options={**chosen, **(options or {})})


def _stage(entry: Any, where: str, states: Mapping[str, Field], declared: Mapping[str, Field]) -> plan.Stage:
    stage = mapping(entry, where, ("name",),
                    ("parameters", "segments", *_SEGMENT_KEYS, "nuisance", "errors", "correlation", "least_squares"))
    name = _name(stage["name"], f"{where}.name")
    where = f"{where} ({name})"
    errors = _choice(stage.get("errors", plan.WHITE), plan.ERRORS, f"{where}.errors")
    correlation = None
    if errors == plan.AR1:
        spec = stage.get("correlation", {"prior": "uniform", "lower": -0.5, "upper": 0.999, "unit": "1"})
        correlation = parse_prior(spec, "1", f"{where}.correlation")
        lower, upper = correlation.bounds()
        if lower <= -1.0 or upper >= 1.0:
            raise InputError(f"{where}.correlation: must stay inside (-1, 1); use uniform or truncated_normal with such bounds")
    elif "correlation" in stage:
        raise InputError(f"{where}.correlation: {errors} errors have none; write errors: {plan.AR1}")
    shared = {key: stage[key] for key in _SEGMENT_KEYS if key in stage}
    if "segments" in stage:
        segments = tuple(_segment(node, here, shared, correlation, states, declared)
                         for here, node in entries(stage["segments"], f"{where}.segments", "at least one segment", 1))
        names = [segment.name for segment in segments]
        if len(set(names)) != len(names):
            raise InputError(f"{where}.segments: two have the same name; give each its own")
    else:
        segments = (_segment({}, where, shared, correlation, states, declared),)
    nuisance = tuple(_nuisance(key, spec, f"{where}.nuisance", states, segments) for key, spec in
                     mapping(stage.get("nuisance", {}), f"{where}.nuisance", (), stage.get("nuisance") or {}).items())
    # A stage may infer measurement parameters alone.
    parameters = _nonempty(stage.get("parameters"), f"{where}.parameters") if "parameters" in stage or not nuisance else {}
    squares = mapping(stage.get("least_squares", {}), f"{where}.least_squares", (), ("scale", "minimiser"))
    return plan.Stage(
        name=name, segments=segments, nuisance=nuisance, errors=errors,
        parameters=tuple(_parameter(key, spec, f"{where}.parameters", declared) for key, spec in parameters.items()),
        objective=plan.Objective(*(_choice(squares.get(key, choices[0]), choices, f"{where}.least_squares.{key}") for key, choices in
                                   (("scale", plan.SCALES), ("minimiser", plan.MINIMISERS)))))


# Keys of a segment; those of the stage are the defaults.
_SEGMENT_KEYS = ("recording", "window", "split", "initial_state", "inputs", "prescribed", "channels")


def _segment(entry: Any, where: str, shared: Mapping[str, Any], correlation: Prior | None, states: Mapping[str, Field],
             declared: Mapping[str, Field]) -> plan.Segment:
    overrides = mapping(entry, where, (), ("name", *_SEGMENT_KEYS))
    spec = {**shared, **overrides}
    for key in ("recording", "window", "channels"):
        if spec.get(key) is None:
            raise InputError(f"{where}: missing key '{key}'")
    recordings = spec["recording"] if isinstance(spec["recording"], list) else [spec["recording"]]
    recordings = [text(item, f"{where}.recording") for item in recordings]
    if not recordings:
        raise InputError(f"{where}.recording: expected a name, a pattern or a list of them")
    name = _name(overrides.get("name", re.sub(r"[^\w-]", "", recordings[0])), f"{where}.name") if overrides else ""
    window = spec["window"]
    if not isinstance(window, list) or len(window) != 2:
        raise InputError(f"{where}.window: expected [start, end] in s from the start of the recording (end null: to its end), "
                         f"found {quote(window)}")
    start, end = number(window[0], f"{where}.window"), math.inf if window[1] is None else number(window[1], f"{where}.window")
    if not 0.0 <= start < end:
        raise InputError(f"{where}.window: the start must be at least 0 and before the end, found {quote(window)}")
    initial = mapping(spec.get("initial_state", {}), f"{where}.initial_state", (), ("topic", "estimate"))
    estimate = mapping(initial.get("estimate", {}), f"{where}.initial_state.estimate", (), states)
    for state, prior in estimate.items():
        parse_prior(prior, states[state].unit, f"{where}.initial_state.estimate.{state}", default_centre=1.0)
    prescribed = mapping(spec.get("prescribed", {}), f"{where}.prescribed", (), states)
    for state in prescribed:
        if states[state].role != "continuous" or state in estimate:
            raise InputError(f"{where}.prescribed.{state}: only a continuous state that is not estimated can follow a recording")
    channels = []
    for key, node in _nonempty(spec["channels"], f"{where}.channels").items():
        channels.append(_channel(key, node, f"{where}.channels", states, f"{name}.{key}" if "channels" in overrides else key, correlation))
        if key in prescribed:
            raise InputError(f"{where}.channels.{key}: it is prescribed, so it says nothing; leave it out of one of the two")
    return plan.Segment(
        name=name, recordings=tuple(recordings), start=start, end=end,
        split=_split(spec["split"], f"{where}.split") if "split" in spec else None,
        state_topic=text(initial.get("topic", plan.DEFAULT_STATE), f"{where}.initial_state.topic"), estimate=tuple(estimate.items()),
        prescribed=tuple((state, *_place(state, node, f"{where}.prescribed.{state}")) for state, node in prescribed.items()),
        inputs=_inputs(spec.get("inputs", {}), f"{where}.inputs", declared), channels=tuple(channels))


def _split(entry: Any, where: str) -> plan.Split:
    spec = mapping(entry, where, ("length",), ("take",))
    length = quantity(spec["length"], "s", f"{where}.length")[0]
    if length <= 0.0:
        raise InputError(f"{where}.length: must be greater than 0, found {length:g} s")
    return plan.Split(length, _choice(spec.get("take", plan.TAKES[0]), plan.TAKES, f"{where}.take"))


def _place(name: str, entry: Any, where: str) -> tuple[str, str]:
    spec = mapping(entry, where, (), ("topic", "field"))
    return text(spec.get("topic", plan.DEFAULT_STATE), f"{where}.topic"), text(spec.get("field", plan.field_of(name)), f"{where}.field")


def _inputs(entry: Any, where: str, declared: Mapping[str, Field]) -> plan.Inputs:
    spec = mapping(entry, where, (), ("topic", "steering"))
    topic = text(spec.get("topic", plan.DEFAULT_INPUTS), f"{where}.topic")
    if topic == plan.NO_TOPIC and "steering" not in spec:
        raise InputError(f"{where}: with topic {plan.NO_TOPIC} the steering needs a source; add steering: {{topic: ..., field: ...}}")
    return plan.Inputs(topic, _steering(spec["steering"], f"{where}.steering", declared) if "steering" in spec else None)


# Nuisance of an input -> unit; those of outputs are CHANNEL.offset in the channel's unit and the misalignment.
INPUT_NUISANCE = {"offset": "1", "scale": "1", "delay": "s", "lag": "s"}


def _nuisance(name: str, entry: Any, where: str, states: Mapping[str, Field], segments: Iterable[plan.Segment]) -> plan.Nuisance:
    subject, _, kind = str(name).partition(".")
    measured = {channel.name for segment in segments for channel in segment.channels}
    if subject in plan.INPUT_FIELDS and kind in INPUT_NUISANCE:
        unit = INPUT_NUISANCE[kind]
    elif subject in measured and kind == "offset":
        unit = states[subject].unit
    elif name == plan.MISALIGNMENT and {"vx", "vy"} <= set(states):
        unit = "rad"
    else:
        offered = [f"INPUT.{key}" for key in INPUT_NUISANCE] + [f"{channel}.offset" for channel in sorted(measured)] + [plan.MISALIGNMENT]
        raise InputError(f"{where}.{name}: no such nuisance{suggest(name, offered)}; choose from {', '.join(offered)}, "
                         f"INPUT being {', '.join(plan.INPUT_FIELDS)}")
    prior = parse_prior(entry, unit, f"{where}.{name}")
    if kind in ("lag", "scale") and prior.frozen().cdf(0.0) > 1e-6:
        raise InputError(f"{where}.{name}: must be positive; use half_normal, log_normal, uniform or truncated_normal")
    return plan.Nuisance(str(name), prior.as_unknown())


def _name(value: Any, where: str) -> str:
    name = text(value, where)
    if not name.replace("_", "").replace("-", "").isalnum():
        raise InputError(f"{where}: '{name}' may hold letters, digits, - and _ only")
    return name


def _parameter(name: str, entry: Any, where: str, declared: Mapping[str, Field]) -> plan.CalibratedParameter:
    where = f"{where}.{name}"
    if not isinstance(entry, Mapping):
        raise InputError(f"{where}: expected a prior such as {{prior: uniform, lower: 1, upper: 2, unit: N}}, found {quote(entry)}")
    spec = dict(entry)
    targets = spec.pop("targets", {name: 1.0})
    if not isinstance(targets, Mapping) or not targets:
        raise InputError(f"{where}.targets: expected {{PARAMETER: factor, ...}}, found {quote(targets)}")
    if name in declared and name not in targets:
        raise InputError(f"{where}: '{name}' is a parameter of the model; give the shared unknown another name")
    for target, factor in targets.items():
        if target not in declared:
            hint = "add targets: {PARAMETER: factor} or " if "targets" not in entry else ""
            raise InputError(f"{where}: the model has no parameter '{target}'{suggest(target, declared, f'{hint}choose one of: ')}")
        if number(factor, f"{where}.targets.{target}") <= 0.0:
            raise InputError(f"{where}.targets.{target}: expected a factor greater than 0, found {quote(factor)}")
    units = {declared[target].unit for target in targets}
    if len(units) != 1:
        raise InputError(f"{where}.targets: parameters of different units cannot share one unknown ({', '.join(sorted(units))})")
    prior = parse_prior(spec, units.pop(), where)
    return plan.CalibratedParameter(name, prior.as_unknown(), tuple((str(target), float(factor)) for target, factor in targets.items()))


def _channel(name: str, entry: Any, where: str, states: Mapping[str, Field], label: str, correlation: Prior | None) -> plan.Channel:
    if name not in states:
        raise InputError(f"{where}.{name}: not a state of the model{suggest(name, states, 'choose from: ')}")
    where = f"{where}.{name}"
    spec = mapping(entry, where, ("noise",), ("topic", "field"))
    noise = parse_prior(spec["noise"], states[name].unit, f"{where}.noise")
    if noise.frozen().cdf(0.0) > 0.0:
        raise InputError(f"{where}.noise: a standard deviation is positive; use half_normal, log_normal, uniform or truncated_normal")
    place = _place(name, {key: value for key, value in spec.items() if key != "noise"}, where)
    return plan.Channel(name, *place, noise, label, correlation)


def _steering(entry: Any, where: str, declared: Mapping[str, Field]) -> plan.SteeringSource:
    spec = mapping(entry, where, ("field",), ("topic", "scale", "per"))
    per = spec.get("per")
    if per is not None and (not isinstance(per, str) or per not in declared):
        raise InputError(f"{where}.per: the model has no parameter {quote(per)}; to steer by a measured angle write "
                         "per: max_road_wheel_angle")
    scale = number(spec.get("scale", 1.0), f"{where}.scale")
    if scale == 0.0:
        raise InputError(f"{where}.scale: must not be 0")
    topic, field = text(spec.get("topic", plan.DEFAULT_STATE), f"{where}.topic"), text(spec["field"], f"{where}.field")
    return plan.SteeringSource(topic, field, scale, per)


def _choice(value: Any, choices: Iterable[str], where: str) -> str:
    if value not in choices:
        raise InputError(f"{where}: {quote(value)} is not one of: {', '.join(choices)}")
    return str(value)


def _check_stages(stages: Sequence[plan.Stage], declared: Mapping[str, Field], where: str) -> None:
    unknowns: dict[str, str] = {}
    inferred: dict[str, str] = {}
    for i, stage in enumerate(stages):
        if any(stage.name == other.name for other in stages[:i]):
            raise InputError(f"{where}: stages: two are called '{stage.name}'; give each its own name")
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
    # All in one message.
    outside = [f"stages ({stage.name}).parameters.{parameter.name}: the prior reaches outside the range of {target}: {beyond}"
               for stage in stages for parameter in stage.parameters for target, factor in parameter.targets
               if (beyond := parameter.prior.oversteps(declared[target].lower / factor, declared[target].upper / factor))]
    if outside:
        raise InputError(f"{where}: {'; '.join(outside)}")


def _nonempty(node: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(node, Mapping) or not node:
        raise InputError(f"{where}: expected a mapping with at least one entry, found {quote(node)}")
    return node
