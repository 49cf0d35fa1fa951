"""Standard sensor types: LIDAR, GNSS and IMU, any number of each in a vehicle's file."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.parameters import Declared, setting
from lfdm_ros.sensors.ground_rays import turned
from lfdm_ros.sensors.lidar import Lidar, LidarSettings
from lfdm_ros.sensors.scan import Scan
from lfdm_ros.sensors.sensor import SensorMessage, SensorScene, SensorType, VehicleView, register_sensor
from lfdm_ros.vehicles import Mount

_A, _F = 6378137.0, 1.0 / 298.257223563  # semi-major axis [m], flattening
_B = _A * (1.0 - _F)
_E2 = _F * (2.0 - _F)  # first eccentricity squared


@dataclass(frozen=True)
class Datum:
    """Position of the plane's origin on the earth [deg, m above the ellipsoid]; x points to the east, y to the north."""

    latitude: float
    longitude: float
    altitude: float = 0.0

    def geodetic(self, x: float, y: float, z: float = 0.0) -> tuple[float, float, float]:
        """Computes latitude, longitude [deg] and altitude [m] of a point [m] relative to the tangent plane at the datum."""
        sin_p, cos_p = math.sin(math.radians(self.latitude)), math.cos(math.radians(self.latitude))
        sin_l, cos_l = math.sin(math.radians(self.longitude)), math.cos(math.radians(self.longitude))
        across = _A / math.sqrt(1.0 - _E2 * sin_p**2)  # radius of curvature in the prime vertical
        # From the tangent plane to earth-centred, earth-fixed axes.
        out = (across + self.altitude + z) * cos_p - y * sin_p
        return _geodetic(out * cos_l - x * sin_l, out * sin_l + x * cos_l, ((1.0 - _E2) * across + self.altitude + z) * sin_p + y * cos_p)


def _geodetic(x: float, y: float, z: float) -> tuple[float, float, float]:
    """Computes geodetic coordinates by Bowring (Transformation from spatial to geographical coordinates, 1976), iterated to convergence."""
    p = math.hypot(x, y)
    reduced = math.atan2(_A * z, _B * p)
    for _ in range(5):
        latitude = math.atan2(z + _E2 / (1.0 - _E2) * _B * math.sin(reduced) ** 3, p - _E2 * _A * math.cos(reduced) ** 3)
        reduced = math.atan2(_B * math.sin(latitude), _A * math.cos(latitude))
    sin_p, cos_p = math.sin(latitude), math.cos(latitude)
    altitude = p * cos_p + z * sin_p - _A * math.sqrt(1.0 - _E2 * sin_p**2)  # without a singularity at the poles
    return math.degrees(latitude), math.degrees(math.atan2(y, x)), altitude


def _scan_fields(scan: Scan) -> dict[str, Any]:
    return {"angle_min": scan.angle_min, "angle_max": scan.angle_min + scan.angle_increment * (len(scan.ranges) - 1),
            "angle_increment": scan.angle_increment, "range_min": scan.range_min, "range_max": scan.range_max,
            "ranges": scan.ranges.astype(np.float32).tolist()}


@dataclass(frozen=True)
class _Sampled(Declared):
    """Rate, latency and noise of a sensor."""

    rate: float = setting(10.0, "Hz", "measurements per simulated second; the period is a whole number of ticks", 0.1, 1000.0)
    latency: float = setting(0.0, "s", "from a measurement's stamp to its arrival", 0.0, 2.0)


@dataclass(frozen=True)
class GnssSettings(_Sampled):
    """Settings of a GNSS receiver, and position of the plane's origin on the earth."""

    ABOUT = "GNSS: "

    noise_sd: float = setting(1.0, "m", "standard deviation of each coordinate", 0.0, 100.0)
    latitude: float = setting(48.0, "deg", "of the origin of the plane, WGS 84", -89.9, 89.9)
    longitude: float = setting(11.0, "deg", "of the origin", -180.0, 180.0)
    altitude: float = setting(0.0, "m", "of the origin, above the ellipsoid", -1000.0, 1e5)


@dataclass(frozen=True)
class ImuSettings(_Sampled):
    """Settings of an inertial measurement unit."""

    ABOUT = "IMU: "

    noise_acceleration: float = setting(0.0, "m/s^2", "standard deviation of each acceleration", 0.0, 100.0)
    noise_rate: float = setting(0.0, "rad/s", "standard deviation of each angular rate", 0.0, 10.0)


def specific_force(ax: float, ay: float, roll: float, pitch: float) -> tuple[float, float, float]:
    """Computes the specific force (x, y, z) of an accelerometer on the sprung mass [m/s^2], tilted with the body. ax, ay: accelerations in
    the level, heading-fixed frame [m/s^2]; roll, pitch: attitude of the body [rad]."""
    cr, sr, cp, sp = math.cos(roll), math.sin(roll), math.cos(pitch), math.sin(pitch)
    along, up = cp * ax - sp * GRAVITY, sp * ax + cp * GRAVITY
    return along, cr * ay + sr * up, cr * up - sr * ay


class _Instrument:
    """Common part of GNSS and IMU: noise as a function of the seed and the number of the measurement alone."""

    def __init__(self, settings: Any, mount: Mount, surroundings: SensorScene, seed: int) -> None:
        self.settings, self.mount, self.seed = settings, mount, seed
        self.rate, self.latency = settings.rate, settings.latency

    def noise(self, time: float, size: int) -> np.ndarray:
        return np.random.default_rng((self.seed, round(time * self.rate) % 2**63)).standard_normal(size)


class Gnss(_Instrument):
    """Position of the antenna as latitude, longitude [deg] and altitude [m]."""

    def measure(self, view: VehicleView) -> tuple[float, float, float]:
        s, m, cos, sin = self.settings, self.mount, math.cos(view.yaw), math.sin(view.yaw)
        errors = s.noise_sd * self.noise(view.time, 3)
        return Datum(s.latitude, s.longitude, s.altitude).geodetic(
            view.x + cos * m.x - sin * m.y + errors[0], view.y + sin * m.x + cos * m.y + errors[1], m.z + errors[2])


class Imu(_Instrument):
    """Angular rates (3) [rad/s] and specific force (3) [m/s^2] at the mount, without the term of the yaw acceleration."""

    def measure(self, view: VehicleView) -> Mapping[str, np.ndarray]:
        s, m, out = self.settings, self.mount, view.outputs
        noise = self.noise(view.time, 6)
        rates = np.array([out.get(f"{axis}_rate", 0.0) for axis in ("roll", "pitch", "yaw")])
        ax, ay = out.get("ax", 0.0) - rates[2] ** 2 * m.x, out.get("ay", 0.0) - rates[2] ** 2 * m.y
        turn = turned(np.eye(3), m.yaw, m.pitch, 0.0)  # rows: the sensor's axes in the vehicle's
        force = np.array(specific_force(ax, ay, out.get("roll", 0.0), out.get("pitch", 0.0)))
        return {"angular_velocity": turn @ rates + s.noise_rate * noise[:3],
                "linear_acceleration": turn @ force + s.noise_acceleration * noise[3:]}


LIDAR_TYPE = SensorType("lidar", "planar LIDAR", LidarSettings,
                        lambda settings, mount, around, seed: Lidar(around.world, settings, seed, mount, around.ground),
                        (SensorMessage("sensor_msgs/msg/LaserScan", _scan_fields),), {"noise_sd": 0.3, "drop_out": 0.3})
GNSS_TYPE = SensorType("gnss", "GNSS receiver", GnssSettings, Gnss, (
    SensorMessage("sensor_msgs/msg/NavSatFix", lambda fix: dict(zip(("latitude", "longitude", "altitude"), map(float, fix)))),),
    {"noise_sd": 10.0})
IMU_TYPE = SensorType("imu", "inertial measurement unit", ImuSettings, Imu, (
    SensorMessage("sensor_msgs/msg/Imu", lambda imu: {name: dict(zip("xyz", vector.tolist())) for name, vector in imu.items()}),),
    {"noise_acceleration": 1.0, "noise_rate": 0.05})
for _kind in (LIDAR_TYPE, GNSS_TYPE, IMU_TYPE):
    register_sensor(_kind)
