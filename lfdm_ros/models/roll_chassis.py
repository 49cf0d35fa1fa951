"""The chassis of paper 000 (eqs 4-13) on four wheels: u, v, yaw, roll, quasi-static load transfer. 8-DOF and 18-DOF models have it.

Differences from the paper, and why
- Unsprung masses are per axle, as eqs 10-13 use them; Table 2 gives them per wheel, and the paper's code counts 2 (muf + mur)
  in the total mass but muf g/2 in each load. `unsprung_load_share` = 1 is consistent, 0.5 is the paper's code.
- With a tyre that is stiff in the slip velocities the wheels are integrated linearly implicitly, the chassis gets the same updated
  tyre force, and u, v and r carry the tyres' damping implicitly. The paper's explicit wheels cannot start from rest: at 0.2 m/s the
  slip dynamics have rates of 900 to 4700 1/s.
- Brakes and rolling resistance are dry friction, solved within the step: a wheel sticks at exactly zero, without chatter.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lfdm_ros.models.chassis import (
    ACCELERATION,
    BODY,
    GRAVITY,
    LFDM_GRAVITY,
    LOADS,
    PLANE,
    ROLL,
    VELOCITY,
    WHEELS_AND_BRAKES,
    load_transfer,
    solve_symmetric,
    spin,
)
from lfdm_ros.models.declaration import Field, per_wheel

STATES = (
    *PLANE,
    Field("roll", "rad", "roll angle, + right side down", "phi"),
    *VELOCITY,
    Field("roll_rate", "rad/s", "roll rate", "omega_x"),
    Field("yaw_rate", "rad/s", "yaw rate", "omega_z"),
    *per_wheel("omega", "rad/s", "wheel speed", "omega"),
    *ACCELERATION,
)
PARAMETERS = (
    *BODY, *LOADS, *ROLL, *WHEELS_AND_BRAKES,
    Field("roll_yaw_inertia", "kg*m^2", "product of inertia of the sprung mass, xz", "Jxz", -1e6, 1e6),
    Field("roll_stiffness_front", "N*m/rad", "front roll stiffness", "kphi_f", 0.0, 1e7),
    Field("roll_stiffness_rear", "N*m/rad", "rear roll stiffness", "kphi_r", 0.0, 1e7),
    Field("roll_damping_front", "N*m*s/rad", "front roll damping", "bphi_f", 0.0, 1e6),
    Field("roll_damping_rear", "N*m*s/rad", "rear roll damping", "bphi_r", 0.0, 1e6),
)


def load_terms(p: Any, lfdm: bool) -> Any:
    """How the wheel loads (000 eqs 10-13) and the roll angle follow the motion; p has PARAMETERS.

    static: load of a front and of a rear wheel [N]; pitch: load from each front to each rear wheel for a unit of ax [kg]; lateral and
    springs: load from the left to the right wheel of each axle for a unit of ay [kg] and of roll [N/rad]; drop: of the roll axis below the
    sprung mass's centre [m]; lever: moment of roll for a unit of ay [kg m]; roll_stiffness: less the weight's moment [N m/rad].
    """
    a, b = p.cg_to_front_axle, p.cg_to_rear_axle
    base = a + b
    static, (unsprung_f, unsprung_r), pitch = load_transfer(p, lfdm)
    drop = (p.roll_centre_drop_front * b + p.roll_centre_drop_rear * a) / base
    lever = drop * p.sprung_mass
    return SimpleNamespace(
        static=static, pitch=pitch, drop=drop, lever=lever,
        lateral=((unsprung_f + p.sprung_mass * b * (p.cg_height - p.roll_centre_drop_front) / base) / p.track_front,
                 (unsprung_r + p.sprung_mass * a * (p.cg_height - p.roll_centre_drop_rear) / base) / p.track_rear),
        springs=(p.roll_stiffness_front / p.track_front, p.roll_stiffness_rear / p.track_rear),
        roll_stiffness=p.roll_stiffness_front + p.roll_stiffness_rear - lever * (LFDM_GRAVITY if lfdm else GRAVITY))


def build(m: Any, tyre: Any, train: Any, steer: Any, lfdm: bool, tyre_states: int) -> Any:
    """The equations on the operations of `m` with these parts; see `lfdm_ros.models.declaration.Model`.

    tyre_states: states of the tyre a wheel; after the chassis' states stand those of each wheel, then the powertrain's.
    """
    where, fmax, sin, cos = m.where, m.fmax, m.sin, m.cos
    n_chassis, n_tyres = len(STATES), 4 * tyre_states

    def prepare(p):
        a, b = p.cg_to_front_axle, p.cg_to_rear_axle
        terms = load_terms(p, lfdm)
        return m.namespace(
            a=a, b=b, half_front=0.5 * p.track_front, half_rear=0.5 * p.track_rear, loads=terms,
            dampers=(p.roll_damping_front / p.track_front, p.roll_damping_rear / p.track_rear),
            radius=p.wheel_radius,
            compliance=(1.0 / p.tyre_vertical_stiffness_front, 1.0 / p.tyre_vertical_stiffness_rear), inertia=p.wheel_inertia,
            brakes=(p.brake_torque_front, p.brake_torque_rear), lever=terms.lever,
            mass=p.sprung_mass + p.unsprung_mass_front + p.unsprung_mass_rear,
            # The C++ library has half of the unsprung mass in this moment.
            first=(0.5 if lfdm else 1.0) * (p.unsprung_mass_rear * b - p.unsprung_mass_front * a),
            cross=p.roll_yaw_inertia, yaw_inertia=p.yaw_inertia,
            roll_inertia=p.roll_inertia + terms.lever * terms.drop, roll_stiffness=terms.roll_stiffness,
            roll_damping=p.roll_damping_front + p.roll_damping_rear,
            tyre=tyre.prepare(p), train=train.prepare(p), steer=steer.prepare(p))

    # -- Wheel loads (eqs 10-13) ----------------------------------------------------------------------------------
    def loads(roll, roll_rate, ax, ay, q):
        shift_f, shift_r = (lateral * ay + (spring * roll + damper * roll_rate)
                            for lateral, spring, damper in zip(q.loads.lateral, q.loads.springs, q.dampers))
        pitch = q.loads.pitch * ax
        static_f, static_r = q.loads.static
        return static_f - shift_f - pitch, static_f + shift_f - pitch, static_r - shift_r + pitch, static_r + shift_r + pitch

    def corners(q):
        """Place of each wheel: x, y from the centre, front or not."""
        return ((q.a, q.half_front, True), (q.a, -q.half_front, True), (-q.b, q.half_rear, False), (-q.b, -q.half_rear, False))

    # -- Accelerations, and the tyre forces that make them --------------------------------------------------------
    def dynamics(x, u, q, h):
        _, _, _, roll, vx, vy, roll_rate, yaw_rate, *omegas, ax, ay = x[:n_chassis]
        deflections = [x[n_chassis + i * tyre_states:n_chassis + (i + 1) * tyre_states] for i in range(4)]
        steering, throttle, brake = u
        fz = [fmax(load, 0.0) for load in loads(roll, roll_rate, ax, ay, q)]
        if lfdm:
            # The C++ library stops a wheel that has lost the ground, and straightens its tyre.
            omegas = [where(f > 0.0, w, 0.0) for w, f in zip(omegas, fz)]
            deflections = [[where(f > 0.0, e, 0.0) for e in es] for es, f in zip(deflections, fz)]
        delta = steer.angle(steering, q.steer)
        cos_d, sin_d = cos(delta), sin(delta)
        drives, train_rates = train.drive(omegas, vx, throttle, x[n_chassis + n_tyres:], q.train)

        wheels, rates = [], []
        total = [0.0] * 3
        slopes = [0.0] * 6
        for (px, py, front), w, es, f, drive in zip(corners(q), omegas, deflections, fz, drives):
            c, s = (cos_d, sin_d) if front else (1.0, 0.0)
            radius = q.radius - f * q.compliance[0 if front else 1]
            contact = tyre.forces(q.tyre, front, vx - yaw_rate * py, vy + yaw_rate * px, c, s, w, f, radius, es)
            wheel = spin(m, lfdm, contact, w, radius, q.inertia, drive, brake * q.brakes[0 if front else 1], h)
            gx, gy = wheel.fx * c - contact.fy * s, wheel.fx * s + contact.fy * c
            total = [t + g for t, g in zip(total, (gx, gy, px * gy - py * gx))]
            if tyre.implicit:
                # Slopes against (u, v, r): B' R diag(kx, ky) R' B with the contact patch's velocity B (u, v, r).
                kuu = wheel.kx * c * c + contact.ky * s * s
                kvv = wheel.kx * s * s + contact.ky * c * c
                kuv = (wheel.kx - contact.ky) * c * s
                kur, kvr = kuv * px - kuu * py, kvv * px - kuv * py
                slopes = [k + h * g for k, g in zip(slopes, (kuu, kuv, kur, kvv, kvr, kvr * px - kur * py))]
            wheels.append((px, py, c, s, contact, wheel))
            if lfdm:
                rates += [where(f > 0.0, rate, 0.0) for rate in contact.rates]
            else:
                rates += contact.rates

        # Chassis (eqs 4-7) in the unknowns ax = du/dt - r v, ay = dv/dt + r u, roll and yaw acceleration. The slopes act on
        # du/dt and dv/dt, hence the terms with r v and r u on the right.
        kuu, kuv, kur, kvv, kvr, krr = slopes
        rv, ru = yaw_rate * vy, yaw_rate * vx
        e1 = total[0] - q.first * yaw_rate * yaw_rate - 2.0 * q.lever * yaw_rate * roll_rate - kuu * rv + kuv * ru
        e2 = total[1] - kuv * rv + kvv * ru
        e3 = total[2] - kur * rv + kvr * ru
        e4 = -q.roll_stiffness * roll - q.roll_damping * roll_rate
        # Roll eliminated: a symmetric 3 x 3 system.
        roll_inertia, lever, cross = q.roll_inertia, q.lever, q.cross
        m11 = q.mass + kuu
        m22, m23 = q.mass + kvv - lever * lever / roll_inertia, kvr - q.first + lever * cross / roll_inertia
        m33 = q.yaw_inertia + krr - cross * cross / roll_inertia
        e2, e3 = e2 + lever * e4 / roll_inertia, e3 - cross * e4 / roll_inertia
        if tyre.implicit:
            ax, ay, yaw_acc = solve_symmetric(m11, kuv, kur, m22, m23, m33, e1, e2, e3)
        else:
            det = m22 * m33 - m23 * m23
            ax, ay, yaw_acc = e1 / m11, (m33 * e2 - m23 * e3) / det, (m22 * e3 - m23 * e2) / det
        roll_acc = (e4 + lever * ay - cross * yaw_acc) / roll_inertia

        ud, vd = ax + rv, ay - ru
        spins, fxs, fys = [], [], []
        for px, py, c, s, contact, wheel in wheels:
            # Tyre force at the end of the step, and the wheel that follows the acceleration of the contact patch.
            ab, bb = ud - yaw_acc * py, vd + yaw_acc * px
            along, across = ab * c + bb * s, bb * c - ab * s
            fxs.append(wheel.fx - h * wheel.kx * along)
            fys.append(contact.fy - h * contact.ky * across)
            spins.append(wheel.acceleration + wheel.follow * along)
        return m.namespace(ud=ud, vd=vd, roll_acc=roll_acc, yaw_acc=yaw_acc, ax=ax, ay=ay, omegas=omegas, spins=spins,
                           deflections=[e for es in deflections for e in es], rates=rates, train_rates=train_rates,
                           forces=(*fxs, *fys, *fz))

    # -- What the back ends compile -------------------------------------------------------------------------------
    def step(x, u, q, h):
        # Half-implicit: velocities from the old positions, positions from the new velocities (paper 000 section 3).
        px, py, yaw, roll, vx, vy, roll_rate, yaw_rate = x[:8]
        d = dynamics(x, u, q, h)
        vx, vy, roll_rate, yaw_rate = vx + h * d.ud, vy + h * d.vd, roll_rate + h * d.roll_acc, yaw_rate + h * d.yaw_acc
        c, s = cos(yaw), sin(yaw)
        # The C++ library keeps du/dt and dv/dt, and takes u, v, r of the next step for the rest of the proper acceleration.
        ax, ay = (d.ud - yaw_rate * vy, d.vd + yaw_rate * vx) if lfdm else (d.ax, d.ay)
        return (px + h * (vx * c - vy * s), py + h * (vx * s + vy * c), yaw + h * yaw_rate, roll + h * roll_rate,
                vx, vy, roll_rate, yaw_rate, *(w + h * a for w, a in zip(d.omegas, d.spins)), ax, ay,
                *(e + h * r for e, r in zip(d.deflections, d.rates)), *train.advance(x[n_chassis + n_tyres:], d.train_rates, h))

    def rhs(x, u, q):
        _, _, yaw, _, vx, vy, roll_rate, yaw_rate, _, _, _, _, ax, ay = x[:n_chassis]
        d = dynamics(x, u, q, 0.0)
        c, s = cos(yaw), sin(yaw)
        return (vx * c - vy * s, vx * s + vy * c, yaw_rate, roll_rate, d.ud, d.vd, d.roll_acc, d.yaw_acc, *d.spins,
                d.ax - ax, d.ay - ay, *d.rates, *train.flow(x[n_chassis + n_tyres:], d.train_rates))

    def tyre_forces(x, u, q, h):
        return dynamics(x, u, q, h).forces

    def wheel_loads(x, u, q):
        return loads(x[3], x[6], x[12], x[13], q)

    def drive(x, u, q):
        return (*train.report(x[8:12], x[n_chassis + n_tyres:], q.train), steer.angle(u[0], q.steer))

    return m.namespace(prepare=prepare, step=step, rhs=rhs, tyre_forces=tyre_forces, wheel_loads=wheel_loads, drive=drive,
                       input_time=0.0 if lfdm else 0.5)
