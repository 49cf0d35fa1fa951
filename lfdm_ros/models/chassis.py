"""Parts that the chassis share: constants, declarations, loads at rest, and the spin of a wheel."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from lfdm_ros.models.declaration import Field
from lfdm_ros.models.equations import Contact, Operations

GRAVITY = 9.80665  # [m/s^2]
# In continuous time (h = 0) the friction of brakes and rolling resistance is a stiff damper with this time constant [s].
FRICTION_TIME = 1e-3
# A braked wheel slower than this does not turn [rad/s]: friction stops it within a step, but for rounding.
STANDING = 1e-4
NO_SLOPES = (0.0,) * 6  # of tyres that are not stiff, see `plane_slopes`

BODY = (
    Field("sprung_mass", "kg", "sprung mass", "m", 0.0, 1e6, True),
    Field("unsprung_mass_front", "kg", "unsprung mass of the front axle, both wheels", "muf", 0.0, 1e5),
    Field("unsprung_mass_rear", "kg", "unsprung mass of the rear axle, both wheels", "mur", 0.0, 1e5),
    Field("yaw_inertia", "kg*m^2", "yaw inertia", "Jz", 0.0, 1e7, True),
    Field("cg_to_front_axle", "m", "distance of the sprung mass's centre from the front axle", "a", 0.0, 20.0, True),
    Field("cg_to_rear_axle", "m", "distance of the sprung mass's centre from the rear axle", "b", 0.0, 20.0, True),
)
LOADS = (
    Field("unsprung_load_share", "1", "share of the unsprung weight in the wheel loads: 1 is physics, 0.5 paper 000's code", "", 0.0, 1.0),
    Field("cg_height", "m", "height of the sprung mass's centre above ground", "h", 0.0, 5.0, True),
)
ROLL = (
    Field("roll_inertia", "kg*m^2", "roll inertia of the sprung mass about its centre", "Jx", 0.0, 1e7, True),
    Field("track_front", "m", "front track width", "cf", 0.0, 5.0, True),
    Field("track_rear", "m", "rear track width", "cr", 0.0, 5.0, True),
    Field("roll_centre_drop_front", "m", "front roll centre, distance below the sprung mass's centre", "hrcf", -5.0, 5.0),
    Field("roll_centre_drop_rear", "m", "rear roll centre, distance below the sprung mass's centre", "hrcr", -5.0, 5.0),
)
DRIVELINE_ROLL = Field("driveline_roll_reaction", "1", "roll moment on the body, + right side down, for a unit of the drive's torque on "
                       "all wheels: of shafts along the vehicle that do not turn in the body alone", "", -1.0, 1.0)
PITCH_INERTIA = Field("pitch_inertia", "kg*m^2", "pitch inertia of the sprung mass", "Jy", 0.0, 1e7, True)
WHEELS_AND_BRAKES = (
    Field("wheel_inertia", "kg*m^2", "spin inertia of one wheel", "Jw", 0.0, 1e4, True),
    Field("wheel_radius", "m", "unloaded tyre radius", "r0", 0.0, 5.0, True),
    Field("tyre_vertical_stiffness_front", "N/m", "vertical stiffness of one front tyre", "ktf", 0.0, 1e8, True),
    Field("tyre_vertical_stiffness_rear", "N/m", "vertical stiffness of one rear tyre", "ktr", 0.0, 1e8, True),
    Field("brake_torque_front", "N*m", "brake torque of one front wheel at full brake", "", 0.0, 1e5),
    Field("brake_torque_rear", "N*m", "brake torque of one rear wheel at full brake", "", 0.0, 1e5),
)


def vertical_damping(axle: str) -> Field:
    """Returns the declaration of a tyre's vertical damping."""
    return Field(f"tyre_vertical_damping_{axle}", "N*s/m", f"vertical damping of one {axle} tyre", "", 0.0, 1e6)


PLANE = (
    Field("x", "m", "position of the sprung mass's centre, x", "X"),
    Field("y", "m", "position of the sprung mass's centre, y", "Y"),
    Field("yaw", "rad", "yaw angle, + left", "psi"),
)
VELOCITY = (
    Field("vx", "m/s", "longitudinal velocity, body-fixed", "u"),
    Field("vy", "m/s", "lateral velocity, body-fixed", "v"),
)
# Attitude and velocities of a body that also pitches and heaves.
TILT = (
    Field("roll", "rad", "roll angle, + right side down", "phi"),
    Field("pitch", "rad", "pitch angle, + nose down", "theta"),
)
TWIST = (
    *VELOCITY,
    Field("vz", "m/s", "vertical velocity, body-fixed", "w"),
    Field("roll_rate", "rad/s", "roll rate", "omega_x"),
    Field("pitch_rate", "rad/s", "pitch rate", "omega_y"),
    Field("yaw_rate", "rad/s", "yaw rate", "omega_z"),
)
ACCELERATION = (
    Field("ax", "m/s^2", "longitudinal proper acceleration of the last step; the load transfer uses it", "a_x", role="held"),
    Field("ay", "m/s^2", "lateral proper acceleration of the last step; the load transfer uses it", "a_y", role="held"),
)


def static_loads(p: Any, gravity: float = GRAVITY) -> tuple[Any, Any]:
    """Returns the load of one front and one rear wheel at rest [N] (000 eqs 10-13 at rest); p has the parameters BODY and LOADS."""
    a, b = p.cg_to_front_axle, p.cg_to_rear_axle
    share = p.unsprung_load_share
    return (0.5 * gravity * (p.sprung_mass * b / (a + b) + share * p.unsprung_mass_front),
            0.5 * gravity * (p.sprung_mass * a / (a + b) + share * p.unsprung_mass_rear))


def centre_height(p: Any, load: Any, stiffness: Any) -> Any:
    """Returns the height of a wheel's centre at rest [m]."""
    return p.wheel_radius - load / stiffness


def load_transfer(p: Any, gravity: float = GRAVITY, height: Callable[[Any, Any, Any], Any] = centre_height,
                  ) -> tuple[tuple[Any, Any], tuple[Any, Any], Any]:
    """Returns the static loads of a wheel (front, rear) [N], mass times height of each unsprung axle [kg m], and load shifted from each
    front to each rear wheel for a unit of longitudinal acceleration [kg] (paper 000 eqs 10-13); `height`: of the unsprung masses."""
    static = static_loads(p, gravity)

    def moment(mass: Any, load: Any, stiffness: Any) -> Any:
        return p.unsprung_load_share * mass * height(p, load, stiffness)

    front = moment(p.unsprung_mass_front, static[0], p.tyre_vertical_stiffness_front)
    rear = moment(p.unsprung_mass_rear, static[1], p.tyre_vertical_stiffness_rear)
    base = p.cg_to_front_axle + p.cg_to_rear_axle
    return static, (front, rear), (p.sprung_mass * p.cg_height + front + rear) / (2.0 * base)


# -- Planar motion: longitudinal, lateral and yaw acceleration ------------------------------------------------
def plane_slopes(kx: Any, ky: Any, c: Any, s: Any, px: Any, py: Any) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Returns the slopes by which force and moment of a tyre at (px, py), turned by an angle of cosine c and sine s, fall with (u, v, r).

    B' R diag(kx, ky) R' B with the velocity B (u, v, r) of its contact patch: the entries uu, uv, ur, vv, vr, rr.
    """
    kuu = kx * c * c + ky * s * s
    kvv = kx * s * s + ky * c * c
    kuv = (kx - ky) * c * s
    kur, kvr = kuv * px - kuu * py, kvv * px - kuv * py
    return kuu, kuv, kur, kvv, kvr, kvr * px - kur * py


def where_stiff(m: Operations, contact: Contact, solved: Callable[..., Sequence[Any]], slopes: Sequence[Any]) -> list[Any]:
    """Evaluates `solved` with these slopes of the tyres, or without them where no tyre is stiff, a branch on which code jumps."""
    return [m.where(contact.stiff > 0.0, one, other) for one, other in zip(solved(*slopes), solved(*NO_SLOPES))]


def solve_symmetric(m11: Any, m12: Any, m13: Any, m22: Any, m23: Any, m33: Any, e1: Any, e2: Any, e3: Any) -> tuple[Any, Any, Any]:
    """Returns the solution of a symmetric 3 x 3 system, by cofactors; directly where the first row has only m11."""
    if isinstance(m12, float) and isinstance(m13, float) and m12 == m13 == 0.0:
        det = m22 * m33 - m23 * m23
        return e1 / m11, (m33 * e2 - m23 * e3) / det, (m22 * e3 - m23 * e2) / det
    c11, c12, c13 = m22 * m33 - m23 * m23, m13 * m23 - m12 * m33, m12 * m23 - m13 * m22
    c22, c23, c33 = m11 * m33 - m13 * m13, m12 * m13 - m11 * m23, m11 * m22 - m12 * m12
    det = m11 * c11 + m12 * c12 + m13 * c13
    return (c11 * e1 + c12 * e2 + c13 * e3) / det, (c12 * e1 + c22 * e2 + c23 * e3) / det, (c13 * e1 + c23 * e2 + c33 * e3) / det


def solve(rows: Sequence[Sequence[Any]], right: Sequence[Any]) -> list[Any]:
    """Returns the solution of a system in which the diagonal outweighs the rest (Gauss, without a search for pivots)."""
    a, b = [list(row) for row in rows], list(right)
    count = len(b)
    for k in range(count):
        for i in range(k + 1, count):
            share = a[i][k] / a[k][k]
            a[i] = [one - share * other for one, other in zip(a[i], a[k])]
            b[i] = b[i] - share * b[k]
    found: list[Any] = []
    for k in reversed(range(count)):
        found.insert(0, (b[k] - sum(a[k][k + 1 + j] * value for j, value in enumerate(found))) / a[k][k])
    return found


def locked(m: Operations, speeds: Iterable[Any], drives: Iterable[Any], brakes: Iterable[Any]) -> tuple[list[Any], Any]:
    """Returns 1 for each standing wheel whose brake holds it against the drive, else 0; and the largest of these."""
    each = [m.where(m.fabs(speed) > STANDING, 0.0, m.where(brake > m.fabs(drive), 1.0, 0.0))
            for speed, drive, brake in zip(speeds, drives, brakes, strict=True)]
    return each, reduce(m.fmax, each)


@dataclass(frozen=True)
class Spin:
    """A wheel over one step: acceleration [rad/s^2], force at the end of the step, and how both follow the chassis."""

    acceleration: Any
    fx: Any
    kx: Any  # rest of the tyre's slope when the wheel follows the chassis
    follow: Any  # added acceleration for a unit of acceleration of the contact patch along the tyre [1/m]


def spin(m: Operations, contact: Contact, omega: Any, radius: Any, inertia: Any, drive: Any, brake: Any, h: Any) -> Spin:
    """Solves J domega/dt = drive - friction - radius fx over a step of h (000, between eqs 9 and 10), fx linear in the new wheel speed.

    Friction (brake and rolling resistance) is solved within the step: a wheel sticks at exactly zero, without chatter.
    """
    where, fabs, fmin, fmax = m.where, m.fabs, m.fmin, m.fmax
    effective = inertia + h * radius * radius * contact.kx
    capacity = brake + contact.friction
    free = drive + contact.my - radius * contact.fx
    to_stop = effective * omega / fmax(h, FRICTION_TIME * where(h > 0.0, 0.0, 1.0)) + free
    stuck = fabs(to_stop) < capacity
    acceleration = (free - fmin(fmax(to_stop, -capacity), capacity)) / effective
    # A stuck wheel does not follow the chassis.
    return Spin(acceleration, contact.fx + h * contact.kx * radius * acceleration,
                where(stuck, contact.kx + contact.kx_locked, contact.kx * inertia / effective),
                where(stuck, 0.0, h * radius * contact.kx / effective))
