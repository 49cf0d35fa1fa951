"""The look-up against SciPy's splines, and what happens at the edges of a map; test_height.py looks at its slopes."""

import numpy as np
import pytest
from scipy import ndimage
from scipy.interpolate import RectBivariateSpline

from lfdm_ros.errors import InputError
from lfdm_ros.ground import Embedding, FieldPrior, FrictionField, FrictionLink, Grid

GRID = Grid(-10.0, 5.0, 0.5, 72, 60)
LINK = FrictionLink(0.1, 0.8)


@pytest.fixture(scope="module")
def field() -> FrictionField:
    prior = FieldPrior(alpha_x=2.0, alpha_y=1.5, sigma_f=1.5)
    return FrictionField(GRID, Embedding(prior, GRID).draw(1, np.random.default_rng(3))[0], LINK)


def places(count: int, rim: float, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return (rng.uniform(GRID.xs[0] + rim, GRID.xs[-1] - rim, count), rng.uniform(GRID.ys[0] + rim, GRID.ys[-1] - rim, count))


def test_values_are_those_of_ndimage_everywhere(field):
    x, y = places(5000, 0.0)
    expected = ndimage.map_coordinates(field.latent, [(y - GRID.y) / 0.5, (x - GRID.x) / 0.5], order=3, mode="mirror")
    np.testing.assert_allclose(field.latent_at(x, y), expected, atol=1e-12)
    np.testing.assert_allclose(field.latent_at(*np.meshgrid(GRID.xs, GRID.ys)), field.latent, atol=1e-12)  # at the nodes
    np.testing.assert_allclose(field.friction_at(x, y), LINK.friction(expected), atol=1e-13)


def test_values_are_those_of_fitpack_away_from_the_edges(field):
    """Where its other condition at the edges no longer counts: that decays by 0.27 a node."""
    x, y = places(3000, 12.0)
    theirs = RectBivariateSpline(GRID.xs, GRID.ys, field.latent.T, s=0)
    np.testing.assert_allclose(field.latent_at(x, y), theirs.ev(x, y), atol=1e-11)


def test_between_ice_and_dry_everywhere(field):
    """A spline through the friction itself is not."""
    steep = FrictionField(GRID, np.where(np.arange(GRID.nx) % 12 < 6, 9.0, -9.0) * np.ones((GRID.ny, 1)), LINK)
    x, y = places(4000, 0.0)
    mu = steep.friction_at(x, y)
    assert mu.min() >= LINK.ice and mu.max() <= LINK.dry
    through = RectBivariateSpline(GRID.xs, GRID.ys, LINK.friction(steep.latent).T, s=0).ev(x, y)
    assert through.min() < LINK.ice - 0.02 and through.max() > LINK.dry + 0.02


def test_edges_clamp_and_are_counted(field):
    x, y = np.array([-11.0, -10.0, 40.0, 0.0, np.nan]), np.array([7.0, 7.0, 99.0, -3.0, 7.0])
    assert field.outside(x, y).tolist() == [True, False, True, True, True]
    inside = field.friction_at([-10.0, -10.0, GRID.xs[-1], 0.0], [7.0, 7.0, GRID.ys[-1], GRID.ys[0]])
    np.testing.assert_allclose(field.friction_at(x[:4], y[:4]), inside, atol=1e-14)


def test_fields_that_are_none(field):
    assert FrictionField.uniform(0.45, LINK).friction_at([3.0, -1e6], [0.0, 1e6]) == pytest.approx(0.45)
    with pytest.raises(InputError, match=r"shape \(60, 71\) for a grid of \(ny, nx\) = \(60, 72\)"):
        FrictionField(GRID, field.latent[:, :-1], LINK)
    with pytest.raises(InputError, match="row 4, column 7; fill holes"):
        holed = field.latent.copy()
        holed[4, 7] = np.nan
        FrictionField(GRID, holed, LINK)
