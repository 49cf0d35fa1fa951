"""A baseline: the lattice's way, followed by pure pursuit, with a rule for the speed. No model, no optimisation.

Steering is that of Coulter 1992, "Implementation of the pure pursuit path tracking algorithm": an arc from the rear axle to the point of
the path that lies a look-ahead distance away, which grows with the speed. The speed is that of the way (bends, stops before what blocks
it). Before each command the arc is looked along, as nav2's regulated pure pursuit does: what stands on it within the stopping distance is
braked for, as hard as that needs.
"""

from __future__ import annotations

import math
import time
from types import SimpleNamespace

import numpy as np

from lfdm_lab.studies.baseline import Baseline
from lfdm_ros.control.cycle import ARRIVED, BLOCKED, Cycle, Outcome
from lfdm_ros.control.path import Path
from lfdm_ros.control.prediction import Measured, Pose
from lfdm_ros.control.rules import STOP_SHORT
from lfdm_ros.control.settings import Settings
from lfdm_ros.vehicles import Vehicle

AHEAD, LEAST_AHEAD = 0.8, 5.0  # look-ahead: time [s], distance [m]
PREVIEW = 0.3  # [s] the brake needs some time: the speed is that of the way so far ahead
PRESS = 0.3  # pedal for a m/s that is missing [s/m]
FULL_BRAKE = 8.0  # [m/s^2] about what the brake gives at most: its share is fed forward
HARD = 6.0  # [m/s^2] most that the arc's stop is planned with
SIDEWAYS = 6.0  # [m/s^2] most that the steering may ask for
LOOKED = 0.5  # [m] between the points of the arc that are looked at
CLEAR = 0.2  # [m] that is kept beside the arc


class PurePursuit(Baseline):
    """Drives one vehicle; a `closed_loop.Driver`."""

    def __init__(self, vehicle: Vehicle, settings: Settings | None = None) -> None:
        """Raises InputError if the vehicle lacks what the settings' model needs: its wheelbase and steering are used of it."""
        super().__init__(vehicle, settings)
        self.vehicle.vector(self.vehicle.model(self.settings.model))
        p = SimpleNamespace(**vehicle.parameters)
        self._rear, self._wheelbase = p.cg_to_rear_axle, p.cg_to_front_axle + p.cg_to_rear_axle
        self._full_lock = p.max_road_wheel_angle
        self._pose: Pose | None = None

    def cycle(self, now: float, measured: Measured | None = None) -> Cycle:
        """The command for the period that begins at `now` [s]."""
        began = time.perf_counter()
        if measured is not None:
            self._pose = Pose.of(measured)
        finder, pose = self._finder, self._pose
        if pose is not None:
            finder.look(now, pose)
        way = finder.way
        if pose is None or way is None or finder.done:
            return self._send(now, Cycle((0.0, 0.0, 0.0), Outcome.STOPPED, ARRIVED if finder.done else "no state or no task",
                                         done=finder.done), 0.0, -self.settings.stop_brake, began)
        s = finder.station(pose.x, pose.y)
        curvature = self._arc(way.path, s, pose)
        # What the way allows now and when the brake has built up; the brake that its slope asks for is fed forward.
        v = max(pose.vx, 0.0)
        here, ahead = way.speed_at(s), way.speed_at(s + PREVIEW * v)
        wanted = min(here, ahead)
        slowing = max(here**2 - ahead**2, 0.0) / (2.0 * PREVIEW * v) if v > 1.0 else 0.0
        pedal = PRESS * (wanted - v) - (slowing / FULL_BRAKE if v > wanted - 0.5 else 0.0)
        free = self._free(pose, curvature, v, now)
        needed = v * v / (2.0 * max(free, 0.1))
        if needed > 0.5 * HARD:
            pedal = min(pedal, -needed / FULL_BRAKE)
        if v < 0.5 and (wanted < 0.5 or free < 0.5):
            pedal = -self.settings.stop_brake
        steering = math.atan(self._wheelbase * curvature) / self._full_lock
        return self._send(now, Cycle((0.0, 0.0, 0.0), Outcome.SOLVED, BLOCKED if way.blocked else "", blocked=way.blocked, route=way.path,
                                remaining=way.path.length - s), steering, pedal, began)

    def _arc(self, path: Path, s: float, pose: Pose) -> float:
        """Curvature [1/m] of the arc from the rear axle to the point ahead."""
        v = max(pose.vx, 0.0)
        x, y = pose.x - self._rear * math.cos(pose.yaw), pose.y - self._rear * math.sin(pose.yaw)
        ahead = s + max(LEAST_AHEAD, min(AHEAD * v, path.length - s))  # not beyond the goal as long as that is away
        px, py = (float(a[0]) for a in path.at(np.array([ahead]))[:2])
        angle = math.remainder(math.atan2(py - y, px - x) - pose.yaw, 2.0 * math.pi)
        curvature = 2.0 * math.sin(max(min(angle, 0.5 * math.pi), -0.5 * math.pi)) / math.hypot(px - x, py - y)
        most = SIDEWAYS / max(v, 1.0) ** 2
        return max(min(curvature, most), -most)

    def _free(self, pose: Pose, curvature: float, v: float, now: float) -> float:
        """How far the vehicle may drive on the arc before its front is too near to an obstacle [m]; inf if further than it stops in."""
        seen, outline = self._finder.obstacles, self.outline
        if not len(seen.radii):
            return math.inf
        stop = outline.front + STOP_SHORT + v * v / HARD + PREVIEW * v
        along = np.arange(0.0, stop, LOOKED)
        turn = curvature * along
        # Arc from the position point, by sin(t)/t forms that hold for a straight line as well.
        x = pose.x + along * np.sinc(0.5 * turn / math.pi) * np.cos(pose.yaw + 0.5 * turn)
        y = pose.y + along * np.sinc(0.5 * turn / math.pi) * np.sin(pose.yaw + 0.5 * turn)
        centres = seen.at(now).centres
        away = np.hypot(x[:, None] - centres[:, 0], y[:, None] - centres[:, 1]) - seen.radii
        met = (away < outline.half_width + CLEAR).any(axis=1)
        return max(float(along[int(met.argmax())]) - outline.front - 0.5 * STOP_SHORT, 0.0) if met.any() else math.inf
