"""Runs a case in a process of its own, so that a hang or a crash is an outcome, and classifies the outcome.

answer      normal completion, with a note of everything left out
refused     one line with the reason, like that of the command line for bad input
traceback   an exception, a crash, or a message that is too long
hang        killed after the case's time limit
lost        undamaged data that is no longer read

The limit is processor time on each core, and ten times as much by the clock, so that a busy machine causes no hang.
"""

import faulthandler
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from lfdm_lab import processes
from lfdm_ros.errors import InputError

ANSWER, REFUSED, TRACEBACK, HANG, LOST = OUTCOMES = ("answer", "refused", "traceback", "hang", "lost")
_MAX_LINES, _MAX_LENGTH = 3, 2000  # of stderr when input is refused: one line, and warnings before it
_STACK_TIMEOUT = 3.0  # [s] after the limit, for a child to write its stack
_POLL_PERIOD = 0.25  # [s]
_CLOCK_RATIO = 10.0  # of the limits by the clock and of processor time
_MAX_MEMORY = 4 << 30  # [bytes] growth of a case
_MAX_OUTPUT = 1 << 20  # [bytes] examined at the end of stdout and stderr each


@dataclass(frozen=True)
class CaseResult:
    """Result of a case: one of OUTCOMES, the last output, and the returned value."""

    outcome: str
    text: str = ""
    value: Any = None


@dataclass(frozen=True)
class Case:
    """A test case.

    Attributes:
        seed: that reproduces it.
        description: one line.
        work: runs in a child process; returns JSON data, an integer being the exit status of the command line.
        limit: of processor time on each core [s].
        judge: revises the outcome if data were lost.
    """

    seed: int
    description: str
    work: Callable[[], Any]
    limit: float = 60.0
    judge: Callable[[CaseResult], CaseResult] = lambda found: found


@dataclass
class Tally:
    """Counts by outcome, and the cases with an outcome other than answer or refused."""

    kind: str
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def add(self, case: Case, found: CaseResult) -> None:
        self.counts[found.outcome] += 1
        if found.outcome not in (ANSWER, REFUSED):
            self.failures.append({"seed": case.seed, "outcome": found.outcome, "case": case.description, "text": found.text})

    def summary(self) -> dict[str, Any]:
        """Returns the counts and failures as `lfdm fuzz --json` writes them."""
        return {"kind": self.kind, "cases": self.counts.total(), **{outcome: self.counts[outcome] for outcome in OUTCOMES},
                "failures": self.failures}

    def line(self) -> str:
        return ", ".join(f"{self.counts[outcome]} {outcome}" for outcome in OUTCOMES)


def run_cases(kind: str, cases: Iterable[Case], report: Callable[[str], None], progress: TextIO | None = None) -> Tally:
    """Runs the cases in order.

    Args:
        report: receives each failure in one line with its seed.
        progress: stream for the progress, every few seconds; None: no progress.
    """
    tally, reported = Tally(kind), time.monotonic()
    for case in cases:
        found = case.judge(attempt(case.work, case.limit))
        tally.add(case, found)
        if found.outcome not in (ANSWER, REFUSED):
            report(f"seed {case.seed}: {found.outcome}: {case.description}: {found.text}")
        if progress is not None and time.monotonic() - reported > 5.0:
            reported = time.monotonic()
            print(f"{kind}: {tally.counts.total()} cases: {tally.line()}", file=progress, flush=True)
    return tally


def attempt(work: Callable[[], Any], limit: float) -> CaseResult:
    """Runs `work` in a fork of this process and returns its outcome.

    Args:
        limit: of processor time on each core [s], ten times as much by the clock, after which it is killed.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        read, write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            os.close(read)
            _in_child(work, write, out.fileno(), err.fileno())
        os.close(write)
        try:
            status, answer = _wait(child, read, limit)
            if status is None:
                _request_stack(child, err.fileno())
        finally:
            os.close(read)
            _end(child)
        output, errors = _content(out), _content(err)
    if status is None:
        return CaseResult(HANG, f"not done within {limit:g} s of processor time; {_stack_of(errors)}")
    if os.WIFSIGNALED(status):
        return CaseResult(TRACEBACK, f"ended by {signal.Signals(os.WTERMSIG(status)).name}; {_last_line(errors)}")
    return _classify(json.loads(answer) if answer else {"error": f"ended with status {os.WEXITSTATUS(status)}"}, output, errors)


def _in_child(work: Callable[[], Any], answer: int, out: int, err: int) -> None:
    """Runs the work in the child; never returns."""
    try:
        os.setpgid(0, 0)  # a group with its own children, to be killed together
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent handles Ctrl-C
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", errors="replace", closefd=False) for number in (1, 2))
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _MAX_MEMORY, used + _MAX_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        faulthandler.register(signal.SIGUSR1, file=err)  # also works in an endless loop of machine code
        try:
            result = json.dumps({"value": work()}, default=str)
        except InputError as error:
            result = json.dumps({"refused": str(error)})
        except SystemExit as error:  # argparse
            result = json.dumps({"value": error.code if isinstance(error.code, int) else 1})
        except BaseException:
            result = json.dumps({"error": traceback.format_exc()})
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(answer, result.encode())
    finally:
        os._exit(0)


def _wait(child: int, answer: int, limit: float) -> tuple[int | None, bytes]:
    """Waits for the child; returns its exit status (None: over the limit) and the bytes that it wrote."""
    end, written = time.monotonic() + _CLOCK_RATIO * limit, b""

    while time.monotonic() < end and processes.processor_time(processes.descendants(child)) < limit * (os.cpu_count() or 1):
        ready, _, _ = select.select([answer], [], [], _POLL_PERIOD)
        if not ready:
            continue
        piece = os.read(answer, 1 << 16)
        if piece:
            written += piece
            continue
        while time.monotonic() < end:  # the pipe is closed, the child is ending
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status, written
            time.sleep(0.001)
    return None, b""


def _request_stack(child: int, err: int) -> None:
    """Makes a hanging child write its stack, and waits for it."""
    size = os.fstat(err).st_size
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGUSR1)
    end = time.monotonic() + _STACK_TIMEOUT
    before = -1
    while time.monotonic() < end and not size < before == os.fstat(err).st_size:
        before = os.fstat(err).st_size
        time.sleep(0.1)


def _end(child: int) -> None:
    """Kills the child and its children."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(child, signal.SIGKILL)
    with suppress(ChildProcessError):  # it has ended by itself
        os.waitpid(child, 0)


def _classify(answer: dict[str, Any], output: str, errors: str) -> CaseResult:
    if "error" in answer:
        return CaseResult(TRACEBACK, _last_line(answer["error"]))
    if "refused" in answer:
        return _one_line(answer["refused"])
    status = answer["value"]
    if "Traceback (most recent call last)" in errors:
        return CaseResult(TRACEBACK, _last_line(errors))
    if isinstance(status, int) and not isinstance(status, bool):
        if status == 2:
            return _one_line(errors.strip())
        if status not in (0, 1):
            return CaseResult(TRACEBACK, f"exit status {status}: {_last_line(errors)}")
    return CaseResult(ANSWER, output, status)


def _one_line(text: str) -> CaseResult:
    lines = text.splitlines()
    if not text.strip() or len(lines) > _MAX_LINES or max(map(len, lines)) > _MAX_LENGTH:
        return CaseResult(TRACEBACK, f"{len(lines)} lines, {len(text)} characters: {_last_line(text)}")
    return CaseResult(REFUSED, lines[-1])


def _stack_of(errors: str) -> str:
    """Returns the main thread's stack, which faulthandler writes last, innermost frame first."""
    frames = errors.rpartition("(most recent call first):")[2].strip().splitlines()
    return " < ".join(" ".join(frame.split()) for frame in frames[:6]) or "no output"


def _content(file: Any) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - _MAX_OUTPUT))
    content: bytes = file.read(_MAX_OUTPUT)
    return content.decode(errors="replace")


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"
