"""When the simulated LIDAR scans, and when a scan arrives. Knows nothing of ROS."""

from __future__ import annotations

from collections import deque

from lfdm_ros.errors import InputError
from lfdm_ros.sensors import Lidar, Scan


class SimulatedLidar:
    """Scans at the multiples of its period of simulated time, which are ticks; a scan arrives its latency later, at the next tick."""

    def __init__(self, lidar: Lidar, tick_ns: int) -> None:
        """
        Args:
            tick_ns: between two states [ns].

        Raises:
            InputError: a period of the LIDAR is not a whole number of ticks.
        """
        rate = lidar.settings.rate
        self.period_ns = round(1e9 / rate)
        if self.period_ns < tick_ns or abs(self.period_ns % tick_ns) > 0:
            ticks = max(1, round(self.period_ns / tick_ns))
            raise InputError(f"lidar_rate {rate:g} Hz is not a whole number of ticks of {1e-6 * tick_ns:g} ms; "
                             f"for example {1e9 / (ticks * tick_ns):g} Hz is")
        self._lidar = lidar
        self._latency_ns = round(1e9 * lidar.settings.latency)
        self.reset()

    def reset(self, origin_ns: int = 0) -> None:
        """Forgets the scans on their way: they are of another place. At `origin_ns` the world begins anew."""
        self._origin_ns = origin_ns
        self._under_way: deque[tuple[int, Scan]] = deque()
        self._arrived: tuple[int, list[tuple[int, Scan]]] = (-1, [])

    def arrivals(self, time_ns: int, x: float, y: float, yaw: float, roll: float = 0.0, pitch: float = 0.0) -> list[tuple[int, Scan]]:
        """Stamps [ns] and scans that arrive at a tick, for the true pose then; asked again for the same tick, the same."""
        if self._arrived[0] == time_ns:
            return self._arrived[1]
        if time_ns % self.period_ns == 0:
            self._under_way.append((time_ns, self._lidar.scan(1e-9 * (time_ns - self._origin_ns), x, y, yaw, roll, pitch)))
        arrived = []
        while self._under_way and self._under_way[0][0] + self._latency_ns <= time_ns:
            arrived.append(self._under_way.popleft())
        self._arrived = (time_ns, arrived)
        return arrived
