"""ROS domains of the tests, 1 to 100, which Linux uses for nothing else: processes that test side by side do not meet."""

from __future__ import annotations

import os


def own() -> int:
    """The domain of this process: another for each that pytest-xdist starts."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")  # gw0, gw1, ...
    return 1 + (10 * os.getppid() + int(worker[2:]) if worker else os.getpid()) % 100


def other() -> int:
    """A domain for what a test starts in a graph of its own."""
    return 1 + (own() + 49) % 100
