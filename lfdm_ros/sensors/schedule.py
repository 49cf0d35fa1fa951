"""Schedule of scans, to wait for them in lockstep."""

from __future__ import annotations


class ScanSchedule:
    """Scans at whole multiples of a period, which arrive a latency later."""

    def __init__(self, rate: float, latency: float) -> None:
        """Sets the schedule up.

        Args:
            rate: scans a second [Hz]; 0: it is not known whether scans come.
            latency: from a scan's stamp to its arrival [s].
        """
        self._period_ns, self._latency_ns = (round(1e9 / rate) if rate > 0.0 else 0), round(1e9 * latency)

    def __bool__(self) -> bool:
        return self._period_ns > 0

    def last_ns(self, now_ns: int) -> int:
        """Returns the stamp of the newest scan that has arrived by now, if it is punctual. There must be a rate."""
        return (now_ns - self._latency_ns) // self._period_ns * self._period_ns

    def due(self, now_ns: int, first_ns: int | None, newest_ns: int | None) -> bool:
        """Checks for a scan that should have arrived and has not.

        Args:
            first_ns, newest_ns: stamps of the first state and of the newest scan; None: there is none.
        """
        if not self or first_ns is None:
            return False
        last = self.last_ns(now_ns)
        return last >= first_ns and (newest_ns is None or newest_ns < last)
