"""Intact and lost parts of an MCAP file, record by record (https://mcap.dev/spec).

A record is one byte of opcode, eight of length, and its content. All but messages repeat their length inside, so that a false length is
detected and repaired; chunks have a checksum. After unreadable bytes, the next record is searched for. Private records (opcodes from 0x80)
are skipped, and so are additional fields of a record.
"""

import mmap
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from lfdm_ros.bags.storage import MCAP_MAGIC
from lfdm_ros.errors import InputError

HEADER, FOOTER, SCHEMA, CHANNEL, MESSAGE, CHUNK, DATA_END = 1, 2, 3, 4, 5, 6, 0x0F
_PRIVATE = 0x80
_HEAD = struct.Struct("<BQ")
_MESSAGE = struct.Struct("<HIQQ")
# Any opcode with a length below 4 GiB.
_CANDIDATE = re.compile(rb"(?=[\x01-\x0f].{4}\0{4})", re.DOTALL)
_LATEST = 1 << 63  # ns: stamps are signed
_LONGEST_SUMMARY = 64 << 20  # bytes in which the end of data is searched
_ROS2_HEADER = _HEAD.pack(HEADER, 12) + struct.pack("<I4sI", 4, b"ros2", 0)


@dataclass(frozen=True)
class Gap:
    """Lost bytes or messages, with the times [ns] of the messages before and after; None: there is none."""

    size: int
    after: int | None = None
    before: int | None = None


class Range(NamedTuple):
    """Bytes of the file, or of the replacement of damaged chunks."""

    start: int
    end: int
    rewritten: bool = False


@dataclass
class McapSurvey:
    """A file in pieces, ranges or bytes of a few records: of the data section, beginning with the file's header, without the summary. gaps:
    lost parts; doubts: parts read although their checksum does not fit."""

    pieces: list[Range | bytes] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    doubts: list[Gap] = field(default_factory=list)

    def lost(self, start: int) -> str:
        """Describes the losses in one phrase; empty without any. `start`: ns, of the bag: times are given in seconds since then."""
        phrases = [f"{places(self.gaps, start, 'bytes')} lost"] if self.gaps else []
        phrases += [f"{places(self.doubts, start, 'bytes')} do not fit their checksum, values there may be wrong"] if self.doubts else []
        return "; ".join(phrases)


def places(gaps: list[Gap], start: int, items: str) -> str:
    """Describes the size of gaps in `items`, and their places in seconds since `start` [ns]."""
    times = [f"{'the beginning' if gap.after is None else f'{(gap.after - start) / 1e9:.3f}'} and "
             f"{'the end' if gap.before is None else f'{(gap.before - start) / 1e9:.3f} s'}" for gap in gaps]
    more = f" and {len(times) - 3} more places" if len(times) > 3 else ""
    return f"{sum(gap.size for gap in gaps)} {items} between {', between '.join(times[:3])}{more}"


def is_whole(path: Path) -> bool:
    """Checks that a file is intact, the summary and the end included; stops at the first flaw. Raises OSError: it cannot be read."""
    if not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _McapWalk(data).is_whole()


def survey(path: Path, rewritten: Path) -> McapSurvey:
    """Reads the structure of a file, and the content of its chunks for their checksums. `rewritten`: file to create, for the readable part
    of damaged chunks. Raises InputError: it has no channel or no message; OSError: it cannot be read, or `rewritten` not written."""
    size = path.stat().st_size
    if not size:
        raise InputError(f"{path} is empty")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data, rewritten.open("wb") as target:
        return _McapWalk(data, target).survey(path)


class _McapWalk:
    def __init__(self, data: Any, rewritten: BinaryIO | None = None) -> None:
        self._data = data
        self._rewritten = rewritten
        self._size = len(data)
        self._found = McapSurvey()
        self._defined: dict[int, set[int]] = {SCHEMA: set(), CHANNEL: set()}
        self._doubtful: dict[tuple[int, int], bytes] = {}  # definitions in chunks whose checksum does not fit
        self._summary = self._summarised()
        self._open_gap = 0
        self._last: int | None = None  # time of the last message
        self._messages = 0

    def is_whole(self) -> bool:
        data, position, ended = self._data, 8, False
        if data[:8] != MCAP_MAGIC or data[8:9] != bytes([HEADER]):
            return False
        while position < self._size:
            opcode, end = data[position], self._at(position)
            if end is None or (opcode == CHUNK and not self._is_sound(position + 9)):
                return False
            if opcode == FOOTER:
                return ended and data[end:] == MCAP_MAGIC
            if opcode in (SCHEMA, CHANNEL):
                self._defined[opcode].add(_number(data, position + 9))
            elif opcode == MESSAGE and not self._is_defined(position + 9):
                return False
            ended = ended or opcode == DATA_END
            position = end
        return False

    def _is_sound(self, start: int) -> bool:
        """Checks that a chunk is intact: by its checksum if the summary has the channels; else record by record."""
        content, crc = self._content(start)
        if content is None or (crc and zlib.crc32(content) != crc):
            return False
        if crc and self._summary:
            return True
        position = 0
        for opcode, begin, end in chunk_records(content):
            if begin != position or (opcode == MESSAGE and not self._is_defined(begin + 9, content)):
                return False
            if opcode != MESSAGE:
                self._defined[opcode].add(_number(content, begin + 9))
            position = end
        return position == len(content)

    def survey(self, path: Path) -> McapSurvey:
        found, data = self._found, self._data
        begun, ended = data[:8] == MCAP_MAGIC, False
        first = self._at(8) if data[8:9] == bytes([HEADER]) else None
        position = first or (8 if begun else 0)
        # The header only names the writer; its loss does no harm.
        found.pieces += [MCAP_MAGIC, _ROS2_HEADER if first is None else data[8:first]]
        while position < self._size:
            end = self._at(position)
            opcode = data[position]
            if end is None:
                repaired = self._repaired(position)
                if repaired is not None:
                    end, head = repaired
                    self._take(opcode, position + 9, end, head)
                    position = end
                    continue
                after = self._next(position + 1)
                if not ended:  # the summary repeats earlier records
                    self._open_gap += after - position
                position = after
                continue
            if opcode == FOOTER and data[end:end + 8] == MCAP_MAGIC:
                end += 8
            elif opcode == DATA_END:
                ended = True
            elif not ended and opcode != HEADER and opcode < _PRIVATE:
                self._take(opcode, position + 9, end, None)
            position = end
        self._close_gap(None)
        self._add_definitions()
        if found.gaps and not (self._messages and self._defined[CHANNEL]):
            raise InputError(f"{path} has no message that can be read ({self._size} bytes); nothing can be recovered")
        return found

    def _at(self, position: int) -> int | None:
        """Returns the end of the record at a position; None: no record with a consistent length."""
        end = self._end(position)
        if end is None or _fits(self._data, self._data[position], position + 9, end) or self._is_foreign(position, end):
            return end
        return None

    def _exactly_at(self, position: int) -> int | None:
        """Returns the end as `_at` does, only for a record of the specification without further fields."""
        end = self._end(position)
        return end if end is not None and _fits(self._data, self._data[position], position + 9, end) else None

    def _end(self, position: int) -> int | None:
        """Returns the end of the record at a position by its declared length."""
        if position + 9 > self._size:
            return None
        end = int(position + 9 + _HEAD.unpack_from(self._data, position)[1])
        return end if end <= self._size else None

    def _is_foreign(self, position: int, end: int) -> bool:
        """Checks for a record with a private opcode, or with more fields than the known ones. That alone is weak evidence: a record must
        follow."""
        data, opcode, start = self._data, self._data[position], position + 9
        if not (end == self._size or self._exactly_at(end) is not None or data[end:end + 8] == MCAP_MAGIC or (
                data[end] >= _PRIVATE and self._end(end) is not None)):
            return False
        if opcode >= _PRIVATE:  # or a known one with a flipped bit
            unflagged = opcode - _PRIVATE
            return not (_fits(data, unflagged, start, end) and (unflagged != MESSAGE or self._is_defined(start)))
        length = _inner_length(data, opcode, start)
        if length is None or start + length >= end or self._exactly_at(start + length) is not None:
            return False
        # After a hole a true length may end anywhere, on a message within a chunk too.
        return data[end:end + 1] != bytes([MESSAGE]) and (opcode != CHUNK or self._content(start)[0] is not None)

    def _repaired(self, position: int) -> tuple[int, bytes] | None:
        """Returns (end, head) of a record with a false length: its content gives the length again, and a record follows."""
        if position + 9 > self._size:
            return None
        opcode = self._data[position]
        length = _inner_length(self._data, opcode, position + 9)
        if length is None:
            return None
        end = position + 9 + length
        if end > self._size or not _fits(self._data, opcode, position + 9, end) or (end < self._size and self._at(end) is None):
            return None
        return end, _HEAD.pack(opcode, length)

    def _next(self, position: int) -> int:
        """Returns the position of the next record that is followed by another, or by the end of the file."""
        for match in _CANDIDATE.finditer(self._data, position):
            end = self._exactly_at(match.start())
            # A message has no redundancy; its channel must be known, and its time must fit.
            if end is None or (self._data[match.start()] == MESSAGE and not self._is_defined(match.start() + 9)):
                continue
            if end == self._size or self._at(end) is not None or self._data[end:end + 8] == MCAP_MAGIC:
                return match.start()
        return self._size

    def _is_defined(self, start: int, data: Any = None) -> bool:
        channel, _, stamp, sent = _MESSAGE.unpack_from(self._data if data is None else data, start)
        return stamp < _LATEST and sent < _LATEST and (
            channel in self._defined[CHANNEL] or (CHANNEL, channel) in self._doubtful or (CHANNEL, channel) in self._summary
            or not (self._defined[CHANNEL] or self._doubtful or self._summary))

    def _take(self, opcode: int, start: int, end: int, head: bytes | None) -> None:
        pieces: list[Range | bytes] = [Range(start - 9, end)] if head is None else [head, Range(start, end)]
        first = last = None
        if opcode == CHUNK:
            chunk = self._chunk(start)
            if chunk is None:
                self._open_gap += end - start + 9
                return
            replaced, first, last = chunk
            if replaced is not None and self._rewritten is not None:
                place = self._rewritten.tell()
                self._rewritten.write(replaced)
                pieces = [Range(place, place + len(replaced), True)]
        elif opcode == MESSAGE:
            self._messages += 1
            first = last = _MESSAGE.unpack_from(self._data, start)[2]
        elif opcode in (SCHEMA, CHANNEL):
            self._defined[opcode].add(_number(self._data, start))
        if first is not None:
            self._close_gap(first)
            self._last = last
        for piece in pieces:
            before = self._found.pieces[-1]
            if isinstance(piece, Range) and isinstance(before, Range) and (before.end, before.rewritten) == (piece.start, piece.rewritten):
                self._found.pieces[-1] = before._replace(end=piece.end)
            else:
                self._found.pieces.append(piece)

    def _close_gap(self, before: int | None) -> None:
        if self._open_gap:
            self._found.gaps.append(Gap(self._open_gap, self._last, before))
            self._open_gap = 0

    def _summarised(self) -> dict[tuple[int, int], bytes]:
        """Channels and schemas of the summary, by opcode and number: it follows the last end of data."""
        found: dict[tuple[int, int], bytes] = {}
        position = self._data.rfind(_HEAD.pack(DATA_END, 4), max(0, self._size - _LONGEST_SUMMARY))
        while 0 <= position < self._size:
            end = self._at(position)
            if end is None:
                break
            if self._data[position] in (SCHEMA, CHANNEL):
                found[self._data[position], _number(self._data, position + 9)] = self._data[position:end]
            position = end
        return found

    def _add_definitions(self) -> None:
        """Restores channels and schemas lost with their chunk from the summary, before all messages."""
        missing = [(key, record) for key, record in sorted({**self._doubtful, **self._summary}.items())
                   if key[1] not in self._defined[key[0]]]
        for (opcode, number), _ in missing:
            self._defined[opcode].add(number)
        if missing:
            self._found.pieces.insert(2, b"".join(record for _, record in missing))

    def _content(self, start: int) -> tuple[bytes | None, int]:
        """Returns the records of a chunk, None where they cannot be decompressed, and their checksum, 0 without one."""
        size, crc = struct.unpack_from("<QI", self._data, start + 16)
        name_end = start + 32 + int.from_bytes(self._data[start + 28:start + 32], "little")
        length = int.from_bytes(self._data[name_end:name_end + 8], "little")
        return _decompressed(self._data[name_end + 8:name_end + 8 + length], bytes(self._data[start + 32:name_end]), size), crc

    def _chunk(self, start: int) -> tuple[bytes | None, int | None, int | None] | None:
        """Returns (records that replace the chunk, or None where it is intact; first and last time). None: no record can be trusted."""
        content, crc = self._content(start)
        if content is None:
            return None
        whole = trusted = not crc or zlib.crc32(content) == crc
        if not trusted and (mended := _repaired_record(content, crc)) is not None:
            content, trusted = mended, True
        good, doubtful, first, last = [], 0, None, None
        for opcode, begin, finish in chunk_records(content):
            if opcode == MESSAGE:
                stamp = _MESSAGE.unpack_from(content, begin + 9)[2]
                if not self._is_defined(begin + 9, content):
                    continue
                self._messages += 1
                first = stamp if first is None else min(first, stamp)
                last = stamp if last is None else max(last, stamp)
            elif trusted:
                self._defined[opcode].add(_number(content, begin + 9))
            else:
                self._doubtful[opcode, _number(content, begin + 9)] = content[begin:finish]
                doubtful += finish - begin
                continue
            good.append(content[begin:finish])
        records = b"".join(good)
        if len(records) + doubtful < len(content):
            self._open_gap += len(content) - len(records) - doubtful
        if not trusted:
            self._found.doubts.append(Gap(len(records), first, last))
        return (None if whole and len(records) == len(content) else records), first, last


def _number(data: Any, start: int) -> int:
    """Returns the number of a schema or channel."""
    return int.from_bytes(data[start:start + 2], "little")


def chunk_records(content: bytes) -> Iterator[tuple[int, int, int]]:
    """Yields (opcode, start, end) of the records in a chunk; bytes between records are skipped."""
    position = 0
    while position < len(content):
        end = _record_end(content, position)
        if end is not None:
            yield content[position], position, end
            position = end
            continue
        for match in _CANDIDATE.finditer(content, position + 1):
            end = _record_end(content, match.start())
            if end is not None and (end == len(content) or _record_end(content, end) is not None):
                position = match.start()
                break
        else:
            return


def _record_end(content: bytes, position: int) -> int | None:
    """Returns the end of the record at a position in a chunk, or None."""
    if position + 9 > len(content):
        return None
    opcode, length = _HEAD.unpack_from(content, position)
    end = position + 9 + length
    if opcode not in (SCHEMA, CHANNEL, MESSAGE) or end > len(content) or not _fits(content, opcode, position + 9, end):
        return None
    return int(end)


def _repaired_record(content: bytes, crc: int) -> bytes | None:
    """Repairs a chunk in which one record has a false length; the checksum verifies the repair."""
    end = 0
    for _, begin, finish in chunk_records(content):
        if begin > end:
            break
        end = finish
    else:
        begin = len(content)
    mended = content[:end + 1] + struct.pack("<Q", max(0, begin - end - 9)) + content[end + 9:]
    return mended if zlib.crc32(mended) == crc else None


def _fits(data: Any, opcode: int, start: int, end: int) -> bool:
    """Checks that the content of a record agrees with its length."""
    if opcode == MESSAGE:
        return bool(end - start >= 22)
    return _inner_length(data, opcode, start) == end - start


_FIXED = {FOOTER: 20, 0x0E: 17, DATA_END: 4}
# Sizes of numbers, and the lengths of what follows: s a text or bytes, q bytes with a length of eight, a 4 bytes of CRC.
_LAYOUTS: dict[int, tuple[int | str, ...]] = {
    HEADER: ("s", "s"), SCHEMA: (2, "s", "s", "s"), CHANNEL: (4, "s", "s", "s"), CHUNK: (28, "s", "q"), 0x07: (2, "s"),
    0x08: (32, "s", 8, "s", 16), 0x09: (16, "s", "s", "q", 4), 0x0A: (40, "s", "s"), 0x0B: (42, "s"), 0x0C: ("s", "s"), 0x0D: (16, "s")}


def _inner_length(data: Any, opcode: int, start: int) -> int | None:
    """Returns the length of a record from its content; None: no such record, or a message, which has no inner length."""
    if opcode not in _LAYOUTS:
        return _FIXED.get(opcode)
    position = start
    for part in _LAYOUTS[opcode]:
        if isinstance(part, int):
            position += part
            continue
        width = 8 if part == "q" else 4
        if position + width > len(data):
            return None
        position += width + int.from_bytes(data[position:position + width], "little")
        if position > len(data):
            return None
    return position - start


def _decompressed(data: bytes, name: bytes, size: int) -> bytes | None:
    """Returns the records of a chunk; None where they cannot be decompressed."""
    if not name:
        return data if len(data) == size else None
    from rosbags.rosbag2.storage_mcap import DECOMPRESSORS

    try:
        content = DECOMPRESSORS[name.decode()](data, size)
    except Exception:  # of either library, or for an unknown name
        return None
    return content if len(content) == size else None
