"""Studies of the controller in closed loop, as independent runs for processes or a cluster.

mpc: obstacle fields at several speeds, and every other scenario with a goal or a path. delay: state age and actuation delay, with and
without compensation. lane_change: increasing entry speeds until the vehicle fails. density: obstacle fields of increasing density, compared
with other controllers. The plant is always larger than the controller's model; `driving_tables` and `pictures` show the results.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path as File
from typing import Any

import numpy as np

from lfdm_lab.studies import STUDIES
from lfdm_lab.studies.mppi import Mppi
from lfdm_ros.cache_key import SIMULATION_DEPENDENCIES, cache_key
from lfdm_ros.control.controller import Controller, limits_of
from lfdm_ros.control.routing.lattice import LatticeSettings
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.closed_loop import Driver, PlantSettings, Run, drive
from lfdm_ros.engine.run_report import OUTSIDE, summarise_run
from lfdm_ros.errors import InputError, suggest
from lfdm_ros.models.spinning import SPIN
from lfdm_ros.resources import find_config, share_directory
from lfdm_ros.simulation import Scenario, load_scenario
from lfdm_ros.simulation.courses import COURSES
from lfdm_ros.simulation.world import World
from lfdm_ros.vehicles import Vehicle, load_vehicle

SPEEDS = (20, 40, 60)  # [mph] of the fields that ship with the package
FIELD = "obstacle_field_"
# Settings of each controller of the comparison.
CONTROLLERS: dict[str, dict[str, Any]] = {
    "mpc": {}, "kinematic": {"model": "kinematic_bicycle"}, "ipopt": {"solver": "ipopt"}}
# Sources that a drive depends on; a test compares them with the imports.
CACHE_DEPENDENCIES = (*SIMULATION_DEPENDENCIES, "parameters", "solvers", "sensors", "bags", "ground", "perception", "plants", "control",
                      "engine/closed_loop", "engine/run_monitor", "engine/run_report", f"{STUDIES}/driving", f"{STUDIES}/mppi")
RIVALS = ("mpc", "kinematic")  # of the study of density
MPPI = "mppi"  # only on request
SLOW = ("ipopt",)
DENSITIES = (1.0, 2.0, 4.0, 8.0, 12.0, 14.0)  # times that of the shipped field
PATIENCE = 8.0  # [s] at standstill after which a run in a field ends
DOES_NOT_ARRIVE = "does not arrive"  # a failure
DELAYS = (0.0, 0.1, 0.2, 0.3)  # [s], half in the state's age, half in the actuators
LANE_CHANGES: dict[str, dict[str, float]] = {
    "iso_3888_2": {"vehicle_width": 2.2}, "nato_lane_change": {"vehicle_width": 2.2, "vehicle_length": 4.6}}
APPROACH = 30.0  # [m] before a lane change begins
RUNS_AFTER_FAILURE = 2  # at higher speeds, after the first failure
TRACKS, TRACK_PERIOD = 3, 0.1  # seeds with recorded paths, and their period [s]


@dataclass(frozen=True)
class Trial:
    """One run; plain data for other processes.

    scenario: name or file, or with `speed` [m/s] the generator of a lane change; density: of its field, times that of the file; changes:
    of the vehicle in plant and controller, as of `load_vehicle`; patience: time at standstill [s] after which the run ends; track: the
    driven path is part of the result.
    """

    scenario: str
    seed: int | None = None
    controller: str = "mpc"
    settings: Settings = field(default_factory=lambda: Settings(time_budget=0.0))
    plant: PlantSettings = field(default_factory=PlantSettings)
    vehicle: str = "hmmwv"
    changes: tuple[str, ...] = ()
    speed: float | None = None
    density: float | None = None
    patience: float = math.inf
    track: bool = False


@dataclass(frozen=True)
class Climb:
    """Runs of a lane change at increasing speeds [m/s], until RUNS_AFTER_FAILURE beyond the first failure."""

    trial: Trial
    first: float = 5.0
    step: float = 0.5
    last: float = 36.0


Item = Trial | Climb


def controllers_settings(controller: str, base: Settings, choices: Mapping[str, dict[str, Any]] = CONTROLLERS) -> Settings:
    """Returns `base` with the changes of a controller of the comparison. Raises InputError: unknown controller."""
    if controller not in choices:
        raise InputError(f"no controller '{controller}'{suggest(controller, choices, 'choose from: ')}")
    return replace(base, **choices[controller])


def fields(seeds: int, slow_seeds: int, speeds: Sequence[int], controllers: Sequence[str], base: Settings,
           vehicle: str = "hmmwv") -> list[Trial]:
    """Returns obstacle fields of seeds 1 to `seeds` at `speeds` [mph]; 1 to `slow_seeds` for slow controllers."""
    plant = PlantSettings.of(load_vehicle(vehicle))
    trials = []
    for speed in speeds:
        for controller in controllers:
            settings = controllers_settings(controller, base)
            count = min(slow_seeds, seeds) if controller in SLOW else seeds
            trials += [Trial(f"{FIELD}{speed}", seed, controller, settings, replace(plant, seed=seed), vehicle, track=seed <= TRACKS)
                       for seed in range(1, count + 1)]
    return trials


def suite(controllers: Sequence[str], base: Settings, vehicle: str = "hmmwv") -> list[Trial]:
    """Returns every other scenario of the package that has a path or a goal."""
    plant = PlantSettings.of(load_vehicle(vehicle))
    trials = []
    for path in sorted((share_directory() / "config" / "scenarios").glob("*.yaml")):
        if path.stem.startswith(FIELD):
            continue
        scenario = load_scenario(path)
        if scenario.path is None and scenario.goal is None:
            continue
        trials += [Trial(path.stem, None, name, controllers_settings(name, base), plant, vehicle, track=True) for name in controllers]
    return trials


def delays(seeds: int, base: Settings, vehicle: str = "hmmwv") -> list[Trial]:
    """Returns slalom, NATO lane change and obstacle fields for each delay, with and without compensation."""
    trials = []
    for delay in DELAYS:
        for compensate in (True, False) if delay else (True,):
            settings, plant, changes = _delayed(base, vehicle, delay, compensate)
            trials += [Trial(name, None, "mpc", settings, plant, vehicle, changes, track=True)
                       for name in ("slalom", "nato_lane_change")]
            trials += [Trial(f"{FIELD}{speed}", seed, "mpc", settings, replace(plant, seed=seed), vehicle, changes)
                       for speed in SPEEDS[1:] for seed in range(1, seeds + 1)]
    return trials


def dense_fields(seeds: int, others: int | None, densities: Sequence[float], speeds: Sequence[int], controllers: Sequence[str],
                 base: Settings, vehicle: str = "hmmwv") -> list[Trial]:
    """Returns obstacle fields of `densities` times the shipped one, seeds 1 to `seeds` for the full controller, 1 to `others` (None: a
    third) for its rivals."""
    plant = PlantSettings.of(load_vehicle(vehicle))
    trials = []
    for controller in controllers:
        settings = controllers_settings(controller, base, {name: CONTROLLERS[name] for name in RIVALS} | {MPPI: {}})
        count = seeds if controller == "mpc" else -(-seeds // 3) if others is None else min(others, seeds)
        trials += [Trial(f"{FIELD}{speed}", seed, controller, settings, replace(plant, seed=seed), vehicle, density=density,
                         patience=PATIENCE)
                   for speed in speeds for density in densities for seed in range(1, count + 1)]
    return trials


def lane_changes(base: Settings, vehicle: str = "hmmwv", step: float = 0.5) -> list[Climb]:
    """Returns both lane changes without delay, and with 200 ms with and without compensation."""
    # No speed reduction in bends.
    base = replace(base, path_lateral_acceleration=20.0)
    climbs = []
    for course in LANE_CHANGES:
        for delay, compensate in ((0.0, True), (0.2, True), (0.2, False)):
            settings, plant, changes = _delayed(base, vehicle, delay, compensate)
            climbs.append(Climb(Trial(course, None, "mpc", settings, plant, vehicle, changes), step=step))
    return climbs


def _delayed(base: Settings, vehicle: str, delay: float, compensate: bool) -> tuple[Settings, PlantSettings, tuple[str, ...]]:
    """Returns settings, plant and changes of the vehicle for a delay [s], half as age of the state, half in the actuators."""
    half = 0.5 * delay
    plant = PlantSettings.of(load_vehicle(vehicle), state_age=half)
    return replace(base, compensate=compensate), plant, (f"actuation_delay={half}",) if half else ()


# -- A run --------------------------------------------------------------------------------------------------------------------


def make_driver(controller: str, vehicle: Vehicle, settings: Settings, tyre: str | None = "tmeasy",
                lattice: LatticeSettings | None = None) -> Driver:
    """Creates the controller with the limits of the largest model, or MPPI."""
    if controller == MPPI:
        return Mppi(vehicle)
    return Controller(vehicle, settings, limits_of(vehicle, settings, tyre), lattice)


def work(item: Item) -> dict[str, Any]:
    """Drives a trial or a climb; returns the result as JSON."""
    return _climb(item) if isinstance(item, Climb) else run_trial(item)


def run_trial(trial: Trial) -> dict[str, Any]:
    """Drives a trial with a new controller. Raises InputError: unknown scenario, vehicle or controller."""
    vehicle = trial_vehicle(trial)
    scenario = trial_scenario(trial)
    driver = make_driver(trial.controller, vehicle, trial.settings, trial.plant.tyre)
    return figures(trial, scenario, drive(vehicle, scenario, driver, trial.plant, patience=trial.patience))


def trial_vehicle(trial: Trial) -> Vehicle:
    """Returns the trial's vehicle with its changes. Raises InputError: invalid change."""
    return load_vehicle(trial.vehicle, trial.changes)


def trial_scenario(trial: Trial) -> Scenario:
    """Returns the trial's scenario, or generates its lane change."""
    if trial.speed is None:
        return load_scenario(trial.scenario, trial.seed, trial.density)
    course = COURSES[trial.scenario](**LANE_CHANGES[trial.scenario], speed=trial.speed, approach=APPROACH)
    return Scenario(trial.scenario, course.initial, None, course.duration, World(course.obstacles), course.goal, course.path, course.speed,
                    course.corridor)


def figures(trial: Trial, scenario: Scenario, run: Run) -> dict[str, Any]:
    """Returns a run's results as JSON: those of `summarise_run`, with the trial, entry and exit speed of a lane change and the track."""
    result: dict[str, Any] = {
        "scenario": File(trial.scenario).stem, "seed": trial.seed, "controller": trial.controller, "speed": scenario.speed,
        "density": 1.0 if trial.density is None else trial.density,
        "delay": trial_vehicle(trial).actuators.delay + trial.plant.state_age, "compensate": trial.settings.compensate,
        **summarise_run(scenario, run), "cycle_us": np.round(1e6 * run.seconds).astype(int).tolist()}
    vx, x, y = run.column("vx"), run.column("x"), run.column("y")
    if trial.speed is not None:
        end = x[-1] if scenario.path is None else scenario.path[-1, 0] - APPROACH
        entry, leaving = (float(vx[np.argmax(x >= limit)] if x[-1] >= limit else vx[-1]) for limit in (APPROACH, end))
        result |= {"entry_speed": entry, "exit_speed": leaving, "failure": failure(result)}
    if trial.track:
        every = max(1, round(TRACK_PERIOD / trial.settings.period))
        result["track"] = np.round(np.column_stack([x, y])[::every], 2).tolist()
    return result


def failure(run: Mapping[str, Any]) -> str:
    """Returns why a run along a path failed; empty: it did not."""
    for failed, reason in (
        (run["diverged"], "diverged"), (run["collision"], f"hit {run['collision']}"), (run["sideslip"] >= SPIN, "spins"),
        (run["lifted"] > 0.0, "lifts a wheel"), (run["outside"] > OUTSIDE, f"{run['outside']:.2f} m outside"),
        (run["reached"] is None, DOES_NOT_ARRIVE),
    ):
        if failed:
            return reason
    return ""


def _climb(climb: Climb) -> dict[str, Any]:
    runs: list[dict[str, Any]] = []
    speed, failed = climb.first, 0
    while speed <= climb.last + 1e-9 and failed <= RUNS_AFTER_FAILURE:
        run = run_trial(replace(climb.trial, speed=speed, track=True))
        del run["cycle_us"]
        runs.append(run)
        failed += bool(failed or run["failure"])
        speed += climb.step
    number = next((i for i, run in enumerate(runs) if run["failure"]), len(runs))
    passed = runs[number - 1] if number else dict.fromkeys(("speed", "entry_speed", "exit_speed"))
    return {"scenario": climb.trial.scenario, "delay": runs[0]["delay"], "compensate": climb.trial.settings.compensate, "step": climb.step,
            "highest": passed["speed"], "entry_speed": passed["entry_speed"], "exit_speed": passed["exit_speed"],
            "failure": runs[number]["failure"] if number < len(runs) else "", "runs": runs}


def key(item: Item) -> str:
    """Hashes all that a result depends on."""
    trial = item.trial if isinstance(item, Climb) else item
    scenario = "" if isinstance(item, Climb) else find_config("scenarios", trial.scenario).read_text(encoding="utf-8")
    vehicle = load_vehicle(trial.vehicle)
    return cache_key({"item": [type(item).__name__, asdict(item)], "scenario": scenario, "vehicle": vehicle.identity},
                  CACHE_DEPENDENCIES)
