"""The operations of a CasADi function as a graph of single assignments, and its forward derivative.

CasADi lists an SX function as instructions on a reused work vector. Here every value gets a node of its own, equal values get
the same node, and `Tangents` writes the derivative as further nodes of the same graph. A tangent is a node of kind TANGENT: the
code generator makes it a SIMD vector with one lane a direction, so that one instruction serves all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import casadi as ca

VALUE, TRUTH, TANGENT = "value", "truth", "tangent"
# Vectors with one lane a wheel (`packing`).
PACK, PACK_TRUTH = "pack", "pack_truth"

# CasADi's operations by our name; the number of arguments is that of the operation.
_ARITY = {
    "add": 2, "sub": 2, "mul": 2, "div": 2, "fmin": 2, "fmax": 2, "pow": 2, "constpow": 2, "atan2": 2, "copysign": 2, "hypot": 2,
    "lt": 2, "le": 2, "eq": 2, "ne": 2, "and": 2, "or": 2, "if_else_zero": 2,
    "assign": 1, "neg": 1, "sq": 1, "twice": 1, "inv": 1, "sqrt": 1, "fabs": 1, "sign": 1, "floor": 1, "ceil": 1, "not": 1,
    "sin": 1, "cos": 1, "tan": 1, "asin": 1, "acos": 1, "atan": 1, "sinh": 1, "cosh": 1, "tanh": 1, "exp": 1, "log": 1,
    "expm1": 1, "log1p": 1,
}
_NAMES = {getattr(ca, f"OP_{name.upper()}"): name for name in _ARITY}
_TRUTHS = {"lt", "le", "eq", "ne", "and", "or", "not"}
COMMUTE = {"add", "mul", "eq", "ne", "and", "or", "hypot"}


@dataclass(frozen=True)
class Node:
    """One value: `operation` on earlier nodes; `payload` is the number of a constant, or the (argument, element) of an input."""

    operation: str
    arguments: tuple[int, ...]
    kind: str
    payload: float | tuple[int, int] | None = None


class Graph:
    """Nodes in an order in which each follows its arguments; inputs[i][j] and outputs[i][j] are element j of argument or result i."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._known: dict[Node, int] = {}
        self.inputs: list[list[int]] = []
        self.outputs: list[list[int]] = []

    def add(self, operation: str, *arguments: int, kind: str = "", payload: float | tuple[int, int] | None = None) -> int:
        """The node of an operation, a new one only where there is none yet."""
        if operation in COMMUTE:
            arguments = tuple(sorted(arguments))
        if not kind:
            kinds = {self.nodes[a].kind for a in arguments}
            kind = TANGENT if TANGENT in kinds else TRUTH if operation in _TRUTHS else VALUE
        node = Node(operation, arguments, kind, payload)
        if node not in self._known:
            self._known[node] = len(self.nodes)
            self.nodes.append(node)
        return self._known[node]

    def constant(self, number: float) -> int:
        return self.add("constant", kind=VALUE, payload=float(number))

    def input(self, argument: int, element: int, kind: str = VALUE) -> int:
        return self.add("input", kind=kind, payload=(argument, element))

    def reachable(self, ends: Iterable[int]) -> list[int]:
        """The nodes that `ends` need, themselves included, in order."""
        wanted = set(ends)
        for i in range(max(wanted, default=-1), -1, -1):
            if i in wanted:
                wanted.update(self.nodes[i].arguments)
        return sorted(wanted)

    def depends(self, seeds: Iterable[int]) -> list[bool]:
        """For each node, whether it changes with one of the seeds."""
        chosen = set(seeds)
        found = [False] * len(self.nodes)
        for i, node in enumerate(self.nodes):
            found[i] = i in chosen or any(found[a] for a in node.arguments)
        return found


def graph_of(function: ca.Function) -> Graph:
    """The graph of an SX function with dense arguments; outputs[i] are the stored elements of result i.

    Raises:
        NotImplementedError: an operation that no model has needed yet.
    """
    graph = Graph()
    graph.inputs = [[graph.input(i, j) for j in range(function.nnz_in(i))] for i in range(function.n_in())]
    zero = graph.constant(0.0)
    graph.outputs = [[zero] * function.nnz_out(i) for i in range(function.n_out())]
    work: dict[int, int] = {}
    for k in range(function.n_instructions()):
        code = function.instruction_id(k)
        if code == ca.OP_CONST:
            work[function.instruction_output(k)[0]] = graph.constant(function.instruction_constant(k))
        elif code == ca.OP_INPUT:
            i, j = function.instruction_input(k)
            work[function.instruction_output(k)[0]] = graph.inputs[i][j]
        elif code == ca.OP_OUTPUT:
            i, j = function.instruction_output(k)
            graph.outputs[i][j] = work[function.instruction_input(k)[0]]
        elif code in _NAMES:
            name = _NAMES[code]
            arguments = [work[w] for w in function.instruction_input(k)[:_ARITY[name]]]
            work[function.instruction_output(k)[0]] = _simplified(graph, name, arguments)
        else:
            raise NotImplementedError(f"{function.name()}: no code for CasADi operation {code}")
    return graph


def _simplified(graph: Graph, name: str, arguments: Sequence[int]) -> int:
    if name == "assign":
        return arguments[0]
    if name == "add":
        # CasADi writes a choice as (c ? a : 0) + (!c ? b : 0).
        first, second = (graph.nodes[a] for a in arguments)
        if first.operation == second.operation == "if_else_zero":
            opposite = graph.nodes[second.arguments[0]]
            if opposite.operation == "not" and opposite.arguments[0] == first.arguments[0]:
                return graph.add("select", first.arguments[0], first.arguments[1], second.arguments[1])
    return graph.add(name, *arguments)


class Tangents:
    """Forward derivatives of a graph's nodes, written into the same graph.

    A node has no tangent (None) where it does not change with a seeded node. Where a model has a kink the derivative is
    that of the branch that is computed; where both sides of fmin, fmax, fabs meet it is their mean, as in CasADi.
    """

    def __init__(self, graph: Graph, seeds: dict[int, int]):
        """`seeds` maps nodes to the nodes (of kind TANGENT) that are their tangents."""
        self._graph = graph
        self._of: dict[int, int | None] = dict(seeds)

    def of(self, end: int) -> int | None:
        """The tangent of a node."""
        waiting = [end]
        while waiting:
            i = waiting.pop()
            missing = [a for a in self._graph.nodes[i].arguments if a not in self._of]
            if i not in self._of and missing:
                waiting += [i, *missing]
            elif i not in self._of:
                self._of[i] = self._rule(i)
        return self._of[end]

    def _rule(self, i: int) -> int | None:
        graph = self._graph
        operation, arguments = graph.nodes[i].operation, graph.nodes[i].arguments
        tangents = [self._of[a] for a in arguments]
        if all(t is None for t in tangents) or graph.nodes[i].kind == TRUTH:
            return None
        add = graph.add
        if operation in ("add", "sub"):
            a, b = tangents
            if b is None:
                return a
            if a is None:
                return b if operation == "add" else add("neg", b)
            return add(operation, a, b)
        if operation == "neg":
            return self._negative(tangents[0])
        if operation == "div":
            # d(a/b) = (da - (a/b) db) / b
            reciprocal = add("inv", arguments[1])
            return self._times(reciprocal, self._sum(tangents[0], self._negative(self._times(i, tangents[1]))))
        if operation in ("select", "if_else_zero"):
            zero = add("constant", kind=TANGENT, payload=0.0)
            chosen = [zero if t is None else t for t in tangents[1:]]
            if tangents[1:] == [None] * len(chosen):
                return None
            return add(operation, arguments[0], *chosen)
        partials = self._partials(i)
        total: int | None = None
        for partial, tangent in zip(partials, tangents):
            if partial is not None and tangent is not None:
                total = self._sum(total, self._times(partial, tangent))
        return total

    def _partials(self, i: int) -> tuple[int | None, ...]:
        """Derivatives of a node by its arguments, as nodes of kind VALUE; None where it is 0 wherever it exists."""
        add, constant = self._graph.add, self._graph.constant
        operation, arguments = self._graph.nodes[i].operation, self._graph.nodes[i].arguments
        a = arguments[0]
        b = arguments[-1]
        one = constant(1.0)

        def by_one_plus(square_sign: str) -> int:
            return add(square_sign, one, add("sq", i))

        if operation == "mul":
            return b, a
        if operation == "sq":
            return (add("twice", a),)
        if operation == "twice":
            return (constant(2.0),)
        if operation == "inv":
            return (add("neg", add("sq", i)),)
        if operation == "sqrt":
            return (add("div", constant(0.5), i),)
        if operation == "fabs":
            return (add("sign", a),)
        if operation in ("sign", "floor", "ceil"):
            return (None,)
        if operation in ("fmin", "fmax"):
            below, above = (a, b) if operation == "fmin" else (b, a)
            share = add("select", add("lt", below, above), one, add("select", add("lt", above, below), constant(0.0), constant(0.5)))
            return share, add("sub", one, share)
        if operation == "sin":
            return (add("cos", a),)
        if operation == "cos":
            return (add("neg", add("sin", a)),)
        if operation == "tan":
            return (by_one_plus("add"),)
        if operation == "tanh":
            return (by_one_plus("sub"),)
        if operation == "exp":
            return (i,)
        if operation == "expm1":
            return (add("add", i, one),)
        if operation == "log":
            return (add("inv", a),)
        if operation == "log1p":
            return (add("inv", add("add", one, a)),)
        if operation == "atan":
            return (add("inv", add("add", one, add("sq", a))),)
        if operation in ("asin", "acos"):
            slope = add("inv", add("sqrt", add("sub", one, add("sq", a))))
            return (slope if operation == "asin" else add("neg", slope),)
        if operation == "sinh":
            return (add("cosh", a),)
        if operation == "cosh":
            return (add("sinh", a),)
        if operation == "atan2":
            scale = add("inv", add("add", add("sq", a), add("sq", b)))
            return add("mul", b, scale), add("neg", add("mul", a, scale))
        if operation == "hypot":
            return add("div", a, i), add("div", b, i)
        if operation in ("pow", "constpow"):
            by_base = add("mul", b, add("pow", a, add("sub", b, one)))
            return by_base, None if operation == "constpow" else add("mul", add("log", a), i)
        if operation == "copysign":
            return add("mul", add("sign", a), add("copysign", one, b)), None
        raise NotImplementedError(f"the derivative of {operation}")

    def _sum(self, a: int | None, b: int | None) -> int | None:
        if a is None or b is None:
            return b if a is None else a
        nodes = self._graph.nodes
        if nodes[b].operation == "neg":
            return self._graph.add("sub", a, nodes[b].arguments[0])
        return self._graph.add("add", a, b)

    def _times(self, value: int, tangent: int | None) -> int | None:
        return None if tangent is None else self._graph.add("mul", value, tangent)

    def _negative(self, tangent: int | None) -> int | None:
        return None if tangent is None else self._graph.add("neg", tangent)
