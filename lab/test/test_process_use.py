"""Use of memory, processor and files by processes, against what they have done."""

import os
import subprocess
import sys
import time
from pathlib import Path

from lfdm_lab import processes

GONE = 2**22 + 1  # beyond the largest number of a process


def test_processes_that_have_ended_use_nothing() -> None:
    assert processes.descendants(GONE) == [] and processes.command(GONE) == [] and processes.scheduled([GONE]) == {}
    assert (processes.processor_time([GONE]), processes.resident(GONE), processes.mapped(GONE, Path("/"))) == (0.0, 0.0, set())
    assert processes.opened(GONE, Path("/")) == set() and processes.descriptors(GONE) == (0, 0)


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
