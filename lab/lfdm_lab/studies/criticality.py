"""The measures of commonroad-crime beside the risk, on the episodes of `lfdm study risk`: whose numbers foretell what happened?

It pins packages that do not go together with each other nor with ours, so it has an environment of its own, without their dependencies:

    python -m venv crime
    crime/bin/pip install --no-deps commonroad-crime==0.4.5 commonroad-io==2024.3 commonroad-vehicle-models==3.0.2 \\
        commonroad-route-planner==2025.1.0 commonroad-drivability-checker==2025.3.1 commonroad-reach==2025.2.1 commonroad-clcs==2025.2.0 \\
        protobuf==3.20.2 polygon3
    crime/bin/pip install "numpy<2.3" scipy "shapely<3" omegaconf casadi tqdm imageio "matplotlib<3.9" networkx lxml iso3166 pyproj rtree \\
        triangle antlr4-python3-runtime==4.13.2 ordered-set osqp==0.6.7.post3 opencv-python-headless seaborn pytest

    lfdm study risk --seeds 200 --slow-seeds 0 --out judged
    python lab/lfdm_lab/studies/criticality.py tell judged/results.json scenes.json          # what each of them may know
    crime/bin/python lab/lfdm_lab/studies/criticality.py measure scenes.json measures.json [MEASURE ...]
    python lab/lfdm_lab/studies/criticality.py table judged/results.json measures.json

They are told what the risk is told: the state, the command held on the vehicle's own parameters, the obstacles as they are seen, the lane.
The vehicle's limits are theirs (a BMW 320i), and none of them knows how sure anything is.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

STEP, AHEAD = 0.1, 3.0  # [s]
# Of what can be asked without traffic rules, other drivers or more than one lane. TTCStar: time to collision along the predicted way, with
# obstacles or the lane's border; TTR: until which braking, accelerating or steering still avoids it.
MEASURES = ("TTC", "TTCStar", "TTB", "TTR", "BTN", "STN")
TIMES = ("TTC", "TTCStar", "TTB", "TTK", "TTS", "TTR", "THW", "WTTC")  # the less the worse
FAR = 1e6
EGO, FIRST = 1000, 2000


def scene(seed: int) -> dict[str, Any]:
    """What is known at the beginning of an episode, SI; coordinates of the middle of the vehicle's outline."""
    from lfdm_lab.studies import risk
    from lfdm_ros.sharing.forecast import Forecast, column

    vehicle, situation = risk.situation_of(seed)
    assert situation.operator is not None and situation.corridor is not None
    plan = Forecast(vehicle).held(situation, situation.operator, AHEAD)
    at = np.arange(0.0, AHEAD + 0.5 * STEP, STEP)
    x, y, yaw, v = (np.interp(at, plan.times, column(plan, name)) for name in ("x", "y", "yaw", "vx"))
    outline, seen, corridor = vehicle.footprint, situation.obstacles, situation.corridor
    shift = 0.5 * (outline.front - outline.rear)
    s = np.linspace(0.0, corridor.path.length, 40)
    px, py, turn, _ = corridor.path.at(s)
    left, right = corridor.room_at(s)
    return {"seed": seed, "length": outline.front + outline.rear, "width": 2.0 * outline.half_width,
            "states": np.column_stack([x + shift * np.cos(yaw), y + shift * np.sin(yaw), yaw, v, np.gradient(v, at)]).tolist(),
            "obstacles": np.column_stack([seen.centres, seen.radii, seen.velocities]).tolist(),
            "middle": np.column_stack([px, py]).tolist(),
            "left": np.column_stack([px - left * np.sin(turn), py + left * np.cos(turn)]).tolist(),
            "right": np.column_stack([px + right * np.sin(turn), py - right * np.cos(turn)]).tolist()}


def measured(told: dict[str, Any], names: tuple[str, ...]) -> dict[str, float | None]:
    """What the measures say of a scene, the larger the worse; None: nothing."""
    import commonroad_crime.measure as measures
    from commonroad.geometry.shape import Circle, Rectangle
    from commonroad.prediction.prediction import TrajectoryPrediction
    from commonroad.scenario.lanelet import Lanelet, LaneletType
    from commonroad.scenario.obstacle import DynamicObstacle, ObstacleType, StaticObstacle
    from commonroad.scenario.scenario import Scenario
    from commonroad.scenario.state import CustomState, InitialState
    from commonroad.scenario.trajectory import Trajectory
    from commonroad_crime.data_structure.configuration import CriMeConfiguration

    def state(kind: Any, k: int, x: float, y: float, yaw: float, v: float, a: float) -> Any:
        return kind(time_step=k, position=np.array([x, y]), orientation=yaw, velocity=v, acceleration=a, yaw_rate=0.0, slip_angle=0.0)

    def moving(number: int, kind: Any, shape: Any, rows: list[list[float]]) -> Any:
        way = Trajectory(1, [state(CustomState, k, *row) for k, row in enumerate(rows[1:], 1)])
        return DynamicObstacle(number, kind, shape, state(InitialState, 0, *rows[0]), TrajectoryPrediction(way, shape))

    scenario = Scenario(STEP)
    left, middle, right = (np.array(told[name]) for name in ("left", "middle", "right"))
    scenario.add_objects(Lanelet(left, middle, right, 1, lanelet_type={LaneletType.URBAN}))
    scenario.add_objects(moving(EGO, ObstacleType.CAR, Rectangle(told["length"], told["width"]), told["states"]))
    for i, (x, y, radius, vx, vy) in enumerate(told["obstacles"]):
        speed, yaw = math.hypot(vx, vy), math.atan2(vy, vx)
        if speed:
            rows = [[x + k * STEP * vx, y + k * STEP * vy, yaw, speed, 0.0] for k in range(len(told["states"]))]
            scenario.add_objects(moving(FIRST + i, ObstacleType.PEDESTRIAN, Circle(radius), rows))
        else:
            there = state(InitialState, 0, x, y, 0.0, 0.0, 0.0)
            scenario.add_objects(StaticObstacle(FIRST + i, ObstacleType.PILLAR, Circle(radius), there))
    scenario.assign_obstacles_to_lanelets()
    config = CriMeConfiguration()
    config.update(ego_id=EGO, sce=scenario)
    found: dict[str, float | None] = {}
    for name in names:
        try:
            value = getattr(measures, name)(config).compute_criticality(0, verbose=False)
        except Exception:
            value = None
        if value is None or math.isnan(value):
            found[name] = None
        else:
            found[name] = max(min(-value if name in TIMES else value, FAR), -FAR)
    return found


def measure(scenes: Path, out: Path, names: tuple[str, ...]) -> None:
    """Writes what the measures say, scene by scene."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    rows, began = [], time.perf_counter()
    told = json.loads(scenes.read_text())
    for one in told:
        rows.append({"seed": one["seed"], "said": measured(one, names)})
        print(f"{len(rows)} of {len(told)}, {time.perf_counter() - began:.0f} s", file=sys.stderr)
        out.write_text(json.dumps(rows))


def table(results: Path, measured_by: Path) -> str:
    """Theirs and ours on the same episodes."""
    from lfdm_lab.studies import risk
    from lfdm_ros.page import markdown

    said = {row["seed"]: row["said"] for row in json.loads(measured_by.read_text())}
    runs = [run for run in json.loads(results.read_text())["runs"] if run["world"] == "known"]
    # What says nothing of a scene sees nothing in it.
    episodes = [{**e, "threats": {**e["threats"], **{name: -FAR if v is None else v for name, v in said[e["seed"]].items()}}}
                for run in runs for e in run["episodes"] if e["seed"] in said]
    return markdown(risk.measures_table(risk.measures([{"world": "known", "first": 1, "episodes": episodes}])))


def main(command: str, *arguments: str) -> int:
    """tell RESULTS SCENES, measure SCENES OUT [MEASURE ...], or table RESULTS MEASURES."""
    if command == "tell":
        runs = json.loads(Path(arguments[0]).read_text())["runs"]
        scenes = [scene(e["seed"]) for run in runs if run["world"] == "known" for e in run["episodes"]]
        Path(arguments[1]).write_text(json.dumps(scenes))
    elif command == "measure":
        measure(Path(arguments[0]), Path(arguments[1]), arguments[2:] or MEASURES)
    elif command == "table":
        print(table(Path(arguments[0]), Path(arguments[1])))
    else:
        print(f"no command '{command}'; give tell, measure or table", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
