"""Shared control as one driver for closed loops without ROS: an operator, a controller and the arbiter."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from lfdm_ros.control.cycle import Cycle, CycleOutcome, Driver
from lfdm_ros.control.prediction import Measured
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.sharing.arbiter import AuthorityArbiter, SharedDecision
from lfdm_ros.sharing.takeover import OFFERS
from lfdm_ros.simulation import Goal
from lfdm_ros.simulation.path import Path


class SharedDriver:
    """Driver that combines operator and controller by an `AuthorityArbiter`.

    An operator behind a link has an attribute `issued`: time of issue of the command in force [s], -inf before the first; without it
    commands have the present time. `update_offer` of an operator receives autonomy's offers to drive on; `applied` of a controller the
    command that was sent in place of its own.
    """

    def __init__(self, arbiter: AuthorityArbiter, operator: Driver | None, controller: Driver | None,
                 on_decision: Callable[[SharedDecision], None] = lambda decision: None) -> None:
        """Makes the driver.

        Args:
            operator, controller: None: there is none; the arbiter's mode must not need it.
            on_decision: callback for each decision.
        """
        self.arbiter, self.operator, self.controller, self._on_decision = arbiter, operator, controller, on_decision
        self._drivers = [driver for driver in (operator, controller) if driver is not None]
        self.settings = self._drivers[-1].settings
        self._issued = -math.inf

    def follow(self, path: Path, speed: float | np.ndarray, corridor: np.ndarray | None = None, stop: bool = True,
               hidden_speed: float = 0.0) -> None:
        """Sets the path of operator, controller and arbiter."""
        for driver in self._drivers:
            driver.follow(path, speed, corridor, stop, hidden_speed)
        self.arbiter.follow(path, corridor, hidden_speed)

    def go_to(self, goal: Goal, speed: float) -> None:
        """Sets the goal of operator and controller."""
        for driver in self._drivers:
            driver.go_to(goal, speed)
        self.arbiter.follow(None)

    def update_obstacles(self, obstacles: Obstacles) -> None:
        """Passes the obstacles to operator, controller and arbiter."""
        for driver in self._drivers:
            driver.update_obstacles(obstacles)
        self.arbiter.update_obstacles(obstacles)

    def poll(self, now: float) -> None:
        """Polls the route search of operator and controller."""
        for driver in self._drivers:
            driver.poll(now)

    def cycle(self, now: float, measured: Measured | None = None) -> Cycle:
        """Runs one cycle; returns the controller's (without one, the operator's) with the arbiter's command."""
        arbiter, cycle = self.arbiter, Cycle((0.0, 0.0, 0.0), CycleOutcome.STOPPED)
        if measured is not None:
            arbiter.on_state(measured.time, measured.values, now)
        if self.operator is not None:
            cycle = self.operator.cycle(now, measured)
            issued = getattr(self.operator, "issued", now)
            if issued > self._issued or now < self._issued:  # later: the clock went back
                self._issued = issued
                arbiter.on_operator_command(issued, cycle.command, now)
        if self.controller is not None:
            cycle = dataclasses.replace(auto := self.controller.cycle(now, measured), done=auto.done or cycle.done)
            arbiter.on_autonomy_command(now, auto.command, now)
            if auto.plan is not None:
                arbiter.on_plan(now, auto.plan, now)
        decision = arbiter.decide(now)
        command = decision.command
        applied = getattr(self.controller, "applied", None)
        if applied is not None:
            applied(now, command.steering, command.pedal, command.reverse)
        if callable(update := getattr(self.operator, "update_offer", None)):
            update(now, decision.takeover.state.value in OFFERS)
        self._on_decision(decision)
        return dataclasses.replace(cycle, command=command.inputs)
