"""The guard: admits a plan while there is a stop along it (`lfdm_ros.control.safety.stops`), and stops the vehicle where there is none."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from lfdm_ros.control.plan import Plan
from lfdm_ros.control.prediction import STANDING, PlanarState
from lfdm_ros.control.routing.routes import Reference
from lfdm_ros.control.safety.braking import APPROACH_TOLERANCE, SPACING, STANDSTILL_SPEED
from lfdm_ros.control.safety.stops import LATERAL_SHIFTS, NOMINAL, SHIFT_TIME_AND_LENGTH, Curve, Stop, Stops, curve_of
from lfdm_ros.control.settings import Settings
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.vehicles import Vehicle

MARGIN_PER_SPEED, SPEEDUP_MARGIN = 0.01, 0.02  # [s] margin of the stop by speed; and the further one to go faster still
# How much faster than the road a wheel may turn, as share of the speed and in m/s at least: from there throttle is eased, to none at
# three times that.
SPIN_LIMITS = 0.1, 1.0
NO_STOP = "no room to stop along the new plan: stopping along the last one that had some"
PASSING = "no room to stop: driving on along the plan, which passes"
IN_LANE = "braking in the lane before something that moves"
BESIDE = "no stop in the lane: stopping beside the way of something that moves"
# What moves slower may halt at any time [m/s]; what is faster must not meet the vehicle that stands for so long from now on, and what comes
# towards it, with so large a share of its speed, for longer [s].
HALTING_SPEED, STANDING_TIME, ONCOMING_TIME, ONCOMING_SHARE, STANDING_STEP = 3.0, 4.0, 12.0, -0.95, 0.2
# Of a stop that need not begin now: so much more room [m]. Of a plan that passes what moves: its distance [m], and for how long it is taken
# to go on as at its end [s].
RESERVE, PASSING_MARGIN, GOING_ON = 0.3, 0.5, 4.0
# A plan leaves the lane where a corner is so much farther out than now [m]; how far ahead that counts [s].
LEAVING, LEAVING_TIME = 0.15, 2.5
# Of a stop in the lane: least braking for the length of its curve [m/s^2], and more of it [m]; distance from the edges [m].
MIN_FULL_BRAKING, LANE_MORE, LANE_EDGE = 2.0, 15.0, 0.05


class Guard:
    """Admits plans, and holds the curve along which there is a stop."""

    def __init__(self, settings: Settings, vehicle: Vehicle, place: Mapping[str, int]):
        """Makes the stops. place: of the predicting model's states, by name. Raises InputError if the vehicle lacks parameters."""
        self._place, self._at = place, [place[name] for name in ("x", "y", "yaw")]
        self.configure(settings, vehicle)
        self.forget()

    def configure(self, settings: Settings, vehicle: Vehicle) -> None:
        """Sets other settings, or another vehicle, from now on. Raises InputError if it lacks parameters."""
        self._settings, self.stops = settings, Stops(settings, vehicle)
        self._half_width, self._wheel_radius = vehicle.footprint.half_width, vehicle.parameters.get("wheel_radius", 0.0)

    def forget(self) -> None:
        """Forgets the curve of the last stop."""
        self._curve: Curve | None = None
        self._beside: Curve | None = None

    def decide(self, plan: Plan, command: tuple[float, float], in_force: tuple[float, float], ahead: float, x: np.ndarray,
               obstacles: Obstacles, sight: bool, lane: Reference | None, until: float = math.inf) -> tuple[bool, str, tuple[float, float]]:
        """Decides on a plan: True where it is driven, since there is a stop along it; a reason; steering and pedal, its own or the stop's.

        The faster the vehicle, the more room its stop has to have, since detections, and the vehicle's slide, are less certain; and while
        it has little, the vehicle does not go faster.

        Args:
            command: the plan's steering and pedal; in_force: those now; x: state (nx,) at the time `ahead` [s].
            sight: places behind obstacles do not count as free; lane: the path that is followed, where there is one.
            until: by time.perf_counter() [s], when to have decided.
        """
        if not len(obstacles.radii):
            self._curve = None
            return True, "", command
        s, at, stops, curve, vx = self._settings, self._at, self.stops, self._leads(plan), float(x[self._place["vx"]])
        walls = None if lane is None else lane.margin
        least = s.stop_margin if walls is None else min(s.stop_margin, 0.5 * walls)
        margin = least + MARGIN_PER_SPEED * max(vx, 0.0) if walls is None else least
        eased = command[0], min(command[1], 0.0)
        if lane is not None and walls is not None and obstacles.may_move.any():
            braked = self._brake_in_lane(plan, command, in_force, ahead, x, obstacles, lane, least)
            if braked is not None:
                return False, *braked
        # Before moving off, check the full path ahead.
        if vx >= STANDSTILL_SPEED or stops.passes(plan, at, ahead, obstacles, margin):
            stop = stops.evaluate(curve, x, in_force, command, ahead, obstacles, margin, s.sight_braking, sight)
            # Before what moves a stop may be the worst: a plan that passes it is driven, if there is a stop before all that stands.
            if not stop.free and (moving := obstacles.moving).any() and stops.clearance(plan, at, ahead, obstacles) > margin:
                stop = stops.evaluate(curve, x, in_force, command, ahead, obstacles.where(~moving), margin, s.sight_braking, sight)
            if stop.free:
                self._curve = curve
                return True, "", command if walls is not None or stop.clearance > least + SPEEDUP_MARGIN * vx else eased
        kept = curve if self._curve is None else self._curve
        last = stops.evaluate(kept, x, in_force, None, ahead, obstacles, 0.5 * least, sight=False)
        if not last.free:
            last = stops.best([kept, curve], x, in_force, ahead, obstacles, 0.5 * least, until)
            if last.speed > 0.0 and stops.clearance(plan, at, ahead, obstacles) > 0.0:
                return True, PASSING, eased
        self._curve = last.curve
        return False, NO_STOP, stops.command(last.curve, x, last.trust)

    def _brake_in_lane(self, plan: Plan, command: tuple[float, float], in_force: tuple[float, float], ahead: float, x: np.ndarray,
                       obstacles: Obstacles, lane: Reference, margin: float) -> tuple[str, tuple[float, float]] | None:
        """Returns the reason and the command of full braking in the lane, as an emergency brake would; None: it is not due.

        It is due where a period of the plan leaves no such stop any more, unless the plan stays in the lane and passes what moves, and where
        the plan leaves the lane although there is one. Where none is left, the vehicle stops beside the way of what comes, if the corridor
        has room for it. Arguments as in `decide`; margin: to keep [m].
        """
        stops, may = self.stops, obstacles.hypotheses(HALTING_SPEED)
        moves = may.moving | (np.arange(len(may.radii)) >= len(obstacles.radii))
        curve, room = self._in_lane(lane, x)
        # With less than full braking, and more room: the last moment is not waited for.
        after = self._stop_before(curve, x, in_force, command, ahead, may, margin + RESERVE, self._settings.sight_braking)
        vx = float(x[self._place["vx"]])
        length = max(SHIFT_TIME_AND_LENGTH[0] * vx, SHIFT_TIME_AND_LENGTH[1])
        gentle = vx**2 / (2.0 * length)  # by which the vehicle gets as far as a place beside the lane's middle

        def aside(beside: Curve) -> tuple[str, tuple[float, float]] | None:
            if not self._stop_before(beside, x, in_force, None, ahead, may, margin, gentle).free:
                return None
            self._curve = self._beside = beside
            steering, pedal = stops.command(beside, x, NOMINAL)
            return BESIDE, (steering, max(pedal, -gentle / stops.braked.full_brake))

        # A place beside the way that was chosen is kept to until a stop in the lane is free.
        begun, self._beside = self._beside, None
        if begun is not None and not after.free and (found := aside(begun)) is not None:
            return found
        leaves = self._excursion(lane, plan, ahead) > LEAVING
        if not leaves and (after.free or self._passes(plan, ahead, may.where(moves))):
            return None
        now = self._stop_before(curve, x, in_force, None, ahead, may, margin)
        if now.free:
            self._curve = curve
            steering, pedal = stops.command(curve, x, NOMINAL)
            return IN_LANE, (steering, max(pedal, -self._settings.sight_braking / stops.braked.full_brake) if after.free else pedal)
        for side in LATERAL_SHIFTS:
            if side and -room[1] < side < room[0] and (found := aside(curve.shifted(side, 0.0, length))) is not None:
                return found
        if now.speed < after.speed:
            self._curve = curve
            return IN_LANE, stops.command(curve, x, NOMINAL)
        return None

    def _stop_before(self, curve: Curve, x: np.ndarray, in_force: tuple[float, float], first: tuple[float, float] | None, ahead: float,
                     obstacles: Obstacles, margin: float, max_braking: float = math.inf) -> Stop:
        """Evaluates braking along a curve; a stop is not free where something fast drives into the vehicle that stands. Arguments as in
        `Stops.evaluate`."""
        stop = self.stops.evaluate(curve, x, in_force, first, ahead, obstacles, margin, max_braking, sight=False, trust=NOMINAL)
        speed = np.hypot(*obstacles.velocities.T)
        fast = obstacles.where(speed > HALTING_SPEED)
        if not stop.free or not len(fast.radii):
            return stop
        times, poses, _ = self.stops.driven(curve, x, in_force, first, max_braking, NOMINAL)
        later = np.arange(times[-1], max(times[-1], ONCOMING_TIME) + STANDING_STEP, STANDING_STEP)
        stands = np.broadcast_to(poses[-1], (len(later), 3))
        towards = fast.velocities[:, 0] * math.cos(poses[-1, 2]) + fast.velocities[:, 1] * math.sin(poses[-1, 2])
        until = np.where(towards < ONCOMING_SHARE * speed[speed > HALTING_SPEED], ONCOMING_TIME, STANDING_TIME)
        # Over so long a time the margin does not grow.
        distance = self.stops.distances(stands, later, ahead, fast) + self._settings.obstacle_growth * later[:, None]
        touched = bool((distance[later[:, None] <= until] <= margin).any())
        return replace(stop, free=False) if touched else stop

    def _passes(self, plan: Plan, ahead: float, obstacles: Obstacles) -> bool:
        """Checks that a plan, and going on as at its end, keeps well away from what moves or has just moved."""
        left = plan.times >= ahead - 1e-9
        times, poses = plan.times[left] - ahead, plan.states[left][:, self._at]
        beyond = np.arange(0.2, GOING_ON, 0.2)
        onward = plan.states[-1, self._place["vx"]] * beyond
        yaw = np.full(len(beyond), poses[-1, 2])
        poses = np.concatenate([poses, np.column_stack([poses[-1, 0] + onward * np.cos(yaw), poses[-1, 1] + onward * np.sin(yaw), yaw])])
        times = np.concatenate([times, times[-1] + beyond])
        distance = self.stops.distances(poses, times, ahead, obstacles)
        return bool((distance.min(axis=0) >= np.minimum(PASSING_MARGIN, distance[0] - APPROACH_TOLERANCE)).all())

    def _in_lane(self, lane: Reference, x: np.ndarray) -> tuple[Curve, tuple[float, float]]:
        """Returns the curve along the lane as far from its middle as the vehicle is, at most to its edges, and the room for the vehicle's
        sides to the left and to the right of it [m]."""
        (station,), (aside,) = lane.path.project(x[self._at[:1]], x[self._at[1:2]])
        left, right = (float(room[0]) - self._half_width - LANE_EDGE for room in lane.room_at(np.array([station])))
        aside = min(max(float(aside), -max(right, 0.0)), max(left, 0.0))
        length = float(x[self._place["vx"]]) ** 2 / (2.0 * MIN_FULL_BRAKING) + LANE_MORE
        px, py, course, curvature = lane.path.at(station + SPACING * np.arange(math.ceil(length / SPACING)))
        return Curve(np.column_stack([px - aside * np.sin(course), py + aside * np.cos(course), course,
                                      curvature / np.maximum(1.0 - curvature * aside, 0.2)])), (left - aside, right + aside)

    def _excursion(self, lane: Reference, plan: Plan, ahead: float) -> float:
        """Returns how much farther than now a plan's front goes out of the lane before long [m]."""
        soon = (plan.times >= ahead - 1e-9) & (plan.times < ahead + LEAVING_TIME)
        px, py, yaw = plan.states[soon][:, self._at].T
        front = self.stops.outline.front
        s, aside = lane.path.project(px + front * np.cos(yaw), py + front * np.sin(yaw))
        left, right = lane.room_at(s)
        out = np.maximum(np.maximum(aside - left, -aside - right) + self._half_width, 0.0)
        return float(out.max() - out[0])

    def held(self, command: tuple[float, float], x: np.ndarray, measured: Mapping[str, float]) -> tuple[float, float]:
        """Limits a plan's steering and pedal: no harder on the brakes than the rear axle holds, and less throttle, or none, while a
        wheel spins: in the model wheels neither lock nor spin. One that spins does not steer, and drives on for as long as it takes to
        slow down, whatever the throttle says.

        Args:
            measured: the state, with the spins of wheels, omega_* [rad/s], where they are known.
        """
        rolls = measured["vx"] + abs(measured["yaw_rate"]) * self._half_width
        fastest = max((value for name, value in measured.items() if name.startswith("omega_")), default=0.0) * self._wheel_radius
        share = (fastest - rolls) / max(SPIN_LIMITS[0] * rolls, SPIN_LIMITS[1])
        pedal = command[1] * min(max(1.5 - 0.5 * share, 0.0), 1.0) if command[1] > 0.0 else command[1]
        return command[0], max(pedal, -self.stops.hardest_pedal(x))

    def stop(self, plan: Plan | None, x: np.ndarray | None) -> tuple[float, float]:
        """Returns steering and pedal of a stop along the curve in force, or that of the last plan; straight on without any."""
        if plan is None or x is None or not np.isfinite(x).all():
            return 0.0, -self._settings.stop_brake
        return self.stops.command(self._curve or self._leads(plan), x)

    def visible_length(self, plan: Plan | None, now: float, pose: PlanarState, obstacles: Obstacles) -> float:
        """Returns the length along a plan whose places are in sight of the sensor, at most its range [m]."""
        s = self._settings
        if plan is None or not len(obstacles.radii) or now > plan.times[-2]:
            return s.sight
        px, py, heading = plan.states[plan.times > now][:, self._at].T
        along = np.cumsum(np.hypot(np.diff(px, prepend=pose.x), np.diff(py, prepend=pose.y)))
        # Both sides of the vehicle have to be in sight, not only its middle.
        out_of_sight = self.stops.occluded_sides(px, py, heading, 0.0, (pose.x, pose.y, pose.yaw), obstacles).any(axis=0)
        return min(s.sight, float(along[int(out_of_sight.argmax())]) if out_of_sight.any() else math.inf)

    def _leads(self, plan: Plan) -> Curve:
        """Returns the curve of a plan."""
        x, y, yaw, vx, vy = (plan.states[:, self._place[name]] for name in ("x", "y", "yaw", "vx", "vy"))
        return curve_of(x, y, yaw + np.arctan2(vy, np.maximum(vx, STANDING)))
