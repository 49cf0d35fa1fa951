"""Deadlines of a loop's ticks on the steady clock, and their accuracy: histograms that are allocated before the first tick."""

import math
import time

import numpy as np

SKIP, CATCH_UP, STOP = "skip", "catch_up", "stop"
POLICIES = {
    SKIP: "the deadlines that have passed are left out: simulated time falls behind by them",
    CATCH_UP: "ticks follow each other at once until the deadlines are met again",
    STOP: "the run ends as failed",
}
# Bins of the histograms: eight a decade from 1 us to 10 s.
_PER_DECADE, _FIRST, _BINS = 8, 1e-6, 57
EDGES = np.concatenate([[0.0], _FIRST * 10.0 ** (np.arange(_BINS - 1) / _PER_DECADE)])
_SCALE = _PER_DECADE / math.log(10.0)


class Histogram:
    """Counts of durations in the bins between EDGES, and the newest of them as they are."""

    def __init__(self, kept: int = 1 << 17) -> None:
        """Allocates the histogram; kept: durations that are stored one by one; a power of two."""
        self.counts = np.zeros(_BINS, np.int64)
        self._kept = np.zeros(kept)
        self._mask = kept - 1
        self.number = 0
        self.largest = 0.0

    def add(self, seconds: float) -> None:
        """Adds a duration; below 0 counts as 0."""
        place = 1 + int(math.log(seconds / _FIRST) * _SCALE) if seconds >= _FIRST else 0
        self.counts[place if place < _BINS else _BINS - 1] += 1
        self._kept[self.number & self._mask] = seconds
        self.number += 1
        if seconds > self.largest:
            self.largest = seconds

    @property
    def values(self) -> np.ndarray:
        """Returns the stored durations, in no order."""
        return self._kept[:min(self.number, len(self._kept))].copy()

    def quantile(self, share: float) -> float:
        """Returns a quantile of the stored durations; NaN: there are none."""
        values = self.values
        return float(np.quantile(values, share)) if len(values) else math.nan


def quantile_of(counts: np.ndarray, share: float) -> float:
    """Returns a quantile of a histogram's counts: the upper end [s] of the bin that it lies in; NaN: there are none."""
    if not counts.sum():
        return math.nan
    place = int(np.searchsorted(np.cumsum(counts), share * counts.sum() - 1e-9))
    return float(EDGES[min(place + 1, len(EDGES) - 1)])


class Timing:
    """Deadlines, a period apart, and what became of them."""

    def __init__(self, period: float, policy: str = SKIP) -> None:
        """Makes the schedule.

        Args:
            period: [s]
            policy: one of POLICIES; a deadline is missed where its tick begins later than the deadline after it.
        """
        self.period, self.policy = period, policy
        self.periods, self.lateness, self.work, self.responses = (Histogram() for _ in range(4))
        self.ticks = self.misses = self.skipped = 0
        self._began = math.nan
        self.restart()

    def restart(self) -> None:
        """Makes the next tick due now."""
        self.deadline = time.monotonic()
        self._began = math.nan

    def begin(self) -> bool:
        """Begins a tick; False: it must not, because of a miss and the policy stop. Sets the deadline of the tick after it."""
        now = time.monotonic()
        late = now - self.deadline
        if self._began == self._began:
            self.periods.add(now - self._began)
        self._began = now
        self.lateness.add(late)
        self.ticks += 1
        self.deadline += self.period
        if late > self.period:
            self.misses += 1
            if self.policy == STOP:
                return False
            if self.policy == SKIP:
                lost = int(late / self.period)
                self.skipped += lost
                self.deadline += lost * self.period
        return True

    def begin_at_once(self) -> None:
        """Begins a tick that has no deadline."""
        self.deadline = time.monotonic()
        self.begin()

    def end(self) -> None:
        """Ends the tick's work."""
        self.work.add(time.monotonic() - self._began)

    def wait(self) -> None:
        """Waits until the deadline."""
        left = self.deadline - time.monotonic()
        if left > 0.0:
            time.sleep(left)
