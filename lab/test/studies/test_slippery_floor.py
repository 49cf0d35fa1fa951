"""Friction of a real slippery floor, estimated by a car with tyres calibrated on an ordinary one. The calibration itself is left out: its
tyres are those of the car's file within their standard deviations.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import savgol_filter

from lfdm_ros.bags import import_recording, read_series
from lfdm_ros.ground import DensePosterior, FieldPrior, FieldTable, FrictionField, FrictionLink, Grid
from lfdm_ros.ground.friction_estimator import EstimatorSettings, FrictionEstimator, MeasuredDrive
from lfdm_ros.ground.learning import learn
from lfdm_ros.resources import find_config
from lfdm_ros.simulation import BatchRollout, initial_state
from lfdm_ros.vehicles import Vehicle, load_vehicle

ORDINARY, SLIPPERY = "free_driving_slow", "slippery_floor_processed"
# Of each recording the half that is learned from, and the half that is predicted [s]; between them the car stands.
LEARNED = {SLIPPERY: (1.0, 18.0), ORDINARY: (12.0, 36.0)}
PREDICTED = {SLIPPERY: (20.5, 39.5), ORDINARY: (36.0, 65.0)}
INTERVAL = 0.05  # [s] between two states: as upstream has processed the slippery floor's
GENTLE = 2.5  # [m/s^2] along the car, up to which the motor is taken to leave the tyres what they hold across
LINK = FrictionLink(0.05, 1.5)  # over the ordinary floor's
# One floor, that differs little across a room; how slippery it is nobody knows.
PRIOR = FieldPrior(a0=0.5, alpha_x=10.0, alpha_y=10.0, sigma_f=1.5)
FELT = EstimatorSettings(step=1e-3, noise={"vy": 0.03, "yaw_rate": 0.1}, error={"vy": 0.6, "yaw_rate": 4.0}, prescribed=("vx",))
_CHANNELS = ("vy", "yaw_rate")
@dataclass(frozen=True)
class Interval:
    """Median and 90 % interval of a friction, relative to the ordinary floor."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray) -> "Interval":
        low, median, high = np.quantile(values, (0.05, 0.5, 0.95))
        return cls(float(median), float(low), float(high))


@dataclass(frozen=True, eq=False)
class Felt:
    """friction: mean of the field where the car drove; field: over that of the ordinary floor; places (N, 2): of the estimates."""

    friction: Interval
    field: FrictionField
    sd: np.ndarray
    places: np.ndarray


def drive_of(bag: Path, offset: float, lag: float, span: tuple[float, float]) -> MeasuredDrive:
    """A part of a recording at even times, with the effective steering after trim and lag."""
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
    return MeasuredDrive(times - span[0], inputs, {name: np.interp(times, states.time, column) for name, column in zip(names, values.T)})


def gentle(drive: MeasuredDrive) -> MeasuredDrive:
    """The drive; without estimates at high longitudinal acceleration, where the forces are unknown."""
    v = drive.states
    along = savgol_filter(v["vx"], 5, 2, deriv=1, delta=INTERVAL) - v["vy"] * v["yaw_rate"]
    return MeasuredDrive(drive.times, np.where(np.abs(along)[:, None] > GENTLE, np.nan, drive.inputs), v)


def feel(vehicle: Vehicle, draws: Mapping[str, np.ndarray], drive: MeasuredDrive) -> Felt:
    """The friction estimated from a drive."""
    what = FrictionEstimator(vehicle, LINK, PRIOR, FELT, draws).estimate(drive)
    seen, (x, y) = learn(PRIOR, what), (drive.states["x"], drive.states["y"])
    there = DensePosterior(PRIOR, what.places, seen).draw(1000, np.random.default_rng(1))
    # Patches longer than the room are too smooth for the fast method of large maps.
    grid = Grid.covering((x.min() - 1.0, y.min() - 1.0), (x.max() + 1.0, y.max() + 1.0), 0.4)
    field = DensePosterior(PRIOR, grid.places, seen)
    return Felt(Interval.of(LINK.friction(there).mean(axis=1)), FrictionField(grid, field.mean.reshape(grid.shape), LINK),
                np.sqrt(np.maximum(field.covariance.diagonal(), 0.0)).reshape(grid.shape), what.places)


def errors_of(vehicle: Vehicle, drive: MeasuredDrive, horizon: float) -> np.ndarray:
    """RMS errors (2,) of predicted vy and yaw rate over the windows, with the recorded speed."""
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


TRIM, LAG = {ORDINARY: 0.02, SLIPPERY: 0.018}, {ORDINARY: 0.077, SLIPPERY: 0.109}  # [1], [s] as direct fits find them
DART = load_vehicle("dart")


@pytest.fixture(scope="module")
def bags(reference_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, source = tmp_path_factory.mktemp("dart"), reference_data / "dart_rc_vicon_real"
    if not source.is_dir():
        pytest.skip(f"no recordings of DART at {source}")
    for name in (ORDINARY, SLIPPERY):
        import_recording(source / f"{name}.csv", find_config("recordings", "dart"), folder / name)
    return {name: folder / name for name in (ORDINARY, SLIPPERY)}


def test_the_estimated_friction_of_a_slippery_floor_is_lower_and_improves_predictions(bags: dict[str, Path]) -> None:
    drive, other = (drive_of(bags[SLIPPERY], TRIM[SLIPPERY], LAG[SLIPPERY], spans[SLIPPERY]) for spans in (LEARNED, PREDICTED))
    felt = feel(DART, {}, gentle(drive))
    # A fit to the same half gives half of the ordinary floor's friction; the lateral estimate is what the motor leaves of it.
    assert 0.3 < felt.friction.low < felt.friction.median < felt.friction.high < 0.6
    table = FieldTable(felt.field)
    before, after = (errors_of(vehicle, other, 0.2) for vehicle in (DART, DART.replace(friction_field=table.number)))
    assert (after < 0.97 * before).all()


def test_the_ordinary_floor_is_within_the_prior(bags: dict[str, Path]) -> None:
    """Driven slowly, which only excludes ice."""
    felt = feel(DART, {}, drive_of(bags[ORDINARY], TRIM[ORDINARY], LAG[ORDINARY], LEARNED[ORDINARY]))
    assert 0.3 < felt.friction.low < 1.0 < felt.friction.high and felt.friction.high - felt.friction.low > 0.3


def test_steering_acts_late_and_off_by_the_trim(bags: dict[str, Path]) -> None:
    at_once, late = (drive_of(bags[SLIPPERY], 0.0, lag, LEARNED[SLIPPERY]) for lag in (0.0, 0.2))
    steering = at_once.inputs[:, 0]
    expected = np.zeros(len(steering))
    expected[0] = late.inputs[0, 0]
    fine = np.interp(np.arange(0.0, at_once.times[-1], 0.005), at_once.times, steering)
    y = expected[0]
    for k, u in enumerate(fine):
        y += (1.0 - np.exp(-0.005 / 0.2)) * (u - y)
        if k % round(INTERVAL / 0.005) == 0:
            expected[k // round(INTERVAL / 0.005)] = y
    np.testing.assert_allclose(late.inputs[20:-2, 0], expected[20:-2], atol=0.03)
