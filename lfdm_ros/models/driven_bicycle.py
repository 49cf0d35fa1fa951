"""The bicycle with drive, brakes and sliding tyres that an MPC predicts with: planar motion in steps of 1 to 75 ms.

Planar motion as in `nonlinear_bicycle` (paper 004, eqs 10 and 11), with the parameters of `eight_dof`, so that its vehicle files and
posteriors serve. It has no states of wheels, roll or tyres.

Along the vehicle
- There are no wheel speeds: they follow the vehicle's, on the radius of rest. Motor, brakes and rolling resistance make a force for each
  axle, less what spins its two wheels up; the wheels' inertia counts against these forces only, not in the drag of steered tyres.
- The motor turns faster by the slip that its force needs of the tyres (Fiala's law backwards): soft tyres cost power.
- The force of an axle is kept below the peak that the Fiala tyre reaches over the slip, with a rounded corner, as if wheels never locked
  or spun.
- Brakes and rolling resistance are dry friction, solved within the step together with everything else that acts (`chassis.spin` does the
  same for a wheel): a vehicle stops at exactly 0 and stays there; brakes never push it backwards.

Across: each axle is a Fiala tyre (`fiala`, paper 001) on the load of its axle, which follows the held longitudinal acceleration. Its limit
is what the longitudinal force leaves of the friction circle. Friction falls with the slip, along and across together.

Numerics. The tyres act as dampers on the velocities at the end of the step and yaw couples to them half-way, so that a step is of second
order where the tyres are not stiff. The damper of an axle goes from half the tangent of its force (z = 0) to the whole secant (z large),
z = h times its rate, so that a linear tyre decays by the Pade form (1 - z/3) / (1 + 2z/3 + z^2/6) of exp(-z). The tangent alone would
chatter where a tyre slides at low speed; the secant alone is of first order. Forces are in the friction circle at the beginning of a step;
over a long one in which the slip grows fast, the damper can leave it, by some tenths of a per cent in 50 ms.
"""

from collections.abc import Callable, Sequence
from typing import Any

from lfdm_ros.models import chassis, fiala, motor, roll_chassis, steering
from lfdm_ros.models.declaration import Chassis
from lfdm_ros.models.equations import Dynamics, Ground, Operations, Record, Scalar, TyreForce
from lfdm_ros.models.ground import Footing, Stance
from lfdm_ros.models.linear_single_track import STATES

# Share of the friction that stays across when an axle drives or brakes at its limit, and half the width of the rounded corner there.
LATERAL_SHARE, CORNER = 0.1, 0.05
_LONGITUDINAL_SHARE = (1.0 - LATERAL_SHARE * LATERAL_SHARE) ** 0.5

_UNUSED = ("roll_inertia", "roll_yaw_inertia", "roll_damping_front", "roll_damping_rear")
PARAMETERS = tuple({field.name: field for field in (
    *roll_chassis.PARAMETERS, *fiala.PARAMETERS, *motor.PARAMETERS, *steering.LINEAR.parameters) if field.name not in _UNUSED}.values())


class Axles:
    """Drive and loads of the axles, for models with the states of `driven_bicycle`."""

    def __init__(self, m: Operations, ground: Ground):
        self._m, self._motor, self.footing = m, motor.Motor(m), Footing(m, ground)

    def prepare(self, p: Any) -> Any:
        fmax = self._m.fmax
        static, transfer = chassis.static_loads(p), roll_chassis.load_terms(p)
        radii = [chassis.centre_height(p, load, stiffness)
                 for load, stiffness in zip(static, (p.tyre_vertical_stiffness_front, p.tyre_vertical_stiffness_rear))]
        # Steady turn: the roll angle for a unit of lateral acceleration, and with it the load from side to side.
        roll = transfer.lever / transfer.roll_stiffness
        mass = p.sprung_mass + p.unsprung_mass_front + p.unsprung_mass_rear
        inertias = [2.0 * p.wheel_inertia / (radius * radius) for radius in radii]
        return Record(
            a=p.cg_to_front_axle, b=p.cg_to_rear_axle, mass=mass, first=p.unsprung_mass_rear * p.cg_to_rear_axle
            - p.unsprung_mass_front * p.cg_to_front_axle, static=static, pitch=transfer.pitch,
            lateral=[lateral + spring * roll for lateral, spring in zip(transfer.lateral, transfer.springs)],
            turns=[1.0 / radius for radius in radii], inertias=inertias, rolling=[p.rolling_resistance / radius for radius in radii],
            brakes=[2.0 * torque / radius for torque, radius in zip((p.brake_torque_front, p.brake_torque_rear), radii)],
            softness=(0.5 / p.longitudinal_stiffness_front, 0.5 / p.longitudinal_stiffness_rear),
            lightness=1.0 / (mass + inertias[0] + inertias[1]), share=mass / (mass + inertias[0] + inertias[1]), mu_max=p.friction_max,
            wind_pitch=transfer.wind_pitch, wind_lateral=transfer.wind_lateral, ground=self.footing.prepare(p),
            # Friction that grows with the slip has no peak; assume it constant.
            mu_drop=fmax(p.friction_max - p.friction_min, 0.0), motor=self._motor.prepare(p))

    # -- Friction falls with the slip (001 eqs 13, 14) -------------------------------------------------------------------------
    def friction(self, slip: Scalar, scale: Scalar, q: Any) -> Scalar:
        # Never 0, which some are at full slip: the corner of the limit is a share of it.
        return self._m.fmax(scale * q.mu_max - scale * q.mu_drop * self._m.fmin(slip, 1.0), 1e-4)

    # -- Along the wheel: the Fiala tyre backwards (001 eqs 13, 15, 18) --------------------------------------------------------
    def grip(self, t: Scalar, load: Scalar, softness: Scalar, scale: Scalar, q: Any) -> tuple[Scalar, Callable[[Scalar], Scalar]]:
        """Returns the grip of an axle along the wheel at the lateral slip t: limit [N], and slip(force), the inverse of the Fiala tyre up
        to there.

        With mu = m0 - m1 s and k = load / 4 C, the sliding force over load is b - a s - c / s (001 eqs 13, 15, 18), where
        a = m1 (1 + k m1), b = m0 (1 + 2 k m1), c = k m0^2; it has its peak b - 2 root at s = root / a, root = sqrt(a c).
        """
        where, sqrt, fabs, fmin, fmax = self._m.where, self._m.sqrt, self._m.fabs, self._m.fmin, self._m.fmax
        m0, k = self.friction(fabs(t), scale, q), 0.25 * load * softness
        x = k * (scale * q.mu_drop)
        peak_term, root, rise = m0 * (1.0 + 2.0 * x) * load, m0 * sqrt(x * (1.0 + x) + 1e-24) * load, 2.0 * k * m0 * m0 * load
        limit, elastic = _LONGITUDINAL_SHARE * (peak_term - 2.0 * root), 0.5 * m0 * load / (1.0 + 2.0 * x)

        def slip(force: Scalar) -> Scalar:
            size = fabs(force)
            rest = peak_term - fmin(fmax(size, elastic), limit)
            far = fmin(rise / (rest + sqrt(rest * rest - 4.0 * root * root)), 1.0)
            return where(size > elastic, where(force < 0.0, -far, far), force * softness)

        return limit, slip

    def saturate(self, force: Scalar, limit: Scalar, sharpness: Scalar) -> Scalar:
        """Returns the force within its limit, with a rounded corner."""
        fmin, fmax = self._m.fmin, self._m.fmax
        width = CORNER * limit
        over, under = (fmin(fmax(part - (limit - width), 0.0), 2.0 * width) for part in (force, -force))
        return fmin(fmax(force, -limit - width), limit + width) - sharpness * (over * over - under * under)

    # -- Motor (000 section 3.3.1) at wheels that slip by `slips` --------------------------------------------------------------
    def drive(self, vx: Scalar, slips: Sequence[Scalar], throttle: Scalar, q: Any) -> list[Scalar]:
        """Returns the forces of the motor at the axles [N]."""
        floor = self._m.fmax(self._m.fabs(vx), fiala.SLIP_SPEED_FLOOR)
        torques, _ = self._motor.drive([(vx + s * floor) * turn for s, turn in zip(slips, q.turns)], vx, throttle, Record(), q.motor)
        return [torque * turn for torque, turn in zip(torques, q.turns)]

    # -- Drive and dry friction of both axles, within friction circles (001 eqs 11-19, by axle) --------------------------------
    def forces(self, vx: Scalar, slips: Sequence[Scalar], ax: Scalar, u: Record, stance: Stance,
               q: Any) -> list[tuple[Scalar, Scalar, Scalar]]:
        """Returns (drive, friction, lateral limit) [N] of the front and of the rear axle at the lateral slips tan(alpha).

        The longitudinal force is drive - share * friction with a share from -1 to 1 that the motion decides.
        """
        sqrt, fabs, fmax = self._m.sqrt, self._m.fabs, self._m.fmax
        pitch = q.pitch * ax - q.wind_pitch * stance.wind[0]
        loads = fmax(2.0 * (q.static[0] * stance.normal - pitch), 1.0), fmax(2.0 * (q.static[1] * stance.normal + pitch), 1.0)
        scales = [patch.friction for patch in stance.patches]
        (limit_f, slip_f), (limit_r, slip_r) = (self.grip(t, load, softness, scale, q)
                                                for t, load, softness, scale in zip(slips, loads, q.softness, scales))
        # Drive force and slip depend on each other through the motor's speed. Two evaluations, with the force linear in between.
        first = self.drive(vx, (0.0, 0.0), u.throttle, q)
        slip_1 = slip_f(first[0]), slip_r(first[1])
        second = self.drive(vx, slip_1, u.throttle, q)
        mean_1, mean_2 = slip_1[0] + slip_1[1], slip_f(second[0]) + slip_r(second[1])
        part = mean_1 * mean_1 / fmax(mean_1 * (2.0 * mean_1 - mean_2), 1e-12)
        drives = [before + part * (after - before) for before, after in zip(first, second)]

        # Drive forces less the wheels' inertia, at either end of the dry friction.
        holds = [rolling * load + u.brake * brake_torque for rolling, load, brake_torque in zip(q.rolling, loads, q.brakes)]
        limits = [(limit, 0.25 / (CORNER * limit)) for limit in (limit_f, limit_r)]
        ends = []
        for side in (-1.0, 1.0):
            totals = [force + side * hold for force, hold in zip(drives, holds)]
            rate = (totals[0] + totals[1]) * q.lightness
            ends.append([self.saturate(total - inertia * rate, *limit) for total, inertia, limit in zip(totals, q.inertias, limits)])
        result = []
        for low, high, t, load, slip, scale, patch in zip(*ends, slips, loads, (slip_f, slip_r), scales, stance.patches):
            worst = fmax(fabs(low), fabs(high))
            s = slip(worst)
            grip = self.friction(sqrt(s * s + t * t + 1e-24), scale, q) * load
            # The ground's resistance is not a wheel torque, and does not use the friction circle.
            result.append((0.5 * (low + high), 0.5 * (high - low) + q.share * (patch.resistance * load), sqrt(grip * grip - worst * worst)))
        return result

    # -- Wheels of the axles, by a steady turn's load transfer (000 eqs 10-13) -------------------------------------------------
    def stance(self, x: Record, u: Record, q: Any) -> Stance:
        return self.footing.stance(x, u, q.ground, [(q.a, 0.0), (-q.b, 0.0)])

    def wheel_loads(self, x: Record, stance: Stance, q: Any) -> tuple[Scalar, ...]:
        """Returns loads of the wheels [N], negative for a lifted wheel."""
        along, across = stance.wind
        pitch = q.pitch * x.ax - q.wind_pitch * along
        side_f, side_r = (lateral * x.ay - wind * across for lateral, wind in zip(q.lateral, q.wind_lateral))
        front, rear = q.static[0] * stance.normal - pitch, q.static[1] * stance.normal + pitch
        return front - side_f, front + side_f, rear - side_r, rear + side_r

    def split(self, x: Record, front: tuple[Scalar, Scalar], rear: tuple[Scalar, Scalar], stance: Stance, q: Any) -> list[TyreForce]:
        """Splits the forces of the wheels from those of the axles along and across, by their loads."""
        fz = [self._m.fmax(load, 0.0) for load in self.wheel_loads(x, stance, q)]
        shares = [f / self._m.fmax(fz[i & 2] + fz[i | 1], 1e-6) for i, f in enumerate(fz)]
        return [TyreForce(share * fx, share * fy, f) for share, f, (fx, fy) in zip(shares, fz, (front, front, rear, rear))]

    def report(self, vx: Scalar, q: Any) -> tuple[Scalar, Scalar]:
        """Returns gear and engine speed."""
        return self._motor.report([vx * turn for turn in q.turns], Record(), q.motor)


def friction_share(m: Operations, excess: Scalar, capacity: Scalar) -> tuple[Scalar, Scalar]:
    """Returns the share of the dry friction that acts (-1 to 1), and whether it stops the vehicle within the step.

    excess: deceleration required to stop within the step; capacity: deceleration by the full friction [m/s^2]. Without friction the share
    is still the sign of its side, which is the derivative by the brake at 0.
    """
    return m.fmin(m.fmax(excess / m.fmax(capacity, 1e-9), -1.0), 1.0), m.fabs(excess) < capacity


def stop_time(m: Operations, h: Scalar) -> Scalar:
    """Returns the time in which friction may stop the vehicle [s]: the step, or in continuous time that of a stiff damper."""
    return m.fmax(h, chassis.FRICTION_TIME * m.where(h > 0.0, 0.0, 1.0))


class DrivenBicycle:
    """The equations; see `lfdm_ros.models.equations.Equations`."""

    input_time, mean_motion = 0.5, True

    def __init__(self, m: Operations, ground: Ground):
        self._m, self._steering, self._axles = m, steering.LinearSteering(m), Axles(m, ground)
        self.motions = (self.turning, self.travelling)

    def prepare(self, p: Any) -> Any:
        a, b = p.cg_to_front_axle, p.cg_to_rear_axle
        q = self._axles.prepare(p)
        # In a turn the outer wheels are faster than the inner ones.
        wheels = 0.25 * (q.inertias[0] * p.track_front * p.track_front + q.inertias[1] * p.track_rear * p.track_rear)
        return Record(axles=q, steering=self._steering.prepare(p), yaw_inertia=p.yaw_inertia + wheels,
                      stiffness=(2.0 * p.cornering_stiffness_front, 2.0 * p.cornering_stiffness_rear),
                      # Acceleration of an axle for a unit of lateral force there.
                      mobility=(1.0 / q.mass + a * a / p.yaw_inertia, 1.0 / q.mass + b * b / p.yaw_inertia))

    # -- Across: the Fiala tyre (001 eqs 16, 17, 19), as a damper over the step ------------------------------------------------
    def lateral(self, t: Scalar, speed: Scalar, stiffness: Scalar, limit: Scalar, mobility: Scalar, h: Scalar) -> tuple[Scalar, Scalar]:
        """Returns the lateral force of an axle, and the damper that it is over the step [N s^2/m]."""
        where, size = self._m.where, self._m.fabs(t)
        share = self._m.fmin(stiffness * size / (3.0 * limit), 1.0)
        grips = share < 1.0
        secant = where(grips, stiffness * (1.0 - share + share * share / 3.0), limit / where(grips, 1.0, size))
        tangent = stiffness * (1.0 - share) * (1.0 - share)
        z = h * mobility * secant / speed
        return -secant * t, h * (3.0 * tangent + z * secant) / ((6.0 + z) * speed)

    def stance(self, x: Record, u: Record, q: Any) -> Stance:
        return self._axles.stance(x, u, q.axles)

    # -- Accelerations (004 eq 10, with longitudinal forces), and the forces that make them ------------------------------------
    def dynamics(self, x: Record, u: Record, q: Any, h: Scalar) -> Dynamics:
        where, fabs, fmax = self._m.where, self._m.fabs, self._m.fmax
        floor = fiala.SLIP_SPEED_FLOOR
        vx, vy, yaw_rate = x.vx, x.vy, x.yaw_rate
        axle, (a, b) = q.axles, (q.axles.a, q.axles.b)
        stance = self.stance(x, u, q)
        (wind_x, wind_y), gravity_x, gravity_y = stance.wind, chassis.GRAVITY * stance.ahead, chassis.GRAVITY * stance.left
        delta = self._steering.angle(u.steering, q.steering)
        c, s = self._m.cos(delta), self._m.sin(delta)
        # Slips of the axles (004 eqs 14-15).
        vf, vr = vy + a * yaw_rate, vy - b * yaw_rate
        speeds = fmax(fabs(vx * c + vf * s), floor), fmax(fabs(vx), floor)
        slips = (vf * c - vx * s) / speeds[0], vr / speeds[1]
        (drive_f, hold_f, limit_f), (drive_r, hold_r, limit_r) = self._axles.forces(vx, slips, x.ax, u, stance, axle)
        (fy_f, kf), (fy_r, kr) = (self.lateral(t, speed, stiffness, limit, mobility, h) for t, speed, stiffness, limit, mobility in
                                  zip(slips, speeds, q.stiffness, (limit_f, limit_r), q.mobility))

        # Unknowns du/dt, dv/dt, dr/dt. The proper accelerations are those half-way: ax = du/dt - r v - g_x, ay = dv/dt + r u - g_y, with
        # gravity g_x, g_y along the ground (0 where it is level).
        mass, first, half = axle.mass, axle.first, 0.5 * h
        turn, slide, roll = mass * half * yaw_rate, half * vy, half * vx
        kuv, kur, kvr = -kf * s * c, -kf * s * c * a, kf * c * c * a - kr * b
        a11, a12, a13 = mass + kf * s * s, kuv - turn, kur - mass * slide + 2.0 * first * half * yaw_rate
        a21, a22, a23 = kuv + turn, mass + kf * c * c + kr, kvr + mass * roll - first
        a31, a32 = kur - first * half * yaw_rate, kvr - first
        a33 = q.yaw_inertia + kf * c * c * a * a + kr * b * b - first * roll
        force_x, force_y = drive_f * c - fy_f * s, drive_f * s + fy_f * c
        e1 = force_x + drive_r - first * yaw_rate * yaw_rate + mass * yaw_rate * vy + mass * gravity_x + wind_x
        e2 = force_y + fy_r - mass * yaw_rate * vx + mass * gravity_y + wind_y
        e3 = a * force_y - b * fy_r + first * yaw_rate * vx - first * gravity_y
        g1, g2, g3 = hold_f * c + hold_r, hold_f * s, a * hold_f * s  # reductions by all of the friction

        c11, c12, c13 = a22 * a33 - a23 * a32, a13 * a32 - a12 * a33, a12 * a23 - a13 * a22
        c21, c22, c23 = a23 * a31 - a21 * a33, a11 * a33 - a13 * a31, a13 * a21 - a11 * a23
        c31, c32, c33 = a21 * a32 - a22 * a31, a12 * a31 - a11 * a32, a11 * a22 - a12 * a21
        scale = 1.0 / (a11 * c11 + a12 * c21 + a13 * c31)
        # Dry friction: as much as stops the vehicle within the step, or all of it.
        time = stop_time(self._m, h)
        free, slowed = scale * (c11 * e1 + c12 * e2 + c13 * e3), scale * (c11 * g1 + c12 * g2 + c13 * g3)
        share, stops = friction_share(self._m, vx / time + free, slowed)
        e1, e2, e3 = e1 - share * g1, e2 - share * g2, e3 - share * g3
        ud = where(stops, -vx / time, free - share * slowed)
        vd, rd = scale * (c21 * e1 + c22 * e2 + c23 * e3), scale * (c31 * e1 + c32 * e2 + c33 * e3)

        fy_f, fy_r = fy_f - kf * ((vd + a * rd) * c - ud * s), fy_r - kr * (vd - b * rd)
        changes = Record(vx=ud, vy=vd, yaw_rate=rd, ax=ud - yaw_rate * vy - half * (yaw_rate * vd + vy * rd) - gravity_x,
                         ay=vd + yaw_rate * vx + half * (yaw_rate * ud + vx * rd) - gravity_y)
        forces = self._axles.split(x, (drive_f - share * hold_f, fy_f), (drive_r - share * hold_r, fy_r), stance, axle)
        return Dynamics(changes, forces, late=lambda new: Record(vx=where(stops, 0.0, new.vx)))

    # -- Positions (004 eq 11) -------------------------------------------------------------------------------------------------
    def turning(self, x: Record, u: Record, q: Any) -> Record:
        return Record(yaw=x.yaw_rate * self.stance(x, u, q).turn)

    def travelling(self, x: Record, u: Record, q: Any) -> Record:
        return self._axles.footing.travel(x, self.stance(x, u, q))

    def wheel_loads(self, x: Record, u: Record, q: Any) -> tuple[Scalar, ...]:
        return self._axles.wheel_loads(x, self.stance(x, u, q), q.axles)

    def report(self, x: Record, u: Record, q: Any) -> tuple[Scalar, Scalar, Scalar]:
        return (*self._axles.report(x.vx, q.axles), self._steering.angle(u.steering, q.steering))


CHASSIS = Chassis(
    name="driven_bicycle",
    description="bicycle with drive, brakes and sliding tyres in a friction circle: planar motion in steps of up to 75 ms, for control",
    source="paper 004 eqs 10-11; Fiala tyres of paper 001 eqs 13-19",
    states=STATES, parameters=PARAMETERS, build=DrivenBicycle, wheels=("front", "rear"), slots=("ground",), largest_step=0.075,
)
