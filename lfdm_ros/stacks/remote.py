"""A node in a process of its own, asked and watched through its lifecycle services."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from typing import Any

from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.node import Node
from rclpy.task import Future

from lfdm_ros.errors import InputError
from lfdm_ros.stacks.stack import NodeEntry

_ANSWER = 180.0  # [s] for a node to start and to configure: the first use of a model compiles it, on a busy machine too
_RETRY = 3.0  # [s] without an answer
_BEAT = 0.2  # [s] between questions whether a node is alive
_HELD_UP = 0.5  # [s]: who has not asked for so long was held up itself, and knows nothing of the others
STEPS = {"configure": (Transition.TRANSITION_CONFIGURE, State.PRIMARY_STATE_INACTIVE),
         "activate": (Transition.TRANSITION_ACTIVATE, State.PRIMARY_STATE_ACTIVE)}


class Remote:
    """A node in another process, seen through its lifecycle services."""

    def __init__(self, entry: NodeEntry, manager: Node, dead: Callable[[], str], errors: Mapping[str, str]) -> None:
        """
        Args:
            errors: the last error that each node has logged, by its full name.
        """
        self.entry, self._dead, self._errors = entry, dead, errors
        self._change = manager.create_client(ChangeState, f"{entry.full_name}/change_state")
        self._get = manager.create_client(GetState, f"{entry.full_name}/get_state")
        self._sign: Future | None = None  # the answer that is to come
        self._requested_at = 0.0
        self._answered = self._beaten = time.monotonic()

    def change(self, step: str) -> Generator[None, None, None]:
        """Makes a transition.

        Raises:
            InputError: it failed, or took longer than any configuration does.
        """
        transition, goal = STEPS[step]
        if not (yield from self._reach()):
            raise InputError(f"node {self.entry.name} did not start within {_ANSWER:g} s")
        end = time.monotonic() + _ANSWER
        request = ChangeState.Request(transition=Transition(id=transition))
        call = self._change.call_async(request)
        # DDS may lose a request or its answer while the two have not fully discovered each other: then the node's state tells.
        while not (yield from self.wait(call.done, _RETRY)):
            state = yield from self._state()
            if state == goal:
                return
            if time.monotonic() > end:
                raise InputError(f"node {self.entry.name} did not {step} within {_ANSWER:g} s")
            if state is not None and not call.done():
                call = self._change.call_async(request)
        if not call.result().success and (yield from self._state()) != goal:
            # The answer does not say why; the log does.
            yield from self.wait(lambda: self.entry.full_name in self._errors, _RETRY)
            raise InputError(f"node {self.entry.name}: {self._errors.get(self.entry.full_name, f'{step} failed, see its log')}")

    def _reach(self) -> Generator[None, None, bool]:
        """Waits until the node can be asked; False: it has not come.

        Services are not ready, for rmw_fastrtps, while it knows more ends of requests than of answers under their name, whoever's they are.
        A node of that name that was killed while it was coming or going can leave that behind for 20 s, in which one that is there answers
        all the same. So it is asked now and then.
        """
        end = time.monotonic() + _ANSWER
        calls: list[Any] = []

        def answers() -> bool:
            return any(call.done() for call in calls) or (self._change.service_is_ready() and self._get.service_is_ready())

        while not (yield from self.wait(answers, _RETRY)):
            if time.monotonic() > end:
                return False
            calls.append(self._get.call_async(GetState.Request()))
        return True

    def _state(self) -> Generator[None, None, int | None]:
        """The id of the node's lifecycle state; None without an answer."""
        state = self._get.call_async(GetState.Request())
        return int(state.result().current_state.id) if (yield from self.wait(state.done, _RETRY)) else None

    def wait(self, done: Callable[[], bool], patience: float) -> Generator[None, None, bool]:
        """Waits until `done`, or `patience` [s] is over, which is False.

        Raises:
            InputError: a node's process has ended.
        """
        end = time.monotonic() + patience
        while not done():
            if died := self._dead():
                raise InputError(died)
            if time.monotonic() > end:
                return False
            yield
        return True

    def beat(self) -> float:
        """Asks the node now and then whether it is alive, without waiting; returns for how long it has not answered [s]."""
        now = time.monotonic()
        if now - self._beaten > _HELD_UP:
            self._answered += now - self._beaten
        self._beaten = now
        if self._sign is not None and self._sign.done():
            self._answered, self._sign = now, None
        if now - self._requested_at >= (_BEAT if self._sign is None else 2.0 * _BEAT):  # DDS may lose one
            if self._sign is not None:
                self._get.remove_pending_request(self._sign)
            self._requested_at, self._sign = now, self._get.call_async(GetState.Request())
        return now - self._answered

    def begin_to_watch(self) -> None:
        """From now on silence counts."""
        self._answered = self._beaten = time.monotonic()
