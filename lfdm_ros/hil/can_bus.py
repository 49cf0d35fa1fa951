"""The CAN link: messages of a DBC file, each at its cycle time, with alive counter and checksum, on any bus that python-can knows.

A packet is what is due at one time; the message that the file marks as `Answered` goes last, and the other end's command tells by its
signal `answers` whose alive counter it has seen. CAN has no stamps: the vehicle's end knows when it sent that counter, the controller's end
counts the cycles of that message.
"""

from __future__ import annotations

import time
from typing import Any

from lfdm_ros.errors import InputError
from lfdm_ros.hil.e2e import COUNTERS, NOT_AVAILABLE
from lfdm_ros.hil.link import CONTROLLER, LOST, MALFORMED, MOST_READ, RECEIVED, LinkSettings, Packet, Wire
from lfdm_ros.hil.local_only import take_local_only
from lfdm_ros.hil.messages import Message, messages_of, require_can


class CanLink:
    """One end of a bus."""

    def __init__(self, end: str, settings: LinkSettings, bus: Any = None) -> None:
        """
        Args:
            bus: to be used as it is, whatever the settings say: with `send`, `recv` and `shutdown` as python-can's.

        Raises:
            InputError: packages are missing, the DBC file cannot be used, or a cycle time is no multiple of the loop's period.
        """
        self._can, _ = require_can()
        self.wire = Wire()
        self._settings, self._given = settings, bus
        self._bus: Any = None
        controller = end == CONTROLLER
        self._sends = messages_of(settings.dbc, controller)
        self._due = [self._ticks(message, settings) for message in self._sends]
        self._receives = {m.frame_id: m for m in messages_of(settings.dbc, not controller)}
        self._marked = next((m for m in (self._receives.values() if controller else self._sends) if m.answered), None)
        self._missing = dict.fromkeys(RECEIVED[end], float("nan"))
        self._reset()

    def _reset(self) -> None:
        self._tick = 0
        self._stamps: list[int | None] = [None] * COUNTERS  # when the marked message had that counter, of the last round
        self._known = dict(self._missing)
        self._cycles, self._counter = 0, -1

    def _ticks(self, message: Message, settings: LinkSettings) -> int:
        """Ticks of the loop in a message's cycle; 0: it goes with every packet."""
        if not message.cycle or not message.names or message.answers:
            return 0
        ticks = message.cycle / settings.period
        if round(ticks) < 1 or abs(ticks - round(ticks)) > 1e-6:
            raise InputError(f"{settings.dbc}: cycle time of {message.name}, {1e3 * message.cycle:g} ms, is no multiple of the loop's "
                             f"period, {1e3 * settings.period:g} ms; change rate, or GenMsgCycleTime")
        return round(ticks)

    def open(self) -> None:
        self._reset()
        if self._given is not None:
            self._bus = self._given
            return
        s = self._settings
        # Datagrams of the multicast bus stay on this machine, and those of others stay out: python-can binds to all of its addresses. Nor
        # does it leave out what we have sent ourselves: to read that takes as long as all else that a tick is made of.
        local = s.can_interface == "udp_multicast"
        more = {"port": s.can_port, "hop_limit": 0} if local else {}
        try:
            self._bus = self._can.Bus(interface=s.can_interface, channel=s.can_channel, receive_own_messages=False, **more)
            if local:
                take_local_only(self._bus.fileno(), own=sorted({m.frame_id for m in self._sends} - self._receives.keys()))
            # Where python-can itself compares identifiers, a frame that it leaves out looks as if there was none, and ends what is read.
            if type(self._bus)._apply_filters is not self._can.BusABC._apply_filters:
                self._bus.set_filters([{"can_id": m.frame_id, "can_mask": 0x1FFFFFFF, "extended": m.extended}
                                       for m in self._receives.values()])
        except Exception as error:  # each interface has its own
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
        asked = False
        tick, self._tick = self._tick, self._tick + 1
        for message, ticks in zip(self._sends, self._due):
            if not message.names or (ticks and tick % ticks):
                continue
            data = message.pack(packet.values, self._answer_to(packet.stamp_ns))
            counter = message.protection.protect(data, self.wire.step) if message.protection else NOT_AVAILABLE
            if message is self._marked:
                asked = True
                if counter < COUNTERS:
                    self._stamps[counter] = packet.stamp_ns
            if self.wire.outwards(message.names, data):
                self._put(message, data)
        self.wire.sent += 1
        return asked

    def _answer_to(self, stamp_ns: int) -> int:
        """The alive counter of what a command answers."""
        return self._stamps.index(stamp_ns) if stamp_ns and stamp_ns in self._stamps else NOT_AVAILABLE

    def _put(self, message: Message, data: bytearray) -> None:
        try:
            self._bus.send(self._can.Message(arbitration_id=message.frame_id, data=data, is_extended_id=message.extended))
        except self._can.CanError:  # a full buffer, or a bus that is off: on a wire that is a lost message
            self.wire.refused[LOST] += 1

    def receive(self, timeout: float) -> Packet | None:
        end = time.monotonic() + timeout
        for _ in range(MOST_READ):
            if self._bus is None:
                return None
            try:
                frame = self._bus.recv(max(end - time.monotonic(), 0.0) if timeout else 0.0)
            except self._can.CanError:  # a datagram that is no frame, or a bus that is off
                self.wire.refused[MALFORMED] += 1
            else:
                packet = None if frame is None else self._taken(frame)
                if frame is None or packet is not None:
                    return packet
            if timeout and time.monotonic() >= end:
                return None
        return None

    def _taken(self, frame: Any) -> Packet | None:
        """The packet that a frame completes."""
        message = self._receives.get(frame.arbitration_id)
        if message is None or frame.is_remote_frame or frame.is_error_frame:
            return None
        data = bytearray(frame.data)
        if not self.wire.inwards(message.names, data):
            return None
        if len(data) != message.size:
            self.wire.refused[MALFORMED] += 1
            return None
        if message.protection is not None and (why := message.protection.check(data)):
            self.wire.refused[why] += 1
            return None
        values, answers = message.unpack(data)
        if message.answers:  # a command
            self.wire.received += 1
            stamp = self._stamps[answers] if answers < COUNTERS else None
            return Packet(stamp or 0, values)
        self._known.update(values)
        if message is not self._marked:
            return None
        self.wire.received += 1
        counter = data[1] & 0x0F if message.protection else (self._counter + 1) % COUNTERS
        self._cycles += (counter - self._counter - 1) % COUNTERS + 1 if self._counter >= 0 else 1
        self._counter = counter
        stamp_ns = round(1e9 * message.cycle) * self._cycles
        self._stamps[counter] = stamp_ns
        return Packet(stamp_ns, dict(self._known))
