"""Hostile messages to the cockpit, and raw frames of its sockets (RFC 6455), each with the number of refusals that it must cause."""

import json
import struct
from random import Random
from typing import Any

from lfdm_lab.fuzzing.trees import INTEGERS, NUMBERS, TEXTS, corrupt, damaged_json
from lfdm_ros.bounds import Refused
from lfdm_ros.cockpit.seat import Intent
from lfdm_ros.cockpit.server import MAX_MESSAGE

Refusals = tuple[int, int]  # at least, at most
TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9  # opcodes
# Valid requests; some remain valid when damaged.
REQUESTS: tuple[dict[str, Any], ...] = (
    {"ack": 1}, {"stop": True}, {"resume": True}, {"pace": 1.0}, {"pause": False}, {"step": 3}, {"latency": 0.1}, {"jitter": 0.01},
    {"drop": 0.1}, {"mode": "blend"}, {"law": "smooth"}, {"freeze_state": False}, {"imposed_friction": 0.5}, {"record": False},
    {"withheld_sensors": ["scan"]}, {"disturbed_sensors": []}, {"calibrate": True}, {"apply": True},
    {"restart": {"scenario": "yard", "threats": ["risk"]}}, {"seek": 1.0}, {"rate": 2.0})
_NAMES = {name for request in REQUESTS for name in request}
_LITERALS = ("NaN", "Infinity", "-Infinity", "1e999", "-1e400", "9" * 350, "0" * 20 + "1", "1.", "+1", "0x10", "true", "null", '"1"', "[1]",
             "{}")


def frame(content: bytes, opcode: int = TEXT, *, end: bool = True, masked: bool = True, reserved: int = 0) -> bytes:
    """Returns a frame of a client. reserved: the three bits that must be 0."""
    first, mask = 128 * end | reserved << 4 | opcode, 128 * masked
    size = len(content)
    length = bytes([mask | size]) if size < 126 else bytes([mask | 126]) + struct.pack(">H", size) if size < 1 << 16 else (
        bytes([mask | 127]) + struct.pack(">Q", size))
    return bytes([first]) + length + bytes(4 * masked) + content  # zero mask


def hostile_input(intent: dict[str, Any], rng: Random) -> tuple[bytes, str]:
    """Returns an input of a page with faults (some remain valid), and its description."""
    mode = rng.choice(("value", "value", "literal", "literal", "document", "bytes", "other", "long"))
    if mode == "value":
        key = rng.choice(list(intent))
        value: Any = rng.choice((*NUMBERS, *INTEGERS, *TEXTS, None, True, [], {}, [1.0], {"x": 1}))
        return json.dumps({**intent, key: value}).encode(), f"{key} = {value!r:.40}"
    if mode == "literal":
        key, literal = rng.choice(list(intent)), rng.choice(_LITERALS)
        return json.dumps({**intent, key: "HERE"}).replace('"HERE"', literal).encode(), f"{key} = {literal:.40}"
    if mode == "document":
        return damaged_json(json.dumps(intent), rng)
    if mode == "bytes":
        return corrupt(json.dumps(intent).encode(), rng)
    if mode == "long":
        size = rng.choice((399, 400, 401, MAX_MESSAGE - 1, MAX_MESSAGE, MAX_MESSAGE + 1, 60_000))
        return json.dumps(intent).encode().ljust(size), f"{size} bytes"
    invalid = b"", b"null", b"[]", b"{}", b"[" * 900, b"\xff\xfe", b"\0" * 50, rng.randbytes(100), "{}".encode("utf-16")
    return rng.choice(invalid), "no input"


def hostile_request(rng: Random) -> tuple[bytes, str]:
    """Returns a request of a page with faults (some are valid), and its description."""
    request = rng.choice(REQUESTS)
    mode = rng.choice(("right", "value", "value", "literal", "document", "bytes", "name", "long"))
    name = next(iter(request))
    if mode == "right":
        return json.dumps(request).encode(), f"{request}"
    if mode == "value":
        value: Any = rng.choice((*NUMBERS, *INTEGERS, *TEXTS[:-6], None, [], {}, {"x": 1}, {name: 1}))
        return json.dumps({name: value}).encode(), f"{name} = {value!r:.40}"
    if mode == "literal":
        literal = rng.choice(_LITERALS)
        return f'{{"{name}": {literal}}}'.encode(), f"{name} = {literal:.40}"
    if mode == "document":
        return damaged_json(json.dumps(request), rng)
    if mode == "bytes":
        return corrupt(json.dumps(request).encode(), rng)
    if mode == "name":
        return json.dumps({rng.choice((*TEXTS, "\ud800", "__class__", "take")): True}).encode(), "an unknown name"
    return json.dumps(request).encode().ljust(rng.choice((MAX_MESSAGE, MAX_MESSAGE + 1, 100_000))), "long"


def refusals_of_input(content: bytes, opcode: int = TEXT) -> Refusals:
    """Returns how many refusals an input must cause."""
    if not is_readable(content, opcode):
        return 1, 1
    try:
        Intent.parse(content.decode() if opcode == TEXT else content)
    except Refused:
        return 1, 1
    return 0, 1  # late, out of order, or while another page drives


def refusals_of_request(content: bytes, opcode: int = TEXT) -> Refusals:
    """Returns how many refusals a request must cause."""
    if not is_readable(content, opcode):
        return 1, 1
    try:
        request = json.loads(content)
    except (ValueError, RecursionError):
        return 1, 1
    if not isinstance(request, dict) or len(request) != 1 or not set(request) <= _NAMES:
        return 1, 1
    if "ack" in request:
        is_invalid = type(request["ack"]) is not int
        return is_invalid, is_invalid
    return (0, 0) if request == {"stop": True} else (0, 1)


def is_readable(content: bytes, opcode: int) -> bool:
    """Checks that a message is neither too long nor invalid UTF-8, either of which ends its connection."""
    if len(content) > MAX_MESSAGE:
        return False
    try:
        return opcode != TEXT or content.decode() is not None
    except UnicodeDecodeError:
        return False


def hostile_frames(rng: Random) -> tuple[bytes, str, Refusals]:
    """Returns bytes sent instead of a frame, their description, and the refusals that they must cause."""
    always, never, maybe = (1, 1), (0, 0), (0, 1)
    return rng.choice((
        (frame(b"{}", masked=False), "a frame that is not masked", maybe),
        (frame(b"{}", reserved=rng.randint(1, 7)), "reserved bits", always),
        (frame(b"{}", rng.choice((3, 4, 5, 6, 7, 11, 15))), "an unknown opcode", always),
        (frame(b"x", PING, end=False), "a ping in fragments", always),
        (frame(b"x" * 126, PING), "a long ping", always),
        (frame(b"", 0), "a continuation of nothing", always),
        (frame(b"{", end=False) + frame(b"{}"), "a message within another", always),
        (frame(b"x" * 1500, end=False) + frame(b"x" * 1500, 0), "a long message in fragments", always),
        (frame(b"{", end=False), "a message without an end", never),
        (b"\x81\xff" + struct.pack(">Q", rng.choice((2**63, 2**64 - 1, 2**40))) + bytes(4), "a false length", always),
        (frame(b"\x03", CLOSE), "a close of one byte", maybe),
        (frame(struct.pack(">H", rng.choice((0, 999, 1005, 65535))) + b"\xff", CLOSE), "a close with a false reason", maybe),
        (rng.randbytes(rng.choice((1, 2, 14, 200))), "random bytes", (0, 200)),
        (corrupt(frame(b'{"ack": 1}'), rng)[0], "a damaged frame", (0, 200)),
        (b"GET / HTTP/1.1\r\n\r\n", "a request of HTTP", always)))
