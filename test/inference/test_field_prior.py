"""The posterior of a field's hyperparameters: SMC against sums over a fine grid of them."""

import numpy as np
import pytest
from problems import prior
from scipy import stats
from scipy.special import logsumexp

from lfdm_ros.errors import InputError
from lfdm_ros.ground import DensePosterior, FieldPrior, Observations, log_likelihood
from lfdm_ros.inference.model import FieldPriorDensity
from lfdm_ros.samplers import smc

TRUTH = FieldPrior(a0=0.5, alpha_x=2.0, alpha_y=2.0, sigma_f=1.3, sigma_n=0.2)
UNKNOWNS = {"alpha_x": prior("log_normal", median=3.0, log_sd=0.7), "sigma_f": prior("log_normal", median=1.0, log_sd=0.5)}


@pytest.fixture(scope="module")
def seen() -> Observations:
    rng = np.random.default_rng(8)
    places = rng.uniform(0.0, 9.0, (25, 2))
    return Observations(places, DensePosterior(TRUTH, places).draw(1, rng)[0] + 0.2 * rng.standard_normal(25), np.full(25, 0.2))


def test_particles_find_the_posterior(seen):
    """Means, deviations and evidence of two unknowns, the rest known."""
    alpha, sigma = np.exp(np.linspace(np.log(0.4), np.log(12.0), 70)), np.exp(np.linspace(np.log(0.3), np.log(5.0), 60))
    log = np.array([[log_likelihood(TRUTH.having(alpha_x=a, sigma_f=s), seen.places, seen.latent) + stats.lognorm.logpdf(a, 0.7, scale=3.0)
                     + stats.lognorm.logpdf(s, 0.5, scale=1.0) + np.log(a * s) for s in sigma] for a in alpha])
    weights = np.exp(log - logsumexp(log))
    exact = {}
    for name, values, axis in (("alpha_x", alpha, 1), ("sigma_f", sigma, 0)):
        share = weights.sum(axis=axis)
        mean = share @ values
        exact[name] = mean, np.sqrt(share @ values**2 - mean**2)
    evidence = logsumexp(log) + np.log(np.log(alpha[1] / alpha[0]) * np.log(sigma[1] / sigma[0]))
    density = FieldPriorDensity(seen, UNKNOWNS, TRUTH)
    found = smc.sample(density, draws=250, chains=2, seed=np.random.SeedSequence(2), steps=4, final_steps=10)
    for name, (mean, sd) in exact.items():
        assert found.draws[name].mean() == pytest.approx(mean, abs=0.25 * sd), name
        assert found.draws[name].std() == pytest.approx(sd, rel=0.25), name
    assert found.log_evidence.mean() == pytest.approx(evidence, abs=0.3)


def test_what_no_field_has_is_impossible(seen):
    density = FieldPriorDensity(seen, {"gamma": prior("uniform", lower=0.5, upper=2.0), "sigma_n": prior("half_normal", sigma=0.3)}, TRUTH)
    particles = np.array([[0.9, np.log(0.2)], [1.1, np.log(0.2)]])
    _, likelihood = density(particles)
    assert likelihood[0] == -np.inf
    assert likelihood[1] == pytest.approx(log_likelihood(TRUTH.having(gamma=1.1), seen.places, seen.latent))
    assert density.log_likelihood(particles)[1] == likelihood[1] and density.evaluations == 2
    with pytest.raises(InputError, match="'alfa' is no value of a field"):
        FieldPriorDensity(seen, {"alfa": UNKNOWNS["alpha_x"]})
