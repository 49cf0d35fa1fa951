"""A planar LIDAR on ground with heights: where its beams end, by closed forms, and what becomes of the ground in the obstacle pipeline."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lfdm_ros.ground import Grid, HeightMap
from lfdm_ros.perception.ground_returns import with_ground_filter
from lfdm_ros.perception.tracker import ObstacleTracker, TrackerSettings
from lfdm_ros.sensors import Lidar, LidarSettings
from lfdm_ros.sensors.ground_rays import Surface
from lfdm_ros.simulation.world import Circle, World
from lfdm_ros.vehicles import Mount

GRID = Grid(-60.0, -60.0, 0.5, 361, 241)
LEVEL = HeightMap(GRID, np.zeros(GRID.shape))
# Level as far as 20 m, then 20 % up, rounded within a metre.
RAMP = HeightMap(GRID, np.tile(0.2 * np.logaddexp(0.0, 4.0 * (GRID.xs - 20.0)) / 4.0, (GRID.ny, 1)))
MOUNT = Mount(x=1.5, z=1.2)
QUIET = LidarSettings(noise_sd=0.0)


def lidar(heights: HeightMap, *obstacles: Circle, mount: Mount = MOUNT, noise: float = 0.0) -> Lidar:
    return Lidar(World(obstacles), LidarSettings(noise_sd=noise), mount=mount, ground=Surface.of(heights))


def ahead(scan) -> float:
    return float(scan.ranges[len(scan.ranges) // 2])


def test_level_beams_meet_no_level_ground():
    scan = lidar(LEVEL).scan(0.0, 3.0, 2.0, 0.7)
    assert np.isinf(scan.ranges).all()


@pytest.mark.parametrize(("roll", "pitch"), [(0.0, 0.05), (0.08, 0.0), (-0.03, 0.06)])
def test_a_tilted_plane_of_beams_cuts_level_ground_in_a_line(roll, pitch):
    """Each beam ends on the ground, and lies in the plane of the body's axes: (p - eye) . up = 0, at height 0."""
    scan = lidar(LEVEL).scan(0.0, 0.0, 0.0, 0.0, roll, pitch)
    angles = scan.angle_min + scan.angle_increment * np.arange(len(scan.ranges))
    up = np.array([math.cos(roll) * math.sin(pitch), -math.sin(roll), math.cos(roll) * math.cos(pitch)])  # of the body
    x_axis = np.array([math.cos(pitch), 0.0, -math.sin(pitch)])
    eye = MOUNT.x * x_axis + MOUNT.z * up
    y_axis = np.cross(up, x_axis)
    falls = np.cos(angles) * x_axis[2] + np.sin(angles) * y_axis[2]  # height lost for a metre of beam
    expected = np.full(len(angles), np.inf)
    down = falls < 0.0
    expected[down] = -eye[2] / falls[down]
    expected[expected > scan.range_max] = np.inf
    clear = np.abs(expected - scan.range_max) > 0.5
    np.testing.assert_allclose(scan.ranges[clear], expected[clear], atol=2e-3)
    assert np.isfinite(expected).sum() > 50


def test_a_ramp_ahead_is_a_wall_as_high_as_the_sensor():
    """It is met where the ramp is as high as the sensor, 6 m after it begins; nearer things hide it, farther ones are hidden."""
    assert ahead(lidar(RAMP).scan(0.0, 0.0, 0.0, 0.0)) == pytest.approx(26.0 - MOUNT.x, abs=0.01)
    assert ahead(lidar(RAMP, Circle(15.0, 0.0, 0.3)).scan(0.0, 0.0, 0.0, 0.0)) == pytest.approx(15.0 - 0.3 - MOUNT.x, abs=1e-6)
    assert ahead(lidar(RAMP, Circle(40.0, 0.0, 0.3)).scan(0.0, 0.0, 0.0, 0.0)) == pytest.approx(26.0 - MOUNT.x, abs=0.01)


def test_along_a_slope_nothing_is_met():
    """A vehicle that stands on a plane has beams along it, whichever way it looks."""
    hill = HeightMap(GRID, 0.15 * GRID.xs[None, :] + 0.05 * GRID.ys[:, None])
    for yaw in (0.0, 1.0, 2.5):
        scan = lidar(hill).scan(0.0, 5.0, -3.0, yaw, *hill.attitude(5.0, -3.0, yaw))
        near = np.minimum(scan.ranges, 40.0)
        assert (near == 40.0).all()


@pytest.mark.parametrize("posts", [(), (Circle(14.0, 2.0, 0.4),)])
def test_the_ground_is_no_obstacle(posts):
    """Drives towards the ramp, its body leaning: who does not know the ground sees a wall, who does only what stands there."""
    sensor = lidar(RAMP, *posts, noise=0.02)
    plain, aware = (ObstacleTracker(TrackerSettings(), MOUNT) for _ in range(2))
    knows = with_ground_filter(aware, RAMP, MOUNT)
    for k in range(8):
        scan = sensor.scan(0.1 * k, 0.5 * k, 0.0, 0.0, 0.01 * math.sin(k), 0.02 * math.cos(k))
        plain.update(scan, 0.5 * k, 0.0, 0.0)
        knows.update(scan, 0.5 * k, 0.0, 0.0)
    wall, seen = plain.obstacles(), knows.obstacles()
    assert len(wall.radii) > 3 + len(posts)
    assert len(seen.radii) == len(posts)
    for post, centre, radius in zip(posts, seen.centres, seen.radii):
        assert math.hypot(centre[0] - post.x, centre[1] - post.y) < 0.3 + radius - 0.4 + 0.3


def test_without_heights_the_tracker_is_as_it_is():
    tracker = ObstacleTracker(TrackerSettings(), MOUNT)
    assert with_ground_filter(tracker, None, MOUNT) is tracker
