"""The input player node: drives a scenario by answering each vehicle state with the scenario's command for that time."""

from typing import Any

import numpy as np
from builtin_interfaces.msg import Time

from lfdm_ros.errors import InputError
from lfdm_ros.msg import DriverCommand, VehicleState
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import OK, WARN, Component, Diagnosis, refusing, while_active
from lfdm_ros.ros.endpoints import publishes, subscribes
from lfdm_ros.ros.messages import checked_stamp, stamp_of
from lfdm_ros.ros.parameters import Parameter
from lfdm_ros.sensors.state_gate import pose_jumped
from lfdm_ros.simulation import load_scenario


class InputPlayer(Component):
    """A player of a scenario's inputs: one `control/command` for each `vehicle/state`, with that state's stamp.

    Independent of timers and clocks: equal in lockstep and free running. Time starts at the first state after activation, and again after
    each reset of the simulator, to the scenario's start or another pose.
    """

    NAME = "input_player"
    PARAMETERS = (
        Parameter("scenario", "straight_acceleration", "name of a scenario in config/scenarios, or a path"),
        Parameter("at_end", "brake", "after the scenario: hold the last command, or brake with throttle 0", choices=("hold", "brake")),
        Parameter("end_brake", 0.3, "brake pedal after the scenario, with at_end brake", 0.0, 1.0, unit="1"),
        Parameter("on_finish", "idle", "idle: go on answering; shutdown: leave that state unanswered and end the run",
                  choices=("idle", "shutdown")),
    )
    ENDPOINTS = (
        subscribes("vehicle/state", VehicleState, qos.STATE, "the states to answer"),
        publishes("control/command", DriverCommand, qos.COMMAND, "the scenario's inputs", sole=True),
    )

    def configure(self) -> None:
        self._scenario = load_scenario(self.value("scenario"))
        profile = self._scenario.profile
        if profile is None:
            raise InputError(f"scenario '{self._scenario.name}' has no inputs to play, but a task for a controller; choose one with inputs")
        self._duration_ns = round(self._scenario.duration * 1e9)
        steering, throttle, brake = (float(v) for v in profile.sample(self._scenario.duration)[0])
        self._last = (steering, throttle, brake) if self.value("at_end") == "hold" else (steering, 0.0, self.value("end_brake"))
        self._shuts_down = self.value("on_finish") == "shutdown"
        # Copies for np.interp, which needs contiguous columns.
        self._time = profile.time
        self._columns = [np.ascontiguousarray(column) for column in profile.values.T]
        self._command = DriverCommand()
        self._publisher = self.publisher("control/command")
        self.subscription("vehicle/state", self._on_state)
        self.get_logger().info(f"scenario {self._scenario.name}, {self._scenario.duration:g} s")

    def activate(self) -> None:
        self.finished = False
        self._before = None
        self._answered = 0

    finished = False
    _before: tuple[int, dict[str, float]] | None = None  # the last state: time [ns], and values that show a new beginning

    @while_active
    @refusing("state")
    def _on_state(self, state: VehicleState) -> None:
        now = checked_stamp(state.header.stamp)
        if self._begins_anew(now, state):
            self._start_ns = now
            self.finished = False
        elapsed = now - self._start_ns
        over = elapsed >= self._duration_ns
        if over and not self.finished:
            self.finished = True
            self.get_logger().info(f"scenario {self._scenario.name} finished at {1e-9 * now:.3f} s")
            if self._shuts_down:
                self.stop_requested(f"scenario {self._scenario.name} finished")
        if over and self._shuts_down:
            return  # In lockstep the simulator then stands at exactly this state.
        command = self._command
        command.header.stamp = state.header.stamp
        command.steering, command.throttle, command.brake = self._last if over else self._at(1e-9 * elapsed)
        self._publisher.publish(command)
        self._answered += 1

    def _begins_anew(self, now: int, state: VehicleState) -> bool:
        """Notes the state; returns whether the clock was set back or the vehicle was put somewhere."""
        start = self._scenario.initial
        before, after = self._before, (now, {name: getattr(state, name) for name in ("x", "y", "yaw", "vx", "vy")})
        self._before = after
        at_start = {"x": start.x, "y": start.y, "yaw": start.yaw, "vx": start.speed, "vy": 0.0}
        return before is None or (now < before[0] or pose_jumped(before, after) or after[1] == at_start != before[1])

    def stamp(self) -> Time:
        """Returns the stamp of the last state: this node keeps no clock."""
        return stamp_of(self._before[0] if self._before is not None else 0)

    def summary(self) -> dict[str, Any]:
        return {"scenario_finished": self.finished}

    def _at(self, time: float) -> tuple[float, float, float]:
        steering, throttle, brake = (float(np.interp(time, self._time, column)) for column in self._columns)
        return steering, throttle, brake

    @while_active
    def diagnose(self) -> Diagnosis:
        values = {"scenario": self._scenario.name, "commands": self._answered, "finished": self.finished}
        answers = self.increase("answered", self._answered)
        if self.finished:
            return OK, "finished", values
        return (OK, "driving", values) if answers else (WARN, "no vehicle/state in the last second", values)
