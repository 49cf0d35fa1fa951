"""The launch files and their arguments; with launch_ros where it is installed, what they describe."""

import os
import re
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import domains
import pytest
from children import children, command
from waiting import until

from lfdm_ros.bags import bag_info
from lfdm_ros.errors import InputError
from lfdm_ros.resources import share_directory
from lfdm_ros.stacks.launching import ARGUMENTS, refuse_unknown, stack_from_arguments
from lfdm_ros.stacks.stack import Stack, load_stack

FILES = sorted((share_directory() / "launch").glob("*.launch.py"))


def given(**arguments: str) -> dict[str, str]:
    return {name: arguments.get(name, "simulator" if name == "stack" else "") for name in ARGUMENTS}


def values(stack: Stack, parameter: str) -> list[object]:
    return [entry.value(parameter) for entry in stack.nodes if parameter in entry.table]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_launch_file_has_its_stack(path: Path) -> None:
    assert load_stack(path.name.removesuffix(".launch.py")).nodes


def test_without_arguments_the_stack_is_as_it_is_written() -> None:
    assert stack_from_arguments(given()) == load_stack("simulator")


def test_arguments_reach_every_node_that_has_the_parameter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stack = stack_from_arguments(given(stack="autonomy", vehicle="sedan", scenario="moving_obstacle", speed="2", record="drive",
                           set="vehicle_simulator.publish_rate=50; stepping=lockstep"))
    assert values(stack, "vehicle") == ["sedan"] * 4
    assert values(stack, "scenario") == ["moving_obstacle"] * 2
    assert values(stack, "stepping") == ["lockstep"] * 2
    assert values(stack, "speed_factor") == [2.0] and values(stack, "publish_rate") == [50.0]
    # The recorder hears everybody, and may be started in another folder.
    assert stack.nodes[0].value("bag") == str(tmp_path / "drive")


def test_arguments_of_the_bridge_to_hardware() -> None:
    stack = stack_from_arguments(given(stack="hil", vehicle="sedan", namespace="bench", record="drive",
                           set="mode=lockstep; can_interface=socketcan; hil_bridge.can_channel=can0"))
    recorder, bridge = stack.nodes
    assert bridge.full_name == "/bench/hil_bridge" and recorder.executable == "recorder"
    assert [bridge.value(name) for name in ("vehicle", "mode", "link", "can_interface", "can_channel")] == [
        "sedan", "lockstep", "can", "socketcan", "can0"]


@pytest.mark.parametrize(("arguments", "words"), [
    ({"stack": "hil", "speed": "2"}, "speed: no node of"),
    ({"speed": "abc"}, "speed: 'abc' is no number"),
    ({"speed": "-1"}, "speed: -1.0 is outside"),
    ({"stack": "calibration", "scenario": "ramp_steer"}, "scenario: no node of"),
    ({"set": "ghost.x=1"}, "set ghost.x:"),
])
def test_arguments_that_do_not_fit_are_named(arguments: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        stack_from_arguments(given(**arguments))


def test_unknown_arguments_are_refused_where_the_file_is_what_was_launched() -> None:
    file = str(FILES[0])
    for words in (["ros2", "launch", "lfdm_ros", FILES[0].name, "colour:=red"], ["ros2", "launch", file, "colour:=red"]):
        with pytest.raises(InputError, match=r"colour:=red: .* has no argument 'colour'; it has stack, vehicle"):
            refuse_unknown(["colour:=red"], file, words)
        refuse_unknown(["speed:=2", "launch-prefix:=nice"], file, words)
    refuse_unknown(["colour:=red"], file, ["ros2", "launch", "their_package", "all.launch.py", "colour:=red"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_launch_file_declares_its_arguments(path: Path) -> None:
    pytest.importorskip("launch_ros", reason="launch_ros is not installed (it has no wheels)")
    description = runpy.run_path(str(path))["generate_launch_description"]()
    declared = {argument.name: argument for argument in description.get_launch_arguments()}
    assert list(declared) == list(ARGUMENTS)
    assert [part.text for part in declared["stack"].default_value] == [path.name.removesuffix(".launch.py")]


LAUNCH = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import AnyLaunchDescriptionSource
service = LaunchService(argv=sys.argv[2:])
arguments = [tuple(argument.split(":=")) for argument in sys.argv[2:]]
service.include_launch_description(
    LaunchDescription([IncludeLaunchDescription(AnyLaunchDescriptionSource(sys.argv[1]), launch_arguments=arguments)]))
sys.exit(service.run())
"""


@pytest.fixture
def launched(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A recorded drive under launch that has begun, in a group of processes as a terminal's, and its bag."""
    pytest.importorskip("launch_ros", reason="launch_ros is not installed (it has no wheels)")
    bag = tmp_path / "bag"
    command = [sys.executable, "-c", LAUNCH, str(share_directory() / "launch" / "simulator.launch.py"), f"record:={bag}"]
    with subprocess.Popen(command, env=domains.environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          start_new_session=True) as run:
        try:
            until(lambda: sum(path.stat().st_size for path in bag.glob("*.mcap")) > 30_000)
            yield run, bag
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nodes_end_with_the_launch_that_started_them(launched: tuple[subprocess.Popen[str], Path], number: signal.Signals) -> None:
    run, bag = launched
    nodes = children(run.pid)
    assert len(nodes) >= 4
    run.send_signal(number)
    until(lambda: not any(map(command, nodes)))
    assert bag_info(bag, digest=False)["closed"]


def test_ctrl_c_resumes_a_stopped_node_under_launch(launched: tuple[subprocess.Popen[str], Path]) -> None:
    run, bag = launched
    os.kill(next(node.pid for node in children(run.pid) if "recorder" in " ".join(node.cmdline()[:3])), signal.SIGSTOP)
    os.killpg(run.pid, signal.SIGINT)
    output = run.communicate(timeout=180)[0]
    assert run.returncode == 1 and "node recorder was stopped (SIGSTOP)" in output and "escalating" not in output
    assert bag_info(bag, digest=False)["closed"]
