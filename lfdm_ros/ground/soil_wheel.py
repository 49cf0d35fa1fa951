"""Accurate solution of a wheel on soft soil: paper 001 eqs 1-9 and 22 by Gauss-Legendre quadrature and a bracketed root, in plain NumPy.

Reference for `lfdm_ros.models.bekker_wong`, source of curves, and check of the model's validity for a load. The equations are listed
there, with the differences from the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from functools import cache

import numpy as np
from scipy.optimize import brentq

from lfdm_ros.errors import InputError
from lfdm_ros.ground.soils import SoilProperties

POINTS = 64  # of each of the two parts of the contact
# A sixth of the diameter: the moderate sinkage up to which Bekker (Introduction to Terrain-Vehicle Systems, 1969) accepted his closed form
# of a rigid towed wheel, cited by Wong (Theory of Ground Vehicles, ch. 2); better for larger wheels and less sinkage, worse below a
# diameter of 0.5 m and with slip sinkage. That form approximates the arc by a parabola, which is exact here: the limit is a convention.
VALID_SINKAGE = 1.0 / 3.0  # over the radius
_SCANNING = 8  # quadrature points of the search for a bracket
_DEPTHS = np.concatenate([np.geomspace(1e-60, 0.02, 90), np.linspace(0.03, 1.0, 98)])  # of that search, over the largest


class WheelOutcome(Enum):
    """Static state of a wheel."""

    SUPPORTED = "supported"
    DEEP = "beyond validity"  # deeper than VALID_SINKAGE: forces of a law without validation
    SUNK = "no equilibrium"  # the soil does not carry the load at any depth down to the axle
    AIRBORNE = "airborne"


@dataclass(frozen=True)
class SoilWheel:
    """A wheel: unloaded radius and width [m], vertical stiffness [N/m], infinite if rigid."""

    radius: float
    width: float
    stiffness: float = math.inf

    def __post_init__(self) -> None:
        for name, value in (("radius", self.radius), ("width", self.width), ("stiffness", self.stiffness)):
            if not value > 0.0:
                raise InputError(f"wheel: {name} = {value:g} must be above 0")


@dataclass(frozen=True)
class WheelMotion:
    """Velocities over ground of the wheel, longitudinal and lateral, + left, and of its rim [m/s]; all 0: standstill."""

    vx: float
    vy: float
    rim: float

    @classmethod
    def of(cls, slip: float, slip_angle: float = 0.0, speed: float = 1.0) -> WheelMotion:
        """Converts slip (001 eq 11: 1 spins on the spot, -1 is locked) and slip angle [rad] (eq 12: atan(-vy / vx)); `speed`: of the faster
        of rim and wheel."""
        if not -1.0 <= slip <= 1.0:
            raise InputError(f"slip {slip:g} is outside [-1, 1]")
        vx, rim = (speed * (1.0 - slip), speed) if slip > 0.0 else (speed, speed * (1.0 + slip))
        return cls(vx, -vx * math.tan(slip_angle), rim)

    @property
    def slip(self) -> float:
        """Slip in the direction of travel, -1 to 1."""
        fastest = max(abs(self.rim), abs(self.vx))
        return min(max(self.sense * (self.rim - self.vx) / fastest, -1.0), 1.0) if fastest else 0.0

    @property
    def sense(self) -> float:
        """Direction of travel: -1 backwards, otherwise 1."""
        return -1.0 if self.rim + self.vx < 0.0 else 1.0


@dataclass(frozen=True)
class SoilForces:
    """Forces of the soil on the wheel [N]: fx forward (drawbar pull), fy to the left, fz up; fx = traction (shear stress) - resistance
    (pressure). moment: against the drive [N m]."""

    fx: float
    fy: float
    fz: float
    traction: float
    resistance: float
    moment: float


@dataclass(frozen=True)
class Settled:
    """Static equilibrium of a wheel: sinkage, deflection of the tyre, radius of the arc in the soil [m], and forces."""

    outcome: WheelOutcome
    sinkage: float
    deflection: float
    arc_radius: float
    forces: SoilForces | None  # None if SUNK


@dataclass(frozen=True)
class Stresses:
    """Stresses along the contact: angle [rad], pressure, longitudinal and lateral shear stress [Pa], and quadrature weights."""

    angle: np.ndarray
    weight: np.ndarray
    pressure: np.ndarray
    shear_x: np.ndarray
    shear_y: np.ndarray


def arc_radius(wheel: SoilWheel, deflection: float, sinkage: np.ndarray) -> np.ndarray:
    """Computes the radius of the surrogate circle [m] (001 eq 22)."""
    r = wheel.radius
    chord = np.sqrt(deflection * (2.0 * r - deflection)) + np.sqrt((deflection + sinkage) * (2.0 * r - deflection - sinkage))
    return 0.5 * (chord * chord / sinkage + sinkage)


def stresses(wheel: SoilWheel, soil: SoilProperties, radius: np.ndarray, sinkage: np.ndarray, motion: WheelMotion,
             points: int = POINTS) -> Stresses:
    """Computes the stresses under an arc of a radius (..., 1) at a sinkage (..., 1) (001 eqs 1-7): arrays (..., 2 points), front part
    first."""
    x, w = _gauss(points)
    front = _angle(sinkage / radius)
    rear = -_angle(soil.rebound * sinkage / radius)
    largest = np.clip(soil.stress_angle + soil.stress_angle_growth * motion.slip, 0.02, 0.9) * front
    ahead, behind = largest + x * (front - largest), rear + x * (largest - rear)
    mirrored = front - (behind - rear) / (largest - rear) * (front - largest)
    angle = np.concatenate([ahead, behind], axis=-1)
    at = np.concatenate([ahead, mirrored], axis=-1)
    depth = 2.0 * radius * np.sin(0.5 * (front + at)) * np.sin(0.5 * (front - at))  # R (cos at - cos front)
    pressure = soil.modulus(wheel.width) * np.maximum(depth, 0.0) ** soil.sinkage_exponent

    # Shear displacements over the shear moduli. A locked rim shears without limit, in the direction of sliding.
    slip_angle = math.atan2(abs(motion.vy), abs(motion.vx))
    rim, vx = motion.sense * motion.rim, motion.sense * motion.vx
    transport = max(abs(rim), 1e-9 * math.hypot(vx, motion.vy), 1e-300)
    jx = radius * (rim * (front - angle) - vx * (np.sin(front) - np.sin(angle))) / transport
    jy = -radius * motion.vy * (front - angle) / transport
    ex = jx / (soil.shear_modulus_x + soil.shear_growth_x * slip_angle)
    ey = jy / (soil.shear_modulus_y + soil.shear_growth_y * slip_angle)
    e = np.hypot(ex, ey)
    strength = soil.cohesion + pressure * math.tan(soil.friction_angle)
    mobilised = strength * np.where(e > 0.0, -np.expm1(-e) / np.where(e > 0.0, e, 1.0), 1.0)
    weight = np.concatenate([w * (front - largest), w * (largest - rear)], axis=-1)
    return Stresses(angle, weight, pressure, mobilised * ex, mobilised * ey)


@cache
def _gauss(points: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns nodes and weights of Gauss-Legendre between 0 and 1."""
    x, w = np.polynomial.legendre.leggauss(points)
    return 0.5 * (x + 1.0), 0.5 * w


def _angle(share: np.ndarray) -> np.ndarray:
    """Computes acos(1 - share), accurate for a small share (001 eq 2)."""
    return 2.0 * np.arcsin(np.sqrt(0.5 * share))


def carried_load(wheel: SoilWheel, soil: SoilProperties, radius: np.ndarray, sinkage: np.ndarray, motion: WheelMotion,
                 points: int = POINTS) -> np.ndarray:
    """Computes the vertical force [N] at sinkages (n,) on arcs of radii (n,) (001 eqs 8, 9)."""
    radius, sinkage = np.asarray(radius, float)[..., None], np.asarray(sinkage, float)[..., None]
    s = stresses(wheel, soil, radius, sinkage, motion, points)
    return wheel.width * radius[..., 0] * np.sum(s.weight * (s.shear_x * np.sin(s.angle) + s.pressure * np.cos(s.angle)), axis=-1)


def forces_at(wheel: SoilWheel, soil: SoilProperties, deflection: float, sinkage: float, motion: WheelMotion,
              points: int = POINTS) -> SoilForces:
    """Computes the forces at a sinkage and a deflection of the tyre [m] (001 eqs 8, 9)."""
    radius = float(arc_radius(wheel, deflection, np.array(sinkage)))
    s = stresses(wheel, soil, np.array([radius]), np.array([sinkage]), motion, points)
    unit = wheel.width * radius * s.weight
    sine, cosine = np.sin(s.angle), np.cos(s.angle)
    traction = motion.sense * float(np.sum(unit * s.shear_x * cosine))
    # Against the travel; for a wheel that spins on the spot, against the motion of its rim.
    direction = float(np.sign(motion.vx or motion.rim))
    resistance = direction * float(np.sum(unit * s.pressure * sine))
    return SoilForces(
        fx=traction - resistance, fy=float(np.sum(unit * s.shear_y)), fz=float(np.sum(unit * (s.shear_x * sine + s.pressure * cosine))),
        traction=traction, resistance=resistance, moment=motion.sense * (wheel.radius - deflection) * float(np.sum(unit * s.shear_x)))


def settle(wheel: SoilWheel, soil: SoilProperties, load: float, motion: WheelMotion, points: int = POINTS) -> Settled:
    """Solves for the smallest sinkage at which the soil carries the load [N]. Raises InputError: the load is not finite, or deflects the
    tyre by more than its radius."""
    if not math.isfinite(load):
        raise InputError(f"load {load} N is not a finite number")
    if load <= 0.0:
        return Settled(WheelOutcome.AIRBORNE, 0.0, 0.0, wheel.radius, SoilForces(0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    deflection = load / wheel.stiffness
    if deflection >= wheel.radius:
        raise InputError(f"load {load:g} N presses a tyre of {wheel.stiffness:g} N/m in by more than its radius {wheel.radius:g} m")

    def excess(sinkage: float) -> float:
        at = np.array([sinkage])
        return float(carried_load(wheel, soil, arc_radius(wheel, deflection, at), at, motion, points)[0]) - load

    deepest = wheel.radius - deflection
    depths = deepest * _DEPTHS
    # Brackets the root with few quadrature points.
    loads = carried_load(wheel, soil, arc_radius(wheel, deflection, depths), depths, motion, min(points, _SCANNING))
    enough = np.flatnonzero(loads >= load)
    if not len(enough) or excess(float(depths[enough[0]])) < 0.0 > excess(float(depths[min(enough[0] + 1, len(depths) - 1)])):
        return Settled(WheelOutcome.SUNK, deepest, deflection, math.nan, None)
    first = int(enough[0])
    ends = float(depths[max(first - 2, 0)]), float(depths[first])
    if excess(ends[1]) < 0.0:
        ends = ends[1], float(depths[first + 1])
    # On hard ground the smallest depth carries the load already.
    sinkage = ends[0] if excess(ends[0]) >= 0.0 else float(brentq(excess, *ends, xtol=1e-300, rtol=1e-12))
    radius = float(arc_radius(wheel, deflection, np.array(sinkage)))
    outcome = WheelOutcome.DEEP if sinkage > VALID_SINKAGE * wheel.radius else WheelOutcome.SUPPORTED
    return Settled(outcome, sinkage, deflection, radius, forces_at(wheel, soil, deflection, sinkage, motion, points))


def outcome_of(sinkage: float, load: float, radius: float) -> WheelOutcome:
    """Classifies a wheel of a simulated vehicle from its state `sinkage` [m], load [N] and radius [m]; SUNK at 99 % of the radius."""
    if load <= 0.0:
        return WheelOutcome.AIRBORNE
    if sinkage >= 0.99 * radius:
        return WheelOutcome.SUNK
    return WheelOutcome.DEEP if sinkage > VALID_SINKAGE * radius else WheelOutcome.SUPPORTED
