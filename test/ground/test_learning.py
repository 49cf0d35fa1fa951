"""Expectation propagation against exact Gaussian regression and against quadrature."""

import numpy as np
import pytest

from lfdm_ros.errors import InputError
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
