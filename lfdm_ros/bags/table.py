"""What a file of a recording holds, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Table:
    """What a file holds.

    Attributes:
        where: the file, for errors.
        columns: name in the file -> (n,) values as written.
        rows: n.
        lines: (n,) line numbers, or None where the file has no lines, or one for each column.
        time: (n,) s, where the format has times of its own.
    """

    where: str
    columns: Mapping[str, np.ndarray]
    rows: int
    lines: Sequence[int] | None
    time: np.ndarray | None = None

    def place(self, row: int) -> str:
        """Where a row is, for errors."""
        return f"{self.where}, line {self.lines[row]}" if self.lines is not None else f"{self.where}, sample {row}"
