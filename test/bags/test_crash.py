"""Bags of recorders that were killed, and bags that were cut or damaged."""

import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from itertools import pairwise

import pytest
from rosbags.highlevel import AnyReader

from lfdm_ros.bags import BagWriter, bag_info, mcap_survey, open_bag, read_series
from lfdm_ros.bags.recovery import rows
from lfdm_ros.bags.storage import MCAP_END
from lfdm_ros.bags.typestore import build_message, typestore
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
    while len(written) < 50 or written[-1] - written[0] < 1.6e9:
        written.append(int(process.stdout.readline()))
    process.send_signal(signal.SIGKILL)
    written += [int(line) for line in process.stdout]
    process.wait()

    series = read_series(path, "control/command", ["throttle"])
    read = [round(t * 1e9) for t in series.time]
    # Checkpoints come every half second; a machine under load may be late by as much again, and by as much as it was with the messages.
    late = max(after - before for before, after in pairwise(written))
    assert written[-1] - read[-1] < 1.0e9 + 2 * late + 1000
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
    for _ in range(30):
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


# ---- false lengths, lost pieces ------------------------------------------------------------------------------------------


def records(content):
    """(opcode, start, end) of the records of an MCAP file."""
    position = 8
    while position < len(content) - 8:
        length = int.from_bytes(content[position + 1:position + 9], "little")
        yield content[position], position, position + 9 + length
        position += 9 + length


def throttles(path):
    return [round(400 * value) for value in read_series(path, "c", ["throttle"]).values[:, 0]]


def test_a_chunk_with_a_false_length_loses_nothing(tmp_path):
    path, file, content = written(tmp_path, "mcap")
    chunks = [start for opcode, start, _ in records(content) if opcode == 6]
    assert len(chunks) >= 8  # a checkpoint each half second on a slow machine makes more
    for place in chunks[::3]:
        for bit in (0, 3, 17, 40):
            damaged = bytearray(content)
            damaged[place + 1 + bit // 8] ^= 1 << bit % 8
            file.write_bytes(damaged)
            assert bag_info(path)["note"] == "damaged, 400 messages recovered"
            assert throttles(path) == list(range(400))


def test_a_message_with_a_false_length_is_mended_by_the_checksum(tmp_path):
    path, file, content = written(tmp_path, "mcap")
    _, start, end = next(r for r in records(content) if r[0] == 6)
    inner = content.index(b"\x05", start + 100)
    while int.from_bytes(content[inner + 1:inner + 9], "little") > 200:  # the first 5 that is a message's opcode
        inner = content.index(b"\x05", inner + 1)
    assert inner < end
    file.write_bytes(content[:inner + 2] + b"\x7f" + content[inner + 3:])
    assert bag_info(path)["note"] == "damaged, 400 messages recovered"
    assert throttles(path) == list(range(400))


def test_what_stands_before_and_after_a_hole_is_read_and_the_hole_is_told(tmp_path):
    path, file, content = written(tmp_path, "mcap")
    chunks = [(start, end) for opcode, start, end in records(content) if opcode == 6]
    start, end = chunks[3]
    for damaged in (content[:start] + bytes(end - start) + content[end:],  # zeros
                    content[:start + 5] + content[end - 5:]):  # dropped
        file.write_bytes(damaged)
        note = bag_info(path)["note"]
        assert note.startswith("damaged, 350 messages recovered; ")
        assert note.endswith(" bytes between 0.000 and 0.000 s lost")  # the messages are nanoseconds apart
        assert throttles(path) == [*range(150), *range(200, 400)]


def test_values_that_do_not_fit_their_checksum_are_read_and_told(tmp_path):
    path, file, content = written(tmp_path, "mcap")
    chunk = [start for opcode, start, _ in records(content) if opcode == 6][3]
    place = chunk + 9 + 40 + 9 + 22 + 8  # in the header's stamp of the first message
    file.write_bytes(content[:place] + b"\x01" + content[place + 1:])
    info = bag_info(path)
    assert info["messages"] == 400 and info["note"].startswith("damaged, 400 messages recovered; ")
    assert info["note"].endswith(" bytes between 0.000 and 0.000 s do not fit their checksum, values there may be wrong")


def test_the_first_chunk_lost_takes_the_definitions_from_the_summary(tmp_path):
    path, file, content = written(tmp_path, "mcap")
    start, end = next((start, end) for opcode, start, end in records(content) if opcode == 6)
    file.write_bytes(content[:start] + bytes(end - start) + content[end:])
    assert throttles(path) == list(range(50, 400))
    assert "bytes between the beginning and 0.000 s lost" in bag_info(path)["note"]


@pytest.mark.parametrize("damage, kept", [("bit", 400), ("zeros", 350), ("dropped", 350)])
def test_a_topic_that_begins_late_does_not_hide_the_others(tmp_path, damage, kept):
    with BagWriter(tmp_path / "bag", origin_ns=0) as writer:
        for i in range(400):
            writer.write("c", COMMAND, i, {"throttle": i / 400})
            if i >= 100:
                writer.write("d", "std_msgs/msg/Float64", i, {"data": 1.0})
            if i % 50 == 49:
                writer.checkpoint()
    file = tmp_path / "bag" / "bag.mcap"
    content = file.read_bytes()
    start, end = next((start, end) for opcode, start, end in records(content) if opcode == 6)
    if damage == "bit":
        file.write_bytes(content[:end - 1] + bytes([content[end - 1] ^ 1]) + content[end:])
    else:
        file.write_bytes(content[:start] + (bytes(end - start) if damage == "zeros" else b"") + content[end:])
    assert {t["topic"]: t["count"] for t in bag_info(tmp_path / "bag")["topics"]} == {"c": kept, "d": 300}


def test_records_of_others_and_further_fields_are_no_damage(tmp_path):
    """https://mcap.dev/spec: readers skip opcodes from 0x80, and what a record has beyond the fields they know."""
    path, file, content = written(tmp_path, "mcap")
    parts, chunks = [], 0
    for opcode, start, end in records(content):
        if opcode == 0x0F:
            break
        chunks += opcode == 6
        if opcode == 6 and chunks == 3:  # with a further field of two bytes
            parts.append(b"\x06" + (end - start - 9 + 2).to_bytes(8, "little") + content[start + 9:end] + b"\x01\x02")
        else:
            parts.append(content[start:end])
        if opcode in (1, 6):
            parts += [bytes([number]) + (5).to_bytes(8, "little") + b"12345" for number in (0x80, 0xFF)]
    whole = content[:8] + b"".join(parts) + MCAP_END
    file.write_bytes(whole)
    assert bag_info(path)["note"] is None and throttles(path) == list(range(400))
    start, end = [(start, end) for opcode, start, end in records(whole) if opcode == 6][5]
    file.write_bytes(whole[:start] + bytes(end - start) + whole[end:])
    note = bag_info(path)["note"]
    assert note.startswith("damaged, 350 messages recovered; ") and " bytes between 0.000 and 0.000 s lost" in note
    file.write_bytes(whole[:start] + b"\x86" + whole[start + 1:])  # one bit of a chunk's opcode: none of a program's own
    assert bag_info(path)["note"].startswith("damaged, 400 messages recovered; ")


def test_a_sound_file_is_opened_by_its_checksums(tmp_path, monkeypatch):
    path, _, _ = written(tmp_path, "mcap")
    monkeypatch.setattr(mcap_survey, "chunk_records", lambda content: pytest.fail("each record is looked at"))
    assert throttles(path) == list(range(400))


def test_what_does_not_fit_its_checksum_is_not_kept_in_memory(tmp_path):
    _, file, content = written(tmp_path, "mcap")
    damaged = bytearray(content)
    for start in [start for opcode, start, _ in records(content) if opcode == 6]:
        damaged[start + 33] ^= 1  # of the checksum
    file.write_bytes(damaged)
    found = mcap_survey.survey(file, tmp_path / "rewritten")
    assert len(found.doubts) == 8
    kept = sum(len(piece) for piece in found.pieces if isinstance(piece, bytes))
    assert kept < 4096 < (tmp_path / "rewritten").stat().st_size
    assert throttles(tmp_path / "bag") == list(range(400))


@pytest.mark.parametrize("part", ["magic", "header", "summary", "end"])
def test_damage_around_the_messages_loses_none(tmp_path, part):
    path, file, content = written(tmp_path, "mcap")
    place = {"magic": 3, "header": 12, "summary": len(content) - 200, "end": len(content) - 2}[part]
    file.write_bytes(content[:place] + b"\xaa\xaa" + content[place + 2:])
    assert throttles(path) == list(range(400))


def test_an_mcap_whose_messages_are_in_no_chunk(tmp_path):
    path, file, content = written(tmp_path, "mcap")
    end_of_data = next(start for opcode, start, _ in records(content) if opcode == 0x0C)
    plain = content[:next(start for opcode, start, _ in records(content) if opcode == 6)]
    for opcode, start, end in records(content[:end_of_data] + bytes(8)):
        if opcode == 6:
            plain += content[start + 9 + 40:end]
    file.write_bytes(plain + MCAP_END)
    assert throttles(path) == list(range(400))
    message = plain.index(b"\x05", 2000)
    while int.from_bytes(plain[message + 1:message + 9], "little") > 200:
        message = plain.index(b"\x05", message + 1)
    file.write_bytes(plain[:message + 3] + b"\x55" + plain[message + 4:] + MCAP_END)
    assert throttles(path)  # without checksums and summary each message is looked at
    info = bag_info(path)
    assert info["messages"] == 399 and "399 messages recovered; " in info["note"]


# ---- metadata.yaml that lies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [
    ("type: lfdm_ros/msg/DriverCommand", "type: {}"), ("type: lfdm_ros/msg/DriverCommand", "type: sensor_msgs/msg/Imu"),
    ("name: c", "name: [1]"), ("name: c", "name: d"), ("storage_identifier: mcap", "storage_identifier: tape"),
    ("message_count: 400", "message_count: 3"), ("message_count: 400", "message_count: " + "9" * 5000), ("bag.mcap", "other.mcap"),
    ("storage_identifier: mcap", "storage_identifier: 2001-13-45"), ("version: 9", "version: " + "[" * 3000)])
def test_the_files_are_believed_before_metadata(tmp_path, change):
    path, _, _ = written(tmp_path, "mcap")
    metadata = path / "metadata.yaml"
    text = metadata.read_text()
    assert change[0] in text
    metadata.write_text(text.replace(*change))
    info = bag_info(path)
    assert info["messages"] == 400 and "400 messages recovered" in info["note"]
    assert info["topics"][0]["type"] == COMMAND and throttles(path) == list(range(400))


@pytest.mark.parametrize("origin", ["9" * 30, "-" + "9" * 19, "1e9", "{}"])
def test_an_origin_that_is_no_time_is_named(tmp_path, origin):
    path, _, _ = written(tmp_path, "mcap")
    metadata = path / "metadata.yaml"
    metadata.write_text(metadata.read_text().replace("origin_ns: '0'", f"origin_ns: '{origin}'"))
    with pytest.raises(InputError, match=r"origin_ns is '.*', not a number of nanoseconds"):
        read_series(path, "c", ["throttle"])


def test_a_message_that_does_not_fit_does_not_hide_the_others(tmp_path):
    with BagWriter(tmp_path / "bag", origin_ns=0) as writer:
        for i in range(5):
            writer.write("c", COMMAND, i, {"throttle": 0.5})
        writer.write_raw("d", COMMAND, 5, b"\0\1\0\0\xff\xff")
    assert bag_info(tmp_path / "bag")["messages"] == 6
    assert len(read_series(tmp_path / "bag", "c", ["throttle"]).time) == 5
    with pytest.raises(InputError, match="does not fit lfdm_ros/msg/DriverCommand"):
        read_series(tmp_path / "bag", "d", ["throttle"])


def test_the_first_message_that_fits_says_when_a_bag_begins(tmp_path):
    with BagWriter(tmp_path / "bag") as writer:  # without origin_ns
        writer.write_raw("c", COMMAND, 5, b"\0\1\0\0\xff\xff")
        for second in (7, 8):
            writer.write("c", COMMAND, 10**9 * second, {"header": {"stamp": {"sec": second, "nanosec": 0}}})
    assert bag_info(tmp_path / "bag")["origin"] == 7.0


def test_long_metadata_of_our_own_is_read(tmp_path):
    path, _, _ = written(tmp_path, "mcap")
    with (path / "metadata.yaml").open("a") as metadata:
        metadata.write("#" * 1_100_000)
    with open_bag(path) as bag:
        assert bag.note is None and bag.custom["origin_ns"] == "0"


# ---- damaged SQLite files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", range(4, 12, 2))  # those before hold the schema and the topics, without which nothing can be told
def test_a_damaged_page_costs_no_more_than_its_own_messages(tmp_path, page):
    path, file, content = written(tmp_path, "sqlite3")
    file.write_bytes(content[:4096 * page] + b"\xa5" * 4096 + content[4096 * (page + 1):])
    info = bag_info(path)
    assert 320 <= info["messages"] <= 400 and f"{info['messages']} messages recovered" in info["note"]
    assert throttles(path) == sorted(throttles(path))
    if info["messages"] < 400 and throttles(path)[-1] == 399:
        assert f"{400 - info['messages']} messages between " in info["note"]


def test_an_sqlite_file_without_its_first_bytes_is_read(tmp_path):
    path, file, content = written(tmp_path, "sqlite3")
    file.write_bytes(bytes(100) + content[100:])
    assert throttles(path) == list(range(400))
    (path / "metadata.yaml").unlink()
    assert throttles(path) == list(range(400))


# As distributions write them: up to Humble a topic has no hash, up to Dashing no QoS, and there are no definitions.
OLD_TOPICS = {"humble": (", offered_qos_profiles TEXT NOT NULL", ("[]",)), "dashing": ("", ())}


def written_by_others(path, distribution="humble", journal="DELETE"):
    """A database in which 200 messages are committed but not the last 100, open as by a recorder that still runs."""
    more, values = OLD_TOPICS[distribution]
    path.mkdir()
    database = sqlite3.connect(path / "bag_0.db3", isolation_level=None)
    database.execute("PRAGMA page_size = 4096")
    database.execute(f"PRAGMA journal_mode = {journal}")
    database.execute("PRAGMA wal_autocheckpoint = 0")
    database.execute(
        f"CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, serialization_format TEXT NOT NULL{more})")
    database.execute(
        "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, timestamp INTEGER NOT NULL, data BLOB NOT NULL)")
    database.execute("CREATE INDEX timestamp_idx ON messages (timestamp ASC)")
    row = (1, "/x", "std_msgs/msg/Float64", "cdr", *values)
    database.execute(f"INSERT INTO topics VALUES ({','.join('?' * len(row))})", row)
    cdr = bytes(typestore().serialize_cdr(build_message("std_msgs/msg/Float64", {"data": 2.0}), "std_msgs/msg/Float64"))
    for end in (200, 300):
        database.execute("BEGIN")
        database.executemany("INSERT INTO messages VALUES (NULL, 1, ?, ?)", ((t, cdr) for t in range(0 if end == 200 else 200, end)))
        if end == 200:
            database.execute("COMMIT")
    return database


@pytest.mark.parametrize("distribution", list(OLD_TOPICS))
def test_killed_recorders_of_older_distributions(tmp_path, distribution):
    database = written_by_others(tmp_path / "bag", distribution)
    database.execute("ROLLBACK")
    database.close()
    info = bag_info(tmp_path / "bag")
    assert info["note"] == "not closed properly (no metadata.yaml), 200 messages recovered"
    assert read_series(tmp_path / "bag", "x", ["data"]).values[:, 0].tolist() == [2.0] * 200
    file = tmp_path / "bag" / "bag_0.db3"
    file.write_bytes(bytes(100) + file.read_bytes()[100:])  # row by row
    assert bag_info(tmp_path / "bag")["messages"] == 200


def test_what_a_killed_recorder_wrote_ahead_is_read(tmp_path):
    database = written_by_others(tmp_path / "live", journal="WAL")
    shutil.copytree(tmp_path / "live", tmp_path / "killed")
    database.close()
    before = {file.name: file.read_bytes() for file in (tmp_path / "killed").iterdir()}
    assert len(before["bag_0.db3-wal"]) > len(before["bag_0.db3"])
    assert bag_info(tmp_path / "killed")["messages"] == 200
    assert bag_info(tmp_path / "killed" / "bag_0.db3")["messages"] == 200
    assert {file.name: file.read_bytes() for file in (tmp_path / "killed").iterdir()} == before


def test_messages_of_a_topic_that_is_lost_are_told(tmp_path):
    path, file, _ = written(tmp_path, "sqlite3")
    with closing(sqlite3.connect(file)) as database:
        database.execute("DELETE FROM topics")
        database.commit()
        database.execute("VACUUM")
    (path / "metadata.yaml").unlink()
    file.write_bytes(bytes(100) + file.read_bytes()[100:])
    with pytest.raises(InputError, match="no message that can be read \\(400 messages are of topics that are lost\\)"):
        bag_info(path)


def test_a_chain_of_pages_that_runs_in_a_circle_is_no_row(tmp_path):
    file, blob = tmp_path / "x.db3", bytes(range(256)) * 128
    with closing(sqlite3.connect(file)) as database:
        database.executescript("PRAGMA page_size = 4096; CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id, timestamp, data);")
        database.executemany("INSERT INTO messages VALUES (?, 1, 1, ?)", [(1, blob), (2, blob)])
        database.commit()
    assert [row for row in rows(file, 4096) if len(row[1]) == 4] == [(1, [None, 1, 1, blob]), (2, [None, 1, 1, blob])]
    content = bytearray(file.read_bytes())
    first = content.index(blob[-4096:][:512])  # in an overflow page of row 1
    page = first // 4096 * 4096
    content[page:page + 4] = (page // 4096 + 1).to_bytes(4, "big")  # goes on in itself
    file.write_bytes(content)
    assert [rowid for rowid, values in rows(file, 4096) if len(values) == 4] == [2]
