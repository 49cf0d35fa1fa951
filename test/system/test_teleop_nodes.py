"""Operator and link on the graph: in lockstep to the bit, free running with the delays that were asked for, whatever comes in."""

import math
import os
import sys
import termios
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from repeated import twice
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Joy

from lfdm_ros.msg import DriverCommand, SharedControlStatus, VehicleState
from lfdm_ros.nodes.joystick import JoystickOperator
from lfdm_ros.nodes.keyboard import KeyboardOperator
from lfdm_ros.nodes.operator_model import OperatorModel
from lfdm_ros.nodes.teleop_link import TeleopLink
from lfdm_ros.ros import qos
from lfdm_ros.ros.messages import nanoseconds, set_stamp
from lfdm_ros.stacks.compose import run_stack
from lfdm_ros.teleop.operator import Operator

SCENARIO = """
initial: {speed: 8.0}
duration: 8.0
speed: 8.0
goal: {x: 30.0, y: 2.0}
obstacles:
  - {circle: {x: 18.0, y: 0.0, radius: 0.8}}
"""


def stack(scenario: Path, **link: Any) -> dict[str, Any]:
    """The vehicle driven by the operator alone, through the link."""
    return {"parameters": {"stepping": "lockstep", "lidar_rate": 10.0, "vehicle": "hmmwv", "scenario": str(scenario)}, "nodes": [
        {"executable": "teleop_link", "parameters": link, "remappings": {"operator/command": "control/command"}},
        {"executable": "operator_model", "parameters": {"task": "scenario", "remnant": "noise", "distraction": "urban", "seed": 3}},
        {"executable": "vehicle_simulator", "parameters": {"lidar": True, "speed_factor": 0.0, "stop_time": 2.5,
                                                           "lidar_resolution": 0.0175}}]}


def test_an_operator_behind_a_link_in_lockstep_repeats_to_the_bit(tmp_path: Path) -> None:
    scenario = tmp_path / "yard.yaml"
    scenario.write_text(SCENARIO)
    link = {"up_delay": 0.1, "down_delay": 0.1, "up_jitter": 0.01, "down_jitter": 0.01, "up_drop": 0.05, "down_drop": 0.05}

    def run(bag: Path) -> None:
        summary = run_stack(stack(scenario, **link), record=bag, quiet=True, timeout=120.0)
        # On a busy machine a state is published again, and its answer too.
        refused = {why for why, count in summary["commands_rejected"].items() if count}
        assert summary["ticks"] == 250 and refused <= {"answered_already"}, summary
        assert summary["commands_accepted"] in (250, 251)  # the state at the end may be answered yet
        assert summary["link"]["up"]["dropped"] > 0 and summary["collisions"] == 0

    commands, states, shown, told = twice(tmp_path, run, {
        "control/command": ["steering", "throttle", "brake"], "vehicle/state": ["x", "y", "yaw", "vx"],
        "teleop/state": ["x", "vx"], "teleop/link": ["latency[0]", "latency[1]"]}, 2.45)
    assert not commands[:20].any() and np.ptp(commands[:, 0]) > 1e-3 and states[-1, 0] > 15.0
    assert len(shown) < len(states) - 10 and told[-1].min() > 0.1  # late, and not all


def state_message(stamp_ns: int, x: float = 0.0, vx: float = 8.0, **values: float) -> VehicleState:
    message = VehicleState(x=x, vx=vx, **values)
    message.header.frame_id = "odom"
    set_stamp(message.header.stamp, stamp_ns)
    return message


def test_free_running_what_goes_in_comes_out_late_and_what_cannot_be_does_not(graph: Any) -> None:
    shown = graph.listen("teleop/state", "lfdm_ros/msg/VehicleState", qos.STATE)
    commands = graph.listen("operator/command", "lfdm_ros/msg/DriverCommand", qos.COMMAND)
    status = graph.listen("teleop/link", "lfdm_ros/msg/LinkStatus", qos.STATE)
    node = graph.add(TeleopLink, up_delay=0.05, down_delay=0.02)
    states = graph.node.create_publisher(VehicleState, "vehicle/state", qos.STATE)
    asked = graph.node.create_publisher(DriverCommand, "teleop/command", qos.COMMAND)
    graph.wait(lambda: states.get_subscription_count() and asked.get_subscription_count())
    states.publish(state_message(10**9, x=7.0))
    graph.wait(lambda: shown)
    assert shown[0].x == 7.0 and nanoseconds(shown[0].header.stamp) == 10**9
    asked.publish(DriverCommand(steering=0.25))
    graph.wait(lambda: commands)
    assert commands[0].steering == 0.25
    graph.wait(lambda: status and list(status[-1].arrived) == [1, 1])
    assert list(status[-1].directions) == ["up", "down"] and status[-1].latency[0] > 0.0499 and status[-1].latency[1] > 0.0199
    assert status[-1].age[0] > 0.0499
    states.publish(state_message(2 * 10**9, vx=math.inf))
    asked.publish(DriverCommand(steering=math.nan))
    graph.wait(lambda: node.refusals.total == 2)
    assert node.refusals.counts["state"] == node.refusals.counts["command"] == 1


def test_the_operator_answers_each_state_in_lockstep_and_tells_how_it_is(graph: Any) -> None:
    commands = graph.listen("teleop/command", "lfdm_ros/msg/DriverCommand", qos.COMMAND)
    node = graph.add(OperatorModel, stepping="lockstep", task="scenario", scenario="nato_lane_change")
    states = graph.node.create_publisher(VehicleState, "teleop/state", qos.STATE)
    graph.wait(lambda: states.get_subscription_count())
    assert "no state yet on teleop/state" in node.diagnose()[1]
    for k in range(40):
        stamp = 10**9 + k * 10**7
        states.publish(state_message(stamp, x=0.15 * k, vx=math.nan if k == 20 else 15.0))
        graph.wait(lambda stamp=stamp: commands and nanoseconds(commands[-1].header.stamp) == stamp)
    assert node.refusals.counts["state"] == 1 and "vx is nan" in node.refusals.last
    _, text, values = node.diagnose()
    assert text == "scenario nato_lane_change" and values["person.pace"] <= 1.0 and values["cycles"] >= 40


def test_the_operator_takes_an_offer_of_shared_control_with_its_time(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.add(OperatorModel, stepping="lockstep", task="scenario", scenario="nato_lane_change")
    offers = graph.node.create_publisher(SharedControlStatus, "shared_control/status", qos.STATE)
    graph.wait(lambda: offers.get_subscription_count())
    taken: list[tuple[float, bool]] = []
    monkeypatch.setattr(Operator, "update_offer", lambda operator, *offer: taken.append(offer))
    for k, takeover in enumerate(("none", "offered", "given", "taken")):
        message = SharedControlStatus(takeover=takeover)
        set_stamp(message.header.stamp, 10**9 + k * 10**7)
        offers.publish(message)
        graph.wait(lambda k=k: len(taken) == k + 1)
    assert [offered for _, offered in taken] == [False, True, True, False] and taken[0][0] == pytest.approx(1.0)


def test_a_joystick_drives_while_its_button_is_held_and_tells_who_does_not(graph: Any) -> None:
    commands = graph.listen("teleop/command", "lfdm_ros/msg/DriverCommand", qos.COMMAND)
    node = graph.add(JoystickOperator, input_timeout=10.0, exponent=1.0, dead_zone=0.0)
    joy = graph.node.create_publisher(Joy, "joy", qos.COMMAND)
    graph.wait(lambda: joy.get_subscription_count() and commands)
    assert commands[-1].brake == 0.4 and node.diagnose()[1] == "nothing yet on joy"
    joy.publish(Joy(axes=[0.5, 0.0, 1.0, 0.0, 0.0, -1.0], buttons=[0, 0, 0, 0, 1]))
    graph.wait(lambda: commands[-1].throttle)
    assert (commands[-1].steering, commands[-1].throttle, commands[-1].brake) == (0.5, 1.0, 0.0) and node.diagnose()[1] == "driving"
    joy.publish(Joy(axes=[0.5], buttons=[]))
    graph.wait(lambda: node.refusals.counts["joy"])
    assert node.refusals.reasons["joy", "malformed"] == 1
    joy.publish(Joy(axes=[0.5, 0.0, 1.0, 0.0, 0.0, -1.0], buttons=[0] * 5))
    graph.wait(lambda: commands[-1].brake)


def test_keys_drive_and_the_terminal_is_as_before(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = os.openpty()
    before = termios.tcgetattr(follower)[3]
    with os.fdopen(follower) as stream, os.fdopen(leader, "wb", buffering=0) as keys:
        monkeypatch.setattr(sys, "stdin", stream)
        commands = graph.listen("teleop/command", "lfdm_ros/msg/DriverCommand", qos.COMMAND)
        asked: list[str] = []
        node = graph.add(KeyboardOperator, key_timeout=60.0, centring=0.0)
        node.stop_requested = asked.append
        assert termios.tcgetattr(follower)[3] != before
        keys.write(b"wwa")
        graph.wait(lambda: commands and commands[-1].steering)
        assert (commands[-1].steering, commands[-1].throttle) == pytest.approx((0.04, 0.2))
        keys.write(b"q")
        graph.wait(lambda: asked)
        node.release()
        assert termios.tcgetattr(follower)[3] == before


def test_a_person_s_commands_are_stamped_by_the_clock_that_there_is_and_once_each(graph: Any) -> None:
    clock = graph.node.create_publisher(Clock, "/clock", qos.CLOCK)
    commands = graph.listen("teleop/command", "lfdm_ros/msg/DriverCommand", qos.COMMAND)
    node = graph.add(JoystickOperator)

    def stamped(seconds: int) -> bool:
        message = Clock()
        message.clock.sec = seconds
        clock.publish(message)
        return bool(commands) and nanoseconds(commands[-1].header.stamp) == seconds * 10**9

    graph.wait(lambda: stamped(7))
    graph.wait(lambda: stamped(8))
    times = [nanoseconds(command.header.stamp) for command in commands]
    assert times == [7 * 10**9, 8 * 10**9] and node.value("use_sim_time")
    graph.wait(lambda: stamped(3))  # a clock that goes back
