"""The small language of mapping files: arithmetic over columns, with dimensions checked along the way.

An expression is parsed as Python and evaluated node by node; nothing but the nodes and functions listed here exists in it:
numbers, names of columns and constants, `source.column` for another source (interpolated to this topic's times), + - * / **,
comparisons, `and`, `or`, `not`, and FUNCTIONS. A text has at most 1000 characters and 50 levels, an exponent is a number up to 9.
"""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from lfdm_ros.bags.quantities import Quantity, describe, unit_scale
from lfdm_ros.errors import quote

Lookup = Callable[[str], Quantity]

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal, ast.Eq: np.equal, ast.NotEq: np.not_equal}
_LONGEST, _DEEPEST, _HIGHEST_POWER = 1000, 50, 9.0
_LARGEST_GRID = 10_000_000  # samples of a column resampled evenly
_CONSTANTS = {"nan": Quantity(math.nan), "pi": Quantity(math.pi)}


def _angle(function: Callable[[Any], Any]) -> Callable[..., Quantity]:
    def apply(time: np.ndarray, x: Quantity) -> Quantity:
        return Quantity(function(_pure(x)), _one())

    return apply


def _where(time: np.ndarray, condition: Quantity, a: Quantity, b: Quantity) -> Quantity:
    return Quantity(np.where(condition.values, a.values, b.values), _same(a, b))


def _either(time: np.ndarray, a: Quantity, b: Quantity) -> Quantity:
    return Quantity(np.where(np.isfinite(a.values), a.values, b.values), _same(a, b))


def _sqrt(time: np.ndarray, x: Quantity) -> Quantity:
    return Quantity(np.sqrt(x.values), None if x.dimension is None else x.dimension**0.5)


def _arctan2(time: np.ndarray, y: Quantity, x: Quantity) -> Quantity:
    _same(y, x)
    return Quantity(np.arctan2(y.values, x.values), _one())


def _gradient(time: np.ndarray, x: Quantity) -> Quantity:
    return Quantity(np.gradient(_along(time, x), time), _per_second(x))


def _savgol_derivative(time: np.ndarray, x: Quantity, window: Quantity) -> Quantity:
    """Derivative of a local parabola (Savitzky and Golay 1964) over `window` seconds, on an even grid of the median step."""
    from scipy.signal import savgol_filter

    if np.ndim(window.values) or not abs(window.values) < 1e9 or len(time) < 3:
        raise ValueError("savgol_derivative(column, seconds) takes a number of seconds, and a column of 3 samples or more")
    values = _along(time, x)
    step = float(np.median(np.diff(time)))
    if not (time[-1] - time[0]) < _LARGEST_GRID * step:
        raise ValueError(f"savgol_derivative: {time[-1] - time[0]:g} s every {step:g} s, the median step, are too many; cut the recording")
    points = 2 * round(float(window.values) / step / 2.0) + 1
    grid = np.arange(time[0], time[-1] + step, step)
    if not 3 <= points <= len(grid):
        raise ValueError(f"savgol_derivative over {float(window.values):g} s needs 3 samples or more in the window, and no more than the "
                         f"recording has ({len(grid)}, one every {step:g} s)")
    slope = savgol_filter(np.interp(grid, time, values), points, polyorder=2, deriv=1, delta=step)
    return Quantity(np.interp(time, grid, slope), _per_second(x))


# name -> (number of arguments, function of the topic's times and the arguments)
FUNCTIONS: dict[str, tuple[int, Callable[..., Quantity]]] = {
    "sin": (1, _angle(np.sin)),
    "cos": (1, _angle(np.cos)),
    "tan": (1, _angle(np.tan)),
    "arctan": (1, _angle(np.arctan)),
    "arctan2": (2, _arctan2),
    "unwrap": (1, _angle(np.unwrap)),
    "abs": (1, lambda time, x: Quantity(np.abs(x.values), x.dimension)),
    "sqrt": (1, _sqrt),
    "where": (3, _where),
    "either": (2, _either),  # the first where it is finite, else the second
    "gradient": (1, _gradient),  # time derivative, second-order central differences on the actual times
    "savgol_derivative": (2, _savgol_derivative),
}


def parse(text: str) -> ast.expr:
    """Parses an expression and checks that it stays within the language.

    Raises:
        ValueError: it does not; the message says what.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"{quote(text)} has more than {_LONGEST} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{quote(text)} is not an expression") from None
    levels: list[list[ast.AST]] = [[tree]]
    while levels[-1]:
        levels.append([child for node in levels[-1] for child in ast.iter_child_nodes(node)])
    if len(levels) > _DEEPEST:
        raise ValueError(f"{quote(text)} has more than {_DEEPEST} levels; make constants of its parts")
    for node in (node for level in levels for node in level):
        problem = _problem(node)
        if problem:
            raise ValueError(f"{quote(text)}: {problem}")
    return tree


def names(tree: ast.expr) -> set[str]:
    """Names an expression reads: "vx", or "source.column"."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
            return
        if isinstance(node, ast.Name) and node.id not in _CONSTANTS:
            found.add(node.id)
        for child in ast.iter_child_nodes(node):
            if not (isinstance(node, ast.Call) and child is node.func):
                visit(child)

    visit(tree)
    return found


def evaluate(tree: ast.expr, time: np.ndarray, lookup: Lookup) -> Quantity:
    """Evaluates a parsed expression.

    Args:
        time: (n,) s, the times of the topic.
        lookup: a column or constant by name.

    Raises:
        ValueError: dimensions that do not fit.
    """

    def value(node: ast.expr) -> Quantity:
        if isinstance(node, ast.Constant):
            return Quantity(float(node.value))  # type: ignore[arg-type]
        if isinstance(node, ast.Name) and node.id in _CONSTANTS:
            return _CONSTANTS[node.id]
        if isinstance(node, (ast.Name, ast.Attribute)):
            return lookup(ast.unparse(node))
        if isinstance(node, ast.Call):
            return FUNCTIONS[node.func.id][1](time, *map(value, node.args))  # type: ignore[attr-defined]
        if isinstance(node, ast.UnaryOp):
            operand = value(node.operand)
            if isinstance(node.op, ast.Not):
                return Quantity(np.logical_not(operand.values))
            return Quantity(-operand.values if isinstance(node.op, ast.USub) else operand.values, operand.dimension)
        if isinstance(node, ast.BoolOp):
            combine = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            return Quantity(combine.reduce(np.broadcast_arrays(*[value(v).values for v in node.values])))
        if isinstance(node, ast.Compare):
            left, right = value(node.left), value(node.comparators[0])
            _same(left, right)
            return Quantity(_COMPARISONS[type(node.ops[0])](left.values, right.values))
        assert isinstance(node, ast.BinOp)
        return _binary(node, value(node.left), value(node.right))

    with np.errstate(all="ignore"):
        return value(tree)


def _binary(node: ast.BinOp, a: Quantity, b: Quantity) -> Quantity:
    if isinstance(node.op, ast.Add):
        return Quantity(a.values + b.values, _same(a, b))
    if isinstance(node.op, ast.Sub):
        return Quantity(a.values - b.values, _same(a, b))
    if isinstance(node.op, ast.Pow):
        return Quantity(np.power(a.values, b.values), None if a.dimension is None else a.dimension**float(b.values))
    pure = a.dimension is None and b.dimension is None
    left, right = (_one() if q.dimension is None else q.dimension for q in (a, b))
    if isinstance(node.op, ast.Mult):
        return Quantity(a.values * b.values, None if pure else left * right)
    return Quantity(np.divide(a.values, b.values), None if pure else left / right)


def _problem(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant):
        plain = type(node.value) in (int, float) and abs(node.value) <= sys.float_info.max  # type: ignore[arg-type]
        return None if plain else f"{quote(node.value)} is not a number"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        power = node.right.value if isinstance(node.right, ast.Constant) else None
        plain = type(power) in (int, float) and abs(power) <= _HIGHEST_POWER  # type: ignore[arg-type]
        return None if plain else f"the exponent of ** must be a number up to {_HIGHEST_POWER:g}"
    if isinstance(node, ast.Attribute):
        return None if isinstance(node.value, ast.Name) else "a dot is only allowed as source.column"
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
            return f"no function {quote(ast.unparse(node.func))}; there are {', '.join(FUNCTIONS)}"
        count = FUNCTIONS[node.func.id][0]
        return None if len(node.args) == count and not node.keywords else f"{node.func.id} takes {count} argument{'s' * (count > 1)}"
    if isinstance(node, ast.Compare) and (len(node.ops) != 1 or type(node.ops[0]) not in _COMPARISONS):
        return "compare two values with < <= > >= == !=, and join comparisons with 'and'"
    allowed = (ast.Name, ast.Load, ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop, ast.UnaryOp, ast.USub, ast.UAdd, ast.Not,
               ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
    return None if isinstance(node, allowed) else f"{type(node).__name__} is not allowed in an expression"


def _same(a: Quantity, b: Quantity) -> Any:
    if a.dimension is not None and b.dimension is not None and a.dimension != b.dimension:
        raise ValueError(f"{describe(a.dimension)} and {describe(b.dimension)} cannot be added or compared")
    return b.dimension if a.dimension is None else a.dimension


def _pure(x: Quantity) -> Any:
    if x.dimension:
        raise ValueError(f"the argument of an angle function is {describe(x.dimension)}, not an angle")
    return x.values


def _along(time: np.ndarray, x: Quantity) -> np.ndarray:
    return np.broadcast_to(np.asarray(x.values, dtype=float), time.shape)


def _one() -> Any:
    return unit_scale("1")[2]


def _per_second(x: Quantity) -> Any:
    return None if x.dimension is None else x.dimension / unit_scale("s")[2]
