"""Obstacles of two LIDARs, one that looks ahead and one that looks back, as one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lfdm_ros.ground import HeightMap
from lfdm_ros.perception.ground_returns import Tracks, Triple, with_ground_filter
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.perception.tracker import ObstacleTracker, TrackerSettings
from lfdm_ros.sensors import Lidar, RadarScan, Scan
from lfdm_ros.vehicles import Mount

LEAST_NOISE = 1e-3  # [m]
# At an edge of its sector [rad] and of its range the LIDAR ahead may see a thing in part. Of something that moves it sees a part where one
# of its circles is so near [m].
EDGE, REACH, TOUCHES = 0.15, 0.9, 0.5


def tracker_of(settings: TrackerSettings, mount: Mount, heights: HeightMap | None = None, rear: Lidar | None = None) -> Tracks:
    """Returns the tracker of a LIDAR, on ground with heights, and of a second one where there is one.

    Args:
        mount: of the first; rear: of the second its place, rate, latency and noise count.
    """
    first = with_ground_filter(ObstacleTracker(settings, mount), heights, mount)
    if rear is None:
        return first
    # What is far behind is not passed: it may come.
    behind = replace(settings, noise_sd=max(rear.settings.noise_sd, LEAST_NOISE), passed=settings.horizon)
    return TwoLidars(first, with_ground_filter(ObstacleTracker(behind, rear.mount), heights, rear.mount), settings, mount, rear)


class TwoLidars:
    """A tracker of a LIDAR, and `rear`, that of a second one, which takes the scans of that.

    Each follows things by its own scans alone. Where the first sees, it has the say: of the second's things there only those count that
    move where the first sees something that is not known to move yet, as a car that overtakes comes into its view. Things of a second
    one whose scans stay out are forgotten as those that are out of sight.

    sensor: the second LIDAR.
    """

    def __init__(self, first: Tracks, rear: Tracks, settings: TrackerSettings, mount: Mount, sensor: Lidar):
        """Joins two trackers. settings, mount: of the first."""
        self._first, self.rear, self._settings, self._mount, self.sensor = first, rear, settings, mount, sensor
        self.reset()

    def update(self, scan: Scan, x: float, y: float, yaw: float) -> None:
        """Takes a scan of the first. Raises InputError as the tracker's."""
        self._first.update(scan, x, y, yaw)
        self._pose, self._range = (x, y, yaw), min(scan.range_max, self._settings.horizon)

    def add_radar(self, scan: RadarScan, mount: Mount, pose: Triple, velocity: Triple) -> None:
        """Takes a radar's returns for the things of both. Raises InputError as the tracker's."""
        self._first.add_radar(scan, mount, pose, velocity)
        self.rear.add_radar(scan, mount, pose, velocity)

    def reset(self) -> None:
        self._first.reset()
        self.rear.reset()
        self._pose, self._range = (0.0, 0.0, 0.0), 0.0
        self._of: tuple[Obstacles, Obstacles] | None = None

    def obstacles(self) -> Obstacles:
        """Returns the obstacles of both at the time of the first's last scan; the same object until one of the two has news."""
        first, rear = self._first.obstacles(), self.rear.obstacles()
        if self._of is None or self._of[0] is not first or self._of[1] is not rear:
            self._of, self._joined = (first, rear), self._join(first, rear)
        return self._joined

    def _join(self, first: Obstacles, rear: Obstacles) -> Obstacles:
        if not math.isfinite(first.time) or not len(rear.radii):
            return first
        st, moving = self._settings, rear.moving
        rear = rear.where(first.time - rear.time <= np.where(moving, st.moving_memory, st.static_memory) + 1e-9).at(first.time)
        rear = rear.where(~self._sees(first, rear) | _comes_into_view(first, rear))
        if not len(rear.radii):
            return first
        both = first.joined(rear)
        away = np.hypot(*(both.centres - self._pose[:2]).T) - both.radii
        return both.where(np.argsort(away, kind="stable")[:st.max_obstacles])

    def _sees(self, first: Obstacles, things: Obstacles) -> np.ndarray:
        """Marks the things (n,) whose middle is in the first's sector and range, whatever hides them."""
        middle, half = first.sector or (0.0, math.inf)
        x, y = (things.centres - self._mount.place(*self._pose)).T
        off = np.abs(np.remainder(np.arctan2(y, x) - self._pose[2] - middle + np.pi, 2.0 * np.pi) - np.pi)
        return np.asarray((off < half - EDGE) & (np.hypot(x, y) < REACH * self._range))


def _comes_into_view(first: Obstacles, rear: Obstacles) -> np.ndarray:
    """Marks the things (n,) of the second that move and that something of the first touches, but nothing that moves."""
    touches = np.hypot(*(rear.centres[:, None] - first.centres).T).T - rear.radii[:, None] - first.radii < TOUCHES
    return np.asarray(rear.moving & touches.any(axis=1) & ~touches[:, first.moving].any(axis=1))
