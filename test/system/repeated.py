"""A run in lockstep, twice: what its bags hold is equal to the bit."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_ros.bags import read_series


def twice(folder: Path, run: Callable[[Path], Any], topics: Mapping[str, Sequence[str]], until: float) -> list[np.ndarray]:
    """The fields of each topic before a time [s], those of the first of two runs into bags; they are those of the second.

    On a busy machine a state that is not answered for half a second is published and answered again, the same.
    """
    found = []
    for bag in (folder / "a", folder / "b"):
        run(bag)
        series = [read_series(bag, topic, fields) for topic, fields in topics.items()]
        unique = [np.unique(one.time, return_index=True) for one in series]
        found.append([(time[time < until], one.values[first][time < until]) for one, (time, first) in zip(series, unique)])
    for (time, values), (time_again, values_again) in zip(*found):
        np.testing.assert_array_equal(time, time_again)
        np.testing.assert_array_equal(values, values_again)
    return [values for _, values in found[0]]
