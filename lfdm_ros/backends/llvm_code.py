"""LLVM code of a graph: each node one instruction, on scalars or on SIMD vectors.

The number type (double, float) and the number of vehicles in a vector are free; tangents are vectors of directions beside scalar
values. Sine, cosine and hyperbolic tangent are polynomials, because calls of libm stop vectorisation; other
functions call libm, lane by lane.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import factorial, log, pi

from lfdm_ros.backends.graph import PACK, PACK_TRUTH, TANGENT, TRUTH, VALUE, Graph
from lfdm_ros.backends.jumps import CHOICES, Jump, jumps

# All liberties but the assumption that NaN and infinity do not occur.
_FLAGS = "nsz arcp contract afn reassoc"
# Where the order of operations is what makes a result exact.
_ORDERED = "nsz contract"

_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_COMPARE = {"lt": "olt", "le": "ole", "eq": "oeq", "ne": "une"}
_LIBRARY = {"asin": 1, "acos": 1, "atan": 1, "sinh": 1, "cosh": 1, "exp": 1, "log": 1, "expm1": 1, "log1p": 1,
            "pow": 2, "atan2": 2, "hypot": 2}
_INTRINSIC = {"sqrt": "sqrt", "fabs": "fabs", "floor": "floor", "ceil": "ceil"}

_TRUTH_OF = {VALUE: TRUTH, PACK: PACK_TRUTH}
_VALUE_OF = {TRUTH: VALUE, PACK_TRUTH: PACK}

_ALIGNMENT = {"double": 8, "float": 4, "i64": 8}

# ln 2 in two parts, the first short enough that its product with a small integer is exact, also in single precision.
_LN2_HIGH = 0.693359375
_LN2_LOW = log(2.0) - _LN2_HIGH  # exact: both are close

_SIN = [(-1) ** k / factorial(2 * k + 1) for k in range(11)]
_COS = [(-1) ** k / factorial(2 * k) for k in range(11)]


class Code:
    """One LLVM function under construction: the nodes of a graph inside loops over memory.

    Registers are strings such as "%t7". What a loop changes is kept in `variables`; LLVM turns them into registers.
    """

    def __init__(self, graph: Graph, arguments: dict[str, str], real: str = "double", lanes: int = 1, directions: int = 1,
                 wheels: int = 1):
        """Args:
            arguments: LLVM type of each argument of the function by name.
            real: LLVM type of numbers, double or float.
            lanes: vehicles in each value.
            directions: lanes of each tangent; more than one goes with one vehicle only.
            wheels: lanes of packed values.
        """
        if lanes > 1 and directions > 1:
            raise ValueError("tangents are vectors beside scalar values; one vehicle at a time")
        self._graph = graph
        self.real = real
        self._arguments = arguments
        self._widths = {VALUE: lanes, TRUTH: lanes, TANGENT: directions, PACK: wheels, PACK_TRUTH: wheels}
        self.value, self.tangent, self.pack = (self._vector(real, width) for width in (lanes, directions, wheels))
        self._names: dict[tuple[int, str], str] = {}
        self.declared: set[str] = set()
        self.result: str | None = None  # the i64 register to return
        self._allocations: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._block = "entry"
        self._users: dict[int, set[int]] = {}

    def text(self, name: str, triple: str) -> str:
        """The module with the function, for a target triple."""
        return module_text(triple, {name: self})

    def function(self, name: str) -> str:
        """The function alone."""
        arguments = ", ".join(f"{'ptr noalias' if t == 'ptr' else t} %{a}" for a, t in self._arguments.items())
        end = "ret void" if self.result is None else f"ret i64 {self.result}"
        return "\n".join([f"define {'void' if self.result is None else 'i64'} @{name}({arguments}) nounwind {{", "entry:",
                          *self._allocations, *self._lines, end, "}", ""])

    # -- Control and memory ---------------------------------------------------------------------------------------

    def new(self, text: str) -> str:
        """Appends an instruction and returns the register of its result."""
        self._count += 1
        self._lines.append(f"%t{self._count} = {text}")
        return f"%t{self._count}"

    @contextmanager
    def loop(self, first: str, end: str, step: int = 1) -> Iterator[str]:
        """The body runs for first, first + step, ... below `end` (i64), at least once; yields the index."""
        head, before = self._label("loop"), self._block
        self._lines += [f"br label %{head}", f"{head}:"]
        self._block = head
        index = f"%{head}.i"
        place = len(self._lines)
        yield index
        following = self.new(f"add i64 {index}, {step}")
        # The body may have ended in another block than it began in; only now is it known.
        self._lines.insert(place, f"{index} = phi i64 [{first}, %{before}], [{following}, %{self._block}]")
        after = self._label("after")
        self._lines += [f"br i1 {self.new(f'icmp slt i64 {following}, {end}')}, label %{head}, label %{after}", f"{after}:"]
        self._block = after

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """The body runs if `condition` (i1) holds."""
        inside, after = self._label("when"), self._label("after")
        self._lines += [f"br i1 {condition}, label %{inside}, label %{after}", f"{inside}:"]
        self._block = inside
        yield
        self._lines += [f"br label %{after}", f"{after}:"]
        self._block = after

    def variables(self, type_: str, count: int) -> str:
        """Room for `count` values; returns its address."""
        name = f"%{self._label('variables')}"
        self._allocations.append(f"{name} = alloca [{count} x {type_}], align 64")
        return name

    def load(self, pointer: str, index: int | str, type_: str) -> str:
        return self.new(f"load {type_}, ptr {self.element(pointer, index, type_)}, align {_ALIGNMENT[self._scalar(type_)]}")

    def store(self, register: str, pointer: str, index: int | str, type_: str) -> None:
        place = self.element(pointer, index, type_)
        self._lines.append(f"store {type_} {register}, ptr {place}, align {_ALIGNMENT[self._scalar(type_)]}")

    def element(self, pointer: str, index: int | str, type_: str) -> str:
        return self.new(f"getelementptr {type_}, ptr {pointer}, i64 {index}")

    def integer(self, operation: str, a: str, b: int | str) -> str:
        return self.new(f"{operation} i64 {a}, {b}")

    def arithmetic(self, operation: str, a: str, b: str, type_: str) -> str:
        return self.new(f"{operation} {type_} {a}, {b}")

    def repeated(self, scalar: str, type_: str) -> str:
        """A scalar register in all lanes of a type."""
        return self._splat(scalar, self._scalar(type_), type_)

    def gathered(self, registers: list[str]) -> str:
        """The vector of scalar numbers."""
        return self._gathered(registers, self.real)

    def lane(self, vector: str, lane: int) -> str:
        """One number of a vector of the wheels."""
        return self.new(f"extractelement {self.pack} {vector}, i32 {lane}")

    def cast(self, register: str, source: str, target: str) -> str:
        """Between double and float, scalars or vectors."""
        if source == target:
            return register
        return self.new(f"{'fpext' if 'double' in target else 'fptrunc'} {source} {register} to {target}")

    def unit(self, lane: int, width: int) -> str:
        """The constant vector with 1 in one lane."""
        return "<" + ", ".join(f"{self.real} {self.number(float(i == lane))}" for i in range(width)) + ">"

    def _label(self, stem: str) -> str:
        self._count += 1
        return f"{stem}.{self._count}"

    @staticmethod
    def _scalar(type_: str) -> str:
        return type_.strip("<>").split()[-1]

    # -- Nodes ----------------------------------------------------------------------------------------------------

    def bind(self, node: int, register: str) -> None:
        """Says that a node's value is in a register."""
        self._names[node, self._graph.nodes[node].kind] = register

    def emit(self, nodes: Iterable[int]) -> None:
        """Appends the instructions of nodes, which follow their arguments; inputs must be bound before.

        What only one side of a choice needs is jumped over where no lane takes that side, if it is worth a jump.
        """
        wanted = [i for i in nodes if (i, self._graph.nodes[i].kind) not in self._names and self._graph.nodes[i].operation != "constant"]
        found = jumps(self._graph, wanted, self._users) if self._users else []
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

        for i in wanted:
            place(i)

    def jump(self, needed: Iterable[int], ends: Iterable[int]) -> None:
        """Allows jumps over what one side of a choice needs alone.

        Args:
            needed: all nodes that will be emitted.
            ends: those that are used otherwise than by other nodes.
        """
        users: dict[int, set[int]] = {i: set() for i in needed}
        for i in users:
            for a in self._graph.nodes[i].arguments:
                users[a].add(i)
        self._users = {i: some for i, some in users.items() if i not in set(ends)}

    def _jump(self, jump: Jump, sides: dict[tuple[int, int], str]) -> None:
        """The regions of a jump, each computed only where some lane takes its side."""
        for side, region in enumerate(jump.regions):
            if not region:
                continue
            kinds = {self._graph.nodes[i].kind for i in jump.choices}
            truth = PACK_TRUTH if PACK in kinds else TRUTH
            width = self._widths[truth]
            c = self._vector("i1", width)
            lanes = self.get(jump.condition, truth)
            lanes = lanes if side == 0 else self._negated(lanes, width)
            some = lanes if width == 1 else self.new(f"icmp ne i{width} {self.new(f'bitcast {c} {lanes} to i{width}')}, 0")
            ends = [(i, self._graph.nodes[i].kind, self._graph.nodes[i].arguments[1 + side]) for i in jump.choices
                    if 1 + side < len(self._graph.nodes[i].arguments)]
            before, known = self._block, dict(self._names)
            with self.when(some):
                self.emit(region)
                values = {(i, kind): self.get(end, kind) for i, kind, end in ends if end in region}
                inside = self._block
            # Registers of the jumped part do not exist after it.
            self._names = known
            for (i, kind), value in values.items():
                zero = self.number(0.0, self._widths[kind])
                sides[i, side] = self.new(f"phi {self._vector(self.real, self._widths[kind])} [{value}, %{inside}], [{zero}, %{before}]")

    def _choice(self, i: int, sides: Sequence[str | None] = (None, None)) -> str:
        """A select; `sides` are the registers of what was computed in a jump."""
        node = self._graph.nodes[i]
        width, kind = self._widths[node.kind], node.kind
        condition = self.get(node.arguments[0], _TRUTH_OF.get(kind, TRUTH))
        if kind == TANGENT:
            condition = self._splat(condition, "i1", self._vector("i1", width))
        chosen = [side or self.get(a, kind) for a, side in zip(node.arguments[1:], sides)]
        chosen += [self.number(0.0, width)] * (2 - len(chosen))
        t, c = self._vector(self.real, width), self._vector("i1", width)
        return self.new(f"select {_FLAGS} {c} {condition}, {t} {chosen[0]}, {t} {chosen[1]}")

    def get(self, node: int, kind: str = "") -> str:
        """The register of a node that was emitted or bound, converted where another kind is asked for."""
        own = self._graph.nodes[node].kind
        kind = kind or own
        if self._graph.nodes[node].operation == "constant" and kind not in _VALUE_OF:
            return self.number(self._graph.nodes[node].payload, self._widths[kind])  # type: ignore[arg-type]
        if (node, kind) not in self._names:
            self._names[node, kind] = self._converted(node, own, kind)
        return self._names[node, kind]

    def number(self, value: float, width: int = 1) -> str:
        """A constant as LLVM writes it: the bits of a double, for float after rounding."""
        if self.real == "float":
            value = struct.unpack("f", struct.pack("f", value))[0]
        bits = f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"
        return bits if width == 1 else "<" + ", ".join([f"{self.real} {bits}"] * width) + ">"

    # -- One node -------------------------------------------------------------------------------------------------

    def _instruction(self, i: int) -> str:
        node = self._graph.nodes[i]
        operation, kind = node.operation, node.kind
        if operation == "input":
            raise ValueError(f"input {node.payload} is not bound")
        if operation == "gather":
            return self._gathered([self.get(a) for a in node.arguments], "i1" if kind == PACK_TRUTH else self.real)
        if operation == "lane":
            return self.new(f"extractelement {self._type(node.arguments[0])} {self.get(node.arguments[0])}, i32 {int(node.payload)}")  # type: ignore[arg-type]
        if operation in CHOICES:
            return self._choice(i)
        if kind in _VALUE_OF:
            return self._truth(operation, node.arguments, kind)
        width = self._widths[kind]
        t = self._vector(self.real, width)
        arguments = [self.get(a, kind) for a in node.arguments]
        a, b = arguments[0], arguments[-1]
        if operation in _BINARY:
            return self.new(f"{_BINARY[operation]} {_FLAGS} {t} {a}, {b}")
        if operation in ("fmin", "fmax"):
            # The second where they are not ordered; it is one instruction of the processor.
            smaller = self.new(f"fcmp {'olt' if operation == 'fmin' else 'ogt'} {t} {a}, {b}")
            return self.new(f"select {self._vector('i1', width)} {smaller}, {t} {a}, {t} {b}")
        if operation == "neg":
            return self.new(f"fneg {_FLAGS} {t} {a}")
        if operation == "sq":
            return self.new(f"fmul {_FLAGS} {t} {a}, {a}")
        if operation == "twice":
            return self.new(f"fadd {_FLAGS} {t} {a}, {a}")
        if operation == "inv":
            return self.new(f"fdiv {_FLAGS} {t} {self.number(1.0, width)}, {a}")
        if operation in _INTRINSIC:
            return self._call(_INTRINSIC[operation], [a], width)
        if operation == "copysign":
            return self._call("copysign", [a, b], width)
        if operation == "sign":
            c = self._vector("i1", width)
            zero, one, minus = (self.number(v, width) for v in (0.0, 1.0, -1.0))
            below = self.new(f"fcmp olt {t} {a}, {zero}")
            above = self.new(f"fcmp ogt {t} {a}, {zero}")
            rest = self.new(f"select {c} {below}, {t} {minus}, {t} {a}")  # 0 and NaN as they are
            return self.new(f"select {c} {above}, {t} {one}, {t} {rest}")
        if operation in ("sin", "cos", "tan"):
            return self._angle_function(operation, a, width)
        if operation == "tanh":
            return self._tanh(a, width)
        if operation in _LIBRARY or operation == "constpow":
            return self._library_call("pow" if operation == "constpow" else operation, arguments, width)
        raise NotImplementedError(operation)

    def _truth(self, operation: str, arguments: tuple[int, ...], kind: str) -> str:
        width = self._widths[kind]
        c = self._vector("i1", width)
        if operation in _COMPARE:
            a, b = (self.get(i, _VALUE_OF[kind]) for i in arguments)
            return self.new(f"fcmp {_COMPARE[operation]} {self._vector(self.real, width)} {a}, {b}")
        a, *rest = (self.get(i, kind) for i in arguments)
        return self._negated(a, width) if operation == "not" else self.new(f"{operation} {c} {a}, {rest[0]}")

    def _negated(self, truth: str, width: int) -> str:
        ones = "true" if width == 1 else "<" + ", ".join(["i1 true"] * width) + ">"
        return self.new(f"xor {self._vector('i1', width)} {truth}, {ones}")

    def _converted(self, node: int, own: str, kind: str) -> str:
        if kind == TANGENT:
            return self._splat(self.get(node, VALUE), self.real, self.tangent)
        width = self._widths[own]
        t = self._vector(self.real, width)
        if _VALUE_OF.get(own) == kind:
            return self.new(f"uitofp {self._vector('i1', width)} {self.get(node)} to {t}")
        if _TRUTH_OF.get(own) == kind:
            return self.new(f"fcmp une {t} {self.get(node)}, {self.number(0.0, width)}")
        raise ValueError(f"node {node} of kind {own} is not emitted, or cannot be a {kind}")

    def _type(self, node: int) -> str:
        kind = self._graph.nodes[node].kind
        return self._vector("i1" if kind in _VALUE_OF else self.real, self._widths[kind])

    # -- Vectors and functions ------------------------------------------------------------------------------------

    def _vector(self, element: str, width: int) -> str:
        return element if width == 1 else f"<{width} x {element}>"

    def _gathered(self, registers: list[str], element: str) -> str:
        t, result = self._vector(element, len(registers)), "poison"
        if len(set(registers)) == 1:
            return self._splat(registers[0], element, t)
        for lane, register in enumerate(registers):
            result = self.new(f"insertelement {t} {result}, {element} {register}, i32 {lane}")
        return result

    def _splat(self, name: str, element: str, t: str) -> str:
        if t == element:
            return name
        width = int(t[1:].split()[0])
        first = self.new(f"insertelement {t} poison, {element} {name}, i32 0")
        return self.new(f"shufflevector {t} {first}, {t} poison, <{width} x i32> zeroinitializer")

    def _call(self, intrinsic: str, arguments: list[str], width: int) -> str:
        t = self._vector(self.real, width)
        letter = "f64" if self.real == "double" else "f32"
        name = f"@llvm.{intrinsic}.{letter if width == 1 else f'v{width}{letter}'}"
        self.declared.add(f"declare {t} {name}({', '.join([t] * len(arguments))})")
        return self.new(f"call {_FLAGS} {t} {name}({', '.join(f'{t} {a}' for a in arguments)})")

    def _library_call(self, function: str, arguments: list[str], width: int) -> str:
        name = "@" + function + ("f" if self.real == "float" else "")
        self.declared.add(f"declare {self.real} {name}({', '.join([self.real] * len(arguments))})")
        if width == 1:
            return self.new(f"call {self.real} {name}({', '.join(f'{self.real} {a}' for a in arguments)})")
        t, result = self._vector(self.real, width), "poison"
        for lane in range(width):
            scalars = [self.new(f"extractelement {t} {a}, i32 {lane}") for a in arguments]
            value = self.new(f"call {self.real} {name}({', '.join(f'{self.real} {s}' for s in scalars)})")
            result = self.new(f"insertelement {t} {result}, {self.real} {value}, i32 {lane}")
        return result

    def _polynomial(self, coefficients: list[float], z: str, width: int) -> str:
        """Estrin's rule, lowest power first: pairs, pairs of pairs ..., whose operations wait less for each other than Horner's."""
        t = self._vector(self.real, width)
        terms, power = [self.number(c, width) for c in coefficients], z
        while len(terms) > 1:
            pairs = list(zip(terms[::2], terms[1::2]))
            rest = terms[-1:] if len(terms) % 2 else []
            terms = [self.new(f"fadd {_FLAGS} {t} {self.new(f'fmul {_FLAGS} {t} {power}, {high}')}, {low}") for low, high in pairs] + rest
            if len(terms) > 1:
                power = self.new(f"fmul {_FLAGS} {t} {power}, {power}")
        return terms[0]

    def _angle_function(self, function: str, x: str, width: int) -> str:
        # Half of x reduced to [-pi, pi]; 2 pi = 6.28125 + 1.935...e-3 to twice the working precision (Cody-Waite).
        t = self._vector(self.real, width)

        def const(value: float) -> str:
            return self.number(value, width)

        def op(name: str, a: str, b: str, flags: str = _FLAGS) -> str:
            return self.new(f"{name} {flags} {t} {a}, {b}")

        turns = self._call("floor", [op("fadd", op("fmul", x, const(1.0 / (2.0 * pi))), const(0.5))], width)
        reduced = op("fsub", x, op("fmul", turns, const(6.28125), _ORDERED), _ORDERED)
        reduced = op("fsub", reduced, op("fmul", turns, const(1.9353071795864769e-3), _ORDERED), _ORDERED)
        r = op("fmul", const(0.5), reduced)
        z = op("fmul", r, r)
        # In single precision fewer terms reach the last bit.
        terms = 11 if self.real == "double" else 7
        s = op("fmul", r, self._polynomial(_SIN[:terms], z, width))
        cosine = op("fsub", const(1.0), op("fmul", op("fmul", const(2.0), s), s))
        if function == "cos":
            return cosine
        sine = op("fmul", op("fmul", const(2.0), s), self._polynomial(_COS[:terms], z, width))
        return sine if function == "sin" else op("fdiv", sine, cosine)

    def _tanh(self, x: str, width: int) -> str:
        # With m = expm1(-2 |x|): tanh |x| = -m / (m + 2), without cancellation at small x. m = 2^n (e^r - 1) + 2^n - 1, where
        # -2 |x| = n ln 2 + r, |r| <= ln(2) / 2.
        t = self._vector(self.real, width)
        bits, mantissa, bias, smallest, terms = ("i64", 52, 1023, -40.0, 14) if self.real == "double" else ("i32", 23, 127, -20.0, 8)
        i = self._vector(bits, width)

        def const(value: float) -> str:
            return self.number(value, width)

        def op(name: str, a: str, b: str, flags: str = _ORDERED) -> str:
            return self.new(f"{name} {flags} {t} {a}, {b}")

        def integer(name: str, a: str, value: int) -> str:
            number = str(value) if width == 1 else "<" + ", ".join([f"{bits} {value}"] * width) + ">"
            return self.new(f"{name} {i} {a}, {number}")

        y = op("fmul", const(-2.0), self._call("fabs", [x], width))
        below = self.new(f"fcmp olt {t} {y}, {const(smallest)}")
        y = self.new(f"select {self._vector('i1', width)} {below}, {t} {const(smallest)}, {t} {y}")
        # Adding 1.5 2^mantissa rounds to an integer and leaves it in the lowest bits.
        shift = const(1.5 * 2.0 ** mantissa)
        shifted = op("fadd", op("fmul", y, const(1.0 / log(2.0))), shift)
        n = op("fsub", shifted, shift)
        r = op("fsub", y, op("fmul", n, const(_LN2_HIGH)))
        r = op("fsub", r, op("fmul", n, const(_LN2_LOW)))
        exponent = integer("add", self.new(f"bitcast {t} {shifted} to {i}"), bias)
        power = self.new(f"bitcast {i} {integer('shl', exponent, mantissa)} to {t}")
        series = op("fmul", r, self._polynomial([1.0 / factorial(k + 1) for k in range(terms)], r, width))
        m = op("fadd", op("fmul", power, series), op("fsub", power, const(1.0)))
        return self._call("copysign", [op("fdiv", m, op("fadd", m, const(2.0))), x], width)


def module_text(triple: str, functions: Mapping[str, Code]) -> str:
    """An LLVM module with functions by name."""
    declared = sorted(set[str]().union(*(code.declared for code in functions.values())))
    return "\n".join([f'target triple = "{triple}"', *declared, *(code.function(name) for name, code in functions.items())])
