"""Salvucci's two-point driver: steering by the directions of a near and a far point, speed by time headway.

Salvucci & Gray 2004, A two-point visual control model of steering, Perception 33; Salvucci 2006, Modeling driver behavior in a cognitive
architecture, Human Factors 48(2), reference 14 of paper 001. Each cycle changes what the hands and the foot are at:

    d steer = s (16 d theta_far + 4 d theta_near + 3 min(|theta_near|, .07) sign(theta_near) dt)
    d pedal = 3 x .40 d thw + .40 (thw - 1.0 s) dt,  thw at most 4 s, the pedal within +-1

A unit of steer is .0423 rad of the road wheels in his car, whose wheelbase is 2.665 m. Headway says nothing where nobody drives ahead:
there the missing speed takes its place, in the same form, with gains of ours; where both speak, the foot does what asks for less.
"""

from __future__ import annotations

import math

from lfdm_ros.teleop.settings import OperatorSettings, Person

FAR_GAIN, NEAR_GAIN, NEAR_RATE, NEAR_MOST = 16.0, 4.0, 3.0, 0.07  # [1/rad], [1/rad], [1/(rad s)], [rad]
HEADWAY_GAIN, HEADWAY_RATE, HEADWAY_MOST = 3.0 * 0.40, 0.40, 4.0  # [1/s], [1/s^2], [s]
WHEELBASE = 2.665  # [m] of Salvucci's car: .946 + 1.719


def near_distance(far: float) -> float:
    """The near point lies so far ahead [m], with the far point `far` [m] ahead."""
    return min(10.0, max(3.0, 0.5 * far))


class TwoPoint:
    """The laws with what they remember from cycle to cycle: a driver who went straight to both points before the first."""

    def __init__(self, settings: OperatorSettings, person: Person, wheelbase: float, full_lock: float) -> None:
        """wheelbase [m] of the vehicle that is driven; full_lock: its largest road-wheel angle [rad]."""
        self._settings, self._person = settings, person
        self._unit = settings.steering_unit * (wheelbase / WHEELBASE if settings.adapted else 1.0)
        self._most = min(settings.largest_angle, full_lock) / self._unit
        self.reset()

    def reset(self) -> None:
        """Hands straight ahead, foot up."""
        self._steer, self._pedal = 0.0, 0.0
        self._far, self._near = 0.0, 0.0
        self._missing: float | None = None
        self._headway: float | None = None

    def steer(self, far: float, near: float, elapsed: float) -> float:
        """Road-wheel angle [rad] when the points are at these angles [rad], `elapsed` [s] after the last time."""
        held = math.copysign(min(abs(near), NEAR_MOST), near)
        change = FAR_GAIN * math.remainder(far - self._far, 2.0 * math.pi) + NEAR_GAIN * math.remainder(near - self._near, 2.0 * math.pi)
        wanted = self._steer + self._person.steering_factor * (change + NEAR_RATE * held * elapsed)
        self._steer = min(max(wanted, -self._most), self._most)
        self._far, self._near = far, near
        return self._unit * self._steer

    def press(self, speed: float, wanted: float, headway: float, elapsed: float) -> float:
        """Pedal [-1, 1] at a speed where another is wanted [m/s], with a time headway [s]; inf: nobody is ahead."""
        s, missing, seen = self._settings, wanted - speed, min(headway, HEADWAY_MOST)
        change = s.speed_gain * (missing - (0.0 if self._missing is None else self._missing)) + s.speed_reset * missing * elapsed
        if math.isfinite(headway):
            before = HEADWAY_MOST if self._headway is None else self._headway
            change = min(change, HEADWAY_GAIN * (seen - before) + HEADWAY_RATE * (seen - self._person.headway) * elapsed)
        self._missing, self._headway = missing, seen
        self._pedal = min(max(self._pedal + change, -s.largest_brake), 1.0)
        return self._pedal
