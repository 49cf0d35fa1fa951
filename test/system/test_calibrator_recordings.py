"""The calibrator node with real calibrations: bad bags among good ones, and kill -9 in the middle."""

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pictures
import psutil
import pytest
import small_problem
from children import command
from waiting import until

from lfdm_ros.bags import BagWriter, open_bag
from lfdm_ros.calibration.store import PosteriorStore, Version
from lfdm_ros.nodes.calibrator import Calibrator

PATIENCE = 900.0  # [s] on a machine that has other things to do


@pytest.fixture(scope="module")
def turn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(small_problem.write_bag(tmp_path_factory.mktemp("bags") / "turn", "turn"))


@pytest.fixture(autouse=True)
def _reports_without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures.leave_out(monkeypatch)


def as_it_is(topic: str, message: Any, stamp: int) -> Any:
    return topic, message, stamp


def rewrite(source: Path, target: Path, change: Callable[[str, Any, int], Any] = as_it_is) -> Path:
    """A copy of a bag under another name; `change` says what becomes of (topic, message, stamp [ns])."""
    with open_bag(source) as bag, BagWriter(target, recording=target.name, origin_ns=0) as out:
        for connection, stamp, cdr in bag.raw():
            topic, message, when = change(connection.topic, bag.decode(cdr, connection.msgtype), stamp)
            out.write(topic, connection.msgtype, when, message)
    return target


def only(wanted: str, **changes: Callable[[Any], Any]) -> Callable[[str, Any, int], Any]:
    """Changes fields of one topic's messages."""
    def change(topic: str, message: Any, stamp: int) -> Any:
        if topic.lstrip("/") == wanted:
            message = dataclasses.replace(message, **{name: new(getattr(message, name)) for name, new in changes.items()})
        return topic, message, stamp
    return change


def jump_back(topic: str, message: Any, stamp: int) -> Any:
    """The clock is set back by 0.4 s in the middle, as when a recorder's clock is corrected."""
    later = stamp - 400_000_000 if stamp > 1_500_000_000 else stamp
    header = dataclasses.replace(message.header, stamp=dataclasses.replace(
        message.header.stamp, sec=later // 10**9, nanosec=later % 10**9))
    return topic, dataclasses.replace(message, header=header), stamp


wait = partial(until, seconds=PATIENCE)


def newest(store: Path) -> Version | None:
    return PosteriorStore(store).newest()


def test_bad_bags_are_named_and_the_good_ones_are_used(graph: Any, tmp_path: Path, turn: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(small_problem.quick_recipe("turn_*"))
    watched = tmp_path / "watched"
    watched.mkdir()
    rewrite(turn, watched / "turn_good")
    rewrite(turn, watched / "turn_degrees", only("control/command", steering=math.degrees))
    rewrite(turn, watched / "turn_back", jump_back)
    with BagWriter(watched / "turn_empty"):
        pass
    noisy = rewrite(turn, watched / "turn_cut", only("measured/state", yaw_rate=lambda value: value + 1e-6))
    file = next(noisy.glob("*.mcap"))
    file.write_bytes(file.read_bytes()[:-300])
    (watched / "turn_garbage").mkdir()
    (watched / "turn_garbage" / "turn_garbage_0.mcap").write_bytes(np.random.default_rng(3).bytes(5000))

    graph.add(Calibrator, watch_directory=str(watched), recipe=str(tmp_path / "recipe.yaml"), store=str(tmp_path / "store"),
              abandoned_after=1.0, priority="normal")
    memory = tmp_path / "store/watch.json"

    def read() -> dict[str, Any]:
        return dict(json.loads(memory.read_text())) if memory.exists() else {"bags": {}, "taken": {}, "job": None}

    end = time.monotonic() + PATIENCE
    while True:
        graph.runtime.spin_some(0.1)
        known = read()
        version = newest(tmp_path / "store")
        named = {Path(path).name for path in known["bags"]}
        if len(named) == 6 and version is not None and not known["job"] and any(
                Path(r["path"]).name == "turn_cut" for r in version.manifest["recordings"]):
            break
        assert time.monotonic() < end, json.dumps(known, indent=1)
    problems = {Path(path).name: bag["problem"] for path, bag in known["bags"].items() if bag["problem"]}
    assert problems["turn_empty"] == "it holds no messages" and "turn_garbage" in problems and len(problems) == 2
    failures = {Path(taken["path"]).name: taken["outcome"] for taken in known["taken"].values() if taken["failed_with"]}
    assert "outside [-1, 1]" in failures["turn_degrees"]
    assert "turn_good" not in failures and "turn_cut" not in failures
    recordings = {recording["name"]: recording["note"] for recording in version.manifest["recordings"]}
    assert recordings["turn_good"] == "" and "messages recovered" in recordings["turn_cut"]
    assert "turn_degrees" not in recordings
    # A clock that jumps is either refused by name or read in order of its stamps; it does not stop the others.
    assert ("turn_back" in failures) != ("turn_back" in recordings)


@pytest.fixture
def killed_later() -> Iterator[list[subprocess.Popen[bytes]]]:
    children: list[subprocess.Popen[bytes]] = []
    yield children
    for child in children:
        if child.poll() is None:
            child.send_signal(signal.SIGINT)
        child.wait(PATIENCE)


def test_killed_node_takes_its_calibration_up_again(tmp_path: Path, turn: Path, killed_later: list[subprocess.Popen[bytes]]) -> None:
    watched, store = tmp_path / "watched", tmp_path / "store"
    watched.mkdir()
    rewrite(turn, watched / "turn")
    small_problem.write_bag(watched / "speed_up", "speed_up")
    (tmp_path / "recipe.yaml").write_text("sampler: least_squares\n" + small_problem.RECIPE)
    stack = tmp_path / "stack.yaml"
    stack.write_text(json.dumps({"nodes": [{"executable": "calibrator", "parameters": {
        "watch_directory": str(watched), "recipe": str(tmp_path / "recipe.yaml"), "store": str(store), "draws": 20,
        "priority": "normal"}}]}))

    def up() -> subprocess.Popen[bytes]:
        child = subprocess.Popen([sys.executable, "-m", "lfdm_ros.cli", "up", str(stack)], env=os.environ.copy())
        killed_later.append(child)
        return child

    def memory() -> dict[str, Any]:
        path = store / "watch.json"
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def calibrations() -> list[int]:
        """Processes that calibrate into our folder."""
        return [process.pid for process in psutil.process_iter()
                if "--progress-json" in (words := command(process)) and str(watched) in words]

    first = up()
    job = wait(lambda: memory().get("job"), "a calibration")
    done = Path(job["out"]) / ".stages" / "longitudinal.npz"
    wait(done.exists, "the first stage")
    first.send_signal(signal.SIGKILL)
    first.wait()
    wait(lambda: not calibrations(), "the end of the child")
    assert newest(store) is None and memory()["job"]["id"] == job["id"]
    with np.load(done) as kept:
        seconds = json.loads(str(kept["head"]))["seconds"]
    second = up()
    version = wait(lambda: newest(store), "the posterior")
    wait(lambda: memory()["job"] is None, "the end of the job")
    assert version.number == 1 and version.manifest["run"] == job["id"] and not version.manifest["interrupted"]
    assert [stage["name"] for stage in version.summary["stages"]] == ["longitudinal", "lateral"]
    # The stage that was done was not done again.
    assert version.summary["stages"][0]["seconds"] == seconds
    second.send_signal(signal.SIGINT)
    assert second.wait(30) == 130
    assert [v.number for v in PosteriorStore(store).versions()] == [1]
