"""Single-gear powertrain with a torque-speed map and open differentials on four wheels (paper 000 section 3.3.1).

In reverse the motor turns the other way with the same map and ratio, as Chrono's SimplePowertrain does. Nothing holds the change back.
"""

from __future__ import annotations

from typing import Any

from lfdm_ros.models import tables
from lfdm_ros.models.declaration import Field, Part, table_fields

MAP_POINTS = 6

PARAMETERS = (
    Field("driveline_ratio", "1", "wheel speed over motor speed", "", 0.0, 10.0, True),
    *table_fields("motor_speed", "rad/s", "torque map, motor speed", MAP_POINTS, 0.0, 1e5),
    *table_fields("motor_torque", "N*m", "torque map, full-throttle torque", MAP_POINTS, -1e5, 1e5),
)


def build(m: Any, lfdm: bool) -> Any:
    """The interface of a powertrain.

    prepare(p) -> q;
    drive(speeds, vx, throttle, states, q) -> (torques, rates): speeds and torques [N m] of the driven wheels, as many as the chassis
        has wheels; a throttle below 0 drives backwards; `rates` belong to `advance` and `flow`;
    advance(states, rates, h) -> states after a step; flow(states, rates) -> what `rhs` returns for the states;
    report(speeds, states, q) -> (gear, engine speed [rad/s]).
    """
    table = tables.build(m, "motor_speed", "motor_torque", MAP_POINTS)

    def prepare(p):
        return p.driveline_ratio, table.prepare(p)

    def speed_of(speeds, q):
        # Open differentials: the motor turns with the mean of the wheels.
        return sum(speeds) / len(speeds) / q[0]

    def drive(speeds, vx, throttle, states, q):
        speed = speed_of(speeds, q)
        torque = throttle * table.lookup(m.where(throttle < 0.0, -speed, speed), q[1]) / q[0]
        return (torque / len(speeds),) * len(speeds), ()

    def advance(states, rates, h):
        return ()

    def flow(states, rates):
        return ()

    def report(speeds, states, q):
        return 1.0, speed_of(speeds, q)

    return m.namespace(prepare=prepare, drive=drive, advance=advance, flow=flow, report=report)


MOTOR = Part("motor", "one gear, a motor map, four-wheel drive through open differentials", PARAMETERS, build)
