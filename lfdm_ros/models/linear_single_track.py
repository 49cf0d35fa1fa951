"""The linear single-track model of paper 002 (Schramm et al. 2018): sideslip and yaw rate at constant speed, one tyre an axle.

Conventions
- The tyre forces are linear in the slip angle, without a limit; all angles are small. The lateral velocity stands for the sideslip:
  beta = vy / vx. Position and yaw follow from the velocities without that approximation.
- The longitudinal speed is what it was at the start: throttle and brake have no effect. There are no wheels that turn; wheel
  speeds, gear and engine speed are reported as 0.
- The vehicle file has the cornering stiffness of one tyre; the axle's is twice that.
- Unsprung masses stand at their axles. With them the equations are those of `eight_dof` without roll, linearised; without them,
  those of paper 002 term by term.
- The slip angle's denominator is kept above 0.1 m/s, as the tyres of the other models do: a vehicle at rest stays there.

Numerics. With constant input the equations are linear, x' = A x + b; a step adds h phi(h A) (A x + b) with phi(z) = (exp(z) - 1) / z in
its Pade form (1 - z/6) / (1 - 2z/3 + z^2/6), which is Radau IIA: third order, and a fast decay (low speed) dies out in one step. An
input that is linear over the step is used at its middle, which costs h^2 u''/24 of the input.
"""

from __future__ import annotations

from typing import Any

from lfdm_ros.models import chassis, fiala, steering
from lfdm_ros.models.declaration import INPUTS, OUTPUTS, Field, Model

STATES = (
    Field("x", "m", "position of the sprung mass's centre, x", "X"),
    Field("y", "m", "position of the sprung mass's centre, y", "Y"),
    Field("yaw", "rad", "yaw angle, + left", "psi"),
    Field("vx", "m/s", "longitudinal velocity, body-fixed", "v_x"),
    Field("vy", "m/s", "lateral velocity, body-fixed", "v_y"),
    Field("yaw_rate", "rad/s", "yaw rate", "omega_z"),
    Field("ax", "m/s^2", "longitudinal proper acceleration", "a_x", role="held"),
    Field("ay", "m/s^2", "lateral proper acceleration", "a_y", role="held"),
)

_DECLARED = {field.name: field for field in (*chassis.BODY, *fiala.PARAMETERS)}
# What a single-track model knows of the vehicle, its tyres apart.
BODY_PARAMETERS = tuple(_DECLARED[name] for name in ("sprung_mass", "unsprung_mass_front", "unsprung_mass_rear", "yaw_inertia",
                                                     "cg_to_front_axle", "cg_to_rear_axle"))
STIFFNESSES = tuple(_DECLARED[name] for name in ("cornering_stiffness_front", "cornering_stiffness_rear"))


def axle_loads(p: Any) -> tuple[Any, Any]:
    """Load of the front and of the rear axle at rest [N], unsprung masses at their axles."""
    a, b = p.cg_to_front_axle, p.cg_to_rear_axle
    return (chassis.GRAVITY * (p.sprung_mass * b / (a + b) + p.unsprung_mass_front),
            chassis.GRAVITY * (p.sprung_mass * a / (a + b) + p.unsprung_mass_rear))


def by_wheel(front: Any, rear: Any, loads: tuple[Any, Any]) -> tuple[Any, ...]:
    """Fx, Fy, Fz of four wheels from the lateral forces and the loads of two axles."""
    halves = [0.5 * value for value in (front, front, rear, rear, loads[0], loads[0], loads[1], loads[1])]
    return (0.0, 0.0, 0.0, 0.0, *halves)


def build(m: Any) -> Any:
    """The equations on the operations of `m`; see `lfdm_ros.models.declaration.Model`."""
    fabs, fmax, sin, cos = m.fabs, m.fmax, m.sin, m.cos
    steer = steering.build_linear(m)
    floor = fiala.SLIP_SPEED_FLOOR

    def prepare(p):
        a, b = p.cg_to_front_axle, p.cg_to_rear_axle
        mass = p.sprung_mass + p.unsprung_mass_front + p.unsprung_mass_rear
        first = p.unsprung_mass_rear * b - p.unsprung_mass_front * a
        # Lateral and yaw acceleration for a unit of lateral force at the front and at the rear axle.
        det = mass * p.yaw_inertia - first * first
        yf, yr = (p.yaw_inertia + first * a) / det, (p.yaw_inertia - first * b) / det
        zf, zr = (mass * a + first) / det, (first - mass * b) / det
        return (steer.prepare(p), (a, b, 2.0 * p.cornering_stiffness_front, 2.0 * p.cornering_stiffness_rear), (yf, yr, zf, zr),
                axle_loads(p))

    def axle_forces(vx, vy, yaw_rate, delta, q):
        a, b, cf, cr = q[1]
        speed = fmax(fabs(vx), floor)
        return cf * (vx * delta - vy - a * yaw_rate) / speed, cr * (b * yaw_rate - vy) / speed

    def accelerations(vx, vy, yaw_rate, delta, q):
        # Proper lateral acceleration and yaw acceleration.
        yf, yr, zf, zr = q[2]
        front, rear = axle_forces(vx, vy, yaw_rate, delta, q)
        return yf * front + yr * rear, zf * front + zr * rear

    def step(x, u, q, h):
        px, py, yaw, vx, vy, yaw_rate, _, _ = x
        a, b, cf, cr = q[1]
        yf, yr, zf, zr = q[2]
        delta = steer.angle(u[0], q[0])
        ay, yaw_acc = accelerations(vx, vy, yaw_rate, delta, q)
        vy_dot = ay - vx * yaw_rate
        # h A, in the order vy, yaw rate.
        scale = h / fmax(fabs(vx), floor)
        a11, a12 = -(yf * cf + yr * cr) * scale, (yr * cr * b - yf * cf * a) * scale - h * vx
        a21, a22 = -(zf * cf + zr * cr) * scale, (zr * cr * b - zf * cf * a) * scale
        n1, n2 = vy_dot - (a11 * vy_dot + a12 * yaw_acc) / 6.0, yaw_acc - (a21 * vy_dot + a22 * yaw_acc) / 6.0
        trace, product = a11 + a22, a12 * a21
        d11, d12 = 1.0 - 2.0 / 3.0 * a11 + (a11 * a11 + product) / 6.0, (trace / 6.0 - 2.0 / 3.0) * a12
        d22, d21 = 1.0 - 2.0 / 3.0 * a22 + (a22 * a22 + product) / 6.0, (trace / 6.0 - 2.0 / 3.0) * a21
        det = d11 * d22 - d12 * d21
        vy_new, yaw_rate_new = vy + h * (d22 * n1 - d12 * n2) / det, yaw_rate + h * (d11 * n2 - d21 * n1) / det

        yaw_new = yaw + 0.5 * h * (yaw_rate + yaw_rate_new)
        c, s = cos(0.5 * (yaw + yaw_new)), sin(0.5 * (yaw + yaw_new))
        vy_mean = 0.5 * (vy + vy_new)
        ay, _ = accelerations(vx, vy_new, yaw_rate_new, delta, q)
        return (px + h * (vx * c - vy_mean * s), py + h * (vx * s + vy_mean * c), yaw_new, vx, vy_new, yaw_rate_new,
                -yaw_rate_new * vy_new, ay)

    def rhs(x, u, q):
        _, _, yaw, vx, vy, yaw_rate, ax_held, ay_held = x
        ay, yaw_acc = accelerations(vx, vy, yaw_rate, steer.angle(u[0], q[0]), q)
        c, s = cos(yaw), sin(yaw)
        return (vx * c - vy * s, vx * s + vy * c, yaw_rate, 0.0, ay - vx * yaw_rate, yaw_acc, -yaw_rate * vy - ax_held, ay - ay_held)

    def tyre_forces(x, u, q, h):
        front, rear = axle_forces(x[3], x[4], x[5], steer.angle(u[0], q[0]), q)
        return by_wheel(front, rear, q[3])

    def wheel_loads(x, u, q):
        return by_wheel(0.0, 0.0, q[3])[8:]

    def drive(x, u, q):
        return 0.0, 0.0, steer.angle(u[0], q[0])

    return m.namespace(prepare=prepare, step=step, rhs=rhs, tyre_forces=tyre_forces, wheel_loads=wheel_loads, drive=drive, input_time=0.5)


MODEL = Model(
    name="linear_single_track",
    description="linear single-track: sideslip and yaw rate at constant speed, linear tyres; throttle and brake have no effect",
    source="paper 002 (Rhode) after Schramm, Hiller, Bardini 2018, p. 230",
    states=STATES, inputs=INPUTS, outputs=OUTPUTS, parameters=(*BODY_PARAMETERS, *STIFFNESSES, *steering.LINEAR.parameters), build=build,
)
