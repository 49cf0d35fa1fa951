"""Damaged recordings: in their bytes, in their metadata, or in their messages."""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from lfdm_lab.fuzzing.messages import hostile_cdr
from lfdm_lab.fuzzing.trees import MAX_SMALL_DAMAGE, corrupt, damaged_yaml
from lfdm_ros.bags import BagWriter, open_bag
from lfdm_ros.bags.typestore import require_type, typestore
from lfdm_ros.errors import InputError

_STATE, _COMMAND, _IMU = "lfdm_ros/msg/VehicleState", "lfdm_ros/msg/DriverCommand", "sensor_msgs/msg/Imu"
_RATE = 50  # Hz
_FRAMES = ("", "map", "odom", "base_link", "camera", "/odom")
_TYPES = (_STATE, _COMMAND, _IMU, "std_msgs/msg/String", "nav_msgs/msg/Odometry", "sensor_msgs/msg/LaserScan")


@dataclass(frozen=True)
class Damage:
    """Damage done to a bag.

    Attributes:
        description: one line.
        min_messages: number of messages that must still be readable.
        exact: no more than these.
    """

    description: str
    min_messages: int
    exact: bool = False


@dataclass(frozen=True)
class RecordedMessage:
    topic: str
    msgtype: str
    stamp: int
    cdr: bytes


def good_bag(path: Path, storage: str = "mcap", seconds: float = 4.0) -> int:
    """Writes a short drive with states, commands and an IMU that starts later, in many chunks; returns the number of its messages."""
    count, written = round(seconds * _RATE), 0
    with BagWriter(path, storage, recording="good", origin_ns=0) as writer:
        for i in range(count):
            t = i * (10**9 // _RATE)
            header = {"stamp": {"sec": t // 10**9, "nanosec": t % 10**9}, "frame_id": "base_link"}
            speed = 5.0 + 0.02 * i
            writer.write("/vehicle/state", _STATE, t, {
                "header": header, "x": speed * i / _RATE, "vx": speed, "wheel_speeds": [speed / 0.47] * 4, "gear": 1})
            writer.write("/control/command", _COMMAND, t, {"header": header, "throttle": 0.4, "steering": 0.01 * (i % 7)})
            if i >= count // 4:
                writer.write("/imu", _IMU, t, {"header": header, "linear_acceleration": {"x": 1.0}})
            written += 2 + (i >= count // 4)
            if i % 10 == 9:
                writer.checkpoint()
    return written


def damage_bag(good: Path, bad: Path, rng: Random) -> Damage:
    """Writes a damaged copy of a bag.

    Args:
        good: folder of an undamaged bag.
        bad: folder to create.

    Raises:
        InputError: the bag cannot be read, or the copy cannot be written.
    """
    with open_bag(good) as bag:
        storage, custom = bag.storage, dict(bag.custom)
        messages = [RecordedMessage(c.topic, c.msgtype, stamp, bytes(cdr)) for c, stamp, cdr in bag.raw()]
    if not messages:
        raise InputError(f"{good} has no messages to damage")
    for msgtype in {m.msgtype for m in messages}:
        require_type(msgtype)
    draw = rng.random()
    if draw < 0.5:
        return _damaged_file(good, bad, messages, rng)
    if draw < 0.6:
        return _damaged_metadata(good, bad, len(messages), rng)
    if draw < 0.65:
        return _wrong_hash(good, bad, len(messages), rng)
    rewritten, description = rng.choice(REWRITINGS)(messages, rng)
    with BagWriter(bad, storage, custom.get("recording"), custom={k: v for k, v in custom.items() if k != "recording"}) as writer:
        for m in rewritten:
            writer.write_raw(m.topic, m.msgtype, m.stamp, m.cdr)
    return Damage(description, len(rewritten), exact=True)


def _damaged_file(good: Path, bad: Path, messages: list[RecordedMessage], rng: Random) -> Damage:
    count = len(messages)
    shutil.copytree(good, bad)
    file = next(path for path in sorted(bad.iterdir()) if path.suffix in (".mcap", ".db3"))
    undamaged = file.read_bytes()
    damaged, description = corrupt(undamaged, rng)
    file.write_bytes(damaged)
    if rng.random() < 0.2:
        (bad / "metadata.yaml").unlink()
        description += ", no metadata.yaml"
    # Local damage may only cost the messages around it; of a truncated file the part before the cut counts.
    before, after = _intact_shares(undamaged, damaged)
    if file.suffix == ".db3":
        # Damaged pages may hold the topics; content that is shifted is no longer aligned with pages.
        after, small = after if len(damaged) == len(undamaged) else 0.0, count // 2
    else:
        small = round(0.9 * count) if (1.0 - before - after) * len(undamaged) <= MAX_SMALL_DAMAGE else count // 2
    # Without any topic name in file and metadata, the messages have no type.
    if not (bad / "metadata.yaml").exists() and not any(topic.encode() in damaged for topic in {m.topic for m in messages}):
        return Damage(f"{file.name}: {description}", 0)
    return Damage(f"{file.name}: {description}", small if before + after > 0.9 else 1 if before + after > 0.5 else 0)


def _intact_shares(undamaged: bytes, damaged: bytes) -> tuple[float, float]:
    """Returns the shares of the content before the first change and after the last one."""
    shortest = min(len(undamaged), len(damaged))
    before = next((i for i, (a, b) in enumerate(zip(undamaged, damaged)) if a != b), shortest)
    after = next((i for i, (a, b) in enumerate(zip(reversed(undamaged), reversed(damaged))) if a != b), shortest)
    return before / len(undamaged), after / len(undamaged)


def _damaged_metadata(good: Path, bad: Path, count: int, rng: Random) -> Damage:
    shutil.copytree(good, bad)
    path = bad / "metadata.yaml"
    content, description = damaged_yaml(path.read_text(encoding="utf-8"), rng)
    path.write_bytes(content)
    return Damage(f"metadata.yaml: {description}", count)


def _wrong_hash(good: Path, bad: Path, count: int, rng: Random) -> Damage:
    """Replaces the type hash of a topic by that of another version; the definitions in the bag still describe its messages."""
    shutil.copytree(good, bad)
    files = {path: path.read_bytes() for path in sorted(bad.iterdir())}
    hashes = sorted({found for content in files.values() for found in re.findall(rb"RIHS01_[0-9a-f]{64}", content)})
    if not hashes:
        return Damage("no type hash to change", count)
    old, new = rng.choice(hashes), b"RIHS01_" + rng.randbytes(32).hex().encode()
    for path, content in files.items():
        path.write_bytes(content.replace(old, new))
    return Damage(f"type hash {old[:15].decode()}... is {new[:15].decode()}...", count)


# ---- messages ------------------------------------------------------------------------------------------------------------


def _dropped(messages: list[RecordedMessage], rng: Random) -> tuple[list[RecordedMessage], str]:
    topic = rng.choice(messages).topic
    if rng.random() < 0.3:
        return [m for m in messages if m.topic != topic] or messages[:1], f"all of {topic} dropped"
    start = rng.randrange(len(messages))
    end = start + rng.randrange(1, len(messages))
    return messages[:start] + messages[end:] or messages[:1], f"messages [{start}, {end}) dropped"


def _reordered(messages: list[RecordedMessage], rng: Random) -> tuple[list[RecordedMessage], str]:
    stamps = [m.stamp for m in messages]
    rng.shuffle(stamps)
    return [_stamped(m, stamp) for m, stamp in zip(messages, stamps)], "stamps shuffled"


def _duplicated(messages: list[RecordedMessage], rng: Random) -> tuple[list[RecordedMessage], str]:
    repeated = [m for m in messages for _ in range(rng.choice((1, 1, 2, 5)))]
    return repeated, f"{len(repeated) - len(messages)} messages more than once"


def _hostile(messages: list[RecordedMessage], rng: Random) -> tuple[list[RecordedMessage], str]:
    share, result, last = rng.choice((0.02, 0.5, 1.0)), [], ""
    for m in messages:
        if rng.random() < share:
            cdr, last = hostile_cdr(m.msgtype, rng, m.stamp)
            m = RecordedMessage(m.topic, m.msgtype, m.stamp, cdr)
        result.append(m)
    return result, f"odd values in {share:.0%} of the messages, at last {last}"


def _jumping(messages: list[RecordedMessage], rng: Random) -> tuple[list[RecordedMessage], str]:
    at, jump = rng.randrange(len(messages)), rng.choice((-(10**9), 10**9, 10**12, 1_700_000_000 * 10**9, 2**62, -(2**62)))
    both = rng.random() < 0.5
    result = list(messages[:at])
    for m in messages[at:]:
        stamp = min(max(m.stamp + jump, 0), 2**63 - 2)
        result.append(_stamped(m, stamp, header=both))
    return result, f"time jumps by {jump / 1e9:g} s at message {at}" + (", in the headers too" if both else "")


def _mistyped(messages: list[RecordedMessage], rng: Random) -> tuple[list[RecordedMessage], str]:
    topic, msgtype = rng.choice(messages).topic, rng.choice(_TYPES)
    mistyped = [RecordedMessage(m.topic, msgtype, m.stamp, m.cdr) if m.topic == topic else m for m in messages]
    return mistyped, f"{topic} is declared as {msgtype}"


def _reframed(messages: list[RecordedMessage], rng: Random) -> tuple[list[RecordedMessage], str]:
    """Sets another frame in the headers of a topic."""
    with_header = sorted({m.topic for m in messages if "header" in _fields(m.msgtype)})
    if not with_header:
        return _cut(messages, rng)
    topic, frame, store = rng.choice(with_header), rng.choice(_FRAMES), typestore()

    def moved(message: RecordedMessage) -> RecordedMessage:
        content = store.deserialize_cdr(message.cdr, message.msgtype)
        content.header.frame_id = frame
        return RecordedMessage(topic, message.msgtype, message.stamp, bytes(store.serialize_cdr(content, message.msgtype)))

    return [moved(m) if m.topic == topic else m for m in messages], f"{topic} is in frame '{frame}'"


def _cut(messages: list[RecordedMessage], rng: Random) -> tuple[list[RecordedMessage], str]:
    share = rng.choice((0.02, 1.0))
    return [RecordedMessage(m.topic, m.msgtype, m.stamp, corrupt(m.cdr, rng)[0]) if rng.random() < share else m for m in messages], \
        f"bytes of {share:.0%} of the messages damaged"


REWRITINGS: tuple[Callable[[list[RecordedMessage], Random], tuple[list[RecordedMessage], str]], ...] = (
    _dropped, _reordered, _duplicated, _hostile, _jumping, _mistyped, _reframed, _cut)


def _stamped(message: RecordedMessage, stamp: int, header: bool = True) -> RecordedMessage:
    cdr = message.cdr
    stamped = {"header", "clock"} & _fields(message.msgtype)
    if header and stamped:
        store = typestore()
        content = store.deserialize_cdr(cdr, message.msgtype)
        time = content.header.stamp if "header" in stamped else content.clock
        time.sec, time.nanosec = min(stamp // 10**9, 2**31 - 1), stamp % 10**9
        cdr = bytes(store.serialize_cdr(content, message.msgtype))
    return RecordedMessage(message.topic, message.msgtype, stamp, cdr)


def _fields(msgtype: str) -> set[str]:
    return {name for name, _ in typestore().fielddefs[msgtype][1]}
