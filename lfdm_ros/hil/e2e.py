"""End-to-end protection as AUTOSAR has it: alive counter and checksum of a message, and the state machine of their receiver.

AUTOSAR, Specification of SW-C End-to-End Communication Protection Library, profile 1, variant 1A: the checksum, byte 0, is CRC-8 with the
polynomial of SAE J1850 (0x1D), but start value 0 and no final inversion, over the two bytes of the data ID (low byte first: mode BOTH) and
then the message without its checksum. The counter, the low half of byte 1, goes from 0 to 14 and begins again. The state machine is that of
AUTOSAR's E2E Protocol Specification; silence is measured in time and not in calls, a sender has an address, and what is out of sequence or
too old counts as an error.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable

POLYNOMIAL = 0x1D
COUNTERS = 15  # the counter's values
MOST_LOST = 3  # messages in a row that may be missing before the next one is one out of sequence

# What is wrong with a message.
CHECKSUM, REPEATED, WRONG_SEQUENCE, STALE, SECOND_SENDER = "checksum", "repeated", "wrong_sequence", "stale", "second_sender"

# States of a receiver, and what it takes to go from one to the other.
NO_DATA, INIT, VALID, INVALID = "no_data", "init", "valid", "invalid"
WINDOW = 10  # newest messages that are looked at
MOST_ERRORS = 3  # of them: with more the state is invalid
LEAST_GOOD = 3  # in a row, newest: with fewer it does not become valid
HOLD = 1.0  # [s] that it stays invalid after a second sender's last message


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


def sequence_error(number: int, before: int | None, numbers: int) -> str:
    """What is wrong with the number of a message after that of the one before, None: the first; numbers: there are, then 0 again."""
    step = 1 if before is None else (number - before) % numbers
    return "" if 1 <= step <= 1 + MOST_LOST else WRONG_SEQUENCE if step else REPEATED


def counter_of(data: bytes | bytearray) -> int:
    """The alive counter of a protected message."""
    return data[1] & 0x0F


class Protection:
    """Of the messages with one data ID, as one end sends or receives them."""

    def __init__(self, data_id: int) -> None:
        self._start = crc8((data_id & 0xFF, data_id >> 8))
        self._counter = COUNTERS - 1
        self._last_counter: int | None = None

    def protect(self, data: bytearray, step: int = 1) -> None:
        """Puts counter and checksum into a message to be sent.

        Args:
            step: by how much the counter goes on.
        """
        self._counter = (self._counter + step) % COUNTERS
        data[1] = (data[1] & 0xF0) | self._counter
        data[0] = crc8(data[1:], self._start)

    def check(self, data: bytes | bytearray) -> str:
        """What is wrong with a message that was received; empty: nothing. After one out of sequence the next goes on from there."""
        if crc8(data[1:], self._start) != data[0]:
            return CHECKSUM
        counter = counter_of(data)
        if counter >= COUNTERS:
            return WRONG_SEQUENCE
        before, self._last_counter = self._last_counter, counter
        return sequence_error(counter, before, COUNTERS)


class Reception:
    """The state machine of who receives the messages of one sender: which of them may act.

    Attributes:
        state: NO_DATA: nothing came yet, or nothing of the sender for `silence`. INIT: its first messages come. VALID: messages without an
            error act. INVALID: none acts.
        trouble: why the state is INVALID, in words; else empty.
        sender: the address that the sender has.
        begun: how many times a sender was taken.
        age: [s] of the newest message that acted, where it is known; `oldest`: the largest so far.
    """

    def __init__(self, silence: float) -> None:
        """silence: time [s] without a message of the sender after which another one may be taken."""
        self.silence = silence
        self.reset()

    def reset(self) -> None:
        """Nothing came yet."""
        self.state, self.trouble, self.begun = NO_DATA, "", 0
        self.sender: Hashable = None
        self.age = self.oldest = 0.0
        self._before = NO_DATA  # state before the silence
        self._heard = self._held_until = -math.inf
        self._errors: deque[str] = deque(maxlen=WINDOW)

    def look(self, now: float) -> None:
        """Time goes on to `now` [s]."""
        if self.state != NO_DATA and now - self._heard > self.silence + 1e-9:
            self._before, self.state, self.trouble = self.state, NO_DATA, ""

    def take(self, now: float, error: str, sender: Hashable = None, age: float = 0.0) -> str:
        """A message has come and was checked.

        Args:
            now: [s]
            error: what is wrong with it, empty: nothing.
            sender: its address, where the link has any.
            age: [s] of what it answers.

        Returns:
            Why it must not act, by name; empty: it may.
        """
        self.look(now)
        if self.state == NO_DATA:
            if error == CHECKSUM:
                return error
            self._begin(sender, not error and sender == self.sender and self._before in (INIT, VALID))
        elif sender != self.sender:
            if error == CHECKSUM:
                return error
            self._held_until = now + HOLD
            self._condemn(f"two senders: messages come from {_named(self.sender)} and from {_named(sender)}")
            return SECOND_SENDER
        if error != CHECKSUM:
            self._heard = now
        if error == SECOND_SENDER:
            self._held_until = now + HOLD
            self._condemn("two senders: the counter goes on faster than one sender's can")
        self._errors.append(error)
        self._decide(now, error)
        if error or self.state != VALID:
            return error or self.state
        self.age = age
        self.oldest = max(self.oldest, age)
        return ""

    def _begin(self, sender: Hashable, goes_on: bool) -> None:
        """The first message after silence; goes_on: it follows the last one before, so that nothing was lost but time."""
        if goes_on:
            self.state = self._before
            return
        self.state, self.sender = INIT, sender
        self.begun += 1
        self._held_until = -math.inf
        self._errors.clear()

    def _decide(self, now: float, error: str) -> None:
        if now < self._held_until:
            return
        wrong = len(self._errors) - self._errors.count("")
        if error and wrong > MOST_ERRORS:
            self._condemn(f"{wrong} of the last {len(self._errors)} messages were refused, the last one as {error}")
        elif self.state != VALID and wrong <= MOST_ERRORS and len(self._errors) >= LEAST_GOOD and not any(list(self._errors)[-LEAST_GOOD:]):
            self.state, self.trouble = VALID, ""

    def _condemn(self, why: str) -> None:
        self.state, self.trouble = INVALID, why


def _named(sender: Hashable) -> str:
    return ":".join(map(str, sender)) if isinstance(sender, tuple) else str(sender)
