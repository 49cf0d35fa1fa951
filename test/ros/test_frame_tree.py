"""Frames in the plane: chains up and down, against products of matrices; what is no transform is refused."""

import math

import numpy as np
import pytest
from geometry_msgs.msg import TransformStamped
from tf2_msgs.msg import TFMessage

from lfdm_ros.bounds import Refusals, Refused
from lfdm_ros.engine.driving import Task
from lfdm_ros.nodes.piloted import FrameTree
from lfdm_ros.simulation import Goal
from lfdm_ros.simulation.path import Path


def transform(parent: str, child: str, x: float, y: float, yaw: float) -> TransformStamped:
    message = TransformStamped(child_frame_id=child)
    message.header.frame_id = parent
    message.transform.translation.x, message.transform.translation.y = x, y
    message.transform.rotation.z, message.transform.rotation.w = math.sin(0.5 * yaw), math.cos(0.5 * yaw)
    return message


def matrix(x: float, y: float, yaw: float) -> np.ndarray:
    return np.array([[math.cos(yaw), -math.sin(yaw), x], [math.sin(yaw), math.cos(yaw), y], [0.0, 0.0, 1.0]])


def test_points_go_up_and_down_the_tree() -> None:
    tree, odom, base, other = FrameTree(), (10.0, -3.0, 0.4), (2.0, 1.0, -1.2), (-5.0, 7.0, 2.5)
    for parent, child, placed in (("map", "odom", odom), ("/odom", "base_link", base), ("map", "other", other)):
        tree.take(transform(parent, child, *placed))
    points = np.array([[1.0, 2.0], [-4.0, 0.5]])
    expected = np.linalg.inv(matrix(*other)) @ matrix(*odom) @ matrix(*base) @ np.column_stack([points, np.ones(2)]).T
    np.testing.assert_allclose(tree.points(points, "base_link", "other"), expected[:2].T)
    np.testing.assert_allclose(tree.points(tree.points(points, "map", "base_link"), "base_link", "map"), points, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(tree.points(points, "odom", "odom"), points)
    assert tree.knows("other", "base_link") and not tree.knows("elsewhere", "map")
    with pytest.raises(Refused, match="'elsewhere' is not known in 'map'"):
        tree.points(points, "elsewhere", "map")
    tree.take(transform("map", "odom", 0.0, 0.0, 0.0))  # the newest counts
    np.testing.assert_allclose(tree.points(points, "odom", "map"), points)


def test_a_task_goes_where_the_frames_are_known_and_stays_where_not() -> None:
    tree, refusals = FrameTree(), Refusals()
    tree.hear(TFMessage(transforms=[transform("a", "a", 0.0, 0.0, 0.0), transform("map", "odom", 10.0, -5.0, 0.5 * math.pi)]), refusals)
    assert refusals.counts == {"transform": 1} and tree.knows("map", "odom")
    path = Path(np.column_stack([np.full(20, 10.0), np.linspace(0.0, 50.0, 20)]))
    moved = tree.task(Task("both", "map", path=path, goal=Goal(10.0, 35.0)), "odom")
    assert moved.frame == "odom" and moved.goal is not None and (moved.goal.x, moved.goal.y) == pytest.approx((40.0, 0.0))
    assert moved.path is not None and moved.path.length == pytest.approx(50.0)
    np.testing.assert_allclose(moved.path.x[[0, -1]], [5.0, 55.0])
    for task in (Task("no frame", path=path), Task("the same", "odom", path=path), Task("unknown", "moon", path=path)):
        assert tree.task(task, "odom") is task


def test_what_is_no_transform_is_refused_and_circles_end() -> None:
    tree = FrameTree()
    broken = transform("a", "b", 0.0, 0.0, 0.0)
    broken.transform.rotation.w = 0.0
    for wrong, why in ((transform("a", "b", math.nan, 0.0, 0.0), "x is nan"),
                       (transform("a", "a", 0.0, 0.0, 0.0), "'a' in 'a'"), (transform("", "b", 0.0, 0.0, 0.0), "'b' in ''"),
                       (transform("a", "b", 1e9, 0.0, 0.0), "outside"), (broken, "rotation")):
        with pytest.raises(Refused, match=why):
            tree.take(wrong)
    tree.take(transform("a", "b", 1.0, 0.0, 0.0))
    tree.take(transform("b", "a", 1.0, 0.0, 0.0))
    with pytest.raises(Refused):
        tree.points(np.zeros((1, 2)), "b", "map")
    many, refusals = [transform("map", "far", 0.0, 0.0, 0.0)] * 1001, Refusals()
    tree.hear(TFMessage(transforms=many), refusals)
    assert refusals.reasons == {("transform", "too_many"): 1} and not tree.knows("map", "far")
    tree.hear(TFMessage(transforms=many[1:]), refusals)
    assert refusals.total == 1 and tree.knows("map", "far")
    for k in range(2000):
        try:
            tree.take(transform("map", f"f{k}", 0.0, 0.0, 0.0))
        except Refused as error:
            assert "more than 1000 frames" in str(error)
            return
    pytest.fail("as many frames as one likes")
