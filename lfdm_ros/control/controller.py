"""The controller: a task, a state that is some time old, obstacles as they are seen; out comes a command each period, whatever happens.

Every cycle ends on one rung of a ladder, and says on which: SOLVED, the plan of this cycle; SHIFTED, the last good plan where it is now;
BRAKING, a stop along the curve of a plan that had room for one, when that plan has become too old or the new one leaves no room to stop;
STOPPED, the same without a state or a task. Beside it stands BACKING: where the way to a goal is blocked, the vehicle backs along the way
that it came and looks for another (`lfdm_ros.control.backing`).
"""

from __future__ import annotations

import dataclasses
import gc
import math
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from lfdm_ros.bounds import require
from lfdm_ros.control.backing import Backing
from lfdm_ros.control.guidance import Guide, GuideSettings, Route
from lfdm_ros.control.limits import LimitTable, Manoeuvres, lift_limits
from lfdm_ros.control.path import Path, speed_profile
from lfdm_ros.control.planner import SLOWER, Plan, Planner
from lfdm_ros.control.planner import Outcome as PlanOutcome
from lfdm_ros.control.prediction import Measured, Pose, Prediction
from lfdm_ros.control.reference import Reference
from lfdm_ros.control.rules import CLOSE_BY, PATIENCE, STANDING, Rates, keeps_its_way, rated, sight_speed, stopping_speeds
from lfdm_ros.control.settings import Settings
from lfdm_ros.control.stops import SLOW, Curve, Stops, curve_of, hidden
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import NOTHING, Obstacles
from lfdm_ros.simulation import Goal
from lfdm_ros.vehicles import Vehicle, with_motor_map

AIM = 10.0  # [m] at this distance the way to a goal counts as a path does
EDGE = 0.3  # [m] an obstacle reaches into a corridor by so much, or it stands beside it
FAILURES = 3  # cycles in a row without a solution, after which a plan is begun anew
SOLVING = 0.6  # share of the time budget after which the solver ends: the rest is for what comes then
ASTRAY = 10.0, 2.4  # [m], [rad] from a path: a vehicle within and turned by more begins with a way back to it
MEETING = 30.0  # [m] further along the path, and as far again as the path is away, that way meets it
JOINED = 2.0, 0.5  # [m], [rad] from the path: there that way ends
CREEPING = 4.0  # [m/s] a vehicle that sees little goes on with this speed
HASTE = 0.02  # [s] who goes faster needs so much more room on the stop to go faster still
NO_STOP = "no room to stop along the new plan: stopping along the last one that had some"
NO_STOP_LEFT = "no room to stop: driving on along the plan, which passes"
ARRIVED = "the task is done, the brake holds the vehicle"
BLOCKED = "no way round the obstacles is seen: stopping before them"
_RAISED = (ArithmeticError, LookupError, RuntimeError, ValueError)  # whatever a solver may raise


def limits_of(vehicle: Vehicle, settings: Settings, tyre: str | None = None) -> LimitTable | None:
    """The steering limits that a controller of these settings takes, from the vehicle's largest model; None if it takes none.

    Args:
        tyre: name of a tyre model; default the vehicle's.

    Raises:
        InputError: see `lift_limits`.
    """
    if not settings.use_limit_table:
        return None
    return lift_limits(vehicle, tyre=tyre, manoeuvres=Manoeuvres(
        load_margin=settings.load_margin, steering_rate=vehicle.actuators.steering_rate))


class Outcome(Enum):
    """Rungs of the ladder, the best first."""

    SOLVED = 0
    SHIFTED = 1
    BRAKING = 2
    STOPPED = 3
    BACKING = 4  # beside the ladder


@dataclass(frozen=True, eq=False)
class Cycle:
    """What one cycle came to.

    command: steering [-1, 1], throttle [-1, 1] (below 0 in reverse), brake [0, 1]. reason: one line, why it is not SOLVED, or that the way
    is blocked or no stop is left. cold_start: there was no plan to start from. done: the goal or the path's end is reached. seconds:
    wall-clock time. residual: largest violation of the linearised dynamics and bounds by the solver. cost_terms: by name, penalties of
    violated constraints among them. active, violated: names of constraints. age: of the state [s]; delay: what was predicted through [s].
    plan: the one in force. route: the way to a goal, or the path.
    """

    command: tuple[float, float, float]
    outcome: Outcome
    reason: str = ""
    cold_start: bool = False
    done: bool = False
    blocked: bool = False
    solver: str = ""
    seconds: float = 0.0
    iterations: int = 0
    residual: float = 0.0
    cost: float = 0.0
    cost_terms: dict[str, float] = field(default_factory=dict)
    active: tuple[str, ...] = ()
    violated: tuple[str, ...] = ()
    age: float = 0.0
    delay: float = 0.0
    plan: Plan | None = None
    route: Path | None = None
    remaining: float = math.inf  # [m] to the goal or the path's end


@dataclass(eq=False)
class _Task:
    """What is to be done: a path as it is, or a goal with the route that is in force."""

    speed: float
    stop: bool
    goal: Goal | None = None
    path: Path | None = None
    speeds: float | np.ndarray = 0.0  # highest on the path, one or one a point
    corridor: np.ndarray | None = None
    reference: Reference | None = None
    route: Route | None = None
    routed: float = -math.inf  # when the route was made
    blocked_since: float = math.inf
    joining: Reference | None = None  # the way back to a path that leads the other way
    station: float = 0.0  # the place on the path next to the vehicle then [m]
    meeting: tuple[float, float] = (math.inf, math.inf)  # where that way meets the path [m]
    done: bool = False


class Controller:
    """Drives one vehicle. Keeps no clock of its own: time comes with each call."""

    def __init__(self, vehicle: Vehicle, settings: Settings | None = None, limits: LimitTable | None = None):
        """Compiles the problem, or loads it from the cache.

        Args:
            limits: steering limits of the largest model; None: only the predicting model's wheel loads count.

        Raises:
            InputError: no such model, or the vehicle lacks parameters.
        """
        self.settings, vehicle = settings or Settings(), with_motor_map(vehicle)
        self._planner = Planner(vehicle, self.settings, limits)
        s = self.settings
        self._guide = Guide(self._guide_settings())
        self._vehicle, self._stops = vehicle, Stops(self.settings, vehicle)
        self._backing = Backing(*self._backing_of(vehicle))
        self.outline, self.actuators = vehicle.footprint, vehicle.actuators
        self._rates = Rates.of(s, self.actuators)
        self._prediction = Prediction(s.model, vehicle, self.actuators.delay, self.actuators.steering_lag,
                                      s.learning_time if s.compensate else 0.0)
        self._task: _Task | None = None
        self.reset()

    def reset(self) -> None:
        """Forgets states, commands, plans and obstacles; the task stays and begins anew."""
        self._measured: Measured | None = None
        self._good: Plan | None = None
        self._stop: Curve | None = None  # along which there is a stop
        self._solved_time = -math.inf
        self._cold, self._starting, self._failures = True, False, 0
        self._plan_time = self._good_time = -math.inf
        self._command = (0.0, 0.0)  # steering, pedal
        self._reverse = False  # the selector
        self._obstacles = self._seen = NOTHING
        self._prediction.clear()
        self._planner.reset()
        self._backing.trail.clear()
        self._backing.begin()
        self._now = -math.inf
        task = self._task
        if task is not None:
            self._task = _Task(task.speed, task.stop, task.goal, task.path, task.speeds, task.corridor)
            if task.path is not None:
                self._task.reference = self._along(self._task)

    # -- Tasks and what the world says --------------------------------------------------------------------------------

    def follow(self, path: Path, speed: float | np.ndarray, corridor: np.ndarray | None = None, stop: bool = True) -> None:
        """Follows a path.

        Args:
            speed: highest [m/s], or one a point of `path.s`.
            corridor: (k, 3) rows s along the path, room to the left and to the right [m], of the lane.
            stop: stand at its end; else the path counts as done there, and the vehicle stops behind it.

        Raises:
            InputError: a speed that is negative or not finite, or a corridor that is no table of rising s and finite room.
        """
        if corridor is not None:
            corridor = np.array(corridor, float)
            if corridor.ndim != 2 or corridor.shape[1] != 3 or not len(corridor) or not np.isfinite(corridor).all() or (
                    np.diff(corridor[:, 0]) <= 0.0).any():
                raise InputError("corridor: give rows [s, left, right] in m, finite, with rising s")
        task = _Task(float(np.max(speed)), stop, path=path, speeds=speed, corridor=corridor)
        task.reference = self._along(task)
        self._begin(task)

    def go_to(self, goal: Goal, speed: float) -> None:
        """Drives to a goal in the least time, around obstacles, at most at `speed` [m/s].

        Raises:
            InputError: the speed is not positive.
        """
        if not (math.isfinite(speed) and speed > 0.0):
            raise InputError(f"speed to a goal is {speed} m/s; give more than 0")
        require("speed", speed, "speed to a goal")
        self._begin(_Task(speed, goal.stop, goal))

    def idle(self) -> None:
        """No task: the vehicle comes to a stop and stands."""
        self._task = None

    def _begin(self, task: _Task) -> None:
        self._task = task
        self._planner.forget()
        self._backing.begin()
        self._obstacles = self._that_count()
        # A plan for another task may lead elsewhere: begin anew.
        self._cold, self._starting = True, False

    def see(self, obstacles: Obstacles) -> None:
        """What is seen now; it counts from the next cycle on.

        Raises:
            InputError: shapes that do not fit, a number that is not finite, or a negative radius. What was seen before stays.
        """
        o, n = obstacles, len(obstacles.radii)
        if o.centres.shape != (n, 2) or o.velocities.shape != (n, 2) or o.radii.shape != (n,):
            raise InputError(f"obstacles: centres {o.centres.shape}, radii {o.radii.shape} and velocities {o.velocities.shape} do not fit")
        if n and not (math.isfinite(o.time) and np.isfinite(o.centres).all() and np.isfinite(o.velocities).all()
                      and np.isfinite(o.radii).all() and (o.radii >= 0.0).all()):
            raise InputError("obstacles: a time, place, radius or velocity is not finite, or a radius is negative")
        self._seen = obstacles
        self._obstacles = self._that_count()

    def _that_count(self) -> Obstacles:
        """Those in the corridor, where there is one: what stands beside it the corridor keeps away already."""
        task, seen = self._task, self._seen
        if task is None or task.reference is None or task.reference.corridor is None or not len(seen.radii):
            return seen
        s, e = task.reference.path.project(seen.centres[:, 0], seen.centres[:, 1])
        left, right = task.reference.room_at(s)
        return seen.where(seen.moving | ((e - seen.radii < left - EDGE) & (e + seen.radii > EDGE - right)))

    def take(self, vehicle: Vehicle) -> None:
        """Drives by another vehicle's parameters from the next cycle on; plan and task stay. Raises InputError if it lacks some, or has
        other actuators."""
        vehicle = with_motor_map(vehicle)
        if vehicle.actuators != self.actuators:
            raise InputError(f"vehicle {vehicle.name} has other actuators; they cannot change while driving")
        self._planner.take(vehicle)
        self._prediction.take(vehicle)
        self._vehicle, self._stops, self.outline = vehicle, Stops(self.settings, vehicle), vehicle.footprint
        self._backing.take(*self._backing_of(vehicle))

    def _backing_of(self, vehicle: Vehicle) -> tuple[Settings, Stops, float, float, float]:
        planner = self._planner
        return self.settings, self._stops, vehicle.parameters["cg_to_rear_axle"], planner.wheelbase, planner.full_lock

    def tune(self, **changes: Any) -> None:
        """Changes settings that are live, from the next cycle on. Raises InputError for others, or a value out of range."""
        known = {f.name: f.metadata["live"] for f in dataclasses.fields(Settings)}
        for name in changes:
            if not known.get(name, False):
                raise InputError(f"setting {name} cannot change while driving" if name in known else f"there is no setting {name}")
        self.settings = dataclasses.replace(self.settings, **changes)
        self._planner.tune(self.settings)
        self._stops = Stops(self.settings, self._vehicle)
        self._backing.take(*self._backing_of(self._vehicle))
        if self._guide.settings != self._guide_settings():  # its tables take as long as some cycles
            self._guide = Guide(self._guide_settings())
        if self._task is not None and self._task.path is not None:
            self._task.reference = self._along(self._task)

    def _guide_settings(self) -> GuideSettings:
        return GuideSettings(lateral_acceleration=self.settings.path_lateral_acceleration, braking=self.settings.path_braking)

    # -- A cycle ------------------------------------------------------------------------------------------------------

    def cycle(self, now: float, measured: Measured | None = None) -> Cycle:
        """The command for the period that begins at `now` [s]; None if nothing was measured since the last cycle."""
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
        # Neither one that was overtaken, nor one from a clock that runs ahead.
        if measured is not None and measured.time <= now + s.state_timeout and (
                self._measured is None or measured.time >= self._measured.time):
            self._measured = measured
        if self._measured is None:
            return self._stand(now, began, "no state yet", math.inf)
        age = now - self._measured.time
        # A state that is stale still says where the vehicle is about to stop.
        delay = self.actuators.delay
        ahead = min(now + delay, self._measured.time + s.state_timeout + delay) if s.compensate else self._measured.time
        x, road = self._prediction.at(self._measured, ahead)
        if age > s.state_timeout:
            return self._stand(now, began, f"state is stale: {age:.2f} s old", age, x)
        if task is None:
            return self._stand(now, began, "no task", age, x)
        if not s.compensate:
            ahead = now

        if task.done and abs(float(x[self._planner.place["vx"]])) < STANDING:
            return self._stand(now, began, ARRIVED, age, x)
        backing = self._back(task, now, x, age, began)
        if backing is not None:
            return backing
        z0 = np.concatenate([x, self._command, [road] if self.actuators.steering_lag > 0.0 else []])
        # A plan that could not be improved once is tried again; one that is too old, or never can be, is given up.
        cold = self._cold or ahead - self._solved_time > s.plan_timeout or self._failures > FAILURES
        until = began + SOLVING * s.time_budget if s.time_budget > 0.0 else math.inf
        try:
            reference = self._joining(task, now, x) or task.reference or self._find_way(task, now, x)
            if cold and not self._starting:
                self._planner.start(z0, reference)
            else:
                self._planner.shift(ahead - self._plan_time)
                self._unwrap(z0)
            outcome = self._planner.plan(z0, reference, self._obstacles, ahead, s.cold_iterations if cold else s.iterations, until,
                                         begun=cold)
        except _RAISED as error:  # the ladder is there for it
            outcome = PlanOutcome.failed(f"{self._planner.solver}: {error}")
        self._plan_time = ahead
        late = s.time_budget > 0.0 and not cold and time.perf_counter() - began > s.time_budget
        self._cold, self._starting = cold and not outcome.solved, cold and outcome.unfinished
        self._failures = 0 if outcome.solved else self._failures + 1
        if outcome.solved:
            self._solved_time = ahead
        rung, reason, command = self._rung(outcome, late, ahead, x)
        self._finish(task, x)
        blocked = task.route is not None and task.route.blocked
        return self._send(now, command, Cycle(
            command=(0.0, 0.0, 0.0), outcome=rung, reason=self._backing.explained(reason or BLOCKED) if blocked else reason,
            cold_start=cold, done=task.done, blocked=blocked, solver=self._planner.solver, seconds=time.perf_counter() - began,
            iterations=outcome.iterations, residual=outcome.residual, cost=outcome.cost, cost_terms=outcome.cost_terms,
            active=outcome.active, violated=outcome.violated,
            age=age, delay=ahead - self._measured.time if s.compensate else 0.0, plan=self._good,
            route=None if task.reference is None else task.reference.path, remaining=self._remaining(task, x)))

    def _rung(self, outcome: PlanOutcome, late: bool, ahead: float, x: np.ndarray) -> tuple[Outcome, str, tuple[float, float]]:
        """Where on the ladder this cycle stands, why, and the steering and pedal there. The plan that is driven is the good one."""
        s = self.settings
        new = self._planner.snapshot(ahead) if outcome.solved else None
        if new is not None and not late:
            rung, reason, plan = Outcome.SOLVED, "", new
        else:
            reason = f"over the time budget of {1e3 * s.time_budget:g} ms" if outcome.solved else outcome.status
            if self._good is None or ahead - self._good_time > s.plan_timeout:
                reason += "; " + ("no plan to fall back on" if self._good is None else "the last good plan is too old")
                if new is not None:  # late, but the next cycle may fall back on it
                    self._good, self._good_time = new, ahead
                return Outcome.BRAKING, reason, self._braking(x)
            rung, plan = Outcome.SHIFTED, self._good
        # The command is held for a period; with its value at the period's end the next plan begins, or the rates would not be reached.
        command = self._held(self._planned(plan, ahead + s.period), x)
        driven, said, command = self._with_stop(plan, command, ahead, x)
        reason = "; ".join(filter(None, (reason, said)))
        if not driven:
            return Outcome.BRAKING, reason, command
        if new is not None:
            self._good, self._good_time = new, ahead
        return rung, reason, command

    def _with_stop(self, plan: Plan, command: tuple[float, float], ahead: float, x: np.ndarray) -> tuple[bool, str, tuple[float, float]]:
        """Whether a plan is driven, since there is a stop along it, what there is to say, and steering and pedal: its own, or the stop's.

        While the stop is close to something the vehicle does not go faster: what is seen of it, and how the vehicle slides, is not sure.
        """
        obstacles = self._obstacles
        if not len(obstacles.radii):
            self._stop = None
            return True, "", command
        s, place, task, stops = self.settings, self._planner.place, self._task, self._stops
        at, curve, vx = [place[name] for name in ("x", "y", "yaw")], self._curve(plan), float(x[place["vx"]])
        between = None if task is None or task.reference is None else task.reference.margin  # the walls of a corridor
        margin = s.stop_margin if between is None else min(s.stop_margin, 0.5 * between)
        eased = command[0], min(command[1], 0.0)
        # On a path the way is given; what lies hidden behind a cone beside it is no concern.
        sight = task is not None and task.goal is not None
        # Who is about to move off looks where to.
        if vx >= SLOW or stops.passes(plan, at, ahead, obstacles, margin):
            stop = stops.look(curve, x, self._command, command, ahead, obstacles, margin, s.sight_braking, sight)
            still = obstacles.where(~obstacles.moving)
            # Before what moves a stop may be the worst: a plan that passes it is driven, if there is a stop before all that stands.
            if not stop.free and len(still.radii) < len(obstacles.radii) and stops.clearance(plan, at, ahead, obstacles) > margin:
                stop = stops.look(curve, x, self._command, command, ahead, still, margin, s.sight_braking, sight)
            if stop.free:
                self._stop = curve
                return True, "", command if between is not None or stop.clearance > margin + HASTE * vx else eased
        kept = curve if self._stop is None else self._stop
        last = stops.look(kept, x, self._command, None, ahead, obstacles, 0.5 * margin, sight=False)
        if not last.free:
            last = stops.best([kept, curve], x, self._command, ahead, obstacles, 0.5 * margin)
            if last.speed > 0.0 and stops.clearance(plan, at, ahead, obstacles) > 0.0:
                return True, NO_STOP_LEFT, eased
        self._stop = last.curve
        return False, NO_STOP, stops.command(last.curve, x, last.trust)

    def _curve(self, plan: Plan) -> Curve:
        """Where a plan leads."""
        x, y, yaw, vx, vy = (plan.states[:, self._planner.place[name]] for name in ("x", "y", "yaw", "vx", "vy"))
        return curve_of(x, y, yaw + np.arctan2(vy, np.maximum(vx, STANDING)))

    def _planned(self, plan: Plan | None, at: float) -> tuple[float, float]:
        assert plan is not None
        return (float(np.interp(at, plan.times, plan.inputs[:, 0])),
                float(np.interp(at, plan.times, plan.inputs[:, 1] - plan.inputs[:, 2])))

    def _held(self, command: tuple[float, float], x: np.ndarray) -> tuple[float, float]:
        """A plan's steering and pedal, but no harder on the brakes than the rear axle holds: in the model wheels do not lock."""
        return command[0], max(command[1], -self._stops.hardest_pedal(abs(float(x[self._planner.place["ay"]]))))

    def _braking(self, x: np.ndarray | None) -> tuple[float, float]:
        """A stop along the curve of the last good plan."""
        if self._good is None or x is None or not np.isfinite(x).all():
            return 0.0, -self.settings.stop_brake
        return self._stops.command(self._stop or self._curve(self._good), x)

    def stop(self, now: float, reason: str) -> Cycle:
        """A cycle that stops the vehicle whatever is known: for who cannot ask for a better one."""
        return self._stand(now, time.perf_counter(), reason, math.inf)

    def _stand(self, now: float, began: float, reason: str, age: float, x: np.ndarray | None = None) -> Cycle:
        self._cold, self._starting = True, False
        return self._send(now, self._braking(x), Cycle(
            (0.0, 0.0, 0.0), Outcome.STOPPED, reason, done=self._task is not None and self._task.done, solver=self._planner.solver,
            age=age, plan=self._good, seconds=time.perf_counter() - began))

    def _back(self, task: _Task, now: float, x: np.ndarray, age: float, began: float) -> Cycle | None:
        """A cycle of backing; None: the way to the goal is not blocked, or backing does not help."""
        backing, place, measured = self._backing, self._planner.place, self._measured
        assert measured is not None
        backing.trail.note(measured.time, Pose.of(measured))
        blocked = task.goal is not None and not task.done and task.route is not None and task.route.blocked
        was = backing.active
        move = backing.step(now, Pose(*(float(x[place[name]]) for name in ("x", "y", "yaw", "vx"))), blocked,
                            self._remaining(task, x) if task.goal is not None else math.inf, self._obstacles, self._command[0])
        if move is None and not was:
            return None
        # What was planned before leads into what blocks the way.
        self._cold, self._starting, self._good, self._stop = True, False, None, None
        self._planner.forget()
        if move is None:
            return None
        return self._send(now, (move.steering, move.pedal), Cycle(
            (0.0, 0.0, 0.0), Outcome.BACKING, move.reason, blocked=blocked, solver=self._planner.solver, age=age,
            seconds=time.perf_counter() - began, remaining=self._remaining(task, x)), move.reverse)

    def _send(self, now: float, command: tuple[float, float], cycle: Cycle, reverse: bool = False) -> Cycle:
        """reverse: where the selector is to be; it changes while no throttle is in force."""
        if reverse != self._reverse:
            if self._command[1] > 0.0:
                command = command[0], min(command[1], 0.0)
            else:
                self._reverse = reverse
        steering, pedal = self._command = rated(self._command, command, self.settings, self._rates)
        self._prediction.sent(now, steering, pedal, self._reverse)
        throttle = max(pedal, 0.0)
        return dataclasses.replace(cycle, command=(steering, -throttle if self._reverse else throttle, max(-pedal, 0.0)))

    def _unwrap(self, z0: np.ndarray) -> None:
        """The heading as the plan counts it: a measured one may have jumped by a turn."""
        yaw = self._planner.place["yaw"]
        z0[yaw] += 2.0 * math.pi * round((float(self._planner.z[0, yaw]) - float(z0[yaw])) / (2.0 * math.pi))

    def _along(self, task: _Task) -> Reference:
        """The reference of a path."""
        assert task.path is not None
        s = self.settings
        profile = speed_profile(task.path, task.speeds, s.path_lateral_acceleration, s.path_acceleration, s.path_braking,
                                0.0 if task.stop else math.inf)
        longer, speeds = self._longer(task.path, np.zeros_like(profile) if task.done else profile)
        return Reference(longer, speeds, task.speed, task.corridor, margin=None if task.corridor is None else s.path_margin,
                         slowing=s.path_braking)

    # -- The way ------------------------------------------------------------------------------------------------------

    def _longer(self, path: Path, speeds: np.ndarray) -> tuple[Path, np.ndarray]:
        """A path that goes on beyond its end for as long as a horizon may, at the speed of its end."""
        longer = path.extended(self._planner.grid[-1] * float(speeds.max()) + CLOSE_BY)
        return longer, np.concatenate([speeds, np.full(len(longer.s) - len(path.s), speeds[-1])])

    def look(self, now: float) -> None:
        """Looks for the way to the goal where that is due. Meant for the time after a command has gone out; a cycle that has no way yet
        looks by itself."""
        task = self._task
        if task is None or self._measured is None or task.goal is None or now - task.routed < self.settings.route_period - 1e-9:
            return
        if now - self._measured.time <= self.settings.state_timeout:
            x = self._prediction.at(self._measured, now)[0]
            try:
                self._find_way(task, now, x)
            except _RAISED:  # a state from which there is no way: the next cycle says so, on its rung
                task.routed = now

    def _find_way(self, task: _Task, now: float, x: np.ndarray) -> Reference:
        assert task.goal is not None
        s, place, goal = self.settings, self._planner.place, task.goal
        px, py, yaw, vx = (float(x[place[name]]) for name in ("x", "y", "yaw", "vx"))
        remaining = math.hypot(goal.x - px, goal.y - py)
        if not (task.done or keeps_its_way(task.route, remaining, vx)):
            known = self._backing.recall(now, Pose(px, py, yaw, vx), self._obstacles.at(now))
            task.route = self._guide.route(px, py, yaw, max(vx, 0.0), goal.x, goal.y, known, self.outline.half_width,
                                           s.obstacle_margin, task.route)
            self._planner.forget()
        task.routed = now
        assert task.route is not None
        path = task.route.path
        profile = speed_profile(path, np.maximum(self._slower(path, vx), min(task.speed, sight_speed(s, self.outline.front))),
                                s.path_lateral_acceleration, s.path_acceleration, s.path_braking,
                                0.0 if task.stop or task.done else math.inf)
        if not task.route.blocked:
            task.blocked_since = math.inf
        else:
            task.blocked_since = min(task.blocked_since, now)
            if now - task.blocked_since > PATIENCE:
                # There is none for long: stop here and now, and drive on when one is seen.
                profile = np.minimum(profile, np.sqrt(np.maximum(vx * vx - 2.0 * s.path_braking * path.s, 0.0)))
            profile = np.minimum(profile, stopping_speeds(s, self.outline.front, task.route))
        longer, speeds = self._longer(path, np.zeros_like(profile) if task.done else profile)
        # The route is a hint, but the nearer the goal the more it is the way to it; and who is about to stop is in no hurry.
        lateral = max(s.goal_lateral, min(1.0, AIM / max(remaining, AIM)))
        stopping = task.stop and remaining < vx * float(self._planner.grid[-1])
        hurry = 0.0 if task.done or task.route.blocked or stopping else s.weight_time
        # What lies hidden on the plan may be anything: a stop before it has to be possible.
        highest = min(task.speed, max(sight_speed(s, self.outline.front, self._seen_along(now, px, py, yaw)), CREEPING))
        task.reference = Reference(longer, np.minimum(speeds, highest), highest, lateral=lateral, hurry=hurry, free_end=True,
                                   slowing=s.path_braking)
        return task.reference

    def _joining(self, task: _Task, now: float, x: np.ndarray) -> Reference | None:
        """The way back to a path that leads the other way; None where the vehicle is on it.

        The optimisation is local: on the path or near it, it does not find that it has to drive away to turn round.
        """
        if task.goal is not None or task.reference is None or task.done or not (self._cold or task.joining is not None):
            return None
        s, place, path = self.settings, self._planner.place, task.reference.path
        px, py, yaw, vx = (float(x[place[name]]) for name in ("x", "y", "yaw", "vx"))
        (task.station,), (aside,) = (a.tolist() for a in path.project(np.array([px]), np.array([py])))
        turned = abs(math.remainder(float(path.at(np.array([task.station]))[2][0]) - yaw, 2.0 * math.pi))
        astray = abs(aside) <= ASTRAY[0] and turned > ASTRAY[1]
        if (task.joining is None and not astray) or (abs(aside) <= JOINED[0] and turned <= JOINED[1]):
            if task.joining is not None:
                task.joining, task.route = None, None
                self._planner.forget()
            return None
        if task.joining is not None and now - task.routed < s.route_period - 1e-9:
            return task.joining
        # The place to meet it stays until the vehicle is there: a turn to one that moves would begin ever anew.
        if task.joining is None or math.hypot(task.meeting[0] - px, task.meeting[1] - py) < AIM:
            (gx,), (gy,), *_ = (a.tolist() for a in path.at(np.array([task.station + MEETING + abs(aside)])))
            task.meeting, task.route = (gx, gy), None
        task.route = self._guide.route(px, py, yaw, max(vx, 0.0), *task.meeting, self._obstacles.at(now), self.outline.half_width,
                                       s.obstacle_margin, task.route)
        task.routed = now
        self._planner.forget()
        way = task.route.path
        profile = speed_profile(way, np.maximum(self._slower(way, vx), min(task.speed, sight_speed(s, self.outline.front))),
                                s.path_lateral_acceleration, s.path_acceleration, s.path_braking)
        longer, speeds = self._longer(way, np.minimum(profile, stopping_speeds(s, self.outline.front, task.route)))
        task.joining = Reference(longer, speeds, task.speed, free_end=True, slowing=s.path_braking)
        return task.joining

    def _slower(self, path: Path, vx: float) -> np.ndarray:
        """What is allowed along a path to a vehicle that is too fast: it slows down, but not as hard as for an obstacle."""
        return np.sqrt(np.maximum(max(vx - SLOWER, 0.0) ** 2 - 2.0 * self.settings.path_braking * path.s, 0.0))

    def _seen_along(self, now: float, x: float, y: float, yaw: float) -> float:
        """How far along the plan its places are in sight of the sensor, at most as far as that sees [m]."""
        s, plan, place, obstacles = self.settings, self._good, self._planner.place, self._obstacles
        if plan is None or not len(obstacles.radii) or now > plan.times[-2]:
            return s.sight
        px, py, heading = plan.states[plan.times > now][:, [place[name] for name in ("x", "y", "yaw")]].T
        along = np.cumsum(np.hypot(np.diff(px, prepend=x), np.diff(py, prepend=y)))
        sensor, half = self._stops.sensor(x, y, yaw), self.outline.half_width
        centres, out_of_sight = obstacles.centres - sensor, np.zeros(len(px), bool)
        for side in (-half, half):  # both sides of the vehicle have to be in sight, not only its middle
            out_of_sight |= hidden(np.column_stack([px - side * np.sin(heading), py + side * np.cos(heading)]) - sensor, centres,
                                   obstacles.radii)
        return min(s.sight, float(along[int(out_of_sight.argmax())]) if out_of_sight.any() else math.inf)

    def _remaining(self, task: _Task, x: np.ndarray) -> float:
        if task.goal is None:
            assert task.path is not None
            return max(task.path.length - (self._planner.station if task.joining is None else task.station), 0.0)
        place = self._planner.place
        return math.hypot(float(x[place["x"]]) - task.goal.x, float(x[place["y"]]) - task.goal.y)

    def _finish(self, task: _Task, x: np.ndarray) -> None:
        """Marks a task that is done: from then on the vehicle stops where the way goes on."""
        if task.done:
            return
        standing = not task.stop or abs(float(x[self._planner.place["vx"]])) < STANDING
        near = task.goal.tolerance if task.goal is not None else 1.0
        if self._remaining(task, x) <= near and standing:
            task.done = True
            if task.path is not None:
                task.reference = self._along(task)
