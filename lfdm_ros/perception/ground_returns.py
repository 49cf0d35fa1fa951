"""Ground filter of scans: returns from ground of known height are no obstacles."""

from dataclasses import replace
from typing import Protocol

import numpy as np

from lfdm_ros.ground import HeightMap
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.sensors import RadarScan, Scan
from lfdm_ros.sensors.ground_rays import rays
from lfdm_ros.vehicles import Mount

# Largest height of a ground return above the ground: errors of map and pose [m], and tilt of the body on its springs [rad]. A sensor 1.2 m
# high detects obstacles on level ground up to 80 m.
LOW, LEANS = 0.25, 0.012

Triple = tuple[float, float, float]


class Tracks(Protocol):
    """Source of obstacles from scans, as `lfdm_ros.perception.ObstacleTracker`."""

    def update(self, scan: Scan, x: float, y: float, yaw: float) -> None: ...
    def add_radar(self, scan: RadarScan, mount: Mount, pose: Triple, velocity: Triple) -> None: ...
    def obstacles(self) -> Obstacles: ...
    def reset(self) -> None: ...


def with_ground_filter(tracker: Tracks, heights: HeightMap | None, mount: Mount) -> Tracks:
    """Returns the tracker with a ground filter; unchanged without heights."""
    return tracker if heights is None else GroundAware(tracker, heights, mount)


class GroundAware:
    """Tracker without ground returns: beams that end on the ground are no evidence, so that obstacles detected there before stay. An
    obstacle before the ground on a beam is detected as usual."""

    def __init__(self, tracker: Tracks, heights: HeightMap, mount: Mount):
        self._tracker, self._heights, self._mount = tracker, heights, mount

    def update(self, scan: Scan, x: float, y: float, yaw: float) -> None:
        """Raises InputError as the tracker's."""
        if scan.ranges.ndim == 1 and scan.ranges.dtype.kind == "f":
            scan = replace(scan, ranges=np.where(self.of_ground(scan, x, y, yaw), np.nan, scan.ranges))
        self._tracker.update(scan, x, y, yaw)

    def of_ground(self, scan: Scan, x: float, y: float, yaw: float) -> np.ndarray:
        """Marks the returns (n,) of the ground, from a pose of the vehicle [m, rad]."""
        found = np.zeros(len(scan.ranges), bool)
        hits = np.flatnonzero(np.isfinite(scan.ranges) & (scan.ranges >= scan.range_min) & (scan.ranges <= scan.range_max))
        if len(hits):
            angles = scan.angle_min + scan.angle_increment * hits
            beams = np.column_stack([np.cos(angles), np.sin(angles)])
            eye, ways = rays(self._mount, beams, (x, y, yaw), *self._heights.attitude(x, y, yaw))
            places = eye + scan.ranges[hits, None] * ways
            ground = self._heights.at(places[:, 0], places[:, 1])[0] - float(self._heights.at(x, y)[0])
            found[hits] = places[:, 2] - ground <= LOW + LEANS * scan.ranges[hits]
        return found

    def add_radar(self, scan: RadarScan, mount: Mount, pose: Triple, velocity: Triple) -> None:
        """Takes a radar's returns as they are. Raises InputError as the tracker's."""
        self._tracker.add_radar(scan, mount, pose, velocity)

    def obstacles(self) -> Obstacles:
        return self._tracker.obstacles()

    def reset(self) -> None:
        self._tracker.reset()
