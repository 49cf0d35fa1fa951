"""Numbers read from a message's bytes are those that rclpy reads, whatever the strings before them."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped
from hypothesis import given
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import LaserScan

from lfdm_ros.bounds import Refused
from lfdm_ros.msg import LinkStatus, SimulatorStatus, VehicleState
from lfdm_ros.ros.raw_numbers import NumbersReader

READERS = [(kind, NumbersReader(kind)) for kind in (VehicleState, LaserScan, SimulatorStatus)]


@given(st.data())
def test_every_number_is_that_of_rclpy(data: st.DataObject) -> None:
    kind, reader = data.draw(st.sampled_from(READERS))
    message, rng = kind(), np.random.default_rng(data.draw(st.integers(0, 2**31)))
    message.header.stamp.sec, message.header.stamp.nanosec = data.draw(st.integers(-2**31, 2**31 - 1)), data.draw(st.integers(0, 2**32 - 1))
    message.header.frame_id = data.draw(st.text(max_size=9).filter(lambda text: "\0" not in text))
    for name, declared in list(kind.get_fields_and_field_types().items())[1:]:
        if declared == "string":
            setattr(message, name, data.draw(st.text(max_size=9).filter(lambda text: "\0" not in text)))
        elif declared in ("double", "float"):
            setattr(message, name, float(np.float32(rng.normal())))
        elif declared == "double[4]":
            setattr(message, name, rng.normal(size=4))
        elif declared == "boolean":
            setattr(message, name, bool(rng.integers(2)))
        elif declared.startswith(("int", "uint")):
            setattr(message, name, int(rng.integers(100)))
    content = serialize_message(message)
    expected, found = deserialize_message(content, kind), reader.read(content)
    assert (found.header.stamp.sec, found.header.stamp.nanosec) == (expected.header.stamp.sec, expected.header.stamp.nanosec)
    for name in reader.names:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_a_state_is_read_up_to_its_lists() -> None:
    reader = NumbersReader(VehicleState)
    assert reader.names[0] == "x" and reader.names[-1] == "engine_speed"
    big = b"\0\0\0\0" + struct.pack(">iI", 3, 4) + struct.pack(">I4s", 2, b"a\0\0\0") + struct.pack(">I4s", 1, b"\0\0\0\0")
    assert reader.read(big + struct.pack(">30d", *range(30)) + bytes(16)).y == 1.0


def test_what_cannot_be_read_is_refused() -> None:
    reader, content = NumbersReader(VehicleState), serialize_message(VehicleState())
    for wrong in (b"", content[:3], content[:40], b"\0\x07" + content[2:], content[:12] + b"\xff\xff\xff\xff" + content[16:]):
        with pytest.raises(Refused):
            reader.read(wrong)
    for kind in (PoseStamped, LinkStatus):
        with pytest.raises(LookupError):
            NumbersReader(kind)
