"""A ground that becomes known stretch by stretch: against what the whole drive says at once, and how much of it is kept."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.ground import FieldTable, FrictionField, FrictionLink, Grid
from lfdm_ros.ground.friction_estimator import FrictionEstimator, MeasuredDrive
from lfdm_ros.ground.ground_file import load_ground
from lfdm_ros.ground.learned_ground import DriveSegment, GroundPrior, LearnedGround, LearnerSettings
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
SETTINGS = LearnerSettings(patch_length=12.0, draws=3, most_windows=100, windows_per_place=1)
ICE_AT, LAST = 12.0, 24.0  # [m] where ice begins, and a place on it


@pytest.fixture(scope="module")
def drive() -> MeasuredDrive:
    """Straight on at 12 m/s, hard on the brakes, from road of 0.9 onto ice of 0.2."""
    grid = Grid.covering((-20.0, -20.0), (60.0, 20.0), 1.0)
    link = FrictionLink(0.1, 1.1)
    friction = np.where(np.meshgrid(grid.xs, grid.ys)[0] > ICE_AT, 0.2, 0.9)
    table = FieldTable(FrictionField(grid, link.latent(friction), link))
    simulator = Simulator(HMMWV.replace(friction_field=table.number), "eighteen_dof", dt=1e-3)
    simulator.reset(vx=12.0)
    times, rng = 0.01 * np.arange(301), np.random.default_rng(1)
    inputs = np.column_stack([0.1 * np.sin(6.0 * times), 0.0 * times, np.where(times > 0.4, 0.5, 0.0)])
    rows = [simulator.state.copy()]
    for before, after in pairwise(inputs):
        simulator.advance(before, after, 10)
        rows.append(simulator.state.copy())
    noise = LearnerSettings().noise
    states = {f.name: values + noise.get(f.name.partition("_")[0] if f.name.startswith("omega") else f.name, 0.0)
              * rng.standard_normal(len(times)) for f, values in zip(simulator.model.states, np.array(rows).T)}
    return MeasuredDrive(times, inputs, states)


def stretches(drive: MeasuredDrive, rows: int = 100, lead: int = 40) -> list[DriveSegment]:
    found = []
    for since in range(0, len(drive.times) - 1, rows):
        part = slice(max(since - lead, 0), since + rows + 1)
        found.append(DriveSegment(MeasuredDrive(drive.times[part], drive.inputs[part], {n: v[part] for n, v in drive.states.items()}),
                             float(drive.times[since])))
    return found


def of(settings: LearnerSettings = SETTINGS, **more: Any) -> LearnedGround:
    return LearnedGround(HMMWV, GroundPrior.of(settings), settings, **more)


def test_stretch_by_stretch_the_same_windows_are_felt_as_in_the_whole_drive(drive: MeasuredDrive) -> None:
    belief = GroundPrior.of(SETTINGS)
    feels = FrictionEstimator(HMMWV, belief.link, belief.prior)
    whole, parts = feels.estimate(drive), [feels.estimate(s.drive, s.since) for s in stretches(drive)]
    np.testing.assert_array_equal(np.concatenate([part.places for part in parts]), whole.places)
    np.testing.assert_allclose(np.concatenate([part.log_likelihood for part in parts]), whole.log_likelihood, atol=1e-6)


def test_ice_is_found_where_it_is_and_nothing_is_known_elsewhere(drive: MeasuredDrive) -> None:
    ground = of()
    for stretch in stretches(drive):
        ground.estimate(stretch)
    known = ground.posterior_map((20.0, 0.0))
    on_ice, beside = known.median.friction_at(LAST, 0.0), known.median.friction_at(-40.0, 40.0)
    assert 0.1 < on_ice < 0.35 and beside == pytest.approx(1.0, abs=0.01)
    assert known.median.friction_at(6.0, 0.0) > 0.6
    node = np.unravel_index(np.argmin(np.hypot(*(np.array(np.meshgrid(known.grid.xs, known.grid.ys)).reshape(2, -1)
                                                 - [[LAST], [0.0]]))), known.grid.shape)
    believed = SETTINGS.patch_deviation
    assert known.sd[node] < 0.5 * believed and known.sd[-1, 0] > 0.99 * believed and len(known.draws) == 3
    # Samples agree with what is known, and differ where nothing is.
    assert np.abs(known.draws[:, node[0], node[1]] - known.mean[node]).max() < 3.0 * known.sd[node] and np.ptp(known.draws[:, -1, 0]) > 0.3


def test_who_drives_over_the_same_place_again_keeps_no_more(drive: MeasuredDrive) -> None:
    """Four times over it: as many windows as once."""
    once, often, parts = of(), of(), stretches(drive)
    for number in range(4):
        for stretch in parts:
            often.estimate(stretch)
            if not number:
                once.estimate(stretch)
    assert often.estimated == 4 * once.estimated and often.stored == once.stored
    np.testing.assert_allclose(often.posterior_map((20.0, 0.0)).mean, once.posterior_map((20.0, 0.0)).mean, atol=0.02)


def test_of_more_windows_than_a_map_may_have_those_count_that_say_most(drive: MeasuredDrive) -> None:
    ground = of(LearnerSettings(patch_length=12.0, draws=0, most_windows=10))
    for stretch in stretches(drive):
        ground.estimate(stretch)
    assert ground.stored > 10
    known = ground.posterior_map((20.0, 0.0))
    assert known.median.friction_at(LAST, 0.0) < 0.4 and known.draws.shape == (0, *known.grid.shape)


def test_another_calibration_feels_again_what_is_remembered(drive: MeasuredDrive) -> None:
    """On tyres that hold a quarter more, what braked so little was less of a road."""
    ground = of()
    for stretch in stretches(drive):
        ground.estimate(stretch)
    before, felt = float(ground.posterior_map((20.0, 0.0)).median.friction_at(LAST, 0.0)), ground.estimated
    scale = HMMWV.parameters["friction_scale"]
    ground.set_vehicle(HMMWV, {"friction_scale": np.full(20, 1.25 * scale)})
    after = float(ground.posterior_map((20.0, 0.0)).median.friction_at(LAST, 0.0))
    assert ground.estimated == felt and after < 0.95 * before and after == pytest.approx(before / 1.25, rel=0.15)


def test_the_map_goes_with_the_vehicle_and_comes_back(drive: MeasuredDrive) -> None:
    ground = of()
    for stretch in stretches(drive):
        ground.estimate(stretch)
    here, near, far = (ground.posterior_map((x, 0.0)).grid for x in (20.0, 50.0, 400.0))
    assert here == near != far and far.x - here.x == pytest.approx(380.0, abs=far.spacing)
    assert ground.posterior_map((400.0, 0.0)).sd.min() == pytest.approx(LearnerSettings().patch_deviation, abs=1e-3)
    assert ground.posterior_map((20.0, 0.0)).median.friction_at(LAST, 0.0) < 0.35


def test_where_nobody_drove_the_friction_may_be_that_of_ice() -> None:
    """0.3 is above ice and below wet road: the 90 % interval holds it, and a road is the likelier."""
    unknown = GroundPrior.of(LearnerSettings()).before(LearnerSettings(), (0.0, 0.0))
    low, high = (float(unknown.link.friction(unknown.mean[0, 0] + side * 1.645 * unknown.sd[0, 0])) for side in (-1.0, 1.0))
    assert low < 0.3 and high > 1.0 and unknown.median.friction_at(0.0, 0.0) == pytest.approx(1.0)


def test_a_file_with_a_random_field_says_what_is_believed_and_seen() -> None:
    file = load_ground("ice_patches")
    belief = GroundPrior.of(SETTINGS, file)
    assert file.belief is not None and belief.prior == file.belief.prior and belief.grid is not None and belief.grid.spacing == 2.5
    known = belief.before(SETTINGS, (0.0, 0.0))
    assert known.link == file.field.link and known.median.friction_at(60.0, 0.0) == pytest.approx(0.35, abs=0.1)
    # Of one that is known nobody is told what it says: that is what is to be learned.
    bend = GroundPrior.of(SETTINGS, load_ground("ice_in_the_bend"))
    assert len(bend.observations) == 0 and bend.prior.alpha_x == 12.0 and bend.grid is not None and not bend.grid.outside(98.8, 12.0)
    assert bend.before(SETTINGS, (0.0, 0.0)).median.friction_at(98.8, 12.0) == pytest.approx(1.0)


def test_settings_that_do_not_fit_are_named() -> None:
    with pytest.raises(InputError, match="patch_length is -1 m"):
        LearnerSettings(patch_length=-1.0)
    with pytest.raises(InputError, match=r"1\.2 is not between ice"):
        GroundPrior.of(LearnerSettings(usual_friction=1.2))
