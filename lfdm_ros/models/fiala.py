"""The Fiala tyre in steady state (paper 000 eqs 8-9 and section 3; paper 001 eqs 11-19)."""

from __future__ import annotations

from typing import Any

from lfdm_ros.models.declaration import Field

# The slip's denominator |vx| is kept above this [m/s]. Above it the slip is the paper's; below it the tyre acts as a
# stiff damper on the slip velocity, which is what lets a vehicle start from rest and stop.
SLIP_SPEED_FLOOR = 0.1

PARAMETERS = (
    Field("longitudinal_stiffness_front", "N", "longitudinal slip stiffness of one front tyre", "Cxf", 0.0, 1e6, True),
    Field("longitudinal_stiffness_rear", "N", "longitudinal slip stiffness of one rear tyre", "Cxr", 0.0, 1e6, True),
    Field("cornering_stiffness_front", "N/rad", "cornering stiffness of one front tyre", "Cyf", 0.0, 1e6, True),
    Field("cornering_stiffness_rear", "N/rad", "cornering stiffness of one rear tyre", "Cyr", 0.0, 1e6, True),
    Field("friction_max", "1", "friction coefficient without slip", "mu_max", 0.0, 3.0, True),
    Field("friction_min", "1", "friction coefficient at full slip", "mu_min", 0.0, 3.0, True),
    Field("friction_scale", "1", "friction of the road over that of the road the tyre was measured on", "", 0.0, 3.0),
)


def build(m: Any) -> Any:
    """Returns `forces(vx, vy, rim_speed, fz, cx, cy, mu_max, mu_min) -> (fx, fy, kx, ky)`.

    vx, vy: velocity of the wheel's centre over ground in the tyre frame [m/s]; rim_speed: effective radius times wheel speed
    [m/s]; fz: load [N]; cx: [N]; cy: [N/rad]. Returns the forces [N] and their slopes against the slip velocities,
    kx = dfx/d(rim_speed), ky = -dfy/dvy [N s/m], both >= 0, friction coefficient held; an implicit step needs them.
    """
    fn, where, sqrt, fabs, fmin, fmax = m.fn, m.where, m.sqrt, m.fabs, m.fmin, m.fmax
    floor = SLIP_SPEED_FLOOR

    @fn
    def forces(vx, vy, rim_speed, fz, cx, cy, mu_max, mu_min):
        speed = fmax(fabs(vx), floor)
        s = (rim_speed - vx) / speed  # 000 eq 8
        t = vy / speed  # tan(alpha), 000 eq 9 in the tyre frame

        # Friction falls with the comprehensive slip (001 eqs 13, 14); the 1e-24 keeps the root differentiable at 0.
        slip = fmin(sqrt(s * s + t * t + 1e-24), 1.0)
        limit = fmax((mu_max - (mu_max - mu_min) * slip) * fz, 1e-6)

        # Longitudinal: elastic up to s*, sliding beyond (001 eqs 15, 18).
        s_abs = fabs(s)
        sliding = s_abs * (2.0 * cx) > limit
        s_safe = where(sliding, s_abs, 1.0)
        rest = limit * limit / (4.0 * cx * s_safe)
        side = where(s < 0.0, -1.0, 1.0)
        fx = where(sliding, side * (limit - rest), cx * s)
        kx = where(sliding, rest / s_safe, cx) / speed

        # Lateral (001 eqs 16, 17, 19): with q = 1 - H, mu Fz (1 - H^3) is C t (1 - q + q^2/3), free of sign(alpha).
        q = fmin(cy * fabs(t) / (3.0 * limit), 1.0)
        fy = where(q < 1.0, -cy * t * (1.0 - q + q * q / 3.0), where(t < 0.0, limit, -limit))
        ky = cy * (1.0 - q) * (1.0 - q) / speed
        return fx, fy, kx, ky

    return m.namespace(forces=forces)
