"""LLVM text to C: the instructions that `Builder` writes, scalars in strict C99, vectors by the extensions of gcc and clang.

The text must be valid. Bits are copied and integers wrap as unsigned ones, to avoid undefined behaviour.
"""

import re
import struct
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_FLAG = re.compile(r"\b(?:nsz|arcp|contract|afn|reassoc|noalias|nounwind) ?")
_REGISTER = re.compile(r"%[\w.]+")
_TYPE = re.compile(r"<\d+ x \w+>|\w+")
_BINARY = {"fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/"}
_INTEGER = {"add": "+", "sub": "-", "mul": "*", "shl": "<<", "lshr": ">>", "and": "&", "or": "|", "xor": "^"}
_ORDERED = {"oeq": "==", "une": "!=", "olt": "<", "ole": "<=", "ogt": ">", "oge": ">="}
_COMPARED = {"eq": ("", "=="), "ne": ("", "!="), "slt": ("", "<"), "sgt": ("", ">"), "ult": ("u", "<")}
_SCALARS = {"double": "double", "float": "float", "i64": "int64_t", "i32": "int32_t", "i1": "int"}
_BITS = {"double": 64, "float": 32, "i64": 64, "i32": 32}
_EFFECTS = ("store", "br", "ret")
_LONGEST = 90  # characters of an inlined expression


@dataclass(frozen=True)
class CSource:
    """Definitions of functions in C with the typedefs, declarations and helpers required before them, after <stddef.h> and <stdint.h>."""

    before: tuple[str, ...]
    functions: str

    @property
    def text(self) -> str:
        """A whole file."""
        return "\n".join(["#include <stddef.h>", "#include <stdint.h>", *self.before, self.functions])


def c_source(text: str, linkage: str = "static ") -> CSource:
    """Returns the functions of an LLVM module in C; `linkage` is the prefix of each. Raises NotImplementedError: an instruction, or a use
    of one, that `Builder` writes in no portable function."""
    before: dict[str, None] = {}
    written = []
    for header, body in re.findall(r"^define ([^\n]*)\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        written.append(_Function(f"{linkage}{header}", body, before).text())
    return CSource(tuple(before), "\n".join(written))


def c_number(value: float, real: str = "double") -> str:
    """Returns a constant that C reads as the same number."""
    if value - value != 0.0:  # C99 has no literal of these
        word, suffix = (struct.pack(">d", value), "64") if real == "double" else (struct.pack(">f", value), "32")
        return f"number{suffix}(UINT{suffix}_C(0x{word.hex()}))"
    literal = repr(value) + ("f" if real == "float" else "")
    return f"({literal})" if literal.startswith("-") else literal


@dataclass(frozen=True)
class _Pointer:
    """An address in C and the LLVM type of the scalars there; for arrays with constant indices only, the name of their variables."""

    expression: str
    element: str
    place: int | None = None


class _Function:
    """One function: registers become constants of their names, or are inlined if used once."""

    def __init__(self, header: str, body: str, before: dict[str, None]):
        self._before = before
        linkage, result, name, arguments = re.match(r"(.*?)(\w+) @(\w+)\((.*)\)", header).groups()  # type: ignore[union-attr]
        self._arguments = [part.rsplit(" ", 1) for part in _FLAG.sub("", arguments).split(", ") if part]
        self._head = f"{linkage}{'void' if result == 'void' else _SCALARS[result]} {name}"
        self._instructions = [_FLAG.sub("", line).split(", align ")[0] for line in body.splitlines() if line and line != "entry:"]
        compared = {_BITS[element] for element in re.findall(r"[fi]cmp \w+ <\d+ x (\w+)>", body)}
        if len(compared) > 1:
            raise NotImplementedError("truths of vectors of two sizes")
        self._mask = compared.pop() if compared else 64  # bits of a lane's truth
        self._values: dict[str, str | list[str] | _Pointer] = {}
        self._top: list[str] = []  # variables of the whole function
        self._lines: list[str] = []
        self._uses, self._nearby = self._live_uses()
        self._phis = self._phi_values()
        self._places = re.findall(r"^(\S+) = getelementptr [^,]+, ptr (\S+), i64 (\S+)", "\n".join(self._instructions), re.MULTILINE)
        self._origin = {register: base for register, base, _ in self._places}
        self._written = {self._base(line.rsplit(" ", 1)[1]) for line in self._instructions if line.startswith("store")}
        self._constant = {register for type_, register in self._arguments if type_ == "ptr" and register not in self._written}
        self._element = self._elements()

    def text(self) -> str:
        arguments = []
        for type_, register in self._arguments:
            name = self._name(register)
            if type_ == "ptr":
                element = self._element.get(register, "double")
                const = "const " if register in self._constant else ""
                arguments.append(f"{const}{_SCALARS[element]} *restrict {name}")
                self._values[register] = _Pointer(name, element)
            else:
                arguments.append(f"{_SCALARS[type_]} {name}")
                self._values[register] = name
            if not self._uses[register]:
                self._lines.append(f"(void){name};")
        block = "entry"
        for i, line in enumerate(self._instructions):
            if line.endswith(":"):
                block = line[:-1]
                self._lines.append(f"{self._label(block)}:;")
            elif line.startswith("br "):
                following = self._instructions[i + 1] if i + 1 < len(self._instructions) else ""
                self._branch(line, block, following)
            else:
                self._instruction(line)
        reached = set(re.findall(r"goto (\w+);", "\n".join(self._lines)))
        lines = [line for line in self._lines if not line.endswith(":;") or line[:-2] in reached]
        body = [f"  {line}" for line in (*self._top, *lines)]
        return "\n".join([f"{self._head}({', '.join(arguments) or 'void'}) {{", *body, "}", ""])

    # -- Uses of registers -------------------------------------------------------------------------------------

    def _live_uses(self) -> tuple[Counter[str], set[str]]:
        """Returns the number of effective uses of registers, and those used in the block that sets them."""
        operands: dict[str, list[str]] = {}
        block_of: dict[str, str] = {}
        used_in: dict[str, set[str]] = {}
        block, waiting = "entry", list[str]()
        for line in self._instructions:
            block = line[:-1] if line.endswith(":") else block
            register, equals, text = line.partition(" = ")
            if equals:
                operands[register], block_of[register] = _REGISTER.findall(text), block
            elif line.startswith(_EFFECTS):
                waiting += _REGISTER.findall(line)
            for operand in _REGISTER.findall(text if equals else line):
                used_in.setdefault(operand, set()).add("" if text.startswith("phi ") else block)
        uses: Counter[str] = Counter()
        while waiting:
            register = waiting.pop()
            uses[register] += 1
            if uses[register] == 1:
                waiting += operands.get(register, [])
        return uses, {register for register, block in block_of.items() if used_in.get(register) == {block}}

    def _phi_values(self) -> dict[tuple[str, str], list[tuple[str, str, str]]]:
        """Returns (register, type, value) of the phis of a block by it and the block that one comes from."""
        found: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
        block = "entry"
        for line in self._instructions:
            if line.endswith(":"):
                block = line[:-1]
            match = re.match(r"(\S+) = phi (<\d+ x \w+>|\w+) \[(.*), %(\S+)\], \[(.*), %(\S+)\]$", line)
            if match:
                register, type_, *pairs = match.groups()
                for value, source in (pairs[:2], pairs[2:]):
                    found.setdefault((block, source), []).append((register, type_, value))
        for phis in found.values():
            if {value for _, _, value in phis} & {register for register, _, _ in phis}:
                raise NotImplementedError("phi of a phi of its own block")
        return found

    def _base(self, register: str) -> str:
        """Returns the argument or array that an address is in."""
        while register in self._origin:
            register = self._origin[register]
        return register

    def _elements(self) -> dict[str, str]:
        """Returns the LLVM type of the scalars in each argument that is an address."""
        found: dict[str, str] = {}
        for line in self._instructions:
            match = re.match(r"\S+ = getelementptr ([^,]+), ptr (\S+), ", line)
            if match:
                element = match.group(1).strip("<>").split()[-1]
                if found.setdefault(self._base(match.group(2)), element) != element:
                    raise NotImplementedError(f"memory of two types: {line}")
        return found

    # -- Names ----------------------------------------------------------------------------------------------------

    @staticmethod
    def _name(register: str) -> str:
        return register[1:].replace(".", "_")

    @staticmethod
    def _label(block: str) -> str:
        return block.replace(".", "_")

    def _type(self, type_: str) -> str:
        """Returns the C type of an LLVM type; truths of vectors are all bits of a lane."""
        if not type_.startswith("<"):
            if type_ not in _SCALARS:
                raise NotImplementedError(f"type {type_}")
            return _SCALARS[type_]
        width, element = type_.strip("<>").split(" x ")
        if element in ("double", "float"):
            name, scalar = f"f{_BITS[element]}x{width}", element
        else:
            bits = self._mask if element == "i1" else _BITS[element]
            name, scalar = f"u{bits}x{width}", f"uint{bits}_t"
        size = int(width) * int(name[1:3]) // 8
        self._before[f"typedef {scalar} {name} __attribute__((vector_size({size})));"] = None
        return name

    def _value(self, type_: str, operand: str) -> str:
        """Returns an operand as an expression that binds at least as strongly as a name."""
        operand = operand.strip()
        if operand.startswith("%"):
            value = self._values[operand]
            if isinstance(value, list):  # lanes that were put together
                lanes = ", ".join(lane or "0" for lane in value)
                value = self._values[operand] = self._keep(operand, type_, f"({self._type(type_)}){{{lanes}}}")
            if isinstance(value, _Pointer):
                return value.expression
            return value
        if operand == "zeroinitializer":
            return f"({self._type(type_)}){{0}}" if type_.startswith("<") else c_number(0.0)
        if operand.startswith("<"):
            element = type_.strip("<>").split(" x ")[1]
            numbers = [self._value(element, part.split(" ", 1)[1]) for part in operand[1:-1].split(", ")]
            if element == "i1":
                numbers = ["-1" if number == "1" else "0" for number in numbers]
            return f"({self._type(type_)}){{{', '.join(numbers)}}}"
        if operand in ("true", "false", "null"):
            return "1" if operand == "true" else "0"
        if type_ in ("double", "float"):
            number = struct.unpack(">d", bytes.fromhex(operand[2:]))[0] if operand.startswith("0x") else float(operand)
            return self._number(number, type_)
        literal = operand if _BITS.get(type_, 32) == 32 or abs(int(operand)) < 2 ** 31 else f"INT64_C({operand})"
        return f"({literal})" if literal.startswith("-") else literal

    def _number(self, value: float, real: str) -> str:
        literal = c_number(value, real)
        if literal.startswith("number"):
            self._helper(_BITCASTS[f"i{_BITS[real]}", real])
        return literal

    def _helper(self, definition: str) -> None:
        self._before[_MEMCPY] = None
        self._before[definition] = None

    def _keep(self, register: str, type_: str, expression: str) -> str:
        """Gives an expression a name."""
        name = self._name(register)
        self._lines.append(f"const {self._type(type_)} {name} = {expression};")
        return name

    def _set(self, register: str, type_: str, expression: str) -> None:
        """Sets a register; scalars that are used once are written there."""
        if self._uses[register] == 1 and register in self._nearby and not type_.startswith("<") and len(expression) < _LONGEST:
            self._values[register] = f"({expression})"
        else:
            self._values[register] = self._keep(register, type_, expression)

    # -- Instructions ---------------------------------------------------------------------------------------------

    def _branch(self, line: str, block: str, following: str) -> None:
        targets = re.findall(r"label %(\S+?)(?:,|$)", line)
        moves = [[f"{self._name(r)} = {self._value(t, v)};" for r, t, v in self._phis.get((target, block), ()) if self._uses[r]]
                 for target in targets]
        steps = [[*move, *([] if following == f"{target}:" else [f"goto {self._label(target)};"])] for move, target in zip(moves, targets)]
        if len(targets) == 1:
            self._lines += steps[0]
            return
        condition = self._value("i1", line.split(",")[0].removeprefix("br i1 "))
        if following == f"{targets[0]}:" and not moves[0]:
            self._lines.append(f"if (!{condition}) {{ {' '.join(steps[1])} }}")
        else:
            self._lines += [f"if ({condition}) {{ {' '.join(steps[0])} }}", *steps[1]]

    def _instruction(self, line: str) -> None:
        if line.startswith("store "):
            match = re.match(r"store (<[^>]*>|\w+) (.*), ptr (\S+)$", line)
            assert match
            self._store(*match.groups())
        elif line.startswith("ret"):
            words = line.split(" ")
            self._lines += [f"return {self._value(words[1], words[2])};"] if len(words) > 2 else []
        else:
            register, text = line.split(" = ", 1)
            operation, _, rest = text.partition(" ")
            if operation not in _RULES:
                raise NotImplementedError(f"instruction {operation}: {line}")
            if self._uses[register]:
                _RULES[operation](self, register, operation, rest)

    def _alloca(self, register: str, _operation: str, rest: str) -> None:
        count, type_ = re.match(r"\[(\d+) x (.+)\]", rest).groups()  # type: ignore[union-attr]
        name = self._name(register)
        places = [place for _, base, place in self._places if base == register]
        if all(place.isdigit() for place in places):
            # Never an address: a variable a place.
            self._top += [f"{self._type(type_)} {name}_{place};" for place in sorted(set(places), key=int)]
            self._values[register] = _Pointer(name, type_, 0)
        else:
            self._top.append(f"{self._type(type_)} {name}[{count}];")
            self._values[register] = _Pointer(name, type_)

    def _getelementptr(self, register: str, _operation: str, rest: str) -> None:
        type_, base, index = re.match(r"(.+), ptr (\S+), i64 (\S+)$", rest).groups()  # type: ignore[union-attr]
        if base.startswith("@"):
            raise NotImplementedError(f"memory of other modules: {base}")
        source = self._values[base]
        assert isinstance(source, _Pointer)
        if source.place is not None:
            self._values[register] = _Pointer(f"{source.expression}_{index}", source.element, 0)
            return
        width = 1 if type_ == source.element else int(type_[1:].split()[0])
        if index.isdigit():
            number = int(index) * width
            self._values[register] = _Pointer(f"{source.expression} + {number}" if number else source.expression, source.element)
            return
        expression = self._value("i64", index) if width == 1 else f"{width} * {self._value('i64', index)}"
        scalar = self._type(source.element)
        const = "const " if self._base(register) in self._constant else ""
        self._lines.append(f"{const}{scalar} *const {self._name(register)} = {source.expression} + {expression};")
        self._values[register] = _Pointer(self._name(register), source.element)

    def _place(self, address: str, type_: str) -> tuple[str, bool]:
        """Returns the variable at an address, or where it has another type than the memory, the address."""
        pointer = self._values[address]
        assert isinstance(pointer, _Pointer)
        if pointer.place is not None:
            return pointer.expression, True
        if pointer.element != type_:
            return pointer.expression, False
        base, plus, offset = pointer.expression.partition(" + ")
        return (f"{base}[{offset}]" if plus else f"{base}[0]"), True

    def _load(self, register: str, _operation: str, rest: str) -> None:
        type_, _, address = rest.partition(", ptr ")
        place, same = self._place(address, type_)
        if not same:
            name = self._name(register)
            self._before[_MEMCPY] = None
            self._lines += [f"{self._type(type_)} {name};", f"memcpy(&{name}, {place}, sizeof {name});"]
            self._values[register] = name
        elif self._base(address) in self._constant:
            self._values[register] = place
        else:
            self._values[register] = self._keep(register, type_, place)

    def _store(self, type_: str, value: str, address: str) -> None:
        place, same = self._place(address, type_)
        expression = self._value(type_, value)
        if same:
            self._lines.append(f"{place} = {expression};")
            return
        self._before[_MEMCPY] = None
        if not expression.isidentifier():
            self._lines.append(f"{{ const {self._type(type_)} value = {expression}; memcpy({place}, &value, sizeof value); }}")
        else:
            self._lines.append(f"memcpy({place}, &{expression}, sizeof {expression});")

    def _phi(self, register: str, _operation: str, rest: str) -> None:
        type_ = _TYPE.match(rest).group()  # type: ignore[union-attr]
        self._top.append(f"{self._type(type_)} {self._name(register)};")
        self._values[register] = self._name(register)

    def _operands(self, rest: str) -> tuple[str, list[str]]:
        """Returns the type and the operands of `TYPE A, B`."""
        type_ = _TYPE.match(rest).group()  # type: ignore[union-attr]
        return type_, [self._value(type_, part) for part in _split(rest[len(type_) + 1:])]

    def _arithmetic(self, register: str, operation: str, rest: str) -> None:
        type_, operands = self._operands(rest)
        if operation == "fneg":
            self._set(register, type_, f"-{operands[0]}")
        else:
            self._set(register, type_, f"{operands[0]} {_BINARY[operation]} {operands[1]}")

    def _integer(self, register: str, operation: str, rest: str) -> None:
        type_, (a, b) = self._operands(rest)
        sign = _INTEGER[operation]
        if type_ == "i1" or type_.startswith("<"):  # those of vectors are unsigned
            self._set(register, type_, f"{a} {sign} {b}")
        else:
            unsigned = f"u{_SCALARS[type_]}"
            self._set(register, type_, f"({_SCALARS[type_]})(({unsigned}){a} {sign} ({unsigned}){b})")

    def _compare(self, register: str, operation: str, rest: str) -> None:
        how, _, rest = rest.partition(" ")
        type_ = _TYPE.match(rest).group()  # type: ignore[union-attr]
        if operation == "icmp" and re.fullmatch(r"i\d+", type_) and type_ not in _BITS:
            if how != "ne" or not rest.endswith(", 0"):
                raise NotImplementedError(f"icmp {how} {rest}")
            self._set(register, "i1", self._value("i64", _split(rest[len(type_) + 1:])[0]))  # any lane: see _bitcast
            return
        type_, (a, b) = self._operands(rest)
        lanes = type_.startswith("<")
        truth = f"<{type_[1:].split()[0]} x i1>" if lanes else "i1"
        if operation == "fcmp" and how == "ord":
            test = f"{a} == {a}" if a == b or re.fullmatch(r"\(?-?[\d.]+\)?", b) else f"{a} == {a} && {b} == {b}"
            if lanes:
                raise NotImplementedError(f"fcmp ord {type_}")
        elif operation == "fcmp" and how in _ORDERED:
            test = f"{a} {_ORDERED[how]} {b}"
        elif operation == "icmp" and how in _COMPARED and (not lanes or how == "ult"):
            unsigned, sign = _COMPARED[how]
            cast = f"(u{_SCALARS[type_]})" if unsigned and not lanes else ""
            test = f"{cast}{a} {sign} {cast}{b}"
        else:
            raise NotImplementedError(f"{operation} {how} {type_}")
        self._set(register, truth, f"({self._type(truth)})({test})" if lanes else test)

    def _select(self, register: str, _operation: str, rest: str) -> None:
        (c_type, c), (type_, a), (_, b) = (_typed(part) for part in _split(rest))
        condition, one, other = self._value(c_type, c), self._value(type_, a), self._value(type_, b)
        if not c_type.startswith("<"):
            self._set(register, type_, f"{condition} ? {one} : {other}")
            return
        m, t = self._type(c_type), self._type(type_)
        self._set(register, type_, f"({t})(({condition} & ({m}){one}) | (~{condition} & ({m}){other}))")

    def _call(self, register: str, _operation: str, rest: str) -> None:
        type_, name, arguments = re.match(r"(<[^>]*>|\w+) @([\w.]+)\((.*)\)$", rest).groups()  # type: ignore[union-attr]
        operands = [self._value(*_typed(part)) for part in _split(arguments)]
        real = type_.strip("<>").split()[-1]
        function = name.split(".")[1] + ("f" if real == "float" else "") if name.startswith("llvm.") else name
        if not type_.startswith("<"):
            self._declare(function, real, len(operands))
            self._set(register, type_, f"{function}({', '.join(operands)})")
            return
        width, bits, t = int(type_[1:].split()[0]), _BITS[real], self._type(type_)
        m = self._type(f"<{width} x i{bits}>")

        def all_lanes(word: int) -> str:
            return f"({m}){{{', '.join([f'UINT{bits}_C(0x{word:x})'] * width)}}}"

        size, sign = all_lanes(2 ** (bits - 1) - 1), all_lanes(2 ** (bits - 1))
        if function.startswith("fabs"):
            self._set(register, type_, f"({t})(({m}){operands[0]} & {size})")
        elif function.startswith("copysign"):
            self._set(register, type_, f"({t})((({m}){operands[0]} & {size}) | (({m}){operands[1]} & {sign}))")
        else:
            self._declare(function, real, len(operands))
            lanes = [f"{function}({', '.join(f'{operand}[{lane}]' for operand in operands)})" for lane in range(width)]
            self._set(register, type_, f"({t}){{{', '.join(lanes)}}}")

    def _declare(self, function: str, real: str, count: int) -> None:
        # C allows this in place of <math.h>, which a compiler without a library does not have.
        self._before[f"{real} {function}({', '.join([real] * count)});"] = None

    def _bitcast(self, register: str, _operation: str, rest: str) -> None:
        source, operand, target = re.match(r"(<[^>]*>|\w+) (.*) to (<[^>]*>|\w+)$", rest).groups()  # type: ignore[union-attr]
        value = self._value(source, operand)
        if source.endswith("x i1>") and re.fullmatch(r"i\d+", target):
            # It is only tested for any set lane.
            lanes = " | ".join(f"{value}[{lane}]" for lane in range(int(source[1:].split()[0])))
            self._values[register] = self._keep(register, "i1", f"({lanes}) != 0")
        elif source.startswith("<") and target.startswith("<"):
            self._set(register, target, f"({self._type(target)}){value}")
        elif (source, target) in _BITCASTS:
            self._helper(_BITCASTS[source, target])
            if target in _BITS and target.startswith("i"):
                self._set(register, target, f"({_SCALARS[target]})bits{_BITS[target]}({value})")
            else:
                self._set(register, target, f"number{_BITS[target]}((u{_SCALARS[source]}){value})")
        else:
            raise NotImplementedError(f"bitcast {source} to {target}")

    def _convert(self, register: str, operation: str, rest: str) -> None:
        source, operand, target = re.match(r"(<[^>]*>|\w+) (.*) to (<[^>]*>|\w+)$", rest).groups()  # type: ignore[union-attr]
        value = self._value(source, operand)
        if not target.startswith("<"):
            unsigned = f"(u{_SCALARS[source]})" if operation in ("uitofp", "zext") and source != "i1" else ""
            self._set(register, target, f"({_SCALARS[target]}){unsigned}{value}")
        elif operation in ("fpext", "fptrunc"):
            self._set(register, target, f"__builtin_convertvector({value}, {self._type(target)})")
        elif operation == "uitofp" and source.endswith("x i1>"):
            one = self._value(target, f"<{', '.join([target.strip('<>').split()[-1] + ' 1.0'] * int(target[1:].split()[0]))}>")
            self._set(register, target, f"({self._type(target)})({value} & ({self._type(source)}){one})")
        else:
            raise NotImplementedError(f"{operation} {source} to {target}")

    def _extract(self, register: str, _operation: str, rest: str) -> None:
        (type_, vector), (_, lane) = (_typed(part) for part in _split(rest))
        found = self._values.get(vector)
        if isinstance(found, list) and "" not in found:
            self._values[register] = found[int(lane)]
            return
        scalar = type_.strip("<>").split()[-1]
        value = f"{self._value(type_, vector)}[{lane}]"
        cast = "" if scalar in ("double", "float") else f"({_SCALARS[scalar]})"
        self._set(register, scalar, f"{value} != 0" if scalar == "i1" else f"{cast}{value}")

    def _insert(self, register: str, _operation: str, rest: str) -> None:
        (type_, vector), (scalar, value), (_, lane) = (_typed(part) for part in _split(rest))
        width = int(type_[1:].split()[0])
        before = self._values.get(vector)
        lanes = list(before) if isinstance(before, list) else [""] * width if vector == "poison" else \
            [f"{self._value(type_, vector)}[{k}]" for k in range(width)]
        single = self._value(scalar, value)
        if value.startswith("%") and single.startswith("("):
            single = self._values[value] = self._keep(value, scalar, single)  # it may be repeated
        lanes[int(lane)] = f"({_MASKS[self._mask]})-(int{self._mask}_t){single}" if scalar == "i1" else single
        self._join(register, type_, lanes)

    def _join(self, register: str, type_: str, lanes: list[str]) -> None:
        """Sets a register to a vector of lanes, only where the whole vector is needed; not inside a branch if also needed outside."""
        self._values[register] = lanes
        if register not in self._nearby:
            self._value(type_, register)

    def _shuffle(self, register: str, _operation: str, rest: str) -> None:
        (type_, a), (_, b), (_, mask) = (_typed(part) for part in _split(rest))
        width, found = int(type_[1:].split()[0]), self._values.get(a)
        count = int(rest.rsplit(", <", 1)[1].split()[0])
        places = [0] * count if mask == "zeroinitializer" else [int(place) for place in re.findall(r"i32 (\d+)", mask)]

        def lane(place: int) -> str:
            if place < width:
                return found[place] if isinstance(found, list) else f"{self._value(type_, a)}[{place}]"
            return f"{self._value(type_, b)}[{place - width}]"

        self._join(register, f"<{len(places)} x {type_.strip('<>').split(' x ')[1]}>", [lane(place) for place in places])


def _split(text: str) -> list[str]:
    """Splits at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "<[(") - (c in ">])")
        if c == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]


def _typed(text: str) -> tuple[str, str]:
    """Splits `TYPE OPERAND`."""
    type_ = _TYPE.match(text).group()  # type: ignore[union-attr]
    return type_, text[len(type_) + 1:]


_MEMCPY = "void *memcpy(void *restrict, const void *restrict, size_t);"
_MASKS = {64: "uint64_t", 32: "uint32_t"}


def _copied(name: str, source: str, target: str) -> str:
    return f"static {target} {name}({source} from) {{ {target} to; memcpy(&to, &from, sizeof to); return to; }}"


_BITCASTS = {("double", "i64"): _copied("bits64", "double", "uint64_t"), ("i64", "double"): _copied("number64", "uint64_t", "double"),
             ("float", "i32"): _copied("bits32", "float", "uint32_t"), ("i32", "float"): _copied("number32", "uint32_t", "float")}

_Rule = Callable[[_Function, str, str, str], None]
_RULES: Mapping[str, _Rule] = {
    "alloca": _Function._alloca, "getelementptr": _Function._getelementptr, "load": _Function._load, "phi": _Function._phi,
    **dict.fromkeys((*_BINARY, "fneg"), _Function._arithmetic), **dict.fromkeys(_INTEGER, _Function._integer),
    "fcmp": _Function._compare, "icmp": _Function._compare, "select": _Function._select, "call": _Function._call,
    "bitcast": _Function._bitcast, **dict.fromkeys(("fpext", "fptrunc", "uitofp", "sitofp", "fptosi", "zext", "trunc"), _Function._convert),
    "extractelement": _Function._extract, "insertelement": _Function._insert, "shufflevector": _Function._shuffle,
}
