"""Playback of recordings into every subscribing node: a good one, a few damaged ones, and detection of faults."""

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from ackermann_msgs.msg import AckermannDriveStamped

from lfdm_lab.fuzzing import ANSWER, drive_bag
from lfdm_lab.fuzzing.bags import REWRITINGS, RecordedMessage
from lfdm_lab.stacks.playback import fault_of
from lfdm_ros.bags import bag_info, open_bag
from lfdm_ros.msg import DriverCommand
from lfdm_ros.stacks.stack import EXECUTABLES


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("played") / "drive"
    drive_bag(path)
    return path


def test_every_node_accepts_a_good_drive(drive: Path, tmp_path: Path) -> None:
    command = [sys.executable, Path(__file__).with_name("playing.py"), drive, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    good, wrong = json.loads(done.stdout.splitlines()[-1]).values()
    assert good["outcome"] == wrong["outcome"] == ANSWER, good["text"] + wrong["text"]
    played = good["value"]
    assert played["messages"] == bag_info(drive, digest=False)["messages"] and played["commands"] > 400
    assert not played["refused"] and not played["left_out"]
    # All subscribing nodes; calibrator and recorder are created by `play`.
    assert set(EXECUTABLES) - set(played["heard"]) == {"keyboard", "calibrator", "recorder"}
    assert "command_adapter published on /control/command: steering is 1.5, outside [-1, 1]" in wrong["value"]
    assert "vehicle_frames: on_odometry: " in wrong["value"]


def test_damaged_recordings(tmp_path: Path) -> None:
    # A fresh process, which is forked for each bag.
    command = [sys.executable, "-m", "lfdm_ros.cli", "fuzz", "nodes", "--seeds", "5", "--limit", "300", "--json", tmp_path / "counts.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads((tmp_path / "counts.json").read_text())
    assert counts["answer"] + counts["refused"] == 5 and counts["played"]["messages"] > 2000 and counts["played"]["commands"] > 2000
    assert counts["played"]["calibrations"] + counts["played"].get("calibrations_refused", 0) == counts["answer"]


def test_each_damage_to_messages_of_every_type(drive: Path) -> None:
    """Messages without a header have a clock, or no time at all."""
    with open_bag(drive) as bag:
        messages = [RecordedMessage(c.topic, c.msgtype, stamp, bytes(cdr)) for c, stamp, cdr in bag.raw()][:60]
    for number, rewrite in enumerate(REWRITINGS):
        rewritten, what = rewrite(messages, Random(number))
        assert rewritten and "\n" not in what and rewritten != messages, what


@pytest.mark.parametrize(("message", "words"), [
    (DriverCommand(steering=1.0, throttle=-1.0, brake=1.0), None), (DriverCommand(brake=float("nan")), "brake is nan"),
    (DriverCommand(throttle=1.1), "throttle is 1.1, outside"), (AckermannDriveStamped(), None)])
def test_a_command_beyond_the_limits_is_a_fault(message: Any, words: str | None) -> None:
    found = fault_of(message)
    assert (found is None) == (words is None) and (words is None or words in str(found))
