"""The ladder: which plan is driven in a cycle, and what is done where there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lfdm_ros.control.cycle import Outcome
from lfdm_ros.control.guard import Guard
from lfdm_ros.control.plan import Plan, PlanOutcome
from lfdm_ros.control.settings import Settings
from lfdm_ros.perception.obstacles import Obstacles


@dataclass(frozen=True, eq=False)
class Moment:
    """What the ladder knows of a cycle.

    ahead: time of the state x (nz,) that the command meets [s]; measured: values of the last state by name; command: the one before,
    steering and pedal; sight: the way is to a goal, so that what lies hidden counts; walls: distance that the way keeps from obstacles [m],
    or None; until: when a decision should have been made, on the clock of `perf_counter` [s].
    """

    ahead: float
    x: np.ndarray
    measured: Mapping[str, float]
    command: tuple[float, float]
    obstacles: Obstacles
    sight: bool
    walls: float | None
    until: float


class Ladder:
    """Keeps the good plan: the last one along which there was room for a stop."""

    def __init__(self, guard: Guard):
        self.guard = guard
        self.reset()

    def reset(self) -> None:
        """Forgets the good plan, and the stop along it."""
        self.good: Plan | None = None
        self._good_time = -math.inf
        self.guard.forget()

    def drop(self) -> None:
        """The good plan leads into what blocks the way."""
        self.good = None
        self.guard.forget()

    def stop(self, x: np.ndarray | None) -> tuple[float, float]:
        """Steering and pedal of a stop, along the good plan where there is one."""
        return self.guard.stop(self.good, x)

    def rung(self, outcome: PlanOutcome, new: Plan | None, late: bool, moment: Moment,
             settings: Settings) -> tuple[Outcome, str, tuple[float, float]]:
        """Where on the ladder a cycle stands, why, and the steering and pedal there. The plan that is driven is the good one.

        Args:
            new: the plan of this cycle, if it was solved; late: it came too late.
        """
        s, ahead = settings, moment.ahead
        if new is not None and not late:
            rung, reason, plan = Outcome.SOLVED, "", new
        else:
            reason = f"over the time budget of {1e3 * s.time_budget:g} ms" if outcome.solved else outcome.status
            if self.good is None or ahead - self._good_time > s.plan_timeout:
                reason += "; " + ("no plan to fall back on" if self.good is None else "the last good plan is too old")
                if new is not None:  # late, but the next cycle may fall back on it
                    self.good, self._good_time = new, ahead
                return Outcome.BRAKING, reason, self.stop(moment.x)
            rung, plan = Outcome.SHIFTED, self.good
        # The command is held for a period; with its value at the period's end the next plan begins, or the rates would not be reached.
        held = self.guard.held(plan.command_at(ahead + s.period), moment.x, moment.measured)
        # On a path the way is given; what lies hidden behind a cone beside it is no concern.
        driven, why, command = self.guard.decide(plan, held, moment.command, ahead, moment.x, moment.obstacles, sight=moment.sight,
                                                 walls=moment.walls, until=moment.until)
        reason = "; ".join(filter(None, (reason, why)))
        if not driven:
            return Outcome.BRAKING, reason, command
        if new is not None:
            self.good, self._good_time = new, ahead
        return rung, reason, command
