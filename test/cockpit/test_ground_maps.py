"""Maps of the ground as the page takes them: every value comes back, holes are holes, large maps are thinned."""

from __future__ import annotations

import numpy as np
import pytest

from lfdm_ros.bounds import Refused
from lfdm_ros.cockpit import page_messages
from lfdm_ros.cockpit.wire import GROUND, LEARNED
from lfdm_ros.ground import FrictionLink
from lfdm_ros.ground.grid import Grid
from lfdm_ros.ground.posterior import FrictionPosteriorMap
from lfdm_ros.ros.grid_map import friction_message, grid_map_message


def unpacked(message: bytes) -> tuple[np.ndarray, list[np.ndarray]]:
    """Reads a map as `page/ground.js` does: x, y, spacing, nx, ny; and the layers (ny, nx)."""
    head, at, layers = np.frombuffer(message, "<f4", 11, 16), 60, []
    nx, ny = map(int, head[3:5])
    for least, step in head[5:].reshape(3, 2):
        if not step:
            layers.append(np.full((ny, nx), least))
            continue
        codes = np.frombuffer(message, "<u2", nx * ny, at).reshape(ny, nx)
        at += 2 * nx * ny + (-2 * nx * ny) % 4
        layers.append(np.where(codes, least + (codes - 1.0) * step, np.nan))
    assert at == len(message)
    return head[:5], layers


def test_heights_and_friction_come_back() -> None:
    grid, rng = Grid(-3.0, 2.0, 0.5, 7, 5), np.random.default_rng(1)
    heights, friction = rng.normal(size=grid.shape), rng.uniform(0.1, 1.0, grid.shape)
    friction[2, 3] = np.nan
    message = page_messages.ground(grid_map_message(grid, {"friction_mean": friction, "elevation": heights}, "odom", 0))
    head, layers = unpacked(message)
    assert message[0] == GROUND
    np.testing.assert_allclose(head, (-3.0, 2.0, 0.5, 7, 5))
    np.testing.assert_allclose(layers[0], heights, atol=1e-4)
    np.testing.assert_allclose(layers[1], friction, atol=1e-4)
    np.testing.assert_array_equal(layers[2], 0.0)


def test_a_learned_map_has_the_deviation_of_its_friction() -> None:
    grid, link = Grid(0.0, 0.0, 1.0, 6, 6), FrictionLink(0.1, 1.1)
    mean = np.linspace(0.2, 1.0, 36).reshape(grid.shape)
    known = FrictionPosteriorMap(grid, link, link.latent(mean), np.full(grid.shape, 0.02), np.empty((0, *grid.shape)))
    message = page_messages.ground(friction_message(known, "odom", 0), LEARNED)
    _, (heights, friction, sd) = unpacked(message)
    assert message[0] == LEARNED and not heights.any()
    np.testing.assert_allclose(friction, mean, atol=1e-4)
    np.testing.assert_allclose(sd, 0.02 * (mean - 0.1) * (1.1 - mean), atol=1e-4)  # the link's slope


def test_a_large_map_is_thinned_and_a_wrong_one_refused() -> None:
    grid = Grid(0.0, 0.0, 0.5, 600, 300)
    friction = np.tile(np.linspace(0.2, 1.0, 600), (300, 1))
    message = grid_map_message(grid, {"friction_mean": friction}, "odom", 0)
    head, layers = unpacked(page_messages.ground(message))
    np.testing.assert_allclose(head[2:], (1.5, 200, 100))
    np.testing.assert_allclose(layers[1], friction[::3, ::3], atol=1e-4)
    message.info.resolution = 0.0
    with pytest.raises(Refused):
        page_messages.ground(message)
