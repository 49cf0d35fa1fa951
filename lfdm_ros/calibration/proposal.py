"""Proposes an initial recipe from the content of recordings, for editing. Each choice has its reason."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_ros.calibration.survey import WHEELBASE, RecordingSurvey, survey
from lfdm_ros.errors import InputError
from lfdm_ros.inference.dataset import find_recordings
from lfdm_ros.inference.plan import DEFAULT_INPUTS, DEFAULT_STATE, NO_TOPIC
from lfdm_ros.inference.priors import parse_prior
from lfdm_ros.models import get_model
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.models.registry import SLOTS
from lfdm_ros.vehicles import Vehicle

PIECE, LENGTHS = 5.0, (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)  # [s] of a vehicle of 2.7 m; those to choose from
LINEAR = 0.4  # share of the grip up to which tyres are linear
GENTLE = 0.1  # share of the grip below which tyres are hardly identifiable
SLIDING = 0.6  # share of the grip from which friction is identifiable
HOLD_OUT = 6  # pieces from which every other one is held out
MAX_SAMPLER_PIECES = 20  # pieces above which least squares are proposed instead of a sampler
STRETCHES = 4  # used of each recording
NOISE = 0.1  # median of the prior of a channel's errors, as a share of its standard deviation
STIFFNESS_SPREAD, ROLL_SPREAD, FRICTION_SPREAD = 0.4, 0.7, 0.2  # of the logarithm, where priors have their middle at the file's values
# Dampers of both axles act together (paper 000, section 4.2).
ROLL = {"roll_stiffness_front": ["roll_stiffness_front"], "roll_stiffness_rear": ["roll_stiffness_rear"],
        "roll_damping": ["roll_damping_front", "roll_damping_rear"]}
# Friction parameters in order of preference; the first that the model has is used.
GRIP = (("friction_max", "friction_min"), ("friction_max",), ("friction_front", "friction_rear"), ("friction_scale",))
RESPONSE, MAX_RESPONSE = 0.1, 0.5  # [s] from the steering to the yaw rate, typically and with slow actuators; of a vehicle of 2.7 m
OFF = 0.3  # of the wheelbase: allowed distance of a measured velocity from the centre of mass


@dataclass(frozen=True)
class Proposal:
    """The text of a recipe, and its decisions, one line each, in the order of the text."""

    text: str
    reasons: tuple[str, ...]


def propose(bags: Sequence[str | Path], vehicle: Vehicle, vehicle_name: str, called: Sequence[str] = (),
            before: Sequence[str] = (), *, model: str = "", sampler: str = "", exact_steering: bool = False) -> Proposal:
    """Proposes a recipe for the lateral dynamics of a vehicle, from all of the bags together.

    `vehicle_name`: as the recipe is to name it, a name in config/vehicles or a path; `called`: how the bags are called in the recipe's
    comments, where they will be elsewhere; `before`: commands that make them; `model`, `sampler`: to be used; empty: as the recordings
    suggest; `exact_steering`: the recorded angle of the road wheels is exact, as a simulator's, and has no unknown scale. Raises
    InputError: no bag has speed and steering, or the vehicle can be no such model.
    """
    surveys: list[RecordingSurvey] = []
    refused: list[str] = []
    for recording in find_recordings(bags):
        try:
            surveys.append(survey(recording, vehicle))
        except InputError as error:
            refused.append(str(error))
    if not surveys:
        raise InputError(refused[0])
    for one in surveys:
        if "/" in one.recording.name or not one.recording.name.strip():
            raise InputError(f"{one.recording.path}: its recording has no name that a recipe can use; import it with --recording NAME")
    found = _Writer(surveys, vehicle, vehicle_name, called or [str(one.recording.path) for one in surveys], before, model,
                    sampler, exact_steering).proposal()
    return replace(found, reasons=(*(f"WARNING: left out: {text}" for text in refused), *found.reasons))


def _written(value: float, digits: int) -> str:
    """Writes a number as YAML 1.1 reads it, which takes 5e+04 for a text."""
    mantissa, e, exponent = f"{value:.{digits}g}".partition("e")
    return f"{mantissa}{'.0' if e and '.' not in mantissa else ''}{e}{exponent}"


class _Writer:
    """Decides, and writes down why."""

    def __init__(self, surveys: Sequence[RecordingSurvey], vehicle: Vehicle, vehicle_name: str, called: Sequence[str],
                 before: Sequence[str], model: str, sampler: str, exact_steering: bool) -> None:
        self.requested_model, self.requested_sampler, self.exact_steering = model, sampler, exact_steering
        self.bags, self.before = " ".join(f"--bag {name}" for name in called), before
        self.surveys, self.vehicle, self.name = surveys, vehicle, vehicle_name
        self.p = vehicle.parameters
        self.size = math.sqrt((self.p["cg_to_front_axle"] + self.p["cg_to_rear_axle"]) / WHEELBASE)
        self.measured = set.intersection(*(set(one.measured) for one in surveys))
        self.reasons: list[str] = []

    def proposal(self) -> Proposal:
        head = [f"# Proposed from {', '.join(one.recording.name for one in self.surveys)}; edit it.",
                *(f"#   {line}" for line in self.before),
                f"#   lfdm calibrate THIS --check {self.bags}", f"#   lfdm calibrate THIS {self.bags} --out result"]
        for one in self.surveys:
            self._log(f"{one.recording.name}: moves for {one.moving:.0f} s at {one.speeds[0]:.3g} to {one.speeds[1]:.3g} m/s, up to "
                      f"{one.lateral:.2g} m/s^2 across; measured: {', '.join(one.measured)}")
            if one.beyond:
                lock = self.p["max_road_wheel_angle"]
                self._log(f"WARNING: {one.recording.name}: {len(one.beyond)} samples of the steering lie beyond the full lock of "
                          f"{lock:.3g} rad, the first at {one.beyond[0]:.2f} s, and nothing can be driven with them: leave spikes out in "
                          "the mapping (range: [LEAST, MOST] at their column), else correct unit, ratio or max_road_wheel_angle")
        body = [*self._model(), *self._windows(), *self._inputs(), *self._errors(), *self._nuisances(), *self._parameters(),
                *self._channels()]
        return Proposal("\n".join([*head, *body]) + "\n", tuple(self.reasons))

    def _log(self, text: str) -> None:
        self.reasons.append(text)

    def _model(self) -> list[str]:
        friction = self.p.get("friction_max", self.p.get("friction_front", 0.9))
        self.share = max(one.lateral for one in self.surveys) / (friction * GRAVITY)
        preferred = ["linear_single_track"] if self.share < LINEAR else ["nonlinear_bicycle", "linear_single_track"]
        why = (f"up to {self.share:.0%} of the grip is used, so tyres are linear" if self.share < LINEAR else
               f"up to {self.share:.0%} of the grip is used, so tyres bend")
        if self.share >= LINEAR and {"roll", "roll_rate"} <= self.measured:
            preferred, why = ["eight_dof", *preferred], f"{why}, and roll was measured"
        if self.requested_model:
            preferred, why = [self.requested_model], f"as requested; up to {self.share:.0%} of the grip is used"
        self.model = next((name for name in preferred if self._can_be(name)), "")
        if not self.model:
            raise InputError(f"vehicle '{self.vehicle.name}' can be none of: {', '.join(preferred)}; lfdm vehicle show says what it lacks, "
                             "lfdm vehicle new writes one that can")
        if "road_wheel_angle" in self.measured and "steering_map" in self.vehicle.spec(self.model).split("/"):
            self.model += "/linear"  # a measured angle needs no map
        self.spec = self.vehicle.spec(self.model)
        self.declared = {field.name: field for field in get_model(self.spec).parameters}
        step = float(f"{(2.0 if self.model == 'eight_dof' else 10.0) * min(1.0, self.size):.1g}")
        pieces = self._pieces()
        self.use_least_squares = pieces > MAX_SAMPLER_PIECES
        sampler = self.requested_sampler or ("least_squares" if self.use_least_squares else "smc")
        self._log(f"model {self.model}: {why}")
        if self.share < GENTLE:
            self._log(f"{self.share:.0%} of the grip determines tyres poorly: expect widths near the priors'; drive a ramp or a slalom "
                      "(--check says which)")
        self._log(f"{pieces} pieces of {self.piece:g} s: " + (
            f"sampler {sampler}, as requested" if self.requested_sampler else
            "the optimum with Gaussian intervals, in minutes; Pareto k says whether to believe it" if self.use_least_squares else
            "few enough to sample"))
        return [f"model: {self.model}  # {why}", f"vehicle: {self.name}", f"step: {{value: {step:g}, unit: ms}}", "seed: 1",
                f"draws: {500 if self.use_least_squares else 1000}", "chains: 4", f"sampler: {sampler}", "stages:", "  - name: lateral"]

    def _can_be(self, model: str) -> bool:
        with suppress(InputError):
            self.vehicle.model(model)
            return True
        return False

    def _pieces(self) -> int:
        self.piece = min(LENGTHS, key=lambda length: abs(length - PIECE * self.size))
        return int(sum((end - start) // self.piece for one in self.surveys for start, end in one.stretches[:STRETCHES]))

    def _windows(self) -> list[str]:
        fitted = self._pieces()
        held_out = fitted >= HOLD_OUT
        self._log(f"pieces of {self.piece:g} s with a start of their own, since errors of the model add up over time; " + (
            "every other one is held out to say how far the result can be trusted" if held_out else
            f"{fitted} are too few to hold any out: record more"))
        segments = [(one, i, window) for one in self.surveys for i, window in enumerate(sorted(one.stretches[:STRETCHES]))
                    if window[1] - window[0] >= self.piece]
        self.reasons += [f"{one.recording.name}: of {len(one.stretches)} stretches in which it moves the {STRETCHES} longest are used"
                         for one in self.surveys if len(one.stretches) > STRETCHES]
        if not segments:
            raise InputError(f"{self.surveys[0].recording.path}: no stretch is as long as a piece of {self.piece:g} s")
        out = ["    segments:"]
        for one, i, (start, end) in segments:
            label = f"{one.recording.name}_{i}" if sum(other is one for other, _, _ in segments) > 1 else one.recording.name
            name = "".join(c if c.isalnum() or c in "_-" else "_" for c in label)
            out.append(f"      - {{name: {name}, recording: \"{one.recording.name}\", window: [{math.ceil(10 * start) / 10:g}, "
                       f"{math.floor(10 * end) / 10:g}]}}")
        return [*out, f"    split: {{length: {{value: {self.piece:g}, unit: s}}, take: {'even' if held_out else 'all'}}}"]

    def _inputs(self) -> list[str]:
        self._log("the speed follows the recording: drive and brakes need not be right to learn the tyres")
        out = [f"    prescribed: {{vx: {{topic: {DEFAULT_STATE}}}}}  # drive and brakes need not be right",
               f"    initial_state: {{topic: {DEFAULT_STATE}}}"]
        if "road_wheel_angle" in self.measured:
            commanded = all(one.commanded for one in self.surveys)
            self._log("steering: the measured angle of the road wheels" + (", not the command" if commanded else ""))
            source = f"{{topic: {DEFAULT_STATE}, field: road_wheel_angle, per: max_road_wheel_angle}}"
            return [*out, f"    inputs: {{topic: {NO_TOPIC}, steering: {source}}}"]
        self._log("steering: the command, since no angle of the road wheels was measured; its scale stands for the vehicle's full lock")
        return [*out, f"    inputs: {{topic: {DEFAULT_INPUTS}}}"]

    def _errors(self) -> list[str]:
        self._log("errors inflated: those of a model stay for seconds, and white noise would promise too much")
        return ["    errors: inflated  # they stay for seconds"]

    def _nuisances(self) -> list[str]:
        behind = max((one.behind for one in self.surveys if np.isfinite(one.behind)), key=abs, default=0.0)
        gains = [one.gain for one in self.surveys if np.isfinite(one.gain)]
        spread = 0.1 if "road_wheel_angle" in self.measured else 0.25
        lines = ["    nuisance:", "      steering.offset: {prior: normal, mean: 0, sd: 0.02, unit: \"1\"}  # trim"]
        gain = f"in gentle driving the yaw rate is {np.median(gains):.2f} of what the angle asks for" if gains else "its gain is not known"
        if self.exact_steering:
            self._log(f"no steering.scale, as the angle is exact: {gain}")
        else:
            self._log(f"steering.offset and steering.scale: {gain}; a scale that is wrong would pass for soft or stiff tyres")
            prior = f'{{prior: log_normal, median: 1, log_sd: {spread:g}, unit: "1"}}'
            lines.append(f"      steering.scale: {prior}  # or tyres make up for it")
        lag, response = max(0.05 * self.size, behind), RESPONSE * self.size
        if 0.0 <= behind <= MAX_RESPONSE * self.size:
            finding = f"the yaw rate is {behind:.2g} s behind the steering, part of it the vehicle's own"
        else:
            finding = (
                f"WARNING: the yaw rate is {abs(behind):.2g} s {'ahead of' if behind < 0.0 else 'behind'} the steering, and a vehicle "
                f"answers about {response:.1g} s after it is steered: their clocks differ. Shift the steering's source in the mapping, "
                f"time: {{..., offset: {behind - response:.2g} s}}, import again and propose again")
        self._log(f"steering.lag: {finding}")
        where = f"yaw rate is {abs(behind):.2g} s {'ahead' if behind < 0.0 else 'behind'}"
        lines.append(f"      steering.lag: {{prior: half_normal, sigma: {_written(lag, 2)}, unit: s}}  # {where}")
        if "yaw_rate" in self.measured:
            lines.append("      yaw_rate.offset: {prior: normal, mean: 0, sd: 0.01, unit: rad/s}")
        if self._side_velocity():
            self._log("heading.misalignment: a sensor turned by 0.01 rad reads 0.2 m/s across at 20 m/s")
            lines.append("      heading.misalignment: {prior: normal, mean: 0, sd: 0.02, unit: rad}")
        return lines

    def _parameters(self) -> list[str]:
        unknowns, about = self._stiffnesses()
        self._log(f"{about}, within a factor of {math.exp(STIFFNESS_SPREAD):.2g}")
        lines = ["    parameters:", *(
            f"      {name}: {self._prior(name, targets, STIFFNESS_SPREAD)}  # "
            f"{self.vehicle.sources.get(targets[0], '').partition(':')[0] or 'of the file'}" for name, targets in unknowns.items())]
        grip = next(([*names] for names in GRIP if set(names) <= set(self.declared)), [])
        if grip and self.share >= SLIDING:
            name = "friction" if len(grip) > 1 else grip[0]
            lines.append(f"      {name}: {self._prior(name, grip, FRICTION_SPREAD)}")
            self._log(f"{name}: {self.share:.0%} of it is used")
        elif grip:
            self._log(f"friction is held at the file's: {self.share:.0%} of the grip determines it poorly")
        if "yaw_inertia" in self.declared:
            source = self.vehicle.sources.get("yaw_inertia", "").partition(":")[0] or "the file"
            self._log(f"yaw_inertia held at {self.p['yaw_inertia']:.4g} kg*m^2 ({source}), the shape of the tyres' curve at the model's: "
                      "where they are wrong, lag and stiffnesses make up for it, by more than their intervals say")
        if "eight_dof" in self.model:
            self._log(f"{', '.join(ROLL)}: roll is measured, and a wrong one would pass for stiff or soft tyres; within a factor of "
                      f"{math.exp(ROLL_SPREAD):.2g}")
            lines += [f"      {name}: {self._prior(name, targets, ROLL_SPREAD)}" for name, targets in ROLL.items()]
        return lines

    def _stiffnesses(self) -> tuple[dict[str, list[str]], str]:
        """Returns the unknowns of the tyres' response to small slip, each with its parameters, in words too; for other tyres all parameters
        of the tyre."""
        if "cornering_stiffness_front" in self.declared:
            axles = ("cornering_stiffness_front", "cornering_stiffness_rear")
            values = " and ".join(f"{self.p[name]:.3g}" for name in axles)
            return {name: [name] for name in axles}, f"cornering stiffnesses: about the file's ({values} N/rad a wheel)"
        if "tmeasy_lateral_slope_nominal" in self.declared:
            return ({"lateral_slope": ["tmeasy_lateral_slope_nominal", "tmeasy_lateral_slope_double"]},
                    "lateral_slope: how steep the tyres' lateral force begins, about the file's at one load and at twice that")
        tyre = next(part for part in self.spec.split("/")[1:] if part in SLOTS["tyre"])
        unknowns = {field.name: [field.name] for field in SLOTS["tyre"][tyre].parameters if self.p[field.name] != 0.0}
        return unknowns, f"{', '.join(unknowns)}: all that tyre {tyre} has, about the file's; leave in those of lateral forces"

    def _prior(self, name: str, targets: Sequence[str], spread: float) -> str:
        """Returns a log-normal about the file's values, all of `targets` in their proportion; truncated normal where that would leave their
        range."""
        value = self.p[targets[0]]
        factors = {target: float(f"{self.p[target] / value:.3g}") for target in targets}
        lower = max(self.declared[target].lower / factor for target, factor in factors.items())
        upper = min(self.declared[target].upper / factor for target, factor in factors.items())
        unit = self.declared[targets[0]].unit
        centre = float(_written(value, 4))
        prior: dict[str, Any] = {"prior": "log_normal", "median": centre, "log_sd": spread, "unit": unit}
        if value < 0.0 or parse_prior(prior, unit, name).oversteps(lower, upper):
            limits = {key: limit for key, limit in (("lower", lower), ("upper", upper)) if math.isfinite(limit)}
            prior = {"prior": "truncated_normal", "mean": centre, "sd": spread * abs(value), **limits, "unit": unit}
        shape = ", ".join(f"{key}: {_written(entry, 4)}" if isinstance(entry, float) else f"{key}: {entry}" if key == "prior" else
                          f'{key}: "{entry}"' for key, entry in prior.items())
        shared = f", targets: {{{', '.join(f'{target}: {factor:g}' for target, factor in factors.items())}}}"
        return f"{{{shape}{shared if [name] != [*targets] else ''}}}"

    def _side_velocity(self) -> bool:
        if "vy" not in self.measured:
            return False
        wheelbase = self.p["cg_to_front_axle"] + self.p["cg_to_rear_axle"]
        arms = [one.arm for one in self.surveys if np.isfinite(one.arm)]
        return not arms or abs(float(np.median(arms)) - self.p["cg_to_rear_axle"]) < OFF * wheelbase

    def _channels(self) -> list[str]:
        states = {field.name: field.unit for field in get_model(self.spec).states}
        chosen = ["yaw_rate"] if "yaw_rate" in self.measured else ["yaw"] if "yaw" in self.measured else ["x", "y"]
        if chosen != ["yaw_rate"]:
            self._log(f"channels {', '.join(chosen)}: no yaw rate was measured, which would say more")
        if not set(chosen) <= self.measured:
            raise InputError(f"{self.surveys[0].recording.path}: neither yaw_rate, yaw nor x and y of {DEFAULT_STATE} were measured in all "
                             "bags; a mapping must fill one of them")
        if self._side_velocity():
            chosen.append("vy")
        elif "vy" in self.measured:
            arm = float(np.median([one.arm for one in self.surveys if np.isfinite(one.arm)]))
            centre = self.p["cg_to_rear_axle"]
            wheelbase = self.p["cg_to_front_axle"] + centre
            remedy = (f"take it there in the mapping, vy + {centre - arm:.2f} m * yaw_rate" if -0.5 * wheelbase < arm < 1.5 * wheelbase
                      else "look at how it was measured")
            self._log(f"vy is left out: it moves as of a place {arm:.2f} m ahead of the rear axle, and the vehicle's centre of mass is "
                      f"{centre:.2f} m ahead; {remedy}")
        if "eight_dof" in self.model:
            chosen += ["roll", "roll_rate"]
        lines, places = ["    channels:"], {"x": 5.0 * self.size, "y": 5.0 * self.size, "yaw": 0.2}
        for name in chosen:
            spread = places.get(name) or float(np.median([one.measured[name] for one in self.surveys]))
            noise = max(NOISE * spread, *(one.scatter[name] for one in self.surveys))
            lines.append(f"      {name}: {{topic: {DEFAULT_STATE}, noise: {{prior: log_normal, median: {_written(noise, 2)}, log_sd: 1.0, "
                         f"unit: {states[name]}}}}}")
        self._log(f"channels: {', '.join(chosen)}")
        return lines
