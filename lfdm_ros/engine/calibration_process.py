"""Calibration in a child process: progress reports, pause, and interruption that keeps finished work. Independent of ROS."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lfdm_ros.calibration.progress import Progress
from lfdm_ros.calibration.store import POSTERIOR, SUMMARY
from lfdm_ros.engine.background import Share
from lfdm_ros.errors import InputError

LFDM = (sys.executable, "-m", "lfdm_ros.cli")
DEFAULT_SHARE = Share()


class CalibrationProcess:
    """Child process of `lfdm calibrate`, since sampling for minutes must neither block a node's callbacks nor share its interpreter lock.
    `follow` starts it; the other methods are thread-safe, also before."""

    def __init__(self, recipe: str, bags: Sequence[str], out: str, *, draws: int = 0, chains: int = 0, seed: int = 0,
                 continue_from: str = "", ground: str = "", share: Share = DEFAULT_SHARE,
                 command: Sequence[str] = (*LFDM, "calibrate")) -> None:
        """Assembles the command. draws, chains, seed: 0: as the recipe says. continue_from: folder of the posterior to continue; empty:
        none. ground: that the bags were recorded on; empty: as the recipe says. share: of the machine."""
        arguments = [*command, recipe, "--out", out, "--progress-json"]
        for bag in bags:
            arguments += ["--bag", bag]
        for option, value in (("--draws", draws), ("--chains", chains), ("--seed", seed), ("--continue", continue_from),
                              ("--ground", ground)):
            if value:
                arguments += [option, str(value)]
        self._arguments = share.command(arguments)
        self._lock = threading.Lock()
        self._child: subprocess.Popen[str] | None = None
        self._paused = self.interrupted = False
        self.last_words = ""  # last line on stderr of the ended child

    def follow(self, report: Callable[[Progress], None]) -> int:
        """Runs the child and passes on each report until it ends; returns its exit status, negative: the signal that killed it. Raises
        OSError: the child does not start."""
        with tempfile.TemporaryFile() as errors:
            with self._lock:
                if self.interrupted:
                    return 128 + signal.SIGINT
                # Started by the thread that waits for it, because the child ends with that thread. In a session of its own: Ctrl-C
                # in the terminal reaches the node alone, which then interrupts the child.
                self._child = child = subprocess.Popen(
                    self._arguments, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL, text=True, encoding="utf-8",
                    start_new_session=True)
                if self._paused:
                    self._signal(os.killpg, signal.SIGSTOP)
            assert child.stdout is not None
            with child.stdout:
                for line in child.stdout:
                    progress = Progress.parse(line)
                    if progress is not None:
                        report(progress)
            status = child.wait()
            errors.seek(0)
            self.last_words = last_line(errors.read())
        return status

    def interrupt(self) -> None:
        """Asks the child to stop and keep its finished work, also while it is paused; repeated calls have no effect."""
        with self._lock:
            if not self.interrupted:
                self.interrupted = True
                self._signal(os.kill, signal.SIGINT)  # not to workers of its own, which it ends itself
                self._signal(os.killpg, signal.SIGCONT)

    def pause(self, paused: bool) -> None:
        """Suspends the child and its children, or resumes them."""
        with self._lock:
            if not self.interrupted:
                self._paused = paused
                self._signal(os.killpg, signal.SIGSTOP if paused else signal.SIGCONT)

    def _signal(self, send: Callable[[int, int], None], number: signal.Signals) -> None:
        if self._child is not None and self._child.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended
                send(self._child.pid, number)


def describe(out: str, share: Share) -> None:
    """Updates posterior.json in a calibration's folder, in a child, as its imports take a second. Raises InputError: the folder
    is no finished calibration."""
    posterior, summary = Path(out) / POSTERIOR, Path(out) / SUMMARY
    if posterior.is_file() and summary.is_file() and posterior.stat().st_mtime_ns >= summary.stat().st_mtime_ns:
        return
    output_of([sys.executable, "-m", "lfdm_ros.calibration.store", out], share)


def examine(bag: str, share: Share) -> dict[str, Any]:
    """Returns the output of `lfdm bag info --json` on a bag, from a child, as hashing a long one takes minutes. Raises InputError: nothing
    in it can be read."""
    info: dict[str, Any] = json.loads(output_of([*LFDM, "bag", "info", bag, "--json"], share))
    return info


def output_of(program: Sequence[str], share: Share) -> str:
    """Returns the standard output of a program in a child. Raises InputError with the last line of its errors if it fails."""
    run = subprocess.run(share.command(program), capture_output=True, text=True, encoding="utf-8", errors="replace",
                         stdin=subprocess.DEVNULL, start_new_session=True, check=False)
    if run.returncode:
        raise InputError(last_line(run.stderr.encode()) or f"{' '.join(program)} ended with status {run.returncode}")
    return run.stdout


def last_line(output: bytes) -> str:
    """Returns the last line that is not blank, or ''."""
    lines = [line for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
