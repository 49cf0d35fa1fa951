"""Sources of other formats, each in a file that the library for it has written: what arrives in the bag, and what each mistake is told."""

import sys
from itertools import count

import numpy as np
import pytest
import yaml
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from scipy.io import savemat

from lfdm_ros.bags import bag_info, format_info, import_recording, open_bag, read_series
from lfdm_ros.errors import InputError

TIME = np.array([0.0, 0.1, 0.2, 0.3])
SPEED = np.array([36.0, 72.0, 108.0, 144.0])  # km/h
TOPICS = {"vehicle/state": {"type": "lfdm_ros/msg/VehicleState", "from": "log", "fields": {"vx": "speed"}}}


@pytest.fixture
def imported(tmp_path):
    """Imports a file of the test's folder by sources and topics; returns the bag."""

    names = (f"bag_{i}" for i in count())

    def run(source, sources, topics=TOPICS, **top):
        (tmp_path / "map.yaml").write_text(yaml.safe_dump({"sources": sources, "topics": topics, **top}, sort_keys=False))
        out = tmp_path / next(names)
        import_recording(tmp_path / source, tmp_path / "map.yaml", out, recording="log" if source == "." else None)
        return out

    return run


def log(file, **keys):
    return {"log": {"file": file, "time": {"column": "t"}, "columns": {"t": "s", "speed": "km/h"}} | keys}


def check(bag, time=TIME, speed=SPEED):
    series = read_series(bag, "vehicle/state", ["vx"])
    np.testing.assert_allclose(series.time, time, atol=2e-7)
    np.testing.assert_allclose(series.values[:, 0], speed / 3.6, rtol=1e-6)


# -- Text -----------------------------------------------------------------------------------------------------------


def test_a_header_that_begins_with_a_hash(tmp_path, imported):
    (tmp_path / "drive.csv").write_text("# drive of a Tuesday\n# t,v(km/h)\n" + "".join(f"{t},{v}\n" for t, v in zip(TIME, SPEED)))
    columns = {"t": "s", "speed": {"column": "v(km/h)", "unit": "km/h"}}
    check(imported("drive.csv", log("{recording}.csv", columns=columns)))
    (tmp_path / "drive.csv").write_text("#t v\n" + "".join(f"{t} {v}\n" for t, v in zip(TIME, SPEED)))
    columns = {"t": "s", "speed": {"column": "v", "unit": "km/h"}}
    check(imported("drive.csv", log("{recording}.csv", delimiter="whitespace", columns=columns)))


def test_rows_out_of_order_are_sorted_where_it_is_asked(tmp_path, imported):
    order = [0, 2, 1, 1, 3]
    (tmp_path / "drive.csv").write_text("t,speed\n" + "".join(f"{TIME[i]},{SPEED[i]}\n" for i in order))
    with pytest.raises(InputError, match=r"line 4: time runs backwards.*sort: true"):
        imported("drive.csv", log("{recording}.csv"))
    check(imported("drive.csv", log("{recording}.csv", sort=True)))


def test_an_angle_of_another_source_goes_the_short_way_round(tmp_path, imported):
    (tmp_path / "drive.csv").write_text("t,speed\n0.05,36\n")
    (tmp_path / "gnss.csv").write_text("t,course\n0,179\n0.1,-179\n")
    gnss = {"file": "gnss.csv", "time": {"column": "t"}, "columns": {"t": "s", "course": {"unit": "deg", "wraps": True}}}
    topics = {"vehicle/state": {"type": "lfdm_ros/msg/VehicleState", "from": "log", "fields": {"yaw": "gnss.course"}}}
    bag = imported("drive.csv", {**log("{recording}.csv"), "gnss": gnss}, topics)
    assert read_series(bag, "vehicle/state", ["yaw"]).values[0, 0] == pytest.approx(np.pi)


# -- Tables ---------------------------------------------------------------------------------------------------------


def test_arrays_of_one_dimension(tmp_path, imported):
    np.save(tmp_path / "t.npy", TIME)
    np.save(tmp_path / "speed.npy", SPEED)
    sources = {"clock": {"file": "t.npy", "names": ["t"], "time": {"column": "t"}, "columns": {"t": "s"}},
               "log": {"file": "speed.npy", "names": ["speed"], "time": {"source": "clock"}, "columns": {"speed": "km/h"}}}
    check(imported(".", sources))


def test_parquet(tmp_path, imported):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    stamps = pa.array((TIME * 1e9).astype("int64"), pa.timestamp("ns"))
    speed = pa.StructArray.from_arrays([pa.array([36, 72, None, 144], pa.int32())], ["ego"])
    parquet.write_table(pa.table({"stamp": stamps, "speed": speed, "note": ["a", "b", "c", "d"]}), tmp_path / "drive.parquet")
    columns = {"t": {"column": "stamp", "unit": "s"}, "speed": {"column": "speed.ego", "unit": "km/h", "allow_nan": True}}
    bag = imported("drive.parquet", log("{recording}.parquet", columns=columns))
    check(bag, speed=np.where([True, True, False, True], SPEED, np.nan))
    with pytest.raises(InputError, match=r"column 'note' is of type string, not numbers"):
        imported("drive.parquet", log("{recording}.parquet", columns={**columns, "note": 1}))
    with pytest.raises(InputError, match=r"has no column 'sped'.* it has stamp, speed\.ego, note"):
        imported("drive.parquet", log("{recording}.parquet", columns={**columns, "sped": 1}))
    (tmp_path / "drive.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(InputError, match="is no readable Parquet file"):
        imported("drive.parquet", log("{recording}.parquet", columns=columns))


def test_matlab_structures_and_variables_of_other_lengths(tmp_path, imported):
    savemat(tmp_path / "drive.mat", {"data": {"t": TIME, "v": SPEED}, "fast": np.arange(400.0), "mass": 1500.0})
    columns = {"t": {"column": "data.t", "unit": "s"}, "speed": {"column": "data.v", "unit": "km/h"}}
    check(imported("drive.mat", log("{recording}.mat", columns=columns)))
    with pytest.raises(InputError, match=r"there are data\.t \(4\), data\.v \(4\), fast \(400\); give those of another length a source"):
        imported("drive.mat", log("{recording}.mat", columns={**columns, "fast": 1}))


def test_matlab_7_3(tmp_path, imported):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "drive.mat", "w", userblock_size=512) as file:
        file["t"] = TIME[None]  # MATLAB's rows are columns
        file["data/speed"] = SPEED[:, None]
        file["#refs#/a"] = np.arange(7.0)
    with (tmp_path / "drive.mat").open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + bytes([0, 2]) + b"IM")
    columns = {"t": "s", "speed": {"column": "data.speed", "unit": "km/h"}}
    check(imported("drive.mat", log("{recording}.mat", columns=columns)))
    with pytest.raises(InputError, match=r"no column 'v'; it has data\.speed, t"):
        imported("drive.mat", log("{recording}.mat", columns={"t": "s", "speed": {"column": "v", "unit": "km/h"}}))


# -- Measurement files ----------------------------------------------------------------------------------------------


@pytest.fixture
def mdf(tmp_path):
    """Two groups: speed at 10 Hz with a clock, yaw rate at 5 Hz."""
    asammdf = pytest.importorskip("asammdf")
    with asammdf.MDF() as file:
        file.append([asammdf.Signal(SPEED, TIME, name="speed", unit="km/h"), asammdf.Signal(
            np.array([0, 1, 1, 0], np.uint8), TIME, name="brake", conversion={"val_0": 0, "text_0": b"off", "val_1": 1, "text_1": b"on"})],
                    acq_name="ESP_21")
        file.append(asammdf.Signal(np.array([5.0, 15.0]), TIME[::2], name="yaw_rate", unit="deg/s"), acq_name="IMU")
        file.save(tmp_path / "drive.mf4")
    return "drive.mf4"


def test_mdf_channels_with_the_times_of_their_group(mdf, imported):
    esp = {"file": "{recording}.mf4", "columns": {"speed": "km/h", "brake": 1}}
    imu = {"file": "{recording}.mf4", "group": "IMU", "columns": {"rate": {"column": "yaw_rate", "unit": "deg/s"}}}
    topics = {"vehicle/state": {"type": "lfdm_ros/msg/VehicleState", "from": "log", "fields": {
        "vx": "speed", "yaw_rate": "imu.rate", "gear": "brake"}}}
    bag = imported(mdf, {"log": esp, "imu": imu}, topics)
    check(bag)
    np.testing.assert_allclose(np.rad2deg(read_series(bag, "vehicle/state", ["yaw_rate"]).values[:, 0]), [5.0, 10.0, 15.0, 15.0])
    assert read_series(bag, "vehicle/state", ["gear"]).values[:, 0].tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(("keys", "message"), [
    ({"columns": {"speed": "km/h", "yaw_rate": "deg/s"}}, r"no channel group of .* has all of its columns \(speed in 0, yaw_rate in 1\)"),
    ({"columns": {"speed": {"column": "sped", "unit": "km/h"}}}, r"has no channel 'sped' \(did you mean 'speed'\?\)"),
    ({"columns": {"speed": "km/h"}, "group": "GPS"}, r"has no group 'GPS'; it has 0 ESP_21, 1 IMU"),
    ({"columns": {"speed": "km/h"}, "topic": "/odom"}, r"log\.topic is for format bag, and this source is mdf"),
])
def test_mdf_mistakes(mdf, imported, keys, message):
    with pytest.raises(InputError, match=message):
        imported(mdf, {"log": {"file": "{recording}.mf4", **keys}})


DBC = """VERSION ""
BU_: ECU
BO_ 256 SPEED: 8 ECU
 SG_ speed : 0|16@1+ (0.01,0) [0|655] "km/h" ECU
BO_ 257 STEERING: 8 ECU
 SG_ angle : 0|16@1- (0.1,0) [-3276|3276] "deg" ECU
"""


@pytest.mark.parametrize("suffix", ["asc", "blf", "log"])
def test_can_logs_by_a_dbc(tmp_path, imported, suffix):
    can, cantools = pytest.importorskip("can"), pytest.importorskip("cantools")
    (tmp_path / "car.dbc").write_text(DBC)
    dbc = cantools.database.load_string(DBC)
    with can.Logger(tmp_path / f"drive.{suffix}") as file:
        for t, v in zip(TIME, SPEED):
            for name, signals, later in (("SPEED", {"speed": v}, 0.0), ("STEERING", {"angle": -v}, 0.01)):
                message = dbc.get_message_by_name(name)
                file.on_message_received(can.Message(timestamp=1e9 + t + later, arbitration_id=message.frame_id, is_extended_id=False,
                                                     data=message.encode(signals), channel=0))
    source = {"file": f"{{recording}}.{suffix}", "dbc": "car.dbc", "message": "SPEED", "columns": {"speed": "km/h"}}
    bag = imported(f"drive.{suffix}", {"log": source}, time_origin="zero")
    check(bag)
    with pytest.raises(InputError, match=r"car\.dbc has no message 'SPED' \(did you mean 'SPEED'\?\); it has SPEED, STEERING"):
        imported(f"drive.{suffix}", {"log": {**source, "message": "SPED"}})
    with pytest.raises(InputError, match=r"log: a source of format can needs 'dbc'"):
        imported(f"drive.{suffix}", {"log": {key: value for key, value in source.items() if key != "dbc"}})


@pytest.mark.parametrize(("module", "file", "keys", "install"), [
    ("pyarrow.parquet", "drive.parquet", {}, "pyarrow: pip install pyarrow"),
    ("asammdf", "drive.mf4", {}, "asammdf: pip install asammdf"),
    ("can", "drive.asc", {"dbc": "car.dbc", "message": "SPEED"}, "python-can: pip install python-can cantools"),
    ("h5py", "drive.mat", {}, "h5py: pip install h5py"),
])
def test_a_missing_library_is_one_line(tmp_path, imported, monkeypatch, module, file, keys, install):
    (tmp_path / file).write_bytes(b"\x89HDF\r\n\x1a\n")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf'{install}, or "lfdm-ros\[formats\]"') as error:
        imported(file, log(file, **keys))
    assert "\n" not in str(error.value)


# -- Bags -----------------------------------------------------------------------------------------------------------

ACKERMANN = "float32 steering_angle\nfloat32 steering_angle_velocity\nfloat32 speed\nfloat32 acceleration\nfloat32 jerk\n"
STAMPED = "std_msgs/Header header\nackermann_msgs/AckermannDrive drive\n"
START = 1_700_000_000
COURSE = np.deg2rad([170.0, 175.0, -178.0, -172.0])

CAR = {
    "odom": {"topic": "/odom", "columns": {
        "x": {"column": "pose.pose.position.x", "unit": "m"}, "vx": {"column": "twist.twist.linear.x", "unit": "m/s"},
        "qz": {"column": "pose.pose.orientation.z", "unit": "1"}, "qw": {"column": "pose.pose.orientation.w", "unit": "1"}}},
    "imu": {"topic": "/imu/data", "columns": {"rate": {"column": "angular_velocity.z", "unit": "rad/s"}}},
    "drive": {"topic": "/drive", "columns": {"angle": {"column": "drive.steering_angle", "unit": "rad"}}},
    "fix": {"topic": "/fix", "columns": {"latitude": "deg", "longitude": "deg"}},
    "twist": {"topic": "/twist", "columns": {"vy": {"column": "twist.linear.y", "unit": "m/s"}}},
}
STATE = {"vehicle/state": {"type": "lfdm_ros/msg/VehicleState", "from": "odom", "fields": {
    "x": "x", "vx": "vx", "yaw": "yaw(0, 0, qz, qw)", "yaw_rate": "imu.rate", "road_wheel_angle": "drive.angle", "vy": "twist.vy",
    "y": "north(fix.latitude, fix.longitude)"}}}


def write_bag(writer, store, serialise, msgtypes):
    """The drive of a car: its messages in the terms of a typestore, by a writer that is open."""
    types, header = store.types, "seq" in dict(store.fielddefs["std_msgs/msg/Header"][1])

    def make(msgtype, **values):
        fields = {}
        for name, (_, detail) in store.fielddefs[msgtype][1]:
            if name in values:
                fields[name] = values[name]
            elif name == "header":
                stamp = types["builtin_interfaces/msg/Time"](sec=int(time // 1), nanosec=round(time % 1 * 1e9))
                fields[name] = types["std_msgs/msg/Header"](**({"seq": 0} if header else {}), stamp=stamp, frame_id="map")
            elif isinstance(detail, str):
                fields[name] = make(detail)
            elif isinstance(detail[0], tuple):
                fields[name] = np.zeros(detail[1])
            else:
                fields[name] = "" if detail[0] == "string" else 0
        return types[msgtype](**fields)

    connections = {topic: writer.add_connection(topic, msgtype, typestore=store) for topic, msgtype in msgtypes.items()}
    for k, t in enumerate(TIME.tolist()):
        time = START + t
        vector = "geometry_msgs/msg/Vector3"
        pose = make("geometry_msgs/msg/Pose", position=make("geometry_msgs/msg/Point", x=float(k)), orientation=make(
            "geometry_msgs/msg/Quaternion", z=float(np.sin(COURSE[k] / 2)), w=float(np.cos(COURSE[k] / 2))))
        twist = make("geometry_msgs/msg/Twist", linear=make(vector, x=SPEED[k] / 3.6, y=0.5))
        messages = {
            "/odom": make("nav_msgs/msg/Odometry", pose=make("geometry_msgs/msg/PoseWithCovariance", pose=pose),
                          twist=make("geometry_msgs/msg/TwistWithCovariance", twist=twist)),
            "/imu/data": make("sensor_msgs/msg/Imu", angular_velocity=make(vector, z=0.1 * k)),
            "/drive": make("ackermann_msgs/msg/AckermannDriveStamped", drive=make(
                "ackermann_msgs/msg/AckermannDrive", steering_angle=0.25)),
            "/fix": make("sensor_msgs/msg/NavSatFix", latitude=48.0 + 1e-5 * k, longitude=11.0),
            "/twist": make("geometry_msgs/msg/TwistStamped", twist=twist)}
        for topic, message in messages.items():
            writer.write(connections[topic], round(time * 1e9) + 5_000_000, serialise(message, msgtypes[topic]))


def bag_of(kind, path):
    store = get_typestore(Stores.ROS1_NOETIC if kind == "bag" else Stores.ROS2_JAZZY)
    for name, text in (("AckermannDrive", ACKERMANN), ("AckermannDriveStamped", STAMPED)):
        store.register(get_types_from_msg(text, f"ackermann_msgs/msg/{name}"))
    msgtypes = {"/odom": "nav_msgs/msg/Odometry", "/imu/data": "sensor_msgs/msg/Imu", "/drive": "ackermann_msgs/msg/AckermannDriveStamped",
                "/fix": "sensor_msgs/msg/NavSatFix", "/twist": "geometry_msgs/msg/TwistStamped"}
    if kind == "bag":
        with Writer1(path) as writer:
            write_bag(writer, store, store.serialize_ros1, msgtypes)
    else:
        plugin = StoragePlugin.MCAP if kind == "mcap" else StoragePlugin.SQLITE3
        with Writer2(path, version=9, storage_plugin=plugin) as writer:
            write_bag(writer, store, store.serialize_cdr, msgtypes)


@pytest.mark.parametrize("kind", ["bag", "mcap", "sqlite3"])
def test_topics_of_other_stacks(tmp_path, imported, kind):
    """Odometry, Imu, AckermannDriveStamped, NavSatFix and TwistStamped of a bag of ROS 1, and of ROS 2 in both storages."""
    name = "drive.bag" if kind == "bag" else "drive"
    bag_of(kind, tmp_path / name)
    file = name.replace("drive", "{recording}")
    bag = imported(name, {key: {"file": file, "format": "bag", **source} for key, source in CAR.items()}, STATE, time_origin="zero")
    series = read_series(bag, "vehicle/state", ["x", "vx", "yaw", "yaw_rate", "road_wheel_angle", "vy", "y"])
    assert series.stamp0 == START * 10**9
    np.testing.assert_allclose(series.time, TIME, atol=1e-6)
    # A degree of latitude is 111.199 km at 48 degrees.
    expected = np.column_stack([np.arange(4), SPEED / 3.6, COURSE, 0.1 * np.arange(4), np.full(4, 0.25), np.full(4, 0.5),
                                1.11199 * np.arange(4)])
    np.testing.assert_allclose(series.values, expected, rtol=1e-4, atol=1e-6)


def test_stamps_of_the_recorder_and_mistakes_about_topics(tmp_path, imported):
    bag_of("mcap", tmp_path / "drive")
    odom = {"file": "{recording}", "format": "bag", "topic": "/odom",
            "columns": {"speed": {"column": "twist.twist.linear.x", "unit": "m/s"}}}
    bag = imported("drive", {"log": {**odom, "time": {"stamp": "recorded"}}}, time_origin="zero")
    assert read_series(bag, "vehicle/state", ["vx"]).stamp0 == pytest.approx(START * 10**9 + 5_000_000, abs=1000, rel=0)
    with pytest.raises(InputError, match=r"has no topic '/odometry' \(did you mean '/odom'\?\)"):
        imported("drive", {"log": {**odom, "topic": "/odometry"}})
    with pytest.raises(InputError, match=r"/odom: geometry_msgs/msg/Twist has no field 'speed'; it has linear, angular"):
        imported("drive", {"log": {**odom, "columns": {"speed": {"column": "twist.twist.speed", "unit": "m/s"}}}})
    with pytest.raises(InputError, match=r"time\.stamp is 'bag'; write header or recorded"):
        imported("drive", {"log": {**odom, "time": {"stamp": "bag"}}})


def test_what_is_in_a_bag_of_ros_1(tmp_path):
    bag_of("bag", tmp_path / "drive.bag")
    info = bag_info(tmp_path / "drive.bag")
    assert {topic["topic"]: (topic["type"], topic["count"]) for topic in info["topics"]} == {
        "/odom": ("nav_msgs/msg/Odometry", 4), "/imu/data": ("sensor_msgs/msg/Imu", 4), "/fix": ("sensor_msgs/msg/NavSatFix", 4),
        "/drive": ("ackermann_msgs/msg/AckermannDriveStamped", 4), "/twist": ("geometry_msgs/msg/TwistStamped", 4)}
    assert (info["messages"], info["recording"]) == (20, "drive") and len(info["sha256"]) == 64
    told = format_info(info)
    assert "import it with a mapping" in told and "/imu/data" in told


def test_a_bag_of_ros_1_that_is_none(tmp_path, imported):
    (tmp_path / "drive.bag").write_bytes(b"#ROSBAG V2.0\nno more")
    with pytest.raises(InputError, match="is a bag of ROS 1; import it with a mapping"):
        open_bag(tmp_path / "drive.bag")
    with pytest.raises(InputError, match=r"drive\.bag is no readable bag of ROS 1"):
        imported("drive.bag", {"log": {"file": "{recording}.bag", "topic": "/odom", "columns": {"speed": "m/s"}}})
