"""Whole stacks: lockstep repeats to the bit, the bag is complete, the command line runs and stops them."""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import domains
import numpy as np
import pytest

from lfdm_ros.bags import bag_info, read_series
from lfdm_ros.cli.main import main
from lfdm_ros.resources import share_directory
from lfdm_ros.simulation import Simulator, load_scenario
from lfdm_ros.stacks.compose import run_stack
from lfdm_ros.vehicles import load_vehicle

OUTPUTS = ("x", "y", "yaw", "vx", "vy", "yaw_rate", "roll", "roll_rate", "ax", "ay", "omega_fl", "omega_rr", "tyre_fz_fr")
FIELDS = [*OUTPUTS[:10], "wheel_speeds[0]", "wheel_speeds[3]", "tyre_force_z[1]"]
SCENARIO = """
initial: {speed: 12.0}
duration: 4.0
inputs:
  - [0.0, 0.0, 0.2, 0.0]
  - [1.0, 0.1, 0.2, 0.0]
  - [3.0, -0.1, 0.4, 0.0]
  - [4.0, 0.0, 0.0, 0.3]
"""


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "manoeuvre.yaml"
    path.write_text(SCENARIO)
    return str(path)


def lockstep(scenario: str, bag: Path, **options: Any) -> dict[str, Any]:
    return run_stack("simulator", speed=0, record=bag, overrides={
        "scenario": scenario, "stepping": "lockstep", "on_finish": "shutdown"}, **options)


def once(bag: Path, fields: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Time and values of vehicle/state. A state without an answer for half a second, on a busy machine, is published again, the same."""
    recorded = read_series(bag, "vehicle/state", fields)
    time, first, which = np.unique(recorded.time, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(recorded.values, recorded.values[first][which])
    return time, recorded.values[first]


def test_lockstep_bag_is_complete_and_equals_the_core(scenario: str, tmp_path: Path) -> None:
    summary = lockstep(scenario, tmp_path / "a")
    assert summary["scenario_finished"] and summary["ticks"] == 400
    # A state without an answer for half a second, on a busy machine, is published and answered again.
    assert summary["messages_dropped"] == 0
    assert not {reason for reason, count in summary["commands_rejected"].items() if count} - {"answered_already"}
    counts = {t["topic"]: t["count"] for t in bag_info(tmp_path / "a", digest=False)["topics"]}
    for topic in ("/vehicle/state", "/odom", "/imu", "/joint_states"):
        assert counts[topic] >= 401, topic
    # Who is late answers a state that is published again once more, with the same stamp.
    assert counts["/control/command"] >= 400 == len(set(read_series(tmp_path / "a", "control/command", ["steering"]).time))

    # The same drive without ROS: the last bit agrees.
    drive = load_scenario(scenario)
    simulator = Simulator(load_vehicle("hmmwv"))
    simulator.reset(vx=drive.initial.speed)
    expected = []
    for tick in range(401):
        expected.append([simulator.outputs[simulator.output_index[n]] for n in OUTPUTS])
        u = drive.profile.sample(1e-9 * (tick * 10_000_000))[0]
        simulator.advance(u, u, 10)
    np.testing.assert_array_equal(once(tmp_path / "a", FIELDS)[1], expected)


# ---- the command line, as a process ------------------------------------------------------------------------------------


def lfdm(*arguments: str) -> subprocess.Popen[str]:
    # Nodes that tests of failing ends leave in this process would be a second recorder to it in the same graph.
    return subprocess.Popen([sys.executable, "-m", "lfdm_ros.cli", *arguments], env=domains.environment(), text=True, cwd=share_directory(),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def written(bag: Path) -> int:
    """Bytes of a bag so far."""
    return sum(path.stat().st_size for path in bag.glob("*.mcap"))


def wait_for(condition: Any, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 60.0
    while not condition():
        assert process.poll() is None and time.monotonic() < end, process.communicate()[1]
        time.sleep(0.05)


def test_up_plays_a_scenario_and_ends(scenario: str, tmp_path: Path) -> None:
    """By nodes in processes of their own, in a namespace."""
    bag = tmp_path / "bag"
    process = lfdm("up", str(share_directory() / "config" / "stacks" / "simulator.yaml"), "--speed", "0", "--record", str(bag),
                   "--set", f"scenario={scenario}", "--set", "vehicle_simulator.stepping=lockstep", "--processes", "--namespace", "fleet/a")
    errors = process.communicate(timeout=120)[1]
    assert process.returncode == 0, errors
    assert "simulated 4.00 s, " in errors and "; 0 collisions" in errors
    counts = {t["topic"]: t["count"] for t in bag_info(bag, digest=False)["topics"]}
    assert counts["/fleet/a/control/command"] >= 400 == len(set(read_series(bag, "control/command", ["steering"]).time))
    assert all(topic.startswith("/fleet/a/") for topic in counts)
    # While the player's process goes, the simulator may repeat the last state to a driver that it believes to be there.
    assert counts["/fleet/a/vehicle/state"] >= 401
    assert len(set(read_series(bag, "vehicle/state", ["vx"]).time)) == 401


def test_a_scenario_that_ends_in_an_obstacle_is_no_success(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    scenario = tmp_path / "wall.yaml"
    scenario.write_text(f"{SCENARIO}\nobstacles: [{{circle: {{x: 20.0, y: 0.0, radius: 3.0}}}}]\n")
    assert main(["up", "simulator", "--speed", "0", "--set", f"scenario={scenario}", "--set", "stepping=lockstep"]) == 1
    errors = capfd.readouterr().err
    assert "finished after" in errors and "; 1 collisions" in errors, errors


@pytest.mark.parametrize(("number", "size"), [(signal.SIGINT, 0), (signal.SIGTERM, 50_000)], ids=["while it starts", "while it drives"])
def test_a_signal_leaves_a_whole_bag(tmp_path: Path, number: signal.Signals, size: int) -> None:
    bag = tmp_path / "bag"
    process = lfdm("up", "simulator", "--record", str(bag))
    wait_for(lambda: list(bag.glob("*.mcap")) and written(bag) >= size, process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 128 + number and "Traceback" not in errors, errors
    info = bag_info(bag, digest=False)
    assert info["closed"] and (not size or {t["topic"]: t["count"] for t in info["topics"]}["/vehicle/state"] > 10)


@pytest.mark.parametrize(("arguments", "words"), [
    (["up", "nope.yaml"], "nope.yaml"),
    (["up", "simulator", "--speed", "-1"], "--speed"),
    (["up", "simulator", "--duration", "0"], "--duration"),
])
def test_up_names_what_is_wrong(arguments: list[str], words: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert words in capfd.readouterr().err.strip().splitlines()[-1]


def test_bag_record_hears_another_process(tmp_path: Path) -> None:
    bag = tmp_path / "bag"
    recorder = lfdm("bag", "record", "--out", str(bag), "--topics", "/odom")
    simulator = lfdm("up", "simulator")
    try:
        wait_for(lambda: written(bag) > 30_000, recorder)
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(30) == 130
    finally:
        for process in (recorder, simulator):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
    assert [t["topic"] for t in bag_info(bag, digest=False)["topics"]] == ["/odom"]
