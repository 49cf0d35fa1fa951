"""Commands of others drive the simulator in lockstep: a speed and a curvature are reached, silence ends in a stop, nonsense is refused."""

import math
from typing import Any

import numpy as np
import pytest
from ackermann_msgs.msg import AckermannDriveStamped
from geometry_msgs.msg import Twist, TwistStamped

from lfdm_ros.nodes.command_adapter import CommandAdapter
from lfdm_ros.nodes.vehicle_simulator import VehicleSimulator
from lfdm_ros.ros.messages import nanoseconds, set_stamp


class Drive:
    """The simulator in lockstep with the adapter, at four times real time at most; `say` publishes with the newest state's stamp."""

    def __init__(self, graph: Any, kind: type, topic: str, **parameters: Any) -> None:
        self.graph = graph
        self.states = graph.listen("vehicle/state", "lfdm_ros/msg/VehicleState", 10_000)
        self.commands = graph.listen("control/command", "lfdm_ros/msg/DriverCommand", 10_000)
        self.publisher = graph.node.create_publisher(kind, topic, 10)
        self.adapter = graph.add(CommandAdapter, **parameters)
        self.simulator = graph.add(VehicleSimulator, active=False, stepping="lockstep", speed_factor=4.0, publish_rate=25.0)
        self.simulator.bring_up("configure", "activate")
        graph.wait(lambda: self.publisher.get_subscription_count() and self.states)

    def say(self, fill: Any, stamp_ns: int | None = None) -> None:
        message = self.publisher.msg_type()
        if hasattr(message, "header"):
            set_stamp(message.header.stamp, self.time_ns if stamp_ns is None else stamp_ns)
        fill(message)
        self.publisher.publish(message)

    @property
    def time_ns(self) -> int:
        return nanoseconds(self.states[-1].header.stamp)

    def until(self, seconds: float, fill: Any = None) -> None:
        """Goes on to a simulated time, with a command now and then."""
        while 1e-9 * self.time_ns < seconds:
            if fill is not None:
                self.say(fill)
            count = len(self.states)
            self.graph.wait(lambda count=count: len(self.states) > count)


def turn(message: Any, speed: float = 6.0, yaw_rate: float = 0.3) -> None:
    twist = getattr(message, "twist", message)
    twist.linear.x, twist.angular.z = speed, yaw_rate


def test_cmd_vel_is_followed_and_silence_ends_in_a_stop(graph: Any) -> None:
    drive = Drive(graph, Twist, "cmd_vel", twist_timeout=5.0)
    drive.until(8.0, turn)
    state = drive.states[-1]
    assert state.vx == pytest.approx(6.0, abs=0.15) and state.yaw_rate == pytest.approx(0.3, rel=0.05)
    said = drive.time_ns
    drive.until(1e-9 * said + 9.0)
    assert drive.adapter.diagnose()[2]["stops"] == 1 and abs(drive.states[-1].vx) < 0.1 and drive.commands[-1].brake == pytest.approx(0.3)
    stopping = [s for s in drive.states if nanoseconds(s.header.stamp) > said + 5_600_000_000 and s.vx > 1.0]
    slope = np.polyfit([1e-9 * nanoseconds(s.header.stamp) for s in stopping], [s.vx for s in stopping], 1)[0]
    assert slope == pytest.approx(-3.0, abs=0.6)  # not a full brake
    assert np.ptp([c.steering for c in drive.commands[-50:]]) < 1e-3  # with its wheels as they are


def test_ackermann_is_followed_and_what_is_none_is_refused_and_counted(graph: Any) -> None:
    drive = Drive(graph, AckermannDriveStamped, "ackermann_cmd", ackermann_timeout=5.0, cmd_vel_type="twist_stamped")

    def fill(message: Any, speed: float = 5.0, angle: float = -0.1, acceleration: float = 0.0) -> None:
        message.drive.speed, message.drive.steering_angle, message.drive.acceleration = speed, angle, acceleration

    drive.until(8.0, fill)
    assert drive.states[-1].vx == pytest.approx(5.0, abs=0.15)
    assert drive.states[-1].road_wheel_angle == pytest.approx(-0.1, abs=2e-3)
    refusals = drive.adapter.refusals
    for wrong, stamp_ns, reason in (
            (dict(speed=math.nan), 0, "not_finite"), (dict(angle=math.inf), 0, "not_finite"), (dict(speed=500.0), 0, "out_of_range"),
            (dict(acceleration=math.nan), 0, "not_finite"), ({}, 3_600_000_000_000, "stamp"), ({}, 1, "stamp")):
        before = refusals.reasons["ackermann", reason]
        drive.say(lambda message, wrong=wrong: fill(message, **wrong), stamp_ns)
        graph.wait(lambda reason=reason, before=before: refusals.reasons["ackermann", reason] > before, reason)
    stamped = graph.node.create_publisher(TwistStamped, "cmd_vel", 1)
    graph.wait(stamped.get_subscription_count)
    message = TwistStamped()
    turn(message, yaw_rate=math.nan)
    stamped.publish(message)
    graph.wait(lambda: refusals.reasons["twist", "not_finite"] == 1, "the refusal of a twist")
    assert drive.states[-1].vx > 4.0 and all(math.isfinite(c.steering + c.throttle + c.brake) for c in drive.commands)
