"""Stops: whether the vehicle comes to a stand along a curve before all that is seen, and how it is driven there.

A plan is only as good as the way out of it. With each plan that is driven goes a stop that was looked at: braking along the plan's curve,
with what the friction circle leaves beside the curve, is free of all obstacles, those that move where they will be then. As long as a new
plan begins with a period after which there is such a stop again, there always is one (a recursively feasible safety filter: Wabersich &
Zeilinger 2021, "A predictive safety filter for learning-based control of constrained nonlinear dynamical systems").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from lfdm_ros.control.obstacles import Obstacles
from lfdm_ros.control.planner import Plan
from lfdm_ros.control.settings import Settings

CIRCLE = 0.65  # share of the tyres' peak that a stop uses, along and across together: what is certain without knowing the tyres
EASIEST = 1.0  # [m/s^2] this is left for the brakes in any bend
SPACING = 1.0  # [m] between the places of a stop that are looked at
BEYOND = 60.0  # [m] straight on after the curve's end
LONGEST = 500.0  # [m] of a curve: a stop from 70 m/s; where a state jumps, the plan before it lies anywhere
AHEAD = 0.15  # [s] the steering looks ahead by so much
ACROSS, LEAST_PACE = 2.0, 4.0  # [1/s], [m/s]: steering towards the curve, over the speed or this
SLOW = 0.5  # [m/s] the vehicle stands when it is slower
SHIFTS = (0.0, 1.0, -1.0, 2.0, -2.0, 3.5, -3.5)  # [m] to the left that a curve is moved to find a way past
SHIFTING = 1.6, 6.0  # time [s] and least distance [m] in which it is


@dataclass(frozen=True, eq=False)
class Curve:
    """Places at even distances s (n,) [m]: x, y [m], yaw [rad], curvature [1/m], each (n,). planned: what a plan has of it [m]."""

    s: np.ndarray
    x: np.ndarray
    y: np.ndarray
    yaw: np.ndarray
    curvature: np.ndarray
    planned: float

    def shifted(self, side: float, length: float) -> Curve:
        """This curve, moved to the left by `side` [m] within `length` [m] from its start."""
        u = np.minimum(self.s / length, 1.0)
        e = side * u * u * (3.0 - 2.0 * u)
        slope, bend = side * 6.0 * u * (1.0 - u) / length, side * (6.0 - 12.0 * u) / length**2 * (u < 1.0)
        return Curve(self.s, self.x - e * np.sin(self.yaw), self.y + e * np.cos(self.yaw), self.yaw + np.arctan(slope),
                     self.curvature + bend, self.planned)

    def rest(self, x: float, y: float) -> Curve:
        """What is left of it from the place nearest to (x, y) on."""
        i = min(int(np.argmin((self.x - x) ** 2 + (self.y - y) ** 2)), len(self.s) - 2)
        return Curve(self.s[i:] - self.s[i], self.x[i:], self.y[i:], self.yaw[i:], self.curvature[i:],
                     self.planned - float(self.s[i]))


def curve_of(x: np.ndarray, y: np.ndarray, yaw: np.ndarray) -> Curve:
    """The curve through the places of a plan (m,), and straight on; 500 m of it at most."""
    s = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
    moves = np.concatenate([[True], np.diff(s) > 1e-3])
    s, x, y, yaw = s[moves], x[moves], y[moves], yaw[moves]
    even = np.arange(0.0, min(float(s[-1]) + BEYOND, LONGEST), SPACING)
    beyond = np.maximum(even - s[-1], 0.0)
    heading = np.interp(even, s, yaw)
    return Curve(even, np.interp(even, s, x) + beyond * math.cos(yaw[-1]), np.interp(even, s, y) + beyond * math.sin(yaw[-1]), heading,
                 np.gradient(heading, SPACING), float(s[-1]))


def first_hidden(places: np.ndarray, along: np.ndarray, centres: np.ndarray, radii: np.ndarray) -> float:
    """Distance `along` (n,) [m] of the first of the places (n, 2) that lies behind a circle, seen from the origin; inf if none does."""
    away = np.hypot(*places.T)
    ux, uy = (places / np.maximum(away, 1e-6)[:, None]).T
    ahead = np.outer(ux, centres[:, 0]) + np.outer(uy, centres[:, 1])
    aside = np.abs(np.outer(ux, centres[:, 1]) - np.outer(uy, centres[:, 0]))
    hidden = ((aside < radii) & (ahead > 0.0) & (ahead < away[:, None])).any(axis=1)
    return float(along[int(hidden.argmax())]) if hidden.any() else math.inf


@dataclass(frozen=True, eq=False)
class Stop:
    """Braking to a stand along a curve. clearance: the least distance to an obstacle on the way [m], inf without any; free: it is what is
    asked for, or as much as there is already; speed: at which what is hit is reached [m/s], 0 where nothing is."""

    curve: Curve
    clearance: float
    free: bool
    speed: float


class Stops:
    """Looks at stops and drives them. Keeps no state but the vehicle's numbers."""

    def __init__(self, settings: Settings, values: SimpleNamespace, friction: float, wheelbase: float, full_lock: float):
        """values: the vehicle's parameters; friction: acceleration at the tyres' peak [m/s^2]; full_lock [rad]."""
        self._settings, self._wheelbase, self._full_lock = settings, wheelbase, full_lock
        self._circle = CIRCLE * friction
        self._front_axle = values.cg_to_front_axle
        mass = sum(getattr(values, name, 0.0) for name in ("sprung_mass", "unsprung_mass_front", "unsprung_mass_rear", "mass"))
        torque = getattr(values, "brake_torque_front", 0.0) + getattr(values, "brake_torque_rear", 0.0)
        radius = getattr(values, "wheel_radius", 0.0)
        # Deceleration at full brake; who does not know it takes the peak.
        self._brake = 2.0 * torque / (radius * mass) if min(torque, radius, mass) > 0.0 else friction
        soft_f, soft_r = (1.0 / max(2.0 * getattr(values, f"cornering_stiffness_{axle}", math.inf), 1.0) for axle in ("front", "rear"))
        b = wheelbase - self._front_axle
        self._understeer = mass / wheelbase * (b * soft_f - self._front_axle * soft_r)  # [rad s^2/m]

    @property
    def hardest(self) -> float:
        """Deceleration of a stop on a straight [m/s^2]."""
        return min(self._circle, self._settings.stop_brake * self._brake)

    def clearance(self, plan: Plan, at: list[int], time: float, obstacles: Obstacles) -> float:
        """Least distance to obstacles [m] of a plan from a time [s] on; `at`: places of x, y, yaw in its states."""
        left = plan.times >= time - 1e-9
        x, y, yaw = plan.states[left][:, at].T
        places = Curve(SPACING * np.arange(len(x)), x, y, yaw, np.zeros(len(x)), 0.0)
        return float(self._distances(places, plan.times[left] - time, time, obstacles).min())

    def look(self, curve: Curve, speed: float, pedal: float, time: float, obstacles: Obstacles, margin: float, braking: float) -> Stop:
        """The stop from the curve's start.

        Args:
            speed: there [m/s]; pedal: in force, -1 to 1; time: when [s], in the time of the obstacles.
            margin: to keep [m]; braking: deceleration to rely on [m/s^2].
        """
        s = self._settings
        v, at, square = max(speed, 0.0), 0.0, max(speed, 0.0) ** 2
        held = s.period + 0.5 * max(pedal + braking / self._brake, 0.0) / s.brake_rate  # until the brake has built up
        free_run = held * v
        times, speeds = [0.0], [v]
        for bend in np.abs(curve.curvature).tolist():
            if v < SLOW and at >= min(curve.planned, SPACING):  # who is about to move off looks where to
                break
            limit = max(self._circle**2 - (square * bend) ** 2, EASIEST**2)
            share = min(max((at + SPACING - free_run) / SPACING, 0.0), 1.0)
            square = max(square - 2.0 * share * SPACING * min(braking, math.sqrt(limit)), 0.0)
            after = math.sqrt(square)
            times.append(times[-1] + 2.0 * SPACING / max(v + after, SLOW))
            v, at = after, at + SPACING
            speeds.append(v)
        n = min(len(times), len(curve.s))
        if not len(obstacles.radii):
            return Stop(curve, math.inf, True, 0.0)
        distance = self._distances(curve, np.array(times[:n]), time, obstacles)
        here, nearest = distance[0], distance.min(axis=0)
        # What stands nearer already may come as near as that; who is in an obstacle may leave it, but not drive further into it.
        need = np.minimum(margin, np.where(here > 0.0, np.maximum(here - 0.02, 0.0), here - 0.02))
        hit = np.flatnonzero((distance <= np.minimum(need, 0.02)).any(axis=1))
        return Stop(curve, float(nearest.min()), bool((nearest >= need).all()), speeds[int(hit[0])] if len(hit) else 0.0)

    def _distances(self, curve: Curve, times: np.ndarray, time: float, obstacles: Obstacles) -> np.ndarray:
        """From the vehicle's outline at the first places (n,) of the curve, at `times` from `time` on, to each obstacle near: (n, m)."""
        s, n = self._settings, len(times)
        x, y, yaw = curve.x[:n], curve.y[:n], curve.yaw[:n]
        away = np.hypot(obstacles.centres[:, 0] - x[0], obstacles.centres[:, 1] - y[0]) - obstacles.radii
        moving = (obstacles.velocities != 0.0).any(axis=1)
        length = float(np.hypot(np.diff(x), np.diff(y)).sum())
        near = (away < length + s.vehicle_front + s.vehicle_rear) | moving
        centres, radii, velocities = obstacles.centres[near], obstacles.radii[near], obstacles.velocities[near]
        if not len(radii):
            return np.full((n, 1), math.inf)
        ahead = (time - obstacles.time) + times[:, None]
        dx = centres[:, 0] + ahead * velocities[:, 0] - x[:, None]
        dy = centres[:, 1] + ahead * velocities[:, 1] - y[:, None]
        c, t = np.cos(yaw)[:, None], np.sin(yaw)[:, None]
        qx = np.abs(c * dx + t * dy - 0.5 * (s.vehicle_front - s.vehicle_rear)) - 0.5 * (s.vehicle_front + s.vehicle_rear)
        qy = np.abs(c * dy - t * dx) - 0.5 * s.vehicle_width
        outside = np.hypot(np.maximum(qx, 0.0), np.maximum(qy, 0.0)) + np.minimum(np.maximum(qx, qy), 0.0)
        return outside - radii - s.obstacle_growth * moving[near] * times[:, None]

    def best(self, curves: list[Curve], speed: float, pedal: float, time: float, obstacles: Obstacles, margin: float) -> Stop:
        """Where no stop is free as it is: the one along a curve, or beside it, that is, or that hits the least."""
        found: Stop | None = None
        length = max(SHIFTING[0] * speed, SHIFTING[1])
        for side in SHIFTS:
            for curve in curves:
                stop = self.look(curve.shifted(side, length) if side else curve, speed, pedal, time, obstacles, margin, self.hardest)
                if stop.free:
                    return stop
                if found is None or (stop.speed, -stop.clearance) < (found.speed, -found.clearance):
                    found = stop
        assert found is not None
        return found

    def command(self, curve: Curve, x: float, y: float, yaw: float, vx: float) -> tuple[float, float]:
        """Steering and pedal that stop the vehicle along a curve."""
        v = max(vx, 0.0)
        nearest = int(np.argmin((curve.x - x) ** 2 + (curve.y - y) ** 2))
        heading = float(curve.yaw[nearest])
        turned = math.remainder(yaw - heading, 2.0 * math.pi)
        aside = math.cos(heading) * (y - float(curve.y[nearest])) - math.sin(heading) * (x - float(curve.x[nearest]))
        bend = float(np.interp(curve.s[nearest] + AHEAD * v, curve.s, curve.curvature))
        road = math.atan(self._wheelbase * bend) + self._understeer * v * v * bend - turned - math.atan(
            ACROSS * (aside + self._front_axle * math.sin(turned)) / max(v, LEAST_PACE))
        across = v * v * max(abs(bend), abs(float(curve.curvature[nearest])))
        along = math.sqrt(max(self._circle**2 - across * across, EASIEST**2))
        return min(max(road / self._full_lock, -1.0), 1.0), -min(along / self._brake, self._settings.stop_brake)
