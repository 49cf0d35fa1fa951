"""Runs nodes in this process: one ROS context, one executor in the main thread, signals that end the run cleanly."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any

import rclpy
from rclpy.context import Context
from rclpy.executors import Executor, ExternalShutdownException, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

from lfdm_ros.errors import InputError
from lfdm_ros.nodes.component import Component

# The executor returns this often [s] so that Python's signal handlers run and `until` is asked.
_SLICE = 0.05
# Time [s] for callbacks that are queued when a node ends.
_DRAIN = 0.02
# Time [s] for a node that has fallen behind, which in a live graph may never have everything.
_LARGEST_DRAIN = 1.0
# Turns without news after which it has: on a busy machine one turn alone may pass without any work done.
_QUIET = 5
INTERRUPTED, TERMINATED = "interrupted", "terminated"


def make_executor(context: Context, kind: str = "events") -> Executor:
    """An executor: "events" (5 to 7 times less CPU a message) where this rclpy has it, else "single"."""
    if kind == "events":
        try:
            from rclpy.experimental import EventsExecutor
        except ImportError:
            pass
        else:
            return EventsExecutor(context=context)
    return SingleThreadedExecutor(context=context)


class Runtime:
    """A context with an executor; a context manager that ends both.

    Raises:
        InputError: ROS cannot start, for example for want of the RMW that the environment names.
    """

    def __init__(self, *, executor: str = "events", domain_id: int | None = None, args: Sequence[str] | None = None) -> None:
        self.context = Context()
        try:
            # Our own handlers (see `_signals`) instead of rclpy's, which end the context under the nodes' feet.
            rclpy.init(args=list(args or []), context=self.context, domain_id=domain_id,
                       signal_handler_options=SignalHandlerOptions.NO)
        except RuntimeError as error:
            raise InputError(f"ROS does not start: {str(error).splitlines()[0]}") from None
        self.executor = make_executor(self.context, executor)
        self.nodes: list[Component] = []
        self._done: Future = Future(executor=self.executor)
        self.reason = ""
        self._signals = _signals(self.stop)

    def __enter__(self) -> Runtime:
        # From the first node on, so that a signal never cuts one off in the middle of starting or ending.
        self._signals.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # Last made, last ended, and what a node has sent is delivered before the next one ends: a recorder made first hears
        # everybody's last word.
        for node in reversed(self.nodes):
            self._drain(node)
            # Who interrupts a run wants it to end; a run that ended as planned should be complete in everybody's bag.
            if exit_status(self.reason) == 0 and kind is None:
                node.wait_until_heard()
            node.release()
            self.spin_some(_DRAIN)
        for node in reversed(self.nodes):
            self.executor.remove_node(node)
            node.destroy_node()
        self.executor.shutdown()
        self.context.try_shutdown()
        self._signals.__exit__()

    def raise_if_interrupted(self) -> None:
        """For the time before `spin`.

        Raises:
            KeyboardInterrupt: a signal has asked to end.
        """
        if exit_status(self.reason):
            raise KeyboardInterrupt

    def _drain(self, node: Component) -> None:
        """Lets a node that has fallen behind take what has come for it, until that is quiet for a while."""
        end, quiet = time.monotonic() + _LARGEST_DRAIN, 0
        while node.takes_all and quiet < _QUIET and time.monotonic() < end:
            self.spin_some(_DRAIN)
            quiet = quiet + 1 if node.settled() else 0

    def add(self, node: Component) -> None:
        """Runs a node from now on; it may ask to end the run."""
        node.stop_requested = self.stop
        self.nodes.append(node)
        self.executor.add_node(node)

    def stop(self, reason: str) -> None:
        """Ends the run, from any thread; the first reason counts."""
        if not self._done.done():
            self.reason = self.reason or reason
            self._done.set_result(None)

    def spin(self, *, timeout: float | None = None, until: Callable[[], bool] | None = None) -> str:
        """Runs the nodes until something ends it; returns the reason.

        Args:
            timeout: wall time [s].
            until: asked 20 times a second; True ends the run.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not self._done.done():
            # EventsExecutor.spin() of the 7.1 wheels never dispatches anything; with a finite time-out it does.
            self.executor.spin_until_future_complete(self._done, timeout_sec=_SLICE)
            if until is not None and until():
                self.stop("until")
            elif end is not None and time.monotonic() >= end:
                self.stop(f"ran {timeout:g} s")
        return self.reason

    def spin_some(self, seconds: float) -> None:
        """Serves the nodes for a while, without ending the run."""
        self.executor.spin_until_future_complete(Future(executor=self.executor), timeout_sec=seconds)


class _signals:
    """SIGINT and SIGTERM end the run instead of the process; a second one insists. Only the main thread may set handlers."""

    def __init__(self, stop: Callable[[str], None]) -> None:
        self._stop = stop
        self._previous: dict[int, Any] = {}
        self._told = False

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._told:
            raise KeyboardInterrupt
        self._told = True
        self._stop(INTERRUPTED if number == signal.SIGINT else TERMINATED)


def exit_status(reason: str) -> int:
    """130 after Ctrl-C, 143 after SIGTERM, else 0."""
    return {INTERRUPTED: 130, TERMINATED: 143}.get(reason, 0)


def run_node(node_class: type[Component], argv: Sequence[str] | None = None) -> int:
    """The main function of a node's executable: unconfigured, until its lifecycle services or a manager say more.

    Returns:
        0 when the node ended the run itself or was stopped by a signal, as launch expects; 2 on bad parameters.
    """
    try:
        with Runtime(args=list(sys.argv if argv is None else argv)) as runtime:
            runtime.add(node_class(context=runtime.context))
            runtime.spin()
    except ExternalShutdownException:
        pass
    except InputError as error:
        print(f"{node_class.NAME}: {error}", file=sys.stderr)
        return 2
    return 0
