"""Blend of paper 001, u = (1 - k) u_operator + k u_autonomy, of commands for the same time and of one kind; and opposite sides.

Two trajectories from the same place are of one homology class if one can be moved into the other without sweeping over an obstacle. The one
forwards and the other back form a closed curve; a winding number of 0 about an obstacle means that both pass it on the same side
(Bhattacharya, Likhachev & Kumar 2012, "Topological constraints in search-based robot path planning"). For a moving obstacle the curve is
taken relative to it. The ends are joined straight: an obstacle ahead of both ends counts as passed by neither.

On opposite sides of an obstacle the mean of both commands hits it, so k is 0 or 1: one of them drives, by the threat and with hysteresis. k
jumps then; the command does not, since the command gate limits the steering rate.
"""

import math
from dataclasses import dataclass

import numpy as np

from lfdm_ros.control.plan import Plan
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.sharing.forecast import poses
from lfdm_ros.sharing.sharing_settings import SharingSettings
from lfdm_ros.sharing.situation import StampedCommand

SPACING = 0.5  # [m]


def opposite(first: Plan, second: Plan, now: float, horizon: float, obstacles: Obstacles, near: float) -> np.ndarray:
    """Returns which obstacles (n,) two trajectories from the same place pass on opposite sides.

    Args:
        now, horizon: start and length of the comparison [s].
        near: largest distance of both trajectories to an obstacle that counts [m], less its radius.
    """
    none = np.zeros(len(obstacles.radii), bool)
    end = min(float(first.times[-1]), float(second.times[-1])) - now
    (t_a, a), (t_b, b) = (poses(trajectory, now, min(horizon, end), SPACING) for trajectory in (first, second))
    if not len(none) or len(t_a) < 2 or len(t_b) < 2:
        return none
    from_a, from_b = (_relative_to(obstacles, now, t, at) for t, at in ((t_a, a), (t_b, b)))  # (n, m, 2)
    closest = [np.hypot(relative[..., 0], relative[..., 1]).min(axis=1) - obstacles.radii for relative in (from_a, from_b)]
    count = (closest[0] <= near) & (closest[1] <= near)
    for i in np.flatnonzero(count).tolist():
        none[i] = winding(np.concatenate([from_a[i], from_b[i][::-1]])) != 0
    return none


def _relative_to(obstacles: Obstacles, now: float, times: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Returns poses (m, 3) at `times` (m,) from `now` on as positions relative to each obstacle (n, m, 2)."""
    moved = obstacles.shifts((now - obstacles.time) + times).swapaxes(0, 1)
    return np.asarray(at[None, :, :2] - obstacles.centres[:, None, :] - moved)


def winding(curve: np.ndarray) -> int:
    """Returns the winding number of a closed curve (m, 2) about the origin, positive to the left; 0 where the origin lies on it."""
    after = np.roll(curve, -1, axis=0)
    cross = curve[:, 0] * after[:, 1] - curve[:, 1] * after[:, 0]
    dot = (curve * after).sum(axis=1)
    if ((cross == 0.0) & (dot <= 0.0)).any():
        return 0
    return round(float(np.arctan2(cross, dot).sum()) / (2.0 * math.pi))


MAX_DEVIATION = 0.1  # of a command from the inputs of the plan that it comes from
FORWARD = 0.5  # share of autonomy from which on its selector counts where the two differ


def aligned(command: StampedCommand, plan: Plan | None, now: float, delay: float) -> StampedCommand:
    """Returns autonomy's command, advanced along its plan from its own time to `now` [s], the time of the operator's command.

    A command that differs from its plan, since autonomy brakes or reverses, is held.

    Args:
        delay: of the actuators [s]: the plan is evaluated when the command acts.
    """
    if plan is None or now <= command.time or command.reverse:
        return command
    then, at = plan.command_at(command.time + delay), plan.command_at(now + delay)
    if max(abs(then[0] - command.steering), abs(then[1] - command.pedal)) > MAX_DEVIATION or not all(map(math.isfinite, (*then, *at))):
        return command
    steering, pedal = (min(max(value + after - before, -1.0), 1.0)
                       for value, after, before in zip((command.steering, command.pedal), at, then))
    return StampedCommand.of_pedal(now, steering, pedal)


def braked_with(operator: StampedCommand, autonomy: StampedCommand, weight: float) -> StampedCommand:
    """Returns autonomy's command with a harder brake of the operator in place of its pedal, by `weight` in [0, 1]."""
    if operator.pedal >= min(autonomy.pedal, 0.0):
        return autonomy
    pedal = (1.0 - weight) * autonomy.pedal + weight * operator.pedal
    return StampedCommand.of_pedal(autonomy.time, autonomy.steering, pedal, autonomy.reverse)


def blended(operator: StampedCommand, autonomy: StampedCommand, k: float, now: float) -> StampedCommand:
    """Returns (1 - k) operator + k autonomy. Throttle and brake form one pedal, so that they never act together; where only one driver
    reverses, the pedal of the one with the larger share is used unblended."""
    steering = (1.0 - k) * operator.steering + k * autonomy.steering
    a, b = operator.pedal, autonomy.pedal
    reverse = operator.reverse
    # A command that only brakes agrees with either direction.
    if operator.reverse != autonomy.reverse and a > 0.0 and b > 0.0:
        reverse = autonomy.reverse if k >= FORWARD else operator.reverse
        pedal = b if k >= FORWARD else a
    else:
        reverse = autonomy.reverse if a <= 0.0 else operator.reverse
        pedal = (1.0 - k) * a + k * b
    steering, pedal = min(max(steering, -1.0), 1.0), min(max(pedal, -1.0), 1.0)
    return StampedCommand.of_pedal(now, steering, pedal, reverse)


@dataclass
class SideChoice:
    """The driver in charge while operator and autonomy pass an obstacle on opposite sides: `k` is 0 or 1 then, else None."""

    k: float | None = None
    _until: float = -math.inf
    _safe_since: float = math.inf  # the threat has been low enough for the operator's side [s]

    def update(self, now: float, opposite: bool, threat: float, k: float, settings: SharingSettings) -> None:
        """Updates the choice at `now` [s] by `opposite`, the threat (NaN: unknown, changes nothing) and the share in force.

        Autonomy's side is taken at once, and left once the threat has been low for `sides_hold`: a short drop may result from autonomy's
        own driving, or from a plan that has just changed sides.
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
        """Forgets the choice."""
        self.k, self._until, self._safe_since = None, -math.inf, math.inf
