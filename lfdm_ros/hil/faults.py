"""Fault injection: kinds, schedules and effects of faults. Simulated time and a seed make a lockstep run reproducible."""

import math
import os
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lfdm_ros import documents
from lfdm_ros.errors import InputError, prefixing, quote, suggest
from lfdm_ros.hil.link import COMMANDS, SIGNALS, WHEEL_SPEEDS, unit_of

ALL = "all"
GROUPS: Mapping[str, tuple[str, ...]] = {"wheel_speeds": WHEEL_SPEEDS, "signals": SIGNALS, "commands": COMMANDS, ALL: (*SIGNALS, *COMMANDS)}


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault. value: unit of its size, "signal", "s" or empty; usual: default size, NaN: required.

    only: affected signals; empty: every one.
    """

    name: str
    about: str
    value: str = ""
    usual: float = math.nan
    only: tuple[str, ...] = ()
    share: float = 1.0


KINDS: Mapping[str, FaultKind] = {kind.name: kind for kind in (
    FaultKind("freeze", "the signal keeps its value at the start of the fault"),
    FaultKind("drop", "its message is lost"),
    FaultKind("delay", "the signal is delayed by the value; until then it keeps its value at the start", "s", 0.1),
    FaultKind("bias", "the value is added to the signal", "signal"),
    FaultKind("spike", "the value is added to the signal at random ticks", "signal", share=0.05),
    FaultKind("nan", "the signal is not available: NaN"),
    FaultKind("bit_error", "one bit of its message is flipped on the wire"),
    FaultKind("stuck", "the actuator stays at its position at the start of the fault", only=COMMANDS),
    FaultKind("clock_step", "the local clock jumps by the value, and back: stamps, or alive counters without them", "s", 0.2, only=(ALL,)),
    FaultKind("link_loss", "all messages are lost in both directions", only=(ALL,)))}


@dataclass(frozen=True)
class Fault:
    """One fault of a signal or a group of them between two simulated times [s]. value: its size; share: of affected ticks or messages.
    Raises InputError: no such kind or signal, or numbers out of range."""

    kind: str
    signal: str = ALL
    start: float = 0.0
    end: float = math.inf
    value: float = 0.0
    share: float = 0.0

    def __post_init__(self) -> None:
        kind = KINDS.get(self.kind)
        if kind is None:
            raise InputError(f"fault {quote(self.kind)} is unknown{suggest(self.kind, KINDS, 'there are: ')}")
        if self.signal not in GROUPS and self.signal not in GROUPS[ALL]:
            raise InputError(f"fault {self.kind}: signal {quote(self.signal)} is unknown"
                             f"{suggest(self.signal, (*GROUPS[ALL], *GROUPS), 'there are: ')}")
        if kind.only and not set(self.signals) <= {*kind.only, *(GROUPS[ALL] if ALL in kind.only and self.signal == ALL else ())}:
            raise InputError(f"fault {self.kind}: of {quote(self.signal)} there is none, but of: {', '.join(kind.only)}")
        for name, value in (("value", self.value), ("start", self.start), ("share", self.share)):
            if not math.isfinite(value):
                raise InputError(f"fault {self.kind}: {name} is {value}; give a finite number")
        if self.start < 0.0 or not self.end > self.start:
            raise InputError(f"fault {self.kind}: from {self.start:g} s until {self.end:g} s; let it end after it begins")
        if not 0.0 <= self.share <= 1.0:
            raise InputError(f"fault {self.kind}: share is {self.share:g}; give more than 0, to 1")
        if self.value == 0.0 and kind.value:
            if math.isnan(kind.usual):
                raise InputError(f"fault {self.kind}: give its value, in the unit of {self.signal}")
            object.__setattr__(self, "value", kind.usual)
        if kind.value == "s" and self.kind == "delay" and self.value < 0.0:
            raise InputError(f"fault delay: value is {self.value:g} s; give more than 0")
        if self.share == 0.0:
            object.__setattr__(self, "share", kind.share)

    @property
    def signals(self) -> tuple[str, ...]:
        return GROUPS.get(self.signal, (self.signal,))

    def __str__(self) -> str:
        kind = KINDS[self.kind]
        unit = {"s": "s", "signal": unit_of(self.signals[0])}.get(kind.value, "")
        size = f" {self.value:g}{f' {unit}' if unit not in ('', '1') else ''}" if kind.value else ""
        return f"{self.kind} {self.signal}{size}{f', {self.share:g} of all' if self.share < 1.0 else ''}"


def load_faults(source: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[tuple[Fault, ...], int]:
    """Reads a schedule and its seed, from a file or its content.

        seed: 1
        faults:
          - {fault: bias, signal: yaw_rate, value: 0.1, from: 5.0, until: 6.0}   # s of simulated time
          - {fault: link_loss, from: 8.0, until: 8.5}

    Raises:
        InputError: names file and key.
    """
    data, where = documents.of_config("hil", source, "faults")
    data = documents.mapping(data, where, optional=("description", "seed", "faults"))
    seed = documents.integer(data.get("seed", 1), f"{where}: seed", 0)
    rows = documents.entries(data.get("faults") or [], f"{where}: faults", "{fault, from, until, signal, value}")
    return tuple(_fault(row, here) for here, row in rows), seed


def _fault(row: Any, where: str) -> Fault:
    row = documents.mapping(row, where, ("fault", "from"), ("signal", "until", "value", "share"))
    kind, signal = documents.text(row["fault"], f"{where}: fault"), documents.text(row.get("signal", ALL), f"{where}: signal")
    numbers = {name: documents.number(row[key], f"{where}: {key}")
               for key, name in (("from", "start"), ("until", "end"), ("value", "value"), ("share", "share")) if key in row}
    with prefixing(where):
        return Fault(kind, signal, **numbers)


class _Running:
    """State of one active fault."""

    def __init__(self, fault: Fault, seed: int, number: int) -> None:
        self.fault = fault
        self.random = np.random.default_rng([seed, number])
        self.frozen: dict[str, float] = {}
        self.delayed: dict[str, deque[tuple[float, float]]] = {}

    def hits(self) -> bool:
        return self.fault.share >= 1.0 or self.random.random() < self.fault.share


class Injector:
    """Injector of the faults that are `active` at the time of the last `at`."""

    def __init__(self, schedule: Iterable[Fault] = (), seed: int = 1) -> None:
        self._seed, self._fault_count = seed, 0
        self._planned: list[_Running] = []
        for fault in schedule:
            self._plan(fault)
        self._acting: list[_Running] = []
        self.active: tuple[Fault, ...] = ()
        self._time = 0.0

    def _plan(self, fault: Fault) -> None:
        self._planned.append(_Running(fault, self._seed, self._fault_count))
        self._fault_count += 1

    def add(self, fault: Fault) -> None:
        """Adds a fault to the schedule; thread-safe, as lists are replaced whole."""
        planned = list(self._planned)
        self._planned = planned
        self._plan(fault)

    def clear(self, signal: str = "") -> int:
        """Ends the faults of this signal or group, or all without one; returns their number."""
        remaining = [running for running in self._planned if signal and running.fault.signal != signal]
        ended = len(self._planned) - len(remaining)
        self._planned = remaining
        return ended

    def at(self, time: float) -> bool:
        """Advances to a simulated time [s]; returns True if the active faults change."""
        self._time = time
        planned = self._planned
        if not planned and not self._acting:
            return False
        self._acting = [running for running in planned if running.fault.start <= time + 1e-9 and time + 1e-9 < running.fault.end]
        active = tuple(running.fault for running in self._acting)
        changed = active != self.active
        self.active = active
        return changed

    def values(self, values: Mapping[str, float]) -> Mapping[str, float]:
        """Applies the faults to signals or commands; returns the same mapping without active faults."""
        acting = [running for running in self._acting if running.fault.kind in _EFFECTS]
        if not acting:
            return values
        changed = dict(values)
        for running in acting:
            for name in running.fault.signals:
                if name in changed:
                    changed[name] = _EFFECTS[running.fault.kind](running, name, changed[name], self._time)
        return changed

    def actuators(self, inputs: np.ndarray) -> np.ndarray:
        """Returns the vehicle's inputs (3,) from those of its actuators; the same array if none is stuck."""
        for running in self._acting:
            if running.fault.kind == "stuck":
                inputs = inputs.copy()
                for i, name in enumerate(COMMANDS):
                    if name in running.fault.signals:
                        inputs[i] = running.frozen.setdefault(name, float(inputs[i]))
        return inputs

    def tamper(self, names: tuple[str, ...], data: bytearray) -> bool:
        """Applies faults to a message on the wire, given its signals: may change its bytes; returns False for a lost message."""
        for running in self._acting:
            fault = running.fault
            if fault.kind == "link_loss":
                return False
            if fault.kind in ("drop", "bit_error") and not set(names).isdisjoint(fault.signals) and running.hits():
                if fault.kind == "drop":
                    return False
                bit = int(running.random.integers(8 * len(data)))
                data[bit // 8] ^= 1 << bit % 8
        return True

    @property
    def clock(self) -> float:
        """Error of the local clock, positive ahead [s]."""
        return sum(running.fault.value for running in self._acting if running.fault.kind == "clock_step")


def _delayed(running: _Running, name: str, value: float, time: float) -> float:
    line = running.delayed.setdefault(name, deque())
    line.append((time + running.fault.value, value))
    delayed = running.frozen.setdefault(name, value)
    while line and line[0][0] <= time + 1e-9:
        delayed = line.popleft()[1]
    running.frozen[name] = delayed
    return delayed


# Faulty value by kind, from the active fault, the signal's name, its value and the time [s].
_EFFECTS = {
    "freeze": lambda running, name, value, time: running.frozen.setdefault(name, value),
    "delay": _delayed,
    "bias": lambda running, name, value, time: value + running.fault.value,
    "spike": lambda running, name, value, time: value + running.fault.value if running.hits() else value,
    "nan": lambda running, name, value, time: math.nan if running.hits() else value,
}
