"""Inputs of a decision of shared control: one immutable record, read by threats, laws and blends."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lfdm_ros.bounds import require
from lfdm_ros.control.plan import Plan
from lfdm_ros.control.prediction import Measured
from lfdm_ros.errors import InputError
from lfdm_ros.models.declaration import INPUTS
from lfdm_ros.perception.obstacles import NO_OBSTACLES, Obstacles
from lfdm_ros.sharing.operator_learning import OperatorPosterior
from lfdm_ros.simulation.path import Path
from lfdm_ros.vehicles import Vehicle


@dataclass(frozen=True)
class StampedCommand:
    """A driver's command at `time` [s]: steering [-1, 1], positive to the left, throttle [-1, 1], below 0 in reverse, and brake [0, 1].
    Raises InputError: not finite, or out of its range."""

    time: float
    steering: float = 0.0
    throttle: float = 0.0
    brake: float = 0.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.time):
            raise InputError(f"command: its time is {self.time}")
        for f in INPUTS:
            require(f.name, getattr(self, f.name))

    @classmethod
    def of_pedal(cls, time: float, steering: float, pedal: float, reverse: bool = False) -> StampedCommand:
        """Returns the command for steering and `pedal` [-1, 1]: throttle (of the selected direction), or brake below 0. Raises InputError
        as above."""
        throttle = max(pedal, 0.0)
        return cls(time, steering, -throttle if reverse else throttle, max(-pedal, 0.0))

    @property
    def inputs(self) -> tuple[float, float, float]:
        """Steering, throttle and brake."""
        return self.steering, self.throttle, self.brake

    @property
    def pedal(self) -> float:
        """Magnitude of the throttle less the brake, [-1, 1]: the single pedal input of a plan."""
        return abs(self.throttle) - self.brake

    @property
    def reverse(self) -> bool:
        """True if the selector is to be in reverse."""
        return self.throttle < 0.0


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of the vehicle's parameters from the posterior in force: values (n, P) by `names`, SI; version: its number, 0 for none."""

    names: tuple[str, ...]
    values: np.ndarray
    version: int = 0

    @classmethod
    def crossed(cls, draws: Draws | None, name: str, values: Sequence[float]) -> Draws | None:
        """Returns the draws crossed with the values of one more parameter, each equally often; no values: unchanged."""
        if not len(values):
            return draws
        column = np.asarray(values, float)
        if draws is None:
            return cls((name,), column[:, None])
        each, all_of = np.repeat(draws.values, len(column), axis=0), np.tile(column, len(draws.values))
        return cls((*draws.names, name), np.column_stack([each, all_of]), draws.version)


@dataclass(frozen=True, eq=False)
class Corridor:
    """Lane of the vehicle: a path, and rows (k, 3) of s along it, room to its left and to its right [m]."""

    path: Path
    room: np.ndarray

    def room_at(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns room to the left and to the right (m,), (m,) [m] at s (m,) [m]."""
        along, left, right = self.room.T
        return np.interp(s, along, left), np.interp(s, along, right)

    def holds(self, points: np.ndarray) -> np.ndarray:
        """Returns a mask (n,) of the points (n, 2) between its borders."""
        s, aside = self.path.project(*np.asarray(points, float).T)
        left, right = self.room_at(s)
        return np.asarray((aside < left) & (-aside < right))


@dataclass(frozen=True, eq=False)
class Situation:
    """Known inputs at `time` [s], all stamps and positions on the same clock and in the same frame.

    vehicle: its parameters in force, outline and actuators; draws: of the posterior behind the parameters. measured: the newest state, at
    its own time. sent: commands that have acted on the vehicle since then or will act (its actuators delay them), oldest first; the last is
    in force. operator, autonomy: the newest command of each; plan: of the autonomy; None: there is none, or it is too old. obstacles: as
    detected, at their own time. path: the driven path, if known, and `corridor` the room beside it; walls: map edges, starts and ends
    (E, 4) [m]. past: states up to the newest, oldest first, covering the reaction time of the operator. intention: rollout of the held
    operator's command (`lfdm_ros.sharing.forecast`); None: no valid command. operator_posterior: of the learned steering; None: not
    enough samples. hidden_speed: of traffic that obstacles beside the path may hide [m/s]; 0: none.
    """

    time: float
    vehicle: Vehicle
    measured: Measured
    sent: tuple[StampedCommand, ...] = ()
    operator: StampedCommand | None = None
    autonomy: StampedCommand | None = None
    plan: Plan | None = None
    obstacles: Obstacles = field(default=NO_OBSTACLES)
    path: Path | None = None
    corridor: Corridor | None = None
    draws: Draws | None = None
    intention: Plan | None = None
    walls: np.ndarray | None = None
    past: tuple[Measured, ...] = ()
    operator_posterior: OperatorPosterior | None = None
    hidden_speed: float = 0.0

    @property
    def applied(self) -> StampedCommand:
        """Command in force; before the first one, zero inputs."""
        return self.sent[-1] if self.sent else StampedCommand(self.time)

    @property
    def state_age(self) -> float:
        """[s]"""
        return self.time - self.measured.time

    @property
    def operator_age(self) -> float:
        """Time since the operator's command was issued [s]; NaN: there is none."""
        return math.nan if self.operator is None else self.time - self.operator.time

    @property
    def autonomy_age(self) -> float:
        """Time since the autonomy's command was issued [s]; NaN: there is none."""
        return math.nan if self.autonomy is None else self.time - self.autonomy.time

    def value(self, name: str) -> float:
        """Returns a measured state by name; NaN: it was not measured."""
        return float(self.measured.values.get(name, math.nan))


def still_acting(commands: Sequence[StampedCommand], since: float, delay: float) -> tuple[StampedCommand, ...]:
    """Returns the commands, ordered by time, that act at `since` [s] or later, each a `delay` [s] after it was sent."""
    first = bisect_right(commands, since, key=lambda command: command.time + delay) - 1
    return tuple(commands[max(first, 0):])
