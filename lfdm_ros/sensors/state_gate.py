"""Checks of a stream of vehicle states: stamp order, frame, values, continuity; and the state that waits in lockstep. Without ROS."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from lfdm_ros.bounds import FRAME, STAMP, Refused, refusal, require_all

REQUIRED = ("x", "y", "yaw", "vx", "vy", "yaw_rate")  # values that each state must have
LATE_NS = 500_000_000  # a stamp older than the last by less is late, or its clock was read twice; by more, the clock was set back
MAX_AHEAD_NS = 10_000_000_000  # a stamp further ahead is not of this time
_MAX_JUMP = 2.0  # [m] beyond the distance that the speed explains

Answer = TypeVar("Answer")
# A stamp [ns] and values by the names of the models' states.
Stamped = tuple[int, Mapping[str, float]]


class StampOrder(Enum):
    """A stamp's place after the last one of its stream."""

    NEXT, REPEATED, LATE, SET_BACK = range(4)


class StampGate:
    """StampOrder of the stamps of one stream.

    Attributes:
        last_ns: stamp admitted last [ns]; None: none was.
    """

    def __init__(self, tolerance_ns: int = LATE_NS) -> None:
        """
        Creates a gate that has admitted nothing.

        Args:
            tolerance_ns: difference up to which an older stamp is late, and beyond which the clock was set back [ns].
        """
        self.tolerance_ns = tolerance_ns
        self.last_ns: int | None = None

    def order(self, stamp_ns: int) -> StampOrder:
        """Compares a stamp with the last one."""
        last_ns = self.last_ns
        if last_ns is None or stamp_ns > last_ns:
            return StampOrder.NEXT
        if stamp_ns == last_ns:
            return StampOrder.REPEATED
        return StampOrder.LATE if last_ns - stamp_ns <= self.tolerance_ns else StampOrder.SET_BACK

    def too_late(self, stamp_ns: int) -> Refused:
        """Describes a stamp that is not newer than the last."""
        return Refused(f"stamped {1e-9 * stamp_ns:.3f} s, the one before {1e-9 * (self.last_ns or 0):.3f} s", STAMP)


def clock_set_back(before_ns: int, after_ns: int) -> str:
    """Describes a clock that went back."""
    return f"the clock went back from {1e-9 * before_ns:.3f} s to {1e-9 * after_ns:.3f} s: starting anew"


@dataclass(frozen=True)
class Interruption:
    """The end of a drive as one motion: kind; text for the log; keeps: checks whether a scan of a stamp [ns] belongs to the new one."""

    kind: str
    text: str
    keeps: Callable[[int], bool]


class StateGate(StampGate):
    """One vehicle's states: in one frame, each newer than the one before and within reach of it.

    Attributes:
        frame: of the states; empty: none was admitted. It survives `forget`.
        last: stamp [ns] and values of the last state; None: there is none.
        first_ns: stamp of the first state [ns]; None: there is none.
    """

    def __init__(self, lockstep: bool = False) -> None:
        """
        Creates a gate without a frame.

        Args:
            lockstep: nothing overtakes, so each older stamp says that the clock was set back.
        """
        super().__init__(0 if lockstep else LATE_NS)
        self._lockstep = lockstep
        self.frame = ""
        self.forget()

    def forget(self) -> None:
        """Forgets all states; the next one is the first."""
        self.last: Stamped | None = None
        self.last_ns = None
        self.first_ns: int | None = None

    def repeats(self, stamp_ns: int) -> bool:
        """Checks for the last state published again, in lockstep by a simulator that has not received the answer."""
        return self._lockstep and self.order(stamp_ns) is StampOrder.REPEATED

    def foreign(self, frame: str) -> Refused | None:
        """Returns why a task or plan in a frame does not fit the states; None: it does, or either frame is not known."""
        if frame and self.frame and frame != self.frame:
            return Refused(f"in frame '{frame}', the states are in '{self.frame}'", FRAME)
        return None

    def validate(self, stamp_ns: int, frame: str, values: Mapping[str, float], now_ns: int = 0) -> Refused | None:
        """Returns why a state cannot be used; None: it can. Without a clock, now_ns 0, no stamp is ahead."""
        wrong = validate_state(stamp_ns, frame, values, self.frame)
        # A single one ahead would take the time of the cycles with it.
        if wrong is None and not self._lockstep and 0 < now_ns < stamp_ns - MAX_AHEAD_NS:
            return Refused(f"stamped {1e-9 * (stamp_ns - now_ns):.3f} s ahead of the clock", STAMP)
        if wrong is None and self.order(stamp_ns) in (StampOrder.REPEATED, StampOrder.LATE):
            return self.too_late(stamp_ns)
        return wrong

    def interruption(self, stamp_ns: int, values: Mapping[str, float]) -> Interruption | None:
        """Returns why a state does not continue the motion of the last: the clock was set back or the pose jumped; None: it does."""
        if self.last is None:
            return None
        if self.order(stamp_ns) is StampOrder.SET_BACK:
            return Interruption("clock set back", clock_set_back(self.last[0], stamp_ns), lambda scan_ns: scan_ns <= stamp_ns)
        if pose_jumped(self.last, (stamp_ns, values)):
            return Interruption("put elsewhere", f"the vehicle was put at ({values['x']:.1f}, {values['y']:.1f}) m: starting anew",
                                lambda scan_ns: scan_ns >= stamp_ns)
        return None

    def admit(self, stamp_ns: int, frame: str, values: Mapping[str, float]) -> bool:
        """Makes a state the last one; returns True with the first that has a frame."""
        is_first, self.frame = not self.frame, self.frame or frame
        self.first_ns = stamp_ns if self.first_ns is None else self.first_ns
        self.last, self.last_ns = (stamp_ns, values), stamp_ns
        return is_first


def pose_jumped(before: Stamped, after: Stamped) -> bool:
    """Checks whether a vehicle was moved between two states (x, y [m], vx, vy [m/s]), further than it can have driven."""
    a, b = before[1], after[1]
    distance = math.hypot(b["x"] - a["x"], b["y"] - a["y"])
    speed = max(math.hypot(a["vx"], a["vy"]), math.hypot(b["vx"], b["vy"]))
    return distance > _MAX_JUMP + 2.0 * speed * 1e-9 * (after[0] - before[0])


def validate_state(stamp_ns: int, frame: str, values: Mapping[str, float], before: str) -> Refused | None:
    """Returns why a state cannot be used; None: it can.

    Args:
        before: the frame of the states before; empty: there were none.
    """
    if before and frame != before:
        return Refused(f"in frame '{frame}', the ones before in '{before}'", FRAME)
    wrong = refusal("stamp", 1e-9 * stamp_ns)
    if wrong is not None:
        return Refused(str(wrong), STAMP)
    try:
        require_all(values, REQUIRED)
    except Refused as error:
        return error
    return None


class LockstepBarrier(Generic[Answer]):
    """The answer to one state, held back until all that belongs to the state has come.

    Attributes:
        stamp_ns: of the state that waits [ns]; None: none does.
    """

    def __init__(self, missing: Callable[[int], Any]) -> None:
        """
        Creates a barrier with no state before it.

        Args:
            missing: returns something true while a state of a stamp [ns] must wait.
        """
        self._missing = missing
        self.forget()

    def forget(self) -> None:
        """Drops the state that waits."""
        self.stamp_ns: int | None = None
        self._answer: Callable[[], Answer] | None = None

    def offer(self, stamp_ns: int, answer: Callable[[], Answer]) -> Answer | None:
        """Returns the answer to a state, or None and lets it wait."""
        self.stamp_ns, self._answer = stamp_ns, answer
        return self.release()

    def release(self) -> Answer | None:
        """Returns the answer to the state that waits, if there is one and nothing is missing any more."""
        if self.stamp_ns is None or self._answer is None or self._missing(self.stamp_ns):
            return None
        answer = self._answer
        self.forget()
        return answer()
