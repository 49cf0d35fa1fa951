"""The embedded multibody beside what paper 001 compares it with: constraints left in the equations, and its lane change.

`lfdm bench multibody`, or `python benchmarks/multibody.py`. All forms of the same vehicle are timed in turn, so that all see the same
machine; MuJoCo and Pinocchio where they are installed (the extra `test` has them).
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from lfdm_lab.benchmarks import _augmented, _mujoco, batch
from lfdm_lab.benchmarks import _bodies as bodies
from lfdm_lab.benchmarks import _subjects as subjects
from lfdm_lab.cli.bench import Record, format_table
from lfdm_ros.models import WHEELS
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.simulation import InputProfile, Simulator, rollout
from lfdm_ros.vehicles import load_vehicle

VEHICLE, MODEL, STEP = "hmmwv_multibody", "multibody_hmmwv", 1e-3
STEPS = {"embedded": 20_000, "tree_augmented/pinocchio": 1500, "tree_augmented/mujoco": 3000, "fully_augmented/mujoco": 1000,
         "fully_augmented/dense": 60}
REPEATS = 5  # a run is the best of so many
# Paper 001, Table 1: time of each form over that of the embedded one, coordinates, constraints.
PAPER = {"embedded": (1.0, 15, 0), "tree_augmented": (4.1, 45, 30), "fully_augmented": (120.0, 216, 201)}
PACKAGES = {"mujoco": "mujoco", "pinocchio": "pin"}  # as they are imported and installed
# Paper 001, Table 10: largest and smallest of a lane change, in ADAMS and in its own simulator; loads over those at rest.
LANE_CHANGE = {
    **{f"load_{wheel}": ("1", adams, roams) for wheel, adams, roams in (
        ("fl", (1.5, 0.5), (1.6, 0.5)), ("fr", (1.5, 0.5), (1.6, 0.5)), ("rl", (1.8, 0.3), (1.7, 0.1)), ("rr", (1.7, 0.2), (1.7, 0.1)))},
    "lateral_acceleration": ("g", (0.5, None), (0.6, None)),
    "roll_angle": ("deg", (4.1, -3.7), (4.8, -4.8)), "roll_rate": ("deg/s", (16.0, -17.8), (13.2, -14.4))}
SPEED, AMPLITUDE, THROTTLE = 15.0, 0.3, 0.12


def measure(runs: int) -> list[Record]:
    """All numbers of `lfdm bench multibody`."""
    return [*forms(runs), *many(runs), *lane_change()]


# -- Embedded, tree-augmented, fully augmented ------------------------------------------------------------------------------------------

def forms(runs: int) -> list[Record]:
    """Time of a step of each form, and over that of the embedded one in the same run; sizes, and how far accelerations are apart."""
    vehicle = bodies.possible(load_vehicle(VEHICLE)).replace(axle_inertia=0.0)
    ways: dict[str, Callable[[], float]] = {"embedded": Embedded().microseconds}
    sizes = {"embedded": (15, 0)}
    free = _augmented.Free(vehicle)
    ways["fully_augmented/dense"] = lambda: free.microseconds(STEPS["fully_augmented/dense"])
    sizes["fully_augmented/dense"] = free.size
    found = {"fully_augmented/dense": free.accelerations()}
    if importlib.util.find_spec("pinocchio"):
        tree = _augmented.Tree(vehicle)
        ways["tree_augmented/pinocchio"] = lambda: tree.microseconds(STEPS["tree_augmented/pinocchio"])
        sizes["tree_augmented/pinocchio"] = tree.size
        found["tree_augmented/pinocchio"] = tree.accelerations()
    if importlib.util.find_spec("mujoco"):
        for form, full in (("tree_augmented/mujoco", False), ("fully_augmented/mujoco", True)):
            engine = MuJoCo(vehicle, full)
            ways[form] = partial(engine.microseconds, STEPS[form])
            sizes[form] = engine.size
            if not full:
                found[form] = engine.accelerations()
    for name, package in PACKAGES.items():
        if not importlib.util.find_spec(name):
            print(f"without {name}; to have it here: pip install {package}", file=sys.stderr)
    times: dict[str, list[float]] = {form: [] for form in ways}
    for _ in range(runs):
        best = dict.fromkeys(ways, np.inf)
        for _ in range(REPEATS):
            best = {form: min(best[form], way()) for form, way in ways.items()}
        for form, value in best.items():
            times[form].append(value)
    records = [Record.of(f"step_us/{form}", values, "us") for form, values in times.items()]
    records += [Record.of(f"ratio/{form}", [value / own for value, own in zip(values, times["embedded"])], "1")
                for form, values in times.items() if form != "embedded"]
    for form, (coordinates, constraints) in sizes.items():
        records += [Record(f"coordinates/{form}", coordinates, "1", 0.0, 1), Record(f"constraints/{form}", constraints, "1", 0.0, 1)]
    for form, (ratio, coordinates, constraints) in PAPER.items():
        records += [Record(f"{name}/{form}/paper_001", value, "1", 0.0, 1) for name, value in (
            ("ratio", ratio), ("coordinates", coordinates), ("constraints", constraints))]
    first, *others = found.items()
    records += [Record(f"accelerations_apart/{form}", float(np.abs(its - first[1]).max() / np.abs(first[1]).max()), "1", 0.0, 1)
                for form, its in others]
    return records


class Embedded:
    """Ours: with tyres, drive, springs, dampers and stops, a lane change of 20 s."""

    def __init__(self) -> None:
        self.simulator = Simulator(load_vehicle(VEHICLE), model=MODEL, dt=STEP)

    def microseconds(self) -> float:
        self.simulator.reset(vx=SPEED)
        steps = STEPS["embedded"] // 4
        began = time.perf_counter()
        for steering in (0.1, -0.1, 0.1, -0.1):
            self.simulator.advance([steering, THROTTLE, 0.0], [-steering, THROTTLE, 0.0], steps)
        return 1e6 * (time.perf_counter() - began) / (4 * steps)


class MuJoCo:
    """A tree with its loops or all bodies free, linear springs and dampers, no tyres, Euler's method."""

    def __init__(self, vehicle: Any, full: bool):
        import mujoco

        self.engine = mujoco
        self.points = bodies.Points(vehicle)
        self.model, self.data = _mujoco.load(_mujoco.document(vehicle, STEP, integrator="Euler", full=full, passive=True))
        mujoco.mj_forward(self.model, self.data)
        self.size = int(self.model.nv), int(self.data.nefc)
        self.bare = _mujoco.load(_mujoco.document(vehicle, STEP, integrator="Euler", full=full))

    def accelerations(self) -> np.ndarray:
        """As those of `_augmented.Tree`."""
        model, data = self.bare
        torques = _augmented.TORQUES
        body = self.engine.mjtObj.mjOBJ_BODY
        at = [model.jnt_dofadr[model.body_jntadr[self.engine.mj_name2id(model, body, name)]] for name in torques]
        data.qfrc_applied[at] = list(torques.values())
        self.engine.mj_forward(model, data)
        return np.concatenate([data.qacc[:6], data.qacc[at]])

    def microseconds(self, steps: int) -> float:
        self.engine.mj_resetData(self.model, self.data)
        began = time.perf_counter()
        self.engine.mj_step(self.model, self.data, steps)
        return 1e6 * (time.perf_counter() - began) / steps


def many(runs: int) -> list[Record]:
    """As a batch of vehicles on all cores, by vehicle and step."""
    whole = batch.Batch(subjects.MULTIBODY)
    return [Record.of(f"batch_step_us/{batch.VEHICLES}_vehicles", [1e-3 * whole.nanoseconds() for _ in range(runs)], "us")]


# -- The paper's lane change ------------------------------------------------------------------------------------------------------------

def lane_change() -> list[Record]:
    """Largest and smallest of each quantity, ours beside the paper's."""
    knots = np.arange(0.0, 8.001, 0.05)
    there, back = (np.where((knots > t) & (knots < t + 2.0), np.sin(np.pi * (knots - t)), 0.0) for t in (1.0, 4.0))
    profile = InputProfile(knots, AMPLITUDE * (there - back), np.full_like(knots, THROTTLE), np.zeros_like(knots))
    simulator = Simulator(load_vehicle(VEHICLE), model=MODEL, dt=STEP)
    simulator.reset()
    rest = simulator.outputs.copy()
    simulator.reset(vx=SPEED)
    _, outputs = rollout(simulator, profile, 8.0)
    y = dict(zip(simulator.output_names, outputs.T))
    at_rest = dict(zip(simulator.output_names, rest))
    ours = {**{f"load_{wheel}": y[f"tyre_fz_{wheel}"] / at_rest[f"tyre_fz_{wheel}"] for wheel in WHEELS},
            "lateral_acceleration": y["ay"] / GRAVITY, "roll_angle": np.degrees(y["roll"]), "roll_rate": np.degrees(y["roll_rate"])}
    records = []
    for name, (unit, adams, roams) in LANE_CHANGE.items():
        for end, k, value in (("largest", 0, ours[name].max()), ("smallest", 1, ours[name].min())):
            records.append(Record(f"lane_change/{name}/{end}", float(value), unit, 0.0, 1))
            records += [Record(f"lane_change/{name}/{end}/{of}", published, unit, 0.0, 1)
                        for of, pair in (("adams", adams), ("roams", roams)) if (published := pair[k]) is not None]
    return records


if __name__ == "__main__":
    print(format_table(measure(3)))
