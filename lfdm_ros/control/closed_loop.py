"""A controller in closed loop with a simulated vehicle, actuator, LIDAR and world, without ROS: what studies and tests run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from lfdm_ros.control.controller import Controller, Cycle
from lfdm_ros.control.obstacles import ObstacleTracker, TrackerSettings
from lfdm_ros.control.path import Path
from lfdm_ros.control.prediction import Measured
from lfdm_ros.sensors import Lidar, LidarSettings, Scan
from lfdm_ros.simulation import Actuator, Footprint, Scenario, SimulationDiverged, Simulator
from lfdm_ros.vehicles import Vehicle

CHUNK = 0.005  # [s] inputs are constant for so long
OBSERVED = ("x", "y", "yaw", "vx", "vy", "yaw_rate", "ax", "ay", "roll", "roll_rate", "omega_fl", "omega_fr", "omega_rl", "omega_rr")


@dataclass(frozen=True)
class Plant:
    """The vehicle that is driven, and what lies between it and the controller.

    model, tyre: of the simulated vehicle, larger than the controller's; step: of its integrator [s]; delay [s], steering_lag [s] and the
    rates [1/s] of the actuator; state_age: age of a state when it arrives [s].
    """

    model: str = "twenty_four_dof"
    tyre: str | None = "tmeasy"
    step: float = 1e-3
    delay: float = 0.0
    steering_lag: float = 0.0
    steering_rate: float = 0.8
    state_age: float = 0.0
    lidar: LidarSettings | None = field(default_factory=LidarSettings)
    seed: int = 1


@dataclass(eq=False)
class Run:
    """What happened. Per cycle: times (n,) [s], outputs (n, ny) by output_names, commands (n, 3), seconds (n,) of wall clock.

    reached: when the goal or the path's end was [s], nan if never; stopped: the vehicle stands at the end; collisions: names of what was
    hit; least_clearance [m]; lifted: times [s] at which wheels had no load; least_load: of any wheel, as share of its load at the start; diverged: the
    simulation did; length: way that was driven [m]; largest_error: from the path [m], nan without one.
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

    def column(self, name: str) -> np.ndarray:
        """One of the outputs over time (n,)."""
        return self.outputs[:, self.output_names.index(name)]


def drive(vehicle: Vehicle, scenario: Scenario, controller: Controller, plant: Plant | None = None,
          on_cycle: Callable[[float, Cycle, Scan | None], None] | None = None, end_when_reached: bool = True) -> Run:
    """Drives a scenario until its task is done, the vehicle has hit something or diverged, or its time is over.

    Args:
        vehicle: that is simulated.
        on_cycle: called after each cycle with its time [s], what it came to and the scan that arrived, if any.

    Raises:
        InputError: the vehicle lacks parameters of the plant's model, or the scenario has no task.
    """
    plant = plant or Plant()
    settings = controller.settings
    simulator = Simulator(vehicle, plant.model, plant.step, plant.tyre)
    start = scenario.initial
    simulator.reset(x=start.x, y=start.y, yaw=start.yaw, vx=start.speed)
    actuator = Actuator(plant.delay, plant.steering_lag, plant.steering_rate)
    lidar = tracker = None
    if plant.lidar is not None and scenario.world.obstacles:
        lidar = Lidar(scenario.world, plant.lidar, plant.seed)
        tracker = ObstacleTracker(TrackerSettings(mount_x=plant.lidar.mount_x, mount_y=plant.lidar.mount_y,
                                                  mount_yaw=plant.lidar.mount_yaw))
    path = give_task(controller, scenario)
    footprint = Footprint(settings.vehicle_front, settings.vehicle_rear, 0.5 * settings.vehicle_width)

    index = simulator.output_index
    loads = [index[f"tyre_fz_{wheel}"] for wheel in ("fl", "fr", "rl", "rr")]
    observed = [index[name] for name in OBSERVED]
    per_chunk = max(1, round(CHUNK / plant.step))
    chunks = max(1, round(settings.period / (per_chunk * plant.step)))
    scan_every = max(1, round(1.0 / (plant.lidar.rate * settings.period))) if plant.lidar is not None else 1
    late = round(plant.state_age / settings.period)
    scan_late = max(round(plant.lidar.latency / settings.period), 0) if plant.lidar is not None else 0

    rows, commands, seconds, outcomes, violated = [], [], [], Counter[str](), Counter[str]()
    scans: list[tuple[int, Scan]] = []
    reached, collisions, clearance, lifted, error, outside, diverged = math.nan, "", math.inf, 0.0, 0.0, 0.0, False
    static, least_load, inputs, along = None, math.inf, np.zeros(3), 0.0
    cycles = int(round(scenario.duration / settings.period))
    for k in range(cycles):
        now = k * settings.period
        out = simulator.outputs.copy()
        rows.append(out)
        x, y, yaw = (float(out[index[name]]) for name in ("x", "y", "yaw"))
        if scenario.world.obstacles:
            clearance = min(clearance, scenario.world.clearance(now, x, y, yaw, footprint))
            if clearance <= 0.0:
                collisions = scenario.world.nearest(now, x, y, yaw, footprint) or "obstacle"
                break
        if path is not None:
            near = None if k == 0 else np.array([along])
            (along,), (offset,) = (v.tolist() for v in path.project(np.array([x]), np.array([y]), near))
            error = max(error, abs(offset))
            outside = max(outside, _outside(scenario, path, along, x, y, yaw, footprint))

        seen = None
        if lidar is not None and tracker is not None:
            if k % scan_every == 0:
                scans.append((k + scan_late, lidar.scan(now, x, y, yaw)))
            if scans and scans[0][0] <= k:
                taken, seen = k - scan_late, scans.pop(0)[1]
                tracker.update(seen, *(float(rows[taken][index[name]]) for name in ("x", "y", "yaw")))
                controller.see(tracker.obstacles())
        measured = None
        if k >= late:
            values = rows[k - late]
            measured = Measured((k - late) * settings.period, dict(zip(OBSERVED, values[observed].tolist())))
        cycle = controller.cycle(now, measured)
        if on_cycle is not None:
            on_cycle(now, cycle, seen)
        commands.append(cycle.command)
        seconds.append(cycle.seconds)
        outcomes[cycle.outcome.name] += 1
        violated.update(cycle.violated)
        if cycle.done and math.isnan(reached):
            reached = now
            if end_when_reached:
                break
        actuator.send(now, cycle.command)
        controller.look(now)
        try:
            for i in range(chunks):
                before, inputs = inputs, np.asarray(actuator.advance(now + (i + 1) * per_chunk * plant.step))
                simulator.advance(before, inputs, per_chunk)
                if i % 2 == 1 or chunks == 1:
                    fz = simulator.outputs[loads]
                    if static is None:
                        static = np.where(fz > 0.0, fz, 1.0)
                    least_load = min(least_load, float((fz / static).min()))
                    lifted += 2.0 * per_chunk * plant.step * bool((fz <= 0.0).any())
        except SimulationDiverged:
            diverged = True
            break
    outputs = np.array(rows)
    way = float(np.hypot(np.diff(outputs[:, index["x"]]), np.diff(outputs[:, index["y"]])).sum())
    return Run(simulator.output_names, settings.period * np.arange(len(rows)), outputs, np.array(commands), np.array(seconds), outcomes,
               violated, reached, (collisions,) if collisions else (), clearance, lifted, least_load, diverged, way,
               error if path is not None else math.nan, outside)


def give_task(controller: Controller, scenario: Scenario) -> Path | None:
    """Gives the controller the scenario's goal or path; returns the path, if it is one.

    Raises:
        InputError: the scenario has neither.
    """
    from lfdm_ros.errors import InputError
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
