"""Two vehicles in one graph drive, record and are calibrated without touching each other, in one process and one process each."""

from pathlib import Path
from typing import Any

import numpy as np
import pictures
import pytest
import small_problem

from lfdm_ros.bags import bag_info, read_series
from lfdm_ros.calibration.store import PosteriorStore
from lfdm_ros.errors import InputError
from lfdm_ros.stacks.compose import run_stack
from lfdm_ros.stacks.launching import ARGUMENTS, stack_from_arguments
from lfdm_ros.stacks.processes import run_processes
from lfdm_ros.stacks.stack import load_stack, prepare_stack

SCENARIO = "initial: {speed: 8.0}\nduration: 1.5\ninputs:\n  - [0.0, 0.1, 0.3, 0.0]\n  - [1.5, -0.1, 0.2, 0.0]\n"
FIELDS = ["x", "y", "yaw", "vx", "yaw_rate", "roll"]
LOCKSTEP = {"stepping": "lockstep", "on_finish": "idle"}


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "manoeuvre.yaml"
    path.write_text(SCENARIO)
    return str(path)


def states(bag: Path) -> np.ndarray:
    recorded = read_series(bag, "vehicle/state", FIELDS)  # of whatever namespace
    return recorded.values[np.unique(recorded.time, return_index=True)[1]]


def test_two_vehicles_drive_and_record_as_each_alone(scenario: str, tmp_path: Path) -> None:
    overrides = {**LOCKSTEP, "scenario": scenario, "initial_yaw": 0.3}
    alone = run_stack("simulator", speed=0, duration=1.0, record=tmp_path / "alone", overrides=overrides)
    both = run_stack("simulator", speed=0, duration=1.0, record=tmp_path / "both", overrides=overrides, namespaces=("a", "b"))
    assert set(both["namespaces"]) == {"/a", "/b"} and alone["messages_dropped"] == 0
    # The first that is done ends the run; the other one has driven the same as far as it came.
    ticks = [both["namespaces"][name]["ticks"] for name in ("/a", "/b")]
    assert max(ticks) == alone["ticks"] == 100 and min(ticks) > 10
    for name in "ab":
        bag = tmp_path / f"both_{name}"
        topics = {topic["topic"] for topic in bag_info(bag, digest=False)["topics"]}
        assert {f"/{name}/{topic}" for topic in ("clock", "tf", "tf_static", "vehicle/state", "control/command", "joint_states")} <= topics
        assert all(topic.startswith(f"/{name}/") for topic in topics)
        driven = states(bag)
        np.testing.assert_array_equal(driven, states(tmp_path / "alone")[:len(driven)])


def test_two_different_vehicles_in_processes_of_their_own(scenario: str, tmp_path: Path) -> None:
    """By a stack file, as a fleet has it."""
    fleet: dict[str, Any] = {"parameters": {"scenario": scenario, "stepping": "lockstep"}, "nodes": []}
    for name, vehicle in (("a", "hmmwv"), ("b", "sedan")):
        fleet["nodes"] += [
            {"executable": "recorder", "namespace": name, "remappings": {"/clock": "clock"},
             "parameters": {"bag": str(tmp_path / name), "use_sim_time": True}},
            {"executable": "input_player", "namespace": name},
            {"executable": "vehicle_simulator", "namespace": name, "remappings": {"/clock": "clock"},
             "parameters": {"vehicle": vehicle, "speed_factor": 1.0 if name == "a" else 0.0}}]  # "a" goes on until "b" has ended
    fleet["nodes"][-2]["parameters"] = {"on_finish": "shutdown"}
    summary = run_processes(prepare_stack(fleet)[0], timeout=300.0)
    assert summary["reason"] == "input_player ended"
    first, second = states(tmp_path / "a"), states(tmp_path / "b")
    assert len(first) > 10 and len(second) == 151 and first[0, 3] == second[0, 3] == 8.0
    common = min(len(first), len(second))
    assert not np.allclose(first[:common, 4], second[:common, 4])  # each its own vehicle
    for name in "ab":
        assert all(topic["topic"].startswith(f"/{name}/") for topic in bag_info(tmp_path / name, digest=False)["topics"])


def test_namespaces_of_the_command_line_and_of_launch() -> None:
    given = dict.fromkeys(ARGUMENTS, "") | {"stack": "simulator", "namespace": "a, fleet/b"}
    stack = stack_from_arguments(given)
    assert stack == prepare_stack("simulator", namespaces=("a", "fleet/b"))[0]
    assert {entry.namespace for entry in stack.nodes} == {"/a", "/fleet/b"}
    assert {topic: len(names) for topic, names in stack.sole_topics.items()} == dict.fromkeys(
        [f"{n}/{t}" for n in ("/a", "/fleet/b") for t in ("clock", "vehicle/state", "control/command")], 1)
    # What has no simulated time has no clock of its own; what is written for a node stays.
    assert all(not entry.remappings for entry in load_stack("calibration").in_namespace("a").nodes)
    kept = load_stack({"nodes": [{"executable": "vehicle_simulator", "remappings": {"/clock": "/clock"}}]}).in_namespace("a").nodes[0]
    assert kept.topic("/clock") == "/clock" and stack.nodes[0].topic("/clock") == "/a/clock"
    for wrong in (("a", "a"), ("1a",), ("",), ("a b",)):
        with pytest.raises(InputError, match="--namespace"):
            prepare_stack("simulator", namespaces=wrong)




def test_two_calibrators_learn_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One stack in two namespaces, each vehicle with recordings of its own, which differ: each posterior reaches its own vehicle."""
    pictures.leave_out(monkeypatch)
    (tmp_path / "recipe.yaml").write_text(small_problem.quick_recipe())
    watched = tmp_path / "recordings"
    for seed, name in enumerate("ab"):
        (watched / name).mkdir(parents=True)
        small_problem.write_bag(watched / name / "turn", "turn", seed=seed)
    stores = {name: PosteriorStore(watched / name / "calibrations" / "store") for name in "ab"}
    stack = {"parameters": {"scenario": "coast_down"}, "nodes": [
        # Two calibrators beside it may keep the driver from its turn for more than a second, which fails a run with the usual time-out.
        {"executable": "input_player"}, {"executable": "vehicle_simulator", "parameters": {"command_timeout": 30.0}},
        {"executable": "recorder", "parameters": {"bag": str(watched / "drive"), "topics": ["posterior", "vehicle/state"]}},
        {"executable": "calibrator", "parameters": {
            "watch_directory": str(watched), "recipe": str(tmp_path / "recipe.yaml"), "apply_policy": "AUTO", "priority": "normal",
            "apply_speed_limit": -1.0, "gate_ess": 0.0, "gate_r_hat": 10.0, "gate_coverage_lower": 0.0, "gate_coverage_upper": 1.0,
            "gate_change_sd": 1e9, "gate_change_relative": 1e9}}]}

    def learned() -> bool:
        return all(store.in_force() is not None for store in stores.values())

    summary = run_stack(stack, namespaces=("a", "b"), until=learned, timeout=180.0)
    assert summary["reason"] == "until" and set(summary["namespaces"]) == {"/a", "/b"}
    means = {}
    for name, store in stores.items():
        version, = store.versions()
        assert [Path(recording["path"]).parent for recording in version.manifest["recordings"]] == [watched / name]
        means[name] = version.summary["stages"][0]["passed_on"]["cornering_stiffness_front"]
        topics = {topic["topic"]: topic["count"] for topic in bag_info(watched / name / "drive", digest=False)["topics"]}
        assert set(topics) == {f"/{name}/posterior", f"/{name}/vehicle/state"} and topics[f"/{name}/vehicle/state"] > 10
        told = read_series(watched / name / "drive", "posterior", ["posterior_version", "target_values[0]"])
        assert told.values[-1].tolist() == [1.0, pytest.approx(means[name])]
    assert means["a"] != means["b"]


def test_what_nodes_keep_is_apart_in_several_namespaces() -> None:
    stack = prepare_stack("drive_and_calibrate", namespaces=("a", "fleet/b"), overrides={
        "store": "kept", "/a/calibrator.watch_directory": "elsewhere"})[0]
    kept = {entry.full_name: {name: entry.parameters.get(name) for name in ("bag", "watch_directory", "store") if name in entry.table}
            for entry in stack.nodes if entry.executable in ("recorder", "calibrator")}
    assert kept == {
        "/a/recorder": {"bag": "recordings/a/second"}, "/fleet/b/recorder": {"bag": "recordings/fleet/b/second"},
        "/a/calibrator": {"watch_directory": "elsewhere", "store": "kept/a"},
        "/fleet/b/calibrator": {"watch_directory": "recordings/fleet/b", "store": "kept/fleet/b"}}
    assert prepare_stack("drive_and_calibrate", namespaces=("a",))[0].nodes[0].parameters["bag"] == "recordings/second"
    with pytest.raises(InputError, match="has no node '/c/calibrator'"):
        prepare_stack("drive_and_calibrate", namespaces=("a", "b"), overrides={"/c/calibrator.store": "x"})
