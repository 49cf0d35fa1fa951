"""Routes round obstacles from the vehicle to its goal.

The controller's optimisation is local: it stays on the side of an obstacle where its reference lies. The lattice searches all sides. If the
goal lies behind, the vehicle slows down and turns until it points to the goal, then follows a lattice.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lfdm_ros.bounds import require
from lfdm_ros.control.routing.lattice import MARGIN_TOLERANCE, SAMPLES_PER_STATION, Lattice, LatticeSettings
from lfdm_ros.control.routing.routes import Route, RouteCurve, Scene, Search, arc, joined, squared_distances, straight
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import Obstacles


class LatticePlanner:
    """Route search. Its only state is tables; equal arguments give equal routes."""

    def __init__(self, settings: LatticeSettings | None = None) -> None:
        self.settings = settings or LatticeSettings()
        self._lattice = Lattice(self.settings)

    def route(self, x: float, y: float, yaw: float, speed: float, goal_x: float, goal_y: float, obstacles: Obstacles, half_width: float,
              margin: float, previous: Route | None = None) -> Route:
        """Finds the route from the vehicle to the goal.

        Args:
            x, y, yaw, speed: the vehicle's position point [m], direction [rad] and forward speed [m/s].
            obstacles: circles now; moving ones are evaluated at the time of passing at this speed.
            half_width, margin: [m] kept between path and circles: both; a gap narrower than twice their sum is closed.
            previous: the previous route; changing sides has a cost.

        Raises:
            InputError: an argument is not finite or out of range (`lfdm_ros.bounds`), or a radius, width or margin is negative.
        """
        settings = self.settings
        for name, quantity, value in (("x", "x", x), ("y", "y", y), ("yaw", "yaw", yaw), ("speed", "vx", speed), ("goal_x", "x", goal_x),
                                      ("goal_y", "y", goal_y), ("half_width", "room", abs(half_width)), ("margin", "room", abs(margin))):
            require(quantity, value, f"guidance: {name}")
        if half_width < 0.0 or margin < 0.0:
            raise InputError(f"guidance: half_width is {half_width:g} m and margin {margin:g} m; give 0 or more")
        scene = Scene.of(x, y, yaw, obstacles, half_width, margin)
        search = Search(x, y, yaw, max(speed, settings.scale * MIN_SPEED), goal_x, goal_y, scene, previous, settings.scale)
        distance = float(np.hypot(goal_x - x, goal_y - y))
        bearing = float(np.arctan2(goal_y - y, goal_x - x)) if distance > 1e-6 else yaw
        turn = float(np.angle(np.exp(1j * (bearing - yaw))))  # required turn of the vehicle, left positive
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
                # Shorter stations allow tighter curves, for which the vehicle brakes in time.
                found.append(self._lattice_route(search, max(0.65 * station, settings.shortest_station), direction, 1))
        if all(route.blocked for route in found) and abs(turn) > 0.5:
            found.append(retained_turn(search, settings) or turn_route(search, settings, self._lattice))
        if all(route.blocked for route in found) and not steep and outside:
            found.append(self._lattice_route(search, station, direction))
        return max(found, key=lambda route: (not route.blocked, route.free_length if route.blocked else 0.0))

    def _lattice_route(self, search: Search, station: float, direction: float, attempts: int = 2) -> Route:
        """Searches the lattice and checks its path exactly; if smoothing cuts a corner, repeats it with enlarged circles."""
        scene, grown, scale = search.scene, np.zeros(len(search.scene.reach)), search.scale
        for attempt in range(1, attempts + 1):
            trace = self._lattice.trace(search, station, direction, grown)
            if not trace.arrived or attempt == attempts:
                break
            nearest = squared_distances(trace.x[::2], trace.y[::2], search.pace, scene).min(axis=0, initial=np.inf)
            missing = scene.reach - scale * MARGIN_TOLERANCE - np.sqrt(nearest)
            if not (missing > scale * 0.02).any():
                break
            grown += np.where(missing > 0.0, missing + scale * 0.05, 0.0)
        return trace.finished(search, "lattice")

    def _near(self, search: Search, distance: float, turn: float) -> RouteCurve:
        """Returns an arc to a goal close by, as far as grip and the tightest circle allow."""
        limit = min(1.0 / self.settings.smallest_radius, self.settings.lateral_acceleration / search.pace**2)
        bend = float(np.clip(2.0 * np.sin(turn) / max(distance, search.step), -limit, limit)) if abs(turn) < 0.5 * np.pi else 0.0
        s = np.linspace(0.0, max(distance, 2.0 * search.step), 2 * SAMPLES_PER_STATION + 1)
        return arc(search.x, search.y, search.yaw, s, np.full(len(s), bend))


MAX_SLOWING_DISTANCE = 600.0  # [m] before a turn: from 60 m/s; a faster vehicle turns where it has slowed down
MIN_SPEED = 3.0  # [m/s] assumed speed of a slower vehicle that moves off, for a full-size one
HIT, CLEAR = 1e6, 1e5  # cost of an arc that collides, less its free length [m]; costs of others are below the second


class _Turn(NamedTuple):
    """Arc to one side, 1 left, -1 right, and its cost [m]."""

    cost: float
    side: int
    arc: RouteCurve


def retained_turn(search: Search, settings: LatticeSettings) -> Route | None:
    """Returns the rest of the previous turn, if still free: a turn that restarts each time would never leave the straight."""
    previous = search.previous
    if previous is None or previous.kind != "turn" or previous.blocked or previous.goal != search.goal:
        return None
    (s,), (e,) = previous.path.project(np.array([search.x]), np.array([search.y]), np.zeros(1))
    remaining = previous.path.length - s
    if abs(e) > search.scale or remaining < settings.shortest_station:
        return None
    at = s + np.linspace(0.0, remaining, max(int(np.ceil(remaining / search.step)), 2) + 1)
    x, y, heading, bend = previous.path.at(at)
    if np.cos(heading[0] - search.yaw) < 0.9:
        return None
    route = RouteCurve(x, y, heading, bend, True).finished(search, "turn", previous.side, previous.goal)
    return None if route.blocked else route


def turn_route(search: Search, settings: LatticeSettings, lattice: Lattice) -> Route:
    """Finds a route that slows down, turns towards the goal on the better side, at once or further on, and continues with a lattice."""
    turns: list[_Turn] = []
    for straight_radii in (0.0, 1.0, 2.0, 4.0):
        turns += _turns(search, settings, straight_radii * settings.smallest_radius)
        if turns and min(turn.cost for turn in turns) < CLEAR:
            break
    if not turns:
        return straight(search.x, search.y, search.yaw, settings.shortest_station).finished(search, "turn")
    cost, side, best = min(turns, key=lambda turn: (turn.cost, -turn.side))
    if cost >= CLEAR:
        return replace(best, arrived=False).finished(search, "turn", side, search.goal)
    if float(np.hypot(search.goal_x - best.x[-1], search.goal_y - best.y[-1])) >= settings.shortest_station:
        x, y, yaw = float(best.x[-1]), float(best.y[-1]), float(best.yaw[-1])
        pace = max(min(search.pace, settings.turning_speed), search.scale * MIN_SPEED)
        onward = replace(search, x=x, y=y, yaw=yaw, pace=pace, previous=None)
        best = joined(best, lattice.trace(onward, settings.shortest_station, float(np.arctan2(search.goal_y - y, search.goal_x - x)),
                                          np.zeros(len(search.scene.reach)), search.step * len(best.x) / search.pace))
    return best.finished(search, "turn", side, search.goal)


def _turns(search: Search, settings: LatticeSettings, delay: float) -> list[_Turn]:
    """Returns turns that begin `delay` [m] ahead and end where they point to the goal."""
    pace, scene, previous, step = search.pace, search.scene, search.previous, search.step
    slowing = min(pace**2 / (2.0 * settings.braking), MAX_SLOWING_DISTANCE)
    radius = settings.smallest_radius
    s = step * np.arange(int(4.0 * np.pi * radius / step) + int((slowing + 4.0 * radius) / step))
    square = np.maximum(pace**2 - 2.0 * settings.braking * s, settings.turning_speed**2)
    bend = np.minimum(settings.lateral_acceleration / square, 1.0 / settings.smallest_radius)
    bend *= np.clip((s - delay) / (0.5 * settings.smallest_radius), 0.0, 1.0)  # steering takes its time
    found = []
    for side in (1, -1):
        curve = arc(search.x, search.y, search.yaw, s, side * bend)
        ahead = np.exp(-1j * curve.yaw) * ((search.goal_x - curve.x) + 1j * (search.goal_y - curve.y))
        # The goal passes from this side to straight ahead.
        beside = side * ahead.imag > 0.0
        turned = np.flatnonzero(np.logical_or.accumulate(beside) & ~beside & (ahead.real > 0.0)
                                & (np.abs(curve.yaw - search.yaw) < 2.0 * np.pi))
        if not len(turned):
            continue
        end = max(int(turned[0]), 2)
        curve = RouteCurve(curve.x[:end + 1], curve.y[:end + 1], curve.yaw[:end + 1], curve.curvature[:end + 1], True)
        need = np.maximum(scene.reach - search.scale * MARGIN_TOLERANCE, 0.0)
        clear = (squared_distances(curve.x, curve.y, pace, scene) >= need**2).all(axis=1)
        free = float(s[:end + 1][np.logical_and.accumulate(clear)].max(initial=0.0))
        cost = float(s[end] + abs(ahead[end])) + (0.0 if free >= s[end] else HIT - free)
        if previous is not None and previous.side == -side:
            cost += 0.3 * float(s[end])
        found.append(_Turn(cost, side, curve))
    return found
