"""The state now, and when the next command takes effect, from a state that is some time old and the commands sent since."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lfdm_ros.backends import compiled_model_function
from lfdm_ros.errors import InputError
from lfdm_ros.simulation import initial_state
from lfdm_ros.vehicles import Vehicle

STEP = 0.01  # [s] longest step of the prediction
HISTORY = 400  # commands that are remembered

REQUIRED = ("x", "y", "yaw", "vx", "vy", "yaw_rate")


@dataclass(frozen=True)
class Measured:
    """A state as it was at `time` [s]: values by name, SI; x, y, yaw, vx, vy and yaw_rate at least. Unknown and NaN values of others
    are left out.

    Raises:
        InputError: one of those is missing or not finite, or the time is not finite.
    """

    time: float
    values: Mapping[str, float]

    def __post_init__(self) -> None:
        if not math.isfinite(self.time):
            raise InputError(f"state: its time is {self.time}")
        for name in REQUIRED:
            value = self.values.get(name)
            if value is None or not math.isfinite(value):
                raise InputError(f"state: {name} is {'missing' if value is None else value}")


class Prediction:
    """Rolls the controller's own model through the commands that were sent (paper 001 section 2.1: latencies that are known)."""

    def __init__(self, model: str, vehicle: Vehicle, delay: float, steering_lag: float):
        """delay: from a command to its effect [s]; steering_lag: time constant of the steering actuator [s], 0 for none."""
        self._delay, self._lag = delay, steering_lag
        self._model = vehicle.model(model)
        self._x, self._u, self._h = np.zeros(len(self._model.states)), np.zeros(3), np.zeros(1)
        self._names = [f.name for f in self._model.states]
        self.take(vehicle)
        self.clear()

    def take(self, vehicle: Vehicle) -> None:
        """Another vehicle's parameters."""
        self._vehicle = vehicle
        p = vehicle.vector(self._model)
        self._step = compiled_model_function(self._model.name, "step").bind(self._x, self._u, p, self._h)

    def clear(self) -> None:
        """Forgets the commands."""
        self._times: list[float] = []
        self._commands: list[tuple[float, float]] = []
        self._road, self._road_time = 0.0, -math.inf

    def sent(self, time: float, steering: float, pedal: float) -> None:
        """A command that goes out at `time` [s]."""
        self._times.append(time)
        self._commands.append((steering, pedal))
        if len(self._times) > HISTORY:
            del self._times[0], self._commands[0]

    def command_at(self, time: float) -> tuple[float, float]:
        """Steering and pedal that act at `time` [s]; the first one before anything was sent."""
        i = bisect_right(self._times, time - self._delay + 1e-9)
        return self._commands[max(i - 1, 0)] if self._commands else (0.0, 0.0)

    def state(self, measured: Measured) -> np.ndarray:
        """The model's state (nx,) of what was measured; wheels that were not roll freely."""
        known = {name: float(measured.values[name]) for name in self._names
                 if name in measured.values and math.isfinite(measured.values[name])}
        known.setdefault("ay", known["vx"] * known["yaw_rate"])
        return initial_state(self._model, self._vehicle, **{name: value for name, value in known.items() if name in self._names})

    def at(self, measured: Measured, time: float) -> tuple[np.ndarray, float]:
        """The state (nx,) at `time` [s], and the steering at the wheels then (the command's, unless there is a lag)."""
        x = self._x
        x[:] = self.state(measured)
        now = measured.time
        road = self._road_at(now)
        while now < time - 1e-9:
            # To the next command's effect at most.
            i = bisect_right(self._times, now - self._delay + 1e-9)
            until = min(time, self._times[i] + self._delay) if i < len(self._times) else time
            steps = max(1, math.ceil((until - now) / STEP - 1e-9))
            h = (until - now) / steps
            steering, pedal = self.command_at(now)
            self._h[0] = h
            self._u[1], self._u[2] = max(pedal, 0.0), max(-pedal, 0.0)
            for _ in range(steps):
                before, road = road, self._follow(road, steering, h)
                self._u[0] = 0.5 * (before + road)
                self._step.evaluate()
                x[:] = self._step.results[0]
            now = until
        if not self._lag:
            road = self.command_at(time)[0]
        return x.copy(), road

    def _follow(self, road: float, steering: float, time: float) -> float:
        return steering + (road - steering) * math.exp(-time / self._lag) if self._lag else steering

    def _road_at(self, time: float) -> float:
        """Steering at the wheels at a past time, followed through the commands from the last time that was asked for."""
        if not self._lag:
            return self.command_at(time)[0]
        if not self._times or time <= self._road_time:
            return self._road
        now = max(self._road_time, self._times[0] + self._delay)
        while now < time - 1e-9:
            i = bisect_right(self._times, now - self._delay + 1e-9)
            until = min(time, self._times[i] + self._delay) if i < len(self._times) else time
            self._road = self._follow(self._road, self.command_at(now)[0], until - now)
            now = until
        self._road_time = time
        return self._road
