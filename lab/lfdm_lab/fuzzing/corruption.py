"""Damage to bytes, as disks, copies and cables do it."""

import struct
from random import Random

MOST = 64  # bytes of a small piece


def corrupt(content: bytes, rng: Random) -> tuple[bytes, str]:
    """Returns the content with one kind of damage, and a description of it."""
    kinds = (_truncate, _flip, _zero, _scramble, _drop, _duplicate, _swap, _append, _length)
    return rng.choice(kinds)(content, rng) if content else (bytes(rng.randrange(1, MOST)), "zeros in the place of nothing")


def _piece(content: bytes, rng: Random) -> tuple[int, int]:
    """Draws a range: mostly small, at times up to a quarter of the content."""
    start = rng.randrange(len(content))
    longest = MOST if rng.random() < 0.7 else max(1, len(content) // 4)
    return start, min(len(content), start + rng.randint(1, longest))


def _truncate(content: bytes, rng: Random) -> tuple[bytes, str]:
    end = rng.choice((rng.randrange(len(content)), rng.randrange(min(MOST, len(content))), len(content) - 1))
    return content[:end], f"truncated to {end} of {len(content)} bytes"


def _flip(content: bytes, rng: Random) -> tuple[bytes, str]:
    damaged = bytearray(content)
    places = [rng.randrange(len(content)) for _ in range(rng.choice((1, 1, 2, 16)))]
    for place in places:
        damaged[place] ^= 1 << rng.randrange(8)
    return bytes(damaged), f"bits flipped at {_listed(places)}"


def _zero(content: bytes, rng: Random) -> tuple[bytes, str]:
    start, end = _piece(content, rng)
    return content[:start] + bytes(end - start) + content[end:], f"zeros at [{start}, {end})"


def _scramble(content: bytes, rng: Random) -> tuple[bytes, str]:
    start, end = _piece(content, rng)
    return content[:start] + rng.randbytes(end - start) + content[end:], f"random bytes at [{start}, {end})"


def _drop(content: bytes, rng: Random) -> tuple[bytes, str]:
    start, end = _piece(content, rng)
    return content[:start] + content[end:], f"dropped [{start}, {end})"


def _duplicate(content: bytes, rng: Random) -> tuple[bytes, str]:
    start, end = _piece(content, rng)
    return content[:end] + content[start:end] + content[end:], f"twice [{start}, {end})"


def _swap(content: bytes, rng: Random) -> tuple[bytes, str]:
    start, end = _piece(content, rng)
    middle = (start + end) // 2
    return content[:start] + content[middle:end] + content[start:middle] + content[end:], f"the halves of [{start}, {end}) swapped"


def _append(content: bytes, rng: Random) -> tuple[bytes, str]:
    return content + rng.randbytes(rng.choice((1, 8, 4096))), "random bytes at the end"


def _length(content: bytes, rng: Random) -> tuple[bytes, str]:
    """Overwrites 8 bytes that look like the length of a record with another number."""
    for _ in range(200):
        place = rng.randrange(max(1, len(content) - 8))
        found = content[place:place + 8]
        if len(found) == 8 and 0 < int.from_bytes(found, "little") < len(content):
            false = rng.choice((0, 1, 2**63, len(content), int.from_bytes(found, "little") ^ (1 << rng.randrange(16))))
            return content[:place] + struct.pack("<Q", false) + content[place + 8:], f"the length at {place} is {false}"
    return _flip(content, rng)


def _listed(places: list[int]) -> str:
    return ", ".join(map(str, places[:4])) + (f" and {len(places) - 4} more" if len(places) > 4 else "")
