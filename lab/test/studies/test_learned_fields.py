"""A hidden friction field, learned by driving: correct along the path, uncertain elsewhere."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.spatial import cKDTree
from scipy.stats import norm

from lfdm_ros.control.controller import Controller
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.closed_loop import PlantSettings, Run, drive
from lfdm_ros.ground import DensePosterior, FieldPosterior, FieldPrior, FieldTable, FrictionField, FrictionLink, Grid
from lfdm_ros.ground.friction_estimator import EstimatorSettings, FrictionEstimator, MeasuredDrive
from lfdm_ros.ground.ground_file import load_ground
from lfdm_ros.ground.learning import learn
from lfdm_ros.reports import BLUE, INK, PALE, RED, save_png
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
    """A hidden field and its estimate: z (N,) of the latent friction along the path, friction error there and that of the prior, and the
    largest relative decrease of the prior's deviation far from the path."""

    field: FrictionField
    drive: MeasuredDrive
    posterior: FieldPosterior
    z: np.ndarray
    error: float
    prior_error: float
    lost: float


def drive_over(field: FrictionField, seed: int, seconds: float = 20.0) -> MeasuredDrive:
    """Sensor data of bends to both sides with full throttle and hard braking from 4 to 14 m/s; noise by the seed."""
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
    """Two laps over ice unknown to the controller, and the field estimated in the first lap, known in the second."""

    first: Run
    second: Run
    learned: FrictionField


def drive_of(run: Run, vehicle: Vehicle, seed: int = 1) -> MeasuredDrive:
    """Sensor data of a closed-loop run; inputs after the vehicle's actuators."""
    actuator = Actuator.of(vehicle.actuators)
    inputs = np.empty((len(run.times), 3))
    for k, time in enumerate(run.times):
        inputs[k] = actuator.advance(time)
        if k < len(run.commands):
            actuator.send(time, run.commands[k])
    return _sensed(run.times, inputs, {name: run.column(name) for name in run.output_names}, np.random.default_rng(seed))


def _sensed(times: np.ndarray, inputs: np.ndarray, states: Mapping[str, np.ndarray], rng: np.random.Generator) -> MeasuredDrive:
    """Measured states: with noise, and the exact pose."""
    noise = EstimatorSettings().noise
    measured = {name: values + rng.normal(0.0, noise[stem], len(times)) for name, values in states.items()
                for stem in [name.partition("_")[0] if name.startswith("omega") else name] if stem in noise}
    return MeasuredDrive(times, inputs, measured | {name: states[name] for name in ("x", "y", "yaw")})


def laps(ground: str = "ice_in_the_bend", scenario: str = "curve") -> Laps:
    """The MPC drives an 18-DOF vehicle over the ground of a file, and again with the estimated friction. The prior: the vehicle's nominal
    road, with patches of 8 m."""
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
    # Three drives with correlated errors each; docs/concepts/ground.md has the coverage of twenty.
    assert 0.8 < np.mean(np.abs(z) < 1.645) < 0.98


def test_ice_is_crossed_once() -> None:
    """In the first lap the vehicle slides out of its lane; in the second, with the estimated field, it does not."""
    twice = laps()
    assert twice.first.outside > 0.5 and twice.second.outside == 0.0
    assert twice.second.sideslip < 0.6 * twice.first.sideslip
    there, before, after = twice.learned.friction_at([98.8, 60.0, 110.0], [12.0, 0.0, 80.0])
    assert there < 0.35 and min(before, after) > 0.9


@pytest.mark.skipif("LFDM_PICTURES" not in os.environ, reason="draws the pictures of docs/concepts/ground.md into the folder LFDM_PICTURES")
def test_pictures_of_learned_fields() -> None:
    folder = Path(os.environ["LFDM_PICTURES"])
    fields = [learned(seed) for seed in range(1, 21)]
    z = np.concatenate([one.z for one in fields])

    def ends(values: list[float]) -> str:
        return f"{min(values):.3f} to {max(values):.3f}"

    coverage = ends([float(np.mean(np.abs(one.z) < DEVIATIONS)) for one in fields])
    print(f"{np.mean(np.abs(z) < DEVIATIONS):.3f} of {len(z)} places in the 90 % interval, by field {coverage}")
    print(f"error {ends([one.error for one in fields])}, of the prior {ends([one.prior_error for one in fields])}")
    print(f"deviation lost beside the path: {ends([one.lost for one in fields])}")
    save_png(_draw_field(fields[0]), folder / "felt_friction.png")

    figure, levels = Figure(figsize=(4.0, 4.0), layout="constrained"), np.linspace(0.02, 0.98, 49)
    axis = figure.subplots()
    for some, colour, width in (*((one.z, PALE, 0.8) for one in fields), (z, BLUE, 2.0)):
        axis.plot(levels, [np.mean(np.abs(some) < norm.ppf(0.5 + 0.5 * level)) for level in levels], color=colour, lw=width)
    axis.plot([0.0, 1.0], [0.0, 1.0], "--", color=INK, lw=1.0)
    axis.set(xlabel="level of the interval", ylabel="share of hidden values inside", xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    save_png(figure, folder / "felt_friction_coverage.png")

    twice = laps()
    for run in (twice.first, twice.second):
        print(f"{run.outside:.2f} m outside, sideslip {np.degrees(run.sideslip):.0f} deg, slowest {run.column('vx').min():.2f} m/s")
    print(f"learned in the middle of the ice: {float(twice.learned.friction_at(98.8, 12.0)):.2f}")
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    axes = figure.subplots(1, 3)
    grid = twice.learned.grid
    shown = axes[1].pcolormesh(grid.xs, grid.ys, twice.learned.link.friction(twice.learned.latent))
    figure.colorbar(shown, ax=axes[1], shrink=0.6, label="friction learned in lap 1")
    for axis, run, name in ((axes[0], twice.first, "lap 1"), (axes[1], twice.second, "lap 2")):
        axis.plot(run.column("x"), run.column("y"), color=RED, lw=1.2)
        axis.set(title=f"{name}: {run.outside:.2f} m out", xlabel="x [m]", xlim=(40.0, 130.0), ylim=(-15.0, 65.0), aspect="equal")
    for run, colour, name in ((twice.first, PALE, "lap 1"), (twice.second, BLUE, "lap 2")):
        axes[2].plot(run.times, run.column("vx"), color=colour, label=name)
    axes[0].set_ylabel("y [m]")
    axes[2].set(xlabel="time [s]", ylabel="speed [m/s]")
    axes[2].legend(fontsize=8)
    save_png(figure, folder / "felt_friction_laps.png")
    assert all((folder / f"{name}.png").stat().st_size for name in ("felt_friction", "felt_friction_coverage", "felt_friction_laps"))


def _draw_field(one: Learned) -> Figure:
    """Hidden friction, the learned one's median, and the deviation of its latent value."""
    x, y = one.drive.states["x"], one.drive.states["y"]
    figure = Figure(figsize=(10.8, 3.6), layout="constrained")
    panels = ((LINK.friction(one.field.latent), "friction, hidden", (0.1, 1.0), "viridis"),
              (LINK.friction(one.posterior.mean()), "learned from driving: median", (0.1, 1.0), "viridis"),
              (one.posterior.sd(), "deviation of its latent value", (0.0, PRIOR.sigma_f), "magma"))
    for axis, (values, title, (low, high), colours) in zip(figure.subplots(1, 3, sharex=True, sharey=True), panels):
        figure.colorbar(axis.pcolormesh(GRID.xs, GRID.ys, values, vmin=low, vmax=high, cmap=colours), ax=axis, shrink=0.6)
        axis.plot(x, y, color="white", lw=1.2)
        axis.set(title=title, xlabel="x [m]", xlim=(x.min() - 30.0, x.max() + 30.0), ylim=(y.min() - 30.0, y.max() + 30.0), aspect="equal")
    return figure
