"""Instructions to read rows of external arrays (`tables`): four numbers of one array for each lane.

A lane loads its four numbers together; a few shuffles then transpose the lanes. That takes a third of the instructions of single loads.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lfdm_ros.compiler.builder import Builder

WIDTH = 4  # numbers of a row
CALLED = "lfdm_row"  # the function of a row in CasADi's graphs
# Symbols of the arrays in machine code: addresses in each precision, indices of their last rows, count.
SYMBOLS = {"double": "lfdm_tables_double", "float": "lfdm_tables_float"}
LAST, COUNT = "lfdm_tables_last", "lfdm_tables_count"
TABLES = {real: (symbol, LAST, COUNT) for real, symbol in SYMBOLS.items()}
_REGISTER = 64  # bytes of the widest register; narrower ones take several
# Numbers of two rows paired by the first shuffle, as one instruction does in each 16 bytes.
_PAIRED = {"double": ((0, 2), (1, 3)), "float": ((0, 1), (2, 3))}


@dataclass(frozen=True)
class Arrays:
    """Registers of the lanes: addresses, and their last rows in one (vector of) i32."""

    addresses: tuple[str, ...]
    lasts: str

    @property
    def width(self) -> int:
        return len(self.addresses)


def arrays(builder: Builder, numbers: str, width: int) -> Arrays:
    """Returns the arrays of some numbers; array 0 for an unused number."""
    real = builder.real
    symbol, ends, counted = (builder.outside(name) for name in TABLES[real])
    count, found = builder.load(counted, 0, "i64"), []
    for number in lanes(builder, numbers, real, width):
        whole = builder.new(f"fptosi {real} {number} to i64")
        checked = builder.new(f"select i1 {builder.new(f'icmp ult i64 {whole}, {count}')}, i64 {whole}, i64 0")
        address = builder.load(symbol, checked, "i64")
        last = builder.new(f"trunc i64 {builder.load(ends, checked, 'i64')} to i32")
        found.append((builder.new(f"inttoptr i64 {address} to ptr"), last))
    lasts = [last for _, last in found]
    return Arrays(tuple(address for address, _ in found), builder.vector_of(lasts, "i32") if width > 1 else lasts[0])


def row(builder: Builder, source: Arrays, index: str, width: int) -> list[str]:
    """Returns the four numbers from an index on, each of `width` lanes; an index beyond an end selects the first or last row, one outside
    i32 any row."""
    real, t = builder.real, builder.vector(builder.real, width)
    whole, last = builder.vector("i32", width), source.lasts
    if source.width < width:
        last = builder.repeated(last, whole)
    places = builder.new(f"fptosi {t} {index} to {whole}")
    for comparison, bound in (("sgt", "zeroinitializer" if width > 1 else "0"), ("slt", last)):
        within = builder.new(f"icmp {comparison} {whole} {places}, {bound}")
        places = builder.new(f"select {builder.vector('i1', width)} {within}, {whole} {places}, {whole} {bound}")
    loaded, four = [], builder.vector(real, WIDTH)
    for lane, place in enumerate(lanes(builder, places, "i32", width)):
        at = builder.element(source.addresses[lane % source.width], builder.new(f"zext i32 {place} to i64"), real)
        loaded.append(builder.load(at, 0, four))
    if width < WIDTH or width & (width - 1):
        each = [[builder.new(f"extractelement {four} {one}, i32 {k}") for one in loaded] for k in range(WIDTH)]
        return [builder.vector_of(numbers, real) if width > 1 else numbers[0] for numbers in each]
    group = min(width, _REGISTER // {"double": 8, "float": 4}[real])
    parts = [_transposed(builder, loaded[first:first + group]) for first in range(0, width, group)]
    return [_joined(builder, [part[k] for part in parts], group) for k in range(WIDTH)]


def lanes(builder: Builder, vector: str, element: str, width: int) -> list[str]:
    """Returns the scalars of a vector register; for one lane, the register itself."""
    if width == 1:
        return [vector]
    return [builder.new(f"extractelement {builder.vector(element, width)} {vector}, i32 {lane}") for lane in range(width)]


def _transposed(builder: Builder, rows: Sequence[str]) -> list[str]:
    """Transposes rows of four numbers, one per lane, to four vectors of the lanes."""
    real, n = builder.real, len(rows)
    blocks = range(0, n, WIDTH)
    whole = [_joined(builder, rows[k::WIDTH], WIDTH) for k in range(WIDTH)]  # block b has row 4 b + k
    (low, high), taken = _PAIRED[real], dict[int, str]()
    pairs = dict[str, list[str]]()
    for name, numbers in (("low", low), ("high", high)):
        mask = [place for b in blocks for number in numbers for place in (b + number, n + b + number)]
        pairs[name] = [_shuffled(builder, whole[k], whole[k + 1], n, mask) for k in (0, 2)]
    for name, numbers in (("low", low), ("high", high)):
        for half, number in enumerate(numbers):
            mask = [place for b in blocks for place in (b + 2 * half, b + 2 * half + 1, n + b + 2 * half, n + b + 2 * half + 1)]
            taken[number] = _shuffled(builder, pairs[name][0], pairs[name][1], n, mask)
    return [taken[k] for k in range(WIDTH)]


def _joined(builder: Builder, parts: Sequence[str], width: int) -> str:
    """Concatenates vectors of one width."""
    registers = list(parts)
    while len(registers) > 1:
        registers = [_shuffled(builder, a, b, width, range(2 * width)) for a, b in zip(registers[::2], registers[1::2])]
        width *= 2
    return registers[0]


def _shuffled(builder: Builder, a: str, b: str, width: int, mask: Sequence[int]) -> str:
    t = builder.vector(builder.real, width)
    return builder.new(f"shufflevector {t} {a}, {t} {b}, <{len(mask)} x i32> <{', '.join(f'i32 {place}' for place in mask)}>")
