"""Processor time of a camera image of 640 x 360 and of its JPEG. `lfdm bench camera`."""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from lfdm_lab.benchmarks._subjects import fastest
from lfdm_lab.cli.bench import Measurement
from lfdm_ros.sensors import Camera, CameraSettings, SensorScene, VehicleView
from lfdm_ros.sensors.ground_rays import Surface
from lfdm_ros.simulation.world import OBSTACLE_KINDS, Circle, World
from lfdm_ros.vehicles import Mount

PICTURES = 60  # of a run, of which the fastest counts
MOUNT = Mount(1.2, z=1.6, pitch=0.05)
VIEW = VehicleView(1.0, 0.0, 0.0, 0.0, 0.02, 0.01)


def field(count: int) -> World:
    """Returns circles of all kinds, 8 to 120 m ahead."""
    kinds = list(OBSTACLE_KINDS)
    places = np.random.default_rng(3).uniform((8.0, -40.0, 0.3), (120.0, 40.0, 2.0), (count, 3))
    return World(tuple(Circle(x, y, radius, kind=kinds[k % len(kinds)]) for k, (x, y, radius) in enumerate(places)))


def hills() -> Surface:
    """Returns 280 x 120 m of hills some metres high, in steps of 0.5 m."""
    x, y = np.meshgrid(np.arange(-30.0, 250.5, 0.5), np.arange(-60.0, 60.5, 0.5))
    heights = 4.0 * np.exp(-((x - 50.0) / 12.0) ** 2 - ((y - 5.0) / 15.0) ** 2) + np.sin(0.05 * x) * np.cos(0.07 * y)
    return Surface(heights, -30.0, -60.0, 0.5)


def measure(runs: int) -> list[Measurement]:
    """Measures each scene."""
    many = SensorScene(field(60))
    cameras = {
        "ground": Camera(CameraSettings(), MOUNT, SensorScene(World())),
        "ground, 60 cylinders": Camera(CameraSettings(), MOUNT, many),
        "ground, 400 cylinders": Camera(CameraSettings(), MOUNT, SensorScene(field(400))),
        "ground, 60 cylinders, distortion": Camera(CameraSettings(k1=-0.25, k2=0.06), MOUNT, many),
        "ground, 60 cylinders, noise": Camera(CameraSettings(noise_sd=4.0), MOUNT, many),
        "hills, 60 cylinders": Camera(CameraSettings(), MOUNT, SensorScene(field(60), hills()))}
    records = [Measurement.of(name, [1e3 * fastest(partial(camera.measure, VIEW), PICTURES, time.process_time) for _ in range(runs)], "ms")
               for name, camera in cameras.items()]
    picture = cameras["ground, 60 cylinders"].measure(VIEW)
    return [*records, Measurement.of("JPEG", [1e3 * fastest(lambda: picture.jpeg, PICTURES, time.process_time) for _ in range(runs)], "ms"),
            Measurement.of("size of the JPEG", [1e-3 * len(picture.jpeg)], "kB")]
