"""Becomes another program, one that yields to everything else on the machine and does not outlive who started it.

    python background.py PARENT CORES PRIORITY COMMAND...

A file of its own that only the standard library is needed for, run by path: between fork and exec of a process with threads, as a
node is, no Python code may run safely, and importing the package would cost a second.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from typing import NamedTuple

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


LOWEST, NORMAL = "lowest", "normal"


class Share(NamedTuple):
    """What a child may have of the machine: processor cores, 0: all that this process may, but one; LOWEST or NORMAL priority."""

    cores: int = 0
    priority: str = LOWEST

    def command(self, program: Sequence[str]) -> list[str]:
        """What to run instead of `program`, by a thread of this process that lives as long as the child."""
        return [sys.executable, "-S", os.path.abspath(__file__), str(os.getpid()), str(self.cores), self.priority, *program]


def core_set(allowed: set[int], cores: int) -> set[int]:
    """The last `cores` of those allowed, 0: all but one; at least one and never more than there are."""
    count = min(len(allowed), max(1, cores or len(allowed) - 1))
    return set(sorted(allowed)[-count:])


def keep_to(cores: int) -> None:
    """Limits this process to some cores; what it starts inherits that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, core_set(os.sched_getaffinity(0), cores))


def yield_to_others() -> None:
    """Gives this process the least priority there is; what it starts inherits that."""
    os.nice(19)
    for policy in ("SCHED_IDLE", "SCHED_BATCH"):  # SCHED_IDLE: whoever else wants a core gets it at once
        try:
            os.sched_setscheduler(0, getattr(os, policy), os.sched_param(0))
            break
        except (AttributeError, OSError):
            continue


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
    keep_to(int(sys.argv[2]))
    if sys.argv[3] == LOWEST:
        yield_to_others()
    # A program in the background of a shell script has SIGINT ignored, and so would the child have, which is ended by it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execvp(sys.argv[4], sys.argv[4:])
