"""Linear algebra of small matrices that is the same to the bit on every processor, arcs, and the confidence interval of a proportion.

Products and solutions of BLAS and LAPACK depend on the kernels chosen for a processor; a closed loop amplifies the last bit. Here every sum
has one order.
"""

import math
from typing import Any

import numpy as np

CONFIDENCE = 0.95


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns a (..., n, k) times b (..., k, m): (..., n, m), as `a @ b`."""
    total = a[..., :, :1] * b[..., :1, :]
    for i in range(1, a.shape[-1]):
        total += a[..., :, i:i + 1] * b[..., i:i + 1, :]
    return total


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns the sums of a times b over the last axis; the two broadcast."""
    return np.asarray((a * b).sum(axis=-1))


def solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Returns the x (n, m) of `matrix` (n, n) times x = `right` (n, m), for a symmetric positive definite matrix, by elimination."""
    matrix, x = matrix.copy(), right.astype(float)
    n = len(matrix)
    for i in range(n - 1):
        factors = matrix[i + 1:, i] / matrix[i, i]
        matrix[i + 1:] -= factors[:, None] * matrix[i]
        x[i + 1:] -= factors[:, None] * x[i]
    for i in reversed(range(n)):
        x[i] = (x[i] - (matrix[i, i + 1:, None] * x[i + 1:]).sum(axis=0)) / matrix[i, i]
    return x


def arc(length: Any, turn: Any) -> tuple[Any, Any]:
    """Returns how far ahead and to the left [m] an arc ends, from its `length` [m] and the angle by which it turns to the left [rad]:
    numbers or arrays. For numba, too."""
    chord = length * np.sinc(turn / math.tau)
    return chord * np.cos(0.5 * turn), chord * np.sin(0.5 * turn)


def binomial_interval(count: int, runs: int) -> tuple[float, float]:
    """Returns the 95 % interval of a probability from `count` successes in `runs` (Clopper & Pearson 1934): its coverage is never lower.

    Without runs it is 0 to 1. With 0 of n the upper end is 3.7 / n; the rule of three, 3 / n, puts all of the 5 % on that side and covers
    slightly larger probabilities too rarely.
    """
    from scipy.special import betaincinv  # SciPy's beta.ppf is this function, and takes 30 times as long to get there

    tail = 0.5 * (1.0 - CONFIDENCE)
    return (float(betaincinv(count, runs - count + 1, tail)) if count else 0.0,
            float(betaincinv(count + 1, runs - count, 1.0 - tail)) if count < runs else 1.0)
