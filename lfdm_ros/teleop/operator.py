"""An operator at a screen: delayed pictures, perception, route choice, a cognitive model that steers, hands and feet.

    o = Operator(vehicle, OperatorSettings(), seed=7)
    o.go_to(Goal(300.0, 0.0), speed=17.9)
    o.update_obstacles(obstacles)                                    # as they come
    command = o.cycle(now, measured).command            # steering, throttle, brake

Decisions use the newest picture older than the perception delay, with its obstacles. The controller's lattice plans the route around them
at the period of a person's decisions. Times are arguments of each call; a seed gives the same operator.
"""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lfdm_ros.control.cycle import ARRIVED, BLOCKED, Cycle, CycleOutcome
from lfdm_ros.control.prediction import REQUIRED, Measured, PlanarState
from lfdm_ros.control.routing.goal_follower import GoalFollower, SpeedProfiledPath
from lfdm_ros.control.settings import Settings
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import NO_OBSTACLES, Obstacles
from lfdm_ros.simulation import Goal
from lfdm_ros.simulation.path import Path
from lfdm_ros.teleop.body import OperatorBody
from lfdm_ros.teleop.cognition import OPERATORS, Percept
from lfdm_ros.teleop.distraction import TABLE, Attention
from lfdm_ros.teleop.operator_settings import OperatorSettings, Person
from lfdm_ros.teleop.salvucci import MIN_SPEED, moved_on, two_points
from lfdm_ros.vehicles import Vehicle

BESIDE = 0.5  # [m] an obstacle centred outside the swept lane that intrudes less than this is ignored, such as a cone
SPACING = 0.5  # [m] between points of the path that are checked for obstacles ahead
_SAME = 1e-9  # [s]


class Operator:
    """Driver of one vehicle; implements `studies.closed_loop.Driver` and the controller interface of `engine.driving.Pilot`."""

    def __init__(self, vehicle: Vehicle, settings: OperatorSettings | None = None, seed: int = 1) -> None:
        """Draws the person. seed: of the person, of the distractions and of the remnant. Raises InputError: no such mind, a negative seed,
        or the vehicle lacks wheelbase or largest road-wheel angle."""
        self.settings = settings or OperatorSettings()
        if not 0 <= seed < 2**63:
            raise InputError(f"operator: seed is {seed}; give 0 to {2**63 - 1}")
        self._kind, self._seed = OPERATORS.find(self.settings.cognition), seed
        person, *_ = self._streams()
        self.person = Person.drawn(self.settings, person)
        s = self.settings
        self._rules = Settings(
            period=max(s.period, 0.005), route_period=s.decision_period, obstacle_margin=self.person.margin, sight=s.sight,
            path_lateral_acceleration=s.lateral_acceleration, path_acceleration=s.acceleration, path_braking=s.braking)
        self._begin: Callable[[GoalFollower], None] = GoalFollower.idle  # the task
        self.set_vehicle(vehicle)
        self.reset()

    def _streams(self) -> list[np.random.Generator]:
        """Returns independent generators: person, attention, hands, mind."""
        return [np.random.default_rng(part) for part in np.random.SeedSequence(self._seed).spawn(4)]

    def set_vehicle(self, vehicle: Vehicle) -> None:
        """Changes the vehicle, of which outline, wheelbase and largest road-wheel angle are used; restarts the task. Raises InputError:
        one is missing."""
        needed = ("cg_to_front_axle", "cg_to_rear_axle", "max_road_wheel_angle")
        missing = [name for name in needed if name not in vehicle.parameters]
        if missing:
            raise InputError(f"operator: vehicle '{vehicle.name}' lacks {', '.join(missing)}")
        self._mind = self._kind.make(vehicle, self.settings, self.person, self._streams()[3])
        self.vehicle, self._outline = vehicle, vehicle.footprint
        self._full_lock = vehicle.parameters["max_road_wheel_angle"]
        self._finder = GoalFollower(self._rules, self._outline)
        self._begin(self._finder)

    def reset(self) -> None:
        """Resets pictures, hands and feet, and restarts the task, as the same person."""
        _, attention, hands, _ = self._streams()
        self._attention = Attention(TABLE.get(self.settings.distraction), attention)
        self._body = OperatorBody(self.settings, self.person, hands)
        self._mind.reset()
        self._pictures: deque[tuple[float, Measured, Obstacles]] = deque()  # with their arrival times
        self._newest, self._came = -math.inf, -math.inf  # stamp and arrival time of the newest picture
        self._obstacles = NO_OBSTACLES
        self._picture: tuple[float, Measured, Obstacles] | None = None
        self._next, self._acted, self._station = -math.inf, math.nan, 0.0
        self._offers: deque[tuple[float, bool]] = deque()  # start times of changes on the screen
        self._offered = False
        self.distracted = False
        self._begin(self._finder)

    @property
    def target_angle(self) -> float:
        """Decided road-wheel angle [rad], the target of the hands."""
        return self._body.target_angle

    def follow(self, path: Path, speed: float | np.ndarray, corridor: np.ndarray | None = None, stop: bool = True,
               hidden_speed: float = 0.0) -> None:
        """Follows a path, at most at `speed` [m/s], one or one a point; corridor and hidden traffic are ignored. Raises InputError as
        `speed_profile`."""
        target_speed = np.asarray(speed, float) * self.person.pace
        self._set(lambda finder: finder.follow(path, target_speed, stop))

    def go_to(self, goal: Goal, speed: float) -> None:
        """Drives to a goal, at most at `speed` [m/s]. Raises InputError for a speed that is not positive."""
        self._set(lambda finder: finder.go_to(goal, speed * self.person.pace))

    def idle(self) -> None:
        """Ends the task and brakes."""
        self._set(GoalFollower.idle)

    def _set(self, begin: Callable[[GoalFollower], None]) -> None:
        begin(self._finder)
        self._begin = begin

    def update_obstacles(self, obstacles: Obstacles) -> None:
        """Sets the obstacles that pictures show from now on."""
        self._obstacles = obstacles

    def update_offer(self, time: float, offered: bool) -> None:
        """Sets whether pictures from `time` [s] on show that autonomy offers to drive on, or does so after acceptance."""
        while self._offers and self._offers[-1][0] > time:
            self._offers.pop()  # the clock was set back
        if offered != (self._offers[-1][1] if self._offers else self._offered):
            self._offers.append((time, offered))

    def poll(self, now: float) -> None:
        """Does nothing: the route is chosen in the cycle."""

    def cycle(self, now: float, measured: Measured | None = None) -> Cycle:
        """Returns the command at `now` [s]; measured: the picture that has just arrived, if any. Pictures older than the previous one are
        ignored."""
        began = time.perf_counter()
        self._watch(now, measured)
        if now >= self._next - _SAME:
            self._next = now + self.settings.cognitive_cycle
            self.distracted = self._attention.away(now)
            if not self.distracted:
                self._act(now)
        angle, pedal = self._body.advance(now)
        cycle = self._cycle(now, "looks away" if self.distracted else "")
        steering = min(max(angle / self._full_lock, -1.0), 1.0)
        return replace(cycle, command=(steering, max(pedal, 0.0), max(-pedal, 0.0)), seconds=time.perf_counter() - began)

    def stop(self, now: float, reason: str) -> Cycle:
        """Brakes immediately without using any state, for a failed cycle."""
        steering = min(max(self._body.advance(now)[0] / self._full_lock, -1.0), 1.0)
        return Cycle((steering, 0.0, self.settings.view_brake), CycleOutcome.STOPPED, reason)

    def _watch(self, now: float, measured: Measured | None) -> None:
        """Stores a picture; selects the newest one older than the perception delay."""
        if measured is not None and measured.time > self._newest:
            self._newest, self._came = measured.time, now
            self._pictures.append((now, measured, self._obstacles))
        while self._pictures and self._pictures[0][0] + self.person.perception_delay <= now + _SAME:
            self._picture = self._pictures.popleft()

    def _act(self, now: float) -> None:
        """Runs one cognitive cycle of an attentive operator."""
        s, finder = self.settings, self._finder
        if self._picture is None:
            return
        came, measured, obstacles = self._picture
        pose = PlanarState.of(measured)
        finder.update_obstacles(obstacles)
        finder.update_route(measured.time, pose)
        if finder.profiled_path is None or finder.done or now - self._came > s.view_timeout:
            self._body.decide(now, 0.0 if finder.done else self._body.target_angle, -s.view_brake)
            return
        elapsed = s.cognitive_cycle if math.isnan(self._acted) else now - self._acted
        self._acted = now
        reaction = now - came + s.cognitive_cycle + self.person.motor_delay
        ahead = s.anticipation * reaction + s.latency_anticipation * (came - measured.time)
        decision = self._mind.act(self._percept(now, elapsed, measured, ahead, finder.profiled_path))
        if not (math.isfinite(decision.angle) and math.isfinite(decision.pedal)):
            raise ArithmeticError(f"operator {self._kind.name} decided for {decision}")
        while self._offers and self._offers[0][0] <= measured.time + _SAME:
            _, self._offered = self._offers.popleft()
        if self._offered and s.accepts and decision.pedal < 0.0:
            self._body.decide(now, self._body.target_angle, 0.0)  # instead of braking
            return
        self._body.decide(now, min(max(decision.angle, -self._full_lock), self._full_lock),
                          min(max(decision.pedal, -s.largest_brake), 1.0))

    def _percept(self, now: float, elapsed: float, measured: Measured, ahead: float, planned: SpeedProfiledPath) -> Percept:
        """Returns the percept; ahead: time [s] by which the motion is extrapolated."""
        values = measured.values
        x, y, yaw = moved_on({name: np.array([values[name]]) for name in REQUIRED}, ahead)
        station, speed = self._finder.station(float(x[0]), float(y[0])), max(float(values["vx"]), 0.0)
        self._station = station
        away, angles = two_points(planned.path, np.array([station]), x, y, yaw, np.array([speed]), self.person.far_time)
        (near, far), (near_angle, far_angle) = away[:, 0].tolist(), angles[:, 0].tolist()
        target_speed = min(planned.speed_at(station), planned.speed_at(station + self.settings.preview * speed))
        return Percept(now, elapsed, near_angle, far_angle, near, far, float(values["vx"]), float(values["yaw_rate"]), target_speed,
                       self._headway(measured.time, planned, station, speed))

    def _headway(self, stamp: float, planned: SpeedProfiledPath, station: float, speed: float) -> float:
        """Returns the time [s] to the nearest obstacle that the vehicle would touch on its route within the next 4 s and 10 m; inf: none.
        """
        shown, outline = self._finder.obstacles, self._outline
        if not len(shown.radii):
            return math.inf
        along = np.arange(0.0, 4.0 * max(speed, MIN_SPEED) + 10.0, SPACING)
        x, y, *_ = planned.path.at(station + along)
        there = shown.at(stamp)
        away = np.hypot(x[:, None] - there.centres[:, 0], y[:, None] - there.centres[:, 1])
        met = (away < np.maximum(outline.half_width + there.radii - BESIDE, outline.half_width)).any(axis=1)
        if not met.any():
            return math.inf
        return max(float(along[int(met.argmax())]) - outline.front, 0.0) / max(speed, MIN_SPEED)

    def _cycle(self, now: float, reason: str) -> Cycle:
        """Returns the cycle's report, without its command."""
        finder, plan, zero = self._finder, self._finder.profiled_path, (0.0, 0.0, 0.0)
        age = now - self._newest if self._newest > -math.inf else math.nan
        if finder.done:
            return Cycle(zero, CycleOutcome.STOPPED, ARRIVED, done=True, age=age, remaining=0.0)
        if self._picture is None or plan is None:
            return Cycle(zero, CycleOutcome.STOPPED, "no picture yet" if self._picture is None else "no task", age=age)
        if now - self._came > self.settings.view_timeout:
            return Cycle(zero, CycleOutcome.STOPPED, f"the picture stands still for {now - self._came:.2f} s", age=age)
        return Cycle(zero, CycleOutcome.SOLVED, reason or (BLOCKED if plan.blocked else ""), blocked=plan.blocked, route=plan.path, age=age,
                     remaining=plan.path.length - self._station)
