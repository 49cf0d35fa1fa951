"""Rules that every driver of a way keeps to: how fast by what it sees, how fast before what blocks it, how fast its actuators move."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lfdm_ros.control.path import Path
from lfdm_ros.control.routes import Route
from lfdm_ros.control.settings import Settings
from lfdm_ros.vehicles import Actuators

STANDING = 1.0  # [m/s] a slower vehicle that is to stop stands: it is held by the brake
REACTION = 0.5  # [s] until the brake of a stop within sight has built up
STOP_SHORT = 1.0  # [m] a vehicle whose way is blocked stops so far before it comes too near
CLOSE_BY = 10.0  # [m] or nearer than this
CLOSE = 1.0  # [s] nearer to its goal the vehicle keeps the way that it has
PATIENCE = 1.0  # [s] for so long a way is looked for while driving on


@dataclass(frozen=True)
class Rates:
    """How fast steering and pedal may move [1/s], the pedal up (throttle opens, brake is released) and down."""

    steering: float
    up: float
    down: float

    @classmethod
    def of(cls, settings: Settings, actuators: Actuators) -> Rates:
        """As the settings say, but no faster than the vehicle's actuators."""
        pedals = min(actuators.throttle_rate, actuators.brake_rate)
        return cls(actuators.steering_rate, min(settings.throttle_rate, pedals), min(settings.brake_rate, pedals))


def sight_speed(settings: Settings, front: float, length: float | None = None) -> float:
    """The speed [m/s] from which a vehicle whose front end is `front` [m] ahead stops within `length` [m]; of None, within what its sensor
    sees."""
    s = settings
    free = max((s.sight if length is None else length) - front - STOP_SHORT, 0.0)
    lost = s.sight_braking * REACTION
    return math.sqrt(lost**2 + 2.0 * s.sight_braking * free) - lost


def stopping_speeds(settings: Settings, front: float, route: Route) -> np.ndarray:
    """Speeds (n,) [m/s] along a route from which the front end, `front` [m] ahead, stops before its end where it is blocked; inf where it
    is not."""
    if not route.blocked:
        return np.full(len(route.path.s), math.inf)
    left = route.free_length - front - STOP_SHORT - route.path.s
    return np.sqrt(2.0 * settings.path_braking * np.maximum(left, 0.0))


def stopping_here(settings: Settings, vx: float, path: Path) -> np.ndarray:
    """Speeds (n,) [m/s] along a path of a vehicle that begins to stop at vx [m/s] now."""
    return np.sqrt(np.maximum(vx * vx - 2.0 * settings.path_braking * path.s, 0.0))


def blocked_speeds(settings: Settings, front: float, route: Route, vx: float, blocked_for: float) -> np.ndarray:
    """Speeds (n,) [m/s] along a blocked route of a vehicle at vx [m/s]: it stops before what blocks it or, when there has been no way for
    long, `blocked_for` [s], here and now; it drives on when one is seen."""
    speeds = stopping_speeds(settings, front, route)
    return np.minimum(stopping_here(settings, vx, route.path), speeds) if blocked_for > PATIENCE else speeds


def keeps_its_way(route: Route | None, remaining: float, vx: float) -> bool:
    """Whether a vehicle so near to its goal [m] at vx [m/s] drives on by the route that it has."""
    return route is not None and not route.blocked and route.kind != "turn" and remaining < max(CLOSE * vx, CLOSE_BY)


def rated(before: tuple[float, float], wanted: tuple[float, float], settings: Settings, rates: Rates) -> tuple[float, float]:
    """Steering and pedal as near to what is wanted as ranges and rates allow within a period."""
    s = settings
    turn = rates.steering * s.period
    return (min(max(wanted[0], -1.0, before[0] - turn), 1.0, before[0] + turn),
            min(max(wanted[1], -s.largest_brake, before[1] - rates.down * s.period), s.largest_throttle, before[1] + rates.up * s.period))
