"""The Gaussian of errors against SciPy's multivariate normal, and its slope against complex steps."""

from dataclasses import replace

import numpy as np
import pytest
from problems import Linear, prior, problem
from scipy import linalg, stats

from lfdm_ros.inference import gaussian
from lfdm_ros.inference.gaussian import ErrorGroup
from lfdm_ros.inference.identifiability import whiten
from lfdm_ros.samplers.nuts import LogDensity

RUNS = (40, 1, 17, 2)  # lengths
GROUPS = [pytest.param(ErrorGroup("y", sum(RUNS), len(RUNS), weight), rho, id=name)
          for name, weight, rho in (("white", 1.0, 0.0), ("ar1", 1.0, 0.83), ("alternating", 1.0, -0.6), ("inflated", 0.3, 0.0))]
SIGMA, STEP = 0.7, 1e-30


def errors(seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(length) + 0.3 for length in RUNS]


def moments(runs: list[np.ndarray]) -> np.ndarray:
    return np.sum([[run @ run, run[1:] @ run[:-1], run @ run - run[0] ** 2 - run[-1] ** 2] for run in runs], axis=0)


def covariance(sigma: float, rho: float, lengths=RUNS) -> np.ndarray:
    return sigma**2 * linalg.block_diag(*(linalg.toeplitz(float(rho) ** np.arange(length)) for length in lengths))


def expected(group: ErrorGroup, sigma: float, rho: float, runs: list[np.ndarray]) -> float:
    lengths = [len(run) for run in runs]
    return group.weight * stats.multivariate_normal.logpdf(np.concatenate(runs), np.zeros(sum(lengths)), covariance(sigma, rho, lengths))


@pytest.mark.parametrize(("group", "rho"), GROUPS)
def test_density_is_that_of_scipy(group, rho):
    got = gaussian.log_density(group, moments(errors()), np.log(SIGMA), rho)
    assert got == pytest.approx(expected(group, SIGMA, rho, errors()), rel=1e-12)


@pytest.mark.parametrize(("group", "rho"), GROUPS)
def test_slopes_are_those_of_complex_steps(group, rho):
    own, by_q = moments(errors()), np.random.default_rng(1).standard_normal((3, 4))

    def slope(sigma, rho, own):
        return gaussian.log_density(group, own, np.log(sigma), rho).imag / STEP

    by_sigma, by_rho, by_unknowns = gaussian.slopes(group, own, by_q, SIGMA, rho)
    assert by_sigma == pytest.approx(slope(SIGMA + 1j * STEP, rho, own), rel=1e-12)
    assert by_rho == pytest.approx(slope(SIGMA, rho + 1j * STEP, own), rel=1e-12)
    np.testing.assert_allclose(by_unknowns, [slope(SIGMA, rho, own + 1j * STEP * column) for column in by_q.T], rtol=1e-12)


@pytest.mark.parametrize(("group", "rho"), GROUPS)
def test_whitened_errors_are_independent(group, rho):
    starts = np.concatenate([np.arange(length) == 0 for length in RUNS])
    root = gaussian.whiten(group, np.eye(group.count), starts, SIGMA, rho)  # of derivatives of errors, the errors themselves
    np.testing.assert_allclose(root @ covariance(SIGMA, rho) @ root.T, group.weight * np.eye(group.count), atol=1e-12)


def test_all_samplers_have_the_same_density():
    """PyMC's, that of the Hamiltonian samplers up to a constant, and the residuals of least squares."""
    t = np.linspace(0.0, 1.0, 30)
    likelihood = Linear(np.column_stack([np.ones(30), t]), np.array([0.2, 0.7]), 0.2)
    likelihood.groups = tuple(replace(group, weight=0.6) for group in likelihood.groups)
    asked = problem(likelihood, dict.fromkeys("ab", prior("uniform", lower=-9.0, upper=9.0)), prior("uniform", lower=0.01, upper=9.0),
                    prior("uniform", lower=0.0, upper=0.99))
    assert asked.density.names == ["a", "b", "sigma.y", "rho.y"]
    points = np.array([[0.1, 0.5, 0.3, 0.4], [0.3, 0.2, 0.25, 0.9], [0.2, 0.7, 0.4, 0.0]])
    at = likelihood.errors(points[:, :2])[0]  # (N, n)
    wanted = [expected(likelihood.groups[0], sigma, rho, [own]) for own, (_, _, sigma, rho) in zip(at, points)]
    np.testing.assert_allclose(asked.density(points)[1], wanted, rtol=1e-12)
    hamiltonian = LogDensity(asked)
    values = np.array([hamiltonian(point)[0] for point in points])
    np.testing.assert_allclose(values - values[0], np.array(wanted) - wanted[0], rtol=1e-11)
    for own, (_, _, sigma, rho), value in zip(at, points, wanted):
        squares = (whiten(likelihood, [own], [(sigma, rho)]) ** 2).sum()
        norm = 0.6 * np.linalg.slogdet(2.0 * np.pi * covariance(sigma, rho, [30]))[1]
        assert -0.5 * (squares + norm) == pytest.approx(value, rel=1e-12)


def test_noise_is_the_same_however_it_is_filtered(monkeypatch):
    rho = np.random.default_rng(2).uniform(0.0, 0.95, (5, 2))
    drawn = []
    for few in (0, 10**6):
        monkeypatch.setattr(gaussian, "FEW", few)
        drawn.append(gaussian.correlated_noise(np.random.default_rng(3), (5, 2, 50), 2.0 + rho, rho))
    np.testing.assert_array_equal(drawn[0], drawn[1])


def test_noise_has_the_covariance_of_the_density():
    drawn = gaussian.correlated_noise(np.random.default_rng(4), (20_000, 4), np.full(20_000, SIGMA), np.full(20_000, 0.8))
    np.testing.assert_allclose(np.cov(drawn, rowvar=False), covariance(SIGMA, 0.8, [4]), atol=0.03 * SIGMA**2)
