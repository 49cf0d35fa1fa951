"""PTX spelled as C, statement by statement (PTX ISA 8.0, chapter 9), and run on the processor: an oracle of what a GPU would compute.

Each operation of the text is one that IEEE 754 rounds correctly (`.rn`, fused multiply-add included), so C without contraction gives the
same bits as a GPU does. An operation that is not known here is an error, not a guess.
"""

import ctypes
import platform
import re
import subprocess
from pathlib import Path

from c_compiler import CC

HEAD = """
#include <stdint.h>
#include <string.h>
#include <math.h>
static double f64(uint64_t b) { double x; memcpy(&x, &b, 8); return x; }
static uint64_t b64(double x) { uint64_t b; memcpy(&b, &x, 8); return b; }
static float f32(uint32_t b) { float x; memcpy(&x, &b, 4); return x; }
static uint32_t b32(float x) { uint32_t b; memcpy(&b, &x, 4); return b; }
"""
C_TYPES = {"f64": "double", "f32": "float", "u64": "uint64_t", "s64": "int64_t", "b64": "uint64_t", "u32": "uint32_t", "s32": "int32_t",
           "b32": "uint32_t", "pred": "int", "u8": "uint8_t", "b8": "uint8_t", "s8": "int8_t", "u16": "uint16_t", "b16": "uint16_t",
           "s16": "int16_t"}
FUSED = ["-mfma"] if platform.machine() == "x86_64" else []  # the instruction; without it libm's, a hundred times as slow
ORDER = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
OF_TWO = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^", "div": "/"}


class Kernel:
    """One entry of a PTX module: its name, the bytes of its parameters, and its statements as C."""

    def __init__(self, text: str):
        text = re.sub(r"//.*", "", text)
        name, parameters, body = re.search(r"\.entry\s+(\w+)\(([^)]*)\)[^{]*\{(.*)\n\}", text, re.S).groups()
        self.name = name
        self.sizes = [int(found[1]) if (found := re.search(r"\.b8\s+\w+\[(\d+)\]", p)) else 8 for p in parameters.split(",")]
        self.operations: dict[str, int] = {}
        self._types: dict[str, str] = {}  # C types of registers by the letters of their names
        declared, lines = [], []
        for line in filter(None, (line.strip().rstrip(";").strip() for line in body.splitlines())):
            if line.startswith(".reg"):
                declared.append(self._registers(line))
            elif line.startswith(".local"):
                align, label, size = re.search(r"\.align (\d+) \.b8\s+(\w+)\[(\d+)\]", line).groups()
                declared.append(f"_Alignas({align}) char {label}[{size}];")
            elif line.endswith(":"):
                lines.append(self._label(line[:-1]) + ":;")
            else:
                lines.append(self._statement(line))
        self.c = "\n".join(["static void thread(void **parameters, uint32_t ctaid, uint32_t ntid, uint32_t tid) {", *declared, *lines, "}"])

    def source(self) -> str:
        """C with `launch(parameters, blocks, threads)`, as cuLaunchKernel has it."""
        return HEAD + self.c + """
void launch(void **parameters, unsigned blocks, unsigned threads) {
  for (unsigned block = 0; block < blocks; block++)
    for (unsigned thread_ = 0; thread_ < threads; thread_++) thread(parameters, block, threads, thread_);
}
"""

    def build(self, folder: Path, name: str = "kernel") -> ctypes.CDLL:
        source, library = folder / f"{name}.c", folder / f"{name}.so"
        source.write_text(self.source())
        # The text is optimised already, and large ones take long; no contraction and no liberties, so that each statement rounds by itself.
        options = ["-std=c11", "-O1" if len(self.c) < 80_000 else "-O0", "-ffp-contract=off", *FUSED, "-fPIC", "-shared", "-w"]
        done = subprocess.run([CC, *options, str(source), "-o", str(library), "-lm"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:2000]
        return ctypes.CDLL(str(library))

    # -- Statements -----------------------------------------------------------------------------------------------------------

    def _registers(self, words: str) -> str:
        type_, prefix, count = re.fullmatch(r"\.reg \.(\w+)\s+%(\w+?)(?:<(\d+)>)?", words).groups()
        self._types[prefix] = C_TYPES[type_]
        names = [prefix] if count is None else [f"{prefix}{i}" for i in range(int(count))]
        return f"{C_TYPES[type_]} {', '.join('r_' + name for name in names)};"

    @staticmethod
    def _label(name: str) -> str:
        return name.replace("$", "_")

    def _statement(self, words: str) -> str:
        guard = re.match(r"@(!?)%(\w+)\s+", words)
        if guard:
            return f"if ({guard[1]}r_{guard[2]}) {{ {self._statement(words[guard.end():])} }}"
        operation, _, rest = words.partition("\t") if "\t" in words else words.partition(" ")
        operation, rest = operation.strip(), rest.strip()
        self.operations[operation] = self.operations.get(operation, 0) + 1
        parts = operation.split(".")
        kind, type_ = parts[0], parts[-1]
        if kind == "ret":
            return "return;"
        if kind == "bra":
            return f"goto {self._label(rest)};"
        if kind in ("ld", "st"):
            return self._memory(kind, parts, rest)
        to, *arguments = [a.strip() for a in rest.split(",")]
        target = self._value(to, "")
        values = [self._value(a, type_) for a in arguments]
        if kind == "mov" and arguments[0].startswith("%") and {self._type_of(to), self._type_of(arguments[0])} & {"double", "float"}:
            return f"{target} = {self._bits(self._type_of(to), self._type_of(arguments[0]), values[0])};"
        return f"{target} = {self._expression(operation, kind, parts, type_, values)};"

    def _memory(self, kind: str, parts: list[str], rest: str) -> str:
        type_ = parts[-1]
        vector = re.match(r"\{([^}]*)\}\s*,\s*(\[.*\])$" if kind == "ld" else r"(\[.*?\])\s*,\s*\{([^}]*)\}$", rest)
        if vector:
            registers, place = (vector[1], vector[2]) if kind == "ld" else (vector[2], vector[1])
            names = registers.split(",")
        else:
            first, second = (a.strip() for a in rest.split(",", 1))
            names, place = ([first], second) if kind == "ld" else ([second], first)
        base, offset = re.fullmatch(r"\[([%\w]+)(?:\+(-?\d+))?\]", place).groups()
        c_type, moves = C_TYPES[type_], []
        for k, name in enumerate(names):
            if "param" in parts and not base.startswith("%"):
                assert kind == "ld"
                number = int(re.search(r"param_(\d+)$", base)[1])
                moves.append(f"{self._value(name.strip(), '')} = *(({c_type} *)((char *)parameters[{number}] + {int(offset or 0)}) + {k});")
                continue
            # Untyped moves of 64 bits into registers of numbers.
            c_type = self._type_of(name.strip()) or c_type
            address = f"({c_type} *)((char *)(uintptr_t){self._value(base, '')} + {int(offset or 0)}) + {k}"
            moves.append(f"{self._value(name.strip(), '')} = *({address});" if kind == "ld" else
                         f"*({address}) = {self._value(name.strip(), type_)};")
        return " ".join(moves)

    def _type_of(self, register: str) -> str:
        """C type of a register of numbers; of others and of constants nothing."""
        prefix = re.match(r"%([A-Za-z]+)", register)
        type_ = self._types.get(prefix[1], "") if prefix else ""
        return type_ if type_ in ("double", "float") else ""

    @staticmethod
    def _bits(to: str, from_: str, value: str) -> str:
        if to == from_:
            return value
        return f"{'f' if to else 'b'}{'64' if 'double' in (to, from_) else '32'}({value})"

    @staticmethod
    def _value(word: str, type_: str) -> str:
        if word in ("%ctaid.x", "%ntid.x", "%tid.x"):
            return word[1:-2]
        if word.startswith("%"):
            return "r_" + word[1:]
        if word.startswith("0d"):
            return f"f64(0x{word[2:]}ull)"
        if word.startswith("0f"):
            return f"f32(0x{word[2:]}u)"
        if re.fullmatch(r"-?\d+", word):
            return f"({word}ll)" if word != str(-2**63) else "INT64_MIN"
        if address := re.fullmatch(r"\w+_param_(\d+)", word):
            return f"(uint64_t)(uintptr_t)parameters[{address[1]}]"
        assert re.fullmatch(r"\w+", word), word
        return f"(uint64_t)(uintptr_t){word}"

    @staticmethod
    def _expression(operation: str, kind: str, parts: list[str], type_: str, v: list[str]) -> str:
        floating, c = type_.startswith("f"), C_TYPES.get(type_)
        suffix = "f" if type_ == "f32" else ""
        if floating:  # approximations would round otherwise than IEEE 754
            assert not {"approx", "full", "ftz", "sat"} & set(parts), operation
        if kind == "mov":
            return v[0] if not floating or v[0].startswith(("r_", "f")) else f"({c})({v[0]})"
        if kind == "cvta":
            return v[0]
        if kind == "fma":
            assert "rn" in parts
            return f"fma{suffix}({', '.join(v)})"
        if kind in OF_TWO or (kind == "mul" and floating):
            assert not floating or "rn" in parts or kind not in ("div",), operation
            sign = OF_TWO.get(kind, "*")
            if type_ == "pred":
                return f"{v[0]} {sign} {v[1]}"
            return f"({c})(({c})({v[0]}) {sign} ({c})({v[1]}))"
        if kind in ("mul", "mad"):
            assert parts[1] in ("lo", "wide"), operation
            u = "uint64_t" if parts[1] == "lo" else f"{c.replace('32', '64')}"
            cast = c if parts[1] == "wide" else u
            product = f"({u})({cast})({v[0]}) * ({u})({cast})({v[1]})"
            return f"({c if parts[1] == 'lo' else u})({product}{' + (' + u + ')(' + v[2] + ')' if kind == 'mad' else ''})"
        if kind == "shl":
            return f"({c})({v[0]}) << ({v[1]})"
        if kind == "shr":
            return f"({c})({v[0]}) >> ({v[1]})"
        if kind == "neg":
            return f"-({v[0]})" if floating else f"({c})(0 - ({c})({v[0]}))"
        if kind == "not":
            return f"!({v[0]})" if type_ == "pred" else f"~({v[0]})"
        if kind == "abs":
            return f"fabs{suffix}({v[0]})"
        if kind == "copysign":  # PTX gives the sign first
            return f"copysign{suffix}({v[1]}, {v[0]})"
        if kind in ("sqrt", "rcp"):
            assert "rn" in parts
            return f"sqrt{suffix}({v[0]})" if kind == "sqrt" else f"({c})1 / ({v[0]})"
        if kind in ("min", "max"):
            sign = "<" if kind == "min" else ">"
            return f"f{kind}{suffix}({v[0]}, {v[1]})" if floating else f"({c})({v[0]}) {sign} ({c})({v[1]}) ? {v[0]} : {v[1]}"
        if kind == "selp":
            return f"{v[2]} ? {v[0]} : {v[1]}"
        if kind == "setp":
            return Kernel.compared(operation, parts[1], c, floating, v)
        if kind == "cvt":
            return Kernel.converted(operation, parts[1:-2], C_TYPES[parts[-2]], parts[-2], type_, v[0])
        raise AssertionError(f"{operation} is not known")

    @staticmethod
    def compared(operation: str, relation: str, c: str, floating: bool, v: list[str]) -> str:
        a, b = (f"({c})({x})" for x in v)
        if relation in ("num", "nan"):
            return f"{'' if relation == 'num' else '!'}({a} == {a} && {b} == {b})"
        if floating and relation.endswith("u"):  # true, too, where one is no number
            return f"!({a} == {a} && {b} == {b}) || {a} {ORDER[relation[:-1]]} {b}"
        if floating and relation == "ne":
            return f"({a} == {a} && {b} == {b}) && {a} != {b}"
        return f"{a} {ORDER[relation]} {b}"

    @staticmethod
    def converted(operation: str, how: list[str], to: str, to_name: str, from_: str, value: str) -> str:
        if from_.startswith("f") and to_name.startswith("f"):
            rounding = {"rmi": "floor", "rpi": "ceil", "rzi": "trunc", "rni": "rint"}
            for name in how:
                if name in rounding:
                    assert to_name == from_
                    return f"{rounding[name]}{'f' if from_ == 'f32' else ''}({value})"
            return f"({to})({value})"
        if from_.startswith("f"):
            assert how == ["rzi"], operation
        return f"({to})({C_TYPES[from_]})({value})"
