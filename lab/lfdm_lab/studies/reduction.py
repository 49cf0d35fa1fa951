"""What do smaller models learn from the multibody, and what can they not? 8-, 18- and 24-DOF are calibrated on its recordings and predict.

The multibody (with TMeasy tyres) drives a weave with growing frequency, and straight on with throttle and brake; sensors measure it with
white noise. Each model is calibrated by its recipe (config/calibration/reduction_*.yaml), which frees what that model has for suspension
and steering. Then both drive what was not recorded: a faster lane change, and braking in a bend. What stays between them is what the model
cannot learn: noise is not in that comparison.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_lab.studies import STUDIES
from lfdm_ros.calibration import calibrate, load_recipe
from lfdm_ros.calibration.checkpoint import MADE_BY as CALIBRATING
from lfdm_ros.calibration.recorded import write_drive
from lfdm_ros.models import WHEELS
from lfdm_ros.resources import find_config
from lfdm_ros.samplers.sampler import QUICK
from lfdm_ros.simulation import InputProfile, Simulator, rollout
from lfdm_ros.sources import key_of
from lfdm_ros.vehicles import Vehicle, load_vehicle

MADE_BY = (*CALIBRATING, f"{STUDIES}/reduction")
VEHICLE, TRUTH = "hmmwv_multibody", "multibody_hmmwv/tmeasy"
RECIPES = ("reduction_8dof", "reduction_18dof", "reduction_24dof")
MEASURED = "measured/state"
NOISE = {"vx": 0.03, "vy": 0.02, "yaw_rate": 0.003, "roll": 0.0005, "roll_rate": 0.002, "pitch": 0.0005, "pitch_rate": 0.002}
STEP, OUTPUT_STEP = 1e-3, 0.01


@dataclass(frozen=True)
class Manoeuvre:
    """Inputs over time, and the speed at the start [m/s]."""

    speed: float
    seconds: float
    profile: InputProfile


def _weave() -> InputProfile:
    """From 0.25 to 0.8 Hz in 10 s."""
    t = np.arange(0.0, 10.01, 0.05)
    steering = 0.14 * np.sin(2.0 * np.pi * (0.25 * t + 0.0275 * t * t)) * np.minimum(t, 1.0)
    return InputProfile(t, steering, np.full_like(t, 0.03), np.zeros_like(t))


def _lane_change() -> InputProfile:
    t = np.arange(0.0, 6.01, 0.05)
    steering = np.where((t > 1.0) & (t < 3.5), 0.22 * np.sin(2.0 * np.pi * (t - 1.0) / 2.5), 0.0)
    return InputProfile(t, steering, np.full_like(t, 0.03), np.zeros_like(t))


RECORDED = {
    "turns": Manoeuvre(14.0, 10.0, _weave()),
    "straight": Manoeuvre(10.0, 10.0, InputProfile([0, 1, 2, 4, 4.5, 6, 7, 10], [0] * 8, [0, 0, 0.6, 0.6, 0, 0, 0.3, 0.3],
                                                   [0, 0, 0, 0, 0.25, 0.25, 0, 0])),
}
UNSEEN = {
    "lane_change": Manoeuvre(17.0, 6.0, _lane_change()),
    "braking_in_a_bend": Manoeuvre(16.0, 6.0, InputProfile([0, 1, 3, 3.3, 6], [0, 0.11, 0.11, 0.11, 0.11], [0.03, 0.03, 0.03, 0, 0],
                                                           [0, 0, 0, 0.12, 0.12])),
}
# What is compared, with its unit; loads are the mean of the four wheels' errors. Angles from where the vehicle stands.
CHANNELS = {"vx": "m/s", "vy": "m/s", "yaw_rate": "rad/s", "roll": "rad", "roll_rate": "rad/s", "pitch": "rad", "road_wheel_angle": "rad",
            "loads": "N"}


def items() -> list[str]:
    """What is to be done: a recipe each."""
    return list(RECIPES)


def key(recipe: str) -> str:
    """Hash of all that a result depends on."""
    return key_of({"recipe": find_config("calibration", recipe).read_text(encoding="utf-8"), "vehicle": load_vehicle(VEHICLE).identity,
                   "manoeuvres": repr(RECORDED | UNSEEN), "noise": NOISE}, MADE_BY)


def work(recipe: str) -> dict[str, Any]:
    """Calibrates one model and lets it predict.

    Returns:
        model; learned: mean, sd and unit of each unknown; conflicts: where the recordings contradict each other; fit: RMSE of the channels
        that were fitted; unseen: of each manoeuvre the error and the size of each channel, the distance at the end [m], and series for the
        picture; seconds.
    """
    began = time.perf_counter()
    loaded = load_recipe(recipe)
    with tempfile.TemporaryDirectory() as folder:
        bags = []
        for seed, (name, manoeuvre) in enumerate(RECORDED.items(), 1):
            simulator = Simulator(load_vehicle(VEHICLE), model=TRUTH, dt=STEP)
            simulator.reset(vx=manoeuvre.speed)
            bags.append(Path(folder, name))
            times, outputs = rollout(simulator, manoeuvre.profile, manoeuvre.seconds, OUTPUT_STEP)
            columns = dict(zip(simulator.output_names, outputs.T))
            write_drive(bags[-1], name, times, columns, manoeuvre.profile.sample(times), simulator.model.wheels, [MEASURED], NOISE, seed,
                        linear=True)
        out = Path(folder, "calibrated")
        summary = calibrate(loaded, bags, out, sampler=QUICK)
        vehicle = load_vehicle(out / "vehicle.yaml")
    (stage,) = summary["stages"]
    learned = {name: {"mean": row["mean"], "sd": row["sd"], "unit": row["unit"]} for name, row in stage["parameters"].items()}
    fitted = {channel: rmse["posterior"] for channel, rmse in stage["rmse"].items()} if "rmse" in stage else {}
    return {"recipe": recipe, "model": loaded.model, "learned": learned, "fit": fitted,
            "conflicts": [text for text in summary["warnings"] if "standard deviations apart" in text],
            "unseen": {name: _predicted(vehicle, loaded.model, manoeuvre) for name, manoeuvre in UNSEEN.items()},
            "seconds": time.perf_counter() - began}


def _predicted(vehicle: Vehicle, model: str, manoeuvre: Manoeuvre) -> dict[str, Any]:
    truth, found = (_driven(*of, manoeuvre) for of in ((load_vehicle(VEHICLE), TRUTH), (vehicle, model)))
    rows = {}
    for channel in CHANNELS:
        names = [f"tyre_fz_{wheel}" for wheel in WHEELS] if channel == "loads" else [channel]
        errors = [found[name] - truth[name] for name in names]
        sizes = [truth[name] for name in names]
        rows[channel] = {"error": float(np.sqrt(np.mean(np.square(errors)))), "size": float(np.sqrt(np.mean(np.square(sizes))))}
    end = float(np.hypot(found["x"][-1] - truth["x"][-1], found["y"][-1] - truth["y"][-1]))
    series = {name: {"truth": truth[name][::4].tolist(), "model": found[name][::4].tolist()} for name in ("yaw_rate", "roll", "pitch")}
    return {"channels": rows, "end": end, "series": series}


def _driven(vehicle: Vehicle, model: str, manoeuvre: Manoeuvre) -> dict[str, np.ndarray]:
    """Outputs by name; loads and angles of roll and pitch from those at the start."""
    simulator = Simulator(vehicle, model=model, dt=STEP)
    simulator.reset(vx=manoeuvre.speed)
    _, outputs = rollout(simulator, manoeuvre.profile, manoeuvre.seconds, OUTPUT_STEP)
    found = dict(zip(simulator.output_names, outputs.T))
    for name in ("roll", "pitch", *(f"tyre_fz_{wheel}" for wheel in WHEELS)):
        found[name] = found[name] - found[name][0]
    return found


# -- Tables and picture -----------------------------------------------------------------------------------------------------------------

Runs = Sequence[Mapping[str, Any]]


def table(runs: Runs) -> str:
    """Markdown: errors on what was not recorded, in % of each channel's own size, and what was learned."""
    models = [run["model"].split("/")[0] for run in runs]
    head = [f"| | {' | '.join(models)} |", "| --- |" + " --- |" * len(models)]
    parts = []
    for name in UNSEEN:
        rows = [f"{name}: RMSE, and in % of the channel's own RMS", "", *head]
        for channel, unit in CHANNELS.items():
            cells = []
            for run in runs:
                row = run["unseen"][name]["channels"][channel]
                cells.append(f"{row['error']:.2g}" + (f" ({100.0 * row['error'] / row['size']:.0f} %)" if row["size"] else ""))
            rows.append(f"| {channel} [{unit}] | {' | '.join(cells)} |")
        rows.append(f"| place at the end [m] | {' | '.join(f'''{run['unseen'][name]['end']:.2f}''' for run in runs)} |")
        parts.append("\n".join(rows))
    rows = ["learned", "", *head]
    for parameter in dict.fromkeys(name for run in runs for name in run["learned"] if not name.startswith("sigma/")):
        cells = []
        for run in runs:
            row = run["learned"].get(parameter)
            cells.append(f"{row['mean']:.4g} ± {row['sd']:.2g}" if row else "")
        unit = next(run["learned"][parameter]["unit"] for run in runs if parameter in run["learned"])
        rows.append(f"| {parameter} [{unit}] | {' | '.join(cells)} |")
    parts.append("\n".join(rows))
    conflicts = [f"- {model}: {text}" for model, run in zip(models, runs) for text in run["conflicts"]]
    parts.append("\n".join(["recordings that contradict each other:" if conflicts else "no recordings contradict each other", *conflicts]))
    return "\n\n".join(parts)
