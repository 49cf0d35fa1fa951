"""The Magic Formula tyre, versions 5.2 and 6.1/6.2, by the coefficients of a .tir file (`lfdm_ros.vehicles.tir_file`).

Equations (4.En) are those of Pacejka, Tire and Vehicle Dynamics, 3rd ed. 2012, section 4.3.2; (An) those of Besselink, Schmeitz & Pacejka
2010 (MF 6.2), which replace them where the book and the solver of MF-Tyre disagree: A48, A54 to A56, A58, A60. Version 5.2 has its own
camber shift (PHY3), trail of the whole lateral force, rolling resistance and relaxation lengths (PTX, PTY).

- Axes: ISO 8855. Slip angle tan alpha = v/|u| of the contact, + where it moves to the left; slip kappa = (R_e omega - u)/|u|; inclination +
  top to the right. That is the frame of .tir files (ISO-W), whose cornering stiffness (PKY1) is negative.
- Guards: loads are clipped to [0, FZMAX], slips and inclination to their ranges (KPU, ALP, CAM); curvatures to 1. Shifts, trail and
  residual moment fade out below the speed VXLOW, and shifts turn round in reverse. Below 0.1 m/s the slip becomes a damper, as in `fiala`.
- Ply steer and conicity are mirrored on the side that is not TYRESIDE; of a wheel that is a whole axle they cancel.
- The ground's friction scales as LMUX and LMUY do. MF 6.2 differs from 6.1 in the vertical spring alone, which here is the chassis'.

Turn slip (all zeta are 1), the enveloping of short obstacles and the belt's dynamics are absent.
"""

import math
from dataclasses import replace
from typing import Any

from lfdm_ros.models.declaration import Field, Part
from lfdm_ros.models.equations import Contact, Operations, Record, Scalar, Wheel
from lfdm_ros.models.fiala import SLIP_SPEED_FLOOR, choose

# Added to denominators that vanish without load (4.E16, 4.E26, 4.E39).
EPSILON = 1e-6
# Speeds of a locked wheel [m/s]: at which dry friction has its full force, and between which the formula takes over from it.
CREEP, STICK_END, SLIDE_BEGIN = 5e-4, 0.1, 0.5
# Time over which the carcass damps its deflection [s], and at standstill: the relaxing wheel's steps are explicit but for this damper.
CARCASS_TIME, STANDING_TIME = 3e-3, 20e-3
# The relaxing tyre's lagged slips return to their range at this multiple of the slip velocity over the relaxation length.
RETURN = 4.0
MIN_RELAXATION = 0.01  # [m] of a tyre without load

# Dimensionless coefficients by quantity; the number after the letters is one of 1 .. n.
_SHAPES = (
    ("longitudinal force", "PCX1 PDX1 PDX2 PDX3 PEX1 PEX2 PEX3 PEX4 PKX1 PKX2 PKX3 PHX1 PHX2 PVX1 PVX2 PPX1 PPX2 PPX3 PPX4"),
    ("longitudinal force in combined slip", "RBX1 RBX2 RBX3 RCX1 REX1 REX2 RHX1"),
    ("lateral force", "PCY1 PDY1 PDY2 PDY3 PEY1 PEY2 PEY3 PEY4 PEY5 PKY1 PKY2 PKY3 PKY4 PKY5 PKY6 PKY7 PHY1 PHY2 PHY3 PVY1 PVY2 PVY3 PVY4 "
                      "PPY1 PPY2 PPY3 PPY4 PPY5"),
    ("lateral force in combined slip", "RBY1 RBY2 RBY3 RBY4 RCY1 REY1 REY2 RHY1 RHY2 RVY1 RVY2 RVY3 RVY4 RVY5 RVY6"),
    ("aligning moment", "QBZ1 QBZ2 QBZ3 QBZ4 QBZ5 QBZ9 QBZ10 QCZ1 QDZ1 QDZ2 QDZ3 QDZ4 QDZ6 QDZ7 QDZ8 QDZ9 QDZ10 QDZ11 QEZ1 QEZ2 QEZ3 QEZ4 "
                        "QEZ5 QHZ1 QHZ2 QHZ3 QHZ4 SSZ1 SSZ2 SSZ3 SSZ4 PPZ1 PPZ2"),
    ("overturning moment", "QSX1 QSX2 QSX3 QSX4 QSX5 QSX6 QSX7 QSX8 QSX9 QSX10 QSX11 QSX12 QSX13 QSX14 PPMX1"),
    ("rolling resistance moment", "QSY1 QSY2 QSY3 QSY4 QSY5 QSY6 QSY7 QSY8"),
    ("rolling radius", "BREFF DREFF FREFF Q_RE0 Q_V1"),
)
_RELAXATION = "PCFX1 PCFX2 PCFX3 PCFY1 PCFY2 PCFY3 PTX1 PTX2 PTX3 PTY1 PTY2"
_SCALES = "LFZO LCX LMUX LEX LKX LHX LVX LXAL LCY LMUY LEY LKY LKYC LKZC LHY LVY LTR LRES LYKA LVYKA LS LMX LVMX LMY"


def _field(name: str, unit: str, quantity: str, lower: float = -1e5, upper: float = 1e5, strict: bool = False) -> Field:
    return Field(f"mf_{name.lower()}", unit, f"{name}: Magic Formula, {quantity}", name, lower, upper, strict)


PARAMETERS = (
    _field("VERSION", "1", "version of the equations, FITTYP: below 60 those of 5.2, else of 6.1/6.2", 5.0, 62.0),
    _field("TYRESIDE", "1", "side of the vehicle that the tyre was measured for: 1 left, -1 right, 0 symmetric", -1.0, 1.0),
    _field("FNOMIN", "N", "nominal load", 0.0, 1e7, True),
    _field("UNLOADED_RADIUS", "m", "unloaded radius", 0.0, 5.0, True),
    _field("VERTICAL_STIFFNESS", "N/m", "vertical stiffness, in the rolling radius", 0.0, 1e8, True),
    _field("LONGVL", "m/s", "speed of the measurement", 0.0, 200.0, True),
    _field("VXLOW", "m/s", "speed below which shifts fade out", 0.0, 20.0, True),
    _field("NOMPRES", "Pa", "nominal inflation pressure", 0.0, 1e8, True),
    _field("INFLPRES", "Pa", "inflation pressure", 0.0, 1e8, True),
    _field("FZMAX", "N", "largest load of the equations", 0.0, 1e8, True),
    _field("KPUMIN", "1", "smallest slip of the equations", -1e3, 0.0),
    _field("KPUMAX", "1", "largest slip of the equations", 0.0, 1e3),
    _field("ALPMIN", "rad", "smallest slip angle of the equations", -1.57, 0.0),
    _field("ALPMAX", "rad", "largest slip angle of the equations", 0.0, 1.57),
    _field("CAMMIN", "rad", "smallest inclination of the equations", -1.57, 0.0),
    _field("CAMMAX", "rad", "largest inclination of the equations", 0.0, 1.57),
    *(_field(name, "1", f"scale {name[1:]}", 0.0, 1e3, name in ("LFZO", "LMUX", "LMUY")) for name in _SCALES.split()),
    *(_field(name, "1", f"coefficient of the {quantity}") for quantity, names in _SHAPES for name in names.split()),
)
RELAXATION = (
    _field("LONGITUDINAL_STIFFNESS", "N/m", "longitudinal stiffness of the carcass", 0.0, 1e8, True),
    _field("LATERAL_STIFFNESS", "N/m", "lateral stiffness of the carcass", 0.0, 1e8, True),
    *(_field(name, "1", "coefficient of the relaxation lengths") for name in _RELAXATION.split()),
    *(_field(name, "1", f"scale {name[1:]} of a relaxation length", 0.0, 1e3) for name in ("LSGKP", "LSGAL")),
)
# Defaults of a .tir file, if not 0 or, for a scale, 1; None: required.
DEFAULTS: dict[str, float | None] = {
    "VERSION": None, "FNOMIN": None, "UNLOADED_RADIUS": None, "PCX1": None, "PDX1": None, "PKX1": None, "PCY1": None, "PDY1": None,
    "PKY1": None, "PKY2": None, "TYRESIDE": 1.0, "VERTICAL_STIFFNESS": 2e5, "LONGVL": 16.7, "VXLOW": 1.0, "NOMPRES": 2e5, "INFLPRES": 2e5,
    "FZMAX": 1e7, "KPUMIN": -1.5, "KPUMAX": 1.5, "ALPMIN": -1.5, "ALPMAX": 1.5, "CAMMIN": -0.7, "CAMMAX": 0.7, "PKY4": 2.0, "Q_RE0": 1.0,
    "QSY7": 1.0, "LONGITUDINAL_STIFFNESS": 3e5, "LATERAL_STIFFNESS": 1e5,
}
# Coefficients that change sign on the other side of the vehicle.
_ODD = ("phy1", "phy2", "pvy1", "pvy2", "pey3", "qhz1", "qhz2", "qbz4", "qdz3", "qdz6", "qdz7", "qez4", "ssz1", "rvy1", "rvy2", "rby3",
        "rhx1", "qsx1")
LAGGED = (
    Field("tyre_slip_x", "1", "longitudinal slip behind the relaxation length"),
    Field("tyre_slip_y", "1", "tangent of the slip angle behind the relaxation length"),
)


class MagicFormula:
    """The tyre in steady state (`lfdm_ros.models.equations.Tyre`), without states."""

    implicit = True

    def __init__(self, m: Operations):
        self._m = m

    def prepare(self, p: Any) -> Any:
        m = self._m
        c = Record(**{name[3:]: value for name, value in vars(p).items() if name.startswith("mf_")})
        dpi = c.inflpres / c.nompres - 1.0  # (4.E2b)
        load, r0 = c.lfzo * c.fnomin, c.unloaded_radius  # (4.E1)
        moment = r0 * c.lmx
        # Constant factors of a run: scales and the effect of pressure.
        for factor, names in (
            (c.lcx, "pcx1"), (c.lmux * (1.0 + c.ppx3 * dpi + c.ppx4 * dpi * dpi), "pdx1 pdx2"), (c.lex, "pex1 pex2 pex3"),
            (c.lkx * (1.0 + c.ppx1 * dpi + c.ppx2 * dpi * dpi), "pkx1 pkx2"), (c.lhx, "phx1 phx2"), (c.lvx * c.lmux, "pvx1 pvx2"),
            (c.lxal, "rbx1 rbx3"), (c.lcy, "pcy1"), (c.lmuy * (1.0 + c.ppy3 * dpi + c.ppy4 * dpi * dpi), "pdy1 pdy2"), (c.ley, "pey1 pey2"),
            (load * c.lky * (1.0 + c.ppy1 * dpi), "pky1"), (load * (1.0 + c.ppy2 * dpi), "pky2 pky5"),
            (c.lkyc * (1.0 + c.ppy5 * dpi), "pky6 pky7"), (c.lhy, "phy1 phy2"), (c.lkyc, "phy3"), (c.lvy * c.lmuy, "pvy1 pvy2"),
            (c.lkyc * c.lmuy, "pvy3 pvy4"), (c.lyka, "rby1 rby4"), (c.lvyka, "rvy1 rvy2 rvy3"), (c.lky / c.lmuy, "qbz1 qbz2 qbz3 qbz9"),
            (r0 / load * c.ltr * (1.0 - c.ppz1 * dpi), "qdz1 qdz2"), (r0 * c.lres * c.lmuy, "qdz6 qdz7"),
            (r0 * c.lkzc * c.lmuy * (1.0 + c.ppz2 * dpi), "qdz8 qdz9"), (r0 * c.lkzc * c.lmuy, "qdz10 qdz11"),
            (r0 * c.ls, "ssz1 ssz3 ssz4"), (r0 * c.ls / c.fnomin, "ssz2"), (moment * c.lvmx, "qsx1"),
            (moment * (1.0 + c.ppmx1 * dpi), "qsx2"), (moment, "qsx4 qsx10 qsx12 qsx13 qsx14"), (moment / c.fnomin, "qsx3"),
            (1.0 / c.fnomin, "qsx6 qsx9 qsx11 qsy2 qsy6"), (r0 * c.fnomin * c.lmy * m.exp(c.qsy8 * m.log(c.inflpres / c.nompres)),
                                                            "qsy1 qsy2 qsy3 qsy4 qsy5 qsy6"),
        ):
            c = c.but(**{name: factor * getattr(c, name) for name in names.split()})
        odd = {side: Record(**{name: side * c.tyreside * getattr(c, name) for name in _ODD}) for side in (1.0, -1.0)}
        return c.but(load=load, per_load=1.0 / load, latest=m.where(c.version < 60.0, 0.0, 1.0), dpi=dpi, odd=odd,
                     deflection=c.fnomin / c.vertical_stiffness, per_vxlow=1.0 / c.vxlow,
                     tan_min=m.sin(c.alpmin) / m.cos(c.alpmin), tan_max=m.sin(c.alpmax) / m.cos(c.alpmax))

    # -- Slips --------------------------------------------------------------------------------------------------------------------
    def rolling_radius(self, q: Any, wheel: Wheel) -> Scalar:
        """Returns the effective rolling radius [m] (A3.1, A3.6)."""
        atan, ratio = self._m.atan, wheel.load / q.fnomin
        rim = q.unloaded_radius * wheel.omega / q.longvl
        return q.unloaded_radius * (q.q_re0 + q.q_v1 * rim * rim) - q.deflection * (q.dreff * atan(q.breff * ratio) + q.freff * ratio)

    def slip_velocity(self, q: Any, wheel: Wheel) -> Scalar:
        """Returns the speed of the rim over that of the contact [m/s]."""
        return self.rolling_radius(q, wheel) * wheel.omega - wheel.along

    def forces(self, q: Any, wheel: Wheel) -> Contact:
        m, vs = self._m, self.slip_velocity(q, wheel)
        per_speed = 1.0 / m.fmax(m.fabs(wheel.along), SLIP_SPEED_FLOOR)
        k = self.evaluate(q, wheel, vs * per_speed, wheel.across * per_speed)
        turning = self.contact(k, wheel, per_speed, per_speed)
        # A locked wheel at low speed holds by dry friction, since its slips are undefined; from walking pace on by the formula.
        speed = m.sqrt(wheel.along * wheel.along + wheel.across * wheel.across + 1e-24)
        slides = m.fmin(m.fmax((speed - STICK_END) * (1.0 / (SLIDE_BEGIN - STICK_END)), 0.0), 1.0)
        hold = (1.0 - slides) * k.limit / m.fmax(speed, CREEP)
        locked = Contact(vs * hold + slides * k.fx, -wheel.across * hold + slides * k.fy, hold + slides * turning.kx,
                         hold + slides * turning.ky)
        return choose(m, wheel, locked, turning)

    def contact(self, k: Record, wheel: Wheel, per_x: Scalar, per_y: Scalar) -> Contact:
        """Makes a contact of the results of `evaluate`; per_x, per_y: slip for a unit of slip velocity [s/m].

        Rolling resistance is dry friction, which stops a wheel and holds it.
        """
        fmax = self._m.fmax
        resistance = self._m.where(wheel.along < 0.0, k.my, -k.my)
        return Contact(k.fx, k.fy, fmax(k.slope_x, 0.0) * per_x, fmax(-k.slope_y, 0.0) * per_y, friction=fmax(resistance, 0.0), mx=k.mx,
                       mz=k.mz)

    # -- The formula --------------------------------------------------------------------------------------------------------------
    def angle(self, x: Scalar, e: Scalar) -> Scalar:
        """Returns the inner angle of the formula without its shape: arctan(x - E (x - arctan x)), x with the stiffness factor."""
        return self._m.atan(x - e * (x - self._m.atan(x)))

    def rise(self, x: Scalar, e: Scalar) -> Scalar:
        """Returns the derivative of `angle` by x."""
        y = x - e * (x - self._m.atan(x))
        return (1.0 - e + e / (1.0 + x * x)) / (1.0 + y * y)

    def weight(self, x: Scalar, shift: Scalar, b: Scalar, c: Scalar, e: Scalar) -> Scalar:
        """Returns the share of a force that slip in the other direction leaves, 1 without it (4.E51, 4.E59)."""
        cos = self._m.cos
        return self._m.fmax(cos(c * self.angle(b * (x + shift), e)) / cos(c * self.angle(b * shift, e)), 0.0)

    def clipped(self, q: Any, wheel: Wheel) -> tuple[Scalar, Scalar, Scalar]:
        """Returns the load [N], its share above the nominal one dfz (4.E2a) and the inclination [rad], within the ranges of the file."""
        fmin, fmax = self._m.fmin, self._m.fmax
        fz = fmin(wheel.load, q.fzmax)
        return fz, fz * q.per_load - 1.0, fmin(fmax(wheel.inclination, q.cammin), q.cammax)

    def slip_stiffness(self, q: Any, fz: Scalar, dfz: Scalar) -> Scalar:
        """Returns dfx/ds at no slip [N] (4.E15)."""
        return fz * (q.pkx1 + q.pkx2 * dfz) * self._m.exp(q.pkx3 * dfz)

    def cornering_stiffness(self, q: Any, fz: Scalar, lean: Scalar) -> Scalar:
        """Returns dfy/dalpha at no slip angle [N/rad], lean: the inclination's sine (4.E25)."""
        m = self._m
        return q.pky1 * (1.0 - q.pky3 * m.fabs(lean)) * m.sin(q.pky4 * m.atan(fz / (q.pky2 + q.pky5 * (lean * lean))))

    def evaluate(self, q: Any, wheel: Wheel, s: Scalar, t: Scalar) -> Record:
        """Returns forces fx, fy [N], moments mx, my, mz [N m], slip stiffness kxk [N], cornering stiffness kya [N/rad], the smaller
        peak of both forces limit [N] and the slopes dfx/ds and dfy/dt at the slips s and t = tan alpha."""
        m = self._m
        where, sqrt, fabs, fmin, fmax, sin, cos, atan = m.where, m.sqrt, m.fabs, m.fmin, m.fmax, m.sin, m.cos, m.atan
        odd = q.odd[wheel.side] if wheel.side else Record(**dict.fromkeys(_ODD, 0.0))
        fz, dfz, gamma = self.clipped(q, wheel)
        s, t = fmin(fmax(s, q.kpumin), q.kpumax), fmin(fmax(t, q.tan_min), q.tan_max)
        tilt, road = sin(gamma), fmax(wheel.ground.friction, 1e-3)  # (4.E4)
        # Shifts fade out towards standstill, and turn round in reverse.
        u = wheel.along
        fade = 0.5 - 0.5 * cos(math.pi * fmin(fabs(u) * q.per_vxlow, 1.0))
        direction = where(u < 0.0, -fade, fade)

        def sign(x: Scalar) -> Scalar:
            return where(x < 0.0, -1.0, 1.0)

        # Longitudinal, pure slip (4.E9 to 4.E18).
        kappa = s + direction * (q.phx1 + q.phx2 * dfz)
        dx = fz * (q.pdx1 + q.pdx2 * dfz) * (1.0 - q.pdx3 * gamma * gamma) * road
        ex = fmin((q.pex1 + (q.pex2 + q.pex3 * dfz) * dfz) * (1.0 - q.pex4 * sign(u * kappa)), 1.0)
        kxk = self.slip_stiffness(q, fz, dfz)
        bx = kxk / (q.pcx1 * dx + EPSILON)
        angle_x = q.pcx1 * self.angle(bx * kappa, ex)
        fx0 = dx * sin(angle_x) + direction * fz * (q.pvx1 + q.pvx2 * dfz) * road

        # Lateral, pure slip (4.E19 to 4.E30).
        dy0 = fz * (q.pdy1 + q.pdy2 * dfz) * road

        def lateral(lean: Scalar) -> Record:
            lean2, kya = lean * lean, self.cornering_stiffness(q, fz, lean)
            safe = where(kya > 0.0, kya + EPSILON, kya - EPSILON)  # (4.E39)
            svc = fade * fz * (q.pvy3 + q.pvy4 * dfz) * lean * road
            # The camber shift of 6.1 (4.E27), of 5.2 by PHY3.
            shift = fade * lean * where(q.latest > 0.0, fz * (q.pky6 + q.pky7 * dfz - (q.pvy3 + q.pvy4 * dfz) * road) / safe, q.phy3)
            sh = direction * (odd.phy1 + odd.phy2 * dfz) + shift
            sv = direction * fz * (odd.pvy1 + odd.pvy2 * dfz) * road + svc
            alpha, mu_y = t + sh, dy0 * (1.0 - q.pdy3 * lean2)
            ey = fmin((q.pey1 + q.pey2 * dfz) * (1.0 + q.pey5 * lean2 - (odd.pey3 * sign(u) + q.pey4 * lean) * sign(alpha)), 1.0)
            by = kya / (q.pcy1 * mu_y + EPSILON)
            angle_y = q.pcy1 * self.angle(by * alpha, ey)
            return Record(force=mu_y * sin(angle_y) + sv, slope=mu_y * cos(angle_y) * q.pcy1 * by * self.rise(by * alpha, ey), dy=mu_y,
                          kya=kya, safe=safe, by=by, shift=sh + sv / safe)  # shift: (4.E38)

        tilted, upright = lateral(tilt), lateral(tilt * (1.0 - q.latest))

        # Combined slip (4.E50 to 4.E67).
        gxa = self.weight(t, odd.rhx1, (q.rbx1 + q.rbx3 * tilt * tilt) / sqrt(1.0 + q.rbx2 * s * (q.rbx2 * s)), q.rcx1,
                          fmin(q.rex1 + q.rex2 * dfz, 1.0))
        fx = gxa * fx0
        turn = q.rby2 * (t - odd.rby3)
        gyk = self.weight(s, q.rhy1 + q.rhy2 * dfz, (q.rby1 + q.rby4 * tilt * tilt) / sqrt(1.0 + turn * turn), q.rcy1,
                          fmin(q.rey1 + q.rey2 * dfz, 1.0))
        ply = tilted.dy * (odd.rvy1 + odd.rvy2 * dfz + q.rvy3 * tilt) / sqrt(1.0 + q.rvy4 * t * (q.rvy4 * t))
        fy = gyk * tilted.force + fade * ply * sin(q.rvy5 * atan(q.rvy6 * s))

        # Overturning and rolling resistance moment (4.E69 as in MF 6.2, A48).
        mx = (fz * (odd.qsx1 - q.qsx2 * gamma + q.qsx3 * fy + q.qsx4 * cos(q.qsx5 * atan((q.qsx6 * fz) * (q.qsx6 * fz)))
                    * sin(q.qsx7 * gamma + q.qsx8 * atan(q.qsx9 * fy)) + q.qsx10 * atan(q.qsx11 * fz) * gamma
                    - q.qsx12 * gamma * fabs(gamma)) + fy * (q.qsx13 + q.qsx14 * fabs(gamma)))
        fast = fabs(u / q.longvl)
        my = -sign(u) * m.exp(q.qsy7 * m.log(fmax(fz / q.fnomin, EPSILON))) * (
            q.qsy1 + q.qsy2 * fx + q.qsy3 * fast + q.qsy4 * fast * fast * (fast * fast) + (q.qsy5 + q.qsy6 * fz) * gamma * gamma)

        # Aligning moment (4.E31 to 4.E47, 4.E71 to 4.E78 as A54 to A60).
        bt = (q.qbz1 + (q.qbz2 + q.qbz3 * dfz) * dfz) * (1.0 + odd.qbz4 * gamma + q.qbz5 * fabs(gamma)) / road
        dt = fz * (q.qdz1 + q.qdz2 * dfz) * (1.0 + odd.qdz3 * gamma + q.qdz4 * gamma * gamma)
        alpha_t = t + direction * (odd.qhz1 + odd.qhz2 * dfz) + fade * (q.qhz3 + q.qhz4 * dfz) * tilt
        et = fmin((q.qez1 + (q.qez2 + q.qez3 * dfz) * dfz) * (
            1.0 + (odd.qez4 * sign(u) + q.qez5 * tilt) * (2.0 / math.pi) * atan(bt * q.qcz1 * alpha_t)), 1.0)
        drive = kxk / tilted.safe * s

        def equivalent(alpha: Scalar) -> Scalar:  # (A54, A55)
            tangent = sin(alpha) / cos(alpha)
            return sign(alpha) * atan(sqrt(tangent * tangent + drive * drive + 1e-24))

        cosine = 1.0 / sqrt(1.0 + t * t)  # cos' alpha (4.E6)
        trail = direction * cosine * dt * cos(q.qcz1 * self.angle(bt * equivalent(alpha_t), et))
        residual = fz * (odd.qdz6 + odd.qdz7 * dfz + (q.qdz8 + q.qdz9 * dfz + (q.qdz10 + q.qdz11 * dfz) * fabs(tilt)) * tilt)
        br = q.qbz9 / road + q.qbz10 * tilted.by * q.pcy1
        mzr = fade * road * cosine * residual * cos(atan(br * equivalent(t + tilted.shift)))
        arm = odd.ssz1 + q.ssz2 * fy + (q.ssz3 + q.ssz4 * dfz) * gamma
        mz = -trail * gyk * upright.force + mzr + arm * fx

        return Record(fx=fx, fy=fy, mx=mx, my=where(fz > 0.0, my, 0.0), mz=mz, kxk=kxk, kya=tilted.kya, limit=fmin(dx, tilted.dy),
                      slope_x=gxa * dx * cos(angle_x) * q.pcx1 * bx * self.rise(bx * kappa, ex), slope_y=gyk * tilted.slope)


class RelaxingMagicFormula(MagicFormula):
    """The same with slips that follow those of the contact over the relaxation lengths, as states (Pacejka section 7.2).

    The carcass is a spring at standstill; it damps its deflection over CARCASS_TIME, within the step.
    """

    def lengths(self, q: Any, wheel: Wheel) -> tuple[Scalar, Scalar]:
        """Returns the relaxation lengths along and across [m] (A3.9; those of 5.2 by PTX and PTY)."""
        m = self._m
        exp, sin, atan, fabs, fmax, where = m.exp, m.sin, m.atan, m.fabs, m.fmax, m.where
        fz, dfz, gamma = self.clipped(q, wheel)
        kxk, kya = self.slip_stiffness(q, fz, dfz), self.cornering_stiffness(q, fz, sin(gamma))
        cx = q.longitudinal_stiffness * (1.0 + (q.pcfx1 + q.pcfx2 * dfz) * dfz) * (1.0 + q.pcfx3 * q.dpi)
        cy = q.lateral_stiffness * (1.0 + (q.pcfy1 + q.pcfy2 * dfz) * dfz) * (1.0 + q.pcfy3 * q.dpi)
        old_x = (q.ptx1 + q.ptx2 * dfz) * exp(-q.ptx3 * dfz) * q.lsgkp * q.unloaded_radius * fz / q.fnomin
        old_y = q.pty1 * sin(2.0 * atan(fz / (fmax(q.pty2, EPSILON) * q.load))) * (1.0 - q.pky3 * fabs(gamma)) * (
            q.unloaded_radius * q.lfzo * q.lsgal)
        return (fmax(where(q.latest > 0.0, fabs(kxk / cx), old_x), MIN_RELAXATION),
                fmax(where(q.latest > 0.0, fabs(kya / cy), old_y), MIN_RELAXATION))

    def forces(self, q: Any, wheel: Wheel) -> Contact:
        fabs, fmin, fmax = self._m.fabs, self._m.fmin, self._m.fmax

        def rate(slip: Scalar, low: Scalar, high: Scalar, velocity: Scalar, length: Scalar) -> Scalar:
            within = fmin(fmax(slip, low), high)
            return (velocity - fabs(wheel.along) * within - RETURN * (1.0 + fabs(velocity)) * (slip - within)) / length

        length_x, length_y = self.lengths(q, wheel)
        x = wheel.x
        rate_x = rate(x.tyre_slip_x, q.kpumin, q.kpumax, self.slip_velocity(q, wheel), length_x)
        rate_y = rate(x.tyre_slip_y, q.tan_min, q.tan_max, wheel.across, length_y)
        time = STANDING_TIME + (CARCASS_TIME - STANDING_TIME) * fmin(fabs(wheel.along) * q.per_vxlow, 1.0)
        k = self.evaluate(q, wheel, x.tyre_slip_x + time * rate_x, x.tyre_slip_y + time * rate_y)
        return replace(self.contact(k, wheel, time / length_x, time / length_y), changes={"tyre_slip_x": rate_x, "tyre_slip_y": rate_y})


MAGIC_FORMULA = Part("magic_formula", "Magic Formula 5.2 and 6.1/6.2 by a .tir file, in steady state", PARAMETERS, MagicFormula)
MAGIC_FORMULA_RELAXED = Part("magic_formula_relaxed", "Magic Formula 5.2 and 6.1/6.2 by a .tir file, with relaxation lengths",
                             (*PARAMETERS, *RELAXATION), RelaxingMagicFormula, wheel_states=LAGGED, largest_step=2e-3)
