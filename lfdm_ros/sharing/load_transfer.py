"""Rollover: the load-transfer ratio now, and what the operator's command and the autonomy's plan will make of it.

The ratio of an axle is the difference of its wheels' loads over their sum, 0 at rest and 1 when a wheel has lifted. Loads follow the
lateral acceleration as in a steady turn (paper 000 eqs 10-13), as the planner has them; the roll that is measured replaces the steady one
now.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import numpy as np

from lfdm_ros.control.plan import Plan
from lfdm_ros.models import roll_chassis
from lfdm_ros.parameters import Declared, setting
from lfdm_ros.sharing.forecast import column
from lfdm_ros.sharing.situation import Situation
from lfdm_ros.sharing.threat import Assessment
from lfdm_ros.vehicles import Vehicle

NEEDED = tuple(f.name for f in roll_chassis.PARAMETERS if "damping" not in f.name and "inertia" not in f.name)


class Loads:
    """Load-transfer ratios of one vehicle."""

    def __init__(self, vehicle: Vehicle) -> None:
        """Raises KeyError where the vehicle lacks parameters."""
        p = SimpleNamespace(**{name: vehicle.parameters[name] for name in NEEDED})
        terms = roll_chassis.load_terms(p)
        steady = terms.lever / terms.roll_stiffness  # roll for a unit of ay
        self._static, self._pitch = terms.static, terms.pitch
        self._lateral, self._springs = terms.lateral, terms.springs
        self._steady = steady

    def ratio(self, ay: np.ndarray, ax: np.ndarray, roll: np.ndarray | None = None) -> np.ndarray:
        """The larger ratio of the two axles (n,); roll: [rad] to the right, None: as in a steady turn."""
        lean = self._steady * ay if roll is None else roll
        worst = np.zeros(np.shape(ay))
        for static, lateral, spring, sign in zip(self._static, self._lateral, self._springs, (-1.0, 1.0)):
            load = np.maximum(static + sign * self._pitch * ax, 0.05 * static)
            worst = np.maximum(worst, np.abs(lateral * ay + spring * lean) / load)
        return worst


@dataclass(frozen=True)
class LoadTransfer(Declared):
    """0 up to `engage`, 1 from `full` on; what is predicted counts as what is."""

    ABOUT: ClassVar[str] = "threat load_transfer: "
    name: ClassVar[str] = "load_transfer"

    engage: float = setting(0.6, "1", "load-transfer ratio up to which nothing is threatened", 0.0, 1.0)
    full: float = setting(0.95, "1", "load-transfer ratio from which on the threat is 1", 0.01, 2.0)
    horizon: float = setting(1.5, "s", "how far ahead is looked", 0.1, 10.0)

    def assess(self, situation: Situation) -> Assessment:
        try:
            loads = Loads(situation.vehicle)
        except KeyError as missing:
            return Assessment.unknown(f"the vehicle has no {missing.args[0]}")
        ay, ax, roll = (situation.value(name) for name in ("ay", "ax", "roll"))
        if math.isnan(ay):
            ay = situation.value("vx") * situation.value("yaw_rate")
        now = float(loads.ratio(np.array(ay), np.array(0.0 if math.isnan(ax) else ax), None if math.isnan(roll) else np.array(roll)))
        mine = self._worst(loads, situation, situation.intention)
        theirs = self._worst(loads, situation, situation.plan)
        worst = max(now, mine) if mine == mine else now
        return Assessment(self._threat(worst), f"load transfer {now:.2f}" + (f", {mine:.2f} ahead" if mine == mine else ""),
                          self._threat(max(now, theirs)) if theirs == theirs else math.nan,
                          {"now": now, "operator": mine, "autonomy": theirs})

    def _worst(self, loads: Loads, situation: Situation, trajectory: Plan | None) -> float:
        """The largest ratio on a trajectory within the horizon; NaN: it cannot be told."""
        if trajectory is None or not {"ax", "ay"} <= set(trajectory.names):
            return math.nan
        t = trajectory.times
        near = (t >= situation.time - 1e-9) & (t <= situation.time + self.horizon + 1e-9)
        if not near.any():
            return math.nan
        return float(loads.ratio(column(trajectory, "ay")[near], column(trajectory, "ax")[near]).max())

    def _threat(self, ratio: float) -> float:
        return min(max((ratio - self.engage) / max(self.full - self.engage, 1e-6), 0.0), 1.0)

    def reset(self) -> None:
        """Keeps nothing."""
