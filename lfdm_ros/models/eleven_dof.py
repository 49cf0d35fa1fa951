"""11-DOF: a single-track vehicle with turning wheels, one for each axle, and longitudinal load transfer (paper 003; TR-2019-04).

Each axle's wheel stands for two: twice the force, inertia and brake torque of one.

Neither source prints numbers that paper 000 does not: the balances are its eqs 4-6 with both wheels of an axle in one place and without
roll, the loads its eqs 10-13 without side to side.
"""

from dataclasses import replace
from typing import Any

from lfdm_ros.models import chassis
from lfdm_ros.models.declaration import Field, per_wheel
from lfdm_ros.models.equations import Dynamics, Ground, Operations, Powertrain, Record, Scalar, Steering, Tyre, TyreForce, Wheel
from lfdm_ros.models.ground import Footing, Stance

STATES = (
    *chassis.PLANE, *chassis.VELOCITY,
    Field("yaw_rate", "rad/s", "yaw rate", "omega_z"),
    *per_wheel("omega", "rad/s", "wheel speed", "omega", wheels=("front", "rear")),
    *chassis.ACCELERATION,
)
PARAMETERS = (*chassis.BODY, *chassis.LOADS, *chassis.WHEELS_AND_BRAKES)


class ElevenDof:
    """The equations with some parts; see `lfdm_ros.models.equations.Equations`."""

    input_time, mean_motion = 0.5, False
    gravity = chassis.GRAVITY
    centre_height = staticmethod(chassis.centre_height)
    spin = staticmethod(chassis.spin)
    tyres = 2.0  # wheels per axle for forces and brakes; the inertia is always that of two

    def __init__(self, m: Operations, tyre: Tyre, powertrain: Powertrain, steering: Steering, ground: Ground):
        self._m, self._tyre, self._powertrain, self._steering, self._footing = m, tyre, powertrain, steering, Footing(m, ground)
        self.motions = (self.motion,)

    def prepare(self, p: Any) -> Any:
        a, b = p.cg_to_front_axle, p.cg_to_rear_axle
        static, _, pitch = chassis.load_transfer(p, self.gravity, self.centre_height)
        return Record(
            a=a, b=b, static=static, pitch=pitch, wind_pitch=p.cg_height / (2.0 * (a + b)), radius=p.wheel_radius,
            compliance=(1.0 / p.tyre_vertical_stiffness_front, 1.0 / p.tyre_vertical_stiffness_rear),
            inertia=2.0 * p.wheel_inertia, brakes=(self.tyres * p.brake_torque_front, self.tyres * p.brake_torque_rear),
            mass=p.sprung_mass + p.unsprung_mass_front + p.unsprung_mass_rear, yaw_inertia=p.yaw_inertia,
            first=p.unsprung_mass_rear * b - p.unsprung_mass_front * a,
            tyre=self._tyre.prepare(p), powertrain=self._powertrain.prepare(p), steering=self._steering.prepare(p),
            ground=self._footing.prepare(p))

    # -- Loads of one wheel of each axle (000 eqs 10-13 without side to side) --------------------------------------------------
    def axle_loads(self, x: Record, stance: Stance, q: Any) -> tuple[Scalar, Scalar]:
        pitch = q.pitch * x.ax - q.wind_pitch * stance.wind[0]
        return q.static[0] * stance.normal - pitch, q.static[1] * stance.normal + pitch

    def stance(self, x: Record, u: Record, q: Any) -> Stance:
        return self._footing.stance(x, u, q.ground, [(q.a, 0.0), (-q.b, 0.0)])

    def wheel_loads(self, x: Record, u: Record, q: Any) -> tuple[Scalar, ...]:
        front, rear = self.axle_loads(x, self.stance(x, u, q), q)
        return front, front, rear, rear

    def dynamics(self, x: Record, u: Record, q: Any, h: Scalar) -> Dynamics:
        m, implicit, n, stance = self._m, self._tyre.implicit, self.tyres, self.stance(x, u, q)
        fz = [m.fmax(load, 0.0) for load in self.axle_loads(x, stance, q)]
        delta = self._steering.angle(u.steering, q.steering)
        drives, driving = self._powertrain.drive([axle.omega for axle in x.wheels], x.vx, u.throttle, x, q.powertrain)

        # Tyres (slips at the axles' velocities: 000 eqs 8-9 at y = 0) and wheel spins (000, between eqs 9 and 10).
        brakes = [u.brake * brake for brake in q.brakes]
        holds, any_locked = chassis.locked(m, [states.omega for states in x.wheels], drives, brakes)
        axles = []
        total, slopes = [0.0] * 3, [0.0] * 6
        for i, (px, states, f, drive, patch) in enumerate(zip((q.a, -q.b), x.wheels, fz, drives, stance.patches)):
            front = i == 0
            c, s = (m.cos(delta), m.sin(delta)) if front else (1.0, 0.0)
            radius = q.radius - f * q.compliance[i]
            one = self._tyre.forces(q.tyre, Wheel(front, x.vx, x.vy + x.yaw_rate * px, c, s, states.omega, f, radius, states, patch,
                                                  holds[i], any_locked))
            contact = replace(one, fx=n * one.fx, fy=n * one.fy, kx=n * one.kx, ky=n * one.ky, kx_locked=n * one.kx_locked,
                              friction=n * one.friction, my=n * one.my, mz=n * one.mz)
            wheel = self.spin(m, contact, states.omega, radius, q.inertia, drive, brakes[i], h)
            gx, gy = wheel.fx * c - contact.fy * s, wheel.fx * s + contact.fy * c
            total = [t + g for t, g in zip(total, (gx, gy, px * gy + contact.mz))]
            if implicit:
                slopes = [k + h * g for k, g in zip(slopes, chassis.plane_slopes(wheel.kx, contact.ky, c, s, px, 0.0))]
            axles.append((px, c, s, f, contact, wheel))

        # Chassis (000 eqs 4-6 without roll), in the unknowns and with the slopes of `lfdm_ros.models.roll_chassis`. The unsprung masses
        # need not have their centre where the sprung mass has it.
        wind_x, wind_y = stance.wind
        rv, ru = x.yaw_rate * x.vy + self.gravity * stance.ahead, x.yaw_rate * x.vx - self.gravity * stance.left

        def solved(kuu: Scalar, kuv: Scalar, kur: Scalar, kvv: Scalar, kvr: Scalar, krr: Scalar) -> tuple[Scalar, Scalar, Scalar]:
            return chassis.solve_symmetric(q.mass + kuu, kuv, kur, q.mass + kvv, kvr - q.first, q.yaw_inertia + krr,
                                   total[0] + wind_x - q.first * x.yaw_rate * x.yaw_rate - kuu * rv + kuv * ru,
                                   total[1] + wind_y - kuv * rv + kvv * ru, total[2] - kur * rv + kvr * ru)

        ax, ay, yaw_acc = chassis.where_stiff(m, axles[0][4], solved, slopes) if implicit else solved(*chassis.NO_SLOPES)
        ud, vd = ax + rv, ay - ru
        changes, forces = [], []
        for px, c, s, f, contact, wheel in axles:
            # Tyre force at the end of the step, and the wheel that follows the acceleration of the contact patch.
            bb = vd + yaw_acc * px
            along, across = ud * c + bb * s, bb * c - ud * s
            forces += [TyreForce(0.5 * (wheel.fx - h * wheel.kx * along), 0.5 * (contact.fy - h * contact.ky * across), f)] * 2
            changes.append(Record(omega=wheel.acceleration + wheel.follow * along, **contact.changes))
        return Dynamics(Record(vx=ud, vy=vd, yaw_rate=yaw_acc, ax=ax, ay=ay, wheels=changes, **driving), forces)

    def motion(self, x: Record, u: Record, q: Any) -> Record:
        stance = self.stance(x, u, q)
        return self._footing.travel(x, stance).but(yaw=x.yaw_rate * stance.turn)

    def report(self, x: Record, u: Record, q: Any) -> tuple[Scalar, Scalar, Scalar]:
        gear, speed = self._powertrain.report([axle.omega for axle in x.wheels], x, q.powertrain)
        return gear, speed, self._steering.angle(u.steering, q.steering)
