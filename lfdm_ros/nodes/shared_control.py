"""The shared control node: makes an operator's and an autopilot's commands the vehicle's, by the threat, and publishes its reasons."""

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from radar_msgs.msg import RadarScan
from sensor_msgs.msg import LaserScan
from std_srvs.srv import Trigger
from visualization_msgs.msg import MarkerArray

from lfdm_ros.control.limits import Manoeuvres, lift_limits
from lfdm_ros.engine.driving import Task
from lfdm_ros.engine.shared_driving import SharedPilot
from lfdm_ros.engine.stepping import FREE_RUNNING, LOCKSTEP
from lfdm_ros.models import model_names
from lfdm_ros.models.ground_maps import FRICTION_FIELD
from lfdm_ros.msg import DriverCommand, Posterior, SharedControlStatus, VehicleState
from lfdm_ros.msg import Plan as PlanMessage
from lfdm_ros.nodes import piloted
from lfdm_ros.perception.rear_view import tracker_of
from lfdm_ros.perception.tracker import TRACKER
from lfdm_ros.ros import plan_messages, qos
from lfdm_ros.ros.component import ERROR, OK, WARN, Diagnosis, refusing, while_active
from lfdm_ros.ros.endpoints import given, publishes, serves, subscribes
from lfdm_ros.ros.grounds import GROUND, GROUND_SEED, LEARN_GROUND, SUBSCRIBES_FRICTION_MAP, planned_on
from lfdm_ros.ros.markers import Picture, mixed
from lfdm_ros.ros.messages import nanoseconds
from lfdm_ros.ros.parameters import SCENARIO_SEED, VEHICLE, VEHICLE_CHANGES, Parameter, seed_of, vehicle_of
from lfdm_ros.ros.posteriors import calibrated
from lfdm_ros.sharing.arbiter import AuthorityArbiter, SharedDecision
from lfdm_ros.sharing.components import make_components
from lfdm_ros.sharing.machine import Action
from lfdm_ros.sharing.operator_learning import TERMS
from lfdm_ros.sharing.sharing_settings import AUTONOMY, OPERATOR, SHARING
from lfdm_ros.sharing.situation import Draws
from lfdm_ros.simulation import load_scenario
from lfdm_ros.simulation.path import Path
from lfdm_ros.srv import RequestTakeover
from lfdm_ros.vehicles import Vehicle

_SETTINGS = tuple(SHARING.by_field)
_OF_STATES = ("on_state",)
_OWE = (*_OF_STATES, "on_operator", "on_autonomy", "on_plan", "on_scan", "on_rear_scan", "on_radar", "watch", "watch_answers")
_FIELDS = 16  # that the ground may be, where it is not known
_LOOK_FOR_ANSWERS = 0.1  # [s]
_REMEMBERED = 100_000  # cycle times


class SharedControl(piloted.Calibratable):
    """An arbiter that answers states with `control/command` and reports its reasons on `shared_control/status` (docs/concepts/sharing.md).

    The mode is a live parameter; `~/emergency_stop` latches until `~/reset_emergency_stop`. `~/request_takeover` asks the operator to
    drive until `~/hand_back`; hands, or `~/acknowledge_takeover`, are the answer. Free running, it needs `use_sim_time` wherever
    the states' stamps are simulated time.
    """

    NAME = "shared_control"
    GOES_BY, SAMPLES = "goes by", True
    pilot: SharedPilot
    RENAMED = {"patience": "uncommanded_stop_timeout", "answer_patience": "answer_timeout"}
    REMOVED = {"filter_margin": "it was of mode filter, which has been removed",
               "grip_use": "the command gate admits all that friction gives; the share that a plan uses is the controller's friction_use"}
    PARAMETERS = (
        VEHICLE, VEHICLE_CHANGES, GROUND, GROUND_SEED, LEARN_GROUND,
        Parameter("stepping", FREE_RUNNING, "free_running: a command with each state; lockstep: the same, stamped as that state, once all "
                                            "who take part have answered it", choices=(FREE_RUNNING, LOCKSTEP)),
        Parameter("state_topic", "vehicle/state", "topic of the lfdm_ros/VehicleState used for sharing"),
        Parameter("scenario", "", "scenario whose path and corridor are known at first; empty: none"),
        SCENARIO_SEED,
        Parameter("room_left", 0.0, "of the corridor along a path that comes by topic, from the path; for those that come after a change; "
                                    "0 on either side: there is no corridor", 0.0, 1000.0, live=True, unit="m"),
        Parameter("room_right", 0.0, "as room_left", 0.0, 1000.0, live=True, unit="m"),
        Parameter("threats", ["risk", "hidden", "clearance", "load_transfer"], "components of the threat, by their names"),
        Parameter("threat_settings", [], "settings of the components that are not the default, NAME.SETTING=VALUE: clearance.far=2.5"),
        Parameter("command_period", 0.02, "time without a state after which a command is published anyway", 0.001, 1.0, unit="s"),
        Parameter("plan_period", 0.02, "in lockstep, between two plans of autonomy, which are waited for from its first command on; 0: "
                                          "never, of an autonomy that sends none", 0.0, 10.0, unit="s"),
        Parameter("answer_timeout", 5.0, "in lockstep, wall-clock time to wait for answers to a state", 0.1, 600.0, unit="s"),
        Parameter("take_posterior", True, "go by the posterior on the topic posterior, if it is of this vehicle"),
        Parameter("posterior_model", "eight_dof", "chassis whose posteriors are accepted", choices=tuple(model_names())),
        Parameter("lidar_rate", 0.0, "scans a second: in lockstep a state waits for the scan that is due; 0: take them as they come",
                  0.0, 1000.0, unit="Hz"),
        Parameter("lidar_latency", 0.0, "from a scan's stamp to its arrival, in lockstep", 0.0, 2.0, unit="s"),
        piloted.LIDAR_NOISE,
        piloted.RADAR, piloted.REAR_LIDAR, piloted.MARKER_RATE,
        *SHARING.parameters, *TRACKER.parameters,
    )
    ENDPOINTS = (
        subscribes("vehicle/state", VehicleState, qos.NEWEST, "the vehicle's state", in_lockstep=qos.STATE, named_by="state_topic"),
        subscribes("operator/command", DriverCommand, qos.NEWEST, "the operator's", in_lockstep=qos.COMMAND),
        subscribes("autonomy/command", DriverCommand, qos.NEWEST, "autonomy's", in_lockstep=qos.COMMAND),
        subscribes("autonomy/plan", PlanMessage, qos.NEWEST, "autonomy's plan", in_lockstep=qos.STATE),
        subscribes("scan", LaserScan, qos.SENSOR, "obstacles", in_lockstep=qos.STATE), piloted.SUBSCRIBES_RADAR, piloted.SUBSCRIBES_REAR,
        *piloted.task_endpoints(),
        subscribes("posterior", Posterior, qos.LATCHED, "parameters to go by", when=given("take_posterior")),
        SUBSCRIBES_FRICTION_MAP,
        publishes("control/command", DriverCommand, qos.COMMAND, "the two as one", sole=True),
        publishes("shared_control/status", SharedControlStatus, qos.STATE, "k, the threat, and why"),
        publishes("shared_control/markers", MarkerArray, qos.STATUS, "k, threat and risk in words, above the vehicle, for RViz"),
        serves("~/emergency_stop", Trigger, "stop, and stay"),
        serves("~/reset_emergency_stop", Trigger, "the end of that"),
        serves("~/request_takeover", RequestTakeover, "the operator is to take over within a time, else the vehicle stops"),
        serves("~/acknowledge_takeover", Trigger, "the operator takes over, and drives alone"),
        serves("~/hand_back", Trigger, "the mode of the parameter again, where autonomy is there"),
    )

    def configure(self) -> None:
        begin = time.perf_counter()
        plain = vehicle_of(self)
        self._on_ground = planned_on(self, plain, draws=_FIELDS)
        vehicle = self._on_ground.vehicle
        self._lockstep = self.value("stepping") == LOCKSTEP
        settings = SHARING.record(self.value)
        table = lift_limits(plain, manoeuvres=Manoeuvres(
            steering_rate=vehicle.actuators.steering_rate)) if settings.use_limit_table else None
        components = make_components(tuple(self.value("threats")), tuple(self.value("threat_settings")))
        self.arbiter = AuthorityArbiter(vehicle, settings, components, table, self.warn_of_refusal)
        self.arbiter.set_vehicle(vehicle, self._with_grounds(None))
        tracked = piloted.tracker_settings(self, vehicle)
        rear = piloted.rear_lidar_of(plain, self.value("rear_lidar"))
        self.pilot = SharedPilot(
            self.arbiter, tracker_of(tracked, vehicle.lidar, self._on_ground.heights, rear),
            period=self.value("command_period"), lockstep=self._lockstep, plan_period=self.value("plan_period"),
            lidar_rate=self.value("lidar_rate"), lidar_latency=self.value("lidar_latency"),
            radar=piloted.radar_of(plain, self.value("radar")), report=self.warn)
        self.refusals = self.pilot.refusals
        if self.value("scenario"):
            scenario = load_scenario(self.value("scenario"), seed_of(self.value("scenario_seed")))
            path = None if scenario.path is None else Path(scenario.path, where=f"scenario {scenario.name}: path")
            self.pilot.drive("path", Task(f"scenario {scenario.name}", path=path, corridor=scenario.corridor,
                                          hidden_speed=scenario.hidden_speed))

        self._model = plain.spec(self.value("posterior_model"))
        self._command, self._status = DriverCommand(), SharedControlStatus()
        self._command_publisher, self._status_publisher, self._marker_publisher = (
            self.publisher(topic) for topic in ("control/command", "shared_control/status", "shared_control/markers"))
        self.connect({
            "vehicle/state": self._on_state, "operator/command": self._on_operator, "autonomy/command": self._on_autonomy,
            "autonomy/plan": self._on_plan, "scan": self._on_scan, piloted.RADAR_TOPIC: self._on_radar,
            piloted.REAR_TOPIC: self._on_rear_scan, "~/emergency_stop": self._on_stop, "~/reset_emergency_stop": self._on_release,
            "~/request_takeover": self._on_request_takeover, "~/acknowledge_takeover": self._on_acknowledge_takeover,
            "~/hand_back": self._on_hand_back})
        self._take_calibrations()
        # To a goal autonomy finds its own way: the path that was driven is over.
        self.tasks = piloted.TaskTopics(
            self, self.pilot, lambda message: Task("a goal: no path", message.header.frame_id), self._task_of_path)
        # The watchdog goes by the clock of the states' stamps.
        self.every(self.value("command_period"), self._watch, self.get_clock())
        self.every(1.0 / self.value("marker_rate"), self._publish_markers)
        if self._lockstep:
            self.every(_LOOK_FOR_ANSWERS, self._watch_answers)
        self.get_logger().info(f"{vehicle.name}, mode {settings.mode}, threat by {', '.join(self.value('threats')) or 'nothing'}, "
                               f"{self.value('stepping')}; ready in {time.perf_counter() - begin:.1f} s")

    def activate(self) -> None:
        self._states: Counter[str] = Counter()
        self._cycle_times: deque[float] = deque(maxlen=_REMEMBERED)
        self._shares = [0.0, 0]  # sum and number of k
        self._last: SharedDecision | None = None
        self._waits_since, self._owes = 0.0, False

    def deactivate(self) -> None:
        self.pilot.reset()  # inputs known now will be old then

    def summary(self) -> dict[str, Any]:
        total, n = self._shares
        return {"sharing_states": dict(self._states), "mean_k": total / n if n else 0.0,
                "sharing_inputs_refused": dict(self.refusals.counts), "sharing_cycle_times": list(self._cycle_times)}

    def parameter_changed(self, name: str, value: Any) -> None:
        if name in _SETTINGS:
            self.arbiter.tune(**{name: value})

    def after_error(self, where: str, arguments: tuple[Any, ...]) -> None:
        """Answers a decision that failed by braking, in lockstep with the stamp of its state."""
        if self.state != "active" or where not in _OWE or not self._owes:
            return
        now = self.now_ns()
        if self._lockstep:
            now = nanoseconds(arguments[0].header.stamp) if where in _OF_STATES else self.pilot.state_ns
        self._command_publisher.publish(plan_messages.fill_command(self._command, self.arbiter.brake(1e-9 * now), now))

    def _begin(self) -> float:
        """Notes that a callback may owe the vehicle a command; returns its begin, by time.perf_counter [s]."""
        self._owes = True
        return time.perf_counter()

    @while_active
    def _on_state(self, message: VehicleState) -> None:
        begin = self._begin()
        waited = self.pilot.waits
        decision = self.pilot.state(
            nanoseconds(message.header.stamp), message.header.frame_id, plan_messages.values_of_state(message), self.now_ns())
        if self.pilot.waits and not waited:
            self._waits_since = time.monotonic()
        self._publish(decision, begin)

    def _on_operator(self, message: DriverCommand) -> None:
        self._answer(partial(self.pilot.operator, age=message.age), message)

    def _on_autonomy(self, message: DriverCommand) -> None:
        self._answer(self.pilot.autonomy, message)

    @while_active
    def _answer(self, hear: Any, message: DriverCommand) -> None:
        begin = self._begin()
        inputs = (message.steering, message.throttle, message.brake)
        self._publish(hear(nanoseconds(message.header.stamp), inputs, self.now_ns()), begin)

    @while_active
    @refusing("plan")
    def _on_plan(self, message: PlanMessage) -> None:
        begin = self._begin()
        plan = plan_messages.plan_of(message)
        self._publish(self.pilot.plan(nanoseconds(message.header.stamp), message.header.frame_id, plan), begin)

    @while_active
    def _on_scan(self, message: LaserScan) -> None:
        begin = self._begin()
        self._publish(self.pilot.scan(nanoseconds(message.header.stamp), plan_messages.scan_of(message)), begin)

    @while_active
    def _on_radar(self, message: RadarScan) -> None:
        begin = self._begin()
        self._publish(self.pilot.returns(nanoseconds(message.header.stamp), plan_messages.radar_scan_of(message)), begin)

    @while_active
    def _on_rear_scan(self, message: LaserScan) -> None:
        begin = self._begin()
        self._publish(self.pilot.rear_scan(nanoseconds(message.header.stamp), plan_messages.scan_of(message)), begin)

    def _task_of_path(self, data: bytes) -> Task:
        task, room = plan_messages.path_task(data, 0.0, True), [self.value("room_left"), self.value("room_right")]
        if task.path is None or not all(room):
            return task
        return replace(task, corridor=np.array([[0.0, *room], [task.path.length, *room]]))

    @while_active
    def _watch(self) -> None:
        begin = self._begin()
        self._publish(self.pilot.watch(self.now_ns()), begin)

    @while_active
    def _watch_answers(self) -> None:
        if self.pilot.waits and time.monotonic() - self._waits_since > self.value("answer_timeout"):
            begin = self._begin()
            self._publish(self.pilot.give_up(), begin)

    def _go_by(self, posterior: Posterior) -> None:
        vehicle: Vehicle = calibrated(self._on_ground.vehicle, self._model, posterior)
        self.arbiter.set_vehicle(vehicle, self._with_grounds(plan_messages.draws_of(posterior, vehicle)))

    def _with_grounds(self, draws: Draws | None) -> Draws | None:
        return Draws.crossed(draws, FRICTION_FIELD.name, self._on_ground.others)

    def _on_stop(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self.arbiter.stop("service")
        self.warn("emergency stop")
        response.success, response.message = True, "stopping; latched until ~/reset_emergency_stop"
        if self.state == "active" and not self._lockstep and self._last is not None:
            self._publish(self.pilot.now(self.now_ns()), time.perf_counter())
        return response

    def _on_release(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self._respond(response, lambda: (True, "the emergency stop is over")
                             if self.arbiter.release() else (False, "there was no emergency stop"))

    def _on_request_takeover(self, request: RequestTakeover.Request, response: RequestTakeover.Response) -> RequestTakeover.Response:
        def attempt() -> tuple[bool, str]:
            if request.reason.strip():
                self.arbiter.request_takeover(request.reason, request.lead_time)
                return True, f"takeover: requested: {request.reason.strip()}"
            withdrawn = self.arbiter.withdraw_takeover()
            return withdrawn, "takeover: the request is withdrawn" if withdrawn else "takeover: none is requested"

        return self._respond(response, attempt)

    def _on_acknowledge_takeover(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self._respond(response, lambda: (True, "the operator drives, until ~/hand_back")
                             if self.arbiter.acknowledge_takeover() else (False, "no takeover is requested"))

    def _on_hand_back(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        def attempt() -> tuple[bool, str]:
            self.arbiter.hand_back()
            return True, f"handed back: mode {self.arbiter.mode}"

        return self._respond(response, attempt)

    def _respond(self, response: Any, attempt: Callable[[], tuple[bool, str]]) -> Any:
        """Fills a response as `respond` does, and logs its message."""
        self.warn(self.respond(response, attempt).message)
        return response

    def _publish(self, decision: SharedDecision | None, begin: float) -> None:
        """Publishes the command first, then the status; then evaluates the scans received meanwhile."""
        if decision is not None:
            now, new = self.pilot.decided_ns, decision is not self._last
            self._command_publisher.publish(plan_messages.fill_command(self._command, decision.command, now))
            self._owes = False
            if new:
                self._publish_decision(decision, now, time.perf_counter() - begin)
        self.pilot.after()

    def _publish_decision(self, decision: SharedDecision, now: int, seconds: float) -> None:
        before, self._last = self._last, decision
        self._states[decision.row.state] += 1
        self._shares[0] += decision.k
        self._shares[1] += 1
        self._cycle_times.append(seconds)
        if before is None or before.row is not decision.row:
            # A line of its own for each: rclpy allows one severity a line of code.
            if decision.row.alarm:
                self.get_logger().warning(f"{decision.row.state}: {decision.reason}")
            else:
                self.get_logger().info(f"{decision.row.state}: {decision.reason}")
        self._status_publisher.publish(plan_messages.fill_status(
            self._status, decision, self.pilot, now, self._posterior.posterior_version))

    def _publish_markers(self) -> None:
        if self.state != "active" or not self._marker_publisher.get_subscription_count():
            return
        decision, place = self._last, self.pilot.place
        if decision is None or place is None:
            return
        picture = Picture(self.pilot.frame, self.pilot.state_ns)
        picture.text("sharing", *place, plan_messages.sharing_text(decision), mixed(decision.threat.relative))
        self._marker_publisher.publish(picture.array)

    @while_active
    def diagnose(self) -> Diagnosis:
        pilot, d, total = self.pilot, self._last, sum(self._states.values())
        values: dict[str, Any] = {
            "mode": self.arbiter.mode, "decisions": total, "resets": pilot.resets,
            "posterior_version": self._posterior.posterior_version, "maps_of_the_ground": self._maps,
            **{f"state.{name}": count for name, count in sorted(self._states.items())}}
        values.update(piloted.cycle_figures(self._cycle_times))
        if (learned := self.arbiter.operator_posterior) is not None:
            values.update({"operator.delay": learned.delay[0], "operator.delay_sd": learned.delay[1], "operator.remnant": learned.remnant,
                           **{f"operator.gain.{name}": gain for name, gain in zip(TERMS, learned.gains.tolist())}})
        decided = self.increase("decisions", total)
        if d is None:
            return WARN, f"no state yet on {self.value('state_topic')}", values
        values.update(state=d.row.state, reason=d.reason, k=d.k, threat=d.threat.relative,
                      **{f"age.{name}": age for name, age in d.ages.items()}, operator_in_mode=self.arbiter.mode != AUTONOMY,
                      autonomy_in_mode=self.arbiter.mode != OPERATOR)
        if d.row.action in (Action.STOP, Action.EMERGENCY):
            return ERROR, f"{d.row.state}: {d.reason}", values
        late = "; ".join(pilot.late) or pilot.blind_behind(pilot.decided_ns)
        if d.row.alarm or late:
            return WARN, late or f"{d.row.state}: {d.reason}", values
        if not decided:
            return WARN, "no state in the last second", values
        return OK, d.row.state, values
