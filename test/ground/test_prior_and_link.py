"""What a field may be: friction between ice and dry, and covariances that are some."""

import math

import numpy as np
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.ground import FieldPrior, FrictionLink, Grid, Observations


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
