"""The TMeasy tyre (Rill, Road Vehicle Dynamics, ch. 3; paper 003): force curves from a table at two loads, combined slip.

Two variants of one curve:
- `tmeasy`: the force is carried by the tyre's longitudinal and lateral deflection, which are states (first-order relaxation);
- `tmeasy_nr`: without relaxation; below walking pace dry friction on the slip velocity is blended in.

A curve rises with `slope`, peaks at `peak_slip` with `peak_force`, and slides from `sliding_slip` with `sliding_force`. Forces between the
loads are quadratic, slips linear in the load. The ground's friction scales forces and slips, as Rill does.
"""

import math
from dataclasses import replace
from typing import Any

from lfdm_ros.models.declaration import Field, Part
from lfdm_ros.models.equations import Contact, Operations, Record, Scalar, Wheel
from lfdm_ros.models.fiala import GAIN, choose

# The wheels are integrated explicitly: above this step [s] they begin to swing (docs/concepts/which_model.md).
LARGEST_STEP = 2e-3
# Added to the rolling speed [m/s]: slips stay finite at rest.
TRANSPORT_SPEED_FLOOR = 0.01
# Slip velocities [m/s] between which the carcass force loses its limit.
STICK_END, SLIDE_BEGIN = 1.0, 1.5
# Lower limit of the load over the nominal load, against division by 0; forces are negligible there.
MIN_LOAD = 1e-14

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


class Tmeasy:
    """Tyre that both variants derive from; see `lfdm_ros.models.equations.Tyre`."""

    implicit = False

    def __init__(self, m: Operations):
        self._m = m

    def prepare(self, p: Any) -> Any:
        where, fabs = self._m.where, self._m.fabs

        def values(axis: str, key: str) -> tuple[Scalar, ...]:
            return tuple(getattr(p, f"tmeasy_{axis}_{key}_{load}") for load, _ in _LOADS)

        def quadratic(axis: str, key: str) -> tuple[Scalar, Scalar]:
            # w1 at n = 1, w2 at n = 2, 0 at 0: n (2 w1 - w2/2 - (w1 - w2/2) n)
            w1, w2 = values(axis, key)
            return 2.0 * w1 - 0.5 * w2, w1 - 0.5 * w2

        def linear(axis: str, key: str) -> tuple[Scalar, Scalar]:
            w1, w2 = values(axis, key)
            return 2.0 * w1 - w2, w2 - w1

        r1, r2 = p.rolling_radius_weight_nominal, p.rolling_radius_weight_double
        curves = {axis: [(quadratic if unit == "N" else linear)(axis, key) for key, unit, _ in _CURVE] for axis in _AXES}
        rise = r2 - r1
        return Record(per_load=1.0 / p.tyre_nominal_load, maximum=p.tyre_maximum_load, curves=curves, r0=p.wheel_radius,
                      radius=(2.0 * r1 - r2, rise),
                      # The unloaded radius' weight grows up to the load where the rolling radius would begin to grow.
                      radius_load=where(fabs(rise) > 0.0, (rise - r1 + 1.0) / where(fabs(rise) > 0.0, 2.0 * rise, 1.0), 0.0),
                      rolling=p.rolling_resistance_coefficient)

    # -- Steps -----------------------------------------------------------------------------------------------------------------
    def smooth(self, z: Scalar) -> Scalar:
        """Rises from 0 at z = 0 to 1 at z = 1 with zero slope at both (a sine step). A choice, so that the sine is only computed in
        between."""
        where = self._m.where
        return where(z <= 0.0, 0.0, where(z >= 1.0, 1.0, z - self._m.sin(2.0 * math.pi * z) * (0.5 / math.pi)))

    # -- Force over slip of the curve (Rill section 3.2): rational up to the peak, two parabolas (or a cubic) down to sliding ---
    def secant(self, s: Scalar, slope: Scalar, sm: Scalar, fm: Scalar, ss: Scalar, fs: Scalar) -> Scalar:
        where, fabs, fmax = self._m.where, self._m.fabs, self._m.fmax
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

    # -- Slips, and the combined force over slip -------------------------------------------------------------------------------
    def slip_across(self, wheel: Wheel, transport: Scalar) -> tuple[Scalar, Scalar]:
        """Returns the slip velocity across that dry friction acts on [m/s], and the lateral slip."""
        return wheel.across, -wheel.across / transport

    def rolling_radius(self, q: Any, wheel: Wheel) -> Scalar:
        """Returns the effective rolling radius [m]."""
        relative = wheel.load * q.per_load
        weight = q.radius[0] + q.radius[1] * self._m.fmin(relative, q.radius_load)
        return weight * q.r0 + (1.0 - weight) * wheel.radius

    def weights(self, fmx: Scalar, smx: Scalar, dx: Scalar, fmy: Scalar, smy: Scalar, dy: Scalar) -> tuple[Scalar, Scalar]:
        """Returns the divisors of the slips along and across."""
        return 1.0, 1.0

    def slipping(self, q: Any, wheel: Wheel) -> Record:
        """Returns the rolling and sliding of a wheel, and its combined force over slip `fos` (Rill ch. 3, combined forces)."""
        where, sqrt, fabs, fmin, fmax = self._m.where, self._m.sqrt, self._m.fabs, self._m.fmin, self._m.fmax
        rolling_radius = self.rolling_radius(q, wheel)
        vs = wheel.along - wheel.omega * rolling_radius
        rolling_speed = rolling_radius * fabs(wheel.omega)
        transport = rolling_speed + TRANSPORT_SPEED_FLOOR
        sx = -vs / transport
        across, sy = self.slip_across(wheel, transport)

        # The curves of both directions at this load.
        carried = fmin(wheel.load, q.maximum)
        n = fmax(carried * q.per_load, MIN_LOAD)
        at = {axis: [n * (c0 - c1 * n) if unit == "N" else c0 + c1 * n for (c0, c1), (_, unit, _) in zip(q.curves[axis], _CURVE)]
              for axis in _AXES}
        (dx, fmx, smx, fsx, ssx), (dy, fmy, smy, fsy, ssy) = at["longitudinal"], at["lateral"]

        # One curve between them, in the direction of the slip.
        hx, hy = self.weights(fmx, smx, dx, fmy, smy, dy)
        nx, ny = sx / hx, sy / hy
        squared = nx * nx + ny * ny
        nx, ny = where(squared > 1e-24, nx, 1e-12), where(squared > 1e-24, ny, 1e-12)
        xx, yy = nx * nx, ny * ny
        s, cc, dd = sqrt(xx + yy), xx / (xx + yy), yy / (xx + yy)  # squares of the slip's direction, which need not wait for the root

        def resultant(along: Scalar, across: Scalar) -> Scalar:
            return sqrt(along * along * cc + across * across * dd)

        mu = wheel.ground.friction
        fos = self.secant(s, resultant(dx * hx, dy * hy), mu * resultant(smx / hx, smy / hy), mu * resultant(fmx, fmy),
                          mu * resultant(ssx / hx, ssy / hy), mu * resultant(fsx, fsy))
        return Record(vs=vs, across=across, sx=sx, sy=sy, transport=transport, rolling_speed=rolling_speed, hx=hx, hy=hy, fos=fos,
                      resistance=q.rolling * carried * wheel.radius)


class RelaxingTmeasy(Tmeasy):
    """The deflections of the carcass are states and carry the force (Rill section 3.5)."""

    def prepare(self, p: Any) -> Any:
        q = super().prepare(p)
        return q.but(carcass=[p.carcass_stiffness_longitudinal, p.carcass_stiffness_lateral,
                              p.carcass_damping_longitudinal, p.carcass_damping_lateral],
                     most=[getattr(p, f"tmeasy_{axis}_peak_force_double") for axis in _AXES])

    def weights(self, fmx: Scalar, smx: Scalar, dx: Scalar, fmy: Scalar, smy: Scalar, dy: Scalar) -> tuple[Scalar, Scalar]:
        # Slips normalised so that both directions have about the same curve.
        hx = smx / (smx + smy) + fmx * dy / (fmx * dy + fmy * dx)
        return hx, 2.0 - hx

    def transports(self, k: Record) -> tuple[Scalar, Scalar]:
        """Returns the speeds at which the deflections along and across are carried away [m/s]."""
        return k.transport * k.hx, k.transport * k.hy

    def forces(self, q: Any, wheel: Wheel) -> Contact:
        fabs, fmin, fmax = self._m.fabs, self._m.fmin, self._m.fmax
        k = self.slipping(q, wheel)
        # Rates of the deflections, from the balance of carcass c e + d de/dt and contact.
        carcass_x, carcass_y, damping_x, damping_y = q.carcass
        wx, wy = self.transports(k)
        ex, ey = wheel.x.tyre_deflection_x, wheel.x.tyre_deflection_y
        slide_y = -k.sy * k.transport
        rate_x = (-wx * carcass_x * ex - k.fos * k.vs) / (wx * damping_x + k.fos)
        rate_y = (-wy * carcass_y * ey - k.fos * slide_y) / (wy * damping_y + k.fos)

        def limited(force: Scalar, limit: Scalar, slide: Scalar) -> Scalar:
            # A tyre that hardly slides cannot carry more than the largest force.
            stick = 1.0 - self.smooth((fabs(slide) - STICK_END) * (1.0 / (SLIDE_BEGIN - STICK_END)))
            return force + stick * (fmin(fmax(force, -limit), limit) - force)

        limits = [wheel.ground.friction * peak for peak in q.most]
        return Contact(limited(carcass_x * ex + damping_x * rate_x, limits[0], k.vs),
                       limited(carcass_y * ey + damping_y * rate_y, limits[1], slide_y), friction=k.resistance,
                       changes={"tyre_deflection_x": rate_x, "tyre_deflection_y": rate_y})


class SteadyTmeasy(Tmeasy):
    """The force follows the slip without delay; at walking pace it is dry friction on the slip velocity."""

    implicit = True

    def prepare(self, p: Any) -> Any:
        return super().prepare(p).but(coulomb=(2.0 / p.coulomb_speed, p.coulomb_blend_begin,
                                               1.0 / self._m.fmax(p.coulomb_blend_end - p.coulomb_blend_begin, 1e-9)))

    def forces(self, q: Any, wheel: Wheel) -> Contact:
        sqrt, fabs, fmax, tanh = self._m.sqrt, self._m.fabs, self._m.fmax, self._m.tanh
        k = self.slipping(q, wheel)
        gain, begin, per_width = q.coulomb
        dry_x, dry_y = tanh(-gain * k.vs), tanh(-gain * k.across)
        over = fmax(sqrt(dry_x * dry_x + dry_y * dry_y + 1e-24), 1.0)
        blend = self.smooth((fabs(wheel.along) - begin) * per_width)
        friction_limit = (1.0 - blend) * wheel.ground.friction * wheel.load
        dry = friction_limit / over
        fx, fy = dry * dry_x + blend * k.fos * k.sx, dry * dry_y + blend * k.fos * k.sy
        if not self.implicit:
            return self.rolling(fx, fy, k.resistance, wheel)
        sliding = sqrt(k.vs * k.vs + k.across * k.across + 1e-24)
        secant = friction_limit * tanh(GAIN * gain * sliding) / sliding + blend * k.fos / k.transport
        # The maximum keeps CasADi from moving the choice into each product of the slope, where one jump could not skip it.
        slope = fmax(self._m.where(wheel.any_locked > 0.0, wheel.locked * secant, 0.0), 0.0)
        return replace(choose(self._m, wheel, Contact(-secant * k.vs, -secant * k.across), self.rolling(fx, fy, k.resistance, wheel)),
                       ky=slope, kx_locked=slope, stiff=wheel.any_locked)

    def rolling(self, fx: Scalar, fy: Scalar, resistance: Scalar, wheel: Wheel) -> Contact:
        """Returns the forces with the rolling resistance."""
        return Contact(fx, fy, friction=resistance)


TMEASY = Part("tmeasy", "TMeasy tyre, force table and relaxation", (*TABLE, *CARCASS), RelaxingTmeasy, wheel_states=DEFLECTIONS,
              largest_step=LARGEST_STEP)
TMEASY_NR = Part("tmeasy_nr", "TMeasy tyre, force table without relaxation, dry friction at walking pace", (*TABLE, *COULOMB), SteadyTmeasy,
                 largest_step=LARGEST_STEP)
