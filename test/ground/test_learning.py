"""Expectation propagation against exact Gaussian regression and quadrature; fits of a field against scikit-learn."""

import numpy as np
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.ground import fit, log_likelihood
from lfdm_ros.ground.fitting import SHAPE, log_likelihood_and_slope
from lfdm_ros.ground.learning import FrictionLikelihood, learn, sites
from lfdm_ros.ground.posterior import DensePosterior
from lfdm_ros.ground.prior import FieldPrior, Observations

LATENT = np.linspace(-8.0, 8.0, 321)
PRIOR = FieldPrior(a0=-0.5, alpha_x=5.0, alpha_y=5.0, sigma_f=2.0)


def test_gaussian_likelihoods_are_gaussian_regression() -> None:
    """Each is found as the observation that it is."""
    rng = np.random.default_rng(4)
    places = rng.uniform(0.0, 20.0, (12, 2))
    values, sd = rng.normal(0.0, 1.0, 12), rng.uniform(0.3, 1.0, 12)
    seen = learn(PRIOR, FrictionLikelihood(places, LATENT, -0.5 * ((LATENT - values[:, None]) / sd[:, None]) ** 2))
    np.testing.assert_array_equal(seen.places, places)
    np.testing.assert_allclose(seen.latent, values, atol=0.03)
    np.testing.assert_allclose(seen.noise, sd, rtol=0.03)


def test_what_is_only_bounded_against_quadrature() -> None:
    """At least so much at one place, about so much at another, nothing at a third: the exact mean and deviation in three dimensions."""
    places = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    logs = np.stack([-np.logaddexp(0.0, -6.0 * (LATENT - 0.5)), -0.5 * ((LATENT + 0.2) / 0.7) ** 2, 0.0 * LATENT])
    seen = learn(PRIOR, FrictionLikelihood(places, LATENT, logs))
    assert len(seen) == 2
    found = DensePosterior(PRIOR, places, seen)
    grid = np.linspace(-9.0, 9.0, 91)
    f = np.stack(np.meshgrid(grid, grid, grid, indexing="ij"), axis=-1).reshape(-1, 3)
    precision = np.linalg.inv(PRIOR.covariance(places, places))
    density = -0.5 * np.einsum("ni,ij,nj->n", f + 0.5, precision, f + 0.5) + sum(np.interp(f[:, i], LATENT, logs[i]) for i in range(3))
    weights = np.exp(density - density.max())
    weights /= weights.sum()
    exact = weights @ f
    np.testing.assert_allclose(found.mean, exact, atol=0.03)
    np.testing.assert_allclose(np.sqrt(np.diag(found.covariance)), np.sqrt(weights @ (f - exact) ** 2), rtol=0.03)


def test_what_was_observed_besides_counts_as_one_likelihood_more() -> None:
    """An observation is a Gaussian likelihood: the field is the same whichever way it is told."""
    places = np.array([[0.0, 0.0], [3.0, 1.0]])
    observed = Observations(np.array([[1.5, 0.0]]), np.array([1.0]), np.array([0.4]))
    logs = np.stack([-np.logaddexp(0.0, -6.0 * (LATENT - 0.5)), -0.5 * ((LATENT + 0.2) / 0.7) ** 2])
    apart = learn(PRIOR, FrictionLikelihood(places, LATENT, logs), observed).and_also(observed)
    as_felt = FrictionLikelihood(np.vstack([places, observed.places]), LATENT, np.vstack([logs, -0.5 * ((LATENT - 1.0) / 0.4) ** 2]))
    there = np.array([[0.0, 0.0], [1.0, 1.0], [5.0, 0.0]])
    one, other = (DensePosterior(PRIOR, there, seen) for seen in (apart, learn(PRIOR, as_felt)))
    np.testing.assert_allclose(one.mean, other.mean, atol=0.02)
    np.testing.assert_allclose(one.covariance, other.covariance, atol=0.03)


def test_going_on_from_what_was_found_ends_at_the_same() -> None:
    """With one place more than before, after a few sweeps."""
    rng = np.random.default_rng(2)
    felt = FrictionLikelihood(rng.uniform(0.0, 20.0, (10, 2)), LATENT,
                              -np.logaddexp(0.0, rng.choice((-6.0, 6.0), 10)[:, None] * (LATENT - 0.3)))
    cold = sites(PRIOR, felt)
    before = sites(PRIOR, FrictionLikelihood(felt.places[:9], LATENT, felt.log_likelihood[:9]))
    start = np.concatenate([before, np.zeros((2, 1))], axis=1)
    np.testing.assert_allclose(sites(PRIOR, felt, start=start), cold, atol=2e-3)
    warm, too_few = (np.abs(sites(PRIOR, felt, start=s, sweeps=8) - cold).max() for s in (start, None))
    assert warm < 0.5 * too_few


def test_what_contradicts_all_others_is_borne() -> None:
    """A sharp likelihood far from what its neighbours say: all stays finite, and the neighbours' place goes between."""
    places = np.array([[0.0, 0.0], [0.5, 0.0], [1.0, 0.0]])
    logs = np.stack([-0.5 * ((LATENT - at) / 0.05) ** 2 for at in (-2.0, 2.0, -2.0)])
    found = DensePosterior(PRIOR, places, learn(PRIOR, FrictionLikelihood(places, LATENT, logs)))
    assert np.isfinite(found.mean).all() and (np.abs(found.mean) < 2.5).all()


def test_who_feels_nothing_learns_nothing() -> None:
    assert not len(learn(PRIOR, FrictionLikelihood(np.zeros((3, 2)), LATENT, np.zeros((3, len(LATENT))))))


def test_what_does_not_fit_is_refused() -> None:
    for places, logs in ((np.zeros((3, 1, 2)), np.zeros((3, 321))), (np.zeros((3, 2)), np.zeros((2, 321))),
                         (np.full((3, 2), np.nan), np.zeros((3, 321)))):
        with pytest.raises(InputError, match="friction likelihood"):
            FrictionLikelihood(places, LATENT, logs)


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


def test_a_fit_finds_the_field_it_was_drawn_from():
    """At least as likely as the truth, but not by more than the number of values allows (Wilks: twice the gain is chi2 of 8)."""
    truth = TRUTH.having(a0=-1.0, a1=0.25, a2=-0.1, gamma=2.0, sigma_n=0.05)
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
