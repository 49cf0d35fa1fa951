"""Turns a recording in files into a bag, by a mapping file; see `lfdm_ros.bags.mapping` for its language."""

import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_ros.bags import expressions
from lfdm_ros.bags.expressions import Quantity, SourceTable, in_unit
from lfdm_ros.bags.fields import NamedElement, Step, follow
from lfdm_ros.bags.mapping import ANGLES, MappedSource, MappingFile, Topic, load_mapping
from lfdm_ros.bags.reader import is_bag_folder
from lfdm_ros.bags.sources import check_time, declared_columns, in_order, read_table
from lfdm_ros.bags.typestore import new_message, typestore
from lfdm_ros.bags.writer import BagWriter
from lfdm_ros.errors import InputError, prefixing
from lfdm_ros.files import content_digest

Warn = Callable[[str], None]

TURN = 2.0 * np.pi  # [rad]
MIN_WRAP = 0.9  # minimum jump of a wrapping heading between two rows, in turns


@dataclass(frozen=True)
class _Loaded:
    where: str
    time: np.ndarray
    columns: dict[str, Quantity]
    wraps: Mapping[str, bool | None]  # columns that wrap by a turn; None: an angle without `wraps` in the mapping

    def at(self, time: np.ndarray, column: str) -> Quantity:
        """Interpolates a column linearly at other times; one that wraps takes the short direction. Raises InputError: an angle looks like a
        heading that wraps, and the mapping lacks `wraps`."""
        quantity, wraps = self.columns[column], self.wraps[column]
        if wraps is None:
            self._refuse_wrapped(column)
        values = expressions.unwrap(quantity.values) if wraps else quantity.values
        return Quantity(np.interp(time, self.time, values), quantity.dimension)

    def _refuse_wrapped(self, column: str) -> None:
        finite = np.isfinite(self.columns[column].values)
        values, time = self.columns[column].values[finite], self.time[finite]
        if not values.size or np.ptp(values) > TURN:
            return  # a heading that wraps stays within a turn
        jumps = np.flatnonzero(np.abs(np.diff(values)) > MIN_WRAP * TURN)
        if jumps.size:
            row = int(jumps[0])
            raise InputError(f"{self.where}.columns.{column} jumps from {values[row]:.4g} to {values[row + 1]:.4g} rad at t = "
                             f"{time[row + 1]:.6g} s: write wraps: true for a heading, which then goes the short way round between two "
                             "rows, or wraps: false for an angle that is as it is, such as a hand wheel's")


@dataclass(frozen=True)
class _Filled:
    """One topic, ready to write: (n,) stamps, and for each leaf (field, values)."""

    topic: Topic
    stamps: np.ndarray
    leaves: list[tuple[Any, np.ndarray]]


class _Absent(Exception):
    """Raised for a source that this recording lacks."""


def import_recording(source: str | Path, mapping: str | Path, out: str | Path, recording: str | None = None, storage: str = "mcap",
                     warn: Warn | None = None) -> dict[str, int]:
    """Writes a recording to a new bag. Creates either the whole bag at `out` or nothing.

    `source`: the recording's main file, or its folder; `mapping`: a mapping file; `out`: folder to create; `recording`: name of the
    recording, by default the stem of `source`, needed where that is a folder with several; `storage`: "mcap" or "sqlite3"; `warn`: called
    with one line for each omitted optional part, and for values outside the range of their column. Returns the messages written, by topic.
    Raises InputError: names file, line, key or field; nothing remains at `out`.
    """
    out, path = Path(out), Path(source)
    if out.exists():
        raise InputError(f"{out} exists already; choose another path or remove it")
    warn = warn or (lambda line: None)
    rules = load_mapping(mapping)
    reader = _Files(rules, path, recording, warn)
    filled, left_out = [], []
    for topic in rules.topics:
        try:
            filled.append(_fill(topic, rules, reader))
        except _Absent as reason:
            left_out.append(f"{topic.name} is left out: {reason}")
    for line in left_out:
        warn(line)
    if not filled:
        raise InputError(f"{source}: nothing to import; {'; '.join(left_out)}")
    first = min(int(t.stamps[0]) for t in filled)
    with prefixing(f"cannot write {out}", OSError):
        out.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        custom = {"between_rows": rules.between_rows, "mapping": rules.path.name, "sources": reader.digests()}
        with BagWriter(scratch / out.name, storage, reader.recording, 0 if rules.time_origin == "keep" else first, custom) as writer:
            for topic, stamp, cdr in _messages(filled):
                writer.write_raw(topic.name, topic.type, stamp, cdr)
        os.rename(scratch / out.name, out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return {t.topic.name: len(t.stamps) for t in filled}


def recordings_in(source: str | Path, mapping: str | Path) -> list[Path]:
    """Lists the recordings to import: the main files or bags of a folder, by name; else `source`. Raises InputError: the mapping is
    invalid, or needs a file named after the recording, and the folder has none."""
    path, rules = Path(source), load_mapping(mapping)
    main = rules.source(rules.main, path.stem)
    template = main.file or ""
    if not path.is_dir() or is_bag_folder(path) or "{recording}" not in template:
        return [path]
    found = _named_so(path, rules, template)
    if not found:
        suffixes = Counter(one.suffix or "no suffix" for one in path.iterdir() if one.is_file())
        has = ", ".join(f"{count} with {suffix}" for suffix, count in suffixes.most_common(3)) or "none"
        raise InputError(f"{path} has no recording: {main.where}.file is {template}, and the folder's files are {has}; write there how "
                         "its files are called, or give one file")
    return found


def _named_so(folder: Path, rules: MappingFile, template: str) -> list[Path]:
    """Lists the recordings of a folder that a template matches, without the further files of a recording, which other sources name."""
    found = [one for one in sorted(folder.glob(template.replace("{recording}", "*"))) if one.is_file() or is_bag_folder(one)]
    others = {other for name in rules.source_items if (other := rules.source(name, "").file) and "{recording}" in other} - {template}
    further = {folder / other.replace("{recording}", one.stem) for one in found for other in others}
    return [one for one in found if one not in further]


class _Files:
    """The sources of one recording, each read once."""

    def __init__(self, rules: MappingFile, source: Path, recording: str | None, warn: Warn) -> None:
        self._rules, self._warn = rules, warn
        self._loaded: dict[str, _Loaded] = {}
        self._read: dict[str, Path] = {}
        if not source.exists():
            raise InputError(f"no file or folder {source}")
        main = rules.source(rules.main, recording or source.stem)
        template = main.file or ""
        self._main: Path | None = None
        self._template = ""  # of the files that are SOURCE itself
        if main.format == "bag" and is_bag_folder(source):
            self.folder, self.recording = source.parent, recording or source.resolve().name
            self._main, self._template = source, template
        elif source.is_file():
            self.folder = source.parent
            self.recording = recording or source.stem
            if "{recording}" in template:
                self._main, self._template = source, template
            else:
                files = sorted(file for name in rules.source_items if (file := rules.source(name, self.recording).file))
                if source.name not in files:
                    raise InputError(f"{source} is not a file that {rules.path} reads; it reads {', '.join(files) or 'none'}")
                self.recording = recording or source.resolve().parent.name
        else:
            self.folder = source
            self.recording = recording or source.resolve().name
            if "{recording}" in template and recording is None:
                names = [one.stem for one in _named_so(source, rules, template)]
                raise InputError(f"{source} is a folder; give one of its files, or --recording with one of: "
                                 f"{', '.join(names) or f'none here is called {template}'}")

    def get(self, name: str) -> _Loaded:
        """Reads a source. Raises _Absent when it is optional and not there."""
        if name not in self._loaded:
            self._loaded[name] = self._load(self._rules.source(name, self.recording))
        return self._loaded[name]

    def digests(self) -> str:
        files = {path: [path] if path.is_file() else sorted(p for p in path.iterdir() if p.is_file()) for path in self._read.values()}
        return ", ".join(f"{path.name} sha256:{content_digest(contents)}" for path, contents in files.items())

    def _load(self, source: MappedSource) -> _Loaded:
        path = None
        if source.file is not None:
            main = self._main if source.file == self._template else None
            path = main or self.folder / source.file.replace("{recording}", self.recording)
            if source.optional and not path.exists():
                raise _Absent(f"no file {path}")
        elif source.table is None:
            raise (_Absent if source.optional else InputError)(f"{source.where} names no file for the recording '{self.recording}'")
        table = read_table(source, path, self._rules.path)
        columns = declared_columns(source, table, self._warn)
        time = self._time(source, table, columns)
        if source.sort:
            order = in_order(time)
            time, columns = time[order], {name: Quantity(q.values[order], q.dimension) for name, q in columns.items()}
        else:
            check_time(time, table)
        if path is not None:
            self._read[source.name] = path
        return _Loaded(source.where, time + source.clock.offset, columns, {
                column.name: column.wraps if column.wraps is not None or column.unit in ANGLES else False for column in source.columns})

    def _time(self, source: MappedSource, table: SourceTable, columns: dict[str, Quantity]) -> np.ndarray:
        clock = source.clock
        if clock.stamp is not None:
            assert table.time is not None  # which formats with times of their own give
            return table.time
        if clock.column is not None:
            try:
                return in_unit(columns[clock.column], "s")
            except ValueError as error:
                raise InputError(f"{source.where}.time: column '{clock.column}' is {error}") from None
        if clock.rate is not None:
            return clock.start + np.arange(table.rows) / clock.rate
        assert clock.source is not None
        if clock.source == source.name:
            raise InputError(f"{source.where}.time: a source cannot take its times from itself")
        time = self.get(clock.source).time
        last = clock.first_row + table.rows
        if last > len(time):
            raise InputError(f"{table.where} has {table.rows} samples from row {clock.first_row} on, but source {clock.source} "
                             f"ends at row {len(time) - 1}")
        return time[clock.first_row:last]


def _fill(topic: Topic, rules: MappingFile, files: _Files) -> _Filled:
    table = files.get(topic.source)
    time = table.time
    gaps: list[bool] = []  # for columns used in expressions

    def lookup(name: str) -> Quantity:
        if name in table.columns:
            found = table.columns[name]
        elif name in rules.constants:
            found = rules.constants[name]
        else:
            other, column = name.split(".")
            found = files.get(other).at(time, column)
        gaps.append(not np.isfinite(found.values).all())
        return found

    leaves = []
    for leaf, text, tree in topic.fields:
        where = f"{topic.where}.fields.{leaf.path}"
        gaps.clear()
        try:
            quantity = expressions.evaluate(tree, time, lookup)
            values = np.asarray(quantity.values, dtype=float) if leaf.unit is None else in_unit(quantity, leaf.unit)
        except InputError:  # of a source
            raise
        except ValueError as error:
            raise InputError(f"{where}: '{text}' does not fit: {error}") from None
        values = np.broadcast_to(values, time.shape)
        meant = any(gaps) or re.search(r"\bnan\b", text) is not None
        wrong = np.flatnonzero(np.isinf(values) if meant else ~np.isfinite(values))
        if wrong.size:
            raise InputError(f"{where}: '{text}' is {values[wrong[0]]:g} at t = {time[wrong[0]]:.6g} s, and in {wrong.size} of {len(time)} "
                             "rows, of columns that are finite; write nan there by where(condition, a, b) if it is missing")
        if leaf.base not in ("float32", "float64") and not np.all(values == np.round(values)):
            raise InputError(f"{where}: '{text}' must be whole numbers for a field of type {leaf.base}")
        leaves.append((leaf, values))
    rows: np.ndarray = np.flatnonzero(time >= 0.0)  # an offset may take the first below, where there are no stamps
    if topic.only_changes_of is not None:
        deciding = np.asarray(table.columns[topic.only_changes_of].values)
        rows = np.intersect1d(rows, np.flatnonzero((deciding[1:] != deciding[:-1]) & np.isfinite(deciding[1:])) + 1)
    if not rows.size or not any(np.isfinite(values[rows]).any() for _, values in leaves):
        raise _Absent("the recording has none of its values")
    seconds = np.floor(time[rows])
    stamps = seconds.astype(np.int64) * 1_000_000_000 + np.round((time[rows] - seconds) * 1e9).astype(np.int64)
    return _Filled(topic, stamps, [(leaf, values[rows]) for leaf, values in leaves])


def _messages(filled: list[_Filled]) -> Iterator[tuple[Topic, int, bytes]]:
    streams = [_serialised(f) for f in filled]
    owner = np.concatenate([np.full(len(f.stamps), i) for i, f in enumerate(filled)])
    stamps = np.concatenate([f.stamps for f in filled])
    for index in np.argsort(stamps, kind="stable"):
        stream = int(owner[index])
        yield filled[stream].topic, int(stamps[index]), next(streams[stream])


def _serialised(filled: _Filled) -> Iterator[bytes]:
    """Serialises each message of one topic to CDR. One message object is reused for all."""
    topic, store = filled.topic, typestore()
    message = new_message(topic.type, float("nan") if topic.type.startswith("lfdm_ros/") else 0.0)
    for leaf, text in topic.text:
        setattr(_owner(message, leaf.steps), str(leaf.steps[-1]), text)
    targets: list[tuple[Any, str | int, Any]] = []
    _make_room(message, [leaf.steps for leaf, _ in filled.leaves])
    for leaf, values in filled.leaves:
        kind = bool if leaf.base == "bool" else float if leaf.base in ("float32", "float64") else int
        column: Any = values.astype(kind).tolist()
        owner, last = _owner(message, leaf.steps), leaf.steps[-1]
        if isinstance(last, NamedElement):
            owner, last = getattr(owner, last.array), getattr(owner, last.names).index(last.name)
        targets.append((owner, last, column))
    stamp = message.header.stamp if hasattr(message, "header") else None
    for row, time in enumerate(filled.stamps.tolist()):
        for owner, last, column in targets:
            if isinstance(last, int):
                owner[last] = column[row]
            else:
                setattr(owner, last, column[row])
        if stamp is not None:
            stamp.sec, stamp.nanosec = divmod(time, 1_000_000_000)
        yield bytes(store.serialize_cdr(message, topic.type))


def _make_room(message: Any, paths: list[tuple[Step, ...]]) -> None:
    """Gives a message the names that paths lead to, in their order, and the arrays by these names a NaN for each."""
    places = [(_owner(message, steps), last) for steps in paths if isinstance(last := steps[-1], NamedElement)]
    for owner, place in places:
        names = getattr(owner, place.names)
        if place.name not in names:
            names.append(place.name)
    for owner, place in places:
        setattr(owner, place.array, np.full(len(getattr(owner, place.names)), np.nan))


def _owner(message: Any, steps: tuple[Step, ...]) -> Any:
    return reduce(follow, steps[:-1], message)
