"""Study of the worlds of BARN: traversal of a field of posts between two walls, with the score of the BARN challenge.

Perille, Truong, Xiao and Stone, "Benchmarking Metric Ground Navigation" (SSRR 2020); start, goal, time and score are those of run.py in
github.com/Daffan/the-barn-challenge. They are designed for the Jackal, 0.43 m wide, which turns on the spot: for a vehicle k times as wide
all lengths and speeds are scaled by k, times are not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_lab.studies import STUDIES
from lfdm_lab.studies.driving import CACHE_DEPENDENCIES as DRIVING
from lfdm_lab.studies.driving import make_driver
from lfdm_ros.cache_key import cache_key
from lfdm_ros.control.routing.lattice import LatticeSettings
from lfdm_ros.control.settings import Settings
from lfdm_ros.documents import MAX_GENERATED_LENGTH, is_number, parse_xml
from lfdm_ros.engine.closed_loop import PlantSettings, drive
from lfdm_ros.engine.run_report import summarise_run
from lfdm_ros.errors import InputError, prefixing, quote
from lfdm_ros.perception.tracker import TrackerSettings
from lfdm_ros.reports import Table
from lfdm_ros.sensors import LidarSettings
from lfdm_ros.simulation import Goal, Scenario
from lfdm_ros.simulation.world import Circle, Pose, World
from lfdm_ros.vehicles import load_vehicle

CHASSIS = "eighteen_dof"
CACHE_DEPENDENCIES = (*DRIVING, f"{STUDIES}/barn")
JACKAL_WIDTH = 0.43  # [m]
START, DISTANCE, TOLERANCE = (-2.25, 3.0), 10.0, 1.0  # [m] along y
SPEED, DURATION = 2.0, 100.0  # [m/s] of the optimal time, [s]
TIMING_START = 0.1  # [m] from the start, where timing starts
CELL, FIRST_CELL = 0.15, (-4.575, 5.075)  # [m] of the grid of a path file
PATIENCE = 15.0  # [s] at standstill after which a run ends and counts as a time-out


@dataclass(frozen=True)
class Passage:
    """A run: a world's file, the vehicle, and the settings of controller, lattice, tracker and LIDAR."""

    world: str
    vehicle: str
    settings: Settings = field(default_factory=lambda: Settings(time_budget=0.0))
    lattice: LatticeSettings = field(default_factory=LatticeSettings)
    tracker: TrackerSettings = field(default_factory=TrackerSettings)
    lidar: LidarSettings = field(default_factory=LidarSettings)


def world_files(places: Sequence[str]) -> list[str]:
    """Returns the given files, and the worlds in given folders in the order of their numbers. Raises InputError: folder without worlds."""
    files = list[str]()
    for place in places:
        matches = sorted(Path(place).glob("world_*.world"), key=_number) if Path(place).is_dir() else [Path(place)]
        if not matches:
            raise InputError(f"{place}: no world of BARN (world_N.world) in this folder")
        files += map(str, matches)
    return files


def read_world(path: Path) -> list[Circle]:
    """Reads the posts of a Gazebo world: models of one cylinder each. Raises InputError, naming file and model."""
    root = parse_xml(_bytes(path), str(path))
    posts = list[Circle]()
    for model in root.iterfind("world/model"):
        where, size = f"{path}: model {quote(model.get('name'))}", model.find(".//collision/geometry/cylinder/radius")
        if size is None:
            if model.find(".//collision/geometry/plane") is None:
                raise InputError(f"{where}: neither a cylinder nor the ground; worlds of BARN have no other models")
            continue
        x, y, *_ = _numbers(model.findtext("pose", ""), 6, f"{where}: pose")
        with prefixing(where):
            posts.append(Circle(x, y, _numbers(size.text or "", 1, f"{where}: radius")[0], name=f"post {len(posts)}"))
    if not posts:
        raise InputError(f"{path}: no model with a cylinder; give a world of BARN (world_N.world)")
    return posts


def optimal_time(path: Path) -> float:
    """Returns the time along the path file of a world at 2 m/s [s]. Raises InputError: it is missing or invalid."""
    file = path.parent / "path_files" / f"path_{_number(path)}.npy"
    with prefixing(file, OSError):
        try:
            cells = np.asarray(np.load(file, allow_pickle=False), float).reshape(-1, 2)
        except (ValueError, EOFError):
            raise InputError(f"{file}: not an array of cells (n, 2); give the one that came with the world") from None
    places = np.vstack([START, FIRST_CELL + CELL * cells, (START[0], START[1] + DISTANCE)])
    return float(np.hypot(*np.diff(places, axis=0).T).sum()) / SPEED


def scenario_of(path: Path, width: float) -> Scenario:
    """Returns the task in a world for a vehicle of a given width [m]."""
    k = width / JACKAL_WIDTH
    posts = tuple(Circle(k * o.x, k * o.y, k * o.radius, name=o.name) for o in read_world(path))
    goal = Goal(k * START[0], k * (START[1] + DISTANCE), k * TOLERANCE)
    return Scenario(path.stem, Pose(k * START[0], k * START[1], 0.5 * math.pi), None, DURATION, World(posts), goal, speed=k * SPEED)


def work(item: Passage) -> dict[str, Any]:
    """Drives a world; returns the result as JSON, with its time [s] and score. Raises InputError: unknown vehicle or world."""
    path, vehicle = Path(item.world), load_vehicle(item.vehicle)
    task, best = scenario_of(path, 2.0 * vehicle.footprint.half_width), optimal_time(path)
    assert task.speed is not None
    plant = PlantSettings.of(vehicle, CHASSIS, lidar=item.lidar, tracker=item.tracker)
    run = drive(vehicle, task, make_driver("mpc", vehicle, item.settings, plant.tyre, item.lattice), plant, patience=PATIENCE)
    result = summarise_run(task, run)
    distance = np.hypot(run.column("x") - task.initial.x, run.column("y") - task.initial.y)
    start = float(run.times[np.argmax(distance >= TIMING_START * task.speed / SPEED)])
    time = None if result["reached"] is None or result["collision"] else result["reached"] - start
    return {"world": path.stem, "vehicle": vehicle.name, **result, "optimal": best, "time": time, "score": score(time, best)}


def score(time: float | None, best: float, maximum: float = 0.5) -> float:
    """Returns the challenge's score, from 1/8 to `maximum` (1/2 since 2023, 1/4 in 2022), 0 without a time [s]."""
    return 0.0 if time is None else best / min(max(time, best / maximum), 8.0 * best)


def key(item: Passage) -> str:
    """Hashes all that a result depends on. Raises InputError: unknown world."""
    path = Path(item.world)
    return cache_key({"item": asdict(item), "vehicle": load_vehicle(item.vehicle).identity, "optimal": optimal_time(path),
                      "world": _bytes(path).decode(errors="replace")}, CACHE_DEPENDENCIES)


def tables(runs: Sequence[dict[str, Any]]) -> list[Table]:
    """Returns the figures of the challenge, and the failed worlds."""
    arrived = [run["time"] for run in runs if run["time"] is not None]
    hit = [run for run in runs if run["collision"]]
    late = [run for run in runs if run["time"] is None and not run["collision"]]
    n = len(runs)
    line = [runs[0]["vehicle"], str(n), f"{len(arrived) / n:.2f}", f"{len(hit) / n:.2f}", f"{len(late) / n:.2f}",
            f"{np.mean(arrived):.1f}" if arrived else "-", f"{np.mean([score(run['time'], run['optimal'], 0.25) for run in runs]):.3f}",
            f"{np.mean([run['score'] for run in runs]):.3f}"]
    failed = [[run["world"], f"hits {run['collision']}" if run["collision"] else "diverges" if run["diverged"] else
               "stands" if run["stands"] else "is too slow", f"{run['seconds']:.1f}", f"{run['length']:.1f}"] for run in (*hit, *late)]
    return [(["vehicle", "worlds", "success", "collision", "time-out", "time [s]", "score, at most 0.25", "score, at most 0.5"], [line]),
            *([(["world", "the vehicle", "after [s]", "driven [m]"], failed)] if failed else [])]


def _number(path: Path) -> int:
    match = re.fullmatch(r"world_(\d{1,9})", path.stem)
    if match is None:
        raise InputError(f"{path}: not named as a world of BARN; name it world_N.world, N being that of its path_files/path_N.npy")
    return int(match[1])


def _bytes(path: Path) -> bytes:
    with prefixing(path, OSError):
        if path.stat().st_size > MAX_GENERATED_LENGTH:
            raise InputError(f"{path}: longer than {MAX_GENERATED_LENGTH} bytes; give a world of BARN")
        return path.read_bytes()


def _numbers(text: str, count: int, where: str) -> list[float]:
    words = text.split()
    if len(words) != count or not all(map(is_number, words)):
        raise InputError(f"{where} is {quote(text)}; give {count} number{'s' if count > 1 else ''}")
    return [float(word) for word in words]
