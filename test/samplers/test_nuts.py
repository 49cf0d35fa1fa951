"""NUTS against posteriors that are known, also where bounds cut them off, and its gradient against differences."""

import math

import numpy as np
import pytest
from problems import COMPILE_MODE, Linear, Walled, assert_moments, prior, problem, stop_at, without_compiler

from lfdm_ros.calibration.recipe import load_recipe
from lfdm_ros.calibration.results import load_posterior, load_summary
from lfdm_ros.calibration.run import calibrate
from lfdm_ros.calibration.stage import stage_model
from lfdm_ros.inference.dataset import find_recordings, load_stage
from lfdm_ros.inference.model import BatchedDensity
from lfdm_ros.inference.pymc_adapter import NutsChain
from lfdm_ros.samplers import nuts
from lfdm_ros.samplers.sampler import Problem

EVERYTHING = """
model: eight_dof
vehicle: hmmwv
step: {value: 2, unit: ms}
stages:
  - name: lateral
    segments:
      - name: first
        recording: turn
        window: [0.5, 1.5]
        initial_state: {topic: vehicle/state, estimate: {vx: {prior: normal, sd: 0.1, unit: m/s}}}
        channels: &channels
          vx: {topic: measured/state, noise: {prior: half_normal, sigma: 0.1, unit: m/s}}
          vy: {topic: measured/state, noise: {prior: log_normal, median: 0.05, log_sd: 1.0, unit: m/s}}
          yaw_rate: {topic: measured/state, noise: {prior: log_normal, median: 0.02, log_sd: 1.0, unit: rad/s}}
      - name: second
        recording: turn
        window: [1.5, 2.5]
        initial_state: {topic: vehicle/state, estimate: {vy: {prior: normal, sd: 0.1, unit: m/s}}}
        channels: *channels
    errors: ar1
    nuisance:
      steering.delay: {prior: half_normal, sigma: 0.05, unit: s}
      steering.offset: {prior: normal, mean: 0, sd: 0.02, unit: "1"}
      steering.scale: {prior: log_normal, median: 1, log_sd: 0.1, unit: "1"}
      steering.lag: {prior: half_normal, sigma: 0.1, unit: s}
      yaw_rate.offset: {prior: normal, mean: 0, sd: 0.01, unit: rad/s}
      heading.misalignment: {prior: normal, mean: 0, sd: 0.02, unit: rad}
    parameters:
      cornering_stiffness_front: {prior: log_normal, median: 50, log_sd: 0.1, unit: kN/rad}
      cornering_stiffness_rear: {prior: uniform, lower: 40, upper: 70, unit: kN/rad}
"""


@pytest.fixture(scope="module")
def walled():
    return Walled()


def on_cores(monkeypatch, workers=1):
    monkeypatch.setattr(nuts, "workers_for", lambda chains: workers)


def sample(asked, draws, chains, seed=1, report=None, tune=200):
    return nuts.run(asked, draws=draws, chains=chains, seed=np.random.SeedSequence(seed), report=report, tune=tune)


@pytest.fixture
def everything(bags, tmp_path):
    """The problem of a stage with all kinds of unknowns, in which one group's errors are inflated."""
    path = tmp_path / "everything.yaml"
    path.write_text(EVERYTHING)
    recipe = load_recipe(path)
    stage = recipe.stages[0]
    data = load_stage(stage, find_recordings([bags["turn"]]), recipe, recipe.start_vehicle)
    asked = stage_model(stage, data, recipe, recipe.start_vehicle)
    likelihood = asked.likelihood.weighted({"second.vy": 0.3})
    assert [group.weight for group in likelihood.groups].count(0.3) == 1
    density = BatchedDensity(likelihood, asked.unknowns, asked.errors)
    return Problem(likelihood, density, asked.unknowns, asked.errors, asked.start, stage.objective)


def test_gradient_of_a_stage_with_all_kinds_of_unknowns(everything):
    density, function = everything.density, nuts.LogDensity(everything)
    spread = {name: p.spread() for name, p in everything.unknowns.items()}
    steps = np.array([1e-5 * spread.get(name, 1.0) for name in density.names])
    assert {"steering.delay", "steering.lag", "heading.misalignment", "rho.first.vy", "sigma.second.vx"} < set(density.names)
    offsets = []
    for particle in density.draw_prior(3, np.random.default_rng(2)):
        around = np.concatenate([particle + np.diag(steps), particle - np.diag(steps), particle[None]])
        logp = np.add(*density(around))
        differences = (logp[:len(steps)] - logp[len(steps):-1]) / 2e-5
        value, slope = function(particle)
        offsets.append(value - logp[-1])
        np.testing.assert_allclose(slope * steps / 1e-5, differences, rtol=1e-4, atol=1e-4 * np.abs(differences).max())
    assert np.ptp(offsets) < 1e-9 * np.abs(logp[-1])


def test_pymc_has_the_same_density_and_gradient_by_itself(everything):
    model, function = everything.density.model, nuts.LogDensity(everything)
    with without_compiler():  # and therefore not as one sum, which PyTensor then takes of at most 31 terms
        logp, dlogp = model.compile_logp(sum=False, mode=COMPILE_MODE), model.compile_dlogp(mode=COMPILE_MODE)
    offsets = []
    for particle in everything.density.draw_prior(3, np.random.default_rng(2)):
        point = {v.name: np.asarray(x) for v, x in zip(model.value_vars, particle)}
        value, slope = function(particle)
        offsets.append(value - sum(term.sum() for term in logp(point)))
        np.testing.assert_allclose(slope, dlogp(point), rtol=1e-8, atol=1e-10 * np.abs(slope).max())
    assert np.ptp(offsets) < 1e-9 * np.abs(value)


def test_a_posterior_cut_off_by_bounds(walled, monkeypatch):
    on_cores(monkeypatch)
    run = sample(walled.problem, 700, 3)
    walled.check(run.draws)
    assert run.statistics["divergences"] == 0
    assert not run.stopped
    a, b, sigma = (run.draws[name][1, 7] for name in ("a", "b", "sigma.y"))
    errors = walled.problem.likelihood.errors(np.array([[a, b]]))[0]
    assert run.log_likelihood[1, 7] == pytest.approx((-0.5 * (errors / sigma) ** 2 - np.log(sigma * np.sqrt(2.0 * np.pi))).sum(), rel=1e-9)


def test_a_sum_that_is_known_and_two_parts_that_are_not(monkeypatch):
    on_cores(monkeypatch)
    likelihood = Linear(np.ones((400, 2)), np.array([0.45, 0.63]), 0.134)
    asked = problem(likelihood, {"ka": prior("uniform", lower=0.2, upper=0.8), "kb": prior("uniform", lower=0.3, upper=1.2)},
                    prior("half_normal", sigma=1.0))
    run = sample(asked, 400, 3, seed=4)
    total = run.draws["ka"] + run.draws["kb"]
    low, high = 0.2, likelihood.observed.mean() - 0.3  # of ka, to the thickness of the ridge
    assert_moments(run.draws["ka"], (low + high) / 2, (high - low) / math.sqrt(12), "ka")
    assert_moments(total, likelihood.observed.mean(), likelihood.observed.std() / 20, "the sum")


def test_walls_reflect_without_loss_and_the_way_back_is_the_same():
    covariance = np.array([[1.0, 0.8], [0.8, 1.0]])
    box = nuts.Box(np.array([0.0, -0.5]), np.array([1.0, np.inf]))
    rng = np.random.default_rng(3)
    reflected = 0
    for _ in range(200):
        q, p, time = rng.uniform(0.0, 1.0, 2), rng.standard_normal(2), rng.uniform(0.1, 4.0)
        end, after = box.drift(q, p, time, covariance.dot)
        assert (end >= box.lower).all()
        assert (end <= box.upper).all()
        assert after @ covariance @ after == pytest.approx(p @ covariance @ p, rel=1e-12)
        np.testing.assert_allclose(box.drift(end, after, -time, covariance.dot)[0], q, atol=1e-10)
        reflected += not np.array_equal(p, after)
    assert reflected > 100


def test_the_same_seed_gives_the_same_draws_on_any_number_of_cores(walled, monkeypatch):
    on_cores(monkeypatch, workers=1)
    alone = sample(walled.problem, 30, 3, tune=60)
    on_cores(monkeypatch, workers=2)
    together, other = (sample(walled.problem, 30, 3, seed=seed, tune=60) for seed in (1, 2))
    for name, values in alone.draws.items():
        assert np.array_equal(values, together.draws[name])
        assert not np.array_equal(values, other.draws[name])
        assert len(np.unique(values[:, 0])) == 3


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_that_is_stopped(walled, monkeypatch, workers):
    on_cores(monkeypatch, workers)
    seen = []
    with pytest.raises(KeyboardInterrupt):  # still tuning
        sample(walled.problem, 200, 2, report=stop_at(0.1, seen=seen), tune=40)
    seen.clear()
    stopped = sample(walled.problem, 200, 2, report=stop_at(0.5, seen=seen), tune=40)
    chains, count = stopped.draws["a"].shape
    assert chains == 2
    assert 10 <= count < 200
    assert stopped.log_likelihood.shape == (chains, count) == stopped.stored["energy"][1].shape
    assert stopped.temperature == 1.0
    assert stopped.stopped
    assert f"stopped after {count} of 200 draws" in stopped.warnings[-1]
    progress = [state.progress for state in seen]
    assert progress == sorted(progress)


@pytest.mark.usefixtures("without_pictures")
def test_a_calibration_that_is_stopped_keeps_the_draws_and_does_not_go_on(bags, recipe_file, tmp_path, monkeypatch):
    on_cores(monkeypatch)
    stages = []

    def stop(state):
        stages.append(state.stage)
        if state.stage == "longitudinal" and state.progress > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibrate(load_recipe(recipe_file), [str(bag) for bag in bags.values()], tmp_path / "out", draws=100, chains=2, sampler="nuts",
                  options={"tune": 20}, progress=stop)
    assert set(stages) == {"longitudinal"}
    summary = load_summary(tmp_path / "out")
    assert summary["interrupted"]
    assert [stage["name"] for stage in summary["stages"]] == ["longitudinal"]
    assert any("stopped after" in text for text in summary["warnings"])
    posterior = load_posterior(tmp_path / "out")
    assert posterior.sizes["chain"] == 2
    assert 10 <= posterior.sizes["draw"] < 100
    assert not list((tmp_path / "out").glob(".stages/*"))  # it is run again, whole


def test_a_failure_in_another_process_is_told(walled, monkeypatch):
    on_cores(monkeypatch, workers=2)

    def broken(self, tuning):
        raise OSError("no space")

    monkeypatch.setattr(NutsChain, "draw", broken)
    with pytest.raises(RuntimeError, match="no space"):
        sample(walled.problem, 20, 2)
