"""The operator node: a simulated person who drives by the pictures that come over a link, and sends back what hands and feet do."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

from lfdm_ros.control.controller import Outcome
from lfdm_ros.engine.driving import Decision, Pilot
from lfdm_ros.engine.stepping import LOCKSTEP
from lfdm_ros.msg import DriverCommand
from lfdm_ros.nodes.piloted import PilotedComponent, driving_parameters, scan_parameters
from lfdm_ros.perception.obstacles import TRACKER, ObstacleTracker
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import ERROR, OK, WARN, Diagnosis
from lfdm_ros.ros.parameters import VEHICLE, VEHICLE_CHANGES, Parameter, of_record
from lfdm_ros.ros.plan_messages import PlanMessages, reason
from lfdm_ros.ros.runtime import run_node
from lfdm_ros.teleop import OPERATOR, Operator
from lfdm_ros.vehicles import load_vehicle

_LEAST_NOISE = 1e-3  # [m]
_FARTHEST = 1000.0  # [m] returns beyond do not count, whatever the sight


class OperatorModel(PilotedComponent):
    """Answers states on `teleop/state` with `teleop/command`, and drives round what scans on `teleop/scan` show.

    Settings: teleop/settings.py. Who the operator is, when it looks away and what its hands add come from the seed. Free running, it needs
    `use_sim_time` wherever the states' stamps are simulated time.
    """

    NAME = "operator_model"
    PARAMETERS = (
        VEHICLE, VEHICLE_CHANGES, *driving_parameters("teleop/state"), *scan_parameters(timeout=5.0),
        Parameter("seed", 1, "who the operator is, when it looks away, what its hands add", 0, 2**31 - 1),
        *of_record(OPERATOR), *of_record(TRACKER),
    )
    SOLE_TOPICS = ("teleop/command",)
    SCAN_TOPIC = "teleop/scan"

    def configure(self) -> None:
        vehicle = load_vehicle(self.value("vehicle"), self.value("vehicle_changes"))
        if vehicle.assumed:
            self.get_logger().warning(vehicle.assumed)
        self._lockstep = self.value("stepping") == LOCKSTEP
        settings, task = OPERATOR.record(self.value), self.first_task()
        self._operator = Operator(vehicle, settings, self.value("seed"))
        tracker = ObstacleTracker(TRACKER.record(
            self.value, noise_sd=max(self.value("lidar_noise"), _LEAST_NOISE),
            horizon=max(self.value("tracker_horizon"), min(settings.sight, _FARTHEST))), vehicle.lidar)
        self._pilot = Pilot(
            self._operator, tracker, period=settings.period, lockstep=self._lockstep, lidar_rate=self.value("lidar_rate"),
            lidar_latency=self.value("lidar_latency"), scan_timeout=self.value("scan_timeout"), told=self._tell, refused=self.tell_refusal)
        self.refusals = self._pilot.refusals
        self._pilot.begin(task)
        self._messages = PlanMessages({})
        self._falls_silent = self._lockstep and self.value("on_finish") == "shutdown"
        self._publisher = self.create_lifecycle_publisher(DriverCommand, "teleop/command", qos.COMMAND)
        self._hear(settings.period)
        self.get_logger().info(f"{vehicle.name}, {settings.cognition}, seed {self.value('seed')}, {self.value('stepping')}, {task.name}")

    def activate(self) -> None:
        self._begin_to_wait()
        self._outcomes: Counter[str] = Counter()
        self._distracted = 0
        self._last: Decision | None = None
        self._decided_before = 0
        self._resets = self._pilot.resets

    def deactivate(self) -> None:
        self._pilot.reset()  # what is known now will be old then

    def cleanup(self) -> None:
        self._hear_no_more()
        self.destroy_lifecycle_publisher(self._publisher)

    def summary(self) -> dict[str, Any]:
        return {"operator_task": self._pilot.task.name, "operator_task_done": self.finished, "operator_outcomes": dict(self._outcomes),
                "operator_inputs_refused": dict(self.refusals.counts)}

    def publish_decision(self, decision: Decision | None, begin: float) -> None:
        pilot = self._pilot
        if pilot.resets != self._resets:  # the task begins anew
            self._resets, self.finished = pilot.resets, False
        if decision is not None:
            if decision.cycle.done and not self.finished:
                self.finished = True
                self.get_logger().info(f"{pilot.task.name} done at {1e-9 * decision.time_ns:.3f} s")
                if self.value("on_finish") == "shutdown":
                    self.stop_requested(f"{pilot.task.name} done")
            if not (self.finished and self._falls_silent):
                self._publisher.publish(self._messages.fill_command(decision))
            if decision.new:
                self._last = decision
                self._outcomes[decision.cycle.outcome.name.lower()] += 1
                self._distracted += self._operator.distracted
        pilot.after()

    def diagnose(self) -> Diagnosis:
        if self.state != "active":
            return OK, self.state, {}
        pilot, person = self._pilot, self._operator.person
        cycles = sum(self._outcomes.values())
        values: dict[str, Any] = {
            "task": pilot.task.name, "done": self.finished, "cycles": cycles, "resets": pilot.resets, "frame": pilot.frame,
            "distracted_share": self._distracted / cycles if cycles else 0.0,
            **{f"person.{name}": getattr(person, name) for name in ("steering_factor", "far_time", "headway", "perception_delay", "pace")}}
        decided, self._decided_before = cycles - self._decided_before, cycles
        if self._last is None:
            return WARN, f"no state yet on {'odom' if self.value('odometry') else self.value('state_topic')}", values
        cycle = self._last.cycle
        values.update(reason=reason(cycle, pilot), picture_age=cycle.age, scan_age=pilot.scan_age(self._last.time_ns))
        if pilot.scan_missing or pilot.blind:
            return ERROR, pilot.scan_missing or pilot.blind, values
        if not decided and not self.finished:
            return WARN, "no state in the last second", values
        if cycle.outcome == Outcome.STOPPED and not (cycle.done or self.finished or pilot.task.name == "idle"):
            return WARN, str(values["reason"]), values
        return OK, "done" if self.finished else str(values["reason"]) or pilot.task.name, values


def main() -> int:
    """Runs the node in a process of its own."""
    return run_node(OperatorModel)


if __name__ == "__main__":
    sys.exit(main())
