"""A sensor of your own, in one file: a ring of ultrasonic range finders, each with a cone, by a vehicle's file.

    export LFDM_PLUGINS=examples/ultrasonic_ring.py

    sensors:                                     # in the vehicle's file; any number
      ring_front: {type: ultrasonic_ring, x: {value: 0.8, unit: m}, count: 6, rate: 20.0}

The simulator then publishes sensors/ring_front, a LaserScan with one range per range finder.
"""

from dataclasses import dataclass, replace

import numpy as np

from lfdm_ros.parameters import Declared, setting
from lfdm_ros.sensors import Lidar, LidarSettings, SensorMessage, SensorType, register_sensor

RAYS = 9  # per cone: an echo comes from the nearest surface in it


@dataclass(frozen=True)
class RingSettings(Declared):
    ABOUT = "ultrasonic ring: "

    count: int = setting(6, "1", "range finders, evenly over a full circle", 2, 64)
    cone: float = setting(0.5, "rad", "opening angle of each", 0.01, 1.5)
    range_max: float = setting(5.0, "m", "farthest echo", 0.5, 20.0)
    rate: float = setting(20.0, "Hz", "measurements per simulated second", 0.1, 1000.0)
    latency: float = setting(0.03, "s", "from stamp to arrival", 0.0, 2.0)


class UltrasonicRing:
    def __init__(self, settings, mount, surroundings, seed):
        self.settings, self.mount, self.rate, self.latency = settings, mount, settings.rate, settings.latency
        step = settings.cone / (RAYS - 1)
        cone = LidarSettings(range_min=0.0, range_max=settings.range_max, field_of_view=settings.cone, resolution=step, noise_sd=0.0)
        angles = 2.0 * np.pi / settings.count * np.arange(settings.count)
        self.cones = [Lidar(surroundings.world, cone, seed, replace(mount, yaw=mount.yaw + angle)) for angle in angles]

    def measure(self, view):
        return [float(cone.measure(view).ranges.min()) for cone in self.cones]


def fields(ranges):
    step = 2.0 * np.pi / len(ranges)
    return {"angle_min": 0.0, "angle_max": step * (len(ranges) - 1), "angle_increment": step, "range_min": 0.02, "range_max": 20.0,
            "ranges": ranges}


RING = SensorType("ultrasonic_ring", "ring of ultrasonic range finders", RingSettings, UltrasonicRing,
                  (SensorMessage("sensor_msgs/msg/LaserScan", fields),))
register_sensor(RING)
