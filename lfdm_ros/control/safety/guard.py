"""Guard: admits a plan if there is a stop along it (`lfdm_ros.control.safety.stops`), and otherwise stops the vehicle."""

import math
from collections.abc import Mapping

import numpy as np

from lfdm_ros.control.plan import Plan
from lfdm_ros.control.prediction import STANDING, PlanarState
from lfdm_ros.control.safety.braking import STANDSTILL_SPEED
from lfdm_ros.control.safety.lane_brake import DrivenLane, LaneBrake
from lfdm_ros.control.safety.stops import CONSERVATIVE, NOMINAL, Curve, GripMargin, Stops, curve_of
from lfdm_ros.control.settings import Settings
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.vehicles import Vehicle

# Speeds of a full-size vehicle; they are in proportion for a smaller one (`Footprint.scale`).
CRAWLING = 2.0  # [m/s] up to which the vehicle may accelerate at any clearance
MARGIN_PER_SPEED, SPEEDUP_MARGIN = 0.01, 0.02  # [s] margin of the stop per speed; additional one for accelerating
# Wheel slip from which throttle is reduced, as share of the speed and at least in m/s; at three times the slip throttle is 0.
SPIN_LIMITS = 0.1, 1.0
NO_STOP = "no room to stop along the new plan: stopping along the last one that had some"
PASSING = "no room to stop: driving on along the plan, which passes"


class Guard:
    """Guard of the plans; stores the curve of the last admissible stop."""

    def __init__(self, settings: Settings, vehicle: Vehicle, place: Mapping[str, int]):
        """Makes the stops. place: index of the prediction model's states by name. Raises InputError if the vehicle lacks parameters."""
        self._place, self._at = place, [place[name] for name in ("x", "y", "yaw")]
        self.configure(settings, vehicle)
        self.forget()

    def configure(self, settings: Settings, vehicle: Vehicle) -> None:
        """Sets settings and vehicle from now on. Raises InputError if the vehicle lacks parameters."""
        self._settings, self.stops = settings, Stops(settings, vehicle)
        self._lane_brake = LaneBrake(settings, self.stops, self._place)
        self._half_width, self._scale = vehicle.footprint.half_width, vehicle.footprint.scale
        self._wheel_radius = vehicle.parameters.get("wheel_radius", 0.0)

    def forget(self) -> None:
        """Clears the curve of the last stop."""
        self._store(None)
        self._lane_brake.forget()

    def _store(self, curve: Curve | None, max_braking: float = math.inf, trust: GripMargin = CONSERVATIVE) -> None:
        """Stores the curve of a stop, its largest deceleration [m/s^2], and the assumed grip."""
        self._curve, self._max_braking, self._trust = curve, max_braking, trust

    def decide(self, plan: Plan, command: tuple[float, float], in_force: tuple[float, float], ahead: float, x: np.ndarray,
               obstacles: Obstacles, sight: bool, lane: DrivenLane | None,
               until: float = math.inf) -> tuple[bool, str, tuple[float, float]]:
        """Decides on a plan: returns True if it is driven, since there is a stop along it, a reason, and the inputs of plan or stop.

        The margin of the stop grows with speed, since detections and the vehicle's slide become less certain; while the margin is small,
        the vehicle does not accelerate.

        Args:
            command: the plan's steering and pedal; in_force: the present ones; x: state (nx,) at the time `ahead` [s].
            sight: occluded places do not count as free; lane: the followed path, if any.
            until: deadline of the decision, by time.perf_counter() [s].
        """
        if not len(obstacles.radii):
            self.forget()
            return True, "", command
        s, at, stops, curve, vx = self._settings, self._at, self.stops, self._leads(plan), float(x[self._place["vx"]])
        walls = None if lane is None else lane.margin
        least = s.stop_margin if walls is None else min(s.stop_margin, 0.5 * walls)
        margin = least + MARGIN_PER_SPEED * max(vx, 0.0) if walls is None else least
        eased = command[0], min(command[1], 0.0)
        if lane is not None and walls is not None and (
                self._lane_brake.concerns(obstacles, x) or self._lane_brake.leaves(plan, ahead, x, obstacles, lane)):
            braked = self._lane_brake.decide(plan, command, in_force, ahead, x, obstacles, lane, least)
            if braked is not None:
                self._store(braked.curve, braked.max_braking, NOMINAL)
                return False, braked.reason, braked.command
        # Before moving off, check the full path ahead.
        if vx >= self._scale * STANDSTILL_SPEED or stops.passes(plan, at, ahead, obstacles, margin):
            stop = stops.evaluate(curve, x, in_force, command, ahead, obstacles, margin, s.sight_braking, sight)
            # Stopping in front of a moving obstacle may be worse than passing it, if stationary ones allow a stop.
            if not stop.free and (moving := obstacles.moving).any() and stops.clearance(plan, at, ahead, obstacles) > margin:
                stop = stops.evaluate(curve, x, in_force, command, ahead, obstacles.where(~moving), margin, s.sight_braking, sight)
            if stop.free:
                self._store(curve)
                if walls is None:
                    little = stop.clearance <= least + SPEEDUP_MARGIN * vx
                else:  # the corridor's width contains the margin; accelerating would only pass the violation sooner
                    stands = obstacles.where(~obstacles.moving)
                    little = command[1] > 0.0 and vx > self._scale * CRAWLING and not stops.passes(plan, at, ahead, stands, least)
                return True, "", eased if little else command
        last_curve = curve if self._curve is None else self._curve
        last = stops.evaluate(last_curve, x, in_force, None, ahead, obstacles, 0.5 * least, sight=False)
        if not last.free:
            last = stops.best([last_curve, curve], x, in_force, ahead, obstacles, 0.5 * least, until)
            if last.speed > 0.0 and stops.clearance(plan, at, ahead, obstacles) > 0.0:
                return True, PASSING, eased
        self._store(last.curve, trust=last.trust)
        return False, NO_STOP, stops.command(last.curve, x, last.trust)

    def limit_wheel_slip(self, command: tuple[float, float], x: np.ndarray, measured: Mapping[str, float]) -> tuple[float, float]:
        """Limits a plan's steering and pedal, since the model's wheels neither lock nor spin: brake up to the limit of the rear axle,
        throttle reduced to 0 while a wheel spins. A spinning wheel has no lateral force, and drives on until it has slowed down.

        Args:
            measured: the state, with wheel speeds omega_* [rad/s] where known.
        """
        rolls = measured["vx"] + abs(measured["yaw_rate"]) * self._half_width
        fastest = max((value for name, value in measured.items() if name.startswith("omega_")), default=0.0) * self._wheel_radius
        share = (fastest - rolls) / max(SPIN_LIMITS[0] * rolls, self._scale * SPIN_LIMITS[1])
        pedal = command[1] * min(max(1.5 - 0.5 * share, 0.0), 1.0) if command[1] > 0.0 else command[1]
        return command[0], max(pedal, -self.stops.hardest_pedal(x))

    def stop(self, plan: Plan | None, x: np.ndarray | None) -> tuple[float, float]:
        """Returns steering and pedal of a stop along the curve in force, or that of the last plan; straight without any."""
        if plan is None or x is None or not np.isfinite(x).all():
            return 0.0, -self._settings.stop_brake
        return self.stops.command(self._curve or self._leads(plan), x)

    def stopping(self, plan: Plan | None, x: np.ndarray, in_force: tuple[float, float], time: float) -> Plan | None:
        """Returns the plan of the stop that `stop` or `decide` commands, from the state x (nx,) at `time` [s] and the inputs in force; None
        without any curve."""
        curve = self._curve or (None if plan is None else self._leads(plan))
        if curve is None or not np.isfinite(x).all():
            return None
        return self.stops.planned(curve, x, in_force, time, self._max_braking, self._trust)

    def visible_length(self, plan: Plan | None, now: float, pose: PlanarState, obstacles: Obstacles) -> float:
        """Returns the length of a plan that is in sight of the sensor, at most its range [m]."""
        s = self._settings
        if plan is None or not len(obstacles.radii) or now > plan.times[-2]:
            return s.sight
        px, py, heading = plan.states[plan.times > now][:, self._at].T
        along = np.cumsum(np.hypot(np.diff(px, prepend=pose.x), np.diff(py, prepend=pose.y)))
        # Both sides of the vehicle must be in sight, not only its middle.
        out_of_sight = self.stops.occluded_sides(px, py, heading, 0.0, (pose.x, pose.y, pose.yaw), obstacles).any(axis=0)
        return min(s.sight, float(along[int(out_of_sight.argmax())]) if out_of_sight.any() else math.inf)

    def _leads(self, plan: Plan) -> Curve:
        """Returns the curve of a plan."""
        x, y, yaw, vx, vy = (plan.states[:, self._place[name]] for name in ("x", "y", "yaw", "vx", "vy"))
        return curve_of(x, y, yaw + np.arctan2(vy, np.maximum(vx, self._scale * STANDING)), self._scale)
