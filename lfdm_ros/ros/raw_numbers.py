"""The numbers at the begin of a message read straight from its bytes, where rclpy would make an object of the whole message."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

from lfdm_ros.bounds import MALFORMED, Refused

_START = 4  # origin of the offsets, behind the encapsulation's header
_CODES = {"double": "d", "float": "f", "int64": "q", "uint64": "Q", "int32": "i", "uint32": "I", "int16": "h", "uint16": "H", "int8": "b",
          "uint8": "B", "boolean": "?"}
_STAMP = {order: struct.Struct(order + "iI") for order in "<>"}
_LENGTH = {order: struct.Struct(order + "I") for order in "<>"}


class NumbersReader:
    """Reads header, leading strings and then all numbers, up to the first field that is neither a number nor an array of fixed size.

    Attributes:
        names: the numbers that it reads.
    """

    def __init__(self, kind: Any) -> None:
        """
        Derives offsets from the definition of a message.

        Raises:
            LookupError: it does not begin with a header and strings, then numbers of which none is wider than the first.
        """
        kinds = dict(kind.get_fields_and_field_types())
        header = kinds.pop(next(iter(kinds)))
        self._strings, self._slices, layout, size, width, count = 0, list[tuple[str, int | slice]](), "", 0, 0, 0
        for name, declared in kinds.items():
            base, bracket, length = declared.rstrip("]").partition("[")
            if declared == "string" and not layout:
                self._strings += 1
            elif base in _CODES:
                wide, numbers = struct.calcsize(f"<{_CODES[base]}"), int(length) if bracket else 1
                width = width or wide
                if wide > width:
                    break
                layout += f"{-size % wide}x{numbers}{_CODES[base]}"
                size += -size % wide + wide * numbers
                self._slices.append((name, slice(count, count + numbers) if bracket else count))
                count += numbers
            else:
                break
        if header != "std_msgs/Header" or not layout:
            raise LookupError(f"{kind.__name__} does not begin with a header, strings and numbers")
        self.names, self._width = tuple(name for name, _ in self._slices), width
        self._numbers = {order: struct.Struct(order + layout) for order in "<>"}

    def read(self, data: bytes) -> SimpleNamespace:
        """Returns `header` with its stamp and the numbers, arrays as tuples, of a message as plain CDR of either byte order.

        Raises:
            Refused: another encoding, or cut off.
        """
        if len(data) < _START or data[0] != 0 or data[1] not in (0, 1):
            raise Refused("not plain CDR", MALFORMED)
        order = "<" if data[1] else ">"
        try:
            sec, nanosec = _STAMP[order].unpack_from(data, _START)
            at = _START + 8
            for _ in range(1 + self._strings):
                at += -at % 4
                at += 4 + _LENGTH[order].unpack_from(data, at)[0]
            values = self._numbers[order].unpack_from(data, at + -(at - _START) % self._width)
        except struct.error as error:
            raise Refused(f"cut off: {error}", MALFORMED) from None
        return SimpleNamespace(header=SimpleNamespace(stamp=SimpleNamespace(sec=sec, nanosec=nanosec)),
                               **{name: values[part] for name, part in self._slices})
