"""Is a friction field that was learned from driving right, where the vehicle drove and where it did not?

    python -m lfdm_lab.studies.felt_friction docs/felt_friction.png [FIELDS [SECONDS]]

Each hidden field is drawn from the prior. An 18-DOF vehicle drives over it, and its sensors' signals, the 8-DOF model and the prior are all
that the learner has.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.special import ndtri

from lfdm_ros.control.controller import Controller
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.closed_loop import Plant, Run, drive
from lfdm_ros.figures import save_png
from lfdm_ros.ground import DensePosterior, FieldPosterior, FieldPrior, FieldTable, FrictionField, FrictionLink, Grid
from lfdm_ros.ground.friction_estimator import Drive, EstimatorSettings, FrictionEstimator
from lfdm_ros.ground.ground_file import load_ground
from lfdm_ros.ground.learning import learn
from lfdm_ros.proportions import interval_of
from lfdm_ros.simulation import Actuator, Simulator, load_scenario
from lfdm_ros.vehicles import Vehicle, load_vehicle

VEHICLE = load_vehicle("hmmwv")
LINK = FrictionLink(0.1, 1.0)
PRIOR = FieldPrior(a0=0.5, alpha_x=12.0, alpha_y=12.0, sigma_f=1.5)
GRID = Grid.covering((-350.0, -350.0), (350.0, 350.0), 2.0)
TRUTH = "eighteen_dof/friction_field"
RATE = 100  # [Hz]
BESIDE = 40.0  # [m] from where it drove, where nothing can have been learned
LEVEL, DEVIATIONS = 0.9, 1.645


@dataclass(frozen=True, eq=False)
class Learned:
    """A hidden field, what was felt of it, and how wrong it is: z (N,) of the latent friction where the vehicle drove, error of the
    friction there, that of the prior, and the largest share of its deviation that the prior lost far beside the way."""

    field: FrictionField
    drive: Drive
    posterior: FieldPosterior
    z: np.ndarray
    error: float
    prior_error: float
    lost: float


def drive_over(field: FrictionField, seed: int, seconds: float = 20.0) -> Drive:
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
    what = (felt or FrictionEstimator(VEHICLE, LINK, PRIOR)).feel(driven)
    seen = learn(PRIOR, what)
    there = DensePosterior(PRIOR, what.places, seen)
    true = field.latent_at(*what.places.T)
    posterior = FieldPosterior(PRIOR, GRID, seen)
    apart = np.sqrt(((GRID.places[:, None, :] - what.places[None, ::5]) ** 2).sum(axis=2)).min(axis=1).reshape(GRID.shape)
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


def drive_of(run: Run, vehicle: Vehicle, seed: int = 1) -> Drive:
    """A run of the closed loop as its sensors said it; the inputs that acted are those behind the vehicle's actuators."""
    actuator = Actuator.of(vehicle.actuators)
    inputs = np.empty((len(run.times), 3))
    for k, time in enumerate(run.times):
        inputs[k] = actuator.advance(time)
        if k < len(run.commands):
            actuator.send(time, run.commands[k])
    return _sensed(run.times, inputs, {name: run.column(name) for name in run.output_names}, np.random.default_rng(seed))


def _sensed(times: np.ndarray, inputs: np.ndarray, states: Mapping[str, np.ndarray], rng: np.random.Generator) -> Drive:
    """What sensors say of states: with noise, and the pose as it is."""
    noise = EstimatorSettings().noise
    measured = {name: values + rng.normal(0.0, noise[stem], len(times)) for name, values in states.items()
                for stem in [name.partition("_")[0] if name.startswith("omega") else name] if stem in noise}
    return Drive(times, inputs, measured | {name: states[name] for name in ("x", "y", "yaw")})


def laps(ground: str = "ice_in_the_bend", scenario: str = "curve") -> Laps:
    """The MPC drives an 18-DOF vehicle over ground of a file, and again with the friction that was felt. Before, the road is thought to be
    the vehicle's own, with patches of 8 m that may be anything."""
    file, bend = load_ground(ground), load_scenario(scenario)
    table = FieldTable(file.field)
    there, plant = VEHICLE.replace(friction_field=table.number), Plant("eighteen_dof", lidar=None)
    settings = Settings(use_limit_table=False, time_budget=0.0)

    first = drive(there, bend, Controller(VEHICLE, settings, None), plant)
    link = FrictionLink(0.1, 1.1)
    prior = FieldPrior(a0=float(link.latent(1.0)), alpha_x=8.0, alpha_y=8.0, sigma_f=1.5)
    seen = learn(prior, FrictionEstimator(VEHICLE, link, prior).feel(drive_of(first, VEHICLE)))
    grid = file.field.grid
    found = FrictionField(grid, FieldPosterior(prior, grid, seen).mean(), link)
    known = FieldTable(found)
    return Laps(first, drive(there, bend, Controller(VEHICLE.replace(friction_field=known.number), settings, None), plant), found)


def draw_learned(one: Learned) -> Figure:
    """The hidden friction, the learned one and how well it is known, around the way that was driven."""
    figure = Figure(figsize=(12.0, 4.0), layout="constrained")
    x, y = one.drive.states["x"], one.drive.states["y"]
    extent = (GRID.x, GRID.xs[-1], GRID.y, GRID.ys[-1])
    pictures = (("friction, hidden", LINK.friction(one.field.latent), "viridis", (LINK.ice, LINK.dry)),
                ("learned from driving: median", LINK.friction(one.posterior.mean()), "viridis", (LINK.ice, LINK.dry)),
                ("deviation of its latent value", one.posterior.sd(), "magma", (0.0, PRIOR.sigma_f)))
    for axis, (title, values, colours, (low, high)) in zip(figure.subplots(1, 3, sharex=True, sharey=True), pictures):
        image = axis.imshow(values, origin="lower", extent=extent, cmap=colours, vmin=low, vmax=high)
        axis.plot(x, y, color="white", lw=1.2)
        axis.set(title=title, xlabel="x [m]", xlim=(x.min() - 30.0, x.max() + 30.0), ylim=(y.min() - 30.0, y.max() + 30.0))
        figure.colorbar(image, ax=axis, shrink=0.8)
    return figure


def draw_coverage(z: list[np.ndarray]) -> Figure:
    """The share of hidden values that lie in their intervals, by the intervals' level: of each field, and of all.

    z: of each field (N,), how many deviations its values are from the means.
    """
    figure = Figure(figsize=(4.4, 4.2), layout="constrained")
    axis: Any = figure.subplots()
    levels = np.linspace(0.02, 0.98, 49)
    for which, style in (*((one, {"color": "0.75", "lw": 0.8}) for one in z), (np.concatenate(z), {"color": "tab:blue", "lw": 2.0})):
        axis.plot(levels, [(np.abs(which) < ndtri(0.5 + 0.5 * level)).mean() for level in levels], **style)
    axis.plot((0.0, 1.0), (0.0, 1.0), color="black", ls="--", lw=1.0)
    axis.set(xlabel="level of the interval", ylabel="share of hidden values inside", xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    return figure


def main(out: str, fields: str = "20", seconds: str = "20") -> int:
    """Prints a row for each field and all together, and writes the picture of the first and, beside it, that of the coverage."""
    felt, inside, total, z = FrictionEstimator(VEHICLE, LINK, PRIOR), 0, 0, list[np.ndarray]()
    print("field  windows  in the 90 % interval  friction's error  the prior's  deviation lost beside the way")
    for seed in range(1, int(fields) + 1):
        one = learned(seed, float(seconds), felt)
        z.append(one.z)
        inside, total = inside + int((np.abs(one.z) < DEVIATIONS).sum()), total + len(one.z)
        print(f"{seed:5d} {len(one.z):8d} {np.mean(np.abs(one.z) < DEVIATIONS):21.2f} {one.error:17.3f} {one.prior_error:12.3f} "
              f"{one.lost:31.1%}", flush=True)
        if seed == 1:
            save_png(draw_learned(one), Path(out))
    save_png(draw_coverage(z), Path(out).with_name(f"{Path(out).stem}_coverage.png"))
    twice = laps()
    for name, lap in (("first", twice.first), ("second", twice.second)):
        print(f"ice in the bend, {name} lap: {lap.outside:.2f} m out of the lane, sideslip {np.degrees(lap.sideslip):.0f} deg")
    low, high = interval_of(inside, total)
    print(f"all: {inside / total:.3f} of {total} places in their {LEVEL:.0%} interval (were they independent: {low:.3f} to {high:.3f})")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
