"""Interface of a driver's cycle, its outcome, and the choice of the fallback level."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import numpy as np

from lfdm_ros.control.plan import Plan, PlanOutcome
from lfdm_ros.control.prediction import Measured
from lfdm_ros.control.routing.routes import Reference
from lfdm_ros.control.safety.guard import Guard
from lfdm_ros.control.settings import Settings
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation import Goal
from lfdm_ros.simulation.path import Path

ARRIVED = "the task is done, the brake holds the vehicle"
BLOCKED = "no way round the obstacles is seen: stopping before them"


class CycleOutcome(Enum):
    """Fallback levels, the best first."""

    SOLVED = 0
    SHIFTED = 1
    BRAKING = 2
    STOPPED = 3
    MANOEUVRING = 4  # not a fallback level

    @property
    def planned(self) -> bool:
        """True where the vehicle follows a plan, of this cycle or of an earlier one."""
        return self in (CycleOutcome.SOLVED, CycleOutcome.SHIFTED)


@dataclass(frozen=True, eq=False)
class Cycle:
    """Result of one cycle.

    command: steering [-1, 1], throttle [-1, 1] (below 0 in reverse), brake [0, 1]. reason: one line: cause of an outcome other than SOLVED,
    blocked route or missing stop. cold_start: there was no plan to start from. done: the goal or the path's end is reached. seconds:
    wall-clock time. residual: largest violation of the linearised dynamics and bounds by the solver. cost_terms: by name, penalties of
    violated constraints among them. active, violated: names of constraints. age: of the state [s]; delay: bridged by prediction [s].
    plan: in force; in a BRAKING cycle that of its stop. route: route to the goal, or the path. obstacles: number of detected ones.
    """

    command: tuple[float, float, float]
    outcome: CycleOutcome
    reason: str = ""
    cold_start: bool = False
    done: bool = False
    blocked: bool = False
    solver: str = ""
    seconds: float = 0.0
    iterations: int = 0
    residual: float = 0.0
    cost: float = 0.0
    cost_terms: dict[str, float] = field(default_factory=dict)
    active: tuple[str, ...] = ()
    violated: tuple[str, ...] = ()
    age: float = 0.0
    delay: float = 0.0
    plan: Plan | None = None
    route: Path | None = None
    remaining: float = math.inf  # [m] to the goal or the path's end
    obstacles: int = 0


class Driver(Protocol):
    """Driver of a vehicle: `Controller`, an operator, either behind a link, both in shared control, or a benchmark controller.

    settings: with the `period` [s] of its cycles at least.
    """

    settings: Any

    def follow(self, path: Path, speed: float | np.ndarray, corridor: np.ndarray | None = None, stop: bool = True,
               hidden_speed: float = 0.0) -> None: ...
    def go_to(self, goal: Goal, speed: float) -> None: ...
    def update_obstacles(self, obstacles: Obstacles) -> None: ...
    def cycle(self, now: float, measured: Measured | None = None) -> Cycle: ...
    def poll(self, now: float) -> None: ...


@dataclass(frozen=True, eq=False)
class CycleContext:
    """Inputs of the choice of a fallback level in a cycle.

    ahead: time at which the command acts, and of the state x (nz,) [s]; measured: values of the last state by name; command: the previous
    one, steering and pedal; sight: occluded places count, on a route to a goal; lane: the followed path, or None; until: deadline of the
    decision, on the clock of `perf_counter` [s]."""

    ahead: float
    x: np.ndarray
    measured: Mapping[str, float]
    command: tuple[float, float]
    obstacles: Obstacles
    sight: bool
    lane: Reference | None
    until: float


class FallbackSelector:
    """Selector of the fallback level; stores the good plan: the last one along which the vehicle could stop."""

    def __init__(self, guard: Guard):
        self.guard = guard
        self.reset()

    def reset(self) -> None:
        """Clears the good plan, and the stop along it."""
        self.good: Plan | None = None
        self._good_time = -math.inf
        self.guard.forget()

    def drop(self) -> None:
        """Drops the good plan, since it leads into an obstacle on the route."""
        self.good = None
        self.guard.forget()

    def stop(self, x: np.ndarray | None) -> tuple[float, float]:
        """Returns steering and pedal of a stop, along the good plan if there is one."""
        return self.guard.stop(self.good, x)

    def level(self, outcome: PlanOutcome, new: Plan | None, late: bool, moment: CycleContext,
             settings: Settings) -> tuple[CycleOutcome, str, tuple[float, float]]:
        """Selects the fallback level of a cycle; returns it, the reason, and steering and pedal. A followed plan becomes the good one.

        Args:
            new: the plan of this cycle, if it was solved; late: it exceeded the time budget.
        """
        s, ahead = settings, moment.ahead
        if new is not None and not late:
            level, reason, plan = CycleOutcome.SOLVED, "", new
        else:
            reason = f"over the time budget of {1e3 * s.time_budget:g} ms" if outcome.solved else outcome.status
            if self.good is None or ahead - self._good_time > s.plan_timeout:
                reason += "; " + ("no plan to fall back on" if self.good is None else "the last good plan is too old")
                if new is not None:  # late, but the next cycle may fall back on it
                    self.good, self._good_time = new, ahead
                return CycleOutcome.BRAKING, reason, self.stop(moment.x)
            level, plan = CycleOutcome.SHIFTED, self.good
        # The command is held for a period: use its value at the period's end, with which the next plan begins, to reach the rates.
        limited = self.guard.limit_wheel_slip(plan.command_at(ahead + s.period), moment.x, moment.measured)
        # On a path, places occluded by a cone beside it do not count.
        driven, why, command = self.guard.decide(plan, limited, moment.command, ahead, moment.x, moment.obstacles, sight=moment.sight,
                                                 lane=moment.lane, until=moment.until)
        reason = "; ".join(filter(None, (reason, why)))
        if not driven:
            return CycleOutcome.BRAKING, reason, command
        if new is not None:
            self.good, self._good_time = new, ahead
        return level, reason, command
