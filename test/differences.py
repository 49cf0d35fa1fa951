"""Derivatives by differences and by the chain rule, for tests of exact ones."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np


def by_state(function: Callable[[np.ndarray], object], x: np.ndarray, columns: Sequence[int], width: float = 1e-6) -> np.ndarray:
    """Central differences (m, len(columns)) of a function of x (n,), with the same width for each of some columns."""
    found = []
    for column in columns:
        ahead, behind = x.copy(), x.copy()
        ahead[column] += width
        behind[column] -= width
        found.append((np.array(function(ahead)).ravel() - np.array(function(behind)).ravel()) / (2.0 * width))
    return np.stack(found, axis=1)


def chained(functions, p, x, s, inputs, steps, dt, columns):
    """Yields state and derivatives (nx, D) after each sample of a run: the chain of CasADi's Jacobians of `steps` steps each.

    Args:
        s: derivatives at the start, first by parameters, whose columns of p these are.
    """
    for before, after in pairwise(inputs):
        for j in range(steps):
            u = before + (j + functions.input_time) / steps * (after - before)
            by_x, _, by_p = (np.array(m) for m in functions.step_jacobian(x, u, p, dt))
            s = by_x @ s
            s[:, :len(columns)] += by_p[:, columns]
            x = np.array(functions.step(x, u, p, dt)).ravel()
        yield x, s
