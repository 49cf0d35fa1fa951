"""Messages of the MPC node, in and out; its parameters."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped
from hypothesis import given, settings
from hypothesis import strategies as st
from nav_msgs.msg import Odometry
from nav_msgs.msg import Path as PathMessage
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import LaserScan
from visualization_msgs.msg import Marker, MarkerArray

from lfdm_ros.bounds import BOUNDS, FRAME, MALFORMED, TOO_MANY, Refused
from lfdm_ros.control.cycle import Cycle, CycleOutcome
from lfdm_ros.control.plan import Plan
from lfdm_ros.engine.driving import Pilot, PilotDecision, Task
from lfdm_ros.errors import InputError
from lfdm_ros.msg import MpcStatus, VehicleState
from lfdm_ros.msg import Plan as PlanMessage
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.perception.tracker import ObstacleTracker
from lfdm_ros.ros.markers import ROUTE, Picture
from lfdm_ros.ros.messages import nanoseconds, scan_message
from lfdm_ros.ros.plan_messages import OUTCOMES, PlanMessages, goal_task, path_task, read_path, scan_of, values_of_odometry, values_of_state
from lfdm_ros.sensors import Lidar, LidarSettings
from lfdm_ros.simulation import Circle, Goal, Polygon, World
from lfdm_ros.simulation.path import Path

NOW = 12_500_000_000
PLAN = Plan(("x", "y", "yaw", "vx", "steering"), np.array([12.6, 12.65, 12.8]), np.arange(15.0).reshape(3, 5), np.full((3, 3), 0.25))
CYCLE = Cycle((0.1, 0.0, 0.3), CycleOutcome.SHIFTED, reason="over the time budget", cold_start=True, solver="hpipm", seconds=1e-3,
              iterations=7, residual=1e-9, cost=5.0, cost_terms={"lateral": 2.0, "heading": 3.0}, active=("friction",),
              violated=("obstacle",), age=0.03, delay=0.13, plan=PLAN, remaining=30.0)


class Idle:
    """Takes whatever task."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def there_and_back(message: Any) -> Any:
    return deserialize_message(serialize_message(message), type(message))


def test_every_outcome_has_its_constant() -> None:
    assert [(o.name, getattr(MpcStatus, o.name)) for o in CycleOutcome] == [(o.name, OUTCOMES[o]) for o in CycleOutcome]
    assert sorted(OUTCOMES.values()) == [0, 1, 2, 3, 4]


def test_a_cycle_becomes_status_command_plan_and_horizon() -> None:
    pilot = Pilot(Idle(), ObstacleTracker(), period=0.02)
    pilot.begin(Task("way", path=Path(np.array([[0.0, 0.0], [50.0, 0.0]])), speed=8.0))
    pilot.blind = "no scan for 1.20 s"
    messages = PlanMessages({"x": "m", "yaw": "rad", "vx": "m/s"})
    decision = PilotDecision(NOW, CYCLE, "odom", True, True)

    command = there_and_back(messages.fill_command(decision))
    assert (command.steering, command.throttle, command.brake, nanoseconds(command.header.stamp)) == (0.1, 0.0, 0.3, NOW)

    ackermann = there_and_back(messages.fill_ackermann(decision, 0.6))
    assert ackermann.drive.steering_angle == pytest.approx(0.06) and nanoseconds(ackermann.header.stamp) == NOW
    speeds = np.interp([1e-9 * NOW, 1e-9 * NOW + 0.5], PLAN.times, PLAN.states[:, PLAN.names.index("vx")])
    assert (ackermann.drive.speed, ackermann.drive.acceleration) == pytest.approx((speeds[1], abs(np.diff(speeds)[0]) / 0.5))
    stopped = PilotDecision(NOW, Cycle((0.1, 0.0, 0.5), CycleOutcome.STOPPED), "odom", True, True)
    assert there_and_back(messages.fill_ackermann(stopped, 0.6)).drive.speed == 0.0

    status = there_and_back(messages.fill_status(decision, pilot, 2e-3, 4))
    assert (status.outcome, status.outcome_name, status.cold_start, status.task) == (MpcStatus.SHIFTED, "shifted", True, "way")
    assert status.reason == "no scan for 1.20 s; over the time budget"
    assert (status.speed_limit, status.progress, status.distance_to_go) == pytest.approx((8.0, 20.0, 30.0))
    assert dict(zip(status.cost_names, status.cost_terms)) == CYCLE.cost_terms and status.iterations == 7
    assert list(status.active_constraints) == ["friction"] and list(status.violated_constraints) == ["obstacle"]
    assert (status.cycle_time, status.solve_time, status.state_age, status.delay) == (2e-3, 1e-3, 0.03, 0.13)
    assert math.isnan(status.scan_age) and status.posterior_version == 4 and status.header.frame_id == "odom"

    plan = there_and_back(messages.fill_plan(NOW, "odom", PLAN))
    assert isinstance(plan, PlanMessage) and list(plan.units) == ["m", "1", "rad", "m/s", "1"]
    np.testing.assert_allclose(plan.times, [0.1, 0.15, 0.3])
    np.testing.assert_array_equal(np.reshape(plan.states, (3, 5)), PLAN.states)
    np.testing.assert_array_equal(np.reshape(plan.inputs, (3, 3)), PLAN.inputs)

    for count in (3, 2):  # the messages are used again, for a plan of another length too
        shown = Plan(PLAN.names, PLAN.times[:count], PLAN.states[:count], PLAN.inputs[:count])
        horizon = there_and_back(messages.fill_horizon(decision, shown))
        assert [(p.pose.position.x, p.pose.position.y) for p in horizon.poses] == [(0.0, 1.0), (5.0, 6.0), (10.0, 11.0)][:count]
        assert nanoseconds(horizon.poses[1].header.stamp) == 12_650_000_000
        turn = horizon.poses[1].pose.orientation
        assert math.remainder(2.0 * math.atan2(turn.z, turn.w) - 7.0, 2.0 * math.pi) == pytest.approx(0.0, abs=1e-12)


def test_without_a_task_there_is_no_distance_to_go() -> None:
    pilot = Pilot(Idle(), ObstacleTracker(), period=0.02)
    status = PlanMessages({}).fill_status(PilotDecision(NOW, Cycle((0.0, 0.0, 0.5), CycleOutcome.STOPPED), "", True, False), pilot, 0.0, 0)
    assert math.isnan(status.speed_limit) and math.isnan(status.progress) and math.isnan(status.distance_to_go)
    pilot.begin(Task("there", goal=Goal(5.0, 0.0), speed=9.0))
    status = PlanMessages({}).fill_status(PilotDecision(NOW, CYCLE, "", True, False), pilot, 0.0, 0)
    assert status.speed_limit == 9.0 and math.isnan(status.progress) and status.distance_to_go == 30.0


def test_what_a_state_does_not_measure_stays_nan() -> None:
    state = VehicleState(x=1.0, y=2.0, yaw=0.3, vx=9.0, vy=0.1, yaw_rate=0.2, roll=math.nan, wheel_speeds=[1.0, 2.0, 3.0, math.nan])
    values = values_of_state(there_and_back(state))
    assert (values["x"], values["vy"], values["omega_rl"]) == (1.0, 0.1, 3.0)
    assert math.isnan(values["roll"]) and math.isnan(values["omega_rr"])


def test_odometry_gives_the_yaw_of_its_quaternion() -> None:
    odometry = Odometry()
    odometry.pose.pose.position.x, odometry.twist.twist.linear.x, odometry.twist.twist.angular.z = 4.0, 7.0, 0.2
    q = odometry.pose.pose.orientation
    q.z, q.w = math.sin(-1.0), math.cos(-1.0)
    values = values_of_odometry(odometry)
    assert values["yaw"] == pytest.approx(-2.0) and (values["x"], values["vx"], values["yaw_rate"]) == (4.0, 7.0, 0.2)
    q.z = q.w = 0.0  # nobody filled it in
    assert math.isnan(values_of_odometry(odometry)["yaw"])


def test_a_scan_travels_there_and_back() -> None:
    scan = Lidar(World((Circle(20.0, 0.0, 1.0),)), LidarSettings(drop_out=0.1)).scan(0.7, 0.0, 0.0, 0.0)
    message = there_and_back(scan_message(scan, 700_000_000, "lidar", 0.1))
    assert isinstance(message, LaserScan) and message.header.frame_id == "lidar" and message.scan_time == pytest.approx(0.1)
    assert message.angle_max == pytest.approx(-message.angle_min)
    back = scan_of(message)
    assert back.stamp == pytest.approx(0.7)
    np.testing.assert_array_equal(back.ranges, scan.ranges.astype(np.float32))
    assert np.isinf(back.ranges).any() and np.isnan(back.ranges).any() and (back.ranges < 20.0).any()


def message(points: np.ndarray, frame: str, own: Sequence[str]) -> PathMessage:
    path = PathMessage()
    path.header.frame_id = frame
    for k, (x, y) in enumerate(points.tolist()):
        pose = PoseStamped()
        pose.header.frame_id = own[k % len(own)]
        pose.pose.position.x, pose.pose.position.y, pose.pose.orientation.w = x, y, 1.0
        path.poses.append(pose)
    return path


def as_sent(*points: tuple[float, float], own: tuple[str, ...] = ("",)) -> bytes:
    return bytes(serialize_message(message(np.reshape(points, (-1, 2)).astype(float), "odom", own)))


def test_a_path_with_duplicate_points_is_the_path_without() -> None:
    once = path_task(as_sent((0.0, 0.0), (10.0, 0.0), (20.0, 5.0)), 8.0, True)
    twice = path_task(as_sent((0.0, 0.0), (0.0, 0.0), (10.0, 0.0), (10.0, 0.0), (20.0, 5.0), (20.0, 5.0)), 8.0, True)
    assert once.path is not None and twice.path is not None and (once.frame, once.speed, once.stop) == ("odom", 8.0, True)
    np.testing.assert_array_equal(once.path.x, twice.path.x)
    np.testing.assert_array_equal(once.path.curvature, twice.path.curvature)


@pytest.mark.parametrize(("points", "words"), [
    ([(0.0, 0.0)], "at least two"), ([(3.0, 1.0), (3.0, 1.0)], "at least two"), ([(0.0, 0.0), (math.nan, 1.0)], "finite"),
])
def test_a_path_that_is_none_is_an_error(points: list[tuple[float, float]], words: str) -> None:
    with pytest.raises(InputError, match=words):
        path_task(as_sent(*points), 8.0, True)


def test_a_pose_in_another_frame_than_its_path_is_an_error_and_no_poses_end_the_task() -> None:
    with pytest.raises(InputError, match="'map'"):
        path_task(as_sent((0.0, 0.0), (10.0, 0.0), own=("", "map")), 8.0, True)
    ended = path_task(as_sent(), 8.0, True)
    assert ended.path is None and ended.goal is None


def test_a_goal_keeps_frame_tolerance_and_stop() -> None:
    message = PoseStamped()
    message.header.frame_id = "odom"
    message.pose.position.x, message.pose.position.y = 40.0, -3.0
    task = goal_task(message, 9.0, 2.0, True)
    assert task.goal == Goal(40.0, -3.0, 2.0, True) and task.frame == "odom" and task.speed == 9.0
    message.pose.position.y = math.inf
    with pytest.raises(InputError, match="y is inf"):
        goal_task(message, 9.0, 2.0, True)


def test_a_picture_replaces_the_one_before_and_has_markers_of_their_own() -> None:
    picture = Picture("odom", NOW)
    picture.obstacles(Obstacles(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5, 1.0]), np.array([[0.0, 0.0], [2.0, 0.0]]), 12.0))
    picture.world(World((Polygon(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), vx=1.0),)), 2.0)
    picture.line("route", np.array([0.0, 1.0]), np.array([0.0, 1.0]), 0.1, ROUTE)
    picture.goal(Goal(9.0, 9.0))
    array = there_and_back(picture.array)
    assert isinstance(array, MarkerArray) and array.markers[0].action == Marker.DELETEALL
    assert [m.ns for m in array.markers[1:]] == ["obstacles", "obstacles", "velocities", "world", "route", "goal"]
    assert len({(m.ns, m.id) for m in array.markers}) == len(array.markers)
    assert array.markers[2].scale.x == 2.0 and (array.markers[4].points[0].x, len(array.markers[4].points)) == (2.0, 4)


@pytest.mark.parametrize("frame", ["", "m", "map", "odom", "a/longer/frame"])
@pytest.mark.parametrize("own", [[""], ["same"], ["same", ""], ["", "same", "same"]])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_read_as_the_middleware_wrote_it(frame: str, own: list[str], count: int) -> None:
    points = np.random.default_rng(count).normal(0.0, 1e3, (count, 2))
    read, found = read_path(bytes(serialize_message(message(points, frame, [frame if one else "" for one in own]))))
    assert read == frame
    np.testing.assert_array_equal(found, points)


def test_a_pose_of_another_frame_is_refused_wherever_it_stands() -> None:
    for own in (["map"], ["odom"] * 9 + ["map"], ["map"] + ["odom"] * 9):
        with pytest.raises(Refused, match="'map'") as caught:
            read_path(bytes(serialize_message(message(np.zeros((10, 2)), "odom", own))))
        assert caught.value.reason == FRAME


def test_more_poses_than_a_path_may_have_are_refused_before_they_are_read() -> None:
    data = bytearray(serialize_message(message(np.zeros((1, 2)), "odom", ["odom"])))
    data[24:28] = int(BOUNDS["points"].upper + 1).to_bytes(4, "little")
    with pytest.raises(Refused, match="number of poses") as caught:
        read_path(bytes(data))
    assert caught.value.reason == TOO_MANY


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 400), st.integers(0, 255), st.integers(0, 400))
def test_damaged_bytes_are_read_or_refused(place: int, value: int, end: int) -> None:
    data = bytearray(serialize_message(message(np.ones((4, 2)), "odom", ["odom"])))
    data[place % len(data)] = value
    try:
        _, points = read_path(bytes(data[:max(end, 1) if end < 200 else None]))
    except Refused as refused:
        assert refused.reason in (MALFORMED, FRAME, TOO_MANY)
    else:
        assert points.shape == (len(points), 2)
