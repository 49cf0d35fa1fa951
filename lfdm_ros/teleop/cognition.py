"""The interface of minds: the percept of an operator in a cognitive cycle, its decision, and the minds by name.

An external mind is a class with `act` and `reset`, and an `OperatorKind` that creates it, registered in a file of LFDM_PLUGINS or as an
entry point of the group `lfdm_ros.operators`. Delays, hands, feet, distraction and route choice are common to all minds.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lfdm_ros import plugins
from lfdm_ros.teleop.operator_settings import OperatorSettings, Person
from lfdm_ros.teleop.salvucci import TwoPoint
from lfdm_ros.vehicles import Vehicle


@dataclass(frozen=True)
class Percept:
    """Percept of one cycle, from the newest perceived picture."""

    time: float  # of the cycle [s]
    elapsed: float  # since the last attentive cycle [s]
    near_angle: float  # from the vehicle's heading to two points of the path [rad], positive to the left
    far_angle: float
    near_distance: float  # along the path to them [m]
    far_distance: float
    speed: float  # of the vehicle [m/s]
    yaw_rate: float  # [rad/s]
    target_speed: float  # of the path a preview time ahead [m/s]
    headway: float = math.inf  # time to the nearest obstacle ahead on the path [s]; inf: none


@dataclass(frozen=True)
class OperatorDecision:
    """Angle of the road wheels [rad], positive to the left; pedal [-1, 1], throttle above 0, brake below."""

    angle: float
    pedal: float


class Cognition(Protocol):
    """A mind: called each cognitive cycle while the operator is attentive. Its decision takes effect a cycle and a motor delay later."""

    def act(self, percept: Percept) -> OperatorDecision: ...

    def reset(self) -> None:
        """Resets the state for another run."""
        ...


@dataclass(frozen=True)
class OperatorKind:
    """A cognitive model by name. make(vehicle, settings, person, random) creates one; random: its seeded generator."""

    name: str
    description: str
    make: Callable[[Vehicle, OperatorSettings, Person, np.random.Generator], Cognition]


class _TwoPointMind(TwoPoint):
    """Salvucci's driver as a mind."""

    def __init__(self, vehicle: Vehicle, settings: OperatorSettings, person: Person, random: np.random.Generator) -> None:
        p = vehicle.parameters
        super().__init__(settings, person, p["cg_to_front_axle"] + p["cg_to_rear_axle"], p["max_road_wheel_angle"])

    def act(self, percept: Percept) -> OperatorDecision:
        p = percept
        return OperatorDecision(self.steer(p.far_angle, p.near_angle, p.elapsed), self.press(p.speed, p.target_speed, p.headway, p.elapsed))


TWO_POINT = OperatorKind("two_point", "Salvucci's two-point driver", _TwoPointMind)
OPERATORS: plugins.Door[OperatorKind] = plugins.Door("operator", "lfdm_ros.operators", OperatorKind, "make", TWO_POINT)
register_operator = OPERATORS.register
