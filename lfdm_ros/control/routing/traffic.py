"""Traffic on a path with a corridor: its prediction along the lane, followers, preceding and oncoming traffic, relevant obstacles."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lfdm_ros.control.prediction import Measured, PlanarState
from lfdm_ros.control.routing.routes import Reference
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import NO_OBSTACLES, Obstacles
from lfdm_ros.simulation.path import Path
from lfdm_ros.vehicles.body import Footprint

# Traffic follows the lane, by an arc: minimum speed [m/s], minimum share of it along the lane, maximum lateral velocity [m/s], maximum
# distance from the lane's middle [m], duration of the arc [s].
# Oncoming traffic: lateral velocity that counts [m/s] (cars that change lanes have about 1), number of standard deviations within which a
# larger one is noise, speed below which these are observable [m/s]; delay of a measured velocity in a bend [s].
DRIVES, ALONG, MAX_ACROSS, LANES, LANE_TIME = 3.0, 0.9, 1.5, 15.0, 4.0
CHANGES_LANES, SIGNIFICANT, UNKNOWN, VELOCITY_LAG = 0.5, 3.0, 5.0, 0.3
STEP_IN = 0.5  # [m] outside of a corridor from which a pedestrian can step in
CORRIDOR_OVERLAP = 0.3  # [m] by which an obstacle inside a corridor reaches into it


def speeds_along(velocities: np.ndarray, s: np.ndarray, path: Path) -> np.ndarray:
    """Returns the components along a path of velocities (n, 2) [m/s] at s (n,) [m] of it: (n,)."""
    course = path.at(s)[2]
    along: np.ndarray = velocities[:, 0] * np.cos(course) + velocities[:, 1] * np.sin(course)
    return along


def along_lane(obstacles: Obstacles, reference: Reference) -> Obstacles:
    """Returns the obstacles with traffic along the lane of a corridor turning as the lane does. Oncoming traffic follows it despite a
    lateral velocity within noise, since distant sides are sparsely measured. Traffic in the same direction keeps its lateral velocity: it
    may be changing lanes."""
    drives = np.flatnonzero(np.hypot(*obstacles.velocities.T) > DRIVES)
    if obstacles.deviations is None or not len(drives):
        return obstacles
    path, velocity = reference.path, obstacles.velocities[drives]
    s, e = path.project(*obstacles.centres[drives].T)
    speed, comes = np.hypot(*velocity.T), speeds_along(velocity, s, path) < 0.0
    # Arc of the lane through three places: here, after half of the time, and at its end.
    stations = s + np.array([0.0, 0.5, 1.0])[:, None] * LANE_TIME * np.where(comes, -speed, speed)
    x, y, course, _ = path.at(stations)
    # Where the path changes lanes, both edges of its corridor move towards one side of it; where lanes begin or end, one does.
    left, right = (room - room[0] for room in reference.room_at(stations))
    aside = e + np.where(left * right < 0.0, np.sign(left) * np.minimum(np.abs(left), np.abs(right)), 0.0)
    dx, dy = np.diff([x - aside * np.sin(course), y + aside * np.cos(course)], axis=1)
    first, second = np.unwrap(np.arctan2(dy, dx), axis=0)
    bend = second - first  # heading change of one half; the first heading is that of its chord
    turns = bend * speed / np.maximum(0.5 * np.hypot(dx, dy).sum(axis=0) / np.sinc(0.5 * bend / math.pi), 0.1)
    heading = first - 0.5 * bend
    along = velocity[:, 0] * np.cos(heading) + velocity[:, 1] * np.sin(heading)
    across = velocity[:, 1] * np.cos(heading) - velocity[:, 0] * np.sin(heading)
    late = VELOCITY_LAG * np.abs(turns) * speed
    across -= np.clip(across, -late, late)
    deviation = obstacles.deviations[drives, 1]
    noise = np.maximum(CHANGES_LANES, SIGNIFICANT * np.where(deviation < UNKNOWN, deviation, 0.0))
    across[comes & (np.abs(across) < noise)] = 0.0
    follows = (along > ALONG * speed) & (np.abs(across) < np.where(comes, CHANGES_LANES, MAX_ACROSS)) & (np.abs(e) < LANES)
    along, across, heading = along[follows], across[follows], heading[follows]
    velocities, turning = obstacles.velocities.copy(), obstacles.turn_rates.copy()
    velocities[drives[follows]] = np.column_stack([along * np.cos(heading) - across * np.sin(heading),
                                                   along * np.sin(heading) + across * np.cos(heading)])
    turning[drives[follows]] = turns[follows]
    return replace(obstacles, velocities=velocities, turns=turning)


# Following preceding traffic: distance at standstill [m], time gap [s], deceleration of the traffic [m/s^2], and largest speed difference
# for falling back [m/s]; the lane brake handles the rest.
FOLLOWING_GAP, FOLLOWING_TIME, LEADER_BRAKING, FALLING_BACK = 2.0, 0.5, 6.0, 2.0
FOLLOWED_FROM = 1.0  # [m/s] along the lane; slower obstacles are passed
# So near to the path's middle a vehicle keeps its lane: who follows there has to keep clear of it [m].
KEEPS_LANE = 0.5
BACKWARDS = -0.1  # [m/s] below which a vehicle reverses


def follows(detected: Obstacles, s: np.ndarray, e: np.ndarray, path: Path, own: Measured, outline: Footprint) -> np.ndarray:
    """Marks the obstacles (n,), at s, e (n,) [m] of the path, that drive along it behind the vehicle, in its track, and have to keep clear
    of it: it keeps its lane, or they could still stop behind it, should it brake as hard as they may. A vehicle that reverses has to keep
    clear itself. own: the vehicle's state."""
    along = speeds_along(detected.velocities, s, path)
    here = PlanarState.of(own)
    (station,), (aside,) = path.project(np.array([here.x]), np.array([here.y]))
    gap = station - outline.rear - s - detected.radii - (own.time - detected.time) * along
    needed = FOLLOWING_TIME * along + 0.5 * (along**2 - here.vx**2) / LEADER_BRAKING
    in_track = (here.vx > BACKWARDS) & (along > DRIVES) & (gap > 0.0) & (np.abs(e - aside) - detected.radii < outline.half_width)
    return np.asarray(in_track & ((abs(aside) < KEEPS_LANE) | (gap > needed)))


class RelevantObstacles:
    """Latest detected obstacles: `detected`, all of them; `obstacles`, the relevant ones."""

    def __init__(self, outline: Footprint) -> None:
        """Makes an empty set. outline: of the vehicle."""
        self.outline = outline
        self.clear()

    def clear(self) -> None:
        """Clears all obstacles."""
        self.obstacles = self.detected = NO_OBSTACLES
        self._leaders = np.empty((2, 0))  # rear ends [m] and speeds [m/s] of preceding traffic along the path

    def following_speed(self, time: float, front: float, braking: float) -> float:
        """Returns the highest speed [m/s] at a time [s] of a vehicle with its front at `front` [m] along the path behind preceding traffic;
        inf without any.

        From it the vehicle stops with `braking` [m/s^2], after a time gap, behind traffic that brakes harder now (Shalev-Shwartz, Shammah &
        Shashua 2017, "On a formal model of safe and scalable self-driving cars", definition 1).
        """
        rear, speed = self._leaders
        ahead = rear > front  # at the detection time: passed traffic is not followed
        if not ahead.any():
            return math.inf
        rear, speed = rear[ahead] + (time - self.obstacles.time) * speed[ahead], speed[ahead]
        lost = braking * FOLLOWING_TIME
        distance = np.maximum(rear - front - FOLLOWING_GAP + 0.5 * speed**2 / LEADER_BRAKING, 0.0)
        return float(np.maximum(np.sqrt(lost**2 + 2.0 * braking * distance) - lost, speed - FALLING_BACK).min())

    def update_obstacles(self, obstacles: Obstacles, reference: Reference | None, own: Measured | None = None) -> None:
        """Sets the detected obstacles, a reference, and the vehicle's state, if known. Raises InputError for inconsistent shapes, a number
        that is not finite, or a negative radius; the previous obstacles stay."""
        o, n = obstacles, len(obstacles.radii)
        if o.centres.shape != (n, 2) or o.velocities.shape != (n, 2) or o.radii.shape != (n,):
            raise InputError(f"obstacles: centres {o.centres.shape}, radii {o.radii.shape} and velocities {o.velocities.shape} do not fit")
        if n and not (math.isfinite(o.time) and np.isfinite(o.centres).all() and np.isfinite(o.velocities).all()
                      and np.isfinite(o.radii).all() and (o.radii >= 0.0).all()):
            raise InputError("obstacles: a time, place, radius or velocity is not finite, or a radius is negative")
        self.detected = obstacles
        self.choose(reference, own)

    def choose(self, reference: Reference | None, own: Measured | None = None) -> None:
        """Selects the obstacles within the corridor, if there is one, which keeps the vehicle from the others, and none that follow the
        vehicle."""
        detected, self._leaders = self.detected, np.empty((2, 0))
        if reference is None or reference.corridor is None or not len(detected.radii):
            self.obstacles = detected
            return
        detected = along_lane(detected, reference)
        s, e = reference.path.project(detected.centres[:, 0], detected.centres[:, 1])
        in_path = np.flatnonzero(detected.moving & (np.abs(e) - detected.radii < self.outline.half_width))
        if len(in_path):
            velocities = detected.velocities[in_path]
            along, speed = speeds_along(velocities, s[in_path], reference.path), np.hypot(*velocities.T)
            leads = along > np.where(speed > DRIVES, DRIVES, np.maximum(FOLLOWED_FROM, ALONG * speed))
            self._leaders = np.array([s[in_path] - detected.radii[in_path], along])[:, leads]
        left, right = reference.room_at(s)
        inside = (e - detected.radii < left - CORRIDOR_OVERLAP) & (e + detected.radii > CORRIDOR_OVERLAP - right)
        # A new detection beside the corridor may step into it.
        beside = (e - detected.radii < left + STEP_IN) & (e + detected.radii > -STEP_IN - right)
        counts = detected.may_move | inside | (beside & detected.tentative)
        self.obstacles = detected.where(counts if own is None else counts & ~follows(detected, s, e, reference.path, own, self.outline))
