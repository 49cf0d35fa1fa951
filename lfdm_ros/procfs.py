"""Processes as Linux tells of them: who descends from whom, what they have used, what they hold. Who has ended has nothing."""

from __future__ import annotations

import os
import re
import select
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_TICK = 1.0 / os.sysconf("SC_CLK_TCK")  # [s] of the counts in /proc/PID/stat
_NS = 1e-9
_MB = 1.0 / 1024.0  # per kB


def all_processes() -> list[int]:
    """All that there are."""
    return [int(folder.name) for folder in _PROC.glob("[0-9]*")]


def descendants(root: int) -> list[int]:
    """A process and all that it and its children have started."""
    parents: dict[int, int] = {}
    for pid in all_processes():
        if fields := _fields(pid):
            parents[pid] = int(fields[1])
    found, new = {root} & parents.keys(), {root}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - found
        found |= new
    return sorted(found)


def command(pid: int) -> list[str]:
    """The words that it was started with."""
    return _text(_PROC / str(pid) / "cmdline").split("\0")[:-1]


def processor_time(pids: Iterable[int], ended: bool = True) -> float:
    """That processes have used [s]; ended: with those of their children that have ended."""
    return sum(_TICK * sum(map(int, fields[11:15 if ended else 13])) for pid in pids if (fields := _fields(pid)))


def scheduled(pids: Iterable[int]) -> dict[int, tuple[float, float, bool]]:
    """Of each thread, by its number: how long [s] it has run, and has waited for a processor, which both only grow; and whether it could
    run now. A wait is counted when it is over."""
    found = {}
    for pid in pids:
        for task in (_PROC / str(pid) / "task").glob("[0-9]*"):
            could_run = _text(task / "stat").rpartition(")")[2].split()[:1] == ["R"]
            numbers = _text(task / "schedstat").split()  # time on a processor, time waited for one, how often
            if len(numbers) == 3:
                found[int(task.name)] = (_NS * int(numbers[0]), _NS * int(numbers[1]), could_run)
    return found


def resident(pid: int) -> float:
    """Memory that is resident [MB]."""
    found = re.search(r"^VmRSS:\s+(\d+) kB", _text(_PROC / str(pid) / "status"), re.MULTILINE)
    return _MB * int(found[1]) if found else 0.0


def opened(pid: int, folder: Path) -> set[str]:
    """The names of the files in a folder that it has open."""
    found = set()
    for link in (_PROC / str(pid) / "fd").glob("*"):
        with suppress(OSError):  # it has just been closed, or is another user's
            path = link.readlink()
            if path.parent == folder:
                found.add(path.name)
    return found


def mapped(pid: int, folder: Path) -> set[str]:
    """The names of the files in a folder that it has mapped."""
    return set(re.findall(rf"{re.escape(str(folder))}/(\S+)", _text(_PROC / str(pid) / "maps")))


def is_stopped(pid: int) -> bool:
    """Whether a signal (SIGSTOP) has stopped it: SIGINT and SIGTERM wait then until it is continued."""
    return _fields(pid)[:1] == ["T"]


def wait_for_end(pid: int) -> None:
    """Waits until a process, anybody's, has ended.

    Raises:
        ProcessLookupError: there is none.
    """
    process = os.pidfd_open(pid)
    try:
        select.select([process], [], [])
    finally:
        os.close(process)


def _fields(pid: int) -> list[str]:
    """Of /proc/PID/stat, what stands behind the name: state, parent, ..."""
    return _text(_PROC / str(pid) / "stat").rpartition(")")[2].split()


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:  # it has just ended
        return ""
