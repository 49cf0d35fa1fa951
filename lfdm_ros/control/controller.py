"""Controller: from a task, a delayed state and detected obstacles it computes a command each period, under all conditions.

Each cycle reports its fallback level: SOLVED, the plan of this cycle; SHIFTED, the last good plan, moved to the present time; BRAKING, a
stop along the curve of the last plan that allowed one, when that plan is too old or the new one leaves no room to stop; STOPPED, a stop
without a state or a task. MANOEUVRING is separate: where the route to a goal is blocked, the vehicle drives a path with changes of
direction (`lfdm_ros.control.routing.manoeuvring`).
"""

import dataclasses
import gc
import math
import time
from typing import Any

import numpy as np

from lfdm_ros.control.command_limits import RateLimits, rate_limited
from lfdm_ros.control.cycle import ARRIVED, BLOCKED, Cycle, CycleContext, CycleOutcome, FallbackSelector
from lfdm_ros.control.limits import LimitTable, Manoeuvres, lift_limits
from lfdm_ros.control.ocp.planner import SOLVER_ERRORS, Planner, Replanner
from lfdm_ros.control.prediction import STANDING, Measured, PlanarState, Prediction
from lfdm_ros.control.routing.lattice import LatticeSettings
from lfdm_ros.control.routing.manoeuvring import FULL_PULL, Manoeuvring, SteeredAxles
from lfdm_ros.control.routing.navigator import Assignment, Navigator
from lfdm_ros.control.routing.routes import Reference
from lfdm_ros.control.routing.traffic import RelevantObstacles
from lfdm_ros.control.safety.guard import Guard
from lfdm_ros.control.safety.stops import Stops
from lfdm_ros.control.settings import SETTINGS, Settings
from lfdm_ros.errors import InputError
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation import Goal
from lfdm_ros.simulation.path import Path
from lfdm_ros.vehicles import Vehicle, with_motor_map
from lfdm_ros.vehicles.body import mass_of

SOLVER_SHARE = 0.6  # share of the time budget for the solver; the rest is for the guard and the command
ROUNDED, TICK = 1e-3, 1e-6  # share of full lock, [s]
SAME_STEERING = 0.1  # share of full lock: tolerance within which a command follows a stop's curve
SIGHT_AGE = 0.5  # [s] of detections that may show a place to be free


def limits_of(vehicle: Vehicle, settings: Settings, tyre: str | None = None) -> LimitTable | None:
    """Returns the steering limits for the settings, from the vehicle's largest model; None if the settings disable them.

    Args:
        tyre: name of a tyre model; default the vehicle's.

    Raises:
        InputError: see `lift_limits`.
    """
    if not settings.use_limit_table:
        return None
    return lift_limits(vehicle, tyre=tyre, manoeuvres=Manoeuvres(
        load_margin=settings.load_margin, steering_rate=vehicle.actuators.steering_rate))


class Controller:
    """Model predictive controller of one vehicle. Without a clock: each call passes the time."""

    def __init__(self, vehicle: Vehicle, settings: Settings | None = None, limits: LimitTable | None = None,
                 lattice: LatticeSettings | None = None):
        """Compiles the problem, or loads it from the cache.

        Args:
            limits: steering limits of the largest model; None: only the prediction model's wheel loads count.
            lattice: settings of the route search; acceleration and braking are those of `settings`.

        Raises:
            InputError: no such model, or the vehicle lacks parameters.
        """
        vehicle = with_motor_map(vehicle)
        self.settings = (settings or Settings()).fitted(vehicle.footprint.scale)
        self.planner = planner = Planner(vehicle, self.settings, limits)
        self._replanner, s = Replanner(planner), self.settings
        self._vehicle, self.outline, self.actuators = vehicle, vehicle.footprint, vehicle.actuators
        self._guard = Guard(s, vehicle, planner.trajectory.place)
        self._fallback = FallbackSelector(self._guard)
        self._navigator = Navigator(s, self.outline, float(planner.trajectory.grid[-1]), lattice)
        self._manoeuvring = Manoeuvring(*self._manoeuvring_of(vehicle))
        self._rates = RateLimits.of(s, self.actuators)
        self._prediction = Prediction(s.model, vehicle, self.actuators.delay, self.actuators.steering_lag,
                                      s.learning_time if s.compensate else 0.0)
        self._relevant = RelevantObstacles(self.outline)
        self._task: Assignment | None = None
        self.reset()

    def reset(self) -> None:
        """Clears states, commands, plans and obstacles; the task stays and restarts."""
        self._measured: Measured | None = None
        self._command = (0.0, 0.0)  # steering, pedal
        self._steered = -math.inf, 0.0  # time and steering of a command that replaced it
        self._reverse = False  # the selector
        self._relevant.clear()
        self._prediction.clear()
        self._replanner.reset()
        self._fallback.reset()
        self._manoeuvring.reset()
        self._now = -math.inf
        if self._task is not None:
            self._task = self._task.anew()
            if self._task.path is not None:
                self._task.reference = self._navigator.reference_of(self._task)

    # -- Tasks and what the world says --------------------------------------------------------------------------------

    def follow(self, path: Path, speed: float | np.ndarray, corridor: np.ndarray | None = None, stop: bool = True,
               hidden_speed: float = 0.0) -> None:
        """Follows a path.

        Args:
            speed: highest [m/s], or one a point of `path.s`.
            corridor: (k, 3) rows s along the path, room to the left and to the right [m], of the lane.
            stop: stop at its end; else the path counts as done there, and the vehicle stops behind it.
            hidden_speed: assumed speed of traffic hidden by obstacles beside the path [m/s]; the maximum of it and the setting counts.

        Raises:
            InputError: a speed is negative or not finite, or the corridor is no table of increasing s and finite room.
        """
        task = Assignment.follow(path, speed, corridor, stop, hidden_speed)
        task.reference = self._navigator.reference_of(task)
        self._begin(task)

    def go_to(self, goal: Goal, speed: float) -> None:
        """Drives to a goal in the least time, around obstacles, at most at `speed` [m/s]. Raises InputError: the speed is not positive."""
        self._begin(Assignment.go_to(goal, speed))

    def idle(self) -> None:
        """Drops the task: the vehicle stops."""
        self._task = None

    def _begin(self, task: Assignment) -> None:
        self._task = task
        self._replanner.new_task()
        self._manoeuvring.begin()
        self._relevant.choose(task.reference, self._measured)

    def update_obstacles(self, obstacles: Obstacles) -> None:
        """Sets the detected obstacles from the next cycle on. Raises InputError for inconsistent shapes, a number that is not finite, or a
        negative radius; the previous obstacles stay."""
        self._relevant.update_obstacles(obstacles, None if self._task is None else self._task.reference, self._measured)

    def set_vehicle(self, vehicle: Vehicle) -> None:
        """Sets the vehicle's parameters from the next cycle on; plan and task stay. Raises InputError if some are missing, or the actuators
        differ."""
        vehicle = with_motor_map(vehicle)
        if vehicle.actuators != self.actuators:
            raise InputError(f"vehicle {vehicle.name} has other actuators; they cannot change while driving")
        self.planner.set_vehicle(vehicle)
        self._prediction.set_vehicle(vehicle)
        self._vehicle, self.outline = vehicle, vehicle.footprint
        self._relevant.outline = self.outline
        self._distribute()

    def _distribute(self) -> None:
        """Passes settings and vehicle to guard, navigator and manoeuvres."""
        self._guard.configure(self.settings, self._vehicle)
        self._navigator.configure(self.settings, self.outline)
        self._manoeuvring.configure(*self._manoeuvring_of(self._vehicle))

    def _manoeuvring_of(self, vehicle: Vehicle) -> tuple[Settings, Stops, SteeredAxles]:
        planned, p = self.planner.vehicle, vehicle.parameters
        torque = p.get("motor_torque_0", 0.0)
        pull = torque / (p["driveline_ratio"] * p["wheel_radius"] * mass_of(p)) if torque > 0.0 else FULL_PULL
        drag = GRAVITY * p.get("rolling_resistance", 0.0) / p["wheel_radius"] if torque > 0.0 else 0.0
        return self.settings, self._guard.stops, SteeredAxles(p["cg_to_rear_axle"], planned.wheelbase, planned.full_lock, pull, drag)

    def tune(self, **changes: Any) -> None:
        """Changes settings that are live, from the next cycle on. Raises InputError for others, or a value out of range."""
        self.settings = SETTINGS.tuned(self.settings, changes)
        self._rates = RateLimits.of(self.settings, self.actuators)
        self.planner.tune(self.settings)
        self._distribute()
        if self._task is not None and self._task.path is not None:
            self._task.reference = self._navigator.reference_of(self._task)

    # -- A cycle ------------------------------------------------------------------------------------------------------

    def cycle(self, now: float, measured: Measured | None = None) -> Cycle:
        """Computes the command for the period that begins at `now` [s]; `measured` is None if there is no state since the last cycle."""
        collecting = gc.isenabled()
        gc.disable()  # a collection may take longer than a cycle
        try:
            return self._cycle(now, measured, time.perf_counter())
        finally:
            if collecting:
                gc.enable()

    def _cycle(self, now: float, measured: Measured | None, began: float) -> Cycle:
        if now < self._now - 1e-9:
            self.reset()  # the clock went back
        self._now = now
        s, task = self.settings, self._task
        # Ignore states that are out of order, or stamped ahead of the clock.
        if measured is not None and measured.time <= now + s.state_timeout and (
                self._measured is None or measured.time >= self._measured.time):
            self._measured = measured
        if self._measured is None:
            return self._stand(now, began, "no state yet", math.inf)
        age = now - self._measured.time
        # A stale state still locates the stop.
        delay = self.actuators.delay
        ahead = min(now + delay, self._measured.time + s.state_timeout + delay) if s.compensate else self._measured.time
        x, road = self._prediction.at(self._measured, ahead)
        if age > s.state_timeout:
            return self._stand(now, began, f"state is stale: {age:.2f} s old", age, x)
        if task is None:
            return self._stand(now, began, "no task", age, x)
        if not s.compensate:
            ahead = now

        if task.done and abs(float(x[self.planner.trajectory.place["vx"]])) < self.outline.scale * STANDING:
            return self._stand(now, began, ARRIVED, age, x)
        manoeuvre = self._manoeuvre(task, now, x, age, began)
        if manoeuvre is not None:
            return manoeuvre
        z0 = np.concatenate([x, self._command, [road] if self.actuators.steering_lag > 0.0 else []])
        until = began + SOLVER_SHARE * s.time_budget if s.time_budget > 0.0 else math.inf
        outcome, cold = self._replanner.plan(z0, lambda: self._reference(task, now, x), self._relevant.obstacles, ahead, s, until)
        late = s.time_budget > 0.0 and not cold and time.perf_counter() - began > s.time_budget
        new = self.planner.trajectory.snapshot(ahead) if outcome.solved else None
        level, reason, command = self._fallback.level(outcome, new, late, CycleContext(
            ahead, x, self._measured.values, self._command, self._relevant.obstacles, task.goal is not None,
            task.lane, began + (s.time_budget or math.inf)), s)
        plan = self._fallback.good if level.planned else self._guard.stopping(self._fallback.good, x, self._command, ahead)
        pose, station = self._pose(x), self.planner.stages.station
        self._navigator.finish(task, pose, station)
        blocked = task.route is not None and task.route.blocked
        return self._send(now, command, Cycle(
            command=(0.0, 0.0, 0.0), outcome=level, reason=self._manoeuvring.explained(reason or BLOCKED) if blocked else reason,
            cold_start=cold, done=task.done, blocked=blocked, solver=self.planner.solver.name, seconds=time.perf_counter() - began,
            iterations=outcome.iterations, residual=outcome.residual, cost=outcome.cost, cost_terms=outcome.cost_terms,
            active=outcome.active, violated=outcome.violated,
            age=age, delay=ahead - self._measured.time if s.compensate else 0.0, plan=plan,
            route=None if task.reference is None else task.reference.path,
            remaining=self._navigator.remaining(task, pose, station)))

    def applied(self, now: float, steering: float, pedal: float, reverse: bool = False) -> None:
        """Records the command sent to the vehicle at `now` [s] in place of the last cycle's (shared control), for the predictions.

        Plans begin with the controller's own last command: starting from the sent one, a plan could leave it only at the rate limits, and
        even a small share of the operator would pull the shared command away, cycle after cycle. Only while the steering approaches the
        controller's command at its rate limit, plans begin with the sent one. The curve of a stop that is not followed is laid again from
        the vehicle's position.
        """
        own, (time, before) = self._command[0], self._steered
        self._steered = now, steering
        if abs(steering - own) > SAME_STEERING:
            self._guard.forget()
        turn = self._rates.steering * max(now - time, TICK)
        if abs(min(max(own, before - turn), before + turn) - steering) < ROUNDED:
            self._command = steering, self._command[1]
        self._reverse = reverse
        self._prediction.sent(now, steering, pedal, reverse)

    def stop(self, now: float, reason: str) -> Cycle:
        """Stops without using any state; the fallback of callers that have none."""
        return self._stand(now, time.perf_counter(), reason, math.inf)

    def _stand(self, now: float, began: float, reason: str, age: float, x: np.ndarray | None = None) -> Cycle:
        self._replanner.begin_anew()
        return self._send(now, self._fallback.stop(x), Cycle(
            (0.0, 0.0, 0.0), CycleOutcome.STOPPED, reason, done=self._task is not None and self._task.done, solver=self.planner.solver.name,
            age=age, plan=self._fallback.good, seconds=time.perf_counter() - began))

    def _manoeuvre(self, task: Assignment, now: float, x: np.ndarray, age: float, began: float) -> Cycle | None:
        """Returns a cycle of a manoeuvre; None: drive by the plan."""
        manoeuvring, pose, station = self._manoeuvring, self._pose(x), self.planner.stages.station
        goal, route, obstacles, was = task.goal, task.route, self._relevant.obstacles, manoeuvring.active
        if task.done:
            return None
        if goal is None:
            past = self._navigator.past(task, now, pose, obstacles, was, manoeuvring.needs_route)
            if past is None:
                manoeuvring.drive_on()
                return None
            goal, route, obstacles = past
        if route is None:
            return None
        move = manoeuvring.step(now, pose, goal, route, obstacles, self._command)
        if move is None and not was:
            return None
        # The previous plan leads into the obstacle.
        task.drop_joining_route()
        self._replanner.begin()
        self._fallback.drop()
        if move is None:
            return None
        self._navigator.finish(task, pose, station)
        return self._send(now, (move.steering, move.pedal), Cycle(
            (0.0, 0.0, 0.0), CycleOutcome.MANOEUVRING, move.reason, done=task.done, blocked=route.blocked,
            solver=self.planner.solver.name, age=age, seconds=time.perf_counter() - began, route=manoeuvring.path,
            remaining=self._navigator.remaining(task, pose, station)), move.reverse)

    def _send(self, now: float, command: tuple[float, float], cycle: Cycle, reverse: bool = False) -> Cycle:
        """Limits the command's rates and records it. reverse: the selector's position; it changes while no throttle is in force."""
        s = self.settings
        if reverse != self._reverse:
            if self._command[1] > 0.0:
                command = command[0], min(command[1], 0.0)
            else:
                self._reverse = reverse
        steering, pedal = self._command = rate_limited(
            self._command, command, self._rates, s.period, (-1.0, -s.largest_brake), (1.0, s.largest_throttle))
        self._prediction.sent(now, steering, pedal, self._reverse)
        throttle = max(pedal, 0.0)
        return dataclasses.replace(cycle, command=(steering, -throttle if self._reverse else throttle, max(-pedal, 0.0)),
                                   obstacles=len(self._relevant.detected.radii))

    # -- The way ------------------------------------------------------------------------------------------------------

    def poll(self, now: float) -> None:
        """Searches the route to the goal, or the places of hidden traffic beside the path, where due. Call it after a command was sent; a
        cycle without a route searches by itself."""
        task, period = self._task, self.settings.route_period - 1e-9
        if task is None or self._measured is None or now - self._measured.time > self.settings.state_timeout:
            return
        hides = task.goal is None and task.joining is None and self._navigator.assumed_speed(task) > 0.0
        unmapped = self._relevant.detected.time - self._manoeuvring.map.looked  # [s] of detections
        sees = (task.goal is not None or task.corridor is not None) and unmapped >= period
        routes = (hides or task.goal is not None) and now - task.routed >= period
        if not (sees or routes):
            return
        x = self._prediction.at(self._measured, now)[0]
        pose = self._pose(x)
        try:
            if sees:
                self._update_map(now, pose)
            if not routes:
                return
            if hides:
                self._navigator.slow_down(task, now, pose.vx, self.planner.stages.station,
                                          self._vehicle.lidar.place(pose.x, pose.y, pose.yaw), self._relevant.detected.at(now))
            elif self._manoeuvring.needs_route or task.route is None:
                self._find(task, now, x)
            else:
                task.routed = now
        except SOLVER_ERRORS:  # no route from this state: the next cycle reports it
            task.routed = now

    def _reference(self, task: Assignment, now: float, x: np.ndarray) -> tuple[Reference, int]:
        """Returns the present reference of the plan, and the number of route changes."""
        joining = self._navigator.join(task, now, self._pose(x), self._replanner.cold, float(self.planner.trajectory.column("vx")[-1]),
                                       lambda: self._relevant.obstacles.at(now))
        reference = joining or task.slowed or task.reference or self._find(task, now, x)
        if joining is None and task.goal is None:
            front = self.planner.stages.station + self.outline.front
            following = self._relevant.following_speed(now, front, self.settings.path_braking)
            if following < reference.highest:
                reference = dataclasses.replace(reference, highest=following)
        return reference, task.route_version

    def _find(self, task: Assignment, now: float, x: np.ndarray) -> Reference:
        pose = self._pose(x)
        return self._navigator.find(task, now, pose, lambda: self._manoeuvring.recall(now, self._relevant.obstacles.at(now)),
                                    lambda: self._guard.visible_length(self._fallback.good, now, pose, self._relevant.obstacles))

    def _update_map(self, now: float, pose: PlanarState) -> None:
        """Updates the map of manoeuvres with the present view."""
        detected = self._relevant.detected
        if now - detected.time < SIGHT_AGE:
            sensor = self._vehicle.lidar.place(pose.x, pose.y, pose.yaw)
            self._manoeuvring.map.look(now, pose, sensor, self.settings.sight, detected.at(now))

    def _pose(self, x: np.ndarray) -> PlanarState:
        return PlanarState(*(float(x[self.planner.trajectory.place[name]]) for name in ("x", "y", "yaw", "vx")))
