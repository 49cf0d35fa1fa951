"""Deadlines of a loop on the steady clock, their accuracy, and real-time requests to the operating system.

Priority, locked memory, core affinity, timer slack and a paused garbage collector are applied where permitted; `granted` reports each.
Histograms are allocated before the first tick.
"""

import ctypes
import gc
import math
import os
import resource
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from lfdm_ros.errors import InputError

SKIP, CATCH_UP, STOP = "skip", "catch_up", "stop"
POLICIES = {
    SKIP: "missed deadlines are skipped: simulated time falls behind by them",
    CATCH_UP: "ticks follow without pause until deadlines are met again",
    STOP: "the run ends as failed",
}
# Bins of the histograms: eight per decade from 1 us to 10 s.
_PER_DECADE, _FIRST, _BINS = 8, 1e-6, 57
EDGES = np.concatenate([[0.0], _FIRST * 10.0 ** (np.arange(_BINS - 1) / _PER_DECADE)])
_SCALE = _PER_DECADE / math.log(10.0)


class Histogram:
    """Counts of durations in the bins between EDGES, and the newest durations."""

    def __init__(self, capacity: int = 1 << 17) -> None:
        """Allocates the histogram; capacity: number of individually stored durations; a power of two."""
        self.counts = np.zeros(_BINS, np.int64)
        self._durations, self._mask = np.zeros(capacity), capacity - 1
        self.number, self.largest = 0, 0.0

    def add(self, seconds: float) -> None:
        """Adds a duration; below 0 counts as 0."""
        place = 1 + int(math.log(seconds / _FIRST) * _SCALE) if seconds >= _FIRST else 0
        self.counts[place if place < _BINS else _BINS - 1] += 1
        self._durations[self.number & self._mask] = seconds
        self.number += 1
        if seconds > self.largest:
            self.largest = seconds

    @property
    def values(self) -> np.ndarray:
        """Returns the stored durations, unordered."""
        return self._durations[:min(self.number, len(self._durations))].copy()

    def quantile(self, share: float) -> float:
        """Returns a quantile of the stored durations; NaN without any."""
        values = self.values
        return float(np.quantile(values, share)) if len(values) else math.nan


def quantile_of(counts: np.ndarray, share: float) -> float:
    """Returns a quantile of a histogram's counts: the upper edge [s] of its bin; NaN without counts."""
    if not counts.sum():
        return math.nan
    place = int(np.searchsorted(np.cumsum(counts), share * counts.sum() - 1e-9))
    return float(EDGES[min(place + 1, len(EDGES) - 1)])


class Timing:
    """Periodic deadlines and statistics of their ticks."""

    def __init__(self, period: float, policy: str = SKIP) -> None:
        """Makes the schedule. period: [s]. policy: one of POLICIES; a deadline is missed if its tick begins after the next deadline."""
        self.period, self.policy = period, policy
        self.periods, self.lateness, self.work, self.responses = (Histogram() for _ in range(4))
        self.ticks = self.misses = self.skipped = 0
        self._began = math.nan
        self.restart()

    def restart(self) -> None:
        """Makes the next tick due now."""
        self.deadline = time.monotonic()
        self._began = math.nan

    def begin(self) -> bool:
        """Begins a tick and sets the next deadline; returns False after a miss with policy stop."""
        now = time.monotonic()
        late = now - self.deadline
        if self._began == self._began:
            self.periods.add(now - self._began)
        self._began = now
        self.lateness.add(late)
        self.ticks += 1
        self.deadline += self.period
        if late > self.period:
            self.misses += 1
            if self.policy == STOP:
                return False
            if self.policy == SKIP:
                skipped = int(late / self.period)
                self.skipped += skipped
                self.deadline += skipped * self.period
        return True

    def begin_at_once(self) -> None:
        """Begins a tick without a deadline."""
        self.deadline = time.monotonic()
        self.begin()

    def end(self) -> None:
        self.work.add(time.monotonic() - self._began)

    def wait(self) -> None:
        """Waits until the deadline."""
        remaining = self.deadline - time.monotonic()
        if remaining > 0.0:
            time.sleep(remaining)


_PR_SET_TIMERSLACK = 29
_TIMER_SLACK = 1000  # [ns]; the kernel's default is 50 us
_MCL_CURRENT, _MCL_FUTURE = 1, 2
_SWITCH_INTERVAL = 2e-4  # [s] in place of 5 ms after which other threads release the interpreter


@dataclass(frozen=True)
class RealTimeRequest:
    """Requests to the operating system. priority: of SCHED_FIFO, 1 to 99; 0: normal scheduling. lock_memory: no page of the process is
    swapped. cores: affinity of the loop; empty: any."""

    priority: int = 0
    lock_memory: bool = False
    cores: tuple[int, ...] = ()


def parse_cores(texts: Sequence[str]) -> tuple[int, ...]:
    """Parses core numbers from a parameter. Raises InputError: one is not available to this process."""
    available = os.sched_getaffinity(0)
    cores = []
    for text in texts:
        if not text.isdigit() or int(text) not in available:
            raise InputError(f"cores: '{text}' is no core that this process may use; it may use {', '.join(map(str, sorted(available)))}")
        cores.append(int(text))
    return tuple(cores)


@contextmanager
def granted(request: RealTimeRequest) -> Iterator[list[str]]:
    """Applies the permitted requests to the calling thread, which must end with the block; yields a line for each request."""
    outcomes: list[str] = []
    libc = ctypes.CDLL(None, use_errno=True)
    locked = False
    interval = sys.getswitchinterval()
    if request.cores:
        _try(outcomes, f"cores {', '.join(map(str, request.cores))}", "", lambda: os.sched_setaffinity(0, request.cores))
    if request.priority:
        _try(outcomes, f"SCHED_FIFO {request.priority}", "give CAP_SYS_NICE, or rtprio in /etc/security/limits.conf",
             lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(request.priority)))
    if request.lock_memory:
        locked = _try(outcomes, "memory locked", "give CAP_IPC_LOCK, or memlock in /etc/security/limits.conf", lambda: _lock_memory(libc))
    if libc.prctl(_PR_SET_TIMERSLACK, _TIMER_SLACK, 0, 0, 0) == 0:
        outcomes.append("timer slack 1 us")
    sys.setswitchinterval(_SWITCH_INTERVAL)
    try:
        with no_collector():
            yield outcomes
    finally:
        sys.setswitchinterval(interval)
        if locked:
            libc.munlockall()


def _try(outcomes: list[str], item: str, hint: str, step: object) -> bool:
    try:
        step()  # type: ignore[operator]
    except OSError as error:
        outcomes.append(f"no {item}: {error.strerror or error}" + (f" ({hint})" if hint else ""))
        return False
    outcomes.append(item)
    return True


def _lock_memory(libc: ctypes.CDLL) -> None:
    # Future pages are locked only without a limit: beyond it allocations fail.
    unlimited = os.geteuid() == 0 or resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY
    if libc.mlockall(_MCL_CURRENT | (_MCL_FUTURE if unlimited else 0)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


_collector = threading.Lock()
_holders = 0


@contextmanager
def no_collector() -> Iterator[None]:
    """Disables automatic garbage collection and freezes existing objects; call `tidy` from threads with spare time."""
    global _holders
    with _collector:
        _holders += 1
        if _holders == 1:
            gc.collect()
            gc.freeze()
            gc.disable()
    try:
        yield
    finally:
        with _collector:
            _holders -= 1
            if not _holders:
                gc.unfreeze()
                gc.enable()


def tidy() -> None:
    """Collects recent garbage while `no_collector` is active; call it occasionally from a thread without deadlines."""
    if _holders:
        gc.collect(1)
