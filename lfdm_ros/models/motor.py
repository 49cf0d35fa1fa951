"""Single-gear powertrain with a torque-speed map and open differentials on four wheels (paper 000 section 3.3.1).

In reverse the motor turns the other way with the same map and ratio, as Chrono's SimplePowertrain does, without a shift delay.
"""

from collections.abc import Sequence
from typing import Any

from lfdm_ros.models import tables
from lfdm_ros.models.declaration import Field, Part, table_fields
from lfdm_ros.models.equations import Operations, Record, Scalar

MAP_POINTS = 6

PARAMETERS = (
    Field("driveline_ratio", "1", "wheel speed over motor speed", "", 0.0, 10.0, True),
    *table_fields("motor_speed", "rad/s", "torque map, motor speed", MAP_POINTS, 0.0, 1e5),
    *table_fields("motor_torque", "N*m", "torque map, full-throttle torque", MAP_POINTS, -1e5, 1e5),
)


class Motor:
    """A powertrain (`lfdm_ros.models.equations.Powertrain`) without states."""

    def __init__(self, m: Operations):
        self._where = m.where
        self._table = tables.build(m, "motor_speed", "motor_torque", MAP_POINTS)

    def prepare(self, p: Any) -> Any:
        return Record(ratio=p.driveline_ratio, map=self._table.prepare(p))

    def speed(self, speeds: Sequence[Scalar], q: Any) -> Scalar:
        """Returns the motor's speed: through open differentials it turns with the mean of the wheels."""
        return sum(speeds) / len(speeds) / q.ratio

    # 000 section 3.3.1: the map's torque at the motor's speed, by the throttle, in equal parts to the wheels.
    def drive(self, speeds: Sequence[Scalar], vx: Scalar, throttle: Scalar, x: Record,
              q: Any) -> tuple[Sequence[Scalar], dict[str, Scalar]]:
        speed = self.speed(speeds, q)
        torque = throttle * self._table.lookup(self._where(throttle < 0.0, -speed, speed), q.map) / q.ratio
        return (torque / len(speeds),) * len(speeds), {}

    def report(self, speeds: Sequence[Scalar], x: Record, q: Any) -> tuple[Scalar, Scalar]:
        return 1.0, self.speed(speeds, q)


MOTOR = Part("motor", "one gear, a motor map, four-wheel drive through open differentials", PARAMETERS, Motor)
