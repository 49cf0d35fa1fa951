"""A person's tour of the cockpit in a real browser: drive a vehicle with unknown tyres, record, calibrate from the drive, put the result in
force, see autonomy go by it, and roll it back."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import FLAT, SOFTWARE_GL, Page, chromium
from test_cockpit import Cockpit, hold_until

from lfdm_ros.vehicles import load_vehicle

SEED, DRIVE = 4, 42.0  # of the hidden vehicle; [s] of driving
SCREEN = {"width": 1600, "height": 900}  # of the pictures
WIDTHS = {"png": 1280, "gif": 800}  # of the pictures in the documents [pixels]
FRAMES = 40  # of the one that moves
STIFFNESSES = "cornering_stiffness_front", "cornering_stiffness_rear"


@pytest.fixture
def cockpit(tmp_path: Path) -> Iterator[Cockpit]:
    cockpit = Cockpit(tmp_path, "--hidden", str(SEED), "--set", "picture_timeout=10.0", "--set", "input_timeout=1.0", "--set",
                      "priority=normal")  # a busy machine leaves nothing to the lowest
    yield cockpit
    cockpit.release()


def screenshot(page: Page, suffix: str) -> Any:
    """Returns the page as a picture of the width that the documents have."""
    from PIL import Image

    picture = Image.open(io.BytesIO(page.tab.screenshot())).convert("RGB")
    width = WIDTHS[suffix]
    return picture.resize((width, width * picture.height // picture.width), Image.Resampling.LANCZOS)


def drive_slowly(page: Page, cockpit: Cockpit) -> None:
    """Has autonomy drive from the start, at a pace that a machine without a GPU keeps up with."""
    page.tab.locator("#facts").evaluate("facts => { facts.hidden = true; }")  # they name a folder of this machine
    page.tab.select_option("#pace", "0.25")
    page.wait("body[data-pace='0.25']")
    page.tab.click("#reset")  # it may have arrived
    cockpit.until(lambda: cockpit.states[-1].vx < 1.0)
    cockpit.until(lambda: cockpit.states[-1].vx > 5.0 and float(page.data("speed") or 0.0) > 5.0)


def film(page: Page, path: Path) -> None:
    """Writes a GIF at twice the pace: autonomy drives, then a person, then autonomy."""
    from lfdm_ros.engine.run_pictures import write_gif

    stamps, pictures = [], []
    for frame in range(FRAMES):
        if frame in (FRAMES // 3, 2 * FRAMES // 3):
            (page.tab.keyboard.down if frame < FRAMES // 2 else page.tab.keyboard.up)("w")
        stamps.append(float(page.data("stamp")))
        pictures.append(screenshot(page, "gif"))
    write_gif(path, pictures, 500.0 * (stamps[-1] - stamps[0]) / (FRAMES - 1))


def take_pictures(launch: Callable[..., Any], cockpit: Cockpit, folder: Path) -> None:
    """Writes cockpit_tour.png and cockpit_tour.gif.

    By a page of its own: drawing in three dimensions without a GPU takes a core, which the drive and its calibration need.
    """
    from PIL import Image

    page = Page(launch(*SOFTWARE_GL), cockpit.url, query="?scale=0.7", viewport=SCREEN)
    page.wait("body[data-renderer=webgl]")
    page.wait("#calibration[data-stage=done] .learned")
    drive_slowly(page, cockpit)
    screenshot(page, "png").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        folder / "cockpit_tour.png", optimize=True)
    page.tab.click("#calibration-close")
    film(page, folder / "cockpit_tour.gif")
    page.tab.select_option("#pace", "1")
    page.wait("body[data-pace='1']")
    page.tab.click("#reset")
    page.close()


def test_a_tour(cockpit: Cockpit, tmp_path: Path) -> None:
    pictures = os.environ.get("LFDM_PICTURES")  # folder for the pictures of the documents
    with chromium() as launch:
        page = Page(launch(FLAT), cockpit.url)
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
        assert tab.locator("#calibration-comparison .u-over").count() >= 2

        # It is put in force at a standstill only. The vehicle may have arrived meanwhile.
        tab.click("#reset")
        hold_until(cockpit, page, lambda: cockpit.states[-1].vx < 0.1, "Space")
        tab.click("#calibration-apply")
        cockpit.until(lambda: "shared control goes by posterior 1" in tab.inner_text("#calibration-force"))
        tab.keyboard.up("Space")
        if pictures:
            take_pictures(launch, cockpit, Path(pictures))

        cockpit.until(lambda: cockpit.states[-1].vx > 2.0)
        tab.click("#calibration-rollback")
        cockpit.until(lambda: "In force: the vehicle file" in tab.inner_text("#calibration-force"))
        assert not page.faults
        page.close()
    cockpit.close()
    # By how much a drive of 42 s teaches hangs on how late a busy machine drives: it at least halves an error.
    before = load_vehicle("hmmwv").parameters
    for name in STIFFNESSES:
        allowed = max(0.5 * abs(before[name] - truth[name]), 0.03 * truth[name])
        assert abs(learned[name] - truth[name]) < allowed, (name, learned, truth[name])
