"""A first plan to improve: what the model does when a simple driver steers it to the path."""

from __future__ import annotations

import math

import numpy as np

from lfdm_ros.backends import advance_kernel
from lfdm_ros.control.problem import Layout
from lfdm_ros.control.reference import Reference
from lfdm_ros.control.rules import Rates
from lfdm_ros.control.settings import Settings
from lfdm_ros.models import Model

PREVIEW, LEAST_PREVIEW = 1.0, 8.0  # how far ahead the driver looks: time [s], distance [m]
TURNING_SPEED = 6.0  # [m/s] towards a point to the side
PRESS = 0.2  # pedal for a m/s that is missing [s/m]
GENTLE = 0.8, 0.6  # most throttle and brake


class FirstGuess:
    """Rolls the model along. Its states follow from each other, so that optimisation begins without gaps, wherever the vehicle is.

    Steering by pure pursuit (Coulter 1992, "Implementation of the pure pursuit path tracking algorithm").
    """

    def __init__(self, model: Model, layout: Layout, durations: np.ndarray, substeps: int, p: np.ndarray, lag: float):
        """p (np,) are the model's parameters, durations those of the stages [s], lag the steering's time constant [s]."""
        self._layout, self._durations, self._substeps, self._lag = layout, durations.tolist(), substeps, lag
        self._x, self._before, self._after = np.zeros(len(layout.model_states)), np.zeros(3), np.zeros(3)
        self._advance = advance_kernel(model)(self._x, p, self._before, self._after)

    def fill(self, z: np.ndarray, w: np.ndarray, z0: np.ndarray, reference: Reference, settings: Settings, rates: Rates, wheelbase: float,
             full_lock: float) -> None:
        """Writes states z (N+1, nz) and controls w (N+1, nw) from z0 (nz,)."""
        place = {name: i for i, name in enumerate(self._layout.states)}
        ix, iy, iyaw, iv = (place[name] for name in ("x", "y", "yaw", "vx"))
        x, path = self._x, reference.path
        z[0], n = z0, len(self._x)
        x[:] = z0[:n]
        steering, pedal = float(z0[place["steering"]]), float(z0[place["pedal"]])
        road = float(z0[place["road_steering"]]) if self._layout.lag else 0.0
        s = float(path.project(z0[[ix]], z0[[iy]])[0][0])
        for i, dt in enumerate(self._durations):
            (s,), (offset,) = (a.tolist() for a in path.project(x[[ix]], x[[iy]], np.array([s])))
            turn, press = self._drive(reference, s, offset, float(x[ix]), float(x[iy]), float(x[iyaw]), float(x[iv]), settings, wheelbase)
            steer = math.atan(turn) / full_lock
            reach = rates.steering * dt
            steer = max(min(steer, 1.0, steering + reach), -1.0, steering - reach)
            press = max(min(press, settings.largest_throttle, pedal + rates.up * dt), -settings.largest_brake,
                        pedal - rates.down * dt)
            w[i] = (steer - steering) / dt, (press - pedal) / dt
            from_, to = steering, steer
            if self._layout.lag:
                middle = 0.5 * (steering + steer)
                from_, to = road, middle + (road - middle) * math.exp(-dt / self._lag)
                road = to
            self._before[:] = from_, max(pedal, 0.0), max(-pedal, 0.0)
            self._after[:] = to, max(press, 0.0), max(-press, 0.0)
            self._advance(self._substeps, dt / self._substeps)
            steering, pedal = steer, press
            z[i + 1, :n] = x
            z[i + 1, n:] = (steering, pedal, road) if self._layout.lag else (steering, pedal)
        w[-1] = 0.0

    def _drive(self, reference: Reference, s: float, offset: float, x: float, y: float, yaw: float, vx: float, settings: Settings,
               wheelbase: float) -> tuple[float, float]:
        """Tangent of the road-wheel angle, and the pedal."""
        v, path = max(vx, 0.0), reference.path
        ahead = max(LEAST_PREVIEW, PREVIEW * v) + 0.5 * abs(offset)
        px, py = (float(a[0]) for a in path.at(np.array([s + ahead]))[:2])
        angle = math.atan2(py - y, px - x) - yaw
        angle -= 2.0 * math.pi * round(angle / (2.0 * math.pi))
        curvature = 2.0 * math.sin(max(min(angle, 0.5 * math.pi), -0.5 * math.pi)) / math.hypot(px - x, py - y)
        most = settings.path_lateral_acceleration / max(v, 1.0) ** 2
        speed = min(float(np.interp(s, path.s, reference.speeds)), reference.highest)
        if abs(angle) > 0.5:
            speed = min(speed, TURNING_SPEED)
        return wheelbase * max(min(curvature, most), -most), max(min(PRESS * (speed - v), GENTLE[0]), -GENTLE[1])
