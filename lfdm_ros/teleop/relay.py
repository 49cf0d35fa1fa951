"""Relay over a link: states, scans and images up, commands down, free running or in lockstep. Independent of ROS.

Free running, items are delivered when due. In lockstep simulated time stops until the vehicle's state is answered: the relay forwards the
pictures that have arrived up to that state, one at a time, each after the operator's answer to the previous one, and then answers the state
with the newest command that has arrived, stamped as the state; before the first command it is neutral. If a state is published again, the
pending picture is repeated, never an older one, which would look like a clock set back. Delays are in simulated time in both modes;
lockstep runs are identical to the bit.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lfdm_ros.bounds import STAMP, Refusals, refusal
from lfdm_ros.errors import InputError
from lfdm_ros.sensors import ScanSchedule
from lfdm_ros.sensors.state_gate import LockstepBarrier, StampGate, StampOrder, clock_set_back
from lfdm_ros.teleop.network_link import LinkStatistics, NetworkLink, NetworkLinkSettings

STATE, SCAN, IMAGE, COMMAND = "state", "scan", "image", "command"
DIRECTIONS = ("up", "down")
NEUTRAL = (0.0, 0.0, 0.0)  # steering, throttle, brake before the first command
_MAX_SCANS = 4  # queued for the next state


@dataclass(frozen=True)
class Out:
    """Message to publish: kind; message, None: a neutral command; stamp_ns: None: the message's own; age: of a command at that stamp [s],
    NaN: none yet."""

    kind: str
    message: Any
    stamp_ns: int | None = None
    age: float = 0.0


@dataclass(frozen=True)
class _Picture:
    """A state with the scans and the image sent with it."""

    stamp_ns: int
    state: Any
    scans: tuple[Any, ...]
    image: Any


class Relay:
    """Both directions. Scans and the newest image are sent with the next state that is not lost, so that a picture arrives whole."""

    def __init__(self, up: NetworkLinkSettings, down: NetworkLinkSettings, seed: int = 1, *, lockstep: bool = False,
                 lidar_rate: float = 0.0, lidar_latency: float = 0.0, report: Callable[[str], None] = lambda text: None,
                 refused: Callable[[str], None] = lambda text: None) -> None:
        """Makes both links.

        Args:
            lidar_rate, lidar_latency: in lockstep, scans a second [Hz], and from a scan's stamp to its arrival [s]: a state waits for the
                scan that is due; rate 0: scans are optional.
            report, refused: callbacks for notices to a person and for rejected input, one line each.

        Raises:
            InputError: a negative seed, or a link that overtakes in lockstep.
        """
        if lockstep and (up.overtaking or down.overtaking):
            raise InputError("link: overtaking is on, which lockstep cannot have; set it to false, or stepping to free_running")
        seeds = np.random.SeedSequence(seed).generate_state(2).tolist() if seed >= 0 else [seed, seed]
        self.up: NetworkLink[_Picture] = NetworkLink(up, seeds[0])
        self.down: NetworkLink[tuple[int, Any]] = NetworkLink(down, seeds[1])  # stamp, command
        self.links: dict[str, NetworkLink[Any]] = dict(zip(DIRECTIONS, (self.up, self.down)))
        self.lockstep = lockstep
        self._schedule = ScanSchedule(lidar_rate, lidar_latency)
        self._states, self._clock = StampGate(0), StampGate()  # lockstep: of the states; free running: the node's clock
        self._barrier: LockstepBarrier[list[Out]] = LockstepBarrier(self._scan_due)
        self._report = report
        self.refusals = Refusals(refused, (STATE, SCAN, IMAGE, COMMAND))
        self.resets = 0
        self._clear()

    def _clear(self) -> None:
        self.up.reset()
        self.down.reset()
        self._scans: list[tuple[int, Any]] = []
        self._image: Any = None
        self._states.last_ns = self._clock.last_ns = None
        self._barrier.forget()
        self._origin_ns: int | None = None  # of the links' times, since float64 seconds of a wall clock are too coarse
        self._first_ns: int | None = None  # of the states
        self._newest_scan_ns: int | None = None
        # Lockstep: the state to be answered, and the arrived pictures without an answer.
        self._state: tuple[int, Any] | None = None
        self._gave_up = False  # on the scan that is due
        self._unanswered: dict[int, list[Out]] = {}
        self._command: tuple[int, Any] | None = None
        self._answer: Out | None = None

    def reset(self) -> None:
        """Empties both links for another run."""
        self._clear()
        self.resets += 1

    def state(self, stamp_ns: int, state: Any, now_ns: int) -> list[Out]:
        """Processes the vehicle's state; returns the messages to publish. state: None: invalid; not sent up, but answered in lockstep.
        now_ns: on the node's clock; unused in lockstep."""
        if self._is_wrong(STATE, stamp_ns):
            return []
        if not self.lockstep:
            self._check_clock(now_ns)
            self._send_up(stamp_ns, state, now_ns)
            return self.poll(now_ns)
        order = self._states.order(stamp_ns)
        if order is StampOrder.REPEATED:  # by a simulator that has not received the answer
            return self._next() if self._unanswered else [self._answer] if self._answer is not None else []
        if order is StampOrder.SET_BACK:
            self._report(clock_set_back(self.time_ns, stamp_ns))
            scans = [item for item in self._scans if item[0] <= stamp_ns]
            self.reset()
            self._scans, self._newest_scan_ns = scans, scans[-1][0] if scans else None
        self._first_ns = stamp_ns if self._first_ns is None else self._first_ns
        self._state, self._answer, self._states.last_ns = (stamp_ns, state), None, stamp_ns
        return self._barrier.offer(stamp_ns, self._tick) or []

    def scan(self, stamp_ns: int, scan: Any) -> list[Out]:
        """Queues a scan for the next state."""
        if self._is_wrong(SCAN, stamp_ns):
            return []
        if self._newest_scan_ns is not None and stamp_ns <= self._newest_scan_ns:
            return []  # published again
        self._newest_scan_ns, self._gave_up = stamp_ns, False
        self._scans = [*self._scans, (stamp_ns, scan)][-_MAX_SCANS:]
        return self._barrier.release() or []

    def image(self, stamp_ns: int, image: Any) -> None:
        """Stores a camera image for the next state; no state waits for one."""
        if not self._is_wrong(IMAGE, stamp_ns):
            self._image = image

    def _is_wrong(self, kind: str, stamp_ns: int) -> bool:
        """Checks that a stamp is impossible, and refuses it."""
        if (wrong := refusal("stamp", 1e-9 * stamp_ns)) is not None:
            self.refusals.refuse(kind, str(wrong), STAMP)
        return wrong is not None

    def command(self, stamp_ns: int, command: Any, now_ns: int) -> list[Out]:
        """Sends the operator's command down; None: an invalid one, which is an answer but not sent."""
        if not self.lockstep:
            self._check_clock(now_ns)
            if command is not None:
                self.down.send(self._time(now_ns), (stamp_ns, command))
            return self.poll(now_ns)
        if self._state is None or stamp_ns != next(iter(self._unanswered), None):
            self.refusals.refuse(COMMAND, f"stamped {1e-9 * stamp_ns:.3f} s, no state of that stamp waits for its answer", STAMP)
            return []
        del self._unanswered[stamp_ns]
        if command is not None:
            self.down.send(self._time(self._state[0]), (self._state[0], command))
        return [] if self.waits_for_scan else self._next()

    def poll(self, now_ns: int) -> list[Out]:
        """Returns, free running, the items due from both links."""
        if self.lockstep or now_ns <= 0:  # simulated time has not begun
            return []
        self._check_clock(now_ns)
        now = self._time(now_ns)
        return [*(out for arrival in self.up.receive(now) for out in _unpacked(arrival.item)),
                *(Out(COMMAND, arrival.item[1]) for arrival in self.down.receive(now))]

    @property
    def waits_for(self) -> str:
        """Missing inputs of the state to be answered; empty: none."""
        if self.waits_for_scan:
            return "the scan that is due"
        return f"the operator's answer to the picture of {1e-9 * next(iter(self._unanswered)):.3f} s" if self._unanswered else ""

    @property
    def waits_for_scan(self) -> bool:
        return self._barrier.stamp_ns is not None

    def give_up_on_scan(self) -> list[Out]:
        """Continues without an overdue scan, and waits for none until one comes."""
        if not self.waits_for_scan:
            return []
        self._report("a scan that is due has not come; going on without")
        self._gave_up = True
        return self._barrier.release() or []

    def _tick(self) -> list[Out]:
        assert self._state is not None
        now_ns, state = self._state
        self._send_up(now_ns, state, now_ns)
        for arrival in self.up.receive(self._time(now_ns)):
            self._unanswered[arrival.item.stamp_ns] = _unpacked(arrival.item)
        return self._next()

    def _next(self) -> list[Out]:
        """Returns the first picture without the operator's answer, or else the answer to the state."""
        return next(iter(self._unanswered.values()), None) or [self._answered()]

    def _answered(self) -> Out:
        """Returns the newest command received by the time of the state, as its answer."""
        assert self._state is not None
        for arrival in self.down.receive(self._time(self._state[0])):
            self._command = arrival.item
        now_ns, (issued_ns, command) = self._state[0], self._command or (0, None)
        self._answer = Out(COMMAND, command, now_ns, math.nan if self._command is None else 1e-9 * (now_ns - issued_ns))
        return self._answer

    def _scan_due(self, now_ns: int) -> bool:
        return self.lockstep and not self._gave_up and self._schedule.due(now_ns, self._first_ns, self._newest_scan_ns)

    def _send_up(self, stamp_ns: int, state: Any, now_ns: int) -> None:
        now = self._time(now_ns)
        picture = _Picture(stamp_ns, state, tuple(scan for _, scan in self._scans), self._image)
        if state is not None and self.up.send(now, picture):
            self._scans, self._image = [], None

    def _time(self, now_ns: int) -> float:
        """Returns the links' time [s], monotonic despite small differences between threads and clocks."""
        latest_ns = self._clock.last_ns = now_ns if self._clock.last_ns is None else max(now_ns, self._clock.last_ns)
        self._origin_ns = now_ns if self._origin_ns is None else self._origin_ns
        return 1e-9 * (latest_ns - self._origin_ns)

    def _check_clock(self, now_ns: int) -> None:
        if self._clock.last_ns is not None and self._clock.order(now_ns) is StampOrder.SET_BACK:
            self._report(clock_set_back(self._clock.last_ns, now_ns))
            self.reset()

    def statistics(self, now_ns: int) -> tuple[LinkStatistics, LinkStatistics]:
        """Returns the statistics of both directions, up and down; in lockstep at the time of the last state."""
        now_ns = self._state[0] if self.lockstep and self._state is not None else now_ns
        now = 0.0 if self._origin_ns is None else 1e-9 * (now_ns - self._origin_ns)
        return self.up.statistics(now), self.down.statistics(now)

    @property
    def time_ns(self) -> int:
        """Lockstep: stamp of the last state."""
        return 0 if self._state is None else self._state[0]


def _unpacked(picture: _Picture) -> list[Out]:
    image = [] if picture.image is None else [Out(IMAGE, picture.image)]
    return [*(Out(SCAN, scan) for scan in picture.scans), *image, Out(STATE, picture.state)]
