"""A lifecycle node whose callbacks stand behind guards: none is called that has ended, and no exception leaves its node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.client import Client
from rclpy.lifecycle import LifecyclePublisher
from rclpy.parameter import Parameter as RosParameter
from rclpy.publisher import Publisher
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.timer import Timer
from rosgraph_msgs.msg import Clock as ClockMessage

from lfdm_ros.bounds import OUT_OF_RANGE, Refusals
from lfdm_ros.ros.guarding import Guard
from lfdm_ros.ros.rclpy_adapter import AdaptedLifecycleNode

LONGEST = 200  # characters of an exception that are told


class GuardedNode(AdaptedLifecycleNode):
    """Makes each entity with a guard that ends with it. Who derives from it defines `catch`.

    Attributes:
        refusals: what of its inputs the node refused, and why.
    """

    refusals: Refusals

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        for service in self.services:  # rclpy makes those of the lifecycle without `create_service`
            if not hasattr(service, "guard"):
                self._guard_service(service)

    def catch(self, where: str, error: Exception, arguments: tuple[Any, ...] = ()) -> None:
        """Takes an exception that has come out of the callback `where`, called with these arguments."""
        raise NotImplementedError

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

    def all_entities(self) -> list[Any]:
        """All that the node has now."""
        actions = (waitable for waitable in self.waitables if isinstance(waitable, ActionServer))
        return [*self.timers, *self.subscriptions, *self.services, *self.publishers, *self.clients, *actions]

    def destroy(self, entity: Any) -> None:
        """Destroys one, of whatever kind."""
        next(destroy for kind, destroy in (
            (Timer, self.destroy_timer), (Subscription, self.destroy_subscription), (Service, self.destroy_service),
            (LifecyclePublisher, self.destroy_lifecycle_publisher), (Publisher, self.destroy_publisher),
            (Client, self.destroy_client), (ActionServer, self.destroy_action)) if isinstance(entity, kind))(entity)


def _refusing(callback: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """rclpy's own service that sets parameters, for a request that it cannot take apart: refused whole, nothing is set."""
    def set_parameters(request: Any, response: Any) -> Any:
        try:
            for parameter in request.parameters:  # rclpy's own sets those that come before the odd one
                RosParameter.from_parameter_msg(parameter)
            return callback(request, response)
        except Exception as error:
            refused = SetParametersResult(successful=False, reason=f"malformed request: {error}"[:LONGEST])
            if isinstance(response, SetParameters.Response):
                response.results = [refused] * len(request.parameters)
            else:
                response.result = refused
            return response

    return set_parameters
