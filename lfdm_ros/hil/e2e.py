"""End-to-end protection after AUTOSAR: alive counter and checksum of a message, and state machine of the receiver.

AUTOSAR, Specification of SW-C End-to-End Communication Protection Library, profile 1, variant 1A: the checksum, byte 0, is CRC-8 with the
polynomial of SAE J1850 (0x1D), but start value 0 and no final inversion, over the two bytes of the data ID (low byte first: mode BOTH) and
then the message without its checksum. The counter, the low nibble of byte 1, runs from 0 to 14. The state machine is that of AUTOSAR's E2E
Protocol Specification, except that silence is a time instead of a number of calls, senders may have addresses, and repeated,
out-of-sequence and stale messages count as errors.
"""

import math
from collections import deque
from collections.abc import Hashable, Iterable

POLYNOMIAL = 0x1D
COUNTERS = 15  # number of counter values
MAX_LOST = 3  # consecutive lost messages before the next is out of sequence

# Errors of a message.
CHECKSUM, REPEATED, WRONG_SEQUENCE, STALE, SECOND_SENDER = "checksum", "repeated", "wrong_sequence", "stale", "second_sender"

# States of a receiver, and the parameters of its state machine.
NO_DATA, INIT, VALID, INVALID = "no_data", "init", "valid", "invalid"
WINDOW_SIZE = 10  # number of last messages considered
MAX_ERRORS = 3  # in the window; more make the state INVALID
MIN_OK = 3  # consecutive good messages for VALID
SECOND_SENDER_HOLD = 1.0  # [s] in INVALID after the last message of a second sender


def _shifted(byte: int) -> int:
    for _ in range(8):
        byte = (byte << 1) ^ POLYNOMIAL if byte & 0x80 else byte << 1
    return byte & 0xFF


_TABLE = bytes(_shifted(byte) for byte in range(256))


def crc8(data: Iterable[int], start: int = 0) -> int:
    """Returns the checksum of bytes. SAE J1850 has start = 0xFF and inverts the result."""
    crc = start
    for byte in data:
        crc = _TABLE[crc ^ byte]
    return crc


def sequence_error(number: int, before: int | None, numbers: int) -> str:
    """Returns REPEATED, WRONG_SEQUENCE or, in order, an empty text for a sequence number; before: previous one, None: first; numbers:
    modulus."""
    step = 1 if before is None else (number - before) % numbers
    return "" if 1 <= step <= 1 + MAX_LOST else WRONG_SEQUENCE if step else REPEATED


def read_counter(data: bytes | bytearray) -> int:
    """Returns the alive counter of a protected message."""
    return data[1] & 0x0F


class Protection:
    """Protection of the messages with one data ID, for sending or receiving."""

    def __init__(self, data_id: int) -> None:
        self._start = crc8((data_id & 0xFF, data_id >> 8))
        self._counter = COUNTERS - 1
        self._last_counter: int | None = None

    def protect(self, data: bytearray, step: int = 1) -> None:
        """Writes counter and checksum to a message to be sent; step: increment of the counter."""
        self._counter = (self._counter + step) % COUNTERS
        data[1] = (data[1] & 0xF0) | self._counter
        data[0] = crc8(data[1:], self._start)

    def check(self, data: bytes | bytearray) -> str:
        """Returns the error of a received message; empty: none. After one out of sequence the count continues from it."""
        if crc8(data[1:], self._start) != data[0]:
            return CHECKSUM
        counter = read_counter(data)
        if counter >= COUNTERS:
            return WRONG_SEQUENCE
        before, self._last_counter = self._last_counter, counter
        return sequence_error(counter, before, COUNTERS)


class E2EStateMachine:
    """State machine of a receiver: decides which checked messages of one sender are used.

    Attributes:
        state: NO_DATA: no message yet, or none for `silence`. INIT: first messages. VALID: good messages are used. INVALID: none is used.
        trouble: reason for INVALID; empty in other states.
        sender: address of the accepted sender.
        initialisations: number of accepted senders.
        age: [s] of the last message used, if available; max_age: the largest so far.
    """

    def __init__(self, silence: float) -> None:
        """Starts without data; silence: time [s] without a message after which another sender is accepted."""
        self.silence = silence
        self.reset()

    def reset(self) -> None:
        """Returns to NO_DATA; forgets the sender."""
        self.state, self.trouble, self.initialisations = NO_DATA, "", 0
        self.sender: Hashable = None
        self.age = self.max_age = 0.0
        self._state_before = NO_DATA  # state before the silence
        self._last_message = self._blocked_until = -math.inf
        self._errors: deque[str] = deque(maxlen=WINDOW_SIZE)

    def advance(self, now: float) -> None:
        """Advances the time to `now` [s]: detects silence."""
        if self.state != NO_DATA and now - self._last_message > self.silence + 1e-9:
            self._state_before, self.state, self.trouble = self.state, NO_DATA, ""

    def update(self, now: float, error: str, sender: Hashable = None, age: float = 0.0) -> str:
        """Updates the state by one message received at a time [s], with the error of its check, '' if none, the address of its sender, if
        the link has addresses, and the age [s] of the answered signals. Returns the reason for not using it: its error, else the state; ''
        if it is to be used."""
        self.advance(now)
        if self.state == NO_DATA:
            if error == CHECKSUM:
                return error
            self._initialise(sender, not error and sender == self.sender and self._state_before in (INIT, VALID))
        elif sender != self.sender:
            if error == CHECKSUM:
                return error
            self._blocked_until = now + SECOND_SENDER_HOLD
            self._invalidate(f"two senders: messages come from {format_address(self.sender)} and from {format_address(sender)}")
            return SECOND_SENDER
        if error != CHECKSUM:
            self._last_message = now
        if error == SECOND_SENDER:
            self._blocked_until = now + SECOND_SENDER_HOLD
            self._invalidate("two senders: the counter advances faster than one sender can")
        self._errors.append(error)
        self._decide(now, error)
        if error or self.state != VALID:
            return error or self.state
        self.age = age
        self.max_age = max(self.max_age, age)
        return ""

    def _initialise(self, sender: Hashable, continues: bool) -> None:
        """Handles the first message after silence; continues: its number continues the sequence, so no message was lost."""
        if continues:
            self.state = self._state_before
            return
        self.state, self.sender = INIT, sender
        self.initialisations += 1
        self._blocked_until = -math.inf
        self._errors.clear()

    def _decide(self, now: float, error: str) -> None:
        if now < self._blocked_until:
            return
        wrong = len(self._errors) - self._errors.count("")
        if error and wrong > MAX_ERRORS:
            self._invalidate(f"{wrong} of the last {len(self._errors)} messages were refused, the last one as {error}")
        elif self.state != VALID and wrong <= MAX_ERRORS and len(self._errors) >= MIN_OK and not any(list(self._errors)[-MIN_OK:]):
            self.state, self.trouble = VALID, ""

    def _invalidate(self, why: str) -> None:
        self.state, self.trouble = INVALID, why


def format_address(sender: Hashable) -> str:
    """Formats the address of a sender as text; empty: none."""
    return ":".join(map(str, sender)) if isinstance(sender, tuple) else str(sender or "")
