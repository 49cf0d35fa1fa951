"""Actuators between a command and the vehicle: dead time, steering lag, rate limits of pedals and steering, and the selector of forwards or
reverse."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

from lfdm_ros.errors import InputError, quote
from lfdm_ros.vehicles import Actuators

_SAME = 1e-9  # [s] tolerance of equal times, as times are sums of steps
SHIFTING_SPEED = 0.3  # [m/s] below which the selector shifts

Command = Sequence[float] | np.ndarray  # steering, throttle, brake


class Selector:
    """Selector of forwards or reverse by the throttle's sign; it shifts near standstill only, without throttle until then."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Selects forwards."""
        self.reverse = False

    def through(self, inputs: np.ndarray, speed: float) -> np.ndarray:
        """Returns the inputs (3,) of the vehicle at a forward speed [m/s]."""
        throttle = float(inputs[1])
        if throttle and (throttle < 0.0) != self.reverse:
            if abs(speed) >= SHIFTING_SPEED:
                return np.array([inputs[0], 0.0, inputs[2]])
            self.reverse = not self.reverse
        return inputs


class Actuator:
    """Dynamics from commands (steering, throttle, brake), sent at any time, to the vehicle's inputs.

    Dead time, then a rate limit of each and a first-order lag of the steering. Jayakumar et al., Advanced mobility testbed for dynamic
    semi-autonomous unmanned ground vehicles, section 2.1: latencies of sensing and of actuation. With zeros and no limits commands pass
    unchanged. Commands are held until the next one.
    """

    def __init__(self, delay: float = 0.0, steering_lag: float = 0.0, steering_rate: float = math.inf, throttle_rate: float = math.inf,
                 brake_rate: float = math.inf, *, inputs: Command = (0.0, 0.0, 0.0)):
        """Initialises the actuators in steady state.

        Args:
            delay: dead time from sending a command to its effect [s].
            steering_lag: time constant of the steering [s].
            steering_rate, throttle_rate, brake_rate: maximum rate of each [1/s], up or down.
            inputs: of the vehicle before the first command.

        Raises:
            InputError: names the setting that is out of range.
        """
        for name, value in (("delay", delay), ("steering_lag", steering_lag)):
            if not 0.0 <= value < math.inf:
                raise InputError(f"actuator: {name} is {value:g} s; give 0 or more")
        for name, value in (("steering_rate", steering_rate), ("throttle_rate", throttle_rate), ("brake_rate", brake_rate)):
            if not value > 0.0:
                raise InputError(f"actuator: {name} is {value:g} 1/s; give more than 0")
        self.delay, self.steering_lag = delay, steering_lag
        self._rates = (steering_rate, throttle_rate, brake_rate)
        self.reset(0.0, inputs)

    @classmethod
    def of(cls, actuators: Actuators) -> Actuator:
        """Makes the actuators of a vehicle. Raises InputError as above."""
        a = actuators
        return cls(a.delay, a.steering_lag, a.steering_rate, a.throttle_rate, a.brake_rate)

    def reset(self, time: float = 0.0, inputs: Command = (0.0, 0.0, 0.0)) -> None:
        """Restarts at a time [s] in steady state with these inputs, without pending commands."""
        self._time = time
        self._waiting: deque[tuple[float, list[float]]] = deque()
        self._target = _checked(inputs)
        self._inputs = _checked(inputs)
        self._sent = -math.inf

    def send(self, time: float, command: Command) -> None:
        """Sends a command (steering, throttle, brake) at a time [s], effective after `delay`; the last one at a time counts. Raises
        InputError: a value is not finite, or the time is before that of the last command."""
        if not math.isfinite(time) or time < self._sent:
            raise InputError(f"actuator: a command at {time:g} s after one at {self._sent:g} s; send them in order, or reset first")
        self._sent = time
        self._waiting.append((time + self.delay, _checked(command)))

    def advance(self, time: float) -> np.ndarray:
        """Advances to a time [s] and returns the vehicle's inputs (3,): steering, throttle, brake.

        Solved exactly: the result does not depend on the steps taken, but for rounding. Raises InputError: the time is before that of the
        last call.
        """
        if not time >= self._time - _SAME:
            raise InputError(f"actuator: {time:g} s requested after {self._time:g} s; reset it to go back")
        while self._waiting and self._waiting[0][0] <= time + _SAME:
            due, command = self._waiting.popleft()
            self._move(due)
            self._target = command
        self._move(time)
        return np.array(self._inputs)

    def steady(self) -> float:
        """Returns the time [s] for which the inputs stay constant, given the commands sent so far."""
        if self._inputs != self._target:
            return 0.0
        return next((due - self._time for due, command in self._waiting if command != self._target), math.inf)

    def _move(self, time: float) -> None:
        """Moves the inputs towards the held command until a time [s], if it is later."""
        span = max(time - self._time, 0.0)
        for k, rate in enumerate(self._rates):
            distance = self._target[k] - self._inputs[k]
            remaining = _remaining(abs(distance), span, self.steering_lag if k == 0 else 0.0, rate)
            self._inputs[k] = self._target[k] - math.copysign(remaining, distance)
        self._time = max(time, self._time)


def _remaining(distance: float, span: float, lag: float, rate: float) -> float:
    """Computes the remaining distance to the command after a span [s]: dz/dt = -min(z / lag, rate), solved exactly."""
    if lag == 0.0:
        return max(distance - rate * span, 0.0) if math.isfinite(rate) else 0.0
    if math.isfinite(rate) and distance > rate * lag:
        limited = min(distance / rate - lag, span)  # time at the maximum rate
        distance, span = distance - rate * limited, span - limited
    return distance * math.exp(-span / lag)


def _checked(command: Command) -> list[float]:
    values = [float(value) for value in command]
    if len(values) != 3 or not all(math.isfinite(value) for value in values):
        raise InputError(f"actuator: a command is steering, throttle and brake, all finite; found {quote(command)}")
    return values
