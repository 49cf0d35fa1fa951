"""The nonlinear bicycle of paper 004 (eqs 10-15): longitudinal, lateral and yaw motion on a friction coefficient for each axle.

The vehicle coasts: the paper has no thrust, so throttle and brake have no effect and speed is lost only to the lateral force of the
steered tyres. There are no wheels that turn and there is no load transfer; wheel speeds, gear and engine speed are reported as 0.

Differences from the paper, and why
- The critical slip angle alpha_c, where the contact patch begins to slide, is not a parameter of its own: eqs 12-13 begin with the slope
  mu W / (2 tan alpha_c), and that is the axle's cornering stiffness, which vehicle files have for one tyre (the axle has twice that).
  On ice the tyre therefore starts to slide earlier but is not softer (Wong 2008, section 1.4).
- Eqs 14-15 through the velocity of the contact patch in the frame of the wheel: tan alpha = -v_t / u_t. That is the same angle,
  without the arcus tangent, and holds for slip to both sides and in reverse.
- Unsprung masses stand at their axles, off the sprung mass's centre, as in the other models; without them eq 10 stands as it is.
- u_t is kept above 0.1 m/s. A step takes the tyre as a damper -F / v_t on the velocity at its end: at low speed that is stiff, and a
  sliding tyre must not turn its velocity round.
"""

from __future__ import annotations

from typing import Any

from lfdm_ros.models import chassis, fiala, steering
from lfdm_ros.models.declaration import INPUTS, OUTPUTS, Field, Model
from lfdm_ros.models.linear_single_track import BODY_PARAMETERS, STATES, STIFFNESSES, axle_loads, by_wheel

FRICTION = (
    Field("friction_front", "1", "peak friction coefficient of tyre and road, front axle", "mu_f", 0.0, 3.0, True),
    Field("friction_rear", "1", "peak friction coefficient of tyre and road, rear axle", "mu_r", 0.0, 3.0, True),
)


def build(m: Any) -> Any:
    """The equations on the operations of `m`; see `lfdm_ros.models.declaration.Model`."""
    where, fabs, fmax, sin, cos = m.where, m.fabs, m.fmax, m.sin, m.cos
    steer = steering.build_linear(m)
    floor = fiala.SLIP_SPEED_FLOOR

    def prepare(p):
        a, b = p.cg_to_front_axle, p.cg_to_rear_axle
        mass = p.sprung_mass + p.unsprung_mass_front + p.unsprung_mass_rear
        first = p.unsprung_mass_rear * b - p.unsprung_mass_front * a
        load_f, load_r = axle_loads(p)
        limit_f, limit_r = p.friction_front * load_f, p.friction_rear * load_r
        cf, cr = 2.0 * p.cornering_stiffness_front, 2.0 * p.cornering_stiffness_rear
        # Critical slip tan alpha_c = mu W / (2 C), beside the stiffness and the limit.
        return (steer.prepare(p), (a, b), (mass, first, p.yaw_inertia), (cf, limit_f, limit_f / (2.0 * cf)),
                (cr, limit_r, limit_r / (2.0 * cr)), (load_f, load_r))

    # -- Lateral force of an axle (eqs 12-13), and the damper -F / v_t that it is at this velocity ------------------
    def axle(ut, vt, q):
        stiffness, limit, critical = q
        speed = fmax(fabs(ut), floor)
        slip = -vt / speed
        sliding = fabs(slip) > critical
        slip_safe = where(sliding, fabs(slip), 1.0)
        rest = limit * critical / (2.0 * slip_safe)
        force = where(sliding, where(slip < 0.0, rest - limit, limit - rest), stiffness * slip)
        return force, where(sliding, (limit - rest) / slip_safe, stiffness) / speed

    # -- Accelerations (eq 10), implicit over h, and the forces that make them --------------------------------------
    def dynamics(x, u, q, h):
        _, _, _, vx, vy, yaw_rate, _, _ = x
        a, b = q[1]
        mass, first, inertia = q[2]
        delta = steer.angle(u[0], q[0])
        c, s = cos(delta), sin(delta)
        vf, vr = vy + a * yaw_rate, vy - b * yaw_rate
        front, kf = axle(vx * c + vf * s, vf * c - vx * s, q[3])
        rear, kr = axle(vx, vr, q[4])

        # Unknowns ax = du/dt - r v, ay = dv/dt + r u and the yaw acceleration; the dampers act on du/dt, dv/dt and dr/dt.
        kf, kr = h * kf, h * kr
        kuu, kuv, kur = kf * s * s, -kf * s * c, -kf * s * c * a
        kvv, kvr, krr = kf * c * c + kr, kf * c * c * a - kr * b, kf * c * c * a * a + kr * b * b
        rv, ru = yaw_rate * vy, yaw_rate * vx
        e1 = -front * s - first * yaw_rate * yaw_rate - kuu * rv + kuv * ru
        e2 = front * c + rear - kuv * rv + kvv * ru
        e3 = a * front * c - b * rear - kur * rv + kvr * ru
        ax, ay, yaw_acc = chassis.solve_symmetric(mass + kuu, kuv, kur, mass + kvv, kvr - first, inertia + krr, e1, e2, e3)

        ud, vd = ax + rv, ay - ru
        front = front - kf * ((vd + a * yaw_acc) * c - ud * s)
        rear = rear - kr * (vd - b * yaw_acc)
        return (ud, vd, yaw_acc, ax, ay), (front, rear)

    # -- What the back ends compile -------------------------------------------------------------------------------
    def step(x, u, q, h):
        # Half-implicit: velocities from the old positions, positions from the new velocities (eq 11).
        px, py, yaw, vx, vy, yaw_rate, _, _ = x
        (ud, vd, yaw_acc, ax, ay), _ = dynamics(x, u, q, h)
        vx, vy, yaw_rate = vx + h * ud, vy + h * vd, yaw_rate + h * yaw_acc
        c, s = cos(yaw), sin(yaw)
        return px + h * (vx * c - vy * s), py + h * (vx * s + vy * c), yaw + h * yaw_rate, vx, vy, yaw_rate, ax, ay

    def rhs(x, u, q):
        _, _, yaw, vx, vy, yaw_rate, ax_held, ay_held = x
        (ud, vd, yaw_acc, ax, ay), _ = dynamics(x, u, q, 0.0)
        c, s = cos(yaw), sin(yaw)
        return vx * c - vy * s, vx * s + vy * c, yaw_rate, ud, vd, yaw_acc, ax - ax_held, ay - ay_held

    def tyre_forces(x, u, q, h):
        _, (front, rear) = dynamics(x, u, q, h)
        return by_wheel(front, rear, q[5])

    def wheel_loads(x, u, q):
        return by_wheel(0.0, 0.0, q[5])[8:]

    def drive(x, u, q):
        return 0.0, 0.0, steer.angle(u[0], q[0])

    return m.namespace(prepare=prepare, step=step, rhs=rhs, tyre_forces=tyre_forces, wheel_loads=wheel_loads, drive=drive, input_time=0.5)


MODEL = Model(
    name="nonlinear_bicycle",
    description="nonlinear bicycle: planar motion, sliding tyres, friction by axle; throttle and brake have no effect",
    source="paper 004 (Schmitt et al. 2008) eqs 10-15",
    states=STATES, inputs=INPUTS, outputs=OUTPUTS, parameters=(*BODY_PARAMETERS, *STIFFNESSES, *FRICTION, *steering.LINEAR.parameters),
    build=build,
)
