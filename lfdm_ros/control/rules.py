"""Rules that every driver of a way keeps to: how fast by what it sees, how fast before what blocks it, how fast its actuators move."""

from __future__ import annotations

import math

import numpy as np

from lfdm_ros.control.guidance import Route
from lfdm_ros.control.settings import Settings

STANDING = 1.0  # [m/s] a slower vehicle that is to stop stands: it is held by the brake
REACTION = 0.5  # [s] until the brake of a stop within sight has built up
STOP_SHORT = 1.0  # [m] a vehicle whose way is blocked stops so far before it comes too near
CLOSE_BY = 10.0  # [m] or nearer than this
CLOSE = 1.0  # [s] nearer to its goal the vehicle keeps the way that it has
PATIENCE = 1.0  # [s] for so long a way is looked for while driving on


def sight_speed(settings: Settings, length: float | None = None) -> float:
    """The speed [m/s] from which the vehicle stops within `length` [m]; of None, within what its sensor sees."""
    s = settings
    free = max((s.sight if length is None else length) - s.vehicle_front - STOP_SHORT, 0.0)
    lost = s.sight_braking * REACTION
    return math.sqrt(lost**2 + 2.0 * s.sight_braking * free) - lost


def stopping_speeds(settings: Settings, route: Route) -> np.ndarray:
    """Speeds (n,) [m/s] along a route from which the vehicle stops before its end where it is blocked; inf where it is not."""
    if not route.blocked:
        return np.full(len(route.path.s), math.inf)
    left = route.free_length - settings.vehicle_front - STOP_SHORT - route.path.s
    return np.sqrt(2.0 * settings.path_braking * np.maximum(left, 0.0))


def keeps_its_way(route: Route | None, remaining: float, vx: float) -> bool:
    """Whether a vehicle so near to its goal [m] at vx [m/s] drives on by the route that it has."""
    return route is not None and not route.blocked and route.kind != "turn" and remaining < max(CLOSE * vx, CLOSE_BY)


def rated(before: tuple[float, float], wanted: tuple[float, float], settings: Settings) -> tuple[float, float]:
    """Steering and pedal as near to what is wanted as ranges and rates allow within a period."""
    s = settings
    turn = s.steering_rate * s.period
    return (min(max(wanted[0], -1.0, before[0] - turn), 1.0, before[0] + turn),
            min(max(wanted[1], -s.largest_brake, before[1] - s.brake_rate * s.period), s.largest_throttle,
                before[1] + s.throttle_rate * s.period))
