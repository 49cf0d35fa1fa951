"""Recipes as immutable records; `recipe` reads them from YAML."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from lfdm_ros.inference.priors import Prior
from lfdm_ros.models import WHEELS
from lfdm_ros.vehicles import Vehicle

DEFAULT_INPUTS = "control/command"
DEFAULT_STATE = "vehicle/state"
NO_TOPIC = "none"
# Names of unknowns that are no vehicle parameters: sigma.vx is the noise of channel vx, rho.vx the correlation of neighbouring errors,
# initial.vx an estimated initial state.
SIGMA, RHO, INITIAL = "sigma.", "rho.", "initial."
SCALES = ("noise", "measured_sd", "error_range")
MINIMISERS = ("trust_region", "powell")
WHITE, AR1, INFLATED = "white", "ar1", "inflated"
ERRORS = (WHITE, AR1, INFLATED)
TAKES = ("all", "even", "odd")
INPUT_FIELDS = ("steering", "throttle", "brake")
MISALIGNMENT = "heading.misalignment"
_WHEEL_FIELDS = {f"omega_{wheel}": f"wheel_speeds[{i}]" for i, wheel in enumerate(WHEELS)}


def field_of(state: str) -> str:
    """Returns the field of a VehicleState that holds a state of the models: spins of a car's wheels in the view of four, others by their
    wheel."""
    other = f"speed_by_wheel[{state.removeprefix('omega_')}]" if state.startswith("omega_") else state
    return _WHEEL_FIELDS.get(state, other)


@dataclass(frozen=True)
class CalibratedParameter:
    """One unknown. `targets`: vehicle parameter -> factor; roll damping may be one unknown shared front and rear."""

    name: str
    prior: Prior
    targets: tuple[tuple[str, float], ...]

    def value_in(self, parameters: Mapping[str, float]) -> float:
        """Returns the value in a vehicle: the mean over the parameters set by the unknown, NaN without any."""
        values = [parameters[name] / factor for name, factor in self.targets if name in parameters]
        return sum(values) / len(values) if values else math.nan


@dataclass(frozen=True)
class Channel:
    """One measured state: its topic and field, and its errors.

    label: the channel's name; SEGMENT.NAME where the segment has separate errors. correlation: prior of that of neighbouring errors
    (AR(1)); None: white.
    """

    name: str
    topic: str
    field: str
    noise: Prior
    label: str
    correlation: Prior | None = None


@dataclass(frozen=True)
class SteeringSource:
    """Steering taken from a measured field instead of the command: steering = scale * field, or field / vehicle[per]."""

    topic: str
    field: str
    scale: float
    per: str | None


@dataclass(frozen=True)
class Inputs:
    """Topic of the driver's inputs; without one, throttle and brake are 0 and steering must have a source."""

    topic: str = DEFAULT_INPUTS
    steering: SteeringSource | None = None


@dataclass(frozen=True)
class Split:
    """A window cut into pieces of `length` [s], each with its initial state; `take`: all, even or odd ones, from 0."""

    length: float
    take: str = "all"

    def takes(self, index: int) -> bool:
        return self.take == "all" or (index % 2 == 0) == (self.take == "even")


@dataclass(frozen=True)
class Segment:
    """Windows [start, end) of recordings that share inputs, channels and initial states.

    recordings: names, or patterns that every given bag is matched with; end may be infinite; estimate: priors of initial states, parsed
    with the recorded value; prescribed: states that follow the recording, with topic and field.
    """

    name: str
    recordings: tuple[str, ...]
    start: float
    end: float
    split: Split | None
    state_topic: str
    estimate: tuple[tuple[str, Mapping[str, Any]], ...]
    prescribed: tuple[tuple[str, str, str], ...]
    inputs: Inputs
    channels: tuple[Channel, ...]

    def selects(self, recording: str) -> bool:
        """Checks whether a recording of this name belongs to the segment."""
        return any(fnmatchcase(recording, pattern) for pattern in self.recordings)


@dataclass(frozen=True)
class Nuisance:
    """An unknown of the measurement: INPUT.offset|scale|delay|lag, CHANNEL.offset, or heading.misalignment."""

    name: str
    prior: Prior


@dataclass(frozen=True)
class Objective:
    """Objective of the sampler least_squares: the sum over channels and samples of the squared scaled error.

    scale: `noise` divides the error of a channel by its noise, which is estimated with it, and adds the priors: the posterior mode;
    `measured_sd` divides by the standard deviation of the measurements; `error_range` maps the error from its range onto [0, 1], which is a
    published but poor measure of agreement (undefined for a constant error). minimiser: `trust_region` (Gauss-Newton steps with bounds), or
    `powell`: SciPy's, with its default tolerances, in SI units and from the vehicle's values, to reproduce published work.
    """

    scale: str = "noise"
    minimiser: str = "trust_region"


@dataclass(frozen=True)
class Stage:
    """One inference: its unknowns, and the segments of recordings fitted together.

    errors: white; ar1, a first-order autoregression whose correlation is sampled; or inflated: n samples count as n / tau, tau being the
    correlation time of the errors at the posterior's mode, also valid for errors correlated over many samples.
    """

    name: str
    segments: tuple[Segment, ...]
    parameters: tuple[CalibratedParameter, ...]
    nuisance: tuple[Nuisance, ...] = ()
    errors: str = WHITE
    objective: Objective = field(default_factory=Objective)

    @property
    def targets(self) -> tuple[str, ...]:
        """The vehicle parameters that this stage changes."""
        return tuple(dict.fromkeys(target for parameter in self.parameters for target, _ in parameter.targets))

    @property
    def recordings(self) -> tuple[str, ...]:
        """Names and patterns of the recordings of the segments."""
        return tuple(dict.fromkeys(name for segment in self.segments for name in segment.recordings))

    @property
    def channels(self) -> dict[str, Channel]:
        """The channels by label: those of one label share noise and correlation."""
        return {channel.label: channel for segment in self.segments for channel in segment.channels}


@dataclass(frozen=True)
class Recipe:
    """A whole calibration. `fixed` overrides the vehicle's parameters, a stage may infer them later; `options` are the non-default ones of
    `sampler`; `ground`: of the recordings, as for `inference.dataset.on_ground`."""

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
    sampler: str
    options: Mapping[str, float] = field(default_factory=dict)
    ground: str = ""

    @property
    def start_vehicle(self) -> Vehicle:
        """The vehicle with the parameters that the recipe holds fixed."""
        return self.vehicle.replace(source=f"held by recipe {self.path.name}", **self.fixed) if self.fixed else self.vehicle
