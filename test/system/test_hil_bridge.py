"""The bridge to hardware on the running graph: lockstep bags, faults on request, the mirror, the report."""

import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ports import free_port

from lfdm_ros.bags import bag_info, read_series
from lfdm_ros.cli.main import main
from lfdm_ros.engine.command_hold import CommandHold
from lfdm_ros.engine.plant import ActuatedPlant
from lfdm_ros.hil.link import COMMANDS, CONTROLLER, VEHICLE, LinkSettings, Packet, make_link
from lfdm_ros.hil.report import differences
from lfdm_ros.hil.rig import LOCKSTEP, Listeners, Pace, Rig
from lfdm_ros.msg import DriverCommand, VehicleState
from lfdm_ros.nodes.hil_bridge import HilBridge
from lfdm_ros.resources import share_directory
from lfdm_ros.ros import qos
from lfdm_ros.ros.messages import nanoseconds
from lfdm_ros.simulation import Pose, Simulator
from lfdm_ros.srv import InjectFault
from lfdm_ros.stacks.compose import run_stack
from lfdm_ros.stacks.processes import run_processes
from lfdm_ros.stacks.stack import load_stack, prepare_stack
from lfdm_ros.vehicles import load_vehicle

FAULTS = "{faults: [{fault: bias, signal: yaw_rate, value: 0.1, from: 0.3, until: 0.6}]}"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Bags of two equal lockstep runs over ROS, and of one with another seed of the noise."""
    folder, bags = tmp_path_factory.mktemp("hil"), []
    (folder / "faults.yaml").write_text(FAULTS)
    for number, seed in enumerate((1, 1, 2)):
        (folder / f"noise{seed}.yaml").write_text(f"{{seed: {seed}, sensors: {{yaw_rate: {{noise: 0.01}}}}}}")
        bags.append(folder / f"run{number}")
        summary = run_stack({"nodes": [
            {"executable": "input_player", "parameters": {"scenario": "double_lane_change", "at_end": "hold"}},
            {"executable": "hil_bridge", "parameters": {
                "link": "ros", "mode": "lockstep", "initial_speed": 16.0, "stop_time": 1.0, "wait_limit": 60.0,
                "faults": str(folder / "faults.yaml"), "realism": str(folder / f"noise{seed}.yaml")}}]}, record=bags[-1], timeout=120.0)
        assert summary["reason"] == "simulated 1 s" and summary["unanswered"] == 0 and summary["messages_dropped"] == 0
    return bags


def test_two_equal_runs_give_equal_bags(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    same, lines = differences(*runs[:2])
    assert not lines and same["/vehicle/state"] == same["/measured/state"] + 1 == 101 and same["/control/command"] >= 100
    assert main(["hil", "compare", str(runs[0]), str(runs[2])]) == 1
    out = capsys.readouterr().out
    assert "/vehicle/state: 101 messages, equal" in out  # the truth: who drives here does not look at what is measured
    assert "/measured/state: 100 and 100 messages, the first that differs is number 0" in out


def test_the_report_shows_timing_faults_and_responses(runs: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert main(["hil", "report", str(runs[0]), "--out", str(out)]) == 0
    page = out.read_text()
    for words in ("Role vehicle, link ros, lockstep, 100 Hz", "bias yaw_rate 0.1 rad/s</td><td>0.300 s</td><td>0.600 s", "<h3>responses",
                  "steering, throttle, brake [1], /control/command", "yaw rate as measured"):
        assert words in page, words
    assert page.count('src="data:image/png') == page.count("src=") >= 6 and "href=" not in page
    assert main(["hil", "report", str(tmp_path)]) == 2


def test_faults_on_request_are_told_and_cleared(graph: Any) -> None:
    told = graph.listen("hil/faults", "lfdm_ros/msg/HilFaults", qos.LATCHED)
    status = graph.listen("hil/status", "lfdm_ros/msg/HilStatus")
    states = graph.listen("measured/state", "lfdm_ros/msg/VehicleState")
    diagnostics = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
    graph.add(HilBridge, link="ros", rate=50.0)
    graph.wait(lambda: status and status[-1].ticks > 5)
    assert status[-1].link_state == "waiting" and status[-1].period == 0.02 and sum(status[-1].lateness) == status[-1].ticks
    graph.wait(lambda: getattr(graph.diagnosis(diagnostics, "hil_bridge"), "message", "") == "nothing came on link ros yet")
    refused = graph.call(InjectFault, "hil_bridge/inject_fault", fault="bias", signal="x")
    assert not refused.success and "give its value" in refused.message
    assert graph.call(InjectFault, "hil_bridge/inject_fault", fault="bias", signal="ax", value=7.0).success
    graph.wait(lambda: told and list(told[-1].active) == ["bias ax 7 m/s^2"] and states[-1].ax > 5.0)
    since = nanoseconds(told[-1].header.stamp)
    assert next(state.ax for state in states if nanoseconds(state.header.stamp) >= since) > 5.0
    assert graph.call(InjectFault, "hil_bridge/inject_fault", fault="clear").message == "1 faults ended"
    graph.wait(lambda: not told[-1].active and states[-1].ax < 5.0)


def test_the_mirror_puts_our_controller_behind_a_link(graph: Any) -> None:
    """A bench in lockstep over UDP; the controller is a subscription of the test."""
    here, there = free_port(), free_port()
    graph.add(HilBridge, role="controller", link="udp", udp_port=here, udp_peer_port=there)
    publisher = graph.node.create_publisher(DriverCommand, "control/command", qos.COMMAND)
    heard: list[VehicleState] = []

    def answer(state: VehicleState) -> None:
        heard.append(state)
        command = DriverCommand(steering=0.1, throttle=0.3)
        command.header.stamp = state.header.stamp
        publisher.publish(command)

    graph.node.create_subscription(VehicleState, "vehicle/state", answer, qos.STATE)
    graph.wait(lambda: publisher.get_subscription_count() and graph.node.count_publishers("vehicle/state"))
    clock = graph.listen("/clock", "rosgraph_msgs/msg/Clock")
    plant = ActuatedPlant(Simulator(load_vehicle("hmmwv"), dt=1e-3), 10)
    plant.reset(Pose(speed=5.0), 0.0)
    ends: list[str] = []
    rig = Rig(plant, make_link("udp", VEHICLE, LinkSettings(udp_port=there, udp_peer_port=here)), CommandHold(0.5, 1.0, 0.5),
              Pace(LOCKSTEP, stop_time=0.5, wait_limit=60.0, free_wheel=0.2), Listeners(ended=ends.append, failed=ends.append))
    bench = threading.Thread(target=rig.run)
    bench.start()
    graph.wait(lambda: not bench.is_alive(), "the bench's end")
    assert ends == ["simulated 0.5 s"] and rig.unanswered == 0 and plant.inputs.tolist() == [0.1, 0.3, 0.0]
    graph.wait(lambda: clock and nanoseconds(clock[-1].clock) == 490_000_000)
    assert sorted({nanoseconds(state.header.stamp) for state in heard}) == [k * 10_000_000 for k in range(50)]
    assert 5.5 < heard[-1].vx < 7.0 and heard[-1].wheel_speeds[0] > 5.0


def test_a_second_device_is_an_error_and_brakes(graph: Any) -> None:
    here, there, elsewhere = free_port(), free_port(), free_port()
    status = graph.listen("hil/status", "lfdm_ros/msg/HilStatus")
    diagnostics = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
    device, rogue = (make_link("udp", CONTROLLER, LinkSettings(udp_port=port, udp_peer_port=here)) for port in (there, elsewhere))
    device.open()
    rogue.open()
    node = graph.add(HilBridge, link="udp", rate=20.0, command_timeout=5.0, timeout_ramp=0.0, initial_speed=10.0, udp_port=here,
                     udp_peer_port=there)
    senders = [device]

    def answered() -> None:
        """All that came is answered, by each sender."""
        while (packet := device.receive(0.0)) is not None:
            for sender in senders:
                sender.send(Packet(packet.stamp_ns, dict(zip(COMMANDS, (0.0, 0.1, 0.0)))))

    def state() -> str:
        answered()
        return status[-1].link_state if status else ""

    graph.wait(lambda: state() == "up", "the first device's being taken")
    senders.append(rogue)
    graph.wait(lambda: state() == "invalid" and status[-1].command_timed_out, "braking")
    assert "second_sender" in status[-1].refused_names

    def said() -> bool:
        answered()
        return getattr(graph.diagnosis(diagnostics, "hil_bridge"), "message", "").startswith(
            f"link udp is invalid: two senders: messages come from 127.0.0.1:{there} and from 127.0.0.1:{elsewhere}")

    graph.wait(said, "the error")
    assert graph.diagnosis(diagnostics, "hil_bridge").level == b"\x02"
    senders.remove(rogue)
    graph.wait(lambda: state() == "up" and not status[-1].command_timed_out, "the first device's being taken again")
    assert node.summary()["messages_refused"]["second_sender"] > 0
    device.close()
    rogue.close()


def test_the_stack_in_processes_against_the_example_device(tmp_path: Path) -> None:
    """As docs/howto/hil.md tells it: `lfdm up hil --processes` on a CAN bus, and the report of what it has recorded."""
    bag, port = tmp_path / "drive", str(free_port())
    device = subprocess.Popen([sys.executable, str(share_directory() / "examples" / "can_device.py"), "--port", port, "--seconds", "120"],
                              stdout=subprocess.PIPE, text=True)
    try:
        assert device.stdout is not None and device.stdout.readline() == "ready\n"
        stack, timeout = prepare_stack("hil", duration=1.0, record=bag, overrides={
            "can_port": int(port), "mode": "lockstep", "wait_limit": 60.0, "priority": 0, "lock_memory": False, "initial_speed": 12.0})
        summary = run_processes(stack, timeout)
    finally:
        device.terminate()
        device.communicate()
    assert summary["reason"] == "hil_bridge ended"
    driven = read_series(bag, "vehicle/state", ["x", "vx"])
    assert len(np.unique(driven.time)) == 101 and 11.0 < driven.values[-1, 0] < 13.0 and bag_info(bag, digest=False)["closed"]
    assert main(["hil", "report", str(bag)]) == 0
    page = (tmp_path / "drive.html").read_text()
    # Packets may be more than ticks: the first state is sent until it is answered, and a device that comes late answers it more than once.
    assert len(read_series(bag, "control/command", ["steering"]).time) == 100
    for words in ("Role vehicle, link can, lockstep, 100 Hz", "refused by the gate</td><td>0<", "ticks without an answer</td><td>0<"):
        assert words in page, words


@pytest.mark.parametrize("name", ["hil_controller", "hil_shared_control"])
def test_our_nodes_are_the_device_under_test(tmp_path: Path, name: str) -> None:
    """The mirror's stack, and at the other end of its link a second bridge, with its vehicle, in a namespace of its own."""
    here, there, scenario = free_port(), free_port(), "nato_lane_change"
    mirror = load_stack(name).with_override("stepping", "lockstep", "").with_override("hil_bridge.udp_port", there, "")
    mirror = mirror.with_override("hil_bridge.udp_peer_port", here, "").with_override("command_timeout", 60.0, "")
    bench = load_stack({"nodes": [{"executable": "hil_bridge", "parameters": {
        "link": "udp", "mode": "lockstep", "udp_port": here, "udp_peer_port": there, "scenario": scenario, "stop_time": 3.0,
        "wait_limit": 60.0}}]}).in_namespace("bench")
    summary = run_stack(replace(mirror, nodes=(*mirror.nodes, *bench.nodes)), record=tmp_path / "bag", timeout=180.0)
    vehicle, controller = summary["namespaces"]["/bench"], summary
    assert summary["reason"] == "simulated 3 s" and vehicle["unanswered"] == 0 and vehicle["collisions"] == 0
    assert controller["task"] == f"scenario {scenario}" and controller["outcomes"]["solved"] > 140
    told = read_series(tmp_path / "bag", "vehicle/state", ["x", "vx"])  # what the mirror says, and the controller drives by
    assert 40.0 < told.values[-1, 0] < 47.0 and 14.0 < told.values[-1, 1] < 16.0
