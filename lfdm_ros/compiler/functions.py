"""CasADi functions, and their exact Jacobians, as machine code: no C compiler, no virtual machine."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.compiler.emitter import Code
from lfdm_ros.compiler.graph import TANGENT, VALUE, graph_of
from lfdm_ros.compiler.machine_code import INTEGER, POINTER, TRIPLE, common, machine_code
from lfdm_ros.compiler.tangents import Tangents

# Columns of a Jacobian computed together: one AVX-512 register, or two smaller ones.
DIRECTIONS = min(8, common().lanes())


@dataclass(frozen=True)
class BoundCall:
    """A compiled function tied to arrays: `evaluate()` reads `arguments` and writes `results`, all changed in place."""

    evaluate: Callable[[], None]
    arguments: tuple[np.ndarray, ...]
    results: tuple[np.ndarray, ...]


class CompiledFunction:
    """An SX function as machine code on C-ordered float64 arrays, (n,) for columns and (rows, columns) for matrices.

    `f(*arguments)` returns new arrays. In a loop `f.bind(*arguments)` avoids Python's overhead for addresses.
    """

    def __init__(self, name: str, key: str, shapes_in: Sequence[tuple[int, int]], shapes_out: Sequence[tuple[int, int]],
                 text: Callable[[], str]):
        self.name, self.columns = name, shapes_out[-1][1]
        self._shapes_in, self._shapes_out = list(shapes_in), list(shapes_out)
        self._code = machine_code(key, lambda: text() + _in_rows(len(self._shapes_in) + len(self._shapes_out)))
        # On addresses: those of the arguments, then those of the results.
        self.address_call = self._code.function("evaluate", [POINTER] * (len(self._shapes_in) + len(self._shapes_out)))

    def __call__(self, *arguments: ArrayLike) -> tuple[np.ndarray, ...]:
        bound = self.bind(*arguments)
        bound.evaluate()
        return bound.results

    def bind(self, *arguments: ArrayLike) -> BoundCall:
        """Ties the function to arrays. C-ordered float64 arrays are used as they are, others are copied. Raises ValueError: an argument has
        not the size that the function declares."""
        if len(arguments) != len(self._shapes_in):
            raise ValueError(f"{self.name} has {len(self._shapes_in)} arguments, got {len(arguments)}")
        given = tuple(np.ascontiguousarray(a, dtype=float) for a in arguments)
        for i, (a, (rows, columns)) in enumerate(zip(given, self._shapes_in)):
            if a.shape != (rows, columns) and (columns > 1 or a.size != rows):
                raise ValueError(f"{self.name}: argument {i} has shape {a.shape}, expected {(rows, columns) if columns > 1 else (rows,)}")
        # Structural zeros are never written, so they must be there before.
        results = tuple(np.zeros(shape if shape[1] > 1 else shape[0]) for shape in self._shapes_out)
        addresses = [a.ctypes.data for a in (*given, *results)]
        call = self.address_call
        return BoundCall(lambda: call(*addresses), given, results)

    def bind_rows(self, *arguments: np.ndarray, results: Sequence[np.ndarray]) -> Callable[[], None]:
        """Binds the function to a table of cases; the returned function evaluates all of them in one call.

        Args:
            arguments: C-ordered float64 arrays, each (size,) for all cases or (cases, size).
            results: one (cases, ...) for each result, zeros.

        Raises:
            ValueError: an array is not C-ordered float64, or differs from the declared size.
        """
        cases = len(results[0])
        values: list[int] = []
        for array, (rows, columns), shared in ((*zip(arguments, self._shapes_in, [True] * len(arguments)),
                                                *zip(results, self._shapes_out, [False] * len(results)))):
            each = array.size if shared and array.ndim == 1 else array.size // cases
            if array.dtype != float or not array.flags.c_contiguous or each != rows * columns or (array.ndim > 1 and len(array) != cases):
                raise ValueError(f"{self.name}: an array of shape {array.shape} does not hold {cases} cases of {rows * columns} numbers")
            values += [array.ctypes.data, 0 if shared and array.ndim == 1 else array.strides[0]]
        call = self._code.function("evaluate_rows", [INTEGER, *[POINTER, INTEGER] * (len(arguments) + len(results))])
        references = (*arguments, *results)

        def evaluate() -> None:
            _ = references
            call(cases, *values)

        return evaluate


def _in_rows(count: int) -> str:
    """Returns LLVM code that calls `evaluate` for each case. Arguments: number of cases, then address and stride [bytes] of each array."""
    pointers = [f"%p{i}" for i in range(count)]
    return "\n".join([
        "", f"define void @evaluate_rows(i64 %n, {', '.join(f'ptr %a{i}, i64 %s{i}' for i in range(count))}) nounwind {{",
        "entry:", "br label %loop", "loop:", "%i = phi i64 [0, %entry], [%next, %loop]",
        *(line for i in range(count) for line in (f"%o{i} = mul i64 %i, %s{i}", f"%p{i} = getelementptr i8, ptr %a{i}, i64 %o{i}")),
        f"call void @evaluate({', '.join(f'ptr {p}' for p in pointers)})",
        "%next = add i64 %i, 1", "%more = icmp slt i64 %next, %n", "br i1 %more, label %loop, label %done", "done:", "ret void", "}", ""])


def compiled(function: ca.Function) -> CompiledFunction:
    """Compiles an SX function with dense arguments, or loads it from the cache. Raises NotImplementedError: the function has an operation
    without code."""
    if not all(function.sparsity_in(i).is_dense() for i in range(function.n_in())):
        raise ValueError(f"{function.name()}: an argument is sparse; densify it")
    key = f"function {hashlib.sha256(function.serialize().encode()).hexdigest()}"
    return CompiledFunction(function.name(), key, [function.size_in(i) for i in range(function.n_in())],
                            [function.size_out(i) for i in range(function.n_out())],
                            lambda: evaluation(function).text("evaluate", TRIPLE))


def evaluation(function: ca.Function) -> Code:
    """Returns the code of an SX function with dense arguments: their addresses, then those of the results, matrices by rows. Structural
    zeros are not written."""
    graph = graph_of(function)
    arguments, results = [f"a{i}" for i in range(function.n_in())], [f"r{i}" for i in range(function.n_out())]
    code = Code(graph, dict.fromkeys(arguments + results, "ptr"))
    for i, nodes in enumerate(graph.inputs):
        rows, columns = function.size_in(i)
        for element, node in enumerate(nodes):  # by columns
            code.bind(node, code.load(f"%a{i}", element % rows * columns + element // rows, code.value))
    code.emit(graph.reachable(node for nodes in graph.outputs for node in nodes))
    for i, nodes in enumerate(graph.outputs):
        columns = function.size2_out(i)
        for node, row, column in zip(nodes, *function.sparsity_out(i).get_triplet()):
            code.store(code.get(node, VALUE), f"%r{i}", row * columns + column, code.value)
    return code


def compiled_with_jacobian(function: ca.Function, by: tuple[int, ...]) -> CompiledFunction:
    """Compiles an SX function of one column with its exact Jacobian: f(*arguments) -> (value (n,), jacobian (n, columns)). by: indices of
    the arguments to differentiate by, with all of their elements."""
    places = [(i, element) for i in by for element in range(function.nnz_in(i))]
    key = hashlib.sha256(function.serialize().encode()).hexdigest()
    return compiled_with_tangents(function, places, f"with jacobian {key} {by}", function.name())


def compiled_with_tangents(source: ca.Function, places: Sequence[tuple[int, int]], key: str, name: str) -> CompiledFunction:
    """Returns the function's value and its derivatives by `places`, side by side, padded with zeros to a multiple of DIRECTIONS.

    DIRECTIONS of them at a time are computed beside the value, which costs less than CasADi's own Jacobian as code and compiles sooner.
    """
    arguments = [source.name_in(i) for i in range(source.n_in())]
    blocks = -(-len(places) // DIRECTIONS)

    def text() -> str:
        graph = graph_of(source)
        values = graph.outputs[0]
        code = Code(graph, dict.fromkeys([*arguments, "value", "jacobian"], "ptr"), directions=DIRECTIONS)
        for name, nodes in zip(arguments, graph.inputs):
            for element, node in enumerate(nodes):
                code.bind(node, code.load(f"%{name}", element, code.value))
        code.emit(graph.reachable(values))
        for row, node in enumerate(values):
            code.store(code.get(node, VALUE), "%value", row, code.value)
        for block in range(blocks):
            seeds = {}
            for lane, (i, element) in enumerate(places[block * DIRECTIONS:(block + 1) * DIRECTIONS]):
                seed = graph.input(len(arguments), block * DIRECTIONS + lane, TANGENT)
                seeds[graph.inputs[i][element]] = seed
                code.bind(seed, code.unit(lane, DIRECTIONS))
            tangents = Tangents(graph, seeds)
            rows = {row: tangent for row, node in enumerate(values) if (tangent := tangents.of(node)) is not None}
            code.emit(graph.reachable(rows.values()))
            for row, tangent in rows.items():
                code.store(code.get(tangent, TANGENT), "%jacobian", row * blocks + block, code.tangent)
        return code.text("evaluate", TRIPLE)

    n = source.nnz_out(0)
    return CompiledFunction(name, key, [source.size_in(i) for i in range(source.n_in())], [(n, 1), (n, blocks * DIRECTIONS)], text)
