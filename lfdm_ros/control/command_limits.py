"""Limits of the commands sent to the vehicle, declared once for the controller and for shared control, and applied in one stage.

`rate_limited` is that stage: it bounds steering and pedal in magnitude and rate. The controller's plan, its guard and the command gate of
shared control choose commands within it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lfdm_ros.parameters import Declared, setting
from lfdm_ros.vehicles import Actuators

Pair = tuple[float, float]


@dataclass(frozen=True)
class CommandLimits(Declared):
    """Limits that hold for every command, autonomy's and the operator's. Raises InputError as its subclasses do."""

    throttle_rate: float = setting(2.0, "1/s", "largest rate at which the throttle opens and the brake is released; no more than the "
                                               "vehicle's actuators have", 0.01, 100.0, live=True)
    brake_rate: float = setting(4.0, "1/s", "largest rate at which the brake is applied and the throttle closed; no more than the "
                                            "vehicle's actuators have", 0.01, 100.0, live=True)
    stop_brake: float = setting(0.5, "1", "largest brake of a controlled stop; reduced where the rear axle would lose the "
                                          "vehicle", 0.01, 1.0, live=True)
    # On for both: a gate that admits more than the plan may use would let an operator lift a wheel.
    use_limit_table: bool = setting(True, "", "limit the steering by the table of the largest model's wheel lift")


@dataclass(frozen=True)
class RateLimits:
    """Largest rates of steering and pedal [1/s]; up: the throttle opens, the brake is released; down: the opposite."""

    steering: float
    up: float
    down: float

    @classmethod
    def of(cls, limits: CommandLimits, actuators: Actuators) -> RateLimits:
        """Returns the rates of the limits, at most those of the vehicle's actuators."""
        pedals = min(actuators.throttle_rate, actuators.brake_rate)
        return cls(actuators.steering_rate, min(limits.throttle_rate, pedals), min(limits.brake_rate, pedals))


def rate_limited(before: Pair, requested: Pair, rates: RateLimits, duration: float, lower: Pair = (-1.0, -1.0),
                 upper: Pair = (1.0, 1.0)) -> Pair:
    """Returns steering and pedal nearest to the requested ones within `lower` and `upper`, and within the rates of those before.

    Rates have priority: a command out of range, since the range has shrunk, returns to it at its rate.

    Args:
        duration: since the previous command [s].
    """
    turn = rates.steering * duration
    return (min(max(requested[0], lower[0], before[0] - turn), upper[0], before[0] + turn),
            min(max(requested[1], lower[1], before[1] - rates.down * duration), upper[1], before[1] + rates.up * duration))
