"""A friction field that nobody saw, learned from driving over it: right where the vehicle drove, not known elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial import cKDTree

from lfdm_ros.control.controller import Controller
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.closed_loop import PlantSettings, Run, drive
from lfdm_ros.ground import DensePosterior, FieldPosterior, FieldPrior, FieldTable, FrictionField, FrictionLink, Grid
from lfdm_ros.ground.friction_estimator import EstimatorSettings, FrictionEstimator, MeasuredDrive
from lfdm_ros.ground.ground_file import load_ground
from lfdm_ros.ground.learning import learn
from lfdm_ros.simulation import Actuator, Pose, Simulator, load_scenario
from lfdm_ros.vehicles import Vehicle, load_vehicle

VEHICLE = load_vehicle("hmmwv")
LINK = FrictionLink(0.1, 1.0)
PRIOR = FieldPrior(a0=0.5, alpha_x=12.0, alpha_y=12.0, sigma_f=1.5)
GRID = Grid.covering((-220.0, -220.0), (220.0, 220.0), 2.0)
TRUTH = "eighteen_dof/friction_field"
RATE = 100  # [Hz]
BESIDE = 40.0  # [m] from where it drove, where nothing can have been learned
LEVEL, DEVIATIONS = 0.9, 1.645


@dataclass(frozen=True, eq=False)
class Learned:
    """A hidden field, what was felt of it, and how wrong it is: z (N,) of the latent friction where the vehicle drove, error of the
    friction there, that of the prior, and the largest share of its deviation that the prior lost far beside the way."""

    field: FrictionField
    drive: MeasuredDrive
    posterior: FieldPosterior
    z: np.ndarray
    error: float
    prior_error: float
    lost: float


def drive_over(field: FrictionField, seed: int, seconds: float = 20.0) -> MeasuredDrive:
    """Bends to both sides, full throttle and hard braking in turn from 4 to 14 m/s, as its sensors say it; with noise by the seed."""
    table, rng = FieldTable(field), np.random.default_rng(seed)
    simulator = Simulator(VEHICLE.replace(friction_field=table.number), TRUTH, dt=1e-3)
    simulator.reset(vx=10.0)
    names = [f.name for f in simulator.model.states]
    vx, phase, period = names.index("vx"), rng.uniform(0.0, 6.0), rng.uniform(3.0, 5.0)
    times = np.arange(round(RATE * seconds) + 1) / RATE
    inputs, states = np.zeros((len(times), 3)), np.empty((len(times), len(names)))
    states[0] = simulator.state
    for k, t in enumerate(times[1:], 1):
        speed, turn = states[k - 1, vx], t % 4.0
        inputs[k] = (0.45 * np.sin(2.0 * np.pi * t / period + phase), 0.8 * float(turn < 2.4 and speed < 14.0),
                     0.6 * float(turn > 3.2 and speed > 4.0))
        simulator.advance(inputs[k - 1], inputs[k], round(1000 / RATE))
        states[k] = simulator.state
    return _sensed(times, inputs, dict(zip(names, states.T)), rng)


def learned(seed: int, seconds: float = 20.0, felt: FrictionEstimator | None = None) -> Learned:
    """One hidden field, by its seed."""
    latent = FieldPosterior(PRIOR, GRID).draw(1, np.random.default_rng([7, seed]))[0]
    field = FrictionField(GRID, latent, LINK)
    driven = drive_over(field, seed, seconds)
    what = (felt or FrictionEstimator(VEHICLE, LINK, PRIOR)).estimate(driven)
    seen = learn(PRIOR, what)
    there = DensePosterior(PRIOR, what.places, seen)
    true = field.latent_at(*what.places.T)
    posterior = FieldPosterior(PRIOR, GRID, seen)
    apart = cKDTree(what.places).query(GRID.places)[0].reshape(GRID.shape)
    frictions = [LINK.friction(values) for values in (true, there.mean, np.full(len(true), PRIOR.a0))]
    return Learned(field, driven, posterior, (true - there.mean) / np.sqrt(np.diag(there.covariance)),
                   float(np.sqrt(np.mean((frictions[0] - frictions[1]) ** 2))), float(np.sqrt(np.mean((frictions[0] - frictions[2]) ** 2))),
                   float(1.0 - posterior.sd()[apart > BESIDE].min() / PRIOR.sigma_f))


@dataclass(frozen=True, eq=False)
class Laps:
    """Two laps over ice that nobody has told the controller of, and what it knew in the second: the field that was felt in the first."""

    first: Run
    second: Run
    learned: FrictionField


def drive_of(run: Run, vehicle: Vehicle, seed: int = 1) -> MeasuredDrive:
    """A run of the closed loop as its sensors said it; the inputs that acted are those behind the vehicle's actuators."""
    actuator = Actuator.of(vehicle.actuators)
    inputs = np.empty((len(run.times), 3))
    for k, time in enumerate(run.times):
        inputs[k] = actuator.advance(time)
        if k < len(run.commands):
            actuator.send(time, run.commands[k])
    return _sensed(run.times, inputs, {name: run.column(name) for name in run.output_names}, np.random.default_rng(seed))


def _sensed(times: np.ndarray, inputs: np.ndarray, states: Mapping[str, np.ndarray], rng: np.random.Generator) -> MeasuredDrive:
    """What sensors say of states: with noise, and the pose as it is."""
    noise = EstimatorSettings().noise
    measured = {name: values + rng.normal(0.0, noise[stem], len(times)) for name, values in states.items()
                for stem in [name.partition("_")[0] if name.startswith("omega") else name] if stem in noise}
    return MeasuredDrive(times, inputs, measured | {name: states[name] for name in ("x", "y", "yaw")})


def laps(ground: str = "ice_in_the_bend", scenario: str = "curve") -> Laps:
    """The MPC drives an 18-DOF vehicle over ground of a file, and again with the friction that was felt. Before, the road is thought to be
    the vehicle's own, with patches of 8 m that may be anything."""
    file, bend = load_ground(ground), replace(load_scenario(scenario), initial=Pose(x=30.0, speed=13.0), duration=9.0)
    table = FieldTable(file.field)
    there, plant = VEHICLE.replace(friction_field=table.number), PlantSettings("eighteen_dof", lidar=None)
    settings = Settings(use_limit_table=False, time_budget=0.0)

    first = drive(there, bend, Controller(VEHICLE, settings, None), plant)
    link = FrictionLink(0.1, 1.1)
    prior = FieldPrior(a0=float(link.latent(1.0)), alpha_x=8.0, alpha_y=8.0, sigma_f=1.5)
    seen = learn(prior, FrictionEstimator(VEHICLE, link, prior).estimate(drive_of(first, VEHICLE)))
    grid = file.field.grid
    found = FrictionField(grid, FieldPosterior(prior, grid, seen).mean(), link)
    known = FieldTable(found)
    return Laps(first, drive(there, bend, Controller(VEHICLE.replace(friction_field=known.number), settings, None), plant), found)


def test_hidden_fields_are_found_where_the_vehicle_drove() -> None:
    felt = FrictionEstimator(VEHICLE, LINK, PRIOR)
    fields = [learned(seed, 12.0, felt) for seed in (101, 102, 103)]
    for one in fields:
        assert one.error < 0.35 * one.prior_error
        assert one.lost < 0.01  # far beside the way the prior is left
    z = np.concatenate([one.z for one in fields])
    assert len(z) > 150
    # Three drives, on each of which errors go together; docs/concepts/ground.md has the coverage of twenty.
    assert 0.8 < np.mean(np.abs(z) < 1.645) < 0.98


def test_ice_is_met_once() -> None:
    """In the first lap the vehicle slides out of its lane; in the second, which knows what was felt, it stays in it."""
    twice = laps()
    assert twice.first.outside > 0.5 and twice.second.outside == 0.0
    assert twice.second.sideslip < 0.6 * twice.first.sideslip
    there, before, after = twice.learned.friction_at([98.8, 60.0, 110.0], [12.0, 0.0, 80.0])
    assert there < 0.35 and min(before, after) > 0.9
