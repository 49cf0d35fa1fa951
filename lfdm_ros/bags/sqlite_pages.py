"""Rows of a damaged SQLite file, page by page (https://sqlite.org/fileformat.html): all that is not in a damaged page.

Rows of a table are in its leaf pages, each of which says by itself where its rows begin; a row that does not fit goes on in overflow
pages. Neither the tree above nor the schema is needed: the tables of a bag differ by their columns. SQLite has no checksums, so
that a changed byte within a value cannot be visited.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LEAF = 0x0D
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # serial type: bytes
Row = tuple[int, list[Any]]


def rows(path: Path, page_size: int) -> Iterator[Row]:
    """Yields (rowid, values) of all readable rows in leaf pages, in the order of the pages; the value of the primary key is None."""
    if path.stat().st_size < page_size:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        yield from _rows(content, page_size)


def _rows(content: mmap.mmap, page_size: int) -> Iterator[Row]:
    for number in range(len(content) // page_size):
        page = content[number * page_size:(number + 1) * page_size]
        start = 100 if number == 0 else 0  # the file's own header
        if page[start] != _LEAF:
            continue
        count = struct.unpack_from(">H", page, start + 3)[0]
        for i in range(min(count, (page_size - start - 8) // 2)):
            place = struct.unpack_from(">H", page, start + 8 + 2 * i)[0]
            try:
                yield _row(content, page, place, page_size)
            except (IndexError, ValueError, struct.error):  # this one is damaged
                continue


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
    if kind < 12:  # a float, which bags do not have, or a kind that is reserved
        raise ValueError
    end = position + (kind - 12) // 2
    data = payload[position:end]
    return (data if kind % 2 == 0 else data.decode()), end


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for i in range(9):
        byte = data[position + i]
        if i == 8:
            return (value << 8) | byte, position + 9
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            return value, position + i + 1
    raise ValueError
