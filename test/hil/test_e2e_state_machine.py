"""What comes on a link and may act: the state machine message by message, and a fuzz of what goes wrong on the wire.

The fuzz runs the vehicle's end against a device that answers each cycle, in simulated time, over a wire that delays, loses, repeats and
mixes what the device has sent. Each command carries the tick that it was computed from: its true age is known whatever the link believes.
"""

import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest

from lfdm_ros.hil import udp
from lfdm_ros.hil.e2e import (
    CHECKSUM,
    INIT,
    INVALID,
    MAX_ERRORS,
    MIN_OK,
    NO_DATA,
    REPEATED,
    SECOND_SENDER,
    SECOND_SENDER_HOLD,
    STALE,
    VALID,
    WINDOW_SIZE,
    WRONG_SEQUENCE,
    E2EStateMachine,
    Protection,
    crc8,
)
from lfdm_ros.hil.link import COMMANDS, CONTROLLER, SIGNALS, VEHICLE, LinkSettings, Packet

pytest.importorskip("cantools")
can = pytest.importorskip("can")

from lfdm_ros.hil.can_bus import CanLink  # noqa: E402

PERIOD, LIMIT = 0.01, 0.2  # [s]
BEGUN = 2 * MIN_OK  # ticks until both ends take what comes
US, OTHER = ("127.0.0.1", 47002), ("127.0.0.1", 50000)


# -- the state machine ------------------------------------------------------------------------------------------------------


def fed(machine: E2EStateMachine, errors: Iterable[str], begin: float = 0.0, sender: Any = US) -> list[str]:
    """What becomes of messages, one every PERIOD."""
    return [machine.update(begin + PERIOD * k, error, sender) for k, error in enumerate(errors)]


def valid() -> E2EStateMachine:
    machine = E2EStateMachine(LIMIT)
    fed(machine, [""] * MIN_OK, -PERIOD * MIN_OK)
    assert machine.state == VALID and machine.initialisations == 1
    return machine


def test_the_first_messages_do_not_act() -> None:
    machine = E2EStateMachine(LIMIT)
    assert machine.state == NO_DATA and machine.update(0.0, CHECKSUM, US) == CHECKSUM and machine.state == NO_DATA
    assert fed(machine, ["", "", WRONG_SEQUENCE, "", "", ""]) == [INIT, INIT, WRONG_SEQUENCE, INIT, INIT, ""]
    assert machine.state == VALID and not machine.trouble and machine.sender == US
    machine.reset()
    fed(machine, [REPEATED] * (MAX_ERRORS + 1))
    assert machine.state == INVALID


@pytest.mark.parametrize("error", [CHECKSUM, REPEATED, WRONG_SEQUENCE, STALE])
def test_errors_in_the_window_end_it_and_good_messages_begin_it_again(error: str) -> None:
    machine = valid()
    assert fed(machine, [error] * MAX_ERRORS) == [error] * MAX_ERRORS and machine.state == VALID
    assert fed(machine, [error, ""], 0.03) == [error, INVALID]
    assert machine.trouble == f"4 of the last 7 messages were refused, the last one as {error}"
    again = fed(machine, [""] * WINDOW_SIZE, 0.05)
    assert again == [INVALID] * again.index("") + [""] * (WINDOW_SIZE - again.index("")) and machine.state == VALID and not machine.trouble


def test_after_silence_the_same_sequence_goes_on_and_another_begins() -> None:
    machine = valid()
    machine.advance(LIMIT - 2 * PERIOD)
    assert machine.state == VALID
    machine.advance(1.0)
    assert machine.state == NO_DATA
    assert machine.update(1.0, "", US) == "" and machine.initialisations == 1
    assert fed(machine, [WRONG_SEQUENCE, "", "", ""], 2.0) == [WRONG_SEQUENCE, INIT, INIT, ""] and machine.initialisations == 2
    assert fed(machine, ["", "", ""], 3.0, OTHER) == [INIT, INIT, ""] and machine.sender == OTHER and machine.initialisations == 3


def test_first_messages_with_more_than_the_silence_between_them_are_a_sequence_too() -> None:
    machine = E2EStateMachine(LIMIT)
    taken = []
    for k in range(4):
        machine.advance(2 * LIMIT * k)
        taken.append(machine.update(2 * LIMIT * k, "", US))
    assert taken == [INIT, INIT, "", ""] and machine.initialisations == 1


def test_a_second_sender_is_invalid_as_long_as_it_is_there() -> None:
    machine = valid()
    assert machine.update(0.0, CHECKSUM, OTHER) == CHECKSUM and machine.state == VALID
    assert machine.update(0.0, "", OTHER) == SECOND_SENDER and machine.state == INVALID
    assert machine.trouble == "two senders: messages come from 127.0.0.1:47002 and from 127.0.0.1:50000"
    states = []
    for k in range(round(2 * SECOND_SENDER_HOLD / PERIOD)):
        machine.update(PERIOD * k, "", US)
        states.append(machine.state)
    assert states == [INVALID] * round(SECOND_SENDER_HOLD / PERIOD) + [VALID] * round(SECOND_SENDER_HOLD / PERIOD)
    # Once the first is silent the second is taken.
    taken = fed(machine, [""] * 50, 2.0, OTHER)
    assert taken[0] == SECOND_SENDER and taken[-1] == "" and machine.sender == OTHER


# -- a fuzz of the wire -----------------------------------------------------------------------------------------------------


class Queue:
    """What has arrived at the vehicle's end: a bus as python-can's, and a socket."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.come: deque[Any] = deque()

    def send(self, frame: Any) -> None:
        self.sent.append(frame)

    def recv(self, size: float) -> Any:
        frame = self.come.popleft() if self.come else None
        if isinstance(frame, Exception):
            raise frame
        return frame

    def sendto(self, data: bytes, address: Any) -> None:
        self.sent.append(bytes(data))

    def recvfrom(self, size: int) -> Any:
        if not self.come:
            raise BlockingIOError
        return self.come.popleft()

    def setblocking(self, flag: bool) -> None: ...
    def bind(self, address: Any) -> None: ...
    def shutdown(self) -> None: ...
    def close(self) -> None: ...


def command_of(tick: int) -> dict[str, float]:
    """A command that says by its steering which tick it was computed from."""
    return dict(zip(COMMANDS, (tick / 32000, 0.0, 0.0)))


class CanWire:
    """The vehicle's end of a bus."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queue, self.troubles = Queue(), list[str]()
        self.link = CanLink(VEHICLE, LinkSettings(period=PERIOD, timeout=LIMIT), self.queue)
        self.link.open()
        self.junk = [can.CanOperationError("no frame"), can.Message(arbitration_id=256, is_extended_id=False, data=b"12345678"),
                     can.Message(arbitration_id=256, is_extended_id=False, data=b"1"), can.Message(arbitration_id=1, is_extended_id=False)]

    def device(self, sender: Any = US, first: int = 0) -> Callable[[list[Any], int], list[Any]]:
        """A device; gives what it sends, of what it has heard and the tick."""
        queue = Queue()
        link = CanLink(CONTROLLER, LinkSettings(period=PERIOD, timeout=10.0), queue)
        link.open()
        for _ in range(first):
            link.send(Packet(0, command_of(0)))

        def answer(heard: list[Any], tick: int) -> list[Any]:
            queue.come.extend(heard)
            queue.sent.clear()
            while (packet := link.receive(0.0)) is not None:
                link.send(Packet(packet.stamp_ns, command_of(tick)))
            return list(queue.sent)

        return answer


class UdpWire:
    """The vehicle's end of two sockets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queue, self.troubles = Queue(), list[str]()
        monkeypatch.setattr(udp.socket, "socket", lambda *_: self.queue)
        self.link = udp.UdpLink(VEHICLE, LinkSettings(period=PERIOD, timeout=LIMIT))
        self.link.open()
        self.junk = [(b"junk", OTHER), (b"", US), (bytes(52), US), (bytes(52), OTHER)]

    def device(self, sender: Any = US, first: int = 0) -> Callable[[list[Any], int], list[Any]]:
        sequence = first

        def answer(heard: list[Any], tick: int) -> list[Any]:
            nonlocal sequence
            sent = []
            for data in heard:
                stamp, = struct.unpack_from("<Q", data, 16)
                body = struct.pack("<4sHHIIQ3d", b"LFDM", 1, 2, sequence, 3, stamp, *command_of(tick).values())
                sent.append((body + struct.pack("<I", zlib.crc32(body)), sender))
                sequence += 1
            return sent

        return answer


@pytest.fixture(params=[CanWire, UdpWire])
def wire(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    return request.param(monkeypatch)


def drive(wire: Any, channel: Callable[[int, list[Any], list[Any]], list[Any]], ticks: int = 400) -> tuple[list[int], list[str]]:
    """Ticks of a loop. channel: what arrives at a tick, of the tick, what the vehicle sent and what the device answers to that at once.

    Returns the tick of the newest command that acted, by tick, -1: none, and the state of the machine; no command that acts is too old.
    """
    device = wire.device()
    newest, acting, states = -1, [], []
    for tick in range(ticks):
        wire.queue.sent.clear()
        wire.link.send(Packet(round(1e9 * PERIOD) * tick, dict.fromkeys(SIGNALS, 0.0)))
        sent = list(wire.queue.sent)
        wire.queue.come.extend(channel(tick, sent, device(sent, tick)))
        while (packet := wire.link.receive(0.0)) is not None:
            computed = round(packet.values["steering"] * 32000)
            assert (tick - computed) * PERIOD <= LIMIT + 1e-9, f"at {tick * PERIOD:g} s acts a command of {computed * PERIOD:g} s"
            newest = computed
        acting.append(newest)
        states.append(wire.link.wire.e2e.state)
        wire.troubles.append(wire.link.wire.trouble)
    return acting, states


class Delay:
    """Holds answers back by a number of ticks."""

    def __init__(self, ticks: Callable[[int], int]) -> None:
        self._ticks, self._held = ticks, list[tuple[int, int, Any]]()

    def __call__(self, tick: int, sent: list[Any], answers: list[Any]) -> list[Any]:
        self._held += [(tick + self._ticks(tick), tick, answer) for answer in answers]
        due = sorted(held[:2] for held in self._held if held[0] <= tick)
        come = [answer for at, since, answer in self._held if (at, since) in due]
        self._held = [held for held in self._held if held[0] > tick]
        return come


def test_undisturbed_every_command_acts(wire: Any) -> None:
    acting, _ = drive(wire, lambda tick, sent, answers: answers)
    assert acting[BEGUN:] == list(range(BEGUN, 400)) and not wire.link.wire.refused
    assert wire.link.wire.e2e.max_age == 0.0


def test_junk_changes_nothing_unless_it_is_as_our_own(wire: Any) -> None:
    others = [junk for junk in wire.junk if not (isinstance(junk, can.Message) and len(junk.data) == 8) and junk != (bytes(52), US)]
    acting, states = drive(wire, lambda tick, sent, answers: [*others, *others, *answers, *others])
    assert acting[BEGUN:] == list(range(BEGUN, 400)) and wire.link.wire.refused["malformed"] > 1000
    assert states[BEGUN:] == [VALID] * (400 - BEGUN)


@pytest.mark.parametrize(("ticks", "acts"), [(5, True), (20, True), (21, False), (30, False), (60, False), (100, False), (300, False)])
def test_delays(wire: Any, ticks: int, acts: bool) -> None:
    acting, states = drive(wire, Delay(lambda tick: ticks))
    assert (acting[-1] == 399 - ticks) == acts and (states[-1] == VALID) == acts
    if acts:
        assert wire.link.wire.e2e.max_age == pytest.approx(ticks * PERIOD)
    else:
        assert acting[-1] == -1 and states[-1] == INVALID and "stale" in wire.link.wire.trouble


def test_a_delay_that_comes_while_driving_is_an_error_until_it_goes(wire: Any) -> None:
    acting, states = drive(wire, Delay(lambda tick: 60 if 100 <= tick < 200 else 0))
    assert acting[99] == 99 and max(acting[100:200]) == 99 and set(states[165:195]) == {INVALID} and acting[-1] == 399


def test_an_old_second_again(wire: Any) -> None:
    """First beside the true device, then in its place."""
    kept: dict[int, list[Any]] = {}

    def channel(tick: int, sent: list[Any], answers: list[Any]) -> list[Any]:
        kept[tick] = answers
        old = kept[tick - 100] if 150 <= tick < 250 or tick >= 350 else []
        return [*(answers if tick < 350 else []), *old]

    acting, states = drive(wire, channel, 500)
    assert INVALID in states[150:250] and acting[340] == 340 and acting[-1] == 349 and states[-1] != VALID


@pytest.mark.parametrize("tick", [0, 1, BEGUN, 100])
def test_a_frozen_device(wire: Any, tick: int) -> None:
    """It repeats its last message for ever; over UDP the first one has the sequence number 0."""
    last: list[Any] = []

    def channel(now: int, sent: list[Any], answers: list[Any]) -> list[Any]:
        if now <= tick or not last:
            last[:] = answers
        return list(last)

    acting, states = drive(wire, channel)
    assert acting[-1] == (tick if tick >= BEGUN else -1) and states[-1] == INVALID and "repeated" in wire.link.wire.trouble


@pytest.mark.parametrize("first", [0, 1, 3, 7, 14, 1000])
@pytest.mark.parametrize("every", [1, 7, 50])
def test_a_second_sender_stops_both(wire: Any, first: int, every: int) -> None:
    """From another address, or on the bus, always or now and then; its numbers run beside those of the true one."""
    second = wire.device(OTHER, first)

    def channel(tick: int, sent: list[Any], answers: list[Any]) -> list[Any]:
        theirs = second(sent, tick - 1)
        return [*answers, *(theirs if 100 <= tick < 200 and tick % every == 100 % every else [])]

    acting, states = drive(wire, channel)
    assert states[99] == VALID and set(states[105:200]) == {INVALID} and "two senders" in wire.troubles[150]
    assert acting[105:200] == [acting[105]] * 95 and acting[-1] == 399 and states[-1] == VALID


def test_a_device_that_begins_anew_is_taken_again(wire: Any) -> None:
    """At another address, with other numbers, after the first has been silent."""
    again = wire.device(OTHER, 7)

    def channel(tick: int, sent: list[Any], answers: list[Any]) -> list[Any]:
        return answers if tick < 100 else again(sent, tick) if tick >= 200 else []

    acting, states = drive(wire, channel)
    assert states[199] == NO_DATA and acting[199] == 99 and acting[-1] == 399 and wire.link.wire.e2e.initialisations == 2


def test_counters_that_jump_and_bursts_are_let_through_when_they_are_fresh(wire: Any) -> None:
    lost = Random(1)
    acting, states = drive(wire, lambda tick, sent, answers: [] if lost.random() < 0.1 else answers)
    assert max(tick - newest for tick, newest in enumerate(acting) if tick > 10) < 10
    wire.link.wire.e2e.reset()
    acting, states = drive(wire, Delay(lambda tick: 9 - tick % 10))  # ten at once, every ten
    assert acting[399] == 399 and VALID in states[-10:]


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_nothing_too_old_acts(wire: Any, seed: int) -> None:
    """Delays that come and go, reordering, loss, repetition, junk, old seconds, a second device, all at once; `drive` asserts."""
    random = Random(seed)
    second = wire.device(random.choice((US, OTHER)), random.randrange(100))
    late = Delay(lambda tick: random.choice((0, 0, 0, 1, 2, 15, 20, 30, 60, 100)) if rates["late"] > random.random() else shift)
    rates = {name: random.choice((0.0, 0.02, 0.2, 0.9)) for name in ("late", "lost", "again", "junk", "old", "second")}
    kept, shift = [], 0

    def channel(tick: int, sent: list[Any], answers: list[Any]) -> list[Any]:
        nonlocal shift
        if tick % 100 == 0:
            rates.update({name: random.choice((0.0, 0.02, 0.2, 0.9)) for name in rates})
            shift = random.choice((0, 0, 0, 10, 30, 100))
        theirs = second(sent, tick)
        kept.extend(answers)
        come = late(tick, sent, answers)
        come += [*come] if random.random() < rates["again"] else []
        come += [random.choice(kept)] if kept and random.random() < rates["old"] else []
        come += theirs if random.random() < rates["second"] else []
        come += [random.choice(wire.junk)] if random.random() < rates["junk"] else []
        random.shuffle(come)
        return [] if random.random() < rates["lost"] else come

    drive(wire, channel, 3000)


CHECK = b"123456789"


def test_published_check_values() -> None:
    """Of the polynomial 0x1D: CRC-8/GSM-A starts with 0 and does not invert, as profile 1; CRC-8/SAE-J1850 does both."""
    assert crc8(CHECK) == 0x37
    assert crc8(CHECK, 0xFF) ^ 0xFF == 0x4B


def test_against_another_implementation() -> None:
    crccheck = pytest.importorskip("crccheck.crc")
    for length in range(20):
        data = bytes((37 * i + length) % 256 for i in range(length))
        assert crc8(data, 0xFF) ^ 0xFF == crccheck.Crc8SaeJ1850.calc(data)


def test_counter_goes_round_and_the_checksum_covers_data_id_counter_and_signals() -> None:
    sender = Protection(0x1234)
    counters = []
    for _ in range(17):
        data = bytearray(8)
        sender.protect(data)
        counters.append(data[1] & 0x0F)
        assert data[0] == crc8([0x34, 0x12, *data[1:]])
    assert counters == [*range(15), 0, 1]


def test_what_is_wrong_is_named() -> None:
    sender, receiver, other = Protection(7), Protection(7), Protection(8)

    def sent(step: int = 1) -> bytearray:
        data = bytearray(8)
        sender.protect(data, step)
        return data

    first = sent()
    assert other.check(first) == CHECKSUM
    assert receiver.check(first) == ""
    assert receiver.check(first) == REPEATED
    for bit in range(64):
        flipped = sent()
        flipped[bit // 8] ^= 1 << bit % 8
        assert receiver.check(flipped) == CHECKSUM, bit
    receiver.check(sent())  # 64 were lost: out of sequence or not, the next one goes on from here
    assert receiver.check(sent()) == ""
    assert receiver.check(sent(4)) == ""  # three were lost
    assert receiver.check(sent(5)) == WRONG_SEQUENCE
    assert receiver.check(sent()) == ""
