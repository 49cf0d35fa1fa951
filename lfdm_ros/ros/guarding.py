"""Guards between the executor and a node's callbacks: ended ones are not called, and exceptions stay in their node.

An executor still calls ready callbacks of destroyed entities, and an exception in a callback ends the whole process.
"""

import functools
from collections.abc import Callable
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.parameter import Parameter as RosParameter
from rosgraph_msgs.msg import Clock as ClockMessage

from lfdm_ros.bounds import OUT_OF_RANGE
from lfdm_ros.ros.rclpy_adapter import wrap_service

LONGEST = 200  # characters of an exception in a message
# (name of the callback, the exception, the callback's arguments)
Caught = Callable[[str, Exception, tuple[Any, ...]], None]


def ignore(*_: Any) -> None:
    """Replaces the callback of a destroyed entity."""


class CallbackGuard:
    """The callbacks of one entity: a timer, a subscription, a service or an action."""

    def __init__(self, caught: Caught) -> None:
        """Creates an open guard. caught: handler of exceptions in callbacks."""
        self._caught = caught
        self._open = True

    def attach(self, entity: Any) -> Any:
        """Makes this the guard of an entity, which it returns."""
        entity.guard = self
        return entity

    def close(self) -> None:
        """Stops all calls. The wrapped callbacks themselves stay: an executor may be about to call one."""
        self._open = False

    def around(self, callback: Callable[..., Any], instead: Callable[..., Any] = ignore) -> Callable[..., Any]:
        """Returns the guarded callback with the signature of the original, which rclpy inspects. instead: called with the arguments if the
        callback raised or its entity has ended."""
        @functools.wraps(callback)
        def guarded(*arguments: Any) -> Any:
            if self._open:
                try:
                    return callback(*arguments)
                except Exception as error:
                    self._caught(name_of(callback), error, arguments)
            return instead(*arguments)

        return guarded

    def around_async(self, callback: Callable[..., Any], instead: Callable[..., Any] = ignore) -> Callable[..., Any]:
        """Returns a guarded coroutine function; as `around`."""
        @functools.wraps(callback)
        async def guarded(*arguments: Any) -> Any:
            if self._open:
                try:
                    return await callback(*arguments)
                except Exception as error:
                    self._caught(name_of(callback), error, arguments)
            return instead(*arguments)

        return guarded

    def around_service(self, service: Any) -> None:
        """Guards the callback of an existing service, and its answer, whose receiver may have ended."""
        wrap_service(self.attach(service), lambda callback: self.around(callback, _refuse), self.around)


def _refuse(request: Any, response: Any) -> Any:
    """Fills the response of a service whose callback failed."""
    if hasattr(response, "success"):
        response.success = False
    if hasattr(response, "message"):
        response.message = "internal error; the node's log and /diagnostics tell more"
    return response


def name_of(callback: Callable[..., Any]) -> str:
    return getattr(callback, "__name__", repr(callback)).lstrip("_")


def checked_clock(callback: Callable[[ClockMessage], None], refuse: Callable[[str, str, str], Any]) -> Callable[[ClockMessage], None]:
    """Returns rclpy's callback of /clock, which raises for invalid times, behind a check."""
    def clock_callback(clock: ClockMessage) -> None:
        if clock.clock.sec < 0 or clock.clock.nanosec >= 1_000_000_000:
            refuse("clock", f"{clock.clock.sec} s and {clock.clock.nanosec} ns is no time", OUT_OF_RANGE)
        else:
            callback(clock)

    return clock_callback


def checked_request(srv_type: Any, callback: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Returns the callback of a service; for rclpy's own that set parameters, one that refuses malformed requests as a whole."""
    if srv_type not in (SetParameters, SetParametersAtomically):
        return callback

    def set_parameters(request: Any, response: Any) -> Any:
        try:
            for parameter in request.parameters:  # rclpy would set those before the malformed one
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
