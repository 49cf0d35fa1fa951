"""A calibration in a child process: progress as it comes, and an end on request that keeps what is done. Knows nothing of ROS."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """One report of `lfdm calibrate --progress-json`; time_left [s], NaN: unknown."""

    stage: str = ""
    stage_index: int = 0
    stage_count: int = 1
    temperature: float = 0.0
    progress: float = 0.0
    time_left: float = math.nan
    message: str = ""

    @classmethod
    def parse(cls, line: str) -> Progress | None:
        """Reads one line; None for a line that is no report."""
        try:
            data = json.loads(line)
            return cls(
                stage=str(data["stage"]), stage_index=int(data["stage_index"]), stage_count=max(1, int(data["stage_count"])),
                temperature=float(data["temperature"]), progress=min(1.0, max(0.0, float(data["progress"]))),
                time_left=math.nan if data["time_left"] is None else float(data["time_left"]), message=str(data["message"]))
        except (ValueError, KeyError, TypeError):
            return None

    @property
    def overall(self) -> float:
        """Share of all stages done, [0, 1]."""
        return (self.stage_index + self.progress) / self.stage_count


class CalibrationProcess:
    """`lfdm calibrate` as a child: sampling for minutes must not hold up a node's callbacks, nor share its interpreter lock."""

    def __init__(self, recipe: str, bags: Sequence[str], out: str, *, draws: int = 0, chains: int = 0, seed: int = 0,
                 command: Sequence[str] = (sys.executable, "-m", "lfdm_ros.cli", "calibrate")) -> None:
        """Starts it; 0 for draws, chains or seed: as the recipe says."""
        arguments = [*command, recipe, "--out", out, "--progress-json"]
        for bag in bags:
            arguments += ["--bag", bag]
        for option, value in (("--draws", draws), ("--chains", chains), ("--seed", seed)):
            if value:
                arguments += [option, str(value)]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 -- lives as long as the child
        # A session of its own: Ctrl-C in the terminal reaches the node alone, which then ends this in its own way.
        self._child = subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=self._errors, stdin=subprocess.DEVNULL, text=True, encoding="utf-8",
            start_new_session=True)
        self._interrupted = False

    def follow(self, report: Callable[[Progress], None]) -> int:
        """Hands on each report until the child ends; returns its exit status."""
        assert self._child.stdout is not None
        for line in self._child.stdout:
            progress = Progress.parse(line)
            if progress is not None:
                report(progress)
        return self._child.wait()

    def interrupt(self) -> None:
        """Asks the child to stop and keep what is done; once is enough."""
        if not self._interrupted and self._child.poll() is None:
            self._interrupted = True
            self._child.send_signal(signal.SIGINT)

    @property
    def interrupted(self) -> bool:
        return self._interrupted

    def last_words(self) -> str:
        """The last line that the ended child wrote on stderr."""
        self._errors.seek(0)
        lines = [line for line in self._errors.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""
