"""A nav_msgs/Path read straight from its bytes. As Python objects, six a pose, 10 km in steps of 0.1 m would take seconds."""

from __future__ import annotations

import struct

import numpy as np

from lfdm_ros.bounds import FRAME, MALFORMED, Refused, require

_POSE = 7 * 8  # bytes: position x, y, z, orientation x, y, z, w
_START = 4  # origin of the offsets, behind the encapsulation's header


def read_path(data: bytes) -> tuple[str, np.ndarray]:
    """Reads frame and x, y (n, 2) [m] of a serialised nav_msgs/Path, as plain CDR of either byte order.

    Raises:
        Refused: another encoding, cut off, too many poses, or a pose in another frame than the path's; an empty frame of a pose is none.
    """
    if len(data) < _START or data[0] != 0 or data[1] not in (0, 1):
        raise Refused("not plain CDR", MALFORMED)
    order = "<" if data[1] else ">"
    try:
        frame, at = _text(data, _START + 8, order)
        at += -at % 4
        (count,) = struct.unpack_from(order + "I", data, at)
        require("points", count, "number of poses")
        points = np.empty((count, 2))
        at = _pose(data, at + 4, order, frame, points, 0) if count else at
        # The others begin at multiples of 8; mostly all have a frame of one length.
        done = 1 + _alike(data, at, order, frame, points[1:]) if count > 1 else count
        for k in range(done, count):
            at = _pose(data, at, order, frame, points, k)
    except (struct.error, UnicodeDecodeError) as error:
        raise Refused(f"not a path: {error}", MALFORMED) from None
    return frame, points


def _text(data: bytes, at: int, order: str) -> tuple[str, int]:
    """Reads a string; returns it, and where it ends."""
    (size,) = struct.unpack_from(order + "I", data, at)
    end = at + 4 + size
    if end > len(data):
        raise struct.error("it is cut off")
    return data[at + 4:end].rstrip(b"\0").decode(), end


def _pose(data: bytes, at: int, order: str, frame: str, points: np.ndarray, k: int) -> int:
    """Reads one pose; returns where it ends."""
    own, at = _text(data, at + 8, order)
    _check(own, frame)
    at += -(at - _START) % 8
    points[k] = struct.unpack_from(order + "2d", data, at)
    return at + _POSE


def _check(named: str, frame: str) -> None:
    if named not in ("", frame):
        raise Refused(f"a pose is in frame '{named}', the path in '{frame}'", FRAME)


def _alike(data: bytes, at: int, order: str, frame: str, points: np.ndarray) -> int:
    """Reads all poses at once if they have the same frame; returns how many it has read: all, or none."""
    own, end = _text(data, at + 8, order)
    head = end - at + -(end - _START) % 8
    stride = head + _POSE
    if len(data) - at < len(points) * stride:
        return 0
    rows = np.frombuffer(data, np.uint8, len(points) * stride, at).reshape(-1, stride)
    if not (rows[:, 8:end - at] == rows[0, 8:end - at]).all():
        return 0
    _check(own, frame)
    points[:] = rows[:, head:head + 16].copy().view(order + "f8")
    return len(points)
