"""Simulation-based calibration: right posteriors pass, wrong ones fail, a study that was stopped goes on."""

import json
import pickle
import shutil
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from lfdm_ros import cache_key
from lfdm_ros.calibration import sbc
from lfdm_ros.calibration.recipe import load_recipe
from lfdm_ros.errors import InputError
from lfdm_ros.inference.dataset import find_recordings, load_stage
from lfdm_ros.scheduling import get_scheduler

SINGLE_TRACK = """
model: linear_single_track
vehicle: rhode_dual_track
step: {value: 10, unit: ms}
stages:
  - name: white
    recording: turn
    window: [0.5, 1.7]
    initial_state: {topic: vehicle/state, estimate: {yaw_rate: {prior: normal, sd: 0.05, unit: rad/s}}}
    parameters: {cornering_stiffness_front: {prior: log_normal, median: 11, log_sd: 0.2, unit: kN/rad}}
    channels: &channels
      vy: {topic: measured/state, noise: {prior: log_normal, median: 0.02, log_sd: 0.5, unit: m/s}}
      yaw_rate: {topic: measured/state, noise: {prior: log_normal, median: 0.01, log_sd: 0.5, unit: rad/s}}
  - name: correlated
    recording: turn
    window: [0.5, 1.7]
    errors: ar1
    parameters: {cornering_stiffness_rear: {prior: log_normal, median: 11, log_sd: 0.2, unit: kN/rad}}
    channels: *channels
"""
HASTY = {"draws": 20, "options": {"steps": 2, "final_steps": 4}}  # where only equality matters


@pytest.fixture(scope="module")
def designs(bags, tmp_path_factory):
    path = tmp_path_factory.mktemp("sbc") / "single_track.yaml"
    path.write_text(SINGLE_TRACK)
    recipe = load_recipe(path)
    recordings = find_recordings([bags["turn"]])
    return {stage.name: sbc.Design(recipe, stage, load_stage(stage, recordings, recipe, recipe.start_vehicle), draws=50)
            for stage in recipe.stages}


def run(design: sbc.Design, count: int) -> sbc.Replications:
    blocks = [range(first, first + design.size) for first in range(0, count, design.size)]
    with get_scheduler() as scheduler:
        parts = dict(scheduler.map(lambda block: sbc.run_block(design, block), blocks))
    return sbc.Replications.joined([parts[i] for i in range(len(blocks))])


# -- The default calibration passes, wrong ones fail --------------------------------------------------------------


@pytest.mark.parametrize(("stage", "count"), [("white", 50), ("correlated", 25)])
def test_smc_as_it_is_set_by_default_passes(designs, stage, count) -> None:
    found = run(designs[stage], count)
    verdict = sbc.assess(found)
    assert verdict["passes"], verdict["unknowns"]
    assert {"white": {"cornering_stiffness_front", "initial.yaw_rate", "sigma.vy", "sigma.yaw_rate"},
            "correlated": {"cornering_stiffness_rear", "sigma.vy", "sigma.yaw_rate", "rho.vy", "rho.yaw_rate"}}[stage] == set(found.names)
    # Ranks of a posterior that has learnt nothing are uniform, too; then z would follow the truth.
    assert np.corrcoef(np.log(found.truths[:, 0]), found.z[:, 0])[0, 1] > -0.5
    assert all(row["far"] == 0.0 for row in verdict["unknowns"].values())


def test_the_likelihood_of_the_published_code_fails(designs) -> None:
    verdict = sbc.assess(run(replace(designs["white"], likelihood="published"), 25))
    assert not verdict["passes"]
    # The squared errors of both channels with each sigma: the more precise channel's noise is taken for the other's.
    assert verdict["unknowns"]["sigma.yaw_rate"]["p"] < 1e-3


def test_too_few_moves_of_the_particles_fail(designs) -> None:
    verdict = sbc.assess(run(replace(designs["white"], options={"steps": 1, "final_steps": 1}), 50))
    assert not verdict["passes"]
    assert max(row["variance"] for row in verdict["unknowns"].values()) > 1.2


def test_least_squares_passes_where_the_posterior_is_nearly_gaussian(designs) -> None:
    assert sbc.assess(run(replace(designs["white"], sampler="least_squares"), 25))["passes"]


# -- What the ranks say -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "shift", "passes"), [(1.0, 0.0, True), (0.7, 0.0, False), (1.5, 0.0, False), (1.0, 0.5, False)])
def test_a_posterior_of_known_error_is_judged_rightly(width, shift, passes) -> None:
    # y = truth + noise, both standard normal: the posterior is N(y/2, 1/2).
    rng = np.random.default_rng(8)
    truth = rng.standard_normal(300)
    y = truth + rng.standard_normal(300)
    draws = 0.5 * y[:, None] + np.sqrt(0.5) * (shift + width * rng.standard_normal((300, 200)))
    u = ((draws < truth[:, None]).sum(axis=1) + rng.random(300)) / 201
    z = (draws.mean(axis=1) - truth) / draws.std(axis=1)
    verdict = sbc.assess(sbc.Replications(("a",), u[:, None], z[:, None], truth[:, None], 0, 0, 0.0))
    assert verdict["passes"] is passes
    row = verdict["unknowns"]["a"]
    if width != 1.0:
        assert (row["variance"] > 1.0) == (width < 1.0)
    # Of two normal distributions, by their widths and means.
    exact = [np.diff(stats.norm.cdf(shift + width * stats.norm.ppf([0.5 - half, 0.5 + half])))[0] for half in (0.25, 0.45)]
    assert [row["coverage_50"], row["coverage_90"]] == pytest.approx(exact, abs=0.07)


def test_the_band_holds_the_whole_curve_as_often_as_it_says() -> None:
    band, rng = sbc.band_of(100), np.random.default_rng(3)
    low, high = band.bounds(0.1)
    samples = rng.random((2000, 100))
    left = np.mean([((difference := band.difference(u)) < low - 1e-12).any() or (difference > high + 1e-12).any() for u in samples])
    assert left == pytest.approx(0.1, abs=0.025)
    assert stats.kstest([band.p_value(u) for u in samples], "uniform").statistic < 0.06


def test_the_band_is_that_of_arviz() -> None:
    from arviz.stats.ecdf_utils import ecdf_confidence_band

    band = sbc.band_of(100)
    simulated = ecdf_confidence_band(100, band.places, band.places, prob=0.9, method="simulated",
                                     rvs=stats.uniform(0.0, 1.0).rvs, num_trials=2000, random_state=np.random.default_rng(1))
    for ours, theirs in zip(band.bounds(0.1), simulated):
        np.testing.assert_allclose(ours, theirs - band.places, atol=0.0101)  # one value of 100 more or less


# -- Data ---------------------------------------------------------------------------------------------------------


def test_simulated_data_are_the_response_of_the_truth_with_its_noise(designs) -> None:
    design = designs["correlated"]
    bench = sbc.Bench(design)
    truths = {name: np.array([float(d.mean())]) for name, d in bench.frozen.items()} | {
        "rho.vy": np.array([0.9]), "rho.yaw_rate": np.array([0.0]), "sigma.vy": np.array([0.3]), "sigma.yaw_rate": np.array([1e-9])}
    data = [sbc.simulate(design.data, bench.model, truths, [np.random.default_rng(i)])[0].fitted[0][1] for i in range(200)]
    response = bench.model.likelihood.responses(np.array([[truths["cornering_stiffness_rear"][0]]]))[0][0]
    error = np.array([one.observed for one in data]) - response
    assert np.abs(error[:, :, 1]).max() < 1e-8
    assert error[:, :, 0].std() == pytest.approx(0.3, rel=0.05)
    assert np.mean(error[:, 1:, 0] * error[:, :-1, 0]) / 0.3**2 == pytest.approx(0.9, abs=0.05)


def test_truths_that_diverge_are_drawn_again_and_counted(designs, monkeypatch) -> None:
    design = designs["white"]
    bench = sbc.Bench(design)
    original = type(bench.model.likelihood).moments
    median = 11e3

    def moments(self, q):
        return np.where(q[:, :1, None] > median, np.inf, original(self, q))

    monkeypatch.setattr(type(bench.model.likelihood), "moments", moments)
    truths, redrawn = sbc.draw_truths(design, bench, [np.random.default_rng(i) for i in range(40)])
    assert (truths["cornering_stiffness_front"] <= median).all()
    assert 15 < redrawn < 90
    monkeypatch.setattr(type(bench.model.likelihood), "moments", lambda self, q: np.full((len(q), 2, 3), np.inf))
    with pytest.raises(InputError, match="diverge"):
        sbc.draw_truths(design, bench, [np.random.default_rng(0)])


def test_a_replication_is_the_same_in_any_part_of_its_block(designs) -> None:
    """With a design that has gone to another process, too."""
    design = replace(designs["white"], **HASTY)
    whole, part = sbc.run_block(design, range(25, 50)), sbc.run_block(pickle.loads(pickle.dumps(design)), range(25, 30))
    assert (whole.u[:5] == part.u).all()
    assert (whole.truths[:5] == part.truths).all()
    assert (whole.u[:5] != sbc.run_block(replace(design, seed=2), range(25, 30)).u).all()


# -- A study ------------------------------------------------------------------------------------------------------


def test_a_study_that_was_stopped_goes_on_and_ends_the_same(designs, tmp_path) -> None:
    design = replace(designs["white"], sampler="least_squares")
    told = []

    def stop(state: sbc.StudyProgress) -> None:
        told.append(state.done)
        if state.done == 5:
            raise KeyboardInterrupt

    with get_scheduler() as scheduler:
        with pytest.raises(KeyboardInterrupt):
            sbc.study([design], tmp_path / "stopped", replications=8, scheduler=scheduler, progress=stop)
        partly = json.loads((tmp_path / "stopped" / "results.json").read_text())
        assert partly["interrupted"] and partly["stages"]["white"]["replications"] == 5
        told.clear()
        resumed = sbc.study([design], tmp_path / "stopped", replications=8, scheduler=scheduler,
                            progress=lambda state: told.append(state.done))
        assert told == [5, 8]
        whole = sbc.study([design], tmp_path / "whole", replications=8, scheduler=scheduler)
    assert resumed["stages"]["white"]["unknowns"] == whole["stages"]["white"]["unknowns"]
    assert not json.loads((tmp_path / "stopped" / "results.json").read_text())["interrupted"]
    assert (tmp_path / "whole" / "sbc_white.png").stat().st_size > 10_000


def test_a_study_of_other_sources_begins_anew(designs, tmp_path, monkeypatch) -> None:
    """Edit a tyre, repeat the study, and it runs anew."""
    package = shutil.copytree(cache_key.PACKAGE, tmp_path / "lfdm_ros", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(cache_key, "PACKAGE", package)

    def study() -> int:
        """Replications that were there."""
        told = []
        sbc.study([replace(designs["white"], sampler="least_squares")], tmp_path / "out", replications=5, scheduler=scheduler,
                  progress=lambda state: told.append(state.done))
        return told[0]

    with get_scheduler() as scheduler:
        assert [study(), study()] == [0, 5]
        with (package / "models" / "fiala.py").open("a") as file:
            file.write("# a remark\n")
        (tmp_path / "edited").symlink_to(package)  # by another name, as sources are read once in a process
        monkeypatch.setattr(cache_key, "PACKAGE", tmp_path / "edited")
        assert study() == 0
