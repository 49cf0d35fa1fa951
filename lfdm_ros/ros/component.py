"""What all nodes share: checked parameters, lifecycle transitions that fail with one clear line, diagnostics."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from builtin_interfaces.msg import Time
from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import Clock, ClockType
from rclpy.duration import Duration
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter as RosParameter

from lfdm_ros.bounds import Refusals
from lfdm_ros.errors import InputError
from lfdm_ros.ros.declaring import Declarations
from lfdm_ros.ros.endpoints import DIAGNOSTICS, in_force
from lfdm_ros.ros.guarded_node import LONGEST
from lfdm_ros.ros.health import ERROR, OK, WARN, Diagnosis, Health, other_publishers
from lfdm_ros.ros.managed_node import ManagedNode
from lfdm_ros.ros.parameters import Parameter
from lfdm_ros.vehicles.body import moved

# All that the author of a node needs.
__all__ = ["ERROR", "OK", "WARN", "Component", "Diagnosis"]

# Longer than the 3 s after which Fast DDS asks a reader again what it is missing.
_ACKNOWLEDGE = 5.0
# What follows an exception; one in these themselves is only told.
_OUTCOME = ("after_error", "publish_diagnostics", "diagnose")


class Component(ManagedNode):
    """A lifecycle node with a table of parameters and a line in /diagnostics.

    Subclasses set NAME, PARAMETERS and ENDPOINTS and define what they need of `configure`, `activate`, `deactivate`, `cleanup` and
    `diagnose`. A transition hook that raises InputError fails its transition with that message in the log. An exception that
    comes out of any callback ends in `after_error` and in /diagnostics, and leaves the process and its other nodes alone.
    """

    PARAMETERS: ClassVar[tuple[Parameter, ...]]
    # Parameters of former versions whose value stands in the vehicle's file now, and its name there.
    MOVED: ClassVar[Mapping[str, str]] = {}
    # Parameters of the former release and their present names: they are taken for one release, with a line that says so.
    RENAMED: ClassVar[Mapping[str, str]] = {}
    # Removed parameters, and the line that refuses each.
    REMOVED: ClassVar[Mapping[str, str]] = {}
    # Whether at its end the node should still take what has come for it; `settled` then says when it has.
    takes_all: ClassVar[bool] = False

    def __init__(self, name: str | None = None, **kwargs: Any) -> None:
        """Creates the node, unconfigured.

        Raises:
            InputError: a parameter given from outside has a wrong type or value.
        """
        super().__init__(name or self.NAME, **kwargs)
        self.errors: list[str] = []  # what went wrong for good, in one line each
        self.label, self.namespace = self.get_name(), self.get_namespace()  # rclpy does not tell them once the node is destroyed
        # Who runs this node puts its own function here: a node asks to end the run, it does not end the process.
        self.stop_requested: Callable[[str], None] = lambda reason: None
        # What of its inputs the node refused, and why; its counts appear in /diagnostics by themselves.
        self.refusals = Refusals(self.warn_of_refusal)
        self._health = Health()
        self._warned_of = ""  # other publishers
        self._declarations = Declarations(self.PARAMETERS)
        self.add_on_set_parameters_callback(self._on_set_parameters)
        try:
            self._declarations.declare(self, {old: moved(now) for old, now in self.MOVED.items()} | dict(self.REMOVED), self.RENAMED)
        except InputError as error:
            self.destroy_node()
            raise InputError(f"node {name or self.NAME}: {error}") from None
        self._wall_clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._diagnostics = self.create_publisher(DIAGNOSTICS.kind, DIAGNOSTICS.name, DIAGNOSTICS.profile(self.value))
        self.every(1.0, self.publish_diagnostics)

    def every(self, seconds: float, callback: Callable[[], None]) -> Any:
        """A timer on the wall clock, whatever use_sim_time says."""
        return self.create_timer(seconds, callback, clock=self._wall_clock)

    def warn_of_refusal(self, text: str) -> None:
        """Says that an input was refused; not each time, as there may be many."""
        self.get_logger().warning(text, throttle_duration_sec=1.0)

    def stamp(self) -> Time:
        """The time that the node's own messages are from."""
        return self.get_clock().now().to_msg()

    def give_up(self, why: str) -> None:
        """Ends the run as failed."""
        self.errors.append(f"{self.label}: {why}")
        self.get_logger().error(why)
        self.stop_requested(why)

    # ---- hooks ---------------------------------------------------------------------------------------------------------

    def parameter_changed(self, name: str, value: Any) -> None:
        """A live parameter has a new, checked value."""

    def diagnose(self) -> Diagnosis:
        """The node's health: level, one line, values."""
        return OK, self.state, {}

    def after_error(self, where: str, arguments: tuple[Any, ...]) -> None:
        """An exception has come out of a callback, whose work is lost; the error has been told. Does what must be done then.

        Args:
            where: name of the callback, without leading underscores.
            arguments: what it was called with, for example the message.
        """

    def summary(self) -> dict[str, Any]:
        """What the run came to, for whoever runs the node in its own process; asked once it was active."""
        return {}

    def settled(self) -> bool:
        """Whether nothing has come in since the last call."""
        return True

    def wait_until_received(self) -> None:
        """Waits until other processes have what this node sent: a writer that goes takes with it what was not acknowledged."""
        end = time.monotonic() + _ACKNOWLEDGE
        for publisher in self.publishers:
            publisher.wait_for_all_acked(Duration(nanoseconds=max(0, int(1e9 * (end - time.monotonic())))))

    def on_configure(self, state: Any) -> TransitionCallbackReturn:
        self._health.caught.clear()
        return super().on_configure(state)

    # ---- exceptions ----------------------------------------------------------------------------------------------------

    def catch(self, where: str, error: Exception, arguments: tuple[Any, ...] = ()) -> None:
        """Takes an exception to the node's defined outcome: told once, shown in /diagnostics from now on, then `after_error`."""
        text = f"{where}: {type(error).__name__}"
        new = text not in self._health.caught
        self._health.caught[text] += 1
        if new:
            self.errors.append(f"{self.label}: {text}: {' '.join(str(error).split())[:LONGEST]}")
            self.get_logger().error("internal error in " + "".join(
                traceback.format_exception(type(error), error, error.__traceback__)).strip())
        if where in _OUTCOME:
            return
        for name, step in zip(_OUTCOME, (lambda: self.after_error(where, arguments), self.publish_diagnostics if new else None)):
            if step is not None:
                try:
                    step()
                except Exception as second:
                    self.catch(name, second)

    # ---- parameters and diagnostics ------------------------------------------------------------------------------------

    def _on_set_parameters(self, parameters: list[RosParameter]) -> SetParametersResult:
        try:
            try:
                changed = self._declarations.checked(parameters, self.state != "unconfigured")
            except InputError as error:
                return SetParametersResult(successful=False, reason=str(error))
            if self.state in ("inactive", "active"):
                for name, value in changed:
                    self.parameter_changed(name, value)
        except Exception as error:
            self.catch("parameter_changed", error)
            return SetParametersResult(successful=False, reason=f"internal error: {error!r}"[:LONGEST])
        return SetParametersResult(successful=True)

    def publish_diagnostics(self) -> None:
        """Publishes one DiagnosticArray with this node's health; once a second, and when something has just gone wrong."""
        try:
            diagnosis = self.diagnose()
        except Exception as error:
            self.catch("diagnose", error)
            diagnosis = ERROR, "", {}
        array = self._health.status(self.get_fully_qualified_name().lstrip("/"), diagnosis, self.refusals, self._others())
        array.header.stamp = self.stamp()
        self._diagnostics.publish(array)

    def _others(self) -> str:
        """Who has begun since to publish what this node alone should, in one line; once in the log."""
        # Those alone are asked whether they are in force: some of the others read a file for it.
        sole = in_force((endpoint for endpoint in self.ENDPOINTS if endpoint.sole), self.value) if self.state == "active" else []
        text = other_publishers(self, (endpoint.name_for(self.value) for endpoint in sole))
        if text and text != self._warned_of:
            self.get_logger().warning(text)
        self._warned_of = text or self._warned_of
        return text
