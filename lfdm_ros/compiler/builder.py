"""An LLVM function under construction: registers, vectors, loops, memory.

Registers are strings such as "%t7", types such as "double" or "<8 x float>". Values changed in a loop are in `variables`; LLVM turns them
into registers.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

# Fast math, but with NaN and infinity.
FLAGS = "nsz arcp contract afn reassoc"
# For results that depend on the order of operations.
ORDERED = "nsz contract"

_ALIGNMENT = {"double": 8, "float": 4, "i64": 8, "i32": 4}


class Builder:
    """One function: `arguments` are its LLVM types by name, `real` the type of its numbers, double or float; `threads`: it is a kernel
    of a GPU."""

    def __init__(self, arguments: Mapping[str, str], real: str = "double", threads: bool = False):
        self.real, self.threads = real, threads
        self.declared: set[str] = set()
        self.result: str | None = None  # the i64 register to return
        self._arguments = dict(arguments)
        self._allocations: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._block = "entry"

    def text(self, name: str, triple: str) -> str:
        """Returns the module with the function, for a target triple."""
        return module_text(triple, {name: self})

    def function(self, name: str) -> str:
        """Returns the function alone."""
        arguments = ", ".join(f"{'ptr noalias' if t == 'ptr' else t} %{a}" for a, t in self._arguments.items())
        end = "ret void" if self.result is None else f"ret i64 {self.result}"
        result = ("ptx_kernel " if self.threads else "") + ("void" if self.result is None else "i64")
        return "\n".join([f"define {result} @{name}({arguments}) nounwind {{", "entry:", *self._allocations, *self._lines, end, "}", ""])

    def outside(self, name: str) -> str:
        """Returns the address of memory outside the module: a symbol of this process, or an argument of a GPU's kernel."""
        if self.threads:
            return f"%{name}"
        self.declared.add(f"@{name} = external global i8")
        return f"@{name}"

    # -- Control and memory ---------------------------------------------------------------------------------------

    def new(self, text: str) -> str:
        """Appends an instruction and returns the register of its result."""
        self._count += 1
        self._lines.append(f"%t{self._count} = {text}")
        return f"%t{self._count}"

    @contextmanager
    def loop(self, first: str, end: str, step: int = 1) -> Iterator[str]:
        """Loops over first, first + step, ... below `end` (i64), at least once; yields the index."""
        head, before = self._label("loop"), self._block
        self._lines += [f"br label %{head}", f"{head}:"]
        self._block = head
        index = f"%{head}.i"
        place = len(self._lines)
        yield index
        following = self.new(f"add i64 {index}, {step}")
        # Inserted late, since the body may end in another block.
        self._lines.insert(place, f"{index} = phi i64 [{first}, %{before}], [{following}, %{self._block}]")
        after = self._label("after")
        self._lines += [f"br i1 {self.new(f'icmp slt i64 {following}, {end}')}, label %{head}, label %{after}", f"{after}:"]
        self._block = after

    @contextmanager
    def blocks(self, first: str, end: str, lanes: int) -> Iterator[str]:
        """Yields first, first + lanes, ... below `end` (i64), for the body: in a loop, or one per thread."""
        if not self.threads:
            with self.loop(first, end, lanes) as block:
                yield block
            return
        # Names of the registers that hold a thread's place: PTX ISA, special registers.
        place = {name: f"@llvm.nvvm.read.ptx.sreg.{name}.x()" for name in ("ctaid", "ntid", "tid")}
        self.declared |= {f"declare i32 {read}" for read in place.values()}
        block, size, thread = (self.new(f"zext i32 {self.new(f'call i32 {read}')} to i64") for read in place.values())
        index = self.integer("add", self.integer("mul", block, size), thread)
        index = self.integer("add", first, index if lanes == 1 else self.integer("mul", index, lanes))
        with self.when(self.new(f"icmp slt i64 {index}, {end}")):
            yield index

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Opens a block that runs if `condition` (i1) holds."""
        inside, after = self._label("when"), self._label("after")
        self._lines += [f"br i1 {condition}, label %{inside}, label %{after}", f"{inside}:"]
        self._block = inside
        yield
        self._lines += [f"br label %{after}", f"{after}:"]
        self._block = after

    def variables(self, type_: str, count: int) -> str:
        """Allocates room for `count` values; returns its address."""
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

    def cast(self, register: str, source: str, target: str) -> str:
        """Converts between double and float, scalars or vectors."""
        if source == target:
            return register
        return self.new(f"{'fpext' if 'double' in target else 'fptrunc'} {source} {register} to {target}")

    def unit(self, lane: int, width: int) -> str:
        """Returns the constant vector with 1 in one lane."""
        return "<" + ", ".join(f"{self.real} {self.number(float(i == lane))}" for i in range(width)) + ">"

    def _label(self, stem: str) -> str:
        self._count += 1
        return f"{stem}.{self._count}"

    @staticmethod
    def _scalar(type_: str) -> str:
        return type_.strip("<>").split()[-1]

    # -- Vectors and functions ------------------------------------------------------------------------------------

    def number(self, value: float, width: int = 1) -> str:
        """Returns a constant as LLVM writes it: the bits of a double, for float after rounding."""
        if self.real == "float":
            value = struct.unpack("f", struct.pack("f", value))[0]
        bits = f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"
        return bits if width == 1 else "<" + ", ".join([f"{self.real} {bits}"] * width) + ">"

    def vector(self, element: str, width: int) -> str:
        """Returns the type of a vector of lanes; of one lane, the element's."""
        return element if width == 1 else f"<{width} x {element}>"

    def repeated(self, scalar: str, type_: str) -> str:
        """Returns a scalar register in all lanes of a type."""
        element = self._scalar(type_)
        if type_ == element:
            return scalar
        width = int(type_[1:].split()[0])
        first = self.new(f"insertelement {type_} poison, {element} {scalar}, i32 0")
        return self.new(f"shufflevector {type_} {first}, {type_} poison, <{width} x i32> zeroinitializer")

    def vector_of(self, registers: Sequence[str], element: str) -> str:
        """Returns the vector of scalars of a type."""
        t, result = self.vector(element, len(registers)), "poison"
        if len(set(registers)) == 1:
            return self.repeated(registers[0], t)
        for lane, register in enumerate(registers):
            result = self.new(f"insertelement {t} {result}, {element} {register}, i32 {lane}")
        return result

    def call(self, intrinsic: str, arguments: Sequence[str], width: int) -> str:
        """Calls an LLVM intrinsic in all lanes."""
        t = self.vector(self.real, width)
        letter = "f64" if self.real == "double" else "f32"
        name = f"@llvm.{intrinsic}.{letter if width == 1 else f'v{width}{letter}'}"
        self.declared.add(f"declare {t} {name}({', '.join([t] * len(arguments))})")
        return self.new(f"call {FLAGS} {t} {name}({', '.join(f'{t} {a}' for a in arguments)})")

    def library_call(self, function: str, arguments: Sequence[str], width: int) -> str:
        """Calls a function of libm lane by lane."""
        name = "@" + function + ("f" if self.real == "float" else "")
        self.declared.add(f"declare {self.real} {name}({', '.join([self.real] * len(arguments))})")
        if width == 1:
            return self.new(f"call {self.real} {name}({', '.join(f'{self.real} {a}' for a in arguments)})")
        t, result = self.vector(self.real, width), "poison"
        for lane in range(width):
            scalars = [self.new(f"extractelement {t} {a}, i32 {lane}") for a in arguments]
            value = self.new(f"call {self.real} {name}({', '.join(f'{self.real} {s}' for s in scalars)})")
            result = self.new(f"insertelement {t} {result}, {self.real} {value}, i32 {lane}")
        return result


def module_text(triple: str, functions: Mapping[str, Builder]) -> str:
    """Returns an LLVM module with functions by name."""
    declared = sorted(set[str]().union(*(code.declared for code in functions.values())))
    return "\n".join([f'target triple = "{triple}"', *declared, *(code.function(name) for name, code in functions.items())])
