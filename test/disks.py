"""Full disks."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full(size: int) -> Iterator[None]:
    """No file can be made longer than `size` bytes; as a full disk, the kernel refuses in the middle of a write."""
    before, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
