"""What a cycle of a driver came to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from lfdm_ros.control.path import Path
from lfdm_ros.control.plan import Plan

ARRIVED = "the task is done, the brake holds the vehicle"
BLOCKED = "no way round the obstacles is seen: stopping before them"


class Outcome(Enum):
    """Rungs of the ladder, the best first."""

    SOLVED = 0
    SHIFTED = 1
    BRAKING = 2
    STOPPED = 3
    BACKING = 4  # beside the ladder

    @property
    def planned(self) -> bool:
        """Whether a plan is driven, that of this cycle or of an earlier one."""
        return self in (Outcome.SOLVED, Outcome.SHIFTED)


@dataclass(frozen=True, eq=False)
class Cycle:
    """What one cycle came to.

    command: steering [-1, 1], throttle [-1, 1] (below 0 in reverse), brake [0, 1]. reason: one line, why it is not SOLVED, or that the way
    is blocked or no stop is left. cold_start: there was no plan to start from. done: the goal or the path's end is reached. seconds:
    wall-clock time. residual: largest violation of the linearised dynamics and bounds by the solver. cost_terms: by name, penalties of
    violated constraints among them. active, violated: names of constraints. age: of the state [s]; delay: what was predicted through [s].
    plan: the one in force. route: the way to a goal, or the path.
    """

    command: tuple[float, float, float]
    outcome: Outcome
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
