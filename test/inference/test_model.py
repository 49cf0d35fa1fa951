"""The density of a stage on the 8-DOF, in NumPy: it is PyMC's own, and eq. 3."""

import numpy as np
import pymc as pm
import pytest
from problems import COMPILE_MODE, without_compiler
from scipy import stats

from lfdm_ros.calibration.recipe import load_recipe
from lfdm_ros.calibration.stage import stage_model
from lfdm_ros.inference.dataset import find_recordings, load_stage
from lfdm_ros.inference.likelihood import RolloutLikelihood
from lfdm_ros.inference.model import BatchedDensity


@pytest.fixture
def lateral(bags, recipe_file):
    """Likelihood and density of the lateral stage, which has an estimated initial state."""
    recipe = load_recipe(recipe_file)
    stage = recipe.stages[1]
    data = load_stage(stage, find_recordings([bags["turn"]]), recipe, recipe.start_vehicle)
    data.fitted[0][1].observed[::7, 1] = np.nan
    asked = stage_model(stage, data, recipe, recipe.start_vehicle)
    return asked.likelihood, BatchedDensity(asked.likelihood, asked.unknowns, asked.errors)


def test_batched_density_is_that_of_pymc(lateral):
    _, density = lateral
    model = density.model
    particles = density.draw_prior(5, np.random.default_rng(0))
    prior, data = density(particles)
    with without_compiler():
        scalar = model.compile_fn([model.varlogp, model.datalogp], mode=COMPILE_MODE)
    names = [v.name for v in model.value_vars]
    for i, particle in enumerate(particles):
        one = scalar(dict(zip(names, map(np.asarray, particle))))
        np.testing.assert_allclose([prior[i], data[i]], np.array(one, float), rtol=1e-8)


def test_likelihood_is_the_gaussian_of_eq_3(lateral):
    likelihood, density = lateral
    particles = density.draw_prior(3, np.random.default_rng(1))
    values = density.constrain(particles)
    q = np.column_stack([values[n] for n in ("cornering_stiffness_front", "cornering_stiffness_rear", "initial.vx")])
    (responses,), observed = likelihood.responses(q), likelihood.datasets[0].observed
    for i in range(3):
        expected = sum(np.nansum(stats.norm.logpdf(observed[:, c], responses[i, :, c], values[f"sigma.{name}"][i]))
                       for c, name in enumerate(("vy", "yaw_rate")))
        assert density(particles)[1][i] == pytest.approx(expected, rel=1e-9)


def test_all_channels_share_one_simulator_call(lateral, monkeypatch):
    _, density = lateral
    calls = []
    original = RolloutLikelihood.moments
    monkeypatch.setattr(RolloutLikelihood, "moments", lambda self, q: calls.append(len(q)) or original(self, q))
    density(density.draw_prior(17, np.random.default_rng(0)))
    assert calls == [17]
    assert density.evaluations == 17


def test_nothing_is_simulated_beyond_the_priors(lateral):
    _, density = lateral
    particles = density.draw_prior(4, np.random.default_rng(0))
    _, inside = density(particles)
    particles[1, density.names.index("cornering_stiffness_rear")] = 1e9  # its prior is uniform
    prior, likelihood = density(particles)
    assert density.evaluations == 4 + 3
    assert prior[1] == likelihood[1] == -np.inf
    np.testing.assert_array_equal(likelihood[[0, 2, 3]], inside[[0, 2, 3]])
    assert (density(particles[1:2])[1] == -np.inf).all()


def test_a_run_that_diverges_has_no_likelihood(lateral, monkeypatch):
    _, density = lateral
    particles = density.draw_prior(4, np.random.default_rng(0))
    monkeypatch.setattr(RolloutLikelihood, "moments", lambda self, q: np.full((len(q), 2, 3), np.inf))
    assert (density(particles)[1] == -np.inf).all()


def test_estimated_speed_moves_the_start_and_the_free_wheels(lateral):
    likelihood, _ = lateral
    q = np.array([[50e3, 50e3, 15.0], [50e3, 50e3, 16.0]])
    x0 = likelihood.pieces[0].initial_states(q)
    np.testing.assert_allclose(x0[1] - x0[0], np.eye(len(x0[0]))[4])  # the wheels were recorded, so only vx moves


def test_pymc_draws_the_predictive_itself(lateral):
    _, density = lateral
    with density.model, without_compiler():
        drawn = pm.sample_prior_predictive(draws=20, random_seed=1, compile_kwargs={"mode": COMPILE_MODE})
    assert drawn.prior_predictive["vy"].shape == (1, 20, 200)
    assert np.isfinite(drawn.observed_data["yaw_rate"].values).all()
    assert "sigma.vy" in drawn.prior
