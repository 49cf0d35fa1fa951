"""Samples, mean and deviation of a field against dense matrices and against GSTools; its kernel and the link to friction."""

import math

import numpy as np
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.ground import DensePosterior, Embedding, FieldPosterior, FieldPrior, FrictionLink, Grid, Observations

GRID = Grid(-1.0, 2.0, 0.5, 9, 7)
PRIOR = FieldPrior(a0=0.4, a1=0.1, a2=-0.2, alpha_x=2.5, alpha_y=1.8, sigma_f=1.3)
SEEN = Observations([[0.2, 2.6], [1.7, 3.9], [2.4, 2.3], [-0.6, 4.4]], [1.5, -1.0, 0.3, 2.0], [0.15, 0.3, 0.05, 0.15])


def agree(samples: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> None:
    """Samples (n, d) of a Gaussian: each mean and each covariance within 5 standard errors, and those errors as large as they should."""
    n, sd = len(samples), np.sqrt(np.diag(covariance))
    z = (samples.mean(axis=0) - mean) / (sd / np.sqrt(n))
    assert np.abs(z).max() < 5.0 and (z @ z) / len(z) < 3.0
    error = np.sqrt((covariance**2 + np.outer(sd, sd) ** 2) / n)
    z = (np.cov(samples, rowvar=False) - covariance) / error
    assert np.abs(z).max() < 5.0 and 0.1 < (z**2).mean() < 3.0


@pytest.mark.parametrize("gamma", [1.0, 1.6, 2.0])
def test_embedded_samples_have_the_kernel(gamma):
    prior = PRIOR.having(gamma=gamma)
    fields = Embedding(prior, GRID).draw(4001, np.random.default_rng(5)).reshape(4001, -1)
    agree(fields, np.zeros(fields.shape[1]), prior.covariance(GRID.places, GRID.places))


def test_both_fields_of_a_pair_are_independent_and_the_seed_decides():
    embedding = Embedding(PRIOR, GRID)
    pairs = np.array([embedding.pair(np.random.default_rng([3, k]))[:, 3, 4] for k in range(4000)])
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 5.0 / np.sqrt(4000)
    np.testing.assert_array_equal(embedding.draw(3, np.random.default_rng(1)), embedding.draw(3, np.random.default_rng(1)))
    assert np.abs(embedding.draw(1, np.random.default_rng(1)) - embedding.draw(1, np.random.default_rng(2))).max() > 0.1


def test_patches_longer_than_the_map_have_a_longer_torus_or_are_refused():
    assert Embedding(PRIOR.having(alpha_x=0.5), GRID).torus[1] == 16 and Embedding(PRIOR.having(alpha_x=8.0), GRID).torus[1] > 100
    with pytest.raises(InputError, match=r"alpha_x: patches .* times as long as the map"):
        Embedding(PRIOR.having(alpha_x=1e4), GRID)


@pytest.mark.parametrize("gamma", [1.0, 1.6])
def test_mean_and_deviation_are_those_of_the_dense_matrix(gamma):
    prior = PRIOR.having(gamma=gamma)
    posterior, dense = FieldPosterior(prior, GRID, SEEN), DensePosterior(prior, GRID.places, SEEN)
    np.testing.assert_allclose(posterior.mean().ravel(), dense.mean, atol=1e-10)
    np.testing.assert_allclose(posterior.sd().ravel(), np.sqrt(np.diag(dense.covariance)), atol=1e-9)
    # Without observations they are the prior's.
    none = FieldPosterior(prior, GRID)
    np.testing.assert_allclose(none.mean().ravel(), prior.mean(*GRID.places.T))
    np.testing.assert_allclose(none.sd(), prior.sigma_f)


@pytest.mark.parametrize("gamma", [1.0, 1.3, 1.6, 2.0])
def test_conditioned_samples_are_those_of_the_dense_matrix(gamma):
    """Matheron's rule against eqs 6-8: means, variances and all covariances of 63 nodes; observations lie between nodes."""
    prior = PRIOR.having(gamma=gamma)
    dense = DensePosterior(prior, GRID.places, SEEN)
    samples = FieldPosterior(prior, GRID, SEEN).draw(4000, np.random.default_rng(11)).reshape(4000, -1)
    agree(samples, dense.mean, dense.covariance + 1e-9 * np.eye(len(dense.mean)))
    agree(dense.draw(4000, np.random.default_rng(12)), dense.mean, dense.covariance + 1e-8 * prior.sigma_f**2 * np.eye(len(dense.mean)))


@pytest.mark.parametrize("gamma", [1.0, 1.3, 1.6, 2.0])
def test_samples_beside_observations_between_nodes_are_as_wide_as_the_formula_says(gamma):
    """In the middle of cells and with little noise, where a spline through the nodes in place of the field is a fifth too narrow."""
    prior = PRIOR.having(gamma=gamma)
    centres = Observations(GRID.places[[9, 22, 40]] + 0.5 * GRID.spacing, [1.0, -1.0, 0.5], 0.02)
    posterior = FieldPosterior(prior, GRID, centres)
    samples = posterior.draw(20_000, np.random.default_rng(13))
    beside = samples.std(axis=0).ravel()[[9, 10, 22, 23, 40, 41]] / posterior.sd().ravel()[[9, 10, 22, 23, 40, 41]]
    np.testing.assert_allclose(beside, 1.0, atol=5.0 / np.sqrt(2 * 20_000))


def test_without_noise_samples_go_through_observations_at_nodes():
    nodes = Observations(GRID.places[[5, 17, 40]], [1.0, -2.0, 0.5], 0.0)
    fields = FieldPosterior(PRIOR, GRID, nodes).draw(20, np.random.default_rng(2)).reshape(20, -1)
    np.testing.assert_allclose(fields[:, [5, 17, 40]], np.tile([1.0, -2.0, 0.5], (20, 1)), atol=1e-4)


def test_an_observation_off_the_map_is_refused():
    with pytest.raises(InputError, match=r"observations: number 1 at \(9, 3\) m is not on the map"):
        FieldPosterior(PRIOR, GRID, Observations([[0.0, 3.0], [9.0, 3.0]], [0.0, 0.0], 0.1))


def test_kriging_of_gstools_says_the_same():
    """An independent implementation: its kernel, and simple kriging with measurement errors of each observation's own."""
    gstools = pytest.importorskip("gstools")
    prior = PRIOR.having(a1=0.0, a2=0.0)
    model = gstools.Gaussian(dim=2, var=prior.sigma_f**2, len_scale=[prior.alpha_x, prior.alpha_y], rescale=1.0)
    distance = np.linspace(0.0, 6.0, 30)
    np.testing.assert_allclose(model.cov_axis(distance, axis=1), prior.sigma_f**2 * prior.along_y(distance), rtol=1e-12)
    krige = gstools.krige.Simple(model, SEEN.places.T, SEEN.latent, mean=prior.a0, exact=False, cond_err=SEEN.noise**2)
    mean, variance = krige.structured([GRID.xs, GRID.ys])
    posterior = FieldPosterior(prior, GRID, SEEN)
    np.testing.assert_allclose(posterior.mean(), np.asarray(mean).T, atol=1e-7)
    np.testing.assert_allclose(posterior.sd() ** 2, np.asarray(variance).T, atol=1e-7)


def test_samples_of_gstools_have_the_same_variogram():
    """Its randomisation method against our embedding: half the mean squared difference along both axes, 30 fields of each."""
    gstools = pytest.importorskip("gstools")
    grid, prior = Grid(0.0, 0.0, 0.5, 32, 32), FieldPrior(alpha_x=2.5, alpha_y=1.2)
    ours = Embedding(prior, grid).draw(30, np.random.default_rng(4))
    model = gstools.Gaussian(dim=2, var=1.0, len_scale=[2.5, 1.2], rescale=1.0)
    theirs = np.array([gstools.SRF(model, seed=k).structured([grid.xs, grid.ys]).T for k in range(30)])
    for axis, lags in ((2, (1, 3, 6)), (1, (1, 2, 4))):
        for lag in lags:
            found = []
            for fields in (ours, theirs):
                moved = np.moveaxis(fields, axis, 1)
                each = 0.5 * ((moved[:, lag:] - moved[:, :-lag]) ** 2).mean(axis=(1, 2))
                found.append((each.mean(), each.std() / np.sqrt(30)))
            (own, own_error), (other, other_error) = found
            assert abs(own - other) < 4.0 * np.hypot(own_error, other_error) + 0.01 * other


def test_friction_and_latent_value_are_each_others_inverse():
    link = FrictionLink(0.1, 0.8)
    f = np.linspace(-6.0, 6.0, 25)
    np.testing.assert_allclose(link.friction(f), 0.1 + 0.7 / (1.0 + np.exp(-f)), rtol=1e-14)  # eq 1 as the paper writes it
    np.testing.assert_allclose(link.latent(link.friction(f)), f, atol=1e-11)
    assert link.friction([-1e9, 1e9]).tolist() == [0.1, pytest.approx(0.8)]


@pytest.mark.parametrize("make, message", [
    (lambda: FieldPrior(gamma=0.99), r"gamma: 0\.99 is below 1"),
    (lambda: FieldPrior(gamma=math.nan), "gamma: nan is no finite number"),
    (lambda: FieldPrior(alpha_y=0.0), "alpha_y: 0 is not above 0"),
    (lambda: FieldPrior(sigma_n=-0.1), "sigma_n"),
    (lambda: FieldPrior().having(alfa=1.0), "'alfa' is no value of a field; there are: a0, "),
    (lambda: FrictionLink(0.8, 0.1), r"ice: its friction 0\.8 is not below that of dry ground, 0\.1"),
    (lambda: FrictionLink(0.0, 0.8), "ice"),
    (lambda: FrictionLink(0.1, 30.0), "dry"),
    (lambda: FrictionLink().latent([0.3, 0.9]), r"friction: 0\.9 is not between ice, 0\.1, and dry, 0\.8"),
    (lambda: Grid(0.0, 0.0, -1.0, 8, 8), "spacing"),
    (lambda: Grid(0.0, 0.0, 1.0, 8, 3), "ny: 3 nodes"),
    (lambda: Observations([[0.0, 0.0]], [1.0, 2.0], 0.1), "1 places and 2 values"),
    (lambda: Observations([[0.0, 0.0], [1.0, math.inf]], [1.0, 2.0], 0.1), "places of number 1"),
    (lambda: Observations([[0.0, 0.0]], [1.0], -0.1), "noise of number 0"),
])
def test_what_cannot_be_is_refused_in_one_line_that_names_it(make, message):
    with pytest.raises(InputError, match=message) as refused:
        make()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("gamma", [1.0, 1.5, 2.0, 4.0])
def test_the_kernel_is_the_papers(gamma):
    prior = FieldPrior(alpha_x=2.0, alpha_y=0.7, gamma=gamma, sigma_f=1.4)
    k = prior.covariance(np.array([[1.0, 2.0]]), np.array([[1.0, 2.0], [2.5, 2.4], [-3.0, 2.0]]))[0]
    away = np.exp(-(1.5 / 2.0) ** (2.0 / gamma) - (0.4 / 0.7) ** (2.0 / gamma)), np.exp(-(4.0 / 2.0) ** (2.0 / gamma))
    np.testing.assert_allclose(k, 1.96 * np.array([1.0, *away]), rtol=1e-13)


def test_below_one_the_kernel_is_no_covariance():
    """Why gamma is refused there: a matrix of it has an eigenvalue well below 0."""
    x = np.linspace(0.0, 5.0, 30)
    matrix = np.exp(-np.abs((x[:, None] - x) / 2.0) ** (2.0 / 0.7))
    assert np.linalg.eigvalsh(matrix).min() < -0.01
    assert np.linalg.eigvalsh(np.exp(-np.abs((x[:, None] - x) / 2.0) ** (2.0 / 1.2))).min() > 0.0


def test_a_grid_covers_what_is_asked():
    grid = Grid.covering((-1.0, 2.0), (9.1, 7.0), 0.5)
    assert grid.xs[0] == -1.0 and 9.1 <= grid.xs[-1] < 9.6 and grid.ys[-1] == 7.0
    assert grid.places.shape == (grid.nx * grid.ny, 2) and grid.places[grid.nx].tolist() == [-1.0, 2.5]
    assert grid.outside(np.array([-1.0, -1.1, np.nan]), np.array([2.0, 3.0, 3.0])).tolist() == [False, True, True]
