"""How far 8-, 18-, 24-DOF and multibody are from the HMMWV of Chrono::Vehicle as they come from public data, before any calibration.

`lfdm bench chrono`, or `python benchmarks/chrono.py`. Of recordings with velocities (acc, ramp, coast, test_1) the RMSE of each channel, of
those with places alone (acc and steer, another driveline and tyre) the distance at the end and the mean distance of the paths. Every model
gets the same inputs, steering as the recorded angle of the road wheels; nothing is fitted.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from lfdm_lab.benchmarks import _reference as reference
from lfdm_lab.benchmarks import accuracy
from lfdm_lab.cli.bench import Record, format_table
from lfdm_ros.bags import import_recording, read_series
from lfdm_ros.models import WHEELS
from lfdm_ros.models.registry import SLOTS
from lfdm_ros.resources import find_config
from lfdm_ros.simulation import InputProfile, Simulator, rollout
from lfdm_ros.vehicles import Vehicle, load_vehicle

MAPPING = "sbel_hmmwv"
# Recordings with velocities: what they are called, and the window in which the recipes look at them [s].
WINDOWS = {"acc": ("acc", 1.0, 8.5), "ramp": ("simp_ramp", 7.0, 10.7), "coast": ("rr_1", 5.6, 10.6), "test_1": ("test_1", 1.0, 12.5)}
CHANNELS = {"acc": ("vx", "omega_rl", "roll"), "ramp": ("vy", "yaw_rate", "roll", "roll_rate"), "coast": ("vx",),
            "test_1": ("vx", "vy", "yaw_rate", "roll", "roll_rate")}
STARTS = ("x", "y", "yaw", "vx", "vy", "yaw_rate")
TRUTH = "hmmwv_multibody"
# With velocities: the recorded vehicle has Fiala tyres; with them the 18-DOF model is the 8-DOF one, so it has TMeasy tyres here.
MODELS = ("eight_dof/fiala", "eighteen_dof/tmeasy", "twenty_four_dof/fiala", "multibody_hmmwv/fiala")
# With places alone: that one has TMeasy tyres, engine, torque converter and gears.
PLACED = ("eight_dof/tmeasy_nr", "eighteen_dof/tmeasy", "twenty_four_dof/tmeasy", "multibody_hmmwv/tmeasy")
SHAFTS, STEP, OUTPUT_STEP = "hmmwv_shafts", 1e-3, 0.01


def measure(runs: int) -> list[Record]:
    """All numbers of `lfdm bench chrono`; they do not scatter, so `runs` changes nothing."""
    return [Record(name, value, unit, 0.0, 1) for name, value, unit in (*velocities(), *places())]


def of_chassis(vehicle: Vehicle, model: str) -> Vehicle:
    """The vehicle for a model: 24-DOF and multibody add the unsprung masses to the yaw inertia."""
    return accuracy.without_suspension(vehicle) if model.startswith("ei") else vehicle


def velocities() -> list[tuple[str, float, str]]:
    """RMSE of each channel of each recording, from its state at the start of the window."""
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for run, (name, start, end) in WINDOWS.items():
            bag = Path(folder, name)
            import_recording(reference.folder("sbel_hmmwv_bayes_calibration") / f"{name}.csv", find_config("recordings", MAPPING), bag)
            fields = [f"wheel_speeds[{i}]" for i in range(4)]
            states = [*STARTS, "roll", "roll_rate", "road_wheel_angle"]
            series = read_series(bag, "vehicle/state", [*states, *fields])
            inside = (series.time > start - 1e-6) & (series.time < end - 1e-6)
            recorded = dict(zip([*states, *(f"omega_{wheel}" for wheel in WHEELS)], series.values[inside].T))
            commands = read_series(bag, "control/command", ["throttle", "brake"])
            times = series.time[inside] - start
            pedals = [np.interp(series.time[inside], commands.time, column) for column in commands.values.T]
            for model in MODELS:
                vehicle = of_chassis(load_vehicle(TRUTH), model)
                profile = InputProfile(times, recorded["road_wheel_angle"] / vehicle.parameters["max_road_wheel_angle"], *pedals)
                start_values = {state: values[0] for state, values in recorded.items()
                                if state in STARTS or (state.startswith("omega") and np.isfinite(values[0]))}
                found = driven(vehicle, model, profile, times[-1], start_values)
                for channel in CHANNELS[run]:
                    error = found[channel][:len(times)] - recorded[channel][:len(found[channel])]
                    unit = {"vx": "m/s", "vy": "m/s", "roll": "rad"}.get(channel, "rad/s")
                    records.append((f"rmse/{run}/{channel}/{model}", float(np.sqrt(np.nanmean(error**2))), unit))
    return records


def places() -> list[tuple[str, float, str]]:
    """Of the recordings that have places alone."""
    shafts, truth = load_vehicle(SHAFTS), load_vehicle(TRUTH)
    parts = (SLOTS["powertrain"]["automatic"], SLOTS["tyre"]["tmeasy"])
    parts_of = {f.name: shafts.parameters[f.name] for part in parts for f in part.parameters}
    angle = shafts.parameters["max_road_wheel_angle"]
    further = angle / truth.parameters["max_road_wheel_angle"]
    truth = truth.replace(source="", **parts_of, **{name: shafts.parameters[name] for name in (
        "friction_scale", "max_road_wheel_angle", "tyre_vertical_stiffness_front", "tyre_vertical_stiffness_rear")},
        pitman_arm_lock=truth.parameters["pitman_arm_lock"] * further)
    records = []
    for run in ("acc", "steer"):
        recorded, profile = reference.chrono_path(run), reference.chrono_inputs(run)
        tree = cKDTree(recorded[:, 1:])
        for model in PLACED:
            vehicle = truth if model.startswith("multibody") else of_chassis(shafts, model)
            found = driven(vehicle, model, profile, round(float(recorded[-1, 0]), 2), {})
            path = np.column_stack([found["x"], found["y"]])
            records += [(f"end_distance/{run}/{model}", float(np.linalg.norm(path[-1] - recorded[-1, 1:])), "m"),
                        (f"path_distance/{run}/{model}", float(np.mean(tree.query(path)[0])), "m")]
    return records


def driven(vehicle: Vehicle, model: str, profile: InputProfile, until: float, start: dict[str, float]) -> dict[str, np.ndarray]:
    """Outputs by name every 10 ms."""
    simulator = Simulator(vehicle, model=model, dt=STEP)
    simulator.reset(**{name: float(value) for name, value in start.items() if name in {field.name for field in simulator.model.states}})
    _, outputs = rollout(simulator, profile, round(until, 6), OUTPUT_STEP)
    return dict(zip(simulator.output_names, outputs.T))


if __name__ == "__main__":
    print(format_table(measure(1)))
