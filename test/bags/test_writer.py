"""Bags written by BagWriter, read back by rosbags itself and by us."""

import sqlite3
import struct
import tracemalloc
from contextlib import closing

import numpy as np
import pytest
import yaml
from rosbags.highlevel import AnyReader
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime

from lfdm_ros.bags import BagWriter, bag_info, open_bag, read_series, recording_name, recording_sha256
from lfdm_ros.bags.storage import SealedMcapWriter
from lfdm_ros.bags.typestore import new_message, typestore
from lfdm_ros.errors import InputError

STATE = "lfdm_ros/msg/VehicleState"
COMMAND = "lfdm_ros/msg/DriverCommand"


def stamp(seconds):
    nanoseconds = round(seconds * 1e9)
    return {"stamp": {"sec": nanoseconds // 10**9, "nanosec": nanoseconds % 10**9}}


def write_drive(path, storage="mcap", count=50, **options):
    with BagWriter(path, storage, **options) as writer:
        for i in range(count):
            t = 0.1 * i
            writer.write("vehicle/state", STATE, round(t * 1e9), {"header": stamp(t), "vx": 2.0 * t, "wheel_speeds": [1, 2, 3, t]})
            writer.write("control/command", COMMAND, round(t * 1e9), {"header": stamp(t), "throttle": 0.5})


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_what_is_written_is_read_by_rosbags(tmp_path, storage):
    write_drive(tmp_path / "drive", storage)
    with AnyReader([tmp_path / "drive"]) as reader:
        topics = {c.topic: (c.msgtype, c.msgcount) for c in reader.connections}
        assert topics == {"vehicle/state": (STATE, 50), "control/command": (COMMAND, 50)}
        states = [(t, reader.deserialize(raw, c.msgtype)) for c, t, raw in reader.messages() if c.msgtype == STATE]
    assert [t for t, _ in states] == [i * 10**8 for i in range(50)]
    assert states[7][1].vx == pytest.approx(1.4)
    assert states[7][1].wheel_speeds == pytest.approx([1, 2, 3, 0.7])


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_series_hold_scalars_and_array_elements(tmp_path, storage):
    write_drive(tmp_path / "drive", storage, origin_ns=0)
    series = read_series(tmp_path / "drive", "/vehicle/state", ["wheel_speeds[3]", "vx"])
    assert series.stamp0 == 0
    assert series.time.tolist() == [i / 10 for i in range(50)]  # to the last bit: windows are compared with these
    np.testing.assert_allclose(series.values, np.column_stack([series.time, 2.0 * series.time]), rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_metadata_is_the_same_while_it_is_written_and_in_the_end(tmp_path, storage):
    never = QosTime(2147483647, 4294967295)
    offered = [Qos(QosHistory.KEEP_LAST, 7, QosReliability.RELIABLE, QosDurability.TRANSIENT_LOCAL, QosTime(1, 5), never,
                   QosLiveliness.AUTOMATIC, never, False)]
    with BagWriter(tmp_path / "drive", storage, custom={"a": "true", "b": "line: 1\n- x", "c": "1e3"}) as writer:
        writer.offer("vehicle/state", offered)
        writer.write("vehicle/state", STATE, 3, {})
        writer.write("control/command", COMMAND, 8, {})
        writer.checkpoint()
        meanwhile = yaml.safe_load((tmp_path / "drive" / "metadata.yaml").read_text())
    information = meanwhile["rosbag2_bagfile_information"]
    assert information["custom_data"].pop("closed") == "false"
    assert meanwhile == yaml.safe_load((tmp_path / "drive" / "metadata.yaml").read_text())
    assert information["topics_with_message_count"][0]["topic_metadata"]["offered_qos_profiles"][0]["depth"] == 7


def test_raw_bytes_are_kept(tmp_path):
    message = new_message("sensor_msgs/msg/Imu", real=0.25)
    message.header.frame_id = "imu_link"
    raw = bytes(typestore().serialize_cdr(message, "sensor_msgs/msg/Imu"))
    with BagWriter(tmp_path / "imu") as writer:
        writer.write_raw("/imu", "sensor_msgs/msg/Imu", 5, raw)
    with open_bag(tmp_path / "imu") as bag:
        assert [(c.topic, t, cdr) for c, t, cdr in bag.raw()] == [("/imu", 5, raw)]


def test_content_hash_sees_content_only(tmp_path):
    write_drive(tmp_path / "a")
    write_drive(tmp_path / "b", "sqlite3", recording="b")
    write_drive(tmp_path / "c", count=49)
    assert recording_sha256(tmp_path / "a") == recording_sha256(tmp_path / "b")
    assert recording_sha256(tmp_path / "a") != recording_sha256(tmp_path / "c")
    padded = {}
    for name, padding in (("d", b"\0"), ("e", b"\xa5")):
        message = new_message(COMMAND)
        message.header.frame_id = "x"
        raw = bytearray(typestore().serialize_cdr(message, COMMAND))
        # encapsulation 4, stamp 8, string length 4, "x" and NUL: what follows up to the first float64 is padding.
        raw[18:20] = padding * 2
        with BagWriter(tmp_path / name) as writer:
            writer.write_raw("c", COMMAND, 0, bytes(raw))
        padded[name] = recording_sha256(tmp_path / name)
    assert padded["d"] == padded["e"]


def test_name_is_declared_or_the_folder(tmp_path):
    write_drive(tmp_path / "drive", recording="acc")
    write_drive(tmp_path / "other")
    assert recording_name(tmp_path / "drive") == "acc"
    assert recording_name(tmp_path / "other") == "other"


def test_types_of_a_sourced_workspace_are_found(tmp_path, monkeypatch):
    folder = tmp_path / "share" / "some_msgs" / "msg"
    folder.mkdir(parents=True)
    (folder / "Outer.msg").write_text("Inner[] items\nstd_msgs/Header header\n")
    (folder / "Inner.msg").write_text("float64 value\n")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    with BagWriter(tmp_path / "bag") as writer:
        writer.write("/outer", "some_msgs/msg/Outer", 1, {"header": stamp(2.0)})
    assert bag_info(tmp_path / "bag")["topics"][0]["type"] == "some_msgs/msg/Outer"


def test_errors_name_the_thing(tmp_path):
    write_drive(tmp_path / "drive")
    with pytest.raises(InputError, match="drive exists already"):
        BagWriter(tmp_path / "drive")
    with pytest.raises(InputError, match="storage 'zip' is unknown"):
        BagWriter(tmp_path / "x", storage="zip")
    with BagWriter(tmp_path / "x") as writer:
        writer.write("a", STATE, 0, {})
        with pytest.raises(InputError, match="topic a has type lfdm_ros/msg/VehicleState"):
            writer.write("a", COMMAND, 0, {})
        with pytest.raises(InputError, match=r"no share/no_msgs/msg/Such.msg in AMENT_PREFIX_PATH"):
            writer.write("b", "no_msgs/msg/Such", 0, {})
        with pytest.raises(InputError, match=r"has no field 'throtle' .did you mean 'throttle'.*; it has header, throttle"):
            writer.write("b", COMMAND, 0, {"throtle": 1.0})
        with pytest.raises(InputError, match="has 4 elements, not 3"):
            writer.write("a", STATE, 0, {"wheel_speeds": [1, 2, 3]})
        with pytest.raises(InputError, match="does not fit lfdm_ros/msg/DriverCommand"):
            writer.write("b", COMMAND, 0, {"throttle": "full"})
    with pytest.raises(InputError, match="not open for writing"):
        writer.write("a", STATE, 0, {})


def test_a_full_disk_is_one_line_and_keeps_what_was_written(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"cannot write the bag .*No space left"), BagWriter(tmp_path / "full") as writer:
        writer.write("a", COMMAND, 0, {"throttle": 0.5})
        writer.checkpoint()

        def refuse(storage):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(SealedMcapWriter, "checkpoint", refuse)
        writer.write("a", COMMAND, 1, {"throttle": 0.6})
        while True:  # until the checkpoint thread has met the full disk
            writer.write("a", COMMAND, 2, {"throttle": 0.7})
    assert bag_info(tmp_path / "full")["messages"] >= 1


def test_a_long_recording_does_not_grow_in_memory(tmp_path):
    """Two chunks a second, each with an entry in the index: those of five minutes; the summary has all of them."""
    with BagWriter(tmp_path / "long") as writer:
        tracemalloc.start()
        try:
            for i in range(600):
                for topic in "abcdefghij":
                    writer.write(topic, COMMAND, i, {})
                writer.checkpoint()
                if i == 99:
                    before = tracemalloc.get_traced_memory()[0]
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
    assert grown < 40_000  # [bytes]; in a list they are 150 000 and more
    content = (tmp_path / "long" / "long.mcap").read_bytes()
    place, indexed = struct.unpack_from("<Q", content, len(content) - 28)[0], 0  # the footer's, before its magic
    while content[place] != 2:
        indexed += content[place] == 8
        place += 9 + struct.unpack_from("<Q", content, place + 1)[0]
    assert indexed >= 600
    with AnyReader([tmp_path / "long"]) as reader:
        assert reader.message_count == sum(1 for _ in reader.messages()) == 6000


LATCHED = Qos(QosHistory.UNKNOWN, 0, QosReliability.RELIABLE, QosDurability.TRANSIENT_LOCAL, QosTime(9223372036, 854775807),
              QosTime(9223372036, 854775807), QosLiveliness.AUTOMATIC, QosTime(9223372036, 854775807), False)


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_the_offered_quality_of_service_is_kept_for_the_replay(tmp_path, storage):
    with BagWriter(tmp_path / "bag", storage) as writer:
        writer.offer("posterior", [LATCHED])
        writer.write("posterior", COMMAND, 0, {})
        writer.write("other", COMMAND, 0, {})
    # As rosbag2 of version 9 writes it: a sequence in metadata.yaml, the same as a text in the storage.
    information = yaml.safe_load((tmp_path / "bag" / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    infinite = {"sec": 9223372036, "nsec": 854775807}
    profile = {"history": "unknown", "depth": 0, "reliability": "reliable", "durability": "transient_local", "deadline": infinite,
               "lifespan": infinite, "liveliness": "automatic", "liveliness_lease_duration": infinite,
               "avoid_ros_namespace_conventions": False}
    assert information["version"] == 9
    assert {t["topic_metadata"]["name"]: t["topic_metadata"]["offered_qos_profiles"]
            for t in information["topics_with_message_count"]} == {"posterior": [profile], "other": []}
    file = next(path for path in (tmp_path / "bag").iterdir() if path.suffix in (".mcap", ".db3"))
    with open_bag(file) as bag:  # the storage alone
        assert {c.topic: c.ext.offered_qos_profiles for c in bag.connections} == {"posterior": [LATCHED], "other": []}
    if storage == "sqlite3":
        with closing(sqlite3.connect(file)) as database:
            text = dict(database.execute("SELECT name, offered_qos_profiles FROM topics").fetchall())["posterior"]
        assert yaml.safe_load(text) == [profile]
