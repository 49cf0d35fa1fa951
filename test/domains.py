"""ROS domains of the tests, 1 to 100, which Linux uses for nothing else: processes that test side by side do not meet."""

import fcntl
import os
import sys
import tempfile
from functools import cache
from pathlib import Path

_HALF = 50


@cache
def own() -> int:
    """The domain of this process: another for each that tests on this machine, claimed by a lock that ends with the process."""
    folder = Path(tempfile.gettempdir()) / f"lfdm_ros_test_domains_{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for domain in range(1, _HALF + 1):
        lock = os.open(folder / str(domain), os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
        else:
            return domain  # the lock stays open
    raise RuntimeError(f"{_HALF} processes test already; their locks are in {folder}")


def other() -> int:
    """A domain for what a test starts in a graph of its own."""
    return own() + _HALF


def environment() -> dict[str, str]:
    """For a process in a graph of its own, which imports from where this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ROS_DOMAIN_ID": str(other())}
