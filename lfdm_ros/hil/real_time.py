"""Requests of a loop to the operating system: priority, locked memory, cores of its own, short timers, and no garbage collector inside it.

Each is used where it is permitted, and said where it is not: `Granted.text`.
"""

import ctypes
import gc
import os
import resource
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lfdm_ros.errors import InputError

_PR_SET_TIMERSLACK = 29
_TIMER_SLACK = 1000  # [ns]; the kernel's own is 50 us
_MCL_CURRENT, _MCL_FUTURE = 1, 2
# Another thread that computes gives the interpreter up after this time [s] instead of after 5 ms.
_SWITCH_INTERVAL = 2e-4


@dataclass(frozen=True)
class RealTimeRequest:
    """priority: of SCHED_FIFO, 1 to 99; 0: that of everybody. lock_memory: no page of the process goes to disk. cores: that the loop runs
    on; none: any."""

    priority: int = 0
    lock_memory: bool = False
    cores: tuple[int, ...] = ()


def parse_cores(texts: Sequence[str]) -> tuple[int, ...]:
    """Parses numbers of cores from a parameter. Raises InputError: one is no core of this machine."""
    here = os.sched_getaffinity(0)
    found = []
    for text in texts:
        if not text.isdigit() or int(text) not in here:
            raise InputError(f"cores: '{text}' is no core that this process may use; it may use {', '.join(map(str, sorted(here)))}")
        found.append(int(text))
    return tuple(found)


@contextmanager
def granted(wanted: RealTimeRequest) -> Iterator[list[str]]:
    """Gives the calling thread, which ends with the block, what of this is permitted; yields what became of each."""
    outcomes: list[str] = []
    libc = ctypes.CDLL(None, use_errno=True)
    locked = False
    interval = sys.getswitchinterval()
    if wanted.cores:
        _try(outcomes, f"cores {', '.join(map(str, wanted.cores))}", "", lambda: os.sched_setaffinity(0, wanted.cores))
    if wanted.priority:
        _try(outcomes, f"SCHED_FIFO {wanted.priority}", "give CAP_SYS_NICE, or rtprio in /etc/security/limits.conf",
             lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(wanted.priority)))
    if wanted.lock_memory:
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


def _try(outcomes: list[str], what: str, hint: str, step: object) -> bool:
    try:
        step()  # type: ignore[operator]
    except OSError as error:
        outcomes.append(f"no {what}: {error.strerror or error}" + (f" ({hint})" if hint else ""))
        return False
    outcomes.append(what)
    return True


def _lock_memory(libc: ctypes.CDLL) -> None:
    # What comes later is locked too where there is no limit that it could hit: an allocation that cannot be locked fails.
    unlimited = os.geteuid() == 0 or resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY
    if libc.mlockall(_MCL_CURRENT | (_MCL_FUTURE if unlimited else 0)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


_collector = threading.Lock()
_holders = 0


@contextmanager
def no_collector() -> Iterator[None]:
    """Keeps the garbage collector from running by itself, and what there is now out of its sight. Whoever is at leisure calls `tidy`."""
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
    """Collects what became garbage lately; to be called now and then by a thread that has time, while `no_collector` holds."""
    if _holders:
        gc.collect(1)
