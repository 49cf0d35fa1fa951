"""Jumps over nodes needed only on one side of a condition, if no lane takes that side.

A tyre's curve past its peak, dry friction at walking pace: most steps need none of it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lfdm_ros.compiler.graph import Graph

# Rough times of operations in additions; a side is jumped over if it costs as much as a wrong guess of the processor.
_WEIGHTS = {"div": 5, "inv": 5, "sqrt": 6, "sin": 30, "cos": 20, "tan": 35, "tanh": 30, "exp": 20, "log": 25, "read": 4}
_WORTH = 20

CHOICES = ("select", "if_else_zero")


@dataclass(frozen=True)
class Jump:
    """Choices on one condition; regions[0] are the nodes needed only if it holds, regions[1] only if not; `needs` the inputs of both from
    outside."""

    condition: int
    choices: tuple[int, ...]
    regions: tuple[tuple[int, ...], tuple[int, ...]]
    needs: tuple[int, ...]


def jumps(graph: Graph, candidates: Sequence[int], users: Mapping[int, set[int]]) -> list[Jump]:
    """Returns the profitable jumps among `candidates`, without overlaps; jumps inside a region are left to the code of that region.

    `users` are all users of each node; a missing node is used elsewhere.
    """
    order = sorted(candidates)
    planner = _Planner(graph, order, users)
    alike: dict[int, list[int]] = defaultdict(list)
    for i in order:
        if graph.nodes[i].operation in CHOICES:
            alike[graph.nodes[i].arguments[0]].append(i)
    found = []
    for condition, choices in sorted(alike.items(), key=lambda item: -item[1][-1]):
        left = [i for i in choices if i not in planner.taken]
        # All together; if they depend on each other, in independent groups; else one by one.
        jump = planner.plan(condition, left)
        for group in [] if jump else planner.apart(left):
            together = planner.plan(condition, group)
            found += [c for c in ([together] if together or len(group) < 2 else [planner.plan(condition, [i]) for i in group]) if c]
        found += [jump] if jump else []
    return found


class _Planner:
    def __init__(self, graph: Graph, order: Sequence[int], users: Mapping[int, set[int]]):
        self._graph, self._users, self._order = graph, users, order
        # Bit k of before[i]: node i depends on the k-th node; all choices of a jump depend on the inputs of its regions.
        self._place = {i: k for k, i in enumerate(order)}
        self._before: dict[int, int] = {}
        for i in order:
            bits = 1 << self._place[i]
            for a in graph.nodes[i].arguments:
                bits |= self._before.get(a, 0)
            self._before[i] = bits
        self.taken: set[int] = set()
        self._jumping: set[int] = set()

    def plan(self, condition: int, choices: Sequence[int]) -> Jump | None:
        """Returns a jump for choices on one condition, or None if it is not profitable or they depend on each other."""
        if not choices or any(i in self.taken or i in self._jumping for i in choices):
            return None
        regions = [self._region(choices, side) for side in (1, 2)]
        costs = [sum(_WEIGHTS.get(self._graph.nodes[i].operation, 1) for i in region) for region in regions]
        regions = [region if cost >= _WORTH else set() for region, cost in zip(regions, costs)]
        inside = regions[0] | regions[1]
        if not inside:
            return None
        outside = {a for i in inside for a in self._graph.nodes[i].arguments if a not in inside} | {condition}
        bits, places = 0, 0
        for i in outside:
            bits |= self._before.get(i, 0)
        for i in choices:
            places |= 1 << self._place[i]
        if bits & places:
            return None
        for i in self._order:
            if self._before[i] & places:
                self._before[i] |= bits
        self.taken |= inside
        self._jumping.update(choices)
        needs = tuple(i for i in self._order if bits >> self._place[i] & 1)
        return Jump(condition, tuple(choices), (tuple(sorted(regions[0])), tuple(sorted(regions[1]))), needs)

    def apart(self, choices: Sequence[int]) -> list[list[int]]:
        """Returns the same choices in groups, each of which waits for those before it and not for its own."""
        groups: dict[int, list[int]] = defaultdict(list)
        levels: dict[int, int] = {}
        for i in choices:
            levels[i] = 1 + max((level for j, level in levels.items() if self._before[i] >> self._place[j] & 1), default=-1)
            groups[levels[i]].append(i)
        return [groups[level] for level in sorted(groups)]

    def _region(self, choices: Sequence[int], side: int) -> set[int]:
        nodes, region = self._graph.nodes, set[int]()
        # Nodes that a choice needs on this side only.
        starts = {i: nodes[i].arguments[side] for i in choices if side < len(nodes[i].arguments)
                  and nodes[i].arguments.count(nodes[i].arguments[side]) == 1}
        waiting = list(starts.values())
        while waiting:
            j = waiting.pop()
            if j in region or j not in self._place or j in self.taken or j in self._jumping or nodes[j].operation in ("input", "constant"):
                continue
            if all(user in region or starts.get(user) == j for user in self._users.get(j, {-1})):
                region.add(j)
                waiting += nodes[j].arguments
        return region
