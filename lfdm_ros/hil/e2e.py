"""Alive counter and checksum of AUTOSAR's end-to-end protection, profile 1, variant 1A.

AUTOSAR, Specification of SW-C End-to-End Communication Protection Library: the checksum, byte 0, is CRC-8 with the polynomial of SAE J1850
(0x1D), but start value 0 and no final inversion, over the two bytes of the data ID (low byte first: mode BOTH) and then the message without
its checksum. The counter, the low half of byte 1, goes from 0 to 14 and begins again.
"""

from __future__ import annotations

from collections.abc import Iterable

POLYNOMIAL = 0x1D
COUNTERS = 15  # the counter's values
NOT_AVAILABLE = 15  # a counter that no message has
MOST_LOST = 3  # messages in a row that may be missing before the next one is one out of sequence

CHECKSUM, REPEATED, WRONG_SEQUENCE = "checksum", "repeated", "wrong_sequence"


def _shifted(byte: int) -> int:
    for _ in range(8):
        byte = (byte << 1) ^ POLYNOMIAL if byte & 0x80 else byte << 1
    return byte & 0xFF


_TABLE = bytes(_shifted(byte) for byte in range(256))


def crc8(data: Iterable[int], start: int = 0) -> int:
    """The checksum of bytes. SAE J1850 has start = 0xFF and inverts the result."""
    crc = start
    for byte in data:
        crc = _TABLE[crc ^ byte]
    return crc


class Protection:
    """Of the messages with one data ID, as one end sends or receives them."""

    def __init__(self, data_id: int) -> None:
        self._start = crc8((data_id & 0xFF, data_id >> 8))
        self._counter = COUNTERS - 1
        self._last_counter: int | None = None

    def protect(self, data: bytearray, step: int = 1) -> int:
        """Puts counter and checksum into a message to be sent; returns the counter.

        Args:
            step: by how much the counter goes on.
        """
        self._counter = (self._counter + step) % COUNTERS
        data[1] = (data[1] & 0xF0) | self._counter
        data[0] = crc8(data[1:], self._start)
        return self._counter

    def check(self, data: bytes | bytearray) -> str:
        """What is wrong with a message that was received; empty: nothing. After one out of sequence the next goes on from there."""
        if crc8(data[1:], self._start) != data[0]:
            return CHECKSUM
        counter = data[1] & 0x0F
        before, self._last_counter = self._last_counter, counter
        if counter >= COUNTERS:
            self._last_counter = before
            return WRONG_SEQUENCE
        if before is None:
            return ""
        delta = (counter - before) % COUNTERS
        if delta == 0:
            return REPEATED
        return WRONG_SEQUENCE if delta > 1 + MOST_LOST else ""
