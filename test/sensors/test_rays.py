"""The loop over the LIDAR's beams: its machine code is its text, and no beam that meets something is left out."""

import math

import numpy as np
import pytest

from lfdm_ros.sensors import Lidar, LidarSettings
from lfdm_ros.sensors.rays import beams_between, cast
from lfdm_ros.simulation.world import Circle, Polygon, World
from lfdm_ros.vehicles import Mount


def worlds(count: int) -> list[World]:
    """Of circles and boxes at random, near ones and such that the sensor stands in among them."""
    rng = np.random.default_rng(3)
    made = []
    for _ in range(count):
        things: list = [Circle(*rng.uniform(-12.0, 12.0, 2), rng.uniform(0.2, 3.0)) for _ in range(3)]
        for x, y in rng.uniform(-12.0, 12.0, (2, 2)):
            a, b = rng.uniform(0.3, 4.0, 2)
            things.append(Polygon(((x, y), (x + a, y), (x + a, y + b), (x, y + b))))
        made.append(World(tuple(things)))
    return made


@pytest.mark.parametrize("view", [2.0 * math.pi, 1.5, 0.3])
def test_machine_code_text_and_all_beams_find_the_same(view: float) -> None:
    settings, mount, found = LidarSettings(range_min=0.0, range_max=15.0, field_of_view=view, resolution=0.02, noise_sd=0.0), Mount(), 0
    angles_at = -0.5 * settings.resolution * (settings.beams - 1)
    angles = angles_at + settings.resolution * np.arange(settings.beams)
    along, beams = np.column_stack([np.cos(angles), np.sin(angles)]), np.array([angles_at, settings.resolution, settings.range_max])
    for number, world in enumerate(worlds(25)):
        yaw = 0.7 * number
        pose = np.array([0.0, 0.0, math.cos(yaw), math.sin(yaw)])
        things = *world.circles_at(0.0), *world.edges_at(0.0)
        looked_at, all_beams = np.empty((2, len(angles)))
        cast(beams_between, pose, *things, along, beams, looked_at)
        cast(lambda low, high, first, step, count: (0, count), pose, *things, along, beams, all_beams)
        np.testing.assert_array_equal(looked_at, all_beams)
        ranges = Lidar(world, settings, mount=mount).scan(0.0, 0.0, 0.0, yaw).ranges
        np.testing.assert_allclose(ranges, np.where(looked_at > settings.range_max, np.inf, looked_at), rtol=1e-12)
        found += np.isfinite(ranges).sum()
    assert found > 20 * len(angles) / 4
