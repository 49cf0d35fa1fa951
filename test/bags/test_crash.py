"""Bags of recorders that were killed, and bags that were cut or damaged."""

import random
import signal
import subprocess
import sys
import time

import pytest
from rosbags.highlevel import AnyReader

from lfdm_ros.bags import BagWriter, bag_info, open_bag, read_series
from lfdm_ros.errors import InputError

COMMAND = "lfdm_ros/msg/DriverCommand"
SUFFIX = {"mcap": ".mcap", "sqlite3": ".db3"}

RECORDER = """
import sys, time
from lfdm_ros.bags import BagWriter
with BagWriter(sys.argv[1], sys.argv[2], recording="crash", origin_ns=0) as writer:
    while True:
        now = time.time_ns()
        stamp = {"sec": now // 10**9, "nanosec": now % 10**9}
        writer.write("control/command", "lfdm_ros/msg/DriverCommand", now, {"header": {"stamp": stamp}, "throttle": 0.5})
        print(now, flush=True)
        time.sleep(0.005)
"""


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_killed_recorder_leaves_all_but_the_last_second(tmp_path, storage):
    path = tmp_path / "crash"
    process = subprocess.Popen([sys.executable, "-c", RECORDER, str(path), storage], stdout=subprocess.PIPE, text=True)
    written = []
    while len(written) < 2 or written[-1] - written[0] < 2.3e9:
        written.append(int(process.stdout.readline()))
    process.send_signal(signal.SIGKILL)
    written += [int(line) for line in process.stdout]
    process.wait()

    series = read_series(path, "control/command", ["throttle"])
    read = [round(t * 1e9) for t in series.time]
    # Checkpoints come every half second; a machine under load may be late by as much again.
    assert written[-1] - read[-1] < 1.0e9 + 1000
    assert len(read) == sum(t <= read[-1] + 1000 for t in written), "a message is missing before the last one read"
    assert (series.values == 0.5).all()
    info = bag_info(path)
    assert not info["closed"]
    assert info["note"] == f"not closed properly, {len(read)} messages recovered"
    assert info["recording"] == "crash"
    # Others read it too.
    with AnyReader([path]) as reader:
        assert sum(1 for _ in reader.messages()) == len(read)


def test_a_bag_is_readable_while_it_is_recorded(tmp_path):
    with BagWriter(tmp_path / "live") as writer:
        with AnyReader([tmp_path / "live"]) as reader:
            assert reader.message_count == 0
        for i in range(3):
            writer.write("c", COMMAND, i, {})
        writer.checkpoint()
        with AnyReader([tmp_path / "live"]) as reader:
            assert reader.message_count == 3
        writer.write("c", COMMAND, 3, {})
        deadline = time.monotonic() + 60
        while bag_info(tmp_path / "live")["messages"] < 4:  # the writer's own checkpoint, without a further write
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert bag_info(tmp_path / "live")["note"] is None


def test_a_killed_recording_of_a_clock_that_was_reset(tmp_path):
    with BagWriter(tmp_path / "reset", origin_ns=0) as writer:
        for t in (100, 200, 50, 150):
            writer.write("c", COMMAND, t, {"throttle": t / 200})
            writer.checkpoint()
        with open_bag(tmp_path / "reset") as bag:  # as a recorder killed now would leave it
            assert bag.note == "not closed properly, 4 messages recovered"
            assert [t for _, t, _ in bag.raw()] == [50, 100, 150, 200]
            assert [t for _, t, _ in bag.raw(bag.select("c"))] == [50, 100, 150, 200]


def written(tmp_path, storage):
    path = tmp_path / "bag"
    with BagWriter(path, storage, origin_ns=0) as writer:
        for i in range(400):
            writer.write("c", COMMAND, i, {"throttle": i / 400})
            if i % 50 == 49:
                writer.checkpoint()
    file = path / f"bag{SUFFIX[storage]}"
    return path, file, file.read_bytes()


def messages_or_error(path):
    try:
        info = bag_info(path)
        return info["messages"], info["note"]
    except InputError as error:
        assert "\n" not in str(error)
        assert str(path) in str(error)
        return 0, str(error)


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_cut_file_is_read_up_to_the_cut_or_refused(tmp_path, storage):
    path, file, content = written(tmp_path, storage)
    rng = random.Random(1)
    cuts = [0, 1, 8, 9, 40, len(content) - 1, len(content) - 40, *rng.sample(range(len(content)), 40)]
    recovered = {}
    for cut in cuts:
        file.write_bytes(content[:cut])
        recovered[cut], note = messages_or_error(path)
        assert note is not None or recovered[cut] == 400
        if 0 < recovered[cut] < 400:
            assert f"{recovered[cut]} messages recovered" in note
    counts = [recovered[cut] for cut in sorted(recovered)]
    assert counts == sorted(counts), "a longer file gives more"
    assert len(set(counts)) > 5


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_damage_is_an_error_of_one_line(tmp_path, storage):
    path, file, content = written(tmp_path, storage)
    rng = random.Random(2)
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(rng.choice((1, 5, 50))):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        file.write_bytes(damaged)
        messages_or_error(path)


def test_metadata_that_is_missing_or_cut(tmp_path):
    path, _, _ = written(tmp_path, "mcap")
    metadata = (path / "metadata.yaml").read_text()
    (path / "metadata.yaml").unlink()
    assert bag_info(path)["note"] == "not closed properly (no metadata.yaml), 400 messages recovered"
    (path / "metadata.yaml").write_text(metadata[:200])
    assert bag_info(path)["note"].endswith("400 messages recovered")
