"""The calibrator node: calibrates a vehicle from bags, stores the posteriors, and publishes the one that is in force."""

from __future__ import annotations

import math
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rclpy.action import CancelResponse, GoalResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.serialization import deserialize_message
from rclpy.task import Future
from std_srvs.srv import SetBool, Trigger

from lfdm_ros.action import Calibrate
from lfdm_ros.bounds import BOUNDS, require_all, require_asked
from lfdm_ros.calibration.gates import Limits, finished_stages
from lfdm_ros.calibration.progress import Progress
from lfdm_ros.calibration.store import POSTERIOR, SUMMARY, PosteriorStore, Version
from lfdm_ros.documents import read_json
from lfdm_ros.engine import calibration_process
from lfdm_ros.engine.applying import MANUAL, POLICIES, Applier
from lfdm_ros.engine.background import LOWEST, NORMAL, Share
from lfdm_ros.engine.bag_folder import BagFolder, Job
from lfdm_ros.engine.calibration_process import CalibrationProcess
from lfdm_ros.errors import InputError
from lfdm_ros.msg import CalibratorStatus, Gate, Posterior, VehicleState
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import ERROR, OK, WARN, Component, Diagnosis
from lfdm_ros.ros.endpoints import acts, hears, publishes, serves
from lfdm_ros.ros.parameters import Parameter
from lfdm_ros.ros.posteriors import posterior_message, version_message
from lfdm_ros.ros.runtime import run_node
from lfdm_ros.srv import ApplyPosterior, RollBack

LOOK_EVERY = 1.0  # [s] into the watched folder
_FRESH = 1.0  # [s] for which a vehicle/state says how fast the vehicle is
_NAMES = {CalibratorStatus.IDLE: "idle", CalibratorStatus.RUNNING: "calibrating", CalibratorStatus.SUCCEEDED: "succeeded",
          CalibratorStatus.FAILED: "failed", CalibratorStatus.CANCELLED: "cancelled", CalibratorStatus.PAUSED: "paused"}


class Calibrator(Component):
    """Serves the action `calibrate` and watches a folder, one calibration at a time in a process of the least priority.

    """

    NAME = "calibrator"
    PARAMETERS = (
        Parameter("watch_directory", "", "folder in which a new bag starts a calibration, made if it is not there; empty: none"),
        Parameter("recipe", "hmmwv_paper", "recipe for the watched folder: a name in config/calibration, or a path"),
        Parameter("out_directory", "", "results of the watched folder; empty: calibrations, in that folder"),
        Parameter("store", "", "folder of the stored posteriors; empty: store in out_directory, else in calibrations in the watched "
                               "folder, else calibrator in ROS_HOME (default ~/.ros)"),
        Parameter("draws", 0, "draws per chain for the watched folder; 0: as the recipe says", *BOUNDS["draws"].range),
        Parameter("chains", 0, "chains for the watched folder; 0: as the recipe says", *BOUNDS["chains"].range),
        Parameter("seed", 0, "seed for the watched folder; 0: as the recipe says", *BOUNDS["seed"].range),
        Parameter("continue_posterior", False, "a new bag in the watched folder continues from the newest posterior of the recipe, instead "
                                               "of calibrating with all bags anew; the recipe's sampler must be one that can (smc)"),
        Parameter("abandoned_after", 60.0, "seconds without a change after which a bag that was never closed counts as finished",
                  1.0, 86_400.0, unit="s"),
        Parameter("max_cores", 0, "processor cores that a calibration may use; 0: all but one", 0, 1024, live=True),
        Parameter("priority", LOWEST, "of a calibration's process: lowest, SCHED_IDLE and nice 19; normal, as other programs",
                  choices=(LOWEST, NORMAL), live=True),
        Parameter("apply_policy", MANUAL, "OFF: posteriors are stored only; MANUAL: apply_posterior puts one in force; AUTO: a new one is "
                                          "put in force once it passes all gates", choices=POLICIES, live=True),
        Parameter("gate_r_hat", 1.01, "largest R-hat of any unknown", 1.0, 10.0, live=True, unit="1"),
        Parameter("gate_ess", 400.0, "least bulk effective sample size of any unknown", 0.0, 1e9, live=True, unit="1"),
        Parameter("gate_coverage_lower", 0.8, "least share of samples inside the 90 % predictive intervals, of each channel",
                  0.0, 1.0, live=True, unit="1"),
        Parameter("gate_coverage_upper", 0.99, "largest such share", 0.0, 1.0, live=True, unit="1"),
        Parameter("gate_change_sd", 10.0, "largest change of a vehicle parameter, in standard deviations of the posterior in force",
                  0.0, 1e9, live=True, unit="1"),
        Parameter("gate_change_relative", 0.3, "largest change of a vehicle parameter, as a share of its value in force",
                  0.0, 1e9, live=True, unit="1"),
        Parameter("apply_speed_limit", 0.5, "largest speed at which parameters may change; below 0: any, also an unknown one",
                  -1.0, 100.0, live=True, unit="m/s"),
        Parameter("apply_slow_only", ["*"], "names or patterns of the vehicle parameters that apply_speed_limit is about", live=True),
    )
    ENDPOINTS = (
        publishes("posterior", Posterior, qos.LATCHED, "the one in force"),
        publishes("calibrator/status", CalibratorStatus, qos.STATUS, "stage, progress, gates"),
        hears("vehicle/state", VehicleState, qos.CLOCK, "how fast the vehicle is"),
        acts("calibrate", Calibrate, "a recipe on bags"),
        serves("~/pause", SetBool, "let the processor to others"),
        serves("~/cancel", Trigger, "end what is running"),
        serves("~/apply_posterior", ApplyPosterior, "put a version in force"),
        serves("~/rollback", RollBack, "the version before"),
    )

    # ---- lifecycle -----------------------------------------------------------------------------------------------------

    def configure(self) -> None:
        watched = self.value("watch_directory")
        require_asked(self.value("draws"), self.value("chains"), self.value("seed"))
        store = self._store_path()
        # Of several vehicles each has a folder of its own in it.
        if watched and not Path(watched).exists() and any(place.is_dir() for place in Path(watched).absolute().parents[:2]):
            Path(watched).mkdir(parents=True)
            self.get_logger().info(f"made the folder {watched}, to watch it")
        self._folder = BagFolder(watched, self.value("recipe"), store / "watch.json",
                                 abandoned_after=self.value("abandoned_after"),
                                 continuing=self.value("continue_posterior")) if watched else None
        self._store = PosteriorStore(store, report=lambda text: self.get_logger().error(text)).writer()
        self._applier = Applier(self._store, policy=lambda: str(self.value("apply_policy")), limits=self._limits, speed=self._speed,
                                changed=self._publish_posterior)
        self._process: CalibrationProcess | None = None
        self._busy = self._paused = False
        self._ending = threading.Event()
        self._worker: threading.Thread | None = None
        self._reader: threading.Thread | None = None
        self._heard: tuple[float, bytes] | None = None
        self._status = CalibratorStatus(state=CalibratorStatus.IDLE, ess=math.nan, time_left=math.nan)
        self._posterior_publisher, self._status_publisher = self.publisher("posterior"), self.publisher("calibrator/status")
        # The bytes only: nobody asks for the speed most of the time.
        self.subscription("vehicle/state", self._on_vehicle, raw=True)
        self.action("calibrate", self._execute, self._on_goal, self._on_cancel)
        for name, callback in (("pause", self._on_pause), ("cancel", self._on_cancel_service), ("apply_posterior", self._on_apply),
                               ("rollback", self._on_roll_back)):
            self.service(f"~/{name}", callback)

    def activate(self) -> None:
        self._ending.clear()
        if self._store.journal():  # else nobody was ever told of anything
            self._publish_posterior(self._store.in_force())
        self._periodic = [self.every(1.0, self._tick)]
        if self._folder is not None:
            self._periodic.append(self.every(LOOK_EVERY, self._look))

    def deactivate(self) -> None:
        for timer in self._periodic:
            self.destroy_timer(timer)
        self._ending.set()
        if self._process is not None:
            self._process.interrupt()
        if self._worker is not None:
            self._worker.join()

    def cleanup(self) -> None:
        self._store.close()

    def _store_path(self) -> Path:
        if self.value("store"):
            return Path(self.value("store"))
        if self.value("out_directory"):
            return Path(self.value("out_directory")) / "store"
        if self.value("watch_directory"):
            return Path(self.value("watch_directory")) / "calibrations" / "store"
        home = Path(os.environ.get("ROS_HOME") or Path.home() / ".ros")
        return home / self.get_fully_qualified_name().lstrip("/")

    # ---- the action and the services -----------------------------------------------------------------------------------

    def _on_goal(self, goal: Calibrate.Goal) -> GoalResponse:
        problem = ("the calibrator is not active" if self.state != "active" else "the calibrator is paused" if self._paused
                   else "a calibration is running" if self._busy
                   else "recipe, bags and out must all be given" if not (goal.recipe and goal.bags and goal.out) else "")
        try:
            require_asked(goal.draws, goal.chains, goal.seed)
            if any("\0" in text for text in (goal.recipe, *goal.bags, goal.out)):
                raise InputError("a path with a zero byte is none")
        except InputError as error:
            self.refusals.refuse("goal", error)
            return GoalResponse.REJECT
        if problem:
            self.get_logger().warning(f"calibration refused: {problem}")
            return GoalResponse.REJECT
        self._busy = True
        return GoalResponse.ACCEPT

    def _on_cancel(self, goal: ServerGoalHandle) -> CancelResponse:
        if self._process is not None:
            self._process.interrupt()
        return CancelResponse.ACCEPT

    async def _execute(self, goal: ServerGoalHandle) -> Calibrate.Result:
        done: Future = Future(executor=self.executor)
        request = goal.request

        def report(progress: Progress) -> None:
            goal.publish_feedback(Calibrate.Feedback(
                stage=progress.stage, stage_index=progress.stage_index, stage_count=progress.stage_count,
                temperature=progress.temperature, progress=progress.progress, ess=progress.ess, time_left=progress.time_left))

        def end(result: Calibrate.Result) -> None:
            if self.executor is not None:
                self.executor.create_task(lambda: done.set_result(result))

        # Whole paths in every answer: who asks may be in another folder than this node.
        bags, out = [os.path.abspath(bag) for bag in request.bags], os.path.abspath(request.out)
        process = CalibrationProcess(request.recipe, bags, out, draws=request.draws, chains=request.chains,
                                     seed=request.seed, share=self._share())
        self._start(process, out, report, end)
        if goal.is_cancel_requested:  # before there was a process to interrupt
            self._on_cancel(goal)
        # Resumed by the executor: the thread that sets it wakes it through a task of its own.
        await done
        result: Calibrate.Result = done.result()
        if goal.is_cancel_requested:
            goal.canceled()
        elif result.success:
            goal.succeed()
        else:
            goal.abort()
        return result

    def _on_pause(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        self._paused = request.data
        if self._process is not None:
            self._process.pause(request.data)
        running = "the calibration" if self._busy else "nothing is running; new calibrations"
        response.success, response.message = True, f"{running} {'waits' if request.data else 'goes on'}"
        self._publish_status()
        return response

    def _on_cancel_service(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        process = self._process
        response.success, response.message = process is not None, "cancelling" if process is not None else "no calibration is running"
        if process is not None:
            process.interrupt()
        return response

    def _on_apply(self, request: ApplyPosterior.Request, response: ApplyPosterior.Response) -> ApplyPosterior.Response:
        text = request.version.strip()
        if self.state != "active":
            response.message = "the calibrator is not active"
        elif text and not re.fullmatch("[0-9]{1,9}", text):
            response.message = f"version '{text[:20]}' is no number of one; leave it empty for the newest"
        else:
            response.success, response.message = self._applier.apply(int(text) if text else None)
            response.gates = self._gates()
        return self._answered(response)

    def _on_roll_back(self, request: RollBack.Request, response: RollBack.Response) -> RollBack.Response:
        if self.state != "active":
            response.message = "the calibrator is not active"
        else:
            response.success, response.message = self._applier.roll_back(request.version)
        return self._answered(response)

    def _answered(self, response: Any) -> Any:
        # rclpy wants one severity for each line of the source.
        if response.success:
            self.get_logger().info(response.message)
        else:
            self.get_logger().warning(response.message)
        response.version = self._version_in_force()
        self._publish_status()
        return response

    # ---- the work ------------------------------------------------------------------------------------------------------

    def _start(self, process: CalibrationProcess, out: str, report: Callable[[Progress], None], end: Callable[[Calibrate.Result], None],
               job: Job | None = None) -> None:
        """Runs a calibration in a thread of its own, which ends with `end`."""
        self._busy = True
        self._process = process
        process.pause(self._paused)
        self._set_status(CalibratorStatus.RUNNING, Progress(message="starting"))

        def follow(progress: Progress) -> None:
            self._set_status(CalibratorStatus.RUNNING, progress)
            report(progress)

        def work() -> None:
            try:
                result = self._conclude(process, process.follow(follow), out, job)
            except Exception as error:  # a bug; a goal without a result would hang
                self.get_logger().fatal(traceback.format_exc())
                result = Calibrate.Result(message=f"internal error: {error!r}", directory=out)
                self._set_status(CalibratorStatus.FAILED, Progress(message=result.message))
            self._process, self._busy = None, False
            end(result)

        self._before = _changed_at(out)
        self._worker = threading.Thread(target=work, name="calibration", daemon=True)
        self._worker.start()

    def _conclude(self, process: CalibrationProcess, exit_status: int, out: str, job: Job | None) -> Calibrate.Result:
        """What a calibration that has ended comes to: stored, published if the policy says so, and told."""
        result = Calibrate.Result(success=exit_status == 0, directory=out)
        state = CalibratorStatus.SUCCEEDED if result.success else CalibratorStatus.FAILED
        message = process.last_words or f"the calibration ended with status {exit_status}"
        if process.interrupted:
            state, message, result.success = CalibratorStatus.CANCELLED, "cancelled", False
        something = result.success or (process.interrupted and _changed_at(out) != self._before)
        later = process.interrupted and self._ending.is_set() and job is not None  # the watched folder takes it up again
        if later:
            message = "stopped; it goes on when the calibrator is active again"
        elif something:
            try:
                message = self._keep(result, out, job)
            except InputError as error:
                state, result.success, message = CalibratorStatus.FAILED, False, str(error)
        elif process.interrupted:
            message = f"cancelled before a stage was finished; {out} has nothing new"
        if job is not None and self._folder is not None and not later:
            message = self._end_job(self._folder, job, exit_status, message, failed=state == CalibratorStatus.FAILED)
        result.message = message
        self._set_status(state, Progress(stage=self._status.stage, progress=self._status.progress, message=message))
        if state == CalibratorStatus.FAILED:
            self.get_logger().error(message)
        else:
            self.get_logger().info(message)
        return result

    def _keep(self, result: Calibrate.Result, out: str, job: Job | None) -> str:
        """Stores what is in `out`, finished or partial, and fills the result; returns the message for a person.

        Raises:
            InputError: it cannot be read or stored.
        """
        calibration_process.describe(out, self._share())
        summary = read_json(Path(out) / SUMMARY)
        result.posterior = posterior_message(read_json(Path(out) / POSTERIOR), summary, 0)
        draft = Version(0, Path(out), {})
        self._applier.judge(draft)
        version = self._store.add(out, gates=self._applier.gate_records(), run=job.id if job else "",
                                  notes=self._folder.notes() if self._folder else None, continued_from=job.continue_from if job else 0)
        result.version = result.posterior.posterior_version = version.number
        if summary.get("interrupted"):
            finished = finished_stages(summary)
            begun = [stage["name"] for stage in summary["stages"] if stage["name"] not in finished]
            there = [f"finished: {', '.join(finished)}" if finished else "nothing finished",
                     *(f"stopped on its way: {name}" for name in begun)]
            return f"cancelled; what is there is kept in {out} and as version {version.number} ({'; '.join(there)})"
        return f"calibrated, see {Path(out) / 'report.html'}; {self._applier.offer(version)}"

    def _end_job(self, folder: BagFolder, job: Job, exit_status: int, message: str, *, failed: bool) -> str:
        if exit_status < 0 and failed and folder.died(job):
            return f"the calibration was killed (signal {-exit_status}); taking it up again"
        remark = folder.end(job, message, time.monotonic(), failed=failed)
        return f"{message}; {remark}" if remark else message

    # ---- the watched folder --------------------------------------------------------------------------------------------

    def _look(self) -> None:
        folder = self._folder
        if folder is None or (self._reader is not None and self._reader.is_alive()):
            return
        try:
            bags = folder.look(time.monotonic())
            if bags:
                self._reader = threading.Thread(target=self._examine, args=(folder, bags), name="bag reader", daemon=True)
                self._reader.start()
            elif not self._busy and not self._paused:
                job = folder.unfinished or folder.next_job(self.value("out_directory"), time.monotonic(), self._continue_from())
                if job is not None:
                    self._begin(folder, job)
        except (InputError, OSError) as error:
            self.get_logger().error(str(error), throttle_duration_sec=60.0)

    def _examine(self, folder: BagFolder, bags: list[Path]) -> None:
        for bag in bags:
            info, problem = None, ""
            try:
                info = calibration_process.examine(str(bag), self._share())
            except (InputError, OSError, ValueError) as error:
                problem = str(error)
            if self._ending.is_set():
                return
            try:
                remark = folder.examined(bag, time.monotonic(), info, problem)
            except InputError as error:
                remark = str(error)
            if remark:
                self.get_logger().warning(remark)

    def _continue_from(self) -> int:
        """The newest version that a new bag may continue; 0: none, or not asked for."""
        if not self.value("continue_posterior") or self._folder is None:
            return 0
        same = [v for v in self._store.versions() if not v.manifest["interrupted"] and Path(v.manifest["recipe"]).stem == Path(
            self.value("recipe")).stem]
        return same[-1].number if same else 0

    def _begin(self, folder: BagFolder, job: Job) -> None:
        resumed = folder.unfinished is not None
        folder.begin(job)
        self.get_logger().info(f"{'taking up again' if resumed else 'new bags'}: calibrating with {', '.join(job.bags)} into {job.out}")
        start = str(self._store.version(job.continue_from).directory) if job.continue_from else ""
        process = CalibrationProcess(job.recipe, job.bags, job.out, draws=self.value("draws"), chains=self.value("chains"),
                                     seed=self.value("seed"), continue_from=start, share=self._share())
        self._start(process, job.out, lambda progress: None, lambda result: None, job)

    # ---- what is in force ----------------------------------------------------------------------------------------------

    def _share(self) -> Share:
        return Share(self.value("max_cores"), self.value("priority"))

    def _limits(self) -> Limits:
        value = self.value
        return Limits(
            r_hat=value("gate_r_hat"), ess=value("gate_ess"), coverage=(value("gate_coverage_lower"), value("gate_coverage_upper")),
            change_sd=value("gate_change_sd"), change_relative=value("gate_change_relative"), speed=value("apply_speed_limit"),
            slow=value("apply_slow_only"))

    def _on_vehicle(self, state: bytes) -> None:
        self._heard = time.monotonic(), state

    def _speed(self) -> float | None:
        """Of the vehicle, as heard lately."""
        heard = self._heard
        if heard is None or time.monotonic() - heard[0] > _FRESH:
            return None
        state = deserialize_message(heard[1], VehicleState)
        try:
            require_all({"vx": state.vx, "vy": state.vy}, ("vx",))
        except InputError as error:
            self.refusals.refuse("state", error)
            return None
        return math.hypot(state.vx, state.vy if math.isfinite(state.vy) else 0.0)

    def _publish_posterior(self, version: Version | None) -> None:
        message = version_message(version)
        message.header.stamp = self.get_clock().now().to_msg()
        self._posterior_publisher.publish(message)

    def _version_in_force(self) -> int:
        try:
            version = self._store.in_force()
        except InputError as error:
            self.get_logger().error(str(error), throttle_duration_sec=60.0)
            return 0
        return version.number if version else 0

    # ---- status --------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        try:
            done = self._applier.retry()
        except InputError as error:
            done = str(error)
        if done:
            self.get_logger().info(done)
        self._publish_status()

    def _set_status(self, state: int, progress: Progress) -> None:
        self._status = CalibratorStatus(
            state=state, stage=progress.stage, progress=progress.overall, temperature=progress.temperature, ess=progress.ess,
            time_left=progress.time_left, message=progress.message)
        self._publish_status()

    def _publish_status(self) -> None:
        status = self._status
        paused = self._paused and status.state in (CalibratorStatus.RUNNING, CalibratorStatus.IDLE)
        newest = self._store.newest()
        message = CalibratorStatus(
            state=CalibratorStatus.PAUSED if paused else status.state, stage=status.stage, progress=status.progress,
            temperature=status.temperature, ess=status.ess, time_left=status.time_left, message=status.message,
            apply_policy=self.value("apply_policy"), newest_version=newest.number if newest else 0,
            version_in_force=self._version_in_force(), gates=self._gates(), waiting=self._applier.waiting)
        message.header.stamp = self.get_clock().now().to_msg()
        self._status_publisher.publish(message)

    def _gates(self) -> list[Gate]:
        return [Gate(name=verdict.name, passed=verdict.passed, reason=verdict.reason) for verdict in self._applier.gates]

    def diagnose(self) -> Diagnosis:
        if self.state != "active":
            return OK, self.state, {}
        status = self._status
        values = {"stage": status.stage, "progress": status.progress, "message": status.message, "paused": self._paused,
                  "version_in_force": self._version_in_force(), "waiting": self._applier.waiting,
                  **{f"gate.{verdict.name}": verdict.reason for verdict in self._applier.gates if not verdict.passed}}
        if status.state == CalibratorStatus.FAILED:
            return ERROR, status.message, values
        if self._applier.waiting:
            return WARN, self._applier.waiting, values
        return OK, "paused" if self._paused else _NAMES[status.state], values


def _changed_at(out: str) -> int:
    """When summary.json of a calibration's folder was written [ns]; 0: it is not there."""
    try:
        return (Path(out) / SUMMARY).stat().st_mtime_ns
    except OSError:
        return 0


def main() -> int:
    """Runs the node in a process of its own."""
    return run_node(Calibrator)


if __name__ == "__main__":
    sys.exit(main())
