"""Messages to the page: binary ones by kind, and the credit that limits a slow page to the newest of each kind.

A binary message is a header of 16 bytes, little-endian: kind (uint8), 3 bytes of zeros, number (uint32), stamp [s] (float64); then float32
values, or the bytes of a JPEG. Others are JSON. `page/wire.js` reads both.
"""

import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# Kinds of binary messages; the values of each in the order given in `page/wire.js`.
STATE, SCAN, PLAN, SHARING, OBSTACLES, GHOST, IMAGE = 1, 2, 3, 4, 5, 6, 7
OTHER_STATE, OTHER_SHARING = 8, 9  # of a second, overlaid recording
FLEET, RADAR = 10, 11  # other vehicles of the graph; returns
GROUND, LEARNED = 20, 21
CREDIT = 4  # messages that a page may have unacknowledged
_HEADER = struct.Struct("<B3xId")


def pack(kind: int, stamp: float, values: Sequence[float] | np.ndarray | bytes, number: int = 0) -> bytes:
    """Returns a binary message: kind, number, stamp [s] and values as float32, or bytes as they are."""
    content = values if isinstance(values, bytes) else np.asarray(values, "<f4").tobytes()
    return _HEADER.pack(kind, number, stamp) + content


def pack_json(kind: str, data: Mapping[str, Any]) -> str:
    """Returns a JSON message of a kind; values that are not finite become null, those of NumPy, as bags have them, plain ones."""
    return json.dumps({"kind": kind, **_finite(data)}, allow_nan=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):  # most frequent first
        return value if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return {key: _finite(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def repack(message: bytes, kind: int, later: float) -> bytes:
    """Returns a binary message with another kind and its stamp increased by `later` [s]."""
    _, number, stamp = _HEADER.unpack_from(message)
    return _HEADER.pack(kind, number, stamp + later) + message[_HEADER.size:]


class Outbox:
    """Messages for one page: at most `credit` unacknowledged ones, and of those that wait the newest of each kind.

    Whatever is handed to a socket can no longer be taken back: a page that is frozen for seconds would have to draw all of it. So what
    waits stays here.
    """

    def __init__(self, credit: int = CREDIT) -> None:
        self.sent = self.acknowledged = self.dropped = 0
        self._credit = credit
        self._waiting: dict[int | str, bytes | str] = {}

    def offer(self, kind: int | str, message: bytes | str) -> None:
        """Puts a message in the place of the one of its kind that waits."""
        self.dropped += kind in self._waiting
        self._waiting[kind] = message

    def acknowledge(self, count: int) -> None:
        """Takes the number of messages that the page has received so far; one that cannot be is ignored."""
        if self.acknowledged < count <= self.sent:
            self.acknowledged = count

    def take(self) -> tuple[int | str, bytes | str] | None:
        """Returns the kind and the message to send now, the longest waiting first; None: nothing waits, or there is no credit."""
        if not self._waiting or self.sent - self.acknowledged >= self._credit:
            return None
        kind = next(iter(self._waiting))
        self.sent += 1
        return kind, self._waiting.pop(kind)
