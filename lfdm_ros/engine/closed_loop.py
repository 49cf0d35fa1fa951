"""Closed loop of a controller with a simulated vehicle, actuator, LIDAR, radar and world, without ROS, for studies and tests."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lfdm_ros.control.cycle import Cycle, Driver
from lfdm_ros.control.limits import largest_model
from lfdm_ros.control.prediction import Measured
from lfdm_ros.engine.run_monitor import RunMonitor
from lfdm_ros.errors import InputError, prefixing
from lfdm_ros.models import SLOTS, chassis_slots
from lfdm_ros.models.spinning import sideslip
from lfdm_ros.perception.rear_view import TwoLidars, tracker_of
from lfdm_ros.perception.tracker import TrackerSettings
from lfdm_ros.plants.plant import AnySimulator, steps_of_chunk
from lfdm_ros.plants.plant_file import open_plant
from lfdm_ros.sensors import Lidar, LidarSettings, Radar, RadarSettings, Scan, SensorScene, VehicleView, find_sensor
from lfdm_ros.simulation import Actuator, Scenario, Selector, SimulationDiverged, Simulator, World
from lfdm_ros.simulation.path import Path
from lfdm_ros.vehicles import Vehicle

Motion = tuple[float, float, float]
STANDSTILL_SPEED = 0.05  # [m/s] a slower vehicle stands
MIN_PATH_LENGTH = 0.5  # [m] of a path that a vehicle has before it at the start
OBSERVED = ("x", "y", "yaw", "vx", "vy", "yaw_rate", "ax", "ay", "roll", "roll_rate")  # and the wheels' spins


@dataclass(frozen=True)
class PlantSettings:
    """Settings of the simulated vehicle, and of the sensors and delay between it and the controller.

    model, tyre: of the simulated vehicle, larger than the controller's; step: of its integrator [s]; plant: an external plant in their
    place, as for `open_plant`; state_age: age of a state at its arrival [s]; radar: beside the LIDAR, None: there is none; rear_lidar:
    name of a second LIDAR in the vehicle's file, empty: none; seed: of the sensors' noise. Actuators and outline are the vehicle's.
    """

    model: str = "twenty_four_dof"
    tyre: str | None = "tmeasy"
    step: float = 1e-3
    plant: str = ""
    state_age: float = 0.0
    lidar: LidarSettings | None = field(default_factory=LidarSettings)
    radar: RadarSettings | None = None
    rear_lidar: str = ""
    tracker: TrackerSettings = field(default_factory=TrackerSettings)
    seed: int = 1

    @classmethod
    def of(cls, vehicle: Vehicle, model: str | None = None, tyre: str | None = None, **others: Any) -> PlantSettings:
        """Returns settings for a vehicle: its largest model on TMeasy tyres where it has them, on its own otherwise, or those given. Raises
        InputError: the vehicle fits no model that has a load of each wheel."""
        chassis, *parts = (model or "").split("/")
        has_choice = not model or ("tyre" in chassis_slots(chassis) and not set(parts) & SLOTS["tyre"].keys())
        if tyre is None and has_choice and "tmeasy" in vehicle.parts("tyre"):
            tyre = "tmeasy"
        return cls(model or largest_model(vehicle, tyre=tyre).name.split("/")[0], tyre, **others)


@dataclass(eq=False)
class Run:
    """Record of a run. Per cycle: times (n,) [s], outputs (n, ny) by output_names, commands (n, 3), seconds (n,) of wall-clock time. The
    last cycle has no command after a collision before it: a vehicle that starts inside an obstacle has one time and no command.

    reached: time at the goal or the path's end [s], nan if never; collisions: names of obstacles hit; least_clearance [m], inf without
    obstacles; lifted: time with one wheel or more without load [s]; least_load: of any wheel, as share of its load at the start;
    diverged: the simulation did, why: how; length: distance driven [m]; largest_error: distance from the path [m], nan without one;
    outside: largest distance of a corner out of the corridor [m]; sideslip: largest of the sprung mass's centre [rad], as in
    `models.spinning`; blocked, cold_starts: cycles; model: of the simulated vehicle. Figures that a plant does not give are nan.
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
    why: str = ""
    model: Any = None

    def column(self, name: str) -> np.ndarray:
        """Returns one of the outputs over time (n,)."""
        return self.outputs[:, self.output_names.index(name)]


def drive(vehicle: Vehicle, scenario: Scenario, controller: Driver, plant: PlantSettings | None = None,
          on_cycle: Callable[[float, Cycle, Scan | None], None] | None = None, end_when_reached: bool = True,
          patience: float = math.inf) -> Run:
    """Drives a scenario until its task is done, the vehicle collides or diverges, or its time is over.

    Args:
        vehicle: the simulated one, with its actuators and its outline; the controller may assume another.
        on_cycle: called after each cycle with its time [s], its result and the scan that arrived, if any.
        patience: time at standstill [s] after which the run ends.

    Raises:
        InputError: the vehicle lacks parameters of the plant's model, or a plant of others cannot begin; the scenario has no task.
    """
    plant = plant or PlantSettings()
    period = controller.settings.period
    first = round(scenario.observation_time / period)
    origin, world = first * period, scenario.world.delayed(first * period)  # the clock runs before the vehicle starts
    driven = _Driven(vehicle, scenario, plant, period, first)
    sensor = None if plant.lidar is None or not world.obstacles else _ScanFeed(world, plant, plant.lidar, vehicle, period)
    path = give_task(controller, scenario)
    monitor = RunMonitor(world, vehicle.footprint, driven.index, path, scenario.corridor)
    observer = _Observer(monitor, world, driven, period)
    if sensor is not None and first:
        vx, _ = driven.speeds()
        for k in range(first):
            x, y, yaw = driven.outputs[driven.place].tolist()
            back = (k - first) * period * vx
            sensor.scan(k, k * period, np.array([x + back * math.cos(yaw), y + back * math.sin(yaw), yaw]), driven.outputs[driven.velocity])
        controller.update_obstacles(sensor.tracker.obstacles())
    rows, commands, seconds, outcomes, violated = [], [], [], Counter[str](), Counter[str]()
    reached, diverged, why, blocked, cold = math.nan, False, "", 0, 0
    for k in range(first, first + max(1, round(scenario.duration / period))):
        now = k * period
        rows.append(driven.outputs)
        if observer.check_cycle(now) or observer.standing > patience:
            break
        monitor.check_path(driven.outputs)
        if math.isnan(reached) and scenario.arrived(now - origin, driven.outputs[driven.place], driven.speeds()[0]):
            reached = now - origin
            if end_when_reached:
                break
        measured_scan = None
        if sensor is not None:
            before = sensor.tracker.obstacles()
            measured_scan = sensor.scan(k, now, driven.outputs[driven.place], driven.outputs[driven.velocity])
            if sensor.tracker.obstacles() is not before:
                controller.update_obstacles(sensor.tracker.obstacles())
        cycle = controller.cycle(now, driven.measured(k))
        if on_cycle is not None:
            on_cycle(now - origin, cycle, measured_scan)
        commands.append(cycle.command)
        seconds.append(cycle.seconds)
        outcomes[cycle.outcome.name] += 1
        violated.update(cycle.violated)
        blocked, cold = blocked + cycle.blocked, cold + cycle.cold_start
        if cycle.done and not scenario.goal_states and math.isnan(reached):
            reached = now - origin
            if end_when_reached:
                break
        driven.actuator.send(now, cycle.command)
        controller.poll(now)
        try:
            if any(observer.check_chunk(time) for time in driven.advance(now)):
                break
        except SimulationDiverged as error:
            diverged, why = True, str(error)
            break
    table, o, verdict = np.array(rows), observer, monitor.verdict
    distance = float(np.hypot(*np.diff(table[:, driven.place[:2]], axis=0).T).sum())
    return Run(driven.simulator.output_names, period * np.arange(len(rows)), table, np.array(commands, float).reshape(-1, 3),
               np.array(seconds), outcomes, violated, reached, (verdict.first_collision,) if verdict.collisions else (),
               verdict.least_clearance, o.lifted, o.least_load, diverged, distance, monitor.path_error if path is not None else math.nan,
               monitor.excursion, o.sideslip, blocked, cold, why, driven.simulator.model)


class _Driven:
    """The simulated vehicle behind its actuators, with its past states, as they arrive late. outputs: the present ones."""

    def __init__(self, vehicle: Vehicle, scenario: Scenario, plant: PlantSettings, period: float, first: int = 0) -> None:
        self.simulator: AnySimulator = open_plant(plant.plant, vehicle) if plant.plant else Simulator(
            vehicle, plant.model, plant.step, plant.tyre)
        start = scenario.initial
        self.simulator.reset(x=start.x, y=start.y, yaw=start.yaw, vx=start.speed)
        self.actuator, self._selector, self._inputs = Actuator.of(vehicle.actuators), Selector(), np.zeros(3)
        self.index = self.simulator.output_index
        self.place = [self.index[name] for name in ("x", "y", "yaw")]
        # A state that the model lacks is not measured: a bicycle's wheels, which do not turn, are not locked.
        model = self.simulator.model
        self._names = [name for name in (*OBSERVED, *(f"omega_{wheel}" for wheel in model.reported)) if name in model.computed_outputs]
        self._observed, self.velocity = ([self.index[name] for name in names] for names in (self._names, ("vx", "vy", "yaw_rate")))
        step = self.simulator.dt
        with prefixing(plant.plant):
            self._steps = steps_of_chunk(step, period if plant.plant else None)
        self.chunk = self._steps * step
        self._chunks = max(1, round(period / self.chunk))
        self._late = round(plant.state_age / self.chunk)
        self.outputs = self.simulator.outputs.copy()
        self._states, self._first = [self.outputs], first * self._chunks  # one a chunk, from cycle `first` on

    def speeds(self) -> tuple[float, float]:
        """Returns vx and vy [m/s]."""
        vx, vy, _ = self.outputs[self.velocity].tolist()
        return vx, vy

    def measured(self, k: int) -> Measured:
        """Returns the state that arrives in cycle k. Before it starts the vehicle drove straight."""
        stamp = k * self._chunks - self._late
        since = stamp - self._first
        values = dict(zip(self._names, self._states[max(since, 0)][self._observed].tolist()))
        if since < 0:
            back = since * self.chunk * values["vx"]
            values |= {"x": values["x"] + back * math.cos(values["yaw"]), "y": values["y"] + back * math.sin(values["yaw"])}
        return Measured(stamp * self.chunk, values)

    def advance(self, now: float) -> Iterator[float]:
        """Advances by a period from `now` [s]; yields the time after each chunk. Raises SimulationDiverged."""
        for i in range(self._chunks):
            time = now + (i + 1) * self.chunk
            before, self._inputs = self._inputs, self._selector.through(self.actuator.advance(time), self.speeds()[0])
            self.simulator.advance(before, self._inputs, self._steps)
            self.outputs = self.simulator.outputs.copy()
            self._states.append(self.outputs)
            yield time


class _ScanFeed:
    """LIDARs, radar and tracker. A measurement arrives once its latency is over and the state of the same time is there."""

    def __init__(self, world: World, plant: PlantSettings, settings: LidarSettings, vehicle: Vehicle, period: float) -> None:
        around = SensorScene(world)
        rear = find_sensor(vehicle, plant.rear_lidar, Lidar, "rear LIDAR", around) if plant.rear_lidar else None
        self.tracker, self._mount = tracker_of(plant.tracker.on(vehicle), vehicle.lidar, rear=rear), vehicle.lidar
        self._sensors: list[Lidar | Radar] = [Lidar(world, settings.on(vehicle), plant.seed, vehicle.lidar)]
        if plant.radar is not None:
            self._sensors.append(Radar(plant.radar, vehicle.lidar, around, plant.seed))
        if rear is not None:
            self._sensors.append(Lidar(world, rear.settings, rear.seed + plant.seed, rear.mount))
        self._every = [max(1, round(1.0 / (sensor.rate * period))) for sensor in self._sensors]
        self._late = [math.ceil(max(sensor.latency, plant.state_age) / period - 1e-9) for sensor in self._sensors]
        self._taken: list[deque[tuple[int, Any, Motion, Motion]]] = [deque() for _ in self._sensors]

    def scan(self, k: int, now: float, pose: np.ndarray, velocity: np.ndarray) -> Scan | None:
        """Measures where it is due, at a pose x, y [m], yaw [rad] and a velocity vx, vy [m/s], yaw rate [rad/s]; returns the first LIDAR's
        scan that arrives in cycle k, if any."""
        newest = None
        for sensor, every, late, taken in zip(self._sensors, self._every, self._late, self._taken):
            if k % every == 0:
                x, y, yaw = pose.tolist()
                vx, vy, rate = velocity.tolist()
                view = VehicleView(now, x, y, yaw, outputs={"vx": vx, "vy": vy, "yaw_rate": rate})
                taken.append((k, sensor.measure(view), (x, y, yaw), (vx, vy, rate)))
            if taken and taken[0][0] + late <= k:
                _, measured, there, moved = taken.popleft()
                if isinstance(sensor, Radar):
                    self.tracker.add_radar(measured, self._mount, there, moved)
                elif sensor is self._sensors[0]:
                    newest = measured
                    self.tracker.update(measured, *there)
                elif isinstance(self.tracker, TwoLidars):
                    self.tracker.rear.update(measured, *there)
        return newest


class _Observer:
    """Loads, sideslip and standing time of the vehicle (see `Run`), and the times at which a `RunMonitor` must check for contact."""

    def __init__(self, monitor: RunMonitor, world: World, driven: _Driven, period: float) -> None:
        self._monitor, self._driven, self._period = monitor, driven, period
        self._loads = [driven.index[f"tyre_fz_{wheel}"] for wheel in ("fl", "fr", "rl", "rr")]
        self._static = np.maximum(driven.outputs[self._loads], 1.0)
        self._fastest = world.fastest
        self._near_by, self._reach = (-math.inf if world.obstacles else math.inf), 0.0
        self.lifted, self.sideslip, self.standing = 0.0, 0.0, 0.0
        self.least_load = 1.0 if np.isfinite(self._static).all() else math.nan  # which minima keep

    def check_cycle(self, now: float) -> bool:
        """Checks for contact at the start of a cycle."""
        speed = math.hypot(*self._driven.speeds())
        # Corners move by the speed in a period, and more in a turn: a lower bound of the clearance. It is computed exactly where contact
        # is possible before the next cycle, or the least clearance may fall.
        self._near_by, self._reach = self._near_by - self._reach, self._period * (1.5 * speed + self._fastest) + 0.5
        if self._near_by < max(self._monitor.verdict.least_clearance, self._reach):
            self._near_by = self._monitor.check_contact(now, self._driven.outputs)
        self.standing = self.standing + self._period if speed < STANDSTILL_SPEED else 0.0
        return self._monitor.verdict.collisions > 0

    def check_chunk(self, time: float) -> bool:
        """Checks for contact and lift after a chunk."""
        outputs = self._driven.outputs
        self.least_load = min(self.least_load, float((outputs[self._loads] / self._static).min()))
        self.lifted += self._driven.chunk * bool(self._monitor.check_lift(time, outputs))
        self.sideslip = max(self.sideslip, sideslip(*self._driven.speeds()))
        if self._near_by < self._reach:  # between cycles only a near obstacle can be hit
            self._monitor.check_contact(time, outputs)
        return self._monitor.verdict.collisions > 0


def give_task(controller: Driver, scenario: Scenario) -> Path | None:
    """Gives the controller the scenario's goal or path; returns the path, if it is one. Raises InputError: the scenario has neither, or
    begins where its path ends."""
    speed = scenario.speed if scenario.speed is not None else max(scenario.initial.speed, 5.0)
    if scenario.path is not None:
        path, start = Path(scenario.path), scenario.initial
        (s,), _ = path.project(np.array([start.x]), np.array([start.y]))
        if s > path.length - MIN_PATH_LENGTH:
            raise InputError(f"scenario {scenario.name}: the vehicle begins at ({start.x:g}, {start.y:g}), where its path ends; turn the "
                             "path's points round, or give another initial place")
        controller.follow(path, speed, scenario.corridor, stop=bool(scenario.goal_states), hidden_speed=scenario.hidden_speed)
        return path
    if scenario.goal is None:
        raise InputError(f"scenario {scenario.name} has no goal and no path; it is for a driver who plays its inputs")
    controller.go_to(scenario.goal, speed)
    return None
