"""Reading bags of others, and where time is zero."""

import numpy as np
import pytest
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from lfdm_ros.bags import BagWriter, bag_info, existing_fields, open_bag, read_series, recording_name
from lfdm_ros.bags.fields import find_field
from lfdm_ros.bags.typestore import build_message, new_message, typestore
from lfdm_ros.errors import InputError

TWIST = "geometry_msgs/msg/TwistStamped"
JOINTS = "sensor_msgs/msg/JointState"


def header(nanoseconds):
    return {"stamp": {"sec": nanoseconds // 10**9, "nanosec": nanoseconds % 10**9}}


def write_foreign(path, topics, storage=StoragePlugin.MCAP):
    """A bag from rosbags' own writer: {topic: (type, [(stamp, dictionary)])}."""
    with Writer(path, version=9, storage_plugin=storage) as writer:
        for topic, (msgtype, messages) in topics.items():
            connection = writer.add_connection(topic, msgtype, typestore=typestore())
            for t, message in messages:
                writer.write(connection, t, typestore().serialize_cdr(build_message(msgtype, message), msgtype))


@pytest.mark.parametrize("storage", list(StoragePlugin))
def test_foreign_bag(tmp_path, storage):
    start = 1_700_000_000 * 10**9
    twists = [(start + i * 10**7 + 500, {"header": header(start + i * 10**7), "twist": {"linear": {"x": float(i)}}}) for i in range(100)]
    text = ("std_msgs/msg/String", [(start, {"data": "hello"})])
    write_foreign(tmp_path / "foreign", {"/twist": (TWIST, twists), "/text": text}, storage)
    info = bag_info(tmp_path / "foreign")
    assert (info["recording"], info["messages"], info["closed"], info["storage"]) == ("foreign", 101, True, storage.name.lower())
    twist = next(t for t in info["topics"] if t["topic"] == "/twist")
    assert (twist["count"], twist["rate"]) == (100, pytest.approx(100.0))
    series = read_series(tmp_path / "foreign", "twist", ["twist.linear.x"])
    np.testing.assert_allclose(series.time, np.arange(100) * 0.01, atol=1e-9)
    assert series.values[:, 0].tolist() == list(range(100))
    assert series.stamp0 == start
    with pytest.raises(InputError, match="field 'data' is a string, not a number"):
        read_series(tmp_path / "foreign", "/text", ["data"])


def test_single_file_of_a_bag(tmp_path):
    write_foreign(tmp_path / "foreign", {"/twist": (TWIST, [(5, {"header": header(7)})])})
    assert recording_name(tmp_path / "foreign" / "foreign.mcap") == "foreign"
    assert bag_info(tmp_path / "foreign" / "foreign.mcap")["messages"] == 1


def test_simulated_headers_recorded_at_wall_time_begin_near_zero(tmp_path):
    wall = 1_700_000_000 * 10**9
    latched = (TWIST, [(wall, {"header": header(1)})])  # one old message must not move the origin
    twists = (TWIST, [(wall + i, {"header": header(10**9 + i * 10**7)}) for i in range(3)])
    write_foreign(tmp_path / "sim", {"/latched": latched, "/twist": twists})
    assert read_series(tmp_path / "sim", "/twist", ["twist.linear.x"]).time.tolist() == [0.0, 0.01, 0.02]


def test_topics_without_header_use_the_time_of_recording(tmp_path):
    write_foreign(tmp_path / "plain", {"/x": ("std_msgs/msg/Float64", [(5 * 10**9, {"data": 1.0}), (7 * 10**9, {"data": 2.0})])})
    series = read_series(tmp_path / "plain", "/x", ["data"])
    assert (series.time.tolist(), series.values.tolist()) == ([0.0, 2.0], [[1.0], [2.0]])


def test_declared_origin(tmp_path):
    with BagWriter(tmp_path / "bag", origin_ns=3 * 10**9) as writer:
        for t in (4, 5):
            writer.write("twist", TWIST, t * 10**9, {"header": header(t * 10**9)})
    assert read_series(tmp_path / "bag", "twist", ["twist.linear.x"]).time.tolist() == [1.0, 2.0]


def test_sequences_are_read_by_index(tmp_path):
    joints = [(i, {"name": ["a", "b"], "velocity": [1.0, float(i)]}) for i in range(3)]
    write_foreign(tmp_path / "joints", {"/joints": (JOINTS, joints)})
    assert read_series(tmp_path / "joints", "/joints", ["velocity[1]"]).values[:, 0].tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(InputError, match=r"message 0 is too short for velocity\[2\]"):
        read_series(tmp_path / "joints", "/joints", ["velocity[2]"])


@pytest.mark.parametrize(("field", "message"), [
    ("twist.linear.w", r"geometry_msgs/msg/Vector3 has no field 'w'.*it has x, y, z"),
    ("twists", r"no field 'twists' \(did you mean 'twist'\?\)"),
    ("twist", "is a geometry_msgs/msg/Twist; name one of its fields, not a single value"),
    ("twist.linear.x.y", "has no 'y'"),
    ("twist.linear[0]", "has no '0'"),
    ("twist..x", "is not a field"),
    ("__class__", "is not a field"),
])
def test_wrong_fields(tmp_path, field, message):
    write_foreign(tmp_path / "foreign", {"/twist": (TWIST, [(5, {})])})
    with pytest.raises(InputError, match=message):
        read_series(tmp_path / "foreign", "/twist", [field])


def test_wrong_bags_and_topics(tmp_path):
    with pytest.raises(InputError, match=r"no bag at .*nowhere"):
        open_bag(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"is no bag: it has no \.mcap or \.db3 file"):
        open_bag(tmp_path / "empty")
    (tmp_path / "text.txt").write_text("hello")
    with pytest.raises(InputError, match="is no bag; give the folder"):
        open_bag(tmp_path / "text.txt")
    write_foreign(tmp_path / "foreign", {"/vehicle/twist": (TWIST, [(5, {})])})
    with pytest.raises(InputError, match=r"no topic 'vehicle/twst' \(did you mean '/vehicle/twist'\?\); it has /vehicle/twist"):
        read_series(tmp_path / "foreign", "vehicle/twst", ["twist.linear.x"])


def test_a_bag_without_messages(tmp_path):
    with BagWriter(tmp_path / "none"):
        pass
    info = bag_info(tmp_path / "none")
    assert (info["messages"], info["topics"], info["duration"], info["start"], info["closed"]) == (0, [], 0.0, None, True)


BEFORE = """# A VehicleState as version 0.1.0 defines it.
std_msgs/Header header
string child_frame_id
float64 x
float64 vx
float64[4] wheel_speeds
int32 gear
"""


@pytest.mark.parametrize("storage", list(StoragePlugin))
def test_a_bag_of_before_has_its_own_definition(tmp_path, storage):
    """A type that has more fields today: what there was reads as ever, beside a bag of today, and the new ones are not there."""
    state, types = "lfdm_ros/msg/VehicleState", get_typestore(Stores.ROS2_JAZZY)
    types.register(get_types_from_msg(BEFORE, state))
    with Writer(tmp_path / "before", version=9, storage_plugin=storage) as writer:
        connection = writer.add_connection("/vehicle/state", state, typestore=types)
        for i in range(3):
            message = types.types[state](new_message("std_msgs/msg/Header"), "base_link", 0.1 * i, 5.0, np.arange(4.0) + i, 1)
            message.header.stamp.nanosec = i
            writer.write(connection, i, types.serialize_cdr(message, state))
    today = {"vx": 7.0, "wheel_names": ["ml"], "speed_by_wheel": [8.0]}
    write_foreign(tmp_path / "now", {"/vehicle/state": (state, [(5, today)])}, storage)
    for _ in range(2):  # whichever is read first
        assert read_series(tmp_path / "before", "vehicle/state", ["vx", "wheel_speeds[3]", "gear"]).values.tolist() == [
            [5.0, 3.0, 1.0], [5.0, 4.0, 1.0], [5.0, 5.0, 1.0]]
        assert read_series(tmp_path / "now", "vehicle/state", ["vx", "speed_by_wheel[ml]"]).values.tolist() == [[7.0, 8.0]]
    assert existing_fields(tmp_path / "before", "vehicle/state", ["x", "speed_by_wheel[ml]"]) == [True, False]
    assert existing_fields(tmp_path / "now", "vehicle/state", ["x", "speed_by_wheel[ml]"]) == [True, True]
    with pytest.raises(InputError, match="has no field 'speed_by_wheel'"):
        read_series(tmp_path / "before", "vehicle/state", ["speed_by_wheel[ml]"])


def test_messages_with_empty_arrays_as_rclpy_serialises_them(tmp_path):
    """Who writes a bag of messages from `rclpy.serialization` has bytes behind them that mean nothing; more than that does not fit."""
    state = "lfdm_ros/msg/VehicleState"
    content = bytes(typestore().serialize_cdr(build_message(state, {"vx": 7.0, "wheel_names": ["ml"]}), state))
    for name, surplus in (("usual", 12), ("odd", 28)):
        with BagWriter(tmp_path / name) as writer:
            writer.write_raw("vehicle/state", state, 5, content + b"\x07" * surplus)
    assert read_series(tmp_path / "usual", "vehicle/state", ["vx"]).values.tolist() == [[7.0]]
    with pytest.raises(InputError, match="a message does not fit lfdm_ros/msg/VehicleState"):
        read_series(tmp_path / "odd", "vehicle/state", ["vx"])


def test_units_come_from_the_comments_of_our_messages_and_from_a_table():
    store = typestore()
    units = {path: find_field(store, msgtype, path, "here").unit for msgtype, path in [
        ("lfdm_ros/msg/VehicleState", "wheel_speeds[2]"), ("lfdm_ros/msg/VehicleState", "force_y_by_wheel[ml]"),
        ("lfdm_ros/msg/VehicleState", "ay"), ("lfdm_ros/msg/DriverCommand", "brake"),
        ("lfdm_ros/msg/SharedControlStatus", "applied.steering"), ("sensor_msgs/msg/Imu", "angular_velocity.z"),
        ("sensor_msgs/msg/Imu", "angular_velocity_covariance[0]"), ("nav_msgs/msg/Odometry", "twist.twist.linear.x")]}
    assert units == {"wheel_speeds[2]": "rad/s", "force_y_by_wheel[ml]": "N", "ay": "m/s^2", "brake": "1",
                     "applied.steering": "1", "angular_velocity.z": "rad/s",
                     "angular_velocity_covariance[0]": None, "twist.twist.linear.x": "m/s"}


def test_a_bag_of_one_namespace_is_read_by_the_names_below_it(tmp_path):
    for name, topics in (("one", ("/a/b/odom", "/a/b/measured/odom")), ("two", ("/measured/odom", "/vehicle/state"))):
        with BagWriter(tmp_path / name) as writer:
            for topic in topics:
                writer.write(topic, JOINTS, 1, {"position": [float(len(topic))]})
    assert read_series(tmp_path / "one", "odom", ["position[0]"]).values[0, 0] == len("/a/b/odom")
    with pytest.raises(InputError, match="has no topic 'odom'"):  # which is measured/odom only by its ending
        read_series(tmp_path / "two", "odom", ["position[0]"])
