"""Memory, processor time and files of processes of known use."""

import os
import subprocess
import sys
from pathlib import Path

from lfdm_lab import processes

GONE = 2**22 + 1  # beyond the largest number of a process


def test_processes_that_have_ended_use_nothing() -> None:
    assert processes.descendants(GONE) == [] and processes.command(GONE) == []
    assert (processes.processor_time([GONE]), processes.resident(GONE), processes.mapped(GONE, Path("/"))) == (0.0, 0.0, set())
    assert processes.opened(GONE, Path("/")) == set() and processes.descriptors(GONE) == (0, 0)


def test_ended_children_count_on_request() -> None:
    own, all_ = (processes.processor_time([os.getpid()], ended) for ended in (False, True))
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass"], check=True)
    assert processes.processor_time([os.getpid()], ended=False) - own < 0.3
    assert processes.processor_time([os.getpid()]) - all_ > 0.4
