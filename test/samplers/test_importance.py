"""Draws of one density made draws of another, against what both are known to be."""

import numpy as np
import pytest
from scipy import stats

from lfdm_ros.samplers.least_squares import weigh


def test_draws_become_those_of_the_density():
    rng = np.random.default_rng(1)
    x = rng.normal(0.0, 1.0, 20_000)
    weighed = weigh(stats.gamma(8.0, scale=0.12, loc=-0.7).logpdf(x) - stats.norm.logpdf(x))
    assert weighed.pareto_k < 0.7 and weighed.power == 1.0
    drawn = x[weighed.resample(rng)]
    target = stats.gamma(8.0, scale=0.12, loc=-0.7)
    assert drawn.mean() == pytest.approx(target.mean(), abs=0.01)
    assert drawn.std() == pytest.approx(target.std(), rel=0.03)
    np.testing.assert_allclose(np.quantile(drawn, [0.05, 0.5, 0.95]), target.ppf([0.05, 0.5, 0.95]), atol=0.03)


def test_what_cannot_be_has_no_weight():
    """Where the density is 0, or a millionth of what the approximation says, nothing is left of the draws; the others stay as they are."""
    rng = np.random.default_rng(2)
    x = rng.normal(1.0, 0.4, 4000)
    absurd = x < 0.3
    log_weights = np.where(x < 0.0, -np.inf, np.where(absurd, -30.0, 0.0))
    weighed = weigh(log_weights)
    assert weighed.without_weight == absurd.sum() > 100
    drawn = x[weighed.resample(rng)]
    assert drawn.min() >= 0.3
    assert np.sort(np.unique(drawn)).tolist() == np.sort(x[~absurd]).tolist()


def test_weights_that_the_draws_do_not_reach_are_tempered():
    """A Gaussian far narrower than the density: no weights make its draws the density's, but they are not left to a handful either."""
    rng = np.random.default_rng(3)
    x = rng.normal(0.0, 1.0, 2000)
    weighed = weigh(stats.norm(6.0, 1.0).logpdf(x) - stats.norm.logpdf(x))
    assert weighed.pareto_k > 0.7
    assert 0.0 < weighed.power < 1.0
    assert weighed.effective == pytest.approx(200.0, rel=0.02)
    assert 0.5 < x[weighed.resample(rng)].mean() < 6.0


def test_nothing_possible_leaves_all_as_they_are():
    weighed = weigh(np.full(50, -np.inf))
    assert weighed.power == 0.0 and np.isinf(weighed.pareto_k)
    assert sorted(weighed.resample(np.random.default_rng(0))) == list(range(50))


def test_draws_that_are_of_another_density_only_have_to_be_possible():
    log_weights = np.array([0.0, -50.0, 3.0, -np.inf] * 50)
    weighed = weigh(log_weights, alike=True)
    assert set(weighed.weights.tolist()) == {0.0, 1.0 / 150.0}
