"""The MPC node: drives a vehicle along a path or to a goal, around what its LIDAR sees, and says what each cycle came to."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter, deque
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry
from nav_msgs.msg import Path as PathMessage
from sensor_msgs.msg import LaserScan
from visualization_msgs.msg import MarkerArray

from lfdm_ros.control.controller import Controller, Outcome, limits_of
from lfdm_ros.control.guidance import LATTICE
from lfdm_ros.control.path import Path
from lfdm_ros.control.settings import SETTINGS
from lfdm_ros.engine.driving import Decision, Pilot, Task
from lfdm_ros.engine.stepping import FREE_RUNNING, LOCKSTEP
from lfdm_ros.errors import InputError
from lfdm_ros.models import get_model, model_names
from lfdm_ros.msg import DriverCommand, MpcStatus, Posterior, VehicleState
from lfdm_ros.msg import Plan as PlanMessage
from lfdm_ros.nodes import qos
from lfdm_ros.nodes.component import ERROR, OK, WARN, Component, Diagnosis
from lfdm_ros.nodes.markers import PLAN, ROUTE, Picture
from lfdm_ros.nodes.messages import nanoseconds
from lfdm_ros.nodes.parameters import SCENARIO_SEED, VEHICLE, VEHICLE_CHANGES, Parameter, of_record, seed_of
from lfdm_ros.nodes.plan_messages import PlanMessages, goal_task, path_task, reason, scan_of, values_of_odometry, values_of_state
from lfdm_ros.nodes.posteriors import calibrated
from lfdm_ros.nodes.runtime import run_node
from lfdm_ros.perception.obstacles import TRACKER, ObstacleTracker, TrackerSettings
from lfdm_ros.simulation import load_scenario
from lfdm_ros.vehicles import load_vehicle
from lfdm_ros.vehicles.body import MOVED

_SETTINGS = tuple(SETTINGS.by_field)
# Callbacks that owe the vehicle a command.
_OF_STATES = ("on_state", "on_odometry")
_CYCLES = (*_OF_STATES, "on_scan", "on_applied", "watch", "watch_scan")
_LOOK_FOR_SCAN = 0.1  # [s]
_REMEMBERED = 100_000  # cycle times
_LEAST_NOISE = 1e-3  # [m]
_FARTHEST = 1000.0  # [m] returns beyond do not count, whatever the sight


class MpcController(Component):
    """Answers states with `autonomy/command`, and tells what it plans and why. Topics: see `configure`; settings: control/settings.py.

    Free running, it needs `use_sim_time` wherever the states' stamps are simulated time.
    """

    NAME = "mpc_controller"
    PARAMETERS = (
        VEHICLE, VEHICLE_CHANGES,
        Parameter("stepping", FREE_RUNNING, "free_running: a cycle a period; lockstep: an answer to every state, stamped as that state, "
                                            "and no time budget, so that a run repeats to the bit", choices=(FREE_RUNNING, LOCKSTEP)),
        Parameter("state_topic", "vehicle/state", "topic of the lfdm_ros/VehicleState that is driven from"),
        Parameter("odometry", False, "drive from nav_msgs/Odometry on the topic odom instead"),
        Parameter("task", "none", "what to drive at first: nothing, or the path or goal of the scenario", choices=("none", "scenario")),
        Parameter("scenario", "", "name of a scenario in config/scenarios, or a path; with task scenario"),
        SCENARIO_SEED,
        Parameter("speed", 13.4, "highest speed to a goal and along a path that come by topic; for those that come after a change",
                  0.1, 100.0, live=True, unit="m/s"),
        Parameter("goal_tolerance", 3.0, "distance to a goal that came by topic at which it is reached; as speed", 0.1, 100.0,
                  live=True, unit="m"),
        Parameter("stop_at_end", True, "stand at the end of a goal or path that came by topic; as speed", live=True),
        Parameter("on_finish", "idle", "when the task is done; idle: go on answering; shutdown: end the run, in lockstep without an answer",
                  choices=("idle", "shutdown")),
        Parameter("shared", False, "another node sends the vehicle its commands: they are heard on control/command, and plans go on from "
                                   "them; in lockstep a state waits for that of the one before"),
        Parameter("take_posterior", True, "drive by the posterior on the topic posterior, if it is of this vehicle"),
        Parameter("posterior_model", "eight_dof", "chassis whose posteriors are taken besides those of the controller's own model; the "
                                                  "parameters that both have count; empty: none", choices=lambda: ("", *model_names())),
        Parameter("lidar_rate", 0.0, "scans a second: in lockstep a state waits for the scan that is due, and without scans the "
                                     "vehicle does not set out; 0: take them as they come", 0.0, 1000.0, unit="Hz"),
        Parameter("lidar_latency", 0.0, "from a scan's stamp to its arrival, in lockstep", 0.0, 2.0, unit="s"),
        Parameter("lidar_noise", TrackerSettings().noise_sd, "standard deviation of a range", 0.0, 10.0, unit="m"),
        Parameter("scan_timeout", 1.0, "age of the newest scan from which on the vehicle stops, where scans have come or are due; "
                                       "0: never", 0.0, 60.0, unit="s"),
        Parameter("scan_patience", 2.0, "in lockstep, wall-clock time to wait for a scan that is due", 0.1, 600.0, unit="s"),
        Parameter("marker_rate", 5.0, "markers a second of the wall clock", 0.1, 50.0, unit="Hz"),
        *of_record(SETTINGS), *of_record(TRACKER), *of_record(LATTICE),
    )
    MOVED = MOVED
    SOLE_TOPICS = ("autonomy/command",)

    # ---- lifecycle -----------------------------------------------------------------------------------------------------

    def configure(self) -> None:
        begin = time.perf_counter()
        vehicle = load_vehicle(self.value("vehicle"), self.value("vehicle_changes"))
        if vehicle.assumed:
            self.get_logger().warning(vehicle.assumed)
        self._lockstep = self.value("stepping") == LOCKSTEP
        # In lockstep the wall clock must not decide anything.
        settings = SETTINGS.record(self.value, **({"time_budget": 0.0} if self._lockstep else {}))
        task = self._first_task()
        self._controller = Controller(vehicle, settings, limits_of(vehicle, settings), LATTICE.record(self.value))
        tracker = ObstacleTracker(TRACKER.record(
            self.value, noise_sd=max(self.value("lidar_noise"), _LEAST_NOISE),
            horizon=max(self.value("tracker_horizon"), min(settings.sight, _FARTHEST))), vehicle.lidar)
        self._pilot = Pilot(
            self._controller, tracker, period=settings.period, lockstep=self._lockstep, lidar_rate=self.value("lidar_rate"),
            lidar_latency=self.value("lidar_latency"), scan_timeout=self.value("scan_timeout"), told=self._tell, refused=self.tell_refusal,
            shared=self._controller.applied if self.value("shared") else None)
        self.refusals = self._pilot.refusals
        self._pilot.begin(task)

        self._vehicle, self._settings = vehicle, settings
        self._models = tuple(vehicle.spec(name) for name in (settings.model, self.value("posterior_model")) if name)
        self._posterior_version = 0
        self._messages = PlanMessages({f.name: f.unit for f in get_model(self._models[0]).states})
        self._falls_silent = self._lockstep and self.value("on_finish") == "shutdown"

        publish = self.create_lifecycle_publisher
        self._command_publisher = publish(DriverCommand, "autonomy/command", qos.COMMAND)
        self._status_publisher = publish(MpcStatus, "autonomy/status", qos.STATE)
        self._plan_publisher = publish(PlanMessage, "autonomy/plan", qos.STATE)
        self._horizon_publisher = publish(PathMessage, "autonomy/horizon", qos.STATE)
        self._marker_publisher = publish(MarkerArray, "autonomy/markers", qos.STATUS)
        subscribe, state = self.create_subscription, qos.STATE if self._lockstep else qos.NEWEST
        self._heard = [
            subscribe(Odometry, "odom", self._on_odometry, state) if self.value("odometry") else
            subscribe(VehicleState, self.value("state_topic"), self._on_state, state),
            subscribe(LaserScan, "scan", self._on_scan, qos.STATE if self._lockstep else qos.SENSOR),
            subscribe(PoseStamped, "goal", self._on_goal, qos.TASK),
            subscribe(PathMessage, "reference_path", self._on_path, qos.TASK, raw=True)]
        if self.value("shared"):
            self._heard.append(subscribe(DriverCommand, "control/command", self._on_applied, qos.COMMAND if self._lockstep else qos.NEWEST))
        if self.value("take_posterior"):
            self._heard.append(subscribe(Posterior, "posterior", self._on_posterior, qos.LATCHED))
        # The watchdog goes by the clock of the states' stamps, the rest by the wall clock.
        self._periodic = [self.create_timer(settings.period, self._watch),
                          self.every(1.0 / self.value("marker_rate"), self._publish_markers)]
        if self._lockstep:
            self._periodic.append(self.every(_LOOK_FOR_SCAN, self._watch_scan))
        self.get_logger().info(f"{vehicle.name}, {self._models[0]}, {settings.solver}, {settings.stages} stages, {self.value('stepping')}, "
                               f"{1.0 / settings.period:g} Hz, {task.name}; ready in {time.perf_counter() - begin:.1f} s")

    def _first_task(self) -> Task:
        """Raises InputError: the scenario has nothing to drive."""
        if self.value("task") == "none":
            return Task()
        name = self.value("scenario")
        if not name:
            raise InputError(f"node {self.get_name()}: task is scenario; set scenario too")
        scenario = load_scenario(name, seed_of(self.value("scenario_seed")))
        speed = self.value("speed") if scenario.speed is None else scenario.speed
        if scenario.path is None and scenario.goal is None:
            raise InputError(f"scenario {scenario.name} has neither path nor goal; choose another or set task to none")
        path = None if scenario.path is None else Path(scenario.path, where=f"scenario {scenario.name}: path")
        return Task(f"scenario {scenario.name}", path=path, goal=scenario.goal, speed=speed, corridor=scenario.corridor, stop=False)

    def activate(self) -> None:
        self.finished = False
        self._outcomes: Counter[str] = Counter()
        self._cold_starts = 0
        self._cycle_times: deque[float] = deque(maxlen=_REMEMBERED)
        self._last: Decision | None = None
        self._decided_before = 0
        self._waits_since = math.inf
        self._resets = self._pilot.resets

    def deactivate(self) -> None:
        self._pilot.reset()  # what is known now will be old then

    def cleanup(self) -> None:
        for timer in self._periodic:
            self.destroy_timer(timer)
        for subscription in self._heard:
            self.destroy_subscription(subscription)
        for publisher in (self._command_publisher, self._status_publisher, self._plan_publisher, self._horizon_publisher,
                          self._marker_publisher):
            self.destroy_lifecycle_publisher(publisher)

    finished = False

    def summary(self) -> dict[str, Any]:
        return {"task": self._pilot.task.name, "task_done": self.finished, "outcomes": dict(self._outcomes),
                "cold_starts": self._cold_starts,
                "inputs_refused": dict(self.refusals.counts), "cycle_times": list(self._cycle_times)}

    def parameter_changed(self, name: str, value: Any) -> None:
        if name in _SETTINGS and not (self._lockstep and name == "time_budget"):
            self._controller.tune(**{name: value})

    def after_error(self, where: str, arguments: tuple[Any, ...]) -> None:
        """A cycle that failed is answered by the ladder's stop, in lockstep with the stamp of its state."""
        if self.state != "active" or where not in _CYCLES:
            return
        now = self._now()
        if self._lockstep:
            now = nanoseconds(arguments[0].header.stamp) if where in _OF_STATES else 0
        self._publish(self._pilot.stop(now, f"internal error in {where}"), time.perf_counter())

    # ---- in ------------------------------------------------------------------------------------------------------------

    def _on_state(self, message: VehicleState) -> None:
        self._take_state(message, time.perf_counter(), values_of_state)

    def _on_odometry(self, message: Odometry) -> None:
        self._take_state(message, time.perf_counter(), values_of_odometry)

    def _take_state(self, message: Any, begin: float, values: Any) -> None:
        if self.state != "active":
            return
        decision = self._pilot.state(nanoseconds(message.header.stamp), message.header.frame_id, values(message), self._now())
        self._publish(decision, begin)
        # A state that waits may be published again meanwhile.
        self._waits_since = min(self._waits_since, time.monotonic()) if self._pilot.waits_for_scan else math.inf

    def _on_scan(self, message: LaserScan) -> None:
        if self.state == "active":
            begin = time.perf_counter()
            decision = self._pilot.scan(nanoseconds(message.header.stamp), scan_of(message))
            if decision is not None:
                self._waits_since = math.inf
                self._publish(decision, begin)

    def _watch(self) -> None:
        if self.state == "active":
            decision = self._pilot.watch(self._now())
            if decision is not None:
                self._publish(decision, time.perf_counter())

    def _watch_scan(self) -> None:
        if self.state == "active" and self._pilot.waits_for_scan and time.monotonic() - self._waits_since > self.value("scan_patience"):
            self._waits_since = math.inf
            self._publish(self._pilot.give_up_on_scan(), time.perf_counter())

    def _on_goal(self, message: PoseStamped) -> None:
        self._take_task("goal", lambda: goal_task(message, self.value("speed"), self.value("goal_tolerance"), self.value("stop_at_end")))

    def _on_path(self, data: bytes) -> None:
        self._take_task("path", lambda: path_task(data, self.value("speed"), self.value("stop_at_end")))

    def _take_task(self, kind: str, make: Any) -> None:
        if self.state != "active":
            return
        try:
            task = make()
        except InputError as error:
            self.refusals.refuse(kind, error)
            return
        if self._pilot.drive(kind, task):
            self.finished = False
            self.get_logger().info(task.name)

    def _on_applied(self, message: DriverCommand) -> None:
        if self.state == "active":
            begin = time.perf_counter()
            decision = self._pilot.applied(nanoseconds(message.header.stamp), (message.steering, message.throttle, message.brake))
            if decision is not None:
                self._waits_since = math.inf
                self._publish(decision, begin)

    def _on_posterior(self, message: Posterior) -> None:
        # Latched and sent once: it is taken in the inactive state too.
        try:
            vehicle = calibrated(self._vehicle, self._models[0], message, also=self._models[1:])
        except InputError as error:
            self.refusals.refuse("posterior", error)
            return
        if self._pilot.take(vehicle):
            self._posterior_version = message.posterior_version
            self.get_logger().info(f"drives by {vehicle.name}, posterior {message.posterior_version}")

    def _now(self) -> int:
        return int(self.get_clock().now().nanoseconds)

    def _tell(self, text: str) -> None:
        self.get_logger().warning(text)

    # ---- out -----------------------------------------------------------------------------------------------------------

    def _publish(self, decision: Decision | None, begin: float) -> None:
        """The command at once, then everything else, then the scans that came meanwhile."""
        if self._pilot.resets != self._resets:  # the task begins anew
            self._resets, self.finished = self._pilot.resets, False
        if decision is not None:
            done = decision.cycle.done and not self.finished
            if done:
                self.finished = True
                self.get_logger().info(f"{self._pilot.task.name} done at {1e-9 * decision.time_ns:.3f} s")
                if self.value("on_finish") == "shutdown":
                    self.stop_requested(f"{self._pilot.task.name} done")
            if not (self.finished and self._falls_silent):  # else the simulator stands at exactly this state
                self._command_publisher.publish(self._messages.fill_command(decision))
            if decision.new:
                self._tell_cycle(decision, time.perf_counter() - begin)
        self._pilot.after()

    def _tell_cycle(self, decision: Decision, seconds: float) -> None:
        cycle, messages = decision.cycle, self._messages
        before = self._last.cycle.outcome if self._last is not None else Outcome.SOLVED
        self._last = decision
        self._outcomes[cycle.outcome.name.lower()] += 1
        self._cold_starts += cycle.cold_start
        if decision.measured:
            self._cycle_times.append(seconds)
        if cycle.outcome != before:
            self.get_logger().warning(f"{cycle.outcome.name.lower()}: {reason(cycle, self._pilot)}" if cycle.outcome != Outcome.SOLVED
                                      else "planning again", throttle_duration_sec=0.2)
        if cycle.plan is not None:
            self._plan_publisher.publish(messages.fill_plan(decision, cycle.plan))
            if self._horizon_publisher.get_subscription_count():
                self._horizon_publisher.publish(messages.fill_horizon(decision, cycle.plan))
        self._status_publisher.publish(messages.fill_status(
            decision, self._pilot, seconds if decision.measured else 0.0, self._posterior_version))

    def _publish_markers(self) -> None:
        if self.state != "active" or self._last is None or not self._marker_publisher.get_subscription_count():
            return
        pilot, cycle = self._pilot, self._last.cycle
        picture = Picture(self._last.frame, self._last.time_ns)
        if pilot.obstacles is not None:
            picture.obstacles(pilot.obstacles)
        if cycle.route is not None:
            picture.line("route", cycle.route.x, cycle.route.y, 0.1, ROUTE)
        if cycle.plan is not None:
            x, y = (cycle.plan.states[:, list(cycle.plan.names).index(name)] for name in ("x", "y"))
            picture.line("horizon", x, y, 0.3, PLAN)
        if pilot.task.goal is not None:
            picture.goal(pilot.task.goal)
        self._marker_publisher.publish(picture.array)

    def diagnose(self) -> Diagnosis:
        if self.state != "active":
            return OK, self.state, {}
        pilot = self._pilot
        values: dict[str, Any] = {
            "task": pilot.task.name, "done": self.finished, "cycles": sum(self._outcomes.values()), "cold_starts": self._cold_starts,
            "resets": pilot.resets, "posterior_version": self._posterior_version, "frame": pilot.frame,
            **{f"outcome.{outcome.name.lower()}": self._outcomes[outcome.name.lower()] for outcome in Outcome}}
        if self._cycle_times:
            recent = 1e3 * np.array(list(self._cycle_times)[-1000:])
            values.update(cycle_ms_median=float(np.median(recent)), cycle_ms_p99=float(np.quantile(recent, 0.99)),
                          cycle_ms_max=float(recent.max()))
        decided, self._decided_before = values["cycles"] - self._decided_before, values["cycles"]
        if self._last is None:
            return WARN, f"no state yet on {'odom' if self.value('odometry') else self.value('state_topic')}", values
        cycle = self._last.cycle
        values.update(outcome=cycle.outcome.name.lower(), reason=reason(cycle, pilot), state_age=cycle.age, delay=cycle.delay,
                      scan_age=pilot.scan_age(self._last.time_ns))
        if pilot.scan_missing or pilot.blind:
            return ERROR, pilot.scan_missing or pilot.blind, values
        if not decided and not self.finished:
            return WARN, "no state in the last second", values
        if cycle.outcome != Outcome.SOLVED and not (cycle.done or self.finished or pilot.task.name == "idle"):
            return WARN, f"{values['outcome']}: {values['reason']}", values
        return OK, "done" if self.finished else pilot.task.name, values


def main() -> int:
    """Runs the node in a process of its own."""
    return run_node(MpcController)


if __name__ == "__main__":
    sys.exit(main())
