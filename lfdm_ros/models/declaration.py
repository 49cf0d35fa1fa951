"""Declaration of a model: states, inputs, outputs and parameters, each once, with unit and description."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lfdm_ros.errors import InputError
from lfdm_ros.models.equations import Equations, Operations

WHEELS = ("fl", "fr", "rl", "rr")
# The wheels represented by one wheel of an axle.
AXLES: Mapping[str, tuple[str, ...]] = {"front": ("fl", "fr"), "rear": ("rl", "rr")}


@dataclass(frozen=True)
class Field:
    """One scalar of a model. `lower` and `upper` bound the input of users and files."""

    name: str
    unit: str
    description: str
    symbol: str = ""
    lower: float = float("-inf")
    upper: float = float("inf")
    strict: bool = False  # lower and upper are excluded
    role: str = "continuous"  # of a state: continuous, held (a value of the last step) or discrete
    default: float = 0.0  # default of an input
    wheel: str = ""  # wheel, as in the suffix of the name

    @property
    def stem(self) -> str:
        """The name without the wheel, as equations have it."""
        return self.name.removesuffix(f"_{self.wheel}") if self.wheel else self.name

    def allows(self, value: float) -> bool:
        """Checks that a value is within the bounds."""
        return self.lower < value < self.upper if self.strict else self.lower <= value <= self.upper

    def of_wheel(self, wheel: str) -> Field:
        """Returns the same field of one wheel."""
        return replace(self, name=f"{self.name}_{wheel}", description=f"{self.description}, {PLACES.get(wheel, wheel)}",
                       symbol=f"{self.symbol}_{wheel}" if self.symbol else "", wheel=wheel)


@dataclass(frozen=True)
class Part:
    """A part that fills a slot of a chassis. `build(m)` gives its equations: a `Tyre`, `Powertrain`, `Steering` or
    `Ground` of `lfdm_ros.models.equations`."""

    name: str
    description: str
    parameters: tuple[Field, ...]
    build: Callable[..., Any]
    wheel_states: tuple[Field, ...] = ()  # one of each per wheel; names without the wheel
    states: tuple[Field, ...] = ()
    wheel_inputs: tuple[Field, ...] = ()  # per wheel, after the driver's inputs; names without the wheel
    inputs: tuple[Field, ...] = ()
    largest_step: float = 0.1  # largest step with errors of some per cent [s]
    gives: tuple[str, ...] = ()  # patch values of a ground that can be combined with others (`lfdm_ros.models.ground`)
    needs: tuple[str, ...] = ()  # patch values required by a tyre


@dataclass(frozen=True, eq=False)
class Conventions:
    """Non-physical conventions, as a slot: equations that replace those of chassis and parts.

    variants: by the replaced equations; of_axles: replacements for tyres of a chassis with one per axle; more_states: of a chassis, by its
    equations.
    """

    name: str
    description: str
    variants: Mapping[Any, Any] = field(default_factory=dict)
    of_axles: Mapping[Any, Any] = field(default_factory=dict)
    more_states: Mapping[Any, tuple[Field, ...]] = field(default_factory=dict)
    parameters: tuple[Field, ...] = ()


@dataclass(frozen=True)
class Chassis:
    """A model without its parts.

    `build(m, tyre=, powertrain=, steering=, ground=)` gets the parts of its `slots` and returns the equations. The records have the states
    of chassis and powertrain, and for each of its `wheels` those of the tyre.
    """

    name: str
    description: str
    source: str
    states: tuple[Field, ...]
    parameters: tuple[Field, ...]
    build: Callable[..., Equations]
    wheels: tuple[str, ...] = WHEELS
    usual: str = ""  # the parts it is known with
    largest_step: float = 0.1  # as `Part.largest_step` [s]
    slots: tuple[str, ...] = ("tyre", "ground", "powertrain", "steering")  # and "conventions", where it has variants for others
    friction_scale: bool = True  # the plane has the vehicle's; False: its tyres have coefficients of their own
    resting: tuple[tuple[str, str], ...] = ()  # as `Model.resting`


@dataclass(frozen=True, eq=False)
class Model:
    """A vehicle model: its declaration and the factory of its equations. Models are compared by identity.

    `build(m)` takes a namespace of scalar operations (see `lfdm_ros.backends`) and returns `lfdm_ros.models.equations.Equations`, in
    which states, inputs and parameters have their names; `functions_of` there makes a step and a right-hand side of them.
    """

    name: str
    description: str
    source: str
    states: tuple[Field, ...]
    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...]
    parameters: tuple[Field, ...]
    build: Callable[[Operations], Equations]
    wheels: tuple[str, ...] = WHEELS
    largest_step: float = 0.1  # [s]; longer steps are inaccurate
    # States that are not 0 at rest, each with its velocity that is 0 then: used to find the initial state.
    resting: tuple[tuple[str, str], ...] = ()
    own: tuple[str, ...] = ()  # outputs reported by its equations, see `lfdm_ros.models.equations.Reporting`

    @property
    def reported(self) -> tuple[str, ...]:
        """The wheels whose forces the equations give, in this order."""
        return tyres_of(self.wheels)

    @property
    def computed_outputs(self) -> frozenset[str]:
        """The outputs that it computes; the others are 0."""
        states = {field.name for field in self.states}
        return frozenset({field.name for field in self.outputs} & (
            states | set(self.own) | {f"omega_{wheel}" for axle, wheels in AXLES.items() if f"omega_{axle}" in states for wheel in wheels}
            | {"gear", "engine_speed", "road_wheel_angle", "lifted_wheels"}
            | {f"tyre_{force}_{wheel}" for force in ("fx", "fy", "fz") for wheel in self.reported}))

    def __reduce__(self) -> tuple[Any, ...]:
        # Equations cannot be pickled; the name of a registered model can.
        from lfdm_ros.models.registry import get_model

        try:
            registered = get_model(self.name)
        except InputError:
            registered = None
        if registered is not self:
            raise pickle.PicklingError(f"model '{self.name}' is not the registered one of that name, so no other process can find it; "
                                       "register it in a module that they import too")
        return get_model, (self.name,)


PLACES = {"fl": "front left", "fr": "front right", "rl": "rear left", "rr": "rear right", "front": "front axle", "rear": "rear axle"}


def per_wheel(stem: str, unit: str, description: str, symbol: str = "", wheels: tuple[str, ...] = WHEELS,
              role: str = "continuous") -> tuple[Field, ...]:
    """Returns one field a wheel, front left to rear right."""
    return tuple(Field(stem, unit, description, symbol, role=role).of_wheel(wheel) for wheel in wheels)


def table_fields(stem: str, unit: str, description: str, points: int, lower: float, upper: float) -> tuple[Field, ...]:
    """Returns one column of a table: `points` fields stem_0, stem_1, ..."""
    return tuple(Field(f"{stem}_{i}", unit, f"{description}, point {i}", "", lower, upper) for i in range(points))


def vector_fields(name: str, unit: str, description: str, lower: float = -10.0, upper: float = 10.0) -> tuple[Field, ...]:
    """Returns three fields NAME_x, NAME_y, NAME_z, one key with three numbers in a vehicle file."""
    return tuple(Field(f"{name}_{axis}", unit, f"{description}, {axis}", "", lower, upper) for axis in "xyz")


INPUTS = (
    Field("steering", "1", "steering, +1 full left, -1 full right", "s", -1.0, 1.0),
    Field("throttle", "1", "throttle, 0 none, 1 full; below 0 the same with the selector in reverse", "t", -1.0, 1.0),
    Field("brake", "1", "brake, 0 none, 1 full", "b", 0.0, 1.0),
)

_OMEGA = "omega", "rad/s", "wheel speed", "omega"
_FORCES = (("tyre_fx", "N", "longitudinal tyre force, tyre frame", "F_x"), ("tyre_fy", "N", "lateral tyre force, tyre frame", "F_y"),
           ("tyre_fz", "N", "vertical tyre force", "F_z"))
# Outputs of every model, in this order; zero where a model lacks one. Wheel outputs are for four wheels.
OUTPUTS = (
    Field("x", "m", "position of the sprung mass's centre, x", "X"),
    Field("y", "m", "position of the sprung mass's centre, y", "Y"),
    Field("vx", "m/s", "longitudinal velocity, body-fixed", "u"),
    Field("vy", "m/s", "lateral velocity, body-fixed", "v"),
    Field("ax", "m/s^2", "longitudinal proper acceleration, body-fixed", "a_x"),
    Field("ay", "m/s^2", "lateral proper acceleration, body-fixed", "a_y"),
    Field("roll", "rad", "roll angle, + right side down", "phi"),
    Field("pitch", "rad", "pitch angle, + nose down", "theta"),
    Field("yaw", "rad", "yaw angle, + left", "psi"),
    Field("roll_rate", "rad/s", "roll rate", "omega_x"),
    Field("pitch_rate", "rad/s", "pitch rate", "omega_y"),
    Field("yaw_rate", "rad/s", "yaw rate", "omega_z"),
    *per_wheel(*_OMEGA),
    Field("gear", "1", "gear, 1 is the lowest forward gear, -1 reverse"),
    Field("engine_speed", "rad/s", "engine or motor speed"),
    Field("road_wheel_angle", "rad", "steering angle at the front wheels, + left", "delta"),
    Field("lifted_wheels", "1", "number of wheels that carry no load"),
    *(field for force in _FORCES for field in per_wheel(*force)),
)


def tyres_of(wheels: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the wheels whose forces are reported: both of an axle that has one wheel."""
    return tuple(one for wheel in wheels for one in AXLES.get(wheel, (wheel,)))


def outputs_of(wheels: tuple[str, ...]) -> tuple[Field, ...]:
    """Returns the outputs of a model with these wheels: OUTPUTS, then the same of each wheel that a car has not."""
    more = tuple(wheel for wheel in tyres_of(wheels) if wheel not in WHEELS)
    return (*OUTPUTS, *(field for declared in (_OMEGA, *_FORCES) for field in per_wheel(*declared, more)))
