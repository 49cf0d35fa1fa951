"""The Fiala tyre in steady state (paper 000 eqs 8-9 and section 3; paper 001 eqs 11-19)."""

from dataclasses import replace
from typing import Any

from lfdm_ros.models.declaration import Field, Part
from lfdm_ros.models.equations import Contact, Operations, Record, Scalar, Wheel

# The slip's denominator |vx| is kept above this [m/s]. Above it the slip is the paper's; below it the tyre acts as a
# stiff damper on the slip velocity, which allows a vehicle to start from rest and to stop.
SLIP_SPEED_FLOOR = 0.1

PARAMETERS = (
    Field("rolling_resistance", "m", "rolling resistance: torque over load", "rr", 0.0, 1.0),
    Field("longitudinal_stiffness_front", "N", "longitudinal slip stiffness of one front tyre", "Cxf", 0.0, 1e6, True),
    Field("longitudinal_stiffness_rear", "N", "longitudinal slip stiffness of one rear tyre", "Cxr", 0.0, 1e6, True),
    Field("cornering_stiffness_front", "N/rad", "cornering stiffness of one front tyre", "Cyf", 0.0, 1e6, True),
    Field("cornering_stiffness_rear", "N/rad", "cornering stiffness of one rear tyre", "Cyr", 0.0, 1e6, True),
    Field("friction_max", "1", "friction coefficient without slip", "mu_max", 0.0, 3.0, True),
    Field("friction_min", "1", "friction coefficient at full slip", "mu_min", 0.0, 3.0, True),
)


# -- Wheels that their brakes hold at no speed -----------------------------------------------------------------------------------
# There a tyre resists as dry friction does, and a parked vehicle stays where it is. Slips are resolved above some speed only, and below it
# a tyre is a damper: on a slope it creeps. Under a locked wheel the damper is GAIN times as stiff: on a slope of 10 % a parked vehicle
# creeps less than 0.1 mm a second. Its slopes are those of the secant, force over slip velocity, with which a step that is implicit in them
# cannot turn the velocity round, however stiff.
GAIN = 1000.0


def choose(m: Operations, wheel: Wheel, locked: Contact, turning: Contact) -> Contact:
    """Chooses forces and slopes of `locked` where the wheel is, else those of `turning`, which has the rest."""
    def of(name: str) -> Scalar:
        locked_value, rolling = getattr(locked, name), getattr(turning, name)
        if locked_value is rolling:
            return rolling
        return m.where(wheel.any_locked > 0.0, m.where(wheel.locked > 0.0, locked_value, rolling), rolling)

    return replace(turning, fx=of("fx"), fy=of("fy"), kx=of("kx"), ky=of("ky"))


class Fiala:
    """A tyre (`lfdm_ros.models.equations.Tyre`) without states."""

    implicit = True

    def __init__(self, m: Operations):
        self._m = m

    def prepare(self, p: Any) -> Any:
        return Record(front=(p.longitudinal_stiffness_front, p.cornering_stiffness_front),
                      rear=(p.longitudinal_stiffness_rear, p.cornering_stiffness_rear), rolling=p.rolling_resistance,
                      mu_max=p.friction_max, mu_min=p.friction_min)

    def forces(self, q: Any, wheel: Wheel) -> Contact:
        locked, turning = self.slipping(q, wheel, SLIP_SPEED_FLOOR / GAIN, True), self.slipping(q, wheel, SLIP_SPEED_FLOOR, False)
        return choose(self._m, wheel, locked, turning)

    def slipping(self, q: Any, wheel: Wheel, floor: float, locked: bool) -> Contact:
        """Returns forces with a slip above `floor` [m/s]; `locked`: with slopes of the secants."""
        where, sqrt, fabs, fmin, fmax = self._m.where, self._m.sqrt, self._m.fabs, self._m.fmin, self._m.fmax
        cx, cy = q.front if wheel.front else q.rear
        vx, vy, rim_speed = wheel.along, wheel.across, wheel.radius * wheel.omega
        speed = fmax(fabs(vx), floor)
        s = (rim_speed - vx) / speed  # 000 eq 8
        t = vy / speed  # tan(alpha), 000 eq 9 in the tyre frame

        # Friction falls with the comprehensive slip (001 eqs 13, 14); the 1e-24 keeps the root differentiable at 0.
        slip = fmin(sqrt(s * s + t * t + 1e-24), 1.0)
        mu_max, mu_min = wheel.ground.friction * q.mu_max, wheel.ground.friction * q.mu_min
        # In this order compiled code propagates NaN: a missing ground must not look like one without grip.
        limit = fmax(1e-6, (mu_max - (mu_max - mu_min) * slip) * wheel.load)

        # Longitudinal: elastic up to s*, sliding beyond (001 eqs 15, 18).
        s_abs = fabs(s)
        sliding = s_abs * (2.0 * cx) > limit
        s_safe = where(sliding, s_abs, 1.0)
        rest = limit * limit / (4.0 * cx * s_safe)
        side = where(s < 0.0, -1.0, 1.0)
        fx = where(sliding, side * (limit - rest), cx * s)
        kx = where(sliding, (limit - rest if locked else rest) / s_safe, cx) / speed

        # Lateral (001 eqs 16, 17, 19): with q = 1 - H, mu Fz (1 - H^3) is C t (1 - q + q^2/3), free of sign(alpha).
        share = fmin(cy * fabs(t) / (3.0 * limit), 1.0)
        fy = where(share < 1.0, -cy * t * (1.0 - share + share * share / 3.0), where(t < 0.0, limit, -limit))
        ky = (fmin(cy * (1.0 - share + share * share / 3.0), limit / fmax(fabs(t), 1e-12)) if locked
              else cy * (1.0 - share) * (1.0 - share)) / speed
        return Contact(fx, fy, kx, ky, friction=q.rolling * wheel.load)


FIALA = Part("fiala", "Fiala tyre: slip stiffnesses and a friction coefficient that falls with the slip", PARAMETERS, Fiala)
