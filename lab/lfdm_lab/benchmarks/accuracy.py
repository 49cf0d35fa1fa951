"""How right each model is: against the HMMWV of Chrono::Vehicle, against the 24-DOF model, and against itself with a fine step.

`lfdm bench accuracy`. docs/which_model.md says what follows from it.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.spatial import cKDTree

from lfdm_lab.benchmarks import _reference as reference
from lfdm_lab.cli.bench import Record, format_table
from lfdm_ros.simulation import InputProfile, SimulationDiverged, Simulator, rollout
from lfdm_ros.vehicles import Vehicle, load_vehicle

VEHICLE = "hmmwv_shafts"  # the same vehicle as Chrono's, and as the C++ library's
STEP = 1e-3


def measure(runs: int) -> list[Record]:
    """All numbers of `lfdm bench accuracy`; they do not scatter, so `runs` changes nothing."""
    return [Record(name, value, unit, 0.0, 1) for name, value, unit in (*against_chrono(), *against_24_dof(), *against_fine_steps())]


def run(vehicle: Vehicle, model: str, profile: InputProfile, until: float, dt: float = STEP, **start: float) -> dict[str, np.ndarray]:
    """Time and outputs by name, every 20 ms; infinite if it diverged."""
    simulator = Simulator(vehicle, model=model, dt=dt)
    states = {field.name for field in simulator.model.states}
    simulator.reset(**{name: value for name, value in start.items() if name in states})
    try:
        times, outputs = rollout(simulator, profile, until, output_step=0.02)
    except SimulationDiverged:
        times = np.arange(round(until / 0.02) + 1) * 0.02
        outputs = np.full((len(times), len(simulator.output_names)), np.inf)
    return {"time": times, **dict(zip(simulator.output_names, outputs.T))}


# -- Chrono -----------------------------------------------------------------------------------------------------------

CHRONO_MODELS = ("eight_dof/fiala", "eleven_dof/tmeasy", "eighteen_dof/tmeasy", "twenty_four_dof/tmeasy")


def against_chrono() -> list[tuple[str, float, str]]:
    """Position at the end of both runs, ours and Chrono's; `lfdm` is the C++ library's own vehicle with its conventions.

    end_x: where it is; end_distance: how far from Chrono then; path_distance: mean distance of its path from Chrono's, whenever
    it is there.
    """
    records = []
    for name in ("acc", "steer"):
        chrono, profile = reference.chrono_path(name), reference.chrono_inputs(name)
        end, tree = chrono[-1, 1:], cKDTree(chrono[:, 1:])
        records.append((f"end_x/{name}/chrono", float(end[0]), "m"))
        vehicles = [(load_vehicle(VEHICLE), model, "physics") for model in CHRONO_MODELS]
        vehicles += [(reference.imported(chassis, "HMMWV"), chassis, "lfdm") for chassis in reference.DEGREES]
        for vehicle, model, conventions in vehicles:
            ours = run(vehicle, model, profile, round(chrono[-1, 0], 2))
            path = np.column_stack([ours["x"], ours["y"]])
            label = f"{name}/{model.split('/')[0]}/{conventions}"
            records += [(f"end_x/{label}", float(path[-1, 0]), "m"),
                        (f"end_distance/{label}", float(np.linalg.norm(path[-1] - end)), "m"),
                        (f"path_distance/{label}", float(np.mean(tree.query(path)[0])), "m")]
    for chassis in reference.DEGREES:
        records.append((f"end_x/acc/{chassis}/library", float(reference.library_run(chassis, "HMMWV", "acc3")["x"][-1]), "m"))
    return records


# -- 24 degrees of freedom ----------------------------------------------------------------------------------------------

REFERENCE_MODEL = "twenty_four_dof/tmeasy"
SIMPLER = ("linear_single_track", "nonlinear_bicycle", "eight_dof/fiala", "eleven_dof/tmeasy", "eighteen_dof/tmeasy",
           "eighteen_dof/tmeasy_nr", "twenty_four_dof/tmeasy_nr", "twenty_four_dof/fiala")
# In the third gear with the throttle that keeps this speed.
CRUISE = dict(vx=15.0, gear=3.0, engine_speed=212.0)
CRUISE_THROTTLE = 0.13
LATERAL = (1.0, 2.0, 4.0, 6.0)  # largest lateral acceleration of the 24-DOF model [m/s^2]


def lane_change(amplitude: float) -> InputProfile:
    """One sine of steering in 3 s."""
    time = np.linspace(0.5, 3.5, 151)
    steering = amplitude * np.sin(2.0 * np.pi * (time - 0.5) / 3.0)
    return InputProfile(time, steering, np.full_like(time, CRUISE_THROTTLE), np.zeros_like(time))


def without_suspension(vehicle: Vehicle) -> Vehicle:
    """The vehicle for the other models: the 24-DOF model adds its unsprung masses to `yaw_inertia`, theirs is the whole vehicle's."""
    p = vehicle.parameters
    added = sum(p[f"unsprung_mass_{axle}"] * (p[f"cg_to_{axle}_axle"] ** 2 + 0.25 * p[f"track_{axle}"] ** 2) for axle in ("front", "rear"))
    return vehicle.replace(yaw_inertia=p["yaw_inertia"] + added)


def against_24_dof() -> list[tuple[str, float, str]]:
    """A lane change at 15 m/s: largest difference of the yaw rate, in % of the largest, and of the place after 5 s."""
    vehicle, records = load_vehicle(VEHICLE), []
    for wanted in LATERAL:
        def excess(amplitude: float, wanted: float = wanted) -> float:
            return float(np.abs(run(vehicle, REFERENCE_MODEL, lane_change(amplitude), 5.0, **CRUISE)["ay"]).max()) - wanted

        profile = lane_change(brentq(excess, 0.01, 1.0, xtol=1e-3))
        truth = run(vehicle, REFERENCE_MODEL, profile, 5.0, **CRUISE)
        for model in SIMPLER:
            ours = run(vehicle if model.startswith("twenty") else without_suspension(vehicle), model, profile, 5.0, **CRUISE)
            off = np.abs(ours["yaw_rate"] - truth["yaw_rate"]).max() / np.abs(truth["yaw_rate"]).max()
            records += [(f"lane_change_yaw_rate/{wanted:g}/{model}", 100.0 * float(off), "%"),
                        (f"lane_change_place/{wanted:g}/{model}", float(np.hypot(ours["x"][-1] - truth["x"][-1],
                                                                                 ours["y"][-1] - truth["y"][-1])), "m")]
    return records


# -- Steps --------------------------------------------------------------------------------------------------------------

STEPPED = ("eight_dof/fiala", "eighteen_dof/tmeasy", "eighteen_dof/tmeasy_nr", "twenty_four_dof/fiala", "twenty_four_dof/tmeasy",
           "twenty_four_dof/tmeasy_nr")
STEPS, FINE = (5e-4, 1e-3, 2e-3, 5e-3, 1e-2), 1e-4
# From rest to 11 m/s, left and right, and braked to rest.
DRIVE = InputProfile([0, 0.5, 4, 5, 6, 7, 8, 8.5, 9], [0, 0, 0, 0.25, -0.25, 0, 0, 0, 0], [0, 1, 1, 0.3, 0.3, 0.3, 0, 0, 0],
                     [0, 0, 0, 0, 0, 0, 0, 0.4, 0.4])
DRIVE_SECONDS = 14.0


def against_fine_steps() -> list[tuple[str, float, str]]:
    """Largest difference of speed, yaw rate and front wheel speed to the run with 0.1 ms, in % of the largest of each.

    At rest at the end: how fast it still is. Infinite if the run diverged.
    """
    vehicle, records = load_vehicle(VEHICLE), []
    for model in STEPPED:
        fine = run(vehicle, model, DRIVE, DRIVE_SECONDS, FINE)
        for dt in STEPS:
            coarse = run(vehicle, model, DRIVE, DRIVE_SECONDS, dt)
            off = max(float(np.abs(coarse[name] - fine[name]).max() / np.abs(fine[name]).max()) for name in ("vx", "yaw_rate", "omega_fl"))
            records += [(f"step_error/{1e3 * dt:g}ms/{model}", 100.0 * off, "%"),
                        (f"speed_at_rest/{1e3 * dt:g}ms/{model}", float(abs(coarse["vx"][-1])), "m/s")]
    return records


if __name__ == "__main__":
    print(format_table(measure(1)))
