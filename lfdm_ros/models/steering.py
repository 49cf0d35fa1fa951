"""Relation of the front wheels' angle to the steering input."""

from typing import Any

from lfdm_ros.models import tables
from lfdm_ros.models.declaration import Field, Part, table_fields
from lfdm_ros.models.equations import Operations, Scalar

MAP_POINTS = 12


class LinearSteering:
    """Proportional."""

    def __init__(self, m: Operations):
        pass

    def prepare(self, p: Any) -> Any:
        return p.max_road_wheel_angle

    def angle(self, steering: Scalar, q: Any) -> Scalar:
        return steering * q


class SteeringMap:
    """Interpolated in a table."""

    def __init__(self, m: Operations):
        table = tables.build(m, "steering_input", "steering_angle", MAP_POINTS)
        self.prepare, self.angle = table.prepare, table.lookup


LINEAR = Part("linear", "front wheel angle proportional to the steering input",
              (Field("max_road_wheel_angle", "rad", "angle of the front wheels at steering 1", "", 0.0, 1.5, True),), LinearSteering)
MAP = Part("steering_map", "front wheel angle from a table of the steering input",
           (*table_fields("steering_input", "1", "steering map, steering input", MAP_POINTS, -1.0, 1.0),
            *table_fields("steering_angle", "rad", "steering map, angle of the front wheels", MAP_POINTS, -1.5, 1.5)), SteeringMap)
