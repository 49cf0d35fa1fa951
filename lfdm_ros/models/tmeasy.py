"""The TMeasy tyre (Rill, Road Vehicle Dynamics, ch. 3; paper 003): force curves from a table at two loads, combined slip.

Two variants of one curve:
- `tmeasy`: the force is carried by the tyre's longitudinal and lateral deflection, which are states (first-order relaxation);
- `tmeasy_nr`: without relaxation; below walking pace dry friction on the slip velocity is blended in.

A curve rises with `slope`, peaks at `peak_slip` with `peak_force`, and slides from `sliding_slip` with `sliding_force`. Forces between the
loads are quadratic, slips linear in the load. `friction_scale` scales forces and slips, as Rill does.
"""

from __future__ import annotations

import math
from typing import Any

from lfdm_ros.models.chassis import FRICTION_SCALE, Contact
from lfdm_ros.models.declaration import Field, Part

# The wheels are integrated explicitly: above this step [s] they begin to swing (docs/which_model.md).
LARGEST_STEP = 2e-3
# Added to the rolling speed [m/s]: slips stay finite at rest.
TRANSPORT_SPEED_FLOOR = 0.01
# Slip velocities [m/s] between which the carcass force loses its limit.
STICK_END, SLIDE_BEGIN = 1.0, 1.5
# Below this share of the nominal load the curves are those of the share: nothing divides by 0, and the forces are nothing.
LEAST_LOAD = 1e-14

_AXES = ("longitudinal", "lateral")
_CURVE = (("slope", "N", "initial slope of the force over slip"), ("peak_force", "N", "largest force"),
          ("peak_slip", "1", "slip of the largest force"),
          ("sliding_force", "N", "force at full sliding"), ("sliding_slip", "1", "slip where full sliding begins"))
_LOADS = (("nominal", "at nominal load"), ("double", "at twice the nominal load"))

TABLE = (
    Field("tyre_nominal_load", "N", "nominal load of one tyre", "pn", 0.0, 1e7, True),
    Field("tyre_maximum_load", "N", "load above which the force curves do not grow", "pnmax", 0.0, 1e7, True),
    Field("rolling_radius_weight_nominal", "1", "weight of the unloaded in the rolling radius, nominal load", "", 0.0, 1.0),
    Field("rolling_radius_weight_double", "1", "weight of the unloaded in the rolling radius, twice that", "", 0.0, 1.0),
    Field("rolling_resistance_coefficient", "1", "rolling resistance over load", "rr", 0.0, 1.0),
    *(Field(f"tmeasy_{axis}_{key}_{load}", unit, f"{axis} {words}, {where}", "", 0.0, 1e8, True)
      for axis in _AXES for key, unit, words in _CURVE for load, where in _LOADS),
    FRICTION_SCALE,
)
CARCASS = (
    Field("carcass_stiffness_longitudinal", "N/m", "longitudinal stiffness of the carcass", "cx", 0.0, 1e8, True),
    Field("carcass_stiffness_lateral", "N/m", "lateral stiffness of the carcass", "cy", 0.0, 1e8, True),
    Field("carcass_damping_longitudinal", "N*s/m", "longitudinal damping of the carcass", "dx", 0.0, 1e7, True),
    Field("carcass_damping_lateral", "N*s/m", "lateral damping of the carcass", "dy", 0.0, 1e7, True),
)
COULOMB = (
    Field("coulomb_speed", "m/s", "slip velocity at which dry friction at walking pace has nearly its full force", "", 0.0, 100.0, True),
    Field("coulomb_blend_begin", "m/s", "wheel velocity below which there is only dry friction", "", 0.0, 100.0),
    Field("coulomb_blend_end", "m/s", "wheel velocity above which there is only the slip curve", "", 0.0, 100.0, True),
)
DEFLECTIONS = (
    Field("tyre_deflection_x", "m", "longitudinal deflection of the tyre"),
    Field("tyre_deflection_y", "m", "lateral deflection of the tyre"),
)


def build(m: Any, lfdm: bool, axle: bool, relaxation: bool) -> Any:
    """See `lfdm_ros.models.chassis`. The C++ library's axle tyre has some of its parameters doubled; see docs/lfdm_differences.md."""
    where, sqrt, fabs, fmin, fmax, sin, tanh = m.where, m.sqrt, m.fabs, m.fmin, m.fmax, m.sin, m.tanh
    doubled = 2.0 if lfdm and axle else 1.0
    load_doubled = doubled if relaxation else 1.0

    def prepare(p):
        def value(axis, key, load):
            return getattr(p, f"tmeasy_{axis}_{key}_{load}")

        def quadratic(axis, key):
            # w1 at n = 1, w2 at n = 2, 0 at 0: n (2 w1 - w2/2 - (w1 - w2/2) n)
            w1, w2 = doubled * value(axis, key, "nominal"), doubled * value(axis, key, "double")
            return 2.0 * w1 - 0.5 * w2, w1 - 0.5 * w2

        def linear(axis, key):
            w1, w2 = value(axis, key, "nominal"), value(axis, key, "double")
            return 2.0 * w1 - w2, w2 - w1

        nominal = load_doubled * p.tyre_nominal_load
        r1, r2 = p.rolling_radius_weight_nominal, p.rolling_radius_weight_double
        curves = {axis: [(quadratic if unit == "N" else linear)(axis, key) for key, unit, _ in _CURVE] for axis in _AXES}
        rise = r2 - r1
        q = m.namespace(per_load=1.0 / nominal, maximum=load_doubled * p.tyre_maximum_load, curves=curves, r0=p.wheel_radius,
                        radius=(2.0 * r1 - r2, rise),
                        # The unloaded radius' weight grows up to the load where the rolling radius would begin to grow.
                        radius_load=where(fabs(rise) > 0.0, (rise - r1 + 1.0) / where(fabs(rise) > 0.0, 2.0 * rise, 1.0), 0.0),
                        rolling=doubled * p.rolling_resistance_coefficient,
                        mu=p.friction_scale * (1.0 if relaxation else doubled))
        if relaxation:
            q.carcass = [doubled * c for c in (p.carcass_stiffness_longitudinal, p.carcass_stiffness_lateral,
                                               p.carcass_damping_longitudinal, p.carcass_damping_lateral)]
            q.limits = [doubled * q.mu * value(axis, "peak_force", "double") for axis in _AXES]
        else:
            q.coulomb = (2.0 / p.coulomb_speed, p.coulomb_blend_begin, 1.0 / fmax(p.coulomb_blend_end - p.coulomb_blend_begin, 1e-9))
        return q

    def smooth(z):
        # From 0 at z = 0 to 1 at z = 1 with zero slope at both (a sine step). A choice, so that the sine is only computed in between.
        return where(z <= 0.0, 0.0, where(z >= 1.0, 1.0, z - sin(2.0 * math.pi * z) * (0.5 / math.pi)))

    def secant(s, slope, sm, fm, ss, fs):
        # Force over slip of the curve (Rill 3.2): rational up to the peak, two parabolas (or a cubic) down to sliding.
        stiff = fmax(2.0 * fm, slope * sm)
        rising = stiff * sm * fm / (sm * sm * fm + s * (s * fm + stiff * sm - 2.0 * fm * sm))
        width = where(ss > sm, ss - sm, 1e-9)
        a = fm * fm / (sm * sm * stiff)
        first = (fm - fs) / (a * width)  # width of the first parabola
        second = width - first
        b = a * first / where(fabs(second) > 1e-12, second, 1e-12)
        parabola = where(s - sm <= first, fm - a * (s - sm) * (s - sm), fs + b * (ss - s) * (ss - s))
        n = (s - sm) / width
        cubic = fm - (fm - fs) * n * n * (3.0 - 2.0 * n)
        falling = where(first <= width, parabola, cubic)
        return where(s < sm, rising, where(s > ss, fs, falling) / s)

    def forces(q, front, ub, vb, cos_d, sin_d, omega, fz, radius, deflections):
        relative = fz * q.per_load
        weight = q.radius[0] + q.radius[1] * fmin(relative, q.radius_load)
        rolling_radius = weight * q.r0 + (1.0 - weight) * radius
        along = ub * cos_d + vb * sin_d
        vs = along - omega * rolling_radius
        rolling_speed = rolling_radius * fabs(omega)
        transport = rolling_speed + TRANSPORT_SPEED_FLOOR
        sx = -vs / transport
        if lfdm:
            # -tan(atan(vb / transport) - delta), vb in the body's frame: its sign turns where the wheel slides by more than 90 degrees.
            across, sy = vb, (transport * sin_d - vb * cos_d) / (transport * cos_d + vb * sin_d)
        else:
            across = vb * cos_d - ub * sin_d
            sy = -across / transport

        carried = fmin(fz, q.maximum)
        n = fmax(carried * q.per_load, LEAST_LOAD)
        at = {axis: [n * (c0 - c1 * n) if unit == "N" else c0 + c1 * n for (c0, c1), (_, unit, _) in zip(q.curves[axis], _CURVE)]
              for axis in _AXES}
        (dx, fmx, smx, fsx, ssx), (dy, fmy, smy, fsy, ssy) = at["longitudinal"], at["lateral"]
        if relaxation:
            # Slips normalised so that both directions have about the same curve.
            hx = smx / (smx + smy) + fmx * dy / (fmx * dy + fmy * dx)
            hy = 2.0 - hx
        else:
            hx = hy = 1.0
        nx, ny = sx / hx, sy / hy
        squared = nx * nx + ny * ny
        nx, ny = where(squared > 1e-24, nx, 1e-12), where(squared > 1e-24, ny, 1e-12)
        xx, yy = nx * nx, ny * ny
        s, cc, dd = sqrt(xx + yy), xx / (xx + yy), yy / (xx + yy)  # squares of the slip's direction, which need not wait for the root

        def resultant(x, y):
            return sqrt(x * x * cc + y * y * dd)

        fos = secant(s, resultant(dx * hx, dy * hy), q.mu * resultant(smx / hx, smy / hy), q.mu * resultant(fmx, fmy),
                     q.mu * resultant(ssx / hx, ssy / hy), q.mu * resultant(fsx, fsy))

        resistance = q.rolling * carried * radius
        if not relaxation:
            gain, begin, per_width = q.coulomb
            dry_x, dry_y = tanh(-gain * vs), tanh(-gain * across)
            over = fmax(sqrt(dry_x * dry_x + dry_y * dry_y + 1e-24), 1.0)
            blend = smooth((fabs(along) - begin) * per_width)
            dry = (1.0 - blend) * q.mu * fz / over
            fx, fy = dry * dry_x + blend * fos * sx, dry * dry_y + blend * fos * sy
            if lfdm:
                return Contact(fx, fy, torque=-resistance * tanh(omega))
            return Contact(fx, fy, friction=resistance)

        # Deflection rates from the balance of carcass and contact (Rill 3.5).
        carcass_x, carcass_y, damping_x, damping_y = q.carcass
        if lfdm:
            # A locked wheel then slides with hx and hy times the force of the curve.
            wx, wy = rolling_speed * hx + TRANSPORT_SPEED_FLOOR, rolling_speed * hy + TRANSPORT_SPEED_FLOOR
        else:
            wx, wy = transport * hx, transport * hy
        ex, ey = deflections
        slide_y = -sy * transport
        rate_x = (-wx * carcass_x * ex - fos * vs) / (wx * damping_x + fos)
        rate_y = (-wy * carcass_y * ey - fos * slide_y) / (wy * damping_y + fos)

        def held(force, limit, slide):
            # A tyre that hardly slides cannot carry more than the largest force.
            stick = 1.0 - smooth((fabs(slide) - STICK_END) * (1.0 / (SLIDE_BEGIN - STICK_END)))
            return force + stick * (fmin(fmax(force, -limit), limit) - force)

        return Contact(held(carcass_x * ex + damping_x * rate_x, q.limits[0], vs),
                       held(carcass_y * ey + damping_y * rate_y, q.limits[1], slide_y), friction=resistance, rates=(rate_x, rate_y))

    return m.namespace(implicit=False, prepare=prepare, forces=forces)


def _relaxation(m: Any, lfdm: bool, axle: bool) -> Any:
    return build(m, lfdm, axle, True)


def _steady(m: Any, lfdm: bool, axle: bool) -> Any:
    return build(m, lfdm, axle, False)


TMEASY = Part("tmeasy", "TMeasy tyre, force table and relaxation", (*TABLE, *CARCASS), _relaxation, wheel_states=DEFLECTIONS,
              largest_step=LARGEST_STEP)
TMEASY_NR = Part("tmeasy_nr", "TMeasy tyre, force table without relaxation, dry friction at walking pace", (*TABLE, *COULOMB), _steady,
                 largest_step=LARGEST_STEP)
