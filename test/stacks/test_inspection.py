"""The commands topic, param and call beside a node in another process."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import domains
import pytest
from geometry_msgs.msg import PoseStamped

from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.msg import VehicleState
from lfdm_ros.ros.message_fields import filled, part, plain
from lfdm_ros.ros.topics import interface_class
from lfdm_ros.srv import InjectFault


@pytest.fixture(scope="module")
def domain() -> Iterator[str]:
    """A vehicle that stands, in a process of its own."""
    number = str(domains.other())
    process = subprocess.Popen([sys.executable, "-m", "lfdm_ros.cli", "up", "hil", "--duration", "600"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env={**os.environ, "ROS_DOMAIN_ID": number})
    yield number
    process.send_signal(signal.SIGINT)
    process.wait(timeout=60)


@pytest.fixture(autouse=True)
def beside(domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", domain)


PATIENCE = ["--timeout", "120"]


def lines(capsys: pytest.CaptureFixture[str], *args: str) -> list[str]:
    assert main(list(args)) == 0
    return capsys.readouterr().out.splitlines()


def test_topics_are_heard_listed_and_timed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown = lines(capsys, "topic", "echo", "vehicle/state", "--count", "2", *PATIENCE)
    assert "frame_id: odom" in "\n".join(shown) and shown.count("---") == 2
    assert lines(capsys, "topic", "echo", "/vehicle/state", "--field", "wheel_speeds[2]", "--count", "1") == ["0.0"]
    assert main(["topic", "list", "--json"]) == 0
    listed = {row["topic"]: row for row in json.loads(capsys.readouterr().out)}
    assert listed["/vehicle/state"] == {"topic": "/vehicle/state", "type": "lfdm_ros/msg/VehicleState", "publishers": 1, "subscribers": 0}
    assert any(" Hz; gaps [ms]: " in line for line in lines(capsys, "topic", "hz", "/vehicle/state", "--seconds", "3", "--figure",
                                                                str(tmp_path / "gaps.svg")))
    assert (tmp_path / "gaps.svg").read_text().startswith("<?xml")
    assert main(["topic", "echo", "/vehicle/stat", "--timeout", "5"]) == 2
    assert "did you mean /vehicle/state?" in capsys.readouterr().err


def test_parameters_are_listed_read_and_set_within_what_the_node_allows(capsys: pytest.CaptureFixture[str]) -> None:
    deadline = time.monotonic() + 120.0
    while "/hil_bridge" not in lines(capsys, "param", "list") and time.monotonic() < deadline:
        pass
    assert "rate" in lines(capsys, "param", "list", "hil_bridge", *PATIENCE)
    assert lines(capsys, "param", "get", "hil_bridge", "rate") == ["100.0"]
    assert "[Hz]; 1 to 10000" in lines(capsys, "param", "describe", "hil_bridge", "rate")[0]
    assert "    rate: 100.0" in lines(capsys, "param", "dump", "hil_bridge")
    assert main(["param", "set", "hil_bridge", "rate", "7"]) == 2
    assert "hil_bridge rate: rate cannot change once the node is configured" in capsys.readouterr().err
    assert main(["param", "get", "hil_bridge", "ratte"]) == 2
    assert "did you mean rate?" in capsys.readouterr().err


def test_services_are_called_and_say_what_was_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    fault = "{fault: bias, signal: yaw_rate, value: 1, duration: 2.0}"
    assert "success: true" in lines(capsys, "call", "hil_bridge/inject_fault", fault, *PATIENCE)[0]
    assert main(["call", "hil_bridge/inject_fault", "{fault: no_such_fault}"]) == 1
    assert "success: false" in capsys.readouterr().out
    assert main(["call", "hil_bridge/inject_fault", "{falt: bias}"]) == 2
    assert "falt: no such field; there are: fault, signal, value" in capsys.readouterr().err
    assert any("/hil_bridge/inject_fault" in line for line in lines(capsys, "call"))


def test_values_go_into_messages_and_back() -> None:
    values = {"header": {"stamp": {"sec": 3, "nanosec": 5}, "frame_id": "map"},
              "pose": {"position": {"x": 1, "y": 2.5, "z": 0.0}, "orientation": {"x": 0.0, "y": 0.0, "z": 0.0, "w": 1.0}}}
    message = filled(PoseStamped, values)
    assert plain(message) == values and part(message, "pose.position.y") == 2.5
    assert plain(VehicleState(wheel_names=["a"] * 5), 3)["wheel_names"] == ["a", "a", "a", "... 5 in all"]


@pytest.mark.parametrize(("values", "message"), [
    ({"value": "abc"}, "value: 'abc' is not of type double"), ({"value": [1.0]}, r"value: \[1.0\] is not of type double"),
    ({"falt": 1}, "falt: no such field; there are: fault, "), ([1], r"request: \[1\] is no mapping of fields"),
])
def test_values_that_do_not_fit_are_named(values: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        filled(InjectFault.Request, values)


@pytest.mark.parametrize("name", ["Odometry", "nav_msgs/Odometry", "nav_msgs/msg/NoSuch", "no_such_msgs/msg/Odometry", "os/path/join"])
def test_types_that_are_not_there_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"is not the name of a type|is not installed"):
        interface_class(name)


@pytest.mark.parametrize("path", ["pose.nothing", "pose.position.x.y", "header.frame_id[0]"])
def test_parts_that_are_not_there_are_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no '.*' there"):
        part(PoseStamped(), path)
