"""Ranges against marching along the beams, cases with a known answer, and the statistics of noise and lost beams."""

from typing import Any

import numpy as np
import pytest
from matplotlib.path import Path as Outline

from lfdm_ros.errors import InputError
from lfdm_ros.sensors import Lidar, LidarSettings
from lfdm_ros.simulation import Circle, Polygon, World, load_scenario
from lfdm_ros.vehicles import Mount

EXACT = {"noise_sd": 0.0}


def wall(x: float, **motion: float) -> World:
    return World((Polygon(np.array([[x, -40.0], [x + 1.0, -40.0], [x + 1.0, 40.0], [x, 40.0]]), **motion),))


def test_agrees_with_marching_along_the_beams() -> None:
    random = np.random.default_rng(5)
    obstacles: list[Any] = []
    for _ in range(12):
        place = random.uniform(4.0, 18.0) * np.array([np.cos(a := random.uniform(-3.1, 3.1)), np.sin(a)])
        velocity = random.uniform(-1.0, 1.0, 2)
        if random.uniform() < 0.5:
            obstacles.append(Circle(*place, random.uniform(0.3, 2.0), *velocity))
        else:
            angles = np.arange(5) * 2.0 * np.pi / 5
            radii = np.array([2.0, 0.6, 1.5, 1.0, 2.0])
            obstacles.append(Polygon(place + radii[:, None] * np.column_stack([np.cos(angles), np.sin(angles)]), *velocity))
    settings = LidarSettings(range_max=20.0, resolution=np.deg2rad(2.7), noise_sd=0.0)
    time, x, y, yaw, step = 0.7, 0.2, -0.4, 1.1, 0.01
    scan = Lidar(World(tuple(obstacles)), settings, mount=Mount(1.5, -0.3, 0.4)).scan(time, x, y, yaw)
    assert len(scan.ranges) == 101
    sensor = np.array([x + np.cos(yaw) * 1.5 + np.sin(yaw) * 0.3, y + np.sin(yaw) * 1.5 - np.cos(yaw) * 0.3])
    distances = np.arange(0.0, 20.0, step)
    seen = 0
    for k, measured in enumerate(scan.ranges):
        beam = yaw + 0.4 + scan.angle_min + k * scan.angle_increment
        points = sensor + distances[:, None] * np.array([np.cos(beam), np.sin(beam)])
        hit = np.zeros(len(points), bool)
        for obstacle in obstacles:
            moved = time * np.array([obstacle.vx, obstacle.vy])
            if isinstance(obstacle, Circle):
                hit |= np.hypot(*(points - moved - [obstacle.x, obstacle.y]).T) < obstacle.radius
            else:
                hit |= Outline(obstacle.vertices + moved).contains_points(points)
        if hit.any():
            # Marching may step over a corner that the beam only grazes, but then it would meet something later.
            assert distances[np.argmax(hit)] - measured == pytest.approx(0.5 * step, abs=0.51 * step)
            seen += 1
        else:
            assert measured == np.inf
    assert 30 < seen < 100


def test_a_wall_ahead() -> None:
    scan = Lidar(wall(12.0), LidarSettings(noise_sd=0.0), mount=Mount(2.0)).scan(0.0, 0.0, 0.0, 0.0)
    angles = scan.angle_min + scan.angle_increment * np.arange(len(scan.ranges))
    assert len(angles) == 541 and angles[0] == pytest.approx(-0.75 * np.pi) and angles[-1] == pytest.approx(0.75 * np.pi)
    ahead = np.abs(angles) < np.arctan2(40.0, 10.0)
    assert scan.ranges[ahead] == pytest.approx(10.0 / np.cos(angles[ahead]), rel=1e-12)
    assert np.isinf(scan.ranges[np.abs(angles) > 0.5 * np.pi]).all()
    near = Lidar(wall(12.0, vx=-2.0), LidarSettings(noise_sd=0.0), mount=Mount(2.0)).scan(3.0, 0.0, 0.0, 0.0)
    assert near.ranges[270] == pytest.approx(4.0) and near.stamp == 3.0


def test_what_is_out_of_range() -> None:
    settings = LidarSettings(range_min=0.5, range_max=30.0, **EXACT)
    assert np.isinf(Lidar(wall(30.1), settings).scan(0.0, 0.0, 0.0, 0.0).ranges).all()
    assert Lidar(wall(29.9), settings).scan(0.0, 0.0, 0.0, 0.0).ranges[270] == pytest.approx(29.9)
    # Nearer than range_min is reported as it is; to discard it is the reader's part.
    assert Lidar(wall(0.3), settings).scan(0.0, 0.0, 0.0, 0.0).ranges[270] == pytest.approx(0.3)
    assert np.isinf(Lidar(World(), settings).scan(0.0, 0.0, 0.0, 0.0).ranges).all()


def test_from_inside_an_obstacle_its_surface_is_seen() -> None:
    scan = Lidar(World((Circle(0.0, 0.0, 5.0),)), LidarSettings(field_of_view=2.0 * np.pi, **EXACT)).scan(0.0, 2.0, 0.0, 0.0)
    assert scan.ranges.min() == pytest.approx(3.0, abs=1e-4) and scan.ranges.max() == pytest.approx(7.0, abs=1e-4)


def test_no_beam_slips_between_the_edges_of_a_closed_room() -> None:
    random = np.random.default_rng(6)
    for _ in range(20):
        angles = np.sort(random.uniform(0.0, 2.0 * np.pi, 40))
        room = Polygon(20.0 * np.column_stack([np.cos(angles), np.sin(angles)]))
        aims = np.arctan2(room.vertices[:, 1], room.vertices[:, 0])
        lidar = Lidar(World((room,)), LidarSettings(field_of_view=0.1, resolution=0.1, **EXACT))
        for aim in aims:  # its first beam exactly at a corner
            assert np.isfinite(lidar.scan(0.0, 0.0, 0.0, aim + 0.05).ranges).all()


def test_noise_and_lost_beams() -> None:
    world = World((Circle(0.0, 0.0, 20.0),))
    lidar = Lidar(world, LidarSettings(noise_sd=0.05, drop_out=0.1), seed=3)
    ranges = np.array([lidar.scan(0.1 * k, 0.0, 0.0, 0.0).ranges for k in range(60)])
    lost = np.isnan(ranges)
    count = ranges.size
    assert lost.mean() == pytest.approx(0.1, abs=4.0 * np.sqrt(0.09 / count))
    errors = ranges[~lost] - 20.0
    assert errors.mean() == pytest.approx(0.0, abs=4.0 * 0.05 / np.sqrt(len(errors)))
    assert errors.std() == pytest.approx(0.05, rel=4.0 / np.sqrt(2.0 * len(errors)))
    # Two scans have nothing in common, nor have two seeds.
    other = Lidar(world, lidar.settings, seed=4).scan(0.0, 0.0, 0.0, 0.0).ranges
    for one in (ranges[1], other):
        both = ~np.isnan(ranges[0]) & ~np.isnan(one)
        assert abs(np.corrcoef(ranges[0][both], one[both])[0, 1]) < 4.0 / np.sqrt(both.sum())
    everything = Lidar(world, LidarSettings(drop_out=1.0)).scan(0.0, 0.0, 0.0, 0.0).ranges
    assert np.isnan(everything).all()


def test_a_scan_does_not_depend_on_those_before() -> None:
    world = load_scenario("obstacle_field_20").world
    settings = LidarSettings(drop_out=0.05)
    lidar = Lidar(world, settings, seed=7)
    for k in range(5):
        last = lidar.scan(0.1 * k, 1.0, 0.5, 0.1)
    again = Lidar(world, settings, seed=7).scan(0.4, 1.0, 0.5, 0.1)
    assert np.array_equal(last.ranges, again.ranges, equal_nan=True)
    assert not np.array_equal(lidar.scan(0.5, 1.0, 0.5, 0.1).ranges, again.ranges, equal_nan=True)
    lidar.scan(-1.0, 0.0, 0.0, 0.0)  # a clock that was set back


@pytest.mark.parametrize(("degrees", "step", "beams"), [(270.0, 0.5, 541), (360.0, 0.5, 720), (360.0, 1.0, 360), (90.0, 0.25, 361),
                                                        (359.5, 0.5, 720), (10.0, 3.0, 4)])
def test_beams_are_spread_evenly_and_none_is_there_twice(degrees: float, step: float, beams: int) -> None:
    scan = Lidar(World(), LidarSettings(field_of_view=np.deg2rad(degrees), resolution=np.deg2rad(step))).scan(0.0, 0.0, 0.0, 0.0)
    assert len(scan.ranges) == beams
    last = scan.angle_min + (beams - 1) * scan.angle_increment
    assert last == pytest.approx(-scan.angle_min) and last - scan.angle_min < 2.0 * np.pi - 0.5 * scan.angle_increment


@pytest.mark.parametrize(("settings", "words"), [
    ({"range_min": -1.0}, "range_min is -1"),
    ({"range_max": 0.2}, "range_max is 0.2; give more than range_min"),
    ({"field_of_view": 7.0}, "field_of_view is 7"),
    ({"resolution": 0.0}, "resolution is 0"),
    ({"resolution": 5.0}, "resolution is 5"),
    ({"noise_sd": -0.1}, "noise_sd"),
    ({"drop_out": 1.5}, "drop_out is 1.5; give 0 to 1"),
    ({"rate": 0.0}, "rate is 0"),
    ({"latency": float("nan")}, "latency is nan"),
    ({"rate": "often"}, "rate is 'often'"),
])
def test_settings_that_no_lidar_has_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        LidarSettings(**settings)
