"""What an operator steers by, in numbers: where he takes the vehicle to be, and in which directions he sees two points of his way."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lfdm_ros.control.routing.path import Path
from lfdm_ros.teleop.salvucci import near_distance

SLOWEST = 1.0  # [m/s] a slower vehicle's headway and far point are as at this speed


def moved_on(values: Mapping[str, np.ndarray], span: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, y [m] and yaw [rad] (m,) after a span [s] if speed and yaw rate stay, of states by name, (m,) each: what a predictor does for the
    human operator in the optimal control model of Kleinman, Baron & Levison 1970, Automatica 6, where it makes up for his delay."""
    vx, vy, turn = values["vx"], values["vy"], values["yaw_rate"] * span
    chord = np.hypot(vx, vy) * span * np.sinc(0.5 * turn / np.pi)
    course = values["yaw"] + np.arctan2(vy, vx) + 0.5 * turn
    return values["x"] + chord * np.cos(course), values["y"] + chord * np.sin(course), values["yaw"] + turn


def two_points(path: Path, station: np.ndarray, x: np.ndarray, y: np.ndarray, yaw: np.ndarray, speed: np.ndarray,
               far_time: float) -> tuple[np.ndarray, np.ndarray]:
    """Distances of the near and the far point of a path from stations (m,) on it [m], and the angles to them from the heading of a vehicle
    at x, y [m], yaw [rad], (m,) each, + left [rad]: both (2, m).

    Args:
        speed: of the vehicle [m/s]; far_time: the far point lies so far ahead [s].
    """
    far = np.maximum(far_time * np.maximum(speed, SLOWEST), near_distance(0.0))
    away = np.array([[near_distance(distance) for distance in far], far])
    px, py = (place.reshape(away.shape) for place in path.at((station + away).ravel())[:2])
    angle = np.arctan2(py - y, px - x) - yaw
    return away, angle - 2.0 * np.pi * np.rint(angle / (2.0 * np.pi))
