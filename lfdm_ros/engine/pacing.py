"""Pace of simulated time: absolute deadlines on the wall clock, limited by the latency of a driver's answers."""

import math
from collections import deque
from collections.abc import Callable
from typing import Any

# A loop further behind than this drops its backlog instead of catching up.
LARGEST_BACKLOG = 0.5  # [s] wall

# Causes of a simulated time below the requested speed; see `slowed_by`.
ANSWERS, MACHINE = "the controller's answers", "this machine"
_ON_TIME = 0.95  # of the requested speed
# Shares of the age at which a command is stale: up to the first, time passes as fast as requested; up to the second, as on the wall
# clock; from there on it stands still, so that no command becomes stale while it is on its way.
_FULL_PACE, _WALL_CLOCK_PACE = 0.3, 0.9
# Wall time [s] for which time is held back for an answer; and for a driver to be discovered, for which DDS may need its 3 s between two
# announcements.
PATIENCE, DISCOVERY = 5.0, 3.0


class Pacer:
    """Schedule of ticks. Deadlines are multiples from an anchor, so that lateness does not accumulate."""

    def __init__(self, period: float, factor: float, now: float) -> None:
        """Anchors the deadlines at `now`. period: simulated time of a tick [s]. factor: simulated seconds per wall second; 0: as fast as
        possible. now: wall time [s], of any monotonic clock."""
        self.period, self.factor = period, factor
        self.overruns = 0  # ticks begun more than one whole wall period after their deadline
        self._blocked_time = 0.0
        self.lateness: deque[float] = deque(maxlen=100_000)  # wall time [s] from the deadline to the begin of the last ticks
        self.blocked = False  # the next tick is due, but was not permitted at the last query
        self._last = now  # wall time of the last tick
        self._anchor(now)

    def _anchor(self, now: float) -> None:
        self._start = now
        self._ticks = 1

    def set_factor(self, factor: float, now: float) -> None:
        self.factor = factor
        self._anchor(now)

    def resume(self, now: float) -> None:
        """Sets the next tick due one period from now, after a standstill of time."""
        self._last, self.blocked = now, False
        self._anchor(now)

    def _due(self) -> float:
        return self._last if self.factor == 0.0 else self._start + self._ticks * self.period / self.factor

    def delay(self, now: float, pace: float = math.inf) -> float:
        """Returns the wall time [s] until the next tick is due and permitted; 0 or less: now. pace: the most simulated seconds per wall
        second that are permitted since the last tick; 0: no tick is."""
        due = self._due() - now if self.factor else 0.0
        if pace == math.inf:
            return due
        permitted = self._last + (self.period / pace if pace else math.inf) - now
        self.blocked = self.blocked or permitted > max(due, 0.0)
        return max(due, permitted)

    def tick(self, now: float) -> None:
        if self.blocked:  # lost time is not caught up
            self._blocked_time = self.blocked_time(now)
            self.resume(now)
            return
        self._last = now
        if self.factor == 0.0:
            return
        lateness = now - self._due()
        self.lateness.append(lateness)
        if lateness > self.period / self.factor:
            self.overruns += 1
        if lateness > LARGEST_BACKLOG:
            self._anchor(now)
        else:
            self._ticks += 1

    def blocked_time(self, now: float) -> float:
        """Returns the wall time [s] for which ticks were not permitted after their deadlines; they are no overruns."""
        return self._blocked_time + (max(0.0, now - max(self._due(), self._last)) if self.blocked else 0.0)


def slowed_by(requested: float, reached: float, blocked_share: float) -> str:
    """Returns the cause of a simulated time below the requested speed; empty: none. requested, reached: simulated seconds per wall second;
    requested 0: as fast as possible, limited by answers only. blocked_share: share of the wall time for which ticks were not permitted."""
    if reached >= _ON_TIME * requested > 0.0:
        return ""
    lost = 1.0 - reached / requested if requested else 1.0
    return ANSWERS if blocked_share > 0.5 * lost else MACHINE if requested else ""


def speed_summary(simulated: float, wall: float, requested: float, blocked_time: float) -> dict[str, Any]:
    """Returns speed_factor, speed_factor_asked, held_back [s] and slowed_by of a run of simulated and wall seconds."""
    wall = max(wall, 1e-9)
    return {"speed_factor": simulated / wall, "speed_factor_asked": requested, "held_back": blocked_time,
            "slowed_by": slowed_by(requested, simulated / wall, blocked_time / wall)}


class SpeedMeter:
    """Simulated seconds per wall second, and the share of the wall time for which ticks were held back, averaged over at least `window`
    wall seconds."""

    def __init__(self, simulated: float, now: float, window: float = 0.4) -> None:
        self._simulated, self._blocked_time, self._now, self._window = simulated, 0.0, now, window
        self._read = 0.0, 0.0

    def read(self, simulated: float, blocked_time: float, now: float) -> tuple[float, float]:
        """Returns the averages, renewed once in a window. simulated: simulated time [s]. blocked_time: of the Pacer [s]. now: wall time
        [s]."""
        if (wall := now - self._now) >= self._window:
            self._read = (simulated - self._simulated) / wall, (blocked_time - self._blocked_time) / wall
            self._simulated, self._blocked_time, self._now = simulated, blocked_time, now
        return self._read


class AnswerWindow:
    """Limit on the pace of simulated time where a driver's answers are late, no lower than needed.

    A command is as old as the state that it answers; at ten times real time half a second of simulated age is 50 ms of the wall clock,
    which a busy machine exceeds. Where there is no driver, or one that has not answered within PATIENCE, time passes as fast as requested
    until the next command comes: the command gate brakes the vehicle then.
    """

    def __init__(self, limit: float, has_driver: Callable[[], bool]) -> None:
        """Begins at simulated time 0. limit: simulated age [s] at which a command is stale. has_driver: returns whether any driver is known
        that could answer; called while time is held back."""
        self._limit, self._has_driver = limit, has_driver
        self.restart(0.0)

    def restart(self, time: float) -> None:
        """Restarts at a simulated time [s], after a start, a pause or a reset."""
        self._answered = time  # the newest answered state
        self._alone = False
        self._waiting_since = math.nan  # wall time

    def answer(self, time: float, stamp: float) -> None:
        """Records a command, valid or not: there is a driver. time: simulated time [s]. stamp: of the answered state [s]. If that is too
        old, the window restarts."""
        answered = time if time - stamp > self._limit else min(stamp, time)
        if answered > self._answered:  # repeated answers do not count
            self._answered, self._alone, self._waiting_since = answered, False, math.nan

    def pace(self, time: float, now: float) -> float:
        """Returns the most simulated seconds per wall second at a simulated and a wall time [s]; infinite: no limit, 0: stand still."""
        ahead = time - self._answered
        if self._alone or ahead < _FULL_PACE * self._limit:
            return math.inf
        if math.isnan(self._waiting_since):
            self._waiting_since = now
        has_driver = self._has_driver()
        self._alone = now - self._waiting_since > (PATIENCE if has_driver else DISCOVERY)
        if self._alone:
            return math.inf
        return 0.0 if has_driver and ahead >= _WALL_CLOCK_PACE * self._limit else 1.0
