"""Keys of a mapping file and formats of its sources, for the reader of mappings and the page about them."""

from collections.abc import Sequence
from dataclasses import dataclass

HEADER, RECORDED = "header", "recorded"
ISO_8601 = "ISO 8601"


@dataclass(frozen=True)
class Key:
    """A key of a mapping file: its value and meaning."""

    name: str
    form: str
    text: str


@dataclass(frozen=True)
class Format:
    """A format of source files, by their suffix if the mapping names none. reads: content of such a file, and names of its columns;
    packages: to install for it beside lfdm_ros; keys: of a source that only this format has; those in `needs` it must have; timed: True if
    its rows include times, so that `time` may be left out."""

    name: str
    suffixes: tuple[str, ...]
    reads: str
    packages: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    timed: bool = False


FORMATS: dict[str, Format] = {f.name: f for f in (
    Format("csv", (".csv", ".txt", ".tsv"),
           "text; the header may begin with `#`, other lines that do are comments; a column has the name in the header or in `names`",
           keys=("delimiter", "decimal", "encoding", "skip_lines")),
    Format("mat", (".mat",), "MATLAB; a column is a variable, or `struct.field`; version 7.3 by h5py", ("h5py",)),
    Format("npy", (".npy",), "one NumPy array of one or two dimensions, its columns as in `names`"),
    Format("parquet", (".parquet", ".pq"), "Parquet; a column has its name, `struct.field` in a structure; dates are seconds since 1970",
           ("pyarrow",)),
    Format("mdf", (".mf4", ".mdf"), "ASAM MDF 3 and 4; a column is a channel, in physical values; time as its group has it", ("asammdf",),
           ("group",), timed=True),
    Format("can", (".asc", ".blf", ".trc", ".log"), "CAN frames of a log; a column is a signal of the `message`",
           ("python-can", "cantools"), ("dbc", "message"), ("dbc", "message"), timed=True),
    Format("bag", (".bag", ".mcap", ".db3"), "a bag of ROS 1 or ROS 2, a file or a folder; a column is a field of the messages of `topic`, "
           "`twist.twist.linear.x`", (), ("topic",), ("topic",), timed=True))}

FILE_KEYS = (
    Key("description", "text", "free"),
    Key("time_origin", "keep, zero", "the bag's time is the file's own (default), or zero at the first row; stamps are the file's in both"),
    Key("between_rows", "hold, linear", "course of inputs between two rows; hold (default) fits commands on a topic"),
    Key("constants", "{NAME: 0.47 m}", "numbers with a unit, for the expressions"),
    Key("sources", "{NAME: {...}}", "inputs; below"),
    Key("topics", "{NAME: {...}}", "outputs; below"),
)
SOURCE_KEYS = (
    Key("file", '"{recording}.csv"', "relative to the folder of SOURCE, as `lfdm bag import` is given it; {recording} is SOURCE's name "
        "without suffix, or `--recording`. The first source named so is SOURCE itself"),
    Key("table", "[[0, 0, 0], ...]", "instead of a file: rows written here, with `names`"),
    Key("format", ", ".join(FORMATS), "by default from the file's suffix; see the table of formats below"),
    Key("names", "[a, b]", "columns of a file without a header"),
    Key("transpose", "true, false", "one row of the file, or of the array, for each column"),
    Key("delimiter", '","', "one character, or whitespace"),
    Key("decimal", '"."', 'decimal separator, `"."` or `","`'),
    Key("encoding", "utf-8", "of the text, as Python names it: latin-1, cp1252, utf-16"),
    Key("skip_lines", "[1-13, 15]", "lines to skip, counted from 1: a preamble, a line of units"),
    Key("topic", "/odom", "of a bag"),
    Key("dbc", "car.dbc", "description of the frames, beside SOURCE or the mapping"),
    Key("message", "STEERING", "the message of the DBC, by name"),
    Key("group", "2, NAME", "the channel group, by number or name, where the channels' names are ambiguous"),
    Key("time", "{...}", "times of the rows; below"),
    Key("sort", "true, false", "sorts rows by time, and of rows with equal stamps keeps the last; without, "
        "they are refused"),
    Key("columns", "{NAME: km/h}", "columns to read: their unit, or the keys of a column below"),
    Key("optional", "true, false", "a missing file causes a warning, and topics that need it are left out"),
    Key("by_recording", "{NAME: {...}}", "overrides any of the above for one recording"),
)
TIME_KEYS = (
    Key("column", "NAME", "a column of this source, with a unit of time"),
    Key("rate", "100 Hz", "evenly, from `start` on"),
    Key("start", "0 s", "of `rate`"),
    Key("source", "NAME", "those of another source, row by row, from its `first_row` on"),
    Key("first_row", "100", "of `source`, counted from 0"),
    Key("stamp", f"{HEADER}, {RECORDED}", f"of a bag: the header's (default; without one, {RECORDED}), or the time of recording"),
    Key("offset", "-0.9 s", "added to all of these: here for a device with stamps 0.9 s late. Late columns in a file of one clock need a "
        "second source of the same file"),
)
COLUMN_KEYS = (
    Key("column", '"vx (raw)"', "the name in the file, if it differs from that in expressions"),
    Key("unit", "km/h", "in the file; expressions use SI. `ISO 8601` for a date with a time in a text file: seconds "
        "since 1970, in UTC where it names no zone"),
    Key("optional", "true, false", "NaN where the file has no such column"),
    Key("allow_nan", "true, false", "values may be missing (NaN, an empty cell); without, they are an error with its line"),
    Key("range", "[-540, 540]", "in its unit; values outside are spikes: treated as missing (NaN) and counted in a warning"),
    Key("wraps", "true, false", "an angle that jumps by a turn, such as a heading: as `source.column` it goes the short way round between "
        "two rows. All others are interpolated linearly; one that looks like a heading is refused without this key"),
)
TOPIC_KEYS = (
    Key("type", "lfdm_ros/msg/VehicleState", "any message type whose definition is installed"),
    Key("from", "NAME", "the source whose rows become messages with its times as stamps"),
    Key("only_changes_of", "NAME", "a message only where this column takes a new value, for channels that are held between samples"),
    Key("fields", "{vx: EXPRESSION}", "expression for each field; `wheel_speeds[0]` is an element, `speed_by_wheel[ml]` one by its name. A "
        "number with a decimal point that is left out is NaN in our messages and 0 in others'"),
    Key("text", "{header.frame_id: odom}", "texts, the same in every message"),
)


def names(keys: Sequence[Key]) -> tuple[str, ...]:
    return tuple(key.name for key in keys)
