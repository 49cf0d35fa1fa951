"""A planar LIDAR: one range a beam, by exact ray casting."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lfdm_ros.errors import InputError
from lfdm_ros.parameters import Declared, Exposed, setting
from lfdm_ros.sensors.scan import Scan
from lfdm_ros.simulation.world import World
from lfdm_ros.vehicles import Mount

# A beam at a corner must not slip between its two edges by rounding; as a share of an edge.
_OVERLAP = 1e-12


@dataclass(frozen=True)
class LidarSettings(Declared):
    """A LIDAR; its place on the vehicle is the vehicle's (`Vehicle.lidar`).

    Raises:
        InputError: names the setting that is not finite or out of range.
    """

    ABOUT = "LIDAR: "

    range_min: float = setting(0.5, "m", "nearest that it sees", 0.0, 100.0)
    range_max: float = setting(100.0, "m", "farthest that it sees", 0.1, 1000.0)
    field_of_view: float = setting(1.5 * math.pi, "rad", "angle that the beams cover, its middle forward", 0.01, 2.0 * math.pi)
    resolution: float = setting(math.radians(0.5), "rad", "angle between two beams", 0.0005, 0.5)
    noise_sd: float = setting(0.02, "m", "standard deviation of a range", 0.0, 10.0)
    drop_out: float = setting(0.0, "1", "share of the beams that are lost", 0.0, 1.0)
    rate: float = setting(10.0, "Hz", "scans per simulated second; a whole number of ticks apart", 0.1, 1000.0)
    latency: float = setting(0.0, "s", "from a scan's stamp to its arrival, for the one who delivers it", 0.0, 2.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.range_max <= self.range_min:
            raise InputError(f"LIDAR: range_max is {self.range_max:g}; give more than range_min, {self.range_min:g} m")
        if self.resolution > self.field_of_view:
            raise InputError(f"LIDAR: resolution is {self.resolution:g}; give at most field_of_view, {self.field_of_view:g} rad")

    @property
    def beams(self) -> int:
        """Number of beams; a full circle has none twice."""
        steps = int(np.floor(self.field_of_view / self.resolution + 1e-6))
        return steps if steps * self.resolution > 2.0 * np.pi - 0.5 * self.resolution else steps + 1


LIDAR = Exposed(LidarSettings, "lidar_", {"range_max": "lidar_range", "noise_sd": "lidar_noise"})


class Lidar:
    """Sees the surfaces of a world's obstacles, the nearest on each beam; all beams at one instant.

    A scan is a function of its arguments, the seed and its number round(time * rate) alone, whatever was scanned before.
    A sensor inside an obstacle sees that one's surface from inside.
    """

    def __init__(self, world: World, settings: LidarSettings | None = None, seed: int = 1, mount: Mount | None = None):
        """mount: its place on the vehicle, by default the position point. Raises InputError for a negative seed."""
        if seed < 0:
            raise InputError(f"LIDAR: seed is {seed}; give 0 or more")
        self.world, self.settings, self.seed = world, settings or LidarSettings(), seed
        self.mount = mount or Mount()
        beams, s = self.settings.beams, self.settings
        self.angle_min = -0.5 * s.resolution * (beams - 1)
        angles = self.angle_min + s.resolution * np.arange(beams)
        self._along = np.column_stack([np.cos(angles), np.sin(angles)])  # (beams, 2)
        self._left = np.column_stack([-np.sin(angles), np.cos(angles)])

    def scan(self, time: float, x: float, y: float, yaw: float) -> Scan:
        """The scan at a time [s] from a pose of the vehicle's position point [m, rad]."""
        s = self.settings
        ranges = self._cast(time, x, y, yaw)
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

    def _cast(self, time: float, x: float, y: float, yaw: float) -> np.ndarray:
        """Distances (beams,) [m] to the first surface; inf without one."""
        s, mount = self.settings, self.mount
        cos, sin = np.cos(yaw), np.sin(yaw)
        origin = np.array([x + cos * mount.x - sin * mount.y, y + sin * mount.x + cos * mount.y])
        cos, sin = np.cos(yaw + mount.yaw), np.sin(yaw + mount.yaw)
        turn = np.array([[cos, -sin], [sin, cos]])  # rows in the world's axes times this: in the sensor's
        ranges = np.full(len(self._along), np.inf)
        centres, radii = self.world.circles_at(time)
        centres = (centres - origin) @ turn
        near = np.einsum("nd,nd->n", centres, centres) < (radii + s.range_max) ** 2
        if near.any():
            centres, radii = centres[near], radii[near]
            along, aside = self._along @ centres.T, self._left @ centres.T
            with np.errstate(invalid="ignore"):
                half_chord = np.sqrt(radii ** 2 - aside ** 2)  # nan: the line passes by
                hits = along - half_chord
                hits = np.where(hits >= 0.0, hits, along + half_chord)
                np.fmin(ranges, np.fmin.reduce(np.where(hits >= 0.0, hits, np.inf), axis=1), out=ranges)
        start, end = self.world.edges_at(time)
        if len(start):
            start, edge = (start - origin) @ turn, (end - start) @ turn
            # Where the beam t d meets the edge p + w e: t = (e x p) / (e x d), w = (d x p) / (e x d).
            across = -(self._left @ edge.T)  # (beams, edges): e x d
            with np.errstate(divide="ignore", invalid="ignore"):
                hits = (start[:, 1] * edge[:, 0] - start[:, 0] * edge[:, 1]) / across
                part = (self._left @ start.T) / across
                met = (hits >= 0.0) & (part >= -_OVERLAP) & (part <= 1.0 + _OVERLAP)
            np.minimum(ranges, np.where(met, hits, np.inf).min(axis=1), out=ranges)
        return ranges
