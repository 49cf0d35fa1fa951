"""Backing out of a blocked way: slowly, along the way that was driven, as far as that is known to be free.

The vehicle has swept the way behind itself, so what stands there is known: nothing. That is trusted for a while, and no longer where
something has come near since; for a while after that less than a whole bout is not worth backing. Obstacles that are seen count as well,
those that move where they will be. After each few metres it stops and looks for a way again; when that has not helped for some times, it
stands.

Steering is that of Coulter 1992, "Implementation of the pure pursuit path tracking algorithm", from the rear axle backwards.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from lfdm_ros.control.prediction import PlanarState
from lfdm_ros.control.safety.stops import Stops, occluded, outline_distance
from lfdm_ros.control.settings import Settings
from lfdm_ros.perception.obstacles import NOTHING, Obstacles
from lfdm_ros.vehicles import Footprint

SPACING = 0.25  # [m] between the places that are remembered
MAX_TRAIL = 60.0  # [m] of way
TRAIL_MEMORY = 60.0  # [s] for which a place that the vehicle has left is known to be free
MAX_JUMP = 3.0  # [m] from one state to the next: it was put elsewhere
# Distance [m] within which a moving thing, or one that has moved, comes to a place, and time [s] until then: the place does not count.
NEAR_DISTANCE, NEAR_TIME = 1.0, 2.0
INTRUSION_DEPTH = 0.2  # [m] so far inside the outline that was swept, a thing has come there since: places are not known better
MARGIN, MOVING_MARGIN = 0.1, 0.6  # [m] to keep from what stands and from what moves
MAX_TRAIL_ERROR = 0.4, 0.25  # [m], [rad] from the way: farther off it is not the way that was swept
CREEP_SPEED, STANDSTILL_SPEED = 0.4, 0.1  # [m/s] a slower vehicle is about to stop, and stands
WAIT_TIME = 1.0  # [s] it creeps or stands before it backs
# [s] it stands before it backs on or drives on, and for which the way is blocked and behind it is free before it backs at all: a way is
# looked for meanwhile, and one scan decides nothing
SETTLE_TIME = 0.5
BOUT, MAX_BOUT = 4.0, 16.0  # [m] backed at a time; more each time the way ahead proved to be none
MIN_BACKING = 1.0  # [m] less is not worth backing
CALM_TIME = 10.0  # [s] since something moved at the end of the way that is free: sooner, less than a whole bout is not worth backing
MIN_GAIN = 2.0  # [m] nearer to the goal than ever before a blocked way: trying has helped
MAX_TRIES = 10  # times in a row without gain
BACKING_DECELERATION = 0.5  # [m/s^2] with which it slows down to the end of a bout
END_CLEARANCE = 0.2  # [m] it stops so far before the end of what is free
LOOK_AHEAD = 2.5  # [m] look-ahead of the steering
# Pedal for a m/s that is missing [s/m], for each second of that [1/m], and most of the latter; what is missing counts up to so much [m/s].
PROPORTIONAL_GAIN, INTEGRAL_GAIN, MAX_INTEGRAL_PEDAL, MAX_SPEED_ERROR = 0.12, 0.06, 0.3, 0.4
RECALL_TIME = 180.0  # [s] for which what was seen before a blocked way counts where it is out of sight
SAME_OBSTACLE = 0.5  # [m] a circle is the same as one that is seen so near
NO_ROOM = "behind it is not known to be free"
NO_GAIN = f"backing has not helped {MAX_TRIES} times"


@dataclass(frozen=True, eq=False)
class WayBack:
    """A way back: poses x, y [m], yaw [rad] (n, 3) from the vehicle on, and their distances along it s (n,) [m]."""

    s: np.ndarray
    poses: np.ndarray


@dataclass
class _Place:
    time: float  # when the vehicle was last there [s]
    x: float
    y: float
    yaw: float


class Trail:
    """The places that the vehicle has driven through and has not backed over, at even distances; the last is the nearest."""

    def __init__(self) -> None:
        self._places: deque[_Place] = deque(maxlen=round(MAX_TRAIL / SPACING))
        self._taken: _Place | None = None  # the place nearest to the vehicle that something moving has come near
        self.entered = -math.inf  # when something that moves was last at the end of the way, or coming there [s]

    def clear(self) -> None:
        """Forgets all."""
        self._places.clear()
        self._taken, self.entered = None, -math.inf

    def __len__(self) -> int:
        return len(self._places)

    def note(self, now: float, pose: PlanarState) -> None:
        """Records the vehicle's pose at a time [s]."""
        places = self._places
        if places and math.hypot(pose.x - places[-1].x, pose.y - places[-1].y) > MAX_JUMP:
            self.clear()
        while places and _along(places[-1], pose) < -SPACING:
            places.pop()
        if not places or _along(places[-1], pose) >= SPACING:
            places.append(_Place(now, pose.x, pose.y, pose.yaw))
        places[-1].time = now
        while places and now - places[0].time > TRAIL_MEMORY:
            places.popleft()

    def enter(self, now: float, obstacles: Obstacles, outline: Footprint) -> None:
        """Forgets the places that something has come to, or may come to soon, and those beyond them; notes when that was.

        An obstacle at a place that the vehicle has passed has come there since, even if it was not detected as moving.
        """
        places = [self._taken, *self._places] if self._taken else list(self._places)
        if not len(obstacles.radii) or not places:
            return
        later = now - obstacles.time + np.linspace(0.0, NEAR_TIME, 5 if obstacles.moving.any() else 1)[:, None, None]
        centres = obstacles.centres + later * obstacles.velocities  # (times, m, 2)
        x, y, yaw = _table(places).T[..., None, None]
        away = outline_distance(outline, centres[..., 0] - x, centres[..., 1] - y, yaw).min(axis=1) - obstacles.radii  # (places, m)
        excess = 0.0 if obstacles.excess is None else obstacles.excess
        came = obstacles.moving | (away[len(places) - len(self._places):] + excess < -INTRUSION_DEPTH).any(axis=0)
        entered = np.flatnonzero((away[:, came] < NEAR_DISTANCE).any(axis=1))
        if len(entered):
            self.entered, self._taken = now, places[int(entered[-1])]
            self._places = deque(places[int(entered[-1]) + 1:], self._places.maxlen)

    def back(self, pose: PlanarState) -> WayBack:
        """Returns the way back: the vehicle's pose, and the places behind it."""
        poses = np.vstack([_table(self._places), [pose.x, pose.y, pose.yaw]])[::-1]
        return WayBack(np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(poses[:, :2], axis=0).T))]), poses)


def _table(places: Iterable[_Place]) -> np.ndarray:
    return np.array([(p.x, p.y, p.yaw) for p in places]).reshape(-1, 3)


def _along(place: _Place, pose: PlanarState) -> float:
    """Returns the distance of a pose ahead of a place, along its heading [m]."""
    return math.cos(place.yaw) * (pose.x - place.x) + math.sin(place.yaw) * (pose.y - place.y)


def free_length(way: WayBack, stops: Stops, time: float, obstacles: Obstacles, pace: float) -> float:
    """Returns the length of a way back that is free of obstacles [m], at `pace` [m/s] from `time` [s] on."""
    if not len(obstacles.radii):
        return float(way.s[-1])
    moving = obstacles.moving
    shortest = float(way.s[-1])
    for part, margin in ((~moving, MARGIN), (moving, MOVING_MARGIN)):
        if not part.any():
            continue
        distance = stops.distances(way.poses, way.s / pace, time, obstacles.where(part))
        # What is nearer already must not come nearer.
        need = np.minimum(margin, np.maximum(distance[0] - 0.02, 0.0))
        met = (distance < need).any(axis=1)
        if met.any():
            shortest = min(shortest, float(way.s[max(int(met.argmax()) - 1, 0)]))
    return shortest


def out_of_sight(centres: np.ndarray, radii: np.ndarray, others: np.ndarray, their_radii: np.ndarray, sight: float) -> np.ndarray:
    """Marks the circles (n,) that are not visible from the origin: farther off than `sight` [m], or behind the middle of another circle."""
    away = np.hypot(*centres.T)
    fronts = centres * np.maximum(1.0 - (radii + SAME_OBSTACLE) / np.maximum(away, 1e-6), 0.0)[:, None]
    return (away - radii > sight) | occluded(fronts, others, their_radii)


def pursue(way: WayBack, pose: PlanarState, rear: float, wheelbase: float) -> float:
    """Returns the angle of the front wheels [rad] with which the rear axle, `rear` [m] behind the position, runs back along a way."""
    x, y, yaw = way.poses.T
    x, y, last = x - rear * np.cos(yaw), y - rear * np.sin(yaw), float(yaw[-1])
    at = (float(np.interp(LOOK_AHEAD, way.s, x)), float(np.interp(LOOK_AHEAD, way.s, y)))
    beyond = max(LOOK_AHEAD - float(way.s[-1]), 0.0)  # straight on where the way ends
    dx = at[0] - beyond * math.cos(last) - (pose.x - rear * math.cos(pose.yaw))
    dy = at[1] - beyond * math.sin(last) - (pose.y - rear * math.sin(pose.yaw))
    aside = math.cos(pose.yaw) * dy - math.sin(pose.yaw) * dx
    return math.atan(wheelbase * 2.0 * aside / max(dx * dx + dy * dy, 0.25))


class _Phase(Enum):
    DRIVING = 0  # not backing
    BACKING = 1
    HALTING = 2  # braking, and looking for a way


@dataclass(frozen=True)
class Move:
    """A command while backing: steering [-1, 1], pedal [-1, 1] (below 0 brake), whether the selector is in reverse, and why."""

    steering: float
    pedal: float
    reverse: bool
    reason: str


class Backing:
    """Decides when to back, how far, and when that is enough. Time comes with each call."""

    def __init__(self, settings: Settings, stops: Stops, rear: float, wheelbase: float, full_lock: float) -> None:
        """Begins without a trail. rear: of the rear axle behind the position [m]; full_lock [rad]."""
        self.trail = Trail()
        self.configure(settings, stops, rear, wheelbase, full_lock)
        self.reset()

    def configure(self, settings: Settings, stops: Stops, rear: float, wheelbase: float, full_lock: float) -> None:
        """Sets other settings or another vehicle; the trail stays."""
        self._settings, self._stops, self._rear, self._wheelbase, self._full_lock = settings, stops, rear, wheelbase, full_lock

    def reset(self) -> None:
        """Forgets the way, and that the vehicle backs."""
        self.trail.clear()
        self._phase = _Phase.DRIVING
        self.begin()

    def begin(self) -> None:
        """Begins a new task: earlier tries do not count. A vehicle that backs stops first."""
        if self._phase is _Phase.BACKING:
            self._phase = _Phase.HALTING
        self._tries, self._nearest, self._returns, self._remaining, self._bout = 0, math.inf, 0, 0.0, BOUT
        self._crept_since, self._stood_since, self._due_since = math.inf, math.inf, math.inf
        self._time, self._press = -math.inf, 0.0
        self._remembered, self._remembered_at = NOTHING, -math.inf
        self.why_not = ""  # why a vehicle before a blocked way does not back; empty: it does, or the way is not blocked

    def explained(self, reason: str) -> str:
        """Returns a reason with that for not backing added."""
        return "; ".join(filter(None, (reason, self.why_not)))

    @property
    def active(self) -> bool:
        """True while the vehicle backs, or has just done so."""
        return self._phase is not _Phase.DRIVING

    def step(self, now: float, pose: PlanarState, blocked: bool, remaining: float, obstacles: Obstacles, steering: float) -> Move | None:
        """Returns the move to make instead of driving on; None: drive on.

        Args:
            blocked: no route is found; remaining: distance to the goal [m]; steering: in force.
        """
        span, self._time = min(max(now - self._time, 0.0), 0.5), now
        self._crept_since = min(self._crept_since, now) if abs(pose.vx) < CREEP_SPEED else math.inf
        self._stood_since = min(self._stood_since, now) if abs(pose.vx) < STANDSTILL_SPEED else math.inf
        slow = self.active or self._crept_since < math.inf  # only then does it count what stands behind
        self.trail.enter(now, obstacles if slow else obstacles.where(obstacles.moving), self._stops.outline)
        if not blocked:
            self.why_not = ""
        if self._phase is _Phase.DRIVING:
            due = blocked and now - self._crept_since >= WAIT_TIME - SETTLE_TIME and self._may(now, pose, remaining, obstacles)
            self._due_since = min(self._due_since, now) if due else math.inf
            if now - self._due_since < SETTLE_TIME:
                return None
            self._phase = _Phase.HALTING
            self._returns += 1
            self._bout = min(BOUT * self._returns, MAX_BOUT)
        if self._phase is _Phase.HALTING and now - self._stood_since >= SETTLE_TIME:
            if not blocked or not self._may(now, pose, remaining, obstacles):
                self._phase = _Phase.DRIVING
                return None
            self._phase, self._press, self._remaining, self._bout = _Phase.BACKING, 0.0, self._bout, BOUT
            self._tries += 1
            self._remembered, self._remembered_at = self.recall(now, pose, obstacles.where(~obstacles.moving)), now
        if self._phase is _Phase.BACKING:
            self._remaining -= max(-pose.vx, 0.0) * span
            return self._goes_on(now, pose, obstacles, steering, span)
        return self._halt(steering, "stopping to look for a way")

    def _may(self, now: float, pose: PlanarState, remaining: float, obstacles: Obstacles) -> bool:
        """Checks that the vehicle may back from its present place; if not, `why_not` has the reason."""
        if self._settings.reverse_speed <= 0.0:
            return False
        if remaining < self._nearest - MIN_GAIN:
            self._nearest, self._tries, self._returns, self._remembered = remaining, 0, 0, NOTHING
        if self._tries >= MAX_TRIES:
            self.why_not = NO_GAIN
            return False
        if self._free(now, pose, obstacles)[1] < (BOUT if now - self.trail.entered < CALM_TIME else MIN_BACKING):
            self.why_not = NO_ROOM
            return False
        self.why_not = ""
        return True

    def recall(self, now: float, pose: PlanarState, obstacles: Obstacles) -> Obstacles:
        """Adds to the obstacles those seen before a blocked route that are out of sight now: a dead end is not tried twice."""
        known = self._remembered
        if not len(known.radii) or now - self._remembered_at > RECALL_TIME:
            return obstacles
        eye = np.array([pose.x, pose.y])
        out = out_of_sight(known.centres - eye, known.radii, obstacles.centres - eye, obstacles.radii, self._settings.sight)
        return Obstacles(np.concatenate([obstacles.centres, known.centres[out]]), np.concatenate([obstacles.radii, known.radii[out]]),
                         np.concatenate([obstacles.velocities, known.velocities[out]]), obstacles.time if len(obstacles.radii) else now)

    def _free(self, now: float, pose: PlanarState, obstacles: Obstacles) -> tuple[WayBack, float]:
        way = self.trail.back(pose)
        if len(way.s) > 1:
            x, y, yaw = way.poses[1].tolist()
            aside = math.cos(yaw) * (pose.y - y) - math.sin(yaw) * (pose.x - x)
            if abs(aside) > MAX_TRAIL_ERROR[0] or abs(math.remainder(pose.yaw - yaw, 2.0 * math.pi)) > MAX_TRAIL_ERROR[1]:
                return way, 0.0
        return way, free_length(way, self._stops, now, obstacles, self._settings.reverse_speed) - END_CLEARANCE

    def _goes_on(self, now: float, pose: PlanarState, obstacles: Obstacles, steering: float, span: float) -> Move:
        way, free = self._free(now, pose, obstacles)
        left = min(self._remaining, free)
        if left <= 0.0 or pose.vx > STANDSTILL_SPEED:
            self._phase = _Phase.HALTING
            return self._halt(steering, "stopping: behind it is not free" if free <= 0.0 else "stopping to look for a way")
        missing = min(self._settings.reverse_speed, math.sqrt(2.0 * BACKING_DECELERATION * left) + STANDSTILL_SPEED) + pose.vx
        bounded = max(min(missing, MAX_SPEED_ERROR), -MAX_SPEED_ERROR)
        self._press = min(max(self._press + INTEGRAL_GAIN * bounded * span, 0.0), MAX_INTEGRAL_PEDAL)
        road = pursue(way, pose, self._rear, self._wheelbase)
        return Move(min(max(road / self._full_lock, -1.0), 1.0), PROPORTIONAL_GAIN * missing + self._press, True,
                    self._reason(f"{left:.1f} m to go"))

    def _halt(self, steering: float, what: str) -> Move:
        return Move(steering, -self._settings.stop_brake, True, self._reason(what))

    def _reason(self, what: str) -> str:
        return f"the way is blocked, try {max(self._tries, 1)} of {MAX_TRIES}: {what}"
