"""The MPC node: drives a vehicle along a path or to a goal, around obstacles that its sensors see, and publishes each cycle's outcome."""

import math
import time
from collections import deque
from typing import Any

import numpy as np
from ackermann_msgs.msg import AckermannDriveStamped
from nav_msgs.msg import Path as PathMessage
from radar_msgs.msg import RadarScan
from sensor_msgs.msg import LaserScan
from visualization_msgs.msg import MarkerArray

from lfdm_ros.control.controller import Controller, limits_of
from lfdm_ros.control.cycle import CycleOutcome
from lfdm_ros.control.plan import NO_PLAN
from lfdm_ros.control.routing.lattice import LATTICE
from lfdm_ros.control.settings import SETTINGS
from lfdm_ros.engine.driving import PilotDecision
from lfdm_ros.engine.stepping import LOCKSTEP
from lfdm_ros.models import get_model, model_names
from lfdm_ros.msg import DriverCommand, MpcStatus, Posterior
from lfdm_ros.msg import Plan as PlanMessage
from lfdm_ros.nodes import piloted
from lfdm_ros.perception.tracker import TRACKER
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import ERROR, OK, WARN, Diagnosis, while_active
from lfdm_ros.ros.endpoints import When, given, publishes, subscribes
from lfdm_ros.ros.grounds import GROUND, GROUND_SEED, LEARN_GROUND, SUBSCRIBES_FRICTION_MAP, planned_on
from lfdm_ros.ros.markers import PLAN, ROUTE, Picture
from lfdm_ros.ros.messages import nanoseconds
from lfdm_ros.ros.parameters import VEHICLE, VEHICLE_CHANGES, Parameter, vehicle_of
from lfdm_ros.ros.plan_messages import PlanMessages, radar_scan_of, reason, scan_of
from lfdm_ros.ros.posteriors import calibrated
from lfdm_ros.simulation.scenario import corridor_edges
from lfdm_ros.vehicles import load_vehicle
from lfdm_ros.vehicles.body import MOVED

_SETTINGS = tuple(SETTINGS.by_field)
_REMEMBERED = 100_000  # cycle times
_LOCK = "max_road_wheel_angle"


class MpcController(piloted.Calibratable, piloted.PilotedComponent):
    """A controller that answers states with `autonomy/command`, and publishes its plans and reasons. Settings: control/settings.py.

    Free running, it needs `use_sim_time` wherever the states' stamps are simulated time.
    """

    NAME = "mpc_controller"
    PARAMETERS = (
        VEHICLE, VEHICLE_CHANGES, GROUND, GROUND_SEED, LEARN_GROUND,
        *piloted.driving_parameters("vehicle/state"),
        Parameter("shared", False, "another node sends the vehicle its commands: they are heard on control/command, and plans go on from "
                                   "them; in lockstep a state waits for that of the one before"),
        Parameter("take_posterior", True, "drive by the posterior on the topic posterior, if it is of this vehicle"),
        Parameter("posterior_model", "eight_dof", "chassis whose posteriors are taken besides those of the controller's own model; the "
                                                  "parameters that both have count; empty: none", choices=lambda: ("", *model_names())),
        *piloted.scan_parameters(timeout=1.0),
        piloted.RADAR, piloted.REAR_LIDAR,
        piloted.MARKER_RATE,
        *SETTINGS.parameters, *TRACKER.parameters, *LATTICE.parameters,
    )
    MOVED = MOVED
    ENDPOINTS = (
        *piloted.driving_endpoints(piloted.PilotedComponent.STATE_TOPIC, piloted.PilotedComponent.SCAN_TOPIC),
        piloted.SUBSCRIBES_RADAR, piloted.SUBSCRIBES_REAR,
        subscribes("control/command", DriverCommand, qos.NEWEST, "the command that the vehicle got", in_lockstep=qos.COMMAND,
              when=given("shared")),
        subscribes("posterior", Posterior, qos.LATCHED, "parameters to drive by", when=given("take_posterior")),
        SUBSCRIBES_FRICTION_MAP,
        publishes("autonomy/command", DriverCommand, qos.COMMAND, "steering and pedals", sole=True),
        publishes("autonomy/ackermann", AckermannDriveStamped, qos.COMMAND, "the same as angle and speed",
                  when=When("a vehicle whose `max_road_wheel_angle` is known", lambda value: _LOCK in load_vehicle(
                      value("vehicle"), value("vehicle_changes")).parameters)),
        publishes("autonomy/status", MpcStatus, qos.STATE, "each cycle: outcome, cost, times"),
        publishes("autonomy/plan", PlanMessage, qos.STATE, "states and inputs to come; in lockstep each cycle, without rows: none"),
        publishes("autonomy/horizon", PathMessage, qos.STATE, "the same as a path, for RViz"),
        publishes("autonomy/markers", MarkerArray, qos.STATUS, "obstacles as seen, route, horizon and goal, for RViz"),
    )

    def configure(self) -> None:
        begin = time.perf_counter()
        plain = vehicle_of(self)
        self._on_ground = planned_on(self, plain)
        vehicle = self._on_ground.vehicle
        self._lockstep = self.value("stepping") == LOCKSTEP
        # In lockstep the wall clock must not decide anything.
        settings = SETTINGS.record(self.value, **({"time_budget": 0.0} if self._lockstep else {}))
        task = self.first_task()
        self.controller = Controller(vehicle, settings, limits_of(plain, settings), LATTICE.record(self.value))
        self.pilot = self._pilot_of(self.controller, vehicle, task, settings.period, settings.sight, self._on_ground.heights,
                                     shared=self.controller.applied if self.value("shared") else None,
                                     radar=piloted.radar_of(plain, self.value("radar")),
                                     rear=piloted.rear_lidar_of(plain, self.value("rear_lidar")))

        self._settings = settings
        self._models = tuple(plain.spec(name) for name in (settings.model, self.value("posterior_model")) if name)
        self._messages = PlanMessages({f.name: f.unit for f in get_model(self._models[0]).states})

        # The angle is unknown for a vehicle with a steering table.
        self._lock = vehicle.parameters.get(_LOCK, math.nan)
        (self._command_publisher, self._ackermann_publisher, self._status_publisher, self._plan_publisher, self._horizon_publisher,
         self._marker_publisher) = (
            self.publisher(f"autonomy/{name}") for name in ("command", "ackermann", "status", "plan", "horizon", "markers"))
        self._subscribe(vehicle, settings.period)
        self.connect({piloted.RADAR_TOPIC: self._on_radar, piloted.REAR_TOPIC: self._on_rear_scan, "control/command": self._on_applied})
        self._take_calibrations()
        self.every(1.0 / self.value("marker_rate"), self._publish_markers)
        self.get_logger().info(f"{vehicle.name}, {self._models[0]}, {settings.solver}, {settings.stages} stages, {self.value('stepping')}, "
                               f"{1.0 / settings.period:g} Hz, {task.name}; ready in {time.perf_counter() - begin:.1f} s")

    def activate(self) -> None:
        super().activate()
        self._cold_starts = 0
        self._cycle_times: deque[float] = deque(maxlen=_REMEMBERED)

    def summary(self) -> dict[str, Any]:
        return {"task": self.pilot.task.name, "task_done": self.finished, "outcomes": dict(self._outcomes),
                "cold_starts": self._cold_starts, "inputs_refused": dict(self.refusals.counts), "cycle_times": list(self._cycle_times)}

    def parameter_changed(self, name: str, value: Any) -> None:
        if name in _SETTINGS and not (self._lockstep and name == "time_budget"):
            self.controller.tune(**{name: value})

    @while_active
    def _on_applied(self, message: DriverCommand) -> None:
        begin = time.perf_counter()
        inputs = (message.steering, message.throttle, message.brake)
        self._answer_waiting(self.pilot.applied(nanoseconds(message.header.stamp), inputs), begin)

    @while_active
    def _on_radar(self, message: RadarScan) -> None:
        begin = time.perf_counter()
        self._answer_waiting(self.pilot.returns(nanoseconds(message.header.stamp), radar_scan_of(message)), begin)

    @while_active
    def _on_rear_scan(self, message: LaserScan) -> None:
        begin = time.perf_counter()
        self._answer_waiting(self.pilot.rear_scan(nanoseconds(message.header.stamp), scan_of(message)), begin)

    def _go_by(self, posterior: Posterior) -> None:
        self.controller.set_vehicle(calibrated(self._on_ground.vehicle, self._models[0], posterior, also=self._models[1:]))

    def publish_decision(self, decision: PilotDecision | None, begin: float) -> None:
        """Publishes the command first, then the rest; then evaluates the scans received meanwhile."""
        if self._answers(decision):
            assert decision is not None
            self._command_publisher.publish(self._messages.fill_command(decision))
            if self._ackermann_publisher is not None and self._ackermann_publisher.get_subscription_count():
                self._ackermann_publisher.publish(self._messages.fill_ackermann(decision, self._lock))
        if decision is not None and decision.new:
            self._publish_cycle(decision, time.perf_counter() - begin)
        self.pilot.after()

    def _publish_cycle(self, decision: PilotDecision, seconds: float) -> None:
        cycle, messages = decision.cycle, self._messages
        before = self._last.cycle.outcome if self._last is not None else CycleOutcome.SOLVED
        self._last = decision
        self._outcomes[cycle.outcome.name.lower()] += 1
        self._cold_starts += cycle.cold_start
        if decision.measured:
            self._cycle_times.append(seconds)
        # Driving on by an earlier plan is only counted in the diagnostics: on a busy machine it occurs every other second.
        if cycle.outcome != before and not cycle.outcome.planned:
            news = f"{cycle.outcome.name.lower()}: {reason(cycle, self.pilot)}"
            # rclpy accepts one severity for each line of the source that is throttled.
            if cycle.done or self.finished:
                self.get_logger().info(news, throttle_duration_sec=1.0)
            else:
                self.get_logger().warning(news, throttle_duration_sec=1.0)
        elif cycle.outcome.planned and not before.planned:
            self.get_logger().info("planning again", throttle_duration_sec=1.0)
        # In lockstep shared control waits for the plan of each cycle, even an empty one.
        if cycle.plan is not None or self._lockstep:
            self._plan_publisher.publish(messages.fill_plan(decision.time_ns, decision.frame, cycle.plan or NO_PLAN))
        if cycle.plan is not None and self._horizon_publisher.get_subscription_count():
            self._horizon_publisher.publish(messages.fill_horizon(decision, cycle.plan))
        self._status_publisher.publish(messages.fill_status(
            decision, self.pilot, seconds if decision.measured else 0.0, self._posterior.posterior_version))

    def _publish_markers(self) -> None:
        if self.state != "active" or self._last is None or not self._marker_publisher.get_subscription_count():
            return
        pilot, cycle = self.pilot, self._last.cycle
        picture = Picture(self._last.frame, self._last.time_ns)
        if pilot.obstacles is not None:
            picture.obstacles(pilot.obstacles)
        if cycle.route is not None:
            picture.line("route", cycle.route.x, cycle.route.y, 0.1, ROUTE)
        if (path := pilot.task.path) is not None and pilot.task.corridor is not None:
            picture.corridor(corridor_edges(np.column_stack([path.x, path.y]), pilot.task.corridor))
        if cycle.plan is not None:
            x, y = (cycle.plan.states[:, list(cycle.plan.names).index(name)] for name in ("x", "y"))
            picture.line("horizon", x, y, 0.3, PLAN)
        if pilot.task.goal is not None:
            picture.goal(pilot.task.goal)
        self._marker_publisher.publish(picture.array)

    @while_active
    def diagnose(self) -> Diagnosis:
        pilot = self.pilot
        values: dict[str, Any] = {
            "task": pilot.task.name, "done": self.finished, "cycles": sum(self._outcomes.values()), "cold_starts": self._cold_starts,
            "resets": pilot.resets, "posterior_version": self._posterior.posterior_version, "maps_of_the_ground": self._maps,
            "frame": pilot.frame, **{f"outcome.{outcome.name.lower()}": self._outcomes[outcome.name.lower()] for outcome in CycleOutcome}}
        values.update(piloted.cycle_figures(self._cycle_times))
        decided = self.increase("cycles", values["cycles"])
        if self._last is None:
            return WARN, f"no state yet on {'odom' if self.value('odometry') else self.value('state_topic')}", values
        cycle = self._last.cycle
        values.update(outcome=cycle.outcome.name.lower(), reason=reason(cycle, pilot), state_age=cycle.age, delay=cycle.delay,
                      scan_age=pilot.scan_age(self._last.time_ns))
        if pilot.scan_missing or pilot.blind:
            return ERROR, pilot.scan_missing or pilot.blind, values
        if behind := pilot.blind_behind(self._last.time_ns):
            return WARN, behind, values
        if not decided and not self.finished:
            return WARN, "no state in the last second", values
        if not cycle.outcome.planned and not (cycle.done or self.finished or pilot.task.name == "idle"):
            return WARN, f"{values['outcome']}: {values['reason']}", values
        return OK, "done" if self.finished else pilot.task.name, values
