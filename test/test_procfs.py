"""What /proc tells of processes is what they have done."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lfdm_ros import procfs

GONE = 2**22 + 1  # beyond the largest number of a process


def test_who_has_ended_has_nothing() -> None:
    assert procfs.descendants(GONE) == [] and procfs.command(GONE) == [] and procfs.scheduled([GONE]) == {}
    assert (procfs.processor_time([GONE]), procfs.resident(GONE), procfs.mapped(GONE, Path("/"))) == (0.0, 0.0, set())
    assert procfs.opened(GONE, Path("/")) == set()


def test_descendants_of_two_generations() -> None:
    inner = "import sys; print(__import__('os').getpid(), flush=True); sys.stdin.read()"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    with subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        assert {child.pid, grandchild} <= set(procfs.descendants(os.getpid()))
        assert procfs.descendants(child.pid) == sorted((child.pid, grandchild))
        assert procfs.command(child.pid) == [sys.executable, "-c", outer]
        child.communicate("")


def test_memory_and_processor_time_are_those_that_the_kernel_counts(tmp_path: Path) -> None:
    before = procfs.resident(os.getpid())
    block = mmap.mmap(-1, 64 << 20)  # not from what an allocator has left
    block.write(os.urandom(1 << 20) * 64)
    assert procfs.resident(os.getpid()) - before == pytest.approx(64.0, abs=8.0)
    block.close()
    before = procfs.processor_time([os.getpid()])
    began = time.process_time()
    while time.process_time() - began < 0.3:
        pass
    assert procfs.processor_time([os.getpid()]) - before == pytest.approx(time.process_time() - began, abs=0.05)
    file = tmp_path / "a segment"
    file.write_bytes(bytes(4096))
    with file.open("r+b") as opened:
        with mmap.mmap(opened.fileno(), 4096):
            assert "a" in procfs.mapped(os.getpid(), tmp_path) and "a" not in procfs.mapped(os.getpid(), tmp_path / "other")
        assert "a segment" in procfs.opened(os.getpid(), tmp_path) and not procfs.opened(os.getpid(), tmp_path / "other")
    assert not procfs.opened(os.getpid(), tmp_path)


def test_children_that_have_ended_count_where_they_are_asked_for() -> None:
    own, all_ = (procfs.processor_time([os.getpid()], ended) for ended in (False, True))
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass"], check=True)
    assert procfs.processor_time([os.getpid()], ended=False) - own < 0.3
    assert procfs.processor_time([os.getpid()]) - all_ > 0.4


def test_who_shares_a_core_waits_for_it() -> None:
    core = min(os.sched_getaffinity(0))
    spin = f"import os; os.sched_setaffinity(0, [{core}]); print(flush=True)\nwhile True: pass"
    children = [subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        while min(procfs.processor_time([child.pid]) for child in children) < 0.5:
            time.sleep(0.05)
        # Each has waited while the other ran.
        for child in children:
            ran, waited, could_run = procfs.scheduled([child.pid])[child.pid]
            assert ran > 0.3 and waited > 0.2 and could_run
    finally:
        for child in children:
            child.kill()
            child.communicate()
