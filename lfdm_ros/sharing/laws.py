"""Laws k(threat): share of autonomy, 0 operator to 1 autonomy, for a threat in [0, 1] (paper 001 section 2.3). Monotone by construction.

A memoryless law is a non-decreasing table of points, or a curve of positive slope. Hysteresis turns it into a play operator (Visintin 1994,
"Differential Models of Hysteresis", ch. III): k is constant between the law at the threat, by which it rises, and the law at the threat
plus a width, by which it falls. It is monotone in the threat for any previous k, and in the previous k for any threat; a non-decreasing
threat gives a non-decreasing k.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lfdm_ros import plugins
from lfdm_ros.errors import InputError


class Law(Protocol):
    """Share of autonomy for a threat; `before` is the previous share, unused by a memoryless law."""

    def k(self, threat: float, before: float = 0.0) -> float: ...


@dataclass(frozen=True)
class Piecewise:
    """Law linear between points (threat, k), constant beyond them. Raises InputError: threats do not increase, or shares decrease or leave
    [0, 1]."""

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        threats, shares = np.array(self.points, float).reshape(-1, 2).T
        if not len(threats) or not (np.isfinite(threats).all() and (np.diff(threats) > 0.0).all()):
            raise InputError(f"law: the threats {threats.tolist()} do not rise")
        if not (shares >= 0.0).all() or not (shares <= 1.0).all() or (np.diff(shares) < 0.0).any():
            raise InputError(f"law: the shares {shares.tolist()} fall, or leave [0, 1]")

    def k(self, threat: float, before: float = 0.0) -> float:
        threats, shares = zip(*self.points)
        return float(np.interp(threat, threats, shares))


def linear() -> Piecewise:
    """Returns the law k = threat."""
    return Piecewise(((0.0, 0.0), (1.0, 1.0)))


def between(engage: float, full: float) -> Piecewise:
    """Returns the law that is 0 up to `engage`, 1 from `full` on (Anderson et al. 2010). Raises InputError unless full is larger."""
    return Piecewise(((engage, 0.0), (full, 1.0)))


@dataclass(frozen=True)
class Sigmoid:
    """Logistic curve with its midpoint at `middle`, scaled to 0 at a threat of 0 and 1 at 1; with growing `steepness` it approaches a step.
    Raises InputError: middle outside (0, 1), or steepness not positive."""

    middle: float = 0.5
    steepness: float = 10.0

    def __post_init__(self) -> None:
        if not 0.0 < self.middle < 1.0 or not 0.0 < self.steepness <= 1e3:
            raise InputError(f"law: sigmoid with middle {self.middle}, steepness {self.steepness}; give 0 < middle < 1, "
                             "0 < steepness <= 1000")

    def k(self, threat: float, before: float = 0.0) -> float:
        low, high = self._curve(0.0), self._curve(1.0)
        return min(max((self._curve(min(max(threat, 0.0), 1.0)) - low) / (high - low), 0.0), 1.0)

    def _curve(self, threat: float) -> float:
        return 0.5 * (1.0 + math.tanh(0.5 * self.steepness * (threat - self.middle)))


@dataclass(frozen=True)
class Hysteresis:
    """Law with hysteresis: k falls only after the threat has dropped by `width`. Raises InputError: a width outside [0, 1]."""

    law: Law
    width: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.width <= 1.0:
            raise InputError(f"law: hysteresis of width {self.width}; give 0 to 1")

    def k(self, threat: float, before: float = 0.0) -> float:
        return min(max(before, self.law.k(threat)), self.law.k(threat + self.width))


@dataclass(frozen=True)
class Rate:
    """Largest rates of k [1/s]."""

    up: float
    down: float

    def limited(self, before: float, target: float, dt: float) -> float:
        """Returns the share nearest to `target` that the rates allow within dt [s]."""
        return min(max(target, before - self.down * dt, 0.0), before + self.up * dt, 1.0)


@dataclass(frozen=True)
class LawKind:
    """Law by name: make(settings) returns it for `SharingSettings`, or raises InputError for inconsistent values."""

    name: str
    description: str
    make: Callable[[Any], Law]

    def checked(self, settings: Any) -> Law:
        """Returns the law. Raises InputError where a share decreases or leaves [0, 1]."""
        law = self.make(settings)
        threats = np.linspace(0.0, 1.0, 101)
        shares = np.array([law.k(float(threat)) for threat in threats])
        if not ((shares >= 0.0) & (shares <= 1.0)).all() or (np.diff(shares) < -1e-12).any():
            worst = int(np.argmax(~((shares >= 0.0) & (shares <= 1.0)) | (np.diff(shares, prepend=-np.inf) < -1e-12)))
            raise InputError(f"law {self.name}: its share falls or leaves [0, 1]: {shares[worst]:g} at a threat of {threats[worst]:.2f}")
        return law


LINEAR = LawKind("linear", "k = threat", lambda settings: linear())
PIECEWISE = LawKind("piecewise", "0 up to `engage`, 1 from `full` on", lambda settings: between(settings.engage, settings.full))
SIGMOID = LawKind("sigmoid", "a logistic curve through 1/2 at `middle`", lambda settings: Sigmoid(settings.middle, settings.steepness))
LAWS: plugins.Door[LawKind] = plugins.Door("law", "lfdm_ros.laws", LawKind, "make", LINEAR, PIECEWISE, SIGMOID)
register_law = LAWS.register
