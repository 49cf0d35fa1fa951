"""Which way round the obstacles: a path from the vehicle to its goal.

The controller's optimisation is local: it stays on the side of an obstacle on which its reference lies. The lattice looks at all sides.
"""

from __future__ import annotations

import numpy as np

from lfdm_ros.bounds import require
from lfdm_ros.control.guide_settings import GuideSettings
from lfdm_ros.control.lattice import FINE, SLACK, Lattice
from lfdm_ros.control.path import STEP
from lfdm_ros.control.routes import Route, Scene, Search, Trace, arc, squared_distances
from lfdm_ros.control.turning import LEAST_SPEED, kept_turn, turn_route
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import Obstacles


class Guide:
    """Finds routes. Keeps no state but tables; the same arguments give the same route."""

    def __init__(self, settings: GuideSettings | None = None) -> None:
        self.settings = settings or GuideSettings()
        self._lattice = Lattice(self.settings)

    def route(self, x: float, y: float, yaw: float, speed: float, goal_x: float, goal_y: float, obstacles: Obstacles, half_width: float,
              margin: float, previous: Route | None = None) -> Route:
        """The way from the vehicle to the goal.

        Args:
            x, y, yaw, speed: the vehicle's position point [m], direction [rad] and forward speed [m/s].
            obstacles: circles now; moving ones are taken where they are when the vehicle gets there at this speed.
            half_width, margin: [m] kept between path and circles: both; a gap narrower than twice their sum is no way.
            previous: the route before; changing sides costs something.

        Raises:
            InputError: an argument that is not finite or cannot be (`lfdm_ros.bounds`), or a negative radius, width or margin.
        """
        settings = self.settings
        for name, quantity, value in (("x", "x", x), ("y", "y", y), ("yaw", "yaw", yaw), ("speed", "vx", speed), ("goal_x", "x", goal_x),
                                      ("goal_y", "y", goal_y), ("half_width", "room", abs(half_width)), ("margin", "room", abs(margin))):
            require(quantity, value, f"guidance: {name}")
        if half_width < 0.0 or margin < 0.0:
            raise InputError(f"guidance: half_width is {half_width:g} m and margin {margin:g} m; give 0 or more")
        scene = Scene.of(x, y, yaw, obstacles, half_width, margin)
        search = Search(x, y, yaw, max(speed, LEAST_SPEED), goal_x, goal_y, scene, previous)
        distance = float(np.hypot(goal_x - x, goal_y - y))
        bearing = float(np.arctan2(goal_y - y, goal_x - x)) if distance > 1e-6 else yaw
        turn = float(np.angle(np.exp(1j * (bearing - yaw))))  # what the vehicle must turn by, left positive
        if distance < settings.shortest_station:
            return self._near(search, distance, turn).finished(search, "near")
        station = float(np.clip(settings.station_time * search.pace, settings.shortest_station, settings.longest_station))
        steepest = settings.slopes * settings.offset_step / station
        lean = np.arctan(0.8 * steepest)  # the vehicle's own slope in the lattice is at most this
        direction = bearing if abs(turn) <= lean else yaw + float(np.copysign(lean, turn))
        found: list[Route] = []
        steep = abs(turn) >= lean + np.arctan(0.7 * steepest)
        outside = abs(distance * np.sin(bearing - direction)) > settings.side
        if not steep and not outside:
            found.append(self._lattice_route(search, station, direction))
            if found[0].blocked and found[0].free_length > 0.0 and station > settings.shortest_station:
                # Shorter stations see tighter curves, for which the vehicle brakes on the way.
                found.append(self._lattice_route(search, max(0.65 * station, settings.shortest_station), direction, 1))
        if all(route.blocked for route in found) and abs(turn) > 0.5:
            found.append(kept_turn(search, settings) or turn_route(search, settings, self._lattice))
        if all(route.blocked for route in found) and not steep and outside:
            found.append(self._lattice_route(search, station, direction))
        return max(found, key=lambda route: (not route.blocked, route.free_length if route.blocked else 0.0))

    def _lattice_route(self, search: Search, station: float, direction: float, attempts: int = 2) -> Route:
        """Lattice and exact look at its path; where smoothing cut a corner, the circle grows and the lattice looks again."""
        scene, grown = search.scene, np.zeros(len(search.scene.reach))
        for attempt in range(1, attempts + 1):
            trace = self._lattice.trace(search, station, direction, grown)
            if not trace.arrived or attempt == attempts:
                break
            nearest = squared_distances(trace.x[::2], trace.y[::2], search.pace, scene).min(axis=0, initial=np.inf)
            missing = scene.reach - SLACK - np.sqrt(nearest)
            if not (missing > 0.02).any():
                break
            grown += np.where(missing > 0.0, missing + 0.05, 0.0)
        return trace.finished(search, "lattice")

    def _near(self, search: Search, distance: float, turn: float) -> Trace:
        """An arc to a goal close by, as far as grip and the tightest circle allow."""
        limit = min(1.0 / self.settings.smallest_radius, self.settings.lateral_acceleration / search.pace**2)
        bend = float(np.clip(2.0 * np.sin(turn) / max(distance, STEP), -limit, limit)) if abs(turn) < 0.5 * np.pi else 0.0
        s = np.linspace(0.0, max(distance, 2.0 * STEP), 2 * FINE + 1)
        return arc(search.x, search.y, search.yaw, s, np.full(len(s), bend))
