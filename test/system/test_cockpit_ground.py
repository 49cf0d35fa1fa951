"""The ground on the cockpit's page: named places of a fixed map have the colours of the legend, from above and in three dimensions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import FLAT, SOFTWARE_GL, Page, chromium
from waiting import until

from lfdm_ros.cockpit import page_messages
from lfdm_ros.cockpit.seat import Seat
from lfdm_ros.cockpit.server import CockpitServer
from lfdm_ros.cockpit.wire import GROUND, LEARNED, STATE, pack
from lfdm_ros.ground import FrictionLink
from lfdm_ros.ground.grid import Grid
from lfdm_ros.ground.posterior import FrictionPosteriorMap
from lfdm_ros.ros.grid_map import friction_message, grid_map_message

GRID = Grid(-60.0, -60.0, 1.0, 121, 121)
X, Y = np.meshgrid(GRID.xs, GRID.ys)
ICY = np.hypot(X - 20.0, Y) < 6.0  # ahead of the vehicle
ICE, DRY = (226, 205, 250), (46, 38, 66)


def mixed(friction: float) -> np.ndarray:
    return np.array(ICE) + friction * (np.array(DRY) - ICE)


@pytest.fixture(scope="module")
def server() -> Iterator[CockpitServer]:
    """A vehicle that stands at the origin, which slopes up to the left of it, before a sheet of ice."""
    server = CockpitServer(Seat(), lambda *request: None)
    server.start()
    friction = np.where(ICY, 0.2, 1.0)
    server.publish(GROUND, page_messages.ground(grid_map_message(
        GRID, {"friction_mean": friction, "elevation": np.where(Y > 10.0, 0.1 * (Y - 10.0), 0.0)}, "odom", 0)), keep=True)
    link = FrictionLink(0.1, 1.1)
    latent = link.latent(np.where(ICY, 0.5, 1.0))
    learned = FrictionPosteriorMap(GRID, link, latent, np.where(X < 0.0, 1e-6, 1.5), np.empty((0, *GRID.shape)))
    server.publish(LEARNED, page_messages.ground(friction_message(learned, "odom", 0), LEARNED), keep=True)
    server.publish(STATE, pack(STATE, 1.0, np.zeros(21)), keep=True)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def launch() -> Iterator[Callable[..., Any]]:
    with chromium() as launch:
        yield launch


def test_the_bird_view_shows_friction_and_slopes_by_colour(server: CockpitServer, launch: Callable[..., Any]) -> None:
    page = Page(launch(FLAT), server.url)
    page.wait("body[data-ground]")

    def pixel(ahead: float, left: float) -> np.ndarray:
        """Returns the colour at a place [m] before and left of the vehicle, which heads upwards."""
        return np.array(page.tab.evaluate(
            """([ahead, left]) => {
                const canvas = document.getElementById("canvas"), scale = Math.min(canvas.width, canvas.height) / 60;
                const [x, y] = [canvas.width / 2 - left * scale, 0.75 * canvas.height - ahead * scale];
                return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data];
            }""", [ahead, left]))[:3]

    page.tab.select_option("#ground-shown", "simulated")
    until(lambda: page.data("ground") == "simulated 1.00")
    np.testing.assert_allclose(pixel(18.5, 1.5), mixed(0.2), atol=3)
    np.testing.assert_allclose(pixel(8.5, 3.5), DRY, atol=3)
    assert pixel(8.5, 15.5).sum() > 1.1 * pixel(8.5, 3.5).sum()  # the slope is lit
    page.tab.select_option("#ground-shown", "learned")
    until(lambda: page.data("ground") == "learned 1.00")
    faint = {tuple(pixel(18.5 + 0.5 * k, 1.5)) for k in range(8)}
    assert len(faint) > 1  # hatched, as it is uncertain
    page.tab.select_option("#ground-shown", "none")
    until(lambda: (abs(pixel(18.5, 1.5) - (42, 49, 56)) <= 3).all())
    assert pixel(8.5, 15.5).sum() > 1.1 * pixel(8.5, 3.5).sum()  # heights stay
    assert "±" in page.tab.inner_text("#ground-here") and page.tab.inner_text("#ground-marks").split() == ["0.00", "0.50", "1.00"]
    assert not [fault for fault in page.faults if "getImageData" not in fault]  # the test's own
    page.close()


def test_the_terrain_in_three_dimensions_has_the_same_colours(server: CockpitServer, launch: Callable[..., Any], tmp_path: Path) -> None:
    import matplotlib.image

    page = Page(launch(*SOFTWARE_GL), server.url, query="?scale=0.5")
    page.wait("body[data-ground]")
    page.tab.select_option("#ground-shown", "simulated")
    page.tab.keyboard.press("3")
    icy: list[int] = []

    def shown() -> bool:
        server.publish(STATE, pack(STATE, time.monotonic(), np.zeros(21)))  # else the page turns grey
        page.tab.screenshot(path=tmp_path / "bird.png")
        picture = 255.0 * matplotlib.image.imread(tmp_path / "bird.png")[80:, :900, :3]
        icy.append(int((abs(picture - mixed(0.2)) < 8.0).all(axis=-1).sum()))
        return icy[-1] > 2000

    until(shown)
    assert not [fault for fault in page.faults if "GPU stall" not in fault]
