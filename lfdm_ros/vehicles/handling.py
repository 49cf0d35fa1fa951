"""Figures of a vehicle's handling that follow from its parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping


def mass_of(p: Mapping[str, float]) -> float:
    """Mass of all of it [kg]; 0 where the parameters do not say."""
    return sum(p.get(name, 0.0) for name in ("sprung_mass", "unsprung_mass_front", "unsprung_mass_rear", "mass"))


def softness_of(p: Mapping[str, float]) -> tuple[float, float]:
    """Slip angle for a force across on the front and the rear axle [rad/N]; 0 where the parameters do not say."""
    front, rear = (1.0 / max(2.0 * p.get(f"cornering_stiffness_{axle}", math.inf), 1.0) for axle in ("front", "rear"))
    return front, rear


def understeer_of(p: Mapping[str, float]) -> float:
    """Road-wheel angle for each m/s^2 across, beyond that of the bend [rad s^2/m]; negative: oversteers."""
    a, b = p["cg_to_front_axle"], p["cg_to_rear_axle"]
    front, rear = softness_of(p)
    return mass_of(p) / (a + b) * (b * front - a * rear)
