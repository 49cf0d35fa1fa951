"""The dashboard node: shows the vehicle's state, as published on the graph, to the driver in the node's terminal."""

import math
import time
from functools import partial
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import LaserScan

from lfdm_ros.msg import DriverCommand, SharedControlStatus, SimulatorStatus, VehicleState
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import OK, Component, while_active
from lfdm_ros.ros.endpoints import subscribes
from lfdm_ros.ros.parameters import Parameter
from lfdm_ros.teleop.dashboard import Reading, Sharing, VehicleMotion, lines
from lfdm_ros.teleop.terminal import Screen

_LASTS = 2.5  # [s] that a status counts for: of those that come once a second one may be late
_AHEAD = math.radians(60.0)  # to either side


class Dashboard(Component):
    """A display of the vehicle in the terminal; publishes nothing, and depends on no source of commands."""

    NAME = "dashboard"
    PARAMETERS = (Parameter("refresh_rate", 5.0, "pictures a second of the wall clock", 0.5, 50.0, unit="Hz"),)
    ENDPOINTS = (
        subscribes("vehicle/state", VehicleState, qos.NEWEST, "how the vehicle moves"),
        subscribes("teleop/command", DriverCommand, qos.NEWEST, "the driver's command"),
        subscribes("scan", LaserScan, qos.SENSOR, "the nearest obstacle"),
        subscribes("shared_control/status", SharedControlStatus, qos.NEWEST, "driver in control, threat and reason"),
        subscribes("simulator/status", SimulatorStatus, qos.STATUS, "time-out of commands, and the pace of time"),
        subscribes("/diagnostics", DiagnosticArray, qos.STATUS, "refused inputs, and all other warnings"),
    )

    def configure(self) -> None:
        self._screen = Screen()
        if not self._screen.there:
            self.get_logger().warning("standard output is no terminal: nothing is shown")
        self._messages: dict[str, tuple[float, Any]] = {}  # newest message and when it came [s], by topic
        self._notices: dict[str, tuple[float, bytes, str]] = {}  # when [s], level, text, by node
        self.connect({topic: partial(self._store, topic) for topic in (
            "vehicle/state", "scan", "shared_control/status", "simulator/status")})
        self._command = self.subscription("teleop/command", partial(self._store, "teleop/command"))
        self.subscription("/diagnostics", self._on_diagnostics)
        self.every(1.0 / self.value("refresh_rate"), self._show)

    def cleanup(self) -> None:
        self._screen.clear()

    def _store(self, topic: str, message: Any) -> None:
        self._messages[topic] = (time.monotonic(), message)

    def _newest(self, topic: str) -> Any:
        """Returns the newest valid message of a topic, or None."""
        came, message = self._messages.get(topic, (-math.inf, None))
        return message if time.monotonic() - came <= _LASTS else None

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if f"/{status.name}".startswith(self.get_namespace()):
                self._notices[status.name] = (time.monotonic(), status.level, f"{status.name}: {status.message}")

    @while_active
    def _show(self) -> None:
        self._screen.show(lines(self.reading()))

    def reading(self) -> Reading:
        """Collects the values to show now."""
        now = time.monotonic()
        command, sharing, simulator = (self._newest(name) for name in ("teleop/command", "shared_control/status", "simulator/status"))
        came, state = self._messages.get("vehicle/state", (-math.inf, None))
        return Reading(
            motion=None if state is None else VehicleMotion(state.x, state.y, state.yaw, state.vx, now - came),
            command=None if command is None else (command.steering, command.throttle, command.brake),
            sharing=None if sharing is None else Sharing(sharing.mode, sharing.state, sharing.reason, sharing.k, sharing.threat),
            driver=self._driver(simulator), pace=math.nan if simulator is None else simulator.speed_factor_reached,
            slowed_by="" if simulator is None else simulator.slowed_by, nearest=self._nearest(),
            notices=(*self._unheard(), *self._wrong(now)))

    def _driver(self, simulator: SimulatorStatus | None) -> str:
        if simulator is None:
            return "" if self._unheard() else "you"
        return "nobody: no good command, the vehicle brakes" if simulator.command_timed_out else "you"

    def _unheard(self) -> list[str]:
        topic = self._command.topic_name
        alone = self.count_subscribers(topic) <= 1  # itself
        return [f"no node subscribes to {topic}: start lfdm up teleop or shared_human in another terminal, or wait for it"] if alone else []

    def _nearest(self) -> tuple[float, float] | None:
        scan = self._newest("scan")
        if scan is None:
            return None
        ranges = np.asarray(scan.ranges, float)
        angles = scan.angle_min + scan.angle_increment * np.arange(len(ranges))
        valid = np.where(np.isfinite(ranges) & (ranges >= scan.range_min) & (ranges <= scan.range_max) & (np.abs(angles) <= _AHEAD),
                         ranges, np.inf)
        if not np.isfinite(valid).any():
            return None
        return float(valid.min()), float(angles[valid.argmin()])

    def _wrong(self, now: float) -> list[str]:
        """Returns the warnings of nodes, the worst first."""
        counts = [(level, text) for came, level, text in self._notices.values() if level != OK and now - came <= _LASTS]
        return [text for _, text in sorted(counts, reverse=True)]
