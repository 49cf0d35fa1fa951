"""Obstacles: circles and their motion."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from lfdm_ros.numerics import arc


@dataclass(frozen=True, eq=False)
class Obstacles:
    """Circles, nearest to the vehicle first: centres (n, 2) [m] at `time` [s], radii (n,) [m], velocities (n, 2) [m/s], 0 if static.

    time: -inf before the first scan. deviations: standard deviations (n, 2) of position [m] and velocity [m/s] along each axis; excess:
    margin of the radii over the detected size (n,) [m]; suspected: velocities (n, 2) [m/s] at which static obstacles may already move, 0
    without evidence; new: mask (n,) of small obstacles with few detections; sector: middle, from the vehicle's axis, and half of the
    sensor's sector [rad], None: all round; second_view: place x, y [m] on the vehicle of a second sensor that is in service, middle and
    half of its sector [rad], and its range [m]; halts: begin of braking, inf for never, and time to standstill (n, 2) [s], None: no
    obstacle brakes; turns: turn rates of the velocities to the left (n,) [rad/s], None: no obstacle turns; None of the others: not known.
    """

    centres: np.ndarray
    radii: np.ndarray
    velocities: np.ndarray
    time: float
    deviations: np.ndarray | None = None
    excess: np.ndarray | None = None
    suspected: np.ndarray | None = None
    new: np.ndarray | None = None
    sector: tuple[float, float] | None = None
    second_view: tuple[float, float, float, float, float] | None = None
    halts: np.ndarray | None = None
    turns: np.ndarray | None = None

    def at(self, time: float) -> Obstacles:
        """Returns the obstacles at `time` [s], at constant speed and turn rate."""
        if not len(self.radii):
            return self
        later, velocities = time - self.time, self.velocities
        if self.turns is not None:
            c, s, (vx, vy) = np.cos(later * self.turns), np.sin(later * self.turns), velocities.T
            velocities = np.column_stack([c * vx - s * vy, s * vx + c * vy])
        return replace(self, centres=self.centres + self.shifts(np.array([later]))[0], velocities=velocities, time=time)

    @property
    def moving(self) -> np.ndarray:
        """Mask of the moving obstacles (n,)."""
        return (self.velocities != 0.0).any(axis=1)

    def where(self, chosen: np.ndarray) -> Obstacles:
        """Selects obstacles by a mask (n,), or by their numbers in that order."""
        arrays = {f.name: part[chosen] for f in fields(self) if isinstance(part := getattr(self, f.name), np.ndarray)}
        return replace(self, **arrays)

    def joined(self, others: Obstacles) -> Obstacles:
        """Returns these obstacles and others of the same time; sector and view are those of these."""
        none_turns = self.turns is None and others.turns is None
        turns = None if none_turns else np.concatenate([self.turn_rates, others.turn_rates])
        arrays: dict[str, Any] = dict.fromkeys(f.name for f in fields(self) if f.name not in ("time", "sector", "second_view"))
        for name in arrays:
            mine, theirs = getattr(self, name), getattr(others, name)
            arrays[name] = None if mine is None or theirs is None else np.concatenate([mine, theirs])
        return replace(self, **{**arrays, "turns": turns})

    @property
    def brakes(self) -> np.ndarray:
        """`halts` of all obstacles (n, 2), also if it is None."""
        return np.tile([math.inf, 1.0], (len(self.radii), 1)) if self.halts is None else self.halts

    @property
    def turn_rates(self) -> np.ndarray:
        """`turns` of all obstacles (n,), also if it is None."""
        return np.zeros(len(self.radii)) if self.turns is None else self.turns

    @property
    def goes_on(self) -> np.ndarray:
        """Mask of the obstacles that never brake (n,)."""
        return np.isinf(self.brakes[:, 0])

    def shifts(self, later: np.ndarray) -> np.ndarray:
        """Returns the displacements after times `later` (k,) [s]: (k, n, 2) [m]."""
        travel = later[:, None]
        if self.halts is not None:
            begins, lasts = self.halts.T
            braked = np.clip(travel - begins, 0.0, lasts)
            travel = np.minimum(travel, begins) + braked - 0.5 * braked * braked / lasts
        if self.turns is None:
            return np.asarray(travel[..., None] * self.velocities)
        ahead, aside = arc(travel, travel * self.turns)
        left = np.column_stack([-self.velocities[:, 1], self.velocities[:, 0]])
        return np.asarray(ahead[..., None] * self.velocities + aside[..., None] * left)

    def spread(self, later: np.ndarray, sigmas: float) -> np.ndarray:
        """Returns the radii after times `later` (k,) [s], enlarged for moving obstacles by `sigmas` standard deviations of the position due
        to the velocity: (k, n) [m]."""
        if self.deviations is None:
            return np.tile(self.radii, (len(later), 1))
        return self.radii + sigmas * np.outer(later, self.moving * self.deviations[:, 1])

    def halting(self, which: np.ndarray, begins: np.ndarray, braking: float) -> Obstacles:
        """Returns the obstacles with copies of a mask's (n,) that brake [m/s^2] to standstill from each of `begins` (k,) [s] on."""
        chosen = np.flatnonzero(which)
        lasts = np.maximum(np.hypot(*self.velocities[chosen].T) / braking, 1e-3)
        rows = np.concatenate([np.arange(len(self.radii)), np.tile(chosen, len(begins))])
        halts = np.column_stack([np.repeat(begins, len(chosen)), np.tile(lasts, len(begins))])
        return Obstacles(self.centres[rows], self.radii[rows], self.velocities[rows], self.time,
                         halts=np.concatenate([self.brakes, halts]), turns=None if self.turns is None else self.turns[rows])

    @property
    def may_move(self) -> np.ndarray:
        """Mask of the moving and suspected obstacles (n,)."""
        return self.moving if self.suspected is None else self.moving | (self.suspected != 0.0).any(axis=1)

    @property
    def tentative(self) -> np.ndarray:
        """Mask of the small obstacles with few detections (n,); none if not known."""
        return np.zeros(len(self.radii), bool) if self.new is None else self.new

    def with_standing(self, centres: np.ndarray, radii: np.ndarray, velocities: np.ndarray | None = None) -> Obstacles:
        """Returns the obstacles, with other velocities (n, 2) [m/s] if given, and additional static circles, centres (m, 2) and radii (m,)
        [m]; keeps only position, size and motion."""
        velocities = self.velocities if velocities is None else velocities
        turns = None if self.turns is None else np.concatenate([self.turns, np.zeros(len(radii))])
        return Obstacles(np.concatenate([self.centres, centres]), np.concatenate([self.radii, radii]),
                         np.concatenate([velocities, np.zeros((len(radii), 2))]), self.time, turns=turns)

    def hypotheses(self, halting: float, room: float) -> Obstacles:
        """Returns motion hypotheses: moving and suspected obstacles keep their velocity; those slower than `halting` [m/s], or new, are
        added a second time, static at their present place, new ones larger by `room` [m]."""
        goes_on = self.velocities if self.suspected is None else self.velocities + self.suspected
        speed, new = np.hypot(*goes_on.T), self.tentative
        halts = np.flatnonzero(new | (speed > 0.0) & (speed < halting))
        return self.with_standing(self.centres[halts], self.radii[halts] + room * new[halts], goes_on)


NO_OBSTACLES = Obstacles(np.zeros((0, 2)), np.zeros(0), np.zeros((0, 2)), -math.inf)
