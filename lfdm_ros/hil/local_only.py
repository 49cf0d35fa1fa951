"""A socket that takes what was sent on this machine only, whatever it is bound to."""

from __future__ import annotations

import ctypes
import os
import socket
import struct

_ATTACH = 26  # SO_ATTACH_FILTER of Linux, which Python does not name
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF_LD | BPF_W | BPF_ABS, BPF_JMP | BPF_JEQ, BPF_RET
_TYPE, _DEVICE = 0xFFFFF004, 0xFFFFF008  # SKF_AD_OFF + SKF_AD_PKTTYPE, SKF_AD_IFINDEX
_LOOPED = 5  # PACKET_LOOPBACK: the sender's machine's own copy of a multicast packet
_ALL = 0xFFFF  # bytes of a packet


def take_local_only(fileno: int, loopback: str = "lo") -> None:
    """Lets the kernel drop what comes over a wire: all but copies of our own multicasts and what the loopback device carries.

    Raises:
        OSError: the kernel cannot, or there is no such device.
    """
    program = ((_LOAD, 0, 0, _TYPE), (_EQUAL, 2, 0, _LOOPED), (_LOAD, 0, 0, _DEVICE), (_EQUAL, 0, 1, socket.if_nametoindex(loopback)),
               (_RETURN, 0, 0, _ALL), (_RETURN, 0, 0, 0))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    with socket.socket(fileno=os.dup(fileno)) as same:
        same.setsockopt(socket.SOL_SOCKET, _ATTACH, struct.pack("HP", len(program), ctypes.addressof(code)))
