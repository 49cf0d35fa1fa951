"""Salvucci's two-point driver: steering by the directions of a near and a far point, speed by time headway.

Salvucci & Gray 2004, A two-point visual control model of steering, Perception 33; Salvucci 2006, Modeling driver behavior in a cognitive
architecture, Human Factors 48(2), reference 14 of paper 001. Increments of each cycle:

    d steer = s (16 d theta_far + 4 d theta_near + 3 min(|theta_near|, .07) sign(theta_near) dt)
    d pedal = 3 x .40 d thw + .40 (thw - 1.0 s) dt,  thw at most 4 s, the pedal within +-1

A unit of steer is .0423 rad of the road wheels in his car, whose wheelbase is 2.665 m. Without a vehicle ahead, a law of the same form acts
on the speed error, with gains of ours; with both, the smaller pedal applies.
"""

import math
from collections.abc import Mapping

import numpy as np

from lfdm_ros.simulation.path import Path
from lfdm_ros.teleop.operator_settings import OperatorSettings, Person

FAR_GAIN, NEAR_GAIN, NEAR_RATE, NEAR_MOST = 16.0, 4.0, 3.0, 0.07  # [1/rad], [1/rad], [1/(rad s)], [rad]
HEADWAY_GAIN, HEADWAY_RATE, HEADWAY_MOST = 3.0 * 0.40, 0.40, 4.0  # [1/s], [1/s^2], [s]
WHEELBASE = 2.665  # [m] of Salvucci's car: .946 + 1.719
MIN_SPEED = 1.0  # [m/s] lower limit of the speed in headway and far point


def near_distance(far: float) -> float:
    """Returns the distance of the near point [m], with the far point `far` [m] ahead."""
    return min(10.0, max(3.0, 0.5 * far))


def moved_on(values: Mapping[str, np.ndarray], span: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns x, y [m] and yaw [rad] (m,) after a span [s] at constant speed and yaw rate, of states by name, (m,) each: the predictor of
    the human operator in the optimal control model of Kleinman, Baron & Levison 1970, Automatica 6, which compensates the operator's delay.
    """
    vx, vy, turn = values["vx"], values["vy"], values["yaw_rate"] * span
    chord = np.hypot(vx, vy) * span * np.sinc(0.5 * turn / np.pi)
    course = values["yaw"] + np.arctan2(vy, vx) + 0.5 * turn
    return values["x"] + chord * np.cos(course), values["y"] + chord * np.sin(course), values["yaw"] + turn


def two_points(path: Path, station: np.ndarray, x: np.ndarray, y: np.ndarray, yaw: np.ndarray, speed: np.ndarray,
               far_time: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns distances of the near and the far point of a path from stations (m,) on it [m], and the angles to them from the heading of a
    vehicle at x, y [m], yaw [rad], (m,) each, + left [rad]: both (2, m).

    Args:
        speed: of the vehicle [m/s]; far_time: preview time of the far point [s].
    """
    far = np.maximum(far_time * np.maximum(speed, MIN_SPEED), near_distance(0.0))
    away = np.array([[near_distance(distance) for distance in far], far])
    px, py = (place.reshape(away.shape) for place in path.at((station + away).ravel())[:2])
    angle = np.arctan2(py - y, px - x) - yaw
    return away, angle - 2.0 * np.pi * np.rint(angle / (2.0 * np.pi))


class TwoPoint:
    """The control laws with their state; initially both points are straight ahead."""

    def __init__(self, settings: OperatorSettings, person: Person, wheelbase: float, full_lock: float) -> None:
        """Creates the laws; wheelbase [m]; full_lock: largest road-wheel angle [rad]."""
        self._settings, self._person = settings, person
        self._unit = settings.steering_unit * (wheelbase / WHEELBASE if settings.adapted else 1.0)
        self._most = min(settings.largest_angle, full_lock) / self._unit
        self.reset()

    def reset(self) -> None:
        """Resets hands to straight ahead, foot to released."""
        self._steer, self._pedal = 0.0, 0.0
        self._far, self._near = 0.0, 0.0
        self._speed_error: float | None = None
        self._headway: float | None = None

    def steer(self, far: float, near: float, elapsed: float) -> float:
        """Returns the road-wheel angle [rad] for points at these angles [rad], `elapsed` [s] after the last call."""
        bounded = math.copysign(min(abs(near), NEAR_MOST), near)
        change = FAR_GAIN * math.remainder(far - self._far, 2.0 * math.pi) + NEAR_GAIN * math.remainder(near - self._near, 2.0 * math.pi)
        steer = self._steer + self._person.steering_factor * (change + NEAR_RATE * bounded * elapsed)
        self._steer = min(max(steer, -self._most), self._most)
        self._far, self._near = far, near
        return self._unit * self._steer

    def press(self, speed: float, target_speed: float, headway: float, elapsed: float) -> float:
        """Returns the pedal [-1, 1] at a speed for `target_speed` [m/s], with a time headway [s]; inf: free lane."""
        s, error, bounded = self._settings, target_speed - speed, min(headway, HEADWAY_MOST)
        change = s.speed_gain * (error - (0.0 if self._speed_error is None else self._speed_error)) + s.speed_reset * error * elapsed
        if math.isfinite(headway):
            before = HEADWAY_MOST if self._headway is None else self._headway
            change = min(change, HEADWAY_GAIN * (bounded - before) + HEADWAY_RATE * (bounded - self._person.headway) * elapsed)
        self._speed_error, self._headway = error, bounded
        self._pedal = min(max(self._pedal + change, -s.largest_brake), 1.0)
        return self._pedal
