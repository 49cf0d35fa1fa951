"""Paths with changes of direction, at walking pace, for a vehicle at standstill whose route is blocked or whose plan does not progress.

A search (`reverse_search`) on the map of observed places (`visibility_map`) returns legs forwards and in reverse; in reverse the vehicle
uses only places observed to be free. Each cycle checks the present leg, with the predicted positions of moving obstacles; where it is not
free, the vehicle stops and searches again. The plan takes over as soon as the lattice finds the same path from a forward leg; later, if
that has led back to the same place before.

Steering is the curvature of the leg at a preview, with feedback of the rear axle's lateral and heading error (Samson 1992, "Path
following and time-varying feedback stabilization of a wheeled mobile robot").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from lfdm_ros.control.prediction import PlanarState
from lfdm_ros.control.routing.reverse_search import APPROACH, NEAR_START, Leg, Outcome, ReverseSearch
from lfdm_ros.control.routing.routes import Route
from lfdm_ros.control.routing.visibility_map import RECALL_TIME, VisibilityMap
from lfdm_ros.control.safety.stops import Stops
from lfdm_ros.control.settings import Settings
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation import Goal
from lfdm_ros.simulation.path import STEP, Path

# Lengths, speeds and their gains are those of a full-size vehicle; they are in proportion for a smaller one (`Footprint.scale`).
# Shares of stop_margin: clearance of a path from stationary obstacles, reduced if there is none, and clearance required on it, for noise of
# the circles and tracking error.
MARGINS, STOP_SHARE = (2.5, 1.4, 0.7), 0.5
NARROW_PACE = 0.5  # share of the speed on paths of the smallest clearance
MOVING_MARGIN = 0.6  # [m] to moving obstacles
CREEP_SPEED, STANDSTILL_SPEED = 0.4, 0.1  # [m/s] below which the vehicle is about to stop, and stands
WAIT_TIME = 1.0  # [s] of creeping or standing at a blocked place until the search
STUCK_TIME = 3.0  # [s] of standing by its own plan on a free route until the search: an operator may hold it
STANDING_PEDAL = 0.05  # below it, beside that against the rolling resistance, counts as no throttle
VIEW_AGE = 1.0  # [s] largest age of the map's last update
SETTLE_TIME = 0.5  # [s] for which a route must be found, or missing, before it counts
MIN_CALM = 4.0  # [m] of a reverse leg, or all of it, without recent motion, required to start
QUIET_DISTANCE = 20.0  # [m] within which motion means that the vehicle is waiting, not stuck
RETRY_TIME = 10.0  # [s] after a search without success
FIRST_LENGTH = 4.0  # [m] driven on the last leg before the plan takes over; more after each return
SAME_PATH = 2.0, 0.5  # of the vehicle's length: compared distance ahead, and largest distance between equal paths
STUCK_LENGTHS = 2.0  # of the vehicle's length: radius of a place where the plan got stuck
MIN_GAIN = 2.0  # [m] smallest new progress towards the goal
MAX_TRIES = 40  # searches in a row without gain
FORWARD_SPEED = 2.0  # [m/s]
DECELERATION = 0.5  # [m/s^2] towards the end of a leg
END_CLEARANCE = 0.2  # [m] distance of a stop before the end of the free length
SET_OUT = 0.3  # [m] of a leg within which the vehicle may start
LEG_END = 0.1  # [m] before its end at which a leg is done
LOOK_AHEAD = 0.5  # of the wheelbase: decay length of the tracking error
STEERING_TIME = 0.35  # [s] preview of the curvature
CHECKED_LENGTHS = 2.0  # of the vehicle's length: checked part of a leg in each cycle
SLOWING_LENGTHS = 0.4  # of the vehicle's length: part of a leg where little clearance reduces the speed
NEAR_LENGTHS = 0.5  # of the vehicle's length: part of a leg searched for its position
MAX_ERROR = 0.6, 0.35  # [m], [rad] largest error from the leg, else a new search
STEERING_TOLERANCE = 0.08  # of full lock: largest steering error at the start of a leg
PASSING_TIME = 0.15  # [s] in which the speed may use up the spare clearance
TURNING, MIN_PACE = 3.0, 0.3  # speed reduction per full lock of remaining steering error; smallest speed [m/s]
STATES = 600  # expanded by the search in a cycle
# PI speed control: gains on the pedal [s/m], [1/m], largest integral part, largest speed error [m/s].
# They hold for vehicles that accelerate with FULL_PULL [m/s^2] or more from a stand; the pedal grows in proportion for weaker ones.
PROPORTIONAL_GAIN, INTEGRAL_GAIN, MAX_INTEGRAL_PEDAL, MAX_SPEED_ERROR = 0.12, 0.06, 0.3, 0.4
FULL_PULL = 3.0
USUAL_HOLD = 0.1  # most throttle against the rolling resistance that the integral part finds; more is commanded at once
NO_PATH = "no path to the goal is free on the map of observed places"
NOT_FOUND = "no way with changes of direction was found"
NO_ROOM = "no way is open but in reverse, where nothing was seen"
NO_GAIN = f"{MAX_TRIES} ways have not led nearer"


def free_length(leg: Leg, stops: Stops, time: float, obstacles: Obstacles, pace: float, rooms: np.ndarray) -> float:
    """Returns the length of a leg that is free of obstacles [m], at `pace` [m/s] from `time` [s] on, with clearances `rooms` (n,) [m] from
    stationary obstacles at its places."""
    shortest, moving = float(leg.s[-1]), obstacles.moving
    for part in (~moving, moving):
        if not part.any():
            continue
        distance = stops.distances(leg.poses, leg.s / pace, time, obstacles.where(part))
        # A moving obstacle that is nearer already must not come nearer.
        need = np.minimum(stops.outline.scale * MOVING_MARGIN, np.maximum(distance[0], 0.0)) if part is moving else rooms[:, None]
        met = (distance < need).any(axis=1)
        if met.any():
            shortest = min(shortest, float(leg.s[max(int(met.argmax()) - 1, 0)]))
    return shortest


def path_of(legs: list[Leg], step: float) -> Path:
    """Returns all legs in sequence as a path with points at most `step` [m] apart."""
    x, y, yaw = np.concatenate([leg.poses for leg in legs]).T
    return Path.resampled(x, y, yaw, np.zeros(len(x)), step)


@dataclass(frozen=True)
class SteeredAxles:
    """Steering geometry and traction: distance of the rear axle behind the position, wheelbase [m], full lock [rad], the acceleration at
    full throttle from a stand, and the deceleration by rolling resistance [m/s^2]."""

    rear: float
    wheelbase: float
    full_lock: float
    pull: float = FULL_PULL
    drag: float = 0.0

    @property
    def hold(self) -> float:
        """Throttle against the rolling resistance, 0 where it is small."""
        share = self.drag / self.pull
        return share if share > USUAL_HOLD else 0.0

    def follow(self, leg: Leg, pose: PlanarState) -> float:
        """Returns the steering [-1, 1] with which the rear axle follows a leg; its first pose is the vehicle's."""
        sign, (x, y, yaw) = -1.0 if leg.reverse else 1.0, leg.poses.T
        if len(x) < 3:
            return 0.0
        x, y = x - self.rear * np.cos(yaw), y - self.rear * np.sin(yaw)
        # The leg proper starts at its second place: the error refers to its line there, the curvature to the preview.
        c, t = math.cos(yaw[1]), math.sin(yaw[1])
        bends = sign * np.diff(yaw[1:]) / np.maximum(np.diff(leg.s[1:]), 1e-6)
        ahead = abs(pose.vx) * STEERING_TIME
        bend = float(bends[min(int(np.searchsorted(leg.s[2:], ahead)), len(bends) - 1)])
        along = c * (x[0] - x[1]) + t * (y[0] - y[1])
        here = float(yaw[1]) + bends[0] * along  # direction of the line beside the vehicle
        aside = c * (y[0] - y[1]) - t * (x[0] - x[1]) - 0.5 * bends[0] * along**2
        turned = math.remainder(pose.yaw - here, 2.0 * math.pi)
        unit = LOOK_AHEAD * self.wheelbase
        angle = math.atan(self.wheelbase * (bend - aside / unit**2 - 2.0 * sign * math.sin(turned) / unit))
        return min(max(angle / self.full_lock, -1.0), 1.0)


class _Phase(Enum):
    DRIVING = 0  # by the plan
    SEARCHING = 1
    MOVING = 2


@dataclass(frozen=True)
class Move:
    """Command of a manoeuvre: steering [-1, 1], pedal [-1, 1] (below 0 brake), reverse selector, and the reason."""

    steering: float
    pedal: float
    reverse: bool
    reason: str


class Manoeuvring:
    """Manoeuvres in place of the plan: their start, driving and end. Without a clock: each call passes the time."""

    def __init__(self, settings: Settings, stops: Stops, axles: SteeredAxles) -> None:
        """Begins with an empty map."""
        self.map = VisibilityMap(stops.outline, 1.0)
        self.configure(settings, stops, axles)
        self.reset()

    def configure(self, settings: Settings, stops: Stops, axles: SteeredAxles) -> None:
        """Sets settings and vehicle; the map stays."""
        self._settings, self._stops, self._axles, self._scale = settings, stops, axles, stops.outline.scale
        self._search = ReverseSearch(stops.outline, axles.rear, math.tan(axles.full_lock) / axles.wheelbase)
        self.map.configure(stops.outline, 2.0 * self._search.cell)

    def reset(self) -> None:
        """Clears the map and any manoeuvre."""
        self.map.clear()
        self._phase, self._reverse = _Phase.DRIVING, False
        self.begin()

    def begin(self) -> None:
        """Begins a new task: clears earlier attempts. A vehicle in a manoeuvre stops first."""
        if self._phase is _Phase.MOVING:
            self._phase = _Phase.SEARCHING
        self._legs: list[Leg] = []
        self._path: Path | None = None
        self._tries, self._nearest, self._returns = 0, math.inf, 0
        self._driven, self._least_length = 0.0, 0.0
        self.drive_on()
        self._open_since = math.inf
        self._time, self._press, self._failed, self._recalls_until = -math.inf, 0.0, -math.inf, -math.inf
        self._start_room = math.inf  # clearance at the start of the leg [m]
        self._begun, self._level = False, 0  # a search, and its place in MARGINS
        self.why_not = ""  # why a blocked vehicle does not manoeuvre; empty: it searches, or is not blocked

    def drive_on(self) -> None:
        """Records that the vehicle can drive on by its plan."""
        self._crept_since, self._stood_since, self._due_since, self._planned_stand = math.inf, math.inf, math.inf, math.inf

    def explained(self, reason: str) -> str:
        """Returns a reason with the cause of the standstill appended."""
        return "; ".join(filter(None, (reason, self.why_not)))

    @property
    def active(self) -> bool:
        """True while the vehicle searches or drives a manoeuvre."""
        return self._phase is not _Phase.DRIVING

    @property
    def needs_route(self) -> bool:
        """True where the lattice's route may be used: by the plan, or on the last forward leg of a manoeuvre."""
        return self._phase is not _Phase.MOVING or not any(leg.reverse for leg in self._legs)

    @property
    def path(self) -> Path | None:
        """Present manoeuvre with all its legs, for display; yaw is the vehicle's; None: there is none."""
        return self._path if self._phase is _Phase.MOVING else None

    def recall(self, now: float, obstacles: Obstacles) -> Obstacles:
        """Adds remembered obstacles that are out of sight after a blockage, so that a dead end is not tried twice."""
        return self.map.recall(now, obstacles) if now < self._recalls_until else obstacles

    def step(self, now: float, pose: PlanarState, goal: Goal, route: Route, obstacles: Obstacles,
             command: tuple[float, float]) -> Move | None:
        """Returns the move to make instead of the plan's; None: drive by the plan.

        Args:
            route: the lattice's, as long as `needs_route`; obstacles: now; command: the last steering and pedal.
        """
        (steering, pedal), blocked = command, route.blocked
        span, self._time = min(max(now - self._time, 0.0), 0.5), now
        self._crept_since = min(self._crept_since, now) if abs(pose.vx) < self._scale * CREEP_SPEED else math.inf
        self._stood_since = min(self._stood_since, now) if abs(pose.vx) < self._scale * STANDSTILL_SPEED else math.inf
        stands = self._stood_since < math.inf and pedal < STANDING_PEDAL + self._axles.hold
        self._planned_stand = min(self._planned_stand, now) if stands else math.inf
        self._open_since = math.inf if blocked or not self.needs_route else min(self._open_since, now)
        if self._settings.reverse_speed <= 0.0:
            self._phase = _Phase.DRIVING
        if self._phase is _Phase.DRIVING:
            if not self._is_due(now, pose, goal, blocked, obstacles):
                return None
            self._phase, self._begun, self._level, self._driven, self._reverse = _Phase.SEARCHING, False, 0, 0.0, False
            self._returns += 1
            self._least_length = self._scale * FIRST_LENGTH * self._returns
            if not blocked:
                self._least_length = max(self._least_length, STUCK_LENGTHS * self._search.length)
        if self._phase is _Phase.MOVING:
            self._driven += max(pose.vx, 0.0) * span if self.needs_route else 0.0
            if self._may_return(now, pose, route):
                self._phase, self._legs = _Phase.DRIVING, []
                return None
            return self._drive(now, pose, obstacles, steering, span)
        return self._search_path(now, pose, goal, obstacles, steering)

    def _is_due(self, now: float, pose: PlanarState, goal: Goal, blocked: bool, obstacles: Obstacles) -> bool:
        """Checks that the vehicle needs a path with changes of direction."""
        if not blocked:
            self.why_not = ""
        # Without a recent view of its surroundings the vehicle does not move.
        if self._settings.reverse_speed <= 0.0 or now - self._failed < RETRY_TIME or not self._sees(now):
            return False
        near = np.hypot(*(obstacles.centres - [pose.x, pose.y]).T) < self._scale * QUIET_DISTANCE
        stuck = now - self._planned_stand >= STUCK_TIME and not (near & obstacles.moving).any()
        due = stuck or (blocked and now - self._crept_since >= WAIT_TIME - SETTLE_TIME)
        self._due_since = min(self._due_since, now) if due else math.inf
        if now - self._due_since < SETTLE_TIME:
            return False
        remaining = math.hypot(goal.x - pose.x, goal.y - pose.y)
        if remaining < self._nearest - self._scale * MIN_GAIN:
            self._nearest, self._tries, self._returns = remaining, 0, 0
        if self._tries >= MAX_TRIES:
            self.why_not = NO_GAIN
            return False
        return True

    def _sees(self, now: float) -> bool:
        return now - self.map.looked < VIEW_AGE

    def _may_return(self, now: float, pose: PlanarState, route: Route) -> bool:
        """Checks that the plan can take over: on a last, forward leg, with a free lattice route along it; another route may lead back
        to where the vehicle comes from."""
        if now - self._open_since < SETTLE_TIME or self._driven < self._least_length:
            return False
        leg = self._remaining_leg(pose)[0]
        ahead = min(SAME_PATH[0] * self._search.length, float(leg.s[-1]))
        (x,), (y,), *_ = route.path.at(np.array([ahead]))
        apart = math.hypot(x - float(np.interp(ahead, leg.s, leg.poses[:, 0])), y - float(np.interp(ahead, leg.s, leg.poses[:, 1])))
        return apart < SAME_PATH[1] * self._search.length

    def _search_path(self, now: float, pose: PlanarState, goal: Goal, obstacles: Obstacles, steering: float) -> Move | None:
        """Searches at standstill; then begins the first leg."""
        if now - self._stood_since < SETTLE_TIME or not self._sees(now):
            return self._halt(steering, "stopping to search for a path")
        if not self._begun and self._tries >= MAX_TRIES:
            self._phase, self.why_not = _Phase.DRIVING, NO_GAIN
            return None
        if not self._begun:
            self._tries += not self._level
            self._recalls_until = now + RECALL_TIME
            observed = self.map.places(now) | self._settings.reverse_unseen
            remembered = self.map.recall(now, obstacles)
            remembered = remembered.where(~remembered.moving)
            self._search.begin((pose.x, pose.y, pose.yaw), (goal.x, goal.y), goal.tolerance,
                               np.column_stack([remembered.centres, remembered.radii]), MARGINS[self._level] * self._settings.stop_margin,
                               observed.repeat(2, axis=0).repeat(2, axis=1), self.map.corner)
            self._begun = True
            return self._halt(steering, "searching for a path")
        outcome = self._search.advance(STATES)
        if outcome is Outcome.SEARCHING:
            return self._halt(steering, "searching for a path")
        self._begun = False
        if outcome is not Outcome.FOUND and self._level < len(MARGINS) - 1:
            self._level += 1
            return self._halt(steering, "searching for a narrower path")
        self._legs = self._search.legs() if outcome is Outcome.FOUND else []
        if not self._legs:
            self._phase, self._failed = _Phase.DRIVING, now
            self.why_not = NO_ROOM if self._search.ends_unseen else NO_PATH if outcome is Outcome.CLOSED else NOT_FOUND
            return None
        self._phase, self._press, self.why_not, self._path = _Phase.MOVING, 0.0, "", path_of(self._legs, self._scale * STEP)
        return self._halt(steering, "setting out")

    def _remaining_leg(self, pose: PlanarState) -> tuple[Leg, float, float]:
        """Drops the driven part of the leg; returns the remaining part from the vehicle on, and the vehicle's distance and heading error
        from it [m], [rad]."""
        leg, rear, sign = self._legs[0], self._axles.rear, -1.0 if self._legs[0].reverse else 1.0
        yaw = leg.poses[:, 2]
        x, y = leg.poses[:, 0] - rear * np.cos(yaw), leg.poses[:, 1] - rear * np.sin(yaw)
        px, py = pose.x - rear * math.cos(pose.yaw), pose.y - rear * math.sin(pose.yaw)
        near = leg.s - leg.s[0] < NEAR_LENGTHS * self._search.length
        k = int(np.argmin(np.where(near, np.hypot(px - x, py - y), math.inf)))
        c, t = math.cos(yaw[k]), math.sin(yaw[k])
        along, aside = sign * (c * (px - x[k]) + t * (py - y[k])), c * (py - y[k]) - t * (px - x[k])
        self._legs[0] = leg = Leg(leg.poses[k:], leg.s[k:], leg.reverse)
        passed = int(along >= 0.0)
        poses = np.vstack([[pose.x, pose.y, pose.yaw], leg.poses[passed:]])
        s = np.concatenate([[0.0], np.maximum(leg.s - leg.s[0] - along, 0.0)[passed:]])
        turned = abs(math.remainder(pose.yaw - float(yaw[k]), 2.0 * math.pi))
        return Leg(poses, np.maximum.accumulate(s), leg.reverse), abs(float(aside)), turned

    def _drive(self, now: float, pose: PlanarState, obstacles: Obstacles, steering: float, span: float) -> Move:
        leg, aside, turned = self._remaining_leg(pose)
        scale = self._scale
        if float(leg.s[-1]) < scale * LEG_END:
            if now - self._stood_since < SETTLE_TIME:
                return self._halt(steering, "changing direction")
            self._legs.pop(0)
            self._press = 0.0
            if not self._legs:
                return self._anew(steering, "stopping to search for a path")
            leg, aside, turned = self._remaining_leg(pose)
        if aside > scale * MAX_ERROR[0] or turned > MAX_ERROR[1]:
            return self._anew(steering, "it is off its path")
        if not self._sees(now):
            return self._halt(steering, "nothing is seen")
        s = self._settings
        pace = (s.reverse_speed if leg.reverse else scale * FORWARD_SPEED) * (NARROW_PACE if self._level == len(MARGINS) - 1 else 1.0)
        checked = leg.s <= CHECKED_LENGTHS * self._search.length
        near = Leg(leg.poses[checked], leg.s[checked], leg.reverse)
        remembered, driven = self.map.recall(now, obstacles), float(self._legs[0].s[0])
        standing = abs(pose.vx) < scale * STANDSTILL_SPEED
        next_poses = near.poses[near.s <= SLOWING_LENGTHS * self._search.length]
        standing_obstacles = remembered.where(~remembered.moving)
        rooms = self._stops.distances(next_poses, np.zeros(len(next_poses)), now, standing_obstacles).min(axis=1, initial=math.inf)
        if standing and driven < scale * SET_OUT:
            self._start_room = float(rooms[0]) - scale * APPROACH
        # Near its start the leg may be as close to obstacles as the vehicle is there.
        room, begins = STOP_SHARE * s.stop_margin, driven + near.s < NEAR_START * self._search.length
        free = free_length(near, self._stops, now, remembered, pace, np.where(begins, min(room, self._start_room), room))
        if free < near.s[-1]:
            free -= scale * END_CLEARANCE
            if free <= 0.0:
                if now - self._stood_since >= WAIT_TIME:
                    return self._anew(steering, "the path is not free")
                return self._halt(steering, "the path is not free")
        sign = -1.0 if leg.reverse else 1.0
        speed = sign * pose.vx
        road = self._axles.follow(leg, pose)
        if speed < -scale * STANDSTILL_SPEED:
            return self._halt(steering, "changing direction")
        if leg.reverse:
            calm = self._calm_length(now, leg)
            if calm < leg.s[-1] and calm < scale * (MIN_CALM if standing else END_CLEARANCE):
                return self._halt(steering, "something moves behind it")
            free = min(free, calm)
        if standing and abs(road - steering) > STEERING_TOLERANCE:
            return Move(road, -s.stop_brake, leg.reverse, self._reason("turning the wheels"))
        # Slow down until the steering is in position.
        pace = max(pace * (1.0 - TURNING * abs(road - steering)), scale * MIN_PACE)
        pace = min(pace, max(scale * MIN_PACE, (float(rooms.min()) - room) / PASSING_TIME))
        missing = (min(pace, math.sqrt(2.0 * DECELERATION * free) + scale * STANDSTILL_SPEED) - speed) / scale
        bounded = max(min(missing, MAX_SPEED_ERROR), -MAX_SPEED_ERROR)
        self._press = min(max(self._press + INTEGRAL_GAIN * bounded * span, 0.0), MAX_INTEGRAL_PEDAL)
        self._reverse = leg.reverse
        more = max(1.0, FULL_PULL / self._axles.pull)
        return Move(road, more * (PROPORTIONAL_GAIN * missing + self._press) + self._axles.hold, leg.reverse,
                    self._reason(f"{'back' if leg.reverse else 'on'} {float(leg.s[-1]):.1f} m, {len(self._legs) - 1} more"))

    def _calm_length(self, now: float, leg: Leg) -> float:
        """Returns the length of a reverse leg [m] up to present or recent motion at the vehicle's rear end."""
        o = self._stops.outline
        x, y, yaw = leg.poses.T
        calm = np.ones(len(x), bool)
        for side in (-o.half_width, 0.0, o.half_width):
            calm &= self.map.is_calm(now, np.column_stack([x - o.rear * np.cos(yaw) - side * np.sin(yaw),
                                                           y - o.rear * np.sin(yaw) + side * np.cos(yaw)]))
        return float(leg.s[-1] if calm.all() else leg.s[max(int(calm.argmin()) - 1, 0)])

    def _anew(self, steering: float, reason: str) -> Move:
        self._phase, self._begun, self._level, self._legs = _Phase.SEARCHING, False, 0, []
        return self._halt(steering, reason)

    def _halt(self, steering: float, reason: str) -> Move:
        return Move(steering, -self._settings.stop_brake, self._reverse, self._reason(reason))

    def _reason(self, text: str) -> str:
        return f"the path is blocked, try {max(self._tries, 1)} of {MAX_TRIES}: {text}"

