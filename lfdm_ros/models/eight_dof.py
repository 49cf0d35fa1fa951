"""The 8-DOF model of paper 000 (eqs 4-13): u, v, yaw, roll and four wheel spins, quasi-static load transfer.

Differences from the paper, and why
- Unsprung masses are per axle, as eqs 10-13 use them; Table 2 gives them per wheel, and the paper's code counts 2 (muf + mur)
  in the total mass but muf g/2 in each load. `unsprung_load_share` = 1 is consistent, 0.5 is the paper's code.
- The wheels are integrated linearly implicitly and the chassis gets the same updated tyre force; lateral and yaw velocity
  carry the tyres' damping implicitly. The paper's explicit wheels cannot start from rest: at 0.2 m/s the slip dynamics have
  rates of 900 to 4700 1/s.
- Brakes and rolling resistance are Coulomb friction, solved within the step: a wheel sticks at exactly zero, without chatter.
"""

from __future__ import annotations

from typing import Any

from lfdm_ros.models import fiala, powertrain
from lfdm_ros.models.declaration import INPUTS, OUTPUTS, Field, Model, per_wheel

GRAVITY = 9.80665  # [m/s^2]
# In continuous time (h = 0) the friction of brakes and rolling resistance is a stiff damper with this time constant [s].
FRICTION_TIME = 1e-3

STATES = (
    Field("x", "m", "position of the sprung mass's centre, x", "X"),
    Field("y", "m", "position of the sprung mass's centre, y", "Y"),
    Field("yaw", "rad", "yaw angle, + left", "psi"),
    Field("roll", "rad", "roll angle, + right side down", "phi"),
    Field("vx", "m/s", "longitudinal velocity, body-fixed", "u"),
    Field("vy", "m/s", "lateral velocity, body-fixed", "v"),
    Field("roll_rate", "rad/s", "roll rate", "omega_x"),
    Field("yaw_rate", "rad/s", "yaw rate", "omega_z"),
    *per_wheel("omega", "rad/s", "wheel speed", "omega"),
    Field("ax", "m/s^2", "longitudinal proper acceleration of the last step; the load transfer uses it", "a_x"),
    Field("ay", "m/s^2", "lateral proper acceleration of the last step; the load transfer uses it", "a_y"),
)

PARAMETERS = (
    Field("sprung_mass", "kg", "sprung mass", "m", 0.0, 1e6, True),
    Field("unsprung_mass_front", "kg", "unsprung mass of the front axle, both wheels", "muf", 0.0, 1e5),
    Field("unsprung_mass_rear", "kg", "unsprung mass of the rear axle, both wheels", "mur", 0.0, 1e5),
    Field("unsprung_load_share", "1", "share of the unsprung weight in the wheel loads: 1 is physics, 0.5 paper 000's code", "", 0.0, 1.0),
    Field("roll_inertia", "kg*m^2", "roll inertia of the sprung mass about its centre", "Jx", 0.0, 1e7, True),
    Field("yaw_inertia", "kg*m^2", "yaw inertia", "Jz", 0.0, 1e7, True),
    Field("roll_yaw_inertia", "kg*m^2", "product of inertia of the sprung mass, xz", "Jxz", -1e6, 1e6),
    Field("cg_to_front_axle", "m", "distance of the sprung mass's centre from the front axle", "a", 0.0, 20.0, True),
    Field("cg_to_rear_axle", "m", "distance of the sprung mass's centre from the rear axle", "b", 0.0, 20.0, True),
    Field("cg_height", "m", "height of the sprung mass's centre above ground", "h", 0.0, 5.0, True),
    Field("track_front", "m", "front track width", "cf", 0.0, 5.0, True),
    Field("track_rear", "m", "rear track width", "cr", 0.0, 5.0, True),
    Field("roll_centre_drop_front", "m", "front roll centre, distance below the sprung mass's centre", "hrcf", -5.0, 5.0),
    Field("roll_centre_drop_rear", "m", "rear roll centre, distance below the sprung mass's centre", "hrcr", -5.0, 5.0),
    Field("roll_stiffness_front", "N*m/rad", "front roll stiffness", "kphi_f", 0.0, 1e7),
    Field("roll_stiffness_rear", "N*m/rad", "rear roll stiffness", "kphi_r", 0.0, 1e7),
    Field("roll_damping_front", "N*m*s/rad", "front roll damping", "bphi_f", 0.0, 1e6),
    Field("roll_damping_rear", "N*m*s/rad", "rear roll damping", "bphi_r", 0.0, 1e6),
    Field("wheel_inertia", "kg*m^2", "spin inertia of one wheel", "Jw", 0.0, 1e4, True),
    Field("wheel_radius", "m", "unloaded tyre radius", "r0", 0.0, 5.0, True),
    Field("tyre_vertical_stiffness_front", "N/m", "vertical stiffness of one front tyre", "ktf", 0.0, 1e8, True),
    Field("tyre_vertical_stiffness_rear", "N/m", "vertical stiffness of one rear tyre", "ktr", 0.0, 1e8, True),
    Field("rolling_resistance", "m", "rolling resistance: torque over load", "rr", 0.0, 1.0),
    *fiala.PARAMETERS,
    *powertrain.PARAMETERS,
    Field("max_road_wheel_angle", "rad", "angle of the front wheels at steering 1", "", 0.0, 1.5, True),
)


def build(m: Any) -> Any:
    """The equations on the operations of `m`; see `lfdm_ros.models.declaration.Model`."""
    fn, where, fabs, fmin, fmax, sin, cos = m.fn, m.where, m.fabs, m.fmin, m.fmax, m.sin, m.cos
    tyre = fiala.build(m).forces
    train = powertrain.build(m)
    motor_speed, wheel_torque = train.motor_speed, train.wheel_torque
    gravity, friction_time = GRAVITY, FRICTION_TIME

    # -- Wheel loads (eqs 10-13) ----------------------------------------------------------------------------------
    @fn
    def loads(x, p):
        _, _, _, roll, _, _, roll_rate, _, _, _, _, _, ax, ay = x
        base = p.cg_to_front_axle + p.cg_to_rear_axle
        muf, mur = p.unsprung_load_share * p.unsprung_mass_front, p.unsprung_load_share * p.unsprung_mass_rear
        static_f = 0.5 * gravity * (p.sprung_mass * p.cg_to_rear_axle / base + muf)
        static_r = 0.5 * gravity * (p.sprung_mass * p.cg_to_front_axle / base + mur)
        # Height of the unsprung masses: the wheel centre's at the static load.
        huf = p.wheel_radius - static_f / p.tyre_vertical_stiffness_front
        hur = p.wheel_radius - static_r / p.tyre_vertical_stiffness_rear
        lateral_f = (muf * huf + p.sprung_mass * p.cg_to_rear_axle * (p.cg_height - p.roll_centre_drop_front) / base) * ay
        lateral_r = (mur * hur + p.sprung_mass * p.cg_to_front_axle * (p.cg_height - p.roll_centre_drop_rear) / base) * ay
        shift_f = (lateral_f + p.roll_stiffness_front * roll + p.roll_damping_front * roll_rate) / p.track_front
        shift_r = (lateral_r + p.roll_stiffness_rear * roll + p.roll_damping_rear * roll_rate) / p.track_rear
        pitch = (p.sprung_mass * p.cg_height + muf * huf + mur * hur) * ax / (2.0 * base)
        return (fmax(static_f - shift_f - pitch, 0.0), fmax(static_f + shift_f - pitch, 0.0),
                fmax(static_r - shift_r + pitch, 0.0), fmax(static_r + shift_r + pitch, 0.0))

    # -- One wheel: tyre, spin and friction, implicit over h ------------------------------------------------------
    @fn
    def wheel(vx, vy, yaw_rate, px, py, cos_d, sin_d, omega, fz, drive, brake, cx, cy, kt, p, h):
        # Velocity of the contact patch, in the body and in the tyre frame.
        ub, vb = vx - yaw_rate * py, vy + yaw_rate * px
        ut, vt = ub * cos_d + vb * sin_d, vb * cos_d - ub * sin_d
        radius = p.wheel_radius - fz / kt
        fx, fy, kx, ky = tyre(ut, vt, radius * omega, fz, cx, cy, p.friction_scale * p.friction_max, p.friction_scale * p.friction_min)

        # Jw domega/dt = drive - friction - radius fx, with fx linear in the new wheel speed and the new velocity.
        inertia = p.wheel_inertia + h * radius * radius * kx
        capacity = brake + p.rolling_resistance * fz
        to_stop = inertia * omega / fmax(h, friction_time * where(h > 0.0, 0.0, 1.0)) + drive - radius * fx
        stuck = fabs(to_stop) < capacity
        friction = fmin(fmax(to_stop, -capacity), capacity)
        omega_dot = (drive - radius * fx - friction) / inertia
        fx_new = fx + h * kx * radius * omega_dot
        # What is left of the slope when the wheel follows the chassis; a stuck wheel does not follow.
        kx_chassis = where(stuck, kx, kx * p.wheel_inertia / inertia)
        follow = where(stuck, 0.0, h * radius * kx / inertia)
        return fx_new, fy, kx_chassis, ky, omega_dot, follow

    @fn
    def to_body(px, py, cos_d, sin_d, fx, fy, kx, ky):
        # Force and yaw moment of one wheel on the body, and its slopes against (u, v, r): B' R diag(kx, ky) R' B with
        # the contact patch's velocity B (u, v, r) = (u - r py, v + r px).
        gx, gy = fx * cos_d - fy * sin_d, fx * sin_d + fy * cos_d
        kuu = kx * cos_d * cos_d + ky * sin_d * sin_d
        kvv = kx * sin_d * sin_d + ky * cos_d * cos_d
        kuv = (kx - ky) * cos_d * sin_d
        kur, kvr = kuv * px - kuu * py, kvv * px - kuv * py
        return gx, gy, px * gy - py * gx, kuu, kuv, kur, kvv, kvr, kvr * px - kur * py

    @fn
    def settle(px, py, cos_d, sin_d, vx_dot, vy_dot, yaw_acc, fx, fy, kx, ky, h):
        # Tyre force at the end of the step, and the acceleration of the contact patch along the tyre.
        ab, bb = vx_dot - yaw_acc * py, vy_dot + yaw_acc * px
        at, bt = ab * cos_d + bb * sin_d, bb * cos_d - ab * sin_d
        return fx - h * kx * at, fy - h * ky * bt, at

    # -- Accelerations, and the tyre forces that make them --------------------------------------------------------
    @fn
    def dynamics(x, u, p, h):
        _, _, _, roll, vx, vy, roll_rate, yaw_rate, w1, w2, w3, w4, _, _ = x
        steering, throttle, brake = u
        fz1, fz2, fz3, fz4 = loads(x, p)
        a, b = p.cg_to_front_axle, p.cg_to_rear_axle
        tf, tr = 0.5 * p.track_front, 0.5 * p.track_rear
        delta = steering * p.max_road_wheel_angle
        c, s = cos(delta), sin(delta)
        drive = wheel_torque(motor_speed((w1, w2, w3, w4), p), throttle, p)
        bf, br = brake * p.brake_torque_front, brake * p.brake_torque_rear
        cxf, cxr, cyf, cyr = (p.longitudinal_stiffness_front, p.longitudinal_stiffness_rear,
                              p.cornering_stiffness_front, p.cornering_stiffness_rear)
        ktf, ktr = p.tyre_vertical_stiffness_front, p.tyre_vertical_stiffness_rear

        fx1, fy1, kx1, ky1, wd1, fo1 = wheel(vx, vy, yaw_rate, a, tf, c, s, w1, fz1, drive, bf, cxf, cyf, ktf, p, h)
        fx2, fy2, kx2, ky2, wd2, fo2 = wheel(vx, vy, yaw_rate, a, -tf, c, s, w2, fz2, drive, bf, cxf, cyf, ktf, p, h)
        fx3, fy3, kx3, ky3, wd3, fo3 = wheel(vx, vy, yaw_rate, -b, tr, 1.0, 0.0, w3, fz3, drive, br, cxr, cyr, ktr, p, h)
        fx4, fy4, kx4, ky4, wd4, fo4 = wheel(vx, vy, yaw_rate, -b, -tr, 1.0, 0.0, w4, fz4, drive, br, cxr, cyr, ktr, p, h)
        gx1, gy1, gz1, uu1, uv1, ur1, vv1, vr1, rr1 = to_body(a, tf, c, s, fx1, fy1, kx1, ky1)
        gx2, gy2, gz2, uu2, uv2, ur2, vv2, vr2, rr2 = to_body(a, -tf, c, s, fx2, fy2, kx2, ky2)
        gx3, gy3, gz3, uu3, uv3, ur3, vv3, vr3, rr3 = to_body(-b, tr, 1.0, 0.0, fx3, fy3, kx3, ky3)
        gx4, gy4, gz4, uu4, uv4, ur4, vv4, vr4, rr4 = to_body(-b, -tr, 1.0, 0.0, fx4, fy4, kx4, ky4)
        kuu, kuv, kur = h * (uu1 + uu2 + uu3 + uu4), h * (uv1 + uv2 + uv3 + uv4), h * (ur1 + ur2 + ur3 + ur4)
        kvv, kvr, krr = h * (vv1 + vv2 + vv3 + vv4), h * (vr1 + vr2 + vr3 + vr4), h * (rr1 + rr2 + rr3 + rr4)

        # Chassis (eqs 4-7) in the unknowns ax = du/dt - r v, ay = dv/dt + r u, roll and yaw acceleration. The slopes act on
        # du/dt and dv/dt, hence the terms with r v and r u on the right.
        mass = p.sprung_mass + p.unsprung_mass_front + p.unsprung_mass_rear
        drop = (p.roll_centre_drop_front * b + p.roll_centre_drop_rear * a) / (a + b)
        first = p.unsprung_mass_rear * b - p.unsprung_mass_front * a
        lever = drop * p.sprung_mass
        rv, ru = yaw_rate * vy, yaw_rate * vx
        e1 = gx1 + gx2 + gx3 + gx4 - first * yaw_rate * yaw_rate - 2.0 * lever * yaw_rate * roll_rate - kuu * rv + kuv * ru
        e2 = gy1 + gy2 + gy3 + gy4 - kuv * rv + kvv * ru
        e3 = gz1 + gz2 + gz3 + gz4 - kur * rv + kvr * ru
        e4 = (lever * gravity - p.roll_stiffness_front - p.roll_stiffness_rear) * roll \
            - (p.roll_damping_front + p.roll_damping_rear) * roll_rate
        # Symmetric 4 x 4 system: roll eliminated, the other three by cofactors.
        roll_inertia = p.roll_inertia + lever * drop
        cross = p.roll_yaw_inertia
        m11, m12, m13 = mass + kuu, kuv, kur
        m22, m23 = mass + kvv - lever * lever / roll_inertia, kvr - first + lever * cross / roll_inertia
        m33 = p.yaw_inertia + krr - cross * cross / roll_inertia
        e2, e3 = e2 + lever * e4 / roll_inertia, e3 - cross * e4 / roll_inertia
        c11, c12, c13 = m22 * m33 - m23 * m23, m13 * m23 - m12 * m33, m12 * m23 - m13 * m22
        c22, c23, c33 = m11 * m33 - m13 * m13, m12 * m13 - m11 * m23, m11 * m22 - m12 * m12
        det = m11 * c11 + m12 * c12 + m13 * c13
        ax = (c11 * e1 + c12 * e2 + c13 * e3) / det
        ay = (c12 * e1 + c22 * e2 + c23 * e3) / det
        yaw_acc = (c13 * e1 + c23 * e2 + c33 * e3) / det
        roll_acc = (e4 + lever * ay - cross * yaw_acc) / roll_inertia

        ud, vd = ax + rv, ay - ru
        fx1, fy1, at1 = settle(a, tf, c, s, ud, vd, yaw_acc, fx1, fy1, kx1, ky1, h)
        fx2, fy2, at2 = settle(a, -tf, c, s, ud, vd, yaw_acc, fx2, fy2, kx2, ky2, h)
        fx3, fy3, at3 = settle(-b, tr, 1.0, 0.0, ud, vd, yaw_acc, fx3, fy3, kx3, ky3, h)
        fx4, fy4, at4 = settle(-b, -tr, 1.0, 0.0, ud, vd, yaw_acc, fx4, fy4, kx4, ky4, h)
        return ((ud, vd, roll_acc, yaw_acc, wd1 + fo1 * at1, wd2 + fo2 * at2, wd3 + fo3 * at3, wd4 + fo4 * at4, ax, ay),
                (fx1, fx2, fx3, fx4, fy1, fy2, fy3, fy4, fz1, fz2, fz3, fz4))

    # -- What the back ends compile -------------------------------------------------------------------------------
    @fn
    def step(x, u, p, h):
        # Half-implicit: velocities from the old positions, positions from the new velocities (paper 000 section 3).
        px, py, yaw, roll, vx, vy, roll_rate, yaw_rate, w1, w2, w3, w4, _, _ = x
        (ud, vd, rd, yd, d1, d2, d3, d4, ax, ay), _ = dynamics(x, u, p, h)
        vx, vy, roll_rate, yaw_rate = vx + h * ud, vy + h * vd, roll_rate + h * rd, yaw_rate + h * yd
        c, s = cos(yaw), sin(yaw)
        return (px + h * (vx * c - vy * s), py + h * (vx * s + vy * c), yaw + h * yaw_rate, roll + h * roll_rate,
                vx, vy, roll_rate, yaw_rate, w1 + h * d1, w2 + h * d2, w3 + h * d3, w4 + h * d4, ax, ay)

    @fn
    def rhs(x, u, p):
        _, _, yaw, _, vx, vy, roll_rate, yaw_rate, _, _, _, _, _, _ = x
        (ud, vd, rd, yd, d1, d2, d3, d4, _, _), _ = dynamics(x, u, p, 0.0)
        c, s = cos(yaw), sin(yaw)
        return (vx * c - vy * s, vx * s + vy * c, yaw_rate, roll_rate, ud, vd, rd, yd, d1, d2, d3, d4, 0.0, 0.0)

    @fn
    def tyre_forces(x, u, p, h):
        _, forces = dynamics(x, u, p, h)
        return forces

    @fn
    def drive(x, u, p):
        _, _, _, _, _, _, _, _, w1, w2, w3, w4, _, _ = x
        return 1.0, motor_speed((w1, w2, w3, w4), p), u[0] * p.max_road_wheel_angle

    return m.namespace(step=step, rhs=rhs, tyre_forces=tyre_forces, drive=drive)


MODEL = Model(
    name="eight_dof",
    description="8 degrees of freedom: longitudinal, lateral, yaw, roll and four wheel spins; Fiala tyre",
    source="paper 000 (Unjhawala et al. 2023) eqs 4-13; tyre: paper 001 eqs 10-21",
    states=STATES, inputs=INPUTS, outputs=OUTPUTS, parameters=PARAMETERS, build=build,
)
