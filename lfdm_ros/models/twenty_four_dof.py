"""24-DOF: a sprung mass in six degrees of freedom on four struts, each with an unsprung mass (Shim & Ghike 2007; paper 003).

Paper 003 prints no equations; these are Shim & Ghike's, numbered here for the blocks below. A corner at (px, py) has a strut of length
l, an unsprung mass mu and a tyre of radius R under load Fz; u, v, w and p, q, r are velocities and rates of the body in its axes, ' is a
rate of change there, phi is roll, theta pitch, psi yaw:

    (1) us = u - py r,  vs = v + px r,  ws = w + py p - px q                        top of the strut
    (2) uu = us - l q,  vu = vs + l p                                               unsprung mass; wu is a state
    (3) uu' = us' + xs' q - l q',  vu' = vs' - xs' p + l p',  xs' = wu - ws         xs: deflection of the strut, l = l0 - xs
    (4) R = (r0 - xt) / (cos theta cos phi),  Fz = kt xt where that is above 0      xt: compression of the tyre
    (5) ug = cos theta (uu - q R) + sin theta (wu cos phi + sin phi (vu + p R)),  vg = cos phi (vu + p R) - wu sin phi
    (6) xt' = uu sin theta - cos theta (wu cos phi + vu sin phi)
    (7) Fxb = Fx cos theta - Fz sin theta,  Fyb = Fx sin phi sin theta + Fy cos phi + Fz sin phi cos theta
    (8) Fxs = Fxb + mu (g sin theta - uu' + r vu - q wu),  Fys = Fyb - mu (g sin phi cos theta + vu' - p wu + r uu)
    (9) Fzs = ks xs + bs xs'
    (10) Fd = (sum over the axle of (Fyb R + Fys l) - hrc sum Fys) / c              jacking: + right, - left strut; c: track
    (11) mu wu' = cos phi (cos theta (Fz - mu g) + sin theta Fx) - sin phi Fy - Fzs - (+-Fd) - mu (vu p - uu q)
    (12) m (u' - r v + q w) = sum Fxs + m g sin theta,  m (v' - p w + r u) = sum Fys - m g sin phi cos theta,
         m (w' - q u + p v) = sum Fzs - m g cos phi cos theta
    (13) Jx p' = sum hrc Fys + sum (Fzs left - right) c/2,  Jy q' = sum b Fzs rear - sum a Fzs front - sum (Fxb R + Fxs l),
         Jz r' = sum a Fys front - sum b Fys rear + sum (Fxs right - left) c/2
    (14) psi' cos theta = q sin phi + r cos phi,  theta' = q cos phi - r sin phi,  phi' = p + psi' sin theta

Deflections of struts and tyres are measured from the static ones, in which the static forces cancel, so that a vehicle at rest is exactly
at rest. The accelerations in (3) are those of the last step. Slopes of the ground and wind come on top (`lfdm_ros.models.ground`).
"""

from collections.abc import Sequence
from typing import Any

from lfdm_ros.models import chassis
from lfdm_ros.models.declaration import Field, per_wheel
from lfdm_ros.models.equations import Dynamics, Ground, Operations, Patch, Powertrain, Record, Scalar, Steering, Tyre, TyreForce, Wheel
from lfdm_ros.models.ground import Footing, Stance

_CG_HEIGHT = Field("cg_height", "m", "height of the sprung mass's centre above ground", "h", 0.0, 5.0, True)

STATES = (
    *chassis.PLANE,
    *chassis.TILT,
    *chassis.TWIST,
    *per_wheel("omega", "rad/s", "wheel speed", "omega"),
    *chassis.ACCELERATION,
    Field("roll_acceleration", "rad/s^2", "roll acceleration of the last step", role="held"),
    Field("pitch_acceleration", "rad/s^2", "pitch acceleration of the last step", role="held"),
    Field("yaw_acceleration", "rad/s^2", "yaw acceleration of the last step", role="held"),
    *per_wheel("strut_deflection", "m", "compression of the strut from the static one"),
    *per_wheel("unsprung_velocity", "m/s", "vertical velocity of the unsprung mass, body-fixed"),
    *per_wheel("tyre_compression", "m", "vertical compression of the tyre from the static one"),
)
PARAMETERS = (
    *chassis.BODY, _CG_HEIGHT, *chassis.ROLL, *chassis.WHEELS_AND_BRAKES, chassis.DRIVELINE_ROLL,
    chassis.PITCH_INERTIA,
    Field("suspension_stiffness_front", "N/m", "stiffness of one front strut", "ksf", 0.0, 1e8, True),
    Field("suspension_stiffness_rear", "N/m", "stiffness of one rear strut", "ksr", 0.0, 1e8, True),
    Field("suspension_damping_front", "N*s/m", "damping of one front strut", "bsf", 0.0, 1e7),
    Field("suspension_damping_rear", "N*s/m", "damping of one rear strut", "bsr", 0.0, 1e7),
)


class Incline:
    """The ground under one wheel, in level axes turned by the yaw angle; symbols as in `lfdm_ros.models.ground.Stance`."""

    def __init__(self, m: Operations, yaw: Scalar, patch: Patch):
        c, s = m.cos(yaw), m.sin(yaw)
        self.height = patch.height
        self._p, self._r = patch.slope_x * c + patch.slope_y * s, patch.slope_y * c - patch.slope_x * s
        self._per_p = 1.0 / m.sqrt(1.0 + self._p * self._p)
        self.normal = 1.0 / m.sqrt(1.0 + self._p * self._p + self._r * self._r)
        self._skew = -self._p * self._r * self.normal * self._per_p
        self._across = self.normal / self._per_p

    def upright(self, sin_p: Scalar, cos_p: Scalar, sin_t: Scalar, cos_t: Scalar) -> Scalar:
        """Returns the cosine between the normal and the body's upward axis, by roll and pitch."""
        return self.normal * (cos_p * cos_t + (self._r * sin_p - self._p * (sin_t * cos_p)))

    def inclination(self, tilt: Record, cos_d: Scalar, sin_d: Scalar, m: Operations) -> Scalar:
        """Returns the inclination of a wheel that follows the body and is steered [rad], + top to the right."""
        left = tilt.sin_p * (self._p * -tilt.sin_t + tilt.cos_t) - self._r * tilt.cos_p
        lean = self.normal * (cos_d * left + sin_d * (self._p * tilt.cos_t + tilt.sin_t))
        return m.atan(lean / m.sqrt(1.0 - lean * lean))

    def velocity(self, ahead: Scalar, left: Scalar, up: Scalar) -> tuple[Scalar, Scalar]:
        """Returns the velocity along e_x and e_y of the ground."""
        return (ahead + self._p * up) * self._per_p, self._skew * ahead + self._across * left + self._r * self.normal * self._per_p * up

    def force(self, fx: Scalar, fy: Scalar, fz: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """Returns the force ahead, to the left and up, from those along e_x, e_y and the normal."""
        return (self._per_p * fx + self._skew * fy - self._p * self.normal * fz, self._across * fy - self._r * self.normal * fz,
                self._p * self._per_p * fx + self._r * self.normal * self._per_p * fy + self.normal * fz)


class TwentyFourDof:
    """The equations with some parts; see `lfdm_ros.models.equations.Equations`.

    Axes of the velocities are the body's. Angles are Cardan's: yaw about the vertical, then pitch, then roll.
    """

    input_time, mean_motion = 0.5, False
    gravity = chassis.GRAVITY
    spin = staticmethod(chassis.spin)

    def __init__(self, m: Operations, tyre: Tyre, powertrain: Powertrain, steering: Steering, ground: Ground):
        self._m, self._tyre, self._powertrain, self._steering, self._footing = m, tyre, powertrain, steering, Footing(m, ground)
        self.motions = (self.turning, self.travelling)

    def prepare(self, p: Any) -> Any:
        a, b, gravity = p.cg_to_front_axle, p.cg_to_rear_axle, self.gravity
        # For one wheel: unsprung mass, load of the spring and of the tyre at rest.
        masses = (0.5 * p.unsprung_mass_front, 0.5 * p.unsprung_mass_rear)
        springs = (0.5 * p.sprung_mass * gravity * b / (a + b), 0.5 * p.sprung_mass * gravity * a / (a + b))
        loads = [spring + gravity * mass for spring, mass in zip(springs, masses)]
        stiffness = (p.tyre_vertical_stiffness_front, p.tyre_vertical_stiffness_rear)
        compressions = [load / k for load, k in zip(loads, stiffness)]
        return Record(
            a=a, b=b, halves=(0.5 * p.track_front, 0.5 * p.track_rear), masses=masses, springs=springs, loads=loads,
            tyre_stiffness=stiffness, compressions=compressions, radius=p.wheel_radius,
            lengths=[p.cg_height - (p.wheel_radius - c) for c in compressions],
            stiffness=(p.suspension_stiffness_front, p.suspension_stiffness_rear),
            damping=(p.suspension_damping_front, p.suspension_damping_rear),
            drops=(p.roll_centre_drop_front, p.roll_centre_drop_rear), inertia=p.wheel_inertia,
            brakes=(p.brake_torque_front, p.brake_torque_rear), sprung=p.sprung_mass,
            inertias=(p.roll_inertia, p.pitch_inertia, p.yaw_inertia),
            reaction=p.driveline_roll_reaction,
            tyre=self._tyre.prepare(p), powertrain=self._powertrain.prepare(p), steering=self._steering.prepare(p),
            ground=self._footing.prepare(p))

    # -- Instantaneous quantities ---------------------------------------------------------------------------------
    def strut_rate(self, states: Record, rate: Scalar) -> Scalar:
        """Returns the compression rate of the strut in its damper below and in the inertia forces [m/s]."""
        return rate

    def contact_arm(self, states: Record, radius: Scalar) -> Scalar:
        """Returns the distance of the contact patch from the wheel's centre, in its velocity [m]."""
        return radius

    def jacking(self, x: Record, forces: Sequence[Scalar]) -> Sequence[Scalar]:
        """Returns the jacking forces of the axles on the unsprung masses [N]."""
        return forces

    def cross_slope(self, wheel: int, sin_p: Scalar, cos_t: Scalar) -> Scalar:
        """Returns the share of its weight that acts on an unsprung mass laterally."""
        return sin_p * cos_t

    # -- Loads (4): the tyre is a spring that only pushes --------------------------------------------------------------------------
    def stance(self, x: Record, u: Record, q: Any) -> Stance:
        return self._footing.stance(x, u, q.ground, [(q.a if i < 2 else -q.b, q.halves[i // 2] * (1.0 - 2.0 * (i % 2))) for i in range(4)])

    def compression(self, states: Record, axle: int, incline: Incline, q: Any) -> Scalar:
        """Returns the compression of a tyre across the ground, from that at rest on level ground of height 0 [m]."""
        lower = states.tyre_compression + incline.height
        return lower * incline.normal + (q.radius - q.compressions[axle]) * (1.0 - incline.normal)

    def free_deviations(self, x: Record, inclines: Sequence[Incline], q: Any) -> list[Scalar]:
        """Returns the load of each wheel less that at rest, were the tyre to pull too [N]."""
        return [q.tyre_stiffness[i // 2] * self.compression(state, i // 2, at, q) for i, (state, at) in enumerate(zip(x.wheels, inclines))]

    def deviations(self, x: Record, inclines: Sequence[Incline], q: Any) -> list[Scalar]:
        """Returns the same down to no load at all [N]."""
        free = self.free_deviations(x, inclines, q)
        return [self._m.where(q.loads[i // 2] + dev > 0.0, dev, -q.loads[i // 2]) for i, dev in enumerate(free)]

    def wheel_loads(self, x: Record, u: Record, q: Any) -> list[Scalar]:
        # Extrapolated force of the tyre's spring after lift-off.
        inclines = [Incline(self._m, x.yaw, patch) for patch in self.stance(x, u, q).patches]
        return [q.loads[i // 2] + dev for i, dev in enumerate(self.free_deviations(x, inclines, q))]

    def dynamics(self, x: Record, u: Record, q: Any, h: Scalar) -> Dynamics:
        m = self._m
        tilt = Record(cos_p=m.cos(x.roll), sin_p=m.sin(x.roll), cos_t=m.cos(x.pitch), sin_t=m.sin(x.pitch))
        tilt = tilt.but(level=tilt.cos_p * tilt.cos_t)
        stance = self.stance(x, u, q)
        drives, driving = self._powertrain.drive([states.omega for states in x.wheels], x.vx, u.throttle, x, q.powertrain)
        corners = self.corners(x, u, stance, tilt, drives, q, h)
        forces = [(corner.wheel.fx, corner.contact.fy) for corner in corners]
        others = (*stance.wind, q.reaction * sum(drives))
        follow = [0.0] * len(corners)
        if self._tyre.implicit:
            free = self.balance(x, corners, forces, others, tilt, q)
            ending, following = self.at_the_end(corners, free, q, h)
            # Where no tyre is stiff the system is not solved: it is jumped over.
            stiff = corners[0].contact.stiff > 0.0
            forces = [(m.where(stiff, late_x, fx), m.where(stiff, late_y, fy)) for (late_x, late_y), (fx, fy) in zip(ending, forces)]
            follow = [m.where(stiff, along, 0.0) for along in following]
        forces = [self.carried(states, *force) for states, force in zip(x.wheels, forces)]
        body = self.balance(x, corners, forces, others, tilt, q)
        changes = Record(
            vx=body.vx, vy=body.vy, vz=body.az + x.pitch_rate * x.vx - x.roll_rate * x.vy, roll_rate=body.roll, pitch_rate=body.pitch,
            yaw_rate=body.yaw, ax=body.ax, ay=body.ay, roll_acceleration=body.roll, pitch_acceleration=body.pitch,
            yaw_acceleration=body.yaw,
            wheels=[Record(omega=c.wheel.acceleration + c.wheel.follow * along, strut_deflection=c.rate, unsprung_velocity=lift,
                           tyre_compression=c.compression_rate, **c.contact.changes)
                    for c, along, lift in zip(corners, follow, body.lifts)], **driving)

        def late(new: Record) -> Record:
            # The held accelerations are those of the velocity components; the rest is that of the velocities they now belong to.
            return Record(ax=body.vx - new.yaw_rate * new.vy + new.pitch_rate * new.vz,
                          ay=body.vy - new.roll_rate * new.vz + new.yaw_rate * new.vx)

        reported = [TyreForce(*force, corner.fz) for force, corner in zip(forces, corners)]
        return self.completed(Dynamics(changes, reported, late), corners, body.jacking)

    # -- A corner (1-6): its kinematics, its tyre before the step, its wheel ----------------------------------------------------------
    def corners(self, x: Record, u: Record, stance: Stance, tilt: Record, drives: Sequence[Scalar], q: Any, h: Scalar) -> list[Record]:
        m, wx, wy, wz = self._m, x.roll_rate, x.pitch_rate, x.yaw_rate
        wx_dot, wy_dot, wz_dot = x.roll_acceleration, x.pitch_acceleration, x.yaw_acceleration
        ud, vd = x.ax + wz * x.vy - wy * x.vz, x.ay + wx * x.vz - wz * x.vx
        inclines = [Incline(m, x.yaw, patch) for patch in stance.patches]
        deviations = self.deviations(x, inclines, q)
        delta = self._steering.angle(u.steering, q.steering)
        cos_d, sin_d = m.cos(delta), m.sin(delta)
        brakes = [u.brake * q.brakes[i // 2] for i in range(len(x.wheels))]
        holds, any_locked = chassis.locked(m, [states.omega for states in x.wheels], drives, brakes)
        corners = []
        for i, states in enumerate(x.wheels):
            axle, left = i // 2, i % 2 == 0
            front = axle == 0
            px, py = q.a if front else -q.b, q.halves[axle] if left else -q.halves[axle]
            length = q.lengths[axle] - states.strut_deflection
            # Velocity of the strut's top, of the unsprung mass below it, and its acceleration (1-3).
            us, vs, ws = x.vx - py * wz, x.vy + px * wz, py * wx - px * wy + x.vz
            uu, vu, wu = us - length * wy, vs + length * wx, states.unsprung_velocity
            rate = wu - ws
            late_rate = self.strut_rate(states, rate)

            # Tyre: load and radius (4), velocity of the contact patch, turned by pitch and roll into the ground's plane (5, 6).
            fz = q.loads[axle] + deviations[i]
            at = inclines[i]
            radius = self.loaded_radius(states, axle, at.upright(tilt.sin_p, tilt.cos_p, tilt.sin_t, tilt.cos_t), at, q)
            arm = self.contact_arm(states, radius)
            vgx = tilt.cos_t * (uu - wy * arm) + tilt.sin_t * (wu * tilt.cos_p + tilt.sin_p * (wx * arm + vu))
            vgy = tilt.cos_p * (vu + wx * arm) - wu * tilt.sin_p
            compression_rate = uu * tilt.sin_t - tilt.cos_t * (wu * tilt.cos_p + vu * tilt.sin_p)  # minus the wheel's vertical velocity
            c, s = (cos_d, sin_d) if front else (1.0, 0.0)
            vgx, vgy = at.velocity(vgx, vgy, -compression_rate)
            contact = self._tyre.forces(q.tyre, Wheel(front, vgx, vgy, c, s, states.omega, fz, radius, states, stance.patches[i],
                                                      holds[i], any_locked, at.inclination(tilt, c, s, m), 1.0 if left else -1.0))
            wheel = self.spin(m, contact, states.omega, radius, q.inertia, drives[i], brakes[i], h)
            corners.append(Record(
                axle=axle, px=px, py=py, c=c, s=s, mass=q.masses[axle], length=length, radius=radius, fz=fz, deviation=deviations[i],
                incline=at, contact=contact, wheel=wheel, rate=rate, late_rate=late_rate, compression_rate=compression_rate,
                uu=uu, vu=vu, wu=wu, uu_dot=ud - py * wz_dot + late_rate * wy - length * wy_dot,
                vu_dot=vd + px * wz_dot - late_rate * wx + length * wx_dot, spring=q.stiffness[axle] * states.strut_deflection))
        return corners

    # -- Effect of the tyre forces on the vehicle (7-13) --------------------------------------------------------------------------
    def balance(self, x: Record, corners: Sequence[Record], forces: Sequence[tuple[Scalar, Scalar]], others: tuple[Scalar, Scalar, Scalar],
                tilt: Record, q: Any) -> Record:
        """Accelerations; forces: of each tyre along and across; others: wind ahead and to the left [N], moment of roll [N m].

        vx, vy: of the velocities' components; ax, ay, az: proper; roll, pitch, yaw: of the rates; lifts: of the unsprung masses along the
        struts; jacking: of each axle [N].
        """
        wx, wy, wz = x.roll_rate, x.pitch_rate, x.yaw_rate
        gravity, cos_p, sin_p, cos_t, sin_t, level = self.gravity, tilt.cos_p, tilt.sin_p, tilt.cos_t, tilt.sin_t, tilt.level
        handed = []
        for i, (at, (fx_tyre, fy_tyre)) in enumerate(zip(corners, forces, strict=True)):
            # Force of the ground: ahead, to the left, up; then in the body's axes (7).
            fx, fy, up = at.incline.force(fx_tyre * at.c - fy_tyre * at.s, fx_tyre * at.s + fy_tyre * at.c, at.fz)
            fxg = fx * cos_t - up * sin_t
            fyg = fx * sin_p * sin_t + fy * cos_p + up * sin_p * cos_t
            # Newton for the unsprung mass, longitudinal and lateral: the strut's force on the sprung mass (8); vertical forces (9), from
            # the static load.
            fxs = fxg + at.mass * (gravity * sin_t - at.uu_dot + wz * at.vu - wy * at.wu)
            fys = fyg + at.mass * (-gravity * self.cross_slope(i, sin_p, cos_t) - at.vu_dot + wx * at.wu - wz * at.uu)
            # Its moments: about the ground's axes, then about the body's.
            mx, my, mz = at.incline.force(at.contact.mx * at.c, at.contact.mx * at.s, at.contact.mz)
            damping = q.damping[at.axle]
            handed.append(Record(
                fxs=fxs, fys=fys, vertical=at.spring + damping * at.rate,
                roll_arm=fyg * at.radius + fys * at.length + (mx * cos_t - mz * sin_t),
                my=-(fxg * at.radius + fxs * at.length), mz=mx * cos_p * sin_t - my * sin_p + mz * level,
                # Newton for the unsprung mass along the strut (11, the jacking follows): tyre, spring and weight; static loads cancel.
                lift=(level * (at.deviation + (up - at.fz)) - q.springs[at.axle] * (1.0 - level) + cos_p * sin_t * fx - sin_p * fy
                      - at.spring - damping * at.late_rate) / at.mass - (at.vu * wx - at.uu * wy)))

        # Jacking (10): roll moment of an axle's forces about its roll centre, as a pair of vertical forces of the struts.
        jacking = []  # on the right wheel's strut, the left one's is its negative
        for axle in range(2):
            of_left, of_right = handed[2 * axle:2 * axle + 2]
            jacking.append((of_right.roll_arm + of_left.roll_arm - (of_right.fys + of_left.fys) * q.drops[axle]) / (2.0 * q.halves[axle]))
        lifts = []
        for i, (at, states, force) in enumerate(zip(corners, handed, [force for force in self.jacking(x, jacking) for _ in range(2)])):
            side = force / at.mass
            lifts.append(states.lift + side if i % 2 == 0 else states.lift - side)

        # Newton (12) and Euler (13) for the sprung mass: proper accelerations along its axes, and angular ones.
        fl, fr, rl, rr = handed
        jx, jy, jz = q.inertias
        wind_x, wind_y, roll_moment = others
        ax = (sum(one.fxs for one in handed) + wind_x) / q.sprung + gravity * sin_t
        ay = (sum(one.fys for one in handed) + wind_y) / q.sprung - gravity * sin_p * cos_t
        return Record(
            ax=ax, ay=ay, az=sum(one.vertical for one in handed) / q.sprung + gravity * (1.0 - level),
            vx=ax + wz * x.vy - wy * x.vz, vy=ay + wx * x.vz - wz * x.vx,
            roll=((fl.fys + fr.fys) * q.drops[0] + (rl.fys + rr.fys) * q.drops[1] + (fl.vertical - fr.vertical) * q.halves[0]
                  + (rl.vertical - rr.vertical) * q.halves[1] + roll_moment) / jx,
            pitch=(sum(one.my for one in handed) + (rl.vertical + rr.vertical) * q.b - (fl.vertical + fr.vertical) * q.a) / jy,
            yaw=((fl.fys + fr.fys) * q.a - (rl.fys + rr.fys) * q.b + (fr.fxs - fl.fxs) * q.halves[0]
                 + (rr.fxs - rl.fxs) * q.halves[1] + sum(one.mz for one in handed)) / jz,
            lifts=lifts, jacking=jacking)

    # -- Tyres that are stiff in their slip (15, 16) ----------------------------------------------------------------------------------
    def at_the_end(self, corners: Sequence[Record], free: Record, q: Any, h: Scalar) -> tuple[list[tuple[Scalar, Scalar]], list[Scalar]]:
        """Returns the forces of the tyres at the end of the step, and accelerations along of their contact patches; free: of those at its
        start."""
        inertias = (q.sprung, q.sprung, *q.inertias)
        rows = [[mass if i == k else 0.0 for k in range(5)] for i, mass in enumerate(inertias)]
        right = [mass * value for mass, value in zip(inertias, (free.vx, free.vy, free.roll, free.pitch, free.yaw))]
        patches = []
        for at in corners:
            c, s, below, drop = at.c, at.s, at.length + at.radius, q.drops[at.axle]
            along = [c, s, s * below, -c * below, s * at.px - c * at.py]
            across = [-s, c, c * below, s * below, c * at.px + s * at.py]
            for motion, slope in ((along, h * at.wheel.kx), (across, h * at.contact.ky)):
                # The roll moment at the roll centre acts on the body; the rest on the unsprung masses (10).
                moments = [*motion[:2], motion[1] * drop, *motion[3:]]
                rows = [[value + slope * moment * one for value, one in zip(row, motion)] for row, moment in zip(rows, moments)]
            patches.append((along, across))
        accelerations = chassis.solve(rows, right)
        forces, follow = [], []
        for at, patch in zip(corners, patches):
            along, across = (sum(one * value for one, value in zip(motion, accelerations)) for motion in patch)
            forces.append((at.wheel.fx - h * at.wheel.kx * along, at.contact.fy - h * at.contact.ky * across))
            follow.append(along)
        return forces, follow

    def loaded_radius(self, states: Record, axle: int, upright: Scalar, incline: Incline, q: Any) -> Scalar:
        """Returns the distance of the wheel's centre from the ground along the wheel, which is so `upright` on it [m]."""
        return (q.radius - self._m.fmax(self.compression(states, axle, incline, q) + q.compressions[axle], 0.0)) / upright

    def carried(self, states: Record, fx: Scalar, fy: Scalar) -> tuple[Scalar, Scalar]:
        """Returns the part of a tyre's forces that acts."""
        return fx, fy

    def completed(self, dynamics: Dynamics, corners: Sequence[Record], jacking: Sequence[Scalar]) -> Dynamics:
        """Returns the result, extended by variants of the equations that store values between steps."""
        return dynamics

    # -- Positions from velocities: Cardan angles (14), place (004 eq 11) -------------------------------------------------------
    def turning(self, x: Record, u: Record, q: Any) -> Record:
        sin, cos = self._m.sin, self._m.cos
        across = x.pitch_rate * sin(x.roll) + x.yaw_rate * cos(x.roll)
        return Record(yaw=across / cos(x.pitch), roll=x.roll_rate + across * sin(x.pitch) / cos(x.pitch),
                      pitch=x.pitch_rate * cos(x.roll) - x.yaw_rate * sin(x.roll))

    def travelling(self, x: Record, u: Record, q: Any) -> Record:
        return self._footing.travel(x, self.stance(x, u, q))

    def report(self, x: Record, u: Record, q: Any) -> tuple[Scalar, Scalar, Scalar]:
        gear, speed = self._powertrain.report([states.omega for states in x.wheels], x, q.powertrain)
        return gear, speed, self._steering.angle(u.steering, q.steering)
