"""Summary of a bag, as values and as a table."""

import datetime
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from lfdm_ros.bags.reader import Bag, content_sha256, name_of, open_bag
from lfdm_ros.bags.sources import open_ros1
from lfdm_ros.errors import InputError
from lfdm_ros.files import content_digest

ROS1 = "rosbag1"
_STATUS = "lfdm_ros/msg/SimulatorStatus"


def bag_info(path: str | Path, digest: bool = True) -> dict[str, Any]:
    """Returns a summary of a ROS 2 or ROS 1 bag, in JSON types. `digest`: also hash the content (about 10 s for a million messages).

    Keys: path, recording, storage, closed (bool), note (how it was recovered, or None), not_driven (why the simulated vehicle did not
    follow its commands, or None), start (s since the epoch, None in an empty bag), duration (s), messages, size (bytes), origin (s: the
    stamp at which Series.time is zero), topics (a list of topic, type, count, rate in Hz, start and end in s since the bag's start), custom
    (dict), sha256 (None without digest). Raises InputError: there is no bag, or nothing in it can be read.
    """
    if Path(path).is_file() and Path(path).suffix == ".bag":
        return _info_ros1(Path(path), digest)
    with open_bag(path) as bag:
        return {"path": str(bag.path), "recording": name_of(bag), "storage": bag.storage, "closed": bag.note is None, "note": bag.note,
                "not_driven": not_driven(bag) or None, **_contents(bag.connections, bag.raw()), "size": _size_on_disk(bag.path),
                "origin": bag.origin_ns() / 1e9, "custom": bag.custom, "sha256": content_sha256(bag) if digest else None}


def _info_ros1(path: Path, digest: bool) -> dict[str, Any]:
    with open_ros1(path) as reader:
        contents = _contents(reader.connections, reader.messages())
    return {"path": str(path), "recording": path.stem, "storage": ROS1, "closed": True, "note": None, "not_driven": None, **contents,
            "size": _size_on_disk(path), "origin": contents["start"] or 0.0, "custom": {},
            "sha256": content_digest([path]) if digest else None}


def _contents(connections: Iterable[Any], messages: Iterable[tuple[Any, int, bytes]]) -> dict[str, Any]:
    entries: dict[tuple[str, str], list[int]] = {(c.topic, c.msgtype): [0, 0, 0] for c in connections}  # count, first, last
    for connection, stamp, _ in messages:
        entry = entries[connection.topic, connection.msgtype]
        if not entry[0]:
            entry[1] = stamp
        entry[0] += 1
        entry[2] = stamp
    used = [entry for entry in entries.values() if entry[0]]
    start, end = min((entry[1] for entry in used), default=0), max((entry[2] for entry in used), default=0)
    topics = [{"topic": topic, "type": msgtype, "count": count, "rate": (count - 1) / ((last - first) / 1e9) if last > first else None,
               "start": (first - start) / 1e9 if count else None, "end": (last - start) / 1e9 if count else None}
              for (topic, msgtype), (count, first, last) in sorted(entries.items())]
    return {"start": start / 1e9 if used else None, "duration": (end - start) / 1e9, "messages": sum(entry[0] for entry in used),
            "topics": topics}


def format_info(info: dict[str, Any]) -> str:
    lines = [f"recording  {info['recording']}", f"storage    {info['storage']}, {_size(info['size'])}"]
    if info["note"]:
        lines.append(f"note       {info['note']}")
    if info["not_driven"]:
        lines.append(f"not driven {info['not_driven']}")
    if info["start"] is not None:
        lines.append(f"start      {_date(info['start'])}")
    lines.append(f"duration   {info['duration']:.3f} s")
    lines.append(f"messages   {info['messages']}")
    if info["sha256"]:
        lines.append(f"sha256     {info['sha256']}")
    if info["storage"] == ROS1:
        lines.append("of ROS 1   import it with a mapping whose sources are of format bag (docs/reference/mapping.md)")
    lines += [f"{key:<10} {value}" for key, value in info["custom"].items() if key in ("mapping", "sources")]
    if info["topics"]:
        rows = [("topic", "type", "count", "rate")]
        rows += [(t["topic"], t["type"], str(t["count"]), f"{t['rate']:.2f} Hz" if t["rate"] else "-") for t in info["topics"]]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines.append("")
        lines += [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d:>{widths[3]}}" for a, b, c, d in rows]
    return "\n".join(lines)


def not_driven(bag: Bag) -> str:
    """Returns the reason from the last status of a recorded simulator why the vehicle did not follow its commands, see SimulatorStatus.msg;
    empty: it did, or there is no status."""
    connections = [connection for connection in bag.connections if connection.msgtype == _STATUS]
    last = {connection.topic: cdr for connection, _, cdr in (bag.raw(connections) if connections else ())}
    for cdr in last.values():
        with suppress(InputError):  # skip messages that do not fit their type
            if why := getattr(bag.decode(cdr, _STATUS), "not_driven", ""):  # missing in bags of earlier versions
                return str(why)
    return ""


def _size_on_disk(path: Path) -> int:
    files = [path] if path.is_file() else [file for file in path.iterdir() if file.is_file()]
    return sum(file.stat().st_size for file in files)


def _date(seconds: float) -> str:
    if seconds < 1e8:  # simulated time, or a file's own
        return f"{seconds:.3f} s"
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def _size(size: int) -> str:
    value = float(size)
    for unit in ("B", "kB", "MB"):
        if value < 1000.0:
            return f"{value:.3g} {unit}"
        value /= 1000.0
    return f"{value:.3g} GB"
