"""A rosbag2 writer whose bag is complete on disk after every checkpoint, even if the process is killed.

The writer of rosbags writes the index, the footer and metadata.yaml at the end, so that the bag of a killed process is unreadable. Here
each checkpoint leaves a bag that any reader opens:

- MCAP: the pending chunk is closed and followed by the end of data and a footer without summary, which the specification
  allows (https://mcap.dev/spec#footer-op0x02). The next chunk overwrites these 50 bytes.
- SQLite: the transaction is committed.
- metadata.yaml is replaced, with `closed: "false"` in its custom_data until the bag is closed properly.
"""

import io
import json
import os
import sqlite3
import struct
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rosbags.interfaces import ConnectionExtRosbag2, Qos, QosTime
from rosbags.rosbag2 import CompressionMode, StoragePlugin, Writer
from rosbags.rosbag2.storage_mcap import McapWriter
from rosbags.rosbag2.storage_sqlite3 import Sqlite3Writer

from lfdm_ros.files import write_text

MCAP_MAGIC = b"\x89MCAP0\r\n"
# Data End record (CRC 0: not computed), then Footer record (no summary, no offsets, CRC 0), then the magic.
MCAP_END = struct.pack("<BQI", 0x0F, 4, 0) + struct.pack("<BQQQI", 0x02, 20, 0, 0, 0) + MCAP_MAGIC


class _OnDisk:
    """Index of each chunk in a file without a name; in McapWriter's list two entries a second would fill the memory."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - as long as the bag is open
        self._number = 0

    def append(self, record: io.BytesIO) -> None:
        content = record.getbuffer()
        self._file.write(len(content).to_bytes(4, "little") + content)
        self._number += 1

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[io.BytesIO]:
        self._file.seek(0)
        while size := self._file.read(4):
            record = io.BytesIO()
            record.write(self._file.read(int.from_bytes(size, "little")))
            yield record

    def close(self) -> None:
        self._file.close()


_CHUNK_CHECKSUM = 9 + 24  # where it is in a chunk record: after opcode, length, two times and a size


class SealedMcapWriter(McapWriter):
    """MCAP storage that is a complete file after each chunk."""

    def __init__(self, path: Path, compression: CompressionMode) -> None:
        super().__init__(path, compression)
        self.chunks: Any = _OnDisk(path)
        # A buffer larger than any chunk writes chunk and end in one call, so that the file hardly ever has one without the other.
        self.bio = io.BufferedWriter(self.bio.detach(), buffer_size=4 << 20)
        self._seal()

    def close_chunk(self) -> None:
        start, checksum = self.bio.tell(), zlib.crc32(self.chunk.bio.getbuffer())
        super().close_chunk()
        self._seal()
        # rosbags leaves it 0, "not computed"; recovery needs it to find damage.
        os.pwrite(self.bio.fileno(), checksum.to_bytes(4, "little"), start + _CHUNK_CHECKSUM)

    def checkpoint(self) -> None:
        if self.chunk.bio.tell():
            self.close_chunk()

    def close(self, version: int, metadata: str) -> None:
        try:
            super().close(version, metadata)
        finally:
            self.chunks.close()

    def abort(self) -> None:
        self.chunks.close()
        super().abort()

    def _seal(self) -> None:
        end = self.bio.tell()
        self.bio.write(MCAP_END)
        self.bio.flush()
        self.bio.seek(end)


class CommittedSqlite3Writer(Sqlite3Writer):
    """SQLite storage that commits at each checkpoint."""

    def __init__(self, path: Path, compression: CompressionMode) -> None:
        super().__init__(path, compression)
        self.conn.close()
        # Checkpoints come from another thread, under the lock of BagWriter.
        self.conn = sqlite3.connect(self.path, check_same_thread=False)
        # No half transaction in the database file: readers that ignore the journal see the last commit.
        self.conn.execute("PRAGMA cache_spill = OFF")
        self.cursor = self.conn.cursor()

    def checkpoint(self) -> None:
        self.conn.commit()


class CheckpointWriter(Writer):
    """rosbags' Writer with `checkpoint()`."""

    STORAGE_PLUGINS = MappingProxyType({StoragePlugin.MCAP: SealedMcapWriter, StoragePlugin.SQLITE3: CommittedSqlite3Writer})

    def open(self) -> None:
        super().open()
        self.checkpoint()

    def checkpoint(self) -> None:
        """Makes everything written so far readable by others."""
        storage: Any = self.storage
        storage.checkpoint()
        # One line of JSON, which is also YAML: block style of forty topics twice a second would cost 5 % of a core.
        write_text(self.metapath, json.dumps(self._metadata(storage.path.name), ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Closes the storage and replaces metadata.yaml; where the disk refuses, half a file does not stay."""
        try:
            super().close()
        except OSError:
            with suppress(OSError):
                self.metapath.with_suffix(".yaml.tmp").unlink()
            raise

    def _metadata(self, file: str) -> dict[str, Any]:
        """Returns the known part of the final metadata; rosbags' own text for ten topics takes 50 ms, twice a second."""
        count = sum(self.counts.values())
        start, duration = {"nanoseconds_since_epoch": self.min_timestamp}, {"nanoseconds": max(0, self.max_timestamp - self.min_timestamp)}
        topics = [{"topic_metadata": {"name": c.topic, "type": c.msgtype, "serialization_format": c.ext.serialization_format,
                                      "offered_qos_profiles": [_profile(qos) for qos in c.ext.offered_qos_profiles],
                                      "type_description_hash": c.digest}, "message_count": self.counts[c.id]}
                  for c in self.connections if isinstance(c.ext, ConnectionExtRosbag2)]
        return {"rosbag2_bagfile_information": {
            "version": self.version, "storage_identifier": self.storage_plugin.name.lower(), "relative_file_paths": [file],
            "duration": duration, "starting_time": start, "message_count": count, "topics_with_message_count": topics,
            "compression_format": "", "compression_mode": "",
            "files": [{"path": file, "starting_time": start, "duration": duration, "message_count": count}],
            "custom_data": {**self.custom_data, "closed": "false"}, "ros_distro": "rosbags"}}


def _profile(qos: Qos) -> dict[str, Any]:
    def time(value: QosTime) -> dict[str, int]:
        return {"sec": value.sec, "nsec": value.nsec}

    return {"history": qos.history.name.lower(), "depth": qos.depth, "reliability": qos.reliability.name.lower(),
            "durability": qos.durability.name.lower(), "deadline": time(qos.deadline), "lifespan": time(qos.lifespan),
            "liveliness": qos.liveliness.name.lower(), "liveliness_lease_duration": time(qos.liveliness_lease_duration),
            "avoid_ros_namespace_conventions": qos.avoid_ros_namespace_conventions}
