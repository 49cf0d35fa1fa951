"""Obstacles of two LIDARs, one that looks ahead and one that looks back, as one."""

import math
from dataclasses import replace

import numpy as np

from lfdm_ros.ground import HeightMap
from lfdm_ros.perception.ground_returns import Tracks, Triple, with_ground_filter
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.perception.tracker import ObstacleTracker, TrackerSettings
from lfdm_ros.sensors import Lidar, RadarScan, Scan
from lfdm_ros.vehicles import Mount

MIN_NOISE = 1e-3  # [m]
PATIENCE = 0.5  # [s] since the second LIDAR's last scan, for which it counts as in service
# At the edge of its sector [rad], and beyond this share of its range, the first LIDAR may see an obstacle in part only. A circle of it this
# near [m] belongs to the same obstacle.
EDGE, REACH, TOUCHES = 0.15, 0.9, 0.5


def tracker_of(settings: TrackerSettings, mount: Mount, heights: HeightMap | None = None, rear: Lidar | None = None) -> Tracks:
    """Returns the tracker of a LIDAR, on ground with heights, and of a second one where there is one. mount: of the first; rear: of the
    second its place, rate, latency and noise count."""
    first = with_ground_filter(ObstacleTracker(settings, mount), heights, mount)
    if rear is None:
        return first
    # Moving obstacles far behind still matter: `passed` does not apply to them.
    behind = replace(settings, noise_sd=max(rear.settings.noise_sd, MIN_NOISE), passed=settings.horizon)
    return TwoLidars(first, with_ground_filter(ObstacleTracker(behind, rear.mount), heights, rear.mount), settings, mount, rear)


class TwoLidars:
    """Joint tracker of two LIDARs; `rear` takes the scans of the second, `sensor`.

    Each tracker uses its own scans alone. Within the first one's sector its obstacles count, except for those that the second knows to move
    and the first still takes for static, such as a car that overtakes. If the second falls silent, its obstacles expire like hidden ones.
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
        """Takes a radar's returns for the obstacles of both. Raises InputError as the tracker's."""
        self._first.add_radar(scan, mount, pose, velocity)
        self.rear.add_radar(scan, mount, pose, velocity)

    def reset(self) -> None:
        self._first.reset()
        self.rear.reset()
        self._pose, self._range = (0.0, 0.0, 0.0), 0.0
        self._of: tuple[Obstacles, Obstacles] | None = None

    def obstacles(self) -> Obstacles:
        """Returns the obstacles of both at the time of the first's last scan; the same object until one of the two is updated."""
        first, rear = self._first.obstacles(), self.rear.obstacles()
        if self._of is None or self._of[0] is not first or self._of[1] is not rear:
            self._of, self._joined = (first, rear), self._join(first, rear)
        return self._joined

    def _join(self, first: Obstacles, rear: Obstacles) -> Obstacles:
        if abs(first.time - rear.time) <= PATIENCE:
            reach = min(self.sensor.settings.range_max, self._settings.horizon)
            first = replace(first, second_view=(self.sensor.mount.x, self.sensor.mount.y, *(rear.sector or (0.0, math.pi)), reach))
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

    def _sees(self, first: Obstacles, others: Obstacles) -> np.ndarray:
        """Marks the obstacles (n,) with their middle in the first's sector and range, hidden or not."""
        middle, half = first.sector or (0.0, math.inf)
        x, y = (others.centres - self._mount.place(*self._pose)).T
        off = np.abs(np.remainder(np.arctan2(y, x) - self._pose[2] - middle + np.pi, 2.0 * np.pi) - np.pi)
        return np.asarray((off < half - EDGE) & (np.hypot(x, y) < REACH * self._range))


def _comes_into_view(first: Obstacles, rear: Obstacles) -> np.ndarray:
    """Marks the moving obstacles (n,) of the second that touch static ones of the first, and no moving one."""
    touches = np.hypot(*(rear.centres[:, None] - first.centres).T).T - rear.radii[:, None] - first.radii < TOUCHES
    return np.asarray(rear.moving & touches.any(axis=1) & ~touches[:, first.moving].any(axis=1))
