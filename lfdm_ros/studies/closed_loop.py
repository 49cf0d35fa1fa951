"""A controller in closed loop with a simulated vehicle, actuator, LIDAR and world, without ROS: what studies and tests run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from lfdm_ros.control.controller import Cycle
from lfdm_ros.control.path import Path
from lfdm_ros.control.prediction import Measured
from lfdm_ros.control.settings import Settings
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import Obstacles, ObstacleTracker
from lfdm_ros.sensors import Lidar, LidarSettings, Scan
from lfdm_ros.simulation import Actuator, Goal, Scenario, Selector, SimulationDiverged, Simulator
from lfdm_ros.vehicles import Footprint, Vehicle

CHUNK = 0.005  # [s] inputs are linear for so long, and so often is looked at what happens
HELD = 0.05  # [m/s] a slower vehicle stands
SPINNING = 3.0  # [m/s] a slower vehicle has no slip angle worth the name
OBSERVED = ("x", "y", "yaw", "vx", "vy", "yaw_rate", "ax", "ay", "roll", "roll_rate", "omega_fl", "omega_fr", "omega_rl", "omega_rr")


@dataclass(frozen=True)
class Plant:
    """The vehicle that is driven, and what lies between it and the controller.

    model, tyre: of the simulated vehicle, larger than the controller's; step: of its integrator [s]; state_age: age of a state when it
    arrives [s]; seed: of the LIDAR's noise. Actuators and outline are the vehicle's.
    """

    model: str = "twenty_four_dof"
    tyre: str | None = "tmeasy"
    step: float = 1e-3
    state_age: float = 0.0
    lidar: LidarSettings | None = field(default_factory=LidarSettings)
    seed: int = 1


class Driver(Protocol):
    """What is asked of `lfdm_ros.control.controller.Controller`, and of what is compared with it."""

    settings: Settings

    def follow(self, path: Path, speed: float | np.ndarray, corridor: np.ndarray | None = None, stop: bool = True) -> None: ...
    def go_to(self, goal: Goal, speed: float) -> None: ...
    def see(self, obstacles: Obstacles) -> None: ...
    def cycle(self, now: float, measured: Measured | None = None) -> Cycle: ...
    def look(self, now: float) -> None: ...


@dataclass(eq=False)
class Run:
    """What happened. Per cycle: times (n,) [s], outputs (n, ny) by output_names, commands (n, 3), seconds (n,) of wall clock. The last
    cycle gave no command if something was hit before it: a vehicle that starts inside an obstacle has one time and no command.

    reached: when the goal or the path's end was [s], nan if never; collisions: names of what was hit; least_clearance [m], inf without
    obstacles; lifted: time for which a wheel or more had no load [s]; least_load: of any wheel, as share of its load at the start;
    diverged: the simulation did; length: way that was driven [m]; largest_error: distance from the path [m], nan without one; outside:
    how far a corner left the corridor [m]; sideslip: largest slip angle of the sprung mass's centre [rad]; blocked, cold_starts: cycles.
    """

    output_names: tuple[str, ...]
    times: np.ndarray
    outputs: np.ndarray
    commands: np.ndarray
    seconds: np.ndarray
    outcomes: Counter[str]
    violated: Counter[str]
    reached: float
    collisions: tuple[str, ...]
    least_clearance: float
    lifted: float
    least_load: float
    diverged: bool
    length: float
    largest_error: float
    outside: float
    sideslip: float
    blocked: int
    cold_starts: int

    def column(self, name: str) -> np.ndarray:
        """One of the outputs over time (n,)."""
        return self.outputs[:, self.output_names.index(name)]


def drive(vehicle: Vehicle, scenario: Scenario, controller: Driver, plant: Plant | None = None,
          on_cycle: Callable[[float, Cycle, Scan | None], None] | None = None, end_when_reached: bool = True,
          patience: float = math.inf) -> Run:
    """Drives a scenario until its task is done, the vehicle has hit something or diverged, or its time is over.

    Before time 0 the vehicle came straight at its speed: so the states are that the controller has until newer ones arrive. A scan
    arrives once its own latency is over and the state of its moment is there.

    Args:
        vehicle: that is simulated, with its actuators and its outline; the controller may know another.
        on_cycle: called after each cycle with its time [s], what it came to and the scan that arrived, if any.
        patience: a vehicle that has stood for so long [s] will not drive on: it ends.

    Raises:
        InputError: the vehicle lacks parameters of the plant's model, or the scenario has no task.
    """
    plant = plant or Plant()
    settings = controller.settings
    simulator = Simulator(vehicle, plant.model, plant.step, plant.tyre)
    start = scenario.initial
    simulator.reset(x=start.x, y=start.y, yaw=start.yaw, vx=start.speed)
    actuator, selector = Actuator.of(vehicle.actuators), Selector()
    lidar = tracker = None
    if plant.lidar is not None and scenario.world.obstacles:
        lidar = Lidar(scenario.world, plant.lidar, plant.seed, vehicle.lidar)
        tracker = ObstacleTracker(mount=vehicle.lidar)
    path = give_task(controller, scenario)
    footprint = vehicle.footprint

    index = simulator.output_index
    place = [index[name] for name in ("x", "y", "yaw")]
    loads = [index[f"tyre_fz_{wheel}"] for wheel in ("fl", "fr", "rl", "rr")]
    observed = [index[name] for name in OBSERVED]
    per_chunk = max(1, round(CHUNK / plant.step))
    chunk = per_chunk * plant.step
    chunks = max(1, round(settings.period / chunk))
    late = round(plant.state_age / chunk)
    scan_every, scan_late = 1, 0
    if plant.lidar is not None:
        scan_every = max(1, round(1.0 / (plant.lidar.rate * settings.period)))
        scan_late = math.ceil(max(plant.lidar.latency, plant.state_age) / settings.period - 1e-9)

    outputs = simulator.outputs.copy()
    static = np.maximum(outputs[loads], 1.0)
    states = [outputs]  # one a chunk
    first = dict(zip(OBSERVED, outputs[observed].tolist()))
    rows, commands, seconds, outcomes, violated = [], [], [], Counter[str](), Counter[str]()
    scans: list[tuple[int, Scan]] = []
    reached, collision, clearance, lifted, error, outside, sideslip = math.nan, "", math.inf, 0.0, 0.0, 0.0, 0.0
    diverged, blocked, cold, least_load, inputs, along, standing = False, 0, 0, 1.0, np.zeros(3), 0.0, 0.0
    fastest = max((math.hypot(o.vx, o.vy) for o in scenario.world.obstacles), default=0.0)
    near_by, reach = (-math.inf if scenario.world.obstacles else math.inf), 0.0
    for k in range(max(1, round(scenario.duration / settings.period))):
        now = k * settings.period
        rows.append(states[-1])
        x, y, yaw = states[-1][place].tolist()
        # Corners move in a period by what the speed says, and some more where it turns. So near is the nearest obstacle by now at least;
        # exact where something could be hit before the next cycle, or come nearer than anything before.
        near_by, reach = near_by - reach, settings.period * (1.5 * math.hypot(*states[-1][observed[3:5]]) + fastest) + 0.5
        if near_by < max(clearance, reach):
            near_by = scenario.world.clearance(now, x, y, yaw, footprint)
            clearance = min(clearance, near_by)
            if near_by <= 0.0:
                collision = scenario.world.nearest(now, x, y, yaw, footprint)
                break
        standing = standing + settings.period if math.hypot(*states[-1][observed[3:5]]) < HELD else 0.0
        if standing > patience:
            break
        if path is not None:
            guess = None if k == 0 else np.array([along])
            (along,), (offset,) = (v.tolist() for v in path.project(np.array([x]), np.array([y]), guess))
            error = max(error, abs(offset))
            outside = max(outside, _outside(scenario, path, along, x, y, yaw, footprint))

        seen = None
        if lidar is not None and tracker is not None:
            if k % scan_every == 0:
                scans.append((k, lidar.scan(now, x, y, yaw)))
            if scans and scans[0][0] + scan_late <= k:
                taken, seen = scans.pop(0)
                tracker.update(seen, *rows[taken][place].tolist())
                controller.see(tracker.obstacles())
        stamp = k * chunks - late
        values = dict(zip(OBSERVED, states[stamp][observed].tolist())) if stamp >= 0 else _before(first, stamp * chunk)
        cycle = controller.cycle(now, Measured(stamp * chunk, values))
        if on_cycle is not None:
            on_cycle(now, cycle, seen)
        commands.append(cycle.command)
        seconds.append(cycle.seconds)
        outcomes[cycle.outcome.name] += 1
        violated.update(cycle.violated)
        blocked, cold = blocked + cycle.blocked, cold + cycle.cold_start
        if cycle.done and math.isnan(reached):
            reached = now
            if end_when_reached:
                break
        actuator.send(now, cycle.command)
        controller.look(now)
        close = near_by < reach  # between cycles only what is near can be hit
        for i in range(chunks):
            before, inputs = inputs, selector.through(actuator.advance(now + (i + 1) * chunk), float(outputs[observed[3]]))
            try:
                simulator.advance(before, inputs, per_chunk)
            except SimulationDiverged:
                diverged = True
                break
            outputs = simulator.outputs.copy()
            states.append(outputs)
            share = outputs[loads] / static
            least_load = min(least_load, float(share.min()))
            lifted += chunk * bool((share <= 0.0).any())
            vx, vy = outputs[observed[3:5]].tolist()
            if math.hypot(vx, vy) > SPINNING:
                sideslip = max(sideslip, abs(math.atan2(vy, vx)))
            if close:
                then, (x, y, yaw) = now + (i + 1) * chunk, outputs[place].tolist()
                between = scenario.world.clearance(then, x, y, yaw, footprint)
                clearance = min(clearance, between)
                if between <= 0.0:
                    collision = scenario.world.nearest(then, x, y, yaw, footprint)
                    break
        if diverged or collision:
            break
    table = np.array(rows)
    way = float(np.hypot(np.diff(table[:, place[0]]), np.diff(table[:, place[1]])).sum())
    return Run(simulator.output_names, settings.period * np.arange(len(rows)), table, np.array(commands, float).reshape(-1, 3),
               np.array(seconds), outcomes, violated, reached, (collision,) if collision else (), clearance, lifted, least_load, diverged,
               way, error if path is not None else math.nan, outside, sideslip, blocked, cold)


def _before(first: dict[str, float], time: float) -> dict[str, float]:
    """The state at a time before 0 [s] of a vehicle that came straight."""
    back = time * first["vx"]
    return {**first, "x": first["x"] + back * math.cos(first["yaw"]), "y": first["y"] + back * math.sin(first["yaw"])}


def give_task(controller: Driver, scenario: Scenario) -> Path | None:
    """Gives the controller the scenario's goal or path; returns the path, if it is one.

    Raises:
        InputError: the scenario has neither.
    """
    speed = scenario.speed if scenario.speed is not None else max(scenario.initial.speed, 5.0)
    if scenario.path is not None:
        path = Path(scenario.path)
        controller.follow(path, speed, scenario.corridor, stop=False)
        return path
    if scenario.goal is None:
        raise InputError(f"scenario {scenario.name} has no goal and no path; it is for a driver who plays its inputs")
    controller.go_to(scenario.goal, speed)
    return None


def _outside(scenario: Scenario, path: Path, along: float, x: float, y: float, yaw: float, footprint: Footprint) -> float:
    """How far a corner is outside of the corridor [m]; 0 inside, or where there is none."""
    if scenario.corridor is None:
        return 0.0
    c, s = math.cos(yaw), math.sin(yaw)
    corners = np.array([(f, w) for f in (footprint.front, -footprint.rear) for w in (footprint.half_width, -footprint.half_width)])
    px, py = x + c * corners[:, 0] - s * corners[:, 1], y + s * corners[:, 0] + c * corners[:, 1]
    at, offset = path.project(px, py, along + corners[:, 0])
    rows = scenario.corridor
    inside = (at >= rows[0, 0]) & (at <= rows[-1, 0])
    left, right = np.interp(at, rows[:, 0], rows[:, 1]), np.interp(at, rows[:, 0], rows[:, 2])
    return float(np.max(np.where(inside, np.maximum(offset - left, -right - offset), 0.0), initial=0.0))
