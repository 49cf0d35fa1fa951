"""Absolute deadlines on the wall clock for ticks of simulated time."""

from __future__ import annotations

from collections import deque

# A loop that fell further behind than this gives the time up instead of rushing after it.
LARGEST_BACKLOG = 0.5  # [s] wall


class Pacer:
    """Says when the next tick is due. Deadlines are multiples from an anchor, so that lateness does not accumulate.

    Attributes:
        overruns: ticks begun more than one whole wall period after their deadline.
        lateness: wall time [s] by which each of the last ticks began after its deadline.
    """

    def __init__(self, period: float, factor: float, now: float) -> None:
        """
        Args:
            period: simulated time of a tick [s].
            factor: simulated seconds per wall second; 0: as fast as possible.
            now: wall time [s], of any monotonic clock.
        """
        self.period = period
        self.factor = factor
        self.overruns = 0
        self.lateness: deque[float] = deque(maxlen=100_000)
        self._anchor(now)

    def _anchor(self, now: float) -> None:
        self._start = now
        self._ticks = 1

    def set_factor(self, factor: float, now: float) -> None:
        """Changes the speed from now on."""
        self.factor = factor
        self._anchor(now)

    def resume(self, now: float) -> None:
        """Time stood still; the next tick is due one period from now."""
        self._anchor(now)

    def delay(self, now: float) -> float:
        """Seconds of wall time until the next tick is due; 0 or less: it is due."""
        if self.factor == 0.0:
            return 0.0
        return self._start + self._ticks * self.period / self.factor - now

    def tick(self, now: float) -> None:
        """A tick begins."""
        if self.factor == 0.0:
            return
        lateness = -self.delay(now)
        self.lateness.append(lateness)
        if lateness > self.period / self.factor:
            self.overruns += 1
        if lateness > LARGEST_BACKLOG:
            self._anchor(now)
        else:
            self._ticks += 1


class SpeedMeter:
    """Simulated seconds per wall second, averaged over at least `window` wall seconds."""

    def __init__(self, simulated: float, now: float, window: float = 0.4) -> None:
        self._simulated, self._now, self._window = simulated, now, window
        self._speed = 0.0

    def read(self, simulated: float, now: float) -> float:
        """
        Args:
            simulated: simulated time [s].
            now: wall time [s].
        """
        if now - self._now >= self._window:
            self._speed = (simulated - self._simulated) / (now - self._now)
            self._simulated, self._now = simulated, now
        return self._speed
