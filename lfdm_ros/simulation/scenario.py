"""Scenarios (config/scenarios/*.yaml): driver's inputs or a task for a vehicle, and the world around it."""

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from lfdm_ros import documents
from lfdm_ros.bounds import BOUNDS, require, require_array
from lfdm_ros.errors import InputError, prefixing, quote
from lfdm_ros.resources import find_config
from lfdm_ros.simulation.commonroad import OBSERVATION_TIME, read_commonroad
from lfdm_ros.simulation.courses import COURSES, Course
from lfdm_ros.simulation.inputs import InputProfile
from lfdm_ros.simulation.world import Circle, Goal, GoalState, MotionStep, Polygon, Pose, World, require_steps


@dataclass(frozen=True, eq=False)
class Scenario:
    """A manoeuvre: start, maximum duration [s], and either the driver's inputs over time or a task.

    The task is a path (n, 2) [m] to follow, a goal, or both, at a reference or maximum speed [m/s], in a world of obstacles. The corridor
    (k, 3) has rows s along the path, room to the left and to the right of it [m], linear in between: of the lane, not of the vehicle's
    centre. goal_states: the drive ends in any of them, without them at the end of its path. observation_time: observation time of the
    sensors before the start [s]. hidden_speed: assumed speed of traffic occluded by obstacles beside the path [m/s], 0 for none.
    """

    name: str
    initial: Pose
    profile: InputProfile | None
    duration: float
    world: World = field(default_factory=World)
    goal: Goal | None = None
    path: np.ndarray | None = None
    speed: float | None = None
    corridor: np.ndarray | None = None
    goal_states: tuple[GoalState, ...] = ()
    observation_time: float = 0.0
    hidden_speed: float = 0.0

    def arrived(self, time: float, pose: np.ndarray, speed: float) -> bool:
        """Checks `goal_states` for a time [s], a pose x, y [m], yaw [rad] and a forward speed [m/s]."""
        x, y, yaw = pose.tolist()
        return any(goal.holds(time, x, y, yaw, speed) for goal in self.goal_states)

    @property
    def lane_edges(self) -> tuple[np.ndarray, ...]:
        """Left and right edge (n, 2) of the corridor [m]; empty without one."""
        return () if self.path is None or self.corridor is None else corridor_edges(self.path, self.corridor)


def corridor_edges(path: np.ndarray, corridor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes the left and the right edge (n, 2) of a corridor along a path (n, 2): rows s, room to the left and to the right [m]."""
    steps = np.diff(path, axis=0)
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*steps.T))])
    tangents = np.gradient(path, axis=0)
    normals = np.column_stack([-tangents[:, 1], tangents[:, 0]]) / np.maximum(np.hypot(*tangents.T), 1e-9)[:, None]
    left, right = (np.interp(along, corridor[:, 0], corridor[:, k])[:, None] for k in (1, 2))
    return path + left * normals, path - right * normals


_MAX_CHARACTERS = 32 * int(BOUNDS["points"].upper)  # of a file, for the maximum number of points of a path
_KEYS = ("inputs", "description", "initial", "duration", "goal", "path", "speed", "corridor", "obstacles", "course", "hidden_traffic")
HIDDEN_TRAFFIC = {"pedestrians": 1.5, "cyclists": 5.0, "cars": 8.0}  # [m/s] assumed speeds of occluded traffic


def load_scenario(name: str | os.PathLike[str], seed: int | None = None, times: float | None = None, *,
                  seed_if_any: bool = False) -> Scenario:
    """Reads a scenario by name or path: of this package (YAML), of CommonRoad (XML), or a table of inputs, which starts at rest and ends
    with the last row.

    `seed` and `times` (density of an obstacle field relative to that of its file) replace those of the course; with `seed_if_any` a missing
    course or seed is no error. Raises InputError: names file and key.
    """
    path = find_config("scenarios", name)
    if path.suffix not in (".yaml", ".yml"):
        for key, value in (("seed", None if seed_if_any else seed), ("times", times)):
            if value is not None:
                raise InputError(f"{path}: a scenario of CommonRoad or a table of inputs has no {key}; leave it out")
        if path.suffix == ".xml":
            read = read_commonroad(path)
            return Scenario(path.stem, read.initial, None, read.duration, World(read.obstacles), None, read.path, read.speed, read.corridor,
                            read.goal_states, OBSERVATION_TIME)
        profile = InputProfile.from_file(path)
        return Scenario(path.stem, Pose(), profile, float(profile.time[-1]))
    data = documents.mapping(documents.read_yaml(path, _MAX_CHARACTERS)[0], f"{path}", optional=_KEYS)
    course = _course(data, str(path), {"seed": seed, "times": times}, ("seed",) if seed_if_any else ())
    if not {"inputs", "goal", "path", "course"} & data.keys():
        raise InputError(f"{path}: nothing to do; give inputs, a goal, a path or a course")
    inputs = _profile(data, str(path))
    start = documents.numbers(data.get("initial") or {}, f"{path}: initial", optional=("x", "y", "yaw", "speed"))
    pose = _record(Pose, {**(asdict(course.initial) if course else {}), **start}, f"{path}: initial")
    if "duration" in data:
        duration = documents.number(data["duration"], f"{path}: duration")
    elif inputs:
        duration = float(inputs.time[-1])
    elif course:
        duration = course.duration
    else:
        raise InputError(f"{path}: missing key 'duration'")
    if duration <= 0.0:
        raise InputError(f"{path}: duration is {duration:g} s; give more than 0")
    require("duration", duration, f"{path}: duration")
    goal = _goal(data["goal"], f"{path}: goal") if "goal" in data else course.goal if course else None
    line = _table(data["path"], ("x", "y"), f"{path}: path", 2) if "path" in data else course.path if course else None
    if line is not None:
        require("points", len(line), f"{path}: number of points of the path")
        require_array("x", line, f"{path}: path: point")
    speed = documents.number(data["speed"], f"{path}: speed") if "speed" in data else course.speed if course else None
    if speed is not None and speed <= 0.0:
        raise InputError(f"{path}: speed is {speed:g} m/s; give more than 0")
    require("speed", speed or 0.0, f"{path}: speed")
    if speed is None and (goal is not None or line is not None):
        raise InputError(f"{path}: missing key 'speed'")
    corridor = course.corridor if course else None
    if "corridor" in data:
        corridor = _table(data["corridor"], ("s", "left", "right"), f"{path}: corridor", 2)
        if line is None:
            raise InputError(f"{path}: corridor: it lies along a path; give one")
        if (np.diff(corridor[:, 0]) <= 0.0).any() or (corridor[:, 1:] < 0.0).any():
            raise InputError(f"{path}: corridor: s must rise from row to row, and left and right be 0 or more")
        require_array("x", corridor[:, :1], f"{path}: corridor: s of row")
        require_array("room", corridor[:, 1:], f"{path}: corridor: left and right of row")
    obstacles = (*(course.obstacles if course else ()), *_obstacles(data.get("obstacles") or [], f"{path}: obstacles"))
    require("obstacles", len(obstacles), f"{path}: number of obstacles")
    hidden = data.get("hidden_traffic")
    if hidden is not None and (not isinstance(hidden, str) or hidden not in HIDDEN_TRAFFIC):
        raise InputError(f"{path}: hidden_traffic is {quote(hidden)}; choose one of: {', '.join(HIDDEN_TRAFFIC)}")
    if hidden is not None and line is None:
        raise InputError(f"{path}: hidden_traffic: it bounds the speed on a path; give one")
    return Scenario(path.stem, pose, inputs, duration, World(obstacles), goal, line, speed, corridor,
                    hidden_speed=HIDDEN_TRAFFIC[hidden] if hidden else 0.0)


def _course(data: Mapping[str, Any], where: str, changes: Mapping[str, float | None], optional: Sequence[str] = ()) -> Course | None:
    """Returns the course of a file with some values changed, `optional` ones if it has them; None without a course."""
    changed = {key: value for key, value in changes.items() if value is not None}
    if "course" not in data:
        for key in (key for key in changed if key not in optional):
            raise InputError(f"{where}: no course that a {key} could change; leave the {key} out")
        return None
    where = f"{where}: course"
    entry = data["course"]
    kind = entry.get("kind") if isinstance(entry, dict) else None
    if not isinstance(kind, str) or kind not in COURSES:
        raise InputError(f"{where}: kind is {quote(kind)}; choose one of: {', '.join(COURSES)}")
    for key in ("path", "corridor"):
        if key in data:
            raise InputError(f"{where}: the course defines its path; remove the key '{key}' or the course")
    expected = inspect.signature(COURSES[kind]).parameters
    required = [name for name, p in expected.items() if p.default is p.empty]
    values = documents.mapping(entry, where, ("kind", *required), [name for name in expected if name not in required])
    del values["kind"]
    for name, value in values.items():
        annotation = str(expected[name].annotation)
        if annotation == "bool":
            documents.flag(value, f"{where}: {name}")
        elif annotation == "int":
            values[name] = documents.integer(value, f"{where}: {name}", 0)
        else:
            values[name] = documents.number(value, f"{where}: {name}")
    for key in (key for key in changed if key not in optional):
        if key not in expected:
            raise InputError(f"{where}: {kind} has no {key}; leave it out")
    values |= {key: value for key, value in changed.items() if key in expected}
    with prefixing(where):
        return COURSES[kind](**values)


def _profile(data: Mapping[str, Any], where: str) -> InputProfile | None:
    if "inputs" not in data:
        return None
    time, steering, throttle, brake = _rows(data["inputs"], ("time", "steering", "throttle", "brake"), f"{where}: inputs").T
    return InputProfile(time, steering, throttle, brake, where=f"{where}: inputs")


def _goal(node: Any, where: str) -> Goal:
    values = documents.mapping(node, where, ("x", "y"), ("tolerance", "stop"))
    stop = documents.flag(values.pop("stop", False), f"{where}: stop")
    goal: Goal = _record(Goal, {**documents.numbers(values, where, ("x", "y"), ("tolerance",)), "stop": stop}, where)
    return goal


def _obstacles(node: Any, where: str) -> list[Circle | Polygon]:
    obstacles: list[Circle | Polygon] = []
    for here, entry in documents.entries(node, where, "{circle: {x, y, radius}} or {polygon: [[x, y], ...]}"):
        values = documents.mapping(entry, here, optional=("circle", "polygon", "velocity", "motion", "present", "name", "kind"))
        if ("circle" in values) == ("polygon" in values):
            raise InputError(f"{here}: give either circle or polygon")
        velocity = values.get("velocity", [0.0, 0.0])
        if not isinstance(velocity, list) or len(velocity) != 2:
            raise InputError(f"{here}: velocity: give [vx, vy], found {quote(velocity)}")
        vx, vy = (documents.number(v, f"{here}: velocity") for v in velocity)
        words: dict[str, Any] = {key: documents.text(values[key], f"{here}: {key}") for key in ("name", "kind") if key in values}
        rest: dict[str, Any] = {"vx": vx, "vy": vy, "steps": _motion(values.get("motion", []), f"{here}: motion"), **words}
        if "present" in values:
            (span,) = _rows([values["present"]], ("from", "until"), f"{here}: present").tolist()
            rest["present"] = tuple(span)
        if "circle" in values:
            here = f"{here}: circle"
            obstacles.append(_record(Circle, {**documents.numbers(values["circle"], here, ("x", "y", "radius")), **rest}, here))
        else:
            here = f"{here}: polygon"
            obstacles.append(_record(Polygon, {"vertices": _table(values["polygon"], ("x", "y"), here, 3), **rest}, here))
    return obstacles


def _motion(node: Any, where: str) -> tuple[MotionStep, ...]:
    columns = ("time", "vx", "vy", "turned")
    short = isinstance(node, list) and node and all(isinstance(row, list) and len(row) == 3 for row in node)
    rows = _rows(node, columns[:3] if short else columns, where)
    require("points", len(rows), f"{where}: number of rows")
    steps = tuple(MotionStep(*row) for row in rows.tolist())
    require_steps(steps, where)
    return steps


def _record(kind: Any, values: dict[str, Any], where: str) -> Any:
    with prefixing(where):
        return kind(**values)


def _rows(node: Any, columns: tuple[str, ...], where: str) -> np.ndarray:
    """Converts a list of rows to an array (rows, columns)."""
    if not isinstance(node, list) or not all(isinstance(row, list) and len(row) == len(columns) for row in node):
        raise InputError(f"{where}: give rows [{', '.join(columns)}]")
    try:
        return np.array(node, float).reshape(-1, len(columns))
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{where}: not all cells are numbers") from None


def _table(node: Any, columns: tuple[str, ...], where: str, minimum: int) -> np.ndarray:
    table = _rows(node, columns, where)
    if len(table) < minimum or not np.isfinite(table).all():
        raise InputError(f"{where}: give at least {minimum} rows of finite numbers, found {len(table)} rows")
    return table
