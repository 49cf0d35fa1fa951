"""Derivatives by differences, for tests of exact ones."""

from collections.abc import Callable, Sequence

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
