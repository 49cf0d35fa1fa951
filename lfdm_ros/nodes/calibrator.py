"""The calibrator node: calibrates a vehicle from bags, stores the posteriors, and publishes the one in force."""

import math
import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rclpy.action import CancelResponse, GoalResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.serialization import deserialize_message
from rclpy.task import Future
from std_srvs.srv import SetBool, Trigger

from lfdm_ros.action import Calibrate
from lfdm_ros.bounds import BOUNDS, require_all, require_requested
from lfdm_ros.calibration.gates import GateLimits, GateResult
from lfdm_ros.calibration.progress import Progress
from lfdm_ros.calibration.store import PosteriorStore, Version
from lfdm_ros.engine.background import LOWEST, NORMAL, Share
from lfdm_ros.engine.bag_folder import BagFolder
from lfdm_ros.engine.calibrations import MANUAL, POLICIES, Applier, CalibrationOrder, Calibrations, Conclusion, FolderWatch, State
from lfdm_ros.errors import InputError
from lfdm_ros.msg import CalibratorStatus, Gate, Posterior, VehicleState
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import ERROR, OK, WARN, Component, Diagnosis, refusing, while_active
from lfdm_ros.ros.endpoints import acts, publishes, serves, subscribes
from lfdm_ros.ros.parameters import Parameter
from lfdm_ros.ros.posteriors import posterior_message, version_message
from lfdm_ros.srv import ApplyPosterior, RollBack

Value = Callable[[str], Any]  # of a parameter, by its name
LOOK_EVERY = 1.0  # [s] into the watched folder
STATE_TIMEOUT = 1.0  # [s] maximum age of the vehicle/state that gives the speed

PARAMETERS = (
    Parameter("watch_directory", "", "folder in which a new bag starts a calibration, made if it is not there; empty: none"),
    Parameter("recipe", "hmmwv_paper", "recipe for the watched folder: a name in config/calibration, or a path"),
    Parameter("ground", "", "ground that bags were recorded on: a name in config/grounds, a file or a bag; recorded: the one that each bag "
                            "holds; empty: as the recipe says, else a level road"),
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


def store_path(value: Value, node: str) -> Path:
    """Returns the folder of the stored posteriors; node: its full name."""
    for name, below in (("store", ""), ("out_directory", "store"), ("watch_directory", "calibrations/store")):
        if value(name):
            return Path(value(name)) / below
    home = Path(os.environ.get("ROS_HOME") or Path.home() / ".ros")
    return home / node.lstrip("/")


def feedback_message(progress: Progress) -> Calibrate.Feedback:
    """Makes the action's feedback from the progress of a calibration, whose fields have the same names."""
    return Calibrate.Feedback(**{name: getattr(progress, name) for name in Calibrate.Feedback.get_fields_and_field_types()})


def result_message(conclusion: Conclusion) -> Calibrate.Result:
    """Makes the action's result; the posterior gets the number under which it is stored."""
    result = Calibrate.Result(success=conclusion.success, message=conclusion.message, directory=conclusion.directory,
                              version=conclusion.version)
    if conclusion.posterior is not None:
        result.posterior = conclusion.posterior
        result.posterior.posterior_version = conclusion.version
    return result


def status_message(state: State, progress: Progress, paused: bool, gates: Iterable[GateResult]) -> CalibratorStatus:
    """Makes the status of a calibration and of the gates, without the versions, which the node adds."""
    waits = paused and state in (State.RUNNING, State.IDLE)
    return CalibratorStatus(
        state=CalibratorStatus.PAUSED if waits else getattr(CalibratorStatus, state.name), stage=progress.stage, progress=progress.overall,
        temperature=progress.temperature, ess=progress.ess, time_left=progress.time_left, message=progress.message, gates=gate_list(gates))


def gate_list(gates: Iterable[GateResult]) -> list[Gate]:
    return [Gate(name=verdict.name, passed=verdict.passed, reason=verdict.reason) for verdict in gates]


class Calibrator(Component):
    """A server of the action `calibrate` that also watches a folder; one calibration at a time, in a process of the lowest priority."""

    NAME = "calibrator"
    PARAMETERS = PARAMETERS
    ENDPOINTS = (
        publishes("posterior", Posterior, qos.LATCHED, "the one in force"),
        publishes("calibrator/status", CalibratorStatus, qos.STATUS, "stage, progress, gates"),
        subscribes("vehicle/state", VehicleState, qos.CLOCK, "how fast the vehicle is"),
        acts("calibrate", Calibrate, "a recipe on bags"),
        serves("~/pause", SetBool, "let the processor to others"),
        serves("~/cancel", Trigger, "end what is running"),
        serves("~/apply_posterior", ApplyPosterior, "put a version in force"),
        serves("~/rollback", RollBack, "the version before"),
    )

    def configure(self) -> None:
        watched, value = self.value("watch_directory"), self.value
        require_requested(value("draws"), value("chains"), value("seed"))
        store = store_path(value, self.get_fully_qualified_name())
        # With several vehicles each has a subfolder.
        if watched and not Path(watched).exists() and any(place.is_dir() for place in Path(watched).absolute().parents[:2]):
            Path(watched).mkdir(parents=True)
            self.get_logger().info(f"made the folder {watched}, to watch it")
        folder = BagFolder(watched, value("recipe"), store / "watch.json", abandoned_after=value("abandoned_after"),
                           continuing=value("continue_posterior")) if watched else None
        self._store = PosteriorStore(store, report=lambda text: self.get_logger().error(text)).writer()
        self._received = -math.inf, b""  # when a state came last [s], and that
        self._applier = Applier(self._store, policy=lambda: str(value("apply_policy")), limits=self._limits, speed=self._speed,
                                changed=self._publish_posterior)
        self._calibrations = Calibrations(
            self._store, self._applier, folder, share=self._share, ground=value("ground"),
            publishable=lambda posterior, summary: posterior_message(posterior, summary, 0),
            changed=self._publish_status, log=self.get_logger())
        order = CalibrationOrder(*(value(name) for name in ("recipe", "out_directory", "draws", "chains", "seed", "continue_posterior")))
        self._watch = None if folder is None else FolderWatch(folder, order, self._calibrations, self._store,
                                                              self._share, self.get_logger())
        self._posterior_publisher, self._status_publisher = self.publisher("posterior"), self.publisher("calibrator/status")
        self.subscription("vehicle/state", self._on_state, raw=True)
        self.action("calibrate", self._execute, self._on_goal, self._on_cancel)
        self.connect({"~/pause": self._on_pause, "~/cancel": self._on_cancel_service, "~/apply_posterior": self._on_apply,
                      "~/rollback": self._on_roll_back})
        self.every(1.0, self._tick)
        if self._watch is not None:
            self.every(LOOK_EVERY, self._look)

    def activate(self) -> None:
        self._calibrations.ending.clear()
        if self._store.journal():  # else nothing was ever published
            self._publish_posterior(self._store.in_force())

    def deactivate(self) -> None:
        self._calibrations.close()

    def cleanup(self) -> None:
        self._store.close()

    def _on_goal(self, goal: Calibrate.Goal) -> GoalResponse:
        problem = ("the calibrator is not active" if self.state != "active" else "the calibrator is paused" if self._calibrations.paused
                   else "a calibration is running" if self._calibrations.busy
                   else "recipe, bags and out must all be given" if not (goal.recipe and goal.bags and goal.out) else "")
        try:
            require_requested(goal.draws, goal.chains, goal.seed)
            if any("\0" in text for text in (goal.recipe, *goal.bags, goal.out)):
                raise InputError("a path with a zero byte is none")
        except InputError as error:
            self.refusals.refuse("goal", error)
            return GoalResponse.REJECT
        if problem:
            self.get_logger().warning(f"calibration refused: {problem}")
            return GoalResponse.REJECT
        self._calibrations.busy = True
        return GoalResponse.ACCEPT

    def _on_cancel(self, goal: ServerGoalHandle) -> CancelResponse:
        self._calibrations.interrupt()
        return CancelResponse.ACCEPT

    async def _execute(self, goal: ServerGoalHandle) -> Calibrate.Result:
        done: Future = Future(executor=self.executor)
        request = goal.request

        def end(conclusion: Conclusion) -> None:
            if self.executor is not None:
                self.executor.create_task(lambda: done.set_result(result_message(conclusion)))

        # Absolute paths in every answer: the client may be in another folder than this node.
        self._calibrations.start(
            request.recipe, [os.path.abspath(bag) for bag in request.bags], os.path.abspath(request.out), draws=request.draws,
            chains=request.chains, seed=request.seed, end=end,
            report=lambda progress: goal.publish_feedback(feedback_message(progress)))
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
        self._calibrations.pause(request.data)
        running = "the calibration" if self._calibrations.busy else "nothing is running; new calibrations"
        response.success, response.message = True, f"{running} {'waits' if request.data else 'goes on'}"
        self._publish_status()
        return response

    def _on_cancel_service(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success = self._calibrations.interrupt()
        response.message = "cancelling" if response.success else "no calibration is running"
        return response

    def _on_apply(self, request: ApplyPosterior.Request, response: ApplyPosterior.Response) -> ApplyPosterior.Response:
        text = request.version.strip()
        if self.state != "active":
            response.message = "the calibrator is not active"
        elif text and not re.fullmatch("[0-9]{1,9}", text):
            response.message = f"version '{text[:20]}' is no number of one; leave it empty for the newest"
        else:
            response.success, response.message = self._applier.apply(int(text) if text else None)
            response.gates = gate_list(self._applier.gates)
        return self._answered(response)

    def _on_roll_back(self, request: RollBack.Request, response: RollBack.Response) -> RollBack.Response:
        if self.state != "active":
            response.message = "the calibrator is not active"
        else:
            response.success, response.message = self._applier.roll_back(request.version)
        return self._answered(response)

    def _answered(self, response: Any) -> Any:
        # rclpy accepts one severity for each line of the source.
        if response.success:
            self.get_logger().info(response.message)
        else:
            self.warn(response.message)
        response.version = self._version_in_force()
        self._publish_status()
        return response

    @while_active
    def _look(self) -> None:
        assert self._watch is not None
        try:
            self._watch.look()
        except (InputError, OSError) as error:
            self.get_logger().error(str(error), throttle_duration_sec=60.0)

    @while_active
    def _tick(self) -> None:
        try:
            done = self._applier.retry()
        except InputError as error:
            done = str(error)
        if done:
            self.get_logger().info(done)
        self._publish_status()

    def _share(self) -> Share:
        return Share(self.value("max_cores"), self.value("priority"))

    def _limits(self) -> GateLimits:
        value = self.value
        return GateLimits(
            r_hat=value("gate_r_hat"), ess=value("gate_ess"), coverage=(value("gate_coverage_lower"), value("gate_coverage_upper")),
            change_sd=value("gate_change_sd"), change_relative=value("gate_change_relative"), speed=value("apply_speed_limit"),
            slow=value("apply_slow_only"))

    def _on_state(self, state: bytes) -> None:
        self._received = time.monotonic(), state  # decoded where it is needed, which is rare

    @refusing("state")
    def _speed(self) -> float | None:
        """Returns the vehicle's speed [m/s]; None: unknown."""
        came, data = self._received
        if time.monotonic() - came > STATE_TIMEOUT:
            return None
        state = deserialize_message(data, VehicleState)
        require_all({"vx": state.vx, "vy": state.vy}, ("vx",))
        return math.hypot(state.vx, state.vy if math.isfinite(state.vy) else 0.0)

    def _publish_posterior(self, version: Version | None) -> None:
        message = version_message(version)
        message.header.stamp = self.stamp()
        self._posterior_publisher.publish(message)

    def _version_in_force(self) -> int:
        try:
            return getattr(self._store.in_force(), "number", 0)
        except InputError as error:
            self.get_logger().error(str(error), throttle_duration_sec=60.0)
            return 0

    def _publish_status(self) -> None:
        message = status_message(*self._calibrations.latest, self._calibrations.paused, self._applier.gates)
        message.apply_policy, message.newest_version = self.value("apply_policy"), getattr(self._store.newest(), "number", 0)
        message.version_in_force, message.waiting = self._version_in_force(), self._applier.waiting
        message.header.stamp = self.stamp()
        self._status_publisher.publish(message)

    @while_active
    def diagnose(self) -> Diagnosis:
        (state, progress), paused, waiting = self._calibrations.latest, self._calibrations.paused, self._applier.waiting
        values = {"stage": progress.stage, "progress": progress.overall, "message": progress.message, "paused": paused,
                  "version_in_force": self._version_in_force(), "waiting": waiting,
                  **{f"gate.{verdict.name}": verdict.reason for verdict in self._applier.gates if not verdict.passed}}
        if state is State.FAILED:
            return ERROR, progress.message, values
        if waiting:
            return WARN, waiting, values
        return OK, "paused" if paused else state.value, values
