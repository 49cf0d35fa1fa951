"""Loops of the kernels: steps within the interval between two samples, intervals within a trajectory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lfdm_ros.backends.steps import Step
from lfdm_ros.compiler import Code


@dataclass(frozen=True)
class Slot:
    """Value carried from step to step: a state, its tangents, or the wheels' values of one state.

    type: LLVM type; before, after: nodes before and after the step, None: 0 after; lanes: scalar nodes of a vector before the step.
    """

    type: str
    before: int
    after: int | None
    lanes: tuple[int, ...] = ()


class Carried:
    """Values of the slots over all steps, in memory."""

    def __init__(self, code: Code, slots: Sequence[Slot]):
        self._code, self._slots = code, list(slots)
        types = [slot.type for slot in slots]
        memory = {type_: code.variables(type_, types.count(type_)) for type_ in dict.fromkeys(types)}
        self._places = [(memory[type_], types[:k].count(type_), type_) for k, type_ in enumerate(types)]

    def set(self, k: int, register: str) -> None:
        """Sets the value of slot k."""
        self._code.store(register, *self._places[k])

    def get(self, k: int) -> str:
        """Returns the value of slot k."""
        return self._code.load(*self._places[k])

    def bind(self) -> None:
        """Binds the nodes before a step to the slots' values."""
        for k, slot in enumerate(self._slots):
            register = self.get(k)
            self._code.bind(slot.before, register)
            for lane, node in enumerate(slot.lanes):
                self._code.bind(node, self._code.lane(register, lane))

    def update(self) -> None:
        """Stores the results of the step."""
        for k, slot in enumerate(self._slots):
            self.set(k, "zeroinitializer" if slot.after is None else self._code.get(slot.after))


@dataclass(frozen=True)
class Linear:
    """Nodes of an LLVM type that are linear over an interval: one for each of `before` (registers) at each of `times` (fractions of a
    step), in this order; `rises`: changes per step."""

    nodes: Sequence[int]
    times: Sequence[float]
    before: Sequence[str]
    rises: Sequence[str]
    type: str

    @classmethod
    def between(cls, code: Code, nodes: Sequence[int], times: Sequence[float], before: Sequence[str], after: Sequence[str], rise: str,
                type_: str = "") -> Linear:
        """Interpolates from `before` to `after`; `rise` (of the type): step over the time between them, 0 for constant values."""
        type_ = type_ or code.value
        rises = [code.arithmetic("fmul", rise, code.arithmetic("fsub", b, a, type_), type_) for a, b in zip(before, after)]
        return cls(nodes, times, before, rises, type_)

    def bind(self, code: Code, number: str) -> None:
        """Binds the nodes to their values in step `number` (i64) of the interval."""
        count = code.new(f"uitofp i64 {number} to {code.real}")
        following = iter(self.nodes)
        for share in self.times:
            time = code.repeated(code.arithmetic("fadd", count, code.number(share), code.real), self.type)
            for start, rise in zip(self.before, self.rises):
                code.bind(next(following), code.arithmetic("fadd", start, code.arithmetic("fmul", time, rise, self.type), self.type))


def interval(code: Code, carried: Carried, moving: Sequence[Linear], nodes: Iterable[int], steps: str) -> None:
    """Emits `steps` (i64) steps; `nodes`: those that change from step to step, in order."""
    with code.loop("0", steps) as number:
        carried.bind()
        for linear in moving:
            linear.bind(code, number)
        code.emit(nodes)
        carried.update()


def trajectory(code: Code, step: Step, carried: Carried, nodes: Sequence[int], prescribed: Sequence[int], read: Callable[[str], list[str]],
               rise: str, keep: Callable[[str, Sequence[str]], None],
               more: Callable[[str, str], Sequence[Linear]] | None = None) -> None:
    """Emits `%samples` samples with `%substeps` steps between two of them.

    Args:
        prescribed: states that do not follow the equations, linear between samples also with constant inputs.
        read: returns registers of the driver's inputs and of the prescribed states at a sample (i64).
        rise: step over the time between samples, 0 for constant inputs of the driver.
        keep: stores a sample from the slots and the registers of the prescribed states.
        more: returns further linear nodes between two samples.
    """
    xs, us = step.graph.inputs[:2]
    count = len(us) // len(step.times)
    share = ""
    if prescribed:
        share = code.repeated(code.arithmetic("fdiv", code.number(1.0), code.new(f"uitofp i64 %substeps to {code.real}"), code.real),
                              code.value)
    keep("0", read("0")[count:] if prescribed else [])
    with code.when(code.new("icmp sgt i64 %samples, 1")), code.loop("1", "%samples") as sample:
        last = code.integer("sub", sample, 1)
        before, after = read(last), read(sample)
        moving = [Linear.between(code, us, step.times, before[:count], after[:count], rise)]
        if prescribed:
            moving.append(Linear.between(code, [xs[i] for i in prescribed], (0.0,), before[count:], after[count:], share))
        interval(code, carried, [*moving, *(more(last, sample) if more else ())], nodes, "%substeps")
        keep(sample, after[count:])
