"""A person's tour of the cockpit in a real browser: drive a vehicle with unknown tyres, record, calibrate from the drive, put the result in
force, see autonomy go by it, and roll it back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import FLAT, SOFTWARE_GL, Page, chromium
from test_cockpit import Cockpit, hold_until

from lfdm_ros.vehicles import load_vehicle

SEED, DRIVE = 4, 42.0  # of the hidden vehicle; [s] of driving
STIFFNESSES = "cornering_stiffness_front", "cornering_stiffness_rear"


@pytest.fixture
def cockpit(tmp_path: Path) -> Iterator[Cockpit]:
    cockpit = Cockpit(tmp_path, "--hidden", str(SEED), "--set", "picture_timeout=10.0", "--set", "input_timeout=1.0", "--set",
                      "priority=normal")  # a busy machine leaves nothing to the lowest
    yield cockpit
    if cockpit.process.poll() is None:
        cockpit.close()


def test_a_tour(cockpit: Cockpit, tmp_path: Path) -> None:
    pictures = os.environ.get("LFDM_PICTURES")  # folder for the picture of the README
    with chromium() as launch:
        page = Page(launch(*(SOFTWARE_GL if pictures else [FLAT])), cockpit.url, query="?scale=0.5")
        tab = page.tab

        def stage(wanted: str) -> None:
            """Waits for a stage of the card; minutes on a busy machine."""
            tab.wait_for_selector(f'#calibration[data-stage="{wanted}"], #calibration[data-stage="failed"]', timeout=600_000)
            assert tab.get_attribute("#calibration", "data-stage") == wanted, tab.inner_text("#calibration-stage")

        page.wait("body[data-frames]")
        cockpit.until(lambda: page.data("state") and not tab.is_disabled("#record"))

        # Drives by hand for a moment, autonomy the rest of the way; so long that pieces of it can be held out.
        tab.click("#reset")
        tab.click("#record")
        cockpit.until(lambda: "REC" in tab.inner_text("#record"))
        began = cockpit.states[-1].header.stamp.sec
        hold_until(cockpit, page, cockpit.driving, "w")
        tab.keyboard.up("w")
        cockpit.until(lambda: cockpit.states[-1].header.stamp.sec > began + DRIVE)
        tab.click("#record")

        # What the drive can teach, then the calibration.
        stage("surveyed")
        assert "cornering_stiffness_front" in tab.inner_text("#calibration-survey")
        tab.click("#calibration-calibrate")
        stage("done")
        rows = [row.replace(":", "").split() for row in tab.locator(".learned span").all_inner_texts()]
        learned = {words[0]: float(words[1]) for words in rows}
        truth = load_vehicle(tmp_path / f"hidden_{SEED}.yaml").parameters
        for name in STIFFNESSES:
            assert abs(learned[name] - truth[name]) < 0.03 * truth[name], (name, learned, truth[name])
        assert tab.locator("#calibration-comparison .u-over").count() >= 2

        # It is put in force at a standstill only. The vehicle may have arrived meanwhile.
        tab.click("#reset")
        hold_until(cockpit, page, lambda: cockpit.states[-1].vx < 0.1, "Space")
        tab.click("#calibration-apply")
        cockpit.until(lambda: "shared control goes by posterior 1" in tab.inner_text("#calibration-force"))
        tab.keyboard.up("Space")
        if pictures:
            cockpit.until(lambda: cockpit.states[-1].vx > 5.0)
            tab.screenshot(path=Path(pictures) / "cockpit_tour.png")

        cockpit.until(lambda: cockpit.states[-1].vx > 2.0)
        tab.click("#calibration-rollback")
        cockpit.until(lambda: "In force: the vehicle file" in tab.inner_text("#calibration-force"))
        assert not page.faults
        page.close()
    cockpit.close()
