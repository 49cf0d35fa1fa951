"""A vehicle as an embedded multibody (paper 001, section 3.1): 15 degrees of freedom, and no constraint equation.

Body 6, steering linkage 1, and at each corner the suspension's angle and the wheel's spin. All else follows them in closed form, by the
suspension's and the linkage's own Jacobians; the bodies' shares of M(q) q'' = Q are those of `lfdm_ros.models.rigid_body`. M is an arrow:
each corner's two coordinates are taken out by themselves, and a system of 7 is left.

A wheel with its axis e (to the left) on ground with the normal n, its centre at a height H along n above that plane:

    (1) cos g = sqrt(1 - (e.n)^2),  t = e x n / cos g,  l = n x t                        along and across on the ground; g: camber to it
    (2) R = H / cos g,  P = S + R (e (e.n) - n) / cos g                                  loaded radius; contact point from the centre S
    (3) Fz = (k d + c d') / cos g where d = r0 - R > 0 and that is above 0,              a spring in the wheel's plane, whose work it does
        d' = -v_P.n / cos g                                                              v_P: of P as a point of the upright
    (4) J_x = (t, P x t, t.dv_P/dq', -R),  J_y = (l, P x l, l.dv_P/dq', 0)               the tyre's velocities follow all rates
    (5) (M + h (kx J_x J_x' + ky J_y J_y')) q'' = Q + fx J_x + fy J_y + Fz J_z           tyres stiff in their slip: implicit over the step h

The wheel's spin is relative to the upright: a brake's torque is one between the two. The drive's is between wheel and body, where the
differential sits, by shafts that follow the upright. Velocities are those of the sprung mass's centre in the body's axes; angles are
Cardan's: yaw about the vertical, then pitch, then roll.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lfdm_ros.models import chassis
from lfdm_ros.models.declaration import AXLES, WHEELS, Field, per_wheel
from lfdm_ros.models.double_wishbone import CornerPose, CornerRates, DoubleWishbone, together
from lfdm_ros.models.equations import Contact, Dynamics, Ground, Operations, Patch, Powertrain, Record, Scalar, Tyre, TyreForce, Wheel
from lfdm_ros.models.ground import Footing, Stance, touch
from lfdm_ros.models.rigid_body import ANGLE, SPIN, STEERING, Body, Eliminated, System, principal
from lfdm_ros.models.steering_linkage import Linkage, Shift
from lfdm_ros.models.struts import Struts
from lfdm_ros.models.vectors import ZERO, Basis, Vector, X, Y, Z

STATES = (
    *chassis.PLANE,
    Field("z", "m", "height of the sprung mass's centre over the ground's height of 0", "Z"),
    *chassis.TILT,
    *chassis.TWIST,
    Field("link_displacement", "m", "steering link or rack, displacement to the left"),
    Field("link_rate", "m/s", "steering link or rack, velocity to the left"),
    *per_wheel("omega", "rad/s", "wheel speed, against the upright", "omega"),
    *per_wheel("arm_angle", "rad", "angle of the lower arm from the construction pose, + up", "theta"),
    *per_wheel("arm_rate", "rad/s", "rate of the lower arm's angle"),
    Field("ax", "m/s^2", "longitudinal proper acceleration of the last step", "a_x", role="held"),
    Field("ay", "m/s^2", "lateral proper acceleration of the last step", "a_y", role="held"),
)
# States to find at rest, each with its velocity, which does not change there.
RESTING = (("z", "vz"), ("roll", "roll_rate"), ("pitch", "pitch_rate"), ("link_displacement", "link_rate"),
           *((f"arm_angle_{wheel}", f"arm_rate_{wheel}") for wheel in WHEELS))
PARAMETERS = (
    *chassis.BODY, chassis.ROLL[0], chassis.PITCH_INERTIA, *chassis.WHEELS_AND_BRAKES, chassis.DRIVELINE_ROLL,
    Field("cg_above_pivots", "m", "height of the sprung mass's centre above the middle of the axles' lower pivots", "", -5.0, 5.0),
    Field("wheel_transverse_inertia", "kg*m^2", "inertia of one wheel about its diameter", "", 0.0, 1e4, True),
    Field("axle_inertia", "kg*m^2", "part of a wheel's spin inertia that turns on its own axis in the driveline", "", 0.0, 1e4),
    *(chassis.vertical_damping(axle) for axle in AXLES),
)


@dataclass(frozen=True)
class Attitude:
    """The body's axes: e_x, e_y, e_z in level axes turned by the yaw angle, and the vertical among them."""

    axes: Basis
    up: Vector

    @classmethod
    def of(cls, m: Operations, x: Record) -> Attitude:
        """Makes the attitude from roll and pitch angle."""
        c, s, ct, st = m.cos(x.roll), m.sin(x.roll), m.cos(x.pitch), m.sin(x.pitch)
        axes = Basis(Vector(ct, 0.0, -st), Vector(s * st, c, s * ct), Vector(c * st, -s, c * ct))
        return cls(axes, Vector(-st, s * ct, c * ct))


@dataclass(frozen=True)
class Corner:
    """A corner at one instant."""

    pose: CornerPose
    shift: Shift
    by_angle: CornerRates
    by_steering: CornerRates
    motion: CornerRates


@dataclass(frozen=True)
class WheelContact:
    """Contact of a wheel with the ground, in the body's axes (1-3); load: negative where there is none; inclination as `Wheel`'s."""

    along: Vector
    across: Vector
    normal: Vector
    point: Vector
    velocity: Vector
    radius: Scalar
    load: Scalar
    inclination: Scalar


class Multibody:
    """The equations with some parts; see `lfdm_ros.models.equations.Equations`."""

    input_time, mean_motion = 0.5, False
    gravity = chassis.GRAVITY

    def __init__(self, m: Operations, tyre: Tyre, powertrain: Powertrain, ground: Ground, suspension: DoubleWishbone, struts: Struts,
                 steering_linkage: Linkage):
        self._m, self._tyre, self._powertrain, self._footing = m, tyre, powertrain, Footing(m, ground)
        self._suspension, self._struts, self._linkage = suspension, struts, steering_linkage
        self.motions = (self.motion,)

    # -- Terms of the parameters alone --------------------------------------------------------------------------------------
    def prepare(self, p: Any) -> Any:
        origins = {"front": Vector(p.cg_to_front_axle - p.wheel_centre_front_x, 0.0, -p.cg_above_pivots),
                   "rear": Vector(-p.cg_to_rear_axle - p.wheel_centre_rear_x, 0.0, -p.cg_above_pivots)}
        linkage = self._linkage.prepare(p, origins["front"])
        masses = {"front": 0.5 * (p.unsprung_mass_front - linkage.mass), "rear": 0.5 * p.unsprung_mass_rear}
        axial = p.wheel_inertia - p.axle_inertia
        corners = []
        for axle, origin in origins.items():
            for left in (True, False):
                at = self._suspension.prepare(p, axle, left, origin)
                # The unsprung mass without arms and upright is the wheel's.
                wheel = masses[axle] - at.lower_arm_mass - at.upper_arm_mass - at.upright_mass
                corners.append(Record(
                    front=axle == "front", side=1.0 if left else -1.0, suspension=at, strut=self._struts.prepare(p, axle, left, origin),
                    carrier=self._suspension.carrier(at, wheel, Vector(p.wheel_transverse_inertia, axial, p.wheel_transverse_inertia)),
                    brake=getattr(p, f"brake_torque_{axle}"), stiffness=getattr(p, f"tyre_vertical_stiffness_{axle}"),
                    damping=getattr(p, f"tyre_vertical_damping_{axle}")))
        return Record(corners=corners, linkage=linkage, mass=p.sprung_mass, radius=p.wheel_radius, spin_inertia=p.wheel_inertia,
                      axial=axial, inertia=Vector(p.roll_inertia, p.pitch_inertia, p.yaw_inertia), tyre=self._tyre.prepare(p),
                      powertrain=self._powertrain.prepare(p), ground=self._footing.prepare(p), reaction=p.driveline_roll_reaction)

    # -- Kinematics -----------------------------------------------------------------------------------------------------------------
    def pose(self, x: Record, at: Record, states: Record, q: Any) -> tuple[CornerPose, Shift]:
        """Returns the pose of a corner from its prepared terms and the states of its wheel."""
        still = Shift(ZERO, ZERO, ZERO)
        shift = self._linkage.shift(x.link_displacement, q.linkage) if at.front else still
        return self._suspension.pose(at.suspension, self._m.cos(states.arm_angle), self._m.sin(states.arm_angle), shift.displacement), shift

    def corners(self, x: Record, q: Any) -> list[Corner]:
        """Returns the corners from the front, left before right."""
        found = []
        for at, states in zip(q.corners, x.wheels, strict=True):
            pose, shift = self.pose(x, at, states, q)
            by_angle, by_steering = self._suspension.rates(at.suspension, pose, shift.slope)
            found.append(Corner(pose, shift, by_angle, by_steering, together(by_angle, by_steering, states.arm_rate, x.link_rate)))
        return found

    def reach(self, x: Record, u: Record, q: Any) -> list[Scalar]:
        """Returns the distance of each corner from the end of its linkage's reach, 1 to 0; negative: out of reach, without a pose."""
        return [self._m.fmin(*self.pose(x, at, states, q)[0].reach) for at, states in zip(q.corners, x.wheels, strict=True)]

    def stance(self, x: Record, u: Record, q: Any) -> Stance:
        return self._stance(x, u, q, Attitude.of(self._m, x), [self.pose(x, at, states, q)[0] for at, states in zip(q.corners, x.wheels)])

    def _stance(self, x: Record, u: Record, q: Any, attitude: Attitude, poses: list[CornerPose]) -> Stance:
        places = [attitude.axes.out(pose.wheel) for pose in poses]
        return self._footing.stance(x, u, q.ground, [(place.x, place.y) for place in places])

    # -- Wheels on the ground (1-3) -------------------------------------------------------------------------------------------------
    def wheel_contact(self, x: Record, at: Record, corner: Corner, patch: Patch, attitude: Attitude, q: Any) -> WheelContact:
        m, pose = self._m, corner.pose
        c, s = m.cos(x.yaw), m.sin(x.yaw)
        ahead, left = patch.slope_x * c + patch.slope_y * s, patch.slope_y * c - patch.slope_x * s
        per = 1.0 / m.sqrt(1.0 + ahead * ahead + left * left)
        normal = attitude.axes.into(Vector(-ahead * per, -left * per, per))
        height = (x.z + attitude.up.dot(pose.wheel) - patch.height) * per
        foot = touch(m, pose.axis, normal, height)
        point = pose.wheel + foot.arm
        velocity = (Vector(x.vx, x.vy, x.vz) + Vector(x.roll_rate, x.pitch_rate, x.yaw_rate).cross(point)
                    + corner.motion.on_upright(pose, point))
        compression = q.radius - foot.radius
        damped = m.where(compression > 0.0, -at.damping * foot.per_camber * velocity.dot(normal), 0.0)
        return WheelContact(foot.along, normal.cross(foot.along), normal, point, velocity, m.fmin(foot.radius, q.radius),
                            (at.stiffness * compression + damped) * foot.per_camber, m.atan(foot.lean * foot.per_camber))

    def wheel_loads(self, x: Record, u: Record, q: Any) -> list[Scalar]:
        attitude, corners = Attitude.of(self._m, x), self.corners(x, q)
        stance = self._stance(x, u, q, attitude, [corner.pose for corner in corners])
        return [self.wheel_contact(x, at, corner, patch, attitude, q).load
                for at, corner, patch in zip(q.corners, corners, stance.patches, strict=True)]

    # -- Accelerations --------------------------------------------------------------------------------------------------------------
    def dynamics(self, x: Record, u: Record, q: Any, h: Scalar) -> Dynamics:
        v, w = Vector(x.vx, x.vy, x.vz), Vector(x.roll_rate, x.pitch_rate, x.yaw_rate)
        attitude, corners = Attitude.of(self._m, x), self.corners(x, q)
        stance = self._stance(x, u, q, attitude, [corner.pose for corner in corners])
        base = w.cross(v) + attitude.up * self.gravity
        drives, driving = self._powertrain.drive([states.omega for states in x.wheels], x.vx, u.throttle, x, q.powertrain)

        whole = System(STEERING + 1)
        whole.carry(Body(q.mass, ZERO, principal(q.inertia, Basis(X, Y, Z))), {}, w, base)
        for body, column in self._linkage.bodies(x.link_displacement, x.link_rate, q.linkage):
            whole.carry(body, {STEERING: column}, w, base)
        commanded = self._linkage.commanded(u.steering, q.linkage)
        whole.b[STEERING] += q.linkage.stiffness * (commanded - x.link_displacement) - q.linkage.damping * x.link_rate
        for i, force in enumerate((*stance.wind, 0.0, q.reaction * sum(drives))):
            whole.b[i] += force

        taken = []
        for at, states, corner, patch, drive in zip(q.corners, x.wheels, corners, stance.patches, drives, strict=True):
            system = self._corner(x, at, states, corner, drive, w, base, q)
            wheel, contact, columns = self._tyre_on(system, x, at, states, corner, patch, attitude, q, h)
            spin = self._spin(system, contact, states.omega, u.brake * at.brake, h)
            angle = system.eliminate()
            whole.absorb(system)
            taken.append((wheel, contact, columns, spin, angle))

        accelerations = whole.solve()
        changes, forces = [], []
        for wheel, contact, columns, spin, angle in taken:
            corner_accelerations = [angle.acceleration_after(accelerations)]
            corner_accelerations.append(spin.acceleration_after([*accelerations, *corner_accelerations]))
            late = [h * sum(c * a for c, a in zip(column, [*accelerations, *corner_accelerations])) for column in columns]
            forces.append(TyreForce(contact.fx - contact.kx * late[0], contact.fy - contact.ky * late[1], wheel.load))
            changes.append(Record(omega=corner_accelerations[1], arm_rate=corner_accelerations[0], **contact.changes))
        vx, vy, vz, roll, pitch, yaw, link = accelerations
        proper = Vector(vx, vy, vz) + base
        return Dynamics(Record(vx=vx, vy=vy, vz=vz, roll_rate=roll, pitch_rate=pitch, yaw_rate=yaw, link_rate=link, ax=proper.x,
                               ay=proper.y, wheels=changes, **driving), forces)

    def _corner(self, x: Record, at: Record, states: Record, corner: Corner, drive: Scalar, w: Vector, base: Vector, q: Any) -> System:
        """Assembles a corner's bodies, strut and drive."""
        pose, shift, motion = corner.pose, corner.shift, corner.motion
        bias = self._suspension.accelerations(at.suspension, pose, motion, shift.slope * x.link_rate,
                                              shift.curvature * (x.link_rate * x.link_rate))
        system = System(SPIN + 1)
        for body, columns in self._suspension.bodies(at.suspension, at.carrier, pose, corner.by_angle, corner.by_steering, motion, bias,
                                                     pose.axis * (q.axial * states.omega)):
            system.carry(body, columns, w, base)
        # The wheel as a rotor on the upright.
        followed = (corner.by_steering.upright.dot(pose.axis), corner.by_angle.upright.dot(pose.axis))
        for i, share in enumerate((*pose.axis.components, *followed)):
            system.add(SPIN, 3 + i, q.axial * share)
        system.add(SPIN, SPIN, q.spin_inertia)
        system.b[SPIN] += drive - q.axial * pose.axis.dot(w.cross(motion.upright) + bias.upright)
        for i, share in zip((STEERING, ANGLE), followed):
            system.b[i] += drive * share
        strut = self._struts.strut(at.strut, at.suspension, self._m.cos(states.arm_angle), self._m.sin(states.arm_angle))
        system.b[ANGLE] += self._struts.force(at.strut, strut, states.arm_rate)
        return system

    def _tyre_on(self, system: System, x: Record, at: Record, states: Record, corner: Corner, patch: Patch, attitude: Attitude, q: Any,
                 h: Scalar) -> tuple[Wheel, Contact, list[list[Scalar]]]:
        """Applies the tyre's forces on a corner (4, 5): what it met, what it does, and the columns J_x and J_y."""
        foot = self.wheel_contact(x, at, corner, patch, attitude, q)

        def columns(direction: Vector, spin: Scalar) -> list[Scalar]:
            return [*direction.components, *foot.point.cross(direction).components,
                    corner.by_steering.on_upright(corner.pose, foot.point).dot(direction),
                    corner.by_angle.on_upright(corner.pose, foot.point).dot(direction), spin]

        wheel = Wheel(at.front, foot.velocity.dot(foot.along), foot.velocity.dot(foot.across), 1.0, 0.0, states.omega,
                      self._m.fmax(foot.load, 0.0), foot.radius, states, patch, inclination=foot.inclination, side=at.side)
        contact = self._tyre.forces(q.tyre, wheel)
        along, across = columns(foot.along, -foot.radius), columns(foot.across, 0.0)
        for direction, force in ((along, contact.fx), (across, contact.fy), (columns(foot.normal, 0.0), wheel.load)):
            system.push(direction, force)
        for axis, moment in ((foot.along, contact.mx), (foot.normal, contact.mz)):
            system.push([0.0, 0.0, 0.0, *axis.components, corner.by_steering.upright.dot(axis), corner.by_angle.upright.dot(axis), 0.0],
                        moment)
        if self._tyre.implicit:
            system.resist(along, h * contact.kx)
            system.resist(across, h * contact.ky)
        return wheel, contact, [along, across]

    def _spin(self, system: System, contact: Contact, omega: Scalar, brake: Scalar, h: Scalar) -> Eliminated:
        """Takes the wheel's spin out; brake and rolling resistance are dry friction, solved within the step as in `chassis.spin`."""
        where, fmax, fmin = self._m.where, self._m.fmax, self._m.fmin
        inertia, free = system.a[-1][-1], system.b[-1] + contact.my
        capacity = brake + contact.friction
        to_stop = inertia * omega / fmax(h, chassis.FRICTION_TIME * where(h > 0.0, 0.0, 1.0)) + free
        stuck = self._m.fabs(to_stop) < capacity
        # A stuck wheel does not follow the others.
        return system.eliminate_as((free - fmin(fmax(to_stop, -capacity), capacity)) / inertia, where(stuck, 0.0, 1.0 / inertia))

    # -- Positions from velocities ----------------------------------------------------------------------------------------------------
    def motion(self, x: Record, u: Record, q: Any) -> Record:
        m = self._m
        along = Attitude.of(m, x).axes.out(Vector(x.vx, x.vy, x.vz))
        c, s = m.cos(x.yaw), m.sin(x.yaw)
        across = x.pitch_rate * m.sin(x.roll) + x.yaw_rate * m.cos(x.roll)
        yaw = across / m.cos(x.pitch)
        return Record(x=along.x * c - along.y * s, y=along.x * s + along.y * c, z=along.z, yaw=yaw, roll=x.roll_rate + yaw * m.sin(x.pitch),
                      pitch=x.pitch_rate * m.cos(x.roll) - x.yaw_rate * m.sin(x.roll), link_displacement=x.link_rate,
                      wheels=[Record(arm_angle=states.arm_rate) for states in x.wheels])

    def report(self, x: Record, u: Record, q: Any) -> tuple[Scalar, Scalar, Scalar]:
        gear, speed = self._powertrain.report([states.omega for states in x.wheels], x, q.powertrain)
        axes = [self.pose(x, at, states, q)[0].axis for at, states in zip(q.corners, x.wheels) if at.front]
        return gear, speed, sum(self._m.atan2(-axis.x, axis.y) for axis in axes) / len(axes)
