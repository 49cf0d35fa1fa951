"""Clients of nodes in other processes: lifecycle services, and the status of a simulator."""

import time
from collections.abc import Callable, Generator, Mapping
from typing import Any

from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.node import Node
from rclpy.task import Future

from lfdm_ros.engine.pacing import speed_summary
from lfdm_ros.errors import InputError
from lfdm_ros.msg import SimulatorStatus
from lfdm_ros.ros import qos
from lfdm_ros.ros.messages import nanoseconds
from lfdm_ros.stacks.stack import NodeEntry

_CONFIGURE_TIMEOUT = 180.0  # [s] to start and to configure: the first use of a model compiles it, on a busy machine too
_RETRY = 3.0  # [s] without an answer
_HEARTBEAT_PERIOD = 0.2  # [s]
_MAX_OWN_DELAY = 0.5  # [s] between heartbeats beyond which this process itself was delayed
SIMULATOR_STATUS = "simulator/status"
_SUMMARY_FIELDS = ("overruns", "not_driven", "collisions", "first_collision", "least_clearance", "lifted_wheels_most")
STEPS = {"configure": (Transition.TRANSITION_CONFIGURE, State.PRIMARY_STATE_INACTIVE),
         "activate": (Transition.TRANSITION_ACTIVATE, State.PRIMARY_STATE_ACTIVE)}


class RemoteNode:
    """A node in another process, seen through its lifecycle services."""

    def __init__(self, entry: NodeEntry, manager: Node, dead: Callable[[], str], errors: Mapping[str, str]) -> None:
        """Creates the clients. dead: returns the message of a node that has ended, else "". errors: the last logged error of each node, by
        its full name."""
        self.entry, self._dead, self._errors = entry, dead, errors
        self._change = manager.create_client(ChangeState, f"{entry.full_name}/change_state")
        self._get = manager.create_client(GetState, f"{entry.full_name}/get_state")
        self._pending: list[Future] = []  # requests of the heartbeat without an answer
        self._requested_at = 0.0
        self._answered = self._beat = time.monotonic()

    def change(self, step: str) -> Generator[None, None, None]:
        """Calls a transition. Raises InputError: it failed, or took too long."""
        transition, goal = STEPS[step]
        if not (yield from self._reach()):
            raise InputError(f"node {self.entry.name} did not start within {_CONFIGURE_TIMEOUT:g} s")
        end = time.monotonic() + _CONFIGURE_TIMEOUT
        request = ChangeState.Request(transition=Transition(id=transition))
        call = self._change.call_async(request)
        # DDS may lose a request or its answer during discovery: then check the node's state.
        while not (yield from self.wait(call.done, _RETRY)):
            state = yield from self._state()
            if state == goal:
                return
            if time.monotonic() > end:
                raise InputError(f"node {self.entry.name} did not {step} within {_CONFIGURE_TIMEOUT:g} s")
            if state is not None and not call.done():
                call = self._change.call_async(request)
        if not call.result().success and (yield from self._state()) != goal:
            # Only the log gives the reason.
            yield from self.wait(lambda: self.entry.full_name in self._errors, _RETRY)
            raise InputError(f"node {self.entry.name}: {self._errors.get(self.entry.full_name, f'{step} failed, see its log')}")

    def _reach(self) -> Generator[None, None, bool]:
        """Waits until the node answers; False: it has not come up.

        rmw_fastrtps reports a service as not ready while there are more request than reply endpoints of its name. A node of that name
        killed during discovery leaves this state for 20 s, while the running one does answer. So it is called periodically.
        """
        end = time.monotonic() + _CONFIGURE_TIMEOUT
        calls: list[Any] = []

        def answers() -> bool:
            return any(call.done() for call in calls) or (self._change.service_is_ready() and self._get.service_is_ready())

        while not (yield from self.wait(answers, _RETRY)):
            if time.monotonic() > end:
                return False
            calls.append(self._get.call_async(GetState.Request()))
        return True

    def _state(self) -> Generator[None, None, int | None]:
        """Returns the id of the node's lifecycle state; None without an answer."""
        state = self._get.call_async(GetState.Request())
        return int(state.result().current_state.id) if (yield from self.wait(state.done, _RETRY)) else None

    def wait(self, done: Callable[[], bool], timeout: float) -> Generator[None, None, bool]:
        """Waits until `done`, or until a timeout [s], which is False. Raises InputError: a node's process has ended."""
        end = time.monotonic() + timeout
        while not done():
            if died := self._dead():
                raise InputError(died)
            if time.monotonic() > end:
                return False
            yield
        return True

    def heartbeat(self) -> float:
        """Requests the node's state periodically, without waiting; returns the time since its last answer [s]."""
        now = time.monotonic()
        if now - self._beat > _MAX_OWN_DELAY:
            self._answered += now - self._beat
        self._beat = now
        if any(request.done() for request in self._pending):
            self._answered = now
            self._forget_requests()
        # DDS may lose one. Late answers count as well; a slow node gets fewer requests.
        if now - self._requested_at >= _HEARTBEAT_PERIOD * 2.0 ** len(self._pending):
            self._requested_at = now
            self._pending.append(self._get.call_async(GetState.Request()))
        return now - self._answered

    def _forget_requests(self) -> None:
        for request in self._pending:
            if not request.done():
                self._get.remove_pending_request(request)
        self._pending.clear()

    def reset_heartbeat(self) -> None:
        self._forget_requests()
        self._answered = self._beat = time.monotonic()


class SimulatorWatch:
    """The last status of a stack's simulator."""

    def __init__(self, entry: NodeEntry, node: Node) -> None:
        self.namespace = entry.full_name.rpartition("/")[0] or "/"
        self._status: SimulatorStatus | None = None
        node.create_subscription(SimulatorStatus, entry.topic(SIMULATOR_STATUS), lambda news: setattr(self, "_status", news), qos.STATUS)

    def summary(self, wall: float) -> dict[str, Any]:
        """Returns the summary as of `run_stack`, after a wall time [s]."""
        status = self._status
        if status is None:
            return {}
        simulated = 1e-9 * nanoseconds(status.header.stamp)
        return {"simulated_seconds": simulated, **speed_summary(simulated, wall, status.speed_factor_asked, status.held_back),
                **{name: getattr(status, name) for name in _SUMMARY_FIELDS},
                "commands_rejected": {"refused": status.commands_rejected}}
