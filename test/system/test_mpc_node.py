"""The MPC node on the running graph: a lockstep run repeats to the bit; bad inputs, goals and posteriors through their topics."""

import dataclasses
import math
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
from sensor_msgs.msg import LaserScan
from tf2_msgs.msg import TFMessage

from lfdm_ros.msg import MpcStatus, Posterior, VehicleState
from lfdm_ros.nodes.mpc_controller import MpcController
from lfdm_ros.nodes.vehicle_simulator import VehicleSimulator
from lfdm_ros.ros import qos
from lfdm_ros.ros.messages import nanoseconds, set_stamp
from lfdm_ros.stacks.compose import run_stack

NAME = "mpc_controller"


def test_lockstep_repeats_to_the_bit(tmp_path: Path) -> None:
    def run(bag: Path) -> None:
        summary = run_stack("autonomy", speed=0.0, duration=3.0, record=bag, overrides={
            "scenario": "obstacle_field_40", "stepping": "lockstep", "lidar_latency": 0.03, "scan_patience": 60.0,
            "vehicle": "hmmwv_rear_lidar", "rear_lidar": "sensors/lidar_rear",
            "vehicle_changes": ["actuation_delay=0.05"]}, quiet=True)
        assert summary["reason"] == "simulated 3 s" and summary["ticks"] == 300
        assert not {reason for reason, count in summary["commands_rejected"].items() if count} - {"answered_already"}
        assert sum(summary["inputs_refused"].values()) == 0

    commands, states, status = twice(tmp_path, run, {
        "control/command": ["steering", "throttle", "brake"], "vehicle/state": ["x", "y", "yaw", "vx", "vy", "yaw_rate", "tyre_force_z[0]"],
        "autonomy/status": ["outcome", "cost", "scan_age", "delay", "obstacles"]}, 3.005)
    assert [len(values) for values in (commands, states, status)] == [301, 301, 151]
    assert np.ptp(commands[:, 0]) > 1e-3 and states[-1, 0] > 40.0  # it drove, and steered
    assert (status[10:, 4] > 0).all() and np.allclose(status[:, 3], 0.05)  # it saw obstacles, and predicted through the delay


def test_a_run_ends_at_the_goal_and_leaves_that_state_unanswered(tmp_path: Path) -> None:
    scenario = tmp_path / "near.yaml"
    scenario.write_text("duration: 10.0\nspeed: 8.0\ngoal: {x: 20.0, y: 0.0}\ninitial: {speed: 8.0}\n")
    summary = run_stack("autonomy", speed=0.0, overrides={
        "scenario": str(scenario), "stepping": "lockstep", "on_finish": "shutdown", "odometry": True}, quiet=True, timeout=60.0)
    assert summary["reason"] == "scenario near done" and summary["task_done"]
    assert summary["commands_accepted"] == summary["ticks"] > 150 and summary["outcomes"].keys() == {"solved"}
    assert summary["collisions"] == summary["lifted_wheels_most"] == 0
    assert len(summary["cycle_times"]) == sum(summary["outcomes"].values()) == 1 + summary["ticks"] // 2


def test_the_simulator_scans_and_tells_of_collisions(graph: Any, tmp_path: Path) -> None:
    scenario = tmp_path / "wall.yaml"
    scenario.write_text("duration: 5.0\nspeed: 10.0\ngoal: {x: 50.0, y: 0.0}\ninitial: {speed: 10.0}\n"
                        "obstacles:\n  - {circle: {x: 12.0, y: 0.0, radius: 1.0}, name: boulder}\n")
    scans = graph.listen("scan", "sensor_msgs/msg/LaserScan", qos.STATE)
    status = graph.listen("simulator/status", "lfdm_ros/msg/SimulatorStatus")
    world = graph.listen("world", "visualization_msgs/msg/MarkerArray")
    node = graph.add(VehicleSimulator, active=False, scenario=str(scenario), speed_factor=0.0, stop_time=1.5, lidar_rate=20.0)
    node.bring_up("configure")
    publisher = next(publisher for publisher in node.publishers if publisher.topic_name == "/scan")
    graph.wait(publisher.get_subscription_count)
    node.bring_up("activate")
    graph.wait(lambda: status and status[-1].ticks == 150 and world and len(scans) == 31)
    assert [nanoseconds(scan.header.stamp) for scan in scans] == [50_000_000 * i for i in range(31)]
    assert min(scans[0].ranges) == pytest.approx(10.0, abs=0.1) and scans[0].header.frame_id == "lidar"
    assert (status[-1].collisions, status[-1].first_collision) == (1, "boulder")
    assert status[-1].first_collision_time == pytest.approx(0.87, abs=0.03) and status[-1].least_clearance < 0.0
    assert node.summary()["collisions"] == 1 and [m.ns for m in world[-1].markers] == ["", "world"]


class Driver:
    """An active node and a vehicle that a test moves by hand."""

    def __init__(self, graph: Any, **parameters: Any) -> None:
        self.graph, self.time = graph, 10**9
        self.commands = graph.listen("autonomy/command", "lfdm_ros/msg/DriverCommand")
        self.status = graph.listen("autonomy/status", "lfdm_ros/msg/MpcStatus")
        self.diagnostics = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
        self.node = graph.add(MpcController, **{"stepping": "lockstep", "use_limit_table": False, "scan_timeout": 0.0, **parameters})
        self.states = graph.node.create_publisher(VehicleState, "vehicle/state", qos.STATE)
        graph.wait(lambda: self.states.get_subscription_count())

    def state(self, x: float = 0.0, vx: float = 8.0, **values: float) -> MpcStatus:
        """Sends a state 20 ms after the last one and returns the status of its cycle."""
        self.time += 20_000_000
        message = VehicleState(x=x, vx=vx, **values)
        message.header.frame_id = "odom"
        set_stamp(message.header.stamp, self.time)
        self.states.publish(message)
        self.graph.wait(lambda: self.status and nanoseconds(self.status[-1].header.stamp) == self.time)
        command = self.commands[-1]
        assert nanoseconds(command.header.stamp) == self.time
        assert np.isfinite([command.steering, command.throttle, command.brake]).all()
        return self.status[-1]

    def send(self, kind: type, topic: str, message: Any, profile: Any = qos.TASK) -> None:
        publisher = self.graph.node.create_publisher(kind, topic, profile)
        self.graph.wait(lambda: publisher.get_subscription_count())
        publisher.publish(message)

    def refusal(self, kind: str, words: str) -> None:
        """Waits until an input of that kind was refused, with these words."""
        refusals = self.node.pilot.refusals
        self.graph.wait(lambda: words in refusals.last and refusals.counts[kind], f"{words} in '{refusals.last}'")


def goal_message(x: float, y: float, frame: str = "odom") -> PoseStamped:
    message = PoseStamped()
    message.header.frame_id = frame
    message.pose.position.x, message.pose.position.y = x, y
    return message


def path_message(*x: float) -> PathMessage:
    message = PathMessage(poses=[goal_message(value, 0.0) for value in x])
    message.header.frame_id = "odom"
    return message


def test_goals_of_rviz_and_paths_of_nav2_are_driven_in_the_frame_of_the_states(graph: Any) -> None:
    driver = Driver(graph)
    driver.state()
    transform = TransformStamped(child_frame_id="odom")
    transform.header.frame_id = "map"
    transform.transform.translation.x, transform.transform.translation.y = 10.0, -5.0
    transform.transform.rotation.z = transform.transform.rotation.w = math.sqrt(0.5)  # odom looks along the map's y
    driver.send(TFMessage, "tf_static", TFMessage(transforms=[transform]), qos.LATCHED)
    graph.wait(lambda: driver.node.tasks.frames.knows("map", "odom"))
    driver.send(PoseStamped, "goal_pose", goal_message(10.0, 35.0, "map"))
    graph.wait(lambda: driver.node.pilot.task.goal)
    goal = driver.node.pilot.task.goal
    assert (goal.x, goal.y) == pytest.approx((40.0, 0.0)) and driver.state(x=0.16).outcome == MpcStatus.SOLVED
    path = PathMessage(poses=[goal_message(10.0, y, "map") for y in (-5.0, 20.0, 60.0)])
    path.header.frame_id = "map"
    driver.send(PathMessage, "plan", path)
    graph.wait(lambda: driver.node.pilot.task.path)
    driven = driver.node.pilot.task.path
    assert driven.length == pytest.approx(65.0) and np.abs(driven.y).max() < 1e-6 and driven.x[-1] == pytest.approx(65.0)
    driver.send(PoseStamped, "goal_pose", goal_message(1.0, 0.0, "moon"))
    driver.refusal("goal", "in frame 'moon', the states are in 'odom'")


@pytest.mark.parametrize("vehicle, given, tolerance", [("hmmwv", 0.0, 3.0), ("art", 0.0, 0.53), ("art", 0.5, 0.5)])
def test_a_goal_by_topic_is_reached_by_the_vehicles_size(vehicle: str, given: float, tolerance: float, graph: Any) -> None:
    driver = Driver(graph, vehicle=vehicle, goal_tolerance=given)
    driver.send(PoseStamped, "goal", goal_message(60.0, 0.0))
    graph.wait(lambda: driver.node.pilot.task.goal)
    assert driver.node.pilot.task.goal.tolerance == pytest.approx(tolerance, abs=0.05)


def test_states_goals_and_paths_good_and_bad(graph: Any) -> None:
    driver = Driver(graph)
    standing = driver.state()
    assert (standing.outcome, standing.task) == (MpcStatus.STOPPED, "idle") and "no task" in standing.reason

    driver.send(PoseStamped, "goal", goal_message(60.0, 0.0, "map"))
    driver.refusal("goal", "in frame 'map', the states are in 'odom'")
    driver.send(PoseStamped, "goal", goal_message(60.0, 5.0))
    graph.wait(lambda: driver.node.pilot.task.goal)
    first = driver.state()
    assert (first.outcome, first.cold_start) == (MpcStatus.SOLVED, True) and first.distance_to_go == pytest.approx(60.2, abs=0.5)
    second = driver.state(x=0.16)
    assert (second.outcome, second.cold_start) == (MpcStatus.SOLVED, False) and second.reason == ""

    nan = driver.state(vx=math.nan)  # named, and answered all the same: by the state before
    assert nan.inputs_refused == 2 and nan.state_age == pytest.approx(0.02)
    driver.refusal("state", "vx is nan")
    assert driver.state(x=0.5).outcome == MpcStatus.SOLVED

    driver.send(PoseStamped, "goal", goal_message(-60.0, 0.0))  # behind: there is always a way round, and a command
    graph.wait(lambda: driver.node.pilot.task.goal.x == -60.0)
    assert driver.state(x=0.66).task == "goal (-60.0, 0.0)"

    driver.send(PathMessage, "reference_path", path_message(5.0, 5.0, 5.0))
    driver.refusal("path", "at least two")
    driver.send(PathMessage, "reference_path", path_message(0.0, 0.0, 40.0, 40.0, 80.0))
    graph.wait(lambda: driver.node.pilot.task.path)
    following = driver.state(x=0.8)
    assert following.outcome == MpcStatus.SOLVED and following.speed_limit == pytest.approx(13.4)
    assert following.progress == pytest.approx(0.8, abs=0.2) and following.distance_to_go == pytest.approx(79.2, abs=0.2)

    driver.time = 10**9  # the clock goes back: a cold start with the same task
    again = driver.state(x=0.0)
    assert (again.outcome, again.cold_start, again.task) == (MpcStatus.SOLVED, True, following.task)
    graph.wait(lambda: (d := graph.diagnosis(driver.diagnostics, NAME)) and {p.key: p.value for p in d.values}["resets"] == "1")


def test_what_cannot_be_is_refused_and_counted_by_reason_and_the_vehicle_is_driven_on(graph: Any) -> None:
    driver = Driver(graph)
    driver.state()
    driver.send(PathMessage, "reference_path", path_message(0.0, 1e300))
    driver.refusal("path", "point 1 is [1e+300, 0.0] m")
    driver.send(PathMessage, "reference_path", path_message(*(0.1 * k for k in range(3000))))
    graph.wait(lambda: driver.node.pilot.task.path)
    assert driver.state().outcome == MpcStatus.SOLVED
    driver.state(x=1e300)
    driver.refusal("state", "x is 1e+300 m")
    far = LaserScan(angle_min=-math.pi, angle_increment=math.pi / 90.0, range_min=0.1, range_max=3.4e38, ranges=[3.4e38, 1e6] * 90)
    set_stamp(far.header.stamp, driver.time)
    driver.send(LaserScan, "scan", far, qos.STATE)
    graph.wait(lambda: driver.node.pilot.scans.waiting)
    assert driver.state(x=0.3).outcome == MpcStatus.SOLVED  # as one that saw nothing
    assert driver.node.pilot.obstacles is not None and driver.node.pilot.refusals.counts["scan"] == 0
    graph.wait(lambda: (d := graph.diagnosis(driver.diagnostics, NAME)) and {
        "refused.path.out_of_range": "1", "refused.state.out_of_range": "1", "refused.scan": "0"}.items() <= {
        p.key: p.value for p in d.values}.items())


def test_an_obstacle_on_top_of_the_vehicle_and_scans_that_are_none(graph: Any) -> None:
    driver = Driver(graph)
    driver.state()
    scans = graph.node.create_publisher(LaserScan, "scan", qos.STATE)
    graph.wait(lambda: scans.get_subscription_count())

    def scan(ranges: list[float]) -> None:
        message = LaserScan(angle_min=-math.pi, angle_increment=math.pi / 90.0, range_min=0.1, range_max=100.0, ranges=ranges)
        set_stamp(message.header.stamp, driver.time)
        scans.publish(message)
        graph.wait(lambda: driver.node.pilot.scans.obstacles_ns == driver.time or driver.node.pilot.scans.waiting)

    driver.send(PoseStamped, "goal", goal_message(60.0, 0.0))
    graph.wait(lambda: driver.node.pilot.task.goal)
    scan([])
    driver.state()
    driver.refusal("scan", "at least one beam")
    scan([math.inf] * 180)
    driver.state()
    assert driver.state().obstacles == 0 and driver.node.pilot.refusals.total == 1
    scan([0.5] * 180)  # all around, nearer than the vehicle's own outline
    driver.state()
    status = driver.state()
    assert status.obstacles > 0
    for _ in range(50):
        status = driver.state(vx=1.0)
    assert status.reason and driver.commands[-1].throttle == 0.0 and driver.commands[-1].brake > 0.0


def test_an_earlier_plan_is_counted_and_what_brakes_is_warned_of(graph: Any, monkeypatch: Any) -> None:
    """A solver that runs out of time now and then is no news; one that never ends is, once."""
    driver, log = Driver(graph), graph.listen("/rosout", "rcl_interfaces/msg/Log")
    driver.send(PoseStamped, "goal", goal_message(60.0, 0.0))
    graph.wait(lambda: driver.node.pilot.task.goal)
    solver = driver.node.controller.planner.solver
    solve = solver.solve

    def unsolved(*args: Any) -> Any:
        return dataclasses.replace(solve(*args), solved=False, status="iteration limit")

    def warnings() -> list[str]:
        return [line.msg for line in log if line.name == "mpc_controller" and line.level == 30]

    driver.state()
    before = warnings()
    for k in range(1, 6):
        with monkeypatch.context() as slow:
            slow.setattr(solver, "solve", unsolved)
            assert driver.state(x=0.32 * k - 0.16).outcome == MpcStatus.SHIFTED
        assert driver.state(x=0.32 * k).outcome == MpcStatus.SOLVED
    graph.wait(lambda: (d := graph.diagnosis(driver.diagnostics, NAME)) and {v.key: v.value for v in d.values}["outcome.shifted"] == "5")
    assert graph.diagnosis(driver.diagnostics, NAME).level == DiagnosticStatus.OK and warnings() == before
    monkeypatch.setattr(solver, "solve", unsolved)
    for _ in range(80):
        status = driver.state(x=1.6)
    assert status.outcome == MpcStatus.BRAKING
    graph.wait(lambda: len(warnings()) > len(before))
    assert len(warnings()) == len(before) + 1 and warnings()[-1].startswith("braking: hpipm: iteration limit")


def test_posteriors_of_this_vehicle_are_taken_and_others_refused(graph: Any) -> None:
    driver = Driver(graph)
    driver.state()
    good = dict(posterior_version=3, vehicle="hmmwv", model="eight_dof", target_names=["cornering_stiffness_front"],
                target_units=["N/rad"], target_values=[60e3])
    publisher = graph.node.create_publisher(Posterior, "posterior", qos.LATCHED)
    publisher.publish(Posterior(**good))
    graph.wait(lambda: driver.state().posterior_version == 3)
    for changes, words in (({"model": "eighteen_dof"}, "is of model 'eighteen_dof'"), ({"vehicle": "sedan"}, "is of vehicle 'sedan'"),
                           ({"target_values": [math.nan]}, "cornering_stiffness_front = nan")):
        publisher.publish(Posterior(**{**good, "posterior_version": 4, **changes}))
        driver.refusal("posterior", words)
    assert driver.state().posterior_version == 3


def test_a_scan_that_is_due_and_does_not_come_is_named(graph: Any) -> None:
    driver = Driver(graph, lidar_rate=10.0, scan_patience=0.1)
    driver.state()
    driver.time += 60_000_000
    driver.state()
    graph.wait(lambda: (d := graph.diagnosis(driver.diagnostics, NAME)) and d.level == DiagnosticStatus.ERROR)
    assert "the scan of 1.100 s has not come" in graph.diagnosis(driver.diagnostics, NAME).message


def test_settings_that_are_live_change_and_others_do_not(graph: Any) -> None:
    driver = Driver(graph)

    def change(name: str, value: Any) -> Any:
        message = Parameter(name, value=value).to_parameter_msg()
        return graph.call(SetParameters, f"{NAME}/set_parameters", parameters=[message]).results[0]

    assert change("obstacle_margin", 0.7).successful and driver.node.controller.settings.obstacle_margin == 0.7
    assert not change("near_stages", 10).successful and not change("weight_lateral", -1.0).successful
    assert change("time_budget", 0.01).successful and driver.node.controller.settings.time_budget == 0.0  # lockstep


def test_a_cycle_that_raises_is_answered_by_the_stop_of_the_ladder(graph: Any, monkeypatch: Any) -> None:
    driver = Driver(graph)
    driver.state()
    with monkeypatch.context() as broken:
        broken.setattr(driver.node.controller, "cycle", lambda now, measured: 10.0**400)
        for _ in range(3):
            status = driver.state()
            assert (status.outcome, status.reason) == (MpcStatus.STOPPED, "internal error in on_state")
            assert driver.commands[-1].throttle == 0.0 and driver.commands[-1].brake > 0.0
    assert "no task" in driver.state().reason  # and on
    graph.wait(lambda: (d := graph.diagnosis(driver.diagnostics, "mpc_controller")) and d.level == DiagnosticStatus.ERROR)
    assert driver.node.errors == ["mpc_controller: on_state: OverflowError: (34, 'Numerical result out of range')"]
