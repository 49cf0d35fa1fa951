"""The blend of paper 001: u = (1 - k) u_operator + k u_autonomy, of commands for the same moment, and of one kind.

Where operator and autonomy pass an obstacle on opposite sides k is 0 or 1: one of them drives, by the threat and with hysteresis. k jumps
then; the command does not, as the gate behind it moves the steering no faster than its rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lfdm_ros.control.plan import Plan
from lfdm_ros.sharing.settings import SharingSettings
from lfdm_ros.sharing.situation import Command

BELONGS = 0.1  # a command is that of a plan whose inputs are as near as this
FORWARD = 0.5  # share of autonomy from which on its selector counts, where the two do not agree on it


def aligned(command: Command, plan: Plan | None, now: float, delay: float) -> Command:
    """Autonomy's command, moved on along its plan from its own time to `now` [s], so that it answers the same moment as the operator's.

    A command that its plan does not have, since autonomy brakes or backs, is held.

    Args:
        delay: of the actuators [s]: the plan counts from when the command acts.
    """
    if plan is None or now <= command.time or command.reverse:
        return command
    then, at = plan.command_at(command.time + delay), plan.command_at(now + delay)
    if max(abs(then[0] - command.steering), abs(then[1] - command.pedal)) > BELONGS or not all(map(math.isfinite, (*then, *at))):
        return command
    steering, pedal = (min(max(value + after - before, -1.0), 1.0)
                       for value, after, before in zip((command.steering, command.pedal), at, then))
    return Command.of_pedal(now, steering, pedal)


def blended(operator: Command, autonomy: Command, k: float, now: float) -> Command:
    """(1 - k) operator + k autonomy. Throttle and brake are one pedal, so that the two never act at once; where one of them wants to
    reverse and the other does not, the one with the larger share has its pedals whole."""
    steering = (1.0 - k) * operator.steering + k * autonomy.steering
    a, b = operator.pedal, autonomy.pedal
    reverse = operator.reverse
    # Who only brakes agrees with either direction.
    if operator.reverse != autonomy.reverse and a > 0.0 and b > 0.0:
        reverse = autonomy.reverse if k >= FORWARD else operator.reverse
        pedal = b if k >= FORWARD else a
    else:
        reverse = autonomy.reverse if a <= 0.0 else operator.reverse
        pedal = (1.0 - k) * a + k * b
    steering, pedal = min(max(steering, -1.0), 1.0), min(max(pedal, -1.0), 1.0)
    return Command.of_pedal(now, steering, pedal, reverse)


@dataclass
class Choice:
    """Who drives while operator and autonomy pass an obstacle on opposite sides: `k` is 0 or 1 then, else None."""

    k: float | None = None
    _until: float = -math.inf
    _safe_since: float = math.inf  # the threat has been low enough for the operator's side [s]

    def look(self, now: float, opposite: bool, threat: float, k: float, settings: SharingSettings) -> None:
        """Takes whether they do now [s], the threat (NaN: not known, which changes nothing) and the share in force.

        Autonomy's side is taken at once; it is left once the threat has been low for `sides_hold`: that of a moment may be one that
        autonomy's driving has just made so, or a plan that has just changed to another side.
        """
        if opposite:
            self._until = now + settings.sides_hold
        elif now > self._until:
            self.k = None
            return
        if self.k is None:
            self.k = 1.0 if k >= 0.5 else 0.0
        low = threat < min(settings.choose_operator, settings.choose_autonomy)
        self._safe_since = min(self._safe_since, now) if low else math.inf
        if threat >= settings.choose_autonomy:
            self.k = 1.0
        elif low and now - self._safe_since >= settings.sides_hold - 1e-6:
            self.k = 0.0

    def reset(self) -> None:
        """Nothing is chosen."""
        self.k, self._until, self._safe_since = None, -math.inf, math.inf
