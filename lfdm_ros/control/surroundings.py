"""Obstacles as they are seen, and those of them that count for what is driven."""

from __future__ import annotations

import math

import numpy as np

from lfdm_ros.control.reference import Reference
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import NOTHING, Obstacles

EDGE = 0.3  # [m] an obstacle reaches into a corridor by so much, or it stands beside it


class Surroundings:
    """What was seen last. `obstacles`: those that count."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Nothing was seen."""
        self.obstacles = self._seen = NOTHING

    def see(self, obstacles: Obstacles, reference: Reference | None) -> None:
        """What is seen now, on a way.

        Raises:
            InputError: shapes that do not fit, a number that is not finite, or a negative radius. What was seen before stays.
        """
        o, n = obstacles, len(obstacles.radii)
        if o.centres.shape != (n, 2) or o.velocities.shape != (n, 2) or o.radii.shape != (n,):
            raise InputError(f"obstacles: centres {o.centres.shape}, radii {o.radii.shape} and velocities {o.velocities.shape} do not fit")
        if n and not (math.isfinite(o.time) and np.isfinite(o.centres).all() and np.isfinite(o.velocities).all()
                      and np.isfinite(o.radii).all() and (o.radii >= 0.0).all()):
            raise InputError("obstacles: a time, place, radius or velocity is not finite, or a radius is negative")
        self._seen = obstacles
        self.choose(reference)

    def choose(self, reference: Reference | None) -> None:
        """Those in the corridor count, where there is one: what stands beside it the corridor keeps away already."""
        seen = self._seen
        if reference is None or reference.corridor is None or not len(seen.radii):
            self.obstacles = seen
            return
        s, e = reference.path.project(seen.centres[:, 0], seen.centres[:, 1])
        left, right = reference.room_at(s)
        self.obstacles = seen.where(seen.moving | ((e - seen.radii < left - EDGE) & (e + seen.radii > EDGE - right)))
