"""The operator node: simulates a person driving by the pictures that come over a link, and sends back steering and pedals."""

from typing import Any

from lfdm_ros.control.cycle import CycleOutcome
from lfdm_ros.engine.driving import PilotDecision
from lfdm_ros.engine.stepping import LOCKSTEP
from lfdm_ros.msg import DriverCommand, SharedControlStatus
from lfdm_ros.nodes.piloted import PilotedComponent, driving_endpoints, driving_parameters, scan_parameters
from lfdm_ros.perception.tracker import TRACKER
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import ERROR, OK, WARN, Diagnosis, while_active
from lfdm_ros.ros.endpoints import publishes, subscribes
from lfdm_ros.ros.messages import nanoseconds
from lfdm_ros.ros.parameters import VEHICLE, VEHICLE_CHANGES, Parameter, vehicle_of
from lfdm_ros.ros.plan_messages import PlanMessages, reason
from lfdm_ros.sharing.takeover import OFFERS
from lfdm_ros.teleop import OPERATOR
from lfdm_ros.teleop.operator import Operator


class OperatorModel(PilotedComponent):
    """A simulated operator: answers states on `teleop/state` with `teleop/command`, and avoids obstacles in the scans on `teleop/scan`.

    When shared control reports that autonomy offers to continue, the foot releases the brake, with the picture of that time.

    Settings: teleop/operator_settings.py. The operator's traits, its distractions and the noise of its hands come from the seed. Free
    running, it needs `use_sim_time` wherever the states' stamps are simulated time.
    """

    NAME = "operator_model"
    PARAMETERS = (
        VEHICLE, VEHICLE_CHANGES, *driving_parameters("teleop/state"), *scan_parameters(timeout=5.0),
        Parameter("seed", 1, "the operator's traits, its distractions and the noise of its hands", 0, 2**31 - 1),
        *OPERATOR.parameters, *TRACKER.parameters,
    )
    STATE_TOPIC, SCAN_TOPIC = "teleop/state", "teleop/scan"
    ENDPOINTS = (
        *driving_endpoints(STATE_TOPIC, SCAN_TOPIC),
        publishes("teleop/command", DriverCommand, qos.COMMAND, "the operator's command", sole=True),
        subscribes("shared_control/status", SharedControlStatus, qos.NEWEST, "autonomy's offer to drive on", in_lockstep=qos.STATE),
    )

    def configure(self) -> None:
        vehicle = vehicle_of(self)
        self._lockstep = self.value("stepping") == LOCKSTEP
        settings, task = OPERATOR.record(self.value), self.first_task()
        self._operator = Operator(vehicle, settings, self.value("seed"))
        self.pilot = self._pilot_of(self._operator, vehicle, task, settings.period, settings.sight)
        self._messages = PlanMessages({})
        self._publisher = self.publisher("teleop/command")
        self._subscribe(vehicle, settings.period)
        self.subscription("shared_control/status", self._on_sharing)
        self.get_logger().info(f"{vehicle.name}, {settings.cognition}, seed {self.value('seed')}, {self.value('stepping')}, {task.name}")

    def activate(self) -> None:
        super().activate()
        self._distracted = 0

    def _on_sharing(self, message: SharedControlStatus) -> None:
        self._operator.update_offer(1e-9 * nanoseconds(message.header.stamp), message.takeover in OFFERS)

    def summary(self) -> dict[str, Any]:
        return {"operator_task": self.pilot.task.name, "operator_task_done": self.finished, "operator_outcomes": dict(self._outcomes),
                "operator_inputs_refused": dict(self.refusals.counts)}

    def publish_decision(self, decision: PilotDecision | None, begin: float) -> None:
        if self._answers(decision):
            assert decision is not None
            self._publisher.publish(self._messages.fill_command(decision))
        if decision is not None and decision.new:
            self._last = decision
            self._outcomes[decision.cycle.outcome.name.lower()] += 1
            self._distracted += self._operator.distracted
        self.pilot.after()

    @while_active
    def diagnose(self) -> Diagnosis:
        pilot, person = self.pilot, self._operator.person
        cycles = sum(self._outcomes.values())
        values: dict[str, Any] = {
            "task": pilot.task.name, "done": self.finished, "cycles": cycles, "resets": pilot.resets, "frame": pilot.frame,
            "distracted_share": self._distracted / cycles if cycles else 0.0,
            **{f"person.{name}": getattr(person, name) for name in ("steering_factor", "far_time", "headway", "perception_delay", "pace")}}
        decided = self.increase("cycles", cycles)
        if self._last is None:
            return WARN, f"no state yet on {'odom' if self.value('odometry') else self.value('state_topic')}", values
        cycle = self._last.cycle
        values.update(reason=reason(cycle, pilot), picture_age=cycle.age, scan_age=pilot.scan_age(self._last.time_ns))
        if pilot.scan_missing or pilot.blind:
            return ERROR, pilot.scan_missing or pilot.blind, values
        if not decided and not self.finished:
            return WARN, "no state in the last second", values
        if cycle.outcome == CycleOutcome.STOPPED and not (cycle.done or self.finished or pilot.task.name == "idle"):
            return WARN, str(values["reason"]), values
        return OK, "done" if self.finished else str(values["reason"]) or pilot.task.name, values
