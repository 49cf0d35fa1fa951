"""Use of memory, processor and files by processes, against what they have done."""

import mmap
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lfdm_lab import processes

GONE = 2**22 + 1  # beyond the largest number of a process


def test_processes_that_have_ended_use_nothing() -> None:
    assert processes.descendants(GONE) == [] and processes.command(GONE) == [] and processes.scheduled([GONE]) == {}
    assert (processes.processor_time([GONE]), processes.resident(GONE), processes.mapped(GONE, Path("/"))) == (0.0, 0.0, set())
    assert processes.opened(GONE, Path("/")) == set() and processes.descriptors(GONE) == (0, 0)


def test_files_and_sockets_are_counted() -> None:
    files, sockets = processes.descriptors(os.getpid())
    with socket.socket() as one:
        one.listen()
        assert processes.descriptors(os.getpid()) == (files + 1, sockets + 1)
    assert processes.descriptors(os.getpid()) == (files, sockets)


def test_descendants_of_two_generations() -> None:
    inner = "import sys; print(__import__('os').getpid(), flush=True); sys.stdin.read()"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    with subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        assert {child.pid, grandchild} <= set(processes.descendants(os.getpid()))
        assert processes.descendants(child.pid) == sorted((child.pid, grandchild))
        assert processes.command(child.pid) == [sys.executable, "-c", outer]
        child.communicate("")


def test_memory_and_processor_time_are_those_that_the_kernel_counts(tmp_path: Path) -> None:
    before = processes.resident(os.getpid())
    block = mmap.mmap(-1, 64 << 20)  # not from what an allocator has left
    block.write(os.urandom(1 << 20) * 64)
    assert processes.resident(os.getpid()) - before == pytest.approx(64.0, abs=8.0)
    block.close()
    before = processes.processor_time([os.getpid()])
    began = time.process_time()
    while time.process_time() - began < 0.3:
        pass
    assert processes.processor_time([os.getpid()]) - before == pytest.approx(time.process_time() - began, abs=0.05)
    file = tmp_path / "a segment"
    file.write_bytes(bytes(4096))
    with file.open("r+b") as opened:
        with mmap.mmap(opened.fileno(), 4096):
            assert "a segment" in processes.mapped(os.getpid(), tmp_path)
            assert "a segment" not in processes.mapped(os.getpid(), tmp_path / "other")
        assert "a segment" in processes.opened(os.getpid(), tmp_path) and not processes.opened(os.getpid(), tmp_path / "other")
    assert not processes.opened(os.getpid(), tmp_path)


def test_children_that_have_ended_count_where_they_are_asked_for() -> None:
    own, all_ = (processes.processor_time([os.getpid()], ended) for ended in (False, True))
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass"], check=True)
    assert processes.processor_time([os.getpid()], ended=False) - own < 0.3
    assert processes.processor_time([os.getpid()]) - all_ > 0.4


def test_who_shares_a_core_waits_for_it() -> None:
    core = min(os.sched_getaffinity(0))
    spin = f"import os; os.sched_setaffinity(0, [{core}]); print(flush=True)\nwhile True: pass"
    children = [subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        while min(processes.processor_time([child.pid]) for child in children) < 0.5:
            time.sleep(0.05)
        # Each has waited while the other ran.
        for child in children:
            ran, waited, could_run = processes.scheduled([child.pid])[child.pid]
            assert ran > 0.3 and waited > 0.2 and could_run
    finally:
        for child in children:
            child.kill()
            child.communicate()
