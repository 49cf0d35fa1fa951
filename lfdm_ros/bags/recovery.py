"""Opens what is left of a bag that was never finished, or was cut.

Nothing in the bag's folder is changed: an MCAP file is shown to rosbags up to its last complete record with a proper end
behind it, an SQLite file is copied as far as it can be read.
"""

from __future__ import annotations

import io
import os
import shutil
import sqlite3
import struct
from pathlib import Path
from typing import Any, BinaryIO

from lfdm_ros.bags.storage import MCAP_END, MCAP_MAGIC, CommittedSqlite3Writer
from lfdm_ros.errors import InputError

_DATA_END, _HEADER, _LAST_DATA_OPCODE = 0x0F, 0x01, 0x0F


def recover(path: Path, scratch: Path) -> Any:
    """Something that rosbags' AnyReader opens, for one storage file (.mcap or .db3).

    Args:
        scratch: an empty folder for copies; must outlive the reader.

    Raises:
        InputError: nothing in the file can be read.
    """
    try:
        if path.suffix == ".mcap":
            return SealedFile(path)
        return _readable_database(path, scratch)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def is_cut(path: Path) -> bool:
    """Whether an SQLite file ends inside a page, which SQLite itself takes for zeros."""
    return path.suffix == ".db3" and path.stat().st_size % _page_size(path) != 0


# --- MCAP ---------------------------------------------------------------------------------------------------------------


class SealedFile:
    """An MCAP file that ends after its last complete record; the part of pathlib's interface that rosbags uses."""

    suffix = ".mcap"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.length = _complete_length(path)

    def exists(self) -> bool:
        return True

    def is_dir(self) -> bool:
        return False

    def open(self, mode: str = "rb") -> BinaryIO:
        return io.BufferedReader(_Overlay(self.path, self.length, MCAP_END), 1 << 16)

    def __str__(self) -> str:
        return str(self.path)


class _Overlay(io.RawIOBase):
    """The first `length` bytes of a file, followed by `end`."""

    def __init__(self, path: Path, length: int, end: bytes) -> None:
        self._file = path.open("rb")
        self._length = length
        self._end = end
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._length + len(self._end)}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        if self._position < self._length:
            self._file.seek(self._position)
            data = self._file.read(min(len(buffer), self._length - self._position))
        else:
            start = self._position - self._length
            data = self._end[start:start + len(buffer)]
        buffer[:len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def _complete_length(path: Path) -> int:
    """Where the last complete record of the data section ends (https://mcap.dev/spec: opcode, length, content)."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if file.read(8) != MCAP_MAGIC:
            raise InputError(f"{path} is no MCAP file: it does not begin as one ({size} bytes)")
        end, first = 8, True
        while True:
            head = file.read(9)
            if len(head) < 9:
                break
            opcode, length = struct.unpack("<BQ", head)
            if opcode in (0, _DATA_END) or opcode > _LAST_DATA_OPCODE or end + 9 + length > size or first != (opcode == _HEADER):
                break
            first = False
            end += 9 + length
            file.seek(end)
    if first:
        raise InputError(f"{path} was cut in its first record ({size} bytes); nothing can be recovered")
    return end


# --- SQLite -------------------------------------------------------------------------------------------------------------

_TABLES = {
    "topics": "id, name, type, serialization_format, offered_qos_profiles, type_description_hash",
    "message_definitions": "id, topic_type, encoding, encoded_message_definition, type_description_hash",
    "messages": "id, topic_id, timestamp, data",
}


def _page_size(path: Path) -> int:
    """From the file's header (https://sqlite.org/fileformat.html, section 1.3)."""
    with path.open("rb") as file:
        header = file.read(18)
    if len(header) < 18 or not header.startswith(b"SQLite format 3\0"):
        raise InputError(f"{path} is no SQLite file: it does not begin as one ({path.stat().st_size} bytes)")
    size = int.from_bytes(header[16:], "big")
    return size if size >= 512 else 65536  # which is written as 1


def _readable_database(path: Path, scratch: Path) -> Path:
    journal = path.with_name(f"{path.name}-journal")
    if journal.is_file() and journal.stat().st_size:
        # Killed inside a commit: SQLite rolls it back on opening, here in a copy.
        for file in (path, journal):
            shutil.copy(file, scratch / file.name)
        path = scratch / path.name
    elif excess := path.stat().st_size % _page_size(path):
        # SQLite would take the missing part of the last page for zeros, and messages with them.
        shutil.copy(path, scratch / path.name)
        path = scratch / path.name
        os.truncate(path, path.stat().st_size - excess)
    copy = scratch / f"recovered_{path.name}"
    source = sqlite3.connect(f"{path.resolve().as_uri()}?mode={'rw' if path.parent == scratch else 'ro'}", uri=True)
    target = sqlite3.connect(copy)
    try:
        # Lets SQLite open a file that is shorter than its header says.
        source.execute("PRAGMA writable_schema = ON")
        target.executescript(CommittedSqlite3Writer.SQLITE_SCHEMA)
        for table, columns in _TABLES.items():
            marks = ",".join("?" * len(columns.split(",")))
            try:
                for row in source.execute(f"SELECT {columns} FROM {table} ORDER BY id"):
                    target.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", row)
            except sqlite3.DatabaseError:
                # A page that is missing, or one of zeros in the place of its rows: the messages end here.
                if table != "messages":
                    raise
        target.commit()
    except sqlite3.DatabaseError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path.name} cannot be read as an SQLite bag ({reason}); nothing can be recovered") from None
    finally:
        source.close()
        target.close()
    return copy
