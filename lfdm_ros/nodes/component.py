"""What all nodes share: checked parameters, lifecycle transitions that fail with one clear line, diagnostics."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Any, ClassVar

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import Clock, ClockType
from rclpy.duration import Duration
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn
from rclpy.parameter import Parameter as RosParameter

from lfdm_ros.bounds import Refusals
from lfdm_ros.errors import InputError
from lfdm_ros.nodes import qos
from lfdm_ros.nodes.parameters import Parameter, by_name

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
# Longer than the 3 s after which Fast DDS asks a reader again what it is missing.
_ACKNOWLEDGE = 5.0
# (level, one line, values by name)
Diagnosis = tuple[bytes, str, dict[str, Any]]


class Component(LifecycleNode):
    """A lifecycle node with a table of parameters and a line in /diagnostics.

    Subclasses set NAME and PARAMETERS and define what they need of `configure`, `activate`, `deactivate`, `cleanup` and
    `diagnose`. A transition hook that raises InputError fails its transition with that message in the log.
    """

    NAME: ClassVar[str]
    PARAMETERS: ClassVar[tuple[Parameter, ...]]
    # Whether at its end the node should still take what has come for it; `settled` then says when it has.
    takes_all: ClassVar[bool] = False

    def __init__(self, name: str | None = None, **kwargs: Any) -> None:
        """Creates the node, unconfigured.

        Raises:
            InputError: a parameter given from outside has a wrong type or value.
        """
        super().__init__(name or self.NAME, **kwargs)
        # Who runs this node puts its own function here: a node asks to end the run, it does not end the process.
        self.stop_requested: Callable[[str], None] = lambda reason: None
        self._table = by_name(self.PARAMETERS)
        # `state`: the label of the lifecycle state, kept here because the parameter callback runs before rclpy can tell.
        self.state = "unconfigured"
        # Why the last transition failed.
        self.failure = ""
        # What of its inputs the node refused, and why; its counts appear in /diagnostics by themselves.
        self.refusals = Refusals(self.tell_refusal)
        self._refused_before = 0
        self.add_on_set_parameters_callback(self._on_set_parameters)
        try:
            for parameter in self.PARAMETERS:
                self.declare_parameter(parameter.name, parameter.default, parameter.descriptor())
        except (InvalidParameterTypeException, InvalidParameterValueException) as error:
            self.destroy_node()
            raise InputError(f"node {name or self.NAME}: {error}") from None
        self._wall_clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", qos.STATUS)
        self.every(1.0, self.publish_diagnostics)

    def value(self, name: str) -> Any:
        """The value of a declared parameter."""
        return self.get_parameter(name).value

    def every(self, seconds: float, callback: Callable[[], None]) -> Any:
        """A timer on the wall clock, whatever use_sim_time says."""
        return self.create_timer(seconds, callback, clock=self._wall_clock)

    def tell_refusal(self, text: str) -> None:
        """Says that an input was refused; not each time, as there may be many."""
        self.get_logger().warning(text, throttle_duration_sec=1.0)

    def bring_up(self, *steps: str) -> None:
        """Makes transitions, "configure" or "activate".

        Raises:
            InputError: one failed; says why.
        """
        for step in steps:
            result = self.trigger_configure() if step == "configure" else self.trigger_activate()
            if result != TransitionCallbackReturn.SUCCESS:
                raise InputError(f"node {self.get_name()}: {step} failed: {self.failure}")

    # ---- hooks ---------------------------------------------------------------------------------------------------------

    def configure(self) -> None:
        """Reads the parameters and makes what the node needs."""

    def activate(self) -> None:
        """Starts the node's work."""

    def deactivate(self) -> None:
        """Stops the node's work; `activate` may follow."""

    def cleanup(self) -> None:
        """Releases what `configure` made."""

    def parameter_changed(self, name: str, value: Any) -> None:
        """A live parameter has a new, checked value."""

    def diagnose(self) -> Diagnosis:
        """The node's health: level, one line, values."""
        return OK, self.state, {}

    def summary(self) -> dict[str, Any]:
        """What the run came to, for whoever runs the node in its own process; asked once it was active."""
        return {}

    def settled(self) -> bool:
        """Whether nothing has come in since the last call."""
        return True

    # ---- lifecycle -----------------------------------------------------------------------------------------------------

    def on_configure(self, state: Any) -> TransitionCallbackReturn:
        return self._transition("configure", "inactive", self.configure, lambda: super(Component, self).on_configure(state))

    def on_activate(self, state: Any) -> TransitionCallbackReturn:
        # rclpy's part opens the publishers: first, so that `activate` may publish.
        return self._transition("activate", "active", lambda: super(Component, self).on_activate(state), self.activate)

    def on_deactivate(self, state: Any) -> TransitionCallbackReturn:
        return self._transition("deactivate", "inactive", self.deactivate, lambda: super(Component, self).on_deactivate(state))

    def on_cleanup(self, state: Any) -> TransitionCallbackReturn:
        return self._transition("cleanup", "unconfigured", self.cleanup, lambda: super(Component, self).on_cleanup(state))

    def _LifecycleNodeMixin__on_change_state(self, request: Any, response: Any) -> Any:
        # rclpy lets a request that does not fit the present state end the process.
        try:
            return super()._LifecycleNodeMixin__on_change_state(request, response)  # type: ignore[misc]
        except rclpy_implementation.RCLError:
            self.get_logger().warning(f"a transition was asked for that does not exist from state {self.state}")
            response.success = False
            return response

    def on_shutdown(self, state: Any) -> TransitionCallbackReturn:
        return self._transition("shutdown", "finalized", self.release)

    def release(self) -> None:
        """Stops and cleans up from whatever state the node is in; safe to call twice."""
        if self.state == "active":
            self.deactivate()
        if self.state in ("active", "inactive"):
            self.cleanup()
        self.state = "finalized"

    def wait_until_heard(self) -> None:
        """Waits until other processes have what this node sent: a writer that goes takes with it what was not acknowledged."""
        end = time.monotonic() + _ACKNOWLEDGE
        for publisher in self.publishers:
            publisher.wait_for_all_acked(Duration(nanoseconds=max(0, int(1e9 * (end - time.monotonic())))))

    def _transition(self, name: str, target: str, *work: Callable[[], Any]) -> TransitionCallbackReturn:
        try:
            for part in work:
                part()
        except InputError as error:
            self.failure = str(error)
            self.get_logger().error(f"{name} failed: {error}")
            return TransitionCallbackReturn.FAILURE
        except Exception as error:  # a bug; rclpy would swallow it without a word
            self.failure = repr(error)
            self.get_logger().fatal(f"{name} failed:\n{traceback.format_exc()}")
            self.state = "unconfigured"  # where rclpy's error processing ends
            return TransitionCallbackReturn.ERROR
        self.state = target
        return TransitionCallbackReturn.SUCCESS

    # ---- parameters and diagnostics ------------------------------------------------------------------------------------

    def _on_set_parameters(self, parameters: list[RosParameter]) -> SetParametersResult:
        changed = []
        for parameter in parameters:
            declaration = self._table.get(parameter.name)
            if declaration is None or parameter.name == "use_sim_time":
                continue
            if self.state != "unconfigured" and not declaration.live:
                return SetParametersResult(
                    successful=False, reason=f"{parameter.name} cannot change once the node is configured; clean it up first")
            try:
                changed.append((parameter.name, declaration.convert(parameter.value, parameter.name)))
            except InputError as error:
                return SetParametersResult(successful=False, reason=str(error))
        for name, value in changed:
            if self.state in ("inactive", "active"):
                self.parameter_changed(name, value)
        return SetParametersResult(successful=True)

    def publish_diagnostics(self) -> None:
        """Publishes one DiagnosticArray with this node's health; once a second, and when something has just gone wrong."""
        level, summary, values = self.diagnose()
        refused, self._refused_before = self.refusals.total - self._refused_before, self.refusals.total
        if refused > 0 and level == OK:
            level, summary = WARN, f"{refused} inputs refused, the last one: {self.refusals.last}"
        values = {**values, **self.refusals.diagnosis()}
        array = DiagnosticArray(status=[DiagnosticStatus(
            level=level, name=self.get_fully_qualified_name().lstrip("/"), message=summary, hardware_id="lfdm_ros",
            values=[KeyValue(key=key, value=_text(value)) for key, value in values.items()])])
        array.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(array)


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
