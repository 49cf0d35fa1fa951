"""Opens what is left of a bag that was never finished, or was cut.

Nothing in the bag's folder is changed: of an MCAP file rosbags is shown what stands, with a proper end behind it; an SQLite file is
copied as far as it can be read.
"""

from __future__ import annotations

import io
import shutil
import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, BinaryIO

from lfdm_ros.bags.mcap_survey import survey
from lfdm_ros.bags.sqlite_pages import rows
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
        return _readable_database(path, scratch)
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
    return path.stat().st_size % _page_size(path) != 0 or not _is_sound(path)


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

# By the number of their columns.
_TOPICS, _MESSAGES = 6, 4
_TABLES = {
    _TOPICS: ("topics", "id, name, type, serialization_format, offered_qos_profiles, type_description_hash"),
    5: ("message_definitions", "id, topic_type, encoding, encoded_message_definition, type_description_hash"),
    _MESSAGES: ("messages", "id, topic_id, timestamp, data"),
}


def _page_size(path: Path) -> int:
    """From the file's header (section 1.3 of the format); what bags have where the header is damaged."""
    with path.open("rb") as file:
        header = file.read(18)
    size = int.from_bytes(header[16:], "big")
    if len(header) < 18 or size & (size - 1) or not (size == 1 or 512 <= size <= 32768):
        return 4096
    return size if size > 1 else 65536


def _is_sound(path: Path) -> bool:
    """Whether SQLite finds its own structure as it should be."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            return [row[0] for row in database.execute("PRAGMA quick_check(1)")] == ["ok"]
    except sqlite3.DatabaseError:
        return False


def _readable_database(path: Path, scratch: Path) -> tuple[Path, Callable[[int], str]]:
    """A copy of what can be read, and what says in a phrase what is lost."""
    journal = path.with_name(f"{path.name}-journal")
    if journal.is_file() and journal.stat().st_size:
        # Killed inside a commit: SQLite rolls it back on opening, here in a copy.
        for file in (path, journal):
            shutil.copy(file, scratch / file.name)
        path = scratch / path.name
        with closing(sqlite3.connect(path)) as database, suppress(sqlite3.DatabaseError):
            database.execute("SELECT 1 FROM messages LIMIT 1").fetchall()
    found: dict[int, dict[int, list[Any]]] = {width: {} for width in _TABLES}
    for rowid, values in rows(path, _page_size(path)):
        if len(values) in found and _is_row(values):
            found[len(values)].setdefault(rowid, values[1:])
    topics, messages = found[_TOPICS], found[_MESSAGES]
    messages = {rowid: values for rowid, values in messages.items() if values[0] in topics}
    if not messages and not _is_sound(path):
        raise InputError(f"{path.name} has no message that can be read ({path.stat().st_size} bytes); nothing can be recovered")
    copy = scratch / f"recovered_{path.name}"
    with closing(sqlite3.connect(copy)) as target:
        target.executescript(CommittedSqlite3Writer.SQLITE_SCHEMA)
        for width, (table, columns) in _TABLES.items():
            marks = ",".join("?" * width)
            kept = messages if width == _MESSAGES else found[width]
            target.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", ((rowid, *kept[rowid]) for rowid in sorted(kept)))
        target.commit()
    return copy, lambda start: _missing({rowid: values[1] for rowid, values in messages.items()}, start)


def _is_row(values: list[Any]) -> bool:
    """Whether the values of a row are what its table holds: the key's own place is empty."""
    kinds = (int, int, bytes) if len(values) == _MESSAGES else (str,) * (len(values) - 1)
    return values[0] is None and all(type(value) is kind for value, kind in zip(values[1:], kinds)) and (
        len(values) != _MESSAGES or values[2] >= 0)


def _missing(stamps: dict[int, int], start: int) -> str:
    """Which messages are lost: their numbers are consecutive. Those after the last one nobody knows of."""
    known = sorted(stamps)
    gaps = [(before, after) for before, after in pairwise([0, *known]) if after > before + 1]
    if not gaps:
        return ""
    places = [f"{'the beginning' if not before else f'{(stamps[before] - start) / 1e9:.3f}'} and {(stamps[after] - start) / 1e9:.3f} s"
              for before, after in gaps]
    more = f" and {len(gaps) - 3} more places" if len(gaps) > 3 else ""
    return f"{sum(after - before - 1 for before, after in gaps)} messages between {', between '.join(places[:3])}{more} lost"
