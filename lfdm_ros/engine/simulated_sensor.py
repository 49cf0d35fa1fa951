"""Sampling of simulated sensors in simulated time, with latency. Independent of ROS."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from lfdm_ros.errors import InputError
from lfdm_ros.sensors import Sensor, VehicleView

T = TypeVar("T")
_NO_OUTPUTS: Mapping[str, float] = {}


class SimulatedSensor(Generic[T]):
    """Measurements at the multiples of a sensor's period, which are ticks; each arrives the latency later, at the next tick. sensor: it may
    be replaced by one of the same rate and latency at any time."""

    def __init__(self, sensor: Sensor[T], tick_ns: int, rate_name: str = "lidar_rate") -> None:
        """Begins without measurements under way. tick_ns: between two states [ns]. rate_name: name of the sensor's rate in error messages.
        Raises InputError: the sensor's period is not a whole number of ticks."""
        self.period_ns = round(1e9 / sensor.rate)
        if self.period_ns < tick_ns or abs(self.period_ns % tick_ns) > 0:
            ticks = max(1, round(self.period_ns / tick_ns))
            raise InputError(f"{rate_name} {sensor.rate:g} Hz is not a whole number of ticks of {1e-6 * tick_ns:g} ms; "
                             f"for example {1e9 / (ticks * tick_ns):g} Hz is")
        self.sensor = sensor
        self._latency_ns = round(1e9 * sensor.latency)
        self.reset()

    def reset(self, origin_ns: int = 0) -> None:
        """Discards measurements under way, which are of another place; the world begins anew at `origin_ns`."""
        self._origin_ns = origin_ns
        self._in_transit: deque[tuple[int, VehicleView]] = deque()
        self._arrived: tuple[int, list[tuple[int, T]]] = (-1, [])

    def arrivals(self, time_ns: int, x: float, y: float, yaw: float, roll: float = 0.0, pitch: float = 0.0,
                 outputs: Mapping[str, float] = _NO_OUTPUTS, requested: Callable[[], bool] = lambda: True) -> list[tuple[int, T]]:
        """Returns stamps [ns] and measurements that arrive at a tick, for the true pose and outputs then; the same for the same tick.
        requested: called when measurements arrive; if it returns False, they are not computed."""
        if self._arrived[0] == time_ns:
            return self._arrived[1]
        if time_ns % self.period_ns == 0:
            self._in_transit.append((time_ns, VehicleView(1e-9 * (time_ns - self._origin_ns), x, y, yaw, roll, pitch, outputs)))
        due = []
        while self._in_transit and self._in_transit[0][0] + self._latency_ns <= time_ns:
            due.append(self._in_transit.popleft())
        arrived = [(stamp_ns, self.sensor.measure(view)) for stamp_ns, view in due] if due and requested() else []
        self._arrived = (time_ns, arrived)
        return arrived
