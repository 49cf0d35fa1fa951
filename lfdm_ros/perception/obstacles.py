"""Obstacles: circles, and how they move."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from lfdm_ros.numerics import arc


@dataclass(frozen=True, eq=False)
class Obstacles:
    """Circles, nearest to the vehicle first: centres (n, 2) [m] at `time` [s], radii (n,) [m], velocities (n, 2) [m/s], 0 if static.

    time is -inf as long as nothing was seen. deviations: standard deviations (n, 2) of place [m] and of velocity [m/s] along each axis;
    excess: by how much the circles, which cover what is seen and some more, are larger than that (n,) [m]; suspected: velocities (n, 2)
    [m/s] at which things that count as static may already move, 0 where nothing speaks for it; new: mask (n,) of small things that
    were hardly seen yet; sector: middle, from the vehicle's axis, and half of the angle that the sensor covers [rad], None: all round;
    halts: when each brakes, inf for never, and how long until it stands (n, 2) [s], None: none does; turns: rates at which the velocities
    turn to the left (n,) [rad/s], None: none does; None of the others: not known.
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
    halts: np.ndarray | None = None
    turns: np.ndarray | None = None

    def at(self, time: float) -> Obstacles:
        """Returns them at `time` [s], at constant speed and turn rate."""
        if not len(self.radii):
            return self
        later, velocities = time - self.time, self.velocities
        if self.turns is not None:
            c, s, (vx, vy) = np.cos(later * self.turns), np.sin(later * self.turns), velocities.T
            velocities = np.column_stack([c * vx - s * vy, s * vx + c * vy])
        return replace(self, centres=self.centres + self.shifts(np.array([later]))[0], velocities=velocities, time=time)

    @property
    def moving(self) -> np.ndarray:
        """Mask of the moving ones (n,)."""
        return (self.velocities != 0.0).any(axis=1)

    def where(self, chosen: np.ndarray) -> Obstacles:
        """Selects some of them by a mask (n,) or by their places, in that order."""
        arrays = {f.name: part[chosen] for f in fields(self) if isinstance(part := getattr(self, f.name), np.ndarray)}
        return replace(self, **arrays)

    def joined(self, others: Obstacles) -> Obstacles:
        """Returns them and others of the same time, with what is known of both; the sector is theirs."""
        none_turns = self.turns is None and others.turns is None
        turns = None if none_turns else np.concatenate([self.turn_rates, others.turn_rates])
        arrays: dict[str, Any] = dict.fromkeys(f.name for f in fields(self) if f.name not in ("time", "sector"))
        for name in arrays:
            mine, theirs = getattr(self, name), getattr(others, name)
            arrays[name] = None if mine is None or theirs is None else np.concatenate([mine, theirs])
        return replace(self, **{**arrays, "turns": turns})

    @property
    def brakes(self) -> np.ndarray:
        """`halts` of all (n, 2), also where none does."""
        return np.tile([math.inf, 1.0], (len(self.radii), 1)) if self.halts is None else self.halts

    @property
    def turn_rates(self) -> np.ndarray:
        """`turns` of all (n,), also where none does."""
        return np.zeros(len(self.radii)) if self.turns is None else self.turns

    @property
    def goes_on(self) -> np.ndarray:
        """Mask of those that never brake (n,)."""
        return np.isinf(self.brakes[:, 0])

    def shifts(self, later: np.ndarray) -> np.ndarray:
        """Returns how far they have come so much `later` (k,) [s]: (k, n, 2) [m]."""
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
        """Returns the radii so much `later` (k,) [s], of what moves larger by how uncertain its velocity makes its place, in standard
        deviations: (k, n) [m]."""
        if self.deviations is None:
            return np.tile(self.radii, (len(later), 1))
        return self.radii + sigmas * np.outer(later, self.moving * self.deviations[:, 1])

    def halting(self, which: np.ndarray, begins: np.ndarray, braking: float) -> Obstacles:
        """Returns them with those of a mask (n,) once more for each of `begins` (k,) [s], from when it brakes [m/s^2] until it stands."""
        chosen = np.flatnonzero(which)
        lasts = np.maximum(np.hypot(*self.velocities[chosen].T) / braking, 1e-3)
        rows = np.concatenate([np.arange(len(self.radii)), np.tile(chosen, len(begins))])
        halts = np.column_stack([np.repeat(begins, len(chosen)), np.tile(lasts, len(begins))])
        return Obstacles(self.centres[rows], self.radii[rows], self.velocities[rows], self.time,
                         halts=np.concatenate([self.brakes, halts]), turns=None if self.turns is None else self.turns[rows])

    @property
    def may_move(self) -> np.ndarray:
        """Mask of those that move or are suspected to (n,)."""
        return self.moving if self.suspected is None else self.moving | (self.suspected != 0.0).any(axis=1)

    @property
    def hardly_seen(self) -> np.ndarray:
        """Mask of the small things that were hardly seen yet (n,); of none where that is not known."""
        return np.zeros(len(self.radii), bool) if self.new is None else self.new

    def with_standing(self, centres: np.ndarray, radii: np.ndarray) -> Obstacles:
        """Returns them with further standing circles, centres (m, 2) and radii (m,) [m]; of the rest only place, size and motion."""
        return self._and(centres, radii, self.velocities)

    def _and(self, centres: np.ndarray, radii: np.ndarray, velocities: np.ndarray) -> Obstacles:
        turns = None if self.turns is None else np.concatenate([self.turns, np.zeros(len(radii))])
        return Obstacles(np.concatenate([self.centres, centres]), np.concatenate([self.radii, radii]),
                         np.concatenate([velocities, np.zeros((len(radii), 2))]), self.time, turns=turns)

    def hypotheses(self, halting: float, room: float) -> Obstacles:
        """Returns them as they may go on: what moves, or is suspected to, keeps its velocity; what is slower than `halting` [m/s], or new,
        is there a second time, standing where it is now, new things larger by `room` [m]."""
        goes_on = self.velocities if self.suspected is None else self.velocities + self.suspected
        speed, new = np.hypot(*goes_on.T), self.hardly_seen
        halts = np.flatnonzero(new | (speed > 0.0) & (speed < halting))
        return self._and(self.centres[halts], self.radii[halts] + room * new[halts], goes_on)


NOTHING = Obstacles(np.zeros((0, 2)), np.zeros(0), np.zeros((0, 2)), -math.inf)
