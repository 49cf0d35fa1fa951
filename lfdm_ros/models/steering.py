"""From the steering input to the angle of the front wheels."""

from __future__ import annotations

from typing import Any

from lfdm_ros.models import tables
from lfdm_ros.models.declaration import Field, Part, table_fields

MAP_POINTS = 12


def build_linear(m: Any) -> Any:
    """Returns `prepare(p) -> q` and `angle(steering, q)` [rad]: proportional."""

    def prepare(p):
        return (p.max_road_wheel_angle,)

    def angle(steering, q):
        return steering * q[0]

    return m.namespace(prepare=prepare, angle=angle)


def build_map(m: Any) -> Any:
    """Returns `prepare(p) -> q` and `angle(steering, q)` [rad]: interpolated in a table."""
    table = tables.build(m, "steering_input", "steering_angle", MAP_POINTS)
    return m.namespace(prepare=table.prepare, angle=table.lookup)


LINEAR = Part("linear", "front wheel angle proportional to the steering input",
              (Field("max_road_wheel_angle", "rad", "angle of the front wheels at steering 1", "", 0.0, 1.5, True),), build_linear)
MAP = Part("steering_map", "front wheel angle from a table of the steering input",
           (*table_fields("steering_input", "1", "steering map, steering input", MAP_POINTS, -1.0, 1.0),
            *table_fields("steering_angle", "rad", "steering map, angle of the front wheels", MAP_POINTS, -1.5, 1.5)), build_map)
