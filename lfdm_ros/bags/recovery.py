"""Opens the remains of a bag that was not finished, or was truncated.

The bag's folder is not changed: rosbags gets the intact part of an MCAP file with a proper end; an SQLite file is copied as far as it is
readable.
"""

import io
import mmap
import shutil
import sqlite3
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

from lfdm_ros.bags.mcap_survey import Gap, Range, is_whole, places, survey
from lfdm_ros.bags.storage import MCAP_END, CommittedSqlite3Writer
from lfdm_ros.errors import InputError, prefixing

# Of a damaged SQLite file (https://sqlite.org/fileformat.html) all rows outside damaged pages are read. Rows are in leaf pages with an
# index of their rows; long rows continue in overflow pages. Neither the tree nor the schema is needed: the tables of a bag differ by their
# columns. SQLite has no checksums, so changed bytes within a value are not detected.
_LEAF = 0x0D
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # serial type: bytes
Row = tuple[int, list[Any]]


def rows(path: Path, page_size: int) -> Iterator[Row]:
    """Yields (rowid, values) of all readable rows in leaf pages, in the order of the pages; the value of the primary key is None."""
    if path.stat().st_size < page_size:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for number in range(len(content) // page_size):
            page = content[number * page_size:(number + 1) * page_size]
            start = 100 if number == 0 else 0  # the file's own header
            if page[start] != _LEAF:
                continue
            count = struct.unpack_from(">H", page, start + 3)[0]
            for i in range(min(count, (page_size - start - 8) // 2)):
                place = struct.unpack_from(">H", page, start + 8 + 2 * i)[0]
                with suppress(IndexError, ValueError, struct.error):  # damaged row
                    yield _row(content, page, place, page_size)


def _row(content: mmap.mmap, page: bytes, place: int, page_size: int) -> Row:
    size, place = _varint(page, place)
    rowid, place = _varint(page, place)
    payload = _payload(content, page, place, size, page_size)
    header_size, position = _varint(payload, 0)
    kinds = []
    while position < header_size:
        kind, position = _varint(payload, position)
        kinds.append(kind)
    if position != header_size:
        raise ValueError
    values = []
    for kind in kinds:
        value, position = _value(payload, position, kind)
        values.append(value)
    if position != size:
        raise ValueError
    return rowid, values


def _payload(content: mmap.mmap, page: bytes, place: int, size: int, page_size: int) -> bytes:
    """Returns the bytes of a row, those in overflow pages included (section 1.6 of the format)."""
    if not 0 < size <= len(content):
        raise ValueError
    largest, smallest = page_size - 35, (page_size - 12) * 32 // 255 - 23
    if size <= largest:
        parts = [page[place:place + size]]
    else:
        local = smallest + (size - smallest) % (page_size - 4)
        local = local if local <= largest else smallest
        parts, missing, visited = [page[place:place + local]], size - local, set[int]()
        following = int.from_bytes(page[place + local:place + local + 4], "big")
        while missing > 0:
            start = (following - 1) * page_size
            if following < 2 or start + page_size > len(content) or following in visited:
                raise ValueError
            visited.add(following)
            parts.append(content[start + 4:start + 4 + min(page_size - 4, missing)])
            missing -= len(parts[-1])
            following = int.from_bytes(content[start:start + 4], "big")
    payload = b"".join(parts)
    if len(payload) != size:
        raise ValueError
    return payload


def _value(payload: bytes, position: int, kind: int) -> tuple[Any, int]:
    if kind == 0:
        return None, position
    if kind in (8, 9):
        return kind - 8, position
    if kind in _INTEGERS:
        end = position + _INTEGERS[kind]
        return int.from_bytes(payload[position:end], "big", signed=True), end
    if kind < 12:  # a float, which bags do not have, or a reserved type
        raise ValueError
    end = position + (kind - 12) // 2
    data = payload[position:end]
    return (data if kind % 2 == 0 else data.decode()), end


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for i in range(8):
        byte = data[position + i]
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            return value, position + i + 1
    return (value << 8) | data[position + 8], position + 9


def recover(path: Path, scratch: Path) -> tuple[Any, Callable[[int], str]]:
    """Returns an object that AnyReader of rosbags opens, for one storage file (.mcap or .db3), and a function that describes the losses in
    a phrase. `scratch`: an empty folder for copies; must outlive the reader. Raises InputError: the file is unreadable."""
    with prefixing(f"cannot read {path}", OSError):
        if path.suffix == ".mcap":
            rewritten = scratch / f"{path.name}.rewritten"
            found = survey(path, rewritten)
            return SplicedFile(path, rewritten, found.pieces), found.lost
        return _readable_database(path, scratch)


def is_damaged(path: Path) -> bool:
    """Checks a storage file for damage by its structure and checksums. Raises InputError: the file cannot be read."""
    with prefixing(f"cannot read {path}", OSError):
        status = path.stat()
        if path.suffix == ".mcap":
            return not _is_whole_mcap(path, status.st_ino, status.st_size, status.st_mtime_ns)
        return bool(_beside(path)) or not _is_sound(path)


@lru_cache(maxsize=256)
def _is_whole_mcap(path: Path, *identity: int) -> bool:
    # Cached while the file is unchanged: a calibration opens a bag once per series.
    return is_whole(path)


class SplicedFile:
    """Intact parts of an MCAP file, with a proper end; the part of pathlib's interface that rosbags uses."""

    suffix = ".mcap"

    def __init__(self, path: Path, rewritten: Path, pieces: Sequence[Range | bytes]) -> None:
        """Joins `pieces`; `rewritten`: the file of the ranges that are not in `path`."""
        self.path, self._rewritten = path, rewritten
        self.pieces = [*pieces, MCAP_END]

    def exists(self) -> bool:
        return True

    def is_dir(self) -> bool:
        return False

    def open(self, mode: str = "rb") -> BinaryIO:
        return io.BufferedReader(_Splice(self.path, self._rewritten, self.pieces), 1 << 16)

    def __str__(self) -> str:
        return str(self.path)


class _Splice(io.RawIOBase):
    """Concatenated ranges of two files and bytes."""

    def __init__(self, path: Path, rewritten: Path, pieces: Sequence[Range | bytes]) -> None:
        self._file, self._rewritten = path.open("rb"), rewritten.open("rb")
        self._pieces = pieces
        sizes = [len(piece) if isinstance(piece, bytes) else piece.end - piece.start for piece in pieces]
        self._starts = [0, *accumulate(sizes)]
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._starts[-1]}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        if self._position >= self._starts[-1]:
            return 0
        which = bisect_right(self._starts, self._position) - 1
        piece, within = self._pieces[which], self._position - self._starts[which]
        size = min(len(buffer), self._starts[which + 1] - self._position)
        if isinstance(piece, bytes):
            data = piece[within:within + size]
        else:
            file = self._rewritten if piece.rewritten else self._file
            file.seek(piece.start + within)
            data = file.read(size)
        buffer[:len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        self._file.close()
        self._rewritten.close()
        super().close()


_TABLES = {
    "topics": "id, name, type, serialization_format, offered_qos_profiles, type_description_hash",
    "message_definitions": "id, topic_type, encoding, encoded_message_definition, type_description_hash",
    "messages": "id, topic_id, timestamp, data",
}


def _page_size(path: Path) -> int:
    """Returns the page size from the header of the file (section 1.3 of the format); the default of bags where the header is damaged."""
    with path.open("rb") as file:
        header = file.read(18)
    size = int.from_bytes(header[16:], "big")
    sizes = {1: 65536, **{2**power: 2**power for power in range(9, 16)}}
    return sizes.get(size, 4096) if len(header) == 18 else 4096


def _beside(path: Path) -> list[Path]:
    """Lists the rollback or write-ahead journals of a killed recorder beside the file, which are part of its content."""
    files = [path.with_name(path.name + suffix) for suffix in ("-journal", "-wal")]
    return [file for file in files if file.is_file() and file.stat().st_size]


def _is_sound(path: Path) -> bool:
    if path.stat().st_size % _page_size(path):  # SQLite treats such a file as padded with zeros
        return False
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?immutable=1", uri=True)) as database:
            return [row[0] for row in database.execute("PRAGMA quick_check(1)")] == ["ok"]
    except sqlite3.DatabaseError:
        return False


def _readable_database(path: Path, scratch: Path) -> tuple[Path, Callable[[int], str]]:
    """Returns the file itself where it is sound, else a copy of its readable rows; and a function that describes the losses in a phrase."""
    beside = _beside(path)
    if beside:
        # On opening and closing, SQLite rolls back or applies the write-ahead log: here in a copy.
        for file in (path, *beside):
            shutil.copy(file, scratch / file.name)
        path = scratch / path.name
        with closing(sqlite3.connect(path)) as database, suppress(sqlite3.DatabaseError):
            database.execute("SELECT 1 FROM messages LIMIT 1").fetchall()
    if _is_sound(path):
        return path, lambda start: ""
    copy = scratch / f"recovered_{path.name}"
    with closing(sqlite3.connect(copy)) as target:
        target.executescript(f"PRAGMA synchronous = OFF; {CommittedSqlite3Writer.SQLITE_SCHEMA}")
        inserts = {table: f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({','.join('?' * len(columns.split(',')))})"
                   for table, columns in _TABLES.items()}
        for rowid, values in rows(path, _page_size(path)):
            table, fields = _belongs(values)
            if table and rowid < 1 << 63:
                target.execute(inserts[table], (rowid, *fields))
        gaps = _gaps(target.execute("SELECT id, timestamp FROM messages ORDER BY id"))
        unknown = target.execute("DELETE FROM messages WHERE topic_id NOT IN (SELECT id FROM topics)").rowcount
        left = target.execute("SELECT 1 FROM messages LIMIT 1").fetchone()
        target.commit()
    if not left:
        why = f"{unknown} messages are of topics that are lost" if unknown else f"{path.stat().st_size} bytes"
        raise InputError(f"{path.name} has no message that can be read ({why}); nothing can be recovered")
    # Messages lost after the last one cannot be counted.
    return copy, lambda start: "; ".join([f"{places(gaps, start, 'messages')} lost"] * bool(gaps)
                                         + [f"{unknown} messages of topics that are lost"] * bool(unknown))


def _belongs(values: list[Any]) -> tuple[str, Sequence[Any]]:
    """Returns (table, values without the key) of a row; "" where it is of no table of a bag. The key's column in a row is empty."""
    key, rest = values[0], values[1:]
    kinds = [type(value) for value in rest]
    if key is not None:
        return "", ()
    if kinds == [int, int, bytes] and rest[1] >= 0:
        return "messages", rest
    if set(kinds) != {str}:
        return "", ()
    # Older distributions have no hash of the type, the oldest no QoS.
    if len(rest) == 5 or (len(rest) in (3, 4) and rest[2] == "cdr"):
        return "topics", [*rest, "", ""][:5]
    return ("message_definitions", rest) if len(rest) == 4 else ("", ())


def _gaps(stamped: Iterable[tuple[int, int]]) -> list[Gap]:
    """Returns the gaps of messages by their numbers, which are consecutive."""
    gaps, last, time = list[Gap](), 0, None
    for number, stamp in stamped:
        if number > last + 1:
            gaps.append(Gap(number - last - 1, time, stamp))
        last, time = number, stamp
    return gaps
