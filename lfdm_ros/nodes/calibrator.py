"""The calibrator node: calibrates a vehicle from bags on request, reports progress, and publishes the posterior."""

from __future__ import annotations

import math
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.task import Future

from lfdm_ros.action import Calibrate
from lfdm_ros.errors import InputError
from lfdm_ros.msg import CalibratorStatus, Posterior
from lfdm_ros.nodes import qos
from lfdm_ros.nodes.bag_folder import BagFolder
from lfdm_ros.nodes.calibration_process import CalibrationProcess, Progress
from lfdm_ros.nodes.component import ERROR, OK, Component, Diagnosis
from lfdm_ros.nodes.parameters import Parameter
from lfdm_ros.nodes.runtime import run_node


class Calibrator(Component):
    """Serves the action `calibrate`, publishes `posterior` (latched) and `calibrator/status`; one calibration at a time."""

    NAME = "calibrator"
    PARAMETERS = (
        Parameter("watch_directory", "", "folder in which a new bag starts a calibration; empty: none"),
        Parameter("recipe", "hmmwv_paper", "recipe for the watched folder: a name in config/calibration, or a path"),
        Parameter("out_directory", "", "results of the watched folder; empty: calibrations, in that folder"),
        Parameter("draws", 0, "draws per chain for the watched folder; 0: as the recipe says", 0, 1_000_000),
        Parameter("chains", 0, "chains for the watched folder; 0: as the recipe says", 0, 1000),
        Parameter("seed", 0, "seed for the watched folder; 0: as the recipe says", 0, 2**53),
    )

    def configure(self) -> None:
        folder = self.value("watch_directory")
        self._folder = BagFolder(folder, self.value("recipe")) if folder else None
        self._process: CalibrationProcess | None = None
        self._busy = False
        self._worker: threading.Thread | None = None
        self._status = CalibratorStatus(state=CalibratorStatus.IDLE, time_left=math.nan)
        self._posterior_publisher = self.create_lifecycle_publisher(Posterior, "posterior", qos.LATCHED)
        self._status_publisher = self.create_lifecycle_publisher(CalibratorStatus, "calibrator/status", qos.STATUS)
        self._server = ActionServer(
            self, Calibrate, "calibrate", self._execute, goal_callback=self._on_goal, cancel_callback=self._on_cancel)

    def activate(self) -> None:
        self._periodic = [self.every(1.0, self._publish_status)]
        if self._folder is not None:
            self._folder.look()  # what is there already is not new
            self._periodic.append(self.every(2.0, self._look))

    def deactivate(self) -> None:
        for timer in self._periodic:
            self.destroy_timer(timer)
        if self._process is not None:
            self._process.interrupt()
        if self._worker is not None:
            self._worker.join()

    def cleanup(self) -> None:
        self._server.destroy()
        self.destroy_lifecycle_publisher(self._posterior_publisher)
        self.destroy_lifecycle_publisher(self._status_publisher)

    # ---- the action ----------------------------------------------------------------------------------------------------

    def _on_goal(self, goal: Calibrate.Goal) -> GoalResponse:
        problem = ("the calibrator is not active" if self.state != "active" else "a calibration is running" if self._busy
                   else "recipe, bags and out must all be given" if not (goal.recipe and goal.bags and goal.out) else "")
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
                temperature=progress.temperature, progress=progress.progress, time_left=progress.time_left))

        try:
            process = CalibrationProcess(request.recipe, list(request.bags), request.out, draws=request.draws,
                                         chains=request.chains, seed=request.seed)
        except OSError as error:
            self._busy = False
            goal.abort()
            return Calibrate.Result(message=f"the calibration does not start: {error}", directory=request.out)
        self._start(process, request.out, report, done)
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

    # ---- the work ------------------------------------------------------------------------------------------------------

    def _start(self, process: CalibrationProcess, out: str, report: Any, done: Future | None) -> None:
        self._busy = True
        self._process = process
        self._set_status(CalibratorStatus.RUNNING, Progress(message="starting"))

        def work() -> None:
            def follow(progress: Progress) -> None:
                self._set_status(CalibratorStatus.RUNNING, progress)
                report(progress)

            try:
                result = self._conclude(process, process.follow(follow), out)
            except Exception as error:  # a bug; a goal without a result would hang
                self.get_logger().fatal(traceback.format_exc())
                result = Calibrate.Result(message=f"internal error: {error!r}", directory=out)
                self._set_status(CalibratorStatus.FAILED, Progress(message=result.message))
            self._process, self._busy = None, False
            if done is not None and self.executor is not None:
                self.executor.create_task(lambda: done.set_result(result))

        self._worker = threading.Thread(target=work, name="calibration", daemon=True)
        self._worker.start()

    def _conclude(self, process: CalibrationProcess, exit_status: int, out: str) -> Calibrate.Result:
        from lfdm_ros.calibration.results import load_posterior_summary  # PyMC and ArviZ come with it

        result = Calibrate.Result(success=exit_status == 0, directory=out)
        try:
            result.posterior = self._posterior(load_posterior_summary(out))
            # A cancelled run has what it finished, but is no posterior to drive by.
            if result.success:
                self._posterior_publisher.publish(result.posterior)
        except InputError as error:
            result.success = False
            result.message = str(error)
        if process.interrupted:
            result.success, state, result.message = False, CalibratorStatus.CANCELLED, f"cancelled; what is done is in {out}"
        elif result.success:
            state, result.message = CalibratorStatus.SUCCEEDED, f"calibrated; see {Path(out) / 'report.html'}"
        else:
            state, result.message = CalibratorStatus.FAILED, process.last_words() or result.message
        self._set_status(state, Progress(stage=self._status.stage, progress=self._status.progress, message=result.message))
        (self.get_logger().info if result.success or process.interrupted else self.get_logger().error)(result.message)
        return result

    def _posterior(self, summary: Mapping[str, Any]) -> Posterior:
        draws = summary["thinned_draws"]
        message = Posterior(draws=len(draws), thinned_draws=[float(v) for row in draws for v in row], seed=int(summary["seed"]))
        for name in ("model", "vehicle", "version", "parameter_names", "units", "means", "standard_deviations", "hdi_lower",
                     "hdi_upper", "r_hat", "ess_bulk", "ess_tail", "recordings", "recording_sha256"):
            setattr(message, name, summary[name])
        message.header.stamp = self.get_clock().now().to_msg()
        return message

    # ---- the watched folder --------------------------------------------------------------------------------------------

    def _look(self) -> None:
        if self._busy or self._folder is None:
            return
        try:
            bags = self._folder.look()
        except InputError as error:
            self.get_logger().error(str(error), throttle_duration_sec=60.0)
            return
        if bags:
            newest = bags[-1]
            out = self._folder.free_name(self.value("out_directory"), newest.name)
            self.get_logger().info(f"new bag {newest}, calibrating with {len(bags)} bags into {out}")
            self._start(CalibrationProcess(self.value("recipe"), [str(b) for b in bags], str(out), draws=self.value("draws"),
                                           chains=self.value("chains"), seed=self.value("seed")),
                        str(out), lambda progress: None, None)

    # ---- status --------------------------------------------------------------------------------------------------------

    def _set_status(self, state: int, progress: Progress) -> None:
        self._status = CalibratorStatus(
            state=state, stage=progress.stage, progress=progress.overall, temperature=progress.temperature,
            time_left=progress.time_left, message=progress.message)
        self._publish_status()

    def _publish_status(self) -> None:
        self._status.header.stamp = self.get_clock().now().to_msg()
        self._status_publisher.publish(self._status)

    def diagnose(self) -> Diagnosis:
        if self.state != "active":
            return OK, self.state, {}
        status = self._status
        names = {CalibratorStatus.IDLE: "idle", CalibratorStatus.RUNNING: "calibrating", CalibratorStatus.SUCCEEDED: "succeeded",
                 CalibratorStatus.CANCELLED: "cancelled"}
        values = {"stage": status.stage, "progress": status.progress, "message": status.message}
        if status.state == CalibratorStatus.FAILED:
            return ERROR, status.message, values
        return OK, names[status.state], values


def main() -> int:
    """Runs the node in a process of its own."""
    return run_node(Calibrator)


if __name__ == "__main__":
    sys.exit(main())
