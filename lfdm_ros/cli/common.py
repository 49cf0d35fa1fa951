"""Parts that commands share: former names of options, checks of options, files of rows, and progress on stderr."""

from __future__ import annotations

import argparse
import csv
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from lfdm_ros.errors import InputError, quote
from lfdm_ros.files import replacing

if TYPE_CHECKING:
    import numpy as np

FIRST_DELAY = 3.0  # [s] before the first line on a terminal
YAML = (".yaml", ".yml")
TERMINAL_PERIOD, LINE_PERIOD = 0.5, 10.0  # [s] of updates in place on a terminal, and of lines elsewhere


class StatusLine:
    """Progress of a command as text over time. `done` is such as "12 of 30 s driven", set as the work goes on."""

    def __init__(self, task: str, stream: TextIO, began: float) -> None:
        self.done = ""
        self._task, self._stream, self._began, self._terminal = task, stream, began, stream.isatty()
        self._next = began + (FIRST_DELAY if self._terminal else LINE_PERIOD)
        self._shown = False

    def tick(self, now: float) -> None:
        """Prints the progress where it is due at `now` [s]."""
        if now < self._next:
            return
        text = f"{self._task}: {now - self._began:.0f} s" + (f", {self.done}" if self.done else "")
        self._stream.write(f"\r\x1b[K{text}" if self._terminal else f"{text}\n")
        self._stream.flush()
        self._next, self._shown = now + (TERMINAL_PERIOD if self._terminal else LINE_PERIOD), True

    def end(self) -> None:
        if self._shown and self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


@contextmanager
def show_progress(task: str, done: Callable[[], str] = str) -> Iterator[None]:
    """Prints progress of `task` on stderr, with the text of `done`, while the block runs. Uses a thread, without hooks in the work."""
    shown, ended = StatusLine(task, sys.stderr, time.monotonic()), threading.Event()
    step = TERMINAL_PERIOD if sys.stderr.isatty() else LINE_PERIOD  # no more often, not to disturb measurements

    def update() -> None:
        while not ended.wait(step):
            shown.done = done()
            shown.tick(time.monotonic())

    thread = threading.Thread(target=update, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        shown.end()


def check_bounds(args: argparse.Namespace, bounds: Mapping[str, tuple[float, float]]) -> None:
    """Raises InputError for an option beyond its least and largest value."""
    for name, (lower, upper) in bounds.items():
        value = getattr(args, name)
        if value is not None and not lower <= value <= upper:
            bound = f"at most {upper}" if value > upper else f"at least {lower}"
            raise InputError(f"--{name.replace('_', '-')} {quote(value)}: {bound} are {'possible' if value > upper else 'needed'}")


def check_out(out: Path, *suffixes: str) -> None:
    """Raises InputError for an output file with another suffix or a missing folder."""
    if suffixes and out.suffix not in suffixes:
        raise InputError(f"--out {out}: give a name that ends in {' or '.join(suffix for suffix in suffixes if suffix != '.yml')}")
    if not out.resolve().parent.is_dir():
        raise InputError(f"--out {out}: no folder {out.parent}")


def write_rows(path: Path, names: Sequence[str], times: np.ndarray, table: np.ndarray, digits: int) -> None:
    """Writes a CSV, whole or not at all: times (n,) [s], and the rows of a table (n, m), with a number of digits. Raises OSError."""
    with replacing(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("time", *names))
        writer.writerows([f"{t:.6f}", *(f"{value:.{digits}g}" for value in row)] for t, row in zip(times, table))


def add_action(actions: Any, name: str, summary: str, example: str) -> argparse.ArgumentParser:
    """Adds a subcommand to those of a command; returns its parser."""
    parser: argparse.ArgumentParser = actions.add_parser(name, help=summary, description=summary, epilog=f"example: {example}")
    return parser


def add_backend(parser: argparse.ArgumentParser) -> None:
    """Adds --backend: the back end of all batches of this process and of those it starts."""
    parser.add_argument("--backend", metavar="NAME", action=_Backend, help="run batches of vehicles on: cpu, gpu (NVIDIA), auto (the "
                        "quicker by size, measured), or another that is registered (default: LFDM_BACKEND, else cpu)")


class _Backend(argparse.Action):
    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None) -> None:
        from lfdm_ros.backends.batch_backend import BACKENDS, VARIABLE

        os.environ[VARIABLE] = BACKENDS.find(values, "--backend").name
        setattr(namespace, self.dest, values)


def add_former(parser: argparse.ArgumentParser, former: str, option: str, **kwargs: Any) -> None:
    """Adds the former name of an option, hidden, for one release; it warns with the new one. kwargs: of `add_argument`."""
    parser.add_argument(former, dest=option.lstrip("-").replace("-", "_"), action=_Former, help=argparse.SUPPRESS,
                        default=argparse.SUPPRESS, option=option, **kwargs)


class _Former(argparse.Action):
    def __init__(self, *args: Any, option: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._option = option

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None) -> None:
        print(f"warning: {option_string} is {self._option} now; the next release takes the new name only", file=sys.stderr)
        before = getattr(namespace, self.dest, None)
        setattr(namespace, self.dest, [*before, values] if isinstance(before, list) else values)
