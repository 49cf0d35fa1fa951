"""Learning of the ground in a child process of its own: a second of a drive takes a fifth of a second of a core, which neither callbacks
nor the interpreter lock of a node can spare (`lfdm_ros.engine.learning_child`). Independent of ROS."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from lfdm_ros.engine.background import Share
from lfdm_ros.engine.calibration_process import last_line
from lfdm_ros.ground.learned_ground import DriveSegment, GroundPrior, LearnerSettings
from lfdm_ros.ground.posterior import FrictionPosteriorMap
from lfdm_ros.vehicles import Vehicle

CHILD = "lfdm_ros.engine.learning_child"
IN_FLIGHT = 2  # stretches at the child, one of them being learned
_TURN = 0.05  # [s] between two polls of the connection
_AGAIN = 2.0  # [s] until a child that died is restarted


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A vehicle in a form that can go to another process, and draws (S,) of its parameters by name."""

    name: str
    parameters: Mapping[str, float]
    conventions: str
    default_tyre: str
    posterior: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, vehicle: Vehicle, posterior: Mapping[str, np.ndarray] | None = None) -> Calibrated:
        return cls(vehicle.name, dict(vehicle.parameters), vehicle.conventions, vehicle.default_tyre, dict(posterior or {}))

    @property
    def vehicle(self) -> Vehicle:
        return Vehicle(self.name, self.parameters, conventions=self.conventions, default_tyre=self.default_tyre)


@dataclass(frozen=True, eq=False)
class Task:
    """Task of the child. period: least wall time between two maps [s]."""

    belief: GroundPrior
    settings: LearnerSettings
    model: str
    period: float


@dataclass(frozen=True, eq=False)
class Job:
    """A stretch, the vehicle's position at its end [m], and the stamp of that [ns]."""

    stretch: DriveSegment
    place: tuple[float, float]
    stamp_ns: int


@dataclass(frozen=True, eq=False)
class LearnerUpdate:
    """Report of the child on a job, or on all so far. answers: to a job; felt, silent, stored: windows in total, uninformative, stored;
    refused: why a stretch could not be estimated; friction_map: up to a stamp [ns]; None: unchanged, or not due."""

    answers: bool
    felt: int = 0
    silent: int = 0
    stored: int = 0
    refused: str = ""
    friction_map: FrictionPosteriorMap | None = None
    stamp_ns: int = 0


class LearningProcess:
    """Queue of stretches to the child, which starts with the first one, and its updates. All methods return at once but `close`.

    Attributes:
        told: the last update; failed: why the child died, until its next update; dropped: stretches beyond the queue's capacity;
        refused: stretches that could not be estimated; restarts: number of restarts, each without the learned state.
    """

    def __init__(self, task: Task, calibrated: Calibrated, share: Share, most_waiting: int) -> None:
        """Creates an empty queue. share: of the machine. most_waiting: stretches; of more the oldest are dropped."""
        self._task, self._calibrated, self._share, self._most = task, calibrated, share, most_waiting
        self._jobs: deque[Job] = deque()
        self._wake = threading.Condition()
        self._news: FrictionPosteriorMap | None = None
        self._closing = self._recalibrated = False
        self._worker: threading.Thread | None = None
        self.last_update = LearnerUpdate(False)
        self.failed = self.last_refusal = ""
        self.dropped = self.refused = self.restarts = self._in_flight = self._news_ns = 0

    def hand(self, job: Job) -> None:
        """Queues a stretch to be learned from."""
        with self._wake:
            if len(self._jobs) >= self._most:
                self._jobs.popleft()
                self.dropped += 1
            self._jobs.append(job)
            if self._worker is None and not self._closing:
                self._worker = threading.Thread(target=self._work, name="ground learner", daemon=True)
                self._worker.start()
            self._wake.notify_all()

    def take(self, calibrated: Calibrated) -> None:
        """Sets another calibration, with which all stored windows are estimated again."""
        with self._wake:
            self._calibrated, self._recalibrated = calibrated, True
            self._wake.notify_all()

    @property
    def waiting(self) -> int:
        return len(self._jobs) + self._in_flight

    def news(self) -> tuple[FrictionPosteriorMap, int] | None:
        """Returns the newest map and its stamp [ns], once; None: there is no newer one."""
        with self._wake:
            newest, self._news = self._news, None
            return None if newest is None else (newest, self._news_ns)

    def close(self) -> None:
        """Ends the child; waiting stretches are not learned."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        if self._worker is not None:
            self._worker.join()

    def _work(self) -> None:
        while not self._closing:
            with tempfile.TemporaryFile() as errors:
                here, there = Pipe()
                command = self._share.command([sys.executable, "-m", CHILD, str(there.fileno())])
                # Started by this thread, with which it ends; in a session of its own: Ctrl-C reaches the node alone.
                child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, pass_fds=[there.fileno()],
                                         start_new_session=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
                there.close()
                try:
                    self._serve(here)
                except (EOFError, OSError) as error:
                    child.kill()
                    child.wait()
                    errors.seek(0)
                    reason = last_line(errors.read()) or f"{type(error).__name__}, status {child.returncode}"
                    with self._wake:
                        self.failed, self._in_flight = reason, 0
                        self._wake.wait_for(lambda: self._closing, _AGAIN)
                        self.restarts += not self._closing
                finally:
                    here.close()
                    child.kill()
                    child.wait()

    def _serve(self, child: Connection) -> None:
        """Exchanges messages with the child until closed. Raises EOFError, OSError: the child has ended."""
        with self._wake:
            self._recalibrated = False
        child.send((self._task, self._calibrated))
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._closing or self._recalibrated or bool(self._jobs and self._in_flight < IN_FLIGHT), _TURN)
                if self._closing:
                    return
                message: Any = None
                if self._recalibrated:
                    message, self._recalibrated = self._calibrated, False
                elif self._jobs and self._in_flight < IN_FLIGHT:
                    message = self._jobs.popleft()
                    self._in_flight += 1
            if message is not None:
                child.send(message)
            while child.poll(0.0):
                self._on_update(child.recv())

    def _on_update(self, update: LearnerUpdate) -> None:
        with self._wake:
            self.last_update, self.failed = update, ""
            self._in_flight -= update.answers
            if update.refused:
                self.refused, self.last_refusal = self.refused + 1, update.refused
            if update.friction_map is not None:
                self._news, self._news_ns = update.friction_map, update.stamp_ns
