"""How a model declares what it has: states, inputs, outputs and parameters, each once, with unit and description."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

WHEELS = ("fl", "fr", "rl", "rr")


@dataclass(frozen=True)
class Field:
    """One scalar of a model. `lower` and `upper` are the bounds that input from a person or a file must keep."""

    name: str
    unit: str
    description: str
    symbol: str = ""
    lower: float = float("-inf")
    upper: float = float("inf")
    strict: bool = False  # lower and upper themselves are out of range


@dataclass(frozen=True)
class Model:
    """A vehicle model: its declaration and the factory of its equations.

    `build(m)` takes a namespace of scalar operations (see `lfdm_ros.backends`) and returns a namespace with
      step(x, u, p, h) -> x: one half-implicit step of h seconds,
      rhs(x, u, p) -> dx/dt: the equations in continuous time (0 for states that only hold a value of the last step),
      tyre_forces(x, u, p, h) -> 12 values: Fx, Fy, Fz of each wheel in the tyre frame,
      drive(x, u, p) -> (gear, engine speed, road-wheel angle).
    x and u are tuples in the order declared, p has one attribute for each parameter.
    """

    name: str
    description: str
    source: str
    states: tuple[Field, ...]
    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...]
    parameters: tuple[Field, ...]
    build: Callable[[Any], Any]


def per_wheel(stem: str, unit: str, description: str, symbol: str = "") -> tuple[Field, ...]:
    """Four fields, front left to rear right."""
    places = ("front left", "front right", "rear left", "rear right")
    return tuple(Field(f"{stem}_{w}", unit, f"{description}, {place}", f"{symbol}_{w}" if symbol else "")
                 for w, place in zip(WHEELS, places))


INPUTS = (
    Field("steering", "1", "steering, +1 full left, -1 full right", "s", -1.0, 1.0),
    Field("throttle", "1", "throttle, 0 none, 1 full", "t", 0.0, 1.0),
    Field("brake", "1", "brake, 0 none, 1 full", "b", 0.0, 1.0),
)

# What every model reports, in this order; zeros for what a model does not have.
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
    *per_wheel("omega", "rad/s", "wheel speed", "omega"),
    Field("gear", "1", "gear, 1 is the lowest forward gear"),
    Field("engine_speed", "rad/s", "engine or motor speed"),
    Field("road_wheel_angle", "rad", "steering angle at the front wheels, + left", "delta"),
    *per_wheel("tyre_fx", "N", "longitudinal tyre force, tyre frame", "F_x"),
    *per_wheel("tyre_fy", "N", "lateral tyre force, tyre frame", "F_y"),
    *per_wheel("tyre_fz", "N", "vertical tyre force", "F_z"),
)
