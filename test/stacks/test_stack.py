"""Stack files, scenarios and parameters: what is wrong is named."""

from pathlib import Path
from typing import Any

import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.resources import share_directory
from lfdm_ros.ros.parameters import Parameter, ros_parameter
from lfdm_ros.simulation import load_scenario
from lfdm_ros.stacks.processes import node_arguments
from lfdm_ros.stacks.stack import EXECUTABLES, NodeEntry, load_stack, parse_override, prepare_stack

SIMULATOR: dict[str, Any] = {"nodes": [{"executable": "vehicle_simulator"}]}


def ships(kind: str) -> list[str]:
    return sorted(path.stem for path in (share_directory() / "config" / kind).glob("*.yaml"))


@pytest.mark.parametrize("name", ships("scenarios"))
def test_shipped_scenarios_load_and_cover_their_duration(name: str) -> None:
    scenario = load_scenario(name)
    if scenario.profile is None:
        assert scenario.goal is not None or scenario.path is not None
    else:
        assert scenario.profile.time[0] == 0.0 and scenario.profile.time[-1] <= scenario.duration


def test_executables_are_the_modules_that_define_a_node() -> None:
    folder = share_directory() / "lfdm_ros" / "nodes"
    if not folder.is_dir():
        pytest.skip("not run from the source tree")
    assert sorted(EXECUTABLES) == sorted(p.stem for p in folder.glob("*.py") if "\n    NAME = " in p.read_text())


@pytest.mark.parametrize(("change", "words"), [
    ({"colour": 1}, "unknown key 'colour'"),
    ({"nodes": []}, "nodes: give a list"),
    ({"processes": "each"}, "processes: expected true or false, found 'each'"),
    ({"nodes": [{"executable": "warp_drive"}]}, "executable 'warp_drive' is unknown"),
    ({"nodes": [{"executable": "vehicle_simulator", "nme": "x"}]}, "nodes[0]: unknown key 'nme'"),
    ({"nodes": [{"executable": "vehicle_simulator", "parameters": {"speed": 1}}]}, "nodes[0]: parameters: speed"),
    ({"nodes": [{"executable": "vehicle_simulator", "parameters": {"publish_rate": "fast"}}]}, "'fast' is no number"),
    ({"nodes": [{"executable": "vehicle_simulator", "parameters": {"publish_rate": float("nan")}}]}, "nan is outside"),
    ({"nodes": [{"executable": "vehicle_simulator", "parameters": {"stepping": "sideways"}}]}, "free_running, lockstep"),
    ({"nodes": [{"executable": "vehicle_simulator"}, {"executable": "vehicle_simulator"}]}, "two nodes are named"),
    ({"nodes": [{"executable": "input_player"}, {"executable": "mpc_controller", "remappings": {"autonomy/command": "control/command"}}]},
     "/input_player and /mpc_controller both publish /control/command; rename it for one"),
    ({"nodes": [{"executable": "vehicle_simulator", "namespace": name} for name in "ab"]}, "both publish /clock"),
    ({"parameters": {"seat_colour": 1}}, "no node has a parameter 'seat_colour'"),
    ({"parameters": {"vehicle_width": 2.0}}, "vehicle_width'; it is of the vehicle now: body.overall_width in its file"),
    ({"nodes": [{"executable": "vehicle_simulator", "parameters": {"brake_rate": 2.0}}]}, "actuators.brake_rate in its file"),
    ({"nodes": [{"executable": "vehicle_simulator", "autostart": "yes"}]}, "autostart: expected true or false, found 'yes'"),
])
def test_errors_name_the_key(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as error:
        load_stack({**SIMULATOR, **change})
    assert words in str(error.value)


def test_a_file_is_named_in_its_errors(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("nodes: [{executable: vehicle_simulator, parameters: {physics_stp: 0.001}}]")
    with pytest.raises(InputError, match=r"mine\.yaml: nodes\[0\].*physics_stp"):
        load_stack(path)
    path.write_text("nodes: [")
    with pytest.raises(InputError, match=r"mine\.yaml"):
        load_stack(path)


def test_own_parameters_go_before_common_ones_and_overrides_before_both() -> None:
    data = {"parameters": {"scenario": "ramp_steer"}, "nodes": [
        {"executable": "vehicle_simulator", "parameters": {"scenario": "coast_down", "speed_factor": 2}},
        {"executable": "input_player"}]}
    stack = load_stack(data)
    assert [entry.value("scenario") for entry in stack.nodes] == ["coast_down", "ramp_steer"]
    assert stack.nodes[0].value("speed_factor") == 2.0 and isinstance(stack.nodes[0].value("speed_factor"), float)
    prepared, timeout = prepare_stack(data, speed=0, duration=3, record="b", overrides={
        "scenario": "sine_steer", "vehicle_simulator.publish_rate": 50})
    recorder, simulator, player = prepared.nodes
    assert recorder.value("bag") == str(Path("b").absolute()) and recorder.value("use_sim_time") is True
    assert (simulator.value("speed_factor"), simulator.value("stop_time"), simulator.value("publish_rate")) == (0.0, 3.0, 50.0)
    assert simulator.value("scenario") == player.value("scenario") == "sine_steer"
    assert timeout is None


def test_who_drives_a_scenario_ends_the_run_with_it_unless_the_stack_says_otherwise() -> None:
    nodes = [{"executable": "input_player"}, {"executable": "mpc_controller", "parameters": {"task": "scenario"}},
             {"executable": "mpc_controller", "name": "by_goals"}, {"executable": "operator_model", "parameters": {
                 "task": "scenario", "on_finish": "idle"}}, {"executable": "vehicle_simulator"}]
    ending = load_stack({"nodes": [{**node, "namespace": f"n{i}"} for i, node in enumerate(nodes)]}).ending_with_scenario()
    assert [node.value("on_finish") for node in ending.nodes[:-1]] == ["shutdown", "shutdown", "idle", "idle"]


def test_without_a_simulator_the_duration_is_wall_time() -> None:
    _, timeout = prepare_stack({"nodes": [{"executable": "calibrator"}]}, duration=3)
    assert timeout == 3
    with pytest.raises(InputError, match="--speed: no node"):
        prepare_stack({"nodes": [{"executable": "calibrator"}]}, speed=1)


@pytest.mark.parametrize(("text", "expected"), [
    ("a.b=1.5", ("a.b", 1.5)), ("x=hello", ("x", "hello")), ("a.t=[u, v]", ("a.t", ["u", "v"])), ("a.b=", ("a.b", ""))])
def test_set_reads_yaml(text: str, expected: tuple[str, Any]) -> None:
    assert parse_override(text) == expected


@pytest.mark.parametrize("text", ["novalue", "=3", "a=["])
def test_set_refuses(text: str) -> None:
    with pytest.raises(InputError, match="--set"):
        parse_override(text)


def test_a_former_name_is_taken_and_a_removed_one_refused(capsys: pytest.CaptureFixture[str]) -> None:
    shared = {"nodes": [{"executable": "shared_control", "parameters": {"patience": 3.0}}]}
    entry, = load_stack(shared).nodes
    assert entry.value("uncommanded_stop_timeout") == 3.0
    stack, _ = prepare_stack(shared, overrides={"patience": 4, "shared_control.answer_patience": 6.0})
    assert (stack.nodes[0].value("uncommanded_stop_timeout"), stack.nodes[0].value("answer_timeout")) == (4.0, 6.0)
    assert capsys.readouterr().err.count("patience is uncommanded_stop_timeout now; the next release takes the new name only") == 3
    for parameters, words in (({"filter_margin": 0.3}, "it was of mode filter"), ({"mode": "filter"}, "it has been removed")):
        with pytest.raises(InputError, match=words):
            load_stack({"nodes": [{"executable": "shared_control", "parameters": parameters}]})


def test_override_of_an_unknown_node() -> None:
    with pytest.raises(InputError, match="has no node 'ghost'; it has vehicle_simulator"):
        prepare_stack(SIMULATOR, overrides={"ghost.speed_factor": 1})


@pytest.mark.parametrize(("namespace", "remappings", "topic", "resolved"), [
    ("", {}, "odom", "/odom"),
    ("car", {}, "odom", "/car/odom"),
    ("/a/b", {}, "/clock", "/clock"),
    ("car", {}, "~/reset", "/car/sim/reset"),
    ("car", {"odom": "o"}, "odom", "/car/o"),
    ("car", {"odom": "/o"}, "/car/odom", "/o"),
    ("", {"/clock": "time"}, "/clock", "/time"),
    ("", {"odom": "o"}, "imu", "/imu"),
])
def test_topics_as_they_are_named_in_the_graph(namespace: str, remappings: dict[str, str], topic: str, resolved: str) -> None:
    assert NodeEntry("vehicle_simulator", "sim", namespace, remappings=remappings).topic(topic) == resolved


def test_a_stack_below_a_namespace() -> None:
    stack = load_stack({"nodes": [{"executable": "recorder", "namespace": name} for name in ("", "car", "/far")]})
    assert [entry.full_name for entry in stack.in_namespace("/fleet").nodes] == ["/fleet/recorder", "/fleet/car/recorder", "/far/recorder"]
    assert all(not entry.remappings for entry in stack.in_namespace("/fleet").nodes)
    assert [entry.full_name for entry in stack.in_namespace("").nodes] == [entry.full_name for entry in stack.nodes]


def test_process_arguments_carry_names_and_parameters(tmp_path: Path) -> None:
    entry = load_stack({"nodes": [{"executable": "vehicle_simulator", "name": "sim", "namespace": "car",
                                   "parameters": {"vehicle": "hmmwv"}, "remappings": {"odom": "o"}}]}).nodes[0]
    arguments = node_arguments(entry, tmp_path / "p.yaml")
    assert arguments == ["--ros-args", "-r", "__node:=sim", "-r", "__ns:=/car", "-r", "odom:=o", "--enclave", "/car/sim",
                         "--params-file", str(tmp_path / "p.yaml")]
    assert "vehicle: hmmwv" in (tmp_path / "p.yaml").read_text()


def test_parameter_types() -> None:
    number, whole, words = Parameter("n", 1.0, ""), Parameter("w", 1, ""), Parameter("t", [], "")
    assert number.convert(2, "n") == 2.0
    assert words.convert([], "t") == [] and ros_parameter(words, []).type_ == ros_parameter(words, ["a"]).type_
    for parameter, value in ((number, True), (whole, 1.5), (words, [1]), (words, "a")):
        with pytest.raises(InputError):
            parameter.convert(value, "x")


def test_a_table_of_inputs_is_a_scenario(tmp_path: Path) -> None:
    path = tmp_path / "inputs.txt"
    path.write_text("0 0 0 0\n2.5 0.1 0.2 0\n")
    scenario = load_scenario(path)
    assert scenario.duration == 2.5 and scenario.initial.speed == 0.0


def test_a_stack_that_records_itself_does_so_where_it_is_asked_to():
    for topics, names in (([], ["recorder", "state_sensor"]), (["/clock"], ["stack_recorder", "state_sensor", "recorder"])):
        own = {"executable": "recorder", "parameters": {"bag": "own", "topics": topics}}
        stack = load_stack({"nodes": [{"executable": "state_sensor"}, own]})
        recorded = stack.with_recorder("asked", sim_time=True)
        assert [entry.name for entry in recorded.nodes] == names and recorded.nodes[0].parameters["bag"] == str(Path("asked").absolute())
