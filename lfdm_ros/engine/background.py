"""Launcher that replaces itself by a program with limited cores and priority, which does not outlive its parent.

    python background.py PARENT CORES PRIORITY COMMAND...

Run by path, with the standard library alone: between fork and exec of a process with threads, such as a node, no Python code may run
safely, and importing the package would cost a second.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from typing import NamedTuple

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


LOWEST, NORMAL = "lowest", "normal"


class Share(NamedTuple):
    """Resources of a child: processor cores, 0: all that this process may use, but one; LOWEST or NORMAL priority."""

    cores: int = 0
    priority: str = LOWEST

    def command(self, program: Sequence[str]) -> list[str]:
        """Returns the command that runs `program` within the share, for a thread of this process that lives as long as the child."""
        return [sys.executable, "-S", os.path.abspath(__file__), str(os.getpid()), str(self.cores), self.priority, *program]


def core_set(allowed: set[int], cores: int) -> set[int]:
    """Returns the last `cores` of those allowed, 0: all but one; at least one and never more than there are."""
    count = min(len(allowed), max(1, cores or len(allowed) - 1))
    return set(sorted(allowed)[-count:])


def keep_to(cores: int) -> None:
    """Limits this process and its children to a number of cores, as `core_set`."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, core_set(os.sched_getaffinity(0), cores))


def yield_to_others() -> None:
    """Gives this process and its children the lowest priority."""
    os.nice(19)
    for policy in ("SCHED_IDLE", "SCHED_BATCH"):  # SCHED_IDLE: any other process gets a core at once
        try:
            os.sched_setscheduler(0, getattr(os, policy), os.sched_param(0))
            break
        except (AttributeError, OSError):
            continue


def die_with(parent: int) -> None:
    """Makes the kernel kill this process when its parent ends, by SIGKILL, as a stopped process receives no other signal."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    except (AttributeError, OSError):  # not Linux
        return
    if os.getppid() != parent:  # it has ended before
        sys.exit(1)


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    keep_to(int(sys.argv[2]))
    if sys.argv[3] == LOWEST:
        yield_to_others()
    # A background program of a shell script ignores SIGINT and would pass that on to the child, which is ended by SIGINT.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execvp(sys.argv[4], sys.argv[4:])
