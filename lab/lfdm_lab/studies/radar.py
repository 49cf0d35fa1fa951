"""Study of the benefit of a radar beside the LIDAR: crossing obstacles in closed loop, in the open and from behind a parked van."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lfdm_lab.studies import STUDIES, grouped
from lfdm_lab.studies.driving import CACHE_DEPENDENCIES as DRIVING
from lfdm_lab.studies.driving import make_driver
from lfdm_ros.cache_key import cache_key
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.closed_loop import PlantSettings, drive
from lfdm_ros.engine.run_report import summarise_run
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.reports import NamedValue, Table, draw_values
from lfdm_ros.sensors import RadarSettings
from lfdm_ros.simulation import Scenario
from lfdm_ros.simulation.courses import moving_obstacle
from lfdm_ros.simulation.world import Circle, Goal, Polygon, Pose, World
from lfdm_ros.vehicles import load_vehicle

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CACHE_DEPENDENCIES = (*DRIVING, f"{STUDIES}/radar")
SPEEDS = {"open": (2.0, 5.0, 8.0, 11.0), "cyclist": (4.0, 8.0), "car": (4.0, 8.0, 12.0)}  # [m/s] of the crossing obstacle
SENSORS = ("lidar", "lidar + radar")
MAX_VELOCITY_ERROR = 1.0  # [m/s] of a velocity that counts as known


@dataclass(frozen=True)
class Meeting:
    """A run: place and speed [m/s] of the crossing, sensors, and the seed of noise and time of the crossing."""

    place: str
    speed: float
    sensors: str
    seed: int
    vehicle: str = "hmmwv"


def meetings(seeds: int, vehicle: str = "hmmwv") -> list[Meeting]:
    """Returns all places, speeds and sensors on the same seeds."""
    return [Meeting(place, speed, sensors, seed, vehicle) for place, speeds in SPEEDS.items() for speed in speeds for sensors in SENSORS
            for seed in range(1, seeds + 1)]


def scenario(meeting: Meeting) -> Scenario:
    """Creates the scenario; the first obstacle is the crossing one.

    open: as the course moving_obstacle. cyclist, car: past a van parked on the left at 12 and 16 m/s; they emerge in front of it, on
    collision course with a vehicle that drives straight on.
    """
    early = float(np.random.default_rng(meeting.seed).uniform(-0.4, 0.4))  # [s]
    if meeting.place == "open":
        course = moving_obstacle(10.0, crossing_speed=meeting.speed)
        crossing, oncoming = course.obstacles
        assert isinstance(crossing, Circle)
        crossing = Circle(crossing.x, crossing.y - early * meeting.speed, crossing.radius, vy=crossing.vy, name="crossing")
        return Scenario("open", course.initial, None, course.duration, World((crossing, oncoming)), course.goal, speed=course.speed)
    speed = 12.0 if meeting.place == "cyclist" else 16.0
    x = 4.0 * speed + 8.5
    y = meeting.speed * (x / speed - early)
    van = box(x - 8.5, x - 2.5, 2.2, 4.2, name="van", kind="van")
    crossing = (Circle(x, y, 0.5, vy=-meeting.speed, name="cyclist", kind="cyclist") if meeting.place == "cyclist"
                else box(x - 0.9, x + 0.9, y, y + 4.4, vy=-meeting.speed, name="car", kind="car"))
    return Scenario(meeting.place, Pose(speed=speed), None, 40.0, World((crossing, van)), Goal(x + 60.0, 0.0), speed=speed)


def box(x0: float, x1: float, y0: float, y1: float, **others: Any) -> Polygon:
    """Returns a rectangle along the axes [m]."""
    return Polygon(np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]), **others)


class _ObservedController:
    """A controller; records the times of the first detection of the crossing obstacle, and of the first one with a known velocity."""

    def __init__(self, controller: Any, crossing: Circle | Polygon) -> None:
        self._controller, self._velocity = controller, np.array([crossing.vx, crossing.vy])
        if isinstance(crossing, Circle):
            self._middle, self._size = np.array([crossing.x, crossing.y]), crossing.radius
        else:
            self._middle, self._size = crossing.vertices.mean(axis=0), 2.4
        self.now, self.detected, self.known = 0.0, math.nan, math.nan

    def __getattr__(self, name: str) -> Any:
        return getattr(self._controller, name)

    def cycle(self, now: float, measured: Any = None) -> Any:
        self.now = now
        return self._controller.cycle(now, measured)

    def update_obstacles(self, obstacles: Obstacles) -> None:
        self._controller.update_obstacles(obstacles)
        position = self._middle + obstacles.time * self._velocity
        near = np.hypot(*(obstacles.centres - position).T) < self._size + 0.5
        if near.any():
            self.detected = self.now if math.isnan(self.detected) else self.detected
            if math.isnan(self.known) and (np.hypot(*(obstacles.velocities[near] - self._velocity).T) < MAX_VELOCITY_ERROR).any():
                self.known = self.now


def work(meeting: Meeting) -> dict[str, Any]:
    """Drives a meeting; returns the result as JSON. Raises InputError: unknown vehicle."""
    vehicle, task = load_vehicle(meeting.vehicle), scenario(meeting)
    plant = PlantSettings.of(vehicle, seed=meeting.seed, radar=RadarSettings() if "radar" in meeting.sensors else None)
    controller = _ObservedController(make_driver("mpc", vehicle, Settings(time_budget=0.0), plant.tyre), task.world.obstacles[0])
    result = summarise_run(task, drive(vehicle, task, controller, plant, patience=8.0))
    return {**asdict(meeting), **result, "until_known": None if math.isnan(controller.known) else controller.known - controller.detected}


def key(meeting: Meeting) -> str:
    """Hashes all that a result depends on."""
    return cache_key({"meeting": asdict(meeting), "vehicle": load_vehicle(meeting.vehicle).identity}, CACHE_DEPENDENCIES)


def table(runs: Sequence[dict[str, Any]]) -> Table:
    """Returns one row for each place, speed and sensors."""
    heads = ["place", "speed [m/s]", "sensors", "runs", "collisions", "velocity known after [s], median (worst)",
             "least clearance [m], median (worst)", "time to the goal [s]"]
    rows = []
    for (place, speed, sensors), group in grouped(runs, "place", "speed", "sensors").items():
        known = [math.inf if run["until_known"] is None else run["until_known"] for run in group]
        clear = [run["least_clearance"] for run in group]
        times = [run["reached"] for run in group if run["reached"] is not None]
        rows.append([place, f"{speed:g}", sensors, str(len(group)), str(sum(bool(run["collision"]) for run in group)),
                     f"{np.median(known):.2f} ({max(known):.2f})", f"{np.median(clear):.2f} ({min(clear):.2f})",
                     f"{np.median(times):.1f}" if times else "-"])
    return heads, rows


def draw(runs: Sequence[dict[str, Any]]) -> Figure:
    """Draws the medians and ranges of `table`, without velocities that stayed unknown."""
    panels = []
    for label, key in (("velocity known after [s]", "until_known"), ("least clearance [m]", "least_clearance")):
        found = {name: [run[key] for run in group if run[key] is not None]
                 for name, group in grouped(runs, "place", "speed", "sensors").items()}
        values = [NamedValue(f"{place}, {speed:g} m/s, {sensors}", float(np.median(group)), min(group), max(group))
                  for (place, speed, sensors), group in found.items() if group]
        panels.append((f"{label}, median and range", values))
    return draw_values(panels)
