"""A socket of python-can's multicast bus that takes what was sent on this machine only, whatever it is bound to, and not what it sent."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Sequence

_ATTACH = 26  # SO_ATTACH_FILTER of Linux, which Python does not name
# Instructions of the filter: BPF_LD | BPF_ABS of a word, half a word and a byte, BPF_JMP | BPF_JEQ, BPF_RET.
_WORD, _HALF, _BYTE, _EQUAL, _RETURN = 0x20, 0x28, 0x30, 0x15, 0x06
_TYPE, _DEVICE = 0xFFFFF004, 0xFFFFF008  # SKF_AD_OFF + SKF_AD_PKTTYPE, SKF_AD_IFINDEX
_LOOPED = 5  # PACKET_LOOPBACK: the sender's machine's own copy of a multicast packet
_ALL = 0xFFFF  # bytes of a packet
# Where python-can's datagram has the frame's identifier, behind the header of UDP: a map of eleven in msgpack, whose first entry is the
# timestamp, a double, and whose second is the identifier, as it writes those from 256 to 65535.
_HEADER, _MAP, _UINT16 = 8, 0x8B, 0xCD
_VALUE = _HEADER + 1 + len(b"_timestamp") + 9 + len(b"_arbitration_id")
_LARGEST, _MOST = (256, 65535), 100  # identifiers that are looked for, and how many: jumps reach 255 instructions


def take_local_only(fileno: int, loopback: str = "lo", own: Sequence[int] = ()) -> None:
    """Lets the kernel drop what comes over a wire: all but copies of our own multicasts and what the loopback device carries.

    Args:
        own: identifiers of frames that only this end sends: the copies that the multicast bus gives back are dropped too. Where they are
            not found, because python-can writes them otherwise, nothing more is dropped, and they cost time only.

    Raises:
        OSError: the kernel cannot, or there is no such device.
    """
    known = [identifier for identifier in own if _LARGEST[0] <= identifier <= _LARGEST[1]][:_MOST]
    n = len(known)
    program = [(_WORD, 0, 0, _TYPE), (_EQUAL, 2, 0, _LOOPED), (_WORD, 0, 0, _DEVICE), (_EQUAL, 0, n + 6, socket.if_nametoindex(loopback)),
               (_BYTE, 0, 0, _HEADER), (_EQUAL, 0, n + 3, _MAP), (_BYTE, 0, 0, _VALUE), (_EQUAL, 0, n + 1, _UINT16),
               (_HALF, 0, 0, _VALUE + 1), *((_EQUAL, n - k, 0, identifier) for k, identifier in enumerate(known)),
               (_RETURN, 0, 0, _ALL), (_RETURN, 0, 0, 0)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    with socket.socket(fileno=os.dup(fileno)) as same:
        same.setsockopt(socket.SOL_SOCKET, _ATTACH, struct.pack("HP", len(program), ctypes.addressof(code)))
