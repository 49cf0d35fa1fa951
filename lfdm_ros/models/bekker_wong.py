"""Wheels on soft soil: Bekker's pressure, Wong and Reece's stresses, Janosi and Hanamoto's shear (paper 001 eqs 1-9), and the soft tyre on
a surrogate circle (eq 22).

Angles are measured from the lowest point, forward; theta_f is where the soil begins, on a circle of radius Rs at sinkage h:

    (1) sigma = (kc / b + kphi) z^n                                                 z: depth below the undisturbed surface
    (2) theta_r = -acos(1 - lambda h / Rs)                                          the soil rises behind the wheel
    (3) theta_m = (a0 + a1 S) theta_f                                               largest pressure
    (4) z = Rs (cos theta - cos theta_f) ahead of theta_m; behind it that of the angle which lies as far towards theta_f
    (5) tau = (c + sigma tan phi) (1 - exp(-j)),  j^2 = (jx / kx)^2 + (jy / ky)^2,  along (jx / kx, jy / ky)
    (6) jx = Rs ((theta_f - theta) - vx / (R Omega) (sin theta_f - sin theta)),  jy = -vy / (R Omega) Rs (theta_f - theta)
    (7) kx = kx0 + kx1 |alpha|, ky likewise
    (8, 9) Fx, Fy, Fz = b Rs integral of (tau_x cos - sigma sin, tau_y, tau_x sin + sigma cos)
    (22) a tyre pressed in by d has a flat part of half length X = sqrt(d (2 R - d)) and its lowest point R - d below the centre:
         h = (R - d) (1 - cos theta_f) + X sin theta_f,  Rs = h / (1 - cos theta_f)

Differences from the paper, and why: tau has the sign of j, which the paper drops; the exit lies behind the lowest point; both shear
displacements share one strength, which in the paper a wheel that slides along and across exceeds by up to sqrt(2). (22) is solved for h
here, where d is the load over the tyre's stiffness; the moment about the wheel's centre is the shear force times the loaded radius, for the
surrogate circle's own radius is no lever.

theta_f is what carries the load. It is found by quasi-Newton steps on logarithms from a closed form, each with the integrals at a few Gauss
points: no table, and every value of the soil may differ from wheel to wheel and is differentiated.
"""

import math
from collections.abc import Sequence
from typing import Any

from lfdm_ros.errors import InputError
from lfdm_ros.models.declaration import Field, Part
from lfdm_ros.models.equations import Contact, Operations, Record, Scalar, Wheel
from lfdm_ros.models.soil import SoilPatch

# Lower limit of the rim's speed [m/s] in the shear law: a standing wheel acts as a stiff damper on the slip velocity.
RIM_SPEED_FLOOR = 0.1
# Speed of travel [m/s] below which the compaction resistance fades out: at rest it does not push.
RESISTANCE_SPEED = 0.05
# The angle of the largest pressure over the entry angle stays between these.
MIN_STRESS_ANGLE, MAX_STRESS_ANGLE = 0.02, 0.9
# Loads [N] below this are computed at this load, and their forces scaled down.
MIN_LOAD = 1.0
# Entry angle [rad] of a wheel that has sunk to its axle: deeper there is no equilibrium.
DEEPEST = 0.5 * math.pi
# Limit of the scaling of forces at that depth for larger loads.
MAX_SCALING = 1.05
# Gauss-Legendre between 0 and 1, by the number of points.
_GAUSS = (((0.21132486540518713, 0.5), (0.7886751345948129, 0.5)),
          ((0.1127016653792583, 0.2777777777777778), (0.5, 0.4444444444444444), (0.8872983346207417, 0.2777777777777778)),
          ((0.06943184420297371, 0.17392742256872693), (0.33000947820757187, 0.32607257743127307),
           (0.6699905217924281, 0.32607257743127307), (0.9305681557970263, 0.17392742256872693)))
# Places from the largest pressure to the entry, as shares, and their weights, for each pass through the integrals: Gauss-Legendre's in v,
# where the place is 1 - v^power. So they are close at the entry, where the pressure begins as a power and the soil is sheared first; for
# the forces closest, since stiff clay has all its strength mobilised within some millimetres. Of all powers these leave the named soils the
# least largest error.
PASSES = tuple(tuple((1.0 - v ** power, power * v ** (power - 1.0) * weight) for v, weight in points)
               for points, power in zip(_GAUSS, (1.6, 1.5, 2.02)))

# Taylor's coefficients of sine over x and of cosine, by powers of x^2: half angles are below pi / 4, where these reach 1e-11.
_SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(6)]
_COSINE = [(-1) ** k / math.factorial(2 * k) for k in range(7)]

PARAMETERS = (Field("tyre_width", "m", "width of the wheel or of the tyre's tread", "b", 0.0, 3.0, True),)
STATES = (Field("sinkage", "m", "depth of the wheel's lowest point in the soil, in the last step", "h", role="held"),)


class BekkerWong:
    """A tyre (`lfdm_ros.models.equations.Tyre`).

    passes: places and weights of the integrals, of each step to the equilibrium and, the last, of the forces.
    """

    implicit, rigid = True, False
    passes: Sequence[Sequence[tuple[float, float]]] = PASSES

    def __init__(self, m: Operations):
        self._m = m

    def prepare(self, p: Any) -> Any:
        compliance = (0.0, 0.0) if self.rigid else (1.0 / p.tyre_vertical_stiffness_front, 1.0 / p.tyre_vertical_stiffness_rear)
        return Record(radius=p.wheel_radius, width=p.tyre_width, compliance=compliance)

    def forces(self, q: Any, wheel: Wheel) -> Contact:
        fmin, fmax = self._m.fmin, self._m.fmax
        load = fmax(wheel.load, MIN_LOAD)
        at = self.under(q, wheel, load)
        theta = self.guess(at, load)
        for points in self.passes[:-1]:
            theta = self.deeper(at, theta, load, points)
        done = self.carried(at, theta, self.passes[-1], slopes=True)
        share = fmin(load / fmax(done.fz, 1e-3 * load), MAX_SCALING) * fmax(wheel.load, 0.0) / load

        # Compaction resistance opposes the travel, whatever the rim's speed.
        direction = fmin(fmax(wheel.along * (1.0 / RESISTANCE_SPEED), -1.0), 1.0)
        fx = share * (at.sense * done.traction - direction * done.resistance)
        moment = share * at.sense * wheel.radius * done.shear
        return Contact(fx, share * done.fy, share * done.kx, share * done.ky, my=wheel.radius * fx - moment,
                       changes={"sinkage": self.arc(at, theta).sinkage * fmin(fmax(wheel.load, 0.0) / MIN_LOAD, 1.0)})

    # -- Terms independent of the depth -----------------------------------------------------------------------------------
    def under(self, q: Any, wheel: Wheel, load: Scalar) -> Record:
        """Returns the soil under a wheel, how it is sheared, and the tyre's own shape."""
        where, sqrt, fabs, fmin, fmax, log = self._m.where, self._m.sqrt, self._m.fabs, self._m.fmin, self._m.fmax, self._m.log
        if not isinstance(wheel.ground, SoilPatch):
            raise InputError("a wheel of Bekker and Wong stands on a ground that has no soil; choose the ground 'soil' or 'given_soil'")
        soil, rim, vx, vy = wheel.ground.soil, wheel.radius * wheel.omega, wheel.along, wheel.across
        # In the direction of travel: a reversing wheel is the mirror image.
        sense = where(rim + vx < 0.0, -1.0, 1.0)
        transport = fmax(fabs(rim), RIM_SPEED_FLOOR)
        slip = sense * (rim - vx) / fmax(transport, fabs(vx))
        stress_angle = fmin(fmax(soil.stress_angle + soil.stress_angle_growth * slip, MIN_STRESS_ANGLE), MAX_STRESS_ANGLE)  # (3)
        # (7); the arc tangent to 0.004 rad, which is more than a linear law of the slip angle can claim.
        along, across = fabs(vx), fabs(vy)
        ratio = fmin(along, across) / fmax(fmax(along, across), 1e-9)
        angle = ratio * (0.25 * math.pi + 0.273 * (1.0 - ratio))
        alpha = where(across > along, 0.5 * math.pi - angle, angle)
        deflection = load * q.compliance[0 if wheel.front else 1]
        modulus = soil.cohesive_modulus / q.width + soil.frictional_modulus  # (1)
        return Record(
            soil=soil, sense=sense, transport=transport, stress_angle=stress_angle, width=q.width, log_modulus=log(modulus),
            per_kx=1.0 / (soil.shear_modulus_x + soil.shear_growth_x * alpha),
            per_ky=1.0 / (soil.shear_modulus_y + soil.shear_growth_y * alpha),
            rim=sense * rim / transport, travel=sense * vx / transport, across=-vy / transport, rebound=sqrt(soil.rebound + 1e-12),
            low=q.radius - deflection, flat=sqrt(deflection * (2.0 * q.radius - deflection)) if not self.rigid else 0.0)

    # -- The circle in the soil (22) -------------------------------------------------------------------------------------------
    def arc(self, at: Record, theta: Scalar) -> Record:
        """Returns the circle of an entry angle; sines and cosines of half angles, whose differences are accurate for small angles."""
        s, c = sine_and_cosine(0.5 * theta)
        rise = 2.0 * s * s
        sinkage = at.low * rise + at.flat * (2.0 * s * c)
        return Record(s=s, c=c, sinkage=sinkage, radius=sinkage / rise)

    def growth(self, at: Record, theta: Scalar, arc: Record) -> tuple[Scalar, Scalar]:
        """Returns slopes of logarithms over that of the entry angle: of the load, where load = const sinkage^n chord, and of the
        sinkage^n."""
        sine, cosine = 2.0 * arc.s * arc.c, 1.0 - 2.0 * arc.s * arc.s
        deepening = theta * (at.low * sine + at.flat * cosine) / arc.sinkage
        pressing = at.soil.sinkage_exponent * deepening
        return pressing + deepening - theta / sine, pressing

    def guess(self, at: Record, load: Scalar) -> Scalar:
        """Returns an entry angle for a load, of small angles: a rigid wheel's and a flat tyre's put together."""
        m, n, a = self._m, at.soil.sinkage_exponent, at.stress_angle
        # Load = width chord modulus sinkage^n mean, the mean being about that of (1 - y^2)^n between y = a and 1.
        log_pressure = m.log(load / at.width) - at.log_modulus - n * (m.log((1.0 - a) * (1.0 + 0.5 * a)) - 0.2)
        round_ = (log_pressure - (n + 1.0) * m.log(at.low) + n * math.log(2.0)) / (2.0 * n + 1.0)
        if self.rigid:
            return m.fmin(m.exp(round_), 1.0)
        half = m.log(at.flat)
        flat = (log_pressure - math.log(2.0) - half) / n - half
        low = m.fmin(round_, flat)
        return m.fmin(m.exp(low) / (1.0 + m.exp(low - m.fmax(round_, flat))), 1.0)

    def deeper(self, at: Record, theta: Scalar, load: Scalar, points: Sequence[tuple[float, float]]) -> Scalar:
        """Returns a better entry angle. The load of shear grows faster than that of pressure: its share stands steeper, and its
        displacement grows with the angle; but cohesion does not grow with the sinkage."""
        m, found = self._m, self.carried(at, theta, points)
        carried = m.fmax(found.fz, 1e-3 * load)
        whole, pressing = self.growth(at, theta, self.arc(at, theta))
        slope = whole + (found.sheared - pressing * found.cohesive) / carried
        return m.fmin(theta * m.exp(m.fmin(m.log(load / carried) / m.fmax(slope, 0.05), 1.0)), DEEPEST)

    # -- Stresses and their integrals (4-9) ------------------------------------------------------------------------------------
    def carried(self, at: Record, theta: Scalar, points: Sequence[tuple[float, float]], slopes: bool = False) -> Record:
        """Returns the soil's reaction at an entry angle, in the sense of travel. The load, the part carried by cohesion, and the increase
        of the shear part with the angle at constant pressure; with `slopes` the load, traction, resistance, shear force along the rim,
        lateral force, and the slopes of traction and lateral force against the slip velocities."""
        m, soil = self._m, at.soil
        exp, sqrt = m.exp, m.sqrt
        arc = self.arc(at, theta)
        largest = at.stress_angle * theta
        exit_ = at.rebound * arc.s
        exit_angle = -2.0 * exit_ * (1.0 + exit_ * exit_ * (1.0 / 6.0 + 0.075 * exit_ * exit_))  # (2), the arc sine of small angles
        fz = traction = resistance = shear = fy = kx = ky = sheared = cohesive = 0.0
        for place, weight in points:
            front, rear = largest + place * (theta - largest), largest - place * (largest - exit_angle)
            ahead, behind = sine_and_cosine(0.5 * front), sine_and_cosine(0.5 * rear)
            depth = 2.0 * arc.radius * (arc.s - ahead[0]) * (arc.s + ahead[0])
            sigma = exp(soil.sinkage_exponent * m.log(depth) + at.log_modulus)  # (1, 4): the same at both places
            strength = soil.cohesion + sigma * soil.friction
            for angle, (s, c), width in ((front, ahead, weight * (theta - largest)), (rear, behind, weight * (largest - exit_angle))):
                turned, advanced = arc.radius * (theta - angle), 2.0 * arc.radius * (arc.s * arc.c - s * c)
                ex, ey = (at.rim * turned - at.travel * advanced) * at.per_kx, at.across * turned * at.per_ky  # (6)
                e = sqrt(ex * ex + ey * ey + 1e-8)
                left = exp(-e)
                mobilised = (1.0 - left) / e  # (5)
                tau, sine, cosine = strength * mobilised * ex, 2.0 * s * c, 1.0 - 2.0 * s * s
                fz = fz + width * (tau * sine + sigma * cosine)
                if slopes:
                    traction, resistance, shear = traction + width * tau * cosine, resistance + width * sigma * sine, shear + width * tau
                    fy = fy + width * strength * mobilised * ey
                    steepness = (left - mobilised) / (e * e)
                    kx = kx + width * strength * (mobilised + steepness * ex * ex) * advanced * cosine
                    ky = ky + width * strength * (mobilised + steepness * ey * ey) * turned
                else:
                    upward = width * ex * sine
                    sheared, cohesive = sheared + upward * strength * (mobilised + left), cohesive + upward * mobilised
        unit = at.width * arc.radius
        if not slopes:
            return Record(fz=unit * fz, sheared=unit * sheared, cohesive=unit * soil.cohesion * cohesive)
        return Record(fz=unit * fz, traction=unit * traction, resistance=unit * resistance, shear=unit * shear, fy=unit * fy,
                      kx=unit * kx * at.per_kx / at.transport, ky=unit * ky * at.per_ky / at.transport)


def sine_and_cosine(x: Scalar) -> tuple[Scalar, Scalar]:
    """Returns sine and cosine of half an angle in the contact [rad], at most pi / 4: a third of the operations that any angle takes."""
    z = x * x
    sine, cosine = _SINE[-1], _COSINE[-1]
    for coefficient in reversed(_SINE[:-1]):
        sine = coefficient + z * sine
    for coefficient in reversed(_COSINE[:-1]):
        cosine = coefficient + z * cosine
    return x * sine, cosine


class RigidBekkerWong(BekkerWong):
    """A rigid wheel."""

    rigid = True


_SOURCE = "on soft soil: Bekker's sinkage, Janosi-Hanamoto shear"
BEKKER_WONG = Part("bekker_wong", f"tyre {_SOURCE}, surrogate circle", PARAMETERS, BekkerWong, wheel_states=STATES, largest_step=5e-3,
                   needs=("soil",))
BEKKER_WONG_RIGID = Part("bekker_wong_rigid", f"rigid wheel {_SOURCE}", PARAMETERS, RigidBekkerWong, wheel_states=STATES,
                         largest_step=5e-3, needs=("soil",))
