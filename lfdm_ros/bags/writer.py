"""Writes rosbag2 bags: raw bytes from a recorder, or messages from an importer."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rosbags.interfaces import Qos
from rosbags.rosbag2 import StoragePlugin, WriterError

from lfdm_ros.bags.storage import CheckpointWriter
from lfdm_ros.bags.typestore import build_message, require_type, typestore
from lfdm_ros.errors import InputError, reason

STORAGES = {"mcap": StoragePlugin.MCAP, "sqlite3": StoragePlugin.SQLITE3}
_DISK_ERRORS = (OSError, sqlite3.Error)
_CHECKPOINT_PERIOD = 0.5  # s; half of the second that may be lost, as a margin for late wake-ups


class BagWriter:
    """A new bag. Thread-safe; while it is open, at most the last second is lost when the process is killed.

    Stamps are times of reception. They may decrease, as when a simulated clock is reset; other tools may then refuse the bag of a killed
    recorder. `path`: folder to create; `storage`: "mcap" or "sqlite3"; `recording`: its name, by default the folder's; `origin_ns`: the
    stamp at which `Series.time` is zero, for example 0 for simulated time; `custom`: further text entries for the bag's custom_data. Raises
    InputError: the path exists, cannot be created, or the storage is unknown; writing: the disk is full.
    """

    def __init__(self, path: str | Path, storage: str = "mcap", recording: str | None = None, origin_ns: int | None = None,
                 custom: Mapping[str, str] | None = None) -> None:
        self.path = Path(path)
        if storage not in STORAGES:
            raise InputError(f"storage '{storage}' is unknown; use {' or '.join(STORAGES)}")
        if self.path.exists():
            raise InputError(f"{self.path} exists already; choose another path or remove it")
        self._writer = CheckpointWriter(self.path, version=9, storage_plugin=STORAGES[storage])
        self._writer.custom_data.update({"recording": recording or self.path.name, **(custom or {})})
        if origin_ns is not None:
            self._writer.custom_data["origin_ns"] = str(int(origin_ns))
        self._connections: dict[str, Any] = {}
        self._offered: dict[str, list[Qos]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._dirty = False
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> BagWriter:
        try:
            self._writer.open()
        except (OSError, WriterError) as error:
            raise InputError(f"cannot create the bag {self.path}: {reason(error)}") from None
        self._thread = threading.Thread(target=self._keep, name="bag checkpoints", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Finishes the bag; a second call does nothing."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._closing.set()
        thread.join()
        try:
            with self._lock:
                self._writer.close()
        except _DISK_ERRORS as error:
            self._failure = error
        if self._failure is not None:
            raise InputError(self._failed(self._failure)) from None

    def write_raw(self, topic: str, msgtype: str, stamp_ns: int, cdr: bytes | memoryview) -> None:
        """Appends a serialised message. `stamp_ns`: time of reception, ns since the epoch, not negative; `cdr`: the message in CDR, with
        its 4-byte header, as rclpy delivers and serialises it. Raises InputError: unknown type, another type on the same topic, or the disk
        refuses."""
        with self._lock:
            if self._failure is not None:
                raise InputError(self._failed(self._failure))
            if self._thread is None:
                raise InputError(f"the bag {self.path} is not open for writing")
            connection = self._connections.get(topic)
            if connection is None:
                connection = self._connect(topic, msgtype)
            elif connection.msgtype != msgtype:
                raise InputError(f"{self.path}: topic {topic} has type {connection.msgtype}; a message of type {msgtype} does not fit")
            try:
                self._writer.write(connection, stamp_ns, cdr)
            except _DISK_ERRORS as error:
                self._failure = error
                raise InputError(self._failed(error)) from None
            self._dirty = True

    def write(self, topic: str, msgtype: str, stamp_ns: int, message: Any) -> None:
        """Appends a message given as (nested) dictionary or as a rosbags message object. Fields left out are 0. Raises InputError: as
        `write_raw`, or the message does not fit its type."""
        require_type(msgtype)
        if isinstance(message, Mapping):
            message = build_message(msgtype, message)
        try:
            cdr = typestore().serialize_cdr(message, msgtype)
        except Exception as error:  # the generated serialiser may raise any exception
            raise InputError(f"a message for {topic} does not fit {msgtype}: {error}") from None
        self.write_raw(topic, msgtype, stamp_ns, cdr)

    def offer(self, topic: str, profiles: Sequence[Qos]) -> None:
        """Records the QoS offered by a topic's publishers, for replays; to be called before its first message."""
        with self._lock:
            self._offered[topic] = list(profiles)

    def checkpoint(self) -> None:
        """Makes everything written so far readable by others; happens by itself twice a second."""
        with self._lock:
            if self._dirty:
                self._dirty = False
                self._writer.checkpoint()

    def _connect(self, topic: str, msgtype: str) -> Any:
        require_type(msgtype)
        self._connections[topic] = self._writer.add_connection(
            topic, msgtype, typestore=typestore(), offered_qos_profiles=self._offered.get(topic, ()))
        return self._connections[topic]

    def _keep(self) -> None:
        while not self._closing.wait(_CHECKPOINT_PERIOD):
            try:
                self.checkpoint()
            except _DISK_ERRORS as error:
                self._failure = error
                return

    def _failed(self, error: Exception) -> str:
        return f"cannot write the bag {self.path}: {reason(error)}; what was written before is readable"
