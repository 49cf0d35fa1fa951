"""Hands and feet of an operator: dynamics between decision and command."""

import math
from collections import deque

import numpy as np

from lfdm_ros.teleop.operator_settings import NOISE, SINES, OperatorSettings, Person

# The remnant published with the driver model, road-wheel angle [rad]: .125 [.01 sin(2 pi .13 t + 1.137) + .005 sin(2 pi .47 t + .875)].
SINE_PAIR = ((0.125 * 0.01, 0.13), (0.125 * 0.005, 0.47))  # amplitude [rad], frequency [Hz]
REMNANT_RMS = math.sqrt(sum(0.5 * amplitude**2 for amplitude, _ in SINE_PAIR))  # [rad]


class Neuromuscular:
    """Arms and steering wheel: second-order lag x'' = w^2 (u - x) - 2 z w x', integrated exactly for a piecewise constant input.

    Hess & Modjtahedzadeh 1990, A control theoretic model of driver steering behavior, IEEE Control Systems Magazine 10(5), have
    w = 10 rad/s, z = 0.707.
    """

    def __init__(self, frequency: float, damping: float) -> None:
        """Makes the lag; frequency [rad/s]; damping ratio, above 0 and at most 1."""
        self._w, self._z = frequency, damping
        self.position, self._rate = 0.0, 0.0

    def advance(self, span: float, target: float) -> float:
        """Returns the position of the hands after a span [s] towards the target."""
        w, z = self._w, self._z
        ringing = w * math.sqrt(1.0 - z * z)
        decay = math.exp(-z * w * span)
        c = decay * math.cos(ringing * span)
        s = decay * (math.sin(ringing * span) / ringing if ringing > 1e-9 * w else span)
        off, rate = self.position - target, self._rate
        self.position = target + (c + z * w * s) * off + s * rate
        self._rate = -w * w * s * off + (c - z * w * s) * rate
        return self.position


class Foot:
    """One foot on two pedals, one value: throttle above 0, brake below; with a rate limit and a change-over time."""

    def __init__(self, rate: float, change: float) -> None:
        """Makes the foot; rate [1/s]; change: time between the pedals [s]."""
        self._rate, self._change = rate, change
        self.position = 0.0
        self._on = 0.0  # current or last pedal: 1, -1; 0: none yet
        self._between = 0.0  # [s] left of the change-over

    def advance(self, span: float, target: float) -> float:
        """Returns the pedals after a span [s] towards the target."""
        while span > 1e-12:
            side = math.copysign(1.0, target) if target else self._on
            if side != self._on and self.position:  # lift first
                span -= self._move(span, 0.0)
            elif side != self._on and self._on:
                self._between, self._on = self._change, side
            elif self._between > 0.0:
                waited = min(self._between, span)
                self._between, span = self._between - waited, span - waited
            else:
                self._on = side
                self._move(span, target)
                break
        return self.position

    def _move(self, span: float, target: float) -> float:
        """Moves for at most a span [s]; returns the time used [s]."""
        away = target - self.position
        taken = abs(away) / self._rate
        if taken <= span:
            self.position = target
            return taken
        self.position += math.copysign(self._rate * span, away)
        return span


class Sines:
    """The published pair of sines, added to the decided road-wheel angle [rad]; times grow from call to call."""

    def __init__(self, scale: float, phases: tuple[float, float]) -> None:
        self._scale, self._phases = scale, phases

    def advance(self, time: float) -> float:
        return self._scale * sum(amplitude * math.sin(2.0 * math.pi * frequency * time + phase)
                                 for (amplitude, frequency), phase in zip(SINE_PAIR, self._phases))


class RemnantNoise:
    """White noise through a first-order lag (an Ornstein-Uhlenbeck process, sampled exactly), as Levison, Baron & Kleinman 1969, A model
    for human controller remnant, IEEE Trans. Man-Machine Systems 10(4), has it: corner at 3 rad/s; the power is that of the sines."""

    def __init__(self, scale: float, bandwidth: float, random: np.random.Generator) -> None:
        self._sd, self._bandwidth, self._random = scale * REMNANT_RMS, bandwidth, random
        self._value, self._time = self._sd * float(random.standard_normal()), math.nan

    def advance(self, time: float) -> float:
        if time > self._time:
            left = math.exp(-self._bandwidth * (time - self._time))
            self._value = left * self._value + math.sqrt(1.0 - left * left) * self._sd * float(self._random.standard_normal())
        self._time = time
        return self._value


class OperatorBody:
    """Hands and feet: maps decisions at their times to positions at later times."""

    def __init__(self, settings: OperatorSettings, person: Person, random: np.random.Generator) -> None:
        self._arms = Neuromuscular(person.neuromuscular_frequency, settings.neuromuscular_damping)
        self._foot = Foot(settings.pedal_rate, settings.pedal_change)
        self._delay = settings.cognitive_cycle + person.motor_delay
        self._remnant: Sines | RemnantNoise | None = None  # steady hands
        if settings.remnant == SINES:
            self._remnant = Sines(person.remnant_scale, person.phases)
        elif settings.remnant == NOISE:
            self._remnant = RemnantNoise(person.remnant_scale, settings.remnant_bandwidth, random)
        self._decided: deque[tuple[float, float, float]] = deque()  # start time, road-wheel angle, pedal
        self._targets = (0.0, 0.0)
        self._time: float | None = None

    @property
    def target_angle(self) -> float:
        """Target road-wheel angle of the hands [rad]."""
        return self._targets[0]

    def decide(self, time: float, angle: float, pedal: float) -> None:
        """Schedules a decision begun at a time [s] for road-wheel angle [rad] and pedal, after a cognitive cycle and the motor delay."""
        self._decided.append((time + self._delay, angle, pedal))

    def advance(self, time: float) -> tuple[float, float]:
        """Returns road-wheel angle [rad] and pedal at a time [s]; earlier times than the last have no effect."""
        at = time if self._time is None else self._time
        while self._decided and self._decided[0][0] <= time + 1e-9:
            due, angle, pedal = self._decided.popleft()
            self._move(max(due - at, 0.0))
            at, self._targets = max(due, at), (angle, pedal)
        self._move(max(time - at, 0.0))
        self._time = max(time, at)
        remnant = 0.0 if self._remnant is None else self._remnant.advance(self._time)
        return self._arms.position + remnant, self._foot.position

    def _move(self, span: float) -> None:
        self._arms.advance(span, self._targets[0])
        self._foot.advance(span, self._targets[1])
