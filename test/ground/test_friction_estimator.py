"""What friction the tyres feel: against a vehicle of another model on a road whose friction is known."""

from itertools import pairwise

import numpy as np
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.ground.friction_estimator import EstimatorSettings, FrictionEstimator, MeasuredDrive
from lfdm_ros.ground.friction_field import FrictionLink
from lfdm_ros.ground.learning import FrictionLikelihood
from lfdm_ros.ground.prior import FieldPrior
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv").replace(friction_scale=1.0)
LINK = FrictionLink(0.05, 1.05)
FLAT = FieldPrior(alpha_x=1e3, alpha_y=1e3, sigma_f=1.5)  # the same everywhere
NOISE = {"vx": 0.02, "vy": 0.02, "yaw_rate": 0.004, "omega": 0.1}


def drive(friction: float, steering: float, brake: float = 0.0, model: str = "eighteen_dof", seconds: float = 3.0,
          seed: int = 2) -> MeasuredDrive:
    """A slalom from 14 m/s, measured with noise."""
    times = 0.01 * np.arange(round(100 * seconds) + 1)
    inputs = np.column_stack([steering * np.sin(2.0 * np.pi * 0.5 * times), np.full(len(times), 0.1 if not brake else 0.0),
                              np.where(times > 1.0, brake, 0.0)])
    simulator = Simulator(HMMWV.replace(friction_scale=friction), model=model, dt=1e-3)
    simulator.reset(vx=14.0)
    names = [f.name for f in simulator.model.states]
    rows = [simulator.state.copy()]
    for u, v in pairwise(inputs):
        simulator.advance(u, v, 10)
        rows.append(simulator.state.copy())
    states, rng = dict(zip(names, np.array(rows).T)), np.random.default_rng(seed)
    known = {name: values + rng.normal(0.0, NOISE[stem], len(times)) for name, values in states.items()
             for stem in NOISE if stem == name.partition("_")[0] or stem == name}
    return MeasuredDrive(times, inputs, known | {name: states[name] for name in ("x", "y", "yaw")})


def friction(felt: FrictionLikelihood) -> float:
    """The mean friction by the product of all windows."""
    logs, values = felt.log_likelihood.sum(axis=0), LINK.friction(felt.latent)
    weights = np.exp(logs - logs.max())
    return float(weights @ values / weights.sum())


@pytest.fixture(scope="module")
def felt() -> FrictionEstimator:
    return FrictionEstimator(HMMWV, LINK, FLAT, EstimatorSettings(noise=NOISE))


@pytest.mark.parametrize("true", (0.3, 0.5, 0.8))
def test_who_uses_the_grip_feels_it(felt: FrictionEstimator, true: float) -> None:
    """The product of all windows is about the friction that a model with engine and gears drove on."""
    assert friction(felt.estimate(drive(true, 0.35, 0.5))) == pytest.approx(true, abs=0.05)


def test_who_drives_gently_knows_little(felt: FrictionEstimator) -> None:
    """No window tells an ordinary road from a wet one; ice it may exclude."""
    gentle = felt.estimate(drive(0.8, 0.02))
    assert len(gentle) == 15
    wet, hard = LINK.friction(gentle.latent) > 0.45, felt.estimate(drive(0.8, 0.35, 0.5))
    assert np.ptp(gentle.log_likelihood[:, wet], axis=1).max() < 1.0 < np.ptp(hard.log_likelihood[:, wet], axis=1).max()


def test_without_wheel_speeds_only_what_rolls_freely_counts(felt: FrictionEstimator) -> None:
    braked = drive(0.4, 0.35, 0.5)
    states = {name: values for name, values in braked.states.items() if not name.startswith("omega")}
    bare = MeasuredDrive(braked.times, braked.inputs, states)
    some = felt.estimate(bare)
    assert len(some) == 5 and len(felt.estimate(braked)) == 15  # the first second of three
    assert friction(some) == pytest.approx(0.4, abs=0.15)


def test_what_was_not_measured_is_left_out(felt: FrictionEstimator) -> None:
    whole = drive(0.8, 0.2)
    gap = {name: values.copy() for name, values in whole.states.items()}
    gap["vy"][55] = np.nan
    every, some = felt.estimate(whole), felt.estimate(MeasuredDrive(whole.times, whole.inputs, gap))
    np.testing.assert_array_equal(some.places, np.delete(every.places, 2, axis=0))
    # Before the next two less is known of what is not measured, roll say; then all is as it was.
    np.testing.assert_array_equal(some.log_likelihood[4:], every.log_likelihood[5:])


def test_a_window_speaks_of_its_middle(felt: FrictionEstimator) -> None:
    """Straight on, half way between the outermost places of the wheels."""
    p, straight = HMMWV.parameters, drive(0.8, 0.0)
    x = straight.states["x"]
    middle = 0.5 * (x[0] + x[20]) + 0.5 * (p["cg_to_front_axle"] - p["cg_to_rear_axle"])
    np.testing.assert_allclose(felt.estimate(straight).places[0], [middle, 0.0], atol=0.01)


def test_what_cannot_be_compared_is_refused(felt: FrictionEstimator) -> None:
    with pytest.raises(InputError, match="linear_single_track"):
        FrictionEstimator(HMMWV, LINK, FLAT, EstimatorSettings(model="linear_single_track"))
    with pytest.raises(InputError, match="no state 'sideslip'"):
        FrictionEstimator(HMMWV, LINK, FLAT, EstimatorSettings(noise={"sideslip": 0.1}))
    whole = drive(0.8, 0.1)
    with pytest.raises(InputError, match="evenly"):
        felt.estimate(MeasuredDrive(np.array([0.0, 0.1, 0.5]), np.zeros((3, 3)), whole.states))
    with pytest.raises(InputError, match="yaw_rate was never measured"):
        states = {name: values for name, values in whole.states.items() if name != "yaw_rate"}
        felt.estimate(MeasuredDrive(whole.times, whole.inputs, states))


def test_the_vehicles_own_scale_counts() -> None:
    """Tyres that hold a fifth more on the same road: known of the vehicle or of its posterior, the road is the same."""
    grippy = drive(0.6, 0.35, 0.5)
    for vehicle, posterior in ((HMMWV.replace(friction_scale=1.2), None), (HMMWV, {"friction_scale": np.full(10, 1.2)})):
        felt = FrictionEstimator(vehicle, LINK, FLAT, EstimatorSettings(noise=NOISE), posterior)
        assert friction(felt.estimate(grippy)) == pytest.approx(0.5, abs=0.05)
