"""What all nodes share: checked parameters, lifecycle transitions that fail with one clear line, diagnostics."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.client import Client
from rclpy.clock import Clock, ClockType
from rclpy.duration import Duration
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.lifecycle import LifecyclePublisher, TransitionCallbackReturn
from rclpy.parameter import Parameter as RosParameter
from rclpy.publisher import Publisher
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.timer import Timer
from rosgraph_msgs.msg import Clock as ClockMessage

from lfdm_ros.bounds import OUT_OF_RANGE, Refusals
from lfdm_ros.errors import InputError
from lfdm_ros.ros.endpoints import ACTS, DIAGNOSTICS, HEARS, PUBLISHES, SERVES, Endpoint, in_force
from lfdm_ros.ros.guarding import Guard
from lfdm_ros.ros.parameters import Parameter, by_name
from lfdm_ros.ros.rclpy_adapter import AdaptedLifecycleNode
from lfdm_ros.vehicles.body import moved

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
# Longer than the 3 s after which Fast DDS asks a reader again what it is missing.
_ACKNOWLEDGE = 5.0
_LONGEST = 200  # characters of an exception that are told
# What follows an exception; one in these themselves is only told.
_OUTCOME = ("after_error", "publish_diagnostics", "diagnose")
# What is to be undone where a transition breaks off, by the transition.
_UNDONE = {"configure": ("cleanup",), "activate": ("deactivate", "cleanup"), "deactivate": ("cleanup",), "cleanup": ()}
# (level, one line, values by name)
Diagnosis = tuple[bytes, str, dict[str, Any]]


class Component(AdaptedLifecycleNode):
    """A lifecycle node with a table of parameters and a line in /diagnostics.

    Subclasses set NAME, PARAMETERS and ENDPOINTS and define what they need of `configure`, `activate`, `deactivate`, `cleanup` and
    `diagnose`. A transition hook that raises InputError fails its transition with that message in the log. An exception that
    comes out of any callback ends in `after_error` and in /diagnostics, and leaves the process and its other nodes alone.
    """

    NAME: ClassVar[str]
    PARAMETERS: ClassVar[tuple[Parameter, ...]]
    # Parameters of former versions whose value stands in the vehicle's file now, and its name there.
    MOVED: ClassVar[Mapping[str, str]] = {}
    # What it publishes, hears, serves and acts on, once it is configured. `publisher`, `subscription`, `service` and `action` make it.
    ENDPOINTS: ClassVar[tuple[Endpoint, ...]] = ()
    # Whether at its end the node should still take what has come for it; `settled` then says when it has.
    takes_all: ClassVar[bool] = False

    def __init__(self, name: str | None = None, **kwargs: Any) -> None:
        """Creates the node, unconfigured.

        Raises:
            InputError: a parameter given from outside has a wrong type or value.
        """
        super().__init__(name or self.NAME, **kwargs)
        for service in self.services:  # rclpy makes those of the lifecycle without `create_service`
            if not hasattr(service, "guard"):
                self._guard_service(service)
        # Exceptions that came out of callbacks, by what is told of them: how many; and what went wrong for good, in one line each.
        self._caught: Counter[str] = Counter()
        self.errors: list[str] = []
        self.label, self.namespace = self.get_name(), self.get_namespace()  # rclpy does not tell them once the node is destroyed
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
        self._told_of = ""  # other publishers
        self._made: list[Any] = []  # of ENDPOINTS; ended after `cleanup`
        self.add_on_set_parameters_callback(self._on_set_parameters)
        try:
            for parameter in self.PARAMETERS:
                self.declare_parameter(parameter.name, parameter.default, parameter.descriptor())
            for old, now in self.MOVED.items():  # rclpy says nothing of a parameter that no node declares
                given = self.declare_parameter(old, None, ParameterDescriptor(dynamic_typing=True)).value
                self.undeclare_parameter(old)
                if given is not None:
                    raise InputError(f"{old}: {moved(now)}")
        except (InputError, InvalidParameterTypeException, InvalidParameterValueException) as error:
            self.destroy_node()
            raise InputError(f"node {name or self.NAME}: {error}") from None
        self._wall_clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._diagnostics = self.create_publisher(DIAGNOSTICS.kind, DIAGNOSTICS.name, DIAGNOSTICS.profile(self.value))
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

    def stamp(self) -> Time:
        """The time that the node's own messages are from."""
        return self.get_clock().now().to_msg()

    def give_up(self, why: str) -> None:
        """Ends the run as failed."""
        self.errors.append(f"{self.label}: {why}")
        self.get_logger().error(why)
        self.stop_requested(why)

    def bring_up(self, *steps: str) -> None:
        """Makes transitions, "configure" or "activate".

        Raises:
            InputError: one failed; says why.
        """
        for step in steps:
            result = self.trigger_configure() if step == "configure" else self.trigger_activate()
            if result != TransitionCallbackReturn.SUCCESS:
                raise InputError(f"node {self.get_name()}: {step} failed: {self.failure}")

    # ---- what is declared ----------------------------------------------------------------------------------------------

    def publisher(self, name: str) -> Any:
        """The publisher of a topic that ENDPOINTS has, until the node is cleaned up; None where its condition does not hold."""
        return self._make(PUBLISHES, name, lambda e: self.create_lifecycle_publisher(e.kind, e.name_for(self.value), e.profile(self.value)))

    def subscription(self, name: str, callback: Callable[[Any], None], *, raw: bool = False) -> Any:
        """The subscription to a topic, likewise; raw: the callback takes bytes."""
        return self._make(HEARS, name, lambda e: self.create_subscription(
            e.kind, e.name_for(self.value), callback, e.profile(self.value), raw=raw))

    def service(self, name: str, callback: Any) -> Any:
        """The service, likewise."""
        return self._make(SERVES, name, lambda e: self.create_service(e.kind, e.name, callback))

    def action(self, name: str, execute: Any, accept: Any, cancel: Any) -> Any:
        """The action, likewise, with coroutine `execute`."""
        return self._make(ACTS, name, lambda e: self.create_action(e.kind, e.name, execute, accept, cancel))

    def _make(self, direction: str, name: str, make: Callable[[Endpoint], Any]) -> Any:
        """Of several of a name the first counts whose condition holds."""
        declared = [endpoint for endpoint in self.ENDPOINTS if (endpoint.direction, endpoint.name) == (direction, name)]
        if not declared:
            raise LookupError(f"ENDPOINTS of {self.NAME} has no '{name}' that it {direction}")
        for endpoint in in_force(declared, self.value):
            self._made.append(make(endpoint))
            return self._made[-1]
        return None

    def _end_made(self) -> None:
        for entity in self._made:
            self._destroy(entity)
        self._made.clear()

    def _destroy(self, entity: Any) -> None:
        next(destroy for kind, destroy in (
            (Timer, self.destroy_timer), (Subscription, self.destroy_subscription), (Service, self.destroy_service),
            (LifecyclePublisher, self.destroy_lifecycle_publisher), (Publisher, self.destroy_publisher),
            (Client, self.destroy_client), (ActionServer, self.destroy_action)) if isinstance(entity, kind))(entity)

    # ---- hooks ---------------------------------------------------------------------------------------------------------

    def configure(self) -> None:
        """Reads the parameters and makes what the node needs."""

    def activate(self) -> None:
        """Starts the node's work."""

    def deactivate(self) -> None:
        """Stops the node's work; `activate` may follow."""

    def cleanup(self) -> None:
        """Releases what `configure` made; what is made by ENDPOINTS ends by itself."""

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

    # ---- callbacks: each entity with a guard that ends with it ---------------------------------------------------------

    def create_timer(self, timer_period_sec: float, callback: Callable[[], None], *args: Any, **kwargs: Any) -> Any:
        guard = Guard(self.catch)
        timer: Any = super().create_timer(timer_period_sec, guard.around(callback), *args, **kwargs)
        timer.guard = guard
        return timer

    def destroy_timer(self, timer: Any) -> bool:
        timer.guard.close()
        return bool(super().destroy_timer(timer))

    def create_subscription(self, msg_type: Any, topic: str, callback: Callable[[Any], None], *args: Any, **kwargs: Any) -> Any:
        guard = Guard(self.catch)
        if msg_type is ClockMessage and not kwargs.get("raw"):
            callback = self._checked_clock(callback)
        subscription: Any = super().create_subscription(msg_type, topic, guard.around(callback), *args, **kwargs)
        subscription.guard = guard
        return subscription

    def _checked_clock(self, callback: Callable[[ClockMessage], None]) -> Callable[[ClockMessage], None]:
        """rclpy's own callback, which raises at a time that is none."""
        def clock_callback(clock: ClockMessage) -> None:
            if clock.clock.sec < 0 or clock.clock.nanosec >= 1_000_000_000:
                self.refusals.refuse("clock", f"{clock.clock.sec} s and {clock.clock.nanosec} ns is no time", OUT_OF_RANGE)
            else:
                callback(clock)

        return clock_callback

    def destroy_subscription(self, subscription: Any) -> bool:
        subscription.guard.close()
        return bool(super().destroy_subscription(subscription))

    def create_service(self, srv_type: Any, srv_name: str, callback: Any, *args: Any, **kwargs: Any) -> Any:
        if srv_type in (SetParameters, SetParametersAtomically):
            callback = _refusing(callback)
        service = super().create_service(srv_type, srv_name, callback, *args, **kwargs)
        self._guard_service(service)
        return service

    def _guard_service(self, service: Any) -> None:
        service.guard = Guard(self.catch)
        service.guard.around_service(service)

    def destroy_service(self, service: Any) -> bool:
        service.guard.close()
        return bool(super().destroy_service(service))

    def create_action(self, action_type: Any, name: str, execute: Any, accept: Any, cancel: Any) -> Any:
        """An action server with coroutine `execute`."""
        guard = Guard(self.catch)
        server: Any = ActionServer(
            self, action_type, name, guard.around_async(execute, lambda goal: action_type.Result()),
            goal_callback=guard.around(accept, lambda goal: GoalResponse.REJECT),
            cancel_callback=guard.around(cancel, lambda goal: CancelResponse.REJECT))
        server.guard = guard
        return server

    def destroy_action(self, server: Any) -> None:
        server.guard.close()
        server.destroy()

    def catch(self, where: str, error: Exception, arguments: tuple[Any, ...] = ()) -> None:
        """Takes an exception to the node's defined outcome: told once, shown in /diagnostics from now on, then `after_error`."""
        text = f"{where}: {type(error).__name__}"
        new = text not in self._caught
        self._caught[text] += 1
        if new:
            self.errors.append(f"{self.label}: {text}: {' '.join(str(error).split())[:_LONGEST]}")
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

    # ---- lifecycle -----------------------------------------------------------------------------------------------------

    def on_configure(self, state: Any) -> TransitionCallbackReturn:
        self._caught.clear()
        self._unconfigured = self._entities()
        return self._transition("configure", "inactive", self.configure, lambda: super(Component, self).on_configure(state))

    def on_activate(self, state: Any) -> TransitionCallbackReturn:
        # rclpy's part opens the publishers: first, so that `activate` may publish.
        return self._transition("activate", "active", lambda: super(Component, self).on_activate(state), self.activate)

    def on_deactivate(self, state: Any) -> TransitionCallbackReturn:
        return self._transition("deactivate", "inactive", self.deactivate, lambda: super(Component, self).on_deactivate(state))

    def on_cleanup(self, state: Any) -> TransitionCallbackReturn:
        return self._transition("cleanup", "unconfigured", self.cleanup, self._end_made, lambda: super(Component, self).on_cleanup(state))

    def refuse_transition(self) -> None:
        self.get_logger().warning(f"a transition was asked for that does not exist from state {self.state}")

    def on_shutdown(self, state: Any) -> TransitionCallbackReturn:
        return self._transition("shutdown", "finalized", self.release)

    def release(self) -> None:
        """Stops and cleans up from whatever state the node is in, each whatever became of the other; safe to call twice."""
        try:
            for name in {"active": ("deactivate", "cleanup", "_end_made"), "inactive": ("cleanup", "_end_made")}.get(self.state, ()):
                try:
                    getattr(self, name)()
                except Exception as error:
                    self.catch(name.lstrip("_"), error)
        finally:
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
            if name == "configure":
                self._undo(name)
            return TransitionCallbackReturn.FAILURE
        except Exception as error:  # a bug; rclpy would swallow it without a word
            self.failure = repr(error)
            self.get_logger().fatal(f"{name} failed:\n{traceback.format_exc()}")
            self._undo(name)
            self.state = "unconfigured"  # where rclpy's error processing ends
            return TransitionCallbackReturn.ERROR
        self.state = target
        return TransitionCallbackReturn.SUCCESS

    def _undo(self, transition: str) -> None:
        """Takes back what has been made since `configure` began: what it makes the next time would be there twice."""
        for name in _UNDONE.get(transition, ()):
            try:
                getattr(self, name)()
            except Exception as error:  # no wonder: a part of what it ends was never made, or has ended
                self.get_logger().debug(f"{name} after the failure: {error!r}")
        self._end_made()
        for entity in self._entities():
            if not any(entity is one for one in self._unconfigured):
                self._destroy(entity)

    def _entities(self) -> list[Any]:
        actions = (waitable for waitable in self.waitables if isinstance(waitable, ActionServer))
        return [*self.timers, *self.subscriptions, *self.services, *self.publishers, *self.clients, *actions]

    # ---- parameters and diagnostics ------------------------------------------------------------------------------------

    def _on_set_parameters(self, parameters: list[RosParameter]) -> SetParametersResult:
        try:
            return self._set_checked(parameters)
        except Exception as error:
            self.catch("parameter_changed", error)
            return SetParametersResult(successful=False, reason=f"internal error: {error!r}"[:_LONGEST])

    def _set_checked(self, parameters: list[RosParameter]) -> SetParametersResult:
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
        try:
            level, summary, values = self.diagnose()
        except Exception as error:
            self.catch("diagnose", error)
            level, summary, values = ERROR, "", {}
        refused, self._refused_before = self.refusals.total - self._refused_before, self.refusals.total
        if refused > 0 and level == OK:
            level, summary = WARN, f"{refused} inputs refused, the last one: {self.refusals.last}"
        if (others := self._others()) and level == OK:
            level, summary = WARN, others
        if self._caught:
            level, summary = ERROR, f"internal error in {'; '.join(f'{text}, {count} x' for text, count in self._caught.items())}"
        values = {**values, **self.refusals.diagnosis(), **({"published_by_others": others} if others else {})}
        array = DiagnosticArray(status=[DiagnosticStatus(
            level=level, name=self.get_fully_qualified_name().lstrip("/"), message=summary, hardware_id="lfdm_ros",
            values=[KeyValue(key=key, value=_text(value)) for key, value in values.items()])])
        array.header.stamp = self.stamp()
        self._diagnostics.publish(array)


    def _others(self) -> str:
        """Who has begun since to publish what this node alone should, in one line; told once in the log."""
        if self.state != "active":
            return ""
        found = []
        for topic in (endpoint.name_for(self.value) for endpoint in in_force(self.ENDPOINTS, self.value) if endpoint.sole):
            names = [f"{info.node_namespace.rstrip('/')}/{info.node_name}" for info in self.get_publishers_info_by_topic(topic)]
            if self.get_fully_qualified_name() in names:
                names.remove(self.get_fully_qualified_name())
            found += [f"{self.resolve_topic_name(topic)} is published by {name} too" for name in sorted(set(names))]
        text = "; ".join(found)
        if text and text != self._told_of:
            self.get_logger().warning(text)
        self._told_of = text or self._told_of
        return text


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _refusing(callback: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """rclpy's own service that sets parameters, for a request that it cannot take apart: refused whole, nothing is set."""
    def set_parameters(request: Any, response: Any) -> Any:
        try:
            for parameter in request.parameters:  # rclpy's own sets those that come before the odd one
                RosParameter.from_parameter_msg(parameter)
            return callback(request, response)
        except Exception as error:
            refused = SetParametersResult(successful=False, reason=f"malformed request: {error}"[:_LONGEST])
            if isinstance(response, SetParameters.Response):
                response.results = [refused] * len(request.parameters)
            else:
                response.result = refused
            return response

    return set_parameters
