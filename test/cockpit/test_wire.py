"""Messages to the page, and the credit by which a slow page gets the newest."""

from __future__ import annotations

import json
import math
import struct
from array import array
from types import SimpleNamespace

import numpy as np
import pytest
from geometry_msgs.msg import Quaternion, Transform, TransformStamped, Vector3
from radar_msgs.msg import RadarReturn, RadarScan
from rclpy.serialization import serialize_message
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage

from lfdm_ros.bags.typestore import typestore
from lfdm_ros.bounds import Refusals, Refused
from lfdm_ros.cockpit import page_messages
from lfdm_ros.cockpit.wire import CREDIT, IMAGE, RADAR, SCAN, STATE, Outbox, pack, pack_json
from lfdm_ros.perception.transform_tree import TransformTree
from lfdm_ros.ros.topics import interface_class


def test_a_binary_message_is_kind_number_stamp_and_floats() -> None:
    message = pack(STATE, 12.25, [1.0, math.nan], number=7)
    assert struct.unpack("<B3xId", message[:16]) == (STATE, 7, 12.25)
    np.testing.assert_array_equal(np.frombuffer(message[16:], "<f4"), [1.0, math.nan])


def test_an_image_is_its_bytes_and_none_is_refused() -> None:
    header = SimpleNamespace(stamp=SimpleNamespace(sec=3, nanosec=500_000_000))
    ((kind, content),) = page_messages.packed(page_messages.CAMERA, SimpleNamespace(header=header, data=array("B", b"abcde")),
                                              TransformTree())
    assert kind == IMAGE and struct.unpack("<B3xId", content[:16]) == (IMAGE, 0, 3.5) and content[16:] == b"abcde"
    with pytest.raises(Refused):
        list(page_messages.packed(page_messages.CAMERA, SimpleNamespace(header=header, data=b""), TransformTree()))


def test_returns_of_a_radar_are_places_in_the_vehicle() -> None:
    frames = TransformTree()
    frames.hear(TFMessage(transforms=[TransformStamped(
        header=Header(frame_id="base_link"), child_frame_id="radar", transform=Transform(
            translation=Vector3(x=2.0, y=1.0), rotation=Quaternion(z=math.sqrt(0.5), w=math.sqrt(0.5))))]), Refusals())  # to the left
    returns = [RadarReturn(range=10.0, doppler_velocity=-3.0), RadarReturn(range=math.nan), RadarReturn(range=4.0, azimuth=math.pi / 2)]
    message = RadarScan(header=Header(frame_id="radar"), returns=returns)
    ((kind, content),) = page_messages.packed(page_messages.RADAR_SCAN, message, frames)
    assert kind == RADAR
    np.testing.assert_allclose(np.frombuffer(content[16:], "<f4"), [2.0, 1.0, 2.0, 11.0, -3.0, -2.0, 1.0, 0.0], atol=1e-5)


def test_a_text_has_no_values_that_json_has_not() -> None:
    assert json.loads(pack_json("sharing", {"a": math.nan, "b": [(1, math.inf)], "c": {"d": 0.5}})) == {
        "kind": "sharing", "a": None, "b": [[1, None]], "c": {"d": 0.5}}


@pytest.mark.parametrize("topic", page_messages.TEXTS)
def test_a_text_is_the_same_of_a_live_message_and_of_one_in_a_bag(topic: str) -> None:
    word, text = page_messages.TEXTS[topic]
    kind = interface_class(page_messages.TYPES[topic])
    elements = {"double": 1.5, "float": 0.5, "string": "a", "boolean": True}
    live = kind(**{name: [elements.get(of[9:-1], 7)] for name, of in kind.get_fields_and_field_types().items()
                   if of.startswith("sequence<") and "/" not in of})
    recorded = typestore().deserialize_cdr(serialize_message(live), page_messages.TYPES[topic])
    assert json.loads(pack_json(word, text(recorded))) == json.loads(pack_json(word, text(live)))


def test_a_frozen_page_gets_the_newest_of_each_kind() -> None:
    outbox, sent = Outbox(), []
    for k in range(500):
        outbox.offer(STATE, b"%d" % k)
        outbox.offer(SCAN, b"s%d" % k)
        while (due := outbox.take()) is not None:
            sent.append(due[1])
    assert len(sent) == CREDIT and outbox.dropped == 2 * 500 - CREDIT - 2
    outbox.acknowledge(CREDIT)
    rest = []
    while (due := outbox.take()) is not None:
        rest.append(due[1])
    assert sorted(rest) == [b"499", b"s499"]


def test_an_acknowledgement_that_cannot_be_gives_no_credit() -> None:
    outbox = Outbox(credit=1)
    outbox.offer(STATE, b"a")
    assert outbox.take() is not None
    for count in (-1, 0, 2, 10**9):
        outbox.acknowledge(count)
        outbox.offer(STATE, b"b")
        assert outbox.take() is None
