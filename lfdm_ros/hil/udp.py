"""The UDP link: one datagram per packet, a fixed little-endian struct, for other benches (Simulink, dSPACE, C programs).

    char     magic[4];   "LFDM"
    uint16_t version;    1
    uint16_t kind;       1: signals, 2: command
    uint32_t sequence;   0, 1, 2, ...
    uint32_t count;      of the values
    uint64_t stamp;      [ns] simulated time of the signals; of a command, that of the answered signals, from 2^63 on: none
    double   values[count];  signals: x, y, yaw, vx, vy, yaw_rate, ax, ay, omega_fl, omega_fr, omega_rl, omega_rr; command: steering,
                             throttle, brake; SI, NaN: not available
    uint32_t crc;        CRC-32 (IEEE 802.3) of the preceding bytes
"""

import select
import socket
import struct
import time
import zlib
from itertools import count

from lfdm_ros.errors import InputError
from lfdm_ros.hil.e2e import CHECKSUM, NO_DATA, STALE, E2EStateMachine, sequence_error
from lfdm_ros.hil.link import CONTROLLER, LOST, MALFORMED, MAX_FOREIGN, RECEIVED, SENT, SIGNALS, LinkSettings, Packet, Wire

MAGIC, VERSION = b"LFDM", 1
_HEAD = struct.Struct("<4sHHIIQ")
_TAIL = struct.Struct("<I")
_LARGEST = 2048  # [bytes]
_NUMBERS = 2**32  # modulus of sequence numbers
_NONE = 2**63  # stamps from here on mean none


def _kind(names: tuple[str, ...]) -> int:
    return 1 if names == SIGNALS else 2


class UdpLink:
    """One end of a UDP link, bound to its port, with the other end as its peer."""

    def __init__(self, end: str, settings: LinkSettings) -> None:
        self._e2e = E2EStateMachine(settings.timeout)
        self.wire = Wire(e2e=self._e2e)
        self._at_vehicle, self._timeout = end != CONTROLLER, settings.timeout
        self._address = (settings.udp_host, settings.udp_port)
        self._peer = (settings.udp_peer_host, settings.udp_peer_port)
        self._sends, self._receives = SENT[end], RECEIVED[end]
        self._values = {names: struct.Struct(f"<{len(names)}d") for names in (self._sends, self._receives)}
        self._socket: socket.socket | None = None
        self._reset()

    def _reset(self) -> None:
        self._e2e.reset()
        self._sequence = self._stamp_ns = 0  # of the next packet to send; of the last one sent
        self._last_sequence: int | None = None

    def open(self) -> None:
        new = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            new.bind(self._address)
        except (OSError, OverflowError) as error:
            new.close()
            why = getattr(error, "strerror", None) or error
            host, port = self._address
            raise InputError(f"link udp: {host}:{port} cannot be bound: {why}; change udp_host or udp_port") from None
        new.setblocking(False)
        self._socket = new
        self._reset()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def send(self, packet: Packet) -> bool:
        assert self._socket is not None
        names = self._sends
        self._stamp_ns = packet.stamp_ns
        if self._at_vehicle:
            self._e2e.advance(self._now())
        data = bytearray(_HEAD.pack(MAGIC, VERSION, _kind(names), self._sequence, len(names), packet.stamp_ns % 2**64))
        data += self._values[names].pack(*(packet.values[name] for name in names))
        data += _TAIL.pack(zlib.crc32(data))
        self._sequence = (self._sequence + 1) % _NUMBERS
        if self.wire.outwards(names, data):
            try:
                self._socket.sendto(data, self._peer)
            except OSError:  # no receiver yet, or a full buffer: counts as a lost packet
                self.wire.refused[LOST] += 1
        self.wire.sent += 1
        return True

    def _now(self) -> float:
        """Returns the time [s] for detecting silence: that of the last signals; at the controller's end the steady clock."""
        return 1e-9 * self._stamp_ns if self._at_vehicle else time.monotonic()

    def receive(self, timeout: float) -> Packet | None:
        end = time.monotonic() + timeout
        for read in count(1):
            if self._socket is None:
                break
            try:
                data, sender = self._socket.recvfrom(_LARGEST)
            except BlockingIOError:
                remaining = end - time.monotonic()
                if timeout <= 0.0 or remaining <= 0.0:
                    break
                select.select([self._socket], [], [], remaining)
                continue
            except OSError:  # ICMP error for a datagram sent before the peer was bound
                continue
            packet = self._parse(bytearray(data), sender)
            if packet is not None:
                return packet
            if time.monotonic() >= end if timeout else read >= MAX_FOREIGN:
                break
        return None

    def _parse(self, data: bytearray, sender: tuple[str, int]) -> Packet | None:
        """Returns the packet in a datagram; None if it is refused."""
        names = self._receives
        if not self.wire.inwards(names, data):
            return None
        values = self._values[names]
        if len(data) != _HEAD.size + values.size + _TAIL.size:
            self.wire.refused[MALFORMED] += 1
            return None
        error, stamp_ns, age = CHECKSUM, 0, 0.0
        if _TAIL.unpack_from(data, len(data) - _TAIL.size)[0] == zlib.crc32(data[:-_TAIL.size]):
            magic, version, kind, sequence, number, stamp_ns = _HEAD.unpack_from(data)
            if magic != MAGIC or version != VERSION or kind != _kind(names) or number != len(names):
                self.wire.refused[MALFORMED] += 1
                return None
            error, age = "", 1e-9 * (self._stamp_ns - stamp_ns)
            if sender == self._e2e.sender or self._e2e.state == NO_DATA:
                error = sequence_error(sequence, self._last_sequence, _NUMBERS)
                self._last_sequence = sequence
            if not error and (stamp_ns >= _NONE or (self._at_vehicle and abs(age) > self._timeout + 1e-9)):
                error = STALE
        if not self.wire.accept(self._now(), error, sender, age):
            return None
        self.wire.received += 1
        return Packet(stamp_ns, dict(zip(names, values.unpack_from(data, _HEAD.size))))
