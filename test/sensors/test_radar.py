"""A radar against geometry and the formulas of detection."""

from dataclasses import replace

import numpy as np
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.numerics import binomial_interval
from lfdm_ros.sensors import SENSORS, Radar, RadarSettings, SensorScene, VehicleView
from lfdm_ros.simulation.world import OBSTACLE_KINDS, Circle, Polygon, World
from lfdm_ros.vehicles import Mount

# No noise and no false alarms.
EXACT = RadarSettings(range_sd=0.0, azimuth_sd=0.0, doppler_sd=0.0, false_alarm=1e-15, unit_range=5000.0, field_of_view=6.0,
                      doppler_max=100.0)
POST = 0.02  # [m] radius: all of it in one cell


def radar(*obstacles, settings=EXACT, mount=None, seed=1):
    return Radar(settings, mount or Mount(), SensorScene(World(obstacles)), seed)


def look(sensor, time=0.0, x=0.0, y=0.0, yaw=0.0, **outputs):
    return sensor.measure(VehicleView(time, x, y, yaw, outputs=outputs))


@pytest.mark.parametrize("seed", range(20))
def test_doppler_is_the_change_of_range(seed):
    """Against finite differences of the range along the vehicle's arc, with sideslip, yaw rate and an offset mount."""
    random = np.random.default_rng(seed)
    speed, slip, rate, yaw = random.uniform(0.0, 20.0), random.uniform(-0.2, 0.2), random.uniform(-1.5, 1.5), random.uniform(-3.0, 3.0)
    mount = Mount(random.uniform(-2.0, 3.0), random.uniform(-1.0, 1.0), random.uniform(-3.0, 3.0))
    x, y, away = *random.uniform(-5.0, 5.0, 2), random.uniform(-2.5, 2.5)
    place = np.array([x + np.cos(yaw) * mount.x - np.sin(yaw) * mount.y, y + np.sin(yaw) * mount.x + np.cos(yaw) * mount.y])
    place += random.uniform(10.0, 80.0) * np.array([np.cos(yaw + mount.yaw + away), np.sin(yaw + mount.yaw + away)])
    velocity = random.uniform(-15.0, 15.0, 2)

    def distance(t):
        turned = yaw + rate * t
        middle = yaw + slip + 0.5 * rate * t  # of the chord of the arc
        chord = speed * t * np.sinc(0.5 * rate * t / np.pi)
        at = np.array([x, y]) + chord * np.array([np.cos(middle), np.sin(middle)])
        at += [np.cos(turned) * mount.x - np.sin(turned) * mount.y, np.sin(turned) * mount.x + np.cos(turned) * mount.y]
        return np.hypot(*(place + t * velocity - at))

    sensor = radar(Circle(*place, POST, *velocity), mount=mount)
    scan = look(sensor, 0.0, x, y, yaw, vx=speed * np.cos(slip), vy=speed * np.sin(slip), yaw_rate=rate)
    assert len(scan.ranges) == 1
    assert scan.ranges[0] == pytest.approx(distance(0.0), abs=POST)
    assert np.remainder(scan.azimuths[0] - away + np.pi, 2.0 * np.pi) - np.pi == pytest.approx(0.0, abs=POST / 8.0)
    # The outline of the post is seen, not its middle: the line of sight is off by that much.
    assert scan.dopplers[0] == pytest.approx((distance(1e-4) - distance(-1e-4)) / 2e-4, abs=2e-3 + 50.0 * POST / 500.0)


@pytest.mark.parametrize("kind, distance", [("pedestrian", 40.0), ("pedestrian", 75.0), ("car", 150.0), ("car", 220.0), ("cone", 45.0)])
def test_detection_is_that_of_swerling_1(kind, distance):
    """How often a thing is detected and how strong it is on the mean, by range and cross-section."""
    settings = replace(EXACT, false_alarm=1e-6, unit_range=300.0, range_max=300.0, doppler_max=1.0, field_of_view=0.2,
                       range_resolution=20.0)  # few cells for false alarms
    sensor, runs = radar(Circle(distance, 0.0, POST, kind=kind), settings=settings), 1200
    snr = OBSTACLE_KINDS[kind].cross_section * (settings.unit_range / (distance - 0.01)) ** 4
    found = [scan for scan in (look(sensor, k / settings.rate) for k in range(runs)) if len(scan.ranges)]
    expected = float(settings.detection(np.array(snr)))
    assert 0.01 < expected < 0.999
    low, high = binomial_interval(len(found), runs)
    slack = 0.5 * (high - low)  # 95 % intervals of five cases
    assert low - slack < expected < high + slack
    # Beyond the threshold the power is exponential, of the mean 1 + SNR.
    power = 10.0 ** (0.1 * np.array([scan.amplitudes[0] for scan in found]))
    assert (power >= -np.log(settings.false_alarm)).all()
    assert np.mean(power + np.log(settings.false_alarm)) == pytest.approx(1.0 + snr, rel=5.0 / np.sqrt(len(found)))


def test_false_alarms_are_poisson():
    settings = RadarSettings(false_alarm=3e-7)
    sensor, runs = radar(settings=settings), 2000
    scans = [look(sensor, k / settings.rate) for k in range(runs)]
    counts = np.array([len(scan.ranges) for scan in scans])
    mean = settings.false_alarms
    assert 1.0 < mean < 3.0 and counts.mean() == pytest.approx(mean, abs=4.0 * np.sqrt(mean / runs))
    assert counts.var() == pytest.approx(mean, rel=4.0 * np.sqrt(2.0 / runs + 1.0 / (runs * mean)))
    shares = [np.concatenate([getattr(scan, name) for scan in scans]) / limit for name, limit in (
        ("ranges", settings.range_max), ("azimuths", 0.5 * settings.field_of_view), ("dopplers", settings.doppler_max))]
    assert [np.std(share) for share in shares] == pytest.approx([1 / np.sqrt(12.0), *2 * [1 / np.sqrt(3.0)]], rel=0.05)
    assert len({len(look(radar(settings=settings, seed=seed), 0.0).ranges) for seed in range(20)}) > 1


def test_what_shares_a_cell_of_range_azimuth_and_velocity_is_one_return():
    def returns(*others):
        return look(radar(Circle(20.2, 0.3, POST), *others)).ranges

    beside = dict(x=20.3, y=0.5, radius=POST)
    assert len(returns()) == len(returns(Circle(**beside))) == 1
    assert len(returns(Circle(**beside, vx=1.0))) == 2
    assert len(returns(Circle(**beside | {"x": 21.3}))) == len(returns(Circle(**beside | {"y": 1.9}))) == 2


def test_what_is_behind_something_is_not_seen_nor_what_is_out_of_view():
    van = Polygon(np.array([[20.0, -1.0], [25.0, -1.0], [25.0, 1.0], [20.0, 1.0]]), kind="van")
    hidden, beside, above = Circle(30.0, 0.0, 0.3, 3.0), Circle(30.0, 4.0, 0.3, 3.0), Circle(40.0, 0.8, 3.5, 3.0)
    assert (look(radar(hidden)).dopplers > 2.0).any()
    assert not (look(radar(van, hidden)).dopplers > 1.0).any()
    assert (look(radar(van, beside)).dopplers > 2.0).any()
    half = look(radar(van, above))  # as much of it as reaches out
    azimuths = half.azimuths[half.dopplers > 1.0]
    assert len(azimuths) and (np.abs(azimuths) > np.arctan2(1.0, 25.0) - 1e-3).all()
    narrow = replace(EXACT, field_of_view=0.2)
    assert not len(look(radar(Circle(10.0, 2.0, POST), settings=narrow)).ranges)
    assert len(look(radar(Circle(10.0, 0.5, POST), settings=narrow)).ranges)
    assert not len(look(radar(Circle(10.0, 0.0, POST), settings=replace(EXACT, range_max=9.0))).ranges)


def test_a_wall_is_returns_along_its_face_and_as_strong_whole_as_told():
    wall = Polygon(np.array([[10.0, -6.0], [11.0, -6.0], [11.0, 6.0], [10.0, 6.0]]), kind="wall")
    sensor, total = radar(wall), []
    for k in range(200):
        scan = look(sensor, k / EXACT.rate)
        x, y = scan.ranges * np.cos(scan.azimuths), scan.ranges * np.sin(scan.azimuths)
        assert x == pytest.approx(np.full(len(x), 10.0), abs=0.05) and len(x) > 10
        assert np.ptp(y) > 11.0 and np.diff(np.sort(y)).max() < 1.5
        total.append(np.sum(10.0 ** (0.1 * scan.amplitudes) * (scan.ranges / EXACT.unit_range) ** 4))
    assert np.mean(total) == pytest.approx(OBSTACLE_KINDS["wall"].cross_section, rel=0.1)


def test_same_view_same_returns_whatever_was_measured_before():
    obstacles = Circle(30.0, 2.0, 0.5, 1.0), Circle(60.0, -5.0, 2.0, kind="car")
    first, second, other = (radar(*obstacles, settings=RadarSettings(), seed=seed) for seed in (4, 4, 5))
    look(first, 0.35, 3.0)
    scans = [look(sensor, 0.5, 1.0, vx=3.0) for sensor in (first, second, other)]
    columns = [np.stack([scan.ranges, scan.azimuths, scan.dopplers, scan.amplitudes]) for scan in scans]
    assert np.array_equal(columns[0], columns[1]) and not np.array_equal(columns[0], columns[2])


def test_the_cloud_is_the_scan():
    """Decoded by its offsets."""
    scan = look(radar(Circle(30.0, 2.0, 0.5, 1.0), Circle(60.0, -5.0, 2.0), settings=RadarSettings()), vx=5.0)
    returns, cloud = (message.fields(scan) for message in SENSORS.find("radar", "").messages)
    returns = returns["returns"]
    assert len(returns) >= 2 and cloud["width"] == len(returns) and cloud["height"] == 1
    assert len(cloud["data"]) == cloud["row_step"] == cloud["width"] * cloud["point_step"]
    kinds = {"names": [f["name"] for f in cloud["fields"]], "offsets": [f["offset"] for f in cloud["fields"]],
             "formats": [{7: "<f4"}[f["datatype"]] for f in cloud["fields"]], "itemsize": cloud["point_step"]}
    for point, one in zip(np.frombuffer(bytes(cloud["data"]), np.dtype(kinds)), returns):
        place = one["range"] * np.array([np.cos(one["azimuth"]), np.sin(one["azimuth"]), 0.0])
        assert [point["x"], point["y"], point["z"]] == pytest.approx(place, abs=1e-4)
        assert (point["doppler_velocity"], point["amplitude"]) == (np.float32(one["doppler_velocity"]), np.float32(one["amplitude"]))


@pytest.mark.parametrize("change, words", [(dict(range_max=0.5), "range_max"), (dict(false_alarm=0.0), "false_alarm")])
def test_bad_settings_are_refused(change, words):
    with pytest.raises(InputError, match=words):
        RadarSettings(**{**(dict(range_min=1.0) if "range_max" in change else {}), **change})
    with pytest.raises(InputError, match="seed"):
        radar(seed=-1)
