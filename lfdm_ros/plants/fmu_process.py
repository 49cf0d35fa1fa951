"""The process of an FMU or of a system of several, as its parent sees it."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

from lfdm_ros.plants import fmu_child
from lfdm_ros.plants.fmu import Fmu, Variable
from lfdm_ros.plants.fmu_child import HEAD, LARGEST
from lfdm_ros.plants.plant import PlantFailed
from lfdm_ros.plants.ssp import FmuSystem

_CHILD = "lfdm_ros.plants.fmu_child"
_GRACE = 1.0  # [s] for a process to end by itself


class FmuProcess:
    """An FMU, or a system of several, in a process of its own, which is started by `reset` and again after a crash."""

    def __init__(self, fmu: Fmu | FmuSystem, step: float, timeout: float, parameters: Sequence[tuple[Variable, float]],
                 start: Sequence[Variable], inputs: Sequence[Variable], outputs: Sequence[Variable]) -> None:
        """Unpacks the FMU.

        Args:
            step: [s] of communication. timeout: [s] of the wall clock for an answer.
            parameters: with their values in the FMU's units, set at each reset. start, inputs: set by values; outputs: read.

        Raises:
            InputError: as `Fmu.unpack`.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="lfdm_fmu_")
        folder = Path(self._folder.name).resolve()
        parts = list(fmu.parts)

        def place(variable: Variable) -> tuple[int, str, int]:
            return parts.index(variable.part), variable.type, variable.reference

        tasks = []
        for k, (name, part) in enumerate(fmu.parts.items()):
            root = folder / str(k)
            library = part.unpack(root)
            resources = (root / "resources").as_uri() if part.version == "2.0" else f"{root / 'resources'}{os.sep}"
            tasks.append({"part": name, "library": str(library), "version": part.version[0], "token": part.token,
                          "name": name or part.name or part.identifier, "resources": resources})
        alone = next(iter(fmu.parts.values())) if len(parts) == 1 else None
        values = [*fmu.values, *parameters]
        self._task = str(folder / "task.json")
        task = json.dumps({
            "parts": tasks, "step": step, "slopes": alone is not None and alone.input_derivatives,
            "whole": alone is not None and alone.variable_step,
            "links": [{"source": place(link.source), "target": place(link.target), "factor": link.factor, "offset": link.offset}
                      for link in fmu.links],
            "parameters": [place(variable) for variable, _ in values], "values": [value for _, value in values],
            "start": list(map(place, start)), "inputs": list(map(place, inputs)), "outputs": list(map(place, outputs))})
        Path(self._task).write_text(task, encoding="utf-8")
        self._name, self._timeout, self._step, self._steps = fmu.path.name, timeout, step, 0
        self._child: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._answer = struct.Struct(f"<{len(outputs)}d")

    def reset(self, start: Sequence[float]) -> tuple[float, ...]:
        """Begins anew at time 0 with start values, in the FMU's units; returns the outputs. Raises PlantFailed."""
        if self._child is None:
            self._begin()
        self._steps = 0
        return self._ask("was loaded and initialised", HEAD.pack(fmu_child.RESET, 0) + struct.pack(f"<{len(start)}d", *start))

    def advance(self, first: Sequence[float], last: Sequence[float], steps: int) -> tuple[float, ...]:
        """Advances with inputs from first to last; returns the outputs. Raises PlantFailed: it crashed, hangs, or refused."""
        if self._child is None:
            raise PlantFailed(f"{self._name} does not run any more; reset it")
        numbers = (*first, *last)
        found = self._ask("was stepped", HEAD.pack(fmu_child.ADVANCE, steps) + struct.pack(f"<{len(numbers)}d", *numbers))
        self._steps += steps
        return found

    def _begin(self) -> None:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # messages stay whole
        # In a session of its own: Ctrl-C reaches the parent alone. What its code prints goes nowhere.
        self._child = subprocess.Popen(
            [sys.executable, "-m", _CHILD, str(there.fileno()), self._task], cwd=self._folder.name,
            pass_fds=[there.fileno()], start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))))})
        there.close()
        self._connection = here
        weakref.finalize(self, _end, self._child, here)
        here.settimeout(self._timeout)

    def _ask(self, doing: str, message: bytes) -> tuple[float, ...]:
        """Sends a request; returns what is answered. Raises PlantFailed."""
        assert self._connection is not None and self._child is not None
        at = f" at {self._steps * self._step:g} s" if self._steps else ""
        try:
            self._connection.send(message)
            answer = self._connection.recv(LARGEST)
        except TimeoutError:
            self.close(0.0)
            raise PlantFailed(f"{self._name} hangs: no answer in {self._timeout:g} s while it {doing}{at}",
                              self._steps * self._step) from None
        except OSError:
            answer = b""
        except BaseException:  # Ctrl-C: the answer to come must not be taken for that of the next request
            self.close(0.0)
            raise
        if not answer:
            status = self.close()
            how = signal.strsignal(-status) if status < 0 else f"status {status}"
            raise PlantFailed(f"{self._name} crashed while it {doing}{at}: {how}", self._steps * self._step)
        if answer[:1] == fmu_child.FAILED:
            raise PlantFailed(f"{self._name}: {answer[1:].decode('utf-8', 'replace')}", self._steps * self._step)
        return self._answer.unpack_from(answer, 1)

    def close(self, grace: float = _GRACE) -> int:
        """Ends the process, by force after a time [s]; returns its status, below 0: by that signal."""
        child, connection, self._child, self._connection = self._child, self._connection, None, None
        return 0 if child is None or connection is None else _end(child, connection, grace)


def _end(child: subprocess.Popen[bytes], connection: socket.socket, grace: float = _GRACE) -> int:
    connection.close()
    try:
        return child.wait(grace)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)  # its session, with what it has started
        return child.wait()
