"""The CAN link: messages of a DBC file, each at its cycle time, with alive counter and checksum, on any bus of python-can.

A packet is the set of messages due at one time. The message with the cycle number goes last, and the signal `answers` of the command
returns the last number received: without stamps on CAN, it gives the vehicle's end the age of a command. The controller's end measures
time in cycles.
"""

import ctypes
import os
import socket
import struct
import time
from collections.abc import Sequence
from itertools import count
from typing import Any

from lfdm_ros.errors import InputError
from lfdm_ros.hil.can_messages import ANSWERS, CYCLE, Message, messages_of, require_can
from lfdm_ros.hil.e2e import CHECKSUM, COUNTERS, SECOND_SENDER, STALE, E2EStateMachine, read_counter
from lfdm_ros.hil.link import CONTROLLER, LOST, MALFORMED, MAX_FOREIGN, RECEIVED, LinkSettings, Packet, Wire

_ATTACH = 26  # SO_ATTACH_FILTER of Linux, not in Python's socket module
# Instructions of the filter: BPF_LD | BPF_ABS of a word, half a word and a byte, BPF_JMP | BPF_JEQ, BPF_RET.
_WORD, _HALF, _BYTE, _EQUAL, _RETURN = 0x20, 0x28, 0x30, 0x15, 0x06
_TYPE, _DEVICE = 0xFFFFF004, 0xFFFFF008  # SKF_AD_OFF + SKF_AD_PKTTYPE, SKF_AD_IFINDEX
_LOOPED = 5  # PACKET_LOOPBACK: the sending machine's copy of a multicast packet
_ALL = 0xFFFF  # bytes of a packet
# Offset of the frame's identifier in python-can's datagram, after the UDP header: a msgpack map of eleven entries, first the timestamp, a
# double, second the identifier, in the encoding of values from 256 to 65535.
_HEADER, _MAP, _UINT16 = 8, 0x8B, 0xCD
_VALUE = _HEADER + 1 + len(b"_timestamp") + 9 + len(b"_arbitration_id")
_IDENTIFIERS, _MAX_IDENTIFIERS = (256, 65535), 100  # range and number of filtered identifiers: jumps reach 255 instructions


class CanLink:
    """One end of a CAN bus."""

    def __init__(self, end: str, settings: LinkSettings, bus: Any = None) -> None:
        """Makes one end of a bus; `bus`: in place of that of the settings, an object with python-can's `send`, `recv` and `shutdown`.
        Raises InputError: packages are missing, the DBC file cannot be used, a cycle time is no multiple of the loop's period, or the cycle
        number wraps too soon for the time-out."""
        self._can, _ = require_can()
        self._e2e = E2EStateMachine(settings.timeout)
        self.wire = Wire(e2e=self._e2e)
        self._settings, self._injected_bus = settings, bus
        self._bus: Any = None
        self._at_vehicle = end != CONTROLLER
        self._sends = messages_of(settings.dbc, not self._at_vehicle)
        self._due = [self._ticks(message, settings) for message in self._sends]
        self._receives = {m.frame_id: m for m in messages_of(settings.dbc, self._at_vehicle)}
        self._missing = dict.fromkeys(RECEIVED[end], float("nan"))
        sent, received = self._sends, [*self._receives.values()]
        signals, commands = (sent, received) if self._at_vehicle else (received, sent)
        self._marked = self._single([m for m in signals if m.answered], "Vehicle", CYCLE)
        answer = self._single([m for m in commands if m.answers], "Controller", ANSWERS)
        numbers, cycle = self._marked.numbers, self._marked.cycle or settings.period
        if answer.numbers != numbers:
            raise InputError(f"{settings.dbc}: give {CYCLE} of {self._marked.name} and {ANSWERS} of {answer.name} the same number of bits")
        if 2.0 * settings.timeout > numbers * cycle:
            raise InputError(f"{settings.dbc}: {CYCLE} of {self._marked.name} begins anew after {numbers * cycle:g} s; give it and "
                             f"{ANSWERS} of {answer.name} more bits, or a time-out below half of that: it is {settings.timeout:g} s")
        self._reset()

    def _single(self, messages: list[Message], sender: str, signal: str) -> Message:
        if len(messages) != 1:
            raise InputError(f"{self._settings.dbc}: {len(messages)} messages of the node {sender} have the signal {signal}; let one have "
                             "it: it matches commands with signals, see docs/howto/hil.md")
        return messages[0]

    def _reset(self) -> None:
        self._e2e.reset()
        self._tick, self._cycle = -1, 0  # of the last packet; number of the last cycle, 0: none yet
        self._stamp_ns = -1
        self._sent_cycles: dict[int, tuple[int, int]] = {}  # tick and stamp by cycle number, of the last round
        self._last_command: tuple[int | None, bytes] = (None, b"")  # its `answers`, and its bytes
        self._latest = dict(self._missing)
        self._cycles = 0  # last cycle received, unwrapped

    def _ticks(self, message: Message, settings: LinkSettings) -> int:
        """Returns the ticks of the loop in a message's cycle; 0: sent with every packet."""
        if not message.cycle or not (message.names or message.answered) or message.answers:
            return 0
        ticks = message.cycle / settings.period
        if round(ticks) < 1 or abs(ticks - round(ticks)) > 1e-6:
            raise InputError(f"{settings.dbc}: cycle time of {message.name}, {1e3 * message.cycle:g} ms, is no multiple of the loop's "
                             f"period, {1e3 * settings.period:g} ms; change rate, or GenMsgCycleTime")
        return round(ticks)

    def open(self) -> None:
        self._reset()
        if self._injected_bus is not None:
            self._bus = self._injected_bus
            return
        s = self._settings
        # The multicast bus is restricted to this machine: python-can binds to all of its addresses. Frames sent by this end are filtered:
        # python-can would return them, and reading them takes as long as the rest of a tick.
        local = s.can_interface == "udp_multicast"
        more = {"port": s.can_port, "hop_limit": 0} if local else {}
        try:
            self._bus = self._can.Bus(interface=s.can_interface, channel=s.can_channel, receive_own_messages=False, **more)
            if local:
                take_local_only(self._bus.fileno(), own=sorted({m.frame_id for m in self._sends} - self._receives.keys()))
            # Filters of the driver only: with python-can's software filters recv returns None for a filtered frame, as for an empty queue.
            if type(self._bus)._apply_filters is not self._can.BusABC._apply_filters:
                self._bus.set_filters([{"can_id": m.frame_id, "can_mask": 0x1FFFFFFF, "extended": m.extended}
                                       for m in self._receives.values()])
        except Exception as error:  # the type depends on the interface
            if self._bus is not None:
                self._bus.shutdown()
                self._bus = None
            raise InputError(f"link can: the bus {s.can_interface} {s.can_channel} cannot be opened: {error}; see can_interface and "
                             "can_channel") from None

    def close(self) -> None:
        bus, self._bus = self._bus, None
        if bus is not None:
            bus.shutdown()

    def send(self, packet: Packet) -> bool:
        requested = False
        # A repeated state, as in lockstep before the first answer, does not advance the schedule.
        self._tick += not self._at_vehicle or packet.stamp_ns != self._stamp_ns
        self._stamp_ns = packet.stamp_ns
        if self._at_vehicle:
            self._e2e.advance(self._now())
        for message, ticks in zip(self._sends, self._due):
            if not (message.names or message.answered) or (ticks and self._tick % ticks):
                continue
            number = None
            if message is self._marked:
                requested = True
                self._cycle = number = (self._cycle + self.wire.step) % message.numbers
                self._sent_cycles[number] = self._tick, packet.stamp_ns
            elif message.answers and packet.stamp_ns > 0:
                number = self._find_cycle(packet.stamp_ns)
            data = message.pack(packet.values, number)
            if message.protection:
                message.protection.protect(data, self.wire.step)
            if self.wire.outwards(message.names, data):
                self._put(message, data)
        self.wire.sent += 1
        return requested

    def _now(self) -> float:
        """Returns the time [s] for detecting silence: the loop's, unaffected by clock faults; at the controller's end the steady clock."""
        return self._tick * self._settings.period if self._at_vehicle else time.monotonic()

    def _cycle_stamp(self, cycles: int) -> int:
        return round(1e9 * (self._marked.cycle or self._settings.period)) * cycles

    def _find_cycle(self, stamp_ns: int) -> int | None:
        """Returns, at the controller's end, the number of the last cycle at or before a stamp; None: too old to be unambiguous."""
        cycles = min(stamp_ns // self._cycle_stamp(1), self._cycles)
        return cycles % self._marked.numbers if self._cycles - cycles < self._marked.numbers // 2 else None

    def _put(self, message: Message, data: bytearray) -> None:
        try:
            self._bus.send(self._can.Message(arbitration_id=message.frame_id, data=data, is_extended_id=message.extended))
        except self._can.CanError:  # a full buffer, or bus-off: counts as a lost message
            self.wire.refused[LOST] += 1

    def receive(self, timeout: float) -> Packet | None:
        end = time.monotonic() + timeout
        for read in count(1):
            if self._bus is None:
                break
            try:
                frame = self._bus.recv(max(end - time.monotonic(), 0.0) if timeout else 0.0)
            except self._can.CanError:  # a datagram that is no frame, or bus-off
                self.wire.refused[MALFORMED] += 1
            else:
                packet = None if frame is None else self._parse(frame)
                if frame is None or packet is not None:
                    return packet
            if time.monotonic() >= end if timeout else read >= MAX_FOREIGN:
                break
        return None

    def _parse(self, frame: Any) -> Packet | None:
        """Returns the packet completed by a frame, if any."""
        message = self._receives.get(frame.arbitration_id)
        if message is None or frame.is_remote_frame or frame.is_error_frame:
            return None
        data = bytearray(frame.data)
        if not self.wire.inwards(message.names, data):
            return None
        if len(data) != message.size:
            self.wire.refused[MALFORMED] += 1
            return None
        error = message.protection.check(data) if message.protection else ""
        values, number = message.unpack(data)
        if message.answers:
            return self._command(message, values, number, data, error)
        if message is self._marked:
            return self._signals(values, number, error)
        if error:
            self.wire.refused[error] += 1
        else:
            self._latest.update(values)
        return None

    def _command(self, message: Message, values: dict[str, float], number: int | None, data: bytearray, error: str) -> Packet | None:
        tick, stamp_ns = self._sent_cycles.get(-1 if number is None else number, (-1, 0))
        age = (self._tick - tick) * self._settings.period
        if error != CHECKSUM:
            if message.protection and self._is_second_sender(number, data):
                error = SECOND_SENDER
            elif not error and (tick < 0 or age > self._settings.timeout + 1e-9):
                error = STALE
            self._last_command = number, bytes(data)
        if not self.wire.accept(self._now(), error, age=age):
            return None
        self.wire.received += 1
        return Packet(stamp_ns, values)

    def _is_second_sender(self, number: int | None, data: bytearray) -> bool:
        """Checks that the counter advanced further since the last command than by one answer to each cycle."""
        before, newest = self._last_command
        if number is None or before is None or data == newest:
            return False
        cycles = (number - before) % self._marked.numbers
        # After a full round the counter is ambiguous. A second answer to a cycle is permitted.
        return cycles < COUNTERS and (read_counter(data) - read_counter(newest) - 1) % COUNTERS > cycles

    def _signals(self, values: dict[str, float], number: int | None, error: str) -> Packet | None:
        if not error and number is None:
            error = STALE
        if not self.wire.accept(time.monotonic(), error):
            return None
        self.wire.received += 1
        assert number is not None
        self._latest.update(values)
        # Unwraps the cycle number: fewer cycles than one round are lost between two messages.
        self._cycles += (number - self._cycles) % self._marked.numbers
        return Packet(self._cycle_stamp(self._cycles), dict(self._latest))


def take_local_only(fileno: int, loopback: str = "lo", own: Sequence[int] = ()) -> None:
    """Attaches a kernel filter that passes only packets of the loopback device and local copies of multicasts. It drops too the copies of
    frames with the `own` identifiers, which only this end sends; with another encoding of python-can they pass, and cost time only. Raises
    OSError: not supported by the kernel, or no such device."""
    identifiers = [identifier for identifier in own if _IDENTIFIERS[0] <= identifier <= _IDENTIFIERS[1]][:_MAX_IDENTIFIERS]
    n = len(identifiers)
    program = [(_WORD, 0, 0, _TYPE), (_EQUAL, 2, 0, _LOOPED), (_WORD, 0, 0, _DEVICE), (_EQUAL, 0, n + 6, socket.if_nametoindex(loopback)),
               (_BYTE, 0, 0, _HEADER), (_EQUAL, 0, n + 3, _MAP), (_BYTE, 0, 0, _VALUE), (_EQUAL, 0, n + 1, _UINT16),
               (_HALF, 0, 0, _VALUE + 1), *((_EQUAL, n - k, 0, identifier) for k, identifier in enumerate(identifiers)),
               (_RETURN, 0, 0, _ALL), (_RETURN, 0, 0, 0)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    with socket.socket(fileno=os.dup(fileno)) as same:
        same.setsockopt(socket.SOL_SOCKET, _ATTACH, struct.pack("HP", len(program), ctypes.addressof(code)))
