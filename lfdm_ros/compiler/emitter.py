"""LLVM code of a graph: each node one instruction, on scalars or on SIMD vectors.

The number type (double, float) and the number of vehicles per vector are configurable; tangents are vectors of directions beside scalar
values. Functions not in `elementary` call libm, lane by lane.
"""

from collections.abc import Iterable, Mapping, Sequence

from lfdm_ros.compiler import elementary, reading
from lfdm_ros.compiler.builder import FLAGS, Builder
from lfdm_ros.compiler.graph import PACK, PACK_TRUTH, TABLE, TANGENT, TRUTH, VALUE, Graph
from lfdm_ros.compiler.jumps import CHOICES, Jump, jumps

_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_DOUBLED = {"sq": "fmul", "twice": "fadd"}
_COMPARE = {"lt": "olt", "le": "ole", "eq": "oeq", "ne": "une"}
LIBRARY = {"constpow", "asin", "acos", "sinh", "cosh", "expm1", "log1p", "pow", "hypot"}
_INTRINSIC = ("sqrt", "fabs", "floor", "ceil")
_ELEMENTARY = {"tanh": elementary.tanh, "exp": elementary.exponential, "log": elementary.logarithm}

_TRUTH_OF = {VALUE: TRUTH, PACK: PACK_TRUTH}
_VALUE_OF = {TRUTH: VALUE, PACK_TRUTH: PACK}


class Code(Builder):
    """A function that computes nodes of a graph.

    value, tangent, pack: LLVM types of the numbers of a vehicle or of many, of tangents, and of the wheels' vectors.
    """

    def __init__(self, graph: Graph, arguments: Mapping[str, str], real: str = "double", lanes: int = 1, directions: int = 1,
                 wheels: int = 1, threads: bool = False):
        """Sets up an empty emitter.

        Args:
            arguments: LLVM type of each argument of the function by name.
            real: LLVM type of numbers, double or float.
            lanes: vehicles in each value.
            directions: lanes of each tangent; more than one requires a single vehicle.
            wheels: lanes of packed values.
            threads: a kernel of a GPU.
        """
        if lanes > 1 and directions > 1:
            raise ValueError("tangents are vectors beside scalar values; one vehicle at a time")
        super().__init__(arguments, real, threads)
        self._graph = graph
        self._widths = {VALUE: lanes, TRUTH: lanes, TANGENT: directions, PACK: wheels, PACK_TRUTH: wheels, TABLE: lanes}
        self.value, self.tangent, self.pack = (self.vector(real, width) for width in (lanes, directions, wheels))
        self._names: dict[tuple[int, str], str] = {}
        self._users: dict[int, set[int]] = {}
        self._arrays: dict[int, reading.Arrays] = {}  # of nodes of kind TABLE
        self._rows: dict[tuple[int, int, str], list[str]] = {}  # that were read, by array, index and kind

    def gathered(self, registers: Sequence[str]) -> str:
        """Returns the vector of scalar numbers."""
        return self.vector_of(registers, self.real)

    def lane(self, vector: str, lane: int) -> str:
        """Returns one number of a vector of the wheels."""
        return self.new(f"extractelement {self.pack} {vector}, i32 {lane}")

    # -- Nodes ----------------------------------------------------------------------------------------------------

    def bind(self, node: int, register: str) -> None:
        """Assigns a register to a node's value."""
        self._names[node, self._graph.nodes[node].kind] = register

    def emit(self, nodes: Iterable[int]) -> None:
        """Appends the instructions of nodes, which follow their arguments; inputs must be bound before.

        Nodes needed only on one side of a choice are skipped if no lane takes that side, where a jump is profitable.
        """
        pending = [i for i in nodes if (i, self._graph.nodes[i].kind) not in self._names and self._graph.nodes[i].operation != "constant"]
        found = jumps(self._graph, pending, self._users) if self._users else []
        jump_of = {i: jump for jump in found for i in jump.choices}
        apart = {i for jump in found for region in jump.regions for i in region}
        sides: dict[tuple[int, int], str] = {}  # register of a choice's side after the jump

        def place(i: int) -> None:
            node = self._graph.nodes[i]
            if i in apart or (i, node.kind) in self._names or node.operation == "constant":
                return
            if i in jump_of:
                jump = jump_of[i]
                if not any((choice, side) in sides for choice in jump.choices for side in (0, 1)):
                    for j in jump.needs:
                        place(j)
                    self._jump(jump, sides)
                self._names[i, node.kind] = self._choice(i, [sides.get((i, side)) for side in (0, 1)])
            else:
                for a in node.arguments:
                    place(a)
                self._names[i, node.kind] = self._instruction(i)

        for i in pending:
            place(i)

    def jump(self, needed: Iterable[int], ends: Iterable[int]) -> None:
        """Allows jumps over nodes needed only on one side of a choice. needed: all nodes that will be emitted; ends: nodes that are used
        outside the graph."""
        users: dict[int, set[int]] = {i: set() for i in needed}
        for i in users:
            for a in self._graph.nodes[i].arguments:
                if a in users:  # else it is bound
                    users[a].add(i)
        used = set(ends)
        self._users = {i: some for i, some in users.items() if i not in used}

    def _jump(self, jump: Jump, sides: dict[tuple[int, int], str]) -> None:
        """Emits the regions of a jump, each computed only if some lane takes its side."""
        for side, region in enumerate(jump.regions):
            if not region:
                continue
            kinds = {self._graph.nodes[i].kind for i in jump.choices}
            truth = PACK_TRUTH if PACK in kinds else TRUTH
            width = self._widths[truth]
            c = self.vector("i1", width)
            lanes = self.get(jump.condition, truth)
            lanes = lanes if side == 0 else self._negated(lanes, width)
            some = lanes if width == 1 else self.new(f"icmp ne i{width} {self.new(f'bitcast {c} {lanes} to i{width}')}, 0")
            ends = [(i, self._graph.nodes[i].kind, self._graph.nodes[i].arguments[1 + side]) for i in jump.choices
                    if 1 + side < len(self._graph.nodes[i].arguments)]
            before, names, rows = self._block, dict(self._names), dict(self._rows)
            with self.when(some):
                self.emit(region)
                values = {(i, kind): self.get(end, kind) for i, kind, end in ends if end in region}
                inside = self._block
            # Registers of the jumped part do not exist after it.
            self._names, self._rows = names, rows
            for (i, kind), value in values.items():
                zero = self.number(0.0, self._widths[kind])
                sides[i, side] = self.new(f"phi {self.vector(self.real, self._widths[kind])} [{value}, %{inside}], [{zero}, %{before}]")

    def _choice(self, i: int, sides: Sequence[str | None] = (None, None)) -> str:
        """Emits a select; `sides` are the registers computed in a jump."""
        node = self._graph.nodes[i]
        width, kind = self._widths[node.kind], node.kind
        condition = self.get(node.arguments[0], _TRUTH_OF.get(kind, TRUTH))
        if kind == TANGENT:
            condition = self.repeated(condition, self.vector("i1", width))
        chosen = [side or self.get(a, kind) for a, side in zip(node.arguments[1:], sides)]
        chosen += [self.number(0.0, width)] * (2 - len(chosen))
        t, c = self.vector(self.real, width), self.vector("i1", width)
        return self.new(f"select {FLAGS} {c} {condition}, {t} {chosen[0]}, {t} {chosen[1]}")

    def get(self, node: int, kind: str = "") -> str:
        """Returns the register of a node that was emitted or bound, converted to the requested kind."""
        stored_kind = self._graph.nodes[node].kind
        kind = kind or stored_kind
        if self._graph.nodes[node].operation == "constant" and kind not in _VALUE_OF:
            return self.number(self._graph.nodes[node].payload, self._widths[kind])  # type: ignore[arg-type]
        if (node, kind) not in self._names:
            self._names[node, kind] = self._converted(node, stored_kind, kind)
        return self._names[node, kind]

    # -- One node -------------------------------------------------------------------------------------------------

    def _instruction(self, i: int) -> str:
        node = self._graph.nodes[i]
        operation, kind = node.operation, node.kind
        if operation == "input":
            raise ValueError(f"input {node.payload} is not bound")
        if operation == "gather":
            return self.vector_of([self.get(a) for a in node.arguments], "i1" if kind == PACK_TRUTH else self.real)
        if operation == "lane":
            return self.new(f"extractelement {self._type(node.arguments[0])} {self.get(node.arguments[0])}, i32 {int(node.payload)}")  # type: ignore[arg-type]
        if operation == "table":
            self._arrays[i] = reading.arrays(self, self.get(node.arguments[0], VALUE), self._widths[TABLE])
            return ""
        if operation == "read":
            return self._read(node.arguments, kind)[int(node.payload)]  # type: ignore[arg-type]
        if operation in CHOICES:
            return self._choice(i)
        if kind in _VALUE_OF:
            return self._truth(operation, node.arguments, kind)
        width = self._widths[kind]
        t = self.vector(self.real, width)
        arguments = [self.get(a, kind) for a in node.arguments]
        a, b = arguments[0], arguments[-1]
        if operation in _BINARY:
            return self.new(f"{_BINARY[operation]} {FLAGS} {t} {a}, {b}")
        if operation in ("fmin", "fmax"):
            # The second if they are unordered, as in the processor's instruction.
            smaller = self.new(f"fcmp {'olt' if operation == 'fmin' else 'ogt'} {t} {a}, {b}")
            return self.new(f"select {self.vector('i1', width)} {smaller}, {t} {a}, {t} {b}")
        if operation == "neg":
            return self.new(f"fneg {FLAGS} {t} {a}")
        if operation in _DOUBLED:
            return self.new(f"{_DOUBLED[operation]} {FLAGS} {t} {a}, {a}")
        if operation == "inv":
            return self.new(f"fdiv {FLAGS} {t} {self.number(1.0, width)}, {a}")
        if operation in _INTRINSIC:
            return self.call(operation, [a], width)
        if operation == "copysign":
            return self.call("copysign", [a, b], width)
        if operation == "sign":
            c = self.vector("i1", width)
            zero, one, minus = (self.number(v, width) for v in (0.0, 1.0, -1.0))
            below = self.new(f"fcmp olt {t} {a}, {zero}")
            above = self.new(f"fcmp ogt {t} {a}, {zero}")
            rest = self.new(f"select {c} {below}, {t} {minus}, {t} {a}")  # 0 and NaN as they are
            return self.new(f"select {c} {above}, {t} {one}, {t} {rest}")
        if operation in ("sin", "cos", "tan"):
            return elementary.angle_function(self, operation, a, width)
        if operation in _ELEMENTARY:
            return _ELEMENTARY[operation](self, a, width)
        if operation in ("atan", "atan2"):
            return elementary.angle_of(self, a, b if operation == "atan2" else self.number(1.0, width), width)
        if operation in LIBRARY:
            return self.library_call("pow" if operation == "constpow" else operation, arguments, width)
        raise NotImplementedError(operation)

    def _read(self, arguments: tuple[int, ...], kind: str) -> list[str]:
        """Returns the row of an array that has the node's number, read once for all four."""
        table, index = arguments
        key = table, index, kind
        if key not in self._rows:
            self._rows[key] = reading.row(self, self._arrays[table], self.get(index, kind), self._widths[kind])
        return self._rows[key]

    def _truth(self, operation: str, arguments: tuple[int, ...], kind: str) -> str:
        width = self._widths[kind]
        c = self.vector("i1", width)
        if operation in _COMPARE:
            a, b = (self.get(i, _VALUE_OF[kind]) for i in arguments)
            return self.new(f"fcmp {_COMPARE[operation]} {self.vector(self.real, width)} {a}, {b}")
        a, *rest = (self.get(i, kind) for i in arguments)
        return self._negated(a, width) if operation == "not" else self.new(f"{operation} {c} {a}, {rest[0]}")

    def _negated(self, truth: str, width: int) -> str:
        ones = "true" if width == 1 else "<" + ", ".join(["i1 true"] * width) + ">"
        return self.new(f"xor {self.vector('i1', width)} {truth}, {ones}")

    def _converted(self, node: int, stored_kind: str, kind: str) -> str:
        if kind == TANGENT:
            return self.repeated(self.get(node, VALUE), self.tangent)
        width = self._widths[stored_kind]
        t = self.vector(self.real, width)
        if _VALUE_OF.get(stored_kind) == kind:
            return self.new(f"uitofp {self.vector('i1', width)} {self.get(node)} to {t}")
        if _TRUTH_OF.get(stored_kind) == kind:
            return self.new(f"fcmp une {t} {self.get(node)}, {self.number(0.0, width)}")
        raise ValueError(f"node {node} of kind {stored_kind} is not emitted, or cannot be a {kind}")

    def _type(self, node: int) -> str:
        kind = self._graph.nodes[node].kind
        return self.vector("i1" if kind in _VALUE_OF else self.real, self._widths[kind])
