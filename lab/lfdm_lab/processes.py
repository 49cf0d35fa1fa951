"""Memory, processor time and files of processes, by psutil; zero or empty for a process that has ended or is another user's."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import psutil

T = TypeVar("T")
_MB = 2.0**-20


def _read(pid: int, read: Callable[[psutil.Process], T], default: T) -> T:
    try:
        return read(psutil.Process(pid))
    except psutil.Error:
        return default


def descendants(root: int) -> list[int]:
    """Returns the ids of a process and of its descendants."""
    return _read(root, lambda process: sorted([root, *(child.pid for child in process.children(recursive=True))]), [])


def command(pid: int) -> list[str]:
    """Returns the command line of a process, by words."""
    return _read(pid, psutil.Process.cmdline, [])


def processor_time(pids: Iterable[int], ended: bool = True) -> float:
    """Returns the processor time of processes [s]; ended: including their ended children."""
    return sum(_read(pid, lambda process: sum(process.cpu_times()[:4 if ended else 2]), 0.0) for pid in pids)


def resident(pid: int) -> float:
    """Returns the resident memory [MB]."""
    return _read(pid, lambda process: _MB * process.memory_info().rss, 0.0)


def descriptors(pid: int) -> tuple[int, int]:
    """Returns the numbers of file descriptors, and of internet sockets among them."""
    return _read(pid, lambda process: (process.num_fds(), len(process.net_connections())), (0, 0))


def opened(pid: int, folder: Path) -> set[str]:
    """Returns the names of the files in a folder that a process has open."""
    return _in(folder, _read(pid, lambda process: [file.path for file in process.open_files()], []))


def mapped(pid: int, folder: Path) -> set[str]:
    """Returns the names of the files in a folder that a process has mapped."""
    return _in(folder, _read(pid, lambda process: [file.path for file in process.memory_maps()], []))


def _in(folder: Path, paths: Iterable[str]) -> set[str]:
    return {path.name for path in map(Path, paths) if path.parent == folder}
