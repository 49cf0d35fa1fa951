"""The calibrator's child process, with a stand-in for `lfdm calibrate`: reports, pause, end, priority, and whom it does not outlive."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lfdm_ros.calibration.progress import Progress
from lfdm_ros.engine.background import NORMAL, Share, core_set
from lfdm_ros.engine.calibration_process import CalibrationProcess, examine
from lfdm_ros.errors import InputError

LINE = '{"stage": "s", "stage_index": 1, "stage_count": 4, "temperature": 0.5, "progress": 0.5, "time_left": null, "message": "m"}'
REPORTS = f"""
import json, os, sys, time
seed = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 0
try:
    print({LINE!r}, flush=True)
    print("not a report", flush=True)
    for i in range(6000 if seed else 0):
        own = json.dumps([os.getpid(), os.nice(0), os.sched_getscheduler(0), sorted(os.sched_getaffinity(0)), sys.argv[1:]])
        print(json.dumps({{**json.loads({LINE!r}), "ess": float(i), "message": own}}), flush=True)
        time.sleep(0.01)
except KeyboardInterrupt:
    sys.exit(130)
print("lfdm calibrate: no such recipe", file=sys.stderr)
sys.exit(2)
"""


class Child:
    """The stand-in in a thread, and its reports so far."""

    def __init__(self, folder: Path, **options: object) -> None:
        script = folder / "fake.py"
        script.write_text(REPORTS)
        self.process = CalibrationProcess("r", ["b"], str(folder), command=[sys.executable, str(script)], **options)  # type: ignore[arg-type]
        self.reports: list[Progress] = []
        self.status: int | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        self.status = self.process.follow(self.reports.append)

    def __enter__(self) -> "Child":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.interrupt()
        self.thread.join()


def wait(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def state(pid: int) -> str:
    """As in ps: R running, S sleeping, T stopped; empty: there is no such process, or only its remains."""
    try:
        letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
    return "" if letter in "ZX" else letter


def test_reports_come_through_and_failure_says_why(tmp_path: Path) -> None:
    with Child(tmp_path) as child:
        child.thread.join()
    assert child.status == 2 and len(child.reports) == 1
    report = child.reports[0]
    assert report.overall == pytest.approx(0.375) and math.isnan(report.time_left) and math.isnan(report.ess)
    assert child.process.last_words == "lfdm calibrate: no such recipe"


def test_it_yields_to_others_and_gets_its_options(tmp_path: Path) -> None:
    with Child(tmp_path, seed=3, draws=7, share=Share(cores=1), continue_from="old") as child:
        wait(lambda: len(child.reports) > 1)
        pid, nice, policy, cores, arguments = json.loads(child.reports[1].message)
        assert child.reports[1].ess == 0.0
    assert nice == 19 and policy == os.SCHED_IDLE and cores == [max(os.sched_getaffinity(0))]
    assert arguments == ["r", "--out", str(tmp_path), "--progress-json", "--bag", "b", "--draws", "7", "--seed", "3", "--continue", "old"]
    assert child.status == 130 and child.process.interrupted and not state(pid)


def test_it_is_ended_where_whoever_started_the_node_ignores_interrupts(tmp_path: Path) -> None:
    """As a shell script does for what it starts in its background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Child(tmp_path, seed=3) as child:
            wait(lambda: len(child.reports) > 1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert child.status == 130


def test_normal_priority_where_it_is_asked(tmp_path: Path) -> None:
    with Child(tmp_path, seed=3, share=Share(priority=NORMAL)) as child:
        wait(lambda: len(child.reports) > 1)
        _, nice, policy, cores, _ = json.loads(child.reports[1].message)
    assert nice == os.nice(0) and policy == os.SCHED_OTHER and set(cores) == core_set(os.sched_getaffinity(0), 0)


@pytest.mark.parametrize(("allowed", "cores", "used"), [
    ({0, 1, 2, 3}, 0, {1, 2, 3}), ({0, 1}, 0, {1}), ({5}, 0, {5}), ({0, 1, 2}, 2, {1, 2}), ({0, 1}, 8, {0, 1})])
def test_cores(allowed: set[int], cores: int, used: set[int]) -> None:
    assert core_set(allowed, cores) == used


def test_pause_stops_it_and_an_end_comes_through_the_pause(tmp_path: Path) -> None:
    with Child(tmp_path, seed=3) as child:
        wait(lambda: len(child.reports) > 1)
        pid = json.loads(child.reports[1].message)[0]
        child.process.pause(True)
        wait(lambda: state(pid) == "T")
        child.process.pause(False)
        count = len(child.reports)
        wait(lambda: len(child.reports) > count + 5)
        child.process.pause(True)
        wait(lambda: state(pid) == "T")
    assert child.status == 130 and not state(pid)


def test_paused_or_ended_before_it_began(tmp_path: Path) -> None:
    child = Child(tmp_path, seed=3)
    child.process.pause(True)
    with child:
        time.sleep(0.3)
        assert not child.reports
        child.process.pause(False)
        wait(lambda: child.reports)
    never = Child(tmp_path, seed=3)
    never.process.interrupt()
    with never:
        never.thread.join()
    assert never.status == 130 and not never.reports


@pytest.mark.parametrize("paused", [False, True])
def test_it_does_not_outlive_a_killed_parent(tmp_path: Path, paused: bool) -> None:
    script = tmp_path / "fake.py"
    script.write_text(REPORTS)
    parent = subprocess.Popen([sys.executable, "-c", f"""
import json
from lfdm_ros.engine.calibration_process import CalibrationProcess
process = CalibrationProcess("r", [], "o", seed=3, command=[{sys.executable!r}, {str(script)!r}])
def report(progress):
    if progress.message != "m":
        process.pause({paused})
        print(json.loads(progress.message)[0], flush=True)
process.follow(report)
"""], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    wait(lambda: state(pid) == ("T" if paused else "S"))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait(lambda: not state(pid))


@pytest.mark.parametrize("line", ["", "3", "[]", "{}", '{"stage": 1}', LINE.replace("0.5", '"x"')])
def test_other_lines_are_no_reports(line: str) -> None:
    assert Progress.parse(line) is None


def test_a_bag_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "bag").mkdir()
    (tmp_path / "bag" / "bag_0.mcap").write_bytes(b"no bag at all")
    with pytest.raises(InputError, match=r"bag_0\.mcap has no message that can be read"):
        examine(str(tmp_path / "bag"), Share())
