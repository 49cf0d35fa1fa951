"""11-DOF: a single-track vehicle with turning wheels, one for each axle, and longitudinal load transfer (paper 003; TR-2019-04).

Each axle's wheel stands for two: twice the force, inertia and brake torque of one. The C++ library doubles some parameters of the
tyre and some not (docs/lfdm_differences.md); with its conventions this model does as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lfdm_ros.models.chassis import ACCELERATION, BODY, LOADS, PLANE, VELOCITY, WHEELS_AND_BRAKES, load_transfer, spin
from lfdm_ros.models.declaration import Field, per_wheel

STATES = (
    *PLANE, *VELOCITY,
    Field("yaw_rate", "rad/s", "yaw rate", "omega_z"),
    *per_wheel("omega", "rad/s", "wheel speed", "omega", wheels=("front", "rear")),
    *ACCELERATION,
)
PARAMETERS = (*BODY, *LOADS, *WHEELS_AND_BRAKES)


def build(m: Any, tyre: Any, train: Any, steer: Any, lfdm: bool, tyre_states: int) -> Any:
    """The equations on the operations of `m` with these parts; states after the chassis' as in `roll_chassis`."""
    where, fmax, sin, cos = m.where, m.fmax, m.sin, m.cos
    n_chassis, n_tyres = len(STATES), 2 * tyre_states
    # Forces and brakes of an axle are those of `wheels` tyres; its inertia is always that of two.
    wheels = 1.0 if lfdm else 2.0

    def prepare(p):
        a, b = p.cg_to_front_axle, p.cg_to_rear_axle
        static, _, pitch = load_transfer(p, lfdm)
        stiffer = 2.0 if lfdm and tyre_states else 1.0  # its relaxing axle tyre is compressed by the load of one wheel
        mass = p.sprung_mass + p.unsprung_mass_front + p.unsprung_mass_rear
        return m.namespace(
            a=a, b=b, static=static, pitch=pitch, radius=p.wheel_radius,
            compliance=(1.0 / (stiffer * p.tyre_vertical_stiffness_front), 1.0 / (stiffer * p.tyre_vertical_stiffness_rear)),
            inertia=2.0 * p.wheel_inertia, brakes=(wheels * p.brake_torque_front, wheels * p.brake_torque_rear),
            mass=mass, yaw_inertia=p.yaw_inertia, first=p.unsprung_mass_rear * b - p.unsprung_mass_front * a,
            # Acceleration of the contact patch for a unit of lateral force at both axles: what a stiff tyre's damping acts against.
            mobility=(1.0 / mass, 1.0 / mass + a * a / p.yaw_inertia, 1.0 / mass + b * b / p.yaw_inertia),
            tyre=tyre.prepare(p), train=train.prepare(p), steer=steer.prepare(p))

    def loads(ax, q):
        pitch = q.pitch * ax
        return q.static[0] - pitch, q.static[1] + pitch

    def dynamics(x, u, q, h):
        _, _, _, vx, vy, yaw_rate, *omegas, ax, _ = x[:n_chassis]
        deflections = [x[n_chassis + i * tyre_states:n_chassis + (i + 1) * tyre_states] for i in range(2)]
        steering, throttle, brake = u
        fz = [fmax(load, 0.0) for load in loads(ax, q)]
        if lfdm:
            omegas = [where(f > 0.0, w, 0.0) for w, f in zip(omegas, fz)]
            deflections = [[where(f > 0.0, e, 0.0) for e in es] for es, f in zip(deflections, fz)]
        delta = steer.angle(steering, q.steer)
        drives, train_rates = train.drive(omegas, vx, throttle, x[n_chassis + n_tyres:], q.train)
        fx_body, fy_body, rates, spins, fxs, fys = [], [], [], [], [], []
        for i, (px, w, es, f, drive) in enumerate(zip((q.a, -q.b), omegas, deflections, fz, drives)):
            front = i == 0
            c, s = (cos(delta), sin(delta)) if front else (1.0, 0.0)
            radius = q.radius - f * q.compliance[i]
            contact = tyre.forces(q.tyre, front, vx, vy + yaw_rate * px, c, s, w, f, radius, es)
            axle = replace(contact, fx=wheels * contact.fx, fy=wheels * contact.fy, kx=wheels * contact.kx, ky=wheels * contact.ky,
                           friction=wheels * contact.friction, torque=wheels * contact.torque)
            wheel = spin(m, lfdm, axle, w, radius, q.inertia, drive, brake * q.brakes[i], h)
            # A stiff tyre's slope acts against the vehicle's inertia at the contact patch.
            fx = wheel.fx / (1.0 + h * wheel.kx * 2.0 * q.mobility[0]) if tyre.implicit else wheel.fx
            fy = axle.fy / (1.0 + h * axle.ky * 2.0 * q.mobility[1 + i]) if tyre.implicit else axle.fy
            fx_body.append(fx * c - fy * s)
            fy_body.append(fx * s + fy * c)
            fxs += [0.5 * fx] * 2
            fys += [0.5 * fy] * 2
            rates += [where(f > 0.0, rate, 0.0) if lfdm else rate for rate in contact.rates]
            spins.append(wheel.acceleration)
        force_x, force_y, moment = fx_body[0] + fx_body[1], fy_body[0] + fy_body[1], q.a * fy_body[0] - q.b * fy_body[1]
        if lfdm:
            ax, ay, yaw_acc = force_x / q.mass, force_y / q.mass, moment / q.yaw_inertia
        else:
            # The unsprung masses need not have their centre where the sprung mass has it.
            det = q.mass * q.yaw_inertia - q.first * q.first
            ax = (force_x - q.first * yaw_rate * yaw_rate) / q.mass
            ay, yaw_acc = (q.yaw_inertia * force_y + q.first * moment) / det, (q.first * force_y + q.mass * moment) / det
        return m.namespace(ax=ax, ay=ay, yaw_acc=yaw_acc, omegas=omegas, spins=spins, deflections=[e for es in deflections for e in es],
                           rates=rates, train_rates=train_rates, forces=(*fxs, *fys, fz[0], fz[0], fz[1], fz[1]))

    def step(x, u, q, h):
        px, py, yaw, vx, vy, yaw_rate = x[:6]
        d = dynamics(x, u, q, h)
        vx, vy, yaw_rate = vx + h * (d.ax + yaw_rate * vy), vy + h * (d.ay - yaw_rate * vx), yaw_rate + h * d.yaw_acc
        c, s = cos(yaw), sin(yaw)
        if lfdm:
            ud, vd = d.ax + x[5] * x[4], d.ay - x[5] * x[3]
            ax, ay = ud - yaw_rate * vy, vd + yaw_rate * vx
        else:
            ax, ay = d.ax, d.ay
        return (px + h * (vx * c - vy * s), py + h * (vx * s + vy * c), yaw + h * yaw_rate, vx, vy, yaw_rate,
                *(w + h * a for w, a in zip(d.omegas, d.spins)), ax, ay,
                *(e + h * r for e, r in zip(d.deflections, d.rates)), *train.advance(x[n_chassis + n_tyres:], d.train_rates, h))

    def rhs(x, u, q):
        _, _, yaw, vx, vy, yaw_rate, _, _, ax, ay = x[:n_chassis]
        d = dynamics(x, u, q, 0.0)
        c, s = cos(yaw), sin(yaw)
        return (vx * c - vy * s, vx * s + vy * c, yaw_rate, d.ax + yaw_rate * vy, d.ay - yaw_rate * vx, d.yaw_acc, *d.spins,
                d.ax - ax, d.ay - ay, *d.rates, *train.flow(x[n_chassis + n_tyres:], d.train_rates))

    def tyre_forces(x, u, q, h):
        return dynamics(x, u, q, h).forces

    def wheel_loads(x, u, q):
        front, rear = loads(x[n_chassis - 2], q)
        return front, front, rear, rear

    def drive(x, u, q):
        return (*train.report(x[6:8], x[n_chassis + n_tyres:], q.train), steer.angle(u[0], q.steer))

    return m.namespace(prepare=prepare, step=step, rhs=rhs, tyre_forces=tyre_forces, wheel_loads=wheel_loads, drive=drive,
                       input_time=0.0 if lfdm else 0.5)
