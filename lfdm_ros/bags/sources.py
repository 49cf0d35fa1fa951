"""Reads the files of a recording into columns: text, NumPy and topics of bags here, others in `lfdm_ros.bags.formats`."""

import csv
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.highlevel import AnyReader

from lfdm_ros import documents
from lfdm_ros.bags import formats
from lfdm_ros.bags.expressions import Quantity, SourceTable, from_unit
from lfdm_ros.bags.fields import MessageField, find_field, require_numeric
from lfdm_ros.bags.mapping import MappedSource
from lfdm_ros.bags.mapping_keys import ISO_8601, RECORDED
from lfdm_ros.bags.reader import has_header, open_bag, stamp_of
from lfdm_ros.bags.typestore import require_type, typestore
from lfdm_ros.errors import InputError, suggest


def read_table(source: MappedSource, path: Path | None, mapping: Path) -> SourceTable:
    """Reads the file of a source, or the table written in the mapping. `mapping`: the mapping file, to which paths are relative. Raises
    InputError: the file is missing, empty or broken, with its line; or its reader is not installed."""
    if path is None:
        assert source.table is not None and source.names is not None
        values = np.array(source.table, dtype=float)
        return SourceTable(f"{source.where}.table", dict(zip(source.names, values.T)), len(values), None)
    try:
        return READERS[source.format](source, path, *([mapping] if source.format == "can" else []))
    except FileNotFoundError:
        raise InputError(f"{source.where}: no file {path}") from None
    except OSError as error:
        raise InputError(f"{source.where}: cannot read {path}: {error.strerror or error}") from None


def declared_columns(source: MappedSource, table: SourceTable, warn: Callable[[str], None]) -> dict[str, Quantity]:
    """Returns the columns that the mapping declares, in SI units. Optional columns that are absent are NaN, and so are values outside their
    range. `warn`: called with a line for each column with values outside its range. Raises InputError: a column is missing, or has a value
    that is not finite."""
    result = {}
    for column in source.columns:
        where = f"{source.where}.columns.{column.name}"
        if column.column not in table.columns:
            if not column.optional:
                raise InputError(f"{where}: {table.where} has no column '{column.column}'"
                                 f"{suggest(column.column, table.columns, 'it has ')}")
            values = np.full(table.rows, math.nan)
        else:
            values = table.columns[column.column]
            bad = np.flatnonzero(~np.isfinite(values))
            if bad.size and not column.allow_nan:
                raise InputError(f"{table.place(int(bad[0]))}: column '{column.column}' is {values[bad[0]]}"
                                 f"; correct it, or declare the column with allow_nan: true where gaps are meant")
            if column.range is not None:
                outside = np.flatnonzero((values < column.range[0]) | (values > column.range[1]))
                if outside.size:
                    first = f"{values[outside[0]]:g} {column.unit}"
                    warn(f"{table.place(int(outside[0]))}: column '{column.column}' is {first}; {outside.size} of {len(values)} values lie "
                         "outside its range and are left out")
                    values = np.where(np.isin(np.arange(len(values)), outside), math.nan, values)
        result[column.name] = from_unit(values, column.unit)
    return result


def check_time(time: np.ndarray, table: SourceTable) -> None:
    """Raises InputError where time is negative or does not increase."""
    if time[0] < 0.0:
        raise InputError(f"{table.place(0)}: time begins at {time[0]:g} s; a message cannot have a negative stamp")
    wrong = np.flatnonzero(np.diff(time) <= 0.0)
    if wrong.size:
        row = int(wrong[0]) + 1
        fault = "stands still at" if time[row] == time[row - 1] else f"runs backwards, from {time[row - 1]:.9g} to"
        raise InputError(f"{table.place(row)}: time {fault} {time[row]:.9g} s; stamps must increase: correct them, or give the source "
                         "sort: true")


def in_order(time: np.ndarray) -> np.ndarray:
    """Returns the row indices (m,) sorted by time; of rows with equal stamps the last, and none with a negative stamp."""
    order = np.argsort(time, kind="stable")
    return order[np.append(np.diff(time[order]) > 0.0, True) & (time[order] >= 0.0)]


def _read_csv(source: MappedSource, path: Path) -> SourceTable:
    where = str(path)
    lines: list[int] = []
    rows: list[list[str]] = []
    comment: list[str] = []  # the last comment before the first row
    try:
        with path.open(encoding=source.encoding, newline="") as file:
            content = file if not source.skip_lines else (
                "\n" if any(first <= number <= last for first, last in source.skip_lines) else line for number, line in enumerate(file, 1))
            if source.delimiter == "whitespace":
                records = ((number, line.split()) for number, line in enumerate(content, 1))
            else:
                reader = csv.reader(content, delimiter=source.delimiter, strict=True)
                records = ((reader.line_num, record) for record in reader)
            for number, record in records:
                if not any(cell.strip() for cell in record):
                    continue
                if record[0].lstrip().startswith("#"):
                    comment = comment if rows else record
                    continue
                lines.append(number)
                rows.append(record)
    except UnicodeError:
        name = source.encoding.removesuffix("-sig")
        raise InputError(f"{where} is not a text file in {name}; write its encoding in {source.where}.encoding, such as latin-1, which "
                         "takes anything") from None
    except csv.Error as error:
        raise InputError(f"{where}, line {reader.line_num}: {error}") from None
    if source.transpose:
        return _transposed(source, where, rows, lines)
    if source.names is not None:
        names = list(source.names)
    else:
        if not rows:
            raise InputError(f"{where} is empty")
        names = [cell.strip() for cell in rows[0]]
        if not all(documents.is_number(name.replace(source.decimal, ".")) for name in names if name):
            rows, lines = rows[1:], lines[1:]
        elif len(header := _of_comment(comment)) == len(rows[0]):
            names = header
        else:
            raise InputError(f"{where} has no header in line 1; list its columns in {source.where}.names")
    if not rows:
        raise InputError(f"{where} has no rows")
    trailing = not names[-1]  # header and rows may end in a delimiter
    if trailing:
        names = names[:-1]
    if len(set(names)) != len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise InputError(f"{where} has two columns '{twice}'")
    for index, (number, row) in enumerate(zip(lines, rows)):
        if len(row) == len(names) + 1 and not row[-1].strip():
            rows[index] = row[:-1]
        elif len(row) != len(names):
            raise InputError(f"{where}, line {number}: {len(row)} columns where {len(names)} are expected"
                             f"{'; leave out what is no table by skip_lines' if index == 0 else ''}")
    if not any(_number(cell, source, False) is not None for cell in rows[0]):
        raise InputError(f"{where}, line {lines[0]} has no number; leave it out by skip_lines: [{lines[0]}] if it holds units or texts")
    return SourceTable(where, {name: _values(column, name, source, where, lines) for name, column in zip(names, zip(*rows))}, len(rows),
                       lines)


def _of_comment(record: list[str]) -> list[str]:
    """Returns the names in a line that begins with # and may be a header."""
    return [name for i, cell in enumerate(record) if (name := cell.strip() if i else cell.strip().lstrip("# \t"))]


def _transposed(source: MappedSource, where: str, rows: list[list[str]], lines: list[int]) -> SourceTable:
    if source.names is None or len(source.names) != len(rows):
        raise InputError(f"{where} has {len(rows)} rows; {source.where}.names must list as many columns")
    columns = {}
    for name, number, row in zip(source.names, lines, rows):
        if len(row) != len(rows[0]):
            raise InputError(f"{where}, line {number}: {len(row)} values where line {lines[0]} has {len(rows[0])}")
        columns[name] = _values(row, name, source, where, [number] * len(row))
    return SourceTable(where, columns, len(rows[0]), None)


def _values(cells: Sequence[str], name: str, source: MappedSource, where: str, lines: Sequence[int]) -> np.ndarray:
    """Returns the numbers of a column (n,), at lines (n,), NaN where one may be missing; a column that is not declared, which may hold
    texts, is all NaN. Raises InputError: a cell that is not a number."""
    declared = [column for column in source.columns if column.column == name]
    if not declared:
        return np.full(len(cells), math.nan)
    dated, gaps = any(column.dated for column in declared), all(column.allow_nan for column in declared)
    if not dated and source.decimal == ".":  # fast path for large files
        with suppress(ValueError):
            return np.array(list(map(float, cells)))
    values = [math.nan if gaps and not cell.strip() else _number(cell, source, dated) for cell in cells]
    if None not in values:
        return np.array(values)
    row = values.index(None)
    cell, hint = cells[row].strip(), ""
    if documents.is_number(cell.replace(",", ".")):
        hint = '; write decimal: "," where the comma separates decimals'
    elif _number(cell, source, True) is not None:
        hint = f"; write the unit {ISO_8601} for dates with a time"
    found = f"{cell!r}, not a {'date with a time' if dated else 'number'}{hint}" if cell else "empty"
    raise InputError(f"{where}, line {lines[row]}: column '{name}'{f', value {row + 1},' if source.transpose else ''} is {found}")


def _number(cell: str, source: MappedSource, dated: bool) -> float | None:
    """Returns the number in a cell; for a date the seconds since 1970."""
    try:
        if not dated:
            return float(cell if source.decimal == "." else cell.replace(",", "."))
        date = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", cell.strip()))
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=timezone.utc)).timestamp()


def _read_npy(source: MappedSource, path: Path) -> SourceTable:
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{path} is no readable NumPy array: {error}") from None
    if not isinstance(array, np.ndarray) or array.ndim not in (1, 2) or array.dtype.kind not in "fiub":
        raise InputError(f"{path} must be one array of numbers, of one or two dimensions")
    columns = np.atleast_2d(array if source.transpose else array.T)
    if source.names is None or len(source.names) != len(columns):
        raise InputError(f"{path} has {len(columns)} columns; {source.where}.names must list as many")
    return SourceTable(str(path), dict(zip(source.names, columns.astype(float))), columns.shape[1], None)


@dataclass(frozen=True)
class _Messages:
    """Messages of one topic: a typestore with their type, the type, and each message with its time of recording [ns]."""

    store: Any
    type: str
    each: Iterator[tuple[int, Any]]


def read_topic(source: MappedSource, path: Path) -> SourceTable:
    """Reads the mapped fields of a topic with the times of the messages. Raises InputError: no readable bag, no such topic or field, or a
    field that is not numeric."""
    if not path.exists():
        raise FileNotFoundError(path)
    where = f"{path}: {source.topic}"
    with (_ros1 if path.suffix == ".bag" else _ros2)(path, source.topic) as messages:
        leaves: dict[str, MessageField] = {}
        for column in source.columns:
            try:
                leaves[column.column] = find_field(messages.store, messages.type, column.column, where)
            except InputError:
                if not column.optional:
                    raise
                continue
            require_numeric(leaves[column.column], where)
        readers = [leaf.reader() for leaf in leaves.values()]
        by_header = source.clock.stamp != RECORDED and has_header(messages.store, messages.type)
        stamps: list[int] = []
        rows: list[list[float]] = []
        for recorded, message in messages.each:
            try:
                rows.append([read(message) for read in readers])
            except IndexError:
                short = ", ".join(name for name in leaves if "[" in name)
                raise InputError(f"{where}: message {len(rows)} is too short for {short}") from None
            stamps.append((stamp_of(message) or recorded) if by_header else recorded)
    if not rows:
        raise InputError(f"{where} has no messages")
    values = np.array(rows, dtype=float).reshape(len(rows), len(leaves))
    return SourceTable(where, dict(zip(leaves, values.T)), len(rows), None, np.array(stamps, dtype=np.int64) / 1e9)


@contextmanager
def _ros2(path: Path, topic: str) -> Iterator[_Messages]:
    with open_bag(path) as bag:
        connections = bag.select(topic)
        msgtype = connections[0].msgtype
        if msgtype in bag.typestore.fielddefs:
            yield _Messages(bag.typestore, msgtype, ((recorded, bag.decode(cdr, msgtype)) for _, recorded, cdr in bag.raw(connections)))
            return
        require_type(msgtype)  # bags without definitions
        store = typestore()
        yield _Messages(store, msgtype, ((recorded, store.deserialize_cdr(cdr, msgtype)) for _, recorded, cdr in bag.raw(connections)))


@contextmanager
def open_ros1(path: Path) -> Iterator[AnyReader]:
    """Opens a bag of ROS 1. Raises InputError: it cannot be read."""
    try:
        reader = AnyReader([path])
        reader.open()
    except Exception as error:  # a broken file raises anything in the layers below
        raise InputError(f"{path} is no readable bag of ROS 1: {error}; `rosbag reindex` mends one that was not closed") from None
    try:
        yield reader
    finally:
        reader.close()


@contextmanager
def _ros1(path: Path, topic: str) -> Iterator[_Messages]:
    with open_ros1(path) as reader:
        found = [c for c in reader.connections if c.topic.lstrip("/") == topic.lstrip("/")]
        if not found:
            available = sorted({c.topic for c in reader.connections})
            raise InputError(f"{path} has no topic '{topic}'{suggest(topic, available, 'it has ')}")
        if len({c.msgtype for c in found}) > 1:
            raise InputError(f"{path}: topic '{topic}' has messages of several types: {', '.join(sorted({c.msgtype for c in found}))}")
        yield _Messages(reader.typestore, found[0].msgtype, (
            (recorded, reader.deserialize(raw, connection.msgtype)) for connection, recorded, raw in reader.messages(connections=found)))


# By the names of `mapping_keys.FORMATS`; that of CAN logs takes the mapping file, too.
READERS: dict[str, Callable[..., SourceTable]] = {
    "csv": _read_csv, "mat": formats.read_mat, "npy": _read_npy, "parquet": formats.read_parquet, "mdf": formats.read_mdf,
    "can": formats.read_can, "bag": read_topic}
