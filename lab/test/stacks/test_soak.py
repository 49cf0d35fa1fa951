"""`lfdm soak` for a few seconds of all nodes, and its assessment of memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import domains
import numpy as np
import pytest

from lfdm_lab.stacks.soak import cost_of, family, growth_of, segments_left, segments_of
from lfdm_ros.cli.main import main

NODES = {"recorder", "calibrator", "vehicle_frames", "state_sensor", "command_adapter", "shared_control", "operator_model", "teleop_link",
         "mpc_controller", "vehicle_simulator", "ground_learner"}


@pytest.mark.parametrize(("slope", "scatter", "too_much"), [(0.0, 1.0, False), (0.01, 1.0, False), (0.05, 1.0, True), (0.05, 0.0, True)])
def test_growth_is_distinguished_from_scatter(slope: float, scatter: float, too_much: bool) -> None:
    """100 MB for 360 s, with as much again in the warm-up."""
    seconds = np.arange(0.0, 360.0, 0.5)
    memory = 100.0 + slope * np.maximum(seconds - 90.0, 0.0) - 30.0 * np.exp(-seconds / 15.0)
    growth = growth_of("node", seconds.tolist(), (memory + scatter * np.random.default_rng(1).standard_normal(len(seconds))).tolist())
    assert growth.too_much == too_much
    assert growth.slope == pytest.approx(3600.0 * slope, abs=15.0) and growth.low <= growth.slope <= growth.high
    assert growth.share == pytest.approx(2.7 * slope, abs=0.01)


def test_a_single_step_is_no_growth() -> None:
    seconds = np.arange(0.0, 3600.0, 2.0)
    memory = 240.0 + 3.0 * seconds / 3600.0 + 15.0 * (seconds > 1350.0)
    growth = growth_of("node", seconds.tolist(), memory.tolist())
    assert growth.slope == pytest.approx(3.0, abs=1.0) and not growth.too_much


def test_the_cost_of_a_simulated_second_excludes_the_warm_up() -> None:
    simulated = np.arange(0.0, 100.0)
    used = 0.3 * simulated + 7.0 * np.minimum(simulated / 25.0, 1.0)  # 7 s more in the first quarter
    assert cost_of(simulated.tolist(), used.tolist()) == pytest.approx(0.3)


def test_processes_have_the_names_of_their_nodes() -> None:
    words = [sys.executable, "-c", "input()", "-m", "lfdm_ros.nodes.recorder", "--ros-args", "-r", "__node:=ours"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as child:
        assert family(os.getpid())[child.pid] == "ours" and set(family(child.pid)) == {child.pid}
        child.communicate(b"\n")


def test_segments_belong_to_the_process_that_created_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes that have discovered each other map each other's segments."""
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domains.other()))
    program = """
import sys, time
import rclpy
rclpy.init()
node = rclpy.create_node(sys.argv[1])
while len(set(node.get_node_names())) < 2:
    time.sleep(0.05)
print(flush=True)
sys.stdin.read()
rclpy.shutdown()
"""
    nodes = [subprocess.Popen([sys.executable, "-c", program, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for name in "ab"]
    try:
        for node in nodes:
            assert node.stdout is not None and node.stdout.readline()
        one, other = (segments_of([node.pid]) for node in nodes)
        assert one and other
        # They share only ports of the domain, which either may own.
        assert all("_port" in name for name in one & other)
        assert {name for name in one if "_port" not in name} and not {name for name in one if "_port" not in name} & other
    finally:
        for node in nodes:
            node.communicate(b"")
    assert not segments_of(node.pid for node in nodes)


def test_a_short_run_of_all_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domains.other()))
    status = main(["soak", "--composed", "--duration", "6", "--speed", "1", "--wall", "600", "--bag", str(tmp_path / "bag"),
                   "--json", str(tmp_path / "soak.json"), "--figure", str(tmp_path / "soak.svg")])
    assert (tmp_path / "soak.svg").read_text().startswith("<?xml")
    found = json.loads((tmp_path / "soak.json").read_text())
    assert status == 0 and not found["failures"], found
    assert 1.0 < found["simulated_seconds"] <= 6.0 and found["exit_status"] == 0 and found["speed_factor"] > 0.0
    assert found["segments_most"] > 0 and not found["segments_left"] and found["total"]["start"] > 50.0
    assert found["processes"] and {"cost", "slope"} <= found["total"].keys()
    assert found["bag"]["closed"] and found["bag"]["dropped"] == 0 and found["bag"]["messages"] > 500
    assert "x real time" in capsys.readouterr().out


def test_a_short_run_of_the_cockpit_with_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domains.other()))
    (tmp_path / "small.yaml").write_text("""
nodes:
  - executable: vehicle_simulator
    parameters: {vehicle: hmmwv, model: eight_dof, scenario: yard, command_timeout: 10.0}
    remappings: {control/command: teleop/command}
""")
    status = main(["soak", "--page", "--stack", str(tmp_path / "small.yaml"), "--duration", "4", "--wall", "600",
                   "--bag", str(tmp_path / "bag"), "--json", str(tmp_path / "soak.json")])
    found = json.loads((tmp_path / "soak.json").read_text())
    assert status == 0 and not found["failures"], found
    assert found["page"]["received"] > 50 and found["page"]["sent"] > 50
    (process,) = found["processes"]
    assert process["files"][2] > process["sockets"][2] > 2
    assert list(found["series"]) == ["lfdm cockpit"] and len(found["series"]["lfdm cockpit"][0]) == 4


def test_a_port_created_meanwhile_by_another_graph_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading all processes may take seconds, in which a process may end and remove its port, or start and create it again."""
    for name in ("left", "used", "anew", "gone"):
        (tmp_path / name).touch()

    def mapped(pid: int, folder: Path) -> set[str]:
        (tmp_path / "later").touch()
        (tmp_path / "gone").unlink(missing_ok=True)
        (tmp_path / "fresh").touch()
        (tmp_path / "fresh").rename(tmp_path / "anew")
        return {"used"}

    monkeypatch.setattr("lfdm_lab.stacks.soak.SHM", tmp_path)
    monkeypatch.setattr("lfdm_lab.stacks.soak.processes.mapped", mapped)
    monkeypatch.setattr("lfdm_lab.stacks.soak.psutil.pids", lambda: [1])
    assert segments_left(["left", "used", "anew", "gone", "later", "never"]) == ["left"]


def test_the_stack_has_all_nodes() -> None:
    from lfdm_ros.stacks.stack import EXECUTABLES, load_stack

    assert {entry.executable for entry in load_stack("soak").nodes} == NODES
    # Without other kinds of drivers and their displays.
    assert set(EXECUTABLES) - NODES == {"input_player", "joystick", "keyboard", "dashboard", "cockpit", "hil_bridge"}


@pytest.mark.parametrize(("arguments", "words"), [
    (["--wall", "0"], "--wall 0"), (["--stack", "calibration"], "it has no simulator"), (["--json", "/no/such/x.json"], "no folder"),
    (["--set", "ghost.x=1"], "has no node 'ghost'"), (["--page", "--composed"], "leave out --composed")])
def test_bad_usage_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    assert main(["soak", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
