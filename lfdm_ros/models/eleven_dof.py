"""11-DOF: a single-track vehicle with turning wheels, one for each axle, and longitudinal load transfer (paper 003; TR-2019-04).

Each axle's wheel stands for two: twice the force, inertia and brake torque of one.

Neither source prints numbers that paper 000 does not: the balances are its eqs 4-6 with both wheels of an axle in one place and without
roll, the loads its eqs 10-13 without side to side.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lfdm_ros.models.chassis import (
    ACCELERATION,
    BODY,
    GRAVITY,
    LOADS,
    PLANE,
    VELOCITY,
    WHEELS_AND_BRAKES,
    Spin,
    centre_height,
    load_transfer,
    spin,
)
from lfdm_ros.models.declaration import Field, per_wheel
from lfdm_ros.models.equations import Contact, Dynamics, Ground, Operations, Powertrain, Record, Scalar, Steering, Tyre, TyreForce, Wheel
from lfdm_ros.models.ground import Footing, Stance

STATES = (
    *PLANE, *VELOCITY,
    Field("yaw_rate", "rad/s", "yaw rate", "omega_z"),
    *per_wheel("omega", "rad/s", "wheel speed", "omega", wheels=("front", "rear")),
    *ACCELERATION,
)
PARAMETERS = (*BODY, *LOADS, *WHEELS_AND_BRAKES)


class ElevenDof:
    """The equations with some parts; see `lfdm_ros.models.equations.Equations`."""

    input_time, mean_motion = 0.5, False
    gravity = GRAVITY
    centre_height = staticmethod(centre_height)
    tyres = 2.0  # forces and brakes of an axle are those of so many; its inertia is always that of two

    def __init__(self, m: Operations, tyre: Tyre, powertrain: Powertrain, steering: Steering, ground: Ground):
        self._m, self._tyre, self._powertrain, self._steering, self._footing = m, tyre, powertrain, steering, Footing(m, ground)
        self.motions = (self.motion,)

    def prepare(self, p: Any) -> Any:
        a, b = p.cg_to_front_axle, p.cg_to_rear_axle
        static, _, pitch = load_transfer(p, self.gravity, self.centre_height)
        mass = p.sprung_mass + p.unsprung_mass_front + p.unsprung_mass_rear
        return Record(
            a=a, b=b, static=static, pitch=pitch, wind_pitch=p.cg_height / (2.0 * (a + b)), radius=p.wheel_radius,
            compliance=(1.0 / p.tyre_vertical_stiffness_front, 1.0 / p.tyre_vertical_stiffness_rear),
            inertia=2.0 * p.wheel_inertia, brakes=(self.tyres * p.brake_torque_front, self.tyres * p.brake_torque_rear),
            mass=mass, yaw_inertia=p.yaw_inertia, first=p.unsprung_mass_rear * b - p.unsprung_mass_front * a,
            # Acceleration of the contact patch for a unit of lateral force at both axles: what a stiff tyre's damping acts against.
            mobility=(1.0 / mass, 1.0 / mass + a * a / p.yaw_inertia, 1.0 / mass + b * b / p.yaw_inertia),
            tyre=self._tyre.prepare(p), powertrain=self._powertrain.prepare(p), steering=self._steering.prepare(p),
            ground=self._footing.prepare(p))

    def spin(self, contact: Contact, omega: Scalar, radius: Scalar, inertia: Scalar, drive: Scalar, brake: Scalar, h: Scalar) -> Spin:
        return spin(self._m, contact, omega, radius, inertia, drive, brake, h)

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
        fx_body, fy_body, changes, forces = [], [], [], []
        for i, (px, own, f, drive, patch) in enumerate(zip((q.a, -q.b), x.wheels, fz, drives, stance.patches)):
            front = i == 0
            c, s = (m.cos(delta), m.sin(delta)) if front else (1.0, 0.0)
            radius = q.radius - f * q.compliance[i]
            one = self._tyre.forces(q.tyre, Wheel(front, x.vx, x.vy + x.yaw_rate * px, c, s, own.omega, f, radius, own, patch))
            axle = replace(one, fx=n * one.fx, fy=n * one.fy, kx=n * one.kx, ky=n * one.ky, friction=n * one.friction,
                           torque=n * one.torque)
            wheel = self.spin(axle, own.omega, radius, q.inertia, drive, u.brake * q.brakes[i], h)
            # A stiff tyre's slope acts against the vehicle's inertia at the contact patch.
            fx = wheel.fx / (1.0 + h * wheel.kx * 2.0 * q.mobility[0]) if implicit else wheel.fx
            fy = axle.fy / (1.0 + h * axle.ky * 2.0 * q.mobility[1 + i]) if implicit else axle.fy
            fx_body.append(fx * c - fy * s)
            fy_body.append(fx * s + fy * c)
            forces += [TyreForce(0.5 * fx, 0.5 * fy, f)] * 2
            changes.append(Record(omega=wheel.acceleration, **one.changes))

        # Chassis (000 eqs 4-6 without roll).
        force_x, force_y, moment = fx_body[0] + fx_body[1], fy_body[0] + fy_body[1], q.a * fy_body[0] - q.b * fy_body[1]
        wind_x, wind_y = stance.wind
        ax, ay, yaw_acc = self.accelerations(force_x + wind_x, force_y + wind_y, moment, x.yaw_rate, q)
        gravity_x, gravity_y = self.gravity * stance.ahead, self.gravity * stance.left
        return Dynamics(Record(vx=ax + x.yaw_rate * x.vy + gravity_x, vy=ay - x.yaw_rate * x.vx + gravity_y, yaw_rate=yaw_acc, ax=ax, ay=ay,
                               wheels=changes, **driving), forces)

    def accelerations(self, force_x: Scalar, force_y: Scalar, moment: Scalar, yaw_rate: Scalar, q: Any) -> tuple[Scalar, Scalar, Scalar]:
        """Proper accelerations and yaw acceleration (000 eqs 4-6, solved for them). The unsprung masses need not have their centre where
        the sprung mass has it."""
        det = q.mass * q.yaw_inertia - q.first * q.first
        return ((force_x - q.first * yaw_rate * yaw_rate) / q.mass,
                (q.yaw_inertia * force_y + q.first * moment) / det, (q.first * force_y + q.mass * moment) / det)

    def motion(self, x: Record, u: Record, q: Any) -> Record:
        stance = self.stance(x, u, q)
        return self._footing.travel(x, stance).but(yaw=x.yaw_rate * stance.turn)

    def report(self, x: Record, u: Record, q: Any) -> tuple[Scalar, Scalar, Scalar]:
        gear, speed = self._powertrain.report([axle.omega for axle in x.wheels], x, q.powertrain)
        return gear, speed, self._steering.angle(u.steering, q.steering)
