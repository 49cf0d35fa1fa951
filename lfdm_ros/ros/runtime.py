"""Runs nodes in this process: one ROS context, one executor in the main thread, signals that end the run cleanly."""

from __future__ import annotations

import inspect
import math
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType, ModuleType, TracebackType
from typing import Any

import rclpy
from rcl_interfaces.msg import ParameterDescriptor, ParameterType
from rclpy.context import Context
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.executors import ExternalShutdownException
from rclpy.experimental import EventsExecutor
from rclpy.logging import get_logger
from rclpy.signals import SignalHandlerOptions

from lfdm_ros.errors import InputError, Interrupted
from lfdm_ros.ros.component import Component
from lfdm_ros.ros.rclpy_adapter import SLICE, Turns

# Time [s] for queued callbacks when a node ends.
_DRAIN = 0.02
# Time [s] for a delayed node, which in a live graph may never catch up.
_LARGEST_DRAIN = 1.0
# Turns without messages after which it has caught up; on a busy machine a single turn may do no work.
_QUIET = 5
# Signals within this time [s] count as one.
AGAIN = 2.0
# Argument with the id of the process whose end also ends the node.
PARENT = "--parent"
_LARGEST_END = 30.0  # [s] for a node to end after the loss of its parent
INTERRUPTED, TERMINATED = "interrupted", "terminated"


class Runtime:
    """A context with an executor; a context manager that ends both. Raises InputError: ROS cannot start, for example a missing RMW of
    the environment."""

    def __init__(self, *, domain_id: int | None = None, args: Sequence[str] | None = None, last: bool = False) -> None:
        """Starts ROS. last: the process ends afterwards, so that later signals must not change the exit status."""
        self.context = Context()
        try:
            # Our own handlers (see `_signals`) instead of rclpy's, which end the context before the nodes.
            rclpy.init(args=list(args or []), context=self.context, domain_id=domain_id,
                       signal_handler_options=SignalHandlerOptions.NO)
        except RuntimeError as error:
            raise InputError(f"ROS does not start: {str(error).splitlines()[0]}") from None
        self.executor = EventsExecutor(context=self.context)  # 5 to 7 times less CPU a message than a SingleThreadedExecutor
        self.nodes: list[Component] = []
        self._done = False
        self._turns = Turns()
        self.reason = ""
        self._failures: list[str] = []
        self._noted: set[str] = set()
        self._last = last
        self._signals = _signals(self._end, last)

    def __enter__(self) -> Runtime:
        # From the first node on, so that no signal interrupts a start or an end.
        self._signals.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Ends everything without raising; errors are collected in `failures`."""
        self.begin_end()
        # A node in its own process is signalled at a planned end as well, and waits only for remaining readers.
        complete = (self._last or exit_status(self.reason) == 0) and kind is None
        # First created, last ended, and messages are delivered before the next node ends: a recorder created first receives all of
        # them.
        for node in reversed(self.nodes):
            self._attempt(node, "taking what has come", lambda node=node: self._drain(node))  # type: ignore[misc]
            self._attempt(node, "its stop", node.stop)
            # An interrupted run of several nodes must end soon; after a planned end all bags should be complete.
            if complete:
                self._attempt(node, "waiting until it is heard", node.wait_until_received)
            self._attempt(node, "its release", node.release)
            self.spin_some(_DRAIN)
        for node in reversed(self.nodes):
            self._failures += node.errors
            self._attempt(node, "its removal", lambda node=node: self.executor.remove_node(node))  # type: ignore[misc]
            self._attempt(node, "its destruction", node.destroy_node)
        for part, step in (("executor", self.executor.shutdown), ("context", self.context.try_shutdown)):
            try:
                step()
            except Exception as failed:
                self._note(f"ending the {part}", failed)
        self._turns.close()
        self._signals.__exit__()

    def _attempt(self, node: Component, activity: str, step: Callable[[], object]) -> None:
        """Runs one part of a node's end, and notes its failure."""
        self._signals.breakable = True
        try:
            step()
        except (Exception, KeyboardInterrupt) as error:
            self._note(f"{node.label}: {activity}", error)
        finally:
            self._signals.breakable = False

    def _note(self, activity: str, error: BaseException) -> None:
        """Logs an error outside nodes, once of each kind."""
        text = f"{activity}: {type(error).__name__}"
        if text not in self._noted:
            self._noted.add(text)
            self._failures.append(f"{text}: {' '.join(str(error).split())[:200]}")
            get_logger("runtime").error("internal error in " + "".join(
                traceback.format_exception(type(error), error, error.__traceback__)).strip())

    @property
    def failures(self) -> list[str]:
        """Failures, one line each: exceptions in callbacks and at the nodes' ends. Complete once the runtime has ended."""
        return list(dict.fromkeys(self._failures))

    def raise_if_interrupted(self) -> None:
        """Checks for a signal before `spin`. Raises Interrupted: a signal has requested the end."""
        if exit_status(self.reason):
            raise Interrupted(exit_status(self.reason))

    def _drain(self, node: Component) -> None:
        """Spins a delayed node until its queue is empty."""
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
        if not self._done:
            self._end(reason)
            self._turns.end()

    def _end(self, reason: str) -> None:
        # Also called by signal handlers, which may interrupt a holder of the executor's lock: takes no lock; `spin` polls.
        if not self._done:
            self.reason = self.reason or reason
            self._done = True

    def begin_end(self) -> None:
        """Ignores signals during the end, except the third, which interrupts one step of one node."""
        self._signals.ending = True

    def spin(self, *, timeout: float | None = None, until: Callable[[], bool] | None = None) -> str:
        """Runs the nodes until something ends it; returns the reason. timeout: wall time [s]. until: evaluated 20 times a second; True ends
        the run."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._done:
            self.spin_some(SLICE)  # period of Python's signal handlers and `until`
            if until is not None and until():
                self.stop("until")
            elif end is not None and time.monotonic() >= end:
                self.stop(f"ran {timeout:g} s")
        return self.reason

    def spin_some(self, seconds: float) -> None:
        """Runs one turn of the executor [s]. Exceptions outside the guards of nodes are logged."""
        try:
            self._turns.take(self.executor, seconds)
        except ExternalShutdownException:
            raise
        except Exception as error:
            self._note("the executor", error)


class _signals:
    """Handlers of SIGINT and SIGTERM that end the run instead of the process. Only the main thread may set handlers.

    A signal within `AGAIN` of another has no effect, since launch and a terminal both send one. A later second one interrupts a node's
    present work, but not its end; from the third on also one step of one node's end.
    """

    def __init__(self, stop: Callable[[str], None], last: bool) -> None:
        self._stop, self._last = stop, last
        self._previous: dict[int, Any] = {}
        self._signals, self._signalled_at, self._status = 0, -math.inf, 0
        self.ending = self.breakable = False

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, signal.SIG_IGN if self._last else handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self._signalled_at < AGAIN:
            return
        self._signals, self._signalled_at = self._signals + 1, now
        if self._signals == 1:
            reason = INTERRUPTED if number == signal.SIGINT else TERMINATED
            self._status = exit_status(reason)
            self._stop(reason)
        elif self.breakable and self._signals > 2 if self.ending else self._signals > 1:
            raise Interrupted(self._status)


def exit_status(reason: str) -> int:
    """Returns 130 after Ctrl-C, 143 after SIGTERM, else 0."""
    return {INTERRUPTED: 130, TERMINATED: 143}.get(reason, 0)


def _end_with(parent: int, runtime: Runtime) -> None:
    """Ends the run once the process `parent` has ended; kills this process if that takes too long."""
    def watch() -> None:
        # Not os.getppid(): with a launch prefix such as gdb there is a process in between.
        with suppress(ProcessLookupError):  # it has ended already
            select.select([os.pidfd_open(parent)], [], [])
        runtime.stop(TERMINATED)
        time.sleep(_LARGEST_END)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="parent watch", daemon=True).start()


def node_in(module: ModuleType) -> type[Component]:
    """Returns the class of the node that a module of lfdm_ros.nodes defines."""
    return next(kind for _, kind in inspect.getmembers(module, inspect.isclass)
                if issubclass(kind, Component) and kind.__module__ == module.__name__)


def run_node(node_class: type[Component], argv: Sequence[str] | None = None) -> int:
    """Runs a node as the program of its executable: unconfigured, until its lifecycle services are called.

    With the arguments "--parent PID", as given by our runs and launch files, it ends when that process does.

    Returns:
        0 when the node ended the run itself or was stopped by a signal, as launch expects; 1 when something failed on the way; 2 on
        bad parameters.
    """
    argv = list(sys.argv if argv is None else argv)
    try:
        with Runtime(args=argv, last=True) as runtime:
            if PARENT in argv:
                _end_with(int(argv[argv.index(PARENT) + 1]), runtime)
            node = node_class(context=runtime.context)
            runtime.add(node)
            if _starts_itself(node):
                node.bring_up("configure", "activate")
            elif PARENT not in argv:
                node.get_logger().info("waits to be configured: by a manager or `ros2 lifecycle set`; -p autostart:=true does it at once")
            runtime.spin()
    except (ExternalShutdownException, KeyboardInterrupt):
        pass
    except InputError as error:
        print(f"{node_class.NAME}: {error}", file=sys.stderr)
        return 2
    return 1 if runtime.failures else 0


def _starts_itself(node: Component) -> bool:
    """Reads the parameter `autostart`, which only nodes in separate processes have; raises InputError."""
    description = ParameterDescriptor(name="autostart", type=ParameterType.PARAMETER_BOOL, read_only=True,
                                      description="configure and activate at once, without a manager")
    try:
        return bool(node.declare_parameter("autostart", False, description).value)
    except (InvalidParameterTypeException, InvalidParameterValueException) as error:
        raise InputError(str(error)) from None
