"""The friction of a real slippery floor, felt by a car that was calibrated on an ordinary one: DART's recordings.

    python -m lfdm_lab.studies.slippery_floor ../shared/data/dart_rc_vicon_real docs/slippery_floor.png

The recipe `dart` calibrates the car on its training recordings. What it then feels on the slippery floor is compared with a fit of the
friction to the same half of that recording, and with what it feels on the ordinary floor; the other half is predicted with each.

Nobody knows what the motor does, so the speed is that of the recording, and what the wheels hold across is what the motor leaves of it.
Feeling is therefore shown twice: by all windows, and by those in which the car gains or loses little speed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.signal import savgol_filter

from lfdm_ros.bags import import_recording, read_series
from lfdm_ros.calibration import calibrate, load_recipe
from lfdm_ros.calibration.results import load_posterior, stored_name
from lfdm_ros.figures import save_png
from lfdm_ros.ground import DensePosterior, FieldPrior, FieldTable, FrictionField, FrictionLink, Grid
from lfdm_ros.ground.friction_estimator import Drive, EstimatorSettings, FrictionEstimator
from lfdm_ros.ground.learning import learn
from lfdm_ros.resources import find_config
from lfdm_ros.simulation import BatchRollout, initial_state
from lfdm_ros.vehicles import Vehicle, load_vehicle

TRAINING = ("throttle_ramp_steer_p02", "throttle_ramp_steer_m02", "free_driving_slow")
ORDINARY, SLIPPERY = "free_driving_slow", "slippery_floor_processed"
# Of each recording the half that is learned from, and the half that is predicted [s]; between them the car stands.
LEARNED = {SLIPPERY: (1.0, 18.0), ORDINARY: (12.0, 36.0)}
PREDICTED = {SLIPPERY: (20.5, 39.5), ORDINARY: (36.0, 65.0)}
INTERVAL = 0.05  # [s] between two states: as upstream has processed the slippery floor's
HORIZONS = (0.2, 1.0)  # [s] that are predicted at once
GENTLE = 2.5  # [m/s^2] along the car, up to which the motor is taken to leave the tyres what they hold across
LINK = FrictionLink(0.05, 1.5)  # over the ordinary floor's
# One floor, that differs little across a room; how slippery it is nobody knows.
PRIOR = FieldPrior(a0=0.5, alpha_x=10.0, alpha_y=10.0, sigma_f=1.5)
FELT = EstimatorSettings(step=1e-3, noise={"vy": 0.03, "yaw_rate": 0.1}, error={"vy": 0.6, "yaw_rate": 4.0}, prescribed=("vx",))
_CHANNELS = ("vy", "yaw_rate")
_FIT = """
model: eight_dof/steering_map
vehicle: {vehicle}
step: {{value: 1, unit: ms}}
seed: 1
sampler: least_squares
stages:
  - name: floor
    recording: {recording}
    window: [{start}, {end}]
    split: {{length: {{value: 1, unit: s}}, take: all}}
    prescribed: {{vx: {{topic: vehicle/state}}}}
    initial_state: {{topic: vehicle/state}}
    inputs: {{topic: control/command}}
    errors: inflated
    nuisance:
      steering.offset: {{prior: normal, mean: 0, sd: 0.05, unit: "1"}}
      steering.lag: {{prior: half_normal, sigma: 0.1, unit: s}}
    parameters:
      friction: {{prior: uniform, lower: 0.05, upper: 1.5, unit: "1", targets: {{friction_max: 1, friction_min: 1}}}}
    channels:
      yaw_rate: {{topic: vehicle/state, noise: {{prior: log_normal, median: 0.1, log_sd: 1.0, unit: rad/s}}}}
      vy: {{topic: vehicle/state, noise: {{prior: log_normal, median: 0.02, log_sd: 1.0, unit: m/s}}}}
"""


@dataclass(frozen=True)
class Interval:
    """Median and 90 % interval of a friction, over that of the ordinary floor."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray) -> Interval:
        low, median, high = np.quantile(values, (0.05, 0.5, 0.95))
        return cls(float(median), float(low), float(high))

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True, eq=False)
class Felt:
    """friction: mean of the field where the car drove; field: over that of the ordinary floor; places (N, 2): where it was felt."""

    friction: Interval
    field: FrictionField
    sd: np.ndarray
    places: np.ndarray


@dataclass(frozen=True, eq=False)
class Floor:
    """What was found out of one recording. fitted: by the recipe, directly; every, gentle: felt in all windows, and in those of little
    acceleration along; errors: root mean square of the half that was not learned from, by horizon and channel, of the car as calibrated,
    on the fitted friction, on the field of the gentle windows."""

    fitted: Interval
    every: Felt
    gentle: Felt
    errors: Mapping[tuple[float, str], tuple[float, ...]]


@dataclass(frozen=True, eq=False)
class Car:
    """As calibrated, draws (S,) of its parameters, and its recordings as bags."""

    vehicle: Vehicle
    draws: Mapping[str, np.ndarray]
    bags: Mapping[str, Path]
    folder: Path


def calibrated(data: Path, folder: Path) -> Car:
    """The car by the recipe `dart`; all that is made is kept in a folder, and taken from there the next time."""
    mapping, bags = find_config("recordings", "dart"), {name: folder / name for name in (*TRAINING, SLIPPERY)}
    for name, bag in bags.items():
        if not bag.exists():
            import_recording(data / f"{name}.csv", mapping, bag)
    out = folder / "dart"
    calibrate(load_recipe("dart"), [bags[name] for name in TRAINING], out)
    posterior, tyres = load_posterior(out), "tyres"
    stiffness = ("cornering_stiffness_front", "cornering_stiffness_rear")
    draws = {name: posterior[stored_name(tyres, name)].values.ravel() for name in stiffness}
    friction = posterior[stored_name(tyres, "friction")].values.ravel()
    return Car(load_vehicle(out / "vehicle.yaml"), draws | {"friction_max": friction, "friction_min": friction}, bags, folder)


def direct_fit(car: Car, name: str) -> tuple[np.ndarray, float, float]:
    """Draws of the friction coefficient, and the trim and lag [s] of the steering, fitted to the half that is learned from."""
    start, end = LEARNED[name]
    recipe, out = car.folder / f"fit_{name}.yaml", car.folder / f"fit_{name}"
    recipe.write_text(_FIT.format(vehicle=car.folder / "dart" / "vehicle.yaml", recording=name, start=start, end=end), encoding="utf-8")
    calibrate(load_recipe(recipe), [car.bags[name]], out)
    posterior = load_posterior(out)
    friction, offset, lag = (posterior[stored_name("floor", key)].values.ravel() for key in ("friction", "steering.offset", "steering.lag"))
    return friction, float(offset.mean()), float(lag.mean())


def drive_of(bag: Path, offset: float, lag: float, span: tuple[float, float]) -> Drive:
    """A part of a recording at even times, with the steering that acted: behind trim and lag."""
    states, names = read_series(bag, "vehicle/state", ["x", "y", "yaw", "vx", "vy", "yaw_rate"]), ("x", "y", "yaw", "vx", "vy", "yaw_rate")
    commands = read_series(bag, "control/command", ["steering", "throttle", "brake"])
    times = np.arange(*span, INTERVAL)
    fine = np.arange(max(span[0] - 1.0, 0.0), span[1], 0.005)
    acting, kept = np.interp(fine, commands.time, commands.values[:, 0]), 1.0 - np.exp(-0.005 / max(lag, 1e-3))
    for k in range(1, len(acting)):
        acting[k] = acting[k - 1] + kept * (acting[k] - acting[k - 1])
    inputs = np.column_stack([np.clip(np.interp(times, fine, acting) + offset, -1.0, 1.0),
                              *(np.interp(times, commands.time, column) for column in commands.values[:, 1:].T)])
    values = states.values.copy()
    values[:, 2] = np.unwrap(values[:, 2])
    return Drive(times - span[0], inputs, {name: np.interp(times, states.time, column) for name, column in zip(names, values.T)})


def gentle(drive: Drive) -> Drive:
    """The drive, with nothing known of what acts where the car gains or loses much speed: nothing is felt there."""
    v = drive.states
    along = savgol_filter(v["vx"], 5, 2, deriv=1, delta=INTERVAL) - v["vy"] * v["yaw_rate"]
    return Drive(drive.times, np.where(np.abs(along)[:, None] > GENTLE, np.nan, drive.inputs), v)


def feel(vehicle: Vehicle, draws: Mapping[str, np.ndarray], drive: Drive) -> Felt:
    """What a drive says of the floor."""
    what = FrictionEstimator(vehicle, LINK, PRIOR, FELT, draws).feel(drive)
    seen, (x, y) = learn(PRIOR, what), (drive.states["x"], drive.states["y"])
    there = DensePosterior(PRIOR, what.places, seen).draw(1000, np.random.default_rng(1))
    # Patches are longer than the room: too smooth for what is fast on large maps.
    grid = Grid.covering((x.min() - 1.0, y.min() - 1.0), (x.max() + 1.0, y.max() + 1.0), 0.4)
    field = DensePosterior(PRIOR, grid.places, seen)
    return Felt(Interval.of(LINK.friction(there).mean(axis=1)), FrictionField(grid, field.mean.reshape(grid.shape), LINK),
                np.sqrt(np.maximum(field.covariance.diagonal(), 0.0)).reshape(grid.shape), what.places)


def errors_of(vehicle: Vehicle, drive: Drive, horizon: float) -> np.ndarray:
    """Root mean squares (2,) of what is predicted of vy and the yaw rate, piece after piece, with the speed of the recording."""
    model, count = vehicle.model("eight_dof"), round(horizon / INTERVAL)
    begins = [b for b in range(0, len(drive.times) - count, count) if drive.states["vx"][b:b + count + 1].min() > 0.3]  # else it stands
    rows = np.array(begins)[:, None] + np.arange(count + 1)
    table = np.concatenate([drive.inputs[rows], drive.states["vx"][rows][..., None]], axis=2)
    rollout = BatchRollout(model=model, vehicle=vehicle, dt=1e-3, times=INTERVAL * np.arange(count + 1), parameters=(), channels=_CHANNELS,
                           prescribed=("vx",), inputs=table)
    starts = [initial_state(model, vehicle, **{name: float(values[b]) for name, values in drive.states.items()}) for b in begins]
    runs = rollout.trajectories(np.zeros((len(begins), 0)), np.array(starts))
    seen = np.stack([drive.states[name][rows] for name in _CHANNELS], axis=-1)
    return np.asarray(np.sqrt(((runs - seen)[:, 1:] ** 2).mean(axis=(0, 1))))


def examine(car: Car, name: str) -> Floor:
    """Fits, feels and predicts one recording."""
    friction, offset, lag = direct_fit(car, name)
    drive, other = (drive_of(car.bags[name], offset, lag, spans[name]) for spans in (LEARNED, PREDICTED))
    every, some = (feel(car.vehicle, car.draws, one) for one in (drive, gentle(drive)))
    table, middle = FieldTable(some.field), float(np.median(friction))
    vehicles = (car.vehicle, car.vehicle.replace(friction_max=middle, friction_min=middle),
                car.vehicle.replace(friction_field=table.number))
    errors: dict[tuple[float, str], tuple[float, ...]] = {}
    for horizon in HORIZONS:
        columns = np.stack([errors_of(vehicle, other, horizon) for vehicle in vehicles]).T
        errors |= {(horizon, channel): tuple(column) for channel, column in zip(_CHANNELS, columns)}
    return Floor(Interval.of(friction / car.vehicle.parameters["friction_max"]), every, some, errors)


def draw(felt: Felt) -> Figure:
    """The learned friction where the car drove, and how well it is known."""
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    grid, friction = felt.field.grid, LINK.friction(felt.field.latent)
    extent = (grid.x, grid.xs[-1], grid.y, grid.ys[-1])
    for axis, title, values, colours, most in zip(figure.subplots(1, 2, sharex=True, sharey=True), (
            "friction over the ordinary floor's, median", "deviation of its latent value"), (friction, felt.sd), ("viridis", "magma"),
            (1.0, PRIOR.sigma_f)):
        image = axis.imshow(values, origin="lower", extent=extent, cmap=colours, vmin=0.0, vmax=most)
        axis.plot(*felt.places.T, ".", color="white", ms=2)
        axis.set(title=title, xlabel="x [m]", ylabel="y [m]")
        figure.colorbar(image, ax=axis, shrink=0.8)
    return figure


def main(data: str, out: str, folder: str = "") -> int:
    """Prints what was found of both floors, and writes the picture of the slippery one."""
    with tempfile.TemporaryDirectory() as made:
        car = calibrated(Path(data), Path(folder or made))
        for name in (ORDINARY, SLIPPERY):
            floor = examine(car, name)
            print(f"{name}: friction over the ordinary floor's, median and 90 % interval\n  fitted              {floor.fitted}\n"
                  f"  felt, all {len(floor.every.places):3d}       {floor.every.friction}\n"
                  f"  felt, {len(floor.gentle.places):3d} gentle    {floor.gentle.friction}")
            for (horizon, channel), (own, fit, field) in floor.errors.items():
                print(f"  {channel:8s} {horizon:g} s ahead, RMSE in the other half: as calibrated {own:.3f}, fitted {fit:.3f}, "
                      f"learned field {field:.3f}", flush=True)
        save_png(draw(floor.gentle), Path(out))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
