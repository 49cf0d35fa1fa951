"""Products and solutions of small matrices whose sums have one order, so that they are the same to the bit on every processor.

Those of BLAS and LAPACK hang on the kernels that are chosen for a processor; in a closed loop the last bit soon is all of them.
"""

from __future__ import annotations

import numpy as np


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a (..., n, k) times b (..., k, m): (..., n, m), as `a @ b`."""
    total = a[..., :, :1] * b[..., :1, :]
    for i in range(1, a.shape[-1]):
        total += a[..., :, i:i + 1] * b[..., i:i + 1, :]
    return total


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Sums of a times b over the last axis; the two broadcast."""
    return np.asarray((a * b).sum(axis=-1))


def solution(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The x (n, m) of `matrix` (n, n) times x = `right` (n, m), for a symmetric positive definite matrix, by elimination."""
    matrix, x = matrix.copy(), right.astype(float)
    n = len(matrix)
    for i in range(n - 1):
        factors = matrix[i + 1:, i] / matrix[i, i]
        matrix[i + 1:] -= factors[:, None] * matrix[i]
        x[i + 1:] -= factors[:, None] * x[i]
    for i in reversed(range(n)):
        x[i] = (x[i] - (matrix[i, i + 1:, None] * x[i + 1:]).sum(axis=0)) / matrix[i, i]
    return x
