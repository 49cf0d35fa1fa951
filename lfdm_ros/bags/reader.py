"""Reads rosbag2 bags of any writer, finished or not.

Time: `Series.time` is in seconds since the origin of the bag. The stamp of a message is that of its header, or the time of recording
without one. The origin is declared by the bag (custom_data `origin_ns`: 0 in bags of simulated time and in imported recordings whose own
clock starts near zero, the first stamp in imported recordings with calendar time); otherwise it is the earliest first stamp of the topics
with more than one message.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.highlevel import AnyReader
from rosbags.interfaces import Nodetype
from rosbags.serde import SerdeError

from lfdm_ros import documents
from lfdm_ros.bags.fields import find_field, require_numeric
from lfdm_ros.bags.recovery import is_damaged, recover
from lfdm_ros.bags.typestore import typestore
from lfdm_ros.errors import InputError, suggest

# Course of recorded inputs between two messages.
HOLD, LINEAR = "hold", "linear"

_LATEST = 2**62  # ns: 146 years; differences of such stamps still fit 64 bits
_SUFFIXES = {".mcap": "mcap", ".db3": "sqlite3"}


@dataclass(frozen=True)
class Series:
    """Fields of one topic over time, in the order recorded: time (n,) [s] since the origin of the bag (see the module); values (n, F) in SI
    units as the message declares them, NaN where not measured; stamp0: the origin, ns since the epoch."""

    time: np.ndarray
    values: np.ndarray
    stamp0: int


class Bag:
    """An open bag; see `open_bag`. storage: "mcap" or "sqlite3"; note: reason and extent of its recovery, None if the bag was closed
    properly; custom: its custom_data; connections: rosbags connections (topic, msgtype, msgcount)."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.note: str | None = None
        self.custom: dict[str, str] = {}
        self.storage = ""
        self._unordered = False
        self._stack = ExitStack()
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        self.connections = sorted(self._reader.connections, key=lambda c: c.topic)
        self.typestore = self._reader.typestore

    def __enter__(self) -> Bag:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()

    @property
    def files(self) -> list[Path]:
        """The storage files, in order."""
        if self.path.is_file():
            return [self.path]
        return sorted((p for p in self.path.iterdir() if p.suffix in _SUFFIXES), key=_split_order)

    @property
    def between_rows(self) -> str:
        """Interpolation of the recorded inputs between two messages: LINEAR where an import declares it, else HOLD as of commands on a
        topic."""
        return self.custom.get("between_rows", HOLD)

    def select(self, topic: str) -> list[Any]:
        """Connections of a topic; "vehicle/state" is "/vehicle/state", and "/a/vehicle/state" where all topics are below "/a". Raises
        InputError: no such topic, or one with several types."""
        found = [c for c in self.connections if c.topic.lstrip("/") == topic.lstrip("/")]
        if not found:
            name = f"/{topic.lstrip('/')}"
            found = [c for c in self.connections if c.topic.endswith(name)
                     and all(other.topic.startswith(f"{c.topic.removesuffix(name)}/") for other in self.connections)]
        if not found:
            topics = sorted({c.topic for c in self.connections})
            raise InputError(f"{self.path} has no topic '{topic}'{suggest(topic, topics, 'it has ')}")
        if len({c.msgtype for c in found}) > 1:
            raise InputError(f"{self.path}: topic '{topic}' has messages of several types: {', '.join(sorted({c.msgtype for c in found}))}")
        return found

    def raw(self, connections: Sequence[Any] = ()) -> Iterator[tuple[Any, int, bytes]]:
        """Yields (connection, time of recording in ns, CDR bytes) of all messages or those of some connections, in order of time."""
        try:
            # Sorted here where rosbags refuses to: a file without index whose clock was reset.
            yield from sorted(self._scan(connections), key=lambda message: message[1]) if self._unordered else \
                self._reader.messages(connections=connections)
        except Exception as error:  # damaged content: the layers below raise various exceptions
            raise InputError(f"{self.path} is damaged: {_one_line(error)}") from None

    def decode(self, cdr: bytes, msgtype: str) -> Any:
        """Returns the message as a rosbags object. Raises InputError: the bytes do not fit the type, or the type is unknown."""
        if msgtype not in self.typestore.fielddefs:
            raise InputError(f"{self.path} has no definition of {msgtype}, and lfdm_ros does not know it either")
        try:
            return decoded(self.typestore, cdr, msgtype)
        except Exception as error:  # as above
            raise InputError(f"{self.path} is damaged: a message does not fit {msgtype}: {_one_line(error)}") from None

    def origin_ns(self) -> int:
        """Returns the stamp at which `Series.time` is zero."""
        declared = self.custom.get("origin_ns")
        if declared is not None:
            if not re.fullmatch(r"-?\d{1,19}", declared) or not -_LATEST <= int(declared) <= _LATEST:
                raise InputError(f"{self.path}: custom_data origin_ns is '{declared[:40]}', not a number of nanoseconds since 1970")
            return int(declared)
        stamped = {c.topic: stamp for c in self.connections if c.msgcount and (stamp := self._first_stamp(c))}
        repeated = [stamped[c.topic] for c in self.connections if c.topic in stamped and c.msgcount > 1]
        return min(repeated or stamped.values(), default=self._start())

    def _first_stamp(self, connection: Any) -> int | None:
        if not has_header(self.typestore, connection.msgtype):
            return None
        for _, _, cdr in self.raw([connection]):
            with suppress(InputError):  # a message that does not fit its type has no stamp; try the next
                return stamp_of(self.decode(cdr, connection.msgtype)) or None
        return None

    def _start(self) -> int:
        return int(self._reader.start_time) if any(c.msgcount for c in self.connections) else 0

    def _open(self) -> None:
        if not self.path.exists():
            raise InputError(f"no bag at {self.path}")
        if self.path.is_file():
            if self.path.suffix == ".bag":
                raise InputError(f"{self.path} is a bag of ROS 1; import it with a mapping whose sources are of format bag "
                                 "(docs/reference/mapping.md)")
            if self.path.suffix not in _SUFFIXES:
                raise InputError(f"{self.path} is no bag; give the folder of a rosbag2 recording, or its .mcap or .db3 file")
            reason = None
        else:
            reason = self._read_metadata()
        if reason is None:
            try:
                if any(is_damaged(file) for file in self.files):
                    reason = "damaged"
                else:
                    self._reader = self._enter([self.path])
                    reason = self._metadata_contradiction()
            except Exception as error:  # a broken file raises anything in the layers below
                reason = f"damaged ({_one_line(error)})"
            if reason is None:
                self.storage = self.storage or _SUFFIXES[self.path.suffix]
                return
        self._recover(reason)

    def _read_metadata(self) -> str | None:
        """Reads metadata.yaml; returns the defect of the bag, or None."""
        path = self.path / "metadata.yaml"
        if not path.exists():
            return "not closed properly (no metadata.yaml)"
        try:
            content = documents.read_yaml(path, documents.MAX_GENERATED_LENGTH)[0]["rosbag2_bagfile_information"]
            self.storage = str(content["storage_identifier"])
            self.custom = {str(k): str(v) for k, v in (content.get("custom_data") or {}).items()}
            topics = [topic["topic_metadata"] for topic in content["topics_with_message_count"]]
            if self.storage not in _SUFFIXES.values() or not all(type(t[key]) is str for t in topics for key in ("name", "type")):
                raise TypeError
        except (InputError, KeyError, TypeError, AttributeError):
            self.storage = ""
            return "not closed properly (metadata.yaml is incomplete)"
        return "not closed properly" if self.custom.pop("closed", "") == "false" else None

    def _metadata_contradiction(self) -> str | None:
        """Describes a contradiction between metadata.yaml and the topics and messages of the files, or returns None."""
        storages = [s for reader in self._reader.readers for s in getattr(reader.storage, "storages", [])]  # type: ignore[union-attr]
        if not storages:  # one file, without metadata
            return None
        inside = {(c.topic, c.msgtype) for storage in storages for c in storage.connections}
        count = sum(storage.metadata.message_count for storage in storages)
        if not inside <= {(c.topic, c.msgtype) for c in self._reader.connections} or count != self._reader.message_count:
            return "damaged (metadata.yaml does not fit the files)"
        return None

    def _recover(self, reason: str) -> None:
        self._stack.close()
        files = self.files
        if not files:
            raise InputError(f"{self.path} is no bag: it has no .mcap or .db3 file")
        self.storage = self.storage or _SUFFIXES[files[0].suffix]
        scratch = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="lfdm_bag_")))
        try:
            recovered = [recover(file, scratch) for file in files]
            self._reader = self._enter([file for file, _ in recovered])
            count = sum(connection.msgcount for connection in self._reader.connections)
            self._unordered = self.storage == "mcap" and any(
                later < earlier for earlier, later in pairwise(stamp for _, stamp, _ in self._scan()))
        except InputError as error:
            raise InputError(f"{self.path}: {reason}; {error}") from None
        except Exception as error:  # as above
            raise InputError(f"{self.path}: {reason}; nothing can be recovered ({_one_line(error)})") from None
        start = int(self._reader.start_time) if count else 0
        self.note = "; ".join([f"{reason}, {count} messages recovered", *filter(None, (lost(start) for _, lost in recovered))])

    def _scan(self, connections: Sequence[Any] = ()) -> Iterator[tuple[Any, int, bytes]]:
        """Yields the messages of MCAP files in the order of the files."""
        for reader in self._reader.readers:
            storage: Any = reader.storage  # type: ignore[union-attr]
            yield from storage.messages_scan([c for c in connections or storage.connections if c.owner is storage])

    def _enter(self, paths: Sequence[Any]) -> AnyReader:
        # Older bags and bags without messages have no definitions.
        return self._stack.enter_context(AnyReader(paths, default_typestore=typestore()))


def decoded(store: Any, cdr: bytes, msgtype: str) -> Any:
    """Returns the message of CDR bytes; raises the errors of rosbags where the bytes do not fit the type.

    rclpy's serialize_message appends up to 4 bytes for each empty array of variable length.
    """
    try:
        return store.deserialize_cdr(cdr, msgtype)
    except SerdeError:
        arrays = sum(kind == Nodetype.SEQUENCE for _, (kind, _) in store.fielddefs[msgtype][1])
        for surplus in range(4, 4 * arrays + 4, 4):
            with suppress(SerdeError):
                return store.deserialize_cdr(cdr[:-surplus], msgtype)
        raise


def is_bag_folder(path: Path) -> bool:
    return path.is_dir() and any(file.name == "metadata.yaml" or file.suffix in _SUFFIXES for file in path.iterdir())


def bags_in(path: Path) -> list[Path]:
    """Lists the bags in a folder, in the order of their names; a path that is a bag, or contains none, is returned alone."""
    if not path.is_dir() or is_bag_folder(path):
        return [path]
    return sorted(one for one in path.iterdir() if is_bag_folder(one)) or [path]


def open_bag(path: str | Path) -> Bag:
    """Opens the folder of a rosbag2 recording, or one .mcap or .db3 file, for reading; use it as a context manager. A bag that was not
    closed properly (its recorder was killed) or was truncated is read as far as possible, with a `note`. Raises InputError: there is no
    bag, or it is unreadable."""
    return Bag(path)


def read_series(path: str | Path, topic: str, fields: Sequence[str]) -> Series:
    """Reads numeric fields of one topic, with or without leading slash: paths into the message, for example vx, wheel_speeds[0] or
    angular_velocity.z.

    Returns time (n,) and values (n, F); for the origin see the module. Time can decrease where the recorded clock did. Raises InputError:
    no such bag, topic or field, or the content is damaged.
    """
    with open_bag(path) as bag:
        connections = bag.select(topic)
        msgtype = connections[0].msgtype
        where = f"{path}: {topic}"
        if msgtype not in bag.typestore.fielddefs:
            raise InputError(f"{where}: no definition of {msgtype} in the bag")
        leaves = [find_field(bag.typestore, msgtype, field, where) for field in fields]
        for leaf in leaves:
            require_numeric(leaf, where)
        readers = [leaf.reader() for leaf in leaves]
        stamped = has_header(bag.typestore, msgtype)
        zero = bag.origin_ns() if stamped or "origin_ns" in bag.custom else bag._start()
        stamps: list[int] = []
        rows: list[list[float]] = []
        for _, recorded, cdr in bag.raw(connections):
            message = bag.decode(cdr, msgtype)
            try:
                rows.append([read(message) for read in readers])
            except IndexError:
                raise InputError(f"{where}: message {len(rows)} is too short for {', '.join(f for f in fields if '[' in f)}") from None
            stamps.append(stamp_of(message) if stamped else recorded)
    values = np.array(rows, dtype=float).reshape(len(rows), len(fields))
    return Series(time=(np.array(stamps, dtype=np.int64) - zero) / 1e9, values=values, stamp0=zero)


def existing_fields(path: str | Path, topic: str, fields: Sequence[str]) -> list[bool]:
    """Returns those of `fields` that the messages of a topic have. Raises InputError: no such bag or topic."""
    with open_bag(path) as bag:
        msgtype = bag.select(topic)[0].msgtype

        def exists(field: str) -> bool:
            try:
                find_field(bag.typestore, msgtype, field, "")
            except InputError:
                return False
            return True

        if msgtype not in bag.typestore.fielddefs:
            raise InputError(f"{path}: {topic}: no definition of {msgtype} in the bag")
        return [exists(field) for field in fields]


def recording_name(path: str | Path) -> str:
    """Returns the name of the recording: custom_data `recording`, else the name of the folder."""
    with open_bag(path) as bag:
        return name_of(bag)


def name_of(bag: Bag) -> str:
    """Returns `recording_name` of an open bag."""
    return bag.custom.get("recording") or bag.path.resolve().stem


def recording_sha256(path: str | Path) -> str:
    """Hashes the content of the recording by SHA-256: the same in either storage, for any split and interleaving of messages."""
    with open_bag(path) as bag:
        return content_sha256(bag)


def content_sha256(bag: Bag) -> str:
    """Returns `recording_sha256` of an open bag.

    Hashes, topic by topic in order of name, the type and each message's time and content, serialised again: the padding of
    CDR bytes from rclpy is uninitialised memory and differs between recordings of the same content.
    """
    total = hashlib.sha256()
    for connection in bag.connections:
        digest = hashlib.sha256(f"{connection.topic}\n{connection.msgtype}\n".encode())
        defined = connection.msgtype in bag.typestore.fielddefs
        for _, stamp, cdr in bag.raw([connection]):
            digest.update(stamp.to_bytes(8, "little", signed=True))
            content: Any = cdr
            if defined:
                with suppress(InputError):  # not a message of that type: its bytes are hashed
                    content = bag.typestore.serialize_cdr(bag.decode(cdr, connection.msgtype), connection.msgtype)
            digest.update(content)
        total.update(digest.digest())
    return total.hexdigest()


def has_header(store: Any, msgtype: str) -> bool:
    fields = store.fielddefs.get(msgtype, ((), ()))[1]
    return bool(fields) and fields[0][0] == "header" and fields[0][1][1] == "std_msgs/msg/Header"


def stamp_of(message: Any) -> int:
    """Returns the stamp of a message with a header [ns]."""
    stamp = message.header.stamp
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


def _split_order(path: Path) -> tuple[str, int, str]:
    """Returns the sort key of a file of a split bag: NAME_0, NAME_1, ..., NAME_10."""
    stem, _, number = path.stem.rpartition("_")
    return (stem, int(number), path.name) if number.isdigit() else (path.stem, -1, path.name)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) < 200 else f"{text[:200]}..."
