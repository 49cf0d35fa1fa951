"""Radar: range, azimuth and radial velocity of detections from signal-to-noise ratio and resolution cells."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lfdm_ros.errors import InputError
from lfdm_ros.numerics import dot
from lfdm_ros.parameters import Declared, Exposed, setting
from lfdm_ros.sensors.lidar import Lidar, LidarSettings
from lfdm_ros.sensors.sensor import SensorMessage, SensorScene, SensorType, VehicleView, register_sensor
from lfdm_ros.simulation.world import OBSTACLE_KINDS, Circle, Polygon, turn
from lfdm_ros.vehicles import Mount

_MIN_PARTS, _MAX_PARTS = 8, 64  # of a circle; of an edge, which bounds the work on a long wall
_RAYS, _BEHIND = 16, 0.01  # occlusion: rays per width of a cell, and distance [m] behind their hits
_FLOAT32 = 7  # sensor_msgs/PointField
CLOUD = ("x", "y", "z", "doppler_velocity", "amplitude")


@dataclass(frozen=True)
class RadarSettings(Declared):
    """Settings of a radar; the defaults are typical of a 77 GHz mid-range one. Raises InputError: names the setting that is not finite or
    out of range."""

    ABOUT = "radar: "

    range_min: float = setting(0.5, "m", "minimum range", 0.0, 100.0)
    range_max: float = setting(200.0, "m", "maximum range", 1.0, 1000.0)
    field_of_view: float = setting(math.radians(100.0), "rad", "horizontal, centred forward", 0.01, 2.0 * math.pi)
    doppler_max: float = setting(60.0, "m/s", "maximum radial velocity, in both directions", 1.0, 300.0)
    range_resolution: float = setting(0.5, "m", "closer parts are one return, unless resolved by azimuth or velocity", 0.01, 50.0)
    azimuth_resolution: float = setting(math.radians(3.0), "rad", "likewise", 0.001, 1.0)
    doppler_resolution: float = setting(0.25, "m/s", "likewise", 0.001, 20.0)
    range_sd: float = setting(0.1, "m", "standard deviation of a range", 0.0, 10.0)
    azimuth_sd: float = setting(math.radians(0.3), "rad", "standard deviation of an azimuth", 0.0, 0.5)
    doppler_sd: float = setting(0.1, "m/s", "standard deviation of a radial velocity", 0.0, 10.0)
    unit_range: float = setting(320.0, "m", "range at which a cross-section of 1 m^2 has a signal-to-noise ratio of 1: a car of 10 m^2 is "
                                            "detected with a probability of 0.9 at 165 m", 1.0, 10_000.0)
    false_alarm: float = setting(1e-7, "1", "probability of a false alarm in a resolution cell", 1e-15, 0.1)
    rate: float = setting(20.0, "Hz", "measurements per simulated second; the period is a whole number of ticks", 0.1, 1000.0)
    latency: float = setting(0.0, "s", "from a measurement's stamp to its arrival", 0.0, 2.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.range_max <= self.range_min:
            raise InputError(f"radar: range_max is {self.range_max:g}; give more than range_min, {self.range_min:g} m")

    @property
    def false_alarms(self) -> float:
        """Expected number of false alarms in a measurement: their probability times the number of resolution cells."""
        return self.false_alarm * ((self.range_max - self.range_min) / self.range_resolution * self.field_of_view / self.azimuth_resolution
                                   * 2.0 * self.doppler_max / self.doppler_resolution)

    def detection(self, snr: np.ndarray) -> np.ndarray:
        """Computes the probability of detection for mean signal-to-noise ratios: Swerling case 1, single pulse, square law (Richards,
        Fundamentals of Radar Signal Processing, 2nd ed., eq. 6.99 and 6.101): Pfa^(1 / (1 + SNR))."""
        return np.asarray(self.false_alarm ** (1.0 / (1.0 + snr)))


RADAR = Exposed(RadarSettings, "radar_")


@dataclass(frozen=True, eq=False)
class RadarScan:
    """Detections (n,) of a measurement, in the radar's axes.

    stamp [s]; ranges [m]; azimuths [rad], + left; dopplers: range rate relative to the moving radar [m/s], + away; amplitudes: power over
    noise [dB].
    """

    stamp: float
    ranges: np.ndarray
    azimuths: np.ndarray
    dopplers: np.ndarray
    amplitudes: np.ndarray


class Radar:
    """Radar that detects the outlines of a world's obstacles.

    An outline is divided into parts of about a resolution cell. An obstacle's cross-section, by its kind, is distributed among the parts
    that face the radar by their projected widths; occluded parts, or parts out of view, have no return. The strongest part and all parts
    not resolved from it, in range, azimuth and radial velocity, make one return with the sum of their powers: SNR = cross-section
    (unit_range / range)^4 (radar equation); then the strongest of the rest. Static obstacles are detected as moving ones. Heights, ground
    and multipath are not modelled.

    A measurement is a function of view, settings and seed alone.
    """

    def __init__(self, settings: RadarSettings, mount: Mount, surroundings: SensorScene, seed: int = 1) -> None:
        """Initialises the radar. Raises InputError: a negative seed."""
        if seed < 0:
            raise InputError(f"radar: seed is {seed}; give 0 or more")
        self.settings, self.mount, self.seed, self.world = settings, mount, seed, surroundings.world
        self.rate, self.latency = settings.rate, settings.latency
        step = min(max(settings.azimuth_resolution / _RAYS, 0.0005), settings.field_of_view)
        fan = LidarSettings(0.0, settings.range_max, settings.field_of_view, step, noise_sd=0.0)
        self._rays = Lidar(self.world, fan, seed, mount)
        # Rows at time 0: position x, y, outward normal x, y, length, cross-section, index of the obstacle.
        parts = [_outline(obstacle, settings.range_resolution, float(k)) for k, obstacle in enumerate(self.world.obstacles)]
        self._parts = np.concatenate(parts) if parts else np.empty((0, 7))
        self._owners = self._parts[:, 6].astype(np.int64)

    def measure(self, view: VehicleView) -> RadarScan:
        """Measures. The view's outputs vx, vy [m/s] and yaw_rate [rad/s] of the position point default to 0."""
        s = self.settings
        random = np.random.default_rng((self.seed, round(view.time * s.rate) % 2**63))
        cells, snr = self._cells(view)
        power = (1.0 + snr) * random.standard_exponential(len(snr))  # signal and noise, over noise
        threshold = -math.log(s.false_alarm)
        noisy = cells + random.standard_normal((len(snr), 3)) * (s.range_sd, s.azimuth_sd, s.doppler_sd)
        count = random.poisson(s.false_alarms)
        half = 0.5 * s.field_of_view
        low, high = (s.range_min, -half, -s.doppler_max), (s.range_max, half, s.doppler_max)
        false = random.uniform(low, high, (count, 3))
        detections = np.concatenate([noisy[power > threshold], false])
        # Noise above the threshold: exponential beyond it.
        power = np.concatenate([power[power > threshold], threshold + random.standard_exponential(count)])
        return RadarScan(view.time, np.maximum(detections[:, 0], 0.0), detections[:, 1], detections[:, 2], 10.0 * np.log10(power))

    def _cells(self, view: VehicleView) -> tuple[np.ndarray, np.ndarray]:
        """Returns range, azimuth and radial velocity (n, 3) of the occupied cells, and their signal-to-noise ratios (n,)."""
        velocity = (view.outputs.get("vx", 0.0), view.outputs.get("vy", 0.0), view.outputs.get("yaw_rate", 0.0))
        s, (x, y, yaw, vx, vy) = self.settings, sensor_motion(self.mount, (view.x, view.y, view.yaw), velocity)
        parts, owners = self._parts, self._owners
        _, velocities, turned = self.world.motion(view.time)
        place, relative = self.world.place(parts[:, :2], owners, view.time) - (x, y), velocities[owners] - (vx, vy)
        normals = turn(parts[:, 2:4], turned[owners]) if turned.any() else parts[:, 2:4]
        ranges = np.maximum(np.hypot(*place.T), 1e-9)
        sight = place / ranges[:, None]
        width = parts[:, 4] * np.maximum(-dot(normals, sight), 0.0)  # projected
        whole = np.bincount(owners, width)[owners]
        azimuths = np.remainder(np.arctan2(sight[:, 1], sight[:, 0]) - yaw + math.pi, 2.0 * math.pi) - math.pi
        dopplers = dot(relative, sight)
        detected = np.flatnonzero((width > 0.0) & (np.abs(azimuths) <= 0.5 * s.field_of_view) & (np.abs(dopplers) <= s.doppler_max)
                              & (ranges >= s.range_min) & (ranges <= s.range_max))
        detected = detected[~self._occluded(view, azimuths[detected], ranges[detected])]
        values = np.column_stack([ranges, azimuths, dopplers])[detected]
        snr = (parts[:, 5] * width / np.maximum(whole, 1e-12) * (s.unit_range / ranges) ** 4)[detected]
        scaled = values / (s.range_resolution, s.azimuth_resolution, s.doppler_resolution)
        cell = np.full(len(snr), -1)
        count = 0
        for strongest in np.argsort(-snr, kind="stable").tolist():
            if cell[strongest] < 0:
                cell[(cell < 0) & (np.abs(scaled - scaled[strongest]) < 1.0).all(axis=1)] = count
                count += 1
        total = np.bincount(cell, snr)
        return np.stack([np.bincount(cell, snr * column) for column in values.T], axis=-1) / total[:, None], total

    def _occluded(self, view: VehicleView, azimuths: np.ndarray, ranges: np.ndarray) -> np.ndarray:
        """Marks the positions (n,), by azimuth [rad] and range [m], behind the hits of both adjacent rays."""
        fan = self._rays.scan(view.time, view.x, view.y, view.yaw)
        place = np.clip((azimuths - fan.angle_min) / fan.angle_increment, 0.0, len(fan.ranges) - 1.0)
        return ranges > np.maximum(fan.ranges[np.floor(place).astype(np.int64)], fan.ranges[np.ceil(place).astype(np.int64)]) + _BEHIND


def sensor_motion(mount: Mount, pose: tuple[float, float, float],
                  velocity: tuple[float, float, float]) -> tuple[float, float, float, float, float]:
    """Computes a sensor's x, y [m], yaw [rad] and velocity [m/s] in world axes. pose: x, y [m], yaw [rad] of the position point; velocity:
    vx, vy [m/s] of it in the vehicle's axes, and yaw rate [rad/s]."""
    x, y, yaw = pose
    cos, sin = math.cos(yaw), math.sin(yaw)
    vx, vy = velocity[0] - velocity[2] * mount.y, velocity[1] + velocity[2] * mount.x
    sx, sy = mount.place(x, y, yaw).tolist()
    return sx, sy, yaw + mount.yaw, cos * vx - sin * vy, sin * vx + cos * vy


def _outline(obstacle: Circle | Polygon, spacing: float, number: float) -> np.ndarray:
    """Divides an obstacle's outline at time 0 into parts; rows as in `Radar._parts`."""
    if isinstance(obstacle, Circle):
        count = min(max(math.ceil(2.0 * math.pi * obstacle.radius / spacing), _MIN_PARTS), _MAX_PARTS)
        angles = 2.0 * math.pi * np.arange(count) / count
        normals = np.column_stack([np.cos(angles), np.sin(angles)])
        places, lengths = (obstacle.x, obstacle.y) + obstacle.radius * normals, np.full(count, 2.0 * math.pi * obstacle.radius / count)
    else:
        starts = obstacle.vertices
        edges = np.roll(starts, -1, axis=0) - starts
        turn = math.copysign(1.0, float(np.sum(starts[:, 0] * np.roll(starts[:, 1], -1) - starts[:, 1] * np.roll(starts[:, 0], -1))))
        sizes = np.hypot(*edges.T)
        counts = np.clip(np.ceil(sizes / spacing), 1, _MAX_PARTS).astype(np.int64)
        shares = np.concatenate([(np.arange(n) + 0.5) / n for n in counts])
        starts, edges, sizes, counts = (np.repeat(a, counts, axis=0) for a in (starts, edges, sizes, counts))
        places, lengths = starts + shares[:, None] * edges, sizes / counts
        normals = turn * np.column_stack([edges[:, 1], -edges[:, 0]]) / sizes[:, None]
    constants = (OBSTACLE_KINDS[obstacle.kind].cross_section, number)
    return np.column_stack([places, normals, lengths, np.tile(constants, (len(lengths), 1))])


def _scan_fields(scan: RadarScan) -> Mapping[str, Any]:
    names = ("range", "azimuth", "doppler_velocity", "amplitude")
    columns = (scan.ranges, scan.azimuths, scan.dopplers, scan.amplitudes)
    return {"returns": [dict(zip(names, row)) for row in zip(*(column.astype(np.float32).tolist() for column in columns))]}


def _cloud_fields(scan: RadarScan) -> Mapping[str, Any]:
    rows = np.column_stack([scan.ranges * np.cos(scan.azimuths), scan.ranges * np.sin(scan.azimuths), np.zeros(len(scan.ranges)),
                            scan.dopplers, scan.amplitudes]).astype("<f4")
    step = rows.itemsize * len(CLOUD)
    return {"height": 1, "width": len(rows), "is_dense": True, "point_step": step, "row_step": step * len(rows),
            "fields": [{"name": name, "offset": rows.itemsize * k, "datatype": _FLOAT32, "count": 1} for k, name in enumerate(CLOUD)],
            "data": list(rows.tobytes())}


RADAR_TYPE = SensorType("radar", "radar with Doppler", RadarSettings, Radar, (
    SensorMessage("radar_msgs/msg/RadarScan", _scan_fields), SensorMessage("sensor_msgs/msg/PointCloud2", _cloud_fields, "/points")),
    {"false_alarm": 1e-5, "range_sd": 1.0, "azimuth_sd": math.radians(2.0), "doppler_sd": 1.0})
register_sensor(RADAR_TYPE)
