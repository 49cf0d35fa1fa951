"""How much of the tyres the way out needs: the worst front sideslip of the autonomy's plan, or how near it comes to what friction allows.

Anderson, Peters, Pilutti & Iagnemma 2010, "An optimal-control-based framework for trajectory planning, threat assessment, and
semi-autonomous control of passenger vehicles in hazard avoidance scenarios": the plan is the easiest way that there is; when even that is
hard, little is left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lfdm_ros.control.plan import Plan
from lfdm_ros.control.safety.stops import peak_of
from lfdm_ros.errors import InputError
from lfdm_ros.parameters import Declared, setting
from lfdm_ros.sharing.forecast import MODEL, column
from lfdm_ros.sharing.situation import Situation
from lfdm_ros.sharing.threat import Assessment
from lfdm_ros.vehicles import Vehicle
from lfdm_ros.vehicles.body import mass_of

SLOW = 2.0  # [m/s] slower tyres have no slip angle worth the name
LEAST_ANGLE, LEAST_GRIP = 1e-3, 0.1  # [rad], [m/s^2] of a ground that holds nothing
PEAK = 3.0  # the Fiala tyre slides from tan(alpha) = 3 mu Fz / C on (001 eq 18)


@dataclass(frozen=True)
class Demand(Declared):
    """0 up to `engage`, 1 from `full` on; both are shares of the slip angle at which the front tyres slide, or of the friction circle."""

    ABOUT: ClassVar[str] = "threat demand: "
    name: ClassVar[str] = "demand"

    measure: str = setting("sideslip", "", "what of the plan counts: sideslip of the front tyres, or saturation of the friction circle",
                           choices=("sideslip", "saturation"))
    engage: float = setting(0.35, "1", "share of the peak up to which nothing is threatened", 0.0, 5.0)
    full: float = setting(0.85, "1", "share of the peak from which on autonomy drives", 0.01, 5.0)
    horizon: float = setting(2.0, "s", "how far ahead the plan counts", 0.1, 10.0)
    model: str = setting(MODEL, "", "vehicle model whose ground says what the tyres hold along the plan, by its name in the registry")

    def assess(self, situation: Situation) -> Assessment:
        plan = situation.plan
        if plan is None:
            return Assessment.unknown("autonomy has no plan")
        near = (plan.times >= situation.time - 1e-9) & (plan.times <= situation.time + self.horizon + 1e-9)
        if not near.any():
            return Assessment.unknown("the plan is over")
        share = (front_slip if self.measure == "sideslip" else saturation)(plan, situation.vehicle, self.model)
        if share is None:
            return Assessment.unknown(f"neither plan nor vehicle tell its {self.measure}")
        worst = float(np.max(share[near]))
        if not math.isfinite(worst):
            return Assessment.unknown("the plan is not finite")
        threat = min(max((worst - self.engage) / max(self.full - self.engage, 1e-6), 0.0), 1.0)
        return Assessment(threat, f"the plan's {self.measure} reaches {100.0 * worst:.0f} % of the peak", details={"share": worst})

    def reset(self) -> None:
        """Keeps nothing."""


def front_slip(plan: Plan, vehicle: Vehicle, model: str = MODEL) -> np.ndarray | None:
    """Front slip angles of a plan (n,), as shares of that from which on the tyres slide on the model's ground there; None: it cannot be
    told."""
    p, place, grip = vehicle.parameters, {name: i for i, name in enumerate(plan.names)}, _grip_along(plan, vehicle, model)
    if grip is None or not {"vx", "vy", "yaw_rate"} <= set(place) or not {"cornering_stiffness_front", "max_road_wheel_angle"} <= set(p):
        return None
    vx, vy, r = (plan.states[:, place[name]] for name in ("vx", "vy", "yaw_rate"))
    road = plan.states[:, place["road_steering"]] if "road_steering" in place else plan.inputs[:, 0]
    slip = np.abs(road * p["max_road_wheel_angle"] - np.arctan2(vy + p["cg_to_front_axle"] * r, np.maximum(np.abs(vx), SLOW)))
    return np.where(np.abs(vx) < SLOW, 0.0, slip / np.maximum(sliding_angle(p, grip), LEAST_ANGLE))


def sliding_angle(p: Mapping[str, float], grip: np.ndarray) -> np.ndarray:
    """The slip angle from which on the front tyres slide [rad], where at most an acceleration `grip` [m/s^2] is held; of its shape."""
    load = 0.5 * mass_of(p) * p["cg_to_rear_axle"] / (p["cg_to_front_axle"] + p["cg_to_rear_axle"])
    return np.arctan(PEAK * grip * load / p["cornering_stiffness_front"])


def saturation(plan: Plan, vehicle: Vehicle, model: str = MODEL) -> np.ndarray | None:
    """Accelerations of a plan (n,), as shares of what friction allows on the model's ground there; None: it cannot be told."""
    grip = _grip_along(plan, vehicle, model)
    if grip is None or not {"ax", "ay"} <= set(plan.names):
        return None
    return np.hypot(column(plan, "ax"), column(plan, "ay")) / np.maximum(grip, LEAST_GRIP)


def _grip_along(plan: Plan, vehicle: Vehicle, model: str) -> np.ndarray | None:
    """What the tyres hold at most at the places of a plan [m/s^2], (n,) or (1,); None: it cannot be told."""
    if not {"x", "y", "yaw"} <= set(plan.names) or "friction_max" not in vehicle.parameters:
        return None
    try:
        peak = peak_of(vehicle.model(model), vehicle)
    except InputError:  # no such model, or the vehicle cannot be one
        return None
    return peak(*(column(plan, name) for name in ("x", "y", "yaw")))
