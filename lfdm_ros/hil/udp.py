"""The UDP link: one datagram a packet, a fixed little-endian struct, for benches of others (Simulink, dSPACE, a program in C).

    char     magic[4];   "LFDM"
    uint16_t version;    1
    uint16_t kind;       1: signals, 2: command
    uint32_t sequence;   0, 1, 2, ...; 0 begins anew
    uint32_t count;      of the values
    uint64_t stamp;      [ns] simulated time of the signals; of a command, that of the signals that it answers, 0: of none
    double   values[count];  signals: x, y, yaw, vx, vy, yaw_rate, ax, ay, omega_fl, omega_fr, omega_rl, omega_rr; command: steering,
                             throttle, brake; SI, NaN: not available
    uint32_t crc;        CRC-32 (IEEE 802.3) of all before it
"""

from __future__ import annotations

import select
import socket
import struct
import time
import zlib

from lfdm_ros.errors import InputError
from lfdm_ros.hil.e2e import CHECKSUM, REPEATED
from lfdm_ros.hil.link import LOST, MALFORMED, MOST_READ, RECEIVED, SENT, SIGNALS, LinkSettings, Packet, Wire

MAGIC, VERSION = b"LFDM", 1
_HEAD = struct.Struct("<4sHHIIQ")
_TAIL = struct.Struct("<I")
_LARGEST = 2048  # [bytes]


def _kind(names: tuple[str, ...]) -> int:
    return 1 if names == SIGNALS else 2


class UdpLink:
    """One end: bound to its own port, sends to the other's."""

    def __init__(self, end: str, settings: LinkSettings) -> None:
        self.wire = Wire()
        self._address = (settings.udp_host, settings.udp_port)
        self._peer = (settings.udp_peer_host, settings.udp_peer_port)
        self._sends, self._receives = SENT[end], RECEIVED[end]
        self._values = {names: struct.Struct(f"<{len(names)}d") for names in (self._sends, self._receives)}
        self._socket: socket.socket | None = None
        self._sequence = 0
        self._last_sequence: int | None = None

    def open(self) -> None:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            made.bind(self._address)
        except (OSError, OverflowError) as error:
            made.close()
            why = getattr(error, "strerror", None) or error
            host, port = self._address
            raise InputError(f"link udp: {host}:{port} cannot be bound: {why}; change udp_host or udp_port") from None
        made.setblocking(False)
        self._socket = made
        self._sequence, self._last_sequence = 0, None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def send(self, packet: Packet) -> bool:
        assert self._socket is not None
        names = self._sends
        data = bytearray(_HEAD.pack(MAGIC, VERSION, _kind(names), self._sequence, len(names), packet.stamp_ns))
        data += self._values[names].pack(*(packet.values[name] for name in names))
        data += _TAIL.pack(zlib.crc32(data))
        self._sequence = (self._sequence + self.wire.step) % 2**32
        if self.wire.outwards(names, data):
            try:
                self._socket.sendto(data, self._peer)
            except OSError:  # nobody there yet, or a full buffer: on a wire that is a lost packet
                self.wire.refused[LOST] += 1
        self.wire.sent += 1
        return True

    def receive(self, timeout: float) -> Packet | None:
        end = time.monotonic() + timeout
        for _ in range(MOST_READ):
            if self._socket is None:
                return None
            try:
                data = bytearray(self._socket.recv(_LARGEST))
            except BlockingIOError:
                left = end - time.monotonic()
                if timeout <= 0.0 or left <= 0.0:
                    return None
                select.select([self._socket], [], [], left)
                continue
            except OSError:  # an ICMP answer to what was sent before anybody listened
                continue
            if self.wire.inwards(self._receives, data):
                packet, why = self._unpacked(data)
                if packet is not None:
                    self.wire.received += 1
                    return packet
                self.wire.refused[why] += 1
            if timeout and time.monotonic() >= end:
                return None
        return None

    def _unpacked(self, data: bytearray) -> tuple[Packet | None, str]:
        """The packet, or why it is refused."""
        names = self._receives
        values = self._values[names]
        if len(data) != _HEAD.size + values.size + _TAIL.size:
            return None, MALFORMED
        if _TAIL.unpack_from(data, len(data) - _TAIL.size)[0] != zlib.crc32(data[:-_TAIL.size]):
            return None, CHECKSUM
        magic, version, kind, sequence, count, stamp = _HEAD.unpack_from(data)
        if magic != MAGIC or version != VERSION or kind != _kind(names) or count != len(names) or stamp >= 2**63:
            return None, MALFORMED
        if self._last_sequence is not None and sequence and (sequence - self._last_sequence - 1) % 2**32 >= 2**31:
            return None, REPEATED
        self._last_sequence = sequence
        return Packet(stamp, dict(zip(names, values.unpack_from(data, _HEAD.size)))), ""
