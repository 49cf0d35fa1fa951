"""The link node: delays or loses states, scans and pictures on their way to the operator, and the commands on theirs to the vehicle."""

import math
import time
from array import array
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from builtin_interfaces.msg import Time
from sensor_msgs.msg import CompressedImage, LaserScan

from lfdm_ros.bounds import require
from lfdm_ros.engine.stepping import FREE_RUNNING, LOCKSTEP
from lfdm_ros.errors import InputError
from lfdm_ros.msg import DriverCommand, LinkStatus, VehicleState
from lfdm_ros.nodes.piloted import LIDAR_LATENCY, LOOK_FOR_SCAN, SCAN_PATIENCE
from lfdm_ros.parameters import Exposed
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import OK, WARN, Component, Diagnosis, while_active
from lfdm_ros.ros.endpoints import publishes, subscribes
from lfdm_ros.ros.messages import check_state, checked_stamp, nanoseconds, set_stamp, stamp_of
from lfdm_ros.ros.parameters import CAMERA, CAMERA_TOPIC, Parameter
from lfdm_ros.teleop.network_link import NetworkLinkSettings
from lfdm_ros.teleop.relay import COMMAND, DIRECTIONS, IMAGE, NEUTRAL, SCAN, STATE, Out, Relay

_UP, _DOWN = (Exposed(NetworkLinkSettings, f"{direction}_") for direction in DIRECTIONS)
_INPUTS = ("steering", "throttle", "brake")


class TeleopLink(Component):
    """A link that passes `vehicle/state`, `scan` and a camera's pictures on as `teleop/state`, `teleop/scan` and `teleop/image`, and
    `teleop/command` as `operator/command`.

    Delays are on the node's clock: simulated time with `use_sim_time`. In lockstep each state gets one `operator/command`, stamped as that
    state, once the operator has answered the messages that had reached it by then: teleop/relay.py. `teleop/link` has the age of arrivals.
    """

    NAME = "teleop_link"
    PARAMETERS = (
        Parameter("stepping", FREE_RUNNING, "free_running: what is due is passed on; lockstep: an answer to every state, stamped as that "
                                            "state, so that a run repeats to the bit", choices=(FREE_RUNNING, LOCKSTEP)),
        Parameter("seed", 1, "of delays and losses, both ways", 0, 2**31 - 1),
        *_UP.parameters, *_DOWN.parameters,
        Parameter("resolution", 0.005, "free running: polling period of the link, on the node's clock", 0.001, 1.0, unit="s"),
        Parameter("status_period", 0.1, "on the node's clock, between two messages on teleop/link", 0.01, 10.0, unit="s"),
        Parameter("lidar_rate", 0.0, "scans a second: in lockstep a state waits for the scan that is due; 0: take them as they come", 0.0,
                  1000.0, unit="Hz"),
        LIDAR_LATENCY, SCAN_PATIENCE, CAMERA,
    )
    ENDPOINTS = (
        subscribes("vehicle/state", VehicleState, qos.NEWEST, "the state for the operator", in_lockstep=qos.STATE),
        subscribes("scan", LaserScan, qos.SENSOR, "the scan for the operator", in_lockstep=qos.STATE),
        subscribes(CAMERA_TOPIC, CompressedImage, qos.SENSOR, "the picture for the operator", in_lockstep=qos.STATE, named_by="camera"),
        subscribes("teleop/command", DriverCommand, qos.NEWEST, "the command for the vehicle", in_lockstep=qos.COMMAND),
        publishes("teleop/state", VehicleState, qos.STATE, "vehicle/state as it arrives at the operator", sole=True),
        publishes("teleop/scan", LaserScan, qos.STATE, "scan as it arrives there"),
        publishes("teleop/image", CompressedImage, qos.STATUS, "the camera's picture as it arrives there"),
        publishes("operator/command", DriverCommand, qos.COMMAND, "teleop/command as it arrives at the vehicle", sole=True),
        publishes("teleop/link", LinkStatus, qos.STATE, "how late, how many lost"),
    )

    def configure(self) -> None:
        self._lockstep = self.value("stepping") == LOCKSTEP
        self._relay = Relay(_UP.record(self.value), _DOWN.record(self.value), self.value("seed"), lockstep=self._lockstep,
                            lidar_rate=self.value("lidar_rate"), lidar_latency=self.value("lidar_latency"), report=self.warn,
                            refused=self.warn_of_refusal)
        self.refusals = self._relay.refusals
        self._passes_on = {kind: self.publisher(topic) for kind, topic in (
            (STATE, "teleop/state"), (SCAN, "teleop/scan"), (IMAGE, "teleop/image"), (COMMAND, "operator/command"))}
        self._status_publisher = self.publisher("teleop/link")
        self.connect({"vehicle/state": self._on_state, "scan": self._on_scan, CAMERA_TOPIC: self._on_image,
                      "teleop/command": self._on_command})
        if self._lockstep:
            self.every(LOOK_FOR_SCAN, self._watch_scan)
        else:
            self.every(self.value("resolution"), self._poll, self.get_clock())
            self.every(self.value("status_period"), self._publish_status, self.get_clock())
        links = ", ".join(f"{name} {1e3 * link.settings.delay:g} ms" for name, link in self._relay.links.items())
        self.get_logger().info(f"{links}, seed {self.value('seed')}, {self.value('stepping')}")

    def parameter_changed(self, name: str, value: Any) -> None:
        for direction, exposed in zip(DIRECTIONS, (_UP, _DOWN)):
            link = self._relay.links[direction]
            for field, parameter in exposed.by_field.items():
                if parameter.name == name:
                    link.settings = replace(link.settings, **{field: value})

    def activate(self) -> None:
        self._relay.reset()  # messages under way are lost
        self._relay.resets = 0
        self._waits_since = math.inf
        self._status_due = -math.inf

    def summary(self) -> dict[str, Any]:
        return {"link": {name: {"sent": link.sent, "arrived": link.arrived, "dropped": link.dropped, "under_way": link.under_way}
                         for name, link in self._relay.links.items()}}

    @while_active
    def _on_state(self, state: VehicleState) -> None:
        used: VehicleState | None = state
        try:
            check_state(state)
        except InputError as error:
            self.refusals.refuse(STATE, error)
            used = None
        self._publish(self._relay.state(nanoseconds(state.header.stamp), used, self.now_ns()))
        self._waits_since = min(self._waits_since, time.monotonic()) if self._relay.waits_for_scan else math.inf
        if self._lockstep and 1e-9 * self._relay.time_ns >= self._status_due:
            self._status_due = 1e-9 * self._relay.time_ns + self.value("status_period") - 1e-6
            self._publish_status()

    def _on_scan(self, scan: LaserScan) -> None:
        if self._takes(SCAN, scan, "beams", len(scan.ranges)):
            self._publish(self._relay.scan(nanoseconds(scan.header.stamp), scan))
            self._waits_since = self._waits_since if self._relay.waits_for_scan else math.inf

    def _on_image(self, image: CompressedImage) -> None:
        if self._takes(IMAGE, image, "image_bytes", len(image.data)):
            self._relay.image(nanoseconds(image.header.stamp), image)

    def _takes(self, kind: str, message: Any, bound: str, size: int) -> bool:
        """Checks stamp and size of a message; counts refusals."""
        if self.state != "active":
            return False
        try:
            checked_stamp(message.header.stamp)
            require(bound, size)
        except InputError as error:
            self.refusals.refuse(kind, error)
            return False
        return True

    @while_active
    def _on_command(self, command: DriverCommand) -> None:
        used: DriverCommand | None = command
        try:
            checked_stamp(command.header.stamp)
            for name in _INPUTS:
                require(name, getattr(command, name))
        except InputError as error:
            self.refusals.refuse(COMMAND, error)
            used = None
        self._publish(self._relay.command(nanoseconds(command.header.stamp), used, self.now_ns()))

    @while_active
    def _poll(self) -> None:
        self._publish(self._relay.poll(self.now_ns()))

    @while_active
    def _watch_scan(self) -> None:
        if self._relay.waits_for_scan and time.monotonic() - self._waits_since > self.value("scan_patience"):
            self._waits_since = math.inf
            self._publish(self._relay.give_up_on_scan())

    def _publish(self, outs: Iterable[Out]) -> None:
        for out in outs:
            message = out.message
            if out.stamp_ns is not None:
                inputs = NEUTRAL if message is None else (getattr(message, name) for name in _INPUTS)
                message = DriverCommand(**dict(zip(_INPUTS, inputs)), age=out.age)
                set_stamp(message.header.stamp, out.stamp_ns)
            self._passes_on[out.kind].publish(message)

    def stamp(self) -> Time:
        """Returns the time of the node's messages; in lockstep the last state's, as the node keeps no clock then."""
        if self.state not in ("inactive", "active") or not self._lockstep:
            return super().stamp()
        return stamp_of(self._relay.time_ns)

    @while_active
    def _publish_status(self) -> None:
        statistics = self._relay.statistics(self.now_ns())
        message = LinkStatus(directions=list(DIRECTIONS), burst=[one.burst for one in statistics])
        message.header.stamp = self.stamp()
        for name in ("latency", "latency_p50", "latency_p99", "age"):
            setattr(message, name, array("d", [getattr(one, name) for one in statistics]))
        for name in ("sent", "arrived", "dropped"):
            setattr(message, name, array("Q", [getattr(one, name) for one in statistics]))
        self._status_publisher.publish(message)

    @while_active
    def diagnose(self) -> Diagnosis:
        statistics = dict(zip(DIRECTIONS, self._relay.statistics(self.now_ns())))
        values = {f"{name}.{field}": getattr(one, field) for name, one in statistics.items()
                  for field in ("latency_p50", "latency_p99", "age", "sent", "arrived", "dropped", "under_way", "burst")}
        values["resets"] = self._relay.resets
        idle_topics = [topic for topic, direction in (("vehicle/state", "up"), ("teleop/command", "down"))
                       if not self.increase(topic, statistics[direction].sent)]
        if idle_topics:
            return WARN, f"nothing in the last second on {', '.join(idle_topics)}" + (
                f"; waits for {self._relay.waits_for}" if self._relay.waits_for else ""), values
        bursts = [name for name, one in statistics.items() if one.burst]
        return (WARN, f"losing messages {' and '.join(bursts)}", values) if bursts else (OK, "passing on", values)
