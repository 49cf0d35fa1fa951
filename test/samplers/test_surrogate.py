"""Delayed acceptance: the target stays what it is, whatever the surrogate, and fewer proposals are simulated."""

import numpy as np
import pytest
from problems import Linear, prior

from lfdm_ros.inference.model import BatchedDensity, ErrorPriors
from lfdm_ros.samplers import smc, surrogate


def density():
    """A straight line through 60 points with noise."""
    problem = Linear(np.column_stack([np.ones(60), np.linspace(-1, 1, 60)]), np.array([1.0, -0.5]), 0.2)
    return BatchedDensity(problem, {"a": prior("normal", mean=0.0, sd=2.0), "b": prior("normal", mean=0.5, sd=1.0)},
                          {"y": ErrorPriors(prior("log_normal", median=0.2, log_sd=0.5))})


def sampled(monkeypatch, fitted):
    monkeypatch.setattr(surrogate, "fitted", fitted)
    return smc.sample(density(), draws=1000, chains=4, seed=np.random.SeedSequence(1))


def test_a_quadratic_is_found_from_a_population():
    rng = np.random.default_rng(0)
    centre, root = np.array([1.0, -2.0, 0.5]), np.linalg.cholesky(np.diag([1.0, 4.0, 0.25]) + 0.1)
    population = centre + rng.standard_normal((400, 3)) @ root.T

    def likelihood(x):
        return 7.0 - 0.5 * ((x - 1.0) ** 2).sum(axis=1) + x[:, 0] * x[:, 1]

    found = surrogate.fitted([], [], population, likelihood(population), 0.3, population.mean(axis=0), root)
    x = centre + rng.standard_normal((50, 3)) @ root.T
    difference = found(x) - 0.3 * likelihood(x)
    assert np.ptp(difference) < 1e-5, "up to a constant"


def test_none_is_found_where_it_would_mislead():
    rng = np.random.default_rng(0)
    few, many = rng.standard_normal((20, 3)), rng.standard_normal((400, 3))
    root = np.eye(3)
    assert surrogate.fitted([], [], few, few[:, 0], 1.0, np.zeros(3), root) is None
    rough = 20.0 * np.sin(9.0 * many).sum(axis=1)
    assert surrogate.fitted([], [], many, rough, 1.0, np.zeros(3), root) is None
    assert surrogate.fitted([], [], many, rough, 1e-3, np.zeros(3), root) is not None, "where it counts for next to nothing"


@pytest.mark.parametrize("kind", ["own", "wrong"])
def test_the_posterior_does_not_depend_on_the_surrogate(monkeypatch, kind):
    """Fitted, and as wrong as can be (half as steep, and beside the place), against none; what is simulated is a part of it."""
    own = surrogate.fitted

    def wrong(points, likelihoods, population, likelihood, beta, mean, root):
        return lambda x: -0.25 * (np.linalg.solve(root, (x - mean).T - 0.5 * root.sum(axis=1)[:, None]) ** 2).sum(axis=0)

    plain = sampled(monkeypatch, lambda *_: None)
    delayed = sampled(monkeypatch, own if kind == "own" else wrong)
    for name, draws in plain.draws.items():
        assert delayed.draws[name].mean() == pytest.approx(draws.mean(), abs=0.1 * draws.std()), name
        assert delayed.draws[name].std() == pytest.approx(draws.std(), rel=0.07), name
    assert delayed.log_evidence.mean() == pytest.approx(plain.log_evidence.mean(), abs=0.15)
    assert delayed.evaluations < (0.6 if kind == "own" else 0.8) * plain.evaluations
