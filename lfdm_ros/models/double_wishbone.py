"""The double wishbone (double A-arm): two arms that turn about axes on the body, an upright between their ball joints, a tie rod.

Closed form, without iteration. The coordinate is the lower arm's angle theta from the construction pose, + up; a second one may move the
tie rod's inner joint, as the steering does. All in the body's axes, from any origin on the body; a prime is the derivative by a coordinate:

    (1) L = F + Rot(a, theta) (L0 - F)                                                 lower ball joint; a: axis through F
    (2) |o + Rot(b, psi) v - L| = l                                                    upper arm's angle psi; b: axis through o
    (3) R = Rot(k, gamma) Rot(k0 -> k),  |L + R (T0 - L0) - C| = c                     upright; k: kingpin L -> U, T, C: ends of the tie rod
    (4) psi' = k.L' / k.(b x u),  U' = (b x u) psi'                                    from k.(U' - L') = 0;  u = U - o
    (5) w' = k x (U' - L') / l^2 + mu k,  mu = n.(C' - L' - w0' x t) / n.(k x t)       angular velocity of the upright: n.(T' - C') = 0
    (6) psi'', w'': the same equations once more differentiated, with the accelerations of the joints that the rates alone make

In (2) and (3) a point that turns about an axis has a distance given: with v1 = a (a.v), v2 = v - v1, w = a x v, d = target - v1,
A = 2 v2.d, B = 2 w.d, C = v2.v2 + d.d - l^2 its angle solves A cos + B sin = C, by

    (7) cos = (A C -+ B r) / (A^2 + B^2),  sin = (B C +- A r) / (A^2 + B^2),  r = sqrt(A^2 + B^2 - C^2)

with the sign of the construction pose, where the angle is 0. Where r is imaginary the linkage does not reach: the pose is not a number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lfdm_ros.models.declaration import AXLES, Field, Part, vector_fields
from lfdm_ros.models.equations import Operations, Record, Scalar
from lfdm_ros.models.rigid_body import ANGLE, STEERING, Body, Column, principal, tensor
from lfdm_ros.models.vectors import ZERO, Basis, Vector, X, Y, turned, unit, vector_of

POINTS = {
    "lower_arm_fore": "lower arm, front pivot", "lower_arm_aft": "lower arm, rear pivot", "lower_ball_joint": "lower ball joint",
    "lower_arm_centre": "lower arm, mass centre",
    "upper_arm_fore": "upper arm, front pivot", "upper_arm_aft": "upper arm, rear pivot", "upper_ball_joint": "upper ball joint",
    "upper_arm_centre": "upper arm, mass centre",
    "tie_rod_inner": "tie rod, inner joint", "tie_rod_outer": "tie rod, outer joint", "upright_centre": "upright, mass centre",
    "wheel_centre": "wheel centre",
}
_INERTIAS = {"lower_arm": "lower arm, about its pivots' direction, across it in its plane, and normal to that",
             "upper_arm": "upper arm, as of the lower arm", "upright": "upright, about the vehicle's axes at the construction pose"}


VECTORS = (*(f"{point}_{axle}" for axle in AXLES for point in POINTS), *(f"{body}_inertia_{axle}" for axle in AXLES for body in _INERTIAS))
PARAMETERS = tuple(field for axle in AXLES for field in (
    *(field for point, words in POINTS.items() for field in vector_fields(
        f"{point}_{axle}", "m", f"{words}, {axle} left, from the middle of the axle's lower pivots")),
    *(Field(f"{body}_mass_{axle}", "kg", f"mass of one {axle} {body.replace('_', ' ')}", "", 0.0, 1e4) for body in _INERTIAS),
    *(field for body, words in _INERTIAS.items() for field in vector_fields(
        f"{body}_inertia_{axle}", "kg*m^2", f"principal moments of inertia of one {axle} {words}", 0.0, 1e4))))


@dataclass(frozen=True)
class CornerPose:
    """A corner at one instant: joints and axes.

    lower, upper: ball joints L, U; basis: axes of the upright; inner, outer: ends of the tie rod; normal_lower, normal_upper: of the
    planes of the arms; reach: how far the upper arm and the tie rod are from where they do not reach, 1 to 0.
    """

    lower: Vector
    upper: Vector
    basis: Basis
    inner: Vector
    outer: Vector
    wheel: Vector
    normal_lower: Vector
    normal_upper: Vector
    reach: tuple[Scalar, Scalar]

    @property
    def axis(self) -> Vector:
        """The wheel's axis, to the left."""
        return self.basis.y


@dataclass(frozen=True)
class CornerRates:
    """Motion of a corner for a unit of a coordinate's rate (4, 5); `lower` is 1 for the lower arm's angle, 0 for the steering.

    lower, upper: angles of the arms; ball_joint: velocity of L; upright: angular velocity.
    """

    lower: Scalar
    upper: Scalar
    ball_joint: Vector
    upright: Vector

    def on_upright(self, pose: CornerPose, point: Vector) -> Vector:
        """Returns the velocity of a point of the upright."""
        return self.ball_joint + self.upright.cross(point - pose.lower)


class DoubleWishbone:
    """The kinematics of one corner."""

    def __init__(self, m: Operations):
        self._m = m

    # -- What depends on the parameters alone ------------------------------------------------------------------------------------
    def prepare(self, p: Any, axle: str, left: bool, origin: Vector) -> Record:
        """Prepares a corner whose points are those of the file from `origin`, the middle of the axle's lower pivots; on the right
        mirrored."""
        side = 1.0 if left else -1.0

        def point(name: str) -> Vector:
            v = vector_of(p, f"{name}_{axle}")
            return origin + Vector(v.x, v.y * side, v.z)

        def axis(arm: str) -> Vector:
            """Axis of the lower arm, to the front on the left and to the rear on the right: turning about it lifts the ball joint on
            both."""
            return unit(self._m, point(f"{arm}_fore") - point(f"{arm}_aft")) * side

        q = Record(**{name: point(name) for name in POINTS})
        lower_axis, upper_axis = axis("lower_arm"), axis("upper_arm")
        kingpin = q.upper_ball_joint - q.lower_ball_joint
        rod = q.tie_rod_outer - q.tie_rod_inner
        arm = q.upper_ball_joint - q.upper_arm_fore
        outer = q.tie_rod_outer - q.lower_ball_joint
        first = unit(self._m, kingpin)
        # Signs of the roots (7).
        upper_sign = self._sign(upper_axis.cross(arm).dot(q.lower_ball_joint - q.upper_arm_fore))
        rod_sign = self._sign(first.cross(outer).dot(q.tie_rod_inner - q.lower_ball_joint))

        masses = {f"{body}_mass": getattr(p, f"{body}_mass_{axle}") for body in _INERTIAS}
        inertias = {f"{body}_inertia": vector_of(p, f"{body}_inertia_{axle}") for body in _INERTIAS}
        return q.but(**masses, **inertias,
                     lower_axis=lower_axis, upper_axis=upper_axis, upper_arm=arm, kingpin=first, kingpin_length2=kingpin.squared,
                     rod_length2=rod.squared, rod_arm=outer, upper_sign=upper_sign, rod_sign=rod_sign,
                     normal_lower=unit(self._m, lower_axis.cross(q.lower_ball_joint - q.lower_arm_fore)),
                     normal_upper=unit(self._m, upper_axis.cross(arm)))

    def _sign(self, b: Scalar) -> Scalar:
        return self._m.where(b > 0.0, -1.0, 1.0)

    def _swing(self, axis: Vector, arm: Vector, target: Vector, length2: Scalar, sign: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """Returns cosine and sine of the angle (7) about `axis` for which `arm` ends at a distance from `target`, and how far it is from
        reach."""
        along = axis * axis.dot(arm)
        across, to = arm - along, target - along
        a, b = 2.0 * across.dot(to), 2.0 * axis.cross(arm).dot(to)
        c = across.squared + to.squared - length2
        square = a * a + b * b
        rest = square - c * c
        r = self._m.sqrt(rest) * sign
        return (a * c - b * r) / square, (b * c + a * r) / square, rest / square

    # -- Pose (1-3) ----------------------------------------------------------------------------------------------------------------
    def pose(self, q: Record, cos: Scalar, sin: Scalar, shift: Vector) -> CornerPose:
        """Returns the corner at the lower arm's angle, by its cosine and sine, with the tie rod's inner joint shifted; q is of
        `prepare`."""
        lower = q.lower_arm_fore + turned(q.lower_ball_joint - q.lower_arm_fore, q.lower_axis, cos, sin)
        c, s, reach_upper = self._swing(q.upper_axis, q.upper_arm, lower - q.upper_arm_fore, q.kingpin_length2, q.upper_sign)
        upper = q.upper_arm_fore + turned(q.upper_arm, q.upper_axis, c, s)
        # The smallest rotation from the first kingpin to this one, then about it as far as the tie rod says.
        kingpin = (upper - lower) * (1.0 / self._m.sqrt(q.kingpin_length2))
        level, tilt = q.kingpin.dot(kingpin), q.kingpin.cross(kingpin)
        per = 1.0 / (1.0 + level)

        def tilted(v: Vector) -> Vector:
            after: Vector = v * level + tilt.cross(v) + tilt * (tilt.dot(v) * per)
            return after

        inner = q.tie_rod_inner + shift
        cg, sg, reach_rod = self._swing(kingpin, tilted(q.rod_arm), inner - lower, q.rod_length2, q.rod_sign)
        x, y = (turned(tilted(v), kingpin, cg, sg) for v in (X, Y))
        basis = Basis(x, y, x.cross(y))
        return CornerPose(lower, upper, basis, inner, lower + basis.out(q.rod_arm),
                          lower + basis.out(q.wheel_centre - q.lower_ball_joint), turned(q.normal_lower, q.lower_axis, cos, sin),
                          turned(q.normal_upper, q.upper_axis, c, s), (reach_upper, reach_rod))

    # -- Rates (4, 5) --------------------------------------------------------------------------------------------------------------
    def rates(self, q: Record, pose: CornerPose, inner: Vector) -> tuple[CornerRates, CornerRates]:
        """Returns the rates by the lower arm's angle, and by the steering, whose unit moves the tie rod's inner joint by `inner`."""
        kingpin, rod, arm = pose.upper - pose.lower, pose.outer - pose.inner, pose.outer - pose.lower
        per_turn = 1.0 / rod.dot(kingpin.cross(arm))
        ball_joint = q.lower_axis.cross(pose.lower - q.lower_arm_fore)
        swing = q.upper_axis.cross(pose.upper - q.upper_arm_fore)
        psi = kingpin.dot(ball_joint) / kingpin.dot(swing)
        across = kingpin.cross(swing * psi - ball_joint) * (1.0 / q.kingpin_length2)
        mu = -rod.dot(ball_joint + across.cross(arm)) * per_turn
        return (CornerRates(1.0, psi, ball_joint, across + kingpin * mu),
                CornerRates(0.0, 0.0, ZERO, kingpin * (rod.dot(inner) * per_turn)))

    # -- Accelerations from the rates alone (6) ------------------------------------------------------------------------------------
    def accelerations(self, q: Record, pose: CornerPose, rates: CornerRates, inner: Vector, inner_acceleration: Vector) -> CornerRates:
        """Returns the accelerations of a corner that moves at `rates`, both coordinates together, while these do not accelerate.

        inner, inner_acceleration: velocity and acceleration of the tie rod's inner joint.
        """
        kingpin, rod, arm = pose.upper - pose.lower, pose.outer - pose.inner, pose.outer - pose.lower
        w = rates.upright
        ball_joint = q.lower_axis.cross(rates.ball_joint) * rates.lower
        swing = q.upper_axis.cross(pose.upper - q.upper_arm_fore)
        joint = swing * rates.upper
        centripetal = q.upper_axis.cross(joint) * rates.upper
        stretch = joint - rates.ball_joint  # rate of the kingpin
        psi = (kingpin.dot(ball_joint - centripetal) - stretch.squared) / kingpin.dot(swing)
        turning = centripetal + swing * psi - ball_joint - w.cross(w.cross(kingpin))
        across = kingpin.cross(turning) * (1.0 / q.kingpin_length2)
        outer = ball_joint + across.cross(arm) + w.cross(w.cross(arm))
        slip = rates.on_upright(pose, pose.outer) - inner
        mu = (rod.dot(inner_acceleration - outer) - slip.squared) / rod.dot(kingpin.cross(arm))
        return CornerRates(0.0, psi, ball_joint, across + kingpin * mu)

    # -- Bodies --------------------------------------------------------------------------------------------------------------------
    def carrier(self, q: Record, wheel_mass: Scalar, wheel_inertia: Vector) -> Record:
        """Returns upright and wheel, which but for its spin is fixed to it, as one body: mass, centre and inertia in the upright's axes."""
        mass = q.upright_mass + wheel_mass
        centre = (q.upright_centre * q.upright_mass + q.wheel_centre * wheel_mass) * (1.0 / mass)
        parts = ((q.upright_mass, q.upright_centre - centre, q.upright_inertia), (wheel_mass, q.wheel_centre - centre, wheel_inertia))

        def inertia(w: Vector) -> Vector:
            total = ZERO
            for part, arm, moments in parts:
                total = total + Vector(moments.x * w.x, moments.y * w.y, moments.z * w.z) + arm.cross(w.cross(arm)) * part
            return total

        return Record(mass=mass, arm=centre - q.lower_ball_joint, inertia=tensor(inertia))

    def bodies(self, q: Record, carrier: Record, pose: CornerPose, by_angle: CornerRates, by_steering: CornerRates, motion: CornerRates,
               bias: CornerRates, spin: Vector) -> Sequence[tuple[Body, dict[int, Column]]]:
        """Arms and `carrier`, by how the corner follows its coordinates and moves; bias: of `accelerations`; spin: the wheel's."""
        w, bodies = motion.upright, []
        arms = (("lower_arm", q.lower_axis, pose.normal_lower, q.normal_lower, 1.0, motion.lower, bias.lower),
                ("upper_arm", q.upper_axis, pose.normal_upper, q.normal_upper, by_angle.upper, motion.upper, bias.upper))
        for name, axis, normal, first, slope, rate, change in arms:
            pivot = getattr(q, f"{name}_fore")
            axes, before = (Basis(axis, n.cross(axis), n) for n in (normal, first))
            arm = axes.out(before.into(getattr(q, f"{name}_centre") - pivot))
            swing = axis.cross(arm)
            bodies.append((Body(getattr(q, f"{name}_mass"), pivot + arm, principal(getattr(q, f"{name}_inertia"), axes), swing * rate,
                                axis * rate, swing * change + axis.cross(swing) * (rate * rate), axis * change),
                           {ANGLE: Column(swing * slope, axis * slope)}))
        centre = pose.lower + pose.basis.out(carrier.arm)
        arm = centre - pose.lower
        acceleration = bias.ball_joint + bias.upright.cross(arm) + w.cross(w.cross(arm))

        def inertia(w: Vector) -> Vector:
            return pose.basis.out(carrier.inertia(pose.basis.into(w)))

        bodies.append((Body(carrier.mass, centre, inertia, motion.on_upright(pose, centre), w, acceleration, bias.upright, spin),
                       {STEERING: Column(by_steering.on_upright(pose, centre), by_steering.upright),
                        ANGLE: Column(by_angle.on_upright(pose, centre), by_angle.upright)}))
        return bodies


def together(theta: CornerRates, steering: CornerRates, theta_rate: Scalar, steering_rate: Scalar) -> CornerRates:
    """Returns the motion of a corner from the rates of its coordinates."""
    return CornerRates(theta_rate, theta.upper * theta_rate, theta.ball_joint * theta_rate,
                       theta.upright * theta_rate + steering.upright * steering_rate)


PART = Part("double_wishbone", "double wishbones: two arms, an upright and a tie rod at each wheel", PARAMETERS, DoubleWishbone)
