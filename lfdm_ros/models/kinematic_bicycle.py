"""The kinematic bicycle: wheels that do not slip sideways, with the drive and brakes of `driven_bicycle`. A baseline for controllers.

The rear axle does not slip, so yaw rate = vx tan(delta) / wheelbase and vy = yaw rate times the distance of the rear axle, at once: both
are held values, not states of their own. The lateral acceleration is that of a steady turn. Friction bounds drive and brakes only.
Parameters are those of `driven_bicycle`; what concerns the tyres' sideways stiffness has no effect.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lfdm_ros.models import steering
from lfdm_ros.models.declaration import INPUTS, OUTPUTS, Model
from lfdm_ros.models.driven_bicycle import PARAMETERS, build_axles, friction_share, stop_time
from lfdm_ros.models.linear_single_track import STATES


def build(m: Any) -> Any:
    """The equations on the operations of `m`; see `lfdm_ros.models.declaration.Model`."""
    where, sin, cos = m.where, m.sin, m.cos
    steer = steering.build_linear(m)
    axles = build_axles(m)

    def prepare(p):
        return m.namespace(axles=axles.prepare(p), steer=steer.prepare(p))

    def accelerate(x, u, q, h):
        # du/dt, whether the vehicle stops within the step, and the longitudinal forces of the axles.
        vx, axle = x[3], q.axles
        (drive_f, hold_f, _), (drive_r, hold_r, _) = axles.forces(vx, (0.0, 0.0), x[6], u[1], u[2], axle)
        time = stop_time(m, h)
        free, slowed = (drive_f + drive_r) / axle.mass, (hold_f + hold_r) / axle.mass
        share, stops = friction_share(m, vx / time + free, slowed)
        return where(stops, -vx / time, free - share * slowed), stops, drive_f - share * hold_f, drive_r - share * hold_r

    def turn(vx, u, q):
        # Yaw rate, and vy of the sprung mass's centre.
        delta = steer.angle(u[0], q.steer)
        yaw_rate = vx * sin(delta) / (cos(delta) * (q.axles.a + q.axles.b))
        return yaw_rate, q.axles.b * yaw_rate

    # -- What the back ends compile -------------------------------------------------------------------------------
    def step(x, u, q, h):
        px, py, yaw, vx, _, _, _, _ = x
        ud, stops, _, _ = accelerate(x, u, q, h)
        vx_new = where(stops, 0.0, vx + h * ud)
        mean = 0.5 * (vx + vx_new)
        yaw_rate, vy = turn(mean, u, q)
        c, s = cos(yaw + 0.5 * h * yaw_rate), sin(yaw + 0.5 * h * yaw_rate)
        yaw_rate_new, vy_new = turn(vx_new, u, q)
        return (px + h * (mean * c - vy * s), py + h * (mean * s + vy * c), yaw + h * yaw_rate, vx_new, vy_new, yaw_rate_new,
                ud - yaw_rate_new * vy_new, yaw_rate_new * vx_new)

    def rhs(x, u, q):
        _, _, yaw, vx, vy_held, yaw_rate_held, ax_held, ay_held = x
        ud, _, _, _ = accelerate(x, u, q, 0.0)
        yaw_rate, vy = turn(vx, u, q)
        c, s = cos(yaw), sin(yaw)
        return (vx * c - vy * s, vx * s + vy * c, yaw_rate, ud, vy - vy_held, yaw_rate - yaw_rate_held,
                ud - yaw_rate * vy - ax_held, yaw_rate * vx - ay_held)

    def tyre_forces(x, u, q, h):
        # Across, what a steady turn needs.
        axle, delta = q.axles, steer.angle(u[0], q.steer)
        _, _, fx_f, fx_r = accelerate(x, u, q, h)
        yaw_rate, _ = turn(x[3], u, q)
        ay, base = yaw_rate * x[3], axle.a + axle.b
        front, rear = (axle.mass * axle.b - axle.first) * ay / base, (axle.mass * axle.a + axle.first) * ay / base
        return axles.split(x, (fx_f, front / cos(delta), fx_r, rear), axle)

    def wheel_loads(x, u, q):
        return axles.wheel_loads(x, q.axles)

    def drive(x, u, q):
        return (*axles.report(x[3], q.axles), steer.angle(u[0], q.steer))

    return m.namespace(prepare=prepare, step=step, rhs=rhs, tyre_forces=tyre_forces, wheel_loads=wheel_loads, drive=drive, input_time=0.5)


MODEL = Model(
    name="kinematic_bicycle",
    description="kinematic bicycle: wheels that do not slip sideways, drive and brakes of driven_bicycle",
    source="paper 004 eqs 10-11 with slip angles of 0",
    states=tuple(replace(field, role="held") if field.name in ("vy", "yaw_rate") else field for field in STATES),
    inputs=INPUTS, outputs=OUTPUTS, parameters=PARAMETERS, build=build,
)
