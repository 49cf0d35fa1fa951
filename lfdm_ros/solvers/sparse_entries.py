"""Sparse matrices of a fixed pattern that are filled again and again from dense blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse


def pairs(rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns places of dense blocks, one a stage: (stages, rows), (stages, columns) -> twice (stages, rows, columns)."""
    full = np.broadcast_arrays(rows[:, :, None], columns[:, None, :])
    return full[0], full[1]


class SparseEntries:
    """A matrix whose entries are given block after block, in the order that the blocks were declared in; none twice.

    Attributes:
        matrix: scipy's, by columns; `fill` writes to it.
    """

    def __init__(self, blocks: Sequence[tuple[np.ndarray, np.ndarray]], shape: tuple[int, int]):
        """Analyses the structure. blocks: rows and columns of their entries, of any shape."""
        rows, columns = (np.concatenate([np.asarray(block[i]).ravel() for block in blocks]) for i in range(2))
        self.matrix = sparse.csc_matrix((np.arange(1.0, len(rows) + 1.0), (rows, columns)), shape=shape)
        self.matrix.sort_indices()
        self._order = self.matrix.data.astype(int) - 1

    def ordered(self, *blocks: np.ndarray) -> np.ndarray:
        """Returns the entries of these blocks in the matrix's own order."""
        return np.concatenate([block.ravel() for block in blocks])[self._order]

    def fill(self, *blocks: np.ndarray) -> sparse.csc_matrix:
        """Returns the matrix with these blocks."""
        self.matrix.data[:] = self.ordered(*blocks)
        return self.matrix
