"""Replay of a bag on the cockpit's page, without ROS, with the messages of a live run; seekable."""

import math
import os
import tempfile
import time
import weakref
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, MutableSequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from lfdm_ros.bags import open_bag
from lfdm_ros.bounds import OUT_OF_RANGE, UNUSABLE, Refusals, Refused
from lfdm_ros.cockpit import page_messages
from lfdm_ros.cockpit.server import CockpitServer, OnRequest
from lfdm_ros.cockpit.wire import IMAGE, OTHER_SHARING, OTHER_STATE, PLAN, RADAR, SCAN, SHARING, STATE, pack, pack_json, repack
from lfdm_ros.errors import InputError
from lfdm_ros.perception.transform_tree import TransformTree

TICK = 0.02  # [s] period of the replay
RATES = (0.1, 8.0)  # range of the replay's speed
_BINARY_PERIOD = 0.02  # [s] minimum between two messages of a kind, that of screens
_IMAGE_PERIOD = 0.1  # [s] between two pictures
_OUTCOMES = ("braking", "stopped", "manoeuvring", "backing")  # of the controller, shown as events; the last in older recordings
_MAX_EVENTS = 500
_ROUNDING = 1e-6  # [s] of times
# Topics with one kind of message.
_ALONE = {"vehicle/state": STATE, "scan": SCAN, "autonomy/plan": PLAN, page_messages.CAMERA: IMAGE, page_messages.RADAR_SCAN: RADAR}


def _period(kind: int | str) -> float:
    """Returns the minimum time between two messages of a kind [s]."""
    return _IMAGE_PERIOD if kind == IMAGE else _BINARY_PERIOD


class Spool:
    """Messages of one kind in a temporary file; an hour of them is too much for memory."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="lfdm_replay_", buffering=0)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._ends = array("Q", [0])  # a message lies between two ends
        self._is_text = False

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> bytes | str:
        index = range(len(self))[index]
        begin, end = self._ends[index:index + 2]
        message = os.pread(self._file.fileno(), end - begin, begin)
        return message.decode() if self._is_text else message

    def append(self, message: bytes | str) -> None:
        """Adds a message. Raises InputError: the disk is full."""
        self._is_text = isinstance(message, str)
        content = message.encode() if isinstance(message, str) else message
        try:
            left = memoryview(content)
            while left:
                left = left[self._file.write(left):]
        except OSError as error:
            where = tempfile.gettempdir()
            raise InputError(f"no room for a replay in {where}: {error.strerror}; let TMPDIR name a larger folder") from None
        self._ends.append(self._ends[-1] + len(content))

    def replace(self, message: bytes | str) -> None:
        """Replaces the last message."""
        self._ends.pop()
        self._file.seek(self._ends[-1])
        self.append(message)


@dataclass
class Track:
    """Messages of one kind by time since the start of the bag [s]."""

    times: MutableSequence[float] = field(default_factory=lambda: array("d"))
    messages: Spool = field(default_factory=Spool)

    def add(self, time: float, message: bytes | str, period: float) -> None:
        """Adds a message unless it follows the last one within a period [s]."""
        if not self.times or time - self.times[-1] >= period - _ROUNDING:
            self.times.append(time)
            self.messages.append(message)
        elif isinstance(message, str):
            self.messages.replace(message)  # the newest of several at once

    def count(self, time: float) -> int:
        """Returns the number of messages up to a time."""
        return bisect_right(self.times, time)


class ReplayTracks:
    """A bag converted for the page: tracks by kind, and events (time [s], text). clock: stamp of a state at the start of the bag [s]."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.tracks: dict[int | str, Track] = {}
        self.events: list[tuple[float, str]] = []
        self.duration = self.clock = 0.0
        self._frames = TransformTree()
        self._before: dict[str, Any] = {}

    def load(self) -> Iterator[float]:
        """Reads the bag; yields its progress [0, 1]. Raises InputError: it cannot be read, or has no vehicle/state."""
        with open_bag(self.path) as bag:
            names = {connection.id: name for name in ("tf_static", *page_messages.PERIODS) for connection in _find(bag, name)}
            if "vehicle/state" not in names.values():
                raise InputError(f"{self.path} has no topic vehicle/state: nothing to show; `lfdm bag info` lists its topics")
            for connection in bag.connections:
                expected = page_messages.TYPES.get(names.get(connection.id, ""), connection.msgtype)
                if connection.msgtype != expected:
                    if expected == page_messages.TYPES["vehicle/state"]:
                        raise InputError(f"{self.path}: {connection.topic} is a {connection.msgtype}, not a {expected}")
                    del names[connection.id]
            selected = [connection for connection in bag.connections if connection.id in names]
            total, begin = sum(connection.msgcount for connection in selected) or 1, None
            for number, (connection, stamp, data) in enumerate(bag.raw(selected)):
                begin = stamp if begin is None else begin
                self.duration = 1e-9 * (stamp - begin)
                if self._is_due(names[connection.id], self.duration):
                    self._take(names[connection.id], self.duration, bag.decode(data, connection.msgtype))
                if number % 500 == 0:
                    yield min(number / total, 1.0)
        yield 1.0

    def _is_due(self, name: str, time: float) -> bool:
        """Checks that a topic's message would be stored; others are not decoded."""
        kind = _ALONE.get(name)
        return kind is None or kind not in self.tracks or time - self.tracks[kind].times[-1] >= _period(kind) - _ROUNDING

    def _take(self, name: str, time: float, message: Any) -> None:
        if name == "tf_static":
            self._frames.hear(message, Refusals())
        if name == "vehicle/state" and STATE not in self.tracks:
            self.clock = page_messages.stamp_of(message) - time
        with suppress(InputError):  # not shown on the live page either
            for kind, packed in page_messages.packed(name, message, self._frames):
                self._track(kind).add(time, packed, _period(kind))
        if name in page_messages.TEXTS:
            word, text = page_messages.TEXTS[name]
            content = text(message)
            self._track(word).add(time, pack_json(word, content), page_messages.TEXT_PERIOD)
            self.note(word, time, content)

    def _track(self, kind: int | str) -> Track:
        """Returns the track of a kind, creating it if needed."""
        if kind not in self.tracks:
            self.tracks[kind] = Track()
        return self.tracks[kind]

    def note(self, kind: str, time: float, content: dict[str, Any]) -> None:
        """Records events: differences from the previous message."""
        before, self._before[kind] = self._before.get(kind, {}), content
        if not before or len(self.events) >= _MAX_EVENTS:
            return
        if kind == "simulator":
            if content["collisions"] > before["collisions"]:
                self.events.append((time, f"collision with {content['collided_with']}"))
            if content["lifted"] > before["lifted"]:
                self.events.append((time, f"{content['lifted']} wheels lifted"))
        elif kind == "sharing" and content["state"] != before["state"]:
            self.events.append((time, content["state"].replace("_", " ")))
        elif kind == "controller" and content["outcome"] != before["outcome"] and content["outcome"] in _OUTCOMES:
            self.events.append((time, f"controller: {content['outcome']}"))


def _find(bag: Any, name: str) -> list[Any]:
    try:
        return bag.select(name)
    except InputError:
        return []


class Player:
    """Plays a recording to the pages of a server, optionally overlaid by the motion of another; `advance` by a clock, requests by pages.

    Both start together; the shorter one stops at its end.
    """

    def __init__(self, recording: ReplayTracks, other: ReplayTracks | None = None) -> None:
        self.recording, self.other = recording, other
        self.time, self.rate, self.playing = 0.0, 1.0, True
        self.loaded = 0.0  # share
        self._sought = True
        self._shown = [recording] if other is None else [recording, other]
        self._reading = [one.load() for one in self._shown]

    @property
    def duration(self) -> float:
        """Duration of the longer one, as far as read [s]."""
        return max(one.duration for one in self._shown)

    @property
    def events(self) -> list[tuple[float, str]]:
        """Events of both by time; those of the other with its name."""
        if self.other is None:
            return self.recording.events
        return sorted([*self.recording.events, *((time, f"{self.other.path.name}: {text}") for time, text in self.other.events)])

    def read(self) -> None:
        """Reads the next part of each. Raises InputError: as `ReplayTracks.load`."""
        self.loaded = min(next(reading, 1.0) for reading in self._reading)

    def request(self, name: str, value: Any, page: str = "") -> None:
        """Executes a request of a page: seek [s], play, rate. Raises Refused: unknown, or a wrong value."""
        number = type(value) in (int, float) and abs(value) < 1e12  # false for NaN
        if name == "seek" and number:
            # Beyond the loaded part: `advance` waits for it.
            limit = self.duration if self.loaded == 1.0 else math.inf
            self.time, self._sought = min(max(float(value), 0.0), limit), True
        elif name == "play" and isinstance(value, bool):
            if value and self.time >= self.duration and self.loaded == 1.0:
                self.time, self._sought = 0.0, True
            self.playing = value
        elif name == "rate" and number and RATES[0] <= value <= RATES[1]:
            self.rate = float(value)
        elif name in ("seek", "play", "rate"):
            raise Refused(f"request {name}: a wrong value", OUT_OF_RANGE)
        else:
            raise Refused(f"request {name[:30]!r} is not for a replay", UNUSABLE)

    def advance(self, seconds: float, publish: Callable[..., None]) -> None:
        """Advances the clock by `seconds` [s] and publishes the newest of each kind; after a seek all kinds."""
        before = self.time
        if self.loaded == 1.0 or self.time <= self.duration:
            self.time = min(self.time + self.rate * seconds * self.playing, self.duration)
        if self.playing and self.loaded == 1.0 and self.time >= self.duration:
            self.playing = False
        for kind, track, convert in self._tracks():
            count = track.count(self.time)
            if self._sought or track.count(before) != count:
                # Before the first of its kind the page clears its display.
                empty = pack_json(kind, {"none": True}) if isinstance(kind, str) else pack(kind, 0.0, [])
                publish(kind, convert(track.messages[count - 1]) if count else empty, keep=True)
        self._sought = self.loaded < 1.0 and self.time > self.duration

    def _tracks(self) -> Iterator[tuple[int | str, Track, Callable[[Any], bytes | str]]]:
        """Yields kind, track and conversion of all shown messages; those of the other recording get stamps of the first."""
        for kind, track in list(self.recording.tracks.items()):
            yield kind, track, lambda message: message
        if self.other is not None:
            for kind, shown in ((STATE, OTHER_STATE), (SHARING, OTHER_SHARING)):
                if kind in self.other.tracks:
                    yield shown, self.other.tracks[kind], partial(repack, kind=shown, later=self.recording.clock - self.other.clock)

    @property
    def status(self) -> dict[str, Any]:
        return {"time": round(self.time, 3), "duration": self.duration, "playing": self.playing, "rate": self.rate,
                "loaded": round(self.loaded, 3), "name": self.recording.path.name, "other": self.other.path.name if self.other else ""}


def serve(player: Player, server_of: Callable[[OnRequest], CockpitServer], *, announce: Callable[[str], None],
          ended: Callable[[], bool] = lambda: False) -> None:
    """Serves a player until `ended` or an interrupt; reads while playing. server_of: creates the server, given its request handler.
    announce: called with the address once the first part is read. Raises InputError: as `ReplayTracks.load`."""
    player.read()
    server = server_of(player.request)
    server.start()
    try:
        announce(server.url)
        now, events = time.monotonic(), -1
        while not ended():
            end = time.monotonic() + TICK
            while player.loaded < 1.0 and time.monotonic() < end:
                player.read()
            time.sleep(max(end - time.monotonic(), 0.0))
            before, now = now, time.monotonic()
            player.advance(now - before, server.publish)
            server.publish("replay", pack_json("replay", player.status), keep=True)
            if (count := len(player.events)) != events:
                events = count
                server.publish("events", pack_json("events", {"events": player.events}), keep=True)
    finally:
        server.stop()
