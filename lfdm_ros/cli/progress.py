"""How far a command is, on stderr, once it takes longer than a moment: renewed in place on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

PATIENCE = 3.0  # [s] before anything is said on a terminal
TERMINAL_STEP, LINE_STEP = 0.5, 10.0  # [s] between renewals on a terminal, and between lines elsewhere


class Progress:
    """What is said, given the time. `done` is text such as "12 of 30 s driven", set as the work goes on."""

    def __init__(self, task: str, stream: TextIO, began: float) -> None:
        self.done = ""
        self._task, self._stream, self._began, self._terminal = task, stream, began, stream.isatty()
        self._next = began + (PATIENCE if self._terminal else LINE_STEP)
        self._shown = False

    def tick(self, now: float) -> None:
        """Says how far it is, where it is time to; `now` [s]."""
        if now < self._next:
            return
        text = f"{self._task}: {now - self._began:.0f} s" + (f", {self.done}" if self.done else "")
        self._stream.write(f"\r\x1b[K{text}" if self._terminal else f"{text}\n")
        self._stream.flush()
        self._next, self._shown = now + (TERMINAL_STEP if self._terminal else LINE_STEP), True

    def end(self) -> None:
        """Takes away what stands on a terminal."""
        if self._shown and self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


@contextmanager
def progress(task: str, done: Callable[[], str] = str) -> Iterator[None]:
    """While the block runs, says on stderr that `task` goes on, and what `done` returns. A thread says it: the work needs no hook."""
    shown, ended = Progress(task, sys.stderr, time.monotonic()), threading.Event()
    step = TERMINAL_STEP if sys.stderr.isatty() else LINE_STEP  # a measurement is woken up no more often than something is said

    def tell() -> None:
        while not ended.wait(step):
            shown.done = done()
            shown.tick(time.monotonic())

    thread = threading.Thread(target=tell, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        shown.end()
