"""A terminal: unbuffered keys without echo, restored at any exit of the program; and lines rewritten in place."""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import sys
import termios
import tty
from collections.abc import Iterable
from typing import Any, TextIO

from lfdm_ros.errors import InputError
from lfdm_ros.teleop.hands_on import CENTRE, DOWN, LEFT, REVERSE, RIGHT, STOP, UP

QUIT = "quit"
KEYS = {"a": LEFT, "d": RIGHT, "w": UP, "s": DOWN, " ": STOP, "c": CENTRE, "r": REVERSE, "q": QUIT,
        "\x1b[D": LEFT, "\x1b[C": RIGHT, "\x1b[A": UP, "\x1b[B": DOWN, "\x1bOD": LEFT, "\x1bOC": RIGHT, "\x1bOA": UP, "\x1bOB": DOWN}
_LONGEST = 4096  # bytes of one read
_WIDTH = 80  # columns where the terminal's width is unknown


class Terminal:
    """Context in which keys of a terminal are read. Ctrl-C and Ctrl-Z stay signals. Raises InputError on entering: there is no terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Makes the reader; stream: the terminal; standard input by default."""
        self._stream = stream or sys.stdin
        self._before: list[Any] | None = None
        self._rest = ""

    def __enter__(self) -> Terminal:
        if self._before is not None:
            return self
        try:
            self._number = self._stream.fileno()
            self._before = termios.tcgetattr(self._number)
        except (termios.error, OSError, ValueError):
            raise InputError("keyboard: standard input is no terminal; run it in one, in a process of its own") from None
        atexit.register(self.restore)  # exits that bypass __exit__
        tty.setcbreak(self._number, termios.TCSANOW)
        return self

    def __exit__(self, *error: object) -> None:
        self.restore()

    def restore(self) -> None:
        """Restores the terminal; safe to call again."""
        if self._before is not None:
            before, self._before = self._before, None
            with contextlib.suppress(termios.error, OSError):  # the terminal may be closed
                termios.tcsetattr(self._number, termios.TCSADRAIN, before)
            atexit.unregister(self.restore)

    def pressed(self) -> list[str]:
        """Returns the keys pressed since the last call, by the names of `hands_on`, QUIT, or the character; QUIT at the end of the input.
        """
        text, ended = self._rest, False
        while self._before is not None and select.select([self._number], [], [], 0.0)[0]:
            try:
                data = os.read(self._number, _LONGEST)
            except OSError:
                data = b""
            if not data:
                ended = True
                break
            text += data.decode(errors="replace")
        found: list[str] = []
        while text:
            length = next((n for n in (3, 1) if text[:n] in KEYS), 1)
            if text[0] == "\x1b" and length == 1 and len(text) < 3 and text != self._rest:
                break  # incomplete escape sequence of an arrow
            found.append(KEYS.get(text[:length].lower() if length == 1 else text[:length], text[:length]))
            text = text[length:]
        self._rest = text
        return [*found, QUIT] if ended else found


class Screen:
    """Lines at the end of a terminal, rewritten in place below other output; silent without a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Makes the screen; stream: the terminal; standard output by default."""
        self._stream = stream or sys.stdout
        self.there = self._stream.isatty()

    def show(self, lines: Iterable[str]) -> None:
        """Writes the lines, truncated to the width and without control characters."""
        width = self._width()
        # The cursor stays on an empty line above, for other output.
        shown = ["", *("".join(c if c.isprintable() else " " for c in line)[:width - 1] for line in lines)]
        self._write("\r\x1b[J" + "\n".join(shown) + f"\x1b[{len(shown) - 1}A\r")

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _WIDTH  # not COLUMNS, which may be another terminal's
        except (OSError, ValueError):
            return _WIDTH

    def clear(self) -> None:
        self._write("\r\x1b[J")

    def _write(self, text: str) -> None:
        if not self.there:
            return
        with contextlib.suppress(OSError, ValueError):  # the terminal may be closed
            if select.select([], [self._stream], [], 0.0)[1]:  # Ctrl-S stops the display, not the driver
                self._stream.write(text)
                self._stream.flush()
