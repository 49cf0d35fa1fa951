"""All uses of rclpy beyond its stable interface.

`MADE_FOR` are the supported releases; `LOOK_AT` lists the properties that a new release must keep.
"""

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from lifecycle_msgs.srv import ChangeState
from rclpy.executors import Executor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode
from rclpy.task import Future

MADE_FOR = {"rclpy": ("7.1",)}
LOOK_AT = {
    "LifecycleNode.services": "has the services of the lifecycle too, which are made without create_service; the callback of the one of "
                              "type ChangeState raises RCLError where the transition does not exist from the present state",
    "LifecycleNode._state_machine": "keeps the services of the lifecycle and the node, which destroy_node leaves as they are",
    "Service": "an executor calls its callback(request, response) and then its send_response(response, header)",
    "EventsExecutor": "in rclpy.experimental; its spin() never dispatches anything, with a finite time-out spin_until_future_complete does",
}
RCLError = rclpy_implementation.RCLError
SLICE = 0.05  # [s] of one turn


def release_lifecycle(node: LifecycleNode) -> None:
    """Removes a destroyed node from the graph; idempotent.

    rclpy leaves the lifecycle services, and with them the node and finally DDS's participant, to the garbage collector. Until it runs, a
    client of a node of the same name finds two, of which one does not answer.
    """
    machine, node._state_machine = node._state_machine, None
    if machine is not None:
        machine.destroy_when_not_in_use()


def answer_impossible_transitions(node: LifecycleNode, report: Callable[[], None]) -> None:
    """Makes a node refuse and report transitions that do not exist from its state; in rclpy such a request ends the process."""
    def answering(callback: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def on_change_state(request: Any, response: Any) -> Any:
            try:
                return callback(request, response)
            except RCLError:
                report()
                response.success = False
                return response

        return on_change_state

    for service in node.services:
        if service.srv_type is ChangeState:
            service.callback = answering(service.callback)


def wrap_service(service: Any, callback: Callable[[Any], Any], send: Callable[[Any], Any]) -> None:
    """Wraps the callback of an existing service, and its answer, whose receiver may have ended."""
    service.callback = callback(service.callback)
    service.send_response = send(service.send_response)


class Turns:
    """A thread that ends the turns of an executor.

    EventsExecutor checks its time-out only when idle: overloaded nodes would be served forever, despite a request to end.
    """

    def __init__(self) -> None:
        self._turn, self._end = Future(), math.inf
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="turns", daemon=True).start()

    def take(self, executor: Executor, seconds: float) -> None:
        """Runs the executor for one turn of a duration [s]."""
        # EventsExecutor.spin() never dispatches anything; with a finite time-out it does.
        executor.spin_until_future_complete(self._begin(seconds), timeout_sec=seconds)

    def _begin(self, seconds: float) -> Future:
        # A new one each time, since the executor adds a callback with each event and removes none; without an executor, which would queue
        # the callback behind all others.
        self._end = math.inf
        self._turn = Future()
        self._end = time.monotonic() + seconds
        return self._turn

    def end(self) -> None:
        """Ends the turn that is on."""
        self._turn.set_result(None)

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(SLICE):
            if time.monotonic() >= self._end:
                self.end()
