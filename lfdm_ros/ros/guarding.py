"""Stands between the executor and a node's callbacks: what has ended is not called any more, and an exception stays in its node.

An executor calls what was ready when an entity was destroyed, and lets an exception of a callback end the whole process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lfdm_ros.ros.rclpy_adapter import wrap_service

# (name of the callback, the exception, the callback's arguments)
Caught = Callable[[str, Exception, tuple[Any, ...]], None]


def nothing(*_: Any) -> None:
    """What a callback of an entity that has ended does."""


class Guard:
    """The callbacks of one entity: a timer, a subscription, a service or an action."""

    def __init__(self, caught: Caught) -> None:
        """
        Args:
            caught: takes each exception that comes out of a callback.
        """
        self._caught = caught
        self._open = True

    def close(self) -> None:
        """From now on nothing is called. The wrapped callbacks themselves stay: an executor may be about to call one."""
        self._open = False

    def around(self, callback: Callable[..., Any], instead: Callable[..., Any] = nothing) -> Callable[..., Any]:
        """The guarded callback, with the signature of the bare one, since rclpy looks at that.

        Args:
            instead: gets the arguments and gives the result where the callback has none: it raised, or its entity has ended.
        """
        @functools.wraps(callback)
        def guarded(*arguments: Any) -> Any:
            if self._open:
                try:
                    return callback(*arguments)
                except Exception as error:
                    self._caught(name_of(callback), error, arguments)
            return instead(*arguments)

        return guarded

    def around_async(self, callback: Callable[..., Any], instead: Callable[..., Any] = nothing) -> Callable[..., Any]:
        """As `around`, of a coroutine function."""
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
        """Guards a service that exists: its callback, and the answer, for which there may be nobody any more."""
        wrap_service(service, lambda callback: self.around(callback, _refusal), self.around)


def _refusal(request: Any, response: Any) -> Any:
    """The answer of a service whose callback has none."""
    if hasattr(response, "success"):
        response.success = False
    if hasattr(response, "message"):
        response.message = "internal error; the node's log and /diagnostics tell more"
    return response


def name_of(callback: Callable[..., Any]) -> str:
    return getattr(callback, "__name__", repr(callback)).lstrip("_")
