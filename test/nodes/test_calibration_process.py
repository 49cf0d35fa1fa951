"""The calibrator's child process, with a stand-in for `lfdm calibrate`; and the watched folder."""

import math
import os
import sys
from pathlib import Path

import pytest

from lfdm_ros.bags import BagWriter
from lfdm_ros.errors import InputError
from lfdm_ros.nodes.bag_folder import BagFolder
from lfdm_ros.nodes.calibration_process import CalibrationProcess, Progress

LINE = '{"stage": "s", "stage_index": 1, "stage_count": 4, "temperature": 0.5, "progress": 0.5, "time_left": null, "message": "m"}'
REPORTS = f"""
import sys, time
try:
    print({LINE!r}, flush=True)
    print("not a report", flush=True)
    time.sleep(60 if "--seed" in sys.argv else 0)
except KeyboardInterrupt:
    sys.exit(130)
print("lfdm calibrate: no such recipe", file=sys.stderr)
sys.exit(2)
"""


def start(tmp_path: Path, seed: int) -> CalibrationProcess:
    script = tmp_path / "fake.py"
    script.write_text(REPORTS)
    return CalibrationProcess("r", ["b"], str(tmp_path), seed=seed, command=[sys.executable, str(script)])


def test_reports_come_through_and_failure_says_why(tmp_path: Path) -> None:
    process = start(tmp_path, seed=0)
    reports: list[Progress] = []
    assert process.follow(reports.append) == 2
    assert len(reports) == 1
    assert reports[0].overall == pytest.approx(0.375) and math.isnan(reports[0].time_left)
    assert process.last_words() == "lfdm calibrate: no such recipe"


def test_interrupt_ends_it(tmp_path: Path) -> None:
    process = start(tmp_path, seed=3)
    assert process.follow(lambda progress: process.interrupt()) == 130
    assert process.interrupted


@pytest.mark.parametrize("line", ["", "3", "{}", '{"stage": 1}', LINE.replace("0.5", '"x"')])
def test_other_lines_are_no_reports(line: str) -> None:
    assert Progress.parse(line) is None


def test_watched_folder_waits_for_the_last_recording_to_be_closed(tmp_path: Path) -> None:
    watched = BagFolder(str(tmp_path), "hmmwv_paper")  # needs acc, simp_ramp, rr_1
    for age, name in enumerate(("acc", "simp_ramp")):
        with BagWriter(tmp_path / f"bag_{name}", recording=name):
            pass
        os.utime(tmp_path / f"bag_{name}", (1000 + age, 1000 + age))
        assert watched.look() == []
    with BagWriter(tmp_path / "bag_rr", recording="rr_1"):
        assert watched.look() == []  # still being written
    assert [bag.name for bag in watched.look()] == ["bag_acc", "bag_simp_ramp", "bag_rr"]
    assert watched.look() == []  # nothing new
    with BagWriter(tmp_path / "other", recording="other"):
        pass
    assert watched.look() == []  # new, but not what the recipe names
    assert watched.free_name("", "bag_rr") == tmp_path / "calibrations" / "bag_rr"


def test_watched_folder_must_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        BagFolder(str(tmp_path / "none"), "hmmwv_paper")
