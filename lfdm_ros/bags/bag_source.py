"""A topic of a bag as a source of columns: of ROS 1 or ROS 2, with messages of any type that the bag or this machine defines."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.highlevel import AnyReader

from lfdm_ros.bags.fields import MessageField, find_field, require_numeric
from lfdm_ros.bags.mapping import MappedSource
from lfdm_ros.bags.mapping_keys import RECORDED
from lfdm_ros.bags.quantities import SourceTable
from lfdm_ros.bags.reader import has_header, open_bag, stamp_of
from lfdm_ros.bags.typestore import require_type, typestore
from lfdm_ros.errors import InputError, suggest


@dataclass(frozen=True)
class _Messages:
    """Messages of one topic: a typestore that knows their type, the type, and each message with the time at which it was recorded [ns]."""

    store: Any
    type: str
    each: Iterator[tuple[int, Any]]


def read_topic(source: MappedSource, path: Path) -> SourceTable:
    """Reads the fields of a topic that the mapping takes, with the times of the messages. Raises InputError: no readable bag, no such topic
    or field, or a field that is no number."""
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
