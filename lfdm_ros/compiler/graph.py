"""The operations of a CasADi function as a graph of single assignments.

CasADi lists an SX function as instructions on a reused work vector. Here every value gets a node, equal values the same one.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import casadi as ca

from lfdm_ros.compiler.reading import CALLED, WIDTH
from lfdm_ros.errors import InputError

VALUE, TRUTH, TANGENT = "value", "truth", "tangent"
# Vectors with one lane per wheel (`packing`).
PACK, PACK_TRUTH = "pack", "pack_truth"
# Arrays that lie outside (`tables`), which numbers are read of.
TABLE = "table"

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
        self._numbers: dict[Node, int] = {}
        self.inputs: list[list[int]] = []
        self.outputs: list[list[int]] = []

    def add(self, operation: str, *arguments: int, kind: str = "", payload: float | tuple[int, int] | None = None) -> int:
        """Returns the node of an operation, adding it if it is new."""
        if operation in COMMUTE:
            arguments = tuple(sorted(arguments))
        if not kind:
            kinds = {self.nodes[a].kind for a in arguments}
            kind = TANGENT if TANGENT in kinds else TRUTH if operation in _TRUTHS else VALUE
        node = Node(operation, arguments, kind, payload)
        if node not in self._numbers:
            self._numbers[node] = len(self.nodes)
            self.nodes.append(node)
        return self._numbers[node]

    def constant(self, number: float) -> int:
        """Adds a number. Raises InputError: it is NaN, as functions of `math` give for a symbol, which max and min then hide."""
        if math.isnan(number):
            raise InputError("equations: a constant is no number; functions of `math`, float() and numpy make that of a symbol: use the "
                             "operations of m, such as m.sqrt, m.fmax and m.if_else")
        return self.add("constant", kind=VALUE, payload=float(number))

    def input(self, argument: int, element: int, kind: str = VALUE) -> int:
        return self.add("input", kind=kind, payload=(argument, element))

    def reachable(self, ends: Iterable[int], excluded: Collection[int] = ()) -> list[int]:
        """Returns `ends` and the nodes they depend on, in order; without `excluded` and the nodes that only those depend on."""
        needed, excluded = set(ends), frozenset(excluded)
        for i in range(max(needed, default=-1), -1, -1):
            if i in needed and i not in excluded:
                needed.update(self.nodes[i].arguments)
        return sorted(needed.difference(excluded))

    def depends(self, seeds: Iterable[int]) -> list[bool]:
        """Returns for each node True if it depends on a seed."""
        chosen = set(seeds)
        found = [False] * len(self.nodes)
        for i, node in enumerate(self.nodes):
            found[i] = i in chosen or any(found[a] for a in node.arguments)
        return found


def graph_of(function: ca.Function) -> Graph:
    """Returns the graph of an SX function with dense arguments; outputs[i] are the stored elements of result i. Raises NotImplementedError:
    an operation that no model has needed yet."""
    graph = Graph()
    graph.inputs = [[graph.input(i, j) for j in range(function.nnz_in(i))] for i in range(function.n_in())]
    zero = graph.constant(0.0)
    graph.outputs = [[zero] * function.nnz_out(i) for i in range(function.n_out())]
    work: dict[int, int] = {}
    instructions: ca.SX | None = None
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
        elif code == ca.OP_CALL:
            instructions = function.instructions_sx() if instructions is None else instructions
            name, places = instructions[k].which_function().name(), function.instruction_output(k)
            results = _called(graph, name, [work[w] for w in function.instruction_input(k)], len(places))
            work |= {place: result for place, result in zip(places, results) if place >= 0}
        else:
            raise NotImplementedError(f"{function.name()}: no code for CasADi operation {code}")
    return graph


def _called(graph: Graph, name: str, arguments: Sequence[int], results: int) -> list[int]:
    """Returns the results of a call: a row of a table, or its derivatives, which are 0. Raises NotImplementedError: another
    function."""
    if name == CALLED:
        table = graph.add("table", arguments[0], kind=TABLE)
        return [graph.add("read", table, arguments[1], kind=VALUE, payload=float(k)) for k in range(WIDTH)]
    if name.endswith(f"_{CALLED}"):
        return [graph.constant(0.0)] * results
    raise NotImplementedError(f"no code for a call of {name}")


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
