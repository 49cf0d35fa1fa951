"""Speeds along a path from which the vehicle can stop for traffic emerging from occluded places.

Each occluded place beside the path may hold traffic that moves towards the path from now on, at an assumed speed: the reachable set of
hidden traffic (Koschi & Althoff 2021, "Set-based prediction of traffic participants considering occlusions and traffic rules"). The vehicle
must be able to stop before each place on the path that this traffic reaches before the vehicle has passed it. IEEE 2846-2022 calls such a
speed a reasonably foreseeable assumption; it depends on the local traffic: walking, cycling or driving.
"""

import math

import numpy as np

from lfdm_ros.control.safety.stops import occluded
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation.path import Path
from lfdm_ros.vehicles import Footprint

HORIZON = 4.0  # [s] checked part of the path
STRIDE, MAX_ACROSS, ACROSS_STEPS = 1.0, 30.0, 24  # [m] along the path; [m] and number of steps to each side
BODY = 0.3  # [m] half the width of a hidden road user
REACTION = 0.3  # [s] from detection to braking
MIN_SPEED = 2.0  # [m/s] smallest speed limit


def hidden_traffic_speeds(path: Path, station: float, vx: float, sensor: np.ndarray, detected: Obstacles, outline: Footprint,
                          assumed: float, braking: float) -> np.ndarray:
    """Returns the highest speeds (n,) [m/s] at the points of `path.s`, inf where no hidden traffic counts.

    Args:
        station: of the vehicle on the path [m]; vx: its speed [m/s]; sensor: position (2,) [m].
        detected: present obstacles; assumed: speed of hidden traffic [m/s]; braking: of the vehicle's stop [m/s^2].
    """
    highest = np.full(len(path.s), math.inf)
    if not len(detected.radii):
        return highest
    ahead = np.arange(outline.front, outline.front + max(vx * HORIZON, 4.0 * STRIDE), STRIDE)
    px, py, yaw, _ = path.at(station + ahead)
    across = np.linspace(0.0, min(assumed * HORIZON, MAX_ACROSS), ACROSS_STEPS)  # from the strip that the vehicle sweeps
    for side in (1.0, -1.0):
        e = side * (outline.half_width + BODY + across)
        places = np.stack([px[:, None] - e * np.sin(yaw)[:, None], py[:, None] + e * np.cos(yaw)[:, None]], axis=-1)
        ends = np.concatenate([places.reshape(-1, 2), sensor[None]])  # lines of sight lie between them
        within = np.abs(detected.centres - 0.5 * (ends.min(axis=0) + ends.max(axis=0))) <= (
            0.5 * np.ptp(ends, axis=0) + detected.radii[:, None])
        obstacles = detected.where(within.all(axis=1))
        solid = (np.hypot(*np.moveaxis(places[:, :, None] - obstacles.centres, -1, 0)) < obstacles.radii).any(axis=2)
        # A detected obstacle blocks traffic hidden behind it.
        barred = np.logical_or.accumulate(solid, axis=1)
        hidden = occluded((places - sensor).reshape(-1, 2), obstacles.centres - sensor, obstacles.radii).reshape(solid.shape) & ~barred
        reached = np.where(hidden, across / assumed, math.inf).min(axis=1)  # [s] earliest arrival at the swept strip, at each place ahead
        for distance, time in zip(ahead - outline.front, reached.tolist()):
            if vx * time < distance + outline.front + outline.rear:  # not passed before
                left = np.maximum(station + distance - path.s, 0.0)
                lost = braking * REACTION
                limit = np.maximum(np.sqrt(lost**2 + 2.0 * braking * left) - lost, MIN_SPEED)
                highest = np.where(path.s <= station + distance, np.minimum(highest, limit), highest)
                break  # places further on allow higher speeds here
    return highest
