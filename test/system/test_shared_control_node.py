"""The shared control node on the running graph: lockstep repeats to the bit; sources, services, mode and posterior through their topics."""

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped, TransformStamped
from nav_msgs.msg import Path as PathMessage
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from repeated import twice
from std_srvs.srv import Trigger
from tf2_msgs.msg import TFMessage

from lfdm_ros.bags import read_series
from lfdm_ros.msg import DriverCommand, Posterior, VehicleState
from lfdm_ros.msg import Plan as PlanMessage
from lfdm_ros.nodes.shared_control import SharedControl
from lfdm_ros.ros import qos
from lfdm_ros.ros.messages import set_stamp
from lfdm_ros.srv import RequestTakeover
from lfdm_ros.stacks.compose import run_stack

NAME = "shared_control"
STACK = {"nodes": [
    {"executable": "shared_control", "parameters": {"stepping": "lockstep", "lidar_rate": 10.0, "answer_timeout": 60.0,
                                                    "operator_age": 2.0, "threats": ["clearance", "demand", "load_transfer"]}},
    {"executable": "input_player", "parameters": {"scenario": "sine_steer", "at_end": "hold"},
     "remappings": {"control/command": "operator/command"}},
    {"executable": "mpc_controller", "parameters": {"task": "scenario", "scenario": "obstacle_field_40", "stepping": "lockstep",
                                                    "lidar_rate": 10.0, "scan_patience": 60.0, "shared": True}},
    {"executable": "vehicle_simulator", "parameters": {"scenario": "obstacle_field_40", "stepping": "lockstep", "model": "eight_dof",
                                                       "speed_factor": 0.0}}]}


def test_lockstep_repeats_to_the_bit(tmp_path: Path) -> None:
    def run(bag: Path) -> None:
        summary = run_stack(STACK, duration=2.0, record=bag, quiet=True)
        assert summary["reason"] == "simulated 2 s" and summary["ticks"] == 200
        assert sum(summary["sharing_inputs_refused"].values()) == 0
        assert summary["sharing_states"].keys() == {"sharing"}

    # The answer to the last state may come after the end.
    commands, states, status = twice(tmp_path, run, {
        "control/command": ["steering", "throttle", "brake"], "vehicle/state": ["x", "y", "yaw", "vx", "vy", "yaw_rate"],
        "shared_control/status": ["k", "threat", "plan_age", "scan_age", "operator_age"]}, 1.995)
    assert len(commands) == len(states) == len(status) == 200
    assert np.ptp(commands[:, 0]) > 1e-3 and np.isfinite(status[20:]).all() and status[-1, 2] == pytest.approx(0.01)


def test_operator_link_and_controller_share_the_vehicle_of_the_shipped_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    summary = run_stack("shared_control", speed=0.0, duration=1.0, quiet=True,
                        overrides={"threats": ["clearance"], "answer_timeout": 60.0, "scan_patience": 60.0})
    assert summary["reason"] == "simulated 1 s"
    # The decision on the last state comes in time or not.
    assert summary["sharing_states"] in ({"autonomy_alone": 50, "sharing": 51}, {"autonomy_alone": 50, "sharing": 50})
    assert summary["messages_recorded"] > 500 and (tmp_path / "recordings" / "shared_1").is_dir()
    shutil.rmtree(tmp_path / "recordings")
    run_stack("shared_control", speed=0.0, duration=0.05, quiet=True, record=tmp_path / "asked", overrides={"threats": ["clearance"]})
    assert (tmp_path / "asked").is_dir() and not list((tmp_path / "recordings").glob("shared_*"))
    assert summary["link"]["down"]["arrived"] > 10 and summary["outcomes"]["solved"] > 40
    assert sum(summary["sharing_inputs_refused"].values()) == 0 == summary["collisions"]


@pytest.mark.parametrize("rear", ["", "sensors/lidar_rear"])
def test_a_threat_from_behind_is_seen_by_the_second_lidar(tmp_path: Path, rear: str) -> None:
    scenario, bag = tmp_path / "overtaken.yaml", tmp_path / "bag"
    scenario.write_text("duration: 10.0\nspeed: 8.0\ngoal: {x: 200.0, y: 0.0}\ninitial: {speed: 8.0}\nobstacles:\n"
                        "  - {circle: {x: -25.0, y: 1.5, radius: 1.0}, velocity: [18.0, 0.0], kind: car}\n")
    run_stack({"nodes": [
        {"executable": "shared_control", "parameters": {
            "stepping": "lockstep", "answer_timeout": 60.0, "operator_age": 2.0, "rear_lidar": rear, "threats": ["clearance"],
            "threat_settings": ["clearance.margin=1.0"]}},
        {"executable": "input_player", "parameters": {"scenario": "sine_steer", "at_end": "hold"},
         "remappings": {"control/command": "operator/command"}},
        {"executable": "mpc_controller", "parameters": {
            "task": "scenario", "scenario": str(scenario), "stepping": "lockstep", "shared": True, "scan_patience": 60.0,
            "rear_lidar": rear}},
        {"executable": "vehicle_simulator", "parameters": {
            "scenario": str(scenario), "stepping": "lockstep", "model": "eight_dof", "speed_factor": 0.0}}]},
        duration=1.8, record=bag, quiet=True, overrides={"vehicle": "hmmwv_rear_lidar"})
    largest = np.nanmax(read_series(bag, "shared_control/status", ["component_threats[0]"]).values)
    assert largest > 0.2 if rear else largest == 0.0
    obstacles = read_series(bag, "autonomy/status", ["obstacles"]).values[10:, 0]
    assert (obstacles == (1 if rear else 0)).all()  # the controller's, too; the LIDAR ahead sees none


class Sources:
    """Publishes what the node hears, on a clock of the test's own, and keeps what it says."""

    def __init__(self, graph: Any, **parameters: Any) -> None:
        self.graph, self.ms = graph, 0
        publish = graph.node.create_publisher
        self._state, self._plan = publish(VehicleState, "vehicle/state", qos.STATE), publish(PlanMessage, "autonomy/plan", qos.STATE)
        self._commands = {name: publish(DriverCommand, f"{name}/command", qos.COMMAND) for name in ("operator", "autonomy")}
        self.posterior = publish(Posterior, "posterior", qos.LATCHED)
        self.path, self.goal = publish(PathMessage, "reference_path", qos.TASK), publish(PoseStamped, "goal", qos.TASK)
        self.node = graph.add(SharedControl, stepping="lockstep", answer_timeout=0.3, plan_period=0.0,
                              **{"threats": ["clearance", "load_transfer"], **parameters})
        self.commands = graph.listen("control/command", "lfdm_ros/msg/DriverCommand")
        self.status = graph.listen("shared_control/status", "lfdm_ros/msg/SharedControlStatus")
        self.diagnostics = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", qos.STATUS)
        graph.wait(lambda: self._state.get_subscription_count() and all(p.get_subscription_count() for p in self._commands.values())
                   and self.path.get_subscription_count() and self.goal.get_subscription_count()
                   and graph.node.count_publishers("control/command") and graph.node.count_subscribers("shared_control/status"))

    def tick(self, operator: float | None = 0.1, autonomy: float | None = -0.1, vx: float = 10.0) -> Any:
        """A state and its answers; the status of the decision."""
        self.ms += 10
        state = VehicleState(x=0.1 * self.ms, vx=vx)
        for name in ("ax", "ay", "roll", "roll_rate"):
            setattr(state, name, math.nan)
        state.header.frame_id = "odom"
        set_stamp(state.header.stamp, 1_000_000 * self.ms)
        for name, steering in (("operator", operator), ("autonomy", autonomy)):
            if steering is not None:
                command = DriverCommand(steering=steering)
                command.header.stamp = state.header.stamp
                self._commands[name].publish(command)
        before = len(self.status)
        self._state.publish(state)
        self.graph.wait(lambda: len(self.status) > before, "a decision")
        return self.status[-1]

    def plan(self, **fields: Any) -> None:
        message = PlanMessage(**fields)
        message.header.frame_id = "odom"
        set_stamp(message.header.stamp, 1_000_000 * self.ms)
        self._plan.publish(message)


def test_sources_services_mode_posterior_and_refusals(graph: Any) -> None:
    s = Sources(graph, operator_timeout=0.02, autonomy_timeout=0.02)
    status = s.tick()
    assert (status.state, status.mode, status.k) == ("sharing", "blend", 0.0) and status.applied.steering == 0.0
    for _ in range(20):
        status = s.tick()
    assert status.applied.steering == pytest.approx(0.1) and status.operator_command.steering == 0.1
    assert len(s.commands) == len(s.status) and s.commands[-1].header.stamp == status.header.stamp
    assert math.isnan(status.component_threats[0]) and status.component_names[0] == "clearance"  # nothing was seen
    assert list(status.active_limits) == []

    # The mode is live; k goes there by its rate.
    request = SetParameters.Request(parameters=[Parameter("mode", value="autonomy").to_parameter_msg()])
    assert graph.call(SetParameters, f"{NAME}/set_parameters", parameters=request.parameters).results[0].successful
    shares = [s.tick().k for _ in range(40)]
    assert shares[0] == pytest.approx(0.1) and shares[-1] == 1.0 and s.status[-1].state == "autonomy_alone"
    assert s.status[-1].applied.steering == pytest.approx(-0.1)
    markers = graph.listen("shared_control/markers", "visualization_msgs/msg/MarkerArray", qos.STATUS)
    graph.wait(lambda: markers, "a picture of it")
    text = markers[-1].markers[1]
    assert text.text.startswith("autonomy: autonomy_alone\nk 1.00 (target 1.00), threat ") and text.header.frame_id == "odom"
    assert text.pose.position.x == pytest.approx(0.1 * s.ms) and text.header.stamp == s.status[-1].header.stamp
    request.parameters[0].value.string_value = "blend"
    assert graph.call(SetParameters, f"{NAME}/set_parameters", parameters=request.parameters).results[0].successful

    # Emergency stop latches.
    assert graph.call(Trigger, f"{NAME}/emergency_stop").success
    for _ in range(10):
        status = s.tick()
    assert status.state == "emergency_stop" and status.emergency_stop and status.applied.brake == 1.0 and "service" in status.reason
    assert graph.call(Trigger, f"{NAME}/reset_emergency_stop").success
    assert not graph.call(Trigger, f"{NAME}/reset_emergency_stop").success
    assert s.tick().state == "sharing"

    # A takeover is requested, refused without a reason or a time, acknowledged, and handed back.
    assert not graph.call(RequestTakeover, f"{NAME}/request_takeover").success
    assert "lead_time" in graph.call(RequestTakeover, f"{NAME}/request_takeover", reason="fog", lead_time=-1.0).message
    assert graph.call(RequestTakeover, f"{NAME}/request_takeover", reason="fog", lead_time=0.15).success
    status = s.tick()
    assert status.takeover == "requested" and status.takeover_time_left == pytest.approx(0.14, abs=0.02) and "fog" in status.reason
    for _ in range(20):
        status = s.tick()
    assert status.state == "minimum_risk" and status.takeover == "expired" and status.applied.brake > 0.0
    assert graph.call(Trigger, f"{NAME}/acknowledge_takeover").success
    status = s.tick()
    assert (status.state, status.mode, status.takeover) == ("operator_alone", "operator", "taken")
    assert graph.call(Trigger, f"{NAME}/hand_back").success and not graph.call(Trigger, f"{NAME}/hand_back").success
    status = s.tick()
    assert (status.state, status.mode, status.takeover) == ("sharing", "blend", "none") and math.isnan(status.takeover_time_left)

    # Plans and posteriors that cannot be used are refused by name, and the next command comes.
    s.plan(names=["x", "y", "yaw", "vx"], times=[0.0, 1.0], states=[0.0] * 7, inputs=[0.0] * 6)
    s.posterior.publish(Posterior(posterior_version=3, vehicle="another", target_names=["cg_height"], target_values=[0.8]))
    graph.wait(lambda: s.node.refusals.total == 2)
    assert s.node.refusals.counts["plan"] == 1 and "another" in s.node.refusals.last
    s.posterior.publish(Posterior(posterior_version=4, vehicle="hmmwv", model="eight_dof", target_names=["cg_height"], target_values=[0.8],
                                  parameter_names=["cg_height"], draws=3, thinned_draws=[0.7, 0.8, 0.9]))
    graph.wait(lambda: s.tick().posterior_version == 4)
    assert s.node.arbiter.vehicle.parameters["cg_height"] == 0.8 and len(s.node.arbiter.draws.values) == 3

    # Who does not answer is waited for once, and then lost.
    assert s.tick(operator=None).state == "sharing"
    for _ in range(3):
        status = s.tick(operator=None)
    assert status.state == "operator_lost" and status.k > 0.0 and "operator" in status.reason
    graph.wait(lambda: (d := graph.diagnosis(s.diagnostics, NAME)) and d.level == DiagnosticStatus.WARN and "operator" in d.message)
    assert s.node.errors == []


def test_a_decision_that_fails_brakes_and_is_told(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    s = Sources(graph)
    for _ in range(3):
        s.tick()
    monkeypatch.setattr(s.node.arbiter, "decide", lambda now: 1 / 0)
    before = len(s.commands)
    with pytest.raises(AssertionError):
        monkeypatch.setattr("test_shared_control_node.PATIENCE", 1.0, raising=False)
        s.graph.wait = lambda condition, what="": graph.runtime.spin_some(0.5) or (_ for _ in ()).throw(AssertionError(what))
        s.tick()
    assert len(s.commands) > before and s.commands[-1].brake > 0.0
    assert any("ZeroDivisionError" in error for error in s.node.errors)


def test_path_and_corridor_come_by_topic(graph: Any) -> None:
    assert next(p for p in SharedControl.PARAMETERS if p.name == "threats").default[0] == "risk"
    s = Sources(graph, room_left=2.0, room_right=3.0)
    s.tick()
    message = PathMessage()
    message.header.frame_id = "odom"
    for x in (0.0, 10.0, 40.0):
        pose = PoseStamped()
        pose.pose.position.x = x
        message.poses.append(pose)
    s.path.publish(message)
    graph.wait(lambda: s.node.arbiter.path is not None)
    np.testing.assert_allclose(s.node.arbiter.corridor.room, [[0.0, 2.0, 3.0], [40.0, 2.0, 3.0]], atol=0.1)
    message.header.frame_id = "elsewhere"
    s.path.publish(message)
    graph.wait(lambda: s.node.refusals.counts["path"] == 1)
    assert "elsewhere" in s.node.refusals.last and s.node.arbiter.path is not None

    # nav2's plan is in the map: where the states' frame lies in it is on tf.
    transform = TransformStamped(child_frame_id="odom")
    transform.header.frame_id = message.header.frame_id = "map"
    transform.transform.translation.y, transform.transform.rotation.w = 5.0, 1.0
    frames = graph.node.create_publisher(TFMessage, "tf_static", qos.LATCHED)
    frames.publish(TFMessage(transforms=[transform]))
    graph.wait(lambda: s.node.tasks.frames.knows("map", "odom"))
    s.path.publish(message)
    graph.wait(lambda: s.node.arbiter.path.y[0] == pytest.approx(-5.0))
    np.testing.assert_allclose(s.node.arbiter.corridor.room, [[0.0, 2.0, 3.0], [40.0, 2.0, 3.0]], atol=0.1)
    goal = PoseStamped()
    goal.header.frame_id = "odom"
    s.goal.publish(goal)
    graph.wait(lambda: s.node.arbiter.path is None and s.node.arbiter.corridor is None)
    assert s.node.errors == []
