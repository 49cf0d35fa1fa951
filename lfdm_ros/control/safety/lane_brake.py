"""Emergency braking in the lane for moving obstacles: the last stop of a vehicle that follows a path, verified against predicted motion.

Moving obstacles (and suspected ones) are assumed to keep their velocity or to brake to standstill at any time, slow ones to halt at once;
new ones get a larger margin. A plan is driven as long as a period of it leaves a stop in the lane that is free of all of them, or it passes
them within the lane; before the last such stop is lost, the vehicle brakes like an emergency brake, and it does not leave the lane if
braking in it suffices. This is the recursion of `lfdm_ros.control.safety.stops` with the lane as curve and the full friction in place of a
comfortable deceleration; the positions of possible halts are reachable sets (Althoff & Dolan 2014, "Online verification of automated road
vehicles using reachability analysis").
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from lfdm_ros.control.plan import Plan
from lfdm_ros.control.safety.braking import APPROACH_TOLERANCE, SPACING
from lfdm_ros.control.safety.stops import NOMINAL, SHIFT_TIME_AND_LENGTH, Curve, Stop, Stops
from lfdm_ros.control.settings import Settings
from lfdm_ros.numerics import arc
from lfdm_ros.perception.obstacles import Obstacles

IN_LANE = "braking in the lane before something that moves"
LEAVING_LANE = "braking in the lane: the plan leaves it before something that stands there"
BESIDE = "no stop in the lane: stopping beside the way of something that moves"
# Speed up to which obstacles may halt at any time, and minimum speed that counts while there is time [m/s]. Faster obstacles must not hit
# the standing vehicle within STANDING_TIME, oncoming ones (by the share of their speed) within ONCOMING_TIME [s].
HALTING_SPEED, STILL_SPEED, STANDING_TIME, ONCOMING_TIME, ONCOMING_SHARE, STANDING_STEP = 3.0, 0.3, 4.0, 9.0, -0.95, 0.2
# Assumed deceleration of moving obstacles [m/s^2], and times of its begin [s].
HALTING, HALTING_BEGINS = 6.0, np.arange(0.0, 2.6, 0.3)
# [m] additional margin to small obstacles whose motion is not known yet.
NEW_ROOM = 0.3
NEAR_TIME, NEAR = 1.5, 8.0  # [s] times the speed, and [m]: distance beyond which suspected motion can wait for another scan
# Additional margin of a stop that need not begin now [m]; distance of a plan that passes moving obstacles [m], and time for which it is
# extrapolated beyond its end [s].
RESERVE, PASSING_MARGIN, GOING_ON = 0.3, 0.5, 4.0
# Additional excursion of the front by which a plan leaves the lane [m]; time ahead that counts [s].
LEAVING, LEAVING_TIME = 0.15, 2.5
# [m] to the left of the lane's middle: places to evade to, and smallest shift.
PLACES, LEAST_SHIFT = (-3.5, -3.0, -2.5, -2.0, -1.5, -1.0, 0.0, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5), 0.3
# Time for which a stop at the original place must be free until the vehicle gives up its evasion [s].
GOING_BACK = 0.5
# Shares of an oncoming obstacle's motion across the lane that it may keep, and smallest such motion [m/s]; share of an evasion's braking on
# the way back before it.
STRAIGHTENING, LEAST_ACROSS, RETURNING = np.array([[0.0], [1.0 / 3.0], [2.0 / 3.0]]), 0.5, 1.0 / 3.0
# Stop in the lane: deceleration for the length of its curve [m/s^2], additional length [m]; distance from the edges [m].
MIN_FULL_BRAKING, LANE_MORE, LANE_EDGE = 2.0, 15.0, 0.05


class DrivenLane(Protocol):
    """A path with a corridor: `lfdm_ros.control.routing.routes.Reference` is one. margin: to keep from obstacles [m], None without a
    corridor."""

    @property
    def path(self) -> Any: ...
    @property
    def margin(self) -> float | None: ...
    def room_at(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


@dataclass(frozen=True, eq=False)
class LaneStop:
    """Stop in the lane: reason, steering and pedal, curve, and largest deceleration [m/s^2]."""

    reason: str
    command: tuple[float, float]
    curve: Curve
    max_braking: float


@dataclass(frozen=True, eq=False)
class _Moment:
    """Inputs of a decision: state (nx,) at the time `ahead` [s], steering and pedal in force, predicted obstacles, margin [m]."""

    x: np.ndarray
    in_force: tuple[float, float]
    ahead: float
    obstacles: Obstacles
    margin: float


@dataclass(frozen=True, eq=False)
class _Place:
    """Place of an evasion: the curve to it, the vehicle's original offset [m] to the left of the lane's middle, share of its braking, and
    the time since which a stop has been free at the original offset [s]."""

    evasion: Curve
    before: float
    share: float = 1.0
    free_since: float = math.inf


@dataclass(frozen=True, eq=False)
class _Evading:
    """Circumstances of an evasion: inputs, with oncoming traffic that may straighten (`comes_over`: there is some); the vehicle's curve
    along the lane, its offset from the lane's middle to the left and the room to its sides [m]; `back`, to its original offset, to the
    left [m]; whether traffic is oncoming; length of the way to a place beside the curve [m], and deceleration to stop there [m/s^2]."""

    now: _Moment
    curve: Curve
    lane: DrivenLane
    from_middle: float
    room: tuple[float, float]
    back: float
    oncoming: bool
    comes_over: bool
    length: float
    braking: float

    def shifted(self, side: float) -> Curve:
        """Returns the way to a place `side` [m] to the left of the curve."""
        return self.curve.shifted(side, 0.0, self.length)


class LaneBrake:
    """Emergency brake in the lane. Stores the chosen place of an evasion."""

    def __init__(self, settings: Settings, stops: Stops, place: Mapping[str, int]):
        """Makes an inactive brake. place: index of the prediction model's states by name."""
        self._settings, self._stops, self._vx = settings, stops, place["vx"]
        self._at = [place[name] for name in ("x", "y", "yaw")]
        self.forget()

    def forget(self) -> None:
        """Clears the place of an evasion."""
        self._place: _Place | None = None

    def concerns(self, obstacles: Obstacles, x: np.ndarray) -> bool:
        """Checks for moving or near suspected obstacles; clears the place of an evasion if there are none."""
        may = obstacles.may_move | obstacles.tentative
        away = np.hypot(*(obstacles.centres[may] - x[self._at[:2]]).T)
        concerns = bool(obstacles.moving.any() or away.min(initial=math.inf) < NEAR_TIME * float(x[self._vx]) + NEAR)
        if not concerns:
            self.forget()
        return concerns

    def leaves(self, plan: Plan, ahead: float, x: np.ndarray, obstacles: Obstacles, lane: DrivenLane) -> bool:
        """Checks that a plan leaves the lane, with an obstacle in the lane within the stopping distance."""
        if not len(obstacles.radii) or self._excursion(lane, plan, ahead) <= LEAVING:
            return False
        curve, outline = self._in_lane(lane, x)[0], self._stops.outline
        away = np.hypot(curve.x[:, None] - obstacles.centres[:, 0], curve.y[:, None] - obstacles.centres[:, 1]) - obstacles.radii
        return bool((away < outline.half_width).any())

    def decide(self, plan: Plan, command: tuple[float, float], in_force: tuple[float, float], ahead: float, x: np.ndarray,
               obstacles: Obstacles, lane: DrivenLane, margin: float) -> LaneStop | None:
        """Returns the braking that is due, or None.

        It is due where a period of the plan leaves no free stop in the lane, unless the plan passes moving obstacles within the lane, and
        where the plan leaves the lane although there is such a stop. Without one, the vehicle evades oncoming obstacles and stops, if the
        corridor has room for it. Arguments as in `Guard.decide`; margin: to keep [m].
        """
        curve, from_middle, room = self._in_lane(lane, x)
        if self._place is not None and abs(from_middle) < abs(self._place.before):  # an evasion to the lane's middle, or across it
            self._place = replace(self._place, before=from_middle)
        unbraked = _Moment(x, in_force, ahead, obstacles.hypotheses(HALTING_SPEED, NEW_ROOM), margin)
        may = unbraked.obstacles.halting(self._meets(curve, unbraked.obstacles, margin), HALTING_BEGINS, HALTING)
        now = replace(unbraked, obstacles=may)
        evading = self._evading(unbraked, curve, lane, from_middle, room)
        if evading.comes_over:
            now = replace(now, obstacles=self._straightening(may, lane, -evading.back))
        moving = may.where(may.moving | (np.arange(len(may.radii)) >= len(obstacles.radii)))  # or has just moved
        gently = self._settings.sight_braking
        # With less than full braking and a larger margin, so as not to wait for the last moment.
        after = self._stop(now, curve, command, RESERVE, gently, STILL_SPEED)
        if self._place is not None:
            there = self._stop(replace(now, obstacles=moving), evading.shifted(evading.back), None, RESERVE, gently, STILL_SPEED,
                               evading.length)
            kept = self._keep(evading, there.free, after.free and not obstacles.moving.any())
            if kept is not None:
                return kept
        place = self._place
        leaves = self._excursion(lane, plan, ahead) > LEAVING
        if place is None and not (obstacles.may_move | obstacles.tentative).any():
            stands = leaves and self._stop(now, curve).free
            return self._along(LEAVING_LANE, curve, x, gently if after.free else math.inf) if stands else None
        if not leaves and ((after.free and place is None) or self._passes(plan, ahead, moving)):
            return None
        at_once = self._stop(now, curve)
        if at_once.free:
            return self._along(IN_LANE, curve, x, gently if after.free else math.inf)
        # Too near to an obstacle that may halt: gain distance by braking, not by evasion.
        if place is None and self._stop(unbraked, curve).free:
            return self._along(IN_LANE, curve, x)
        beside = self._evade(evading)
        if beside is not None:
            return beside
        return self._along(IN_LANE, curve, x) if at_once.speed < after.speed else None

    def _evading(self, moment: _Moment, curve: Curve, lane: DrivenLane, from_middle: float, room: tuple[float, float]) -> _Evading:
        """Returns the circumstances of an evasion from the vehicle's curve along the lane; `from_middle`, `room` as of `_in_lane`."""
        back = 0.0 if self._place is None else self._place.before - from_middle
        obstacles, heading, speed = moment.obstacles, float(moment.x[self._at[2]]), float(moment.x[self._vx])
        length = max(SHIFT_TIME_AND_LENGTH[0] * speed, SHIFT_TIME_AND_LENGTH[1])
        # Oncoming traffic that has come to the vehicle's side, too, may drive along the lane there.
        straightening = self._straightening(obstacles, lane, -back)
        oncoming = bool((obstacles.velocities @ [math.cos(heading), math.sin(heading)] < -HALTING_SPEED).any())
        return _Evading(replace(moment, obstacles=straightening), curve, lane, from_middle, room, back, oncoming,
                        len(straightening.radii) > len(obstacles.radii), length, speed**2 / (2.0 * length))

    def _keep(self, evading: _Evading, free: bool, over: bool) -> LaneStop | None:
        """Returns the evasion in force while its place is free, or None. It ends only when a stop at the original place has been `free`
        for a while, or if nothing moves any more and the lane is free (`over`): a free stop at the place of evasion is no reason to
        return. A place outside of the corridor is kept only until one inside is free."""
        assert self._place is not None
        place = self._place = replace(self._place, free_since=min(self._place.free_since, evading.now.ahead) if free else math.inf)
        if evading.now.ahead - place.free_since > GOING_BACK or over:
            self.forget()
        elif self._inside(evading, place.evasion) and self._free(evading, place.evasion, max_braking=place.share * evading.braking):
            return self._beside(evading, place.evasion, place.share)
        return None

    def _evade(self, evading: _Evading) -> LaneStop | None:
        """Returns a stop at the first free place in the corridor; without one at the last place, which an obstacle that appears larger
        does not change, or before oncoming traffic at the first free place outside; or None."""
        place, room, back = self._place, evading.room, evading.back
        last = None if place is None else place.evasion
        # Places relative to the middle of the lane: relative to the vehicle they would drift outwards with each decision.
        shifted = [(side, evading.shifted(side)) for side in sorted((at - evading.from_middle for at in PLACES), key=abs)
                   if abs(side) > LEAST_SHIFT and -room[1] < side < room[0] and (place is None or side * back <= 0.0 or evading.comes_over)]
        # More of an obstacle becomes visible as it approaches: prefer a place with spare room.
        ways = [(side, evasion, reserve) for reserve in (PASSING_MARGIN, 0.0) for side, evasion in shifted]
        left = 1.0 if self._settings.traffic_side == "left" else -1.0
        # Oncoming traffic returns to its own side: first the places on the vehicle's.
        for side, evasion, reserve in sorted(ways, key=lambda way: evading.oncoming and left * way[0] < 0.0):
            share = RETURNING if side * back > 0.0 else 1.0
            if self._free(evading, evasion, reserve, share * evading.braking):
                if self._inside(evading, evasion):
                    return self._beside(evading, evasion, share)
                if evading.oncoming:  # leave the corridor only for oncoming obstacles, which braking does not avoid
                    last = last or evasion
        return None if last is None else self._beside(evading, last, 1.0)

    def _free(self, evading: _Evading, evasion: Curve, reserve: float = 0.0, max_braking: float = math.inf) -> bool:
        return self._stop(evading.now, evasion, reserve=reserve, max_braking=max_braking, reach=evading.length).free

    def _inside(self, evading: _Evading, evasion: Curve) -> bool:
        """Checks that the vehicle gets no further out of the corridor."""
        now = evading.now
        out = self._outside(evading.lane, self._stops.driven(evasion, now.x, now.in_force, None, evading.braking, NOMINAL)[1])
        return bool(out.max() <= out[0])

    def _beside(self, evading: _Evading, evasion: Curve, share: float) -> LaneStop:
        self._place = replace(self._place or _Place(evasion, evading.from_middle), evasion=evasion, share=share)
        # Traffic that crosses may turn back: full braking if the way stays free. Oncoming traffic would hit a vehicle that stops early.
        hard = not evading.oncoming and self._free(evading, evasion)
        return self._along(BESIDE, evasion, evading.now.x, math.inf if hard else share * evading.braking)

    def _along(self, reason: str, curve: Curve, x: np.ndarray, max_braking: float = math.inf) -> LaneStop:
        steering, pedal = self._stops.command(curve, x, NOMINAL)
        return LaneStop(reason, (steering, max(pedal, -max_braking / self._stops.braked.full_brake)), curve, max_braking)

    def _stop(self, now: _Moment, curve: Curve, first: tuple[float, float] | None = None, reserve: float = 0.0,
              max_braking: float = math.inf, least_speed: float = HALTING_SPEED, reach: float = 0.0) -> Stop:
        """Evaluates braking along a curve; a stop is not free if an obstacle faster than `least_speed` [m/s] hits the standing vehicle, or
        would hit it up to `reach` [m] further along the curve.

        first: a preceding command, for a period; reserve: additional margin [m]; max_braking: deceleration [m/s^2].
        """
        x, in_force, ahead, obstacles, margin = now.x, now.in_force, now.ahead, now.obstacles, now.margin + reserve
        stop = self._stops.evaluate(curve, x, in_force, first, ahead, obstacles, margin, max_braking, sight=False, trust=NOMINAL)
        speed = np.hypot(*obstacles.velocities.T)
        quick = obstacles.goes_on & (speed > least_speed)
        fast = obstacles.where(quick)
        if not stop.free or not len(fast.radii):
            return stop
        times, poses, _ = self._stops.driven(curve, x, in_force, first, max_braking, NOMINAL)
        later = np.arange(times[-1], max(times[-1], ONCOMING_TIME) + STANDING_STEP, STANDING_STEP)
        towards = fast.velocities[:, 0] * math.cos(poses[-1, 2]) + fast.velocities[:, 1] * math.sin(poses[-1, 2])
        until = np.where(towards < ONCOMING_SHARE * speed[quick], ONCOMING_TIME, STANDING_TIME)
        ends = [(poses[-1], np.ones(len(until), bool))]
        if reach > 0.0:
            further = curve.nearest(*poses[-1, :2]) + math.ceil(reach / curve.spacing)
            # Preceding traffic has left that place when the vehicle gets there.
            ends.append((curve.places[min(further, len(curve.places) - 1), :3],
                         towards < min(max(float(x[self._vx]), STILL_SPEED), HALTING_SPEED)))
        for end, meets in ends:  # over so long a time the margin does not grow
            distance = self._stops.distances(np.broadcast_to(end, (len(later), 3)), later, ahead, fast, 0.0)
            if ((distance <= margin) & (later[:, None] <= until) & meets).any():
                return replace(stop, free=False)
        return stop

    def _straightening(self, obstacles: Obstacles, lane: DrivenLane, side: float) -> Obstacles:
        """Returns obstacles, and oncoming ones that move to a side, above 0 the lane's left [m], again with less of that motion: they may
        drive along the lane from any time on."""
        if abs(side) < LEAST_SHIFT:
            return obstacles
        courses = lane.path.at(lane.path.project(*obstacles.centres.T)[0])[2]
        (vx, vy), c, s = obstacles.velocities.T, np.cos(courses), np.sin(courses)
        along, across = c * vx + s * vy, c * vy - s * vx
        chosen = np.flatnonzero((along < -HALTING_SPEED) & (math.copysign(1.0, side) * across > LEAST_ACROSS))
        if not len(chosen):
            return obstacles
        less = across * (1.0 - STRAIGHTENING)
        velocities = np.stack([vx + s * less, vy - c * less], axis=-1)[:, chosen].reshape(-1, 2)
        return obstacles.joined(replace(obstacles.where(np.tile(chosen, len(STRAIGHTENING))), velocities=velocities))

    def _meets(self, curve: Curve, obstacles: Obstacles, margin: float) -> np.ndarray:
        """Marks moving obstacles whose course meets the curve (n,): they may halt there."""
        turns, speed = obstacles.turn_rates, np.maximum(np.hypot(*obstacles.velocities.T), 1e-5)
        vx, vy = obstacles.velocities.T / speed
        between = curve.places[:, None, :2] - obstacles.centres  # (k, n, 2)
        ahead, left = between[..., 0] * vx + between[..., 1] * vy, between[..., 1] * vx - between[..., 0] * vy
        # When it is nearest, on the straight line or on the arc about (0, speed / turn).
        straight = turns == 0.0
        nearest = np.where(straight, ahead / speed, np.arctan2(turns * ahead, speed - turns * left) / np.where(straight, 1.0, turns))
        time = np.clip(nearest, 0.0, HALTING_BEGINS[-1] + speed / (2.0 * HALTING))
        there = arc(speed * time, turns * time)
        aside = np.hypot(ahead - there[0], left - there[1]).min(axis=0) - obstacles.radii
        return np.asarray(obstacles.moving & (aside < self._stops.outline.half_width + margin + 0.5 * curve.spacing))

    def _passes(self, plan: Plan, ahead: float, obstacles: Obstacles) -> bool:
        """Checks that a plan and its extrapolation keep clear of moving and recently moved obstacles."""
        left = plan.times >= ahead - 1e-9
        times, poses = plan.times[left] - ahead, plan.states[left][:, self._at]
        beyond = np.arange(0.2, GOING_ON, 0.2)
        (x, y, yaw), onward = poses[-1], plan.states[-1, self._vx] * beyond
        more = np.column_stack([x + onward * math.cos(yaw), y + onward * math.sin(yaw), np.full(len(beyond), yaw)])
        distance = self._stops.distances(np.concatenate([poses, more]), np.concatenate([times, times[-1] + beyond]), ahead, obstacles)
        return bool((distance.min(axis=0) >= np.minimum(PASSING_MARGIN, distance[0] - APPROACH_TOLERANCE)).all())

    def _in_lane(self, lane: DrivenLane, x: np.ndarray) -> tuple[Curve, float, tuple[float, float]]:
        """Returns the curve along the lane at the vehicle's offset from its middle, at most to its edges, this offset to the left, and the
        room for the vehicle's sides to the left and to the right of the curve [m]."""
        (station,), (aside,) = lane.path.project(x[self._at[:1]], x[self._at[1:2]])
        left, right = (float(room[0]) - self._stops.outline.half_width - LANE_EDGE for room in lane.room_at(np.array([station])))
        aside = min(max(float(aside), -max(right, 0.0)), max(left, 0.0))
        length = float(x[self._vx]) ** 2 / (2.0 * MIN_FULL_BRAKING) + LANE_MORE
        scale = self._stops.outline.scale
        spacing = scale * SPACING
        px, py, course, curvature = lane.path.at(station + spacing * np.arange(math.ceil(length / spacing)))
        return Curve(np.column_stack([px - aside * np.sin(course), py + aside * np.cos(course), course,
                                      curvature / np.maximum(1.0 - curvature * aside, 0.2)]), scale), aside, (left - aside, right + aside)

    def _excursion(self, lane: DrivenLane, plan: Plan, ahead: float) -> float:
        """Returns the near-term increase of the front's excursion from the lane on a plan [m]."""
        soon = (plan.times >= ahead - 1e-9) & (plan.times < ahead + LEAVING_TIME)
        out = self._outside(lane, plan.states[soon][:, self._at])
        return float(out.max() - out[0])

    def _outside(self, lane: DrivenLane, poses: np.ndarray) -> np.ndarray:
        """Returns the excursion of the vehicle's front from the lane at poses (n, 3): (n,) [m]."""
        (px, py, yaw), front = poses.T, self._stops.outline.front
        x, y = px + front * np.cos(yaw), py + front * np.sin(yaw)
        along = np.concatenate([lane.path.project(x[:1], y[:1])[0], np.hypot(np.diff(x), np.diff(y))]).cumsum()
        s, aside = lane.path.project(x, y, along)
        left, right = lane.room_at(s)
        beyond: np.ndarray = np.maximum(np.maximum(aside - left, -aside - right) + self._stops.outline.half_width, 0.0)
        return beyond
