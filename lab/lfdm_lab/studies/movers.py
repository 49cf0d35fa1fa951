"""Study of the autonomy among moving and occluded obstacles, compared with an automatic emergency brake on the same obstacles.

Fourteen scenarios, or scenario files (YAML, CommonRoad), on the 18-DOF chassis with LIDAR only. All drivers get the same scene and noise
for a seed. The clairvoyant bound knows all motions from the first possible LIDAR return on, and brakes fully then or later.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from lfdm_lab.studies import STUDIES
from lfdm_lab.studies.driving import CACHE_DEPENDENCIES as DRIVING
from lfdm_lab.studies.driving import DOES_NOT_ARRIVE, failure, make_driver
from lfdm_lab.studies.radar import box
from lfdm_ros.cache_key import cache_key
from lfdm_ros.control.cycle import Cycle, CycleOutcome, Driver
from lfdm_ros.control.prediction import Measured
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.closed_loop import PlantSettings, Run, drive
from lfdm_ros.engine.run_report import summarise_run
from lfdm_ros.errors import InputError, suggest
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.perception.obstacles import NO_OBSTACLES, Obstacles
from lfdm_ros.reports import Table
from lfdm_ros.sensors import Lidar, LidarSettings, VehicleView
from lfdm_ros.simulation import Goal, Scenario, load_scenario
from lfdm_ros.simulation.courses import curve
from lfdm_ros.simulation.path import Path
from lfdm_ros.simulation.scenario import HIDDEN_TRAFFIC
from lfdm_ros.simulation.world import Circle, MotionStep, Polygon, Pose, World, contains
from lfdm_ros.vehicles import Vehicle, load_vehicle

CHASSIS, VEHICLE = "eighteen_dof", "hmmwv"
CACHE_DEPENDENCIES = (*DRIVING, f"{STUDIES}/radar", f"{STUDIES}/movers")
DRIVERS = AUTONOMY, TRUSTING, BRAKE = "autonomy", "trusting", "brake"
STANDSTILL_TIMEOUT = 8.0  # [s] at standstill after which a run ends
HALF_LANE, ROAD_LENGTH = 1.75, 140.0  # [m] half the width of a lane, length of a straight road
FAR_EDGE = 3.5 + HALF_LANE  # [m] from the lane's centre line to the far edge of the adjacent lane
BRAKE_SHARE = 0.5  # of full braking: above it the rear wheels lock
TIME_AFTER_CONTACT = 20.0  # [s] after the avoided contact in which the clairvoyant driver must not be hit either
IMPACT_TOLERANCE = 1.0  # [m/s] smaller differences of impact speeds count as equal
ROOM, GAINS = 0.5, 4.0  # [m] to keep from traffic in a goal, [m/s^2] acceleration to be there in time
CAR_SIZE = (4.4, 1.8)  # [m] length and width

Obstacle = Circle | Polygon


def _straight(name: str, speed: float, obstacles: Sequence[Obstacle], left: float = HALF_LANE, right: float = HALF_LANE) -> Scenario:
    """Returns a straight road along x; left, right: corridor on either side of the centre line [m]."""
    path = np.column_stack([np.linspace(0.0, ROAD_LENGTH, 281), np.zeros(281)])
    corridor = np.array([[0.0, left, right], [ROAD_LENGTH, left, right]])
    return Scenario(name, Pose(speed=speed), None, ROAD_LENGTH / speed + 25.0, World(tuple(obstacles)), None, path, speed, corridor)


def _car(x: float, y: float, lengthwise: bool, **others: Any) -> Polygon:
    """Returns a car by its centre [m]."""
    long, wide = CAR_SIZE if lengthwise else CAR_SIZE[::-1]
    return box(x - 0.5 * long, x + 0.5 * long, y - 0.5 * wide, y + 0.5 * wide, kind="car", **others)


def _arrival_time(x: float, speed: float) -> float:
    """Returns the time [s] at which the vehicle's front reaches x [m] at constant `speed` [m/s]."""
    return (x - load_vehicle(VEHICLE).footprint.front) / speed


def _encounter(x: float, y: float, speed: float, kind: str, front: float, vx: float = 0.0, vy: float = 0.0) -> Obstacle:
    """Returns an obstacle whose centre is at (x, y) [m] when the vehicle's front, at constant `speed` [m/s], has reached `front` [m]."""
    time = _arrival_time(front, speed)
    x, y = x - time * vx, y - time * vy
    if kind == "car":
        return _car(x, y, abs(vx) > abs(vy), vx=vx, vy=vy, name=kind)
    return Circle(x, y, 0.3, vx=vx, vy=vy, name=kind, kind=kind)


def pedestrian_van(rng: np.random.Generator) -> Scenario:
    """Has a pedestrian walk out between a hedge and a van parked on the right."""
    speed, x = rng.uniform(8.0, 10.0), 50.5 + rng.uniform(0.2, 0.8)
    pedestrian = _encounter(x, rng.uniform(-1.0, 0.8), speed, "pedestrian", x - 0.3, vy=rng.uniform(1.2, 1.9))
    hidden_by = [box(44.5, 50.0, -4.0, -1.9, name="van", kind="van"), box(20.0, 80.0, -5.0, -4.4, name="hedge", kind="wall")]
    return _straight("pedestrian_van", speed, [pedestrian, *hidden_by], FAR_EDGE)


def pedestrian_late(rng: np.random.Generator) -> Scenario:
    """Has a visible pedestrian step into the lane when the vehicle is near."""
    speed, x = rng.uniform(11.0, 13.0), rng.uniform(60.0, 70.0)
    pedestrian = _encounter(x, rng.uniform(-1.2, 0.5), speed, "pedestrian", x - 0.3, vy=rng.uniform(1.2, 2.0))
    return _straight("pedestrian_late", speed, [pedestrian], FAR_EDGE)


def crossing(rng: np.random.Generator) -> Scenario:
    """Has cars cross from both sides; a house occludes the one from the right."""
    speed, x = rng.uniform(11.0, 13.0), 70.0
    first = _encounter(x, rng.uniform(-2.0, 2.0), speed, "car", x - 0.9, vy=rng.uniform(7.0, 11.0))
    second = _encounter(x + 8.0, rng.uniform(3.0, 12.0), speed, "car", x - 0.9, vy=-rng.uniform(7.0, 11.0))
    return _straight("crossing", speed, [first, second, box(42.0, 64.0, -20.0, -7.0, name="house", kind="wall")], HALF_LANE, HALF_LANE)


def cut_in(rng: np.random.Generator) -> Scenario:
    """Has a slower car in the left lane drift across the vehicle's lane."""
    speed, vx, vy = rng.uniform(15.0, 17.0), rng.uniform(9.0, 12.0), -rng.uniform(0.8, 1.4)
    front = 50.0
    # Distance between the vehicle's front and the car's rear when the car's side crosses the lane edge: 9 to 16 m.
    car = _encounter(front + rng.uniform(9.0, 16.0) + 0.5 * CAR_SIZE[0], HALF_LANE + 0.5 * CAR_SIZE[1], speed, "car", front, vx, vy)
    return _straight("cut_in", speed, [car])


def oncoming(rng: np.random.Generator) -> Scenario:
    """Has an oncoming car in the vehicle's lane; the verge is free."""
    speed, x = rng.uniform(9.0, 11.0), 70.0
    car = _encounter(x, rng.uniform(0.2, 1.0), speed, "car", x, vx=-rng.uniform(6.0, 10.0))
    return _straight("oncoming", speed, [car], HALF_LANE, HALF_LANE + 2.5)


def truck_bend(rng: np.random.Generator) -> Scenario:
    """Puts a truck in the lane behind a bend with a wall on its inside; the adjacent lane is free."""
    radius, bend_share = rng.uniform(30.0, 40.0), rng.uniform(0.55, 0.8)
    course = curve(rng.uniform(9.0, 11.0), radius, 0.5 * math.pi, 2.0 * HALF_LANE, 50.0)
    assert course.path is not None and course.corridor is not None
    path = Path(course.path)
    bend = 0.5 * math.pi * radius / 0.75
    x, y, yaw, _ = path.at(np.linspace(50.0 + 0.1 * bend, 50.0 + 0.9 * bend, 15))
    wall = np.concatenate([np.column_stack([x - d * np.sin(yaw), y + d * np.cos(yaw)])[::order] for d, order in ((6.5, 1), (7.5, -1))])
    (tx,), (ty,), (turn,), _ = path.at(np.array([50.0 + bend_share * bend]))
    rotation = np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
    truck = np.array([tx, ty]) + np.array([[-4.0, -1.25], [4.0, -1.25], [4.0, 1.25], [-4.0, 1.25]]) @ rotation
    corridor = course.corridor.copy()
    corridor[:, 1] = FAR_EDGE
    world = World((Polygon(truck, name="truck", kind="van"), Polygon(wall, name="wall", kind="wall")))
    return Scenario("truck_bend", course.initial, None, 45.0, world, None, course.path, course.speed, corridor)


def roadworks(rng: np.random.Generator) -> Scenario:
    """Closes the right half of the lane by cones and a barrier."""
    edge, x = rng.uniform(-0.4, 0.3), 48.0 + rng.uniform(0.0, 6.0)
    cone_taper = [Circle(x + 3.0 * k, -HALF_LANE + (edge + HALF_LANE) * k / 6.0, 0.15, name=f"cone {k + 1}", kind="cone") for k in range(7)]
    row = [Circle(x + 18.0 + 4.0 * k, edge, 0.15, name=f"cone {k + 8}", kind="cone") for k in range(6)]
    barrier = box(x + 22.0, x + 36.0, -1.6, edge - 0.3, name="barrier", kind="wall")
    return _straight("roadworks", rng.uniform(8.0, 11.0), [*cone_taper, *row, barrier], FAR_EDGE)


def narrow_gap(rng: np.random.Generator) -> Scenario:
    """Parks vans on both sides, 3 to 3.6 m apart."""
    gap, middle, x = rng.uniform(3.0, 3.6), rng.uniform(-0.3, 0.3), rng.uniform(55.0, 65.0)
    low, high = middle - 0.5 * gap, middle + 0.5 * gap
    return _straight("narrow_gap", rng.uniform(8.0, 11.0), [box(x, x + 6.0, high, high + 2.1, name="van left", kind="van"),
                                                            box(x + 1.0, x + 7.0, low - 2.1, low, name="van right", kind="van")])


def slippery_wall(rng: np.random.Generator) -> Scenario:
    """Blocks a slippery road by a wall."""
    x = rng.uniform(75.0, 85.0)
    return _straight("slippery_wall", rng.uniform(11.0, 14.0), [box(x, x + 1.0, -15.0, 15.0, name="wall", kind="wall")])


def parked(rng: np.random.Generator) -> Scenario:
    """Parks cars along both sides of the road; nothing moves."""
    cars: list[Obstacle] = []
    for k in range(5):
        right, left = -2.0 - rng.uniform(0.0, 0.4), 5.3 + rng.uniform(0.0, 0.4)
        cars += [box(30.0 + 15.0 * k, 34.4 + 15.0 * k, right - 1.8, right, name=f"car right {k + 1}", kind="car"),
                 box(36.0 + 15.0 * k, 40.4 + 15.0 * k, left, left + 1.8, name=f"car left {k + 1}", kind="car")]
    return _straight("parked", rng.uniform(9.0, 12.0), cars, FAR_EDGE)


def _course(speeds: Sequence[tuple[float, float]], course: Sequence[tuple[float, float]], outline: float) -> tuple[MotionStep, ...]:
    """Returns a motion in steps of 0.1 s. speeds [m/s] and course [rad]: rows of time [s] and value, linear in between; outline: course
    [rad] for which the obstacle's outline is drawn."""
    (when, speed), (at, angle) = np.transpose(speeds), np.transpose(course)
    times = np.arange(0.1, max(when[-1], at[-1]) + 0.1, 0.1)
    return tuple(MotionStep(t, v * math.cos(a), v * math.sin(a), a - outline) for t, v, a in zip(
        times.tolist(), np.interp(times + 0.05, when, speed).tolist(), np.interp(times + 0.05, at, angle).tolist()))


def crossing_halts(rng: np.random.Generator) -> Scenario:
    """Has a car cross from the right, stop in the lane, and drive on later."""
    speed, x, pace, braking = rng.uniform(9.0, 12.0), 60.0, rng.uniform(5.0, 9.0), rng.uniform(3.0, 6.0)
    start = _arrival_time(x, speed) - rng.uniform(0.5, 2.0)
    halts = start + pace / braking
    speeds = [(0.0, pace), (start, pace), (halts, 0.0), (halts + 4.0, 0.0), (halts + 8.0, 6.0)]
    y = rng.uniform(-1.0, 1.5) - pace * (start + 0.5 * pace / braking)
    car = _car(x, y, False, vy=pace, name="car", steps=_course(speeds, [(0.0, 0.5 * math.pi)], 0.5 * math.pi))
    return _straight("crossing_halts", speed, [car], FAR_EDGE)


def backing_out(rng: np.random.Generator) -> Scenario:
    """Has a car back out of a row of parked cars into the lane, stop, and drive back in."""
    speed, x, pace = rng.uniform(8.0, 11.0), 55.0, rng.uniform(1.0, 2.0)
    distance = rng.uniform(2.0, 4.0)
    start = _arrival_time(x, speed) - rng.uniform(1.5, 3.5)
    stop = start + distance / pace
    speeds = [(0.0, 0.0), (start, 0.0), (start + 0.3, pace), (stop, pace), (stop + 0.3, 0.0), (stop + 5.0, 0.0), (stop + 5.5, -pace),
              (stop + 5.5 + distance / pace, -pace), (stop + 6.0 + distance / pace, 0.0)]
    half, rear = 0.5 * CAR_SIZE[1], -HALF_LANE - 0.4 - CAR_SIZE[0]
    cars = [box(x + k * 2.7 - half, x + k * 2.7 + half, rear, rear + CAR_SIZE[0], name=f"parked {k}" if k else "backing", kind="car",
                steps=() if k else _course(speeds, [(0.0, 0.5 * math.pi)], 0.5 * math.pi)) for k in (-2, -1, 0, 1, 2)]
    return _straight("backing_out", speed, cars, FAR_EDGE)


def pulling_out(rng: np.random.Generator) -> Scenario:
    """Has a parked car pull out into the lane and drive on slowly."""
    speed, x, pace = rng.uniform(9.0, 12.0), 55.0, rng.uniform(4.0, 6.0)
    start = _arrival_time(x, speed) - rng.uniform(1.5, 3.0)
    speeds = [(0.0, 0.0), (start, 0.0), (start + 2.0, pace)]
    course = [(0.0, 0.0), (start, 0.0), (start + 1.2, rng.uniform(0.3, 0.5)), (start + 2.6, 0.0)]
    y = -HALF_LANE - 0.5 * CAR_SIZE[1] - rng.uniform(0.1, 0.5)
    car = _car(x, y, True, name="car", steps=_course(speeds, course, 0.0))
    return _straight("pulling_out", speed, [car], FAR_EDGE)


def hesitant(rng: np.random.Generator) -> Scenario:
    """Has a pedestrian stop at the edge of the lane or in it, and walk on or turn back."""
    speed, x, pace = rng.uniform(8.0, 11.0), 55.0, rng.uniform(1.0, 1.8)
    halt = _arrival_time(x, speed) - rng.uniform(1.0, 3.5)
    resume = halt + rng.uniform(0.6, 2.5)
    y = rng.uniform(-2.6, 0.5) - pace * halt
    steps = (MotionStep(halt, 0.0, 0.0), MotionStep(resume, 0.0, pace if rng.random() < 0.6 else -pace))
    return _straight("hesitant", speed, [Circle(x, y, 0.3, vy=pace, name="pedestrian", kind="pedestrian", steps=steps)], FAR_EDGE)


# The position in this list is part of the random seed.
SCENARIOS: dict[str, Callable[[np.random.Generator], Scenario]] = {
    scene.__name__: scene for scene in (pedestrian_van, pedestrian_late, crossing, cut_in, oncoming, truck_bend, roadworks, narrow_gap,
                                        slippery_wall, parked, crossing_halts, backing_out, pulling_out, hesitant)}
# Occluded traffic to be expected, by scenario; none elsewhere.
TRAFFIC = {"pedestrian_van": "pedestrians", "pedestrian_late": "pedestrians", "hesitant": "pedestrians", "parked": "pedestrians",
           "backing_out": "pedestrians", "pulling_out": "pedestrians", "crossing": "cars", "crossing_halts": "cars"}
STOPPING_SUFFICES = ("slippery_wall",)  # the road is blocked: a run without contact succeeds
VEHICLE_CHANGES = {"slippery_wall": ("friction_scale=0.45",)}  # of the vehicle; all drivers know them


@dataclass(frozen=True)
class Drive:
    """One run: scenario (name or path of a file), driver, seed of scene and noise, settings of the autonomy."""

    scenario: str
    driver: str
    seed: int
    settings: Settings = field(default_factory=lambda: Settings(time_budget=0.0))
    vehicle: str = VEHICLE


def _is_file(scenario: str) -> bool:
    return bool(FilePath(scenario).suffix)


def drives(seeds: Sequence[int], settings: Settings, scenarios: Sequence[str] = tuple(SCENARIOS), vehicle: str = VEHICLE) -> list[Drive]:
    """Returns all drivers on the seeds of each named scenario (trusting: only those with occluded traffic), autonomy and brake once on
    each file and each CommonRoad file of a folder. Raises InputError: unknown scenario, an empty folder, or files that cannot be driven,
    before the first drive."""
    named, files, refused = list[str](), list[str](), list[str]()
    for name in scenarios:
        found = sorted(map(str, FilePath(name).glob("*.xml"))) if FilePath(name).is_dir() else [name]
        if not found:
            raise InputError(f"{name}: no scenario of CommonRoad (*.xml) in this folder")
        for each in found:
            if _is_file(each):
                files.append(each)
                try:
                    load_scenario(each)
                except InputError as error:
                    refused.append(str(error))
            elif each in SCENARIOS:
                named.append(each)
            else:
                raise InputError(f"there is no scenario '{each}'{suggest(each, SCENARIOS, 'give files or folders, or choose from: ')}")
    if refused:
        raise InputError(f"{len(refused)} of {len(files)} files cannot be driven, leave them out: {'; '.join(refused)}")
    return [Drive(name, driver, seed, settings, vehicle) for seed in seeds for name in named for driver in DRIVERS
            if driver != TRUSTING or name in TRAFFIC] + [
        Drive(name, driver, 1, settings, vehicle) for name in files for driver in (AUTONOMY, BRAKE)]


def scenario_of(name: str, seed: int) -> Scenario:
    """Returns a named scenario for a seed, or loads a file."""
    if _is_file(name):
        return load_scenario(name)
    hidden = HIDDEN_TRAFFIC[TRAFFIC[name]] if name in TRAFFIC else 0.0
    return replace(SCENARIOS[name](np.random.default_rng([seed, list(SCENARIOS).index(name)])), hidden_speed=hidden)


# -- References ---------------------------------------------------------------------------------------------------------------


def decelerations(vehicle: Vehicle) -> tuple[float, float]:
    """Returns the largest deceleration without a locked wheel, at most that of BRAKE_SHARE, and the latter [m/s^2]."""
    p = vehicle.parameters
    brakes = 2.0 * BRAKE_SHARE * (p["brake_torque_front"] + p["brake_torque_rear"]) / (p["wheel_radius"] * (
        p["sprung_mass"] + p["unsprung_mass_front"] + p["unsprung_mass_rear"]))
    return min(brakes, 0.7 * GRAVITY * p["friction_max"] * p["friction_scale"]), brakes


@dataclass(frozen=True)
class BrakeSettings:
    """Settings of the emergency brake. period: of its cycles [s]; hold: assumed delay before braking, the time to the next scan with a
    reserve [s]; ramp: of the brake [s]; ahead: horizon [s]; margin: around the vehicle [m]; preview: of its steering [s]."""

    period: float = 0.02
    hold: float = 0.2
    ramp: float = 0.125
    ahead: float = 4.0
    margin: float = 0.3
    preview: float = 0.5


class EmergencyBrake:
    """A driver that holds lane and speed, and brakes fully if a collision is predicted that later braking could not avoid.

    Obstacles are assumed to keep their velocity. It neither evades nor slows down for bends.
    """

    def __init__(self, vehicle: Vehicle):
        self.settings = BrakeSettings()
        self._vehicle, (self._deceleration, self._brake_deceleration) = vehicle, decelerations(vehicle)
        self._obstacles, self._braking, self._command = NO_OBSTACLES, False, (0.0, 0.0)
        self._path, self._speed, self._path_position, self._length = Path(np.array([[0.0, 0.0], [1.0, 0.0]])), 0.0, 0.0, 0.0

    def follow(self, path: Path, speed: float | np.ndarray, corridor: np.ndarray | None = None, stop: bool = True,
               hidden_speed: float = 0.0) -> None:
        """Follows a path at a speed [m/s]; ignores corridor and occluded traffic."""
        self._path, self._speed, self._length = path.extended(100.0), float(np.max(speed)), path.length

    def go_to(self, goal: Goal, speed: float) -> None:
        """Raises InputError: it follows paths only."""
        raise InputError("the emergency brake follows a path; give one")

    def update_obstacles(self, obstacles: Obstacles) -> None:
        """Sets the obstacles of the last scan."""
        self._obstacles = obstacles

    def poll(self, now: float) -> None:
        """Does nothing, as it plans no route."""

    def cycle(self, now: float, measured: Measured | None = None) -> Cycle:
        """Returns the command of a cycle."""
        assert measured is not None
        value = measured.values
        vx, st = max(value["vx"], 0.0), self.settings
        (self._path_position,), (offset,) = (a.tolist() for a in self._path.project(np.array([value["x"]]), np.array([value["y"]]),
                                                                                    np.array([self._path_position])))
        # Braking ends once driving on at the requested speed is safe.
        self._braking = (self.would_collide(now, self._speed, offset, math.inf) if self._braking
                         else self.would_collide(now, vx, offset, math.inf) and self.would_collide(now, vx, offset, st.hold))
        pedal = min(max(0.5 * (self._speed - vx), -0.3), 0.3)
        if self._braking:
            pedal = -BRAKE_SHARE * self._deceleration / self._brake_deceleration
        rate = st.period * BRAKE_SHARE / st.ramp
        pedal = max(pedal, self._command[1] - rate)
        self._command = self._steering(value, vx), pedal
        return Cycle((self._command[0], max(pedal, 0.0), max(-pedal, 0.0)), CycleOutcome.BRAKING if self._braking else CycleOutcome.SOLVED,
                     done=self._path_position >= self._length - 1.0)

    def would_collide(self, now: float, vx: float, offset: float, hold: float) -> bool:
        """Predicts a collision of the vehicle, at `offset` [m] from the path, if it brakes fully after `hold` [s]."""
        obstacles, st, o = self._obstacles.at(now), self.settings, self._vehicle.footprint
        if not len(obstacles.radii):
            return False
        times = np.arange(0.0, max(st.ahead, vx / self._deceleration + 1.0), 0.05)
        x, y, yaw, _ = self._path.at(self._path_position + travelled_distance(vx, self._deceleration, times, hold + 0.5 * st.ramp))
        x, y = x - offset * np.sin(yaw), y + offset * np.cos(yaw)
        dx = obstacles.centres[:, 0] + times[:, None] * obstacles.velocities[:, 0] - x[:, None]
        dy = obstacles.centres[:, 1] + times[:, None] * obstacles.velocities[:, 1] - y[:, None]
        c, s = np.cos(yaw)[:, None], np.sin(yaw)[:, None]
        longitudinal, lateral = c * dx + s * dy, np.abs(c * dy - s * dx)
        beyond = np.maximum(np.maximum(longitudinal - o.front, -longitudinal - o.rear), 0.0)
        touching = np.hypot(beyond, np.maximum(lateral - o.half_width, 0.0)) < obstacles.radii + st.margin
        # Static obstacles that are laterally clear cannot be hit by braking later.
        return bool((touching & ~((lateral > o.half_width + obstacles.radii) & (obstacles.velocities == 0.0).all(axis=1))).any())

    def _steering(self, value: Any, vx: float) -> float:
        p, ahead = self._vehicle.parameters, max(self.settings.preview * vx, 4.0)
        (x,), (y,), *_ = (a.tolist() for a in self._path.at(np.array([self._path_position + ahead])))
        turn = math.remainder(math.atan2(y - value["y"], x - value["x"]) - value["yaw"], 2.0 * math.pi)
        bend = 2.0 * math.sin(turn) / math.hypot(x - value["x"], y - value["y"])
        wheelbase = p["cg_to_front_axle"] + p["cg_to_rear_axle"]
        return min(max((math.atan(wheelbase * bend) + 0.0027 * vx * vx * bend) / p["max_road_wheel_angle"], -1.0), 1.0)


def travelled_distance(speed: float, deceleration: float, times: np.ndarray, brake_start: float) -> np.ndarray:
    """Returns the distances [m] at `times` (n,) [s] when braking at `deceleration` [m/s^2] from `brake_start` [s] on (inf: never)."""
    braked = np.clip(times - brake_start, 0.0, speed / deceleration)
    return speed * np.minimum(times, brake_start) + speed * braked - 0.5 * deceleration * braked**2


def in_lane(scenario: Scenario) -> tuple[Callable[[float], tuple[float, float, float]], float]:
    """Returns the pose x, y [m], yaw [rad] at a distance from the start [m] of a vehicle that keeps its place in the lane, and the distance
    to the end of the path [m]."""
    assert scenario.path is not None
    path, start = Path(scenario.path), scenario.initial
    (first,), (offset,) = (a.tolist() for a in path.project(np.array([start.x]), np.array([start.y])))

    def at(moved: float) -> tuple[float, float, float]:
        (x,), (y,), (yaw,), _ = (a.tolist() for a in path.at(np.array([first + moved])))
        return x - offset * math.sin(yaw), y + offset * math.cos(yaw), yaw

    return at, path.length - first


def clairvoyant(scenario: Scenario, vehicle: Vehicle) -> float:
    """Returns the smallest impact speed [m/s] that full braking in the lane, begun at any time after first sight, can achieve; 0: none."""
    (pose_at, length), speed, world = in_lane(scenario), scenario.initial.speed, scenario.world
    deceleration, times = decelerations(vehicle)[0], np.arange(0.0, scenario.duration, 0.1)

    def impact(brake_start: float) -> tuple[float, float, int]:
        """Returns speed and time of the contact (inf: none) and the obstacle's index (-1: none)."""
        for time, distance_driven in zip(times, travelled_distance(speed, deceleration, times, brake_start)):
            x, y, yaw = pose_at(distance_driven)
            clearances = world.clearances(time, x, y, yaw, vehicle.footprint)
            if clearances.min(initial=math.inf) <= 0.0:
                hit_index = int(clearances.argmin())
                ego_speed = max(speed - deceleration * max(time - brake_start, 0.0), 0.0)
                closing = ego_speed * np.array([math.cos(yaw), math.sin(yaw)]) - world.motion(time)[1][hit_index]
                return math.hypot(*closing), float(time), hit_index
            if distance_driven >= length or (time > contact + TIME_AFTER_CONTACT):
                break
        return 0.0, math.inf, -1

    contact = math.inf
    worst, contact, hit_index = impact(math.inf)
    if hit_index < 0:
        return 0.0
    sighted = first_sight(scenario, vehicle, hit_index, contact)
    return min([worst, *(impact(brake_start)[0] for brake_start in np.arange(sighted, contact, 0.2))])


def first_sight(scenario: Scenario, vehicle: Vehicle, index: int, until: float) -> float:
    """Returns the time [s] of the first scan with a return from an obstacle, at constant speed along the path; `until` if there is none."""
    (pose_at, _), obstacles, lidar = in_lane(scenario), scenario.world.obstacles, LidarSettings(noise_sd=0.0)
    worlds = World(obstacles), World(tuple(o for k, o in enumerate(obstacles) if k != index))
    for time in np.arange(0.0, until, 1.0 / lidar.rate):
        x, y, yaw = pose_at(scenario.initial.speed * time)
        with_it, without = (Lidar(world, lidar, 1, vehicle.lidar).measure(VehicleView(time, x, y, yaw)).ranges for world in worlds)
        if not np.array_equal(with_it, without, equal_nan=True):
            return float(time)
    return until


def out_of_reach(scenario: Scenario, vehicle: Vehicle) -> bool:
    """Checks whether no goal of a file can be had: traffic leaves less than `ROOM` at all its places and times, or they are too far."""
    assert scenario.path is not None
    path, start = Path(scenario.path), scenario.initial
    for goal in scenario.goal_states:
        times = np.arange(max(goal.time[0], 0.0), min(goal.time[1], scenario.duration) + 1e-9, 0.1)
        for area in goal.areas:
            axes = (np.linspace(low, high, min(math.ceil(2.0 * (high - low)) + 1, 30))
                    for low, high in zip(area.min(axis=0), area.max(axis=0)))
            points = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
            x, y = points[contains(area, points)].T
            yaws, away = path.at(path.project(x, y)[0])[2], np.hypot(x - start.x, y - start.y)
            for time in times:
                near = away <= start.speed * time + 0.5 * GAINS * time**2
                if any(scenario.world.clearance(time, *place, vehicle.footprint) >= ROOM
                       for place in zip(x[near], y[near], yaws[near])):
                    return False
        if not goal.areas:
            return False
    return bool(scenario.goal_states)


# -- A run --------------------------------------------------------------------------------------------------------------------


BagFactory = Callable[[Scenario, Vehicle], Any]  # creates the bag of a run, as `lfdm_ros.ros.drive_bag.DriveBag`


def work(item: Drive, make_bag: BagFactory | None = None) -> dict[str, Any]:
    """Drives, records if `make_bag` is given, and returns the result as JSON: figures of the run, its failure, and `unavoidable`: impact
    speed of the clairvoyant bound [m/s], and `out_of_reach`: no driver could arrive."""
    vehicle, scenario = load_vehicle(item.vehicle, VEHICLE_CHANGES.get(item.scenario, ())), scenario_of(item.scenario, item.seed)
    plant = PlantSettings.of(vehicle, CHASSIS, seed=item.seed)
    scenario = replace(scenario, hidden_speed=0.0) if item.driver == TRUSTING else scenario
    driver: Driver = EmergencyBrake(vehicle) if item.driver == BRAKE else make_driver("mpc", vehicle, item.settings, plant.tyre)
    run = drive_recorded(vehicle, scenario, driver, plant, make_bag)
    found = summarise_run(scenario, run)
    # Files of one map share a row of the table: USA_US101-12_1_T-1 is "seed" 12_1_T-1 of USA_US101.
    place, _, number = scenario.name.partition("-") if _is_file(item.scenario) else (item.scenario, "", item.seed)
    why = classify_failure(item, found)
    return {"scenario": place, "driver": item.driver, "seed": number, **found, "failure": why,
            "unavoidable": clairvoyant(scenario, vehicle) if item.driver == BRAKE else None,
            "out_of_reach": why == DOES_NOT_ARRIVE and out_of_reach(scenario, vehicle)}


def drive_recorded(vehicle: Vehicle, scenario: Scenario, driver: Driver, plant: PlantSettings, make_bag: BagFactory | None) -> Run:
    """Drives until the end or STANDSTILL_TIMEOUT; records if `make_bag` is given."""
    bag = make_bag and make_bag(scenario, vehicle)
    run = drive(vehicle, scenario, driver, plant, bag and bag.note, patience=STANDSTILL_TIMEOUT)
    if bag:
        bag.write(run)
    return run


def bag_name(item: Drive) -> str:
    """Returns the name of a run's bag; empty: not recorded, as all drivers but the autonomy."""
    return f"{FilePath(item.scenario).stem}_{item.seed}" if item.driver == AUTONOMY else ""


def classify_failure(item: Drive, found: dict[str, Any]) -> str:
    """Returns why a run failed; empty: it did not. The brake need not arrive, nor any driver on a blocked road."""
    why = failure(found)
    return "" if why == DOES_NOT_ARRIVE and (item.driver == BRAKE or item.scenario in STOPPING_SUFFICES) else why


def key(item: Drive) -> str:
    """Hashes all that a result depends on."""
    return cache_key({"item": asdict(item), "vehicle": load_vehicle(item.vehicle).identity,
                      "file": FilePath(item.scenario).read_text() if _is_file(item.scenario) else ""}, CACHE_DEPENDENCIES)


def is_worse(autonomy: dict[str, Any], brake: dict[str, Any]) -> bool:
    """Checks that the autonomy did worse than the brake on a seed: it fails other than by stopping, and the brake does not, or hits at a
    lower speed."""
    harmed = bool(autonomy["failure"]) and autonomy["failure"] != DOES_NOT_ARRIVE
    return harmed and (not brake["failure"] or (bool(autonomy["collision"]) and autonomy["impact"] > brake["impact"] + IMPACT_TOLERANCE))


def run_into(run: dict[str, Any]) -> bool:
    """Checks whether a run ends as something that moves drives into the vehicle, from behind or while it stands."""
    return bool(run["collision"]) and (run["from_behind"] or (run["stands"] and run["impact"] > IMPACT_TOLERANCE))


def summarise(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns a row for each scenario: failures of each driver by seed; seeds on which the autonomy only stops, has a goal out of reach, is
    run into, or is worse than the brake; seeds on which the clairvoyant bound collides; longer: the autonomy's time over that of the
    trusting driver, which ignores occluded traffic, median of the seeds on which both arrive."""
    rows = []
    for name in dict.fromkeys(run["scenario"] for run in runs):
        of = {driver: {run["seed"]: run for run in runs if run["scenario"] == name and run["driver"] == driver} for driver in DRIVERS}
        row: dict[str, Any] = {"scenario": name, "runs": max(map(len, of.values()))}
        for driver in DRIVERS:
            row[driver] = {str(seed): run["failure"] for seed, run in sorted(of[driver].items()) if run["failure"]}
        row["stands"] = [seed for seed, why in row[AUTONOMY].items() if why == DOES_NOT_ARRIVE]
        row["out_of_reach"] = [seed for seed, run in of[AUTONOMY].items() if run.get("out_of_reach")]
        row["run_into"] = [seed for seed, run in of[AUTONOMY].items() if run_into(run)]
        row["worse"] = [seed for seed, run in sorted(of[AUTONOMY].items()) if seed in of[BRAKE] and is_worse(run, of[BRAKE][seed])]
        row["unavoidable"] = [seed for seed, run in sorted(of[BRAKE].items()) if run["unavoidable"]]
        times = [run["reached"] / of[TRUSTING][seed]["reached"] for seed, run in of[AUTONOMY].items()
                 if seed in of[TRUSTING] and run["reached"] and of[TRUSTING][seed]["reached"]]
        row["longer"] = float(np.median(times)) if times else None
        rows.append(row)
    return rows


COLUMNS = {"autonomy fails (seeds)": AUTONOMY, "of these only late or standing": "stands", "goal out of reach": "out_of_reach",
           "of these run into from behind or standing": "run_into", "emergency brake fails": BRAKE,
           "autonomy worse than the brake": "worse", "unavoidable by braking at first sight": "unavoidable", "trusting fails": TRUSTING}


def format_seeds(seeds: Sequence[Any]) -> str:
    """Formats the number of seeds, and lists them in brackets."""
    return f"{len(seeds)} ({', '.join(map(str, seeds))})" if seeds else "0"


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """Returns one line for each scenario, and a total."""
    lines = [[row["scenario"], str(row["runs"]), *(format_seeds([*row[column]]) for column in COLUMNS.values()),
              "-" if row["longer"] is None else f"{row['longer']:.2f}"] for row in rows]
    total = ["all", str(sum(row["runs"] for row in rows)), *(str(sum(len(row[column]) for row in rows)) for column in COLUMNS.values()), ""]
    return ["scenario", "runs", *COLUMNS, "time by the trusting one's"], [*lines, total]
