"""Arrays that machine code reads at run time, by their numbers: a map is data, not part of a model.

`row(table, index)` is an operation of graphs: four neighbouring numbers of an external array. In CasADi's graphs it is a call of
`ROW`, in machine code a load; its derivative is 0, so that interpolation is differentiated through its weights. The number is a parameter:
each vehicle of a batch may have a different array.

No number or index reads memory outside the arrays: unused numbers give NaN, indices beyond an end the first or last row.
"""

import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

import casadi as ca
import llvmlite.binding as llvm
import numpy as np

from lfdm_ros.compiler.reading import CALLED, COUNT, LAST, SYMBOLS, WIDTH

MAX_TABLES = 1 << 20  # arrays at a time
_REUSED = 4096  # free numbers before the oldest is reused, so that stale numbers more likely read NaN than another array
REALS: dict[str, type[np.floating]] = {"double": np.float64, "float": np.float32}

_addresses = {real: np.zeros(MAX_TABLES, np.uint64) for real in REALS}
_lasts, _count = np.zeros(MAX_TABLES, np.int64), np.zeros(1, np.int64)
_values: dict[int, tuple[np.ndarray, ...]] = {}
_free: deque[int] = deque()


class LookupTable:
    """An array readable by machine code as `number` during the life of this object, in double and in single precision."""

    def __init__(self, values: np.ndarray):
        """Stores a copy of `values` (n,), at least four. Raises ValueError: fewer, or as many arrays as there can be are in use."""
        if np.ndim(values) != 1 or len(values) < WIDTH:
            raise ValueError(f"a table has at least {WIDTH} numbers in one row, got an array of shape {np.shape(values)}")
        self.number = _next_number()
        _put(self.number, values)
        weakref.finalize(self, _release, self.number).atexit = False


def _next_number() -> int:
    if len(_free) > _REUSED or (_free and _count[0] == MAX_TABLES):
        return _free.popleft()
    if _count[0] == MAX_TABLES:
        raise ValueError(f"{MAX_TABLES} tables are in use; drop fields that are no longer needed")
    return int(_count[0])


def _put(number: int, values: np.ndarray) -> None:
    copies = tuple(np.asarray(values).astype(kind) for kind in REALS.values())
    for addresses, copy in zip(_addresses.values(), copies):
        addresses[number] = copy.ctypes.data
    _lasts[number], _values[number] = len(values) - WIDTH, copies
    _count[0] = max(_count[0], number + 1)


def _release(number: int) -> None:
    released = _values[number]
    for addresses, placeholder in zip(_addresses.values(), _values[0]):
        addresses[number] = placeholder.ctypes.data
    _lasts[number], _values[number] = 0, _values[0]
    _free.append(number)
    del released


_put(0, np.full(WIDTH, np.nan))
for _name, _array in (*((SYMBOLS[real], addresses) for real, addresses in _addresses.items()), (LAST, _lasts), (COUNT, _count)):
    llvm.add_symbol(_name, _array.ctypes.data)


def stored_table(number: float, real: str = "double") -> np.ndarray:
    """Returns the array of a number, as read by machine code of a number type; NaN for an unused number."""
    return _values[int(number) if 0.0 <= number < _count[0] else 0][list(REALS).index(real)]


def rows(table: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Returns the values (4, ...) that machine code reads at numbers and indices of one shape."""
    table, index = np.broadcast_arrays(np.asarray(table, float), np.asarray(index, float))
    found = np.empty((WIDTH, table.size))
    for k, (number, first) in enumerate(zip(table.ravel().tolist(), index.ravel().tolist())):
        values = stored_table(number)
        first = min(max(first, 0.0), float(len(values) - WIDTH)) if first == first else 0.0
        found[:, k] = values[int(first):int(first) + WIDTH]
    return found.reshape(WIDTH, *table.shape)


class _Row(ca.Callback):
    """`rows` of one table and index, for evaluation by CasADi."""

    def __init__(self) -> None:
        ca.Callback.__init__(self)
        self.construct(CALLED, {"enable_fd": False})

    def get_n_in(self) -> int:
        return 2

    def get_n_out(self) -> int:
        return 1

    def get_sparsity_out(self, i: int) -> ca.Sparsity:
        return ca.Sparsity.dense(WIDTH)

    def eval(self, arguments: Sequence[ca.DM]) -> list[np.ndarray]:
        return [rows(np.array(arguments[0])[0, 0], np.array(arguments[1])[0, 0])]

    # Zero derivatives, declared to CasADi by sparsity patterns as well as functions.

    def has_jac_sparsity(self, result: int, argument: int) -> bool:
        return True

    def get_jac_sparsity(self, result: int, argument: int, symmetric: bool) -> ca.Sparsity:
        return ca.Sparsity(WIDTH, 1)

    def has_forward(self, count: int) -> bool:
        return True

    def get_forward(self, count: int, name: str, inputs: Sequence[str], outputs: Sequence[str], options: Any) -> ca.Function:
        return _zeros(name, [(1, 1), (1, 1), (WIDTH, 1), (1, count), (1, count)], [(WIDTH, count)], inputs, outputs, options)

    def has_reverse(self, count: int) -> bool:
        return True

    def get_reverse(self, count: int, name: str, inputs: Sequence[str], outputs: Sequence[str], options: Any) -> ca.Function:
        return _zeros(name, [(1, 1), (1, 1), (WIDTH, 1), (WIDTH, count)], [(1, count), (1, count)], inputs, outputs, options)


def _zeros(name: str, shapes: Sequence[tuple[int, int]], results: Sequence[tuple[int, int]], *described: Any) -> ca.Function:
    """Returns a function of zeros."""
    arguments: list[Any] = [ca.MX.sym(f"i{k}", *shape) for k, shape in enumerate(shapes)]
    zeros: list[Any] = [ca.MX.zeros(*shape) for shape in results]
    return ca.Function(name, arguments, zeros, *described)


ROW = _Row()


def row(table: ca.SX | float, index: ca.SX | float) -> tuple[ca.SX, ...]:
    """Returns the four numbers of a table from an index on, in CasADi's graphs."""
    (found,) = ROW.call([ca.SX(table), ca.SX(index)], False, True)
    return tuple(ca.vertsplit(found))
