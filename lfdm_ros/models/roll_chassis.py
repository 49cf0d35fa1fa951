"""The chassis of paper 000 (eqs 4-13) on four wheels: u, v, yaw, roll, quasi-static load transfer. 8-DOF and 18-DOF models have it.

Differences from the paper, and why
- Unsprung masses are per axle, as eqs 10-13 use them; Table 2 gives them per wheel, and the paper's code counts 2 (muf + mur)
  in the total mass but muf g/2 in each load. `unsprung_load_share` = 1 is consistent, 0.5 is the paper's code.
- With a tyre that is stiff in the slip velocities the wheels are integrated linearly implicitly, the chassis gets the same updated
  tyre force, and u, v and r carry the tyres' damping implicitly. The paper's explicit wheels cannot start from rest: at 0.2 m/s the
  slip dynamics have rates of 900 to 4700 1/s.
- Brakes and rolling resistance are dry friction, solved within the step: a wheel sticks at exactly zero, without chatter.
"""

from collections.abc import Callable
from typing import Any

from lfdm_ros.models import chassis
from lfdm_ros.models.declaration import WHEELS, Field, per_wheel
from lfdm_ros.models.equations import Dynamics, Ground, Operations, Powertrain, Record, Scalar, Steering, Tyre, TyreForce, Wheel
from lfdm_ros.models.ground import Footing, Stance


def states(wheels: tuple[str, ...] = WHEELS) -> tuple[Field, ...]:
    """Declares the states of a chassis with these wheels, from the front, left before right."""
    return (
        *chassis.PLANE,
        Field("roll", "rad", "roll angle, + right side down", "phi"),
        *chassis.VELOCITY,
        Field("roll_rate", "rad/s", "roll rate", "omega_x"),
        Field("yaw_rate", "rad/s", "yaw rate", "omega_z"),
        *per_wheel("omega", "rad/s", "wheel speed", "omega", wheels),
        *chassis.ACCELERATION,
    )


PARAMETERS = (
    *chassis.BODY, *chassis.LOADS, *chassis.ROLL, *chassis.WHEELS_AND_BRAKES, chassis.DRIVELINE_ROLL,
    Field("roll_yaw_inertia", "kg*m^2", "product of inertia of the sprung mass, xz", "Jxz", -1e6, 1e6),
    Field("roll_stiffness_front", "N*m/rad", "front roll stiffness", "kphi_f", 0.0, 1e7),
    Field("roll_stiffness_rear", "N*m/rad", "rear roll stiffness", "kphi_r", 0.0, 1e7),
    Field("roll_damping_front", "N*m*s/rad", "front roll damping", "bphi_f", 0.0, 1e6),
    Field("roll_damping_rear", "N*m*s/rad", "rear roll damping", "bphi_r", 0.0, 1e6),
)


def load_terms(p: Any, gravity: float = chassis.GRAVITY, height: Callable[[Any, Any, Any], Any] = chassis.centre_height) -> Record:
    """Returns the terms by which wheel loads (000 eqs 10-13) and roll angle follow the motion; p has PARAMETERS, `height` is as in
    `load_transfer`.

    static: load of a front and of a rear wheel [N]; pitch: load from each front to each rear wheel for a unit of ax [kg]; lateral and
    springs: load from the left to the right wheel of each axle for a unit of ay [kg] and of roll [N/rad]; drop: of the roll axis below the
    sprung mass's centre [m]; lever: moment of roll for a unit of ay [kg m]; roll_stiffness: `roll_springs` less `weight`, the moment of the
    sprung mass's weight [N m/rad]; wind_pitch, wind_lateral: as pitch and lateral, for a unit of the wind's force [1].
    """
    a, b = p.cg_to_front_axle, p.cg_to_rear_axle
    base = a + b
    static, (unsprung_f, unsprung_r), pitch = chassis.load_transfer(p, gravity, height)
    drop = (p.roll_centre_drop_front * b + p.roll_centre_drop_rear * a) / base
    lever = drop * p.sprung_mass
    return Record(
        static=static, pitch=pitch, drop=drop, lever=lever,
        lateral=((unsprung_f + p.sprung_mass * b * (p.cg_height - p.roll_centre_drop_front) / base) / p.track_front,
                 (unsprung_r + p.sprung_mass * a * (p.cg_height - p.roll_centre_drop_rear) / base) / p.track_rear),
        springs=(p.roll_stiffness_front / p.track_front, p.roll_stiffness_rear / p.track_rear),
        roll_stiffness=p.roll_stiffness_front + p.roll_stiffness_rear - lever * gravity,
        roll_springs=p.roll_stiffness_front + p.roll_stiffness_rear, weight=lever * gravity, wind_pitch=p.cg_height / (2.0 * base),
        wind_lateral=(b * (p.cg_height - p.roll_centre_drop_front) / base / p.track_front,
                      a * (p.cg_height - p.roll_centre_drop_rear) / base / p.track_rear))


class RollChassis:
    """The equations with some parts; see `lfdm_ros.models.equations.Equations`.

    Axles are a list, from the front, with two wheels each, left and right: a derived chassis with more of them gives other `axles` in
    `prepare`.
    """

    input_time, mean_motion = 0.5, False
    gravity = chassis.GRAVITY
    centre_height = staticmethod(chassis.centre_height)
    spin = staticmethod(chassis.spin)

    def __init__(self, m: Operations, tyre: Tyre, powertrain: Powertrain, steering: Steering, ground: Ground):
        self._m, self._tyre, self._powertrain, self._steering, self._footing = m, tyre, powertrain, steering, Footing(m, ground)
        self.motions = (self.motion,)

    def prepare(self, p: Any) -> Any:
        a, b = p.cg_to_front_axle, p.cg_to_rear_axle
        terms = load_terms(p, self.gravity, self.centre_height)

        def axle(i: int, name: str, x: Scalar, pitch: Scalar, wind_pitch: Scalar) -> Record:
            """Returns an axle at its place x, with what its left wheel loses by accelerations and wind (see `load_terms`)."""
            track = getattr(p, f"track_{name}")
            return Record(x=x, half=0.5 * track, front=name == "front", static=terms.static[i], pitch=pitch, wind_pitch=wind_pitch,
                          lateral=terms.lateral[i], wind_lateral=terms.wind_lateral[i], spring=terms.springs[i],
                          damper=getattr(p, f"roll_damping_{name}") / track, brake=getattr(p, f"brake_torque_{name}"),
                          compliance=1.0 / getattr(p, f"tyre_vertical_stiffness_{name}"))

        return Record(
            axles=[axle(0, "front", a, terms.pitch, terms.wind_pitch), axle(1, "rear", -b, -terms.pitch, -terms.wind_pitch)], loads=terms,
            radius=p.wheel_radius, inertia=p.wheel_inertia, lever=terms.lever,
            mass=p.sprung_mass + p.unsprung_mass_front + p.unsprung_mass_rear,
            first=p.unsprung_mass_rear * b - p.unsprung_mass_front * a,
            cross=p.roll_yaw_inertia, yaw_inertia=p.yaw_inertia, reaction=p.driveline_roll_reaction,
            roll_inertia=p.roll_inertia + terms.lever * terms.drop,
            roll_damping=p.roll_damping_front + p.roll_damping_rear,
            tyre=self._tyre.prepare(p), powertrain=self._powertrain.prepare(p), steering=self._steering.prepare(p),
            ground=self._footing.prepare(p))

    # -- Wheel loads (000 eqs 10-13) -------------------------------------------------------------------------------------------
    def wheel_loads(self, x: Record, u: Record, q: Any) -> tuple[Scalar, ...]:
        return self.loads_on(x, self.stance(x, u, q), q)

    def loads_on(self, x: Record, stance: Stance, q: Any) -> tuple[Scalar, ...]:
        # The proper acceleration is that of tyres and wind; the wind does not act as the masses do.
        along, across = stance.wind
        loads: list[Scalar] = []
        for axle in q.axles:
            shift = axle.lateral * x.ay + (axle.spring * x.roll + axle.damper * x.roll_rate) - axle.wind_lateral * across
            pitch, static = axle.pitch * x.ax - axle.wind_pitch * along, axle.static * stance.normal
            loads += [static - shift - pitch, static + shift - pitch]
        return tuple(loads)

    def corners(self, q: Any) -> list[tuple[Scalar, Scalar, Record]]:
        """Returns the place of each wheel, x and y from the centre, and its axle: from the front, left before right."""
        return [(axle.x, side, axle) for axle in q.axles for side in (axle.half, -axle.half)]

    def stance(self, x: Record, u: Record, q: Any) -> Stance:
        return self._footing.stance(x, u, q.ground, [(px, py) for px, py, _ in self.corners(q)])

    # -- Accelerations, and the tyre forces that make them ---------------------------------------------------------------------
    def dynamics(self, x: Record, u: Record, q: Any, h: Scalar) -> Dynamics:
        m, implicit = self._m, self._tyre.implicit
        yaw_rate, stance = x.yaw_rate, self.stance(x, u, q)
        fz = [m.fmax(load, 0.0) for load in self.loads_on(x, stance, q)]
        delta = self._steering.angle(u.steering, q.steering)
        cos_d, sin_d = m.cos(delta), m.sin(delta)
        drives, driving = self._powertrain.drive([wheel.omega for wheel in x.wheels], x.vx, u.throttle, x, q.powertrain)

        # Forces of the tyres and their moment (000 eqs 4-6, right-hand sides; contact patch velocities of eqs 8-9), wheel spins.
        corners = self.corners(q)
        brakes = [u.brake * axle.brake for _, _, axle in corners]
        holds, any_locked = chassis.locked(m, [state.omega for state in x.wheels], drives, brakes)
        wheels: list[Any] = []
        total = [0.0] * 3
        slopes = [0.0] * 6
        for (px, py, axle), state, f, drive, brake, holding, patch in zip(corners, x.wheels, fz, drives, brakes, holds, stance.patches,
                                                                       strict=True):
            c, s = (cos_d, sin_d) if axle.front else (1.0, 0.0)
            radius = q.radius - f * axle.compliance
            contact = self._tyre.forces(q.tyre, Wheel(axle.front, x.vx - yaw_rate * py, x.vy + yaw_rate * px, c, s, state.omega, f, radius,
                                                      state, patch, holding, any_locked, side=-1.0 if len(wheels) % 2 else 1.0))
            wheel = self.spin(m, contact, state.omega, radius, q.inertia, drive, brake, h)
            gx, gy = wheel.fx * c - contact.fy * s, wheel.fx * s + contact.fy * c
            total = [t + g for t, g in zip(total, (gx, gy, px * gy - py * gx + contact.mz))]
            if implicit:
                slopes = [k + h * g for k, g in zip(slopes, chassis.plane_slopes(wheel.kx, contact.ky, c, s, px, py))]
            wheels.append((px, py, c, s, contact, wheel))

        # Chassis (000 eqs 4-7) in the unknowns ax = du/dt - r v - g_x, ay = dv/dt + r u - g_y, the proper accelerations, with gravity g_x,
        # g_y along the ground (0 where it is level), roll and yaw acceleration. The slopes act on du/dt and dv/dt, hence the terms with
        # r v and r u on the right. The wind acts on the sprung mass at its centre, above the roll axis; the
        # driveline's reaction turns that mass alone.
        wind_x, wind_y = stance.wind
        rv, ru = yaw_rate * x.vy + self.gravity * stance.ahead, yaw_rate * x.vx - self.gravity * stance.left
        roll_stiffness = q.loads.roll_springs - q.loads.weight * stance.normal
        e4 = -roll_stiffness * x.roll - q.roll_damping * x.roll_rate - wind_y * q.loads.drop + q.reaction * sum(drives)
        roll_inertia, lever, cross = q.roll_inertia, q.lever, q.cross

        def solved(kuu: Scalar, kuv: Scalar, kur: Scalar, kvv: Scalar, kvr: Scalar, krr: Scalar) -> tuple[Scalar, Scalar, Scalar]:
            e1 = total[0] + wind_x - q.first * yaw_rate * yaw_rate - 2.0 * q.lever * yaw_rate * x.roll_rate - kuu * rv + kuv * ru
            e2 = total[1] + wind_y - kuv * rv + kvv * ru
            e3 = total[2] - kur * rv + kvr * ru
            # Roll eliminated: a symmetric 3 x 3 system.
            m22, m23 = q.mass + kvv - lever * lever / roll_inertia, kvr - q.first + lever * cross / roll_inertia
            m33 = q.yaw_inertia + krr - cross * cross / roll_inertia
            return chassis.solve_symmetric(q.mass + kuu, kuv, kur, m22, m23, m33,
                                   e1, e2 + lever * e4 / roll_inertia, e3 - cross * e4 / roll_inertia)

        ax, ay, yaw_acc = chassis.where_stiff(m, wheels[0][4], solved, slopes) if implicit else solved(*chassis.NO_SLOPES)
        roll_acc = (e4 + lever * ay - cross * yaw_acc) / roll_inertia

        ud, vd = ax + rv, ay - ru
        changes, forces = [], []
        for (px, py, c, s, contact, wheel), f in zip(wheels, fz):
            # Tyre force at the end of the step, and the wheel that follows the acceleration of the contact patch.
            ab, bb = ud - yaw_acc * py, vd + yaw_acc * px
            along, across = ab * c + bb * s, bb * c - ab * s
            forces.append(TyreForce(wheel.fx - h * wheel.kx * along, contact.fy - h * contact.ky * across, f))
            changes.append(Record(omega=wheel.acceleration + wheel.follow * along, **contact.changes))
        return Dynamics(Record(vx=ud, vy=vd, roll_rate=roll_acc, yaw_rate=yaw_acc, ax=ax, ay=ay, wheels=changes, **driving), forces)

    def motion(self, x: Record, u: Record, q: Any) -> Record:
        stance = self.stance(x, u, q)
        return self._footing.travel(x, stance).but(yaw=x.yaw_rate * stance.turn, roll=x.roll_rate)

    def report(self, x: Record, u: Record, q: Any) -> tuple[Scalar, Scalar, Scalar]:
        gear, speed = self._powertrain.report([wheel.omega for wheel in x.wheels], x, q.powertrain)
        return gear, speed, self._steering.angle(u.steering, q.steering)
