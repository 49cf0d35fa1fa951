"""Checks of a stream of vehicle states (stamp order, frame, values, continuity), and the barrier of lockstep; without ROS."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from lfdm_ros.bounds import FRAME, STAMP, Refused, refusal, require_all

REQUIRED = ("x", "y", "yaw", "vx", "vy", "yaw_rate")  # values that each state must have
LATE_NS = 500_000_000  # maximum delay of a stamp behind the last one; beyond it the clock was set back
MAX_AHEAD_NS = 10_000_000_000  # maximum of a stamp ahead of the clock
_MAX_JUMP = 2.0  # [m] beyond the distance that the speed explains

Answer = TypeVar("Answer")
# A stamp [ns] and values by the names of the models' states.
Stamped = tuple[int, Mapping[str, float]]


class StampOrder(Enum):
    """Order of a stamp relative to the last one of its stream."""

    NEXT, REPEATED, LATE, SET_BACK = range(4)


class StampGate:
    """Gate for the order of the stamps of one stream.

    Attributes:
        last_ns: last admitted stamp [ns]; None: none.
    """

    def __init__(self, tolerance_ns: int = LATE_NS) -> None:
        """Creates an empty gate; tolerance_ns: maximum delay of a late stamp, beyond which the clock was set back [ns]."""
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
        """Describes a stamp not newer than the last."""
        return Refused(f"stamped {1e-9 * stamp_ns:.3f} s, the one before {1e-9 * (self.last_ns or 0):.3f} s", STAMP)


def clock_set_back(before_ns: int, after_ns: int) -> str:
    """Describes a clock that was set back."""
    return f"the clock went back from {1e-9 * before_ns:.3f} s to {1e-9 * after_ns:.3f} s: starting anew"


@dataclass(frozen=True)
class Interruption:
    """End of a continuous motion: kind; text for the log; keeps: checks whether a scan of a stamp [ns] belongs to the new motion."""

    kind: str
    text: str
    keeps: Callable[[int], bool]


class StateGate(StampGate):
    """Gate for one vehicle's states: in one frame, with increasing stamps and a continuous pose.

    Attributes:
        frame: of the states, kept by `forget`; empty: none yet.
        last: stamp [ns] and values of the last state; None: none.
        first_ns: stamp of the first state [ns]; None: none.
    """

    def __init__(self, lockstep: bool = False) -> None:
        """Creates a gate without a frame; lockstep: messages stay in order, so any older stamp means that the clock was set back."""
        super().__init__(0 if lockstep else LATE_NS)
        self._lockstep = lockstep
        self.frame = ""
        self.forget()

    def forget(self) -> None:
        """Forgets all states."""
        self.last: Stamped | None = None
        self.last_ns = None
        self.first_ns: int | None = None

    def repeats(self, stamp_ns: int) -> bool:
        """Checks for a repetition of the last state, in lockstep from a simulator that has not received the answer."""
        return self._lockstep and self.order(stamp_ns) is StampOrder.REPEATED

    def foreign(self, frame: str) -> Refused | None:
        """Returns an error for a task or plan in another frame than the states; None if equal, or either frame is empty."""
        if frame and self.frame and frame != self.frame:
            return Refused(f"in frame '{frame}', the states are in '{self.frame}'", FRAME)
        return None

    def validate(self, stamp_ns: int, frame: str, values: Mapping[str, float], now_ns: int = 0) -> Refused | None:
        """Returns the error of a state; None if valid. Without a clock, now_ns 0, stamps may be ahead."""
        wrong = validate_state(stamp_ns, frame, values, self.frame)
        # A single stamp ahead would shift the time of the cycles.
        if wrong is None and not self._lockstep and 0 < now_ns < stamp_ns - MAX_AHEAD_NS:
            return Refused(f"stamped {1e-9 * (stamp_ns - now_ns):.3f} s ahead of the clock", STAMP)
        if wrong is None and self.order(stamp_ns) in (StampOrder.REPEATED, StampOrder.LATE):
            return self.too_late(stamp_ns)
        return wrong

    def interruption(self, stamp_ns: int, values: Mapping[str, float]) -> Interruption | None:
        """Detects a state that does not continue the motion of the last: the clock was set back or the pose jumped."""
        if self.last is None:
            return None
        if self.order(stamp_ns) is StampOrder.SET_BACK:
            return Interruption("clock set back", clock_set_back(self.last[0], stamp_ns), lambda scan_ns: scan_ns <= stamp_ns)
        if pose_jumped(self.last, (stamp_ns, values)):
            return Interruption("put elsewhere", f"the vehicle was put at ({values['x']:.1f}, {values['y']:.1f}) m: starting anew",
                                lambda scan_ns: scan_ns >= stamp_ns)
        return None

    def admit(self, stamp_ns: int, frame: str, values: Mapping[str, float]) -> bool:
        """Stores a state as the last one; returns True if it sets the frame."""
        is_first, self.frame = not self.frame, self.frame or frame
        self.first_ns = stamp_ns if self.first_ns is None else self.first_ns
        self.last, self.last_ns = (stamp_ns, values), stamp_ns
        return is_first


def pose_jumped(before: Stamped, after: Stamped) -> bool:
    """Checks for a displacement between two states (x, y [m], vx, vy [m/s]) that the speeds do not explain."""
    a, b = before[1], after[1]
    distance = math.hypot(b["x"] - a["x"], b["y"] - a["y"])
    speed = max(math.hypot(a["vx"], a["vy"]), math.hypot(b["vx"], b["vy"]))
    return distance > _MAX_JUMP + 2.0 * speed * 1e-9 * (after[0] - before[0])


def validate_state(stamp_ns: int, frame: str, values: Mapping[str, float], before: str) -> Refused | None:
    """Returns the error of a state; None if valid. before: frame of the previous states; empty: none."""
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
    """Barrier that delays the answer to a state until all of its inputs have arrived.

    Attributes:
        stamp_ns: of the waiting state [ns]; None: none.
    """

    def __init__(self, missing: Callable[[int], Any]) -> None:
        """Creates an empty barrier; missing: returns a true value while a state of a stamp [ns] must wait."""
        self._missing = missing
        self.forget()

    def forget(self) -> None:
        """Drops the waiting state."""
        self.stamp_ns: int | None = None
        self._answer: Callable[[], Answer] | None = None

    def offer(self, stamp_ns: int, answer: Callable[[], Answer]) -> Answer | None:
        """Returns the answer to a state, or None while it must wait."""
        self.stamp_ns, self._answer = stamp_ns, answer
        return self.release()

    def release(self) -> Answer | None:
        """Returns the answer to the waiting state, if any, once its inputs are complete."""
        if self.stamp_ns is None or self._answer is None or self._missing(self.stamp_ns):
            return None
        answer = self._answer
        self.forget()
        return answer()
