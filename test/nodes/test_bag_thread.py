"""The recorder's queue to the disk."""

import threading

from lfdm_ros.errors import InputError
from lfdm_ros.nodes.recorder import BagThread


class Disk:
    """Stands in for BagWriter; writes block until `free` is set."""

    def __init__(self, fail: bool = False) -> None:
        self.rows: list[tuple[str, int, bytes]] = []
        self.free = threading.Event()
        self.fail = fail
        self.closed = False

    def write_raw(self, topic: str, msgtype: str, stamp: int, data: bytes) -> None:
        self.free.wait(20.0)
        if self.fail:
            raise InputError("disk full")
        self.rows.append((topic, stamp, data))

    def close(self) -> None:
        self.closed = True


def test_close_writes_all_that_is_queued_in_order() -> None:
    disk = Disk()
    bag = BagThread(disk, capacity=1000)  # type: ignore[arg-type]
    for i in range(500):
        assert bag.put("/t", "a/msg/B", i, b"x")
    disk.free.set()
    bag.close()
    assert [stamp for _, stamp, _ in disk.rows] == list(range(500))
    assert (bag.written, bag.dropped, disk.closed) == (500, 0, True)


def test_full_queue_drops_and_counts() -> None:
    disk = Disk()
    bag = BagThread(disk, capacity=10)  # type: ignore[arg-type]
    taken = sum(bag.put("/t", "a/msg/B", i, b"x") for i in range(100))
    disk.free.set()
    bag.close()
    assert taken in (10, 11)  # one more when the thread had taken one already
    assert bag.dropped == 100 - taken == 100 - bag.written


def test_a_refusing_disk_is_reported_and_nothing_waits_for_it() -> None:
    disk = Disk(fail=True)
    disk.free.set()
    bag = BagThread(disk, capacity=10)  # type: ignore[arg-type]
    bag.put("/t", "a/msg/B", 0, b"x")
    bag.close()
    assert bag.failure == "disk full" and bag.written == 0 and bag.dropped == 1
    assert not bag.put("/t", "a/msg/B", 1, b"x")
