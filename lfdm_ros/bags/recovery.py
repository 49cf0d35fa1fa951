"""Opens what is left of a bag that was never finished, or was cut.

Nothing in the bag's folder is changed: of an MCAP file rosbags is shown what stands, with a proper end behind it; an SQLite file is
copied as far as it can be read.
"""

from __future__ import annotations

import io
import os
import shutil
import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

from lfdm_ros.bags.mcap_survey import survey
from lfdm_ros.bags.storage import MCAP_END, CommittedSqlite3Writer
from lfdm_ros.errors import InputError


def recover(path: Path, scratch: Path) -> tuple[Any, Callable[[int], str]]:
    """Something that rosbags' AnyReader opens, for one storage file (.mcap or .db3), and what says in a phrase what is lost.

    Args:
        scratch: an empty folder for copies; must outlive the reader.

    Raises:
        InputError: nothing in the file can be read.
    """
    try:
        if path.suffix == ".mcap":
            found = survey(path)
            return SplicedFile(path, found.pieces), found.lost
        return _readable_database(path, scratch), lambda start: ""
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def is_damaged(path: Path) -> bool:
    """Whether a storage file is not as its writer left it, as far as its structure and its checksums tell.

    Raises:
        InputError: nothing in the file can be read.
    """
    if path.suffix == ".mcap":
        return not survey(path).whole
    # A file that ends inside a page SQLite itself takes for one that ends in zeros.
    return path.stat().st_size % _page_size(path) != 0


# --- MCAP ---------------------------------------------------------------------------------------------------------------


class SplicedFile:
    """What stands of an MCAP file, with a proper end; the part of pathlib's interface that rosbags uses."""

    suffix = ".mcap"

    def __init__(self, path: Path, pieces: Sequence[tuple[int, int] | bytes]) -> None:
        self.path = path
        self.pieces = [*pieces, MCAP_END]

    def exists(self) -> bool:
        return True

    def is_dir(self) -> bool:
        return False

    def open(self, mode: str = "rb") -> BinaryIO:
        return io.BufferedReader(_Splice(self.path, self.pieces), 1 << 16)

    def __str__(self) -> str:
        return str(self.path)


class _Splice(io.RawIOBase):
    """Ranges of a file, and bytes, one after the other."""

    def __init__(self, path: Path, pieces: Sequence[tuple[int, int] | bytes]) -> None:
        self._file = path.open("rb")
        self._pieces = pieces
        sizes = [len(piece) if isinstance(piece, bytes) else piece[1] - piece[0] for piece in pieces]
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
            self._file.seek(piece[0] + within)
            data = self._file.read(size)
        buffer[:len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


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
