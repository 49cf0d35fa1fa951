"""Replay: the same messages as live at the same stamp, to any time, with events."""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterable
from dataclasses import astuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lfdm_ros.bags import open_bag
from lfdm_ros.bounds import Refusals, Refused
from lfdm_ros.cli.cockpit import add_arguments, run
from lfdm_ros.cockpit import page_messages
from lfdm_ros.cockpit.replay import Player, ReplayTracks, Track
from lfdm_ros.cockpit.wire import GROUND, IMAGE, OTHER_SHARING, OTHER_STATE, RADAR, SCAN, SHARING, STATE, pack
from lfdm_ros.errors import InputError
from lfdm_ros.perception.transform_tree import Placed, TransformTree
from lfdm_ros.stacks.compose import run_stack


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> ReplayTracks:
    """Three seconds of a manoeuvre, recorded."""
    bag, vehicle = tmp_path_factory.mktemp("replay") / "bag", tmp_path_factory.mktemp("vehicle") / "sensing.yaml"
    vehicle.write_text("{name: sensing, description: hmmwv with camera and radar, base: hmmwv, sensors: {front: {type: camera}, "
                       "radar_front: {type: radar, x: {value: 0.8, unit: m}, false_alarm: 1.0e-6}}}")
    run_stack("simulator", duration=3.0, record=bag, quiet=True, timeout=200.0, speed=0.0,
              overrides={"vehicle_simulator.stepping": "lockstep", "scenario": "ramp_steer", "ground": "ice_in_the_bend",
                         "vehicle": str(vehicle)})
    recording = ReplayTracks(bag)
    shares = list(recording.load())
    assert shares[-1] == 1.0 and shares == sorted(shares)
    assert len(recording.tracks[GROUND].messages) == 1
    assert 40 < len(recording.tracks[RADAR].messages) < 70  # 20 a second, of which each has some false alarms
    return recording


def state_at(player: Player, time: float) -> bytes:
    sent: dict[Any, Any] = {}
    player.request("seek", time)
    player.advance(0.0, lambda kind, message, keep: sent.update({kind: message}))
    return sent[STATE]


def test_any_time_gives_the_state_of_that_time(recording: ReplayTracks) -> None:
    player = Player(recording)
    player.playing, player.loaded = False, 1.0
    for time in (2.0, 0.5, 2.9, 0.0, 1.0):
        stamp = np.frombuffer(state_at(player, time)[8:16], "<f8")[0]
        assert abs(stamp - time) < 0.05
    assert state_at(player, 1e9) == recording.tracks[STATE].messages[-1]


def test_playing_sends_what_is_new_and_ends(recording: ReplayTracks) -> None:
    player, sent = Player(recording), []
    player.loaded = 1.0
    for _ in range(200):
        player.advance(0.02, lambda kind, message, keep: sent.append((kind, message)))
    states = [message for kind, message in sent if kind == STATE]
    assert not player.playing and 100 < len(states) <= 152 and len(set(states)) == len(states)
    player.request("play", True)  # from the beginning
    assert player.time == 0.0 and player.playing


def track_of(times: Iterable[float], messages: Iterable[bytes]) -> Track:
    track = Track()
    for time, message in zip(times, messages):
        track.add(time, message, 0.0)
    return track


def shifted(recording: ReplayTracks, seconds: float, metres: float) -> ReplayTracks:
    """The motion of a recording, longer by a time, by a clock that is later by it, and to the side."""
    other = ReplayTracks("other_drive")
    other.duration, other.clock = recording.duration + seconds, recording.clock + seconds
    for kind in (STATE, SHARING):
        track = recording.tracks.get(kind) or track_of([0.0, 1.0], [pack(SHARING, 0.0, [0.5] * 14), pack(SHARING, 1.0, [0.6] * 14)])
        moved = [pack(kind, np.frombuffer(message[8:16], "<f8")[0] + seconds,
                      np.frombuffer(message[16:], "<f4") + (metres if kind == STATE else 0.0), 7) for message in track.messages]
        other.tracks[kind] = track_of(track.times, moved)
    other.events = [(0.5, "collision with tree")]
    return other


def test_a_second_recording_is_laid_over_the_first_from_the_start_of_both(recording: ReplayTracks) -> None:
    player, sent = Player(recording, shifted(recording, 5.0, 3.0)), dict[Any, bytes]()
    player.playing, player.loaded = False, 1.0

    def show(time: float) -> None:
        player.request("seek", time)
        player.advance(0.0, lambda kind, message, keep: sent.update({kind: message}))

    for time in (1.0, 2.5, 0.2):
        show(time)
        assert sent[OTHER_STATE][0] == OTHER_STATE and sent[STATE][0] == STATE
        np.testing.assert_allclose(*(np.frombuffer(sent[kind][8:16], "<f8") for kind in (STATE, OTHER_STATE)), atol=1e-9)
        one, other = (np.frombuffer(sent[kind][16:], "<f4") for kind in (STATE, OTHER_STATE))
        np.testing.assert_allclose(other[:2], one[:2] + 3.0, rtol=1e-5)
    assert np.frombuffer(sent[OTHER_SHARING][16:20], "<f4")[0] == np.float32(0.5)
    assert player.duration == recording.duration + 5.0 == player.status["duration"] and player.status["other"] == "other_drive"
    assert (0.5, "other_drive: collision with tree") in player.events and player.events == sorted(player.events)
    show(player.duration)  # each stays at its end
    assert sent[STATE] == recording.tracks[STATE].messages[-1]


def test_of_two_recordings_the_page_forgets_what_has_not_begun(recording: ReplayTracks) -> None:
    other, sent = shifted(recording, 0.0, 1.0), dict[Any, bytes]()
    other.tracks[STATE].times = [time + 2.0 for time in other.tracks[STATE].times]
    player = Player(recording, other)
    player.loaded = 1.0
    for time, begun in ((2.5, True), (1.0, False)):
        player.request("seek", time)
        player.advance(0.0, lambda kind, message, keep: sent.update({kind: message}))
        assert (len(sent[OTHER_STATE]) > 16) == begun and len(sent[STATE]) > 16


def test_both_bags_are_read_and_either_may_be_wrong(recording: ReplayTracks, tmp_path: Path) -> None:
    player = Player(ReplayTracks(recording.path), ReplayTracks(recording.path))
    while player.loaded < 1.0:
        player.read()
    assert player.other is not None and list(player.other.tracks[STATE].messages) == list(recording.tracks[STATE].messages)
    with pytest.raises(InputError):
        Player(ReplayTracks(recording.path), ReplayTracks(tmp_path)).read()
    with pytest.raises(InputError, match="two recordings at most"):
        run(parse("--bag", "a", "--bag", "b", "--bag", "c"))


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize("name, value", [
    ("seek", math.nan), ("seek", True), ("seek", "1"), ("rate", 0.0), ("rate", 100.0), ("play", 1), ("stop", True)])
def test_wrong_requests_are_refused(recording: ReplayTracks, name: str, value: Any) -> None:
    with pytest.raises(Refused):
        Player(recording).request(name, value)


def test_pictures_of_the_bag_are_shown_ten_a_second_and_raw_ones_are_not_recorded(recording: ReplayTracks) -> None:
    track = recording.tracks[IMAGE]
    assert 25 <= len(track.times) <= 31 and all(isinstance(m, bytes) and m[16:18] == b"\xff\xd8" for m in track.messages)
    with open_bag(recording.path) as bag:
        topics = {connection.topic for connection in bag.connections}
    assert "/sensors/front/camera_info" in topics and "/sensors/front/image_raw" not in topics


def test_messages_lie_in_a_file_in_their_order_and_the_last_word_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    track = Track()
    for time, text in ((0.0, "first"), (0.01, "the first anew, Grüße"), (0.2, "second")):
        track.add(time, text, 0.1)
    assert list(track.times) == [0.0, 0.2]
    assert list(track.messages) == ["the first anew, Grüße", "second"] and track.messages[-1] == "second"
    assert [track.count(time) for time in (-0.1, 0.0, 0.19, 5.0)] == [0, 1, 1, 2]
    binary = track_of(range(1000), (bytes([k % 256]) * k for k in range(1000)))
    assert all(len(binary.messages[k]) == k for k in (999, 1, 0, 500)) and binary.messages[7] == b"\x07" * 7
    with Path("/dev/full").open("wb", buffering=0) as device, pytest.raises(InputError, match=r"no room for a replay in .* TMPDIR"):
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: device)
        Track().add(0.0, bytes(1 << 20), 0.0)


def test_events_are_differences() -> None:
    recording = ReplayTracks("nowhere")
    for time, collisions, lifted in ((0.0, 0, 0), (1.0, 1, 0), (2.0, 1, 2)):
        recording.note("simulator", time, {"collisions": collisions, "lifted": lifted, "collided_with": "tree"})
    for time, state in ((0.0, "sharing"), (3.0, "operator_lost")):
        recording.note("sharing", time, {"state": state})
    assert recording.events == [(1.0, "collision with tree"), (2.0, "2 wheels lifted"), (3.0, "operator lost")]


def test_a_folder_that_is_no_bag_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        list(ReplayTracks(tmp_path).load())


def transform(parent: str, child: str, x: float, y: float, yaw: float) -> Any:
    return SimpleNamespace(header=SimpleNamespace(frame_id=parent), child_frame_id=child, transform=SimpleNamespace(
        translation=SimpleNamespace(x=x, y=y, z=0.0), rotation=SimpleNamespace(x=0.0, y=0.0, z=math.sin(yaw / 2), w=math.cos(yaw / 2))))


def test_the_lidar_is_where_its_transforms_say() -> None:
    frames, refusals = TransformTree(), Refusals()
    assert frames.place("lidar", "base_link") == Placed()
    frames.hear(SimpleNamespace(transforms=[
        transform("base_link", "roof", 1.0, 0.0, math.pi / 2), transform("roof", "lidar", 0.5, 0.0, 0.0),
        transform("a", "b", math.nan, 0.0, 0.0), transform("c", "d", 0.0, 0.0, 0.0), transform("d", "c", 0.0, 0.0, 0.0)]), refusals)
    np.testing.assert_allclose(astuple(frames.place("lidar", "base_link")), (1.0, 0.5, math.pi / 2), atol=1e-12)
    assert frames.place("c", "base_link") == Placed() and refusals.total == 1  # a circle
    scan = SimpleNamespace(header=SimpleNamespace(frame_id="lidar", stamp=SimpleNamespace(sec=3, nanosec=500_000_000)), angle_min=-1.0,
                           angle_increment=1.0, range_min=0.1, range_max=20.0, ranges=[1.0, math.inf, 2.0])
    packed = page_messages.scan(scan, frames)
    assert packed[0] == SCAN and np.frombuffer(packed[8:16], "<f8")[0] == 3.5
    np.testing.assert_allclose(
        np.frombuffer(packed[16:], "<f4"), [1.0, 0.5, math.pi / 2, -1.0, 1.0, 0.1, 20.0, 1.0, np.inf, 2.0], rtol=1e-6)
