"""Driver inputs over time."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.errors import InputError, prefixing, reason
from lfdm_ros.models.declaration import INPUTS

ROUNDING = 1e-9  # tolerance of the inputs' ranges; within it they are clipped

COLUMNS = ("time", *(field.name for field in INPUTS))


class InputProfile:
    """Steering [-1, 1], throttle [-1, 1] (negative in reverse), brake [0, 1] over time [s]: linear between the rows, constant outside."""

    def __init__(self, time: ArrayLike, steering: ArrayLike, throttle: ArrayLike, brake: ArrayLike, where: str = "inputs"):
        """Checks four sequences of equal length. Raises InputError: not finite, out of range, or time not increasing; `where` and the row
        lead the message."""
        with prefixing(where, ValueError):
            table = np.column_stack([np.asarray(c, float).ravel() for c in (time, steering, throttle, brake)])
        if not len(table):
            raise InputError(f"{where}: no rows; write time, steering, throttle, brake")
        for row, values in enumerate(table, start=1):
            if not np.all(np.isfinite(values)):
                raise InputError(f"{where}: row {row}: not a finite number")
            for field, value in zip(INPUTS, values[1:]):
                if not field.lower - ROUNDING <= value <= field.upper + ROUNDING:
                    raise InputError(f"{where}: row {row}: {field.name} {value:g} is outside [{field.lower:g}, {field.upper:g}]")
            if row > 1 and values[0] <= table[row - 2, 0]:
                raise InputError(f"{where}: row {row}: time {values[0]:g} does not rise")
        self.time = table[:, 0]
        self.values = np.clip(table[:, 1:], [f.lower for f in INPUTS], [f.upper for f in INPUTS])

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> InputProfile:
        """Reads rows time, steering, throttle, brake, separated by blanks or commas; a header line is optional. Raises InputError: names
        file and line."""
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: {reason(error)}") from None
        rows: list[list[float]] = []
        order: list[int] | None = None
        for number, line in enumerate(lines, start=1):
            cells = line.split("#")[0].replace(",", " ").replace(";", " ").split()
            if not cells:
                continue
            try:
                values = [float(cell) for cell in cells]
            except ValueError:
                names = [cell.strip("\"'").lower() for cell in cells]
                if not rows and order is None and sorted(names) == sorted(COLUMNS):
                    order = [names.index(column) for column in COLUMNS]
                    continue
                raise InputError(f"{path}: line {number}: expected numbers {', '.join(COLUMNS)}, got '{line.strip()}'") from None
            if len(values) != len(COLUMNS):
                raise InputError(f"{path}: line {number}: expected {len(COLUMNS)} columns ({', '.join(COLUMNS)}), got {len(values)}")
            rows.append([values[i] for i in order] if order else values)
        time, steering, throttle, brake = np.array(rows, float).reshape(-1, len(COLUMNS)).T
        return cls(time, steering, throttle, brake, where=str(path))

    def sample(self, t: ArrayLike) -> np.ndarray:
        """Returns the inputs at times t [s]: (len(t), 3), steering, throttle, brake."""
        return np.column_stack([np.interp(np.atleast_1d(np.asarray(t, float)), self.time, column) for column in self.values.T])
