"""The small language of mapping files: arithmetic over columns, with dimensions checked along the way.

An expression is parsed as Python and evaluated node by node; only the nodes and functions listed here are allowed:
numbers, names of columns and constants, `source.column` for another source (interpolated to this topic's times), + - * / **,
comparisons, `and`, `or`, `not`, and FUNCTIONS. A text has at most 1000 characters and 50 levels, an exponent is a number up to 9.
"""

import ast
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lfdm_ros.errors import quote
from lfdm_ros.units import unit_scale


@dataclass(frozen=True)
class Quantity:
    """An array or a number in coherent SI units (angles in rad). dimension: pint's dimensionality, a mapping with `*`, `/` and `**`; None
    for a bare number, which takes any dimension in sums, comparisons and assignments, and none in products."""

    values: Any
    dimension: Any = None


@dataclass(frozen=True)
class SourceTable:
    """Columns of one source file of any format.

    where: the file, for errors. columns: name in the file -> (n,) values as written; rows: n. lines: (n,) line numbers, None where the file
    has no lines. time: (n,) s, if the format includes times.
    """

    where: str
    columns: Mapping[str, np.ndarray]
    rows: int
    lines: Sequence[int] | None
    time: np.ndarray | None = None

    def place(self, row: int) -> str:
        return f"{self.where}, line {self.lines[row]}" if self.lines is not None else f"{self.where}, sample {row}"


def from_unit(values: Any, unit: str) -> Quantity:
    """Converts values in `unit` to SI. Raises ValueError when the unit is unknown."""
    factor, offset, dimension = unit_scale(unit)
    return Quantity(np.asarray(values, dtype=float) * factor + offset, dimension)


def in_unit(quantity: Quantity, unit: str) -> np.ndarray:
    """Converts to `unit`. Raises ValueError when the dimension does not fit or the unit is unknown."""
    factor, offset, dimension = unit_scale(unit)
    if quantity.dimension is None:
        return np.asarray(quantity.values, dtype=float)  # a bare number has the expected unit
    if quantity.dimension != dimension:
        raise ValueError(f"{describe(quantity.dimension)} where {describe(dimension)} ({unit}) is expected")
    return (np.asarray(quantity.values, dtype=float) - offset) / factor


def describe(dimension: Any) -> str:
    """Formats a dimension: "length / time", or "a pure number"."""
    if not dimension:
        return "a pure number"
    parts = [(name.strip("[]") + (f"^{abs(power):g}" if abs(power) != 1 else ""), power) for name, power in dimension.items()]
    over, under = ([part for part, power in parts if sign * power > 0] for sign in (1, -1))
    return " * ".join(over or ["1"]) + "".join(f" / {part}" for part in under)


Lookup = Callable[[str], Quantity]

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal, ast.Eq: np.equal, ast.NotEq: np.not_equal}
_LONGEST, _DEEPEST, _HIGHEST_POWER = 1000, 50, 9.0
_LARGEST_GRID = 10_000_000  # samples of a column resampled evenly
_EQUATOR, _ECCENTRICITY = 6378137.0, 6.69437999014e-3  # of WGS 84: [m], and the first eccentricity squared
_CONSTANTS = {"nan": Quantity(math.nan), "pi": Quantity(math.pi)}


def unwrap(values: np.ndarray) -> np.ndarray:
    """Removes the jumps by a turn from angles (n,) rad; NaN stay, and the values behind them follow those before."""
    values = np.array(values, dtype=float)
    finite = np.isfinite(values)
    values[finite] = np.unwrap(values[finite])
    return values


def _angle(function: Callable[[Any], Any]) -> Callable[..., Quantity]:
    def apply(time: np.ndarray, x: Quantity) -> Quantity:
        return Quantity(function(_pure(x)), _one())

    return apply


def _arctan2(time: np.ndarray, y: Quantity, x: Quantity) -> Quantity:
    _same(y, x)
    return Quantity(np.arctan2(y.values, x.values), _one())


def _savgol_derivative(time: np.ndarray, x: Quantity, window: Quantity) -> Quantity:
    """Differentiates by a local parabola (Savitzky and Golay 1964) over `window` seconds, on an even grid of the median step."""
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


def _first(time: np.ndarray, x: Quantity) -> Quantity:
    values = _along(time, x)
    finite = np.flatnonzero(np.isfinite(values))
    return Quantity(float(values[finite[0]]) if len(finite) else math.nan, x.dimension)


def _yaw(time: np.ndarray, x: Quantity, y: Quantity, z: Quantity, w: Quantity) -> Quantity:
    """Returns the heading of a unit quaternion: yaw of the angles z, y', x'' (REP 103)."""
    a, b, c, d = (_pure(part) for part in (x, y, z, w))
    return Quantity(np.arctan2(2.0 * (d * c + a * b), 1.0 - 2.0 * (b * b + c * c)), _one())


def _tangent_plane(time: np.ndarray, latitude: Quantity, longitude: Quantity) -> tuple[np.ndarray, np.ndarray]:
    """Returns east and north [m] of the first place, in the plane that touches the ellipsoid WGS 84 there."""
    phi, lam = (_along(time, Quantity(_pure(angle), _one())) for angle in (latitude, longitude))
    finite = np.flatnonzero(np.isfinite(phi) & np.isfinite(lam))
    if not len(finite):
        return np.full(time.shape, math.nan), np.full(time.shape, math.nan)
    phi0, lam0 = phi[finite[0]], lam[finite[0]]
    radius = _EQUATOR / np.sqrt(1.0 - _ECCENTRICITY * np.sin(phi) ** 2)
    here = np.array([radius * np.cos(phi) * np.cos(lam - lam0), radius * np.cos(phi) * np.sin(lam - lam0),
                     radius * (1.0 - _ECCENTRICITY) * np.sin(phi)])
    ahead, east, up = here - here[:, finite[:1]]
    return east, up * np.cos(phi0) - ahead * np.sin(phi0)


@dataclass(frozen=True)
class Function:
    """A function of the language: names of its arguments, description of its result, and its implementation on the topic's times and the
    arguments."""

    arguments: tuple[str, ...]
    text: str
    apply: Callable[..., Quantity]


FUNCTIONS: dict[str, Function] = {
    "sin": Function(("angle",), "sine", _angle(np.sin)),
    "cos": Function(("angle",), "cosine", _angle(np.cos)),
    "tan": Function(("angle",), "tangent", _angle(np.tan)),
    "arctan": Function(("x",), "angle of a slope, -pi/2 to pi/2", _angle(np.arctan)),
    "arctan2": Function(("y", "x"), "angle of a direction, -pi to pi", _arctan2),
    "unwrap": Function(("angle",), "without the jumps by a turn", _angle(unwrap)),
    "abs": Function(("x",), "without the sign", lambda time, x: Quantity(np.abs(x.values), x.dimension)),
    "sqrt": Function(("x",), "square root", lambda _, x: Quantity(
        np.sqrt(x.values), None if x.dimension is None else x.dimension**0.5)),
    "where": Function(("condition", "a", "b"), "a where the condition holds, else b", lambda _, condition, a, b: Quantity(
        np.where(condition.values, a.values, b.values), _same(a, b))),
    "either": Function(("a", "b"), "a where it is a number, b where it is missing", lambda _, a, b: Quantity(
        np.where(np.isfinite(a.values), a.values, b.values), _same(a, b))),
    "first": Function(("x",), "its first value that is not missing", _first),
    "gradient": Function(("x",), "time derivative: central differences on the given times", lambda time, x: Quantity(
        np.gradient(_along(time, x), time), _per_second(x))),
    "savgol_derivative": Function(("x", "seconds"), "time derivative: slope of a parabola fitted to that window (Savitzky, Golay 1964)",
                                  _savgol_derivative),
    "yaw": Function(("x", "y", "z", "w"), "heading of a quaternion of ROS poses and IMUs", _yaw),
    "east": Function(("latitude", "longitude"), "metres to the east of the first place (WGS 84)", lambda *given: Quantity(
        _tangent_plane(*given)[0], unit_scale("m")[2])),
    "north": Function(("latitude", "longitude"), "metres to the north of the first place (WGS 84)", lambda *given: Quantity(
        _tangent_plane(*given)[1], unit_scale("m")[2])),
}


def parse(text: str) -> ast.expr:
    """Parses an expression and checks that it stays within the language. Raises ValueError naming the violation."""
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
    """Evaluates a parsed expression. `time`: (n,) s, the times of the topic; `lookup`: a column or constant by name. Raises ValueError:
    dimensions that do not fit."""

    def value(node: ast.expr) -> Quantity:
        if isinstance(node, ast.Constant):
            return Quantity(float(node.value))  # type: ignore[arg-type]
        if isinstance(node, ast.Name) and node.id in _CONSTANTS:
            return _CONSTANTS[node.id]
        if isinstance(node, (ast.Name, ast.Attribute)):
            return lookup(ast.unparse(node))
        if isinstance(node, ast.Call):
            return FUNCTIONS[node.func.id].apply(time, *map(value, node.args))  # type: ignore[attr-defined]
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
        count = len(FUNCTIONS[node.func.id].arguments)
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
