"""Packs equal operations of the wheels into vectors, computed once instead of four times in a vehicle's step.

LLVM searches for such groups as well, but its result varies with every small change of a model. Here they are found backwards from the
states of the wheels: nodes with the same operation become one node of kind PACK, as long as their arguments allow it.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from lfdm_ros.compiler.graph import COMMUTE, PACK, PACK_TRUTH, TABLE, TRUTH, VALUE, Graph

# Operations worth a vector if there is one per wheel.
_EXPENSIVE = ("tanh", "exp", "log", "sin", "cos", "sqrt", "div", "inv")
# Depth to which two expressions are compared.
_DEPTH = 4


def _bit(i: int) -> np.uint64:
    return np.uint64(1 << i % 64)


class _Plan:
    """Grouping of nodes into vectors. `place` maps a node to its group and the lane in it."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.place: dict[int, tuple[tuple[int, ...], int]] = {}
        self.arguments: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        # Bit j of before[i], in words of 64: node i depends on node j, a group being one node.
        count = len(graph.nodes)
        self._before = np.zeros((count, count // 64 + 1), np.uint64)
        for i, node in enumerate(graph.nodes):
            for a in node.arguments:
                self._before[i] |= self._before[a]
            self._before[i, i // 64] |= _bit(i)

    def grow(self, group: tuple[int, ...]) -> None:
        """Adds a group and, backwards, the arguments that can be packed as well."""
        waiting = [group]
        while waiting:
            group = waiting.pop()
            if self._add(group):
                waiting += self.arguments[group]

    def _add(self, group: tuple[int, ...]) -> bool:
        nodes = [self.graph.nodes[i] for i in group]
        first = nodes[0]
        if (len(set(group)) < len(group) or any(i in self.place for i in group) or first.operation in ("input", "constant")
                or first.kind not in (VALUE, TRUTH)
                or any((n.operation, n.kind, n.payload) != (first.operation, first.kind, first.payload) for n in nodes)):
            return False
        if first.operation == "read" and len({node.arguments[0] for node in nodes}) > 1:
            return False  # of different arrays
        needs = np.bitwise_or.reduce(self._before[[a for node in nodes for a in node.arguments]], axis=0)
        if any(needs[i // 64] & _bit(i) for i in group):
            return False  # one lane depends on another
        for i in group:
            needs[i // 64] |= _bit(i)
        # A node that depends on one of them depends on all and on their arguments: later nodes, except those after a group.
        later = np.flatnonzero(sum(self._before[:, i // 64] & _bit(i) for i in group))
        words = int(np.flatnonzero(needs)[-1]) + 1
        self._before[later, :words] |= needs[:words]
        for lane, i in enumerate(group):
            self.place[i] = group, lane
        self.arguments[group] = list(zip(*(self._ordered(first.arguments, node.arguments, first.operation) for node in nodes)))
        return True

    def _ordered(self, model: tuple[int, ...], arguments: tuple[int, ...], operation: str) -> tuple[int, ...]:
        """Returns the arguments of a commutative operation in the order in which they are most like the model's."""
        if operation not in COMMUTE:
            return arguments
        swapped = arguments[::-1]
        return swapped if self._likeness(model, swapped) > self._likeness(model, arguments) else arguments

    def _likeness(self, some: tuple[int, ...], others: tuple[int, ...], depth: int = _DEPTH) -> int:
        total = 0
        for a, b in zip(some, others):
            x, y = self.graph.nodes[a], self.graph.nodes[b]
            if a == b:
                total += 2 + depth
            elif x.operation == y.operation and (x.operation != "input" or x.payload[0] == y.payload[0]):  # type: ignore[index]
                total += 1 + (self._likeness(x.arguments, y.arguments, depth - 1) if depth else 0)
        return total

    def shape(self, i: int, depth: int = _DEPTH) -> str:
        """Operations of an expression down to a depth, the same for wheels that differ in their numbers only."""
        node = self.graph.nodes[i]
        below = [self.shape(a, depth - 1) for a in node.arguments] if depth else []
        return f"{node.operation}({','.join(sorted(below) if node.operation in COMMUTE else below)})"


def packed(graph: Graph, groups: Sequence[Sequence[int]], changing: Sequence[bool]) -> Graph:
    """Returns the same function with vectors. groups: nodes of the wheels, each with one node per lane; changing: for each node True if it
    is computed in every step; the others are not worth a vector."""
    if not groups:
        return graph
    lanes, plan = len(groups[0]), _Plan(graph)
    for group in groups:
        plan.grow(tuple(group))
    alike = defaultdict(list)
    for i in graph.reachable(node for nodes in graph.outputs for node in nodes):
        if changing[i] and i not in plan.place and graph.nodes[i].operation in _EXPENSIVE:
            alike[plan.shape(i)].append(i)
    for found in alike.values():
        if len(found) == lanes:
            plan.grow(tuple(found))
    return _rewritten(graph, plan)


def gathered(graph: Graph, nodes: Sequence[int]) -> int:
    """Returns the vector of some nodes of kind VALUE or TRUTH."""
    kind = PACK_TRUTH if graph.nodes[nodes[0]].kind == TRUTH else PACK
    return graph.add("gather", *nodes, kind=kind)


def _rewritten(graph: Graph, plan: _Plan) -> Graph:
    new = Graph()
    single: dict[int, int] = {}
    vector: dict[tuple[int, ...], int] = {}

    def needs(item: int | tuple[int, ...]) -> list[int | tuple[int, ...]]:
        """Returns the nodes required before a node or a vector."""
        if isinstance(item, int):
            return [plan.place[item][0]] if item in plan.place else list(graph.nodes[item].arguments)
        if item in plan.arguments:
            return [a[0] if len(set(a)) == 1 and (graph.nodes[a[0]].operation == "constant" or graph.nodes[a[0]].kind == TABLE) else a
                    for a in plan.arguments[item]]
        return list(item)

    def make(item: int | tuple[int, ...]) -> None:
        if isinstance(item, int):
            node = graph.nodes[item]
            if item in plan.place:
                group, lane = plan.place[item]
                single[item] = new.add("lane", vector[group], kind=node.kind, payload=float(lane))
            else:
                single[item] = new.add(node.operation, *(single[a] for a in node.arguments), kind=node.kind, payload=node.payload)
        elif item in plan.arguments:
            node = graph.nodes[item[0]]
            arguments = [single[a] if isinstance(a, int) else vector[a] for a in needs(item)]
            vector[item] = new.add(node.operation, *arguments, kind=PACK_TRUTH if node.kind == TRUTH else PACK, payload=node.payload)
        else:
            vector[item] = gathered(new, [single[i] for i in item])

    def demand(end: int) -> int:
        waiting: list[int | tuple[int, ...]] = [end]
        while waiting:
            item = waiting[-1]
            missing = [n for n in needs(item) if n not in (single if isinstance(n, int) else vector)]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if item not in (single if isinstance(item, int) else vector):
                make(item)
        return single[end]

    new.inputs = [[demand(i) for i in nodes] for nodes in graph.inputs]
    new.outputs = [[demand(i) for i in nodes] for nodes in graph.outputs]
    return new
