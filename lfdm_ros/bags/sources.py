"""Reads the files of a recording into columns: CSV, MATLAB 5 and NumPy."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lfdm_ros.bags.fields import suggest
from lfdm_ros.bags.mapping import Source
from lfdm_ros.bags.quantities import Quantity, from_unit
from lfdm_ros.errors import InputError


@dataclass(frozen=True)
class Table:
    """What a file holds.

    Attributes:
        where: the file, for errors.
        columns: name in the file -> (n,) values as written.
        rows: n.
        lines: (n,) line numbers, or None where the file has no lines, or one for each column.
    """

    where: str
    columns: Mapping[str, np.ndarray]
    rows: int
    lines: Sequence[int] | None

    def place(self, row: int) -> str:
        """Where a row is, for errors."""
        return f"{self.where}, line {self.lines[row]}" if self.lines is not None else f"{self.where}, sample {row}"


def read_table(source: Source, path: Path | None) -> Table:
    """Reads the file of a source, or the table written in the mapping.

    Raises:
        InputError: the file is missing, empty or broken; the message names the line.
    """
    if path is None:
        assert source.table is not None and source.names is not None
        values = np.array(source.table, dtype=float)
        return Table(f"{source.where}.table", dict(zip(source.names, values.T)), len(values), None)
    try:
        if source.format == "mat":
            return _read_mat(path)
        if source.format == "npy":
            return _read_npy(source, path)
        return _read_csv(source, path)
    except FileNotFoundError:
        raise InputError(f"{source.where}: no file {path}") from None
    except OSError as error:
        raise InputError(f"{source.where}: cannot read {path}: {error.strerror or error}") from None


def declared_columns(source: Source, table: Table) -> dict[str, Quantity]:
    """The columns that the mapping declares, in SI units. Optional columns that are absent are NaN.

    Raises:
        InputError: a column is not there, or has a value that is not finite.
    """
    result = {}
    for column in source.columns:
        where = f"{source.where}.columns.{column.name}"
        if column.column not in table.columns:
            if not column.optional:
                raise InputError(f"{where}: {table.where} has no column '{column.column}'{suggest(column.column, table.columns)}; "
                                 f"it has {', '.join(table.columns)}")
            values = np.full(table.rows, math.nan)
        else:
            values = table.columns[column.column]
            bad = np.flatnonzero(~np.isfinite(values))
            if bad.size and not column.allow_nan:
                raise InputError(f"{table.place(int(bad[0]))}: column '{column.column}' is {values[bad[0]]}"
                                 f"; correct it, or declare the column with allow_nan: true where gaps are meant")
        result[column.name] = from_unit(values, column.unit)
    return result


def check_time(time: np.ndarray, table: Table) -> None:
    """Raises InputError where time is negative, stands still or runs backwards."""
    if time[0] < 0.0:
        raise InputError(f"{table.place(0)}: time begins at {time[0]:g} s; a message cannot have a negative stamp")
    wrong = np.flatnonzero(np.diff(time) <= 0.0)
    if wrong.size:
        row = int(wrong[0]) + 1
        what = "stands still at" if time[row] == time[row - 1] else f"runs backwards, from {time[row - 1]:.9g} to"
        raise InputError(f"{table.place(row)}: time {what} {time[row]:.9g} s; stamps must increase")


def _read_csv(source: Source, path: Path) -> Table:
    where = str(path)
    lines: list[int] = []
    rows: list[list[str]] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            if source.delimiter == "whitespace":
                records = ((number, line.split()) for number, line in enumerate(file, 1))
            else:
                reader = csv.reader(file, delimiter=source.delimiter, strict=True)
                records = ((reader.line_num, record) for record in reader)
            for number, record in records:
                if not any(cell.strip() for cell in record) or record[0].lstrip().startswith("#"):
                    continue
                lines.append(number)
                rows.append(record)
    except UnicodeDecodeError:
        raise InputError(f"{where} is not a text file in UTF-8") from None
    except csv.Error as error:
        raise InputError(f"{where}, line {reader.line_num}: {error}") from None
    if source.transpose:
        return _transposed(source, where, rows, lines)
    if source.names is not None:
        names = list(source.names)
    else:
        if not rows:
            raise InputError(f"{where} is empty")
        names, lines = [cell.strip() for cell in rows.pop(0)], lines[1:]
        if all(_is_number(name) for name in names if name):
            raise InputError(f"{where} has no header in line 1; list its columns in {source.where}.names")
    if not rows:
        raise InputError(f"{where} has no rows")
    trailing = not names[-1]  # header and rows may end in a delimiter
    if trailing:
        names = names[:-1]
    if len(set(names)) != len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise InputError(f"{where} has two columns '{twice}'")
    values = np.empty((len(rows), len(names)))
    for index, (number, row) in enumerate(zip(lines, rows)):
        if len(row) == len(names) + 1 and not row[-1].strip():
            row = row[:-1]
        if len(row) != len(names):
            raise InputError(f"{where}, line {number}: {len(row)} columns where {len(names)} are expected")
        values[index] = _numbers(row, names, f"{where}, line {number}")
    return Table(where, dict(zip(names, values.T)), len(rows), lines)


def _transposed(source: Source, where: str, rows: list[list[str]], lines: list[int]) -> Table:
    if source.names is None or len(source.names) != len(rows):
        raise InputError(f"{where} has {len(rows)} rows; {source.where}.names must list as many columns")
    columns = {}
    for name, number, row in zip(source.names, lines, rows):
        if len(row) != len(rows[0]):
            raise InputError(f"{where}, line {number}: {len(row)} values where line {lines[0]} has {len(rows[0])}")
        columns[name] = np.array(_numbers(row, [f"value {i + 1}" for i in range(len(row))], f"{where}, line {number}"))
    return Table(where, columns, len(rows[0]), None)


def _numbers(row: list[str], names: Sequence[str], where: str) -> list[float]:
    try:
        return list(map(float, row))
    except ValueError:
        name, cell = next((n, c) for n, c in zip(names, row) if not _is_number(c))
        raise InputError(f"{where}: column '{name}' is {'empty' if not cell.strip() else repr(cell.strip()) + ', not a number'}") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_mat(path: Path) -> Table:
    from scipy.io import loadmat

    try:
        content = loadmat(path)
    except NotImplementedError:
        raise InputError(f"{path} is a MATLAB 7.3 file; save it with save('-v7')") from None
    except FileNotFoundError:
        raise
    except Exception as error:  # a broken file raises whatever its bytes provoke
        raise InputError(f"{path} is no readable MATLAB file: {error}") from None
    vectors = {name: np.asarray(value, dtype=float).ravel() for name, value in content.items()
               if not name.startswith("__") and isinstance(value, np.ndarray) and value.dtype.kind in "fiub" and value.size > 1}
    lengths = {len(value) for value in vectors.values()}
    if len(lengths) != 1:
        raise InputError(f"{path}: its numeric variables must be vectors of one length; there are "
                         f"{', '.join(f'{n} ({len(v)})' for n, v in vectors.items()) or 'none'}")
    return Table(str(path), vectors, lengths.pop(), None)


def _read_npy(source: Source, path: Path) -> Table:
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{path} is no readable NumPy array: {error}") from None
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind not in "fiub":
        raise InputError(f"{path} must be one two-dimensional array of numbers")
    columns = array if source.transpose else array.T
    if source.names is None or len(source.names) != len(columns):
        raise InputError(f"{path} has {len(columns)} columns; {source.where}.names must list as many")
    return Table(str(path), dict(zip(source.names, columns.astype(float))), columns.shape[1], None)
