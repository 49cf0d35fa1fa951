"""Division of a measured drive into stretches for the estimation of friction. Independent of ROS."""

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence

import numpy as np

from lfdm_ros.bounds import Refusals, Refused, require
from lfdm_ros.ground.friction_estimator import LEAD, EstimatorSettings, MeasuredDrive
from lfdm_ros.ground.learned_ground import DriveSegment
from lfdm_ros.sensors.state_gate import StampGate, StampOrder, StateGate
from lfdm_ros.simulation import Actuator
from lfdm_ros.vehicles import Actuators

SAMPLE_NS = 10_000_000  # between two samples, to which states are interpolated
WINDOWS = 5  # of a stretch
_GAP_NS = 100_000_000  # states that are further apart are not joined
_SETTLE_NS = 100_000_000  # by which a command may come later than the states of its time, where commands come
_AWAITED_NS = 3_000_000_000  # the same where they have not come lately: messages of one topic overtake those of another
_PAST_NS = 2_000_000_000  # for which commands are kept: actuators are slow
_SLOWEST = 1.0  # [m/s] below which, or backwards, nothing is estimated


class Segmenter:
    """Division of states and commands, as they come, into stretches of the drive, each given out once it is whole.

    A drive that is interrupted, because states stay out, the clock goes back or the vehicle is put elsewhere, is given out up to there, and
    another one begins. interruptions: counts by kind; place: of the vehicle at the last state [m]; stamp_ns: of that, 0: there was none.
    """

    def __init__(self, refusals: Refusals, actuators: Actuators | None, timeout: float = 0.5,
                 window: float = EstimatorSettings().window) -> None:
        """Begins without a state. actuators: that commands act through; None: they act at once and in full. timeout: age of the last
        command [s] from which on the acting inputs are unknown. window: as `EstimatorSettings` has it [s]."""
        self._refusals, self._actuators, self._timeout_ns = refusals, actuators, round(1e9 * timeout)
        self._window = round(1e9 * window / SAMPLE_NS)
        self._lead = math.ceil(1e9 * LEAD / SAMPLE_NS / self._window) * self._window
        self.interruptions: Counter[str] = Counter()
        self.stamp_ns, self.place = 0, (0.0, 0.0)
        self._commands: deque[tuple[int, Sequence[float]]] = deque()
        self._names: tuple[str, ...] = ()
        self._gate, self._command_gate = StateGate(), StampGate()
        self._begin(0)

    @property
    def frame(self) -> str:
        """Frame of the states; empty before the first."""
        return self._gate.frame

    def _begin(self, origin_ns: int) -> None:
        self._origin_ns = origin_ns
        self._states: list[tuple[int, list[float]]] = []
        self._inputs: list[np.ndarray] = []  # at the samples, from number _first on
        self._first = self._given = 0  # samples that were dropped, and that were given out
        self._acting = Actuator.of(self._actuators) if self._actuators is not None else Actuator()
        self._acting.reset(-1e-9 * _PAST_NS)
        self._sent = 0  # commands sent to the actuator

    def command(self, stamp_ns: int, inputs: Sequence[float]) -> list[DriveSegment]:
        """Takes steering, throttle and brake as sent to the vehicle; returns as `state`."""
        try:
            for name, value in zip(("stamp", "steering", "throttle", "brake"), (1e-9 * stamp_ns, *inputs)):
                require(name, value)
            order = self._command_gate.order(stamp_ns)
            if order is StampOrder.REPEATED:
                return []
            if order is StampOrder.LATE:
                raise self._command_gate.too_late(stamp_ns)
        except Refused as error:
            self._refusals.refuse("command", error)
            return []
        if order is StampOrder.SET_BACK:
            self._commands.clear()
            self._sent = 0
        self._command_gate.last_ns = stamp_ns
        self._commands.append((stamp_ns, inputs))
        return self._settled()

    def state(self, stamp_ns: int, frame: str, values: Mapping[str, float]) -> list[DriveSegment]:
        """Takes measured values by the names of the models' states, NaN: not measured; returns the stretches that are whole now."""
        if self._gate.order(stamp_ns) is StampOrder.REPEATED:
            return []
        why = self._gate.validate(stamp_ns, frame, values)
        if why is not None:
            self._refusals.refuse("state", why)
            return []
        whole: list[DriveSegment] = []
        interruption, last_ns = self._gate.interruption(stamp_ns, values), self._gate.last_ns
        gap = last_ns is not None and stamp_ns - last_ns > _GAP_NS
        if gap or interruption is not None:
            whole = self.end()
            self.interruptions["states stayed out" if interruption is None or gap else interruption.kind] += 1
        if not self._states:
            self._begin(stamp_ns)
        self.stamp_ns, self.place = stamp_ns, (values["x"], values["y"])
        self._gate.admit(stamp_ns, frame, dict(values))
        self._names = self._names or tuple(values)
        self._states.append((stamp_ns, [values.get(name, math.nan) for name in self._names]))
        return [*whole, *self._settled()]

    def end(self) -> list[DriveSegment]:
        """Ends the drive for now; returns the rest of it."""
        last_ns = self._gate.last_ns
        self._gate.forget()
        left = [] if last_ns is None else self._whole((last_ns - self._origin_ns) // SAMPLE_NS, 1)
        self._states = []
        return left

    def _settled(self) -> list[DriveSegment]:
        """Returns the stretches for which no command can come any more."""
        last_ns = self._gate.last_ns
        if last_ns is None:
            return []
        newest_ns = self._commands[-1][0] if self._commands else -_AWAITED_NS
        until_ns = last_ns - _SETTLE_NS
        if newest_ns < until_ns:
            until_ns = max(newest_ns, last_ns - _AWAITED_NS)
        return self._whole((until_ns - self._origin_ns) // SAMPLE_NS, WINDOWS)

    def _whole(self, reached: int, least: int) -> list[DriveSegment]:
        """Returns stretches of at least `least` windows, up to sample number `reached`."""
        found = []
        while reached - self._given >= least * self._window:
            count = min((reached - self._given) // self._window, WINDOWS) * self._window
            stretch = self._stretch(max(self._given - self._lead, 0), self._given, self._given + count)
            self._given += count
            if stretch is not None:
                found.append(stretch)
        return found

    def _stretch(self, first: int, since: int, end: int) -> DriveSegment | None:
        """Returns samples number `first` ... `end`; None: nothing can be estimated from number `since` on."""
        numbers = np.arange(first, end + 1)
        table = np.array([row for _, row in self._states])
        yaw = self._names.index("yaw")
        table[:, yaw] = np.unwrap(table[:, yaw])
        # Relative to the begin: a double does not resolve a stamp in nanoseconds.
        at, stamps = 1e-9 * SAMPLE_NS * numbers, 1e-9 * np.array([stamp_ns - self._origin_ns for stamp_ns, _ in self._states])
        states = {name: np.interp(at, stamps, column) for name, column in zip(self._names, table.T)}
        inputs = self._inputs_to(first, end)
        inputs[(states["vx"] < _SLOWEST) | (inputs[:, 1] < 0.0)] = math.nan
        self._drop(max(since - self._lead, 0))
        steady = np.isfinite(inputs[since - first:]).all(axis=1)
        if not any(steady[k:k + self._window + 1].all() for k in range(0, len(steady) - 1, self._window)):
            return None
        return DriveSegment(MeasuredDrive(at - at[0], inputs, states), float(at[since - first] - at[0]))

    def _inputs_to(self, first: int, end: int) -> np.ndarray:
        """Returns the acting inputs at samples number `first` ... `end` (., 3); NaN: unknown."""
        while self._first + len(self._inputs) <= end:
            time_ns = self._origin_ns + (self._first + len(self._inputs)) * SAMPLE_NS
            while self._sent < len(self._commands) and self._commands[self._sent][0] <= time_ns:
                stamp_ns, inputs = self._commands[self._sent]
                self._acting.send(max(1e-9 * (stamp_ns - self._origin_ns), -1e-9 * _PAST_NS), inputs)
                self._sent += 1
            acting = self._acting.advance(1e-9 * (time_ns - self._origin_ns))
            newest_ns = self._commands[self._sent - 1][0] if self._sent else None
            valid = newest_ns is not None and time_ns - newest_ns <= self._timeout_ns
            self._inputs.append(acting if valid else np.full(3, math.nan))
        return np.array(self._inputs[first - self._first:end + 1 - self._first])

    def _drop(self, before: int) -> None:
        """Discards data that no stretch from sample number `before` on needs."""
        del self._inputs[:max(before - self._first, 0)]
        self._first = max(before, self._first)
        oldest_ns = self._origin_ns + before * SAMPLE_NS
        retained = next((i for i, (stamp_ns, _) in enumerate(self._states) if stamp_ns > oldest_ns), len(self._states))
        del self._states[:max(retained - 1, 0)]
        while len(self._commands) > 1 and self._sent > 1 and self._commands[0][0] < oldest_ns - _PAST_NS:
            self._commands.popleft()
            self._sent -= 1
