"""Planar LIDAR: one range per beam, by exact ray casting."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lfdm_ros.compiler.machine_code import INTEGER, POINTER
from lfdm_ros.compiler.native import addresses, native
from lfdm_ros.errors import InputError
from lfdm_ros.parameters import Declared, Exposed, setting
from lfdm_ros.sensors.ground_rays import Surface, ground_ranges
from lfdm_ros.sensors.scan import Scan
from lfdm_ros.sensors.sensor import VehicleView
from lfdm_ros.simulation.world import World
from lfdm_ros.vehicles import Mount, Vehicle

_ARGUMENTS = (*[POINTER] * 3, INTEGER, *[POINTER] * 2, INTEGER, *[POINTER] * 3, INTEGER)  # of `loops_native.cast`


@dataclass(frozen=True)
class LidarSettings(Declared):
    """Settings of a LIDAR; its mount belongs to the vehicle (`Vehicle.lidar`). Raises InputError: names the setting that is not finite or
    out of range."""

    ABOUT = "LIDAR: "

    range_min: float = setting(0.5, "m", "minimum range", 0.0, 100.0, power=1)
    range_max: float = setting(100.0, "m", "maximum range", 0.1, 1000.0)
    field_of_view: float = setting(1.5 * math.pi, "rad", "horizontal, centred forward", 0.01, 2.0 * math.pi)
    resolution: float = setting(math.radians(0.5), "rad", "angle between two beams", 0.0005, 0.5)
    noise_sd: float = setting(0.02, "m", "standard deviation of a range", 0.0, 10.0)
    drop_out: float = setting(0.0, "1", "share of lost beams", 0.0, 1.0)
    rate: float = setting(10.0, "Hz", "scans per simulated second; the period is a whole number of ticks", 0.1, 1000.0)
    latency: float = setting(0.0, "s", "from a scan's stamp to its arrival", 0.0, 2.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.range_max <= self.range_min:
            raise InputError(f"LIDAR: range_max is {self.range_max:g}; give more than range_min, {self.range_min:g} m")
        if self.resolution > self.field_of_view:
            raise InputError(f"LIDAR: resolution is {self.resolution:g}; give at most field_of_view, {self.field_of_view:g} rad")

    def on(self, vehicle: Vehicle) -> LidarSettings:
        """Returns the settings of the LIDAR of a vehicle: where they have their default, its file gives the noise and its size the minimum
        range."""
        return self.fitted(vehicle.footprint.scale, noise_sd=vehicle.parameters.get("lidar_noise"))

    @property
    def beams(self) -> int:
        """Number of beams; a full circle does not repeat the first."""
        steps = int(np.floor(self.field_of_view / self.resolution + 1e-6))
        return steps if steps * self.resolution > 2.0 * np.pi - 0.5 * self.resolution else steps + 1


LIDAR = Exposed(LidarSettings, "lidar_", {"range_max": "lidar_range", "noise_sd": "lidar_noise"})


class Lidar:
    """LIDAR that measures the nearest surface of a world's obstacles on each beam, all at one instant.

    A scan is a function of its arguments, the seed and its number round(time * rate) alone. A sensor inside an obstacle detects its surface
    from inside. On ground with heights the beams pitch and roll with the vehicle and end at the ground; obstacles are upright and higher
    than any beam.
    """

    def __init__(self, world: World, settings: LidarSettings | None = None, seed: int = 1, mount: Mount | None = None,
                 ground: Surface | None = None):
        """Initialises the LIDAR. mount: on the vehicle, by default the position point; ground: None: level, without hits. Raises
        InputError: a negative seed."""
        if seed < 0:
            raise InputError(f"LIDAR: seed is {seed}; give 0 or more")
        self.world, self.settings, self.seed = world, settings or LidarSettings(), seed
        self.mount, self.ground = mount or Mount(), ground
        s = self.settings
        self.rate, self.latency = s.rate, s.latency
        self.angle_min = -0.5 * s.resolution * (s.beams - 1)
        angles = self.angle_min + s.resolution * np.arange(s.beams)
        self._along = np.column_stack([np.cos(angles), np.sin(angles)])  # (beams, 2)
        self._beams = np.array([self.angle_min, s.resolution, s.range_max])
        self._rays = native("lfdm_ros.sensors.loops_native", _ARGUMENTS, INTEGER, ("lfdm_ros.sensors.rays",), "cast")

    def scan(self, time: float, x: float, y: float, yaw: float, roll: float = 0.0, pitch: float = 0.0) -> Scan:
        """Returns the scan at a time [s] from a pose of the vehicle's position point [m, rad]; roll, + right side down, and pitch, + nose
        down, against the horizontal [rad], apply on ground with heights."""
        s = self.settings
        ranges = self._cast(time, x, y, yaw)
        if self.ground is not None:
            np.minimum(ranges, ground_ranges(self.ground, self.mount, self._along, (x, y, yaw), roll, pitch, s.range_max), out=ranges)
        ranges[ranges > s.range_max] = np.inf
        if s.noise_sd or s.drop_out:
            random = np.random.default_rng((self.seed, round(time * s.rate) % 2 ** 63))
            if s.noise_sd:
                ranges += s.noise_sd * random.standard_normal(len(ranges))
                np.maximum(ranges, 0.0, out=ranges)
                ranges[ranges > s.range_max] = np.inf
            if s.drop_out:
                ranges[random.random(len(ranges)) < s.drop_out] = np.nan
        return Scan(time, self.angle_min, s.resolution, s.range_min, s.range_max, ranges)

    def measure(self, view: VehicleView) -> Scan:
        """Takes a scan from the view's pose."""
        return self.scan(view.time, view.x, view.y, view.yaw, view.roll, view.pitch)

    def _cast(self, time: float, x: float, y: float, yaw: float) -> np.ndarray:
        """Computes the distances (beams,) [m] to the first surface; inf without one."""
        mount = self.mount
        pose = np.array([*mount.place(x, y, yaw), math.cos(yaw + mount.yaw), math.sin(yaw + mount.yaw)])
        centres, radii, starts, ends = (np.ascontiguousarray(a) for a in (*self.world.circles_at(time), *self.world.edges_at(time)))
        ranges = np.empty(len(self._along))
        self._rays(*addresses(pose, centres, radii, len(radii), starts, ends, len(starts), self._along, self._beams, ranges, len(ranges)))
        return ranges
