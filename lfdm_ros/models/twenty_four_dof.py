"""24-DOF: a sprung mass in six degrees of freedom on four struts, each with an unsprung mass (Shim & Ghike 2007; paper 003).

Deflections of struts and tyres are measured from the static ones, so that a vehicle at rest is exactly at rest. The accelerations
that make the inertia forces of the unsprung masses are those of the last step.
"""

from __future__ import annotations

from typing import Any

from lfdm_ros.models.chassis import ACCELERATION, BODY, GRAVITY, LFDM_GRAVITY, PLANE, ROLL, VELOCITY, WHEELS_AND_BRAKES, spin
from lfdm_ros.models.declaration import Field, per_wheel

_CG_HEIGHT = Field("cg_height", "m", "height of the sprung mass's centre above ground", "h", 0.0, 5.0, True)

STATES = (
    *PLANE,
    Field("roll", "rad", "roll angle, + right side down", "phi"),
    Field("pitch", "rad", "pitch angle, + nose down", "theta"),
    *VELOCITY,
    Field("vz", "m/s", "vertical velocity, body-fixed", "w"),
    Field("roll_rate", "rad/s", "roll rate", "omega_x"),
    Field("pitch_rate", "rad/s", "pitch rate", "omega_y"),
    Field("yaw_rate", "rad/s", "yaw rate", "omega_z"),
    *per_wheel("omega", "rad/s", "wheel speed", "omega"),
    *ACCELERATION,
    Field("roll_acceleration", "rad/s^2", "roll acceleration of the last step", role="held"),
    Field("pitch_acceleration", "rad/s^2", "pitch acceleration of the last step", role="held"),
    Field("yaw_acceleration", "rad/s^2", "yaw acceleration of the last step", role="held"),
    *per_wheel("strut_deflection", "m", "compression of the strut from the static one"),
    *per_wheel("unsprung_velocity", "m/s", "vertical velocity of the unsprung mass, body-fixed"),
    *per_wheel("tyre_compression", "m", "vertical compression of the tyre from the static one"),
)
# What the C++ library also keeps from the last step.
LFDM_STATES = (
    *per_wheel("strut_rate", "m/s", "compression rate of the strut in the last step", role="held"),
    Field("jacking_front", "N", "jacking force of the front axle in the last step", role="held"),
    Field("jacking_rear", "N", "jacking force of the rear axle in the last step", role="held"),
    *per_wheel("loaded_radius", "m", "loaded radius in the last step", role="held"),
)
PARAMETERS = (
    *BODY, _CG_HEIGHT, *ROLL, *WHEELS_AND_BRAKES,
    Field("pitch_inertia", "kg*m^2", "pitch inertia of the sprung mass", "Jy", 0.0, 1e7, True),
    Field("suspension_stiffness_front", "N/m", "stiffness of one front strut", "ksf", 0.0, 1e8, True),
    Field("suspension_stiffness_rear", "N/m", "stiffness of one rear strut", "ksr", 0.0, 1e8, True),
    Field("suspension_damping_front", "N*s/m", "damping of one front strut", "bsf", 0.0, 1e7),
    Field("suspension_damping_rear", "N*s/m", "damping of one rear strut", "bsr", 0.0, 1e7),
)


def build(m: Any, tyre: Any, train: Any, steer: Any, lfdm: bool, tyre_states: int) -> Any:
    """The equations on the operations of `m` with these parts; states after the chassis' as in `roll_chassis`."""
    where, fmax, sin, cos = m.where, m.fmax, m.sin, m.cos
    gravity = LFDM_GRAVITY if lfdm else GRAVITY
    n_held = len(STATES)
    n_chassis, n_tyres = n_held + (len(LFDM_STATES) if lfdm else 0), 4 * tyre_states

    def prepare(p):
        a, b = p.cg_to_front_axle, p.cg_to_rear_axle
        # Of one wheel: unsprung mass, load of the spring and of the tyre at rest.
        masses = (0.5 * p.unsprung_mass_front, 0.5 * p.unsprung_mass_rear)
        springs = (0.5 * p.sprung_mass * gravity * b / (a + b), 0.5 * p.sprung_mass * gravity * a / (a + b))
        loads = [spring + gravity * mass for spring, mass in zip(springs, masses)]
        stiffness = (p.tyre_vertical_stiffness_front, p.tyre_vertical_stiffness_rear)
        compressions = [load / k for load, k in zip(loads, stiffness)]
        mass = p.sprung_mass + p.unsprung_mass_front + p.unsprung_mass_rear
        return m.namespace(
            a=a, b=b, halves=(0.5 * p.track_front, 0.5 * p.track_rear), masses=masses, springs=springs, loads=loads,
            tyre_stiffness=stiffness, compressions=compressions, radius=p.wheel_radius,
            lengths=[p.cg_height - (p.wheel_radius - c) for c in compressions],
            stiffness=(p.suspension_stiffness_front, p.suspension_stiffness_rear),
            damping=(p.suspension_damping_front, p.suspension_damping_rear),
            drops=(p.roll_centre_drop_front, p.roll_centre_drop_rear), inertia=p.wheel_inertia,
            brakes=(p.brake_torque_front, p.brake_torque_rear), sprung=p.sprung_mass,
            inertias=(p.roll_inertia, p.pitch_inertia, p.yaw_inertia),
            # Acceleration of the contact patch for a unit of force at all wheels: what a stiff tyre's damping acts against.
            # Pitch and roll have their part: without it a high body on stiff tyres never comes to rest.
            mobility=(1.0 / mass + p.cg_height * p.cg_height / p.pitch_inertia,
                      *(1.0 / mass + arm * arm / p.yaw_inertia + p.cg_height * p.cg_height / p.roll_inertia for arm in (a, b))),
            tyre=tyre.prepare(p), train=train.prepare(p), steer=steer.prepare(p))

    def dynamics(x, u, q, h):
        _, _, _, phi, theta, vx, vy, vz, wx, wy, wz = x[:11]
        omegas, (ax, ay, wx_dot, wy_dot, wz_dot) = x[11:15], x[15:20]
        strut, unsprung, compression = x[20:24], x[24:28], x[28:32]
        deflections = [x[n_chassis + i * tyre_states:n_chassis + (i + 1) * tyre_states] for i in range(4)]
        steering, throttle, brake = u
        ud, vd = ax + wz * vy - wy * vz, ay + wx * vz - wz * vx
        cos_p, sin_p, cos_t, sin_t = cos(phi), sin(phi), cos(theta), sin(theta)
        level = cos_p * cos_t

        deviations = [q.tyre_stiffness[i // 2] * c for i, c in enumerate(compression)]  # of the load from the static one
        ground = [q.loads[i // 2] + dev > 0.0 for i, dev in enumerate(deviations)]
        deviations = [where(g, dev, -q.loads[i // 2]) for i, (g, dev) in enumerate(zip(ground, deviations))]
        if lfdm:
            omegas = [where(g, w, 0.0) for g, w in zip(ground, omegas)]
            deflections = [[where(g, e, 0.0) for e in es] for g, es in zip(ground, deflections)]
            compression = [where(g, c, -q.compressions[i // 2]) for i, (g, c) in enumerate(zip(ground, compression))]
        delta = steer.angle(steering, q.steer)
        cos_d, sin_d = cos(delta), sin(delta)
        drives, train_rates = train.drive(omegas, vx, throttle, x[n_chassis + n_tyres:], q.train)

        corners = []
        for i in range(4):
            axle, left = i // 2, i % 2 == 0
            front = axle == 0
            px, py = q.a if front else -q.b, q.halves[axle] if left else -q.halves[axle]
            mass, length = q.masses[axle], q.lengths[axle] - strut[i]
            # Velocities of the strut's top, of the unsprung mass, and its acceleration.
            us, vs, ws = vx - py * wz, vy + px * wz, py * wx - px * wy + vz
            uu, vu, wu = us - length * wy, vs + length * wx, unsprung[i]
            rate = wu - ws
            late_rate = x[n_held + i] if lfdm else rate
            uu_dot = ud - py * wz_dot + late_rate * wy - length * wy_dot
            vu_dot = vd + px * wz_dot - late_rate * wx + length * wx_dot

            # Tyre (Shim & Ghike eqs for the contact patch).
            fz = q.loads[axle] + deviations[i]
            radius = (q.radius - fmax(compression[i] + q.compressions[axle], 0.0)) / level
            if lfdm:
                radius = where(ground[i], radius, q.radius)
            arm = x[n_held + 6 + i] if lfdm else radius
            vgx = cos_t * (uu - wy * arm) + sin_t * (wu * cos_p + sin_p * (wx * arm + vu))
            vgy = cos_p * (vu + wx * arm) - wu * sin_p
            c, s = (cos_d, sin_d) if front else (1.0, 0.0)
            contact = tyre.forces(q.tyre, front, vgx, vgy, c, s, omegas[i], fz, radius, deflections[i])
            wheel = spin(m, lfdm, contact, omegas[i], radius, q.inertia, drives[i], brake * q.brakes[axle], h)
            fx_tyre = wheel.fx / (1.0 + h * wheel.kx * 4.0 * q.mobility[0]) if tyre.implicit else wheel.fx
            fy_tyre = contact.fy / (1.0 + h * contact.ky * 4.0 * q.mobility[1 + axle]) if tyre.implicit else contact.fy
            if lfdm:
                fx_tyre, fy_tyre = where(ground[i], fx_tyre, 0.0), where(ground[i], fy_tyre, 0.0)
            fx, fy = fx_tyre * c - fy_tyre * s, fx_tyre * s + fy_tyre * c
            fxg = fx * cos_t - fz * sin_t
            fyg = fx * sin_p * sin_t + fy * cos_p + fz * sin_p * cos_t

            # Forces through the strut on the sprung mass; vertical ones from the static load.
            fxs = fxg + mass * (gravity * sin_t - uu_dot + wz * vu - wy * wu)
            # One of the C++ library's four struts lacks the pitch angle here.
            tilt = sin_p if lfdm and i == 3 else sin_p * cos_t
            fys = fyg + mass * (-gravity * tilt - vu_dot + wx * wu - wz * uu)
            spring = q.stiffness[axle] * strut[i]
            corners.append(m.namespace(
                axle=axle, px=px, py=py, mass=mass, fx_tyre=fx_tyre, fy_tyre=fy_tyre, fz=fz, fxg=fxg, fyg=fyg, fxs=fxs, fys=fys,
                vertical=spring + q.damping[axle] * rate, rate=rate, radius=radius, roll_arm=fyg * radius + fys * length,
                my=-(fxg * radius + fxs * length),
                # Unsprung mass: tyre, spring and weight; the static loads cancel.
                lift=(level * deviations[i] - q.springs[axle] * (1.0 - level) + cos_p * sin_t * fx - sin_p * fy
                      - spring - q.damping[axle] * late_rate) / mass - (vu * wx - uu * wy),
                compression_rate=uu * sin_t - cos_t * (wu * cos_p + vu * sin_p), spin=wheel.acceleration,
                rates=[where(ground[i], r, 0.0) if lfdm else r for r in contact.rates]))

        jacking = []  # vertical force on the right wheel's strut, the left one's is its negative
        for axle in range(2):
            left, right = corners[2 * axle:2 * axle + 2]
            jacking.append((right.roll_arm + left.roll_arm - (right.fys + left.fys) * q.drops[axle]) / (2.0 * q.halves[axle]))
        late_jacking = x[n_held + 4:n_held + 6] if lfdm else jacking
        for corner in corners:
            side = late_jacking[corner.axle] / corner.mass
            corner.lift = corner.lift + side if corner is corners[2 * corner.axle] else corner.lift - side

        fl, fr, rl, rr = corners
        jx, jy, jz = q.inertias
        ax = sum(c.fxs for c in corners) / q.sprung + gravity * sin_t
        ay = sum(c.fys for c in corners) / q.sprung - gravity * sin_p * cos_t
        az = sum(c.vertical for c in corners) / q.sprung + gravity * (1.0 - level)
        roll_acc = ((fl.fys + fr.fys) * q.drops[0] + (rl.fys + rr.fys) * q.drops[1]
                    + (fl.vertical - fr.vertical) * q.halves[0] + (rl.vertical - rr.vertical) * q.halves[1]) / jx
        pitch_acc = (fl.my + fr.my + rl.my + rr.my + (rl.vertical + rr.vertical) * q.b - (fl.vertical + fr.vertical) * q.a) / jy
        yaw_acc = ((fl.fys + fr.fys) * q.a - (rl.fys + rr.fys) * q.b
                   + (fr.fxs - fl.fxs) * q.halves[0] + (rr.fxs - rl.fxs) * q.halves[1]) / jz
        held = (*(c.rate for c in corners), *jacking, *(c.radius for c in corners)) if lfdm else ()
        return m.namespace(
            velocities=(ax + wz * vy - wy * vz, ay + wx * vz - wz * vx, az + wy * vx - wx * vy, roll_acc, pitch_acc, yaw_acc),
            accelerations=(ax, ay, roll_acc, pitch_acc, yaw_acc), omegas=omegas, spins=[c.spin for c in corners],
            vertical=(*(c.rate for c in corners), *(c.lift for c in corners), *(c.compression_rate for c in corners)),
            verticals=(*strut, *unsprung, *compression), held=held, deflections=[e for es in deflections for e in es],
            rates=[r for c in corners for r in c.rates], train_rates=train_rates,
            forces=(*(c.fx_tyre for c in corners), *(c.fy_tyre for c in corners), *(c.fz for c in corners)))

    def turning(phi, theta, wx, wy, wz):
        # Rates of yaw, roll and pitch angle (Cardan angles).
        across = wy * sin(phi) + wz * cos(phi)
        return across / cos(theta), wx + across * sin(theta) / cos(theta), wy * cos(phi) - wz * sin(phi)

    def step(x, u, q, h):
        px, py, yaw, roll, pitch = x[:5]
        d = dynamics(x, u, q, h)
        vx, vy, vz, wx, wy, wz = (v + h * a for v, a in zip(x[5:11], d.velocities))
        yaw_dot, roll_dot, pitch_dot = turning(roll, pitch, wx, wy, wz)
        yaw = yaw + h * yaw_dot
        c, s = cos(yaw), sin(yaw)
        # The held accelerations are those of the velocity components; the rest is that of the velocities they now belong to.
        ud, vd = d.velocities[:2]
        return (px + h * (vx * c - vy * s), py + h * (vx * s + vy * c), yaw, roll + h * roll_dot, pitch + h * pitch_dot,
                vx, vy, vz, wx, wy, wz, *(w + h * a for w, a in zip(d.omegas, d.spins)),
                ud - wz * vy + wy * vz, vd - wx * vz + wz * vx, *d.accelerations[2:],
                *(v + h * rate for v, rate in zip(d.verticals, d.vertical)), *d.held,
                *(e + h * r for e, r in zip(d.deflections, d.rates)), *train.advance(x[n_chassis + n_tyres:], d.train_rates, h))

    def rhs(x, u, q):
        _, _, yaw, roll, pitch, vx, vy, _, wx, wy, wz = x[:11]
        d = dynamics(x, u, q, 0.0)
        c, s = cos(yaw), sin(yaw)
        return (vx * c - vy * s, vx * s + vy * c, *turning(roll, pitch, wx, wy, wz), *d.velocities, *d.spins,
                *(new - old for new, old in zip(d.accelerations, x[15:20])), *d.vertical,
                *(new - old for new, old in zip(d.held, x[n_held:n_chassis])), *d.rates,
                *train.flow(x[n_chassis + n_tyres:], d.train_rates))

    def tyre_forces(x, u, q, h):
        return dynamics(x, u, q, h).forces

    def wheel_loads(x, u, q):
        # As the tyre's spring would pull, had it not left the ground.
        return [q.loads[i // 2] + q.tyre_stiffness[i // 2] * compression for i, compression in enumerate(x[28:32])]

    def drive(x, u, q):
        return (*train.report(x[11:15], x[n_chassis + n_tyres:], q.train), steer.angle(u[0], q.steer))

    return m.namespace(prepare=prepare, step=step, rhs=rhs, tyre_forces=tyre_forces, wheel_loads=wheel_loads, drive=drive,
                       input_time=0.0 if lfdm else 0.5)
