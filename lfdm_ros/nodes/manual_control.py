"""The base of nodes for manual driving: the topic, the rate, and the clock of the commands' stamps."""

import time

from rclpy.parameter import Parameter as RosParameter

from lfdm_ros.msg import DriverCommand
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import Component, while_active
from lfdm_ros.ros.endpoints import publishes
from lfdm_ros.ros.messages import nanoseconds
from lfdm_ros.ros.parameters import Parameter
from lfdm_ros.teleop.hands_on import Command

RATE = Parameter("rate", 50.0, "commands a second of the wall clock", 1.0, 1000.0, unit="Hz")
COMMAND = publishes("teleop/command", DriverCommand, qos.COMMAND, "the operator's command", sole=True)
_LOOK_FOR_CLOCK = 0.1  # [s]
_FIND_CLOCK = 3.0  # [s] in which a clock is found that there is, on a busy machine


class ManualControl(Component):
    """Publisher of `teleop/command`, `rate` times a second of the wall clock; free running only, as a person cannot drive in lockstep.

    Commands are stamped by /clock if it is published, whatever the initial `use_sim_time`. They pause while it stands still, since repeated
    stamps are refused. Without a link: remap `teleop/command` to `operator/command`, or to `control/command` to drive the vehicle alone.

    Subclasses have RATE and COMMAND, and define `request`.
    """

    def request(self, now: float) -> Command | None:
        """Returns steering, throttle and brake to send at a time [s] of the monotonic clock; None: send nothing."""
        raise NotImplementedError

    def configure(self) -> None:
        self.command = DriverCommand()
        self._stamped = 0  # [ns]
        self._publisher = self.publisher("teleop/command")
        self.every(1.0 / self.value("rate"), self.publish)
        self.every(_LOOK_FOR_CLOCK, self._look_for_clock)

    def activate(self) -> None:
        self._activated = time.monotonic()
        self._look_for_clock()

    def _look_for_clock(self) -> None:
        if not self.value("use_sim_time") and self.count_publishers(self.resolve_topic_name("/clock")):
            self.set_parameters([RosParameter("use_sim_time", value=True)])

    @while_active
    def publish(self) -> None:
        now = time.monotonic()
        command, stamp = self.request(now), self.stamp()
        looking = not self.value("use_sim_time") and now < self._activated + _FIND_CLOCK
        if command is None or looking or nanoseconds(stamp) in (0, self._stamped):
            return
        self._stamped = nanoseconds(stamp)
        self.command.header.stamp = stamp
        self.command.steering, self.command.throttle, self.command.brake = command
        self._publisher.publish(self.command)
