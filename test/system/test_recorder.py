"""What the recorder keeps besides the messages."""

import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from diagnostic_msgs.msg import KeyValue
from rosbags.interfaces import QosDurability, QosReliability
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger

from lfdm_ros.bags import open_bag, read_series, typestore
from lfdm_ros.errors import InputError, RunError
from lfdm_ros.nodes import recorder as recorder_module
from lfdm_ros.nodes.recorder import Recorder, record_from_cli
from lfdm_ros.ros import qos, topics
from lfdm_ros.ros.runtime import run_node
from lfdm_ros.ros.topics import interface_class


def test_a_latched_topic_is_recorded_as_one(graph: Any, tmp_path: Path) -> None:
    latched = graph.node.create_publisher(String, "/latched", qos.LATCHED)
    sensor = graph.node.create_publisher(String, "/sensor", qos.SENSOR)
    latched.publish(String(data="early"))
    recorder = graph.add(Recorder, bag=str(tmp_path / "bag"), topics=["/latched", "/sensor"])
    graph.wait(lambda: sensor.get_subscription_count(), "the recorder's subscription")
    sensor.publish(String(data="x"))
    graph.wait(lambda: recorder.bag.written == 2, "both messages")
    recorder.release()
    with open_bag(tmp_path / "bag") as bag:
        offered = {c.topic: c.ext.offered_qos_profiles for c in bag.connections}
    assert [(p.durability, p.reliability) for p in offered["/latched"]] == [(QosDurability.TRANSIENT_LOCAL, QosReliability.RELIABLE)]
    assert [(p.durability, p.reliability) for p in offered["/sensor"]] == [(QosDurability.VOLATILE, QosReliability.BEST_EFFORT)]
    assert offered["/latched"][0].lifespan == (9223372036, 854775807)


def test_recordings_by_service_each_have_a_bag(graph: Any, tmp_path: Path) -> None:
    talker = graph.node.create_publisher(String, "/talker", qos.LATCHED)
    talker.publish(String(data="once"))
    recorder = graph.add(Recorder, bag=str(tmp_path / "drive_{}"), topics=["/talker"], waits=True)
    assert graph.call(Trigger, "/recorder/stop").message == "nothing is recorded"
    for number in (1, 2):
        answer = graph.call(Trigger, "/recorder/start")
        assert answer.success and answer.message == str(tmp_path / f"drive_{number}")
        again = graph.call(Trigger, "/recorder/start")
        assert not again.success and "records already" in again.message
        graph.wait(lambda: recorder.bag.written == 1, "the latched message")
        assert graph.call(Trigger, "/recorder/stop").message == str(tmp_path / f"drive_{number}")
        with open_bag(tmp_path / f"drive_{number}") as bag:
            assert [c.msgcount for c in bag.connections] == [1] and bag.note is None
    assert recorder.diagnose()[1] == "waits to be started" and recorder.written == 2


def test_an_odd_topic_costs_no_other(graph: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """One whose type support does not load, and one whose definition is not found; both are listed before the good one."""
    def load(msgtype: str) -> Any:
        if msgtype.endswith("KeyValue"):
            raise RuntimeError("no type support")
        return interface_class(msgtype)

    monkeypatch.setattr(topics, "interface_class", load)
    monkeypatch.delitem(typestore.typestore().fielddefs, "std_msgs/msg/Bool")

    def nowhere(msgtype: str) -> Path:
        raise InputError(f"message type {msgtype} is unknown")

    monkeypatch.setattr(typestore, "definition_file", nowhere)
    publishers = [graph.node.create_publisher(kind, topic, qos.LATCHED)
                  for topic, kind in (("/a", KeyValue), ("/b", Bool), ("/c", String))]
    for publisher, message in zip(publishers, (KeyValue(), Bool(), String(data="x"))):
        publisher.publish(message)
    recorder = graph.add(Recorder, bag=str(tmp_path / "bag"), topics=["/a", "/b", "/c"])
    graph.wait(lambda: recorder.bag.written, "the good topic")
    graph.wait(lambda: recorder.diagnose()[2]["topics_not_recorded"] == "/a, /b")
    assert recorder.bag.failure == ""
    recorder.release()
    assert recorder.errors == []


class Full:
    """Stands in for BagWriter on a full disk."""

    def __init__(self, *args: Any, **options: Any) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def offer(self, *args: Any) -> None:
        pass

    def write_raw(self, *args: Any) -> None:
        raise InputError("no space left")

    def close(self) -> None:
        pass


def test_a_node_whose_bag_failed_has_failed(monkeypatch: Any, tmp_path: Path) -> None:
    class Watched(Recorder):
        def publish_diagnostics(self) -> None:
            super().publish_diagnostics()
            if self.state == "active" and self.bag.failure:
                self.stop_requested("seen")

    monkeypatch.setattr(recorder_module, "BagWriter", Full)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert run_node(Watched, ["recorder", "--ros-args", "-p", "autostart:=true", "-p", f"bag:={tmp_path / 'bag'}"]) == 1
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def test_bag_record_tells_what_went_wrong(monkeypatch: Any, tmp_path: Path) -> None:
    def fail(self: Recorder) -> list[Any]:
        if self.state == "active":
            raise ZeroDivisionError("division by zero")
        return []

    monkeypatch.setattr(Recorder, "get_topic_names_and_types", fail)
    with pytest.raises(RunError, match=r"recorder: .*: ZeroDivisionError"):
        record_from_cli(Namespace(out=str(tmp_path / "bag"), storage="mcap", topics=None, all=True, duration=0.6))


def test_bag_record_without_a_message_has_failed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no message came on /misspelt, so the bag is empty"):
        record_from_cli(Namespace(out=str(tmp_path / "bag"), storage="mcap", topics=["/misspelt"], all=False, duration=0.3))


def test_a_recorder_that_is_behind_gets_all_that_a_signalled_node_has_sent(graph: Any, tmp_path: Path) -> None:
    """A planned end of a stack signals the nodes one by one; the recorder's process has had no processor until just then."""
    def start(name: str, *parameters: str) -> subprocess.Popen[bytes]:
        options = [word for parameter in ("autostart:=true", *parameters) for word in ("-p", parameter)]
        return subprocess.Popen([sys.executable, "-m", "lfdm_ros.starting", f"lfdm_ros.nodes.{name}", "--ros-args", *options])

    def written() -> bool:
        return any(value.key == "written" and value.value != "0" for array in health for status in array.status for value in status.values)

    states = graph.listen("/vehicle/state", "lfdm_ros/msg/VehicleState", qos.STATE)
    health = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
    recorder = start("recorder", f"bag:={tmp_path / 'bag'}", "topics:=['/vehicle/state']")
    simulator = start("vehicle_simulator", "stepping:=free_running")
    try:
        # The graph names a subscription before the simulator has found it; only a message in the bag shows that it has.
        graph.wait(written, "a recorder of the states")
        recorder.send_signal(signal.SIGSTOP)
        heard = len(states)
        graph.wait(lambda: len(states) > heard + 30, "more states")
        simulator.send_signal(signal.SIGINT)
        time.sleep(0.3)
        recorder.send_signal(signal.SIGCONT)
        assert simulator.wait(20.0) == 0
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(20.0) == 0
    finally:
        for process in (simulator, recorder):
            process.kill()
            process.wait()
    graph.runtime.spin_some(0.1)
    recorded, newest = read_series(tmp_path / "bag", "vehicle/state", ["x"]), states[-1].header.stamp
    assert 1e-9 * recorded.stamp0 + recorded.time[-1] > newest.sec + 1e-9 * newest.nanosec - 1e-3
