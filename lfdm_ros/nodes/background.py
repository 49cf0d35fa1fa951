"""Becomes another program, one that yields to everything else on the machine and does not outlive who started it.

    python background.py PARENT CORES COMMAND...

A file of its own that only the standard library is needed for, run by path: between fork and exec of a process with threads, as a
node is, no Python code may run safely, and importing the package would cost a second.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def command(program: Sequence[str], cores: int = 0) -> list[str]:
    """What to run instead of `program`, by a thread of this process that lives as long as the child.

    Args:
        cores: processor cores that it may use; 0: all that this process may, but one.
    """
    return [sys.executable, "-S", os.path.abspath(__file__), str(os.getpid()), str(cores), *program]


def core_set(allowed: set[int], cores: int) -> set[int]:
    """The last `cores` of those allowed, 0: all but one; at least one and never more than there are."""
    count = min(len(allowed), max(1, cores or len(allowed) - 1))
    return set(sorted(allowed)[-count:])


def yield_to_others(cores: int) -> None:
    """Gives this process the least priority there is, and few cores; a thread made later inherits both."""
    os.nice(19)
    for policy in ("SCHED_IDLE", "SCHED_BATCH"):  # SCHED_IDLE: whoever else wants a core gets it at once
        try:
            os.sched_setscheduler(0, getattr(os, policy), os.sched_param(0))
            break
        except (AttributeError, OSError):
            continue
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, core_set(os.sched_getaffinity(0), cores))


def die_with(parent: int) -> None:
    """Has the kernel kill this process when its parent ends, however that ends; SIGKILL, for a stopped process hears no other."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    except (AttributeError, OSError):  # not Linux
        return
    if os.getppid() != parent:  # it was quicker
        sys.exit(1)


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    yield_to_others(int(sys.argv[2]))
    os.execvp(sys.argv[3], sys.argv[3:])
