"""A radar's returns in the tracker of the LIDAR's obstacles."""

import numpy as np
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.perception.tracker import ObstacleTracker
from lfdm_ros.sensors import Lidar, LidarSettings, Radar, RadarScan, RadarSettings, SensorScene, VehicleView
from lfdm_ros.simulation.world import Circle, Polygon, World
from lfdm_ros.vehicles import Mount

MOUNT, PERIOD = Mount(1.0), 0.1
QUIET = RadarSettings(false_alarm=1e-12, rate=10.0)


def drive(obstacles, scans, settings=QUIET, speed=8.0, rate=0.0, seed=1, radar_first=False, late=0.0):
    """What is given out after each pair of scans, from a vehicle on an arc; settings None: by the LIDAR alone."""
    world = World(tuple(obstacles))
    lidar, tracker = Lidar(world, LidarSettings(), seed, MOUNT), ObstacleTracker(mount=MOUNT)
    radar = None if settings is None else Radar(settings, MOUNT, SensorScene(world), seed)
    outputs, history = {"vx": speed, "vy": 0.0, "yaw_rate": rate}, []
    for k in range(scans):
        def pose(time):
            return (speed * time, 0.0, 0.0) if rate == 0.0 else (
                speed / rate * np.sin(rate * time), speed / rate * (1.0 - np.cos(rate * time)), rate * time)

        def by_radar(time):
            if radar is not None:
                tracker.add_radar(radar.measure(VehicleView(time, *pose(time), outputs=outputs)), MOUNT, pose(time), (speed, 0.0, rate))

        now = k * PERIOD
        if radar_first:
            by_radar(now + late)
        tracker.update(lidar.scan(now, *pose(now)), *pose(now))
        if not radar_first:
            by_radar(now + late)
        history.append(tracker.obstacles())
    return history


@pytest.mark.parametrize("radar_first, late", [(False, 0.0), (True, 0.0), (False, 0.05), (True, -0.05)])
@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_radial_velocity_is_known_after_one_scan_of_each(radar_first, late, rate):
    """In either order and not quite at the same time; by the LIDAR alone nothing moves yet."""
    crossing = Circle(25.0, 12.0, 0.8, -3.0, -6.0, kind="cyclist")
    sight = np.array([24.0, 12.0]) / np.hypot(24.0, 12.0)
    truth, found = sight @ [crossing.vx, crossing.vy], []
    for seed in range(20):
        seen, = drive([crossing, Circle(30.0, -6.0, 1.0)], 1, rate=rate, seed=seed, radar_first=radar_first, late=late)
        moving = seen.where(seen.moving)
        assert len(moving.radii) == 1 and np.hypot(*(moving.centres[0] - [25.0, 12.0])) < 1.0
        found.append(sight @ moving.velocities[0])
        assert not drive([crossing], 1, None, seed=seed)[0].moving.any()
    assert np.mean(found) == pytest.approx(truth, abs=0.3)
    assert np.std(found) < 0.3


def test_velocity_errors_are_as_large_as_the_filter_says():
    """Normalised error squared, 1 in the mean of a consistent filter (Bar-Shalom, Li, Kirubarajan, section 5.4): after the first scan, when
    nothing is known across the line of sight. Later the filter allows for accelerations and middles that wander, of which here are none:
    it is on the safe side, as by the LIDAR alone."""
    squared, along = np.full((60, 8), np.nan), []
    for seed in range(60):
        random = np.random.default_rng(seed)
        start, velocity = random.uniform([20.0, -8.0], [40.0, 8.0]), random.normal(0.0, 10.0, 2)  # as the filter assumes
        for k, seen in enumerate(drive([Circle(*start, 0.25, *velocity, kind="car")], 8, speed=5.0, seed=seed)):
            if seen.moving.sum() == 1:
                (found,), ((_, deviation),) = seen.velocities[seen.moving], seen.deviations[seen.moving]
                squared[seed, k] = np.sum((found - velocity) ** 2) / (2.0 * deviation**2)
                sight = start + 0.1 * k * velocity - [1.0 + 0.5 * k, 0.0]
                along.append((found - velocity) @ sight / np.hypot(*sight))
    assert np.isfinite(squared).mean() > 0.8
    mean = np.nanmean(squared, axis=0)
    assert 0.6 < mean[0] < 1.6 and (mean[1:] < 1.0).all() and (mean > 0.03).all(), mean
    assert np.sqrt(np.mean(np.square(along))) < 0.3


def test_what_stands_is_set_in_motion_neither_by_clutter_nor_by_false_alarms():
    """Passing posts, vans and a wall in a bend, with many false alarms."""
    random = np.random.default_rng(2)
    field = [Circle(*place, random.uniform(0.1, 1.5)) for place in random.uniform([15.0, 5.0], [70.0, 20.0], (12, 2))]
    field += [Polygon(np.array([[x, -6.0], [x + 5.0, -6.0], [x + 5.0, -4.0], [x, -4.0]]), kind="van") for x in (15.0, 25.0, 40.0)]
    field.append(Polygon(np.array([[10.0, -9.0], [80.0, -9.0], [80.0, -8.0], [10.0, -8.0]]), kind="wall"))
    for rate in (0.0, 0.1):
        counts = {name: sum(int(seen.moving.sum()) for seed in range(2) for seen in drive(field, 40, settings, rate=rate, seed=seed))
                  for name, settings in (("alone", None), ("quiet", QUIET), ("noisy", RadarSettings(false_alarm=1e-6, rate=10.0)))}
        assert counts["quiet"] <= counts["alone"] + 1 and counts["noisy"] <= counts["alone"] + 2, counts


def test_velocity_is_no_worse_for_false_alarms_and_known_sooner_than_without():
    def errors(settings):
        crossing = Circle(35.0, 12.0, 0.6, -2.0, -5.0, kind="cyclist")
        result = []
        for seed in range(10):
            for seen in drive([crossing], 12, settings, seed=seed):
                place = np.array([35.0 - 2.0 * seen.time, 12.0 - 5.0 * seen.time])
                result.append(np.hypot(*(seen.velocities[np.argmin(np.hypot(*(seen.centres - place).T))] - [crossing.vx, crossing.vy])))
        return np.mean(np.reshape(result, (10, 12)), axis=0)

    alone, quiet, noisy = errors(None), errors(QUIET), errors(RadarSettings(false_alarm=1e-6, rate=10.0))
    assert (quiet[1:6] < 0.7 * alone[1:6]).all() and quiet[-1] < alone[-1] + 0.1
    assert (noisy < quiet + 0.3).all()


def test_returns_that_cannot_be_are_refused_and_change_nothing():
    tracker = ObstacleTracker(mount=MOUNT)
    tracker.update(Lidar(World((Circle(20.0, 0.0, 1.0),)), mount=MOUNT).scan(0.0, 0.0, 0.0, 0.0), 0.0, 0.0, 0.0)
    before = tracker.obstacles()
    one = np.array([19.0])
    for bad in (RadarScan(0.0, one, one * np.nan, one, one), RadarScan(np.nan, one, one, one, one), RadarScan(0.0, one, one, one[:0], one)):
        with pytest.raises(InputError, match=r"radar: .* must be finite"):
            tracker.add_radar(bad, MOUNT, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    assert tracker.obstacles() is before
