"""What an operator is about to do, from what he has seen.

His hands answer now what he saw a reaction ago: delays of his own, and those of a link. What they do until a reaction from now answers what
the vehicle has done by now, which is known here. It is asked of the published driver model (`teleop.salvucci`), with its median gains: a
person's own are a factor of them, which is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lfdm_ros.control.prediction import REQUIRED, Measured
from lfdm_ros.control.routing.path import Path
from lfdm_ros.teleop.salvucci import TwoPoint
from lfdm_ros.teleop.settings import LOG_SD, OperatorSettings, Person
from lfdm_ros.teleop.sight import moved_on, two_points
from lfdm_ros.vehicles import Vehicle

GAIN_LOG_SD = LOG_SD["steering_factor"]  # of a person's gains around the median's


class Foreseen:
    """The median driver at the wheel of one vehicle."""

    def __init__(self, vehicle: Vehicle, settings: OperatorSettings | None = None) -> None:
        """settings: of the driver. Raises KeyError if the vehicle lacks wheelbase or largest road-wheel angle."""
        p, self._settings = vehicle.parameters, settings or OperatorSettings(variation=0.0)
        self._person = Person.drawn(self._settings, np.random.default_rng(0))
        self._lock = p["max_road_wheel_angle"]
        self._law = TwoPoint(self._settings, self._person, p["cg_to_front_axle"] + p["cg_to_rear_axle"], self._lock)

    @property
    def thinks_ahead(self) -> float:
        """For how long he thinks the motion of a picture on, which makes up for delays of his own [s]."""
        s, own = self._settings, self._person
        return s.anticipation * (own.perception_delay + s.cognitive_cycle + own.motor_delay)

    def steering(self, path: Path, past: Sequence[Measured], now: float, times: np.ndarray, delay: float) -> np.ndarray:
        """By how much the steering of one who follows a path will differ from what it is at `now` [s], `times` (k,) from then on, which
        begin at 0 and rise: (k,), share of full lock. From a `delay` [s] on, beyond which nobody has seen anything, it stays.

        Args:
            past: states, oldest first; what lies before the first is as that.
            delay: from what the vehicle does to what his hands do about it.
        """
        law, seen = self._law, np.minimum(now + times - delay, past[-1].time)
        at = np.array([state.time for state in past])
        values = {name: np.array([state.values[name] for state in past]) for name in REQUIRED}
        values["yaw"] = np.unwrap(values["yaw"])
        picture = {name: np.interp(seen, at, value) for name, value in values.items()}
        x, y, yaw = moved_on(picture, self.thinks_ahead)
        _, angles = two_points(path, path.project(x, y)[0], x, y, yaw, np.maximum(picture["vx"], 0.0), self._person.far_time)
        law.reset()
        steps = np.diff(np.maximum(seen, at[0]), prepend=max(float(seen[0]), float(at[0])))
        wanted = [law.steer(far, near, step) for near, far, step in zip(*angles.tolist(), steps.tolist())]
        return (np.array(wanted) - wanted[0]) / self._lock if all(map(math.isfinite, wanted)) else np.zeros(len(times))
