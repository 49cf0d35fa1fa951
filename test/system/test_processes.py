"""`lfdm up --processes`: whoever loses a node loses the run, but no bag."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import domains
import psutil
import pytest
from children import children, command

from lfdm_ros.bags import bag_info

PATIENCE = 120.0  # [s]


class Up:
    """A recorded run in processes, in a graph of its own: a node that was killed stays listed for a while."""

    def __init__(self, folder: Path) -> None:
        self.bag = folder / "bag"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lfdm_ros.cli", "up", "simulator", "--processes", "--record", str(self.bag)],
            env=domains.environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.wait(lambda: sum(path.stat().st_size for path in self.bag.glob("*.mcap")) > 30_000)
        self.nodes = psutil.Process(self.process.pid).children()

    def node(self, executable: str) -> psutil.Process:
        return next(node for node in self.nodes if executable in command(node))

    def wait(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end and self.process.poll() is None, self.process.communicate()[1]
            time.sleep(0.05)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    run = Up(tmp_path)
    yield run
    for process in (run.process, *run.nodes):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    run.process.communicate()


def test_a_node_that_is_killed_ends_the_run_with_its_name(up: Up) -> None:
    assert len(up.nodes) == 4
    # Each knows whom to end with; test_bring_up.py tells that it does.
    assert all(f" --parent {up.process.pid} " in command(node) for node in up.nodes)
    up.node("vehicle_simulator").kill()
    _, errors = up.process.communicate(timeout=PATIENCE)
    assert up.process.returncode == 1
    assert errors.splitlines()[-1] == "lfdm up: node vehicle_simulator was killed by signal 9 (Killed)"
    assert bag_info(up.bag, digest=False)["closed"]


def test_ctrl_c_resumes_a_node_that_is_stopped_and_names_it(up: Up) -> None:
    up.node("recorder").suspend()
    up.process.send_signal(signal.SIGINT)
    _, errors = up.process.communicate(timeout=PATIENCE)
    assert up.process.returncode == 1
    assert "node recorder was stopped (SIGSTOP) when the run ended" in errors.splitlines()[-1]
    assert "was killed" not in errors
    assert bag_info(up.bag, digest=False)["closed"]


def test_a_node_that_dies_is_started_again_as_often_as_the_stack_says(tmp_path: Path) -> None:
    """Frozen, it is named; killed, it is started again once; then the run ends."""
    stack = tmp_path / "stack.yaml"
    stack.write_text("nodes: [{executable: joystick, respawn: 1}]\n")
    run = subprocess.Popen([sys.executable, "-m", "lfdm_ros.cli", "up", str(stack), "--processes"], env=domains.environment(), text=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert run.stderr is not None
    lines = list[str]()

    def heard(words: str) -> bool:
        for line in run.stderr:  # type: ignore[union-attr]
            lines.append(line)
            if words in line:
                return True
        return False

    try:
        for signals, words in (([], "all nodes are active"),
                               ([signal.SIGSTOP], "node /joystick does not answer"),
                               ([signal.SIGCONT], "node /joystick answers again"),
                               ([signal.SIGKILL], "is started again, 1 of 1 times"),
                               ([], "node /joystick is active again"),
                               ([signal.SIGKILL], "node joystick was killed by signal 9 (Killed)")):
            for number in signals:
                children(run.pid, "joystick")[0].send_signal(number)
            assert heard(words), lines
        assert run.wait(PATIENCE) == 1
    finally:
        run.kill()
        run.wait()
