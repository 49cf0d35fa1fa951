"""Alive counters and checksums: published check values, other implementations, and what is found wrong."""

import pytest

from lfdm_ros.hil.e2e import CHECKSUM, REPEATED, WRONG_SEQUENCE, Protection, crc8

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
