"""Paths read from their bytes: as the middleware itself reads them, whatever the frames' lengths, and nothing but Refused for the rest."""

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped
from hypothesis import given, settings
from hypothesis import strategies as st
from nav_msgs.msg import Path as PathMessage
from rclpy.serialization import serialize_message

from lfdm_ros.bounds import BOUNDS, FRAME, MALFORMED, TOO_MANY, Refused
from lfdm_ros.ros.plan_messages import read_path


def message(points: np.ndarray, frame: str, own: list[str]) -> PathMessage:
    path = PathMessage()
    path.header.frame_id = frame
    for k, (x, y) in enumerate(points.tolist()):
        pose = PoseStamped()
        pose.header.frame_id = own[k % len(own)]
        pose.pose.position.x, pose.pose.position.y, pose.pose.orientation.w = x, y, 1.0
        path.poses.append(pose)
    return path


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
