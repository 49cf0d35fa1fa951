"""Likelihood and its slope against scikit-learn and finite differences; what a fit finds."""

import numpy as np
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.ground import DensePosterior, FieldPrior, fit, log_likelihood
from lfdm_ros.ground.fitting import SHAPE, log_likelihood_and_slope

TRUTH = FieldPrior(alpha_x=3.0, alpha_y=1.5, sigma_f=1.4, sigma_n=0.2)


def seen(prior: FieldPrior, count: int, seed: int, extent: float = 12.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    places = rng.uniform(0.0, extent, (count, 2))
    return places, DensePosterior(prior, places).draw(1, rng)[0] + prior.sigma_n * rng.standard_normal(count)


def test_the_likelihood_is_scikit_learns():
    """Value and slope by the logarithms of lengths, variance and noise."""
    gaussian_process = pytest.importorskip("sklearn.gaussian_process")
    kernels = gaussian_process.kernels
    places, latent = seen(TRUTH, 60, 1)
    # Its length scale has a factor 1/2 in the exponent.
    kernel = (kernels.ConstantKernel(TRUTH.sigma_f**2) * kernels.RBF([TRUTH.alpha_x / np.sqrt(2.0), TRUTH.alpha_y / np.sqrt(2.0)])
              + kernels.WhiteKernel(TRUTH.sigma_n**2))
    theirs = gaussian_process.GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(places, latent)
    value, slope = theirs.log_marginal_likelihood(kernel.theta, eval_gradient=True)
    assert log_likelihood(TRUTH, places, latent) == pytest.approx(value, rel=1e-10)
    ours = log_likelihood_and_slope(TRUTH, places, latent, ("sigma_f", "alpha_x", "alpha_y", "sigma_n"))[1]
    # By the logarithms of the squares for variance and noise.
    scale = np.array([0.5 * TRUTH.sigma_f, TRUTH.alpha_x, TRUTH.alpha_y, 0.5 * TRUTH.sigma_n])
    np.testing.assert_allclose(ours * scale, slope, rtol=1e-6, atol=1e-6)


def test_a_fit_is_as_likely_as_scikit_learns():
    """Without a mean and with gamma 1 the problem is the same; neither search ends in a worse place."""
    gaussian_process = pytest.importorskip("sklearn.gaussian_process")
    kernels = gaussian_process.kernels
    places, latent = seen(TRUTH, 70, 2)
    kernel = (kernels.ConstantKernel(1.0, (1e-3, 1e3)) * kernels.RBF([2.0, 2.0], (1e-2, 1e3)) + kernels.WhiteKernel(0.1, (1e-6, 1e2)))
    theirs = gaussian_process.GaussianProcessRegressor(kernel, alpha=0.0, n_restarts_optimizer=1, random_state=0).fit(places, latent)
    ours = fit(places, latent, start=FieldPrior(), fixed=("a0", "a1", "a2", "gamma"))
    assert ours.log_likelihood == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-3)
    lengths = np.sqrt(2.0) * theirs.kernel_.k1.k2.length_scale
    assert (ours.prior.alpha_x, ours.prior.alpha_y) == pytest.approx(lengths, rel=5e-3)
    assert ours.prior.gamma == 1.0 and ours.prior.a0 == 0.0


@pytest.mark.parametrize("gamma", [1.0, 1.7])
def test_the_slope_is_that_of_finite_differences(gamma):
    prior = TRUTH.having(gamma=max(gamma, 1.0 + 1e-4), a0=0.3)
    places, latent = seen(prior, 40, 3)
    slope = log_likelihood_and_slope(prior, places, latent, SHAPE)[1]
    for name, own in zip(SHAPE, slope):
        width = 1e-5 * prior.values[name]
        ends = [log_likelihood(prior.having(**{name: prior.values[name] + sign * width}), places, latent) for sign in (1.0, -1.0)]
        assert own == pytest.approx((ends[0] - ends[1]) / (2.0 * width), rel=2e-5, abs=1e-4), name


@pytest.mark.parametrize("truth", [TRUTH.having(a0=-1.0, a1=0.25, a2=-0.1), TRUTH.having(gamma=2.0, sigma_n=0.05)])
def test_a_fit_finds_the_field_it_was_drawn_from(truth):
    """At least as likely as the truth, but not by more than the number of values allows (Wilks: twice the gain is chi2 of 8)."""
    places, latent = seen(truth, 110, 7)
    found = fit(places, latent)
    assert found.converged
    gain = found.log_likelihood - log_likelihood(truth, places, latent)
    assert -1e-3 < gain < 13.1  # chi2 of 8 is below 26.1 with 99.9 %
    for name in ("alpha_x", "alpha_y", "sigma_f"):
        assert 0.5 < found.prior.values[name] / truth.values[name] < 2.0, name
    assert found.prior.gamma == pytest.approx(truth.gamma, abs=0.5)


def test_what_cannot_be_fitted_is_refused():
    places, latent = seen(TRUTH, 20, 9)
    with pytest.raises(InputError, match="at least 8"):
        fit(places[:5], latent[:5])
    with pytest.raises(InputError, match="no finite number"):
        fit(places, np.where(np.arange(20) == 3, np.nan, latent))
    with pytest.raises(InputError, match="fixed: 'alpha'"):
        fit(places, latent, fixed=("alpha",))
