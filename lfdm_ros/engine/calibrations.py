"""Calibrations, one at a time in a background process, and the application of their results. Independent of ROS."""

import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from lfdm_ros.calibration.gates import SPEED, GateLimits, GateResult, finished_stages, refused, verdicts
from lfdm_ros.calibration.progress import Progress
from lfdm_ros.calibration.store import APPLIED, POSTERIOR, ROLLED_BACK, SUMMARY, PosteriorStore, Version
from lfdm_ros.documents import read_json
from lfdm_ros.engine import calibration_process
from lfdm_ros.engine.background import Share
from lfdm_ros.engine.bag_folder import BagFolder, Job
from lfdm_ros.engine.calibration_process import CalibrationProcess
from lfdm_ros.errors import InputError

OFF, MANUAL, AUTO = "OFF", "MANUAL", "AUTO"
POLICIES = (OFF, MANUAL, AUTO)


class Applier:
    """Application and rollback of the versions in a store. Its methods may be called from any thread."""

    def __init__(self, store: PosteriorStore, *, policy: Callable[[], str], limits: Callable[[], GateLimits],
                 speed: Callable[[], float | None], changed: Callable[[Version | None], None]) -> None:
        """Creates an applier with no version pending. policy: returns the present policy: OFF, MANUAL or AUTO. speed: returns the present
        speed of the vehicle [m/s]; None: unknown. changed: called with the version now in force; None: the vehicle file."""
        self._store, self._policy, self._limits, self._speed, self._changed = store, policy, limits, speed, changed
        self._lock = threading.RLock()
        self._pending: Version | None = None
        self.gates: list[GateResult] = []  # verdicts on the version judged last
        self.waiting = ""  # text on the version whose automatic application is pending

    def judge(self, version: Version) -> list[GateResult]:
        """Returns the gates' verdicts on a version, against the one in force and the vehicle's speed."""
        with self._lock:
            in_force = self._store.in_force()
            self.gates = verdicts(version.summary, in_force.summary if in_force else None, self._speed(), self._limits())
            return self.gates

    def offer(self, version: Version) -> str:
        """Takes a new calibration: AUTO applies it, or waits for the vehicle to be slow; returns the outcome in one line."""
        with self._lock:
            self._pending, self.waiting = None, ""
            reason = refused(self.judge(version))
            if self._policy() != AUTO:
                return f"stored as version {version.number}" + (f"; the gates would refuse it: {reason}" if reason else "")
            if not reason:
                return self._put_in_force(version, "apply_policy AUTO, all gates passed")
            if all(verdict.passed or verdict.name == SPEED for verdict in self.gates):
                self._pending, self.waiting = version, f"version {version.number} waits: {reason}"
                return self.waiting
            return f"stored as version {version.number}, not applied: {reason}"

    def retry(self) -> str:
        """Applies a version pending for low speed, if the vehicle is slow; returns the outcome in one line, or ''."""
        with self._lock:
            if self._pending is None:
                return ""
            if self._policy() != AUTO:
                self._pending, self.waiting = None, ""
                return ""
            failed = {verdict.name for verdict in self.judge(self._pending) if not verdict.passed}
            return "" if failed == {SPEED} else self.offer(self._pending)

    def apply(self, number: int | None) -> tuple[bool, str]:
        """Applies a version, None: the newest, if all gates pass; returns success and a message."""
        with self._lock:
            try:
                if self._policy() == OFF:
                    return False, "apply_policy is OFF; set it to MANUAL or AUTO"
                version = self._store.newest() if number is None else self._store.version(number)
                if version is None:
                    return False, f"{self._store.path} holds no posterior yet"
                if reason := refused(self.judge(version)):
                    return False, f"version {version.number} is not applied: {reason}"
                return True, self._put_in_force(version, "requested, all gates passed")
            except InputError as error:
                return False, str(error)

    def roll_back(self, number: int) -> tuple[bool, str]:
        """Goes back to a version before the one in force, 0: to the vehicle file; returns success and a message.

        A version that was in force before need not pass the gates: a bad posterior must be revertible, also while driving.
        """
        with self._lock:
            try:
                newest = getattr(self._store.in_force(), "number", 0)
                if number >= newest:
                    return False, f"version {number} is not before version {newest}, which is in force; use apply_posterior to go forward"
                version = self._store.version(number) if number else None
                if version is not None and number not in [entry.number for entry in self._store.journal()] and (
                        reason := refused(self.judge(version))):
                    return False, f"version {number} was never in force and does not pass: {reason}"
                self._enter(number, version, ROLLED_BACK, f"requested, from version {newest}")
                return True, f"back to version {number}" if number else "back to the vehicle file"
            except InputError as error:
                return False, str(error)

    def _put_in_force(self, version: Version, why: str) -> str:
        self._enter(version.number, version, APPLIED, why)
        return f"version {version.number} is in force"

    def _enter(self, number: int, version: Version | None, how: str, why: str) -> None:
        self._store.put_in_force(number, how, why)
        self._pending, self.waiting = None, ""
        self._changed(version)


class State(Enum):
    """State of the last calibration, in a word for display."""

    IDLE = "idle"
    RUNNING = "calibrating"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Conclusion:
    """Result of a calibration. message: for display; version: its number in the store, 0: not stored; posterior: to be published."""

    success: bool
    directory: str
    message: str
    version: int = 0
    posterior: Any = None


class Calibrations:
    """Runner of calibrations, which stores their results."""

    def __init__(self, store: PosteriorStore, applier: Applier, folder: BagFolder | None, *, share: Callable[[], Share], ground: str,
                 publishable: Callable[[Mapping[str, Any], Mapping[str, Any]], Any], changed: Callable[[], None], log: Any) -> None:
        """Creates a runner at rest.

        Args:
            folder: the watched one, with its memory of recordings; None: there is none.
            share: returns the present share of the machine.
            ground: that bags were recorded on; empty: as the recipe says.
            publishable: makes the message to publish from posterior.json and summary.json, or raises InputError.
            changed: called after each change of `latest`, from any thread.
        """
        self._store, self._applier, self._folder, self._share = store, applier, folder, share
        self._ground = ground
        self._publishable, self._changed, self._log = publishable, changed, log
        self.latest = State.IDLE, Progress()  # of the last calibration
        self.busy = self.paused = False  # one runs, or is about to; it waits, and no other begins
        self.ending = threading.Event()  # while the node is not active: an interrupted job of the watched folder then goes on later
        self._process: CalibrationProcess | None = None
        self._worker: threading.Thread | None = None

    def start(self, recipe: str, bags: Sequence[str], out: str, *, draws: int, chains: int, seed: int, continue_from: str = "",
              job: Job | None = None, report: Callable[[Progress], None] = lambda progress: None,
              end: Callable[[Conclusion], None] = lambda conclusion: None) -> None:
        """Runs a calibration in a thread of its own, which calls `end` last. recipe, bags, out, draws, chains, seed, continue_from: see
        `CalibrationProcess`. job: of the watched folder; None: the calibration was requested."""
        self.busy = True
        self._process = process = CalibrationProcess(recipe, bags, out, draws=draws, chains=chains, seed=seed, continue_from=continue_from,
                                                     ground=self._ground, share=self._share())
        process.pause(self.paused)
        self._set(State.RUNNING, Progress(message="starting"))
        before = _changed_at(out)

        def follow(progress: Progress) -> None:
            self._set(State.RUNNING, progress)
            report(progress)

        def work() -> None:
            try:
                conclusion = self._conclude(process, process.follow(follow), out, before, job)
            except Exception as error:  # a bug; without a result the goal would hang
                self._log.fatal(traceback.format_exc())
                conclusion = Conclusion(False, out, f"internal error: {error!r}")
                self._set(State.FAILED, Progress(message=conclusion.message))
            self._process, self.busy = None, False
            end(conclusion)

        self._worker = threading.Thread(target=work, name="calibration", daemon=True)
        self._worker.start()

    def pause(self, paused: bool) -> None:
        self.paused = paused
        if self._process is not None:
            self._process.pause(paused)

    def interrupt(self) -> bool:
        """Asks the running calibration to stop and keep its finished work; False: none runs."""
        if (process := self._process) is not None:
            process.interrupt()
        return process is not None

    def close(self) -> None:
        """Ends the running calibration, and waits for it."""
        self.ending.set()
        self.interrupt()
        if self._worker is not None:
            self._worker.join()

    def _set(self, state: State, progress: Progress) -> None:
        self.latest = state, progress
        self._changed()

    def _conclude(self, process: CalibrationProcess, exit_status: int, out: str, before: int, job: Job | None) -> Conclusion:
        """Stores the results of an ended calibration, offers them to the policy, and logs the outcome. before: `_changed_at(out)` before
        the calibration began."""
        conclusion = Conclusion(exit_status == 0, out, process.last_words or f"the calibration ended with status {exit_status}")
        state = State.SUCCEEDED if conclusion.success else State.FAILED
        if process.interrupted:
            state, conclusion = State.CANCELLED, Conclusion(False, out, "cancelled")
        resumed = process.interrupted and self.ending.is_set() and job is not None  # the watched folder takes it up again
        message = conclusion.message
        if resumed:
            message = "stopped; it goes on when the calibrator is active again"
        elif conclusion.success or (process.interrupted and _changed_at(out) != before):
            try:
                conclusion = self._store_result(conclusion.success, out, job)
                message = conclusion.message
            except InputError as error:
                state, conclusion, message = State.FAILED, Conclusion(False, out, str(error)), str(error)
        elif process.interrupted:
            message = f"cancelled before a stage was finished; {out} has nothing new"
        if job is not None and self._folder is not None and not resumed:
            message = _end_job(self._folder, job, exit_status, message, failed=state is State.FAILED)
        _, latest = self.latest
        self._set(state, Progress(stage=latest.stage, progress=latest.overall, message=message))
        if state is State.FAILED:
            self._log.error(message)
        else:
            self._log.info(message)
        return Conclusion(conclusion.success, out, message, conclusion.version, conclusion.posterior)

    def _store_result(self, success: bool, out: str, job: Job | None) -> Conclusion:
        """Stores the calibration in `out`, finished or partial. Raises InputError: it cannot be read or stored."""
        calibration_process.describe(out, self._share())
        summary = read_json(Path(out) / SUMMARY)
        posterior = self._publishable(read_json(Path(out) / POSTERIOR), summary)
        self._applier.judge(Version(0, Path(out), {}))
        version = self._store.add(out, gates=[asdict(verdict) for verdict in self._applier.gates], run=job.id if job else "",
                                  notes=self._folder.notes() if self._folder else None, continued_from=job.continue_from if job else 0)
        if summary.get("interrupted"):
            finished = finished_stages(summary)
            begun = [stage["name"] for stage in summary["stages"] if stage["name"] not in finished]
            stages = [f"finished: {', '.join(finished)}" if finished else "nothing finished",
                      *(f"stopped on its way: {name}" for name in begun)]
            message = f"cancelled; what is there is kept in {out} and as version {version.number} ({'; '.join(stages)})"
        else:
            message = f"calibrated, see {Path(out) / 'report.html'}; {self._applier.offer(version)}"
        return Conclusion(success, out, message, version.number, posterior)


def _end_job(folder: BagFolder, job: Job, exit_status: int, message: str, *, failed: bool) -> str:
    if exit_status < 0 and failed and folder.died(job):
        return f"the calibration was killed (signal {-exit_status}); taking it up again"
    remark = folder.end(job, message, time.monotonic(), failed=failed)
    return f"{message}; {remark}" if remark else message


def _changed_at(out: str) -> int:
    """Returns the time at which summary.json of a calibration's folder was written [ns]; 0: it is not there."""
    try:
        return (Path(out) / SUMMARY).stat().st_mtime_ns
    except OSError:
        return 0


@dataclass(frozen=True)
class CalibrationOrder:
    """Settings of calibrations with bags of the folder; 0 and empty: as the recipe says, beside the bags. continuing: from the newest
    posterior of the recipe, instead of with all bags anew."""

    recipe: str
    out_directory: str
    draws: int
    chains: int
    seed: int
    continuing: bool


class FolderWatch:
    """Watch for new bags, which begins calibrations with them while no other runs."""

    def __init__(self, folder: BagFolder, order: CalibrationOrder, calibrations: Calibrations, store: PosteriorStore,
                 share: Callable[[], Share], log: Any) -> None:
        """Creates a watch. share: returns the present share of the machine."""
        self._folder, self._order, self._calibrations, self._store, self._share, self._log = folder, order, calibrations, store, share, log
        self._reader: threading.Thread | None = None

    def look(self) -> None:
        """Examines new bags, or begins a calibration that is due; to be called periodically. Raises InputError, OSError: folder, memory or
        store cannot be read or written."""
        if self._reader is not None and self._reader.is_alive():
            return
        folder = self._folder
        bags = folder.look(time.monotonic())
        if bags:
            self._reader = threading.Thread(target=self._examine, args=(bags,), name="bag reader", daemon=True)
            self._reader.start()
        elif not self._calibrations.busy and not self._calibrations.paused:
            job = folder.unfinished or folder.next_job(self._order.out_directory, time.monotonic(), self._continue_from())
            if job is not None:
                self._begin(job)

    def _examine(self, bags: list[Path]) -> None:
        for bag in bags:
            info, problem = None, ""
            try:
                info = calibration_process.examine(str(bag), self._share())
            except (InputError, OSError, ValueError) as error:
                problem = str(error)
            if self._calibrations.ending.is_set():
                return
            try:
                remark = self._folder.examined(bag, time.monotonic(), info, problem)
            except InputError as error:
                remark = str(error)
            if remark:
                self._log.warning(remark)

    def _continue_from(self) -> int:
        """Returns the newest version that a new bag may continue; 0: none, or none is to be continued."""
        if not self._order.continuing:
            return 0
        same = [v for v in self._store.versions() if not v.manifest["interrupted"] and Path(v.manifest["recipe"]).stem == Path(
            self._order.recipe).stem]
        return same[-1].number if same else 0

    def _begin(self, job: Job) -> None:
        resumed, order = self._folder.unfinished is not None, self._order
        self._folder.begin(job)
        self._log.info(f"{'taking up again' if resumed else 'new bags'}: calibrating with {', '.join(job.bags)} into {job.out}")
        start = str(self._store.version(job.continue_from).directory) if job.continue_from else ""
        self._calibrations.start(job.recipe, job.bags, job.out, draws=order.draws, chains=order.chains, seed=order.seed,
                                 continue_from=start, job=job)
