"""Mapping files: assign columns of files to fields of topics.

    sources:
      log:
        file: "{recording}.csv"
        time: {column: t}
        columns: {t: s, speed: km/h, psi: {column: "yaw (deg)", unit: deg}}
    topics:
      vehicle/state:
        type: lfdm_ros/msg/VehicleState
        from: log
        fields: {vx: speed, yaw: unwrap(psi)}

All keys, formats and functions: lfdm_ros.bags.mapping_keys, lfdm_ros.bags.expressions and, generated from them, docs/reference/mapping.md.
Columns are declared with their unit and are in SI units in expressions; the unit of an expression must fit its field. Floating-point fields
left out are NaN in messages of lfdm_ros and 0 in others.
"""

import ast
import codecs
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lfdm_ros import documents
from lfdm_ros.bags import expressions
from lfdm_ros.bags import mapping_keys as keys
from lfdm_ros.bags.expressions import Quantity, from_unit, in_unit
from lfdm_ros.bags.fields import MessageField, find_field, require_numeric
from lfdm_ros.bags.reader import HOLD, LINEAR
from lfdm_ros.bags.typestore import new_message, require_type, typestore
from lfdm_ros.errors import QUOTED, InputError, prefixing, quote, suggest

ANGLES = ("rad", "deg", "degree", "degrees", "radian", "radians", "°")  # units of columns that may wrap


@dataclass(frozen=True)
class MappedColumn:
    """A column of a source: its name in the file and how to read it."""

    name: str
    column: str
    unit: str
    optional: bool = False
    allow_nan: bool = False
    wraps: bool | None = None  # None: not given
    range: tuple[float, float] | None = None  # in its unit; values outside are missing
    dated: bool = False  # ISO 8601, read as seconds since 1970


@dataclass(frozen=True)
class Clock:
    """Origin of the times of a source: exactly one of column, rate, source and stamp (the file's own time). The offset shifts all."""

    column: str | None = None
    rate: float | None = None  # Hz
    start: float = 0.0  # s
    source: str | None = None
    first_row: int = 0
    stamp: str | None = None
    offset: float = 0.0  # s


@dataclass(frozen=True)
class MappedSource:
    """One file, or one table inside the mapping, for one recording."""

    name: str
    where: str
    file: str | None
    table: list[list[float]] | None
    format: str
    delimiter: str
    decimal: str
    encoding: str
    skip_lines: tuple[tuple[int, int], ...]  # first and last of each piece
    names: tuple[str, ...] | None
    transpose: bool
    clock: Clock
    columns: tuple[MappedColumn, ...]
    optional: bool
    sort: bool = False
    topic: str = ""  # of a bag
    dbc: Path | None = None  # of a CAN log, as written: relative to the recording's folder or the mapping's
    message: str = ""
    group: str | int | None = None  # of an MDF file


@dataclass(frozen=True)
class Topic:
    """One topic: its message type, the source whose rows it follows, and its fields."""

    name: str
    where: str
    type: str
    source: str
    only_changes_of: str | None
    fields: tuple[tuple[MessageField, str, ast.expr], ...]  # field, expression as written, parsed
    text: tuple[tuple[MessageField, str], ...]


@dataclass(frozen=True)
class MappingFile:
    """A validated mapping file; `source(name, recording)` applies `by_recording`."""

    path: Path
    time_origin: str
    between_rows: str
    constants: Mapping[str, Quantity]
    source_items: Mapping[str, Mapping[str, Any]]
    topics: tuple[Topic, ...]
    _cache: dict[tuple[str, str], MappedSource] = field(default_factory=dict, compare=False)

    def source(self, name: str, recording: str) -> MappedSource:
        """Returns a source resolved for one recording."""
        key = (name, recording)
        if key not in self._cache:
            items = dict(self.source_items[name])
            overrides = {str(stem): override for stem, override in (items.pop("by_recording", None) or {}).items()}
            where = f"{self.path}: sources.{name}"
            allowed = [key for key in keys.names(keys.SOURCE_KEYS) if key != "by_recording"]
            for stem, override in overrides.items():
                documents.mapping(override, f"{where}.by_recording.{stem}", optional=allowed)
            items.update(overrides.get(recording) or {})
            self._cache[key] = _source(name, items, where)
        return self._cache[key]

    @property
    def main(self) -> str:
        """The source of the command line's SOURCE: the first that is named after the recording, else the first."""
        named = (name for name, items in self.source_items.items() if "{recording}" in str(items.get("file")))
        return next(named, next(iter(self.source_items)))


def load_mapping(path: str | Path) -> MappingFile:
    """Reads and validates a mapping file. Raises InputError: naming the file and the key."""
    path = Path(path)
    content = documents.mapping(documents.read_yaml(path)[0], str(path), ("sources", "topics"), keys.names(keys.FILE_KEYS))
    origin = content.get("time_origin", "keep")
    if origin not in ("keep", "zero"):
        raise InputError(f"{path}: time_origin is {quote(origin)}; write keep (the file's own time) or zero (from its first row)")
    between = content.get("between_rows", HOLD)
    if between not in (HOLD, LINEAR):
        raise InputError(f"{path}: between_rows is {quote(between)}; write {HOLD} or {LINEAR}")
    sources, topics = (_section(content, key, str(path)) for key in ("sources", "topics"))
    for name, items in sources.items():
        documents.mapping(items, f"{path}: sources.{name}", optional=keys.names(keys.SOURCE_KEYS))
        if not isinstance(items.get("by_recording", {}), Mapping):
            raise InputError(f"{path}: sources.{name}.by_recording must map recordings to keys")
    mapping = MappingFile(path, origin, between, read_constants(content.get("constants") or {}, f"{path}: constants"), sources, tuple(
        _topic(name, items, f"{path}: topics.{name}", tuple(sources)) for name, items in topics.items()))
    for name, items in sources.items():
        for recording in ("", *map(str, items.get("by_recording") or {})):
            source = mapping.source(name, recording)
            if source.clock.source is not None and source.clock.source not in sources:
                raise InputError(f"{source.where}.time: no source '{source.clock.source}'{suggest(source.clock.source, sources)}")
    for topic in mapping.topics:
        _check_names(mapping, topic)
    return mapping


def _check_names(mapping: MappingFile, topic: Topic) -> None:
    """Checks that every name in an expression is a column or constant: a typing error is reported before any recording is read."""
    declared = {name: {c.name for r in ("", *map(str, items.get("by_recording") or {})) for c in mapping.source(name, r).columns}
                for name, items in mapping.source_items.items()}
    available = declared[topic.source] | set(mapping.constants) | {f"{s}.{c}" for s, columns in declared.items() for c in columns}
    for leaf, text, tree in topic.fields:
        for name in sorted(expressions.names(tree) - available):
            raise InputError(f"{topic.where}.fields.{leaf.path}: no column or constant '{name}' in '{text}'{suggest(name, available)}; "
                             f"source {topic.source} declares {', '.join(sorted(declared[topic.source]))}")
    if topic.only_changes_of is not None and topic.only_changes_of not in declared[topic.source]:
        raise InputError(f"{topic.where}.only_changes_of: source {topic.source} declares no column '{topic.only_changes_of}'")


def _source(name: str, items: Mapping[str, Any], where: str) -> MappedSource:
    file, table = items.get("file"), items.get("table")
    if file is not None and table is not None:
        raise InputError(f"{where}: give file or table, not both")
    form = items.get("format") or next((f.name for f in keys.FORMATS.values() if str(file).endswith(f.suffixes)), "csv")
    if not isinstance(form, str) or form not in keys.FORMATS:
        raise InputError(f"{where}.format is {quote(form)}; write {', '.join(keys.FORMATS)}")
    _check_format_keys(form, items, where)
    given = items.get("names")
    if given is not None and (not isinstance(given, list) or len(set(map(str, given))) != len(given)):
        raise InputError(f"{where}.names must be a list of different names")
    if table is not None and (not given or not isinstance(table, list) or not all(_numbers(row, len(given)) for row in table)):
        raise InputError(f"{where}.table must be a list of rows of numbers, one for each of `names`")
    delimiter = items.get("delimiter", ",")
    if delimiter != "whitespace" and (not isinstance(delimiter, str) or len(delimiter) != 1):
        raise InputError(f"{where}.delimiter is {quote(delimiter)}; write one character, or whitespace")
    decimal = items.get("decimal", ".")
    if decimal not in (".", ",") or decimal == delimiter:
        raise InputError(f"{where}.decimal is {quote(decimal)}; write \".\" or \",\", and another character as delimiter")
    columns = tuple(_column(str(key), value, f"{where}.columns.{key}") for key, value in _section(items, "columns", where).items())
    if form != "csv" and (dated := next((c.name for c in columns if c.dated), None)):
        raise InputError(f"{where}.columns.{dated}: {keys.ISO_8601} is for format csv, and this source is {form}; write a unit of time")
    clock = _clock({} if keys.FORMATS[form].timed and "time" not in items else _section(items, "time", where), f"{where}.time", form)
    if clock.column is not None and clock.column not in {c.name for c in columns}:
        raise InputError(f"{where}.time: column '{clock.column}' is not among its columns")
    return MappedSource(name=name, where=where, file=None if file is None else str(file), table=table, format=form, delimiter=delimiter,
                  decimal=decimal, encoding=_encoding(items, where), skip_lines=_skip_lines(items, where),
                  names=None if given is None else tuple(map(str, given)), transpose=_flag(items, "transpose", where), clock=clock,
                  columns=columns, optional=_flag(items, "optional", where), sort=_flag(items, "sort", where),
                  topic=str(items.get("topic", "")), dbc=Path(str(items["dbc"])) if "dbc" in items else None,
                  message=str(items.get("message", "")), group=_group(items.get("group"), where))


def _encoding(items: Mapping[str, Any], where: str) -> str:
    name = str(items.get("encoding", "utf-8-sig"))
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise InputError(f"{where}.encoding is {quote(name)}; write for example utf-8, latin-1, cp1252 or utf-16") from None


def _skip_lines(items: Mapping[str, Any], where: str) -> tuple[tuple[int, int], ...]:
    given = items.get("skip_lines", [])
    pieces = [re.fullmatch(r"(\d+)(?:-(\d+))?", str(piece)) for piece in given] if isinstance(given, list) else [None]
    result = tuple((int(match[1]), int(match[2] or match[1])) for match in pieces if match)
    if len(result) < len(pieces) or not all(1 <= first <= last for first, last in result):
        raise InputError(f"{where}.skip_lines is {quote(given)}; write a list of line numbers from 1 on and pieces, such as [1-13, 15]")
    return result


def _check_format_keys(form: str, items: Mapping[str, Any], where: str) -> None:
    for key in keys.FORMATS[form].needs:
        if not items.get(key):
            text = next(declared.text for declared in keys.SOURCE_KEYS if declared.name == key)
            raise InputError(f"{where}: a source of format {form} needs '{key}': {text}")
    for other in keys.FORMATS.values():
        for key in set(other.keys) - set(keys.FORMATS[form].keys):
            if key in items:
                raise InputError(f"{where}.{key} is for format {other.name}, and this source is {form}; leave it out, or write "
                                 f"format: {other.name}")


def _group(value: Any, where: str) -> str | int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, (str, int))):
        raise InputError(f"{where}.group is {quote(value)}; write the number or the name of a channel group")
    return value


def _column(name: str, value: Any, where: str) -> MappedColumn:
    if not name.isidentifier():
        usable = re.sub(r"\W+", "_", name).strip("_") or "name"
        raise InputError(f"{where}: {quote(name)} cannot be used in an expression; write for example "
                         f"{usable}: {{column: \"{name}\", unit: ...}}")
    items = value if isinstance(value, Mapping) else {"unit": value}
    documents.mapping(items, where, optional=keys.names(keys.COLUMN_KEYS))
    if items.get("unit") is None:
        raise InputError(f"{where} has no unit; write one, for example m/s, deg or 1")
    unit = str(items["unit"])
    unit, dated = ("s", True) if unit == keys.ISO_8601 else (unit, False)
    with prefixing(where, ValueError):
        from_unit(0.0, unit)
    if "wraps" in items and unit not in ANGLES:
        raise InputError(f"{where}.wraps: only an angle wraps, and {unit} is no unit of angle; write one of {', '.join(ANGLES)}")
    return MappedColumn(name, str(items.get("column", name)), unit, _flag(items, "optional", where), _flag(items, "allow_nan", where),
                  _flag(items, "wraps", where) if "wraps" in items else None, _range(items, where), dated)


def _range(items: Mapping[str, Any], where: str) -> tuple[float, float] | None:
    given = items.get("range")
    if given is None:
        return None
    if not _numbers(given, 2) or not given[0] < given[1]:
        raise InputError(f"{where}.range is {quote(given)}; write two numbers in the column's unit, the lower first")
    return float(given[0]), float(given[1])


def _clock(items: Mapping[str, Any], where: str, form: str) -> Clock:
    documents.mapping(items, where, optional=keys.names(keys.TIME_KEYS))
    given = [key for key in ("column", "rate", "source", "stamp") if key in items]
    offset = read_quantity(items.get("offset", "0 s"), "s", f"{where}.offset")
    if not given and keys.FORMATS[form].timed:
        return Clock(stamp=keys.HEADER, offset=offset)
    if len(given) != 1:
        raise InputError(f"{where}: give one of column, rate (with start) and source (with first_row)")
    if "stamp" in items:
        if form != "bag" or items["stamp"] not in (keys.HEADER, keys.RECORDED):
            raise InputError(f"{where}.stamp is {quote(items['stamp'])}; write {keys.HEADER} or {keys.RECORDED}, for a source of format "
                             "bag")
        return Clock(stamp=items["stamp"], offset=offset)
    if "column" in items:
        return Clock(column=str(items["column"]), offset=offset)
    if "source" in items:
        row = items.get("first_row", 0)
        if not isinstance(row, int) or row < 0:
            raise InputError(f"{where}.first_row is {quote(row)}; write the number of a row, counted from 0")
        return Clock(source=str(items["source"]), first_row=row, offset=offset)
    rate = read_quantity(items["rate"], "Hz", f"{where}.rate")
    if not rate > 0.0:
        raise InputError(f"{where}.rate must be positive")
    return Clock(rate=rate, start=read_quantity(items.get("start", "0 s"), "s", f"{where}.start"), offset=offset)


def _topic(name: str, items: Any, where: str, sources: tuple[str, ...]) -> Topic:
    documents.mapping(items, where, optional=keys.names(keys.TOPIC_KEYS))
    msgtype = items.get("type")
    if not isinstance(msgtype, str):
        raise InputError(f"{where} has no type; write for example lfdm_ros/msg/VehicleState")
    with prefixing(f"{where}.type"):
        require_type(msgtype)
    source = items.get("from")
    if source not in sources:
        raise InputError(f"{where}.from is {quote(source)}{suggest(source, sources, 'write one of ')}")
    fields = []
    for path, text in _section(items, "fields", where).items():
        leaf = find_field(typestore(), msgtype, str(path), f"{where}.fields")
        require_numeric(leaf, f"{where}.fields")
        try:
            leaf.reader()(new_message(msgtype))
        except IndexError:
            raise InputError(f"{where}.fields.{path}: arrays of variable length cannot be filled by a mapping") from None
        with prefixing(f"{where}.fields.{path}", ValueError):
            fields.append((leaf, str(text), expressions.parse(str(text))))
    texts = []
    for path, text in documents.mapping(items.get("text") or {}, f"{where}.text", optional=items.get("text") or ()).items():
        leaf = find_field(typestore(), msgtype, str(path), f"{where}.text")
        if leaf.base != "string":
            raise InputError(f"{where}.text.{path}: the field is a {leaf.base}, not a string")
        texts.append((leaf, str(text)))
    changes = items.get("only_changes_of")
    return Topic(name, where, msgtype, source, None if changes is None else str(changes), tuple(fields), tuple(texts))


def read_constants(items: Any, where: str) -> dict[str, Quantity]:
    """Returns numbers with a unit by names for expressions. Raises InputError, after `where`: something else."""
    if not isinstance(items, Mapping):
        raise InputError(f"{where} must map names to a number and a unit")
    if wrong := [name for name in items if not str(name).isidentifier()]:
        raise InputError(f"{where}: {quote(wrong[0])} cannot be used in an expression; write letters, digits and _")
    return {str(name): number_and_unit(value, f"{where}.{name}") for name, value in items.items()}


def read_quantity(value: Any, unit: str, where: str) -> float:
    """Returns a number, written with its unit, in `unit`. Raises InputError, after `where`: something else, or another dimension."""
    with prefixing(f"{where} is {quote(value)}", ValueError):
        return float(in_unit(number_and_unit(value, where), unit))


def number_and_unit(value: Any, where: str) -> Quantity:
    """Returns a number written with its unit: 0.47 m. Raises InputError, after `where`: it is something else."""
    written = str(value)
    match = re.fullmatch(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*?)\s*", written) if len(written) <= QUOTED else None
    if match is None or not math.isfinite(float(match[1])):
        raise InputError(f"{where} is {quote(value)}; write a number and a unit, for example 0.47 m")
    with prefixing(where, ValueError):
        return from_unit(float(match[1]), match[2])


def _section(items: Any, key: str, where: str) -> Mapping[str, Any]:
    value = items.get(key)
    if not isinstance(value, Mapping) or not value:
        raise InputError(f"{where}: '{key}' is missing or empty")
    return value


def _flag(items: Mapping[str, Any], key: str, where: str) -> bool:
    return documents.flag(items.get(key, False), f"{where}.{key}")


def _numbers(row: Any, count: int) -> bool:
    return isinstance(row, list) and len(row) == count and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in row)
