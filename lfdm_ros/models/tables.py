"""Piecewise linear tables, held at their ends, without branches: the same text runs in a SIMD lane and as a symbolic graph.

A table is y(0) + s x + sum_i b_i (max(x, x_i) - max(0, x_i)) for x between its ends, b_i the bend at the inner point x_i: a sum that
becomes vector code. At x = 0 it is exactly the table's value: an engine at rest with losses of 0 has exactly no torque, and the vehicle
stays at rest.
"""

from itertools import pairwise
from typing import Any


def build(m: Any, x_stem: str, y_stem: str, points: int) -> Any:
    """Returns `prepare(p) -> t` and `lookup(x, t) -> y` of the table whose columns are the parameters x_stem_i and y_stem_i.

    Repeated points at the end, which pad a short table, add nothing.
    """
    where, fmin, fmax = m.where, m.fmin, m.fmax

    def prepare(p: Any) -> Any:
        xs, ys = ([getattr(p, f"{stem}_{i}") for i in range(points)] for stem in (x_stem, y_stem))
        widths = [after - before for before, after in pairwise(xs)]
        rises = [after - before for before, after in pairwise(ys)]
        slopes = [where(w > 0.0, r / where(w > 0.0, w, 1.0), 0.0) for w, r in zip(widths, rises)]
        # Where a point lies at 0, choices rather than fmax and fmin: there is no kink, and the derivative by the point must not see one.
        origin = where(xs[0] < 0.0, where(xs[-1] > 0.0, 0.0, xs[-1]), xs[0])
        value = ys[0]
        for left, right, end, slope in zip(xs, xs[1:], ys[1:], slopes):
            value = where(origin > left, end + (origin - right) * slope, value)
        bends = [after - before for before, after in pairwise(slopes)]
        return xs, value, origin, slopes[0], [(x, where(x < origin, origin, x), bend) for x, bend in zip(xs[1:], bends)]

    def lookup(x: Any, t: Any) -> Any:
        xs, value, origin, slope, bends = t
        x = fmin(fmax(x, xs[0]), xs[-1])
        return value + slope * (x - origin) + sum(bend * (fmax(x, inner) - at) for inner, at, bend in bends)

    return m.namespace(prepare=prepare, lookup=lookup)
