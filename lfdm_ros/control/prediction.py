"""Prediction of the state from a delayed measurement and the commands sent since, until the next command takes effect."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lfdm_ros.backends import advance_kernel
from lfdm_ros.errors import InputError
from lfdm_ros.models import Model
from lfdm_ros.sensors.state_gate import REQUIRED as REQUIRED
from lfdm_ros.simulation import initial_state
from lfdm_ros.vehicles import Vehicle

MAX_STEP = 0.01  # [s] longest step of the model
MAX_PIECE = 0.02  # [s] longest piece with linear steering and constant disturbance
MAX_COMMANDS = 4000  # stored commands: at the shortest period they cover the oldest state and the longest delay together
MAX_SPAN = 12.0  # [s] longest prediction
LEARNED = ("vy", "yaw_rate")  # states with an estimated disturbance
MAX_PUSH = np.array([3.0, 1.5])  # [m/s^2], [rad/s^2]
MAX_INTERVAL = 0.2  # [s] longest interval between compared states
_SAME = 1e-9  # [s] within which times are equal
STANDING = 1.0  # [m/s] below which a stopping vehicle counts as standing, held by the brake


@dataclass(frozen=True)
class Measured:
    """Measured state at `time` [s]: values by name, SI; at least x, y, yaw, vx, vy and yaw_rate. Unknown and NaN values of others are
    dropped. Raises InputError: a required value is missing or not finite, or the time is not finite."""

    time: float
    values: Mapping[str, float]

    def __post_init__(self) -> None:
        if not math.isfinite(self.time):
            raise InputError(f"state: its time is {self.time}")
        for name in REQUIRED:
            value = self.values.get(name)
            if value is None or not math.isfinite(value):
                raise InputError(f"state: {name} is {'missing' if value is None else value}")


@dataclass(frozen=True)
class PlanarState:
    """Pose and speed of the vehicle: x, y [m], yaw [rad], vx [m/s]."""

    x: float
    y: float
    yaw: float
    vx: float

    @classmethod
    def of(cls, measured: Measured) -> PlanarState:
        """Returns the pose of a measured state."""
        return cls(*(float(measured.values[name]) for name in ("x", "y", "yaw", "vx")))


def measured_state(model: Model, vehicle: Vehicle, measured: Measured) -> np.ndarray:
    """Returns a model's state (nx,) of a measured one; wheels without a measured spin roll freely."""
    names = [f.name for f in model.states]
    available = {name: float(measured.values[name]) for name in names if name in measured.values and math.isfinite(measured.values[name])}
    if "ay" in names:
        available.setdefault("ay", available["vx"] * available["yaw_rate"])
    return initial_state(model, vehicle, **available)


class Prediction:
    """Predictor of the state: the controller's model under the sent commands (paper 001 section 2.1: known latencies).

    Each command acts from `delay` after it was sent until the next one does; before the first, and after `clear`, nothing acts. The
    steering at the wheels follows with its lag from 0; its value at the begin of each command is stored, so that states of any age can be
    predicted, in any order.
    """

    def __init__(self, model: str, vehicle: Vehicle, delay: float, steering_lag: float, learning: float = 0.0):
        """Compiles the model, or loads it from the cache.

        Args:
            delay: from a command to its effect [s].
            steering_lag: time constant of the steering actuator [s], 0 for none.
            learning: time constant of the disturbance estimate of lateral and yaw acceleration [s], 0 for none.

        Raises:
            InputError: no such model, or the vehicle lacks parameters of it.
        """
        self._delay, self._lag, self._learning = delay, steering_lag, learning
        self._model = vehicle.model(model)
        self._names = [f.name for f in self._model.states]
        self._x, self._from, self._to = np.zeros(len(self._names)), np.zeros(3), np.zeros(3)
        self._pushed = [self._names.index(name) for name in LEARNED]
        self._roll = advance_kernel(self._model)
        self.set_vehicle(vehicle)
        self.clear()

    def set_vehicle(self, vehicle: Vehicle) -> None:
        """Sets another vehicle's parameters. Raises InputError if it lacks some; then nothing has changed."""
        p = vehicle.vector(self._model)
        self._advance = self._roll(self._x, p, self._from, self._to)
        self._vehicle = vehicle
        self._cached: tuple[Measured, np.ndarray] | None = None  # the last state that was made of a measured one
        self._push = np.zeros(len(LEARNED))  # of another vehicle

    def clear(self) -> None:
        """Clears the commands."""
        # Per command: begin of its action, its values, and the steering at the wheels then. The first acts from -inf.
        self._effects: list[float] = [-math.inf]
        self._commands: list[tuple[float, float, bool]] = [(0.0, 0.0, False)]
        self._roads: list[float] = [0.0]
        self._push = np.zeros(len(LEARNED))
        self._last: Measured | None = None

    def sent(self, time: float, steering: float, pedal: float, reverse: bool = False) -> None:
        """Records a command sent at `time` [s], the selector forwards or in reverse. Removes commands of that time or later: the clock went
        back."""
        effect = time + self._delay
        while len(self._effects) > 1 and self._effects[-1] >= effect:
            del self._effects[-1], self._commands[-1], self._roads[-1]
        self._roads.append(self._road(len(self._roads) - 1, effect))
        self._effects.append(effect)
        self._commands.append((steering, pedal, reverse))
        if len(self._effects) > MAX_COMMANDS:
            del self._effects[0], self._commands[0], self._roads[0]
            # The steering has long followed commands before the oldest one.
            self._effects[0], self._roads[0] = -math.inf, self._commands[0][0]

    def command_at(self, time: float) -> tuple[float, float]:
        """Returns steering and pedal that act at `time` [s]."""
        return self._commands[self._acting(time)][:2]

    def state(self, measured: Measured) -> np.ndarray:
        """Returns the model's state (nx,) of a measured one; wheels without a measured spin roll freely. Read-only: it is
        cached."""
        if self._cached is None or self._cached[0] is not measured:
            self._cached = measured, measured_state(self._model, self._vehicle, measured)
        return self._cached[1]

    def at(self, measured: Measured, time: float) -> tuple[np.ndarray, float]:
        """Predicts the state (nx,) at `time` [s], but at most 12 s after the measured one, and the steering at the wheels then: the
        command's unless there is a lag. Returns the measured state if `time` is not later. Not finite where the model diverges.

        The first call for a state compares it with its prediction from the previous one; the difference, smoothed, is an acceleration that
        acts from then on (an observer of a constant disturbance, as in offset-free predictive control: Pannocchia &
        Rawlings 2003, "Disturbance models for offset-free model-predictive control"). Without it the model's error adds up over
        the delay.
        """
        if self._learning and measured is not self._last:
            self._learn(measured)
        return self._roll_on(measured, time)

    def _learn(self, measured: Measured) -> None:
        last = self._last
        if last is not None and measured.time <= last.time:
            return
        self._last = measured
        if last is None or measured.time - last.time > MAX_INTERVAL:
            return
        x, _ = self._roll_on(last, measured.time)
        missed = np.array([measured.values[name] for name in LEARNED]) - x[self._pushed]
        if np.isfinite(missed).all():
            share = 1.0 - math.exp(-(measured.time - last.time) / self._learning)
            self._push = np.clip(self._push + share * missed / (measured.time - last.time), -MAX_PUSH, MAX_PUSH)

    def _roll_on(self, measured: Measured, time: float) -> tuple[np.ndarray, float]:
        x, before, after, lag = self._x, self._from, self._to, self._lag
        x[:] = self.state(measured)
        now = measured.time
        time = min(max(time, now), now + MAX_SPAN)
        i = self._acting(now)
        road, last = self._road(i, now), len(self._effects) - 1
        pushes = list(zip(self._pushed, self._push.tolist()))
        while now < time - _SAME:
            until = min(time, self._effects[i + 1]) if i < last else time
            steering, pedal, reverse = self._commands[i]
            before[1] = after[1] = -max(pedal, 0.0) if reverse else max(pedal, 0.0)
            before[2] = after[2] = max(-pedal, 0.0)
            pieces = max(math.ceil((until - now) / MAX_PIECE - 1e-6), 1) if lag or self._learning else 1
            piece = (until - now) / pieces
            steps = max(math.ceil(piece / MAX_STEP - 1e-6), 1)
            for _ in range(pieces):
                before[0] = road if lag else steering
                road = after[0] = self._follow(road, steering, piece)
                self._advance(steps, piece / steps)
                for place, push in pushes:
                    x[place] += piece * push
            now, i = until, i + 1
        return x.copy(), self._road(self._acting(time), time)

    def _acting(self, time: float) -> int:
        """Returns the index of the command that acts at `time`."""
        return bisect_right(self._effects, time + _SAME) - 1

    def _road(self, i: int, time: float) -> float:
        """Returns the steering at the wheels at a time at which the command i acts."""
        return self._follow(self._roads[i], self._commands[i][0], time - self._effects[i])

    def _follow(self, road: float, steering: float, time: float) -> float:
        return steering + (road - steering) * math.exp(-max(time, 0.0) / self._lag) if self._lag else steering
