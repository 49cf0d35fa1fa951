"""Base of all nodes: declared endpoints and parameters, guarded callbacks, transitions with one-line failures, diagnostics."""

import functools
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import SetParametersResult
from rclpy.action import ActionClient, ActionServer, CancelResponse, GoalResponse
from rclpy.client import Client
from rclpy.clock import Clock, ClockType
from rclpy.duration import Duration
from rclpy.lifecycle import LifecycleNode, LifecyclePublisher, TransitionCallbackReturn
from rclpy.parameter import Parameter as RosParameter
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.timer import Timer
from rosgraph_msgs.msg import Clock as ClockMessage

from lfdm_ros.bounds import Refusals
from lfdm_ros.errors import InputError
from lfdm_ros.ros.endpoints import ACTS, CALLS, DIAGNOSTICS, PUBLISHES, SERVES, STARTS, SUBSCRIBES, Endpoint, in_force
from lfdm_ros.ros.guarding import LONGEST, CallbackGuard, checked_clock, checked_request
from lfdm_ros.ros.parameters import Parameter, checked_changes, declare
from lfdm_ros.ros.rclpy_adapter import answer_impossible_transitions, release_lifecycle
from lfdm_ros.vehicles.body import moved

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
# (level, one line, values by name)
Diagnosis = tuple[bytes, str, dict[str, Any]]


def other_publishers(node: Any, topics: Iterable[str]) -> str:
    """Names other publishers of topics reserved to this node, in one line; '': none."""
    found = []
    for topic in topics:
        names = [f"{info.node_namespace.rstrip('/')}/{info.node_name}" for info in node.get_publishers_info_by_topic(topic)]
        if node.get_fully_qualified_name() in names:
            names.remove(node.get_fully_qualified_name())
        found += [f"{node.resolve_topic_name(topic)} is published by {name} too" for name in sorted(set(names))]
    return "; ".join(found)


# Hooks that undo a failed transition, by its name.
_UNDONE_BY = {"configure": ("cleanup",), "activate": ("deactivate", "cleanup"), "deactivate": ("cleanup",), "cleanup": ()}


# Interface for authors of nodes.
__all__ = ["ERROR", "OK", "WARN", "Component", "Diagnosis", "refusing", "while_active"]

# Longer than the 3 s heartbeat period of Fast DDS.
_ACKNOWLEDGE = 5.0
# Callbacks whose exceptions are only logged.
_OUTCOME = ("after_error", "publish_diagnostics", "diagnose")


def while_active(method: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method of a `Component` that does nothing unless the node is active."""
    @functools.wraps(method)
    def guarded(self: Component, *arguments: Any, **named: Any) -> Any:
        return method(self, *arguments, **named) if self.state == "active" else None

    return guarded


def refusing(kind: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a decorator of a `Component`'s methods: one that raises InputError returns None, and its input counts as refused."""
    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def checked(self: Component, *arguments: Any) -> Any:
            try:
                return method(self, *arguments)
            except InputError as error:
                self.refusals.refuse(kind, error)
                return None

        return checked

    return decorate


class Component(LifecycleNode):
    """A lifecycle node with a table of parameters and a line in /diagnostics.

    Subclasses set NAME, PARAMETERS and ENDPOINTS and override, as needed, `configure`, `activate`, `deactivate`, `cleanup` and
    `diagnose`. A transition hook that raises InputError fails its transition with that message in the log. An exception in
    any callback ends in `after_error` and in /diagnostics, and leaves the process and its other nodes alone.

    Attributes:
        state: label of the lifecycle state, needed before rclpy can provide it in parameter callbacks.
        failure: reason of the last transition's failure.
        refusals: refused inputs and reasons; counts appear in /diagnostics automatically.
        errors: lasting failures, in one line each.
    """

    NAME: ClassVar[str]
    # Topics, services and actions of the configured node. `publisher`, `subscription`, `service` and `action` make them.
    ENDPOINTS: ClassVar[tuple[Endpoint, ...]] = ()
    PARAMETERS: ClassVar[tuple[Parameter, ...]]
    # Former parameters that moved to the vehicle's file, and their names there.
    MOVED: ClassVar[Mapping[str, str]] = {}
    # Parameters of the former release and their present names; accepted for one release with a warning.
    RENAMED: ClassVar[Mapping[str, str]] = {}
    # Removed parameters and their messages.
    REMOVED: ClassVar[Mapping[str, str]] = {}
    # True where the node must process all queued messages before its end; `settled` reports completion.
    takes_all: ClassVar[bool] = False

    def __init__(self, name: str | None = None, **kwargs: Any) -> None:
        """Creates the node, unconfigured. Raises InputError: a parameter given from outside has a wrong type or value."""
        super().__init__(name or self.NAME, **kwargs)
        answer_impossible_transitions(self, lambda: self.get_logger().warning(
            f"a transition was requested that does not exist from state {self.state}"))
        for service in self.services:  # rclpy makes those of the lifecycle without `create_service`
            if not hasattr(service, "guard"):
                CallbackGuard(self.catch).around_service(service)
        self.state, self.failure = "unconfigured", ""
        self._unconfigured: list[Any] = []  # entities before `configure`: later ones are destroyed if a transition fails
        self._entities: list[Any] = []  # timers and ENDPOINTS; destroyed after `cleanup`
        self.errors: list[str] = []
        self.label, self.namespace = self.get_name(), self.get_namespace()  # unavailable from rclpy after destruction
        # Set by the runner: a node ends the run, not the process.
        self.stop_requested: Callable[[str], None] = lambda reason: None
        self.refusals = Refusals(self.warn_of_refusal)
        self._caught: Counter[str] = Counter()  # exceptions in callbacks, by text
        self._counted: dict[str, int] = {}
        self._warned_of = ""  # other publishers
        self.add_on_set_parameters_callback(self._on_set_parameters)
        try:
            declare(self, self.PARAMETERS, {old: moved(now) for old, now in self.MOVED.items()} | dict(self.REMOVED), self.RENAMED)
        except InputError as error:
            self.destroy_node()
            raise InputError(f"node {name or self.NAME}: {error}") from None
        self._wall_clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._diagnostics = self.create_publisher(DIAGNOSTICS.kind, DIAGNOSTICS.name, DIAGNOSTICS.profile(self.value))
        self.create_timer(1.0, self.publish_diagnostics, clock=self._wall_clock)

    def value(self, name: str) -> Any:
        return self.get_parameter(name).value

    def every(self, seconds: float, callback: Callable[[], Any], clock: Any = None) -> Any:
        """Creates a timer until cleanup; by default on the wall clock, regardless of use_sim_time."""
        self._entities.append(self.create_timer(seconds, callback, clock=clock or self._wall_clock))
        return self._entities[-1]

    def warn_of_refusal(self, text: str) -> None:
        """Logs a refused input, rate-limited."""
        self.get_logger().warning(text, throttle_duration_sec=1.0)

    def now_ns(self) -> int:
        """Returns the time of the node's clock [ns]."""
        return int(self.get_clock().now().nanoseconds)

    def stamp(self) -> Time:
        """Returns the time of the node's own messages."""
        return self.get_clock().now().to_msg()

    def warn(self, text: str) -> None:
        self.get_logger().warning(text)

    def fail(self, why: str) -> None:
        """Records and logs a lasting failure."""
        self.errors.append(f"{self.label}: {why}")
        self.get_logger().error(why)

    def give_up(self, why: str) -> None:
        """Ends the run as failed."""
        self.fail(why)
        self.stop_requested(why)

    def increase(self, name: str, count: int) -> int:
        """Returns the growth of a count since the last call with its name; one that is below has begun anew."""
        before, self._counted[name] = self._counted.get(name, 0), count
        return count - before if count >= before else count

    @staticmethod
    def respond(response: Any, attempt: Callable[[], tuple[bool, str]]) -> Any:
        """Fills a response with success and message as an attempt returns them, or with the text of the InputError that it raises."""
        try:
            response.success, response.message = attempt()
        except InputError as error:
            response.success, response.message = False, str(error)
        return response

    # ---- hooks ---------------------------------------------------------------------------------------------------------

    def configure(self) -> None:
        """Reads the parameters and creates the node's parts."""

    def activate(self) -> None:
        """Starts the node's work."""

    def deactivate(self) -> None:
        """Stops the node's work; `activate` may follow."""

    def cleanup(self) -> None:
        """Releases the results of `configure`, except timers and ENDPOINTS, which end automatically."""

    def parameter_changed(self, name: str, value: Any) -> None:
        """Applies the new, checked value of a live parameter. Raises InputError: impossible; the old value remains."""

    def diagnose(self) -> Diagnosis | None:
        """Returns the node's health: level, one line, values; None: only its state."""
        return OK, self.state, {}

    def after_error(self, where: str, arguments: tuple[Any, ...]) -> None:
        """Handles an exception of a callback, which is already logged. where: name of the callback, without leading underscores. arguments:
        of the call, for example the message."""

    def summary(self) -> dict[str, Any]:
        """Returns the run's results by name, for a runner in the same process; called once the node was active."""
        return {}

    def settled(self) -> bool:
        """Checks that no message was received since the last call."""
        return True

    def wait_until_received(self) -> None:
        """Waits until other processes have acknowledged all sent messages, which a destroyed writer would drop."""
        end = time.monotonic() + _ACKNOWLEDGE
        for publisher in self.publishers:
            publisher.wait_for_all_acked(Duration(nanoseconds=max(0, int(1e9 * (end - time.monotonic())))))

    # ---- transitions ---------------------------------------------------------------------------------------------------

    def bring_up(self, *steps: str) -> None:
        """Makes transitions, "configure" or "activate". Raises InputError: one failed; says why."""
        for step in steps:
            result = self.trigger_configure() if step == "configure" else self.trigger_activate()
            if result != TransitionCallbackReturn.SUCCESS:
                raise InputError(f"node {self.get_name()}: {step} failed: {self.failure}")

    def on_configure(self, state: Any) -> TransitionCallbackReturn:
        self._caught.clear()
        self._unconfigured = self.all_entities()
        return self._change("configure", "inactive", self.configure, lambda: super(Component, self).on_configure(state))

    def on_activate(self, state: Any) -> TransitionCallbackReturn:
        self._counted = {"refusals": self._counted.get("refusals", 0)}  # those go on; a node's own counts begin anew
        # rclpy's part opens the publishers: first, so that `activate` may publish.
        return self._change("activate", "active", lambda: super(Component, self).on_activate(state), self.activate)

    def on_deactivate(self, state: Any) -> TransitionCallbackReturn:
        return self._change("deactivate", "inactive", self.deactivate, lambda: super(Component, self).on_deactivate(state))

    def on_cleanup(self, state: Any) -> TransitionCallbackReturn:
        return self._change("cleanup", "unconfigured", self.cleanup, self.end_made, lambda: super(Component, self).on_cleanup(state))

    def on_shutdown(self, state: Any) -> TransitionCallbackReturn:
        return self._change("shutdown", "finalized", self.release)

    def _change(self, name: str, target: str, *work: Callable[[], Any]) -> TransitionCallbackReturn:
        """Executes a transition; the node is then in the state `target` or, after a failure, as before."""
        try:
            for part in work:
                part()
        except InputError as error:
            self.failure = str(error)
            self.get_logger().error(f"{name} failed: {error}")
            if name == "configure":
                self._undo(name)
            return TransitionCallbackReturn.FAILURE
        except Exception as error:  # a bug; rclpy would swallow it silently
            self.failure = repr(error)
            self.get_logger().fatal(f"{name} failed:\n{traceback.format_exc()}")
            self._undo(name)
            self.state = "unconfigured"  # where rclpy's error processing ends
            return TransitionCallbackReturn.ERROR
        self.state = target
        return TransitionCallbackReturn.SUCCESS

    def stop(self) -> None:
        """Deactivates an active node, which is then inactive even after a failure; sent messages can still be received."""
        if self.state == "active":
            try:
                self._attempt("deactivate")
            finally:
                self.state = "inactive"

    def release(self) -> None:
        """Stops and cleans up from any state, each step independent of the others; safe to call twice."""
        self.stop()
        try:
            if self.state == "inactive":
                self._attempt("cleanup", "end_made")
        finally:
            self.state = "finalized"

    def _attempt(self, *names: str) -> None:
        for name in names:
            try:
                getattr(self, name)()
            except Exception as error:
                self.catch(name, error)

    def _undo(self, transition: str) -> None:
        """Destroys all entities created since the start of `configure`, which would otherwise be duplicated."""
        for name in _UNDONE_BY.get(transition, ()):
            try:
                getattr(self, name)()
            except Exception as error:  # expected: some entities do not exist
                self.get_logger().debug(f"{name} after the failure: {error!r}")
        self.end_made()
        for entity in self.all_entities():
            if not any(entity is one for one in self._unconfigured):
                self.destroy(entity)

    def destroy_node(self) -> None:
        """Ends the node; safe to call twice."""
        super().destroy_node()
        release_lifecycle(self)

    # ---- endpoints -----------------------------------------------------------------------------------------------------

    def publisher(self, name: str) -> Any:
        """Creates the publisher of a topic in ENDPOINTS, until the node is cleaned up; None where its condition does not hold."""
        return self._make(PUBLISHES, name, lambda e: self.create_lifecycle_publisher(e.kind, e.name_for(self.value), e.profile(self.value)))

    def make_publisher(self, name: str, kind: Any, profile: QoSProfile) -> Any:
        """Creates a publisher that is not in ENDPOINTS, until cleanup."""
        self._entities.append(self.create_lifecycle_publisher(kind, name, profile))
        return self._entities[-1]

    def subscription(self, name: str, callback: Callable[[Any], None], *, raw: bool = False) -> Any:
        """Creates the subscription to a topic, likewise; raw: the callback takes bytes."""
        return self._make(SUBSCRIBES, name, lambda e: self.create_subscription(
            e.kind, e.name_for(self.value), callback, e.profile(self.value), raw=raw))

    def service(self, name: str, callback: Any) -> Any:
        """Creates the service, likewise."""
        return self._make(SERVES, name, lambda e: self.create_service(e.kind, e.name, callback))

    def connect(self, callbacks: Mapping[str, Callable[..., Any]]) -> None:
        """Creates the subscriptions to topics, and the services where a name begins with ~, with these callbacks."""
        for name, callback in callbacks.items():
            (self.service if name.startswith("~") else self.subscription)(name, callback)

    def client(self, name: str) -> Any:
        """Creates the client of a service of another node, likewise; None where its condition does not hold."""
        return self._make(CALLS, name, lambda e: self.create_client(e.kind, e.name))

    def action(self, name: str, execute: Any, accept: Any, cancel: Any) -> Any:
        """Creates the action server, likewise, with coroutine `execute`."""
        return self._make(ACTS, name, lambda e: self.create_action(e.kind, e.name, execute, accept, cancel))

    def action_client(self, name: str) -> Any:
        """Creates the client of an action of another node, likewise."""
        return self._make(STARTS, name, lambda e: ActionClient(self, e.kind, e.name))

    def _make(self, direction: str, name: str, make: Callable[[Endpoint], Any]) -> Any:
        """Creates the first endpoint of a name whose condition holds."""
        declared = [endpoint for endpoint in self.ENDPOINTS if (endpoint.direction, endpoint.name) == (direction, name)]
        if not declared:
            raise LookupError(f"ENDPOINTS of {self.NAME} has no '{name}' that it {direction}")
        for endpoint in in_force(declared, self.value):
            self._entities.append(make(endpoint))
            return self._entities[-1]
        return None

    def end_made(self) -> None:
        """Destroys timers and the entities of ENDPOINTS."""
        for entity in self._entities:
            self.destroy(entity)
        self._entities.clear()

    # ---- entities, each with a guard that ends with it -----------------------------------------------------------------

    def create_timer(self, timer_period_sec: float, callback: Callable[[], None], *args: Any, **kwargs: Any) -> Any:
        guard = CallbackGuard(self.catch)
        return guard.attach(super().create_timer(timer_period_sec, guard.around(callback), *args, **kwargs))

    def destroy_timer(self, timer: Any) -> bool:
        timer.guard.close()
        return bool(super().destroy_timer(timer))

    def create_subscription(self, msg_type: Any, topic: str, callback: Callable[[Any], None], *args: Any, **kwargs: Any) -> Any:
        guard = CallbackGuard(self.catch)
        if msg_type is ClockMessage and not kwargs.get("raw"):
            callback = checked_clock(callback, lambda *refused: self.refusals.refuse(*refused))
        return guard.attach(super().create_subscription(msg_type, topic, guard.around(callback), *args, **kwargs))

    def destroy_subscription(self, subscription: Any) -> bool:
        subscription.guard.close()
        return bool(super().destroy_subscription(subscription))

    def create_service(self, srv_type: Any, srv_name: str, callback: Any, *args: Any, **kwargs: Any) -> Any:
        service = super().create_service(srv_type, srv_name, checked_request(srv_type, callback), *args, **kwargs)
        CallbackGuard(self.catch).around_service(service)
        return service

    def destroy_service(self, service: Any) -> bool:
        service.guard.close()
        return bool(super().destroy_service(service))

    def create_action(self, action_type: Any, name: str, execute: Any, accept: Any, cancel: Any) -> Any:
        """Creates an action server with coroutine `execute`."""
        guard = CallbackGuard(self.catch)
        return guard.attach(ActionServer(
            self, action_type, name, guard.around_async(execute, lambda goal: action_type.Result()),
            goal_callback=guard.around(accept, lambda goal: GoalResponse.REJECT),
            cancel_callback=guard.around(cancel, lambda goal: CancelResponse.REJECT)))

    def destroy_action(self, server: Any) -> None:
        server.guard.close()
        server.destroy()

    def all_entities(self) -> list[Any]:
        """Returns all entities of the node."""
        actions = (waitable for waitable in self.waitables if isinstance(waitable, ActionServer))
        return [*self.timers, *self.subscriptions, *self.services, *self.publishers, *self.clients, *actions]

    def destroy(self, entity: Any) -> None:
        next(destroy for kind, destroy in (
            (Timer, self.destroy_timer), (Subscription, self.destroy_subscription), (Service, self.destroy_service),
            (LifecyclePublisher, self.destroy_lifecycle_publisher), (Publisher, self.destroy_publisher),
            (Client, self.destroy_client), (ActionServer, self.destroy_action),
            (ActionClient, ActionClient.destroy)) if isinstance(entity, kind))(entity)

    # ---- exceptions ----------------------------------------------------------------------------------------------------

    def catch(self, where: str, error: Exception, arguments: tuple[Any, ...] = ()) -> None:
        """Handles an exception of the callback `where`: logs it once, reports it in /diagnostics, then calls `after_error`."""
        text = f"{where}: {type(error).__name__}"
        new = text not in self._caught
        self._caught[text] += 1
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
                changed = checked_changes(self.PARAMETERS, parameters, self.state != "unconfigured")
                if self.state in ("inactive", "active"):
                    for name, value in changed:
                        self.parameter_changed(name, value)
            except InputError as error:
                return SetParametersResult(successful=False, reason=str(error))
        except Exception as error:
            self.catch("parameter_changed", error)
            return SetParametersResult(successful=False, reason=f"internal error: {error!r}"[:LONGEST])
        return SetParametersResult(successful=True)

    def publish_diagnostics(self) -> None:
        """Publishes a DiagnosticArray with this node's health; once a second and immediately after errors."""
        try:
            level, summary, values = self.diagnose() or (OK, self.state, {})
        except Exception as error:
            self.catch("diagnose", error)
            level, summary, values = ERROR, "", {}
        others = self._others()
        if refused := self.increase("refusals", self.refusals.total):
            text = f"{refused} inputs refused, the last one: {self.refusals.last}"
            level, summary = (WARN, text) if level == OK else (level, f"{summary}; {text}")
        if others and level == OK:
            level, summary = WARN, others
        if self._caught:
            level, summary = ERROR, f"internal error in {'; '.join(f'{text}, {count} x' for text, count in self._caught.items())}"
        values = {**values, **self.refusals.diagnosis(), **({"published_by_others": others} if others else {})}
        array = DiagnosticArray(status=[DiagnosticStatus(
            level=level, name=self.get_fully_qualified_name().lstrip("/"), message=summary, hardware_id="lfdm_ros",
            values=[KeyValue(key=key, value=f"{value:.6g}" if isinstance(value, float) else str(value)) for key, value in values.items()])])
        array.header.stamp = self.stamp()
        self._diagnostics.publish(array)

    def _others(self) -> str:
        """Names other publishers of topics reserved to this node, in one line; logged once."""
        # Evaluates only their conditions: others may read a file.
        sole = in_force((endpoint for endpoint in self.ENDPOINTS if endpoint.sole), self.value) if self.state == "active" else []
        text = other_publishers(self, (endpoint.name_for(self.value) for endpoint in sole))
        if text and text != self._warned_of:
            self.get_logger().warning(text)
        self._warned_of = text or self._warned_of
        return text
