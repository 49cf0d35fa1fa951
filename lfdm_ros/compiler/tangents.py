"""The forward derivative of a graph, as further nodes of the same graph.

A tangent is a node of kind TANGENT: the emitter makes it a SIMD vector with one lane per direction.
"""

from collections.abc import Callable

from lfdm_ros.compiler.graph import TABLE, TANGENT, TRUTH, Graph


class Tangents:
    """Forward derivatives of a graph's nodes, written into the same graph.

    A node has no tangent (None) if it does not depend on a seed. At a kink the derivative is that of the computed branch; where both sides
    of fmin, fmax, fabs are equal it is their mean, as in CasADi.
    """

    def __init__(self, graph: Graph, seeds: dict[int, int]):
        """Starts from `seeds`, which maps nodes to the nodes (of kind TANGENT) that are their tangents."""
        self._graph = graph
        self._of: dict[int, int | None] = dict(seeds)

    def of(self, end: int) -> int | None:
        """Returns the tangent of a node."""
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
        if all(t is None for t in tangents) or graph.nodes[i].kind in (TRUTH, TABLE):
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
        total: int | None = None
        for partial, tangent in zip(self._partials(i), tangents):
            if partial is not None and tangent is not None:
                total = self._sum(total, self._times(partial, tangent))
        return total

    def _partials(self, i: int) -> tuple[int | None, ...]:
        """Returns the derivatives of a node by its arguments, as nodes of kind VALUE; None where it is identically 0."""
        add, constant = self._graph.add, self._graph.constant
        operation, arguments = self._graph.nodes[i].operation, self._graph.nodes[i].arguments
        a, b, one = arguments[0], arguments[-1], constant(1.0)
        single: dict[str, Callable[[], int]] = {
            "sq": lambda: add("twice", a), "twice": lambda: constant(2.0), "inv": lambda: add("neg", add("sq", i)),
            "sqrt": lambda: add("div", constant(0.5), i), "fabs": lambda: add("sign", a),
            "sin": lambda: add("cos", a), "cos": lambda: add("neg", add("sin", a)), "tan": lambda: add("add", one, add("sq", i)),
            "sinh": lambda: add("cosh", a), "cosh": lambda: add("sinh", a), "tanh": lambda: add("sub", one, add("sq", i)),
            "exp": lambda: i, "expm1": lambda: add("add", i, one),
            "log": lambda: add("inv", a), "log1p": lambda: add("inv", add("add", one, a)),
            "asin": lambda: add("inv", add("sqrt", add("sub", one, add("sq", a)))), "acos": lambda: add("neg", single["asin"]()),
            "atan": lambda: add("inv", add("add", one, add("sq", a)))}
        if operation in single:
            return (single[operation](),)
        if operation in ("sign", "floor", "ceil", "read"):
            return None, None
        if operation == "mul":
            return b, a
        if operation in ("fmin", "fmax"):
            below, above = (a, b) if operation == "fmin" else (b, a)
            share = add("select", add("lt", below, above), one, add("select", add("lt", above, below), constant(0.0), constant(0.5)))
            return share, add("sub", one, share)
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
