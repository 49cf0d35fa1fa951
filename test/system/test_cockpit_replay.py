"""Two recordings on one page, in a real browser: the second one is a ghost, its curves are dotted, and one slider moves both."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from browser import FLAT, PATIENCE, Page, chromium
from waiting import until

from lfdm_ros.bags import read_series
from lfdm_ros.cockpit.replay import Player, ReplayTracks, serve
from lfdm_ros.cockpit.seat import Seat
from lfdm_ros.cockpit.server import CockpitServer
from lfdm_ros.stacks.compose import run_stack


def test_two_recordings_side_by_side(tmp_path: Path) -> None:
    for scenario in ("sine_steer", "ramp_steer"):
        run_stack("simulator", duration=4.0, record=tmp_path / scenario, quiet=True, timeout=200.0, speed=0.0, overrides={
            "vehicle_simulator.stepping": "lockstep", "scenario": scenario})
    states = [read_series(tmp_path / bag, "vehicle/state", ["x", "y", "vx"]) for bag in ("sine_steer", "ramp_steer")]
    player = Player(ReplayTracks(tmp_path / "sine_steer"), ReplayTracks(tmp_path / "ramp_steer"))
    player.playing = False
    ended, begun, urls = threading.Event(), threading.Event(), list[str]()

    def announce(url: str) -> None:
        urls.append(url)
        begun.set()

    thread = threading.Thread(target=lambda: serve(
        player, lambda on_request: CockpitServer(Seat(), on_request), announce=announce, ended=ended.is_set))
    thread.start()
    try:
        assert begun.wait(PATIENCE)
        with chromium() as launch:
            page = Page(launch(FLAT), f"{urls[0]}&t=3.5")
            for moment in (3.5, 1.5):
                if moment != 3.5:
                    page.tab.evaluate("t => { const slider = document.getElementById('time'); slider.value = String(t); "
                                      "slider.dispatchEvent(new Event('input')); }", moment)
                page.wait(f"body[data-time='{moment:g}']")
                page.wait("body[data-otherstate]")
                until(lambda moment=moment: abs(float(page.data("stamp") or "inf") - states[0].time[0] - moment) < 0.1)
                x, ghost = (float(page.data(name)) for name in ("x", "ghost"))
                for shown, series in ((x, states[0]), (ghost, states[1])):
                    near = abs(series.time - series.time[0] - moment) < 0.1
                    assert np.abs(series.values[near, 0] - shown).min() < 0.05
            assert page.tab.inner_text("#drives") == "replay of sine_steer, ghost: ramp_steer"
            assert "ghost: ramp_steer" in page.tab.inner_text("#facts") and "m away" in page.tab.inner_text("#facts")
            # The state on the page is that of the bag at the same stamp.
            shown = int(np.argmin(abs(states[0].time - float(page.data("stamp")))))
            assert float(page.data("stamp")) == pytest.approx(states[0].time[shown], abs=1e-6)
            assert float(page.data("speed")) == pytest.approx(states[0].values[shown, 2], rel=1e-6)
            page.tab.keyboard.press("ArrowLeft")
            page.wait("body[data-time='0.5']")
            assert page.tab.inner_text("#replay-time").startswith("0:00.5") and "#t=3.5" in page.tab.url
            page.tab.keyboard.press("Space")  # plays
            page.wait("body[data-time='4']")
            assert "speed, dotted: ghost" in page.tab.inner_text("#strips") and not page.faults
            assert not page.tab.is_visible("#stop")
            page.close()
    finally:
        ended.set()
        thread.join()
