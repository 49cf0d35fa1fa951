"""Peer programs for comparison: `lfdm bench models --peer COMMAND`."""

from __future__ import annotations

import math
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from lfdm_ros.errors import InputError

# Placeholder in a command for the file of driver inputs.
INPUTS = "{inputs}"
TIME_LIMIT = 300.0  # [s]

# The program on the PATH that runs the C++ library LFDM, and the measurements that it is compared with.
LIBRARY = "lfdm_peer"
_OF_LIBRARY = [f"{model}/tmeasy/{run}" for model in ("eleven_dof", "eighteen_dof", "twenty_four_dof")
               for run in ("acceleration", "lane_change")]

_NAMED = re.compile(r"(\w+(?:/\w+)+)=(.+)", re.DOTALL)
# Not the digits of a word such as float64.
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Peer:
    """A command whose last number on stdout is its time for 10 s at a step of 1 ms [ms].

    measurement: the one that it is compared with, for example eighteen_dof/tmeasy/acceleration; empty: each.
    """

    measurement: str
    command: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Peer:
        """Parses `[MEASUREMENT=]COMMAND`, with a shell's quoting. Raises InputError: an empty command or an open quote."""
        named = _NAMED.fullmatch(text)
        measurement, command = named.groups() if named else ("", text)
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise InputError(f"--peer {text}: {error}") from None
        if not words:
            raise InputError(f"--peer '{text}': no command; give [MODEL/TYRE/RUN=]COMMAND")
        return cls(measurement, tuple(words))

    def milliseconds(self, inputs: Path) -> float:
        """Runs the command and returns the time that it reports [ms]; `inputs` replaces {inputs}. Raises InputError: it cannot be started,
        fails, takes too long, or prints no positive number last."""
        words = [word.replace(INPUTS, str(inputs)) for word in self.command]
        where = f"--peer {shlex.join(self.command)}"
        try:
            result = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=TIME_LIMIT)
        except OSError as error:
            raise InputError(f"{where}: {words[0]} cannot be started: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise InputError(f"{where}: no answer within {TIME_LIMIT:g} s") from None
        if result.returncode:
            last = result.stderr.strip().splitlines()[-1:] or ["it wrote nothing on stderr"]
            raise InputError(f"{where}: ended with status {result.returncode}: {last[0]}")
        numbers = _NUMBER.findall(result.stdout)
        value = float(numbers[-1]) if numbers else math.nan
        if not 0.0 < value < math.inf:
            printed = f"its last number is {numbers[-1]}" if numbers else "it printed none"
            raise InputError(f"{where}: the last number on its stdout must be its milliseconds, but {printed}")
        return value


def library_peers(only: str = "*") -> list[Peer]:
    """Returns the C++ library LFDM, `lfdm_peer MODEL/TYRE/RUN INPUTS`, as peer of its measurements that match `only`. Raises InputError:
    the program is not on the PATH, or nothing matches."""
    program = shutil.which(LIBRARY)
    if program is None:
        raise InputError(f"--peer: no program {LIBRARY} on the PATH, which runs the C++ library LFDM: build wheeled_vehicle_models of "
                         "github.com/uwsbel/low-fidelity-dynamic-models and a program around it "
                         "(docs/concepts/lfdm_differences.md#its-speed), or name another one: --peer 'MODEL/TYRE/RUN=COMMAND {inputs}'")
    chosen = [name for name in _OF_LIBRARY if fnmatch(name, only)]
    if not chosen:
        raise InputError(f"--peer: the library has none of --only {only}; it has {', '.join(_OF_LIBRARY)}")
    return [Peer(name, (program, name, INPUTS)) for name in chosen]
