"""What the adapter of rclpy relies on is there, in the release that it was made for."""

import inspect
from importlib.metadata import version

from rclpy.executors import Executor
from rclpy.experimental import EventsExecutor
from rclpy.lifecycle import LifecycleNode

from lfdm_ros.ros import rclpy_adapter


def test_it_was_made_for_this_release():
    found, known = version("rclpy"), rclpy_adapter.MADE_FOR["rclpy"]
    look_at = "\n  ".join(f"{name}: {what}" for name, what in rclpy_adapter.LOOK_AT.items())
    assert ".".join(found.split(".")[:2]) in known, (
        f"rclpy {found}; lfdm_ros/ros/rclpy_adapter.py was made for {' and '.join(known)}. Look there at:\n  {look_at}\nand where that "
        "holds and the tests of nodes and system pass, add the release to MADE_FOR")


def test_what_it_relies_on_is_there():
    assert callable(EventsExecutor)
    mixin = inspect.getsource(LifecycleNode.__mro__[1])
    assert "self._state_machine = " in mixin
    assert "lifecycle_msgs.srv.ChangeState,\n" in mixin and "self._services.extend(lifecycle_services)" in mixin
    source = inspect.getsource(Executor)
    assert "srv.callback" in source
    assert "srv.send_response" in source
