"""Where a mind plugs in: what an operator perceives in a cognitive cycle, what it decides, and the minds by name.

A mind from outside is a class with `act` and `reset`, and an `OperatorKind` that makes it; register that in a file of LFDM_PLUGINS, or name
it in an entry point of the group `lfdm_ros.operators`. Delays, hands, feet, distraction and the choice of a way are the same for all minds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lfdm_ros import plugins
from lfdm_ros.errors import InputError, suggest
from lfdm_ros.teleop.salvucci import TwoPoint
from lfdm_ros.teleop.settings import OperatorSettings, Person
from lfdm_ros.vehicles import Vehicle


@dataclass(frozen=True)
class Percept:
    """What the operator perceives in one cycle, all from the newest picture that has reached its mind.

    Attributes:
        time: of the cycle [s].
        elapsed: since the last cycle in which it looked [s].
        near_angle, far_angle: from the vehicle's heading to two points of the way [rad], positive to the left.
        near_distance, far_distance: along the way to them [m].
        speed: of the vehicle [m/s]; yaw_rate [rad/s].
        wanted_speed: that the way asks for, a moment ahead [m/s].
        headway: time to what drives or stands ahead on the way [s]; inf: nothing.
    """

    time: float
    elapsed: float
    near_angle: float
    far_angle: float
    near_distance: float
    far_distance: float
    speed: float
    yaw_rate: float
    wanted_speed: float
    headway: float = math.inf


@dataclass(frozen=True)
class Decision:
    """Angle of the road wheels [rad], positive to the left; pedal [-1, 1], throttle above 0, brake below."""

    angle: float
    pedal: float


class Cognition(Protocol):
    """A mind: asked once a cognitive cycle while the operator looks. What it decides is carried out a cycle and a motor delay later."""

    def act(self, percept: Percept) -> Decision: ...

    def reset(self) -> None:
        """Forgets everything: another run."""
        ...


@dataclass(frozen=True)
class OperatorKind:
    """A mind by name. make(vehicle, settings, person, random) gives one; random: its own generator, seeded."""

    name: str
    description: str
    make: Callable[[Vehicle, OperatorSettings, Person, np.random.Generator], Cognition]


class _TwoPointMind:
    """Salvucci's driver as a mind."""

    def __init__(self, vehicle: Vehicle, settings: OperatorSettings, person: Person, random: np.random.Generator) -> None:
        p = vehicle.parameters
        self._law = TwoPoint(settings, person, p["cg_to_front_axle"] + p["cg_to_rear_axle"], p["max_road_wheel_angle"])

    def act(self, percept: Percept) -> Decision:
        p, law = percept, self._law
        return Decision(law.steer(p.far_angle, p.near_angle, p.elapsed), law.press(p.speed, p.wanted_speed, p.headway, p.elapsed))

    def reset(self) -> None:
        self._law.reset()


TWO_POINT = OperatorKind("two_point", "Salvucci's two-point driver", _TwoPointMind)
_kinds: plugins.Registry[OperatorKind] = plugins.Registry(lambda: plugins.load({"lfdm_ros.operators": register_operator}), TWO_POINT)


def register_operator(kind: OperatorKind) -> None:
    """Makes a mind known by its name.

    Raises:
        InputError: no `OperatorKind`, or a name that is taken or is none.
    """
    if not isinstance(kind, OperatorKind):
        raise InputError(f"{kind!r} is no operator; register an OperatorKind of lfdm_ros.teleop")
    if not (isinstance(kind.name, str) and kind.name.isidentifier()):
        raise InputError(f"{kind.name!r} is no name for an operator; use letters, digits and _, beginning with a letter")
    if _kinds.registered.get(kind.name, kind) is not kind:
        raise InputError(f"operator '{kind.name}' is registered already; choose another name")
    _kinds.add(kind, kind.make)


def operator_names() -> tuple[str, ...]:
    """All minds, those that ship first."""
    return tuple(_kinds)


def get_operator(name: str) -> OperatorKind:
    """The mind of a name. Raises InputError for an unknown one."""
    if name not in _kinds:
        raise InputError(f"operator '{name}' is unknown{suggest(name, _kinds, 'choose one of: ')}")
    return _kinds[name]
