"""Frames and measurements as others expect them: transforms, joints, covariances, fixes; what is no odometry is refused."""

import math
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from nav_msgs.msg import Odometry
from sensor_msgs.msg import Imu, JointState
from tf2_msgs.msg import TFMessage

from lfdm_ros.models import get_model
from lfdm_ros.nodes.state_sensor import StateSensor
from lfdm_ros.nodes.vehicle_frames import VehicleFrames
from lfdm_ros.ros import qos
from lfdm_ros.ros.messages import EXACT, UNKNOWN, VehicleMessages, nanoseconds, set_stamp, unmeasured
from lfdm_ros.vehicles import Mount, load_vehicle

TICK = 10_000_000  # [ns]


def odometry(time_ns: int, x: float = 3.0, y: float = -2.0, yaw: float = 0.5, child: str = "base_link") -> Odometry:
    message = Odometry(child_frame_id=child)
    message.header.frame_id = "odom"
    set_stamp(message.header.stamp, time_ns)
    message.pose.pose.position.x, message.pose.pose.position.y = x, y
    message.pose.pose.orientation.z, message.pose.pose.orientation.w = math.sin(0.5 * yaw), math.cos(0.5 * yaw)
    return message


def matrix(transform: Any) -> np.ndarray:
    """The homogeneous matrix of a TransformStamped."""
    t, q = transform.transform.translation, transform.transform.rotation
    x, y, z, w = q.x, q.y, q.z, q.w
    assert math.hypot(x, y, z, w) == pytest.approx(1.0)
    rotation = [[1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)]]
    return np.block([[np.array(rotation), np.array([[t.x], [t.y], [t.z]])], [np.zeros((1, 3)), np.ones((1, 1))]])


class Tree:
    """The newest transforms of those heard, looked up as tf2 does."""

    def __init__(self, *heard: list[TFMessage]) -> None:
        self.frames = {t.child_frame_id: t for messages in heard for m in messages for t in m.transforms}

    def lookup(self, frame: str) -> np.ndarray:
        """Where a frame is in the root of its tree."""
        if frame not in self.frames:
            return np.eye(4)
        return self.lookup(self.frames[frame].header.frame_id) @ matrix(self.frames[frame])


def test_frames_of_vehicle_wheels_and_sensors(graph: Any) -> None:
    moving, fixed = graph.listen("tf", "tf2_msgs/msg/TFMessage"), graph.listen("tf_static", "tf2_msgs/msg/TFMessage", qos.LATCHED)
    looks = graph.listen("robot_description", "std_msgs/msg/String", qos.LATCHED)
    say = graph.node.create_publisher(Odometry, "odom", 10)
    turn = graph.node.create_publisher(JointState, "joint_states", 10)
    graph.add(VehicleFrames, vehicle="hmmwv", map_is_odom=True, vehicle_changes=["lidar_z=1.5", "lidar_yaw=0.1"])
    graph.wait(lambda: fixed and looks and say.get_subscription_count() and turn.get_subscription_count())
    say.publish(odometry(TICK))
    joints = JointState(name=["wheel_rl", "steering_fl", "wheel_ml"], position=[0.3, 0.2, 9.0])
    set_stamp(joints.header.stamp, TICK)
    turn.publish(joints)
    graph.wait(lambda: len(moving) == 2)

    tree = Tree(moving, fixed)
    np.testing.assert_allclose(tree.lookup("base_link")[:3, 3], [3.0, -2.0, 0.0])
    along = np.array([math.cos(0.5), math.sin(0.5)])
    lidar = tree.lookup("lidar")  # odom and map are one, so that both are looked up from map
    np.testing.assert_allclose(lidar[:3, 3], [*(np.array([3.0, -2.0]) + along), 1.5], atol=1e-12)
    assert math.atan2(lidar[1, 0], lidar[0, 0]) == pytest.approx(0.6)
    np.testing.assert_allclose(tree.lookup("imu")[:3, 3], [3.0, -2.0, 0.713], atol=1e-12)
    assert math.atan2(*tree.lookup("knuckle_fl")[[1, 0], 0]) == pytest.approx(0.7)
    np.testing.assert_allclose(matrix(tree.frames["wheel_rl_link"])[:3, 0], [math.cos(0.3), 0.0, -math.sin(0.3)], atol=1e-12)
    assert {t.header.frame_id for t in tree.frames.values()} <= {"map", *tree.frames}
    assert all(nanoseconds(t.header.stamp) == TICK for m in moving for t in m.transforms)
    # Every frame of the description is there, but for those that nobody moves.
    links = {link.attrib["name"] for link in ElementTree.fromstring(looks[0].data.encode()).findall("link")}
    assert {"base_link", "lidar", "imu", "wheel_rl_link", "knuckle_fl"} <= links & {*tree.frames}


def test_a_camera_has_an_optical_frame(graph: Any) -> None:
    """By REP 103: z ahead along the camera's axis, which its pitch lowers, x to the right, y down."""
    fixed = graph.listen("tf_static", "tf2_msgs/msg/TFMessage", qos.LATCHED)
    graph.add(VehicleFrames, vehicle="hmmwv_camera")
    graph.wait(lambda: fixed)
    mount = load_vehicle("hmmwv_camera").sensor_mounts["front"]
    found, down = Tree(fixed).lookup("front_optical"), mount.pitch
    np.testing.assert_allclose(found[:3, 3], [mount.x, mount.y, mount.z], atol=1e-12)
    np.testing.assert_allclose(found[:3, :3].T, [[0.0, -1.0, 0.0], [-math.sin(down), 0.0, -math.cos(down)],
                                                 [math.cos(down), 0.0, -math.sin(down)]], atol=1e-12)


def test_half_of_the_odometries_at_half_their_rate_and_none_that_is_none(graph: Any) -> None:
    moving = graph.listen("tf", "tf2_msgs/msg/TFMessage")
    say = graph.node.create_publisher(Odometry, "odom", 100)
    turn = graph.node.create_publisher(JointState, "joint_states", 100)
    node = graph.add(VehicleFrames, rate=50.0)
    graph.wait(lambda: say.get_subscription_count() and turn.get_subscription_count())
    for tick in range(1, 21):
        say.publish(odometry(tick * TICK))
    for wrong in (odometry(30 * TICK, x=math.nan), odometry(32 * TICK, x=1e9), odometry(34 * TICK, child="trailer"), Odometry()):
        say.publish(wrong)
    turn.publish(JointState(name=["wheel_fl"], position=[]))
    turn.publish(JointState(name=["wheel_fl"], position=[math.inf]))
    say.publish(odometry(2 * TICK))  # the clock was set back: another run
    graph.wait(lambda: node.refusals.total >= 5 and len(moving) >= 12)
    stamps = [nanoseconds(m.transforms[0].header.stamp) // TICK for m in moving]
    assert stamps == [1, *range(2, 21, 2), 2]
    assert dict(node.refusals.reasons) == {("odometry", "not_finite"): 1, ("odometry", "out_of_range"): 1, ("odometry", "frame"): 2,
                                           ("joints", "malformed"): 1, ("joints", "not_finite"): 1}


def test_measurements_have_the_covariance_of_their_noise(graph: Any) -> None:
    noise = {"x": 0.5, "y": 0.4, "yaw": 0.01, "vx": 0.1, "ax": 0.2, "yaw_rate": 0.02}
    count = 2000
    odometries = graph.listen("measured/odom", "nav_msgs/msg/Odometry", count)
    imus, fixes = graph.listen("measured/imu", "sensor_msgs/msg/Imu", count), graph.listen("gnss/fix", "sensor_msgs/msg/NavSatFix")
    graph.add(StateSensor, seed=3, gnss_rate=10.0, gnss_latitude=0.0, gnss_longitude=0.0, **{f"noise_{k}": v for k, v in noise.items()})
    state = unmeasured()
    state.header.frame_id, state.child_frame_id = "odom", "base_link"
    state.x, state.y, state.yaw, state.vx, state.vy, state.ax, state.ay, state.yaw_rate = 100.0, -50.0, 0.3, 10.0, 0.1, 1.0, 2.0, 0.2
    heard = next(s for s in graph.runtime.nodes[-1].subscriptions if s.topic_name == "/vehicle/state")
    for tick in range(count):
        set_stamp(state.header.stamp, tick * TICK)
        heard.callback(state)
    graph.wait(lambda: len(odometries) == len(imus) == 10 * len(fixes) == count)

    def spread(values: list[float], truth: float, sigma: float) -> None:
        assert np.mean(values) == pytest.approx(truth, abs=4.0 * sigma / math.sqrt(count))
        assert np.std(values) == pytest.approx(sigma, rel=4.0 / math.sqrt(2.0 * count))

    spread([m.pose.pose.position.x for m in odometries], 100.0, 0.5)
    spread([2.0 * math.asin(m.pose.pose.orientation.z) for m in odometries], 0.3, 0.01)
    spread([m.twist.twist.linear.x for m in odometries], 10.0, 0.1)
    spread([m.linear_acceleration.x for m in imus], 1.0, 0.2)
    np.testing.assert_allclose(odometries[0].pose.covariance.reshape(6, 6), np.diag([0.25, 0.16, UNKNOWN, UNKNOWN, UNKNOWN, 1e-4]))
    np.testing.assert_allclose(odometries[0].twist.covariance.reshape(6, 6), np.diag([0.01, *[UNKNOWN] * 4, 4e-4]))
    np.testing.assert_allclose(imus[0].linear_acceleration_covariance.reshape(3, 3), np.diag([0.04, UNKNOWN, UNKNOWN]))
    assert odometries[0].twist.twist.linear.y == 0.0 and imus[0].linear_acceleration.y == 0.0  # not measured
    metres = math.radians(1.0) * 6378137.0  # along the equator
    spread_of = [fix.longitude * metres for fix in fixes]
    assert np.mean(spread_of) == pytest.approx(100.0, abs=4.0 * 0.5 / math.sqrt(len(fixes)))
    np.testing.assert_allclose(fixes[0].position_covariance.reshape(3, 3), np.diag([0.25, 0.16, UNKNOWN]))
    assert fixes[0].position_covariance_type == fixes[0].COVARIANCE_TYPE_DIAGONAL_KNOWN


def test_what_is_simulated_says_that_it_is_exact_and_where_it_is_felt() -> None:
    """On a circle an IMU ahead of the centre feels less ahead: -r^2 x, and r_dot x across, where the yaw rate grows."""
    model = get_model("eight_dof/fiala/motor/linear/plane/physics")
    names = [output.name for output in model.outputs]

    def filled(messages: VehicleMessages, time_ns: int, yaw_rate: float) -> Imu:
        messages.fill(time_ns, [{"yaw_rate": yaw_rate, "ay": 4.0, "vx": 8.0, "omega_fl": 20.0, "road_wheel_angle": 0.1 * yaw_rate}.get(
            name, 0.0) for name in names])
        return messages.imu

    mounted, centred = VehicleMessages(model, Mount(2.0, 0.5)), VehicleMessages(model)
    filled(mounted, 0, 0.5)
    imu = filled(mounted, TICK, 0.51)
    assert imu.linear_acceleration.x == pytest.approx(-0.51**2 * 2.0 - 1.0 * 0.5)
    assert imu.linear_acceleration.y == pytest.approx(4.0 + 1.0 * 2.0 - 0.51**2 * 0.5)
    assert filled(centred, 0, 0.5).linear_acceleration.y == 4.0 and imu.header.frame_id == "imu"
    for covariance in (mounted.odometry.pose.covariance, mounted.odometry.twist.covariance, imu.orientation_covariance):
        matrix_of = np.asarray(covariance).reshape(int(math.sqrt(len(covariance))), -1)
        np.testing.assert_array_equal(matrix_of, EXACT * np.eye(len(matrix_of)))
    joints = mounted.joints
    angle, rate = (dict(zip(joints.name, values)) for values in (joints.position, joints.velocity))
    assert angle["wheel_fl"] == pytest.approx(20.0 * 0.01) and rate["wheel_fl"] == 20.0
    assert angle["steering_fl"] == angle["steering_fr"] == pytest.approx(0.051) and rate["steering_fl"] == pytest.approx(0.1)
    filled(mounted, 50 * TICK, 0.51)
    assert dict(zip(joints.name, joints.position))["wheel_fl"] == pytest.approx(math.remainder(10.0, 2.0 * math.pi))  # within a turn
    assert load_vehicle("hmmwv").imu.x == 0.0
