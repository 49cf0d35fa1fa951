"""How far simulated time may run ahead of the driver's answers where it is to pass faster than the wall clock. Knows nothing of ROS."""

from __future__ import annotations

import math
from collections.abc import Callable

# Shares of the age at which a command is stale: up to the first, time passes as fast as asked; up to the second, as on the wall clock; from
# there on it stands still, so that no command becomes stale while it is on its way.
_AS_ASKED, _AS_THE_WALL_CLOCK = 0.3, 0.9
# Wall time [s] for which time is held back for an answer; and for a driver to be discovered, for which DDS may need its 3 s between two
# announcements.
PATIENCE, DISCOVERY = 5.0, 3.0


class AnswerWindow:
    """Slows simulated time down where a driver's answers are late, as far as it takes.

    A command is as old as the state that it answers; at ten times real time half a second of simulated age is 50 ms of the wall clock,
    which a busy machine exceeds. Where there is no driver, or one that has not answered within PATIENCE, time passes as fast as asked
    until the next command comes: the command gate brakes the vehicle then.
    """

    def __init__(self, limit: float, has_driver: Callable[[], bool]) -> None:
        """
        Args:
            limit: simulated age [s] at which a command is stale.
            has_driver: whether anybody is known who could answer; asked while time is held back.
        """
        self._limit, self._has_driver = limit, has_driver
        self.restart(0.0)

    def restart(self, time: float) -> None:
        """Simulated time [s] goes on from here, after a start, a pause or a reset."""
        self._answered = time  # the newest state that was answered
        self._alone = False
        self._held_since = math.nan  # wall time

    def answer(self, time: float, stamp: float) -> None:
        """A command has come, good or not: somebody drives.

        Args:
            time: simulated time [s].
            stamp: of the state that it answers [s]. Where that is too old to count, the window begins anew.
        """
        answered = time if time - stamp > self._limit else min(stamp, time)
        if answered > self._answered:  # one that repeats itself is not waited for
            self._answered, self._alone, self._held_since = answered, False, math.nan

    def pace(self, time: float, now: float) -> float:
        """The most simulated seconds per wall second at a simulated time [s] and a wall time [s]; infinite: no limit, 0: stand still."""
        ahead = time - self._answered
        if self._alone or ahead < _AS_ASKED * self._limit:
            return math.inf
        if math.isnan(self._held_since):
            self._held_since = now
        has_driver = self._has_driver()
        self._alone = now - self._held_since > (PATIENCE if has_driver else DISCOVERY)
        if self._alone:
            return math.inf
        return 0.0 if has_driver and ahead >= _AS_THE_WALL_CLOCK * self._limit else 1.0
